"""openai SDK against /v1/models and /v1/chat/completions.

SPDX-License-Identifier: Apache-2.0
"""
import json

import requests
from harness import API_KEY, BASE_URL, MODEL, WEATHER, case, check_args, client, equal, main, need, one_of, strict
from openai.types.chat import ChatCompletion, ChatCompletionChunk

HELLO = [{"role": "user", "content": "Say hello."}]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather for a city",
                                           "parameters": WEATHER, "strict": True}}]


def raw(body, **kw):
    return requests.post(BASE_URL + "/chat/completions", json={"model": MODEL, **body},
                         headers={"Authorization": f"Bearer {API_KEY}"}, timeout=60, **kw)


def usage_ok(u):
    equal(u["total_tokens"], u["prompt_tokens"] + u["completion_tokens"], "usage.total_tokens")
    need(u["prompt_tokens"] > 0, "prompt_tokens is 0")
    need("cached_tokens" in (u.get("prompt_tokens_details") or {}), "usage.prompt_tokens_details.cached_tokens missing")


@case
def models_list_and_retrieve():
    c = client()
    ids = [m.id for m in c.models.list()]
    need(MODEL in ids, f"{MODEL} is not among {ids}")
    m = c.models.retrieve(MODEL)
    equal((m.id, m.object), (MODEL, "model"), "retrieved model")
    need(isinstance(m.created, int) and m.owned_by, "created/owned_by")


@case
def chat_plain():
    r = raw({"messages": HELLO, "max_tokens": 16, "temperature": 0})
    equal(r.status_code, 200, "status")
    need(r.headers["content-type"].startswith("application/json"), "content type")
    body = r.json()
    strict(ChatCompletion, body, "chat completion")
    need("content" in body["choices"][0]["message"], "message has no content key")
    one_of(body["choices"][0]["finish_reason"], ("stop", "length"), "finish_reason")
    need(body["usage"]["completion_tokens"] <= 16, "more than max_tokens")
    usage_ok(body["usage"])
    equal(body["model"], MODEL, "model")


@case
def chat_stream_shape():
    with raw({"messages": HELLO, "max_tokens": 24, "stream": True, "temperature": 0,
              "stream_options": {"include_usage": True}}, stream=True) as r:
        equal(r.status_code, 200, "status")
        need(r.headers["content-type"].startswith("text/event-stream"), "content type")
        body = b"".join(r.iter_content(None)).decode("utf-8")
    need("\r" not in body, "CR in the stream: clients that split on two LFs see nothing")
    blocks = [b for b in body.split("\n\n") if b.strip()]
    equal(blocks[-1], "data: [DONE]", "last block")
    chunks = []
    for b in blocks[:-1]:
        if b.startswith(":"):
            continue
        need(b.startswith("data: "), f"block {b[:40]!r}")
        chunks.append(json.loads(b[6:]))
        strict(ChatCompletionChunk, chunks[-1], "chunk")
    equal(len({c["id"] for c in chunks}), 1, "number of ids")
    equal(chunks[0]["choices"][0]["delta"].get("role"), "assistant", "role in the first chunk")
    equal(chunks[-1]["choices"], [], "choices of the usage chunk")
    usage_ok(chunks[-1]["usage"])
    need(all(c.get("usage") is None for c in chunks[:-1]), "usage before the last chunk is not null")
    fins = [c["choices"][0]["finish_reason"] for c in chunks[:-1]]
    need(fins[-1] in ("stop", "length") and not any(fins[:-1]), f"finish reasons {fins}")


@case
def chat_tools_named_choice():
    out = client().chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Weather in Paris?"}], tools=TOOLS, max_tokens=200,
        temperature=0, tool_choice={"type": "function", "function": {"name": "get_weather"}})
    call = out.choices[0].message.tool_calls[0]
    equal((call.type, call.function.name), ("function", "get_weather"), "call")
    check_args(call.function.arguments)
    one_of(out.choices[0].finish_reason, ("tool_calls", "stop"), "finish_reason")


@case
def chat_tools_required_stream():
    with raw({"messages": [{"role": "user", "content": "Weather in Paris?"}], "tools": TOOLS, "max_tokens": 200,
              "temperature": 0, "tool_choice": "required", "stream": True}, stream=True) as r:
        body = b"".join(r.iter_content(None)).decode()
    calls, fin = {}, None
    for b in body.split("\n\n"):
        if not b.startswith("data: {"):
            continue
        ch = json.loads(b[6:])["choices"]
        if not ch:
            continue
        fin = ch[0]["finish_reason"] or fin
        for d in ch[0]["delta"].get("tool_calls") or []:
            need("index" in d and "function" in d, "tool call delta without index or function")
            c = calls.setdefault(d["index"], {"args": ""})
            need(d["index"] == max(calls), "deltas of two calls are interleaved: Dify joins them by order")
            for key in ("id", "type"):
                if key in d:
                    need(isinstance(d[key], str) and d[key], f"{key} is sent but empty or null")
                    need(key not in c, f"{key} is sent twice")
                    c[key] = d[key]
            if d["function"].get("name") is not None:
                need("name" not in c, "name is sent twice")
                c["name"] = d["function"]["name"]
            c["args"] += d["function"].get("arguments") or ""
    need(calls, "no tool call")
    equal((calls[0]["type"], calls[0]["name"]), ("function", "get_weather"), "call")
    need(calls[0]["id"], "no id")
    check_args(calls[0]["args"])
    equal(fin, "tool_calls", "finish_reason")


@case
def chat_json_schema():
    for stream in (False, True):
        kw = dict(model=MODEL, messages=[{"role": "user", "content": "Weather, as JSON."}], max_tokens=200, temperature=0,
                  response_format={"type": "json_schema", "json_schema": {"name": "w", "schema": WEATHER, "strict": True}})
        if stream:
            text = "".join(c.choices[0].delta.content or "" for c in client().chat.completions.create(stream=True, **kw) if c.choices)
        else:
            text = client().chat.completions.create(**kw).choices[0].message.content
        check_args(text)


if __name__ == "__main__":
    main()
