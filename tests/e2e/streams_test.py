"""Streams that resume: clients that go and come back, on every transport and at any event.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import threading
import time

from common import (
    Server, ask, case, check_error, check_stream, equal, need, receive, run_against, send, strict_response,
    text_of)
from resuming import SCRIPT, TOOL, Stream, again, create, ended, gauge, get, nothing_runs, refused, until, use

server = use(Server({"replay": SCRIPT}, "--detach-seconds", "30"))

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
    for word in ("True", "1", ""):
        refused(f"/v1/responses/{done['id']}?stream={word}", 400, "invalid_value", "stream")
    equal(server.http("GET", f"/v1/responses/{done['id']}?stream=false").json(), done, "without a stream")
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
                # An event is counted before room is made for it, so one looks when none is coming.
                if n % 112 == 111:
                    peak = max(peak, gauge("pawl_event_log_bytes", small))
            receive_ends(ws, 1000 % 16)
        need(1 << 19 < peak <= 1 << 20, f"the events took {peak} bytes")
        need(gauge("pawl_event_logs", small) < 1000, "nothing was let go")
        equal(small.stream(input="hello")[-1]["type"], "response.completed", "the next one")


@case
def nothing_is_left():
    nothing_runs()


if __name__ == "__main__":
    run_against(server)
