/*
 * script/call.c - one turn that a script has started. See call.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/call.h"

#include <stdlib.h>

#define MAX_STREAMED (16u << 20) /* bytes that wait; a reply is bounded by the context */

static void cancel(pending *p)
{
    call *c = (call *)p;
    if (c->turn)
        run_cancel(c->turn);
}

static void destroy(pending *p)
{
    call *c = (call *)p;
    run_turn_release(c->turn);
    run_request_free(c->request);
    run_record_release(c->outcome.record);
    buf_clear(&c->text);
    buf_clear(&c->reasoning);
    free(c);
}

static void keep_delta(call *c, const run_event *event)
{
    if (!c->streams || !event->text || event->kind == RUN_ITEM_CALL)
        return;
    pending_lock(&c->base);
    buf_add_text(event->kind == RUN_ITEM_REASONING ? &c->reasoning : &c->text, event->text);
    pending_unlock(&c->base);
    pending_hub_poke(c->base.hub);
}

/* Worker, engine or store thread. */
static void on_event(void *arg, run_event *event)
{
    call *c = arg;
    bool end = event->type == RUN_END;
    if (event->type == RUN_DELTA)
        keep_delta(c, event);
    if (end) {
        c->outcome.record = event->record;
        c->outcome.stop_reason = event->stop_reason;
        c->outcome.usage = event->usage;
        c->outcome.score = event->score;
        c->outcome.n_scored = event->n_scored;
        event->record = NULL;
    }
    run_event_free(event);
    if (!end)
        return;
    pending_end(&c->base);
    pending_release(&c->base);
}

/* Worker thread. */
static void start(void *arg)
{
    call *c = arg;
    run_turn *turn = NULL;
    run_refusal refusal = {0};
    bool accepted = false;
    pending_lock(&c->base);
    run_request *request = c->base.cancelled ? NULL : c->request;
    if (request)
        c->request = NULL;
    c->base.references++; /* the turn's */
    pending_unlock(&c->base);
    if (request)
        accepted = run_start(c->runtime, request, (run_listener){on_event, c}, &turn, &refusal);
    pending_lock(&c->base);
    c->turn = turn;
    if (accepted && c->base.cancelled)
        run_cancel(turn);
    pending_unlock(&c->base);
    if (!accepted) {
        c->outcome.refused = true;
        c->outcome.refusal = refusal;
        pending_end(&c->base);
        pending_release(&c->base);
    }
    pending_release(&c->base);
}

call *call_start(pending_hub *hub, run_runtime *runtime, run_request *request, uint64_t number,
                 bool streams)
{
    static const pending_kind kind = {.cancel = cancel, .destroy = destroy};
    call *c = calloc(1, sizeof *c);
    if (!c) {
        run_request_free(request);
        return NULL;
    }
    c->runtime = runtime;
    c->request = request;
    c->number = number;
    c->streams = streams;
    buf_init(&c->text, MAX_STREAMED);
    buf_init(&c->reasoning, MAX_STREAMED);
    pending_init(&c->base, hub, &kind);
    if (run_defer(runtime, start, c))
        return c;
    pending_release(&c->base);
    pending_release(&c->base);
    return NULL;
}

char *call_take_text(call *c, bool reasoning)
{
    buf *from = reasoning ? &c->reasoning : &c->text;
    char *text = NULL;
    pending_lock(&c->base);
    if (from->size)
        text = buf_take(from);
    pending_unlock(&c->base);
    return text;
}
