/*
 * script/jobs.c - jobs that a script has given to the crew, from its side. See jobs.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/jobs.h"

#include "script/env.h"
#include "script/grants.h"
#include "script/state.h"

#define METATABLE "pawl.job"
#define JOB_UNITS 2000 /* what starting one is charged */

static const char busy_key = 'b';

/* What a script holds of one. */
typedef struct handle {
    crew_job *job; /* NULL: its result was taken */
} handle;

/* ------------------------------------------------------------- slots */

static void release(crew_job **slot)
{
    if (*slot)
        pending_release(&(*slot)->base);
    *slot = NULL;
}

/* Of those that were cancelled nobody takes the result. */
static bool is_left_over(crew_job *j)
{
    pending_lock(&j->base);
    bool left = j->base.ended && j->base.cancelled;
    pending_unlock(&j->base);
    return left;
}

static crew_job **free_slot(jobs *all)
{
    crew_job **found = NULL;
    for (size_t i = 0; i < JOBS_AT_ONCE; i++) {
        if (all->list[i] && is_left_over(all->list[i]))
            release(&all->list[i]);
        if (!all->list[i])
            found = &all->list[i];
    }
    return found;
}

void jobs_close(jobs *all)
{
    for (size_t i = 0; i < JOBS_AT_ONCE; i++)
        release(&all->list[i]);
}

/* ------------------------------------------------------------- one job */

static void let_go(jobs *all, handle *h)
{
    for (size_t i = 0; h->job && i < JOBS_AT_ONCE; i++)
        if (all->list[i] == h->job)
            release(&all->list[i]);
    if (h->job)
        pending_close(&h->job->base);
    h->job = NULL;
}

static int job_gc(lua_State *L)
{
    let_go(&script_of(L)->jobs, lua_touserdata(L, 1));
    return 0;
}

/* The handle is on top of the stack. */
static int ended(lua_State *L, int status, lua_KContext context)
{
    const jobs_kind *kind = (const jobs_kind *)(uintptr_t)context; /* static */
    handle *h = lua_touserdata(L, -1);
    (void)status;
    int n = kind->push(L, h->job->work);
    let_go(&script_of(L)->jobs, h); /* what it brought is the script's now */
    return n;
}

bool jobs_begin(lua_State *L, const char *what)
{
    task_check_can_wait(L, what);
    if (!free_slot(&script_of(L)->jobs)) {
        lua_pushlightuserdata(L, (void *)(uintptr_t)&busy_key);
        return false;
    }
    sandbox_spend(L, JOB_UNITS);
    handle *h = lua_newuserdatauv(L, sizeof *h, 0);
    h->job = NULL;
    luaL_setmetatable(L, METATABLE);
    return true;
}

int jobs_wait(lua_State *L, const jobs_kind *kind, void *work)
{
    script *s = script_of(L);
    crew_job **slot = free_slot(&s->jobs);
    handle *h = lua_touserdata(L, -1);
    if (work)
        h->job = crew_start(s->config.grants->crew, s->config.hub, kind->run, kind->clear, work);
    if (!h->job)
        return env_failure(L, "busy", true, "too much waits for the crew now");
    if (slot) {
        pending_retain(&h->job->base);
        *slot = h->job;
    }
    return task_wait(L, &h->job->base, 0, NULL, (lua_KContext)(uintptr_t)kind, ended);
}

int jobs_push_failure(lua_State *L, const failure *f)
{
    return env_failure(L, f->code, f->retryable, "%s", f->message);
}

void jobs_open(lua_State *L, int core)
{
    lua_pushlightuserdata(L, (void *)(uintptr_t)&busy_key);
    lua_setfield(L, core, "busy");
    luaL_newmetatable(L, METATABLE);
    lua_pushcfunction(L, job_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
}
