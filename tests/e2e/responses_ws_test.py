"""/v1/responses over WebSocket: turns, memory of the connection, cancel, warm-up.

SPDX-License-Identifier: Apache-2.0
"""
import json
import time

from common import (
    BINARY, PING, PONG, SLOWNESS, TEXT, Server, WebSocket, WebSocketError, ask, case, check_error, check_stream, equal, need, receive, refused,
    run_against, send, text_of)

server = Server({"replay": {"context": 4096, "replies": [
    {"when": "greet", "text": "Hello there."},
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"text": "Yes."},
]}})


@case
def turns_over_one_socket():
    with server.connect() as ws:
        one = ask(ws, input="greet me")
        two = ask(ws, input="And again.", previous_response_id=one["id"])
        three = ask(ws, input="And again.", previous_response_id=two["id"])
        fork = ask(ws, input="Something else.", previous_response_id=one["id"])
    sizes = [r["usage"]["input_tokens"] for r in (one, two, three)]
    need(sizes[0] < sizes[1] < sizes[2], f"input tokens {sizes}")
    equal([r["previous_response_id"] for r in (one, two, three, fork)], [None, one["id"], two["id"], one["id"]], "parents")
    need(two["usage"]["input_tokens_details"]["cached_tokens"] > 0, "nothing was cached")


@case
def the_same_over_another_socket():
    with server.connect() as ws:
        one = ask(ws, input="greet me")
    with server.connect() as ws:
        equal(ask(ws, input="Go on.", previous_response_id=one["id"])["previous_response_id"], one["id"], "parent")


@case
def store_false_lives_as_long_as_its_socket():
    with server.connect() as ws:
        one = ask(ws, input="greet me", store=False)
        two = ask(ws, input="Go on.", store=False, previous_response_id=one["id"])
        need(two["usage"]["input_tokens"] > one["usage"]["input_tokens"], "the first turn is not in the prompt")
    with server.connect() as ws:
        refused(ws, "previous_response_not_found", param="previous_response_id", input="x", store=False,
                previous_response_id=two["id"])
        ask(ws, input="A new chain works after the error.")


@case
def what_follows_an_unstored_turn_cannot_be_stored():
    with server.connect() as ws:
        one = ask(ws, input="greet me", store=False)
        error = refused(ws, "invalid_value", param="store", input="Keep this.", previous_response_id=one["id"])
        need("store" in error["message"], f"message {error['message']!r}")


@case
def a_failed_continuation_evicts_its_parent_from_the_lane():
    with server.connect() as ws:
        one = ask(ws, input="greet me", store=False)
        refused(ws, "invalid_value", input="x", store=False, previous_response_id=one["id"], temperature=9)
        refused(ws, "previous_response_not_found", input="x", store=False, previous_response_id=one["id"])
        kept = ask(ws, input="greet me")
        refused(ws, "invalid_value", input="x", previous_response_id=kept["id"], temperature=9)
        ask(ws, input="A stored one survives in the store.", previous_response_id=kept["id"])


@case
def warm_up_computes_and_writes_nothing():
    with server.connect() as ws:
        send(ws, instructions="You are terse. " * 20, generate=False)
        events = receive(ws)
        warm = check_stream(events, terminal="response.completed")
        equal([e["type"] for e in events], ["response.created", "response.in_progress", "response.completed"], "events")
        equal((warm["output"], warm["usage"]["output_tokens"]), ([], 0), "output")
        send(ws, instructions="You are terse. " * 20, input="greet me", previous_response_id=warm["id"])
        used = check_stream(receive(ws))["usage"]
        need(used["input_tokens_details"]["cached_tokens"] > 200, f"the warm-up was not used: {used}")


@case
def a_cancel_ends_the_response():
    for by_id in (True, False):
        with server.connect() as ws:
            send(ws, input="endless")
            events = receive(ws, ("response.output_text.delta",))
            ws.send(json.dumps({"type": "response.cancel", **({"response_id": events[0]["response"]["id"]} if by_id else {})}))
            events += receive(ws)
            equal(events[-1]["type"], "response.incomplete", "terminal event")
            equal(events[-1]["response"]["status"], "cancelled", "status")
            equal([e["sequence_number"] for e in events], list(range(len(events))), "numbers")
            refused(ws, "previous_response_not_found", input="x", previous_response_id=events[0]["response"]["id"])
            ask(ws, input="greet me")


@case
def a_cancel_of_nothing_is_harmless():
    with server.connect() as ws:
        ws.send(json.dumps({"type": "response.cancel", "response_id": "resp_nothing"}))
        send(ws, input="greet me")
        events = receive(ws)
        if events[-1]["type"] == "error":
            events = receive(ws)
        check_stream(events)


@case
def request_errors_keep_the_socket():
    with server.connect() as ws:
        for text, code in (("{", "invalid_json"), ("[]", "invalid_json"), ('"x"', "invalid_json"), ("", "invalid_json"),
                           ("{}", "missing_required_parameter"), ('{"type": "response.frobnicate"}', "invalid_value"),
                           ('{"type": 7}', "invalid_type")):
            ws.send(text)
            check_error(receive(ws)[-1], code)
        ask(ws, input="greet me")


@case
def steering_is_refused_and_not_ignored():
    with server.connect() as ws:
        one = ask(ws, input="greet me")
        ws.send(json.dumps({"type": "response.steer", "previous_response_id": one["id"], "input": "x"}))
        event = receive(ws, ("response.steer.failed", "error"))[-1]
        need("steer" in json.dumps(event), f"answer {event}")
        ask(ws, input="greet me")


@case
def frames_in_pieces_and_pings_between():
    with server.connect() as ws:
        text = json.dumps({"type": "response.create", "model": "replay", "input": "greet me"}).encode()
        ws.send_frame(TEXT, text[:10], final=False)
        ws.send_frame(PING, b"abc")
        ws.send_frame(0, text[10:20], final=False)
        ws.send_frame(0, text[20:])
        got = []
        while not got or got[-1]["type"] != "response.completed":
            opcode, payload, _ = ws.recv_frame()
            if opcode == TEXT:
                got.append(json.loads(payload))
            else:
                equal((opcode, payload), (PONG, b"abc"), "answer to the ping")
        equal(text_of(check_stream(got)), "Hello there.", "text")


@case
def pongs_come_while_the_engine_works():
    with server.connect() as ws:
        send(ws, input="endless", max_output_tokens=400, store=False)
        receive(ws, ("response.output_text.delta",))
        began = time.monotonic()
        ws.send_frame(PING, b"now")
        while ws.recv_frame()[0] != PONG:
            pass
        took = time.monotonic() - began
        need(took < 1 * SLOWNESS, f"the pong took {took:.2f} s")


@case
def binary_frames_are_taken_or_refused_cleanly():
    with server.connect() as ws:
        ws.send_frame(BINARY, json.dumps({"type": "response.create", "model": "replay", "input": "greet me"}).encode())
        try:
            need(receive(ws)[-1]["type"] in ("response.completed", "error"), "answer")
        except WebSocketError as closed:
            equal(closed.code, 1003, "close code")


@case
def the_handshake_takes_what_clients_send():
    with server.connect(Authorization="Bearer any", **{"OpenAI-Beta": "responses_websockets=2026-02-06"}) as ws:
        ask(ws, input="greet me")
    for address in ("/responses", "/v1/responses?a=b"):
        with WebSocket(f"ws://{server.address}{address}") as ws:
            ask(ws, input="greet me")


@case
def a_clean_close():
    ws = server.connect()
    ask(ws, input="greet me")
    ws.send_frame(8, (1000).to_bytes(2, "big"))
    opcode, payload, _ = ws.recv_frame()
    equal((opcode, int.from_bytes(payload[:2], "big")), (8, 1000), "answer to the close")
    ws.abort()


if __name__ == "__main__":
    run_against(server)
