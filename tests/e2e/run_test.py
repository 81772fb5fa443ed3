"""`pawl run`: pipelines against scripted models, their budgets, their end.

SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib
import signal
import subprocess
import tempfile
import time

from common import (
    HERMES, PAWL, REPORT, ROOT, SANITIZER, SLOWNESS, SMOLLM2, TEST_PLUGINS, Skip, case, equal, main, need)

SCRIPT = {"replies": [
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"when": "slow", "text": "late", "delay_ms": 100},
    {"when": "break", "text": "abc", "fail_at": 2, "fail_status": "device"},
    {"when": "<tool_response>", "text": "It is warm."},
    {"when": "weather", "text": "<think>\nlook\n</think>\n\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": \"Oslo\"}}\n</tool_call>"},
    {"when": "garbled", "text": "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": }}\n</tool_call>"},
    {"when": "Which haiku", "text": "2, yes"},
    {"when": "haiku", "text": "five seven five"},
    {"when": "second", "text": "Second."},
    {"text": "First."},
]}


class Run:
    """One `pawl run` of a source. `lines`: what it emitted."""

    def __init__(self, source, *args, model=SCRIPT, kill_after=None, signals=1, path=None):
        with tempfile.TemporaryDirectory(prefix="pawl-e2e-") as folder:
            folder = pathlib.Path(folder)
            if path is None:
                path = folder / "test.lua"
                path.write_text(source)
            command = [PAWL, "run", path, "--plugin-dir", TEST_PLUGINS, *args]
            if isinstance(model, dict):
                replay = folder / "replay.replay.json"
                replay.write_text(json.dumps({"replay": 1, "chat_template": HERMES, **model}))
                command += ["--model", f"replay={replay}"]
            elif model:
                command += ["--model", model]
            began = time.monotonic()
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                if kill_after is not None:
                    need(process.stdout.readline(), "the script says that it has begun")
                    time.sleep(kill_after)
                    began = time.monotonic()
                    for _ in range(signals):
                        process.send_signal(signal.SIGINT)
                out, self.log = process.communicate(timeout=60 * SLOWNESS)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
            self.seconds = time.monotonic() - began
            self.status = process.returncode
            self.lines = [json.loads(line) for line in out.splitlines()]
            need(not REPORT.search(self.log), self.log[:4000])

    def is_done(self, *lines):
        equal(self.status, 0, f"status ({self.log[-600:]})")
        if lines:
            equal(self.lines, list(lines), "what it emitted")
        return self.lines

    def failed(self, code, *texts):
        equal(self.status, 1, f"status ({self.log[-600:]})")
        for text in (f"pawl run: {code}: ", *texts):
            need(text in self.log, f"{text!r} in {self.log[-600:]!r}")


@case
def a_conversation():
    lines = Run("""
        local s = pawl.session { system = "Be brief." }
        local a = s:generate("first")
        local b = s:generate { text = "second", max_tokens = 20, temperature = 0, seed = 3, stop = { "zzz" } }
        return { a.text, a.finish, b.text, b.usage.cached_tokens > a.usage.input_tokens, a.reasoning == nil, a.calls == nil }
    """).is_done()
    equal(lines, [["First.", "stop", "Second.", True, True, True]], "the turns")


@case
def the_end_of_a_reply():
    Run("""
        local s = pawl.session()
        local cut = s:generate { text = "first", max_tokens = 3 }
        local stopped = pawl.session():generate { text = "first", stop = "rst" }
        return { cut.text, cut.finish, cut.usage.output_tokens, stopped.text, stopped.finish }
    """).is_done(["Fir", "length", 3, "Fi", "stop"])


@case
def a_call_that_cannot_be_read():
    call, = Run("""
        return pawl.session():generate { text = "garbled", tools = { { name = "weather" } } }.calls or pawl.json.null
    """).is_done()
    equal((call[0]["name"], call[0].get("arguments")), ("weather", None), "the call")
    need("invalid JSON" in call[0]["parse_error"], call[0]["parse_error"])


@case
def the_tool_s_answer_is_read():
    lines = Run("""
        local s = pawl.session()
        local tools = { { name = "weather" } }
        local r = s:generate { text = "weather", tools = tools }
        local c = r.calls[1]
        s:add { role = "tool", call_id = c.id, content = "21 degrees" }
        return { r.finish, c.name, c.arguments, s:generate { tools = tools }.text }
    """).is_done()
    equal(lines, [["tool_calls", "weather", {"place": "Oslo"}, "It is warm."]], "the round")


@case
def failures_are_values():
    Run("""
        local s = pawl.session()
        local r, e = s:generate("break")
        assert(r == nil and e.code == "engine" and e.retryable and #e.message > 0, e and e.code)
        local again = s:generate("first")           -- the session is as it was
        local long, toolong = s:generate(("x "):rep(10000))
        assert(long == nil and toolong.code == "too_long" and not toolong.retryable)
        local late, timeout = pawl.session():generate { text = "endless", timeout_ms = 100 }
        assert(late == nil and timeout.code == "timeout" and timeout.retryable)
        assert(not pcall(s.generate, s, { txt = "a" }) and not pcall(s.generate, s, "a\\0b"))
        assert(not pcall(s.generate, s, "\\xff") and not pcall(pawl.session():add({ role = "user", content = "x" }).add, s, {}))
        assert(not pcall(pawl.session, { model = "other" }) and not pcall(pawl.session, { modle = "replay" }))
        assert(not pcall(pawl.session().generate, pawl.session()))
        return again.text
    """).is_done("First.")


@case
def map_generates_in_parallel():
    run = Run("""
        local base = pawl.session { system = "Be slow." }
        base:generate("first")
        local l = {}
        for i = 1, 12 do l[i] = "slow " .. i end
        local done = 0
        return pawl.map(l, function(text)
            local r = base:fork():generate(text)
            done = done + 1
            pawl.progress(done, #l, text)
            return r.text
        end, { parallel = 12 })
    """)
    run.is_done(["late"] * 12)
    need(SANITIZER or run.seconds < 4, f"12 turns of 0.5 s each took {run.seconds:.1f} s")


@case
def a_map_that_stops_cancels_the_rest():
    run = Run("""
        local t, e = pawl.map({ "endless", "endless", "break" }, function(text)
            return pawl.session():generate(text)
        end)
        assert(t == nil and e.code == "engine")
        local ok, raised = pcall(pawl.map, { "endless", "first" }, function(text)
            if text == "first" then error("enough", 0) end
            return pawl.session():generate(text)
        end)
        local s = pawl.session()
        return { ok, raised, s:generate("first").text }
    """)
    run.is_done([False, "enough", "First."])


@case
def one_session_has_one_turn():
    Run("""
        local s = pawl.session()
        local results, errors = pawl.map({ 1, 2 }, function()
            local ok, r = pcall(s.generate, s, "slow")
            return ok and r.text or r:match("generates already")
        end)
        return results
    """).is_done(["late", "generates already"])


@case
def budgets_hold_while_a_model_generates():
    run = Run("pawl.session():generate('endless')", "--seconds", "1")
    run.failed("time", "1.000 s")
    need(run.seconds < 3 * SLOWNESS, f"it took {run.seconds:.1f} s")
    Run("while true do pcall(function() while true do end end) end", "--seconds", "1").failed("time", "test.lua:1:")
    Run("while true do end", "--instructions", "100000").failed("instructions", "100000 instructions")
    Run("local t = {} while true do t[#t + 1] = {} end", "--memory-mb", "4").failed("memory", "4.0 MiB")
    Run("local s = pawl.session() while true do s:add { role = 'user', content = ('x'):rep(1 << 20) } end",
        "--memory-mb", "8").failed("memory", "8.0 MiB")
    Run("local l = {} while true do local s = pawl.session() s:generate('first') l[#l + 1] = s end",
        "--memory-mb", "1").failed("memory", "1.0 MiB")


@case
def ctrl_c_cancels():
    for source in ("pawl.emit(1) pawl.session():generate('endless')",
                   "pawl.emit(1) while true do pcall(function() while true do end end) end",
                   "pawl.emit(1) pawl.map({1, 2, 3}, function() return pawl.session():generate('endless') end)"):
        run = Run(source, kill_after=0.3)
        run.failed("cancelled")
        need(run.seconds < 2 * SLOWNESS, f"{source}: it took {run.seconds:.1f} s")


@case
def what_fails_says_why():
    Run("return = 1").failed("syntax", "test.lua:1:")
    Run("local function f() error('no luck') end\nf()").failed("script", "test.lua:1: no luck", "stack traceback", "test.lua:2:")
    Run("return nil, { message = 'gave up' }").failed("script", "gave up")
    Run("pawl.session()", model=None).failed("script", "no model is served")
    run = Run("print('\\27[2J', 'a')", model=None)
    run.is_done()
    need("\x1b" not in run.log, "an escape on the terminal")
    equal(Run("", "--memory-mb", "0", model=None).status, 2, "status of a wrong option")
    equal(Run("", "--param", "novalue", model=None).status, 2, "status of a wrong option")
    equal(Run("", "other.lua", model=None).status, 2, "status of two files")
    missing = Run("", model="missing.gguf")
    equal(missing.status, 1, "status of a missing model")
    need("missing.gguf" in missing.log, missing.log)


@case
def it_needs_no_model():
    Run("return { pawl.params.a, pawl.params.b }", "--param", "a=1=2", "-p", "b=", model=None).is_done(["1=2", ""])


@case
def the_example_runs():
    path = ROOT / "examples" / "pipelines" / "haiku.lua"
    lines = Run(None, "--param", "subjects=rain,moss,rust", path=path).is_done()
    equal(len(lines), 4, "lines")
    equal(sorted(line["subject"] for line in lines[:3]), ["moss", "rain", "rust"], "subjects")
    equal(lines[3], {"best": "moss", "verdict": "2, yes"}, "the verdict")


@case
def the_example_runs_on_a_real_model():
    if SANITIZER:
        raise Skip("the real model is left out under sanitizers")
    if not SMOLLM2.exists():
        raise Skip(f"{SMOLLM2} is missing; tests/run.sh fetches it")
    path = ROOT / "examples" / "pipelines" / "haiku.lua"
    lines = Run(None, "--threads", "2", "--param", "subjects=rain,moss", path=path, model=SMOLLM2).is_done()
    equal(len(lines), 3, "lines")
    need(all(line["haiku"].strip() for line in lines[:2]), "haiku without text")
    print(f"    {lines[0]['haiku']!r}")


if __name__ == "__main__":
    main()
