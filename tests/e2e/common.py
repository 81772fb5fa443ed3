"""A Pawl server for one test, and ways to talk to it.

Each *_test.py is a program of cases (functions marked @case) that starts its own
servers: real processes of the pawl that was just built, on a free port, with a data
folder of their own, ended by their process id. Which build: PAWL_BUILD_DIR.

The exit status is 0 if all cases passed, 77 if the file cannot run here (ctest calls
that skipped), else 1. What a server wrote to standard error is shown when its test
failed; a sanitizer's report in it is a failure, whatever the test says.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PAWL_BUILD_DIR", ROOT / "build"))
PAWL = BUILD / "pawl"
TEST_PLUGINS = BUILD / "tests" / "plugins"
SANITIZER = os.environ.get("PAWL_SANITIZE", "")
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "pawl"
SMOLLM2 = CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf"

# What a replay model says its chat template is: enough of one for Pawl to recognise
# the dialect hermes, with thoughts, and calls as <tool_call>{…}</tool_call>.
HERMES = ("<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>"
          '<tool_call>\\n{\\"name\\"')

# An unhurried build gets more time; no limit here is a measure of speed.
SLOWNESS = 10 if SANITIZER else 1
START_TIMEOUT = 30 * SLOWNESS
READY = re.compile(r"listening on (https?)://(\S+)/v1$")
REPORT = re.compile(r"ERROR: \w*Sanitizer|WARNING: ThreadSanitizer|runtime error: ")

sys.path[:0] = [str(ROOT / "tests" / "e2e" / "clients"), str(ROOT / "examples" / "clients")]
os.environ.setdefault("MODEL", "replay")
os.environ.setdefault("XDG_STATE_HOME", str(BUILD / "tests" / "state"))  # the user's is not ours


def skip_file(why):
    print(f"SKIP: {why}")
    sys.exit(77)


try:
    import openai  # noqa: F401 - the checks below validate with its classes
except ImportError:
    skip_file("the Python packages of tests/requirements.txt are missing; tests/run.sh installs them")

import harness  # noqa: E402
from chat_ws import BINARY, CLOSE, ENDS, PING, PONG, TEXT, WebSocket, WebSocketError  # noqa: E402,F401
from harness import (  # noqa: E402,F401
    Skip, case, check_stream, equal, main, need, one_of, strict, strict_response, strict_usage, text_of)


harness.CASE_TIMEOUT = 60 * SLOWNESS


def case_timeout(seconds):
    """For files whose cases take longer than a minute."""
    harness.CASE_TIMEOUT = seconds * SLOWNESS


def need_smollm2():
    if not SMOLLM2.exists():
        skip_file(f"{SMOLLM2} is missing; tests/run.sh fetches it")
    return SMOLLM2


class Reply:
    """One whole HTTP reply."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class Server:
    """A server process. `models`: name -> path, or a dict that becomes a replay script
    (tests/plugins/replay). Use it in a with statement: at the end it must exit with 0."""

    def __init__(self, models, *args, env=None):
        self._folder = tempfile.TemporaryDirectory(prefix="pawl-e2e-")
        self.folder = pathlib.Path(self._folder.name)
        self.data = self.folder / "data"
        self.data.mkdir(0o700)
        self.log_path = self.folder / "stderr.log"
        # What runs when a test is over is cancelled at once; lifecycle_test.py is about draining.
        self.command = [PAWL, "serve", "--listen", "127.0.0.1:0", "--data", self.data, "--threads", "2",
                        "--plugin-dir", TEST_PLUGINS, "--drain-seconds", "0", *args]
        for name, model in models.items():
            self.command += ["--model", f"{name}={self._path_of(name, model)}"]
        self.environment = {name: value for name, value in os.environ.items() if name != "PAWL_API_KEY"}
        self.environment.update(env or {})
        self.process = None

    def _path_of(self, name, model):
        if not isinstance(model, dict):
            return model
        path = self.folder / f"{name}.replay.json"
        path.write_text(json.dumps({"replay": 1, "chat_template": HERMES, **model}))
        return path

    # ------------------------------------------------------------- process

    def start(self, wait=True):
        """Starts it; with wait, until it has tried its models."""
        log = open(self.log_path, "ab")
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=log, env=self.environment, text=True)
        log.close()
        watchdog = threading.Timer(START_TIMEOUT, self.process.kill)
        watchdog.start()
        try:
            for line in self.process.stdout:
                if (ready := READY.match(line.strip())):
                    self.scheme, self.address = ready.groups()
                    self.host, self.port = self.address.rsplit(":", 1)
                    return self.tried() if wait else self
        finally:
            watchdog.cancel()
        raise AssertionError(f"the server ended before it listened, with status {self.process.wait()}")

    def tried(self):
        while b"is starting" in self.http("GET", "/readyz").body:
            time.sleep(0.01)
        return self

    @property
    def base_url(self):
        return f"{self.scheme}://{self.address}/v1"

    def kill(self):
        self.process.kill()
        self._ended()

    def stop(self, how=signal.SIGTERM, within=15):
        """Ends the server as an operator does; it must go in peace."""
        self.process.send_signal(how)
        try:
            equal(self._ended(within * SLOWNESS), 0, "exit status of the server")
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not end within {within * SLOWNESS} s of signal {how}") from None

    def _ended(self, timeout=None):
        status = self.process.wait(timeout)
        self.process.stdout.close()
        return status

    def log(self):
        return self.log_path.read_text(errors="replace")

    def running(self):
        return self.process is not None and self.process.poll() is None

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.stop()
            elif self.running():
                self.kill()
            found = REPORT.search(self.log())
            need(not found or kind, f"the server's log has a report: {found and found[0]}")
        except BaseException:
            kind = True
            raise
        finally:
            if kind:
                self._show_log()
            self._folder.cleanup()

    def _show_log(self):
        lines = self.log().splitlines()
        found = next((i for i, line in enumerate(lines) if REPORT.search(line)), None)
        shown = lines[found:found + 60] if found is not None else lines[-40:]
        print("".join(f"    | {line}\n" for line in shown), end="", flush=True)

    def memory(self, *names):
        """Sums in bytes from /proc: Pss, Rss… of smaps_rollup, VmHWM… of status."""
        text = "".join(pathlib.Path(f"/proc/{self.process.pid}/{f}").read_text() for f in ("smaps_rollup", "status"))
        return [int(re.search(rf"^{name}:\s+(\d+) kB", text, re.M)[1]) * 1024 for name in names]

    def descriptors(self):
        """How many files the process has open."""
        return len(list(pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir()))

    # ------------------------------------------------------------ requests

    def _connection(self, timeout):
        if self.scheme == "http":
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        anybody = ssl.create_default_context()  # whose certificate it is, limits_test.py looks at
        anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=anybody)

    def http(self, method, path, body=None, timeout=60, **headers):
        """One HTTP request on a connection of its own. A body that is not bytes is
        sent as JSON. Header names with _ for -."""
        connection = self._connection(timeout * SLOWNESS)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, headers)
            got = connection.getresponse()
            return Reply(got.status, got.headers, got.read())
        finally:
            connection.close()

    def create(self, expect=200, **request):
        """POST /v1/responses, checked; returns the response object."""
        request.setdefault("model", "replay")
        reply = self.http("POST", "/v1/responses", request)
        equal(reply.status, expect, f"status ({reply.body[:200]!r})")
        if expect == 200:
            strict_response(reply.json())
        return reply.json()

    def stream(self, **request):
        """The events of POST /v1/responses with stream: true, as they are framed."""
        request = {"model": "replay", "stream": True, **request}
        reply = self.http("POST", "/v1/responses", request)
        equal(reply.status, 200, f"status ({reply.body[:200]!r})")
        need(reply.headers["content-type"].startswith("text/event-stream"), "content type of a stream")
        return events_of(reply.body)

    def connect(self, **headers):
        return WebSocket(f"ws://{self.address}/v1/responses", headers, timeout=60 * SLOWNESS)


def events_of(body):
    """The events of an SSE body; every block is 'event: T' and 'data: {…T…}', LF only."""
    text = body.decode()
    need("\r" not in text, "a CR in the stream")
    events = []
    for block in filter(None, text.split("\n\n")):
        if block.startswith(":"):
            continue
        lines = block.split("\n")
        equal(len(lines), 2, f"lines in the block {block[:80]!r}")
        need(lines[0].startswith("event: ") and lines[1].startswith("data: "), f"block {block[:80]!r}")
        events.append(json.loads(lines[1][6:]))
        equal(lines[0][7:], events[-1]["type"], "event name against its type")
    return events


def send(ws, **request):
    request = {"type": "response.create", "model": "replay", **request}
    ws.send(json.dumps(request))


def receive(ws, until=ENDS):
    """Events up to and with the first whose type is in until."""
    events = []
    while not events or events[-1]["type"] not in until:
        events.append(json.loads(ws.recv()))
    return events


def ask(ws, **request):
    """One turn on a socket, checked; returns the response object."""
    send(ws, **request)
    return check_stream(receive(ws), lane=request.get("stream_id"))


def refused(ws, code, status=400, param=None, **request):
    """A request that must be answered by an error frame."""
    send(ws, **request)
    return check_error(receive(ws)[-1], code, status, param, request.get("stream_id"))


def check_error(event, code, status=400, param=None, lane=None):
    equal(event["type"], "error", f"type of {json.dumps(event)[:200]}")
    equal(event["status"], status, f"status of {json.dumps(event)[:200]}")
    equal(set(event["error"]), {"type", "code", "message", "param"}, "keys of an error")
    equal(event["error"]["code"], code, f"code ({event['error']['message']})")
    need(event["error"]["message"], "an error without a message")
    if param:
        equal(event["error"]["param"], param, f"param ({event['error']['message']})")
    equal(event.get("stream_id"), lane, "stream_id of the error")
    return event["error"]


def receive_lanes(ws, lanes, events=None):
    """Events by lane until every lane has ended; the order of all is under None."""
    got = events or {}
    got.setdefault("all", [])
    left = set(lanes)
    while left:
        event = json.loads(ws.recv())
        lane = event.get("stream_id", "")
        got.setdefault(lane, []).append(event)
        got["all"].append(event)
        if event["type"] in ENDS:
            left.discard(lane)
    return got


def run_against(server):
    """Runs the file's cases against one server, whose end is judged too."""
    try:
        with server:
            try:
                main()
            except SystemExit as end:
                if end.code:
                    raise
    except AssertionError as fault:
        print(f"FAIL the server: {fault}")
        sys.exit(1)


def pause(seconds):
    time.sleep(seconds * SLOWNESS)
