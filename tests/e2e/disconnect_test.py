"""Clients that go away: what they asked for must not be in anybody's way.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import time

from common import SLOWNESS, Server, case, equal, need, receive, run_against, send, text_of

# One sequence at a time and 2000 tokens of 5 ms each: an abandoned response would
# hold the engine for ten seconds.
server = Server({"replay": {"context": 4096, "max_sequences": 1, "replies": [
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"text": "Yes."},
]}})
PROMPT = {"input": "endless", "max_output_tokens": 2000, "store": False}


def soon():
    """The next request's answer; it may wait for a pass or two, not for the abandoned."""
    began = time.monotonic()
    equal(text_of(server.create(input="hello")), "Yes.", "reply after the abandoned ones")
    took = time.monotonic() - began
    need(took < 3 * SLOWNESS, f"the next request took {took:.1f} s")


@case
def three_abandoned_sockets_delay_nobody():
    sockets = [server.connect() for _ in range(3)]
    for ws in sockets:
        send(ws, **PROMPT)
    receive(sockets[0], ("response.output_text.delta",))
    for ws in sockets:
        ws.abort()
    soon()


@case
def three_abandoned_streams_delay_nobody():
    connections = []
    for _ in range(3):
        connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        connection.request("POST", "/v1/responses", json.dumps({"model": "replay", "stream": True, **PROMPT}),
                           {"Content-Type": "application/json"})
        connections.append(connection)
    connections[0].getresponse().read(2000)
    for connection in connections:
        connection.close()
    soon()


@case
def abandoned_plain_requests_delay_nobody():
    for _ in range(3):
        connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        connection.request("POST", "/v1/responses", json.dumps({"model": "replay", **PROMPT}),
                           {"Content-Type": "application/json"})
        time.sleep(0.1)
        connection.close()
    soon()


@case
def a_clean_close_in_the_middle_is_the_same():
    ws = server.connect()
    send(ws, **PROMPT)
    receive(ws, ("response.output_text.delta",))
    ws.close()
    soon()


@case
def whoever_does_not_read_stops_only_himself():
    slow = server.connect()
    for _ in range(40):  # without reading: many megabytes of events
        send(slow, input="x" * 3000, store=False)
    soon()
    slow.abort()
    soon()


@case
def connections_that_come_and_go():
    for _ in range(200):
        server.connect().abort()
    for _ in range(50):
        http.client.HTTPConnection(server.host, server.port).connect()
    soon()


if __name__ == "__main__":
    run_against(server)
