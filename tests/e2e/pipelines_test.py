"""Pipelines of a server: started, looked at, followed, answered, cancelled over HTTP.

SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib
import subprocess
import tempfile
import threading
import time

from common import HERMES, PAWL, SLOWNESS, TEST_PLUGINS, Server, case, equal, events_of, main, need

MODEL = {"replies": [
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"text": "A summary.", "delay_ms": 1},
]}

PIPELINES = {
    "hello": """return h.pipeline { name = "hello", description = "Says hello.",
        params = { type = "object", required = { "name" }, properties = { name = { type = "string" } } },
        run = function(ctx, input)
            ctx:emit("greeting", "hello " .. input.name)
            ctx:progress(1, 1)
            return { said = require_words.hello .. input.name, model = ctx:session():add { role = "user", content = "x" }:generate().text }
        end }""",
    "many": """return h.pipeline { name = "many", run = function(ctx, input)
        local list = {}
        for i = 1, 50 do list[i] = i end
        return ctx:map(list, function(i)
            return ctx:step("doc:" .. i, function()
                ctx:emit("document", i)
                return ctx:session():fork():add { role = "user", content = "doc" }:generate().text
            end)
        end)
    end }""",
    "asks": """return h.pipeline { name = "asks", run = function(ctx)
        return { answer = ctx:interrupt { prompt = "How many?", schema = { type = "integer" } } }
    end }""",
    "spins": 'return h.pipeline { name = "spins", limits = { wall_s = 30 }, run = function() while true do pcall(function() while true do end end) end end }',
    "waits": 'return h.pipeline { name = "waits", run = function(ctx) ctx:emit("begun") ctx:session():add { role = "user", content = "endless" }:generate() end }',
    "fails": 'return h.pipeline { name = "fails", run = function() error("no luck") end }',
}


class Pipelines(Server):
    """A server with these pipelines."""

    def __init__(self, *args):
        self._files = tempfile.TemporaryDirectory(prefix="pawl-e2e-")
        self.files = pathlib.Path(self._files.name)
        for name, text in PIPELINES.items():
            (self.files / f"{name}.lua").write_text(f'local h = require "pawl" local require_words = require "words"\n{text}')
        (self.files / "words.lua").write_text('return { hello = "hello, " }')
        super().__init__({"replay": MODEL}, "--pipelines", str(self.files), *args)

    def __exit__(self, *args):
        try:
            return super().__exit__(*args)
        finally:
            self._files.cleanup()

    def begin(self, pipeline, status=200, **params):
        reply = self.http("POST", f"/v1/pipelines/{pipeline}/runs", {"params": params})
        equal(reply.status, status, f"status ({reply.body[:300]!r})")
        return reply.json()

    def look(self, run, status=200):
        reply = self.http("GET", f"/v1/runs/{run}")
        equal(reply.status, status, f"status ({reply.body[:300]!r})")
        return reply.json()

    def wait(self, run, *states):
        deadline = time.monotonic() + 30 * SLOWNESS
        while (got := self.look(run))["state"] not in states:
            need(time.monotonic() < deadline, f"the run is {got}")
            time.sleep(0.02)
        return got

    def events(self, run, after=0, limit=1000):
        return self.http("GET", f"/v1/runs/{run}/events?after={after}&limit={limit}").json()

    def follow(self, run, after=0):
        reply = self.http("GET", f"/v1/runs/{run}/events?stream=true&after={after}")
        equal(reply.status, 200, f"status ({reply.body[:300]!r})")
        return events_of(reply.body)


@case
def a_run_from_begin_to_end():
    with Pipelines() as server:
        listed = server.http("GET", "/v1/pipelines").json()["data"]
        equal(sorted(p["name"] for p in listed), sorted(PIPELINES), "the pipelines")
        hello = next(p for p in listed if p["name"] == "hello")
        equal((hello["description"], hello["params"]["required"]), ("Says hello.", ["name"]), "what is told of one")
        run = server.begin("hello", name="Ada")
        need(run["id"].startswith("run_") and run["object"] == "pipeline.run" and run["pipeline"] == "hello", run)
        done = server.wait(run["id"], "done")
        equal(done["result"], {"said": "hello, Ada", "model": "A summary."}, "the result")
        equal(done["params"], {"name": "Ada"}, "the input")
        events = server.events(run["id"])
        equal([e["type"] for e in events["data"]], ["run.started", "greeting", "run.progress", "run.done"], "the events")
        equal([e["seq"] for e in events["data"]], [1, 2, 3, 4], "their numbers")
        equal(events["has_more"], False, "all of them")
        equal(server.events(run["id"], after=1, limit=1), {"object": "list", "data": events["data"][1:2], "has_more": True}, "a page")
        equal(server.follow(run["id"]), events["data"], "the stream of a run that has ended")
        equal(server.follow(run["id"], after=3), events["data"][3:], "the rest of it")
        equal([r["id"] for r in server.http("GET", "/v1/runs").json()["data"]], [run["id"]], "the list")


@case
def what_is_refused():
    with Pipelines() as server:
        need("lacks 'name'" in server.begin("hello", 400)["error"]["message"], "what is wrong with the input")
        server.begin("nobody", 404)
        server.look("run_none", 404)
        equal(server.http("GET", "/v1/runs/run_none/events?stream=true").status, 404, "a stream of nothing")
        equal(server.http("POST", "/v1/pipelines/hello/runs", {"param": {}}).status, 400, "a misspelt member")
        equal(server.http("POST", "/v1/pipelines/hello/runs", b"{").status, 400, "no JSON")
        run = server.begin("fails")["id"]
        failed = server.wait(run, "failed")
        need("no luck" in failed["error"]["message"] and failed["error"]["code"] == "script", failed)
        equal(server.http("GET", f"/v1/runs/{run}/events?after=x").status, 400, "a number")
        equal(server.http("POST", f"/v1/runs/{run}/cancel").status, 409, "cancelling what has ended")
        equal(server.http("POST", f"/v1/runs/{run}/answer", {"answer": 1}).status, 400, "an answer to no question")
    with Server({"replay": MODEL}) as server:
        equal(server.http("GET", "/v1/pipelines").status, 404, "a server without pipelines")


@case
def a_question():
    with Pipelines() as server:
        run = server.begin("asks")["id"]
        parked = server.wait(run, "parked")
        equal(parked["question"], {"prompt": "How many?", "schema": {"type": "integer"}}, "the question")
        server.kill()                                   # a parked run is nothing but its row
        server.start()
        equal(server.look(run)["state"], "parked", "the state after a restart")
        equal(server.http("POST", f"/v1/runs/{run}/answer", {"answer": "x"}).status, 400, "a wrong answer")
        equal(server.http("POST", f"/v1/runs/{run}/answer", {"answer": 7}).status, 200, "the answer")
        equal(server.wait(run, "done")["result"], {"answer": 7}, "the result")
        other = server.begin("asks")["id"]
        server.wait(other, "parked")
        equal(server.http("POST", f"/v1/runs/{other}/cancel").json()["state"], "cancelled", "a cancelled question")


@case
def cancelling():
    with Pipelines() as server:
        for name in ("waits", "spins"):
            run = server.begin(name)["id"]
            time.sleep(0.1)
            equal(server.look(run)["state"], "running", "the state")
            equal(server.http("POST", f"/v1/runs/{run}/cancel").status, 200, "status")
            equal(server.wait(run, "cancelled", "done")["state"], "cancelled", f"{name}: the state")


@case
def a_script_that_spins_starves_nobody():
    with Pipelines("--script-threads", "1") as server:
        spinning = [server.begin("spins")["id"] for _ in range(3)]
        run = server.begin("hello", name="Bob")["id"]
        server.wait(run, "done")
        for each in spinning:
            equal(server.look(each)["state"], "running", "those that spin")
            server.http("POST", f"/v1/runs/{each}/cancel")
        for each in spinning:
            server.wait(each, "cancelled")


@case
def runs_outlive_kill_9():
    with Pipelines() as server:
        run = server.begin("many")["id"]
        for _ in range(4):
            time.sleep(0.12)
            server.kill()
            server.start()                              # and it goes on by itself
        done = server.wait(run, "done")
        equal(done["result"], ["A summary."] * 50, "the result")
        events, after = [], 0
        while page := server.events(run, after, limit=30)["data"]:
            events += page
            after = page[-1]["seq"]
        equal(sorted(e["data"] for e in events if e["type"] == "document"), list(range(1, 51)), "each document is told once")
        need(sorted({e["seq"] for e in events}) == [e["seq"] for e in events], "numbers that ascend")
        need(sum(e["type"] == "run.resumed" for e in events) >= 1, "it was resumed")


@case
def runs_are_followed():
    with Pipelines() as server:
        run = server.begin("many")["id"]
        streams = [None] * 5
        def follow(i):
            streams[i] = server.follow(run)
        threads = [threading.Thread(target=follow, args=(i,)) for i in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stored = server.events(run)["data"]
        for stream in streams:
            equal(stream, stored, "a stream against what is stored")
        equal(stream[-1]["type"], "run.done", "the end")
        # Who goes leaves the run alone; and a stream that nobody reads ends with its client.
        waits = server.begin("waits")["id"]
        connection = server._connection(10)
        connection.request("GET", f"/v1/runs/{waits}/events?stream=true")
        got = connection.getresponse()
        need(b"run.started" in got.readline() + got.readline(), "the first event")
        connection.close()
        time.sleep(0.2)
        equal(server.look(waits)["state"], "running", "the state after its follower went")


@case
def many_at_once():
    with Pipelines("--script-threads", "3") as server:
        ids = [server.begin("hello", name=str(i))["id"] for i in range(40)]
        for i, run in enumerate(ids):
            equal(server.wait(run, "done")["result"]["said"], f"hello, {i}", "a result")


@case
def keys_keep_runs_apart():
    with tempfile.TemporaryDirectory(prefix="pawl-e2e-") as folder:
        path = pathlib.Path(folder) / "keys"
        path.write_text("sk-one\n")
        path.chmod(0o600)
        with Pipelines("--api-key-file", str(path)) as server:
            equal(server.http("GET", "/v1/pipelines").status, 401, "without a key")
            reply = server.http("POST", "/v1/pipelines/hello/runs", {"params": {"name": "x"}}, Authorization="Bearer sk-one")
            equal(reply.status, 200, "with it")
            equal(server.http("GET", f"/v1/runs/{reply.json()['id']}").status, 401, "a run without a key")


@case
def broken_pipelines_stop_the_start():
    with tempfile.TemporaryDirectory(prefix="pawl-e2e-") as folder:
        folder = pathlib.Path(folder)
        (folder / "a.lua").write_text("return = 1")
        (folder / "m.replay.json").write_text(json.dumps({"replay": 1, "chat_template": HERMES, **MODEL}))
        done = subprocess.run([PAWL, "serve", "--listen", "127.0.0.1:0", "--data", folder / "d", "--plugin-dir", TEST_PLUGINS,
                               "--pipelines", folder, "--model", folder / "m.replay.json"], capture_output=True, text=True, timeout=30 * SLOWNESS)
        need(done.returncode != 0 and "a.lua" in done.stderr, done.stderr[-500:])


if __name__ == "__main__":
    main()
