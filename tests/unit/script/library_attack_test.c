/*
 * tests/unit/script/library_attack_test.c - scripts that attack by what the library offers:
 * tasks, steps, handles, texts of the journal. Each ends as it should, soon, and the next
 * script does not notice.
 *
 * Those of time have 100 ms and may be 50 ms late, judged in processor time (see
 * sandbox_test.c). All have 32 MiB.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kept.h"

#define BUDGET_MS 100
#define LATE_MS (50 * UNHURRIED)

typedef struct attack {
    const char *name;
    enum script_end end;
    const char *source;
} attack;

#define SPIN "while true do end"
#define ANY_CLOSE                                                                                  \
    "local c <close> = setmetatable({}, {__close = function() while true do end end}) "

/* Without a disk. */
static const attack attacks[] = {
    /* Tasks. */
    {"a million tasks", SCRIPT_FAILED, "for i = 1, 1e6 do ctx:spawn(ctx.sleep, ctx, 1e6) end"},
    {"a million tasks, caught", SCRIPT_TIME,
     "while true do pcall(ctx.spawn, ctx, ctx.sleep, ctx, 1e6) end"},
    {"tasks that spawn", SCRIPT_TIME,
     "local function f() pcall(ctx.spawn, ctx, f) pcall(ctx.spawn, ctx, f) end\n"
     "while true do f() ctx:sleep(0) end"},
    {"a chain of tasks", SCRIPT_FAILED,
     "local function f() return ctx:spawn(f):wait() end return f()"},
    {"spinning tasks", SCRIPT_TIME,
     "for i = 1, 50 do ctx:spawn(function() " SPIN " end) end ctx:sleep(1e6)"},
    {"spinning in a task's pcall", SCRIPT_TIME,
     "ctx:spawn(function() while true do pcall(function() " SPIN " end) end end):wait()"},
    {"a task that waits for itself", SCRIPT_FAILED,
     "local t t = ctx:spawn(function() return t:wait() end) t:wait()"},
    {"tasks that wait for each other", SCRIPT_FAILED,
     "local a, b a = ctx:spawn(function() return b:wait() end)\n"
     "b = ctx:spawn(function() return a:wait() end) ctx:any{a, b}"},
    {"a task that cancels itself", SCRIPT_FAILED,
     "local t t = ctx:spawn(function() t:cancel() end) t:wait()"},
    {"a task that cancels its parent", SCRIPT_FAILED,
     "local t t = ctx:spawn(function() ctx:spawn(function() t:cancel() end):wait() end) t:wait()"},
    {"cancelling in a loop", SCRIPT_TIME,
     "while true do local t = ctx:spawn(ctx.sleep, ctx, 1e6) ctx:sleep(0) t:cancel() t:cancel() "
     "end"},
    {"a close handler that spins, cancelled", SCRIPT_DONE,
     "local t = ctx:spawn(function() " ANY_CLOSE " ctx:sleep(1e6) end) ctx:sleep(0) t:cancel()"},
    {"a close handler that spins, at the end", SCRIPT_DONE,
     "ctx:spawn(function() " ANY_CLOSE " ctx:sleep(1e6) end) ctx:sleep(0)"},
    {"a close handler that waits", SCRIPT_DONE,
     "do local c <close> = setmetatable({}, {__close = function() ctx:sleep(1) end}) end"},
    {"a close handler that yields while an error passes", SCRIPT_FAILED,
     "local c <close> = setmetatable({}, {__close = function() ctx:sleep(1) end}) error('x')"},
    {"results without end", SCRIPT_FAILED,
     "return #{ctx:spawn(function() return table.unpack({}, 1, 1e6) end):wait()}"},
    {"many results", SCRIPT_DONE,
     "assert(#{ctx:spawn(function() return table.unpack({}, 1, 50000) end):wait()} == 0)"},
    {"any of nothing", SCRIPT_FAILED, "ctx:any{}"},
    {"any of others", SCRIPT_FAILED, "ctx:any{1, print, {}}"},
    {"any of too many", SCRIPT_FAILED,
     "local t, l = ctx:spawn(print), {} for i = 1, 1000 do l[i] = t end ctx:any(l)"},
    {"any with a length of its own", SCRIPT_FAILED,
     "ctx:any(setmetatable({}, {__len = function() return 1 << 60 end}))"},
    {"map of a length of its own", SCRIPT_DONE,
     "assert(#ctx:map(setmetatable({}, {__len = function() return 1 << 60 end}), print) == 0)"},
    {"map over holes", SCRIPT_DONE, "ctx:map({nil, nil, 3}, function(x) return x or 0 end)"},
    {"map in itself", SCRIPT_FAILED,
     "local function f() return ctx:map({1, 2}, f, {parallel = 2}) end f()"},
    {"a map that changes its list", SCRIPT_DONE,
     "local l = {1, 2, 3} ctx:map(l, function(x) l[#l + 1] = x return x end, {parallel = 1})"},
    {"waiting in a metamethod", SCRIPT_FAILED,
     "local t = setmetatable({}, {__tostring = function() ctx:sleep(1) return '' end}) "
     "tostring(t)"},
    {"waiting in sort, caught", SCRIPT_TIME,
     "while true do pcall(table.sort, {2, 1}, function() ctx:sleep(1) end) end"},
    {"yields across pcall and xpcall", SCRIPT_DONE,
     "for i = 1, 50 do assert(pcall(pcall, xpcall, function() ctx:sleep(0) end, print)) end"},
    {"pcalls around waits, deep", SCRIPT_FAILED,
     "local function f(n) if n == 0 then return ctx:sleep(1) end local ok, e = pcall(f, n - 1)\n"
     "if not ok then error(e, 0) end end f(1000)"},
    {"deep recursion in a task", SCRIPT_MEMORY,
     "ctx:spawn(function() local function f() return 1 + f() end return f() end):wait()"},
    {"an error object of a task", SCRIPT_FAILED,
     "ctx:spawn(error, setmetatable({}, {__index = function() while true do end end})):wait()"},
    {"an error of nil in a task", SCRIPT_FAILED, "ctx:spawn(error):wait()"},
    {"memory in a task, caught", SCRIPT_MEMORY,
     "pcall(function() ctx:spawn(function() local t = {} while true do t[#t + 1] = {} end end)\n"
     ":wait() end) return 1"},
    {"errors that nobody awaits", SCRIPT_DONE,
     "for i = 1, 100 do ctx:spawn(error, ('x'):rep(100000)) ctx:sleep(0) end"},

    /* Handles. */
    {"metatable of a task", SCRIPT_FAILED, "getmetatable(ctx:spawn(print)).__gc = print"},
    {"metatable of a task, set", SCRIPT_FAILED, "setmetatable(ctx:spawn(print), {})"},
    {"fields of a task", SCRIPT_FAILED, "ctx:spawn(print).x = 1"},
    {"a method on another thing", SCRIPT_FAILED, "ctx:spawn(print).wait({})"},
    {"a method on ctx", SCRIPT_FAILED, "ctx:spawn(print).cancel(ctx)"},
    {"ctx functions without ctx", SCRIPT_DONE,
     "for name, f in pairs(ctx) do assert(not pcall(f) and not pcall(f, {}) and not pcall(f, 5), "
     "name) end"},
    {"ctx functions with nonsense", SCRIPT_DONE,
     "local junk = {true, -1, 1.5, '', '\\0', {}, print, h.null, {{}}, ('x'):rep(1000)}\n"
     "for name, f in pairs(ctx) do if name ~= 'sleep' then for _, a in ipairs(junk) do\n"
     "for _, b in ipairs(junk) do pcall(f, ctx, a, b, a) end end end end"},
    {"h functions with nonsense", SCRIPT_DONE,
     "local junk = {true, -1, '', {}, print, h.null}\n"
     "for _, f in ipairs{h.json, h.parse, h.array, h.pipeline, require} do\n"
     "pcall(f) for _, a in ipairs(junk) do pcall(f, a, a) end end"},
    {"the library is replaced", SCRIPT_DONE,
     "for k in pairs(table) do table[k] = nil end for k in pairs(string) do string[k] = nil end\n"
     "for k in pairs(math) do math[k] = nil end local e = error\n"
     "pcall = nil ipairs = nil type = nil error = nil next = nil tostring = nil\n"
     "ctx:map({1, 2}, function(x) return x end) ctx:step('a', function() return 1 end)\n"
     "ctx:retry({backoff_ms = 0}, function() return nil, {retryable = true} end)"},
    {"ctx is emptied", SCRIPT_FAILED, "for k in pairs(ctx) do ctx[k] = nil end ctx:sleep(1)"},
    {"a second pipeline", SCRIPT_FAILED, "h.pipeline{name = 'x', run = print}"},
    {"require while it runs", SCRIPT_FAILED, "require 'other'"},
    {"require of a path", SCRIPT_FAILED, "require '../../etc/passwd'"},

    /* What costs. */
    {"events without end", SCRIPT_TIME, "while true do ctx:emit('x', 1) end"},
    {"an event that is large", SCRIPT_FAILED, "ctx:emit('x', ('x'):rep(300000))"},
    {"an event of itself", SCRIPT_FAILED, "local t = {} t.t = t ctx:emit('x', t)"},
    {"a log without end", SCRIPT_TIME, "while true do print('x') end"},
    {"a line that is large", SCRIPT_FAILED, "print(('x'):rep(100000))"},
    {"progress without end", SCRIPT_TIME, "while true do ctx:progress(1, 2) end"},
    {"random without end", SCRIPT_TIME, "while true do ctx:random() end"},
    {"the clock without end", SCRIPT_TIME, "while true do ctx:now() end"},
    {"the budget without end", SCRIPT_TIME, "while true do ctx:budget() end"},
    {"steps without end", SCRIPT_TIME,
     "local i = 0 while true do i = i + 1 ctx:step('k' .. i, function() return i end) end"},
    {"steps in memory", SCRIPT_MEMORY,
     "for i = 1, 1e6 do ctx:step('k' .. i, function() return ('x'):rep(1 << 20) .. i end) end"},
    {"steps within each other", SCRIPT_FAILED,
     "local function f(n) return ctx:step('k' .. n, function() return f(n + 1) end) end f(1)"},
    {"a step within itself", SCRIPT_FAILED,
     "ctx:step('a', function() return ctx:step('a', print) end)"},
    {"a step within itself, by a task", SCRIPT_FAILED,
     "ctx:step('a', function() return ctx:spawn(function() return ctx:step('a', print) end)\n"
     ":wait() end)"},
    {"steps that wait for each other", SCRIPT_FAILED,
     "ctx:map({1, 2}, function(i) return ctx:step('k' .. i, function() ctx:sleep(5)\n"
     "return ctx:step('k' .. (3 - i), print) end) end)"},
    {"a step that spins", SCRIPT_TIME,
     "while true do pcall(ctx.step, ctx, 'a', function() " SPIN " end) end"},
    {"a step's value without form", SCRIPT_FAILED, "ctx:step('a', function() return print end)"},
    {"retries without end", SCRIPT_TIME,
     "while true do ctx:retry({tries = 100, backoff_ms = 0}, function()\n"
     "return nil, {retryable = true} end) end"},
    {"a retryable error that spins", SCRIPT_TIME,
     "ctx:retry({backoff_ms = 0}, function() return nil, setmetatable({}, {__index = "
     "function()\n" SPIN " end}) end)"},
    {"sleeping for ever", SCRIPT_TIME, "while true do ctx:sleep(1e9) end"},
    {"sleeping not at all", SCRIPT_TIME, "while true do ctx:sleep(0) end"},
    {"sleeping nonsense", SCRIPT_FAILED, "ctx:sleep(0 / 0)"},
    {"a tool that spins", SCRIPT_TIME,
     "ctx:tools{{name = 't', run = function() " SPIN " end}} ctx:tool('t', {}, {timeout_ms = 10})"},
    {"a tool that sleeps", SCRIPT_DONE,
     "ctx:tools{{name = 't', run = function() ctx:sleep(1e6) end}}\n"
     "local v, e = ctx:tool('t', {}, {timeout_ms = 10}) assert(v == nil and e.code == 'timeout')"},
    {"a tool's schema nested", SCRIPT_FAILED,
     "local s = {type = 'object'} for i = 1, 100 do s = {items = s} end\n"
     "ctx:tools{{name = 't', parameters = s, run = print}}"},
    {"a tool's schema of itself", SCRIPT_FAILED,
     "local s = {} s.items = s ctx:tools{{name = 't', parameters = s, run = print}}"},
    {"a large schema, again and again", SCRIPT_TIME,
     "local s = {enum = {}} for i = 1, 50000 do s.enum[i] = i end\n"
     "while true do pcall(ctx.tools, ctx, {{name = 't', parameters = s, run = print}}) end"},
    {"a pattern in a step's key", SCRIPT_FAILED, "ctx:step(('%c'):rep(600), print)"},
    {"pattern blow-up in a task", SCRIPT_TIME,
     "ctx:spawn(function() return ('a'):rep(300):find(('a-'):rep(20) .. 'b') end):wait()"},
    {"interrupt without a disk", SCRIPT_FAILED, "ctx:interrupt{prompt = 'x'}"},
};

/* With a disk. */
static const attack of_journal[] = {
    {"many steps", SCRIPT_TIME,
     "local i = 0 while true do i = i + 1 pcall(ctx.step, ctx, 'k' .. i, function() return i end) "
     "end"},
    {"a million keys at once", SCRIPT_TIME,
     "local l = {} for i = 1, 10000 do l[i] = i end\n"
     "ctx:map(l, function(i) return ctx:step('k' .. i, function() return i end) end, {parallel = "
     "64})"},
    {"huge values", SCRIPT_FAILED, "ctx:step('a', function() return ('x'):rep(3 << 20) end)"},
    {"huge values, caught", SCRIPT_TIME,
     "local s = ('x'):rep(3 << 20)\n"
     "while true do pcall(ctx.step, ctx, 'a', function() return s end) end"},
    {"the clock without end", SCRIPT_TIME, "while true do ctx:now() end"},
    {"sleeps without end", SCRIPT_TIME, "while true do ctx:sleep(0) end"},
    {"events without end", SCRIPT_TIME, "while true do ctx:emit('x', ('x'):rep(1000)) end"},
    {"events in a step", SCRIPT_FAILED,
     "ctx:step('a', function() for i = 1, 1e6 do ctx:emit('x', i) end end)"},
    {"a log without end", SCRIPT_TIME, "while true do print(('x'):rep(1000)) end"},
    {"keys like the host's", SCRIPT_FAILED, "ctx:step('\\1now:0:0', print)"},
    {"a key of 512 bytes", SCRIPT_DONE,
     "local k = ('k'):rep(512) ctx:step(k, function() return 1 end) assert(ctx:step(k, error) == "
     "1)"},
    {"a large question", SCRIPT_FAILED, "ctx:interrupt{prompt = ('x'):rep(1 << 20)}"},
    {"a question in sort", SCRIPT_FAILED,
     "table.sort({2, 1}, function() return ctx:interrupt{prompt = 'x'} end)"},
    {"many questions", SCRIPT_PARKED,
     "local l = {} for i = 1, 200 do l[i] = i end\n"
     "ctx:map(l, function(i) return ctx:interrupt{prompt = 'x'} end, {parallel = 64})"},
    {"a question while others spin", SCRIPT_TIME,
     "ctx:spawn(function() " SPIN " end) ctx:interrupt{prompt = 'x'}"},
    {"a question caught", SCRIPT_PARKED,
     "while true do pcall(ctx.interrupt, ctx, {prompt = 'x'}) end"},
};

static void judge(const attack *a, const script_result *result, int64_t cpu_ns, int64_t budget_ms)
{
    if (result->end != a->end)
        fail_msg("%s: ended as %s (%s) after %lld ms", a->name, script_end_name(result->end),
                 result->message ? result->message : "", (long long)(result->elapsed_ns / 1000000));
    if (cpu_ns > (budget_ms + LATE_MS) * 1000000)
        fail_msg("%s: took %lld ms of processor time", a->name, (long long)(cpu_ns / 1000000));
    if (result->peak_memory > (32u << 20) + 65536)
        fail_msg("%s: %zu bytes", a->name, result->peak_memory);
}

static void the_library_cannot_be_tricked(void **state)
{
    (void)state;
    const char *only = getenv("ONLY");
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++) {
        said s;
        setting from = a_setting(attacks[i].source);
        if (only && !strstr(attacks[i].name, only))
            continue;
        from.limits.wall_ms = attacks[i].end == SCRIPT_TIME ? BUDGET_MS : 120 * BUDGET_MS;
        script_result result = run_setting(&from, &s);
        judge(&attacks[i], &result, s.cpu_ns, from.limits.wall_ms);
        script_result_clear(&result);
        forget_said(&s);
        gives("return {('x'):rep(3), ctx:map({1}, function(x) return x end)}", "[\"xxx\",[1]]");
    }
    print_message("    %zu attacks\n", sizeof attacks / sizeof attacks[0]);
}

static void the_journal_cannot_be_tricked(void **state)
{
    (void)state;
    const char *only = getenv("ONLY");
    kept k;
    kept_make(&k);
    for (size_t i = 0; i < sizeof of_journal / sizeof of_journal[0]; i++) {
        script_limits limits = {.memory = 32u << 20,
                                .wall_ms = of_journal[i].end == SCRIPT_TIME ? BUDGET_MS : 60000};
        if (only && !strstr(of_journal[i].name, only))
            continue;
        int64_t begun = cpu_now();
        script_result result = kept_run(&k, of_journal[i].source, &limits, NULL);
        judge(&of_journal[i], &result, cpu_now() - begun, limits.wall_ms);
        script_result_clear(&result);
        limits.wall_ms = 20000;
        result = kept_run(&k, "return ctx:step('a', function() return 'x' end)", &limits, NULL);
        assert_int_equal(result.end, SCRIPT_DONE);
        script_result_clear(&result);
    }
    kept_close(&k);
    print_message("    %zu attacks\n", sizeof of_journal / sizeof of_journal[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_cannot_be_tricked),
        cmocka_unit_test(the_journal_cannot_be_tricked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
