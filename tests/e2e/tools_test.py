"""--tools: HTTP requests and commands that scripts may call, and ones that attack.

SPDX-License-Identifier: Apache-2.0
"""
import http.server
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time
import urllib.parse

from common import PAWL, SLOWNESS, case, equal, main, need
from pipelines import Run


LONG = 100000 + os.getpid()  # seconds that nobody else's test sleeps


class Site(http.server.BaseHTTPRequestHandler):
    """Answers by path; keeps what it was asked."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass  # it was enough for the client

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path, dict(self.headers), body))
        if url.path == "/echo":
            query = {k: v[0] for k, v in urllib.parse.parse_qs(url.query).items()}
            sent = json.loads(body) if body else None
            self.answer(200, json.dumps({"query": query, "body": sent, "auth": self.headers.get("Authorization")}).encode())
        elif url.path == "/text":
            self.answer(200, b"plain\n", "text/plain")
        elif url.path.startswith("/status/"):
            self.answer(int(url.path[8:]), b"oh dear\nmore", "text/plain")
        elif url.path == "/hang":
            time.sleep(3)
            self.answer(200, b"late")
        elif url.path == "/flood":
            self.answer(200, b"x" * 3000000)
        elif url.path == "/endless":
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x" * 10000)
            except OSError:
                pass
        elif url.path == "/latin":
            self.answer(200, b"gr\xfcn", "text/plain")
        elif url.path == "/to":
            self.answer(302, b"", Location=urllib.parse.parse_qs(url.query)["where"][0])
        elif url.path == "/loop":
            self.answer(302, b"", Location="/loop")
        else:
            self.answer(404, b"none")

    do_POST = do_GET


class World:
    """A site, a second one, and a file of tools."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="pawl-e2e-")
        self.folder = pathlib.Path(self._folder.name)
        self.sites = []
        for _ in range(2):
            site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
            site.daemon_threads, site.handle_error = True, lambda *_: None  # clients that hang up are expected
            site.asked = []
            threading.Thread(target=site.serve_forever, daemon=True).start()
            self.sites.append(site)
        self.url, self.other = (f"http://127.0.0.1:{site.server_port}" for site in self.sites)
        return self

    def __exit__(self, *_):
        for site in self.sites:
            site.shutdown()
            site.server_close()
        self._folder.cleanup()

    def run(self, tools, source, redirects=None, **more):
        path = self.folder / "tools.json"
        path.write_text(json.dumps({"tools": tools, **({"redirects": redirects} if redirects else {})}))
        return Run(source, "--tools", path, model=None, **more)

    def call(self, tool, args="{}", options="nil", **more):
        """What one tool gives, or "code!retryable!message"."""
        return self.run([{"name": "t", **tool}], f"""
            ctx:tools {{ "t" }}
            local value, err = ctx:tool("t", {args}, {options})
            if err then return err.code .. "!" .. tostring(err.retryable) .. "!" .. err.message end
            return value
        """, **more).is_done()


@case
def requests():
    os.environ["PAWL_TEST_SECRET"] = "s3cret"
    with World() as world:
        (world.folder / "token").write_text("fr0m file\n")
        get = {"url": world.url + "/echo?a=1", "headers": {"Authorization": {"env": "PAWL_TEST_SECRET", "prefix": "Bearer "}}}
        equal(world.call(get, "{ q = 'x & y', n = 2, l = h.array { 1 } }"),
              {"query": {"a": "1", "q": "x & y", "n": "2", "l": "[1]"}, "auth": "Bearer s3cret"} | {"body": None}, "a GET")
        post = {"url": world.url + "/echo", "method": "POST", "headers": {"Authorization": {"file": str(world.folder / "token")}}}
        equal(world.call(post, "{ q = 'x' }"), {"query": {}, "body": {"q": "x"}, "auth": "fr0m file"}, "a POST")
        equal(world.call({"url": world.url + "/text"}), "plain", "a text")
        method, _, headers, _ = world.sites[0].asked[0]
        equal((method, headers["User-Agent"], headers.get("Accept-Encoding"), headers.get("Cookie")), ("GET", "pawl", None, None), "headers")


@case
def replies_that_fail():
    with World() as world:
        for path, code, again, why in (("/status/404", "http", "false", "status 404: oh dear"), ("/status/503", "http", "true", "503"),
                                       ("/status/429", "http", "true", "429"), ("/flood", "too_large", "false", "262144 bytes"),
                                       ("/endless", "too_large", "false", ""), ("/latin", "encoding", "false", "UTF-8")):
            got = world.call({"url": world.url + path})
            need(got.startswith(f"{code}!{again}!") and why in got and "more" not in got.replace("more than", ""), f"{path}: {got}")
        began = time.monotonic()
        got = world.call({"url": world.url + "/hang", "timeout_ms": 300})
        need(got.startswith("timeout!true!"), got)
        got = world.call({"url": world.url + "/hang"}, options="{ timeout_ms = 300 }")
        need(got.startswith("timeout!true!"), got)
        need(time.monotonic() - began < 2.5 * SLOWNESS, "it did not wait for the server")
        got = world.call({"url": "http://127.0.0.1:1/x?secret=1"})
        need(got.startswith("network!true!http://127.0.0.1:1: ") and "secret" not in got, got)
        got = world.call({"url": "http://no-such-host.invalid/"})
        need(got.startswith("network!true!"), got)


@case
def redirects_stay_in_the_list():
    os.environ["PAWL_TEST_SECRET"] = "s3cret"
    with World() as world:
        def to(where, method="GET", redirects=None):
            return world.call({"url": world.url + "/to?where=" + urllib.parse.quote(where), "method": method,
                               "headers": {"Authorization": {"env": "PAWL_TEST_SECRET"}}}, redirects=redirects)
        equal(to("/echo")["auth"], "s3cret", "within the origin")
        for where, method in ((world.other + "/echo", "GET"), ("file:///etc/passwd", "GET"), ("gopher://x/", "GET"),
                              ("http://user@127.0.0.1/", "GET"), ("/echo", "POST")):
            got = to(where, method)
            need(got.startswith("redirect!false!"), f"{where}: {got}")
        equal(len(world.sites[1].asked), 0, "requests to the other site")
        equal(to(world.other + "/echo", redirects=[world.other])["auth"], None, "the header at an allowed one")
        need(world.call({"url": world.url + "/loop"}).startswith("redirect!"), "a loop")


@case
def names_that_mean_our_own_machine():
    """A name from the hosts file that means a private address: what a rebound name would do."""
    names = [line.split() for line in pathlib.Path("/etc/hosts").read_text().splitlines() if line.strip() and line[0] != "#"]
    ours = [w for words in names if words[0].startswith(("127.", "10.", "172.", "192.168.")) for w in words[1:] if w != "localhost"]
    with World() as world:
        port = world.sites[0].server_port
        equal(world.call({"url": f"http://localhost:{port}/text"}), "plain", "localhost, named by the operator")
        if not ours:
            print("    SKIP: the hosts file gives no other name to a private address")
            return
        got = world.call({"url": f"http://{ours[0]}:{port}/text"})
        need(got.startswith("denied!false!") and "not public" in got, got)
        got = world.call({"url": f"http://{ours[0]}:{port}/text", "private": True})
        need(got == "plain" or got.startswith("network!"), got)


@case
def commands():
    with World() as world:
        equal(world.call({"command": ["cat"]}, "{ a = 1, b = { 'x' } }"), {"a": 1, "b": ["x"]}, "JSON")
        equal(world.call({"command": ["echo", "two words"]}), "two words", "text")
        equal(world.call({"command": ["sh", "-c", "printf '[1, 2'"]}), "[1, 2", "what is no JSON is text")
        equal(world.call({"command": ["sh", "-c", "echo false"]}), False, "a false")
        os.environ["PAWL_TEST_SECRET"] = "s3cret"
        equal(world.call({"command": ["sh", "-c", "echo $PAWL_TEST_SECRET"]}), "", "the environment")
        equal(world.call({"command": ["sh", "-c", "echo $PAWL_TEST_SECRET"], "env": ["PAWL_TEST_SECRET"]}), "s3cret", "a named part of it")
        for line, code, again, why in (("echo no luck >&2; exit 3", "tool", "false", "no luck"), ("exit 75", "tool", "true", "status 75"),
                                       ("kill -9 $$; sleep 9", "killed", "false", ""), ("yes", "too_large", "false", "0.2 MiB"),
                                       ("printf 'gr\\374n'", "encoding", "false", "")):
            got = world.call({"command": ["sh", "-c", line], "timeout_ms": 5000})
            if code == "killed" and got.startswith("timeout"):
                continue  # the first process of a namespace is deaf to its own signals
            need(got.startswith(f"{code}!{again}!") and why in got, f"{line}: {got}")


@case
def commands_that_resist():
    with World() as world:
        began = time.monotonic()
        for line in (f"sleep {LONG}", f"trap '' TERM HUP INT; sleep {LONG}", f"setsid sleep {LONG} & sleep {LONG}", "yes >&2",
                     f"exec 1>&- 2>&-; sleep {LONG}", f"while :; do sleep {LONG} & done"):
            got = world.call({"command": ["sh", "-c", line], "timeout_ms": 400})
            need(got.startswith(("timeout!true!", "tool!")), f"{line}: {got}")
        need(time.monotonic() - began < 30 * SLOWNESS, "they ended")
        equal(running(LONG), 0, "processes that are left")
        run = world.run([{"name": "t", "command": ["sleep", str(LONG)]}],
                        "ctx:tools { 't' } ctx:emit('begun') ctx:tool('t')", kill_after=0.3)
        run.failed("cancelled")
        need(run.seconds < 2 * SLOWNESS, f"it took {run.seconds:.1f} s")


def running(seconds):
    """How many processes sleep for so long."""
    n = 0
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            n += path.read_bytes().split(b"\0")[:2] == [b"sleep", str(seconds).encode()]
        except OSError:
            pass  # it has ended since
    return n


@case
def a_killed_pawl_leaves_no_tool_behind():
    with World() as world:
        (world.folder / "tools.json").write_text(json.dumps({"tools": [
            {"name": "t", "command": ["sh", "-c", f"sleep {LONG} & sleep {LONG}"]}]}))
        (world.folder / "p.lua").write_text('local h = require "pawl" return h.pipeline { name = "p", run = function(ctx) '
                                            "ctx:tools { 't' } ctx:tool('t') end }")
        process = subprocess.Popen([PAWL, "run", world.folder / "p.lua", "--ephemeral", "--tools", world.folder / "tools.json"])
        try:
            wait_until(lambda: running(LONG) == 2, "the tool runs")
        finally:
            process.kill()
            process.wait()
        wait_until(lambda: running(LONG) == 0, "it ends with pawl")


def wait_until(holds, what):
    end = time.monotonic() + 20 * SLOWNESS
    while not holds():
        need(time.monotonic() < end, what)
        time.sleep(0.05)


@case
def tools_beside_functions():
    with World() as world:
        tools = [{"name": "up", "description": "Raises.", "command": ["tr", "a-z", "A-Z"],
                  "parameters": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}}]
        world.run(tools, """
            local list = ctx:tools { "up", { name = "own", run = function() return 1 end } }
            assert(list[1].name == "up" and list[1].description == "Raises." and list[1].parameters.required[1] == "text" and not list[1].run)
            local value, err = ctx:tool("up", {})
            assert(err.code == "invalid_arguments", err.code)
            ctx:tools { "up" }
            local none = select(2, ctx:tool("down"))
            local many = ctx:map({ "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l" }, function(text)
              return ctx:tool("up", { text = text }).TEXT
            end, { parallel = 12 })
            return { many[1], many[12], none.code, ctx:tool("own") }
        """).is_done(["A", "L", "unknown_tool", 1])
        world.run(tools, "ctx:tools { 'down' }").failed("script", "no tool is named 'down'")
        Run("ctx:tools { 'x' }", model=None).failed("script", "start with --tools FILE")


@case
def files_that_are_wrong():
    with World() as world:
        good = {"name": "t", "url": "https://example.org/"}
        for tool, why in (({"name": "t"}, "'url' or a 'command'"), ({**good, "name": "a b"}, "'name'"), ({**good, "urll": 1}, "'urll'"),
                          ({**good, "url": "ftp://x/"}, "http:// or https://"), ({**good, "url": "file:///etc/passwd"}, "http://"),
                          ({**good, "url": "http://u:p@x/"}, "user name"), ({**good, "method": "FETCH"}, "'method'"),
                          ({**good, "headers": {"A B": "x"}}, "no name of a header"), ({**good, "headers": {"A": "x\r\nB: y"}}, "one line"),
                          ({**good, "headers": {"A": {"env": "PAWL_NOT_SET"}}}, "PAWL_NOT_SET"), ({**good, "headers": {"A": {}}}, "'env' or 'file'"),
                          ({**good, "timeout_ms": 0}, "'timeout_ms'"), ({**good, "max_bytes": 1e9}, "'max_bytes'"),
                          ({**good, "parameters": {"pattern": "x"}}, "pattern"), ({**good, "command": ["x"]}, "'command'"),
                          ({"name": "t", "command": []}, "'command'"), ({"name": "t", "command": "ls"}, "'command'"),
                          ({"name": "t", "command": ["no-such-program"]}, "cannot be run"),
                          ({"name": "t", "command": ["ls"], "env": ["PAWL_NOT_SET"]}, "PAWL_NOT_SET")):
            run = world.run([tool], "return 1")
            equal(run.status, 1, f"status for {tool}")
            need(why in run.log and "tools.json" in run.log, f"{why!r} in {run.log!r}")
        need("second one" in world.run([good, good], "return 1").log, "two of a name")
        path = world.folder / "tools.json"
        path.write_text('{"tools": [}')
        need("tools.json" in Run("return 1", "--tools", path, model=None).log, "broken JSON")


if __name__ == "__main__":
    main()
