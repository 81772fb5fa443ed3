/*
 * script/task.c - the coroutines of one run. See task.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/state.h"

#include <stdlib.h>
#include <string.h>

#define POLL_MS 20 /* how often a waiting run looks whether it is cancelled */
#define DEFAULT_PARALLEL 4
#define RESUME_UNITS 250           /* what starting or continuing a task is charged         */
#define TRACEBACK_ROOM (64u << 10) /* more memory, once the script is dead            */

/* A map that runs; a userdata with the user values below. */
struct task_map {
    lua_Integer n;       /* elements                                     */
    lua_Integer next;    /* the next to be started                       */
    lua_Integer running; /* members                                      */
    lua_Integer parallel;
    bool collect; /* go on when a member has failed               */
    bool raised;  /* an error ends it: the value FAILURE is raised */
    bool stopped; /* a member failed: nil and FAILURE are returned */
};
enum { MAP_LIST = 1, MAP_FUNCTION, MAP_RESULTS, MAP_FAILURE, MAP_FAILURES, MAP_VALUES = 5 };

/* Registry keys of tables that keep alive: thread by its address, map by its own. */
static const char threads_key = 't', maps_key = 'm';

static bool map_settled(const task_map *m)
{
    return m->raised || m->stopped || (m->running == 0 && m->next > m->n);
}

/* ------------------------------------------------------------- slots */

/* Moves the function and the arguments at the top of L into a new task. False: no slot. */
static bool add_task(lua_State *L, int n_arguments, task_map *member_of, lua_Integer index)
{
    task_list *list = &script_of(L)->tasks;
    task *t = NULL;
    for (size_t i = 0; i < TASK_MAX && !t; i++)
        t = list->slots[i].co ? NULL : &list->slots[i];
    if (!t)
        return false;
    lua_State *co = lua_newthread(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &threads_key);
    lua_insert(L, -2);
    lua_rawsetp(L, -2, co);
    lua_pop(L, 1);
    lua_xmove(L, co, n_arguments + 1);
    *t = (task){.co = co,
                .n_arguments = n_arguments,
                .deadline_ns = INT64_MAX,
                .member_of = member_of,
                .index = index};
    return true;
}

static void forget(lua_State *L, const char *key, const void *pointer)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, key);
    lua_pushnil(L);
    lua_rawsetp(L, -2, pointer);
    lua_pop(L, 1);
}

static void drop_task(lua_State *L, task *t)
{
    if (t->waiting)
        call_cancel(t->waiting);
    if (t->map)
        forget(L, &maps_key, t->map);
    forget(L, &threads_key, t->co);
    *t = (task){0};
}

static bool is_below(const task *t, const task_map *m, const task_list *list)
{
    while (t && t->member_of && t->member_of != m) {
        const task *parent = NULL;
        for (size_t i = 0; i < TASK_MAX && !parent; i++)
            if (list->slots[i].co && list->slots[i].map == t->member_of)
                parent = &list->slots[i];
        t = parent;
    }
    return t && t->member_of == m;
}

/* Ends all members of a map, and theirs. */
static void drop_members(lua_State *L, task_map *m)
{
    task_list *list = &script_of(L)->tasks;
    bool below[TASK_MAX];
    for (size_t i = 0; i < TASK_MAX; i++)
        below[i] = list->slots[i].co && is_below(&list->slots[i], m, list);
    for (size_t i = 0; i < TASK_MAX; i++)
        if (below[i])
            drop_task(L, &list->slots[i]);
    m->running = 0;
}

/* ------------------------------------------------------------- maps */

static void push_map(lua_State *L, task_map *m)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &maps_key);
    lua_rawgetp(L, -1, m);
    lua_remove(L, -2);
}

/* Starts members while there is room. */
static void feed(lua_State *L, task_map *m)
{
    push_map(L, m);
    while (m->running < m->parallel && m->next <= m->n) {
        lua_getiuservalue(L, -1, MAP_FUNCTION);
        lua_getiuservalue(L, -2, MAP_LIST);
        lua_rawgeti(L, -1, m->next);
        lua_remove(L, -2);
        lua_pushinteger(L, m->next);
        if (!add_task(L, 2, m, m->next)) {
            lua_pop(L, 3);
            break;
        }
        m->next++;
        m->running++;
    }
    if (m->running == 0 && m->next <= m->n) { /* others have all slots: nobody would go on */
        lua_pushfstring(L,
                        "more than %d tasks at once; give maps that call maps a smaller "
                        "'parallel'",
                        TASK_MAX - 1);
        lua_setiuservalue(L, -2, MAP_FAILURE);
        m->raised = true;
    }
    lua_pop(L, 1);
}

/* Takes the value at the top as what ended the map. */
static void end_map(lua_State *L, task_map *m, bool raised)
{
    push_map(L, m);
    lua_insert(L, -2);
    lua_setiuservalue(L, -2, MAP_FAILURE);
    lua_pop(L, 1);
    m->raised = raised;
    m->stopped = !raised;
    drop_members(L, m);
}

/* Takes the two values at the top: what a member returned. */
static void take_result(lua_State *L, task_map *m, lua_Integer index)
{
    bool failed = lua_isnil(L, -2) && !lua_isnil(L, -1);
    m->running--;
    if (failed && !m->collect) {
        end_map(L, m, false);
        lua_pop(L, 1);
        return;
    }
    push_map(L, m);
    lua_getiuservalue(L, -1, failed ? MAP_FAILURES : MAP_RESULTS);
    lua_pushvalue(L, failed ? -3 : -4);
    lua_rawseti(L, -2, index);
    if (failed || lua_isnil(L, -4)) {
        lua_getiuservalue(L, -2, MAP_RESULTS);
        lua_pushboolean(L, 0);
        lua_rawseti(L, -2, index);
        lua_pop(L, 1);
    }
    lua_pop(L, 4);
    feed(L, m);
}

/* ------------------------------------------------------------- running */

/* The script ends with the error at the top of L; co is the task that it came from. */
static void end_with_error(lua_State *L, lua_State *co)
{
    script *s = script_of(L);
    s->box.running = NULL;
    s->box.max_memory += TRACEBACK_ROOM;
    luaL_traceback(L, co, NULL, 0);
    s->traceback = strdup(lua_tostring(L, -1));
    lua_pop(L, 1);
    lua_error(L);
}

/* Runs a task until it yields or ends. True: it was the main task, which left n values
 * on L's stack. */
static bool resume(lua_State *L, task *t, int *n)
{
    script *s = script_of(L);
    lua_State *co = t->co;
    int n_arguments = t->n_arguments;
    t->n_arguments = 0;
    t->waiting = NULL;
    t->map = NULL;
    s->tasks.current = t;
    s->box.spent += RESUME_UNITS;
    s->box.protected = t->protected;
    sandbox_enter(&s->box, co);
    int status = lua_resume(co, L, n_arguments, n);
    s->box.running = NULL;
    t->protected = s->box.protected;
    if (status == LUA_YIELD) {
        lua_pop(co, *n);
        return false;
    }
    bool failed = status != LUA_OK;
    if (failed)
        lua_xmove(co, L, 1);
    if (failed && (sandbox_must_die(&s->box, status) || !t->member_of))
        end_with_error(L, co);
    if (!t->member_of) {
        luaL_checkstack(L, *n + 1, "too many results");
        lua_xmove(co, L, *n);
        return true;
    }
    task_map *m = t->member_of;
    lua_Integer index = t->index;
    if (!failed) {
        lua_settop(co, 2);
        lua_xmove(co, L, 2);
    }
    drop_task(L, t);
    if (failed)
        end_map(L, m, true);
    else
        take_result(L, m, index);
    return false;
}

/* Whether a task can go on. A call that took too long is cancelled, and ends soon. */
static bool is_ready(task *t, int64_t now_ns)
{
    const call_outcome *outcome;
    if (t->waiting && now_ns > t->deadline_ns) {
        call_cancel(t->waiting);
        t->deadline_ns = INT64_MAX;
    }
    if (t->waiting)
        return call_ended(t->waiting, &outcome);
    return !t->map || map_settled(t->map);
}

static void sleep_a_little(script *s, int64_t now_ns)
{
    int64_t left_ms = POLL_MS, until = s->box.deadline_ns;
    for (size_t i = 0; i < TASK_MAX; i++)
        if (s->tasks.slots[i].waiting && s->tasks.slots[i].deadline_ns < until)
            until = s->tasks.slots[i].deadline_ns;
    if (until != INT64_MAX && (until - now_ns) / 1000000 + 1 < left_ms)
        left_ms = (until - now_ns) / 1000000 + 1;
    call_hub_wait(s->hub, left_ms > 0 ? left_ms : 0);
}

static void make_registry_table(lua_State *L, const char *key)
{
    lua_newtable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

int task_run_main(lua_State *L)
{
    script *s = script_of(L);
    const base_clock *clock = s->box.clock;
    int n = 0;
    make_registry_table(L, &threads_key);
    make_registry_table(L, &maps_key);
    add_task(L, 0, NULL, 0);
    for (;;) {
        bool progress = false;
        int64_t now = clock->monotonic_ns(clock->context);
        for (size_t i = 0; i < TASK_MAX; i++) {
            task *t = &s->tasks.slots[i];
            if (!t->co || !is_ready(t, now))
                continue;
            progress = true;
            if (resume(L, t, &n))
                return n;
        }
        if (!sandbox_alive(&s->box)) {
            lua_pushlightuserdata(L, s);
            end_with_error(L, s->tasks.slots[0].co);
        }
        if (!progress)
            sleep_a_little(s, now);
    }
}

/* ------------------------------------------------------------- waiting */

void task_check_can_wait(lua_State *L, const char *what)
{
    if (!lua_isyieldable(L))
        luaL_error(L,
                   "%s waits, and nothing can wait within a function that table.sort, "
                   "string.gsub or a metamethod called",
                   what);
}

int task_wait_call(lua_State *L, call *c, int64_t timeout_ms, lua_KFunction done)
{
    script *s = script_of(L);
    task *t = s->tasks.current;
    t->waiting = c;
    t->deadline_ns = INT64_MAX;
    if (timeout_ms > 0)
        t->deadline_ns = s->box.clock->monotonic_ns(s->box.clock->context) + timeout_ms * 1000000;
    return lua_yieldk(L, 0, 0, done);
}

static int map_done(lua_State *L, int status, lua_KContext context)
{
    task_map *m = (task_map *)context;
    (void)status;
    push_map(L, m);
    forget(L, &maps_key, m);
    if (m->raised || m->stopped) {
        lua_pushnil(L);
        lua_getiuservalue(L, -2, MAP_FAILURE);
        return m->raised ? lua_error(L) : 2;
    }
    lua_getiuservalue(L, -1, MAP_RESULTS);
    if (lua_getiuservalue(L, -2, MAP_FAILURES) == LUA_TTABLE && m->collect) {
        lua_pushnil(L);
        if (lua_next(L, -2)) {
            lua_pop(L, 2);
            return 2;
        }
    }
    lua_pop(L, 1);
    return 1;
}

static void read_map_options(lua_State *L, task_map *m)
{
    m->parallel = DEFAULT_PARALLEL;
    if (lua_isnoneornil(L, 3))
        return;
    luaL_checktype(L, 3, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, 3); lua_pop(L, 1)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
        if (strcmp(name, "parallel") == 0) {
            m->parallel = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
            if (m->parallel < 1 || m->parallel > TASK_MAX_PARALLEL)
                luaL_error(L, "'parallel' is a whole number from 1 to %d", TASK_MAX_PARALLEL);
        } else if (strcmp(name, "on_error") == 0) {
            m->collect = strcmp(text, "collect") == 0;
            if (!m->collect && strcmp(text, "stop") != 0)
                luaL_error(L, "'on_error' is \"stop\" or \"collect\"");
        } else {
            luaL_error(L, "unknown option '%s' of map; known are parallel, on_error", name);
        }
    }
}

int task_map_binding(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    task_check_can_wait(L, "map");
    lua_settop(L, 3);
    task_map *m = lua_newuserdatauv(L, sizeof *m, MAP_VALUES);
    int map = lua_gettop(L);
    *m = (task_map){.n = (lua_Integer)lua_rawlen(L, 1), .next = 1};
    read_map_options(L, m);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, map, MAP_LIST);
    lua_pushvalue(L, 2);
    lua_setiuservalue(L, map, MAP_FUNCTION);
    lua_createtable(L, (int)(m->n < 65536 ? m->n : 65536), 0);
    lua_setiuservalue(L, map, MAP_RESULTS);
    lua_newtable(L);
    lua_setiuservalue(L, map, MAP_FAILURES);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &maps_key);
    lua_pushvalue(L, map);
    lua_rawsetp(L, -2, m);
    lua_pop(L, 1);
    script_of(L)->tasks.current->map = m;
    feed(L, m);
    return lua_yieldk(L, 0, (lua_KContext)m, map_done);
}
