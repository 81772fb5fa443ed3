"""What is wrong is refused with a word about what would be right, and the server goes on.

SPDX-License-Identifier: Apache-2.0
"""
import json
import socket

from common import (
    CLOSE, TEXT, Server, WebSocketError, ask, case, check_error, equal, need, one_of, receive, run_against)

MIB = 1 << 20
CONTEXT = 1000
server = Server({"replay": {"context": CONTEXT, "replies": [{"text": "Yes."}]}})
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}


def nest(levels):
    return '{"model": "replay", "input": "x", "metadata": ' + '{"a":' * levels + "1" + "}" * levels + "}"


# Bodies that are no request, as bytes: what they are, the code.
UNREADABLE = [
    (b"", "invalid_json"),
    (b"{", "invalid_json"),
    (b"[1]", "invalid_json"),
    (b'"x"', "invalid_json"),
    (b"null", "invalid_json"),
    (b'{"model": "replay", "input": "x"} trailing', "invalid_json"),
    (b'{"model": "replay", "input": "x",}', "invalid_json"),
    (b'{"model": "replay", "input": "\xff"}', "invalid_json"),
    (b'{"model": "replay", "input": "\xc3"}', "invalid_json"),
    (b'{"model": "replay", "input": "\xed\xa0\xbd"}', "invalid_json"),
    (b"\xef\xbb\xbf\xfe\xff", "invalid_json"),
    (b"\x00" * 100, "invalid_json"),
    (nest(5000).encode(), "invalid_json"),
    (b"[" * 100000, "invalid_json"),
]

# Fields that do not fit: what is set, the code, the param.
WRONG = [
    ({"model": None}, "missing_required_parameter", "model"),
    ({"model": 7}, "invalid_type", "model"),
    ({"input": None}, "missing_required_parameter", "input"),
    ({"input": 7}, "invalid_type", "input"),
    ({"input": [7]}, "invalid_type", "input[0]"),
    ({"input": [{"role": "wizard", "content": "x"}]}, "invalid_value", "input[0].role"),
    ({"input": [{"role": "user", "content": 7}]}, "invalid_type", "input[0].content"),
    ({"input": [{"role": "user"}]}, "missing_required_parameter", "input[0].content"),
    ({"input": [{"type": "spell", "content": "x"}]}, "unsupported_value", "input[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_hologram"}]}]}, "invalid_value", "input[0].content[0].type"),
    ({"input": [{"type": "function_call_output", "call_id": "call_x", "output": "x"}]}, "invalid_value", None),
    ({"previous_response_id": 7}, "invalid_type", "previous_response_id"),
    ({"previous_response_id": "resp_unknown"}, "previous_response_not_found", "previous_response_id"),
    ({"temperature": 9}, "invalid_value", "temperature"),
    ({"temperature": "hot"}, "invalid_type", "temperature"),
    ({"top_p": -1}, "invalid_value", "top_p"),
    ({"top_logprobs": 21}, "invalid_value", "top_logprobs"),
    ({"max_output_tokens": 0}, "invalid_value", "max_output_tokens"),
    ({"max_output_tokens": -5}, "invalid_value", "max_output_tokens"),
    ({"max_output_tokens": 1.5}, None, "max_output_tokens"),
    ({"max_output_tokens": "many"}, "invalid_type", "max_output_tokens"),
    ({"max_output_tokens": 1e300}, "invalid_value", "max_output_tokens"),
    ({"store": "yes"}, "invalid_type", "store"),
    ({"instructions": 7}, "invalid_type", "instructions"),
    ({"metadata": [1]}, "invalid_type", "metadata"),
    ({"metadata": {str(i): "x" for i in range(17)}}, "invalid_value", "metadata"),
    ({"truncation": "sometimes"}, "invalid_value", "truncation"),
    ({"tools": {}}, "invalid_type", "tools"),
    ({"tools": [{"type": "function"}]}, "missing_required_parameter", "tools[0].name"),
    ({"tools": [{"type": "web_search"}]}, None, "tools[0].type"),
    ({"tools": [TOOL], "tool_choice": "required"}, "unsupported_value", "tool_choice"),
    ({"tools": [TOOL], "tool_choice": "sometimes"}, "invalid_value", "tool_choice"),
    ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "g"}}, "invalid_value", None),
    ({"stop": 7}, "invalid_type", "stop"),
    ({"stop": ["x"] * 17}, "invalid_value", "stop"),
]


def body_of(change):
    body = {"model": "replay", "input": "x", **change}
    return {key: value for key, value in body.items() if value is not None}


def judge(error, code, param, what):
    need(error["message"], f"{what}: no message")
    if code:
        equal(error["code"], code, f"{what}: code ({error['message']})")
    if param:
        equal(error["param"], param, f"{what}: param ({error['message']})")


@case
def unreadable_bodies():
    for body, code in UNREADABLE:
        reply = server.http("POST", "/v1/responses", body)
        equal((reply.status, reply.json()["error"]["code"]), (400, code), repr(body[:60]))
        equal(reply.json()["error"]["type"], "invalid_request_error", repr(body[:60]))


@case
def unreadable_frames():
    for body, code in UNREADABLE:
        with server.connect() as ws:
            ws.send_frame(TEXT, body)
            try:
                event = receive(ws)[-1]
            except WebSocketError as closed:  # RFC 6455 wants 1007 for text that is no UTF-8
                equal(closed.code, 1007, f"close code for {body[:60]!r}")
                continue
            check_error(event, code)


@case
def fields_that_do_not_fit():
    for change, code, param in WRONG:
        for stream in (False, True):
            reply = server.http("POST", "/v1/responses", {**body_of(change), "stream": stream})
            equal(reply.status, 400, f"status for {change} ({reply.body[:200]!r})")
            judge(reply.json()["error"], code, param, change)


@case
def fields_that_do_not_fit_in_frames():
    with server.connect() as ws:
        for change, code, param in WRONG:
            ws.send(json.dumps({"type": "response.create", **body_of(change)}))
            event = receive(ws)[-1]
            equal((event["type"], event.get("status")), ("error", 400), f"answer to {change}")
            judge(event["error"], code, param, change)
        ask(ws, input="x")


@case
def a_lone_surrogate_is_replaced_or_refused():
    for escape in (r"\ud83d", r"\udc00", r"\ud83dx", r"\ud83d\ud83d"):
        reply = server.http("POST", "/v1/responses", b'{"model": "replay", "input": "%s"}' % escape.encode())
        one_of(reply.status, (200, 400), f"status for {escape}")
        reply.json()
    equal(server.http("POST", "/v1/responses", rb'{"model": "replay", "input": "\ud83e\udd89"}').status, 200, "a whole pair")


@case
def an_unknown_model_is_told_which_there_are():
    reply = server.create(404, input="x", model="none")
    judge(reply["error"], "model_not_found", "model", "unknown model")
    need("replay" in reply["error"]["message"], f"message {reply['error']['message']!r}")


@case
def a_prompt_that_is_too_long_is_told_both_numbers():
    for stream in (False, True):
        reply = server.create(400, input="word " * 1000, stream=stream)
        judge(reply["error"], "context_length_exceeded", "input", "long prompt")
        numbers = [int(w.strip(".,()")) for w in reply["error"]["message"].split() if w.strip(".,()").isdigit()]
        need(CONTEXT in numbers and any(n > 5000 for n in numbers), f"message {reply['error']['message']!r}")
    with server.connect() as ws:
        ws.send(json.dumps({"type": "response.create", "model": "replay", "input": "word " * 1000}))
        check_error(receive(ws)[-1], "context_length_exceeded")
        ask(ws, input="x")


@case
def a_limit_beyond_the_context_is_no_error():
    equal(server.create(input="x", max_output_tokens=100 * CONTEXT)["status"], "completed", "status")


@case
def truncation_auto_drops_the_oldest():
    turns = [{"role": role, "content": f"{n} " + "word " * 20} for n in range(20) for role in ("user", "assistant")]
    items = [*turns, {"role": "user", "content": "And now?"}]
    server.create(400, input=items)
    final = server.create(input=items, truncation="auto")
    need(final["usage"]["input_tokens"] <= CONTEXT, f"usage {final['usage']}")


@case
def a_body_of_40_mib_is_refused():
    body = b'{"model": "replay", "input": "' + b"x" * (40 * MIB) + b'"}'
    try:
        reply = server.http("POST", "/v1/responses", body)
        equal((reply.status, reply.json()["error"]["code"]), (413, "request_too_large"), "answer")
    except (BrokenPipeError, ConnectionResetError):
        # The server need not read it all: whoever sends on is cut off.
        pass
    head = (f"POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {40 * MIB}\r\nExpect: 100-continue\r\n\r\n")
    with socket.create_connection((server.host, server.port), 30) as connection:
        connection.sendall(head.encode())
        need(connection.recv(4096).startswith(b"HTTP/1.1 413"), "no 413 for a declared length of 40 MiB")


@case
def a_frame_of_40_mib_is_refused():
    with server.connect() as ws:
        try:
            ws.send_frame(TEXT, b"x" * (40 * MIB))
            opcode, payload, _ = ws.recv_frame()
            equal((opcode, int.from_bytes(payload[:2], "big")), (CLOSE, 1009), "answer")
        except (WebSocketError, BrokenPipeError, ConnectionResetError):
            pass
        ws.abort()


@case
def a_big_request_that_is_allowed_is_read():
    reply = server.create(400, input="x" * (20 * MIB))
    equal(reply["error"]["code"], "context_length_exceeded", "code")


@case
def no_http_at_all():
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"HELO\r\n\r\n", b"GET\r\n\r\n", b"\0" * 5000,
                 b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                 b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
                 b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
                 b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
        with socket.create_connection((server.host, server.port), 30) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(10)
                while connection.recv(4096):
                    pass
            except OSError:
                pass
        equal(server.http("GET", "/health").status, 200, f"/health after {data[:30]!r}")


@case
def frames_against_the_rules():
    for opcode, payload, final in ((3, b"x", True), (9, b"x" * 126, True), (0, b"x", True), (CLOSE, b"\x03", True),
                                   (CLOSE, (999).to_bytes(2, "big"), True)):
        with server.connect() as ws:
            try:
                ws.send_frame(opcode, payload, final)
                ws.send_frame(TEXT, b'{"type": "response.create", "model": "replay", "input": "x"}')
                ws.recv()
            except (WebSocketError, OSError):
                pass
            ws.abort()
    with server.connect() as ws:
        ask(ws, input="x")


if __name__ == "__main__":
    run_against(server)
