"""What the tests of resumed streams share: a script, streams that can be left, waiting for a state.

Each of these talks to the server `of`, or to the file's usual one, which use() has set.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import time

import exposition
from common import SLOWNESS, equal, need

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
SCRIPT = {"context": 4096, "max_sequences": 16, "replies": [
    {"when": "weather", "text": "<think>\nWhere is it?\n</think>\n\nI will look.\n" + CALL, "delay_ms": 1},
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"when": "flood", "text": "0123456789", "end": "none"},
    {"when": "slowly", "text": "It takes a while to say all of this.", "delay_ms": 20},
    {"when": "at length", "text": "word " * 400},
    {"when": "break", "text": "abc", "fail_at": 2},
    {"text": "Yes, all is well."},
]}

usual = [None]


def use(server):
    usual[0] = server
    return server


def scrape(of=None):
    return exposition.parse((of or usual[0]).http("GET", "/metrics").body)


def gauge(name, of=None):
    return sum(value for (got, _), value in scrape(of).items() if got == name)


def turns(of=None):
    """How many turns have ended."""
    return gauge("pawl_request_success_total", of)


def until(what, condition, seconds=20):
    end = time.monotonic() + seconds * SLOWNESS
    while not (got := condition()):
        need(time.monotonic() < end, f"{what} did not come")
        time.sleep(0.02)
    return got


class Stream:
    """An event stream that its client can leave at any event."""

    def __init__(self, method, path, body=None, of=None, **headers):
        self.server = of or usual[0]
        self.connection = http.client.HTTPConnection(self.server.host, int(self.server.port), timeout=60 * SLOWNESS)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            body, headers["Content-Type"] = json.dumps(body), "application/json"
        self.connection.request(method, path, body, headers)
        self.reply = self.connection.getresponse()
        self.status = self.reply.status

    def next(self):
        """The next event; None at the end of the stream."""
        while (line := self.reply.readline()):
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        return None

    def take(self, n):
        return [self.next() for _ in range(n)]

    def rest(self):
        events = list(iter(self.next, None))
        self.leave()
        return events

    def leave(self):
        self.reply.close()
        self.connection.close()


def create(of=None, headers={}, **request):
    stream = Stream("POST", "/v1/responses", {"model": "replay", "stream": True, **request}, of, **headers)
    equal(stream.status, 200, "status of a stream")
    return stream


def again(response_id, after=None, of=None):
    query = "" if after is None else f"&starting_after={after}"
    stream = Stream("GET", f"/v1/responses/{response_id}?stream=true{query}", of=of)
    equal(stream.status, 200, f"status of {response_id} again, after {after}")
    equal(stream.reply.headers["content-type"], "text/event-stream; charset=utf-8", "content type")
    return stream


def get(response_id, of=None, expect=200):
    reply = (of or usual[0]).http("GET", f"/v1/responses/{response_id}")
    equal(reply.status, expect, f"status ({reply.body[:200]!r})")
    return reply.json()


def refused(path, status, code, param=None, of=None, method="GET", **headers):
    reply = (of or usual[0]).http(method, path, **headers)
    equal(reply.status, status, f"status ({reply.body[:200]!r})")
    error = reply.json()["error"]
    equal(error["code"], code, f"code ({error['message']})")
    equal(error["param"], param, "param")
    return error


def ended(response_id, of=None):
    return until("its end", lambda: (got := get(response_id, of))["status"] not in ("queued", "in_progress") and got)


def nothing_runs(of=None):
    """Waits until nothing is left of what was asked."""
    names = ("event_logs_running", "event_log_readers", "num_requests_running", "num_requests_waiting", "requests_open")
    until("the end of all", lambda: all(gauge(f"pawl_{name}", of) == 0 for name in names))
