#!/usr/bin/env python3
"""Talk to a Pawl server over one WebSocket, with nothing but the standard library.

    chat_ws.py --model NAME [--url ws://127.0.0.1:8080/v1/responses] [TEXT]

With TEXT: one turn. Without: a conversation, a line of input a turn, until end of
file. Each turn names the one before it by previous_response_id and sends only what
is new; --previous ID goes on from any response that the server has stored, today's
or last month's. A key, if the server wants one, comes from PAWL_API_KEY.

To copy into a program of your own: WebSocket (RFC 6455, client side, no extensions)
and respond(), which sends a request and yields the events of its response.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import base64
import hashlib
import json
import os
import socket
import struct
import sys
import urllib.parse

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


class WebSocketError(Exception):
    """The connection was refused or broken. `status`: of the HTTP reply, or 0;
    `code`: of the close frame, or 0."""

    def __init__(self, message, status=0, body=b"", code=0):
        super().__init__(message)
        self.status, self.body, self.code = status, body, code


class WebSocket:
    """One connection. Not for two threads at once."""

    def __init__(self, url, headers=None, timeout=120):
        at = urllib.parse.urlsplit(url)
        if at.scheme != "ws":
            raise ValueError(f"{url} does not begin with ws://")
        self.socket = socket.create_connection((at.hostname, at.port or 80), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")
        try:
            self._handshake(at, headers or {})
        except BaseException:
            self.abort()
            raise

    def _handshake(self, at, headers):
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {at.path or '/'}{'?' + at.query if at.query else ''} HTTP/1.1",
            f"Host: {at.netloc}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        status = int((self.stream.readline().split() + [b"0", b"0"])[1])
        reply = {}
        while (line := self.stream.readline().strip()):
            name, _, value = line.decode("latin-1").partition(":")
            reply[name.lower()] = value.strip()
        if status != 101:
            body = self.stream.read(int(reply.get("content-length", 0)))
            raise WebSocketError(f"the server answered {status} {body.decode(errors='replace')}", status, body)
        magic = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        want = base64.b64encode(hashlib.sha1(magic.encode()).digest()).decode()
        if reply.get("sec-websocket-accept") != want:
            raise WebSocketError("the server's handshake does not fit ours")

    def send_frame(self, opcode, payload, final=True):
        head = bytes([opcode | (0x80 if final else 0)])
        if len(payload) < 126:
            head += struct.pack(">B", 0x80 | len(payload))
        elif len(payload) < 65536:
            head += struct.pack(">BH", 0x80 | 126, len(payload))
        else:
            head += struct.pack(">BQ", 0x80 | 127, len(payload))
        mask = os.urandom(4)
        repeated = (mask * (len(payload) // 4 + 1))[: len(payload)]
        masked = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
        self.socket.sendall(head + mask + masked.to_bytes(len(payload), "big"))

    def send(self, text):
        self.send_frame(TEXT, text.encode())

    def _exactly(self, n):
        data = self.stream.read(n)
        if len(data) < n:
            raise WebSocketError("the server closed the connection")
        return data

    def recv_frame(self):
        first, second = self._exactly(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack(">H", self._exactly(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self._exactly(8))
        return first & 15, self._exactly(size), bool(first & 0x80)

    def recv(self):
        """The next message, as text. Answers pings on the way."""
        message = b""
        while True:
            opcode, payload, final = self.recv_frame()
            if opcode == PING:
                self.send_frame(PONG, payload)
            elif opcode == CLOSE:
                code = struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else 1005
                reason = payload[2:].decode(errors="replace")
                raise WebSocketError(f"the server closed the connection: {code} {reason}", code=code)
            elif opcode != PONG:
                message += payload
                if final:
                    return message.decode()

    def close(self, code=1000):
        """Says goodbye, and waits for the server to do so too."""
        try:
            self.send_frame(CLOSE, struct.pack(">H", code))
            while self.recv_frame()[0] != CLOSE:
                pass
        except (OSError, WebSocketError):
            pass
        self.abort()

    def abort(self):
        """Drops the connection without a word."""
        self.stream.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.abort() if kind else self.close()


def respond(ws, **request):
    """Sends one request; yields its events, the last of which is one of ENDS."""
    ws.send(json.dumps({"type": "response.create", **request}))
    while True:
        event = json.loads(ws.recv())
        yield event
        if event["type"] in ENDS:
            return


def turn(ws, on_text=lambda text: None, **request):
    """One turn: on_text gets the reply as it is written. Returns the whole response."""
    for event in respond(ws, **request):
        if event["type"] == "response.output_text.delta":
            on_text(event["delta"])
    if event["type"] == "error":
        raise RuntimeError(event["error"]["message"])
    if event["type"] == "response.failed":
        raise RuntimeError(event["response"]["error"]["message"])
    return event["response"]


def print_text(text):
    print(text, end="", flush=True)


def describe(response):
    usage = response["usage"]
    reused = usage["input_tokens_details"]["cached_tokens"]
    return (f"[{response['id']}, {response['status']}: reused {reused} of {usage['input_tokens']} "
            f"input tokens, wrote {usage['output_tokens']}]")


def main():
    parser = argparse.ArgumentParser(description="Talk to a Pawl server over one WebSocket.")
    parser.add_argument("text", nargs="?", help="one turn only, with this text")
    parser.add_argument("--url", default="ws://127.0.0.1:8080/v1/responses")
    parser.add_argument("--model", required=True)
    parser.add_argument("--previous", metavar="ID", help="go on from this response")
    parser.add_argument("--max-tokens", type=int, default=512, help="of one reply (default: 512)")
    args = parser.parse_args()
    key = os.environ.get("PAWL_API_KEY")
    previous = args.previous
    try:
        with WebSocket(args.url, {"Authorization": f"Bearer {key}"} if key else None) as ws:
            while True:
                text = args.text or input("> " if sys.stdin.isatty() else "")
                response = turn(ws, print_text, model=args.model, input=text,
                                previous_response_id=previous, max_output_tokens=args.max_tokens)
                print(f"\n{describe(response)}")
                previous = response["id"]
                if args.text:
                    return 0
    except EOFError:
        return 0
    except KeyboardInterrupt:
        return 130
    except (OSError, WebSocketError, RuntimeError) as error:
        print(f"chat_ws.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
