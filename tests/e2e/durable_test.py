"""Runs of pipelines that outlive their process: kill -9, resume, questions and answers.

SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib
import random
import subprocess
import tempfile
import time

from common import HERMES, PAWL, REPORT, ROOT, SLOWNESS, TEST_PLUGINS, case, equal, main, need

HEAD = 'local h = require "pawl" return h.pipeline { name = "test", run = function(ctx, input) '
MODEL = {"replies": [{"when": "slow", "text": "late", "delay_ms": 20}, {"text": "A summary.", "delay_ms": 1}]}


class Folder:
    """A data folder, and the runs in it."""

    def __init__(self, source=None, path=None, model=MODEL):
        self._folder = tempfile.TemporaryDirectory(prefix="pawl-e2e-")
        self.folder = pathlib.Path(self._folder.name)
        self.path = path or self.folder / "test.lua"
        if source is not None:
            self.write(source)
        self.replay = self.folder / "replay.replay.json"
        self.replay.write_text(json.dumps({"replay": 1, "chat_template": HERMES, **model}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def write(self, source):
        self.path.write_text(HEAD + source + "\nend }")

    def command(self, *args):
        return [PAWL, "run", *args, "--data", self.folder / "data", "--plugin-dir", TEST_PLUGINS]

    def start(self, *args):
        return subprocess.Popen(self.command(*args, "--model", f"replay={self.replay}"), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run(self, *args, status=0):
        """Runs to the end. Its events, and standard error."""
        process = self.start(*args)
        out, log = process.communicate(timeout=60 * SLOWNESS)
        need(not REPORT.search(log), log[:4000])
        equal(process.returncode, status, f"status ({log[-500:]})")
        return [json.loads(line) for line in out.splitlines()], log

    def ask(self, *args, status=0):
        done = subprocess.run(self.command(*args), capture_output=True, text=True, timeout=60 * SLOWNESS)
        equal(done.returncode, status, f"status ({done.stderr[-500:]})")
        return done.stdout.splitlines() if status == 0 else done.stderr

    def runs(self):
        return [line.split() for line in self.ask("--list")]

    def only_run(self):
        (run,) = self.runs()
        return run[0]

    def events(self, run, *args):
        return [json.loads(line) for line in self.ask("--events", run, *args)]


def result_of(events):
    return next(e["data"] for e in events if e["type"] == "run.done")


def run_with_kills(folder, chance, *args):
    """Starts a run, kills it after some lines, resumes it, and so on. The lines of each process."""
    parts, arguments = [], [folder.path, *args]
    for attempt in range(60):
        process = folder.start(*arguments)
        lines, wanted = [], chance.randint(1, 14) if attempt < 12 else 10**6
        for line in process.stdout:
            lines.append(json.loads(line))
            if len(lines) == wanted:
                time.sleep(chance.random() * 0.02)
                process.kill()
                break
        lines += [json.loads(line) for line in process.stdout if line.endswith("}\n")]
        log = process.stderr.read()
        process.wait()
        process.stdout.close()
        process.stderr.close()
        need(not REPORT.search(log), log[:4000])
        parts.append(lines)
        if process.returncode == 0:
            return parts
        need(process.returncode == -9, f"it ended by itself with {process.returncode}: {log[-800:]}")
        if folder.runs():
            arguments = ["--resume", folder.only_run()]
    raise AssertionError("it never came to its end")


@case
def fifty_steps_and_kill_9():
    chance = random.Random(4)
    with Folder("""
        local list = {}
        for i = 1, 50 do list[i] = i end
        return ctx:map(list, function(i)
            local row = ctx:step("doc:" .. i, function()
                ctx:emit("document", { i = i })
                local s = ctx:session():fork():add { role = "user", content = "doc " .. i }
                local r, err = s:generate { max_tokens = 20 }
                if not r then return nil, err end
                return { i = i, text = r.text }
            end)
            ctx:emit("finished", i)
            return row
        end, { parallel = 4 })
    """) as folder:
        parts = run_with_kills(folder, chance)
        need(len(parts) > 4, f"only {len(parts) - 1} kills")
        finished, generated = set(), 0
        for lines in parts:
            begun = [line["data"]["i"] for line in lines if line["type"] == "document"]
            generated += len(begun)
            need(not finished & set(begun), f"finished steps were repeated: {finished & set(begun)}")
            finished |= {line["data"] for line in lines if line["type"] == "finished"}
        rows = result_of(parts[-1])
        equal([row["i"] for row in rows], list(range(1, 51)), "the documents")
        equal({row["text"] for row in rows}, {"A summary."}, "their summaries")
        told = [e["data"]["i"] for e in folder.events(folder.only_run()) if e["type"] == "document"]
        equal(sorted(told), list(range(1, 51)), "each document is told once")
        equal(folder.runs()[0][1], "done", "the state")
        need(generated <= 50 + 4 * (len(parts) - 1), f"{generated} generations after {len(parts) - 1} kills")
        print(f"    {len(parts) - 1} kills, {generated} generations for 50 documents")


@case
def nested_steps_and_kill_9():
    docs = {"docs": [{"name": f"d{i}", "text": "\n\n".join(f"Paragraph {k} of document {i}. " * 12 for k in range(6))}
                     for i in range(5)] + [{"name": "empty", "text": " \n"}], "words": 20}
    model = {**MODEL, "context": 1400}
    path = ROOT / "examples" / "pipelines" / "summarise.lua"
    with Folder(path=path, model=model) as whole, Folder(path=path, model=model) as cut:
        results = []
        for folder in (whole, cut):
            (folder.folder / "docs.json").write_text(json.dumps(docs))
            args = ("--params-json", folder.folder / "docs.json")
            if folder is whole:
                results.append(result_of(folder.run(path, *args)[0]))
            else:
                results.append(result_of(run_with_kills(folder, random.Random(7), *args)[-1]))
        equal(results[1], results[0], "the same result as without interruption")
        equal((results[0]["documents"], results[0]["summarised"], len(results[0]["failed"])), (6, 5, 1), "the counts")
        told = [e["data"]["name"] for e in cut.events(cut.only_run()) if e["type"] == "document"]
        equal(sorted(told), [f"d{i}" for i in range(5)], "each document is told once")


@case
def questions_are_answered_one_by_one():
    with Folder("""
        local when = ctx:now()
        local seen = { ctx:random(), ctx:random() }
        ctx:sleep(300)
        return { when, seen, ctx:map({ "a", "b", "c" }, function(name)
            if name == "b" then return ctx:step("b", function() ctx:emit("worked", name) return name end) end
            return ctx:interrupt { prompt = "How is " .. name .. "?", schema = { type = "string", minLength = 2 } }
        end) }
    """) as folder:
        events, log = folder.run(folder.path, status=3)
        equal([e["type"] for e in events], ["worked", "run.parked"], "what it said")
        run = folder.only_run()
        need("How is a?" in log and f"pawl run --resume {run} --answer JSON" in log, log)
        equal(folder.runs()[0][1], "parked", "the state")
        folder.run("--resume", run, status=3)                                 # still
        folder.run("--resume", run, "--answer", '"x"', status=1)              # too short
        folder.run("--resume", run, "--answer", "fine", status=1)             # no JSON
        _, log = folder.run("--resume", run, "--answer", '"fine"', status=3)
        need("How is c?" in log, log)
        events, _ = folder.run("--resume", run, "--answer", '"good"')
        equal([e["type"] for e in events], ["run.done"], "the step is not repeated")
        when, seen, answers = events[0]["data"]
        equal(answers, ["fine", "b", "good"], "the answers")
        need(abs(time.time() * 1000 - when) < 600000 and seen[0] != seen[1], (when, seen))
        again, _ = folder.run("--resume", run)                                 # its result once more
        equal(result_of(again), events[0]["data"], "the result")
        parked = [e for e in folder.events(run) if e["type"] == "run.parked"]
        equal([e["data"]["prompt"] for e in parked], ["How is a?", "How is c?"], "the questions")
        folder.run("--resume", run, "--answer", '"more"', status=1)


@case
def replays_see_the_same():
    with Folder("""
        local parts = ctx:map({ 1, 2, 3 }, function(i)
            return { i, ctx:random(), ctx:step("s" .. i, function() return ctx:random() end), ctx:random() }
        end)
        local before = { ctx:now(), parts }
        ctx:emit("before", before)
        ctx:interrupt { prompt = "?" }
        return before
    """) as folder:
        events, _ = folder.run(folder.path, status=3)
        time.sleep(0.01)
        after, _ = folder.run("--resume", folder.only_run(), "--answer", "null")
        equal(result_of(after), events[0]["data"], "what the replay saw")
        values = [v for part in events[0]["data"][1] for v in part[1:]]
        equal(len(set(values)), 9, "random numbers")


@case
def tries_take_no_place_in_a_run():
    flaky = {"replies": [{"text": "abc", "fail_at": 2, "fail_status": "internal"}]}
    with Folder("""
        local s = ctx:session():add { role = "user", content = "x" }
        local r, e = ctx:retry({ tries = 3, backoff_ms = 1 }, function() return s:generate() end)
        return { ctx:interrupt { prompt = "?" }, r and r.text or e.code }
    """, model=flaky) as folder:
        folder.run(folder.path, status=3)
        folder.replay.write_text(json.dumps({"replay": 1, "chat_template": HERMES, **MODEL}))
        events, _ = folder.run("--resume", folder.only_run(), "--answer", "5")
        equal(result_of(events), [5, "A summary."], "the result, though the replay needed fewer tries")


@case
def steps():
    with Folder("""
        local n, failures = 0, 0
        local same = ctx:map({ 1, 2, 3, 4 }, function()
            return ctx:step("same", function()
                n = n + 1
                ctx:sleep(20)
                return { x = 1.0, list = h.array {}, none = h.null }
            end)
        end)
        for i = 1, 4 do assert(h.json(same[i]) == '{"list":[],"none":null,"x":1.0}', h.json(same[i])) end
        assert(n == 1)
        assert(ctx:step("nil", function() n = n + 1 end) == nil and ctx:step("nil", error) == nil and n == 2)
        for i = 1, 3 do
            local v, e = ctx:step("flaky", function()
                failures = failures + 1
                if failures == 1 then return nil, { code = "x", message = "m", retryable = true } end
                if failures == 2 then error("raised", 0) end
                return "third"
            end)
            assert(i == 3 and v == "third" or i == 1 and e.code == "x", i)
            if i == 1 then assert(select(2, pcall(ctx.step, ctx, "flaky", function() failures = 2 error("raised", 0) end)) == "raised") end
        end
        for _, wrong in ipairs { "", ("k"):rep(513), "a\\nb", "\\xff" } do assert(not pcall(ctx.step, ctx, wrong, print)) end
        assert(not pcall(ctx.step, ctx, "big", function() return ("x"):rep((2 << 20) + 1) end))
        assert(not pcall(ctx.step, ctx, "fn", function() return print end))
        local inner = select(2, pcall(ctx.step, ctx, "a", function() return ctx:step("a", print) end))
        assert(inner:find("within itself"), inner)
        return ctx:step("a", function() return ctx:step("b", function() return "deep" end) end)
    """.replace("for i = 1, 3 do", "for _, i in ipairs { 1, 3 } do")) as folder:
        events, _ = folder.run(folder.path)
        equal(result_of(events), "deep", "the result")


@case
def a_changed_file_is_stated_and_not_used():
    with Folder('ctx:interrupt { prompt = "?" } return "old"') as folder:
        folder.run(folder.path, status=3)
        folder.write('return "new"')
        events, log = folder.run("--resume", folder.only_run(), "--answer", "1")
        equal(result_of(events), "old", "the text that it began with")
        need("has changed" in log, log)


@case
def what_was_kept():
    with Folder("""
        for i = 1, 300 do ctx:emit("n", i) end
        ctx:log("warn", "careful") ctx:progress(1, 2)
        if input.fail then error("no luck") end
        return "x"
    """) as folder:
        folder.run(folder.path)
        folder.run(folder.path, "-p", "fail=1", status=1)
        runs = folder.runs()
        equal(sorted(run[1] for run in runs), ["done", "failed"], "the states")
        done = next(run[0] for run in runs if run[1] == "done")
        events = folder.events(done)
        equal([e["seq"] for e in events], list(range(1, 305)), "the numbers")
        equal([e["data"] for e in events if e["type"] == "n"], list(range(1, 301)), "the events")
        equal([e["type"] for e in events[-3:]], ["run.log", "run.progress", "run.done"], "the last ones")
        equal(folder.events(done, "--after", "302"), events[302:], "those after")
        failed = next(run[0] for run in runs if run[1] == "failed")
        end = folder.events(failed)[-1]
        need(end["type"] == "run.failed" and "no luck" in end["data"]["message"] and "traceback" in end["data"], end)
        need("there is no" in folder.ask("--events", "run_none", status=1).lower(), "an unknown run")
        folder.ask("--remove", done)
        equal([run[0] for run in folder.runs()], [failed], "the runs")
        folder.ask("--remove", done, status=1)


@case
def one_process_holds_the_folder():
    with Folder('ctx:emit("begun") ctx:sleep(60000)') as folder:
        process = folder.start(folder.path)
        try:
            process.stdout.readline()
            _, log = folder.run(folder.path, status=1)
            need("--data DIR" in log and "--ephemeral" in log, log)
        finally:
            process.kill()
            process.communicate()
        equal(folder.runs()[0][1], "running", "a run whose process was killed")


if __name__ == "__main__":
    main()
