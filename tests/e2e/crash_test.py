"""What was told to a client is on disk: restarts, kill -9, SIGTERM.

SPDX-License-Identifier: Apache-2.0
"""
import signal
import subprocess
import time

from common import (
    PAWL, Server, WebSocketError, ask, case, equal, main, need, one_of, receive, send, text_of)

SCRIPT = {"replies": [
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"text": "Yes, and a few words more."},
]}


@case
def a_chain_outlives_restarts():
    with Server({"replay": SCRIPT}) as server:
        parent, size = None, 0
        for n in range(6):
            with server.connect() as ws:
                one = ask(ws, input=f"Turn {n}.", previous_response_id=parent)
            need(one["usage"]["input_tokens"] > size, f"turn {n} has {one['usage']['input_tokens']} input tokens after {size}")
            parent, size = one["id"], one["usage"]["input_tokens"]
            server.kill() if n % 2 else server.stop()
            server.start()
            equal(server.http("GET", f"/v1/responses/{parent}").json(), one, "the response after a restart")


@case
def kill_9_while_it_writes_loses_the_running_turn_only():
    with Server({"replay": SCRIPT}) as server:
        one = server.create(input="First.")
        ws = server.connect()
        send(ws, input="endless", previous_response_id=one["id"])
        running = receive(ws, ("response.output_text.delta",))[0]["response"]["id"]
        server.kill()
        try:
            while True:
                ws.recv()
        except (OSError, WebSocketError):
            ws.abort()
        server.start()
        reply = server.http("GET", f"/v1/responses/{running}")
        if reply.status == 200:
            one_of(reply.json()["status"], ("failed", "incomplete", "cancelled"), "status of the interrupted response")
        else:
            equal(reply.status, 404, "status of the interrupted response")
        two = server.create(input="Second.", previous_response_id=one["id"])
        equal((two["status"], two["previous_response_id"]), ("completed", one["id"]), "the turn after the crash")


@case
def many_crashes_at_any_moment():
    with Server({"replay": SCRIPT}) as server:
        told = []
        for n in range(8):
            ws = server.connect()
            for i in range(n + 1):
                send(ws, input=f"Turn {n}.{i}")
            for _ in range(n):  # the last one may be anywhere between queue and disk
                told.append(receive(ws)[-1]["response"])
            server.kill()
            ws.abort()
            server.start()
        for one in told:
            equal(server.http("GET", f"/v1/responses/{one['id']}").json(), one, "a response that a client was told")


@case
def a_conversation_has_every_turn_that_was_told_once():
    with Server({"replay": SCRIPT}) as server:
        made = server.http("POST", "/v1/conversations", {}).json()["id"]
        told, asked = [], []
        for n in range(10):
            ws = server.connect()
            for i in range(n % 4 + 1):
                asked.append(f"Turn {n}.{i}")
                send(ws, input=asked[-1], conversation=made)
                if i < n % 4:  # the last one may be anywhere between queue and disk
                    told.append(receive(ws)[-1]["response"]["id"])
                elif n % 2:
                    time.sleep(0.004 * n)
            server.kill()
            ws.abort()
            server.start()
        seen = [item for item in server.http("GET", f"/v1/conversations/{made}/items?limit=100&order=asc").json()["data"]]
        users = [item["content"][0]["text"] for item in seen if item["role"] == "user"]
        equal([text for text in asked if text in users], users, "turns in the order they were asked, none twice")
        for one in told:
            items = server.http("GET", f"/v1/responses/{one}/input_items").json()["data"]
            equal([items[0]["id"] in {i["id"] for i in seen}, len(items)], [True, 1], "a turn that a client was told")
        equal([i["role"] for i in seen], ["user", "assistant"] * len(users), "each with its answer")
        last = server.create(input="Last.", conversation=made)
        need(last["usage"]["input_tokens"] > 40 * len(users), "the turn after the crashes sees all of them")


@case
def sigterm_ends_everything_in_peace():
    for how in (signal.SIGTERM, signal.SIGINT):
        with Server({"replay": SCRIPT}) as server:
            idle = server.connect()
            busy = server.connect()
            send(busy, input="endless")
            receive(busy, ("response.output_text.delta",))
            server.stop(how)
            for ws in (idle, busy):
                try:
                    while True:
                        ws.recv()
                except WebSocketError as closed:
                    equal(closed.code, 1001, "close code at shutdown")
                ws.abort()
            server.start()


@case
def one_data_folder_has_one_server():
    with Server({"replay": SCRIPT}) as server:
        second = subprocess.run(server.command, capture_output=True, text=True, timeout=60, env=server.environment)
        equal(second.returncode, 1, f"exit status ({second.stderr[-300:]})")
        need(str(server.data) in second.stderr, f"message {second.stderr[-300:]!r}")
        server.create(input="The first goes on.")


@case
def a_port_that_is_taken_is_named():
    with Server({"replay": SCRIPT}) as server:
        other = [str(a) for a in server.command]
        other[other.index("127.0.0.1:0")] = server.address
        other[other.index(str(server.data))] = str(server.folder / "other")
        second = subprocess.run(other, capture_output=True, text=True, timeout=60, env=server.environment)
        equal(second.returncode, 1, f"exit status ({second.stderr[-300:]})")
        need(server.port in second.stderr, f"message {second.stderr[-300:]!r}")


@case
def a_call_that_is_wrong_is_told_how_it_goes():
    for arguments in (["serve", "--nonsense"], ["serve", "--listen"], ["serve", "--listen", "127.0.0.1:99999"], ["nonsense"]):
        got = subprocess.run([PAWL, *arguments], capture_output=True, text=True, timeout=60)
        equal(got.returncode, 2, f"exit status of {arguments} ({got.stderr[-200:]})")
        need(got.stderr, f"no message for {arguments}")


if __name__ == "__main__":
    main()
