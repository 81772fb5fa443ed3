/*
 * script/work.c - a job that a script has given to the worker thread. See work.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/work.h"

#include <stdlib.h>

static void destroy(pending *p)
{
    work *w = (work *)p;
    w->clear(w->job);
    free(w);
}

/* Worker thread. */
static void do_it(void *arg)
{
    work *w = arg;
    pending_lock(&w->base);
    bool wanted = !w->base.cancelled;
    pending_unlock(&w->base);
    if (wanted)
        w->run(w->job);
    pending_end(&w->base);
    pending_release(&w->base);
}

work *work_start(pending_hub *hub, run_runtime *runtime, void (*run)(void *job),
                 void (*clear)(void *job), void *job)
{
    static const pending_kind kind = {.destroy = destroy};
    work *w = calloc(1, sizeof *w);
    if (!w) {
        clear(job);
        return NULL;
    }
    w->run = run;
    w->clear = clear;
    w->job = job;
    pending_init(&w->base, hub, &kind);
    if (run_defer(runtime, do_it, w))
        return w;
    pending_release(&w->base);
    pending_release(&w->base);
    return NULL;
}
