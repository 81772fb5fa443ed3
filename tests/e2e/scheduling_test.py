"""Who is served before whom: classes, keys, memory; and that nobody's reply changes by it.

SPDX-License-Identifier: Apache-2.0
"""
import json
import subprocess
import threading
import time

import exposition
from common import ENDS, PAWL, SLOWNESS, Server, case, equal, main, need, receive, receive_lanes, send, text_of

LONG = "".join(f"<{n}>" for n in range(120))
SCRIPT = {"context": 4096, "replies": [
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"when": "long", "text": LONG, "delay_ms": 1},
    {"text": "Yes.", "delay_ms": 1},
]}
MODEL = (("model", "replay"),)


def scrape(server, **headers):
    return exposition.parse(server.http("GET", "/metrics", **headers).body)


def until(server, what, condition, seconds=20, **headers):
    end = time.monotonic() + seconds * SLOWNESS
    while not condition(now := scrape(server, **headers)):
        need(time.monotonic() < end, what)
        time.sleep(0.02)
    return now


def waiting(now, name):
    return now["pawl_num_requests_waiting_by_class", (("class", name), *MODEL)]


def text_of_lane(events):
    return "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")


@case
def interactive_goes_before_batch():
    with Server({"replay": SCRIPT}, "--sequences", "1") as server, server.connect() as ws:
        send(ws, input="endless", priority="batch", stream_id="running", store=False)
        got = {"running": receive(ws, ("response.output_text.delta",))}
        send(ws, input="long", priority="batch", stream_id="waiting")
        until(server, "a batch turn waits", lambda m: waiting(m, "batch") == 1)
        send(ws, input="now", priority="interactive", stream_id="now")
        receive_lanes(ws, ("now",), got)
        equal(text_of_lane(got["now"]), "Yes.", "the interactive turn, while the other is not at its end")
        need(got.get("waiting", [])[-1]["type"] not in ENDS, "the batch turn that waited has ended before")
        n = len(got["running"])
        while len(got["running"]) < n + 20:  # it goes on
            event = json.loads(ws.recv())
            got.setdefault(event["stream_id"], []).append(event)
        ws.send(json.dumps({"type": "response.cancel", "stream_id": "running"}))
        receive_lanes(ws, ("running", "waiting"), got)
        # Nothing is lost or said twice by the one that was interrupted.
        text = text_of_lane(got["running"])
        equal(text, ("0123456789" * len(text))[:len(text)], "the text of the one that was interrupted")
        equal(text_of_lane(got["waiting"]), LONG, "the text of the one that waited")
        now = scrape(server)
        need(now["pawl_num_preemptions_total", MODEL] >= 1, "nobody was preempted")
        equal((waiting(now, "batch"), waiting(now, "interactive")), (0, 0), "who waits")


@case
def every_dialect_has_classes():
    bodies = {"/v1/responses": {"input": "x"}, "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}]},
              "/v1/completions": {"prompt": "x"}}
    with Server({"replay": SCRIPT}) as server:
        for path, body in bodies.items():
            for priority in ("interactive", "batch", None):
                reply = server.http("POST", path, {"model": "replay", "priority": priority, **body})
                equal(reply.status, 200, f"{path} with {priority} ({reply.body[:200]!r})")
            reply = server.http("POST", path, {"model": "replay", "priority": "urgent", **body})
            error = reply.json()["error"]
            equal((reply.status, error["code"], error["param"]), (400, "invalid_value", "priority"), f"{path} with another")
            need("interactive" in error["message"] and "batch" in error["message"], f"what is allowed: {error['message']}")


@case
def short_memory_changes_no_reply():
    # Each turn comes to some 50 pages; there are 120.
    tight = {**SCRIPT, "page_tokens": 16, "pages": 120}
    lanes = [f"l{n}" for n in range(6)]
    with Server({"replay": tight}, "--context", "1000") as server, server.connect() as ws:
        for n, lane in enumerate(lanes):
            send(ws, input=f"long {n} " + "x" * 300, priority="batch" if n % 2 else "interactive", stream_id=lane)
        got = receive_lanes(ws, lanes)
        for lane in lanes:
            end = got[lane][-1]
            equal((end["type"], text_of(end["response"])), ("response.completed", LONG), lane)
            equal(text_of_lane(got[lane]), LONG, f"the text of {lane}, as it was streamed")
        now = scrape(server)
        need(now["pawl_num_preemptions_total", MODEL] >= 1, "memory was not short")
        need(now["pawl_live_evictions_total", MODEL] >= 1, "nothing was evicted")


@case
def a_long_prompt_is_cut_at_save_points():
    with Server({"replay": SCRIPT}) as server:
        server.create(input="x" * 2500)
        equal(scrape(server)["pawl_save_points_total", MODEL], 1, "the one of every 2048 tokens")
        server.create(instructions="y" * 600, input="x")
        equal(scrape(server)["pawl_save_points_total", MODEL], 2, "the end of the system part")


def add_key(server, name, scope="inference"):
    command = [PAWL, "key", "add", "--name", name, "--scope", scope, "--data", server.data]
    got = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return {"Authorization": f"Bearer {got.stdout.strip()}"}


@case
def a_full_queue_of_one_key_is_its_own():
    with Server({"replay": SCRIPT}, "--sequences", "1", "--queue", "20", "--queue-per-key", "3") as server:
        keys = {name: add_key(server, name) for name in ("ann", "bob")}
        ops = add_key(server, "ops", "metrics")
        url = "/v1/responses"
        ws = server.connect(**keys["ann"])
        for n in range(4):
            send(ws, input="endless", store=False, stream_id=f"l{n}")
            if n == 0:  # it runs, and so has left its place in the queue to the others
                receive(ws, ("response.output_text.delta",))
        until(server, "three wait", lambda m: (m["pawl_num_requests_running", MODEL], m["pawl_num_requests_waiting", MODEL]) == (1, 3), **ops)
        reply = server.http("POST", url, {"model": "replay", "input": "x"}, **keys["ann"])
        error = reply.json()["error"]
        equal((reply.status, error["type"], error["code"]), (429, "rate_limit_error", "rate_limit_exceeded"), f"the fifth: {error}")
        need(1 <= int(reply.headers["retry-after"]) <= 120, f"Retry-After: {reply.headers['retry-after']}")
        refused = [("pawl_admission_rejections_total", (*MODEL, ("reason", reason))) for reason in ("key_busy", "busy")]
        now = scrape(server, **ops)
        equal([now[key] for key in refused], [1, 0], "who was refused for what")
        # Another key is not concerned, and comes next although others were here before.
        done = threading.Event()
        threading.Thread(target=lambda: (server.http("POST", url, {"model": "replay", "input": "x"}, **keys["bob"]), done.set()),
                         daemon=True).start()
        until(server, "the other key's turn waits", lambda m: m["pawl_num_requests_waiting", MODEL] == 4, **ops)
        ws.send(json.dumps({"type": "response.cancel", "stream_id": "l0"}))
        need(done.wait(20 * SLOWNESS), "the other key was not served next")
        ws.abort()


if __name__ == "__main__":
    main()
