"""`pawl test`: the tests beside the examples pass, wrong ones fail and say why.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import subprocess
import tempfile

from common import PAWL, REPORT, ROOT, SLOWNESS, case, equal, main, need

PIPELINE = """
local h = require "pawl"
return h.pipeline { name = "p", run = function(ctx, input)
  if input.fail then return nil, { message = "as asked" } end
  if input.loop then while true do end end
  local reply = ctx:session():add { role = "user", content = "q" }:generate()
  ctx:emit("said", { text = reply.text, more = 1 })
  return { list = { 1, 2 }, text = reply.text, deep = { a = { b = "c" } } }
end }
"""


def run(tests, status, *args):
    """Runs `pawl test` on a folder with the pipeline p and these cases. The lines of its answer."""
    with tempfile.TemporaryDirectory(prefix="pawl-e2e-") as folder:
        folder = pathlib.Path(folder)
        (folder / "p.lua").write_text(PIPELINE)
        if tests is not None:
            (folder / "p_test.lua").write_text('local h = require "pawl" return h.tests { ' + tests + " }")
        return tested(folder, status, *args)


def tested(path, status, *args):
    done = subprocess.run([PAWL, "test", path, *args], capture_output=True, text=True, timeout=300 * SLOWNESS)
    need(not REPORT.search(done.stderr), done.stderr[:4000])
    equal(done.returncode, status, f"status ({done.stdout[-800:]} {done.stderr[-800:]})")
    lines = done.stdout.splitlines()
    if lines:
        equal(lines[0], "TAP version 13", "the first line")
        plan = next(line for line in lines if line.startswith("1.."))
        equal(plan, f"1..{sum(bool(re.match('(not )?ok ', line)) for line in lines)}", "the plan")
    return done.stdout + done.stderr


@case
def those_of_the_examples_pass():
    out = tested(ROOT / "examples" / "pipelines", 0)
    need(out.count("\nok ") >= 11 and "not ok" not in out, out)


@case
def what_is_as_wanted_passes():
    run("""{ name = "all", replies = { { when = "q", text = "A." } }, result = { text = "A.", list = { 1, 2 }, deep = { a = {} } },
             emits = { { type = "said", data = { text = "A." } } }, calls = 1,
             check = function(o) assert(o.result.deep.a.b == "c" and #o.emits == 1 and o.tokens > 3 and not o.error) end },
           { params = { fail = true }, error = "as asked" }""", 0)


@case
def what_is_otherwise_fails():
    for wrong, why in (('result = { text = "B." }', 'result.text is "A."; wanted: "B."'), ("result = { list = { 1 } }", "result.list is [1,2]"),
                       ("result = { none = 1 }", "result.none is not there"), ("result = { deep = { a = { b = 'd' } } }", "result.deep.a.b"),
                       ('emits = { { type = "said", data = { text = "B." } } }', "what it emitted"),
                       ('emits = { { type = "said" }, { type = "said" } }', "what it emitted"), ("calls = 2", "calls is 1"),
                       ('error = "x"', "did not fail"), ("params = { fail = true }", "the run failed: script: as asked"),
                       ("check = function(o) assert(o.calls == 5, 'not five') end", "check: p_test.lua:1: not five"),
                       ("params = { loop = true }, seconds = 0.2", "the run failed: time"), ("docs = { ['../x'] = 'y' }", "without '..'")):
        out = run('{ name = "it", replies = { { text = "A." } }, ' + wrong + " }", 1)
        need("not ok 1 - p_test.lua: it\n# " in out and why in out, f"{why!r} in {out}")


@case
def files_that_are_no_tests():
    need("it loads" in run("{ ", 1), "broken Lua")
    need("no case" in run(None, 1), "no file")
    equal("ok" in run("", 1), False, "no case")
    tested("/nowhere", 2)
    with tempfile.TemporaryDirectory(prefix="pawl-e2e-") as folder:
        (pathlib.Path(folder) / "p_test.lua").write_text(PIPELINE)
        need("returns no h.tests" in tested(folder, 1) or "it loads" in tested(folder, 1), "a pipeline")


@case
def the_pipeline_can_be_named():
    out = run('{ name = "x", replies = { { text = "A." } }, result = { text = "A." } }, pipeline = "p.lua"', 0)
    need("ok 1 - p_test.lua: x" in out, out)
    need("missing.lua" in run('{ name = "x" }, pipeline = "missing.lua"', 1), "one that is missing")


if __name__ == "__main__":
    main()
