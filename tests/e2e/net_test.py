"""Sockets as clients really use them: connections that are kept, bodies in chunks, broken
heads, slow readers, strangers, frames in pieces, the end of the server.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import os
import random
import resource
import socket
import struct
import threading
import time

from common import (
    BINARY, CLOSE, PING, PONG, SLOWNESS, TEXT, Server, Skip, WebSocketError, ask, case, check_error, check_stream, equal, need,
    one_of, receive, run_against, send)

MIB = 1 << 20
SCRIPT = {"replay": {"context": 8192, "replies": [
    {"when": "greet", "text": "Hello there."},
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"when": "flood", "text": "0123456789", "end": "none"},
    {"text": "Yes."},
]}}
server = Server(SCRIPT)


class Raw:
    """A bare TCP connection that sends what a test says."""

    def __init__(self, data=b"", timeout=20):
        self.socket = socket.create_connection((server.host, int(server.port)), timeout * SLOWNESS)
        self.stream = self.socket.makefile("rb")
        self.send(data)

    def send(self, data):
        self.socket.sendall(data)
        return self

    def reply(self, method="GET"):
        """(status, headers, body) of the next reply; None at the end of the connection."""
        line = self.stream.readline()
        if not line:
            return None
        status, headers = int(line.split()[1]), {}
        while (line := self.stream.readline().strip()):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        if status == 100 or method == "HEAD":
            return status, headers, b""
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while (size := int(self.stream.readline(), 16)):
                body += self.stream.read(size)
                equal(self.stream.readline(), b"\r\n", "end of a chunk")
            equal(self.stream.readline(), b"\r\n", "end of the chunks")
            return status, headers, body
        if "content-length" in headers:
            return status, headers, self.stream.read(int(headers["content-length"]))
        return status, headers, self.stream.read()

    def ended(self):
        """Whether the server closes, with nothing more said."""
        try:
            return self.stream.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self):
        self.stream.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def head(line, *headers, host="127.0.0.1"):
    lines = [line] + ([f"Host: {host}"] if host else []) + list(headers)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def body_of(**request):
    return json.dumps({"model": "replay", "input": "greet me", "store": False, **request}).encode()


def post(data, *headers, path="/v1/responses"):
    return head(f"POST {path} HTTP/1.1", "Content-Type: application/json", f"Content-Length: {len(data)}", *headers) + data


def check_refusal(reply, status, code):
    need(reply, f"no reply where {status} {code} was to come")
    equal(reply[0], status, f"status ({reply[2][:200]!r})")
    equal(reply[1]["content-type"], "application/json", "content type")
    need(reply[1]["x-request-id"].startswith("req_"), "x-request-id")
    error = json.loads(reply[2])["error"]
    equal(set(error), {"message", "type", "param", "code"}, "keys of an error")
    equal(error["code"], code, f"code ({error['message']})")


def alive():
    equal(server.http("GET", "/health").status, 200, "health")


@case
def one_connection_for_many_requests():
    with Raw() as c:
        seen = set()
        for _ in range(5):
            for data, status in ((post(body_of()), 200), (post(b"{"), 400), (post(body_of(stream=True)), 200),
                                 (post(b"{}", path="/nowhere"), 404), (post(body_of(stream=True, temperature=9)), 400)):
                reply = c.send(data).reply()
                equal(reply[0], status, f"status of {data[:40]!r} ({reply[2][:100]!r})")
                need("connection" not in reply[1], "the connection is to end")
                seen.add(reply[1]["x-request-id"])
        equal(len(seen), 25, "request ids")
    for data, status in ((head("GET /health HTTP/1.1"), 200), (post(b""), 400),
                         (head("DELETE /v1/responses/resp_x HTTP/1.1"), 404)):
        with Raw(data) as c:
            reply = c.reply()
            equal((reply[0], reply[1].get("connection")), (status, "close"), "a request without a body")
            need(c.ended(), "the connection was to be closed")


@case
def the_head_of_a_reply():
    with Raw(head("HEAD /health HTTP/1.1")) as c:
        status, headers, _ = c.reply("HEAD")
        equal((status, headers["content-type"]), (200, "application/json"), "HEAD")
        need(int(headers["content-length"]) > 0, "content-length of HEAD")
    with Raw(post(body_of(stream=True))) as c:
        status, headers, body = c.reply()
        equal(headers["content-type"], "text/event-stream; charset=utf-8", "content type")
        equal(headers["cache-control"], "no-cache", "cache-control")
        need(b"\r" not in body and body.endswith(b"\n\n"), "CR in a stream, or no end of its last block")


@case
def a_request_in_single_bytes():
    with Raw() as c:
        for byte in post(body_of()):
            c.send(bytes([byte]))
        equal(c.reply()[0], 200, "status")


@case
def requests_before_their_answers():
    """The first is answered, and the connection closed: what comes after is not lost in silence."""
    get, end = head("GET /health HTTP/1.1"), post(body_of(input="endless"))
    for data in (get * 10, get + post(body_of()), get + end, post(b"{") + get, post(b"{") * 3):
        with Raw(data) as c:
            one_of(c.reply()[0], (200, 400), "status of the first")
            need(c.ended(), "the connection was to be closed")
    for data in (end * 2, end + get, post(body_of(input="endless", stream=True)) * 2):
        with Raw(data) as c:
            c.stream.read()
    alive()


@case
def bodies_in_chunks():
    data = body_of(metadata={"x": "y" * 500})
    for size in (1, 7, 5000):
        chunks = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(part), part)
                          for part in (data[i:i + size] for i in range(0, len(data), size)))
        with Raw(head("POST /v1/responses HTTP/1.1", "Transfer-Encoding: chunked")) as c:
            c.send(chunks)
            time.sleep(0.05)
            reply = c.send(b"0\r\nTrailer: x\r\n\r\n").reply()
            equal(reply[0], 200, f"status ({reply[2][:200]!r})")
            equal(reply[1].get("connection"), "close", "connection")
            need(c.ended(), "the connection was to be closed")
    with Raw(head("POST /v1/responses HTTP/1.1", "Transfer-Encoding: chunked") + b"zz\r\n") as c:
        check_refusal(c.reply(), 400, "invalid_request")
    with Raw(head("POST /v1/responses HTTP/1.1", "Transfer-Encoding: gzip")) as c:
        check_refusal(c.reply(), 501, "unsupported_value")


@case
def a_long_answer_to_a_chunked_request_is_not_cut():
    data = body_of(input="endless", max_output_tokens=400, stream=True)
    with Raw(head("POST /v1/responses HTTP/1.1", "Transfer-Encoding: chunked")) as c:
        reply = c.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)).reply()
        need(b"response.incomplete" in reply[2], "the end of the stream")


@case
def the_client_waits_for_100():
    data = body_of()
    with Raw(head("POST /v1/responses HTTP/1.1", f"Content-Length: {len(data)}", "Expect: 100-continue")) as c:
        equal(c.reply()[0], 100, "status")
        equal(c.send(data).reply()[0], 200, "status")
        equal(c.send(post(data)).reply()[0], 200, "status")
    with Raw(head("POST /v1/responses HTTP/1.1", f"Content-Length: {64 * MIB}", "Expect: 100-continue")) as c:
        check_refusal(c.reply(), 413, "request_too_large")


@case
def too_large():
    with Raw(head("POST /v1/responses HTTP/1.1", f"Content-Length: {40 * MIB}")) as c:
        sender = threading.Thread(target=lambda: c.send(b" " * (40 * MIB)))
        sender.start()
        check_refusal(c.reply(), 413, "request_too_large")
        sender.join()
    with Raw(head("POST /v1/responses HTTP/1.1", "Transfer-Encoding: chunked")) as c:
        sender = threading.Thread(target=lambda: c.send(b"%x\r\n%s\r\n" % (34 * MIB, b" " * (34 * MIB))))
        sender.start()
        check_refusal(c.reply(), 413, "request_too_large")
        sender.join()
    just = b" " * (30 * MIB) + body_of()
    with Raw(post(just)) as c:
        equal(c.reply()[0], 200, "status of a body of 30 MiB")


@case
def broken_heads():
    for data, status, code in (
            (head("POST /v1/responses HTTP/1.1", "Content-Length: -5"), 400, "invalid_request"),
            (head("POST /v1/responses HTTP/1.1", "Content-Length: 5x"), 400, "invalid_request"),
            (head("POST /v1/responses HTTP/1.1", "Content-Length: 5", "Content-Length: 6"), 400, "invalid_request"),
            (head("POST /v1/responses HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"), 400, "invalid_request"),
            (head("POST /v1/responses HTTP/1.1", f"Content-Length: {1 << 70}"), 400, "invalid_request"),
            (head("GET /health HTTP/1.1", "Transfer-Encoding: chunked"), 400, "invalid_request"),
            (head("GET /health HTTP/1.1", host=None), 400, "invalid_request"),
            (head("GET /%ff HTTP/1.1"), 400, "invalid_request"),
            (head("GET /%01 HTTP/1.1"), 400, "invalid_request"),
            (head("POST /v1/responses HTTP/1.1"), 400, "invalid_json"),
            (head("OPTIONS /v1/responses HTTP/1.1"), 405, "method_not_allowed"),
            (head("PUT /v1/responses HTTP/1.1", "Content-Length: 2") + b"{}", 405, "method_not_allowed"),
    ):
        with Raw(data) as c:
            check_refusal(c.reply(), status, code)
    for data in (head("BREW /pot HTTP/1.1"), b"\x16\x03\x01\x02\x00\x01\x00", b"\r\n\r\n", head("GET"), head("GET /%zz HTTP/1.1"), head("GET /%00 HTTP/1.1"),
                 head("GET /%0a HTTP/1.1"),
                 head("CONNECT example.org:443 HTTP/1.1"), head("GET /health HTTP/1.1", "X: " + "y" * 20000),
                 head("GET /health HTTP/1.1", *["X-%d: y" % i for i in range(3000)]),
                 head("GET /health HTTP/1.1", "Upgrade: TLS/1.0"), head("GET /health HTTP/1.1", "Upgrade: TLS/1.0") * 2,
                 head("POST /v1/responses HTTP/1.1", "Content-Length: 2", "Upgrade: foo") + b"{}" + head("GET /health HTTP/1.1")):
        with Raw(timeout=5) as c:
            try:
                c.send(data)
                c.socket.shutdown(socket.SHUT_WR)
                c.stream.read()
            except (OSError, ValueError):
                pass
    alive()


@case
def http_1_0():
    with Raw(head("GET /health HTTP/1.0", host=None)) as c:
        equal(c.reply()[0], 200, "status")
        need(c.ended(), "the connection was to be closed")
    data = body_of()
    with Raw(head("POST /v1/responses HTTP/1.0", "Connection: keep-alive", f"Content-Length: {len(data)}") + data) as c:
        equal(c.reply()[1].get("connection"), "keep-alive", "connection")
        data = body_of(stream=True)
        c.send(head("POST /v1/responses HTTP/1.0", f"Content-Length: {len(data)}") + data)
        status, headers, body = c.reply()
        need("transfer-encoding" not in headers and b"response.completed" in body, "a stream for HTTP/1.0")


@case
def strangers():
    for headers, status, code in (
            (["Origin: https://example.org"], 403, "forbidden_origin"),
            (["Origin: null"], 403, "forbidden_origin"),
            (["Origin: http://localhost.example.org"], 403, "forbidden_origin"),
            (["Origin: http://127.0.0.1.example.org"], 403, "forbidden_origin"),
            (["Origin: file://"], 403, "forbidden_origin")):
        for start in (head("GET /v1/models HTTP/1.1", *headers), post(body_of(), *headers),
                      handshake(*headers)):
            with Raw(start) as c:
                check_refusal(c.reply(), status, code)
    for host in ("example.org", "evil.localhost.org:80", "127.0.0.1.nip.io", "0.0.0.0", "[::2]:80"):
        with Raw(head("GET /v1/models HTTP/1.1", host=host)) as c:
            check_refusal(c.reply(), 403, "forbidden_host")
    for host in ("localhost", "LOCALHOST:1234", "127.0.0.1:80", "[::1]:8080", "127.1.2.3"):
        with Raw(head("GET /v1/models HTTP/1.1", "Origin: http://" + host, host=host)) as c:
            equal(c.reply()[0], 200, f"status for {host}")


def handshake(*headers, line="GET /v1/responses HTTP/1.1", leave_out=()):
    usual = {"Connection": "keep-alive, Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
             "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    return head(line, *(f"{k}: {v}" for k, v in usual.items() if k not in leave_out), *headers)


@case
def handshakes():
    for data, status, code in (
            (handshake(leave_out=["Sec-WebSocket-Key"]), 400, "invalid_request"),
            (handshake(leave_out=["Sec-WebSocket-Version"]), 400, "invalid_request"),
            (handshake("Sec-WebSocket-Version: 8", leave_out=["Sec-WebSocket-Version"]), 400, "invalid_request"),
            (handshake(leave_out=["Connection"]), 400, "invalid_request"),
            (handshake("Sec-WebSocket-Key: x", leave_out=["Sec-WebSocket-Key"]), 400, "invalid_request"),
            (handshake("Sec-WebSocket-Protocol: chat, superchat"), 400, "invalid_request"),
            (handshake(leave_out=["Upgrade"]), 426, "upgrade_required"),
            (handshake(line="POST /v1/responses HTTP/1.1"), 400, "invalid_request"),
            (handshake(line="GET /v1/elsewhere HTTP/1.1"), 404, "unknown_url"),
            (head("GET /v1/responses HTTP/1.1", "Connection: Upgrade",
             "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", host="example.org"),
             403, "forbidden_host")):
        with Raw(data) as c:
            check_refusal(c.reply(), status, code)
    for line in ("GET /responses HTTP/1.1", "GET /v1/responses?api-version=1&x=%26 HTTP/1.1"):
        with Raw(handshake("Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits", line=line)) as c:
            status, headers, _ = c.reply("HEAD")
            equal((status, headers["sec-websocket-accept"]), (101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "handshake")
    with Raw(handshake("Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", leave_out=["Upgrade"], line="GET /health HTTP/1.1")) as c:
        equal(c.reply()[0], 200, "h2c is answered as HTTP/1.1")
    data = body_of()
    with Raw(head("POST /v1/responses HTTP/1.1", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c",
                  "HTTP2-Settings: AAMAAABkAAQAAP__", f"Content-Length: {len(data)}") + data) as c:
        equal(c.reply()[0], 200, "h2c with a body")
        equal(c.send(post(data)).reply()[0], 200, "and goes on")


@case
def frames_in_pieces():
    data = json.dumps({"type": "response.create", "model": "replay", "input": "greet me", "store": False}).encode()
    with server.connect() as ws:
        for pieces in (1, 3, len(data)):
            size = -(-len(data) // pieces)
            parts = [data[i:i + size] for i in range(0, len(data), size)]
            for i, part in enumerate(parts):
                ws.send_frame(TEXT if i == 0 else 0, part, i == len(parts) - 1)
                if i == 0:
                    ws.send_frame(PING, b"between")
            got = []
            while not got or got[-1] == PONG:
                got.append(ws.recv_frame()[0])
            need(PONG in got, "no pong between the pieces")
            receive(ws)
        ws.send_frame(BINARY, data)
        check_stream(receive(ws))
        ws.send_frame(TEXT, b"")
        check_error(receive(ws)[-1], "invalid_json")
        ws.send_frame(TEXT, b'{"type": "\xff"}')
        check_error(receive(ws)[-1], "invalid_json")
        ask(ws, input="greet me")


@case
def a_message_that_is_too_large():
    with server.connect() as ws:
        ws.socket.sendall(struct.pack(">BBQ", 0x81, 0x80 | 127, 40 * MIB) + b"\0\0\0\0" + b" " * 1000)
        check_error(json.loads(ws.recv()), "request_too_large", 413)
        equal(close_code_of(ws), 1009, "close code")
    with server.connect() as ws:
        for i in range(33):
            ws.send_frame(TEXT if i == 0 else 0, b" " * MIB, False)
        check_error(json.loads(ws.recv()), "request_too_large", 413)
        equal(close_code_of(ws), 1009, "close code")
    with server.connect() as ws:
        send(ws, input="greet me", metadata={"x": "y"}, unknown=" " * (30 * MIB))
        check_stream(receive(ws))


def close_code_of(ws):
    try:
        while True:
            ws.recv()
    except WebSocketError as end:
        return end.code


@case
def frames_that_break_the_protocol():
    for data in (b"\x83\x80\0\0\0\0", b"\x81\xff" + b"\xff" * 12, b"\xc1\x80\0\0\0\0", b"\x89\xfe\x01\x00\0\0\0\0", b"\x80\x80\0\0\0\0",
                 b"\x88\x80\0\0\0\0", b"\x88\x82\0\0\0\0\x03\xe8", b"\x88\x81\0\0\0\0x"):
        ws = server.connect()
        ws.socket.sendall(data)
        try:
            while ws.recv_frame()[0] != CLOSE:
                pass
        except (WebSocketError, OSError):
            pass
        ws.abort()
    alive()


@case
def many_requests_at_once_on_one_socket():
    with server.connect() as ws:
        for i in range(80):
            send(ws, input="endless", max_output_tokens=16, store=False)
        ends = []
        while len(ends) < 80:
            ends.append(receive(ws)[-1])
        refused = [e for e in ends if e["type"] == "error"]
        need(refused and len(refused) <= 15, f"{len(refused)} were refused")
        for event in refused:
            check_error(event, "rate_limit_exceeded", 429)


@case
def a_slow_reader_delays_nobody():
    slow = server.connect()
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for lane in range(16):
        send(slow, input="flood", store=False, stream_id=f"l{lane}")
    with server.connect() as ws:
        for _ in range(10):
            start = time.monotonic()
            ask(ws, input="greet me", store=False)
            need(time.monotonic() - start < 5 * SLOWNESS, "a turn beside a slow reader took long")
    slow.abort()
    alive()


@case
def clients_that_leave_in_the_middle():
    random.seed(1)
    for i in range(60):
        if i % 2:
            ws = server.connect()
            send(ws, input="endless", store=False)
            if i % 4 == 1:
                ws.recv()
            ws.abort()
        else:
            data = post(body_of(input="endless", stream=i % 4 == 0))
            with Raw(data[:random.randrange(len(data))] if i % 6 == 0 else data) as c:
                if i % 4 == 0 and i % 6:
                    c.stream.readline()
    start = time.monotonic()
    server.create(input="greet me", store=False)
    need(time.monotonic() - start < 5 * SLOWNESS, "abandoned turns delay the next one")


@case
def many_idle_connections():
    idle = [Raw() for _ in range(200)] + [server.connect() for _ in range(100)]
    server.create(input="greet me", store=False)
    for c in idle[200:]:
        ask(c, input="greet me", store=False)
    for c in idle[:200]:
        equal(c.send(head("GET /health HTTP/1.1")).reply()[0], 200, "status on an idle connection")
    for c in idle:
        c.abort() if hasattr(c, "abort") else c.close()
    alive()


def allow_open_files(n):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < n:
        raise Skip(f"it takes {n} open files, and this user may have {hard}")
    if soft != resource.RLIM_INFINITY and soft < n:
        resource.setrlimit(resource.RLIMIT_NOFILE, (n, hard))


@case
def more_connections_than_there_may_be():
    allow_open_files(1300)
    held, refused = [], 0
    for _ in range(1120):
        try:
            held.append(Raw())
        except OSError:
            refused += 1
    with Raw(head("GET /health HTTP/1.1")) as c:
        try:
            reply = c.reply()
        except ConnectionResetError:
            reply = None
    if reply:
        check_refusal(reply, 503, "server_is_overloaded")
    for c in held:
        c.close()
    time.sleep(0.5)
    alive()


@case
def noise():
    random.seed(7)
    seeds = [post(body_of()), handshake(), head("GET /v1/models/a%2Fb?x=1&y HTTP/1.1", "Accept: */*"),
             head("POST /v1/responses HTTP/1.1", "Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n"]
    for i in range(300):
        data = bytearray(random.choice(seeds))
        for _ in range(random.randrange(1, 12)):
            at = random.randrange(len(data))
            how = random.randrange(3)
            if how == 0:
                data[at] = random.randrange(256)
            elif how == 1:
                del data[at:at + random.randrange(1, 8)]
            else:
                data[at:at] = os.urandom(random.randrange(1, 8))
            if not data:
                break
        with Raw(timeout=5) as c:
            try:
                c.send(bytes(data))
                c.socket.shutdown(socket.SHUT_WR)
                c.stream.read()
            except OSError:
                pass
    alive()


@case
def a_model_name_in_a_path():
    for path in ("/v1/models/replay", "/models/replay", "/v1/models/re%70lay"):
        equal(server.http("GET", path).status, 200, f"status of {path}")
    reply = server.http("GET", "/v1/models/org%2Fname")
    equal(reply.status, 404, "status")
    need("org/name" in reply.json()["error"]["message"], "the name with its slash")


@case
def http_client_libraries():
    connection = http.client.HTTPConnection(server.host, int(server.port), timeout=20 * SLOWNESS)
    for _ in range(3):
        connection.request("POST", "/v1/responses", body_of(), {"Content-Type": "application/json"})
        got = connection.getresponse()
        equal((got.status, json.loads(got.read())["object"]), (200, "response"), "reply")
        first = connection.sock
        connection.request("POST", "/v1/responses", iter([body_of()]), encode_chunked=True,
                           headers={"Transfer-Encoding": "chunked"})
        got = connection.getresponse()
        equal((got.status, json.loads(got.read())["object"]), (200, "response"), "reply to chunks")
        need(first, "the connection was closed after a plain reply")
    connection.close()


@case
def the_end_of_the_server():
    with Server(SCRIPT) as other:
        ws, idle = other.connect(), other.connect()
        send(ws, input="endless", store=False)
        send(ws, input="endless", store=False)
        for _ in range(8):
            ws.recv()
        plain = socket.create_connection((other.host, int(other.port)), 20 * SLOWNESS)
        stream = socket.create_connection((other.host, int(other.port)), 20 * SLOWNESS)
        stream.sendall(post(body_of(input="endless", stream=True)))
        need(stream.recv(100), "a stream")
        start = time.monotonic()
        other.stop()
        need(time.monotonic() - start < 3 * SLOWNESS, "the end took long")
        got, code = [], 0
        try:
            while True:
                got.append(json.loads(ws.recv()))
        except WebSocketError as end:
            code = end.code
        equal((got[-2]["type"], got[-2]["response"]["status"], code), ("response.incomplete", "cancelled", 1001), "the end of a turn")
        check_error(got[-1], "server_is_overloaded", 503)  # the request that waited behind it
        equal(close_code_of(idle), 1001, "close code of an idle socket")
        equal(plain.recv(1), b"", "an idle connection")
        rest = b""
        while (more := stream.recv(65536)):
            rest += more
        need(rest.endswith(b"\n\n\r\n0\r\n\r\n") and b"event: response.incomplete" in rest, f"the end of a stream: {rest[-200:]!r}")


if __name__ == "__main__":
    run_against(server)
