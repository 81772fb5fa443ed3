"""An engine that fails: the response fails, the next one does not.

SPDX-License-Identifier: Apache-2.0
"""
from common import Server, ask, case, check_stream, equal, main, need, receive, send, text_of

REPLIES = [
    {"when": "break at once", "text": "never", "fail_at": 1},
    {"when": "break later", "text": "This will break.", "fail_at": 6},
    {"when": "out of memory", "text": "This will break.", "fail_at": 3, "fail_status": "memory"},
    {"when": "slow", "text": "0123456789" * 3, "delay_ms": 10},
    {"text": "Yes."},
]


def failed(events):
    """The order before the failure is the usual one, the end is response.failed."""
    final = events[-1]["response"]
    equal([e["sequence_number"] for e in events], list(range(len(events))), "sequence numbers")
    equal((events[-1]["type"], final["status"]), ("response.failed", "failed"), "end")
    equal(final["error"]["code"], "server_error", "code")
    need(final["error"]["message"] and final["usage"], "message or usage is missing")
    return final


@case
def a_failing_pass_fails_its_response_only():
    with Server({"replay": {"replies": REPLIES}}) as server:
        for _ in range(3):
            failed(server.stream(input="break at once"))
            final = failed(server.stream(input="break later"))
            failed(server.stream(input="out of memory"))
            equal(text_of(server.create(input="hello")), "Yes.", "the next reply")
        again = server.create(400, input="x", previous_response_id=final["id"])
        equal(again["error"]["code"], "previous_response_not_found", "a failed response is no parent")
        plain = server.http("POST", "/v1/responses", {"model": "replay", "input": "break later"})
        equal(plain.json().get("status", plain.json().get("error", {}).get("type")) in ("failed", "server_error"), True,
              f"answer without a stream: {plain.status} {plain.body[:200]!r}")


@case
def the_others_in_the_batch_go_on():
    with Server({"replay": {"replies": REPLIES}}) as server, server.connect() as calm, server.connect() as broken:
        send(calm, input="slow")
        events = receive(calm, ("response.output_text.delta",))
        for _ in range(3):
            send(broken, input="break later")
            failed(receive(broken))
        equal(text_of(check_stream(events + receive(calm))), "0123456789" * 3, "text beside the failures")
        ask(broken, input="hello")


@case
def a_submit_that_is_refused_is_survived():
    with Server({"replay": {"replies": REPLIES, "fail_submit": 3}}) as server:
        for _ in range(10):
            reply = server.http("POST", "/v1/responses", {"model": "replay", "input": "hello"})
            need(reply.json(), "an answer")
        equal(text_of(server.create(input="hello")), "Yes.", "the reply after the failure")


@case
def state_that_cannot_be_kept_costs_time_and_nothing_else():
    for fault in ("fail_save", "fail_load"):
        with Server({"replay": {"replies": REPLIES, fault: "internal"}}) as server:
            one = server.create(input="hello")
            equal(text_of(server.create(input="more", previous_response_id=one["id"])), "Yes.", f"reply with {fault}")
            server.kill()
            server.start()
            equal(text_of(server.create(input="more", previous_response_id=one["id"])), "Yes.", f"{fault}, after a restart")


@case
def more_work_than_memory_waits_its_turn():
    with Server({"replay": {"replies": REPLIES, "max_sequences": 2, "pages": 40, "page_tokens": 16}}) as server:
        sockets = [server.connect() for _ in range(12)]
        for ws in sockets:
            send(ws, input="slow")
        for ws in sockets:
            equal(text_of(check_stream(receive(ws))), "0123456789" * 3, "text")
            ws.close()


if __name__ == "__main__":
    main()
