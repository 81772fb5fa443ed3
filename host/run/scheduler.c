/*
 * run/scheduler.c - the engine thread of one model. See scheduler.h.
 *
 *   claim + submit ─► inbox ─► waiting ─► active (one live sequence each) ─► END
 *                                 ▲         │
 *                                 └─────────┘ preempted
 *
 * Everything below the inbox belongs to the engine thread. Time is read from the turns'
 * clock alone, and nothing depends on addresses or on the order of a table, so that the
 * same turns at the same times give the same schedule.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/scheduler.h"

#include "base/log.h"
#include "base/queue.h"
#include "run/admission.h"
#include "run/join.h"
#include "run/restore.h"

#include <pthread.h>
#include <stdlib.h>

#define RETRY_MS 500 /* for saved state that nobody had room for */

struct run_scheduler {
    const run_model *model;
    queue *inbox;
    run_places *places;
    atomic_uint returned; /* preempted turns that wait, for others to see   */
    atomic_bool closing;
    bool driven; /* no thread: whoever opened it calls run_scheduler_round() */
    pthread_t thread;
    run_pace pace;  /* how long turns take                   */
    prefix *prefix; /* or NULL                               */
    live_set sequences;
    bool saving;       /* something is still to be saved        */
    uint64_t arrivals; /* turns so far: the next one's number   */
    run_waiting waiting;
    run_step step; /* the active turns and their slots       */
};

/* What others see of this thread's state. */
static void publish(run_scheduler *s)
{
    metric *const *all = s->model->measures;
    size_t busy = s->step.n_active, held = s->sequences.n_entries;
    metric_set(all[MEASURE_RUNNING], (double)busy);
    metric_set(all[MEASURE_LIVE_BUSY], (double)busy);
    metric_set(all[MEASURE_LIVE_IDLE], (double)(held > busy ? held - busy : 0));
    metric_set(all[MEASURE_WAITING_INTERACTIVE], s->waiting.n[RUN_INTERACTIVE]);
    metric_set(all[MEASURE_WAITING_BATCH], s->waiting.n[RUN_BATCH]);
    atomic_store(&s->returned, s->waiting.n_returned);
}

static uint32_t n_waiting(const run_scheduler *s)
{
    return s->waiting.n[RUN_INTERACTIVE] + s->waiting.n[RUN_BATCH];
}

/* From the inbox to those who wait; sleeps while there is nothing else to do. Choices get
 * their numbers with the first one of their request, and wait when it has its prompt. */
static void take_in(run_scheduler *s)
{
    bool idle = !s->driven && s->step.n_active == 0 && n_waiting(s) == 0 && !s->saving;
    bool refused = s->prefix && s->prefix->quiet_until; /* by the kv: tried again soon */
    bool no_batch = s->waiting.fair.turns[RUN_BATCH] == 0;
    run_turn *turn;
    for (; (turn = queue_pop(s->inbox, !idle ? 0 : refused ? RETRY_MS : -1)); idle = false) {
        s->step.clock = turn->clock;
        for (run_turn *each = turn; each; each = each->next) {
            each->standing.number = s->arrivals++;
            each->standing.placed = true;
        }
        run_waiting_add(&s->waiting, turn);
    }
    if (no_batch && s->step.clock) /* it waits from now on, however long nobody was here */
        s->step.batch_ns = s->step.clock->monotonic_ns(s->step.clock->context);
}

/* The turn has run for the first time, or will not: its place is free. */
static void leave_place(run_scheduler *s, run_turn *turn)
{
    if (turn->standing.placed)
        run_places_give(s->places, &turn->request->caller, 1);
    turn->standing.placed = false;
}

/* Ends a turn that waits. */
static void end_waiting(run_scheduler *s, run_turn *turn, enum run_turn_outcome outcome,
                        const char *why)
{
    run_waiting_remove(&s->waiting, turn);
    leave_place(s, turn);
    run_step_wake(&s->step, turn);
    run_fair_leave(&s->waiting.fair, turn);
    run_turn_end(turn, outcome, why);
}

static bool is_cancelled(const run_scheduler *s, const run_turn *turn)
{
    return atomic_load(&turn->cancelled) || atomic_load(&s->closing);
}

/* Whether somebody wants it in the batch class, and it is not there. One that was raised
 * from there stays where it is. */
static bool is_to_sink(const run_turn *turn)
{
    return atomic_load(&turn->demoted) && turn->standing.priority != RUN_BATCH &&
           !turn->standing.raised;
}

static void look_at_waiting(void *arg, run_turn *turn)
{
    run_scheduler *s = arg;
    if (is_cancelled(s, turn))
        end_waiting(s, turn, TURN_CANCELLED, NULL);
    else if (is_to_sink(turn))
        run_waiting_move(&s->waiting, turn, RUN_BATCH);
}

/* What other threads have marked: cancelled, demoted. */
static void look_at_marks(run_scheduler *s)
{
    for (size_t i = s->step.n_active; i-- > 0;)
        if (is_cancelled(s, s->step.active[i].turn))
            run_step_end(&s->step, i, TURN_CANCELLED, NULL);
    for (size_t i = s->step.n_active; i-- > 0;) /* one that sinks passes those behind it */
        if (is_to_sink(s->step.active[i].turn))
            run_step_move(&s->step, i, RUN_BATCH);
    run_waiting_each(&s->waiting, look_at_waiting, s);
}

/* The batch class is served by what the other leaves, but not for ever by nothing. */
static void raise_starved(run_scheduler *s)
{
    run_step *step = &s->step;
    if (!step->clock)
        return; /* nobody has come yet */
    int64_t now = step->clock->monotonic_ns(step->clock->context);
    if (s->waiting.fair.turns[RUN_BATCH] == 0)
        step->batch_ns = now;
    if (now - step->batch_ns < RUN_STARVED_NS)
        return;
    step->batch_ns = now;
    size_t i = 0;
    while (i < step->n_active && step->active[i].turn->standing.priority != RUN_BATCH)
        i++;
    run_turn *turn =
        i < step->n_active ? step->active[i].turn : run_waiting_next_of(&s->waiting, RUN_BATCH);
    turn->standing.raised = true;
    if (i < step->n_active)
        run_step_move(step, i, RUN_INTERACTIVE);
    else
        run_waiting_move(&s->waiting, turn, RUN_INTERACTIVE);
}

/* Nothing to take in and nothing to say: a warm-up without any text. */
static void end_empty(run_scheduler *s, run_turn *turn)
{
    run_turn_in_progress(turn);
    end_waiting(s, turn, TURN_STOPPED, NULL);
}

/* Admits waiting turns while there is room. */
static void admit_all(run_scheduler *s)
{
    run_turn *turn;
    while ((turn = run_waiting_next(&s->waiting))) {
        pawl_error error = {.struct_size = sizeof error};
        if (is_cancelled(s, turn)) { /* a choice that the end of its first one has let go on */
            end_waiting(s, turn, TURN_CANCELLED, NULL);
            continue;
        }
        if (turn->n_prompt == 0) {
            end_empty(s, turn);
            continue;
        }
        pawl_status status = run_admit(&s->step, turn, &error);
        if (status == PAWL_E_BUSY)
            return;
        if (status)
            end_waiting(s, turn, TURN_FAILED, error.message);
        else
            leave_place(s, turn);
    }
}

bool run_scheduler_round(run_scheduler *s)
{
    publish(s);
    take_in(s);
    look_at_marks(s);
    raise_starved(s);
    admit_all(s);
    run_join(&s->step);
    if (s->step.n_active) {
        run_make_room(&s->step);
        publish(s);
        run_restore(&s->step);
        run_step_run(&s->step);
    }
    s->saving = run_save(&s->step);
    return s->step.n_active || n_waiting(s) || queue_size(s->inbox) || s->saving;
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
    run_waiting_clear(&s->waiting);
    queue_free(s->inbox);
    run_places_close(s->places);
    live_set_close(&s->sequences);
    prefix_close(s->prefix);
    free(s);
}

pawl_status run_scheduler_open(const run_model *model, const run_scheduler_config *config,
                               run_scheduler **out, pawl_error *error)
{
    run_scheduler *s = calloc(1, sizeof *s);
    if (!s)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a scheduler");
    s->model = model;
    s->driven = config->driven;
    s->inbox = queue_open(config->queue);
    s->places = run_places_open(config->queue, config->per_key);
    run_pace_init(&s->pace);
    /* As many come together where none sinks: all batch turns gave way, and interactive ones
     * for memory. */
    run_waiting_init(&s->waiting, 2 * model->max_sequences);
    pawl_status status =
        s->inbox && s->places ? PAWL_OK : pawl_fail(error, PAWL_E_MEMORY, "no memory for a queue");
    if (!status && config->kv)
        status = prefix_open(model, config->kv, config->kv_min_tokens,
                             config->clock ? config->clock : clock_system(), &s->prefix, error);
    if (!status)
        status = live_set_open(&s->sequences, model, s->prefix,
                               (size_t)model->max_sequences * RUN_IDLE_FACTOR, error);
    if (!status)
        status = run_step_open(&s->step, model, &s->sequences, &s->waiting, &s->pace, error);
    if (!status && !s->driven && pthread_create(&s->thread, NULL, engine_thread, s) != 0)
        status = pawl_fail(error, PAWL_E_MEMORY, "the engine thread cannot be started");
    if (status) {
        scheduler_free(s);
        return status;
    }
    *out = s;
    return PAWL_OK;
}

enum run_place run_scheduler_claim(run_scheduler *s, const run_caller *caller, uint32_t n)
{
    return atomic_load(&s->closing) ? RUN_QUEUE_FULL : run_places_take(s->places, caller, n);
}

void run_scheduler_unclaim(run_scheduler *s, const run_caller *caller, uint32_t n)
{
    run_places_give(s->places, caller, n);
}

uint32_t run_scheduler_waiting(run_scheduler *s, const run_caller *caller)
{
    uint32_t returned = caller ? 0 : atomic_load(&s->returned);
    return run_places_taken(s->places, caller) + returned;
}

bool run_scheduler_submit(run_scheduler *s, run_turn *turn)
{
    return queue_push(s->inbox, turn);
}

int run_scheduler_wait(run_scheduler *s, const run_caller *caller)
{
    return run_pace_wait(&s->pace, run_scheduler_waiting(s, caller), s->model->max_sequences);
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
