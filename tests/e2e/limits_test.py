"""What one client may take, and that others do not notice: slow ones, many ones, strange
ones; and TLS. Everything a client took is given back when it has gone.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import os
import shutil
import socket
import ssl
import statistics
import struct
import subprocess
import threading
import time

from common import (
    CLOSE, PAWL, PING, PONG, SLOWNESS, TEXT, Server, Skip, WebSocketError, ask, case, check_stream, equal, main, need,
    receive, send, text_of)

SCRIPT = {"replay": {"context": 8192, "replies": [
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 2},
    {"when": "flood", "text": "0123456789", "end": "none"},
    {"text": "Yes."},
]}}
HEAD = b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def dial(server, data=b"", receive_buffer=0):
    """A bare connection; with a small receive buffer the server feels what is not read."""
    c = socket.socket()
    c.settimeout(30 * SLOWNESS)
    if receive_buffer:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    c.connect((server.host, int(server.port)))
    c.sendall(data)
    return c


def request(**members):
    body = json.dumps({"model": "replay", "store": False, **members}).encode()
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def read_reply(c):
    """(status, headers) of what comes, and the body as far as it goes."""
    with c.makefile("rb") as stream:
        line = stream.readline()
        if not line:
            return None, {}, b""
        headers = {}
        while (text := stream.readline().strip()):
            name, _, value = text.decode().partition(":")
            headers[name.lower()] = value.strip()
        return int(line.split()[1]), headers, stream.read(int(headers.get("content-length", 0)))


def ended(c, within=30):
    """The server closes within so many seconds; what it still says does not matter."""
    c.settimeout(within * SLOWNESS)
    try:
        while c.recv(1 << 16):
            pass
        return True
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


class Steady:
    """Nothing that a client took is kept: file descriptors and memory, before and after."""

    def __init__(self, server, megabytes=48):
        self.server, self.megabytes = server, megabytes

    def __enter__(self):
        self.server.create(input="hello", store=False)
        time.sleep(0.3 * SLOWNESS)  # until that connection is gone
        self.descriptors, (self.memory,) = self.server.descriptors(), self.server.memory("Pss")

    def __exit__(self, kind, *_):
        if kind:
            return
        deadline = time.monotonic() + 20 * SLOWNESS
        while self.server.descriptors() > self.descriptors and time.monotonic() < deadline:
            time.sleep(0.1)
        need(self.server.descriptors() <= self.descriptors,
             f"{self.descriptors} open files before, {self.server.descriptors()} after")
        (memory,) = self.server.memory("Pss")
        grown = (memory - self.memory) / (1 << 20)
        print(f"    memory {self.memory >> 20} MiB, grown by {grown:.1f} MiB", flush=True)
        need(SLOWNESS > 1 or grown < self.megabytes, f"memory grew by {grown:.0f} MiB")
        self.server.create(input="hello", store=False)


def tokens_per_second(server, n=600):
    with server.connect() as ws:
        send(ws, input="endless", max_output_tokens=n, store=False)
        receive(ws, ("response.output_text.delta",))
        began = time.monotonic()
        receive(ws)
        return n / (time.monotonic() - began)


@case
def the_slow_delay_nobody():
    """A reader of one byte a second and 100 heads that never end, beside a stream."""
    with Server(SCRIPT, "--header-seconds", "60") as server, Steady(server):
        alone, beside = [], []
        for _ in range(4):
            alone.append(tokens_per_second(server))
            slow = dial(server, request(input="flood", stream=True), 2048)
            heads = [dial(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ") for _ in range(100)]
            stop = threading.Event()

            def drip():
                while not stop.wait(1):
                    slow.recv(1)
                    for c in heads:
                        c.send(b"x")

            thread = threading.Thread(target=drip)
            thread.start()
            try:
                beside.append(tokens_per_second(server))
            finally:
                stop.set()
                thread.join()
                for c in (slow, *heads):
                    c.close()
        before, after = statistics.median(alone), statistics.median(beside)
        print(f"    {before:.0f} tokens/s alone, {after:.0f} beside them: {100 * (after / before - 1):+.1f} %", flush=True)
        need(after > 0.7 * before, f"{before:.0f} tokens/s became {after:.0f}")


@case
def who_does_not_read_is_closed():
    script = {"replay": {**SCRIPT["replay"], "context": 60000}}
    with Server(script, "--write-seconds", "2") as server, Steady(server):
        readers = [dial(server, request(input="flood", stream=True), 2048) for _ in range(4)]
        sockets = [server.connect() for _ in range(4)]
        for ws in sockets:
            ws.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            send(ws, input="flood", store=False)
        deadline = time.monotonic() + 60 * SLOWNESS
        while server.log().count("has not read for too long") + server.log().count("does not read what") < 8:
            need(time.monotonic() < deadline, "some that do not read are still connected")
            time.sleep(0.2)
        for c in (*readers, *(ws.socket for ws in sockets)):
            c.close()


@case
def slow_heads_bodies_and_messages_end():
    with Server(SCRIPT, "--header-seconds", "1", "--body-seconds", "1") as server, Steady(server):
        silent, half = dial(server), dial(server, b"GET /health HTTP/1.1\r\nHost: loc")
        body = dial(server, HEAD + b"Content-Length: 1000\r\n\r\n{")
        ws = server.connect()
        ws.send_frame(TEXT, b"{", False)
        status, _, text = read_reply(body)
        equal((status, json.loads(text)["error"]["code"]), (408, "request_timeout"), "a slow body")
        equal(json.loads(ws.recv())["error"]["code"], "request_timeout", "a slow message")
        need(ended(silent, 5) and ended(half, 5), "slow heads are still connected")
        for c in (silent, half, body):
            c.close()
        ws.abort()


@case
def half_closed_connections():
    with Server(SCRIPT) as server, Steady(server):
        for data in (b"", b"GET /hea", request(input="hello"), request(input="endless", stream=True), HEAD,
                     HEAD + b"Content-Length: 100\r\n\r\nabc", HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"):
            for _ in range(5):
                c = dial(server, data)
                c.shutdown(socket.SHUT_WR)
                need(ended(c), f"after {data[-20:]!r} and half a close it goes on")
                c.close()
        ws = server.connect()
        send(ws, input="endless", store=False)
        receive(ws, ("response.output_text.delta",))
        ws.socket.shutdown(socket.SHUT_WR)
        need(ended(ws.socket), "a socket that was closed half goes on")
        ws.abort()


@case
def frames_in_pieces_with_others_between():
    body = json.dumps({"type": "response.create", "model": "replay", "input": "hello", "store": False}).encode()
    with Server(SCRIPT) as server, Steady(server):
        with server.connect() as ws:
            for size in (1, 7, 64):
                parts = [body[i:i + size] for i in range(0, len(body), size)]
                for i, part in enumerate(parts):
                    ws.send_frame(TEXT if i == 0 else 0, part, i == len(parts) - 1)
                    if i == len(parts) // 2:
                        ws.send_frame(PING, b"middle")
                        ws.send_frame(PONG, b"unasked")
                    if i == 0 and len(parts) > 1:
                        ws.send_frame(0, b"", False)
                pong, events = False, []
                while not pong or not events or events[-1]["type"] != "response.completed":
                    opcode, payload, _ = ws.recv_frame()
                    if opcode == PONG:
                        equal(payload, b"middle", "the answer to a ping in the middle")
                        pong = True
                    else:
                        events.append(json.loads(payload))
                check_stream(events)
        ws = server.connect()
        ws.send_frame(TEXT, body[:10], False)
        ws.send_frame(CLOSE, struct.pack(">H", 1000))
        equal(ws.recv_frame()[0], CLOSE, "the answer to a close in the middle")
        ws.abort()
        ws = server.connect()
        try:
            for _ in range(5000):
                ws.send_frame(0x09, b"")
            for i in range(5000):
                ws.send_frame(TEXT if i == 0 else 0, b"", False)
        except OSError:
            pass
        try:
            while True:
                event = json.loads(ws.recv())
                equal(event["error"]["code"], "rate_limit_exceeded", "code of too many small frames")
        except (WebSocketError, OSError):
            pass
        ws.abort()


@case
def heads_that_are_too_large():
    with Server(SCRIPT) as server, Steady(server):
        for lines in (["X: " + "y" * 20000], [f"X-{i}: y" for i in range(4000)], ["Cookie: " + "z" * 100000]):
            c = dial(server)
            try:
                c.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + "\r\n".join(lines).encode() + b"\r\n\r\n")
            except OSError:
                pass
            need(ended(c, 10), "a head that is too large is still read")
            c.close()
        c = dial(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(90)) + b"\r\n")
        equal(read_reply(c)[0], 200, "a head of 90 lines")
        c.close()


@case
def too_many_connections():
    with Server(SCRIPT, "--max-connections", "20", "--max-per-address", "20") as server, Steady(server):
        held = [dial(server) for _ in range(20)]
        time.sleep(0.2 * SLOWNESS)
        c = dial(server, request(input="hello"))
        status, headers, _ = read_reply(c)
        equal(status, 503, "the 21st connection")
        need(1 <= int(headers["retry-after"]) <= 120, f"Retry-After: {headers['retry-after']}")
        for each in (c, *held):
            each.close()
        time.sleep(0.5 * SLOWNESS)
    with Server(SCRIPT, "--max-per-address", "10") as server, Steady(server):
        held = [server.connect() for _ in range(10)]
        c = dial(server, request(input="hello"))
        status, headers, text = read_reply(c)
        equal((status, json.loads(text)["error"]["code"]), (429, "rate_limit_exceeded"), "the 11th of one address")
        need(int(headers["retry-after"]) >= 1, "Retry-After")
        for ws in held:
            equal(text_of(ask(ws, input="hello", store=False)), "Yes.", "one of the ten")
            ws.abort()
        c.close()
        flood = [dial(server) for _ in range(60)]
        need(ended(flood[-1], 10), "the 60th of one address is kept")
        for each in flood:
            each.close()
        time.sleep(0.5 * SLOWNESS)


@case
def a_full_queue_says_when_to_come_back():
    with Server(SCRIPT, "--sequences", "1", "--queue", "8") as server:
        server.create(input="endless", max_output_tokens=1000, store=False)  # two seconds of turn
        running = [dial(server, request(input="endless", max_output_tokens=4000)) for _ in range(12)]
        replies = []
        for c in running:
            c.settimeout(1 * SLOWNESS)
            try:
                replies.append(read_reply(c))
            except TimeoutError:
                pass
        replies = [reply for reply in replies if reply[0] != 200]  # a slow machine may have ended some
        need(replies, "twelve turns found a place in a queue of eight")
        for status, headers, text in replies:
            equal((status, json.loads(text)["error"]["code"]), (503, "server_is_overloaded"), "a full queue")
        waits = [int(headers["retry-after"]) for _, headers, _ in replies]
        print(f"    Retry-After: {waits}", flush=True)
        need(all(3 <= wait <= 120 for wait in waits), f"Retry-After: {waits}, after a turn of two seconds")
        for c in running:
            c.close()


# --------------------------------------------------------------------------- TLS


def make_certificate(folder, name):
    if not shutil.which("openssl"):
        raise Skip("openssl is not installed")
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-out", certificate, "-keyout", key], check=True, capture_output=True)
    key.chmod(0o600)
    return certificate, key


def refused_start(server, *arguments):
    got = subprocess.run([*server.command, *arguments], capture_output=True, text=True, timeout=60 * SLOWNESS)
    equal(got.returncode, 1, f"status ({got.stderr[-200:]})")
    return got.stderr.splitlines()[-1]


@case
def tls():
    with Server(SCRIPT, env={"PAWL_API_KEY": "secret-for-tls-tests"}) as server:
        server.stop()
        certificate, key = make_certificate(server.folder, "one")
        _, other = make_certificate(server.folder, "two")
        other.chmod(0o644)
        broken = server.folder / "broken.pem"
        broken.write_text("no PEM")
        for arguments, words in ((("--tls-cert", certificate), "both"), (("--tls-key", key), "both"),
                                 (("--tls-cert", broken, "--tls-key", key), "PEM"),
                                 (("--tls-cert", certificate, "--tls-key", certificate), "private key"),
                                 (("--tls-cert", certificate, "--tls-key", "/nowhere"), "/nowhere"),
                                 (("--tls-cert", certificate, "--tls-key", other), "chmod 600")):
            said = refused_start(server, *arguments)
            need(words in said, f"{words!r} is not in {said!r}")
        other.chmod(0o600)
        need("cannot be used together" in refused_start(server, "--tls-cert", certificate, "--tls-key", other), "a foreign key")
        server.command += ["--tls-cert", certificate, "--tls-key", key, "--header-seconds", "2"]
        server.start()
        equal(server.scheme, "https", "scheme of the line that it prints")
        need("is good until" in server.log() or "certificate" in server.log(), "the certificate's end is not logged")
        context = ssl.create_default_context(cafile=certificate)
        authorization = {"Authorization": "Bearer secret-for-tls-tests", "Content-Type": "application/json"}
        connection = http.client.HTTPSConnection("localhost", server.port, context=context, timeout=20 * SLOWNESS)
        for _ in range(3):
            connection.request("POST", "/v1/responses", json.dumps({"model": "replay", "input": "hello"}), authorization)
            reply = connection.getresponse()
            equal((reply.status, b"Yes." in reply.read()), (200, True), "over TLS")
        connection.request("POST", "/v1/responses", b'{"model":"replay","input":"' + b"x" * (4 << 20) + b'"}', authorization)
        reply = connection.getresponse()
        equal((reply.status, len(reply.read()) > 50), (400, True), "4 MiB over TLS, which no context holds")
        connection.close()
        sockets_over_tls(server, context)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        try:
            old.wrap_socket(dial(server))
            raise AssertionError("TLS 1.1 was accepted")
        except (ssl.SSLError, OSError):
            pass
        plain, silent = dial(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"), dial(server)
        need(ended(plain, 10), "what is no TLS is still connected")
        need(ended(silent, 10), "who says nothing is still connected")
        for c in (plain, silent):
            c.close()


def sockets_over_tls(server, context):
    from websockets.sync.client import connect
    url = f"wss://localhost:{server.port}/v1/responses"
    with connect(url, ssl=context, additional_headers={"Authorization": "Bearer secret-for-tls-tests"}) as ws:
        for _ in range(2):
            ws.send(json.dumps({"type": "response.create", "model": "replay", "input": "endless",
                                "max_output_tokens": 300, "store": False}))
            while json.loads(ws.recv())["type"] != "response.incomplete":
                pass


if __name__ == "__main__":
    main()
