/*
 * sim/disk.c - a store that takes its time. See disk.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "disk.h"

#include <stdlib.h>
#include <string.h>

static void check_row(sim *s, const store_response *row, const sim_turn *t)
{
    if (t->put != PUT_NONE)
        sim_broken(s, "turn %u is stored twice", t->id);
    if (!t->store || t->ended)
        sim_broken(s, "turn %u is stored and should not be", t->id);
    if (row->n_prompt != t->n_prompt || row->n_tokens > t->n_full ||
        memcmp(row->tokens, t->tokens, (size_t)row->n_tokens * sizeof *t->tokens) != 0)
        sim_broken(s, "turn %u is stored with another timeline", t->id);
    if (!row->id || !row->model || !row->status || !row->request || !row->input || !row->output ||
        !row->result || !row->tenant || strcmp(row->tenant, client_caller(s, t->key).tenant) != 0)
        sim_broken(s, "turn %u is stored with members missing or another tenant", t->id);
}

static pawl_status put(store *self, const store_response *row, store_done done, void *arg,
                       pawl_error *error)
{
    sim_disk *d = (sim_disk *)self;
    sim *s = d->sim;
    sim_turn *t = &s->turns[((run_turn *)arg)->sampling.seed];
    check_row(s, row, t);
    bool busy = d->n_queued == DISK_QUEUE || rng_chance(&d->random, s->plan.put_busy);
    trace_add(s, ACT_PUT, t->id, busy, (int64_t)row->n_tokens);
    t->put = busy ? PUT_REFUSED : PUT_OPEN;
    s->totals.busy_store += busy;
    if (busy)
        return pawl_fail(error, PAWL_E_BUSY, "the simulated store is busy");
    int64_t due = s->now + (int64_t)rng_below(&d->random, 20) * 400000;
    if (d->n_queued && due < d->queue[d->n_queued - 1].due)
        due = d->queue[d->n_queued - 1].due; /* one writer, in order */
    d->queue[d->n_queued++] = (disk_write){t->id, due, done, arg};
    if (t->cancel == CANCEL_STORING)
        client_cancel(t);
    return PAWL_OK;
}

int64_t disk_work(sim *s, bool all)
{
    sim_disk *d = s->disk;
    pawl_error error = {.struct_size = sizeof error, .message = "the simulated disk is full"};
    while (d->n_queued && (all || d->queue[0].due <= s->now)) {
        disk_write w = d->queue[0];
        sim_turn *t = &s->turns[w.turn];
        memmove(d->queue, d->queue + 1, --d->n_queued * sizeof *d->queue);
        bool fails = rng_chance(&d->random, s->plan.put_fault);
        t->put = fails ? PUT_FAILED : PUT_DONE;
        trace_add(s, ACT_STORED, t->id, fails, d->n_queued);
        w.done(w.arg, fails ? PAWL_E_LIMIT : PAWL_OK, fails ? &error : NULL);
        if (!t->ended)
            sim_broken(s, "turn %u is stored and does not end", t->id);
    }
    return d->n_queued ? d->queue[0].due : SIM_NEVER;
}

void disk_open(sim *s)
{
    s->disk = calloc(1, sizeof *s->disk);
    if (!s->disk)
        abort();
    s->disk->store.put = put;
    s->disk->sim = s;
    s->disk->random = (rng){rng_mix(s->seed + 4)};
}

void disk_close(sim *s)
{
    free(s->disk);
}
