/*
 * tests/unit/script/bindings_test.c - what a script can call, without a model.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script_testing.h"

#include "base/file.h"

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
        script_config config =
            a_config("local v, e = pawl.json.decode(pawl.params.text) if e then error(e) end\n"
                     "return {v}");
        script_param param = {"text", texts[i]};
        config.params = &param;
        config.n_params = 1;
        script_result result = run_config_of(&config, &s);
        assert_int_equal(result.end, SCRIPT_DONE);
        char wanted[200];
        snprintf(wanted, sizeof wanted, "[%s]\n", texts[i]);
        assert_string_equal(buf_text(&s.emitted), wanted);
        script_result_clear(&result);
        forget_said(&s);
    }
}

static void json_is_read_strictly(void **state)
{
    (void)state;
    emits("local bad = {'', ' ', '[', ']', '[1,]', '[1 2]', '{', '{\"a\"}', '{\"a\":}', "
          "'{\"a\":1,}',\n"
          "'{a:1}', '01', '1.', '.5', '+1', '1e', '-', 'nul', 'nulll', 'tru', '\"', '\"\\\\x\"',\n"
          "'\"\\\\u12\"', '\"\\n\"', '\"\\255\"', '1 1', '[1]]', 'NaN', 'Infinity', '1e999', "
          "'\"a\" b',\n"
          "('['):rep(65) .. (']'):rep(65), '\\0', '[\"\\xC3\"]'}\n"
          "for _, text in ipairs(bad) do local v, e = pawl.json.decode(text)\n"
          "assert(v == nil and e.code == 'json' and e.message:find('byte %d+'), text) end\n"
          "assert(pawl.json.decode(('['):rep(64) .. (']'):rep(64)))\n"
          "assert(pawl.json.decode(' [ 1 , 2 ] ')[2] == 2)\n"
          "assert(pawl.json.decode('\"\\\\ud83d\\\\ude00\\\\ud800\"') == '\\u{1F600}\\u{FFFD}')\n"
          "assert(math.type(pawl.json.decode('9223372036854775808')) == 'float')\n"
          "return pawl.json.decode('{\"a\":1,\"a\":2}')",
          "{\"a\":2}\n");
}

static void json_is_written_carefully(void **state)
{
    (void)state;
    emits(
        "return {b = 1, a = 'x\\xFFy\\xC3', [' '] = pawl.json.null, c = pawl.json.array{},\n"
        "n = 1e15, m = 1 / 3, z = -0.0, big = math.mininteger}",
        "{\" \":null,\"a\":\"x\xEF\xBF\xBDy\xEF\xBF\xBD\",\"b\":1,"
        "\"big\":-9223372036854775808,\"c\":[],\"m\":0.3333333333333333,\"n\":1e+15,\"z\":-0.0}\n");
    fails("pawl.json.encode{1, nil, 3}", "holes");
    fails("pawl.json.encode{1, a = 2}", "holes");
    fails("pawl.json.encode{[2] = 1}", "holes");
    fails("pawl.json.encode(print)", "function");
    fails("pawl.json.encode(0 / 0)", "nan");
    fails("pawl.json.encode(math.huge)", "inf");
    fails("pawl.json.encode()", "value expected");
    fails("local t = pawl.json.array{} t.x = 1 pawl.json.encode(t)", "holes");
}

static void a_script_says_things(void **state)
{
    (void)state;
    said s;
    script_config config = a_config("#!/usr/bin/env pawl\n"
                                    "assert(pawl.api == 1 and pawl.params.k == 'v w')\n"
                                    "pawl.emit(1) pawl.emit('two') print('a', nil, {})\n"
                                    "pawl.log('warn', 'careful') pawl.progress(3, 7, 'note')\n"
                                    "return {three = 3}");
    script_param param = {"k", "v w"};
    config.params = &param;
    config.n_params = 1;
    script_result result = run_config_of(&config, &s);
    assert_int_equal(result.end, SCRIPT_DONE);
    assert_string_equal(buf_text(&s.emitted), "1\n\"two\"\n{\"three\":3}\n");
    char wanted[100];
    snprintf(wanted, sizeof wanted, "%d a\tnil\ttable\n%d careful\n", PAWL_LOG_INFO, PAWL_LOG_WARN);
    assert_string_equal(buf_text(&s.logged), wanted);
    assert_true(s.n_progress == 1 && s.done > 2.9 && s.total > 6.9);
    assert_true(result.instructions > 0 && result.peak_memory > 10000);
    script_result_clear(&result);
    forget_said(&s);
    fails("pawl.log('loud', 'x')", "invalid option 'loud'");
    fails("pawl.progress(-1)", "number from 0");
    fails("pawl.emit()", "value expected");
}

static void a_script_ends(void **state)
{
    (void)state;
    emits("", "");
    emits("return nil", "");
    emits("return 5", "5\n");
    emits("return false", "false\n");
    fails("return nil, {code = 'x', message = 'it did not work'}", "it did not work");
    fails("return nil, 'plain'", "plain");
    fails("error({message = 'in a table'})", "in a table");
    fails("error({})", "an error that is a table");
    fails("local x = nil + 1", "t.lua:1: attempt to perform arithmetic on a nil value");
    fails("return print", "function has no JSON form");
    said s;
    script_config config = a_config("local function inner() error('deep') end\n"
                                    "local function outer() inner() end\nouter()");
    script_result result = run_config_of(&config, &s);
    assert_int_equal(result.end, SCRIPT_FAILED);
    assert_string_equal(result.message, "t.lua:1: deep");
    assert_non_null(strstr(result.traceback, "t.lua:2: in"));
    script_result_clear(&result);
    forget_said(&s);
    config = a_config("return = 1");
    result = run_config_of(&config, &s);
    assert_int_equal(result.end, SCRIPT_SYNTAX);
    assert_non_null(strstr(result.message, "t.lua:1:"));
    script_result_clear(&result);
    forget_said(&s);
}

static void map_runs_all(void **state)
{
    (void)state;
    emits("return pawl.map({}, print)", "{}\n"); /* an unmarked empty table */
    emits("return pawl.map({1, 2, 3}, function(x, i) return x * 10 + i end)", "[11,22,33]\n");
    emits("return pawl.map({1, 2, 3}, function(x) if x ~= 2 then return x end end)",
          "[1,false,3]\n");
    emits("local l = {} for i = 1, 1000 do l[i] = i end local n = 0\n"
          "pawl.map(l, function(x) n = n + x end, {parallel = 64}) return n",
          "500500\n");
    emits("return pawl.map({1, 2}, function(x) return pawl.map({1, 2}, function(y)\n"
          "return x * y end) end)",
          "[[1,2],[2,4]]\n");
    emits("local r, e = pawl.map({1, 2, 3}, function(x) if x == 2 then return nil, {message = 'm'} "
          "end\n"
          "return x end) return {r == nil, e.message}",
          "[true,\"m\"]\n");
    emits("local r, e = pawl.map({1, 2, 3}, function(x) if x == 2 then return nil, 'm' end\n"
          "return x end, {on_error = 'collect'}) return {r, e[2], e[1] == nil}",
          "[[1,false,3],\"m\",true]\n");
    emits("local ok, e = pcall(pawl.map, {1, 2, 3}, function(x) error('x' .. x, 0) end)\n"
          "return {ok, e, pawl.map({1}, function() return 'on' end)}",
          "[false,\"x1\",[\"on\"]]\n");
    emits("local ok, e = pcall(function() return pawl.map({1, 2}, function(x)\n"
          "return pawl.map({1, 2}, function(y) error('y', 0) end) end) end) return {ok, e}",
          "[false,\"y\"]\n");
    fails("pawl.map({1}, print, {paralel = 2})", "unknown option 'paralel'");
    fails("pawl.map({1}, print, {parallel = 65})", "from 1 to 64");
    fails("pawl.map({1}, print, {on_error = 'x'})", "on_error");
    fails("pawl.map(1, print)", "table expected");
    fails("pawl.map({1})", "function expected");
}

/* Every name that the annotations document is there, and the other way round. */
static void the_annotations_are_complete(void **state)
{
    (void)state;
    buf text;
    said s;
    pawl_error error = {.struct_size = sizeof error};
    buf_init(&text, 1u << 20);
    assert_int_equal(file_read(PAWL_SOURCE_DIR "/lua/pawl.d.lua", &text, &error), PAWL_OK);
    script_config config = a_config(
        "local documented, found = {}, {}\n"
        "for name in pawl.params.text:gmatch('\\nfunction pawl%.([%w_.]+)') do documented[name] = "
        "1 end\n"
        "for name in pairs(pawl.json) do found['json.' .. name] = true end\n"
        "for name in pairs(pawl) do found[name] = true end\n"
        "for name in pairs{api = 1, params = 1, json = 1, ['json.null'] = 1} do\n"
        "  assert(found[name] and pawl.params.text:find('@field ' .. name:match('[%w]+$')), name)\n"
        "  found[name] = nil end\n"
        "local n = 0\n"
        "for name in pairs(found) do assert(documented[name], name .. ' is not documented') end\n"
        "for name in pairs(documented) do assert(found[name], name .. ' is not there') n = n + 1 "
        "end\n"
        "return n > 5");
    script_param param = {"text", buf_text(&text)};
    config.params = &param;
    config.n_params = 1;
    script_result result = run_config_of(&config, &s);
    if (result.end != SCRIPT_DONE)
        fail_msg("%s", result.message);
    assert_string_equal(buf_text(&s.emitted), "true\n");
    script_result_clear(&result);
    forget_said(&s);
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
