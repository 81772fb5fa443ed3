/*
 * script/sandbox.c - a Lua state that cannot outrun its budgets. See sandbox.h.
 *
 * How late a stop can be is what one stretch between two looks at the clock can cost.
 * Comparing, hashing or scanning is linear in one block of memory, so no block may be
 * larger than SCRIPT_MAX_BLOCK, and while large ones live the hook fires more often.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/sandbox.h"

#include <stdlib.h>

#define BIG (1u << 20)           /* a block that makes one instruction take 50 us and more */
#define COARSE 200               /* instructions between two hooks                         */
#define FINE 10                  /* the same while a big block lives                       */
#define CHECK_UNITS 1000         /* of work in C between two looks at the clock            */
#define WATCH_BYTES (256u << 10) /* of new memory between two looks at the clock      */
#define BYTES_A_UNIT 64          /* of new memory                                          */

static void on_count(lua_State *L, lua_Debug *ar);

sandbox *sandbox_of(lua_State *L)
{
    return *(sandbox **)lua_getextraspace(L);
}

static void arm(sandbox *s, lua_State *L, int interval)
{
    s->interval = interval;
    lua_sethook(L, on_count, LUA_MASKCOUNT, interval);
}

/* May be called from the allocator: arming a hook takes no memory and may be done at
 * any moment, as from a signal handler. */
static void kill_script(sandbox *s, enum script_end why)
{
    if (s->killed == SCRIPT_DONE)
        s->killed = why;
    if (s->running)
        arm(s, s->running, 1);
}

bool sandbox_alive(sandbox *s)
{
    if (s->killed != SCRIPT_DONE)
        return false;
    if (s->cancel && atomic_load_explicit(s->cancel, memory_order_relaxed))
        kill_script(s, SCRIPT_CANCELLED);
    else if (s->spent > s->max_spent)
        kill_script(s, SCRIPT_INSTRUCTIONS);
    else if (s->deadline_ns != INT64_MAX &&
             s->clock->monotonic_ns(s->clock->context) > s->deadline_ns)
        kill_script(s, SCRIPT_TIME);
    return s->killed == SCRIPT_DONE;
}

/* The error that ends a script: a pointer, because a text would need memory. */
static void die(lua_State *L, sandbox *s)
{
    kill_script(s, SCRIPT_FAILED); /* has a reason already; arms the hook */
    lua_pushlightuserdata(L, s);
    lua_error(L);
}

void sandbox_end(lua_State *L, enum script_end why)
{
    sandbox *s = sandbox_of(L);
    kill_script(s, why);
    die(L, s);
}

static void check(lua_State *L, sandbox *s)
{
    s->unchecked = 0;
    if (!sandbox_alive(s))
        die(L, s);
}

static void on_count(lua_State *L, lua_Debug *ar)
{
    sandbox *s = sandbox_of(L);
    (void)ar;
    s->spent += (uint64_t)s->interval;
    check(L, s);
    int wanted = s->n_big ? FINE : COARSE;
    if (s->interval != wanted)
        arm(s, L, wanted);
    if (s->slice_ns != INT64_MAX && lua_isyieldable(L) &&
        s->clock->monotonic_ns(s->clock->context) > s->slice_ns)
        lua_yield(L, 0); /* to task.c, which goes on with another task or another run */
}

void sandbox_enter(sandbox *s, lua_State *L)
{
    s->running = L;
    arm(s, L, s->killed != SCRIPT_DONE ? 1 : s->n_big ? FINE : COARSE);
}

void sandbox_spend(lua_State *L, uint64_t units)
{
    sandbox *s = sandbox_of(L);
    s->spent += units;
    s->unchecked += units;
    if (s->killed != SCRIPT_DONE || s->n_big || s->unchecked >= CHECK_UNITS)
        check(L, s);
}

bool sandbox_must_die(sandbox *s, int status)
{
    /* Lua's own buffers turn a refused block into a common error. */
    if (status == LUA_ERRMEM || s->refused)
        kill_script(s, SCRIPT_MEMORY);
    return s->killed != SCRIPT_DONE;
}

void sandbox_caught(lua_State *L, int status)
{
    sandbox *s = sandbox_of(L);
    if (sandbox_must_die(s, status))
        die(L, s);
}

/* Whether a block may grow. Near the limit every refusal makes Lua collect all garbage,
 * which is charged, so that a script cannot live there for ever. */
static bool may_grow(sandbox *s, size_t before, size_t size)
{
    if (size <= SCRIPT_MAX_BLOCK && s->used - before + size + s->outside <= s->max_memory)
        return true;
    s->refused = size;
    s->spent += s->used / BYTES_A_UNIT;
    s->unwatched += WATCH_BYTES;
    return false;
}

/* Time passes inside of one instruction that copies megabytes. */
static void watch(sandbox *s, size_t bytes)
{
    s->spent += bytes / BYTES_A_UNIT;
    s->unwatched += bytes;
    if (s->unwatched < WATCH_BYTES)
        return;
    s->unwatched = 0;
    sandbox_alive(s);
}

static void *allocate(void *arg, void *block, size_t old, size_t size)
{
    sandbox *s = arg;
    size_t before = block ? old : 0; /* of a new block, old is its type */
    if (size > before && !may_grow(s, before, size)) {
        watch(s, 0);
        return NULL;
    }
    void *moved = NULL;
    if (size == 0)
        free(block);
    else if (!(moved = realloc(block, size))) {
        if (size > before)
            return NULL;
        moved = block; /* making one smaller may not fail */
    }
    s->used = s->used - before + size;
    s->n_big = s->n_big - (before >= BIG) + (size >= BIG);
    if (s->used + s->outside > s->peak)
        s->peak = s->used + s->outside;
    if (size > before) {
        if (size >= s->refused)
            s->refused = 0;
        watch(s, size);
        if (s->n_big && s->running && s->interval > FINE)
            arm(s, s->running, FINE);
    }
    return moved;
}

/* Nothing runs unprotected, so this is a defect of ours; Lua aborts when it returns. */
static int on_panic(lua_State *L)
{
    (void)L;
    return 0;
}

lua_State *sandbox_open(sandbox *s, const base_clock *clock, const script_limits *limits,
                        const atomic_bool *cancel)
{
    *s = (sandbox){.clock = clock,
                   .cancel = cancel,
                   .max_memory = limits->memory,
                   .max_spent = limits->instructions ? limits->instructions : UINT64_MAX,
                   .deadline_ns = INT64_MAX,
                   .slice_ns = INT64_MAX,
                   .interval = COARSE};
    s->begun_ns = s->clock->monotonic_ns(s->clock->context);
    if (limits->wall_ms > 0 && limits->wall_ms < (INT64_MAX - s->begun_ns) / 1000000)
        s->deadline_ns = s->begun_ns + limits->wall_ms * 1000000;
    s->main = lua_newstate(allocate, s);
    if (!s->main)
        return NULL;
    lua_atpanic(s->main, on_panic);
    *(sandbox **)lua_getextraspace(s->main) = s; /* coroutines get a copy */
    return s->main;
}

void sandbox_close(sandbox *s)
{
    s->running = NULL;
    if (s->main)
        lua_close(s->main);
    s->main = NULL;
}

void sandbox_claim(lua_State *L, size_t bytes)
{
    sandbox *s = sandbox_of(L);
    if (bytes > s->max_memory || s->used + s->outside > s->max_memory - bytes)
        lua_gc(L, LUA_GCCOLLECT);
    if (bytes > s->max_memory || s->used + s->outside > s->max_memory - bytes) {
        kill_script(s, SCRIPT_MEMORY);
        die(L, s);
    }
    s->outside += bytes;
    if (s->used + s->outside > s->peak)
        s->peak = s->used + s->outside;
}

void sandbox_disclaim(lua_State *L, size_t bytes)
{
    sandbox *s = sandbox_of(L);
    s->outside -= bytes < s->outside ? bytes : s->outside;
}
