"""Dify's own OpenAI-compatible model code (dify_plugin: OAICompatLargeLanguageModel) against a server.

This is the class behind Dify's «OpenAI-API-compatible» provider; Dify's plugin daemon calls it the same
way. With DIFY_PLUGIN_DIR set to a checkout of models/openai_api_compatible (langgenius/dify-official-plugins)
the provider's subclass is driven instead. Own virtual environment: see tests/requirements-dify.txt.

SPDX-License-Identifier: Apache-2.0
"""
import os
import sys

try:
    import dify_plugin  # noqa: F401 - patches the standard library for gevent, so it comes first
except ImportError:
    print("dify_plugin is not installed: pip install -r tests/requirements-dify.txt", file=sys.stderr)
    sys.exit(2)
import json

from dify_plugin.entities.model.message import PromptMessageTool, SystemPromptMessage, UserPromptMessage
from dify_plugin.interfaces.model.openai_compatible.llm import OAICompatLargeLanguageModel

from harness import API_KEY, BASE_URL, MODEL, WEATHER, case, check_args, equal, main, need, one_of, same_text

from dify_plugin.interfaces.model.ai_model import AIModel

TOOL_CHOICE = os.environ.get("TOOL_CHOICE", "required")   # auto: for a model that calls by itself
COUNTED = []


def _count(self, text):
    """Stands in for the GPT-2 tokenizer, which would be downloaded; Dify falls back to it when usage is missing."""
    COUNTED.append(text)
    return len(text) // 4 + 1


AIModel._get_num_tokens_by_gpt2 = _count
PLUGIN = os.environ.get("DIFY_PLUGIN_DIR")
if PLUGIN:
    import dify_plugin.entities.model as _entities

    _init = _entities.I18nObject.__init__

    def _names(self, **kw):             # the provider is written for a newer SDK, whose field names are lower case
        _init(self, **{{"en_us": "en_US", "zh_hans": "zh_Hans"}.get(k, k): v for k, v in kw.items()})

    if "en_US" in _entities.I18nObject.model_fields:
        _entities.I18nObject.__init__ = _names
    sys.path.insert(0, PLUGIN)
    from models.llm.llm import OpenAILargeLanguageModel as LLM
else:
    LLM = OAICompatLargeLanguageModel

HELLO = [SystemPromptMessage(content="Be brief."), UserPromptMessage(content="Say hello.")]
TOOL = PromptMessageTool(name="get_weather", description="Weather for a city", parameters=WEATHER)


def creds(**kw):
    return {"api_key": API_KEY, "endpoint_url": BASE_URL, "mode": "chat", "context_size": "4096", "function_calling_type": "tool_call",
            "stream_function_calling": "supported", "vision_support": "support", "structured_output_support": "supported",
            "agent_thought_support": "supported", "compatibility_mode": "extended", "stream_mode_delimiter": "\\n\\n", **kw}


def llm():
    return LLM(model_schemas=[])


def call(messages, stream, params=None, tools=None, **kw):
    c = creds(**kw.pop("creds", {}))
    params = {"max_tokens": 24, "temperature": 0, **(params or {})}
    if stream and not PLUGIN:
        params["stream_options"] = {"include_usage": True}      # what the provider's subclass adds
    return llm()._invoke(MODEL, c, [m.model_copy(deep=True) for m in messages], params, tools=tools, stream=stream, user="dify-user", **kw)


def collect(gen):
    text, calls, usage, fin = "", [], None, None
    for chunk in gen:
        text += chunk.delta.message.content or ""
        calls += chunk.delta.message.tool_calls or []
        usage = chunk.delta.usage or usage
        fin = chunk.delta.finish_reason or fin
    return text, calls, usage, fin


@case
def validate_credentials():
    llm().validate_credentials(MODEL, creds())


@case
def invoke_plain():
    r = call(HELLO, False)
    need(isinstance(r.message.content, str) and r.message.content, "no content")
    need(r.usage.prompt_tokens > 0 and r.usage.completion_tokens > 0, "usage")
    equal(r.model, MODEL, "model")


@case
def invoke_stream():
    COUNTED.clear()
    text, calls, usage, fin = collect(call(HELLO, True))
    need(text and not calls, "text")
    need(not COUNTED, "Dify had to guess the token counts: no usage in the stream")
    one_of(fin, ("stop", "length"), "finish_reason («Non-JSON encountered.» means a bad SSE block)")
    equal(usage.prompt_tokens, call(HELLO, False).usage.prompt_tokens, "prompt tokens against the plain call")
    same_text(text, call(HELLO, False).message.content, "text against the plain call")


@case
def tool_call_stream_and_plain():
    force = {"tool_choice": TOOL_CHOICE, "max_tokens": 200}
    for stream in (True, False):
        # Dify itself always sends tool_choice "auto"; it is forced here, so that any model must call.
        body = LLMForce(force)
        r = body._invoke(MODEL, creds(), [UserPromptMessage(content="Weather in Oslo?")], {"temperature": 0, **force}, tools=[TOOL], stream=stream, user="u")
        calls = collect(r)[1] if stream else r.message.tool_calls
        need(calls, f"no tool call (stream={stream})")
        equal(calls[0].function.name, "get_weather", "name")
        need(calls[0].id, "no id")
        check_args(calls[0].function.arguments)


class LLMForce(LLM):
    """Lets tool_choice through: the SDK overwrites it with "auto" when tools are given."""

    def __init__(self, force):
        super().__init__(model_schemas=[])
        self._force = force

    def _invoke(self, *a, **kw):
        import requests

        post = requests.post

        def patched(url, **k):
            body = k.pop("json", None) or json.loads(k.pop("data"))
            body["tool_choice"] = self._force["tool_choice"]
            return post(url, json=body, **k)

        requests.post = patched
        try:
            return super()._invoke(*a, **kw)
        finally:
            requests.post = post


@case
def structured_output():
    for schema in ({"name": "llm_response", "schema": WEATHER}, WEATHER):      # Dify sends either form
        r = call([UserPromptMessage(content="Weather as JSON.")], False, {"max_tokens": 200, "response_format": "json_schema", "json_schema": json.dumps(schema)})
        text = r.message.content
        check_args(text.split("</think>")[-1].strip())


if __name__ == "__main__":
    try:
        main()
    except SystemExit as exc:
        sys.stdout.flush()
        os._exit(exc.code or 0)         # gevent is noisy when the interpreter ends by itself
