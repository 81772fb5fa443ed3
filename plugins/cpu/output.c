/*
 * cpu/output.c - logits of the rows that somebody asked for, and what becomes of
 * them: log-probabilities, the most likely tokens, the chosen one.
 *
 * Rows wait in scratch->finals until FORWARD_LOGIT_ROWS have come together; the
 * output matrix then passes over them at once, and each row of logits is read
 * by one worker.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/output.h"

#include <math.h>
#include <string.h>

/* log p of one token is its logit minus this. */
static float log_total(const pawl_engine *e, const float *logits, float greatest)
{
    float sum = e->kernels->sum_exp(logits, e->model->vocab, greatest);
    return greatest + (float)log((double)sum);
}

static void choose(const pawl_engine *e, slot_work *w, const float *logits, float total,
                   const forward_worker *scratch)
{
    pawl_slot *s = &w->slot;
    sample_input in = {.kernels = e->kernels,
                       .logits = logits,
                       .vocab = e->model->vocab,
                       .sampling = s->sampling,
                       .allow = s->allow,
                       .history = s->sequence->tokens,
                       .n_history = s->sequence->length + s->n_tokens};
    w->status = sample_token(&in, scratch, s->out_tokens);
    if (w->status != PAWL_OK)
        return;
    s->n_out = 1;
    if (s->out_logprobs)
        s->out_logprobs[0] = logits[s->out_tokens[0]] - total;
    if (s->n_top == 0)
        return;
    s->n_top = (uint32_t)kernels_top_k(logits, in.vocab, s->n_top, scratch->ids);
    for (uint32_t i = 0; i < s->n_top; i++) {
        s->top[i].token = scratch->ids[i];
        s->top[i].logprob = logits[scratch->ids[i]] - total;
    }
}

static void read_row(const pawl_engine *e, const output_row *row, const float *logits,
                     const forward_worker *scratch)
{
    slot_work *w = row->work;
    pawl_slot *s = &w->slot;
    size_t vocab = e->model->vocab;
    uint64_t next = (uint64_t)(row->index + 1);
    size_t best = e->kernels->argmax(logits, vocab);
    float total = log_total(e, logits, logits[best]);
    if (s->input_logprobs && next < s->n_tokens)
        s->input_logprobs[next] = logits[s->tokens[next]] - total;
    if (row->index < 0)
        return;
    if (s->input_argmax)
        s->input_argmax[row->index] = (int32_t)best;
    if (s->logits && next + s->n_logits > s->n_tokens)
        memcpy(s->logits + (next + s->n_logits - s->n_tokens - 1) * vocab, logits,
               vocab * sizeof *logits);
    if ((s->flags & PAWL_SLOT_SAMPLE) && next == s->n_tokens)
        choose(e, w, logits, total, scratch);
}

static void read_rows(void *arg, threads_worker *worker)
{
    const submit_work *work = arg;
    const pawl_engine *e = work->engine;
    for (size_t i; threads_next(worker, work->n_rows, &i);)
        read_row(e, &work->rows[i], e->forward.logits + i * e->model->vocab,
                 &e->forward.workers[worker->index]);
}

static bool flush(submit_work *work)
{
    pawl_engine *e = work->engine;
    if (work->n_rows == 0)
        return true;
    if (work->pass.cancelled(work->pass.arg))
        return false;
    forward_logits(&work->pass, e->threads, work->n_rows);
    threads_run(e->threads, read_rows, work);
    work->n_rows = 0;
    return true;
}

static bool add_row(submit_work *work, slot_work *w, int64_t index, const float *normed)
{
    size_t hidden = work->engine->model->hidden;
    memcpy(work->engine->forward.finals + work->n_rows * hidden, normed, hidden * sizeof *normed);
    work->rows[work->n_rows++] = (output_row){w, index};
    return work->n_rows < FORWARD_LOGIT_ROWS || flush(work);
}

static bool wanted(const pawl_slot *s, uint64_t index)
{
    return s->input_argmax || (s->input_logprobs && index + 1 < s->n_tokens) ||
           (s->logits && index + s->n_logits >= s->n_tokens) ||
           ((s->flags & PAWL_SLOT_SAMPLE) && index + 1 == s->n_tokens);
}

/* The rows of one slot in this pass. scratch->normed is free by now. */
static bool output_slot(submit_work *work, slot_work *w)
{
    const forward *f = &work->engine->forward;
    pawl_sequence *seq = w->slot.sequence;
    size_t hidden = work->engine->model->hidden;
    bool good = true;
    if (w->pass_begin == 0 && w->slot.input_logprobs) {
        /* What preceded the first token: known only where the sequence has just
         * been here. */
        w->slot.input_logprobs[0] = 0.0f;
        if (seq->length > 0 && seq->hidden_valid)
            good = add_row(work, w, -1, seq->hidden);
    }
    for (uint64_t i = w->pass_begin; good && i < w->pass_end; i++) {
        bool last = i + 1 == w->slot.n_tokens;
        if (!last && !wanted(&w->slot, i))
            continue;
        size_t row = w->pass_row + (size_t)(i - w->pass_begin);
        float *normed = f->normed + row * hidden;
        forward_final(&work->pass, f->x + row * hidden, normed);
        if (wanted(&w->slot, i))
            good = add_row(work, w, (int64_t)i, normed);
        if (last)
            memcpy(seq->hidden, normed, hidden * sizeof *normed);
    }
    return good;
}

bool output_pass(submit_work *work)
{
    for (uint32_t i = 0; i < work->n_slots; i++) {
        slot_work *w = &work->slots[i];
        if (w->status == PAWL_OK && w->pass_begin < w->pass_end && !output_slot(work, w))
            return false;
    }
    return flush(work);
}
