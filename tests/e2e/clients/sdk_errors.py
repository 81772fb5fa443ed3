"""Error objects, status codes and SDK exception classes.

SPDX-License-Identifier: Apache-2.0
"""

import openai
import requests
from harness import API_KEY, BASE_URL, MODEL, case, client, equal, main, need, one_of

H = {"Authorization": f"Bearer {API_KEY}"}
HELLO = [{"role": "user", "content": "hi"}]


def err(r, status, kind="invalid_request_error"):
    one_of(r.status_code, (status,) if isinstance(status, int) else status, f"status ({r.text[:150]})")
    need(r.headers.get("content-type", "").startswith("application/json"), f"content type {r.headers.get('content-type')}")
    e = r.json()["error"]
    for key in ("message", "type", "param", "code"):
        need(key in e, f"error object lacks {key!r}")
    need(isinstance(e["message"], str) and e["message"], "empty message")
    if kind:
        equal(e["type"], kind, "error.type")
    return e


def post(path, body=None, **kw):
    kw.setdefault("headers", H)
    return requests.post(BASE_URL + path, json=body, timeout=30, **kw)


@case
def unauthorized():
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": API_KEY}):
        err(post("/chat/completions", {"model": MODEL, "messages": HELLO}, headers=headers), 401)
        err(post("/responses", {"model": MODEL, "input": "hi"}, headers=headers), 401)
    try:
        client(api_key="wrong").models.list()
    except openai.AuthenticationError as exc:
        equal(exc.code, "invalid_api_key", "code")
    else:
        raise AssertionError("no AuthenticationError")


@case
def unknown_model():
    for path, body in (("/chat/completions", {"messages": HELLO}), ("/responses", {"input": "hi"})):
        equal(err(post(path, {"model": "no-such-model", **body}), 404)["code"], "model_not_found", "code")
    try:
        client().chat.completions.create(model="no-such-model", messages=HELLO)
    except openai.NotFoundError:
        pass


@case
def broken_json():
    for path in ("/chat/completions", "/responses"):
        for data in (b"{", b"", b"[1]", b'"x"', b'{"model": \xff}'):
            err(requests.post(BASE_URL + path, data=data, headers={**H, "Content-Type": "application/json"}, timeout=30), 400)


@case
def context_length_exceeded():
    text = "alpha beta gamma delta " * 60000
    e = err(post("/chat/completions", {"model": MODEL, "messages": [{"role": "user", "content": text}]}), 400)
    equal(e["code"], "context_length_exceeded", "code")
    need(sum(w.strip(".,").isdigit() for w in e["message"].split()) >= 2, f"no token counts in {e['message'][:120]!r}")
    e = err(post("/responses", {"model": MODEL, "input": text}), 400)
    equal(e["code"], "context_length_exceeded", "code")
    with post("/chat/completions", {"model": MODEL, "messages": [{"role": "user", "content": text}], "stream": True}, stream=True) as r:
        err(r, 400)                 # not a 200 stream with an error inside


if __name__ == "__main__":
    main()
