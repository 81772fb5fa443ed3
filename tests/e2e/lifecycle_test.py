"""Readiness and the orderly end: every request that was accepted is answered or told.

PAWL_SIGTERMS: at how many random moments a loaded server is ended (10); PAWL_SEED.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import os
import random
import signal
import threading
import time

from common import (
    ENDS, SLOWNESS, Server, WebSocketError, case, case_timeout, check_error, equal, events_of, main, need, one_of,
    receive, send, text_of)

case_timeout(300)
SCRIPT = {"replies": [
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"when": "long", "text": "0123456789" * 6, "delay_ms": 20},
    {"when": "lose", "text": "0123456789", "fail_at": 3, "fail_status": "device"},
    {"text": "Yes, and a few words more.", "delay_ms": 1},
]}


def until(what, probe, seconds=20):
    end = time.monotonic() + seconds * SLOWNESS
    while not probe():
        need(time.monotonic() < end, what)
        time.sleep(0.01)


def closed(ws):
    """What still comes, and the code of the close frame."""
    got = []
    try:
        while True:
            got.append(json.loads(ws.recv()))
    except WebSocketError as end:
        return got, end.code


# ------------------------------------------------------------------- readiness


@case
def ready_after_a_token_and_alive_before():
    slow = {"replies": [{"text": "Yes.", "delay_ms": int(400 * SLOWNESS)}]}
    server = Server({"fast": SCRIPT, "slow": slow})
    try:
        server.start(wait=False)
        equal(server.http("GET", "/livez").status, 200, "/livez while a model warms up")
        reply = server.http("GET", "/readyz")
        equal(reply.status, 503, "/readyz while a model warms up")
        need("'slow' is starting" in reply.json()["error"]["message"], f"message {reply.body!r}")
        need(reply.headers["retry-after"], "no Retry-After")
        until("it never got ready", lambda: server.http("GET", "/readyz").status == 200)
        equal(server.http("GET", "/health").json(), {"status": "ok"}, "/health")
        first = server.create(model="fast", input="Hi")
        equal(first["usage"]["input_tokens_details"]["cached_tokens"], 0, "cached tokens: the probe leaves no sequence")
        equal(server.http("GET", "/v1/models").json()["data"][1]["id"], "slow", "second model")
        server.stop()
    finally:
        if server.running():
            server.kill()


@case
def a_model_that_fails_is_tried_again():
    with Server({"replay": {"replies": [{"text": "Yes."}], "fail_submit": 1}}) as server:
        reply = server.http("GET", "/readyz")
        equal(reply.status, 503, "/readyz after a failed probe")
        need("does not answer" in reply.json()["error"]["message"], f"message {reply.body!r}")
        equal(server.http("GET", "/livez").status, 200, "/livez")
        until("it was not tried again", lambda: server.http("GET", "/readyz").status == 200)


@case
def a_model_without_a_dialect_is_tried_too():
    model = {"chat_template": "{{ unheard of }}", "replies": [{"text": "Yes."}]}
    with Server({"replay": model}) as server:
        until("it never got ready", lambda: server.http("GET", "/readyz").status == 200)
        need("no chat dialect" in server.log(), "it has a dialect after all")
    with Server({"replay": {**model, "fail_submit": 1}}) as server:
        equal(server.http("GET", "/readyz").status, 503, "/readyz after a failed probe")


@case
def a_lost_device_is_not_ready_again():
    with Server({"replay": SCRIPT}) as server:
        equal(server.http("GET", "/readyz").status, 200, "/readyz before")
        equal(server.stream(input="lose")[-1]["type"], "response.failed", "the turn that lost the device")
        for _ in range(2):
            reply = server.http("GET", "/readyz")
            equal(reply.status, 503, "/readyz after the device was lost")
            need("lost its device" in reply.json()["error"]["message"], f"message {reply.body!r}")
        equal(server.http("GET", "/livez").status, 200, "/livez")


# --------------------------------------------------------------------- drain


@case
def draining_lets_turns_end_and_takes_no_others():
    with Server({"replay": SCRIPT}, "--drain-seconds", "60") as server:
        idle, busy, plain = server.connect(), server.connect(), {}
        send(busy, input="long", stream_id="a")
        send(busy, input="waits", stream_id="a")
        receive(busy, ("response.output_text.delta",))
        poster = threading.Thread(target=lambda: plain.update(got=server.http("POST", "/v1/responses", {"model": "replay", "input": "long"})))
        poster.start()
        until("the second turn did not run",
              lambda: b'pawl_num_requests_running{model="replay"} 2' in server.http("GET", "/metrics").body)
        kept = http.client.HTTPConnection(server.host, int(server.port), timeout=20 * SLOWNESS)
        kept.connect()
        server.process.send_signal(signal.SIGTERM)
        equal(closed(idle), ([], 1001), "an idle socket")
        for path, status in (("/readyz", 503), ("/health", 503), ("/livez", 200), ("/metrics", 200), ("/v1/models", 503)):
            reply = server.http("GET", path)
            equal(reply.status, status, f"{path} while it drains")
            equal(reply.headers["connection"], "close", f"connection of {path}")
            need(status == 200 or reply.headers["retry-after"], f"{path}: no Retry-After")
        equal(server.http("POST", "/v1/responses", {"model": "replay", "input": "x"}).status, 503, "a new request")
        kept.request("GET", "/v1/models")
        equal(kept.getresponse().status, 503, "a request on a connection from before")
        try:
            server.connect()
            raise AssertionError("a handshake was granted")
        except WebSocketError as refused:
            need("503" in str(refused), f"handshake: {refused}")
        send(busy, input="new", stream_id="b")
        events, code = closed(busy)
        equal(code, 1001, "close code of the busy socket")
        errors = [e for e in events if e["type"] == "error"]
        equal([e.get("stream_id") for e in errors], ["b", "a"], "lanes that were refused: a's after its turn")
        for e in errors:
            check_error(e, "server_is_overloaded", 503, lane=e["stream_id"])
        done = [e for e in events if e["type"] == "response.completed"]
        equal([text_of(e["response"]) for e in done], ["0123456789" * 6], "the turn that ran")
        poster.join()
        equal((plain["got"].status, text_of(plain["got"].json())), (200, "0123456789" * 6), "the request that ran")
        equal(server._ended(20 * SLOWNESS), 0, "exit status")
        server.start()
        equal(server.http("GET", f"/v1/responses/{done[0]['response']['id']}").json(), done[0]["response"], "after a restart")


@case
def what_does_not_end_in_time_is_cancelled_and_stored_so():
    with Server({"replay": SCRIPT}, "--drain-seconds", "1") as server:
        ws = server.connect()
        send(ws, input="endless")
        receive(ws, ("response.output_text.delta",))
        began = time.monotonic()
        server.stop(within=15)
        need(time.monotonic() - began >= 1, "it did not wait")
        events, code = closed(ws)
        equal((events[-1]["type"], events[-1]["response"]["status"], code), ("response.incomplete", "cancelled", 1001), "end")
        server.start()
        equal(server.http("GET", f"/v1/responses/{events[-1]['response']['id']}").json(), events[-1]["response"], "stored")


@case
def a_second_signal_ends_at_once():
    with Server({"replay": SCRIPT}, "--drain-seconds", "1000") as server:
        ws = server.connect()
        send(ws, input="endless")
        receive(ws, ("response.output_text.delta",))
        server.process.send_signal(signal.SIGTERM)
        until("it does not drain", lambda: server.http("GET", "/readyz").status == 503)
        server.stop(within=5)
        events, _ = closed(ws)
        equal(events[-1]["response"]["status"], "cancelled", "status")
        server.start()
        equal(server.http("GET", f"/v1/responses/{events[-1]['response']['id']}").json()["status"], "cancelled", "stored")


# ------------------------------------------------------- any moment, under load


class Load:
    """Clients that ask until the server is gone. `told` has every response whose closing
    event came, `faults` what was left without a word."""

    def __init__(self, server):
        self.server, self.told, self.faults, self.refused = server, [], [], 0
        self.lock, self.over = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(kind,))
                        for kind in (self.socket, self.socket, self.lanes, self.plain, self.plain, self.stream)]
        for thread in self.threads:
            thread.start()

    def run(self, kind):
        number = 0
        while not self.over.is_set():
            number += 1
            try:
                kind(f"Turn {number} " + random.choice(("", "", "long")))
            except (ConnectionError, http.client.RemoteDisconnected, WebSocketError):
                return  # the end of the connection is an answer, where nothing was begun
            except Exception as fault:  # noqa: BLE001 - also a stream that is cut, or silence
                self.fault(f"{kind.__name__}: {type(fault).__name__}: {fault}")
                return

    def fault(self, what):
        with self.lock:
            self.faults.append(what)

    def tell(self, response):
        with self.lock:
            self.told.append(response)

    def refuse(self):
        with self.lock:
            self.refused += 1
        time.sleep(0.01)

    def take(self, event):
        if event["type"] == "error":
            check_error(event, "server_is_overloaded", 503, lane=event.get("stream_id"))
            self.refuse()
        else:
            self.tell(event["response"])

    def socket(self, text):
        ws = self.server.connect()
        for _ in range(5):
            send(ws, input=text)
            self.take(receive(ws)[-1])
        ws.close()

    def lanes(self, text):
        ws = self.server.connect()
        asked = 0
        try:
            for n in range(6):
                send(ws, input=text, stream_id=f"lane-{n % 3}")
                asked += 1
        except OSError:
            pass
        for _ in range(asked):
            self.take(receive(ws)[-1])
        ws.close()

    def plain(self, text):
        reply = self.server.http("POST", "/v1/responses", {"model": "replay", "input": text})
        if reply.status == 503:
            self.refuse()
        elif reply.status == 200:
            self.tell(reply.json())
        else:
            self.fault(f"status {reply.status}: {reply.body[:200]!r}")

    def stream(self, text):
        reply = self.server.http("POST", "/v1/responses", {"model": "replay", "input": text, "stream": True})
        if reply.status == 503:
            self.refuse()
            return
        events = events_of(reply.body)
        if not events or events[-1]["type"] not in ENDS:
            self.fault(f"a stream ended after {[e['type'] for e in events][-2:]}")
        else:
            self.take(events[-1])

    def join(self):
        self.over.set()
        for thread in self.threads:
            thread.join(60 * SLOWNESS)
            need(not thread.is_alive(), "a client still waits")


@case
def sigterm_at_random_moments():
    rounds = int(os.environ.get("PAWL_SIGTERMS", "10"))
    seed = int(os.environ.get("PAWL_SEED", time.time()))
    random.seed(seed)
    print(f"    {rounds} rounds, PAWL_SEED={seed}")
    told = refused = 0
    for n in range(rounds):
        drain = random.choice((0, 1, 20))
        with Server({"replay": SCRIPT}, "--drain-seconds", str(drain), "--sequences", "3") as server:
            load = Load(server)
            time.sleep(random.uniform(0, 0.5 * SLOWNESS))
            server.stop(within=30)
            load.join()
            equal(load.faults, [], f"round {n}, drain {drain}: requests without an answer")
            server.start()
            for response in load.told:
                equal(server.http("GET", f"/v1/responses/{response['id']}").json(), response, "a response that was told")
                one_of(response["status"], ("completed", "cancelled"), "status")
            told += len(load.told)
            refused += load.refused
    print(f"    {told} responses were told, {refused} requests refused")


if __name__ == "__main__":
    main()
