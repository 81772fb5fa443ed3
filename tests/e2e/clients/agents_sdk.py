"""openai-agents against the Responses API over HTTP and WebSocket, and against Chat Completions.

A tool call is forced with tool_choice="required" (the runner resets it after the first call), so any
model with constrained decoding gets there; TOOL_CHOICE=auto leaves it to a model that calls by itself. The SDK turns response.incomplete into an exception: a case
whose free text did not end within the limit is skipped, and the *_stop_on_tool cases, which need no free
text, may not be. MEANING=1 also wants the tool's result in the answer.

SPDX-License-Identifier: Apache-2.0
"""
import functools
import logging
import os
import tempfile
from typing import Literal

from harness import MEANING, MODEL, Skip, aclient, case, equal, main, need

from agents import (
    Agent, ModelBehaviorError, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, SQLiteSession,
    function_tool, set_tracing_disabled)
from agents.models.openai_responses import OpenAIResponsesWSModel

set_tracing_disabled(True)
logging.getLogger("openai.agents").setLevel(logging.CRITICAL + 1)
LIMIT = int(os.environ.get("AGENT_TOKENS", "400"))
TOOL_CHOICE = os.environ.get("TOOL_CHOICE", "required")
CALLS = []


def free_text(fn):
    """A case that needs the model to end its own text: skipped when it runs into the limit."""
    @functools.wraps(fn)
    async def wrapped():
        try:
            await fn()
        except ModelBehaviorError as exc:
            if "max_output_tokens" in str(exc):
                raise Skip(f"the model did not end its text within {LIMIT} tokens") from None
            raise
    return case(wrapped)


@function_tool
def lookup_code(city: Literal["Paris", "Oslo"], day: Literal[1, 2, 3]) -> str:
    """Look up the secret code of a city.

    Args:
        city: Name of the city.
        day: Day of the month.
    """
    CALLS.append((city, day))
    return "code-4711"


def agent(model, **kw):
    # include_usage: over Chat Completions the SDK asks a foreign server for usage only when told to
    kw.setdefault("model_settings", ModelSettings(tool_choice=TOOL_CHOICE, temperature=0, max_tokens=LIMIT, include_usage=True))
    return Agent(name="A", instructions="Use the tool once, then answer in one short sentence.", tools=[lookup_code], model=model, **kw)


def check(result):
    need(CALLS, "the tool never ran")
    need(isinstance(CALLS[0][0], str) and isinstance(CALLS[0][1], int), f"arguments {CALLS[0]!r}")
    need(isinstance(result.final_output, str), f"final output {result.final_output!r}")
    u = result.context_wrapper.usage
    need(u.requests >= 2 and u.input_tokens > 0 and u.output_tokens > 0, f"usage {u}")
    equal(u.total_tokens, u.input_tokens + u.output_tokens, "total_tokens")
    if MEANING:
        need("4711" in result.final_output, f"answer without the tool's result: {result.final_output!r}")
    kinds = [i.type for i in result.new_items]
    need("tool_call_item" in kinds and "tool_call_output_item" in kinds and "message_output_item" in kinds, f"items {kinds}")


async def plain(model):
    CALLS.clear()
    check(await Runner.run(agent(model), "What is the code of Paris on day 3?", max_turns=4))


async def streamed(model):
    CALLS.clear()
    run = Runner.run_streamed(agent(model), "What is the code of Paris on day 3?", max_turns=4)
    raw, runs = [], []
    async for ev in run.stream_events():
        if ev.type == "raw_response_event":
            raw.append(ev.data.type)
        elif ev.type == "run_item_stream_event":
            runs.append(ev.name)
    check(run)
    need("tool_called" in runs and "tool_output" in runs and "message_output_created" in runs, f"run events {runs}")
    equal(raw.count("response.completed"), 2, "completed responses")
    return raw


async def session_turns(model):
    CALLS.clear()
    path = os.path.join(tempfile.mkdtemp(), "s.db")
    s = SQLiteSession("one", path)
    first = await Runner.run(agent(model), "What is the code of Paris on day 3?", session=s, max_turns=4)
    check(first)
    n = len(await s.get_items())
    need(n >= 4, f"{n} items stored")
    plain_agent = Agent(name="B", instructions="Answer shortly.", model=model, model_settings=ModelSettings(temperature=0, max_tokens=LIMIT))
    second = await Runner.run(plain_agent, "Repeat it.", session=SQLiteSession("one", path), max_turns=2)
    need(len(await s.get_items()) >= n + 2, "the second turn was not stored")
    need(second.context_wrapper.usage.input_tokens > 0, "usage")


async def stop_on_tool(model, streamed_run=False):
    CALLS.clear()
    a = agent(model, tool_use_behavior="stop_on_first_tool")
    if streamed_run:
        out = Runner.run_streamed(a, "What is the code of Paris on day 3?")
        kinds = [ev.data.type async for ev in out.stream_events() if ev.type == "raw_response_event"]
        equal(kinds[-1], "response.completed", "last raw event")
    else:
        out = await Runner.run(a, "What is the code of Paris on day 3?")
    equal(len(CALLS), 1, "calls")
    equal(out.final_output, "code-4711", "final output")
    need(out.context_wrapper.usage.total_tokens > 0, "usage")


def http():
    return OpenAIResponsesModel(MODEL, aclient())


def ws():
    return OpenAIResponsesWSModel(MODEL, aclient())


def chat():
    return OpenAIChatCompletionsModel(MODEL, aclient())


@case
async def http_stop_on_tool():
    await stop_on_tool(http())
    await stop_on_tool(http(), True)


@case
async def ws_stop_on_tool():
    m = ws()
    await stop_on_tool(m)
    sock = m._ws_connection
    await stop_on_tool(m, True)
    need(sock is not None and m._ws_connection is sock, "the model opened a second connection")
    await m.close()


@case
async def chat_stop_on_tool():
    await stop_on_tool(chat())
    await stop_on_tool(chat(), True)


@free_text
async def http_run():
    await plain(http())


@free_text
async def chat_run():
    await plain(chat())
    await streamed(chat())


@free_text
async def http_sqlite_session():
    await session_turns(http())


@free_text
async def ws_run_streamed():
    m = ws()
    raw = await streamed(m)
    need("response.function_call_arguments.delta" in raw, "deltas")
    await m.close()


if __name__ == "__main__":
    main()
