/*
 * api/later.c - calls that are answered when the store has written. See later.h.
 *
 * The order belongs to the worker, then to the store's thread; the state to the call. They
 * share nothing: what the call says in each case is written into it beforehand, and the
 * END's stop_reason says which.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/later.h"

#include <stdlib.h>
#include <string.h>

/* What the call keeps. */
typedef struct later_state {
    const char *what;
    char id[ROUTE_ID_SIZE];
    char *body;
} later_state;

struct later {
    later_state *state; /* until later_call()                                  */
    run_listener listener;
    run_event *end; /* made beforehand, so that END comes whatever happens */
    run_conversation *held;
};

static void close_state(void *arg)
{
    later_state *state = arg;
    if (!state)
        return;
    free(state->body);
    free(state);
}

static void close_order(later *order)
{
    if (!order)
        return;
    close_state(order->state);
    run_event_free(order->end);
    run_conversation_close(order->held);
    free(order);
}

static void refuse(api_error *error, const later_state *state, pawl_status status)
{
    if (status == PAWL_E_NOT_FOUND)
        api_refuse(error, 404, NULL, NULL, "%s with id '%.100s' not found.", state->what,
                   state->id);
    else if (status == PAWL_E_BUSY)
        api_refuse(error, 503, "server_is_overloaded", NULL,
                   "The store is busy; send the request again later.");
    else if (status == PAWL_E_LIMIT)
        api_refuse(error, 500, "server_error", NULL,
                   "There is no room to store this: the disk is full, or it is too large.");
    else
        api_refuse(error, 500, "server_error", NULL, "The store could not do this.");
}

static const struct {
    pawl_status status;
    const char *reason;
} reasons[] = {{PAWL_OK, "stop"},
               {PAWL_E_NOT_FOUND, "not_found"},
               {PAWL_E_BUSY, "busy"},
               {PAWL_E_LIMIT, "limit"},
               {PAWL_E_INTERNAL, "error"}};

#define N_REASONS (sizeof reasons / sizeof reasons[0])

static void on_event(api_call *call, void *arg, run_event *event, api_emit emit, void *to)
{
    later_state *state = arg;
    api_error error;
    size_t i = 0;
    (void)emit;
    (void)to;
    if (event->type != RUN_END)
        return;
    while (i + 1 < N_REASONS && strcmp(reasons[i].reason, event->stop_reason) != 0)
        i++;
    if (reasons[i].status == PAWL_OK && state->body && buf_add_text(&call->body, state->body))
        return;
    refuse(&error, state, reasons[i].status ? reasons[i].status : PAWL_E_INTERNAL);
    call_set_error(call, &error);
}

static const call_dialect dialect = {on_event, close_state, NULL};

later *later_open(const api_context *context, const char *what, const char *id)
{
    later *order = calloc(1, sizeof *order);
    later_state *state = calloc(1, sizeof *state);
    if (order) {
        order->state = state;
        order->listener = context->listener;
        order->end = run_event_new(RUN_END);
    }
    if (!order || !state || !order->end) {
        close_order(order);
        if (!order)
            free(state);
        return NULL;
    }
    state->what = what;
    snprintf(state->id, sizeof state->id, "%s", id);
    return order;
}

void later_keep(later *order, run_conversation *held)
{
    order->held = held;
}

void later_say(later *order, char *body)
{
    order->state->body = body;
}

api_call *later_call(later *order)
{
    later_state *state = order->state;
    order->state = NULL;
    return call_running(API_FOLD, &dialect, state);
}

void later_done(void *arg, pawl_status status, const pawl_error *why)
{
    later *order = arg;
    size_t i = 0;
    (void)why;
    while (i + 1 < N_REASONS && reasons[i].status != status)
        i++;
    run_event *end = order->end;
    run_listener listener = order->listener;
    end->stop_reason = reasons[i].reason;
    order->end = NULL;
    close_order(order); /* first: whoever hears of it may go on */
    listener.on_event(listener.arg, end);
}

api_call *later_refused(later *order, api_call *call, pawl_status status)
{
    api_error error;
    later_state nameless = {.what = "Object"};
    if (!order || !call)
        api_refuse_memory(&error);
    else
        refuse(&error, &nameless, status);
    api_call_free(call);
    close_order(order);
    return call_refused(&error);
}
