"""Lanes: many responses on one socket, told apart by stream_id.

SPDX-License-Identifier: Apache-2.0
"""
import json

from common import (
    ENDS, Server, ask, case, check_error, check_stream, equal, need, receive, receive_lanes, refused, run_against, send,
    text_of)

server = Server({"replay": {"context": 4096, "max_sequences": 32, "replies": [
    {"when": "slow", "text": "0123456789" * 3, "delay_ms": 10},
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 10},
    {"text": "Yes."},
]}})



@case
def lanes_run_side_by_side():
    with server.connect() as ws:
        for lane in ("planner", "research"):
            send(ws, input="slow", stream_id=lane, store=False)
        send(ws, input="slow", store=False)
        got = receive_lanes(ws, ("planner", "research", ""))
        for lane in ("planner", "research", ""):
            final = check_stream(got[lane], lane=lane or None)
            equal(text_of(final), "0123456789" * 3, f"text of {lane!r}")
        # Overlap: every lane has begun to write before any lane has ended.
        order = [(e["type"], e.get("stream_id", "")) for e in got["all"]]
        first_end = next(i for i, (kind, _) in enumerate(order) if kind in ENDS)
        begun = {lane for kind, lane in order[:first_end] if kind == "response.output_text.delta"}
        equal(begun, {"planner", "research", ""}, "lanes that wrote before the first ended")


@case
def a_lane_keeps_its_order():
    with server.connect() as ws:
        for n in range(4):
            send(ws, input=f"slow {n}", stream_id="a", store=False)
        events = []
        for _ in range(4):
            events.append(receive(ws))
            check_stream(events[-1], lane="a")
        equal(len({e[0]["response"]["id"] for e in events}), 4, "distinct responses")


@case
def a_lane_forks_while_its_parent_goes_on():
    with server.connect() as ws:
        parent = ask(ws, input="Plan.", stream_id="planner", store=False)
        send(ws, input="slow", stream_id="critic", store=False, previous_response_id=parent["id"])
        got = {"critic": receive(ws, ("response.in_progress",))}
        send(ws, input="slow", stream_id="planner", store=False, previous_response_id=parent["id"])
        receive_lanes(ws, ("critic", "planner"), got)
        for lane in ("critic", "planner"):
            equal(check_stream(got[lane], lane=lane)["previous_response_id"], parent["id"], f"parent of {lane}")


@case
def a_fork_that_fails_leaves_the_parent():
    with server.connect() as ws:
        parent = ask(ws, input="Plan.", stream_id="a", store=False)
        refused(ws, "invalid_value", input="x", stream_id="b", store=False, temperature=9, previous_response_id=parent["id"])
        ask(ws, input="Go on.", stream_id="a", store=False, previous_response_id=parent["id"])


@case
def errors_name_their_lane():
    with server.connect() as ws:
        refused(ws, "model_not_found", 404, "model", input="x", model="none", stream_id="a")
        refused(ws, "previous_response_not_found", param="previous_response_id", input="x", previous_response_id="resp_x",
                stream_id="a")
        for bad in ("", "a b", "x" * 257, "ü"):
            send(ws, input="x", stream_id=bad)
            equal(receive(ws)[-1]["status"], 400, f"status for the lane {bad[:5]!r}")
        send(ws, input="x", stream_id=7)
        equal(receive(ws)[-1]["status"], 400, "status for a number as lane")
        ask(ws, input="x", stream_id="A-z_0.9" + "x" * 249)


@case
def there_are_32_lanes_and_the_default_one():
    with server.connect() as ws:
        for n in range(32):
            ask(ws, input="x", stream_id=f"lane-{n}", store=False)
        refused(ws, "websocket_stream_limit_reached", input="x", stream_id="lane-32")
        ask(ws, input="x", stream_id="lane-31", store=False)
        ask(ws, input="The default lane is not counted.")


@case
def the_queue_of_a_connection_has_an_end():
    with server.connect() as ws:
        for n in range(16):
            send(ws, input="endless", stream_id=f"lane-{n}", store=False)
        for n in range(64 + 16):
            send(ws, input="x", stream_id=f"lane-{n % 16}", store=False)
        event = receive(ws, ("error",))[-1]
        check_error(event, "rate_limit_exceeded", 429, lane=event.get("stream_id"))
        need(event.get("stream_id"), "the error names no lane")
    with server.connect() as ws:
        ask(ws, input="The server goes on.")


@case
def a_cancel_by_lane_leaves_the_others():
    with server.connect() as ws:
        send(ws, input="endless", stream_id="a", store=False)
        got = {"a": receive(ws, ("response.output_text.delta",))}
        send(ws, input="slow", stream_id="b", store=False)
        ws.send(json.dumps({"type": "response.cancel", "stream_id": "a"}))
        receive_lanes(ws, ("a", "b"), got)
        equal(got["a"][-1]["response"]["status"], "cancelled", "status of the cancelled lane")
        equal(text_of(check_stream(got["b"], lane="b")), "0123456789" * 3, "text of the other")


if __name__ == "__main__":
    run_against(server)
