"""/v1/chat/completions, /v1/completions, /tokenize, /detokenize: what they answer, byte for byte where it matters.

Requests and replies are held against the schemas in schemas/ and the openai package's classes.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json

import jsonschema
import openai
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from common import ROOT, SLOWNESS, Server, case, equal, need, one_of, pause, run_against, strict

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
CONTEXT = 4096

server = Server({"replay": {"context": CONTEXT, "replies": [
    {"when": "greet", "text": "Hello there."},
    {"when": "price", "pieces": ["It costs ", 0xE2, 0x82, 0xAC, "5."]},
    {"when": "It is raining", "text": "Take an umbrella."},
    {"when": "Oslo", "text": CALL},
    {"when": "both", "text": "Let me look.\n" + CALL + "\n" + CALL.replace("Oslo", "Bergen")},
    {"when": "count", "text": "one two three STOP four five"},
    {"when": "think", "text": "<think>\nHm, let me see.\n</think>\n\nDone."},
    {"when": "fail", "text": "This goes wrong.", "fail_at": 6},
    {"when": "endless", "pieces": ["and so on, "], "end": "none", "delay_ms": 2},
    {"when": "once upon", "text": " a time"},
    {"when": "nothing", "text": ""},
]}})


def schema(name):
    return jsonschema.Draft202012Validator(json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text()))


CHAT_REQUEST, TEXT_REQUEST = schema("chat-completions-request"), schema("completions-request")
REPLY = schema("completions-replies")


def messages(text):
    return [{"role": "user", "content": text}]


def post(path, request, expect=200):
    reply = server.http("POST", path, {"model": "replay", **request})
    equal(reply.status, expect, f"status ({reply.body[:300]!r})")
    return reply


def chat(text=None, expect=200, **request):
    """A folded answer, checked."""
    request = {"model": "replay", "messages": messages(text), **request}
    if expect == 200:
        CHAT_REQUEST.validate(request)
    got = post("/v1/chat/completions", request, expect).json()
    REPLY.validate(got)
    if expect == 200:
        strict(ChatCompletion, got, "chat completion")
        check_usage(got["usage"])
    return got


def check_usage(usage):
    equal(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"], "total_tokens")
    need(usage["prompt_tokens_details"]["cached_tokens"] <= usage["prompt_tokens"], "cached_tokens")


def blocks(body):
    """The data of an SSE body: every block is one 'data:' line, LF only."""
    text = body.decode()
    need("\r" not in text, "a CR in the stream")
    need(text.endswith("\n\n"), "the last block is not closed")
    out = []
    for block in text[:-2].split("\n\n"):
        if block.startswith(":"):
            continue
        need(block.startswith("data: ") and "\n" not in block, f"block {block[:80]!r}")
        out.append(block[6:])
    return out


def stream(path, cls, **request):
    """The chunks of an answer that ends well, checked."""
    body = post(path, {"stream": True, **request}).body
    got = blocks(body)
    equal(got[-1], "[DONE]", "last block")
    chunks = [json.loads(data) for data in got[:-1]]
    ended = set()
    for chunk in chunks:
        REPLY.validate(chunk)
        if cls:
            strict(cls, chunk, "chunk")
        for choice in chunk["choices"]:
            need(choice["index"] not in ended, "a chunk of a choice after its finish_reason")
            if choice["finish_reason"]:
                ended.add(choice["index"])
    equal(len({c["id"] for c in chunks}), 1, "number of ids")
    equal(len(ended), request.get("n", 1), "choices that ended")
    return chunks


def chat_stream(text, **request):
    chunks = stream("/v1/chat/completions", ChatCompletionChunk, messages=messages(text), **request)
    first = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            first.setdefault(choice["index"], choice["delta"])
    for delta in first.values():
        equal(delta, {"role": "assistant", "content": ""}, "first delta")
    return chunks


def fold(chunks, index=0):
    """What a client makes of the chunks of a choice."""
    out = {"content": "", "reasoning_content": "", "tool_calls": [], "logprobs": [], "finish_reason": None}
    for choice in (c for chunk in chunks for c in chunk["choices"] if c["index"] == index):
        delta = choice["delta"]
        out["content"] += delta.get("content") or ""
        out["reasoning_content"] += delta.get("reasoning_content") or ""
        out["logprobs"] += (choice["logprobs"] or {}).get("content") or []
        out["finish_reason"] = choice["finish_reason"] or out["finish_reason"]
        for call in delta.get("tool_calls", []):
            if "id" in call:
                equal(call["index"], len(out["tool_calls"]), "index of a new call")
                out["tool_calls"].append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
            equal(call["index"], len(out["tool_calls"]) - 1, "a delta of a call that is not the last")
            out["tool_calls"][-1]["arguments"] += call["function"].get("arguments", "")
    return out


def calls_of(message):
    return [(c["function"]["name"], c["function"]["arguments"]) for c in message["tool_calls"]]


@case
def a_message_plain_and_streamed():
    got = chat("greet me")
    equal(got["choices"][0]["message"]["content"], "Hello there.", "content")
    equal(got["choices"][0]["finish_reason"], "stop", "finish_reason")
    need(got["id"].startswith("chatcmpl-") and got["model"] == "replay", "id and model")
    chunks = chat_stream("greet me")
    equal(fold(chunks)["content"], "Hello there.", "content of the stream")
    equal(fold(chunks)["finish_reason"], "stop", "finish_reason of the stream")
    need("usage" not in chunks[0], "usage that nobody asked for")


@case
def the_path_goes_without_v1_too():
    equal(post("/chat/completions", {"messages": messages("greet")}).json()["object"], "chat.completion", "object")
    equal(post("/completions", {"prompt": "once upon"}).json()["object"], "text_completion", "object")


@case
def the_framing_is_exact():
    body = post("/v1/chat/completions", {"messages": messages("nothing"), "stream": True,
                                         "stream_options": {"include_usage": True}})
    need(body.headers["content-type"].startswith("text/event-stream"), "content type")
    got = blocks(body.body)
    equal(len(got), 4, "role, finish, usage, done")
    head = got[0].split(',"choices"')[0]
    rest = '"logprobs":null,"finish_reason":%s}],"usage":null}'
    equal(got[0], head + ',"choices":[{"index":0,"delta":{"role":"assistant","content":""},' + rest % "null", "first")
    equal(got[1], head + ',"choices":[{"index":0,"delta":{},' + rest % '"stop"', "second")
    equal(json.loads(got[2])["choices"], [], "choices of the chunk with the usage")


@case
def usage_is_told_in_the_last_chunk():
    chunks = chat_stream("greet me", stream_options={"include_usage": True})
    equal(chunks[-1]["choices"], [], "choices of the last chunk")
    check_usage(chunks[-1]["usage"])
    need(all("usage" in c and c["usage"] is None for c in chunks[:-1]), "usage before the last chunk is not null")
    plain = chat("greet me")["usage"]
    for name in ("prompt_tokens", "completion_tokens"):
        equal(chunks[-1]["usage"][name], plain[name], name)
    need(plain["prompt_tokens_details"]["cached_tokens"] > 0, "the same prompt again is not cached")


@case
def calls_plain_and_streamed_agree():
    plain = chat("both please", tools=[WEATHER])["choices"][0]
    equal(plain["finish_reason"], "tool_calls", "finish_reason")
    equal([n for n, _ in calls_of(plain["message"])], ["get_weather"] * 2, "names")
    equal(json.loads(calls_of(plain["message"])[1][1]), {"city": "Bergen"}, "arguments")
    equal(plain["message"]["content"].strip(), "Let me look.", "content beside calls")
    streamed = fold(chat_stream("both please", tools=[WEATHER]))
    equal([(c["name"], c["arguments"]) for c in streamed["tool_calls"]], calls_of(plain["message"]), "calls")
    equal(streamed["content"], plain["message"]["content"], "content")
    equal(streamed["finish_reason"], "tool_calls", "finish_reason of the stream")
    equal(len({c["id"] for c in streamed["tool_calls"]}), 2, "distinct ids")


@case
def content_is_null_beside_calls_alone():
    message = chat("Weather in Oslo?", tools=[WEATHER])["choices"][0]["message"]
    need("content" in message and message["content"] is None, f"content {message!r}")
    one = chat("both please", tools=[WEATHER], parallel_tool_calls=False)["choices"][0]["message"]
    equal(len(one["tool_calls"]), 1, "calls without parallel_tool_calls")
    none = chat("Weather in Oslo?", tools=[WEATHER], tool_choice="none")["choices"][0]
    need("tool_calls" not in none["message"], "a call in spite of tool_choice none")


@case
def a_call_is_answered():
    call = chat("Weather in Oslo?", tools=[WEATHER])["choices"][0]["message"]
    call.update(annotations=[], audio=None)  # as SDKs send it back
    history = messages("Weather in Oslo?") + [
        call, {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "name": "get_weather",
               "content": [{"type": "text", "text": "It is raining"}]}]
    got = chat(messages=history, tools=[WEATHER])
    equal(got["choices"][0]["message"]["content"], "Take an umbrella.", "content")
    need(got["usage"]["prompt_tokens_details"]["cached_tokens"] > 0, "the first turn is not cached")
    orphan = [*messages("x"), {"role": "tool", "tool_call_id": "call_gone", "content": "It is raining"}]
    chat(messages=orphan)  # clients cut old messages off


@case
def thoughts_have_their_own_key():
    message = chat("think")["choices"][0]["message"]
    equal(message["content"], "Done.", "content")
    equal(message["reasoning_content"].strip(), "Hm, let me see.", "reasoning_content")
    chunks = chat_stream("think", stream_options={"include_usage": True})
    equal(fold(chunks)["reasoning_content"], message["reasoning_content"], "reasoning_content of the stream")
    equal(fold(chunks)["content"], "Done.", "content of the stream")
    need(chunks[-1]["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0, "reasoning_tokens")


@case
def a_character_is_never_split():
    chunks = chat_stream("the price please", logprobs=True)
    deltas = [c["choices"][0]["delta"].get("content", "") for c in chunks]
    equal("".join(deltas), "It costs €5.", "text")
    need(not any("\ufffd" in d for d in deltas), f"a split character in {deltas!r}")
    tokens = fold(chunks)["logprobs"]
    equal(bytes(b for t in tokens for b in t["bytes"]).decode(), "It costs €5.", "bytes of the tokens")


@case
def stop_strings_and_limits():
    for stop in ("STOP", ["never", "STOP"]):
        choice = chat("count", stop=stop)["choices"][0]
        equal((choice["message"]["content"], choice["finish_reason"]), ("one two three ", "stop"), "stopped")
        equal(fold(chat_stream("count", stop=stop))["content"], "one two three ", "stopped stream")
    for name in ("max_tokens", "max_completion_tokens"):
        got = chat("count", **{name: 5})
        equal((got["choices"][0]["message"]["content"], got["choices"][0]["finish_reason"]), ("one t", "length"), name)
        equal(got["usage"]["completion_tokens"], 5, "completion_tokens")
    equal(chat("greet", max_tokens=10**9)["choices"][0]["finish_reason"], "stop", "a limit beyond the context")
    equal(chat("nothing")["choices"][0]["message"]["content"], "", "content of an empty reply")


@case
def several_choices():
    got = chat("greet me", n=3, seed=1)
    equal([c["index"] for c in got["choices"]], [0, 1, 2], "indexes")
    equal({c["message"]["content"] for c in got["choices"]}, {"Hello there."}, "contents")
    equal(got["usage"]["completion_tokens"], 3 * chat("greet me")["usage"]["completion_tokens"], "completion_tokens")
    chunks = chat_stream("greet me", n=3, stream_options={"include_usage": True})
    for index in range(3):
        equal(fold(chunks, index)["content"], "Hello there.", f"content of choice {index}")
        equal(fold(chunks, index)["finish_reason"], "stop", f"finish_reason of choice {index}")
    equal(chunks[-1]["usage"]["completion_tokens"], got["usage"]["completion_tokens"], "usage of the stream")
    equal(len(chat("greet me", n=8)["choices"]), 8, "eight choices")


@case
def log_probabilities():
    content = chat("greet me", logprobs=True, top_logprobs=2)["choices"][0]["logprobs"]["content"]
    equal("".join(t["token"] for t in content), "Hello there.", "tokens")
    for entry in content:
        equal(len(entry["top_logprobs"]), 2, "alternatives")
        values = [t["logprob"] for t in entry["top_logprobs"]]
        equal(values, sorted(values, reverse=True), "alternatives are sorted")
        equal(entry["logprob"], values[0], "the chosen one is the likeliest")
    streamed = fold(chat_stream("greet me", logprobs=True, top_logprobs=2))["logprobs"]
    equal(streamed, content, "entries of the stream")
    need(chat("greet me")["choices"][0]["logprobs"] is None, "logprobs that nobody asked for")


@case
def biases_reach_the_engine():
    one = {"max_tokens": 3}
    equal(chat("greet me", logit_bias={str(ord("z")): 100}, **one)["choices"][0]["message"]["content"], "zzz", "forced")
    need("H" not in chat("greet me", logit_bias={str(ord("H")): -100}, **one)["choices"][0]["message"]["content"], "banned")
    equal(chat("greet me", logit_bias={str(ord("z")): 1}, **one)["choices"][0]["message"]["content"], "Hel", "a little")
    equal(post("/v1/completions", {"prompt": "once upon", "logit_bias": {"122": 100}, **one}).json()["choices"][0]["text"],
          "zzz", "forced in a completion")


@case
def what_cannot_be_done_is_refused_before_the_stream():
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]
    wrong = [
        ({"messages": image}, "unsupported_value", "messages[0].content[0].type"),
        ({"tools": [WEATHER], "tool_choice": "required"}, "unsupported_value", "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "unsupported_value", "response_format.type"),
        ({"response_format": {"type": "json_schema", "json_schema": {"type": "object"}}}, "unsupported_value",
         "response_format.type"),
        ({"n": 9}, "invalid_value", "n"),
        ({"model": "nope"}, "model_not_found", "model"),
        ({"logit_bias": {"1000000": 1}}, "invalid_value", "logit_bias"),
        ({"messages": messages("word " * CONTEXT)}, "context_length_exceeded", "messages"),
    ]
    for fields, code, param in wrong:
        for stream_wish in (False, True):
            status = 404 if code == "model_not_found" else 400
            got = chat("greet", status, stream=stream_wish, **fields)["error"]
            equal((got["code"], got["param"], got["type"]), (code, param, "invalid_request_error"), str(fields)[:80])
    message = chat(messages=messages("x" * CONTEXT), expect=400)["error"]["message"]
    numbers = [int(w) for w in message.split() if w.isdigit()]
    need(len(numbers) >= 2 and numbers[0] == CONTEXT < numbers[1], f"numbers in {message!r}")
    need("truncation" not in message, "a hint for another dialect")


@case
def a_failure_in_the_stream_is_one_error_without_done():
    got = blocks(post("/v1/chat/completions", {"messages": messages("fail"), "stream": True}).body)
    error = json.loads(got[-1])
    REPLY.validate(error)
    equal(error["error"]["type"], "server_error", "type")
    need("[DONE]" not in got, "[DONE] after a failure")
    equal(chat("fail", 500)["error"]["code"], "server_error", "code of the plain answer")
    sdk = openai.OpenAI(base_url=server.base_url, api_key="any", max_retries=0)
    try:
        for _ in sdk.chat.completions.create(model="replay", messages=messages("fail"), stream=True):
            pass
    except openai.APIError as exc:
        need("engine" in str(exc), f"the SDK says {exc}")
    else:
        raise AssertionError("the SDK saw no error")


@case
def a_client_that_goes_frees_its_choices():
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60 * SLOWNESS)
    body = {"model": "replay", "messages": messages("endless"), "stream": True, "n": 8}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    need(connection.getresponse().read(100), "no stream")
    connection.sock.close()
    pause(0.3)
    others = [chat("greet me", n=8)["choices"] for _ in range(2)]
    equal(len(others[1]), 8, "choices of the next request")


@case
def chat_completions_are_not_stored():
    got = chat("greet me", store=True, metadata={"a": "b"})
    equal(server.http("GET", "/v1/responses/" + got["id"].replace("chatcmpl-", "resp_")).status, 404, "status")


@case
def a_prompt_is_continued():
    got = post("/v1/completions", {"prompt": "once upon"}).json()
    REPLY.validate(got)
    strict(Completion, got, "completion")
    equal((got["choices"][0]["text"], got["choices"][0]["finish_reason"]), (" a time", "stop"), "text")
    check_usage(got["usage"])
    ids = list(b"once upon")
    equal(got["usage"]["prompt_tokens"], len(ids), "prompt_tokens: there is no dialect around it")
    for prompt in (["once upon"], ids, [ids]):
        again = {"model": "replay", "prompt": prompt, "echo": True, "n": 2}
        TEXT_REQUEST.validate(again)
        got = post("/v1/completions", again).json()
        equal([c["text"] for c in got["choices"]], ["once upon a time"] * 2, f"echo of {prompt!r}")
    got = post("/v1/completions", {"prompt": "once upon", "max_tokens": 3, "stop": "t", "logprobs": 1}).json()["choices"][0]
    equal((got["text"], got["finish_reason"]), (" a ", "length"), "limit")
    equal(got["logprobs"]["tokens"], [" ", "a", " "], "tokens")
    equal(got["logprobs"]["text_offset"], [0, 1, 2], "text_offset")
    equal(post("/v1/completions", {"prompt": "once upon", "max_tokens": 0}).json()["usage"]["completion_tokens"], 0, "none")


@case
def a_prompt_is_continued_in_a_stream():
    # The SDK has no class for these chunks: its Completion wants a finish_reason.
    chunks = stream("/v1/completions", None, prompt="once upon", echo=True, stream_options={"include_usage": True})
    text = "".join(c["text"] for chunk in chunks for c in chunk["choices"])
    equal(text, "once upon a time", "text")
    check_usage(chunks[-1]["usage"])
    got = post("/v1/completions", {"prompt": "x" * CONTEXT, "stream": True}, 400).json()["error"]
    equal((got["code"], got["param"]), ("context_length_exceeded", "prompt"), "too long")


@case
def control_tokens_in_a_prompt_count_only_when_asked():
    text = "<|im_start|>"
    literal = post("/v1/completions", {"prompt": text, "max_tokens": 1}).json()["usage"]["prompt_tokens"]
    control = post("/v1/completions", {"prompt": text, "max_tokens": 1, "parse_special": True}).json()["usage"]["prompt_tokens"]
    equal((literal, control), (len(text), 1), "prompt_tokens")


@case
def tokens_are_counted_as_they_cost():
    for path in ("/tokenize", "/v1/tokenize"):
        got = post(path, {"messages": messages("greet me"), "tools": [WEATHER]}).json()
        equal(got["count"], chat("greet me", tools=[WEATHER])["usage"]["prompt_tokens"], "count of messages")
        equal((len(got["tokens"]), got["max_model_len"]), (got["count"], CONTEXT), "tokens, max_model_len")
    got = post("/tokenize", {"prompt": "héy", "return_token_strs": True}).json()
    equal(got["tokens"], list("héy".encode()), "tokens of a prompt")
    equal(len(got["token_strs"]), got["count"], "token_strs")
    need(post("/tokenize", {"messages": messages("x" * CONTEXT)}).json()["count"] > CONTEXT, "count beyond the context")
    equal(server.http("POST", "/tokenize", {"content": "hi"}).json(), {"tokens": [104, 105]}, "llama-server's form")
    for path in ("/detokenize", "/v1/detokenize"):
        got = post(path, {"tokens": list("h\u00e9y".encode())}).json()
        equal((got["prompt"], got["content"]), ("h\u00e9y", "h\u00e9y"), "detokenize")
    equal(post("/detokenize", {"tokens": [0xE2, 0x82]}).json()["prompt"], "\ufffd", "half a character")
    equal(post("/detokenize", {"tokens": [1e9]}, 400).json()["error"]["param"], "tokens[0]", "no token")
    equal(server.http("GET", "/tokenize").status, 405, "status of GET")


@case
def the_sdk_streams_and_folds():
    sdk = openai.OpenAI(base_url=server.base_url, api_key="any", max_retries=0)
    with sdk.chat.completions.stream(
            model="replay", messages=messages("both please"), tools=[WEATHER]) as events:
        final = events.get_final_completion()
    one_of(final.choices[0].finish_reason, ("tool_calls",), "finish_reason")
    equal(len(final.choices[0].message.tool_calls), 2, "calls")


if __name__ == "__main__":
    run_against(server)
