/*
 * sim/events.c - what comes back, held to run/event.h and to the oracle.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine.h"

#include <string.h>

static void check_delta(sim *s, sim_turn *t, const char *text)
{
    size_t size = text ? strlen(text) : 0, most = strlen(t->text);
    if (!t->item_open || size == 0)
        sim_broken(s, "turn %u: a delta %s", t->id, size ? "outside an item" : "without text");
    if (size > most - t->said || memcmp(text, t->text + t->said, size) != 0)
        sim_broken(s, "turn %u: the wrong text at character %zu", t->id, t->said);
    t->said += size;
    t->deltas++;
}

static void check_item(sim *s, sim_turn *t, const run_event *event)
{
    if (event->kind != RUN_ITEM_MESSAGE || event->output_index != t->items)
        sim_broken(s, "turn %u: item %u of kind %d where %u is due", t->id, event->output_index,
                   (int)event->kind, t->items);
    if (event->type == RUN_ITEM_BEGIN) {
        if (t->item_open || t->items)
            sim_broken(s, "turn %u: another item begins", t->id);
        t->item_open = true;
    } else if (event->type == RUN_DELTA) {
        check_delta(s, t, event->text);
    } else {
        if (!t->item_open || !event->item || !event->text || strlen(event->text) != t->said ||
            memcmp(event->text, t->text, t->said) != 0)
            sim_broken(s, "turn %u: an item ends with another text than its deltas", t->id);
        t->item_open = false;
        t->items++;
    }
}

/* That a turn may end so: its status agrees with the oracle and with what was done to it. */
static void check_status(sim *s, const sim_turn *t, const run_event *event)
{
    const run_record *r = event->record;
    bool whole = r->n_tokens == t->n_full, in_full = t->sampled == t->n_full - t->n_prompt;
    if (strcmp(r->status, "completed") == 0) {
        if (!whole || !t->stopped || !in_full || strcmp(event->stop_reason, "stop") != 0)
            sim_broken(s, "turn %u completes with %llu of %llu tokens", t->id,
                       (unsigned long long)r->n_tokens, (unsigned long long)t->n_full);
        s->totals.completed++;
    } else if (strcmp(r->status, "incomplete") == 0) {
        if (!whole || t->stopped || !in_full || strcmp(event->stop_reason, "length") != 0)
            sim_broken(s, "turn %u is cut at %llu tokens; its limit is %llu", t->id,
                       (unsigned long long)r->n_tokens, (unsigned long long)t->limit);
        s->totals.incomplete++;
    } else if (strcmp(r->status, "cancelled") == 0) {
        if ((!t->cancelled && s->scheduler) || strcmp(event->stop_reason, "cancelled") != 0)
            sim_broken(s, "turn %u is cancelled and nobody wanted it", t->id);
        s->totals.cancelled++;
    } else {
        bool put = t->put == PUT_REFUSED || t->put == PUT_FAILED;
        if (strcmp(r->status, "failed") != 0 || strcmp(event->stop_reason, "error") != 0)
            sim_broken(s, "turn %u has the status %s", t->id, r->status);
        bool may = t->hit || s->unhit < s->engine->refusals;
        if (!put && (s->plan.clean || !may))
            sim_broken(s, "turn %u fails and nothing had refused: %s", t->id, r->result);
        s->unhit += !put && !t->hit;
        s->totals.failed++;
    }
}

static void check_usage(sim *s, const sim_turn *t, const run_event *event)
{
    const run_usage *u = &event->usage;
    if (u->input_tokens != t->n_prompt || u->reasoning_tokens ||
        u->output_tokens != event->record->n_tokens - t->n_prompt ||
        event->record->n_prompt != t->n_prompt)
        sim_broken(s, "turn %u: usage does not add up: %llu in, %llu out", t->id,
                   (unsigned long long)u->input_tokens, (unsigned long long)u->output_tokens);
    if (u->cached_tokens && (u->cached_tokens >= t->n_prompt || !t->in_progress))
        sim_broken(s, "turn %u: %llu cached tokens of %llu", t->id,
                   (unsigned long long)u->cached_tokens, (unsigned long long)t->n_prompt);
    if (u->cached_tokens != t->cached)
        sim_broken(s, "turn %u: %llu cached tokens; the engine had state for %llu", t->id,
                   (unsigned long long)u->cached_tokens, (unsigned long long)t->cached);
    if (event->times.queue < 0 || event->times.prefill < 0 || event->times.decode < 0)
        sim_broken(s, "turn %u: its times go back", t->id);
    s->totals.reused += u->cached_tokens;
}

static void check_end(sim *s, sim_turn *t, const run_event *event)
{
    const run_record *r = event->record;
    if (!r || r->n_tokens > t->n_full || r->n_tokens < t->n_prompt || t->item_open)
        sim_broken(s, "turn %u ends %s", t->id, t->item_open ? "inside an item" : "without record");
    if (r->n_tokens && memcmp(r->tokens, t->tokens, (size_t)r->n_tokens * sizeof *t->tokens) != 0)
        sim_broken(s, "turn %u: its record has another timeline", t->id);
    if (t->store ? t->put == PUT_NONE || t->put == PUT_OPEN || r->stored != (t->put == PUT_DONE)
                 : t->put != PUT_NONE)
        sim_broken(s, "turn %u ends and its store is %d", t->id, (int)t->put);
    size_t said = oracle_said(t, r->n_tokens, r->n_tokens == t->n_full);
    if (t->said != said)
        sim_broken(s, "turn %u has said %zu of %zu characters", t->id, t->said, said);
    check_status(s, t, event);
    check_usage(s, t, event);
    t->ended = true;
    if (!t->woke_in)
        t->woke_in = s->rounds;
    t->n_end = r->n_tokens;
    s->n_ended++;
    if (++t->group->n_ended == t->group->n)
        t->group->over = true;
    if ((event->type == RUN_END) != t->group->over)
        sim_broken(s, "turn %u: %u of %u choices have ended and END is %d", t->id,
                   t->group->n_ended, t->group->n, event->type == RUN_END);
    uint64_t needed = r->n_tokens - (t->cached < r->n_tokens ? t->cached : r->n_tokens);
    s->totals.recomputed += t->computed > needed ? t->computed - needed : 0;
}

void events_take(void *arg, run_event *event)
{
    sim_group *group = arg;
    sim *s = group->sim;
    if (event->choice >= group->n || group->over)
        sim_broken(s, "an event of choice %u of turn %u, after END: %d", event->choice,
                   group->first, group->over);
    sim_turn *t = &s->turns[group->first + event->choice];
    trace_add(s, ACT_EVENT, t->id, event->type, (int64_t)event->usage.output_tokens);
    s->progress++;
    if (t->ended || t->created == (event->type == RUN_CREATED))
        sim_broken(s, "turn %u: event %d %s", t->id, (int)event->type,
                   t->ended ? "after its end" : "and CREATED do not fit");
    switch (event->type) {
    case RUN_CREATED:
        t->created = true;
        break;
    case RUN_IN_PROGRESS:
        if (t->in_progress)
            sim_broken(s, "turn %u is in progress again", t->id);
        t->in_progress = true;
        if (t->demote_at == SIM_NEVER)
            client_demote(t);
        break;
    case RUN_CHOICE_END:
    case RUN_END:
        check_end(s, t, event);
        break;
    default:
        if (!t->in_progress)
            sim_broken(s, "turn %u: an item before it is in progress", t->id);
        check_item(s, t, event);
    }
    run_event_free(event);
    if (t->cancel == CANCEL_TOKEN && t->deltas >= (uint64_t)t->cancel_at)
        client_cancel(t);
}
