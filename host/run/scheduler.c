/*
 * run/scheduler.c - the engine thread of one model. See scheduler.h.
 *
 *   claim + submit ─► inbox ─► pending ─► active (one live sequence each) ─► END
 *
 * Memory: a turn becomes active when the engine has reserved pages for all it may
 * need; idle sequences are closed to make room. While others run and room is
 * short it waits as `pending`, in order of arrival.
 *
 * Everything below the inbox belongs to the engine thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/scheduler.h"

#include "base/log.h"
#include "base/queue.h"
#include "run/live.h"
#include "run/step.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct run_scheduler {
    const run_model *model;
    queue *inbox;
    atomic_uint claimed; /* places in the queue that are taken     */
    uint32_t queue_limit;
    atomic_bool closing;
    bool driven; /* no thread: whoever opened it calls run_scheduler_round() */
    pthread_t thread;
    run_turn *pending; /* next to be admitted, or NULL           */
    run_pace pace;     /* how long turns take                   */
    live_set sequences;
    run_step step; /* the active turns and their slots       */
};

static pawl_status reserve(run_scheduler *s, live *entry, uint64_t n_tokens, pawl_error *error)
{
    pawl_status status;
    const pawl_engine_api *api = s->model->engine_api;
    while ((status = api->reserve(entry->sequence, n_tokens, error)) == PAWL_E_MEMORY &&
           live_drop_oldest(&s->sequences))
        continue;
    return status;
}

/* Gives a turn its sequence. PAWL_E_BUSY: later, when others have ended. */
static pawl_status admit(run_scheduler *s, run_turn *turn, pawl_error *error)
{
    live *entry = NULL;
    /* The token before one that is scored must be in a pass with it. */
    uint64_t n_known = turn->n_prompt - turn->prompt.n_scored;
    pawl_status status = live_take(&s->sequences, turn->request->caller.tenant, turn->tokens,
                                   n_known, &entry, error);
    if (status && s->step.n_active)
        return PAWL_E_BUSY;
    if (status) /* nobody will end and make room: this is final */
        return status == PAWL_E_BUSY ? PAWL_E_MEMORY : status;
    uint64_t cached = entry->n_tokens;
    status = reserve(s, entry, turn->limit - cached, error);
    if (status == PAWL_E_MEMORY && s->step.n_active) {
        live_keep(&s->sequences, entry);
        return PAWL_E_BUSY;
    }
    if (status == PAWL_E_MEMORY) /* alone: what the prompt needs, and go on as far as it goes */
        status = reserve(s, entry, turn->n_prompt - cached + 1, error);
    if (status) {
        live_drop(&s->sequences, entry);
        return status;
    }
    run_step_add(&s->step, turn, entry);
    run_turn_in_progress(turn, cached);
    return PAWL_OK;
}

/* Nothing to take in and nothing to say: a warm-up without any text. */
static void end_empty(run_scheduler *s, run_turn *turn)
{
    run_turn_in_progress(turn, 0);
    run_step_wake(&s->step, turn);
    run_turn_end(turn, TURN_STOPPED, NULL);
}

/* Choices whose first one has the prompt go before what is in the queue. NULL: none waits. */
static run_turn *next_turn(run_scheduler *s)
{
    run_turn *turn = s->step.woken;
    if (!turn)
        return queue_pop(s->inbox, s->driven || s->step.n_active ? 0 : -1);
    s->step.woken = turn->next;
    turn->next = NULL;
    return turn;
}

static void end_waiting(run_scheduler *s, run_turn *turn, enum run_turn_outcome outcome,
                        const char *why)
{
    run_step_wake(&s->step, turn);
    run_turn_end(turn, outcome, why);
}

/* Admits waiting turns while there is room. */
static void admit_all(run_scheduler *s)
{
    while (s->step.n_active < s->model->max_sequences) {
        if (!s->pending)
            s->pending = next_turn(s);
        run_turn *turn = s->pending;
        if (!turn)
            return;
        pawl_error error = {.struct_size = sizeof error};
        pawl_status status = PAWL_OK;
        if (atomic_load(&turn->cancelled) || atomic_load(&s->closing))
            end_waiting(s, turn, TURN_CANCELLED, NULL);
        else if (turn->n_prompt == 0)
            end_empty(s, turn);
        else
            status = admit(s, turn, &error);
        if (status == PAWL_E_BUSY)
            return;
        s->pending = NULL;
        atomic_fetch_sub(&s->claimed, 1);
        if (status)
            end_waiting(s, turn, TURN_FAILED, error.message);
    }
}

static void cancel_marked(run_scheduler *s)
{
    bool all = atomic_load(&s->closing);
    for (size_t i = s->step.n_active; i-- > 0;) {
        run_turn *turn = s->step.active[i].turn;
        if (all || atomic_load(&turn->cancelled))
            run_step_end(&s->step, i, TURN_CANCELLED, NULL);
    }
}

/* What others see of this thread's state. */
static void publish(const run_scheduler *s)
{
    metric *const *all = s->model->measures;
    size_t busy = s->step.n_active, held = s->sequences.n_entries;
    metric_set(all[MEASURE_RUNNING], (double)busy);
    metric_set(all[MEASURE_LIVE_BUSY], (double)busy);
    metric_set(all[MEASURE_LIVE_IDLE], (double)(held > busy ? held - busy : 0));
}

bool run_scheduler_round(run_scheduler *s)
{
    publish(s);
    admit_all(s);
    cancel_marked(s);
    if (s->step.n_active)
        run_step_run(&s->step);
    return s->step.n_active || s->pending || s->step.woken || queue_size(s->inbox);
}

static void *engine_thread(void *arg)
{
    run_scheduler *s = arg;
    while (run_scheduler_round(s) || !atomic_load(&s->closing))
        continue;
    return NULL;
}

static void scheduler_free(run_scheduler *s)
{
    run_step_close(&s->step);
    queue_free(s->inbox);
    live_set_close(&s->sequences);
    free(s);
}

pawl_status run_scheduler_open(const run_model *model, uint32_t queue_limit, bool driven,
                               run_scheduler **out, pawl_error *error)
{
    run_scheduler *s = calloc(1, sizeof *s);
    if (!s)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a scheduler");
    s->model = model;
    s->queue_limit = queue_limit;
    s->driven = driven;
    s->inbox = queue_open(queue_limit);
    run_pace_init(&s->pace);
    pawl_status status =
        s->inbox ? PAWL_OK : pawl_fail(error, PAWL_E_MEMORY, "no memory for a queue");
    if (!status)
        status = live_set_open(&s->sequences, model, (size_t)model->max_sequences * RUN_IDLE_FACTOR,
                               error);
    if (!status)
        status = run_step_open(&s->step, model, &s->sequences, &s->pace, error);
    if (!status && !driven && pthread_create(&s->thread, NULL, engine_thread, s) != 0)
        status = pawl_fail(error, PAWL_E_MEMORY, "the engine thread cannot be started");
    if (status) {
        scheduler_free(s);
        return status;
    }
    *out = s;
    return PAWL_OK;
}

bool run_scheduler_claim(run_scheduler *s)
{
    if (atomic_load(&s->closing))
        return false;
    if (atomic_fetch_add(&s->claimed, 1) < s->queue_limit)
        return true;
    atomic_fetch_sub(&s->claimed, 1);
    return false;
}

void run_scheduler_unclaim(run_scheduler *s)
{
    atomic_fetch_sub(&s->claimed, 1);
}

uint32_t run_scheduler_waiting(run_scheduler *s)
{
    return atomic_load(&s->claimed);
}

bool run_scheduler_submit(run_scheduler *s, run_turn *turn)
{
    if (queue_push(s->inbox, turn))
        return true;
    run_scheduler_unclaim(s);
    return false;
}

int run_scheduler_wait(run_scheduler *s)
{
    return run_pace_wait(&s->pace, atomic_load(&s->claimed), s->model->max_sequences);
}

void run_scheduler_close(run_scheduler *s)
{
    if (!s)
        return;
    atomic_store(&s->closing, true);
    queue_close(s->inbox);
    s->model->engine_api->cancel(s->model->engine);
    if (s->driven)
        while (run_scheduler_round(s))
            continue;
    else
        pthread_join(s->thread, NULL);
    scheduler_free(s);
}
