"""Idempotency-Key: a request that is sent twice is one request.

SPDX-License-Identifier: Apache-2.0
"""
import json
import subprocess
import threading

from common import (
    ROOT, PAWL, Server, Skip, case, check_error, check_stream, equal, events_of, need, receive, run_against,
    send)
from resuming import SCRIPT, TOOL, Stream, ended, nothing_runs, turns, until, use

server = use(Server({"replay": SCRIPT}))

# ------------------------------------------------------------- twice is once


def with_key(key, body, path="/v1/responses", of=None, expect=200):
    reply = (of or server).http("POST", path, {"model": "replay", **body}, Idempotency_Key=key)
    equal(reply.status, expect, f"status ({reply.body[:200]!r})")
    return reply


CHAT = "/v1/chat/completions"


@case
def a_repetition_gets_the_same_answer():
    before = turns()
    asked = [("/v1/responses", {"input": "weather", "tools": [TOOL]}),
             ("/v1/responses", {"input": "weather", "tools": [TOOL], "stream": True}),
             ("/v1/responses", {"input": "hello", "store": False}),
             ("/v1/responses", {"input": "hello", "store": False, "stream": True}),
             ("/v1/responses", {"input": "break", "stream": True}),
             ("/v1/responses", {"input": "hello", "max_output_tokens": 4}),
             (CHAT, {"messages": [{"role": "user", "content": "hello"}]}),
             (CHAT, {"messages": [{"role": "user", "content": "hello"}], "n": 3, "logprobs": True}),
             (CHAT, {"messages": [{"role": "user", "content": "weather"}], "stream": True, "stream_options": {"include_usage": True}}),
             ("/v1/completions", {"prompt": "hello", "echo": True, "max_tokens": 5})]
    for n, (path, body) in enumerate(asked):
        first = with_key(f"same-{n}", body, path)
        for _ in range(2):
            equal(with_key(f"same-{n}", body, path).body, first.body, f"the answer to {body} again")
    equal(turns() - before, len(asked) + 2, "turns that ran")  # n: 3 is three
    failed = with_key("failed", {"input": "break"}, expect=500)
    equal(with_key("failed", {"input": "break"}, expect=500).body, failed.body, "a failure again")


@case
def another_request_needs_another_key():
    with_key("mine", {"input": "hello"})
    for path, body in (("/v1/responses", {"input": "other"}), ("/v1/responses", {"input": "hello", "stream": True}),
                       (CHAT, {"messages": [{"role": "user", "content": "hello"}]})):
        error = with_key("mine", body, path, expect=422).json()["error"]
        equal((error["code"], error["param"]), ("idempotency_key_reused", "Idempotency-Key"), "why")
    with_key("mine", {"input": "hello"})
    for key in ("x" * 256, "\u00e4"):
        equal(server.http("POST", "/v1/responses", {"model": "replay", "input": "x"}, Idempotency_Key=key).status, 400, "a bad key")
    raw = json.dumps({"model": "replay", "input": "hello"}, indent=4).encode()
    equal(server.http("POST", "/v1/responses", raw, Idempotency_Key="mine").status, 200, "the same with spaces")


@case
def what_is_refused_is_not_remembered():
    with_key("again", {"input": "x" * 5000}, expect=400)
    with_key("again", {"input": "hello", "temperature": 7}, expect=400)
    equal(with_key("again", {"input": "hello"}).json()["status"], "completed", "the right one")


@case
def who_asks_twice_at_once_is_answered_once():
    for n, (path, body) in enumerate((("/v1/responses", {"input": "slowly"}), ("/v1/responses", {"input": "slowly", "stream": True}),
                                      (CHAT, {"messages": [{"role": "user", "content": "slowly"}], "stream": True}),
                                      ("/v1/responses", {"input": "slowly", "store": False}))):
        before, got = turns(), []
        threads = [threading.Thread(target=lambda: got.append(with_key(f"at-once-{n}", body, path).body)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(len(set(got)), 1, "answers")
        equal(turns() - before, 1, "turns that ran")


@case
def a_client_whose_proxy_cut_the_line_asks_again():
    for path, body in (("/v1/responses", {"input": "slowly", "stream": True}),
                       ("/v1/responses", {"input": "slowly", "stream": True, "store": False}),
                       (CHAT, {"messages": [{"role": "user", "content": "slowly"}], "stream": True, "disconnect": "detach"})):
        before, key = turns(), f"cut-{path}-{body.get('store')}"
        stream = Stream("POST", path, {"model": "replay", **body}, Idempotency_Key=key)
        head = stream.take(4)
        stream.leave()
        whole = with_key(key, body, path).body
        equal([json.loads(line[6:]) for line in whole.decode().split("\n") if line.startswith("data: {")][:4], head, "how it begins")
        equal(turns() - before, 1, "turns that ran")


@case
def what_was_cancelled_runs_again():
    body = {"input": "endless", "max_output_tokens": 200, "disconnect": "cancel"}
    before = turns()
    stream = Stream("POST", "/v1/responses", {"model": "replay", "stream": True, **body}, Idempotency_Key="cancelled")
    first = stream.take(4)[0]["response"]["id"]
    stream.leave()
    until("its end", lambda: turns() > before)
    got = events_of(with_key("cancelled", {**body, "stream": True}).body)
    need(got[0]["response"]["id"] != first, "the cancelled one was an answer")
    equal(got[-1]["response"]["status"], "incomplete", "status")


@case
def keys_over_a_socket():
    with server.connect() as ws, server.connect() as other:
        send(ws, input="slowly", idempotency_key="socket", stream_id="a")
        head = receive(ws, ("response.output_text.delta",))
        send(other, input="slowly", idempotency_key="socket")
        whole = receive(other)
        rest = head + receive(ws)
        for event in rest:
            equal(event.pop("stream_id"), "a", "lane")
        equal(whole, rest, "what the second one got")
        send(other, input="slower", idempotency_key="socket", stream_id="b")
        check_error(receive(other)[-1], "idempotency_key_reused", 422, "idempotency_key", "b")
        send(other, input="slowly", idempotency_key="")
        check_error(receive(other)[-1], "invalid_value", 400, "idempotency_key")


@case
def keys_in_the_background():
    first = with_key("background", {"input": "slowly", "background": True}).json()
    equal(with_key("background", {"input": "slowly", "background": True}).json(), first, "at once again")
    final = ended(first["id"])
    equal(with_key("background", {"input": "slowly", "background": True}).json()["id"], first["id"], "afterwards")
    equal(final["status"], "completed", "status")


@case
def keys_outlive_the_server():
    bodies = [{"input": "weather", "tools": [TOOL]}, {"input": "hello", "stream": True}, {"input": "slowly", "background": True}]
    with Server({"replay": SCRIPT}) as brief:
        first = [with_key(f"k{n}", body, of=brief) for n, body in enumerate(bodies)]
        final = ended(first[2].json()["id"], brief)
        plain = with_key("chat", {"messages": [{"role": "user", "content": "hello"}]}, CHAT, brief).json()
        running = Stream("POST", "/v1/responses", {"model": "replay", "stream": True, "input": "endless"}, brief, Idempotency_Key="cut")
        cut = running.next()["response"]["id"]
        brief.kill()
        brief.start()
        equal(with_key("k0", bodies[0], of=brief).body, first[0].body, "a plain one")
        again_ = events_of(with_key("k1", bodies[1], of=brief).body)
        check_stream(again_)
        equal(again_[-1]["response"], events_of(first[1].body)[-1]["response"], "the closing response of a stream")
        equal(with_key("k2", bodies[2], of=brief).json(), final, "a background one")
        equal(turns(brief), 0, "turns after the restart")
        with_key("k0", {"input": "other"}, of=brief, expect=422)
        # What did not end, and what was not to be stored, is not known any more.
        need(with_key("chat", {"messages": [{"role": "user", "content": "hello"}]}, CHAT, brief).json()["id"] != plain["id"], "an unstored one")
        fresh = Stream("POST", "/v1/responses", {"model": "replay", "stream": True, "input": "endless"}, brief, Idempotency_Key="cut")
        need(fresh.next()["response"]["id"] != cut, "one that did not end")
        fresh.leave()
        equal(brief.http("DELETE", f"/v1/responses/{first[0].json()['id']}").status, 200, "DELETE")
        need(with_key("k0", {"input": "other"}, of=brief).json()["id"] != first[0].json()["id"], "a deleted one")


@case
def keys_belong_to_their_tenant():
    with Server({"replay": SCRIPT}) as brief:
        secrets = [subprocess.run([PAWL, "key", "add", "--data", brief.data, "--name", name], capture_output=True, text=True,
                                  check=True).stdout.strip() for name in ("a", "b")]
        ids = [brief.http("POST", "/v1/responses", {"model": "replay", "input": "hello"}, Idempotency_Key="k",
                          Authorization=f"Bearer {secret}").json()["id"] for secret in secrets + secrets]
        equal((ids[0] != ids[1], ids[2:]), (True, ids[:2]), "whose answer")
        for path in (f"/v1/responses/{ids[0]}", f"/v1/responses/{ids[0]}?stream=true"):
            equal(brief.http("GET", path, Authorization=f"Bearer {secrets[1]}").status, 404, "another tenant's")
            equal(brief.http("GET", path, Authorization=f"Bearer {secrets[0]}").status, 200, "one's own")


@case
def frames_and_events_are_as_the_schemas_say():
    try:
        import jsonschema
    except ImportError:
        raise Skip("jsonschema is not installed") from None
    frames, events = (jsonschema.Draft202012Validator(json.loads((ROOT / "schemas" / f"responses-{name}.schema.json").read_text()))
                      for name in ("frames", "events"))
    with server.connect() as ws:
        def say(**frame):
            frames.validate(frame)
            ws.send(json.dumps(frame))
            got = receive(ws)
            for event in got:
                events.validate(event)
            return got
        done = say(type="response.create", model="replay", input="hello", background=True, idempotency_key="s", stream_id="a")
        response_id = done[0]["response"]["id"]
        say(type="response.retrieve", response_id=response_id, starting_after=1)
        say(type="response.retrieve", response_id=response_id, starting_after=1000)
        say(type="response.create", model="replay", input="other", background=True, idempotency_key="s")
        say(type="response.cancel", response_id=response_id)
    need(not frames.is_valid({"type": "response.retrieve"}), "a schema that takes anything")


@case
def nothing_is_left():
    nothing_runs()


if __name__ == "__main__":
    run_against(server)
