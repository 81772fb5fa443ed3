"""`pawl run`: pipelines against scripted models, their budgets, their end.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import tempfile

from common import ROOT, SANITIZER, SLOWNESS, SMOLLM2, Skip, case, equal, main, need
from pipelines import Run


@case
def a_conversation():
    Run("""
        local s = ctx:session()
        assert(s:empty() and s.id == nil)
        s:add { role = "system", content = "Be brief." }:add { role = "user", content = "first" }
        local n = s:tokens()
        local a = s:generate()
        assert(not s:empty() and s.id and n < a.usage.input_tokens and n > 10, n)
        s:add { role = "user", content = "second" }
        local b = s:generate { max_tokens = 20, temperature = 0, seed = 3, stop = { "zzz" }, cache = false }
        return { a.text, a.finish, b.text, b.usage.cached_tokens > a.usage.input_tokens, a.reasoning == nil, #a.tool_calls }
    """).is_done(["First.", "stop", "Second.", True, True, 0])


@case
def the_end_of_a_reply():
    Run("""
        local s = ctx:session():add { role = "user", content = "first" }
        local stopped = s:fork():generate { stop = "rst" }
        local cut = s:generate { max_tokens = 3 }
        return { cut.text, cut.finish, cut.usage.output_tokens, stopped.text, stopped.finish }
    """).is_done(["Fir", "length", 3, "Fi", "stop"])


@case
def a_reply_is_streamed():
    run = Run("""
        local s = ctx:session():add { role = "user", content = "weather" }
        return s:generate { tools = { { name = "weather" } }, stream = true }.reasoning
    """)
    run.is_done()
    equal("".join(e["text"] for e in run.streamed if e["kind"] == "reasoning").strip(), run.value.strip(), "the thought")
    run = Run("return ctx:session():add { role = 'user', content = 'first' }:generate { stream = true }.text")
    run.is_done("First.")
    equal("".join(e["text"] for e in run.streamed), "First.", "the text")
    equal({e["turn"] for e in run.streamed}, {1}, "turns")


@case
def a_call_that_cannot_be_read():
    call = Run("""
        local s = ctx:session():add { role = "user", content = "garbled" }
        return s:generate { tools = { { name = "weather" } } }.tool_calls
    """).is_done()
    equal((call[0]["name"], call[0].get("arguments")), ("weather", None), "the call")
    need("invalid JSON" in call[0]["parse_error"], call[0]["parse_error"])


@case
def a_tool_s_answer_is_read():
    Run("""
        local s = ctx:session():add { role = "user", content = "weather" }
        local tools = ctx:tools { { name = "weather", parameters = { type = "object", required = { "place" } },
                                    run = function(args) return { warm = true, place = args.place } end } }
        local r = s:generate { tools = tools }
        local c = r.tool_calls[1]
        local out = ctx:tool(c.name, c.arguments)
        s:add { role = "tool", tool_call_id = c.id, content = h.json(out) }
        return { r.finish, c.name, c.arguments, out, s:generate { tools = tools }.text }
    """).is_done(["tool_calls", "weather", {"place": "Oslo"}, {"warm": True, "place": "Oslo"}, "It is warm."])


@case
def going_back():
    Run("""
        local s = ctx:session():add { role = "user", content = "first" }
        local before = s:mark()
        local r = s:generate()
        local n = s:tokens()
        s:add { role = "user", content = "second" }
        s:rollback(r.mark)                     -- the reply and what followed are gone, the question is there
        local again = s:generate()
        assert(s:tokens() == n)
        s:rollback(before)
        assert(not s:empty() and s:generate().text == "First.")
        local other = ctx:session():add { role = "user", content = "x" }
        assert(not pcall(other.rollback, other, before) and not pcall(s.rollback, s, 5))
        local f = s:fork()
        f:rollback(before)                     -- a fork has the same past
        s:drop()
        assert(not pcall(s.add, s, { role = "user", content = "x" }))
        return { again.text, f:generate().text }
    """).is_done(["First.", "First."])


@case
def one_of_several_is_selected():
    Run("""
        local s = ctx:session():add { role = "user", content = "Which haiku is best?" }
        local best, scores = s:select { choices = { "1, no", "2, yes", "2, yes and more" } }
        assert(scores[2] > scores[1] and scores[2] > scores[3] and scores[2] == -0.5, h.json(scores))
        local sums = select(2, s:select { choices = { "x", "yyyy" }, normalise = "none" })
        assert(sums[2] < sums[1])
        s:add { role = "user", content = "second" }
        return { best, s:generate().text }
    """).is_done(["2, yes", "Second."])


@case
def failures_are_values():
    Run("""
        local function ask(s, text, o) return s:add { role = "user", content = text }:generate(o) end
        local s = ctx:session()
        local r, e = ask(s, "break")
        assert(r == nil and e.code == "engine" and e.retryable and #e.message > 0, e and e.code)
        s:rollback(s:mark())
        local s = ctx:session()
        local again = ask(s, "first")
        local long, toolong = ask(s, ("x "):rep(10000))
        assert(long == nil and toolong.code == "too_long" and not toolong.retryable)
        local late, timeout = ask(ctx:session(), "endless", { timeout_ms = 100 })
        assert(late == nil and timeout.code == "timeout" and timeout.retryable)
        local x = ctx:session()
        x:add { role = "user", content = "first" }
        for _, wrong in ipairs { { txt = "a" }, { schema = {} }, { grammar = "x" }, { regex = "x" },
                                 { tool_choice = "required" }, { temperature = 3 }, { stop = "" }, "first" } do
          assert(not pcall(x.generate, x, wrong))
        end
        local ok, why = pcall(x.generate, x, { schema = {} })
        assert(why:find("'schema' is not supported"), why)
        assert(not pcall(x.add, x, { role = "user", content = "a\\0b" }) and not pcall(x.add, x, {}))
        assert(not pcall(x.add, x, { role = "user", content = "\\xff" }))
        assert(not pcall(ctx.session, ctx, nil, { model = "other" }) and not pcall(ctx.session, ctx, nil, { modle = "replay" }))
        assert(not pcall(ctx.session, ctx, "resp_none"))
        assert(not pcall(x.generate, ctx:session()))
        return again.text
    """).is_done("First.")


@case
def retry_tries_again():
    Run("""
        local tries = 0
        local v, e = ctx:retry({ tries = 3, backoff_ms = 1 }, function(try)
          tries = tries + 1
          if try < 3 then return nil, { code = "busy", message = "m", retryable = true } end
          return "done"
        end)
        local once = 0
        local w, f = ctx:retry({ tries = 5, backoff_ms = 1 }, function()
          once = once + 1
          return nil, { code = "x", message = "m", retryable = false }
        end)
        return { v, tries, once, f.code }
    """, model=None).is_done(["done", 3, 1, "x"])


@case
def map_generates_in_parallel():
    run = Run("""
        local base = ctx:session():add { role = "system", content = "Be slow." }:add { role = "user", content = "first" }
        base:generate()
        local l = {}
        for i = 1, 12 do l[i] = "slow " .. i end
        local done = 0
        return ctx:map(l, function(text)
            local r = base:fork():add { role = "user", content = text }:generate()
            done = done + 1
            ctx:progress(done, #l, text)
            return r.text
        end, { parallel = 12 })
    """)
    run.is_done(["late"] * 12)
    need(SANITIZER or run.seconds < 4, f"12 turns of 0.5 s each took {run.seconds:.1f} s")


@case
def tasks():
    Run("""
        local function turn(text) return ctx:session():add { role = "user", content = text }:generate() end
        local slow, quick = ctx:spawn(turn, "endless"), ctx:spawn(function(a, b) return turn("first").text, a + b end, 2, 3)
        local i, text, sum = ctx:any { slow, quick }
        slow:cancel()
        local gone, e = slow:wait()
        local ok, raised = pcall(quick.wait, ctx:spawn(function() error("no", 0) end))
        local again = { quick:wait() }
        ctx:spawn(turn, "endless")                 -- ends with the run
        return { i, text, sum, e.code, ok, raised, again }
    """).is_done([2, "First.", 5, "cancelled", False, "no", ["First.", 5]])


@case
def a_map_that_stops_cancels_the_rest():
    run = Run("""
        local function turn(text) return ctx:session():add { role = "user", content = text }:generate() end
        local t, e = ctx:map({ "endless", "endless", "break" }, turn)
        assert(t == nil and e.code == "engine")
        local ok, raised = pcall(ctx.map, ctx, { "endless", "first" }, function(text)
            if text == "first" then error("enough", 0) end
            return turn(text)
        end)
        return { ok, raised, turn("first").text }
    """)
    run.is_done([False, "enough", "First."])


@case
def one_session_has_one_turn():
    Run("""
        local s = ctx:session():add { role = "user", content = "slow" }
        return ctx:map({ 1, 2 }, function()
            local ok, r = pcall(s.generate, s)
            return ok and r.text or r:match("generates already")
        end)
    """).is_done(["late", "generates already"])


@case
def texts_are_cut_by_tokens():
    Run("""
        assert(ctx:window() == 4096 and ctx:tokens("abc") == 3 and ctx:tokens(("x"):rep(100000)) == 100000)
        local text, cut = ctx:clip("gr\\u{FC}n", { max_tokens = 3 })
        assert(text == "gr" and cut and ctx:clip("abc", { max_tokens = 3 }) == "abc")
        local parts, long = {}, {}
        for i = 1, 40 do parts[i] = "Sentence " .. i .. ". Another one, longer." .. (i % 5 == 0 and "\\n\\n" or " ") end
        local all = table.concat(parts)
        for _, split in ipairs { "paragraph", "sentence", "line" } do
            local pieces = ctx:chunk(all, { max_tokens = 150, split = split })
            assert(table.concat(pieces) == all)
            for i, piece in ipairs(pieces) do
                assert(ctx:tokens(piece) <= 150)
                assert(i == #pieces or piece:find("%s$"), piece)
            end
        end
        local lapped = ctx:chunk(all, { max_tokens = 150, overlap = 30, split = "sentence" })
        assert(#lapped > #ctx:chunk(all, { max_tokens = 150, split = "sentence" }))
        assert(lapped[1]:sub(-10) == lapped[2]:match("^(.-)" .. "Sent") or lapped[2]:find("one"))
        assert(#ctx:chunk("", { max_tokens = 5 }) == 0)
        local hard = ctx:chunk(("\\u{20AC}"):rep(100), { max_tokens = 10 })
        assert(#hard == 34 and table.concat(hard) == ("\\u{20AC}"):rep(100))
        assert(not pcall(ctx.chunk, ctx, "\\u{20AC}", { max_tokens = 2 }))
        assert(not pcall(ctx.chunk, ctx, "x", {}) and not pcall(ctx.clip, ctx, "x", { max = 1 }))
        return true
    """).is_done(True)


@case
def budgets_hold_while_a_model_generates():
    ask = "ctx:session():add { role = 'user', content = '%s' }:generate()"
    run = Run(ask % "endless", "--seconds", "1")
    run.failed("time", "1.000 s")
    need(run.seconds < 3 * SLOWNESS, f"it took {run.seconds:.1f} s")
    Run("while true do pcall(function() while true do end end) end", "--seconds", "1").failed("time", "test.lua:1:")
    Run("while true do end", "--instructions", "1000000").failed("instructions", "1000000 instructions")
    Run("local t = {} while true do t[#t + 1] = {} end", "--memory-mb", "4").failed("memory", "4.0 MiB")
    Run("local s = ctx:session() while true do s:add { role = 'user', content = ('x'):rep(1 << 20) } end",
        "--memory-mb", "8").failed("memory", "8.0 MiB")
    Run("local l = {} while true do local s = ctx:session():add { role = 'user', content = 'first' } "
        "s:generate() l[#l + 1] = s end", "--memory-mb", "1").failed("memory", "1.0 MiB")


def limited(limits, body, **more):
    return Run(f'local h = require "pawl" return h.pipeline {{ name = "test", limits = {{ {limits} }}, '
               f'run = function(ctx, input)\n{body}\nend }}', whole=True, **more)


@case
def a_pipeline_s_own_limits():
    turn = "ctx:session():add { role = 'user', content = 'first' }:generate()"
    limited("calls = 2", f"for i = 1, 2 do {turn} end pcall(function() {turn} end) return 1").failed("calls", "2 turns")
    limited("tokens = 250", f"while true do pcall(function() {turn} end) end").failed("tokens", "250 tokens")
    limited("tokens = 50", "ctx:session():add { role = 'user', content = 'endless' }:generate()").failed("tokens")
    limited("tool_calls = 1", "ctx:tools { { name = 't', run = function() return 1 end } } "
            "while true do pcall(ctx.tool, ctx, 't') end", model=None).failed("tool_calls", "1 tool calls")
    limited("wall_s = 0.5", "while true do end", model=None).failed("time")
    limited("mem_mb = 3", "local t = {} while true do t[#t + 1] = {} end", model=None).failed("memory", "3.0 MiB")
    limited("calls = 2, tokens = 1e5, wall_s = 60", f"""
        {turn}
        local b = ctx:budget()
        return {{ b.calls, b.tokens < 1e5 and b.tokens > 9e4, b.wall_s <= 60 and b.wall_s > 20, b.tool_calls == nil, b.mem_mb > 1 }}
    """).is_done([1, True, True, True, True])
    limited("callz = 2", "", model=None).failed("script", "unknown limit 'callz'")


@case
def ctrl_c_cancels():
    turn = "ctx:session():add { role = 'user', content = 'endless' }:generate()"
    for source in (turn, "while true do pcall(function() while true do end end) end",
                   f"ctx:map({{1, 2, 3}}, function() return {turn} end)", "ctx:sleep(1e9)"):
        run = Run("ctx:emit('begun') " + source, kill_after=0.3)
        run.failed("cancelled", "--resume run_")
        need(run.seconds < 2 * SLOWNESS, f"{source}: it took {run.seconds:.1f} s")


@case
def what_fails_says_why():
    Run("return = 1").failed("syntax", "test.lua:1:")
    Run("local function f() error('no luck') end\nf()").failed("script", "test.lua:1: no luck", "stack traceback", "test.lua:2:")
    Run("return nil, { message = 'gave up' }").failed("script", "gave up")
    Run("ctx:session()", model=None).failed("script", "no model is served")
    run = Run("print('\\27[2J', 'a')", model=None)
    run.is_done()
    need("\x1b" not in run.log, "an escape on the terminal")
    equal(Run("", "--memory-mb", "0", model=None).status, 2, "status of a wrong option")
    equal(Run("", "--param", "novalue", model=None).status, 2, "status of a wrong option")
    equal(Run("", "other.lua", model=None).status, 2, "status of two files")
    missing = Run("", model="missing.gguf")
    equal(missing.status, 1, "status of a missing model")
    need("missing.gguf" in missing.log, missing.log)
    Run("return 1", whole=True, model=None).failed("script", "returns no pipeline")
    Run("ctx.map({}, print)", model=None).failed("script", "test.lua:1: call it with a colon: ctx:map(")


TYPED = """
local h = require "pawl"
return h.pipeline { name = "typed", params = { type = "object", required = { "n" }, additionalProperties = false,
  properties = { n = { type = "integer", minimum = 1 }, t = { type = "string" }, b = { type = "boolean" },
                 l = { type = "array", items = { type = "number" } } } },
  run = function(ctx, input) return input end }
"""


@case
def params_are_checked_first():
    def typed(*args):
        return Run(TYPED, *args, whole=True, model=None)
    typed("-p", "n=5", "-p", "t=6", "-p", "b=true", "--param", "l=[1,2.5]").is_done({"n": 5, "t": "6", "b": True, "l": [1, 2.5]})
    for args, why in ((("-p", "t=1"), "lacks 'n'"), (("-p", "n=x"), "'n' must be of type integer"),
                      (("-p", "n=0"), "the input.n must have a value of at least 1"), (("-p", "n=1", "-p", "x=1"), "no parameter 'x'"),
                      (("-p", "n=1", "-p", 'l=["a"]'), "the input.l[0] must be of type number")):
        run = typed(*args)
        equal(run.status, 1, "status")
        need(why in run.log and "run_" not in run.log, f"{why!r} in {run.log!r}, and no run")
    with tempfile.TemporaryDirectory(prefix="pawl-e2e-") as folder:
        path = pathlib.Path(folder) / "in.json"
        path.write_text('{"n":7,"t":"x"}')
        typed("--params-json", path, "-p", "n=8").is_done({"n": 8, "t": "x"})
    Run(TYPED.replace("minimum", "multipleOf"), "-p", "n=1", whole=True, model=None).failed("script", "keyword 'multipleOf'")
    Run("return input", "--param", "a=1=2", "-p", "b=", model=None).is_done({"a": "1=2", "b": ""})


@case
def modules_come_from_the_folders():
    with tempfile.TemporaryDirectory(prefix="pawl-e2e-") as folder:
        folder = pathlib.Path(folder)
        (folder / "more").mkdir()
        (folder / "words.lua").write_text('local other = require "other" return { hello = "hello " .. other }')
        (folder / "more" / "other.lua").write_text('return "world"')
        (folder / "loop.lua").write_text('return require "loop"')
        (folder / "secret").write_text("x")

        def run(line):
            path = folder / "p.lua"
            path.write_text(f'local h = require "pawl" {line} return h.pipeline {{ name = "p", run = function(ctx) '
                            "return words and words.hello end }")
            return Run(None, "--modules", folder / "more", path=path, model=None)
        run('local words = require "words" assert(words == require "words")').is_done("hello world")
        run('require "missing"').failed("script", "no module 'missing'")
        run('require "loop"').failed("script", "requires itself")
        run('words = { hello = tostring(pcall(require, "../more/other")) .. tostring(pcall(require, "/etc/passwd")) }').is_done("falsefalse")


@case
def the_haiku_example_runs():
    path = ROOT / "examples" / "pipelines" / "haiku.lua"
    run = Run(None, "--param", "subjects=rain,moss,rust", path=path)
    run.is_done()
    equal(sorted(data["subject"] for kind, data in run.lines), ["moss", "rain", "rust"], "subjects")
    equal(len(run.value["scores"]), 3, "scores")


@case
def the_tool_loop_runs():
    model = {"replies": [
        {"when": ["<tool_response>", '"result":42'], "text": "It is 42."},
        {"when": "7 * 6", "text": '<tool_call>\n{"name": "calculator", "arguments": {"operation": "multiply", "a": 7, "b": 6}}\n</tool_call>'},
        {"when": "again", "text": "Still 42."},
        {"text": "?"}]}
    path = ROOT / "examples" / "pipelines" / "tool_loop.lua"
    with tempfile.TemporaryDirectory(prefix="pawl-e2e-") as data:
        first = Run(None, "--data", data, "--param", "question=What is 7 * 6?", path=path, model=model)
        first.is_done()
        equal((first.value["answer"], first.value["rounds"]), ("It is 42.", 2), "the answer")
        # The session outlives the process, and the next run goes on from it.
        next_one = Run(None, "--data", data, "-p", "question=Tell me again", "-p", f"session={first.value['session']}",
                       path=path, model={"replies": [{"when": "again", "text": "Still 42."}, {"text": "?"}]})
        next_one.is_done()
        equal((next_one.value["answer"], next_one.value["rounds"]), ("Still 42.", 1), "the next answer")
        sizes = [Run("return ctx:session(input.id):tokens()", "--data", data, "-p", f"id={run.value['session']}").is_done()
                 for run in (first, next_one)]
        need(200 < sizes[0] < sizes[1], sizes)
        again = Run("local s = ctx:session(input.id) return s:add { role = 'user', content = 'x' }:generate().usage.input_tokens",
                    "--data", data, "-p", f"id={first.value['session']}").is_done()
        need(again > sizes[0], "the whole conversation is the next turn's prompt")


@case
def the_example_runs_on_a_real_model():
    if SANITIZER:
        raise Skip("the real model is left out under sanitizers")
    if not SMOLLM2.exists():
        raise Skip(f"{SMOLLM2} is missing; tests/run.sh fetches it")
    path = ROOT / "examples" / "pipelines" / "haiku.lua"
    run = Run(None, "--threads", "2", "--param", "subjects=rain,moss", path=path, model=SMOLLM2)
    run.is_done()
    equal(len(run.lines), 2, "lines")
    need(all(data["text"].strip() for kind, data in run.lines), "haiku without text")
    need(all(score < 0 for score in run.value["scores"]), run.value)
    print(f"    {run.lines[0][1]['text']!r} {run.value}")


if __name__ == "__main__":
    main()
