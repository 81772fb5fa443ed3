/*
 * cpu/submit.c - one submit: checking slots, cutting them into passes, reading
 * results out.
 *
 * A submit may hold more tokens than a pass has rows: passes of FORWARD_ROWS
 * follow each other until all slots are done. Nothing of a sequence changes
 * before the end (save its pages, which hold no length): a failed or cancelled
 * slot leaves it as long as before.
 *
 *   slots:  AAAAAAAA BBB C          passes:  [AAAAAA] [AABBBC]
 *
 * Runs on the thread that owns the engine; outputs are computed in the workers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/engine.h"

#include <pawl/plugin_util.h>

#include "cpu/output.h"
#include "cpu/sequence.h"

/* The host's struct, of whatever size, over one of ours. */
static pawl_status read_slot(slot_work *w, const pawl_slot *from, uint64_t stride)
{
    size_t size = stride < sizeof w->slot ? (size_t)stride : sizeof w->slot;
    memcpy(&w->slot, from, size);
    w->slot.n_out = 0;
    w->slot.n_proposed = 0;
    if (!w->slot.sampling)
        return PAWL_OK;
    uint32_t known = w->slot.sampling->struct_size;
    if (known < offsetof(pawl_sampling, seed))
        return PAWL_E_ARGUMENT;
    memcpy(&w->sampling, w->slot.sampling, known < sizeof w->sampling ? known : sizeof w->sampling);
    w->slot.sampling = &w->sampling;
    return PAWL_OK;
}

static pawl_status check_slot(const pawl_engine *e, const slot_work *w)
{
    const pawl_slot *s = &w->slot;
    uint32_t vocab = e->model->vocab;
    if (s->n_draft > 0 || s->n_adapters > 0 || s->n_embeddings > 0 || s->hidden || s->pooling ||
        (s->flags & PAWL_SLOT_CHAIN))
        return PAWL_E_UNSUPPORTED;
    if (!s->sequence || s->sequence->engine != e || s->sequence->busy || !s->tokens ||
        s->n_tokens == 0)
        return PAWL_E_ARGUMENT;
    if (s->n_tokens > e->context - s->sequence->length)
        return PAWL_E_LIMIT;
    for (uint64_t i = 0; i < s->n_tokens; i++)
        if (s->tokens[i] < 0 || (uint32_t)s->tokens[i] >= vocab)
            return PAWL_E_ARGUMENT;
    if (s->logits && s->n_logits > s->n_tokens)
        return PAWL_E_ARGUMENT;
    if (!(s->flags & PAWL_SLOT_SAMPLE))
        return PAWL_OK;
    if (!s->out_tokens || (s->n_top > 0 && !s->top) || s->n_top > vocab)
        return PAWL_E_ARGUMENT;
    return sample_check(s->sampling, s->allow, vocab);
}

static void begin_slot(const pawl_engine *e, slot_work *w, pawl_slot *host, uint64_t stride)
{
    w->host = host;
    w->status = read_slot(w, host, stride);
    if (w->status == PAWL_OK)
        w->status = check_slot(e, w);
    if (w->status != PAWL_OK)
        return;
    pawl_sequence *seq = w->slot.sequence;
    w->pages = seq->n_pages;
    w->status = sequence_prepare(seq, w->slot.n_tokens, NULL);
    if (w->status != PAWL_OK)
        return;
    seq->busy = true;
    memcpy(seq->tokens + seq->length, w->slot.tokens, w->slot.n_tokens * sizeof *seq->tokens);
}

static bool stopped(void *arg)
{
    const pawl_engine *e = arg;
    return atomic_load_explicit(&e->cancelled, memory_order_relaxed);
}

/* The next rows of all slots, as many as a pass takes; 0: all are done. */
static uint32_t fill_pass(submit_work *work)
{
    forward_row *rows = work->engine->forward.rows;
    uint32_t n = 0;
    for (uint32_t i = 0; i < work->n_slots; i++) {
        slot_work *w = &work->slots[i];
        const pawl_sequence *seq = w->slot.sequence;
        w->pass_begin = w->pass_end = w->done;
        w->pass_row = n;
        if (w->status != PAWL_OK)
            continue;
        for (; w->done < w->slot.n_tokens && n < FORWARD_ROWS; w->done++, n++)
            rows[n] = (forward_row){.pages = seq->pages,
                                    .position = seq->length + (uint32_t)w->done,
                                    .token = w->slot.tokens[w->done],
                                    .group = i};
        w->pass_end = w->done;
    }
    return n;
}

static pawl_status run_passes(submit_work *work, pawl_error *error)
{
    pawl_engine *e = work->engine;
    while ((work->pass.n_rows = fill_pass(work)) > 0)
        if (!forward_layers(&work->pass, e->threads) || !output_pass(work))
            return pawl_fail(error, PAWL_E_CANCELLED, "cancelled by the host");
    return PAWL_OK;
}

/* Makes the sequence longer, or leaves it as it was, and answers the host. */
static void end_slot(slot_work *w, pawl_status whole, uint64_t stride)
{
    pawl_sequence *seq = w->slot.sequence;
    bool began = w->status == PAWL_OK || w->began;
    if (w->status == PAWL_OK && whole != PAWL_OK)
        w->status = whole;
    if (w->status == PAWL_OK) {
        seq->length += (uint32_t)w->slot.n_tokens;
        seq->hidden_valid = true;
    } else if (began) {
        sequence_trim(seq, w->pages);
        seq->hidden_valid = false;
        w->slot.n_out = 0;
    }
    if (began)
        seq->busy = false;
    w->host->status = w->status;
    if (PAWL_SLOT_HAS(stride, n_out))
        w->host->n_out = w->slot.n_out;
    if (PAWL_SLOT_HAS(stride, n_proposed))
        w->host->n_proposed = 0;
    if (PAWL_SLOT_HAS(stride, n_top))
        w->host->n_top = w->slot.n_out ? w->slot.n_top : 0;
}

pawl_status engine_submit(pawl_engine *engine, pawl_slot *slots, uint64_t slot_stride,
                          uint64_t n_slots, uint64_t *ticket, pawl_error *error)
{
    if (slot_stride < offsetof(pawl_slot, status) + sizeof slots->status)
        return pawl_fail(error, PAWL_E_ARGUMENT, "slots of %llu bytes are no slots",
                         (unsigned long long)slot_stride);
    if (n_slots > engine->max_sequences)
        return pawl_fail(error, PAWL_E_ARGUMENT, "%llu slots for at most %u sequences",
                         (unsigned long long)n_slots, engine->max_sequences);
    submit_work work = {.engine = engine, .n_slots = (uint32_t)n_slots};
    work.slots = calloc(n_slots ? n_slots : 1, sizeof *work.slots);
    if (!work.slots)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for %u slots", work.n_slots);
    atomic_store(&engine->cancelled, false);
    work.pass = (forward_pass){.model = engine->model,
                               .kernels = engine->kernels,
                               .pool = &engine->pool,
                               .scratch = &engine->forward,
                               .exact = engine->options.exact,
                               .cancelled = stopped,
                               .arg = engine};
    for (uint32_t i = 0; i < work.n_slots; i++) {
        begin_slot(engine, &work.slots[i], pawl_slot_at(slots, slot_stride, i), slot_stride);
        work.slots[i].began = work.slots[i].status == PAWL_OK;
    }
    pawl_status status = run_passes(&work, error);
    for (uint32_t i = 0; i < work.n_slots; i++)
        end_slot(&work.slots[i], status, slot_stride);
    free(work.slots);
    if (status == PAWL_OK)
        *ticket = ++engine->ticket;
    return status;
}

pawl_status engine_wait(pawl_engine *engine, uint64_t ticket, pawl_error *error)
{
    if (ticket == 0 || ticket > engine->ticket)
        return pawl_fail(error, PAWL_E_ARGUMENT, "ticket %llu was never given",
                         (unsigned long long)ticket);
    return PAWL_OK;
}
