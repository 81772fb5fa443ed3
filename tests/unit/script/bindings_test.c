/*
 * tests/unit/script/bindings_test.c - what a script can call, without a model.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script_testing.h"

#include "base/file.h"
#include "base/json.h"

static void json_comes_back(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "null",
        "true",
        "[]",
        "{}",
        "[[],{},[{}]]",
        "0",
        "-1",
        "9223372036854775807",
        "1.5",
        "1e+300",
        "0.1",
        "-0.0",
        "100000.0",
        "\"\"",
        "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u0000\"",
        "\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\"",
        "{\"a\":1,\"b\":[1,2,null],\"c\":{\"d\":false}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        said s;
        setting from = a_setting("local v, e = h.parse(input.text) if e then error(e) end\n"
                                 "return {v}");
        char json[300], wanted[200];
        buf text;
        buf_init(&text, sizeof json);
        json_add_quoted(&text, json_text(texts[i]));
        snprintf(json, sizeof json, "{\"text\":%s}", buf_text(&text));
        buf_clear(&text);
        from.input = json;
        script_result result = run_setting(&from, &s);
        assert_int_equal(result.end, SCRIPT_DONE);
        snprintf(wanted, sizeof wanted, "[%s]", texts[i]);
        assert_string_equal(result.value, wanted);
        script_result_clear(&result);
        forget_said(&s);
    }
}

static void json_is_read_strictly(void **state)
{
    (void)state;
    gives("local bad = {'', ' ', '[', ']', '[1,]', '[1 2]', '{', '{\"a\"}', '{\"a\":}', "
          "'{\"a\":1,}',\n"
          "'{a:1}', '01', '1.', '.5', '+1', '1e', '-', 'nul', 'nulll', 'tru', '\"', '\"\\\\x\"',\n"
          "'\"\\\\u12\"', '\"\\n\"', '\"\\255\"', '1 1', '[1]]', 'NaN', 'Infinity', '1e999', "
          "'\"a\" b',\n"
          "('['):rep(65) .. (']'):rep(65), '\\0', '[\"\\xC3\"]'}\n"
          "for _, text in ipairs(bad) do local v, e = h.parse(text)\n"
          "assert(v == nil and e.code == 'json' and e.message:find('byte %d+'), text) end\n"
          "assert(h.parse(('['):rep(64) .. (']'):rep(64)))\n"
          "assert(h.parse(' [ 1 , 2 ] ')[2] == 2)\n"
          "assert(h.parse('\"\\\\ud83d\\\\ude00\\\\ud800\"') == '\\u{1F600}\\u{FFFD}')\n"
          "assert(math.type(h.parse('9223372036854775808')) == 'float')\n"
          "return h.parse('{\"a\":1,\"a\":2}')",
          "{\"a\":2}");
}

static void json_is_written_carefully(void **state)
{
    (void)state;
    gives("return {b = 1, a = 'x\\xFFy\\xC3', [' '] = h.null, c = h.array{},\n"
          "n = 1e15, m = 1 / 3, z = -0.0, big = math.mininteger}",
          "{\" \":null,\"a\":\"x\xEF\xBF\xBDy\xEF\xBF\xBD\",\"b\":1,"
          "\"big\":-9223372036854775808,\"c\":[],\"m\":0.3333333333333333,\"n\":1e+15,\"z\":-0.0}");
    fails("h.json{1, nil, 3}", "holes");
    fails("h.json{1, a = 2}", "holes");
    fails("h.json{[2] = 1}", "holes");
    fails("h.json(print)", "function");
    fails("h.json(0 / 0)", "nan");
    fails("h.json(math.huge)", "inf");
    fails("h.json()", "value expected");
    fails("local t = h.array{} t.x = 1 h.json(t)", "holes");
}

static void a_script_says_things(void **state)
{
    (void)state;
    said s;
    setting from = a_setting("assert(h.api == 1 and input.k == 'v w' and require 'pawl' == h)\n"
                             "ctx:emit('one', 1) ctx:emit('two') print('a', nil, {})\n"
                             "ctx:log('warn', 'careful', {n = 1}) ctx:progress(3, 7, 'note')\n"
                             "ctx:emit('three', {h.null}) return {four = 4}");
    from.input = "{\"k\":\"v w\"}";
    script_result result = run_setting(&from, &s);
    if (result.end != SCRIPT_DONE)
        fail_msg("%s", result.message);
    assert_string_equal(result.value, "{\"four\":4}");
    assert_string_equal(buf_text(&s.emitted), "one 1\ntwo null\nthree [null]\n");
    assert_string_equal(buf_text(&s.logged),
                        "{\"level\":\"info\",\"message\":\"a\\tnil\\ttable\"}\n"
                        "{\"level\":\"warn\",\"message\":\"careful\",\"fields\":{\"n\":1}}\n");
    assert_string_equal(s.progress, "{\"done\":3,\"total\":7,\"note\":\"note\"}");
    assert_true(result.instructions > 0 && result.peak_memory > 10000);
    script_result_clear(&result);
    forget_said(&s);
    fails("ctx:log('loud', 'x')", "invalid option 'loud'");
    fails("ctx:log('info', 'x', 5)", "table expected");
    fails("ctx:log('info')", "value expected");
    fails("ctx:progress(-1)", "number from 0");
    fails("ctx:emit('a b', 1)", "letters");
    fails("ctx:emit('run.log', 1)", "letters");
    fails("ctx:emit()", "type of an event is a string");
    fails("ctx.progress(1, 2)", "ctx:progress(");
    fails("ctx.map({}, print)", "ctx:map(");
}

static void a_script_ends(void **state)
{
    (void)state;
    gives("", "null");
    gives("return nil", "null");
    gives("return 5", "5");
    gives("return false", "false");
    gives("return 1, 2, 3", "1");
    fails("return nil, {code = 'x', message = 'it did not work'}", "it did not work");
    fails("return nil, 'plain'", "plain");
    fails("error({message = 'in a table'})", "in a table");
    fails("error({})", "an error that is a table");
    fails("local x = nil + 1", "t.lua:1: attempt to perform arithmetic on a nil value");
    fails("return print", "function has no JSON form");
    said s;
    setting from = a_setting("local function inner() error('deep') end\n"
                             "local function outer() inner() end\nouter()");
    script_result result = run_setting(&from, &s);
    assert_int_equal(result.end, SCRIPT_FAILED);
    assert_string_equal(result.message, "t.lua:1: deep");
    assert_non_null(strstr(result.traceback, "t.lua:2: in"));
    script_result_clear(&result);
    forget_said(&s);
    from = a_setting("return = 1");
    result = run_setting(&from, &s);
    assert_int_equal(result.end, SCRIPT_SYNTAX);
    assert_non_null(strstr(result.message, "t.lua:1:"));
    script_result_clear(&result);
    forget_said(&s);
}

static void map_runs_all(void **state)
{
    (void)state;
    gives("return ctx:map({}, print)", "{}"); /* an unmarked empty table */
    gives("return ctx:map({1, 2, 3}, function(x, i) return x * 10 + i end)", "[11,22,33]");
    gives("return ctx:map({1, 2, 3}, function(x) if x ~= 2 then return x end end)", "[1,false,3]");
    gives("local l = {} for i = 1, 1000 do l[i] = i end local n = 0\n"
          "ctx:map(l, function(x) n = n + x end, {parallel = 64}) return n",
          "500500");
    gives("return ctx:map({1, 2}, function(x) return ctx:map({1, 2}, function(y)\n"
          "return x * y end) end)",
          "[[1,2],[2,4]]");
    gives("local r, e = ctx:map({1, 2, 3}, function(x) if x == 2 then return nil, {message = 'm'} "
          "end\n"
          "return x end) return {r == nil, e.message}",
          "[true,\"m\"]");
    gives("local r, e = ctx:map({1, 2, 3}, function(x) if x == 2 then return nil, 'm' end\n"
          "return x end, {on_error = 'collect'}) return {r, e[2], e[1] == nil}",
          "[[1,false,3],\"m\",true]");
    gives("local ok, e = pcall(ctx.map, ctx, {1, 2, 3}, function(x) error('x' .. x, 0) end)\n"
          "return {ok, e, ctx:map({1}, function() return 'on' end)}",
          "[false,\"x1\",[\"on\"]]");
    gives("local ok, e = pcall(function() return ctx:map({1, 2}, function(x)\n"
          "return ctx:map({1, 2}, function(y) error('y', 0) end) end) end) return {ok, e}",
          "[false,\"y\"]");
    fails("ctx:map({1}, print, {paralel = 2})", "unknown option 'paralel'");
    fails("ctx:map({1}, print, {parallel = 65})", "from 1 to 64");
    fails("ctx:map({1}, print, {on_error = 'x'})", "on_error");
    fails("ctx:map(1, print)", "is a table, not a number");
    fails("ctx:map({1})", "is a function, not a nil");
}

/* Every name that the annotations document is there, and the other way round. */
static void the_annotations_are_complete(void **state)
{
    (void)state;
    buf text, json;
    said s;
    pawl_error error = {.struct_size = sizeof error};
    buf_init(&text, 1u << 20);
    buf_init(&json, 1u << 20);
    assert_int_equal(file_read(PAWL_SOURCE_DIR "/lua/pawl.d.lua", &text, &error), PAWL_OK);
    setting from = a_setting(
        "local documented, found, n = {}, {}, 0\n"
        "for of, name in input.text:gmatch('\\nfunction (%a+)[.:]([%w_]+)') do\n"
        "  documented[of .. '.' .. name] = 1 end\n"
        "local fields = {}\n"
        "for line in input.text:gmatch('[^\\n]+') do\n"
        "  if line:find('^%-%-%-@class') then fields = {} end\n"
        "  fields[#fields + 1] = line:match('^%-%-%-@field ([%w_]+)')\n"
        "  local of = line:match('^local (%a+) = {}')\n"
        "  for _, name in ipairs(of and fields or {}) do documented[of .. '.' .. name] = 1 end "
        "end\n"
        "for name in pairs(h) do found['h.' .. name] = 1 end\n"
        "for name in pairs(ctx) do found['ctx.' .. name] = 1 end\n"
        "for name in pairs(ctx.docs) do found['docs.' .. name] = 1 end\n"
        "local t = ctx:spawn(print) assert(t.wait and t.cancel and not t.x)\n"
        "for _, name in ipairs{'wait', 'cancel'} do found['task.' .. name] = 1 end\n"
        "for name in ('add empty tokens mark rollback fork drop generate select id')\n"
        "  :gmatch('%a+') do found['session.' .. name] = 1 end\n"
        "for name in pairs(found) do assert(documented[name], name .. ' is not documented') end\n"
        "for name in pairs(documented) do assert(found[name], name .. ' is not there') n = n + 1 "
        "end\n"
        "return n > 30");
    buf_add_text(&json, "{\"text\":");
    json_add_quoted(&json, buf_bytes(&text));
    buf_add_text(&json, "}");
    from.input = buf_text(&json);
    script_result result = run_setting(&from, &s);
    if (result.end != SCRIPT_DONE)
        fail_msg("%s", result.message);
    assert_string_equal(result.value, "true");
    script_result_clear(&result);
    forget_said(&s);
    buf_clear(&json);
    buf_clear(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_comes_back),
        cmocka_unit_test(json_is_read_strictly),
        cmocka_unit_test(json_is_written_carefully),
        cmocka_unit_test(a_script_says_things),
        cmocka_unit_test(a_script_ends),
        cmocka_unit_test(map_runs_all),
        cmocka_unit_test(the_annotations_are_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
