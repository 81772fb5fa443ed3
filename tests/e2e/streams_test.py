"""Streams that resume: clients that go and come back, background responses, keys against doing things twice.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import threading
import time

import exposition
from common import (
    SLOWNESS, Server, ask, case, check_error, check_stream, equal, events_of, need, one_of, pause, receive,
    run_against, send, strict_response, text_of)

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
SCRIPT = {"context": 4096, "max_sequences": 16, "replies": [
    {"when": "weather", "text": "<think>\nWhere is it?\n</think>\n\nI will look.\n" + CALL, "delay_ms": 1},
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"when": "flood", "text": "0123456789", "end": "none"},
    {"when": "slowly", "text": "It takes a while to say all of this.", "delay_ms": 20},
    {"when": "at length", "text": "word " * 400},
    {"when": "break", "text": "abc", "fail_at": 2},
    {"text": "Yes, all is well."},
]}
server = Server({"replay": SCRIPT}, "--detach-seconds", "30")


def scrape(of=None):
    return exposition.parse((of or server).http("GET", "/metrics").body)


def gauge(name, of=None):
    return sum(value for (got, _), value in scrape(of).items() if got == name)


def until(what, condition, seconds=20):
    end = time.monotonic() + seconds * SLOWNESS
    while not (got := condition()):
        need(time.monotonic() < end, f"{what} did not come")
        time.sleep(0.02)
    return got


class Stream:
    """An event stream that its client can leave at any event."""

    def __init__(self, method, path, body=None, of=None, **headers):
        self.server = of or server
        self.connection = http.client.HTTPConnection(self.server.host, int(self.server.port), timeout=60 * SLOWNESS)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            body, headers["Content-Type"] = json.dumps(body), "application/json"
        self.connection.request(method, path, body, headers)
        self.reply = self.connection.getresponse()
        self.status = self.reply.status

    def next(self):
        """The next event; None at the end of the stream."""
        while (line := self.reply.readline()):
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        return None

    def take(self, n):
        return [self.next() for _ in range(n)]

    def rest(self):
        events = list(iter(self.next, None))
        self.leave()
        return events

    def leave(self):
        self.reply.close()
        self.connection.close()


def create(of=None, headers={}, **request):
    stream = Stream("POST", "/v1/responses", {"model": "replay", "stream": True, **request}, of, **headers)
    equal(stream.status, 200, "status of a stream")
    return stream


def again(response_id, after=None, of=None):
    query = "" if after is None else f"&starting_after={after}"
    stream = Stream("GET", f"/v1/responses/{response_id}?stream=true{query}", of=of)
    equal(stream.status, 200, f"status of {response_id} again, after {after}")
    equal(stream.reply.headers["content-type"], "text/event-stream; charset=utf-8", "content type")
    return stream


def get(response_id, of=None, expect=200):
    reply = (of or server).http("GET", f"/v1/responses/{response_id}")
    equal(reply.status, expect, f"status ({reply.body[:200]!r})")
    return reply.json()


def refused(path, status, code, param=None, of=None, method="GET", **headers):
    reply = (of or server).http(method, path, **headers)
    equal(reply.status, status, f"status ({reply.body[:200]!r})")
    error = reply.json()["error"]
    equal(error["code"], code, f"code ({error['message']})")
    equal(error["param"], param, "param")
    return error


def ended(response_id, of=None):
    return until("its end", lambda: (got := get(response_id, of))["status"] not in ("queued", "in_progress") and got)


# ------------------------------------------------------------------ reading again


@case
def after_the_end_all_of_it_comes_again():
    for request in ({"input": "hello"}, {"input": "weather", "tools": [TOOL]}, {"input": "break"},
                    {"input": "hello", "include": ["message.output_text.logprobs"], "top_logprobs": 2},
                    {"input": "at length", "max_output_tokens": 20}, {"instructions": "x", "generate": False}):
        events = server.stream(**request)
        one = again(events[0]["response"]["id"]).rest()
        equal(one, events, f"the events of {request} again")


@case
def from_every_event_the_rest_comes():
    events = server.stream(input="weather", tools=[TOOL])
    equal([e["sequence_number"] for e in events], list(range(len(events))), "numbers")
    for at in range(len(events)):
        equal(again(events[0]["response"]["id"], at).rest(), events[at + 1:], f"what comes after {at}")


@case
def whoever_leaves_at_any_event_misses_nothing():
    undisturbed = check_stream(server.stream(input="weather", tools=[TOOL]))
    shape = [e["type"] for e in server.stream(input="weather", tools=[TOOL])]
    for at in range(1, len(shape)):
        stream = create(input="weather", tools=[TOOL])
        events = stream.take(at)
        stream.leave()
        events += again(events[0]["response"]["id"], events[-1]["sequence_number"]).rest()
        equal([e["type"] for e in events], shape, f"what came, in two parts at {at}")
        equal([e["sequence_number"] for e in events], list(range(len(shape))), "numbers")
        final = check_stream(events)
        equal([i.get("arguments") or i["content"][0]["text"] for i in final["output"]],
              [i.get("arguments") or i["content"][0]["text"] for i in undisturbed["output"]], "output")


@case
def leaving_again_and_again():
    whole = [e["type"] for e in server.stream(input="slowly")]
    stream = create(input="slowly")
    events = stream.take(1)
    while events[-1]["type"] != "response.completed":
        stream.leave()
        stream = again(events[0]["response"]["id"], events[-1]["sequence_number"])
        events += [e for e in stream.take(3) if e]
    stream.leave()
    equal([e["type"] for e in events], whole, "events")
    equal([e["sequence_number"] for e in events], list(range(len(whole))), "numbers")


@case
def several_read_at_once():
    first = create(input="slowly")
    created = first.take(1)
    readers = [again(created[0]["response"]["id"]) for _ in range(5)]
    got = [None] * 5
    threads = [threading.Thread(target=lambda i=i: got.__setitem__(i, readers[i].rest())) for i in range(5)]
    for thread in threads:
        thread.start()
    whole = created + first.rest()
    for thread in threads:
        thread.join()
    for one in got:
        equal(one, whole, "what a reader got")


@case
def while_it_runs_it_can_be_looked_at():
    stream = create(input="slowly", metadata={"a": "b"})
    created = stream.next()["response"]
    stream.next()
    now = get(created["id"])
    strict_response(now)
    equal(now, created, "the response while it runs")
    final = stream.rest()[-1]["response"]
    equal(get(created["id"]), final, "the response afterwards")


@case
def what_cannot_be_read_is_refused_by_name():
    done = server.create(input="hello")
    path = f"/v1/responses/{done['id']}?stream=true"
    last = again(done["id"]).rest()[-1]["sequence_number"]
    equal(again(done["id"], last).rest(), [], "what comes after the last event")
    for word in ("", "x", "-1", "1.5", "99999999999999999999", "1x"):
        refused(f"{path}&starting_after={word}", 400, "invalid_value", "starting_after")
    need("GET" in refused(f"{path}&starting_after={last + 1}", 409, "cursor_expired", "starting_after")["message"],
         "what can be done instead")
    refused("/v1/responses/resp_nope?stream=true", 404, None)
    gone = server.create(input="hello", store=False)
    refused(f"/v1/responses/{gone['id']}?stream=true", 404, None)
    equal(server.http("DELETE", f"/v1/responses/{done['id']}").status, 200, "DELETE")
    refused(path, 404, None)


@case
def what_runs_is_not_deleted():
    stream = create(input="endless", max_output_tokens=300)
    response_id = stream.next()["response"]["id"]
    refused(f"/v1/responses/{response_id}", 409, "response_in_progress", method="DELETE")
    final = stream.rest()[-1]["response"]
    equal(final["status"], "incomplete", "status")
    equal(server.http("DELETE", f"/v1/responses/{response_id}").status, 200, "DELETE afterwards")


@case
def a_reader_that_is_slow_misses_nothing():
    done = server.create(input="flood", max_output_tokens=3900)
    whole = again(done["id"]).rest()
    slow = again(done["id"])
    got = []
    for n in range(0, 40):
        got += slow.take(5)
        time.sleep(0.005)
    equal(got + slow.rest(), whole, "what the slow one got")
    need(len(whole) > 3900, "events")


@case
def a_log_that_is_full_keeps_the_end():
    with Server({"replay": SCRIPT}, "--events-kb", "16") as small:
        done = small.create(input="at length", max_output_tokens=1500)
        refused(f"/v1/responses/{done['id']}?stream=true", 409, "cursor_expired", "starting_after", small)
        whole = server.stream(input="at length", max_output_tokens=1500)
        last = whole[-1]["sequence_number"]
        rest = again(done["id"], last - 20, small).rest()
        equal([(e["type"], e["sequence_number"]) for e in rest], [(e["type"], e["sequence_number"]) for e in whole[-20:]],
              "the last events")
        equal(rest[-1]["response"], get(done["id"], small), "the closing response")


@case
def events_are_kept_for_a_while():
    with Server({"replay": SCRIPT}, "--events-seconds", "1") as short:
        done = short.create(input="hello")
        until("the end of the window", lambda: gauge("pawl_event_logs", short) == 0)
        need("GET" in refused(f"/v1/responses/{done['id']}?stream=true&starting_after=2", 409, "cursor_expired",
                              "starting_after", short)["message"], "what can be done instead")
        equal(get(done["id"], short), done, "the response itself")
        equal(gauge("pawl_event_log_bytes", short), 0, "bytes of events that nobody keeps")


# ---------------------------------------------------------------------- sockets


def retrieve(ws, response_id, after=None, **more):
    message = {"type": "response.retrieve", "response_id": response_id, **more}
    ws.send(json.dumps(message if after is None else {**message, "starting_after": after}))


@case
def a_socket_that_broke_is_followed_by_another():
    for lane in (None, "a"):
        first = server.connect()
        send(first, input="slowly", **({"stream_id": lane} if lane else {}))
        events = receive(first, ("response.output_text.delta",))
        first.abort()
        with server.connect() as second:
            retrieve(second, events[0]["response"]["id"], events[-1]["sequence_number"], stream_id="b")
            rest = receive(second)
            equal({e.get("stream_id") for e in rest}, {"b"}, "lane of the second socket")
            for event in events + rest:
                event.pop("stream_id", None)
            final = check_stream(events + rest)
            equal(text_of(final), SCRIPT["replies"][3]["text"], "text")
            equal(text_of(ask(second, input="hello", previous_response_id=final["id"])), SCRIPT["replies"][-1]["text"],
                  "the next turn")
            retrieve(second, final["id"])
            equal(receive(second), events + rest, "all of it again")


@case
def sockets_refuse_by_name():
    done = server.create(input="hello")
    with server.connect() as ws:
        for message, status, code, param in (
                ({}, 400, "missing_required_parameter", "response_id"),
                ({"response_id": 7}, 400, "invalid_type", "response_id"),
                ({"response_id": done["id"], "starting_after": "x"}, 400, "invalid_type", "starting_after"),
                ({"response_id": done["id"], "starting_after": -1}, 400, "invalid_value", "starting_after"),
                ({"response_id": done["id"], "starting_after": 1000}, 409, "cursor_expired", "starting_after"),
                ({"response_id": "resp_nope"}, 404, "response_not_found", "response_id")):
            ws.send(json.dumps({"type": "response.retrieve", "stream_id": "x", **message}))
            check_error(receive(ws)[-1], code, status, param, "x")
        equal(text_of(ask(ws, input="hello")), SCRIPT["replies"][-1]["text"], "the socket afterwards")


@case
def lanes_go_on_beside_one_that_reads():
    done = server.create(input="flood", max_output_tokens=2000)
    with server.connect() as ws:
        retrieve(ws, done["id"], stream_id="old")
        send(ws, input="hello", stream_id="new")
        ends = [e for e in receive_ends(ws, 2)]
        equal({e["stream_id"] for e in ends}, {"old", "new"}, "lanes that ended")


def receive_ends(ws, n):
    ends = []
    while len(ends) < n:
        ends.append(receive(ws)[-1])
    return ends


@case
def a_socket_at_the_end_of_its_life_leaves_what_runs():
    with Server({"replay": SCRIPT}, "--socket-seconds", "1") as brief:
        ws = brief.connect()
        send(ws, input="slowly")
        created = receive(ws, ("response.created",))[0]["response"]
        equal(ended(created["id"], brief)["status"], "completed", "status")
        ws.abort()


# ------------------------------------------------------------- who goes, who stays


@case
def nobody_comes_back_in_time():
    with Server({"replay": SCRIPT}, "--detach-seconds", "1") as impatient:
        stream = create(impatient, input="endless", max_output_tokens=3000)
        response_id = stream.take(5)[0]["response"]["id"]
        stream.leave()
        until("a detached response", lambda: gauge("pawl_responses_detached", impatient) == 1)
        until("its end", lambda: gauge("pawl_detached_cancelled_total", impatient) == 1 and
              gauge("pawl_event_logs_running", impatient) == 0)
        final = get(response_id, impatient)
        equal(final["status"], "cancelled", "status")
        need(len(text_of(final)) > 5, "what it has is not stored")
        rest = again(response_id, 4, impatient).rest()
        equal(rest[-1]["type"], "response.incomplete", "how a re-read ends")
        equal(rest[-1]["response"], final, "the closing response")


@case
def who_comes_back_stops_the_clock():
    with Server({"replay": SCRIPT}, "--detach-seconds", "1") as impatient:
        stream = create(impatient, input="endless", max_output_tokens=400)  # two seconds
        events = stream.take(5)
        stream.leave()
        events += again(events[0]["response"]["id"], 4, impatient).rest()
        equal(check_stream(events)["status"], "incomplete", "status")
        equal(events[-1]["response"]["incomplete_details"], {"reason": "max_output_tokens"}, "why it ended")
        # So does looking, as long as it is done often enough.
        stream = create(impatient, input="endless", max_output_tokens=400)
        response_id = stream.next()["response"]["id"]
        stream.leave()
        equal(ended(response_id, impatient)["status"], "incomplete", "status of one that was looked at")


@case
def plain_requests_and_sockets_are_detached_too():
    before = gauge("pawl_detached_total")
    connection = http.client.HTTPConnection(server.host, int(server.port), timeout=60)
    connection.request("POST", "/v1/responses", json.dumps({"model": "replay", "input": "slowly"}),
                       {"Content-Type": "application/json"})
    until("a turn", lambda: gauge("pawl_num_requests_running") > 0)
    connection.close()
    until("a detached response", lambda: gauge("pawl_detached_total") == before + 1)
    ws = server.connect()
    send(ws, input="slowly")
    response_id = receive(ws, ("response.created",))[0]["response"]["id"]
    ws.close()
    equal(ended(response_id)["status"], "completed", "status")
    equal(gauge("pawl_detached_total"), before + 2, "detached")


def cancelled_at_once(open_it, of=None):
    """Whoever is left by its client must be gone within a moment."""
    before = gauge("pawl_request_success_total", of)
    stream = open_it()
    stream.take(3)
    stream.leave()
    until("its end", lambda: gauge("pawl_request_success_total", of) > before, 5)


@case
def unstored_ones_end_with_their_client():
    endless = {"input": "endless", "max_output_tokens": 3000}
    chat = {"model": "replay", "stream": True, "messages": [{"role": "user", "content": "endless"}]}
    detached = gauge("pawl_detached_total")
    cancelled_at_once(lambda: create(**endless, store=False))
    cancelled_at_once(lambda: create(**endless, store=False, disconnect="cancel"))
    cancelled_at_once(lambda: create(**endless, disconnect="cancel"))
    cancelled_at_once(lambda: Stream("POST", "/v1/chat/completions", chat))
    cancelled_at_once(lambda: Stream("POST", "/v1/chat/completions", {**chat, "disconnect": "cancel"}))
    equal(gauge("pawl_detached_total"), detached, "detached")


@case
def one_that_is_cancelled_can_still_be_read():
    stream = create(input="endless", max_output_tokens=3000, disconnect="cancel")
    events = stream.take(5)
    stream.leave()
    equal(ended(events[0]["response"]["id"])["status"], "cancelled", "status")
    rest = again(events[0]["response"]["id"], 4).rest()
    equal(rest[-1]["response"]["status"], "cancelled", "how it ended")
    check_numbers(events + rest)


def check_numbers(events):
    equal([e["sequence_number"] for e in events], list(range(len(events))), "numbers")


@case
def no_time_at_all_means_cancel():
    with Server({"replay": SCRIPT}, "--detach-seconds", "0") as strict_one:
        cancelled_at_once(lambda: create(strict_one, input="endless", max_output_tokens=3000), strict_one)


@case
def a_stopping_server_ends_what_is_detached():
    with Server({"replay": SCRIPT}) as brief:
        stream = create(brief, input="endless", max_output_tokens=4000)
        response_id = stream.next()["response"]["id"]
        stream.leave()
        until("a detached response", lambda: gauge("pawl_responses_detached", brief) == 1)
        brief.stop(within=8)
        brief.start()
        equal(get(response_id, brief)["status"], "cancelled", "status after the restart")


# -------------------------------------------------------------------- background


def sdk(of=None):
    import openai
    return openai.OpenAI(base_url=(of or server).base_url, api_key="any", max_retries=0, timeout=60 * SLOWNESS)


@case
def the_sdk_asks_in_the_background():
    client = sdk()
    got = client.responses.create(model="replay", input="slowly", background=True, metadata={"a": "b"})
    equal((got.status, got.background, got.metadata, got.output), ("queued", True, {"a": "b"}, []), "what comes at once")
    states = {got.status}
    while got.status in ("queued", "in_progress"):
        got = client.responses.retrieve(got.id)
        states.add(got.status)
        time.sleep(0.01)
    need("in_progress" in states, f"it was {states}")
    equal((got.status, got.output_text, got.background), ("completed", "It takes a while to say all of this.", True), "the end")
    equal(text_of(server.create(input="hello", previous_response_id=got.id)), "Yes, all is well.", "a turn that follows")


@case
def the_sdk_reads_it_again():
    client = sdk()
    events = []
    for event in client.responses.create(model="replay", input="slowly", background=True, stream=True):
        events.append(event)
        if event.sequence_number == 7:
            break
    equal([e.type for e in events[:3]], ["response.created", "response.queued", "response.in_progress"], "how it begins")
    equal([e.response.status for e in events[:3]], ["queued", "queued", "in_progress"], "states")
    events += client.responses.retrieve(events[0].response.id, stream=True, starting_after=7)
    equal([e.sequence_number for e in events], list(range(len(events))), "numbers")
    equal("".join(e.delta for e in events if e.type == "response.output_text.delta"), events[-1].response.output_text, "text")
    equal(events[-1].response.status, "completed", "status")
    equal(list(client.responses.retrieve(events[0].response.id, stream=True)), events, "all of it again")


@case
def the_sdk_cancels():
    client = sdk()
    got = client.responses.create(model="replay", input="endless", background=True, max_output_tokens=3000)
    until("a token", lambda: client.responses.retrieve(got.id).status == "in_progress")
    time.sleep(0.05)
    one = client.responses.cancel(got.id)
    equal(one.status, "cancelled", "status")
    equal(client.responses.cancel(got.id), one, "the second time")
    equal(client.responses.retrieve(got.id), one, "what is stored")
    done = client.responses.create(model="replay", input="hello", background=True)
    until("its end", lambda: client.responses.retrieve(done.id).status == "completed")
    equal(client.responses.cancel(done.id).status, "completed", "one that has ended")
    plain = server.create(input="hello")
    refused(f"/v1/responses/{plain['id']}/cancel", 400, "invalid_value", method="POST")
    refused("/v1/responses/resp_nope/cancel", 404, None, method="POST")
    stream = create(input="slowly")
    refused(f"/v1/responses/{stream.next()['response']['id']}/cancel", 400, "invalid_value", method="POST")
    stream.leave()


@case
def background_needs_nobody():
    with Server({"replay": SCRIPT}, "--detach-seconds", "1") as impatient:
        got = impatient.create(input="endless", max_output_tokens=500, background=True)
        stream = create(impatient, input="endless", max_output_tokens=500, background=True)
        other = stream.take(5)[0]["response"]["id"]
        stream.leave()
        ws = impatient.connect()
        send(ws, input="endless", max_output_tokens=500, background=True)
        third = receive(ws, ("response.queued",))[0]["response"]["id"]
        ws.abort()
        time.sleep(2)  # nobody looks
        for response_id in (got["id"], other, third):
            equal(ended(response_id, impatient)["incomplete_details"], {"reason": "max_output_tokens"}, "how it ended")
        equal(gauge("pawl_detached_total", impatient), 0, "detached")


@case
def background_over_a_socket():
    with server.connect() as ws:
        final = ask(ws, input="slowly", background=True, stream_id="a")
        equal((final["status"], final["background"]), ("completed", True), "the end")
        send(ws, input="endless", max_output_tokens=3000, background=True)
        here = receive(ws, ("response.output_text.delta",))[0]["response"]["id"]
        ws.send(json.dumps({"type": "response.cancel", "response_id": here}))
        equal(receive(ws)[-1]["response"]["status"], "cancelled", "one of this socket")
        elsewhere = server.create(input="endless", max_output_tokens=3000, background=True)["id"]
        ws.send(json.dumps({"type": "response.cancel", "response_id": elsewhere, "stream_id": "x"}))
        end = receive(ws)
        equal([(e["type"], e["response"]["status"], e["stream_id"]) for e in end],
              [("response.incomplete", "cancelled", "x")], "the closing event of one that runs elsewhere")
        whole = again(elsewhere).rest()
        equal(end[0]["sequence_number"], whole[-1]["sequence_number"], "its number")
        ws.send(json.dumps({"type": "response.cancel", "response_id": elsewhere}))
        check_error(receive(ws)[-1], "response_not_found", 400, "response_id")


@case
def background_is_refused_where_it_means_nothing():
    for more, param in (({"store": False}, "background"), ({"disconnect": "cancel"}, "disconnect")):
        equal(server.create(400, input="x", background=True, **more)["error"]["param"], param, "param")


# --------------------------------------------------------------------- kill -9


@case
def what_was_accepted_is_found_after_a_kill():
    with Server({"replay": SCRIPT}) as brief:
        done = brief.create(input="hello")
        closing = brief.stream(input="hello")[-1]["response"]
        plain = create(brief, input="endless", max_output_tokens=3000)
        told = plain.take(6)[0]["response"]["id"]
        ids = [brief.create(input="endless", max_output_tokens=3000, background=True)["id"] for _ in range(20)]
        brief.kill()
        brief.start()
        for response_id in ids:
            got = get(response_id, brief)
            strict_response(got)
            equal((got["status"], got["output"], got["error"]["code"]), ("failed", [], "server_error"), "status after the kill")
            need("stopped" in got["error"]["message"], "a reason")
            refused(f"/v1/responses/{response_id}?stream=true", 409, "cursor_expired", "starting_after", brief)
            equal(brief.http("POST", f"/v1/responses/{response_id}/cancel").json(), got, "cancelling it")
        equal(get(done["id"], brief), done, "a finished one")
        equal(get(closing["id"], brief), closing, "one whose closing event was received")
        get(told, brief, 404)
        equal(brief.create(400, input="x", previous_response_id=ids[0])["error"]["code"], "previous_response_not_found", "as a parent")
        equal(brief.http("DELETE", f"/v1/responses/{ids[0]}").status, 200, "DELETE")
        equal(gauge("pawl_event_logs", brief), 0, "logs after the start")


# ------------------------------------------------------------- twice is once


def turns(of=None):
    return gauge("pawl_request_success_total", of)


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
    import subprocess
    from common import PAWL
    with Server({"replay": SCRIPT}) as brief:
        secrets = [subprocess.run([PAWL, "key", "add", "--data", brief.data, "--name", name], capture_output=True, text=True,
                                  check=True).stdout.strip() for name in ("a", "b")]
        ids = [brief.http("POST", "/v1/responses", {"model": "replay", "input": "hello"}, Idempotency_Key="k",
                          Authorization=f"Bearer {secret}").json()["id"] for secret in secrets + secrets]
        equal((ids[0] != ids[1], ids[2:]), (True, ids[:2]), "whose answer")
        for path in (f"/v1/responses/{ids[0]}", f"/v1/responses/{ids[0]}?stream=true"):
            equal(brief.http("GET", path, Authorization=f"Bearer {secrets[1]}").status, 404, "another tenant's")
            equal(brief.http("GET", path, Authorization=f"Bearer {secrets[0]}").status, 200, "one's own")


# ------------------------------------------------------------------------- bounds


@case
def a_thousand_responses_stay_within_their_memory():
    with Server({"replay": SCRIPT}, "--events-total-mb", "1", "--events-kb", "64") as small:
        peak = 0
        with small.connect() as ws:
            for n in range(1000):
                send(ws, input="at length", max_output_tokens=40, stream_id=f"l{n % 16}")
                if n % 16 == 15:
                    receive_ends(ws, 16)
                if n % 100 == 99:
                    peak = max(peak, gauge("pawl_event_log_bytes", small))
            receive_ends(ws, 1000 % 16)
        need(1 << 19 < peak <= 1 << 20, f"the events took {peak} bytes")
        need(gauge("pawl_event_logs", small) < 1000, "nothing was let go")
        equal(small.stream(input="hello")[-1]["type"], "response.completed", "the next one")


# ------------------------------------------------------------------ nothing is left


@case
def nothing_is_left():
    until("the end of all", lambda: gauge("pawl_event_logs_running") == 0 and gauge("pawl_event_log_readers") == 0
          and gauge("pawl_num_requests_running") == 0 and gauge("pawl_num_requests_waiting") == 0
          and gauge("pawl_requests_open") == 0)


if __name__ == "__main__":
    run_against(server)
