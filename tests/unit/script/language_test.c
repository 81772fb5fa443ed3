/*
 * tests/unit/script/language_test.c - our string and table libraries against Lua's own.
 *
 * The same Lua text runs in a sandbox and in a plain state of the installed Lua, and must
 * print the same lines: random patterns, subjects and replacements, positions, moves.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script_testing.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>

/* A generator of its own, since math.random is seeded differently in a sandbox. */
static const char prelude[] =
    "local state = 12345\n"
    "local function random(n)\n"
    "  state = (state * 1103515245 + 12345) % 2147483648\n"
    "  return (state >> 8) % n + 1\n"
    "end\n"
    "local function text(pieces, most)\n"
    "  local t = {}\n"
    "  for i = 1, random(most + 1) - 1 do t[i] = pieces[random(#pieces)] end\n"
    "  return table.concat(t)\n"
    "end\n"
    "local function show(...)\n"
    "  local t = table.pack(...)\n"
    "  for i = 1, t.n do t[i] = tostring(t[i]) end\n"
    "  if t[1] == 'false' then return 'error' end\n"
    "  return table.concat(t, '|')\n"
    "end\n";

static const char patterns[] =
    "local items = {'a', 'b', '.', '%a', '%w', '%d', '%s', '%A', '%.', '[ab]', '[^a]', '[a-c]',\n"
    "  '[%d_]', '[]]', '[^]]', '*', '+', '-', '?', '(', ')', '()', '%1', '%2', '%b()', '%bxy',\n"
    "  '%f[a]', '%f[%W]', '^', '$', '[', ']', '%', '[a', '[a-', '\\0', 'c', '%g', '%p', '%x', "
    "'%u'}\n"
    "local letters = {'a', 'b', 'c', 'A', '1', ' ', '(', ')', 'x', 'y', '_', '\\0', '-', ']'}\n"
    "local ends = {'', 'x', '%0', '<%1>', '%%', '%2', '%', '%a'}\n"
    "for i = 1, 30000 do\n"
    "  local s, p, r = text(letters, 12), text(items, 6), ends[random(#ends)]\n"
    "  local init = random(10) - 5\n"
    "  print(i, 'find', show(pcall(string.find, s, p)))\n"
    "  print(i, 'find', show(pcall(string.find, s, p, init)))\n"
    "  print(i, 'plain', show(pcall(string.find, s, p, init, true)))\n"
    "  print(i, 'match', show(pcall(string.match, s, p, init)))\n"
    "  print(i, 'gsub', show(pcall(string.gsub, s, p, r)))\n"
    "  print(i, 'gsub', show(pcall(string.gsub, s, p, r, random(3) - 1)))\n"
    "  print(i, 'gsub', show(pcall(string.gsub, s, p, {a = 'A', b = false, c = 7})))\n"
    "  print(i, 'gsub', show(pcall(string.gsub, s, p, function(...) return show(...) end)))\n"
    "  local ok, all = pcall(function()\n"
    "    local t = {}\n"
    "    for a, b in s:gmatch(p, init) do t[#t + 1] = show(true, a, b) end\n"
    "    return table.concat(t, ';')\n"
    "  end)\n"
    "  print(i, 'gmatch', ok, ok and all)\n"
    "end\n";

static const char tables[] =
    "for i = 1, 3000 do\n"
    "  local t, n = {}, random(12) - 1\n"
    "  for k = 1, n do t[k] = random(20) end\n"
    "  local function list() return table.concat(t, ',') end\n"
    "  print('insert', show(pcall(table.insert, t, random(8) - 2, 99)), list())\n"
    "  print('insert', show(pcall(table.insert, t, 98)), list())\n"
    "  print('insert', show(pcall(table.insert, t)), show(pcall(table.insert, t, 1, 2, 3)))\n"
    "  print('remove', show(pcall(table.remove, t, random(8) - 2)), list())\n"
    "  print('remove', show(pcall(table.remove, t)), list())\n"
    "  print('unpack', show(pcall(table.unpack, t, random(5) - 2, random(9) - 2)))\n"
    "  print('concat', show(pcall(table.concat, t, '-', random(5) - 2, random(6) - 2)))\n"
    "  local u = {table.unpack(t)}\n"
    "  print('move', show(pcall(function() return #table.move(u, random(5), random(9), random(6)) "
    "end)),\n"
    "        #u, u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8])\n"
    "  print('move', table.concat(table.move(t, 1, #t, 3, {1, 2}), ','))\n"
    "  table.sort(t) print('sort', list())\n"
    "  table.sort(t, function(a, b) return a > b end) print('sort', list())\n"
    "  local p = table.pack(table.unpack(t)) print('pack', p.n, #p)\n"
    "end\n"
    "print(show(pcall(table.sort, {1, 'a'})), show(pcall(table.concat, {1, {}, 2})))\n"
    "print(show(pcall(table.move, {}, 1, math.maxinteger, 2)))\n"
    "print(show(pcall(table.move, {}, -1, math.maxinteger, 2)))\n"
    "print(show(pcall(table.insert, 5, 1)), show(pcall(table.unpack, {}, 1, 1e7)))\n";

static const char base[] =
    "print(show(pcall(error, 'x', 0)), show(pcall(error)))\n"
    "print(show(xpcall(function(a, b) return a + b end, print, 1, 2)))\n"
    "print(select(2, xpcall(function() error('x', 0) end, function(m) return m .. '!' end)))\n"
    "print(show(pcall(xpcall)), show(pcall(pcall)), show(pcall(pairs)), show(pcall(next, {}, 1)))\n"
    "local mt = {__index = {y = 1}, __len = function() return 9 end, __call = function(_, a)\n"
    "  return a end, __tostring = function() return 'T' end, __pairs = function(t)\n"
    "  return function(_, k) if not k then return 1, 2 end end, t, nil end, __name = 'N',\n"
    "  __eq = function() return true end, __lt = function() return true end,\n"
    "  __le = function() return false end, __concat = function() return 'c' end,\n"
    "  __unm = function() return 'u' end, __add = function() return 'a' end}\n"
    "local t = setmetatable({}, mt)\n"
    "print(t.y, #t, t(5), tostring(t), t == setmetatable({}, mt), t < t, t <= t, t .. 1, -t, t + "
    "1)\n"
    "for k, v in pairs(t) do print(k, v) end\n"
    "print(getmetatable(t) == mt, getmetatable({}), rawlen({1, 2}), rawget(t, 'y'), rawequal(t, "
    "t))\n"
    "setmetatable(t, nil) print(t.y, getmetatable(t))\n"
    "print(show(pcall(setmetatable, setmetatable({}, {__metatable = 1}), {})))\n"
    "print(show(pcall(setmetatable, {}, 1)), show(pcall(setmetatable, 1, {})))\n"
    "print(('%5.2f|%d|%s|%q|%-5s|%x|%%|%c|%i'):format(1.5, 3, nil, 'a\\nb', 'x', 255, 65, 7))\n"
    "print(show(pcall(string.format, '%d', 1.5)), show(pcall(string.format, '%z', 1)))\n"
    "print(show(pcall(string.format, '%')), show(pcall(string.format, '%d')))\n"
    "print(('x'):rep(3, ','), ('x'):rep(0), ('x'):rep(-1), (''):rep(5, 'a'))\n"
    "print(show(pcall(string.rep, 'x')), show(pcall(string.rep)))\n"
    "print('10' + 1, '3' * '4', 10 .. 20, #'abc', ('x'):upper(), ('abc'):byte(1, -1))\n"
    "print(math.type(1), math.max(1, 5), math.tointeger(3.0), 7 // 2, 7 % 3, 2 ^ 10, 1 << 4)\n"
    "print(utf8.char(228, 8364), utf8.len('äö'), utf8.codepoint('ä'), "
    "('ä'):find(utf8.charpattern))\n"
    "for p, c in utf8.codes('aä') do print(p, c) end\n"
    "print(tonumber('0x10'), tonumber('z', 36), tonumber('x'), tonumber('1e1'), select('#', 1, "
    "nil))\n"
    "local function closing() local log = {}\n"
    "  do local a <close> = setmetatable({}, {__close = function() log[#log + 1] = 'a' end})\n"
    "     local b <close> = setmetatable({}, {__close = function() log[#log + 1] = 'b' end}) end\n"
    "  return table.concat(log) end print(closing())\n"
    "for i = 3, 1, -1 do goto next print('no') ::next:: end\n"
    "for i, v in ipairs({1, 2, nil, 4}) do print(i, v) end\n"
    "local n = 0 for k in next, {a = 1, b = 2} do n = n + 1 end print(n)\n"
    "print(pcall(string.gsub, 'abc', '%w', '%9'))\n";

static int plain_print(lua_State *L)
{
    buf *out = lua_touserdata(L, lua_upvalueindex(1));
    buf_printf(out, "%d ", PAWL_LOG_INFO);
    for (int i = 1; i <= lua_gettop(L); i++) {
        size_t size;
        const char *text = luaL_tolstring(L, i, &size);
        buf_add_text(out, i > 1 ? "\t" : "");
        buf_add_text(out, text); /* to the first NUL, like the log */
        lua_pop(L, 1);
    }
    buf_add_text(out, "\n");
    return 0;
}

/* In Lua's own state. */
static void run_plain(const char *source, buf *out)
{
    lua_State *L = luaL_newstate();
    assert_non_null(L);
    luaL_openlibs(L);
    lua_pushlightuserdata(L, out);
    lua_pushcclosure(L, plain_print, 1);
    lua_setglobal(L, "print");
    if (luaL_loadbufferx(L, source, strlen(source), "@t.lua", "t") || lua_pcall(L, 0, 0, 0))
        fail_msg("plain: %s", lua_tostring(L, -1));
    lua_close(L);
}

static void first_difference(const char *a, const char *b)
{
    const char *line_a = a, *line_b = b;
    for (; *a && *a == *b; a++, b++)
        if (*a == '\n') {
            line_a = a + 1;
            line_b = b + 1;
        }
    if (*a != *b)
        fail_msg("Lua says:  %.*s\nours says: %.*s", (int)strcspn(line_a, "\n"), line_a,
                 (int)strcspn(line_b, "\n"), line_b);
}

/* A line of the log as plain_print() writes it. */
static void add_line(void *arg, const char *type, const char *data)
{
    said *s = arg;
    const char *at = strstr(data, "\"message\":\"");
    assert_string_equal(type, "run.log");
    assert_non_null(at);
    buf_printf(&s->logged, "%d ", PAWL_LOG_INFO);
    for (at += strlen("\"message\":\""); *at != '"'; at++) {
        static const char names[] = "nrtbf", values[] = "\n\r\t\b\f";
        char c = *at;
        if (c == '\\' && strncmp(at, "\\u00", 4) == 0) {
            char hex[3] = {at[4], at[5], '\0'};
            c = (char)strtol(hex, NULL, 16);
            at += 5;
        } else if (c == '\\') {
            const char *name = strchr(names, *++at);
            c = name ? values[name - names] : *at;
        }
        if (c == '\0')
            break; /* plain_print() stops there, too */
        buf_add(&s->logged, &c, 1);
    }
    buf_add_text(&s->logged, "\n");
}

static void same_as_lua(const char *body)
{
    buf source, plain;
    said s;
    buf_init(&source, SCRIPT_MAX_SOURCE);
    buf_init(&plain, 256u << 20);
    buf_add_text(&source, prelude);
    buf_add_text(&source, body);
    run_plain(source.data, &plain);
    setting from = a_setting(source.data);
    from.limits.wall_ms = 0;
    from.hear = add_line;
    script_result result = run_setting(&from, &s);
    if (result.end != SCRIPT_DONE)
        fail_msg("%s: %s\n%s", script_end_name(result.end), result.message,
                 result.traceback ? result.traceback : "");
    first_difference(buf_text(&plain), buf_text(&s.logged));
    assert_true(plain.size > 100);
    script_result_clear(&result);
    forget_said(&s);
    buf_clear(&plain);
    buf_clear(&source);
}

static void patterns_are_lua_s(void **state)
{
    (void)state;
    same_as_lua(patterns);
}

static void tables_are_lua_s(void **state)
{
    (void)state;
    same_as_lua(tables);
}

static void the_rest_is_lua_s(void **state)
{
    (void)state;
    same_as_lua(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_are_lua_s),
        cmocka_unit_test(tables_are_lua_s),
        cmocka_unit_test(the_rest_is_lua_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
