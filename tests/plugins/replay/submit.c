/*
 * tests/plugins/replay/submit.c - one pass: append, wait as scripted, answer.
 *
 * submit() does it all; wait() has nothing to wait for (max_in_flight is 1). The
 * pass takes as long as its slowest slot: delay_ms of a reply whose token is
 * sampled, and prefill_delay_ms_per_token for every token but the first. The wait
 * is spent in steps of a millisecond, so that cancel() ends it soon; a cancelled
 * pass leaves every sequence as long as it was.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "replay/replay.h"

#include <time.h>

#define LOGPROB (-0.5f)
#define UNLIKELY (-5.0f)

static float bias_of(const pawl_sampling *sampling, int32_t token)
{
    for (uint64_t i = 0; sampling && i < sampling->n_bias; i++)
        if (sampling->bias_ids[i] == token)
            return sampling->bias[i];
    return 0;
}

/* By the mask and by the bias, of which -100 forbids a token. */
static bool allowed(const pawl_slot *slot, int32_t token)
{
    bool masked = slot->allow && !(slot->allow[token / 32] >> (token % 32) & 1);
    return !masked && bias_of(slot->sampling, token) > -100;
}

/* The script's token, or the first one that a bias of 100 demands. */
static int32_t wanted(const pawl_slot *slot, int32_t token)
{
    const pawl_sampling *sampling = slot->sampling;
    for (uint64_t i = 0; sampling && i < sampling->n_bias; i++)
        if (sampling->bias[i] >= 100)
            return sampling->bias_ids[i];
    return token;
}

static pawl_status check_slot(const pawl_engine *engine, const pawl_slot *slot)
{
    if (!slot->sequence || slot->sequence->engine != engine || slot->n_tokens == 0)
        return PAWL_E_ARGUMENT;
    if (slot->n_draft || slot->n_adapters || slot->n_embeddings || slot->pooling ||
        (slot->flags & PAWL_SLOT_CHAIN))
        return PAWL_E_UNSUPPORTED;
    return PAWL_OK;
}

static uint64_t delay_of(const replay_model *model, const pawl_slot *slot)
{
    const replay_reply *reply;
    uint64_t index;
    uint64_t ms = (slot->n_tokens - 1) * model->prefill_delay;
    if (slot->flags & PAWL_SLOT_SAMPLE) {
        replay_next(model, slot->sequence->tokens, slot->sequence->length, &reply, &index);
        ms += reply->delay_ms;
    }
    return ms;
}

/* False: cancelled. */
static bool spend(pawl_engine *engine, uint64_t ms)
{
    const struct timespec step = {0, 1000000};
    while (ms-- && !atomic_load(&engine->cancelled))
        nanosleep(&step, NULL);
    return !atomic_load(&engine->cancelled);
}

static void fill_top(const replay_model *model, pawl_slot *slot, int32_t token)
{
    uint32_t n = 0;
    if (slot->top && n < slot->n_top) {
        slot->top[n].token = token;
        slot->top[n++].logprob = LOGPROB;
    }
    for (int32_t other = 0; slot->top && n < slot->n_top && (size_t)other < model->n_pieces;
         other++) {
        if (other == token)
            continue;
        slot->top[n].token = other;
        slot->top[n].logprob = -2.0f - (float)n;
        n++;
    }
    slot->n_top = n;
}

static void fill_logits(const replay_model *model, pawl_slot *slot)
{
    const pawl_sequence *sequence = slot->sequence;
    const replay_reply *reply;
    uint64_t index;
    for (uint64_t row = 0; slot->logits && row < slot->n_logits; row++) {
        float *logits = slot->logits + row * model->n_pieces;
        uint64_t n = sequence->length - slot->n_logits + row + 1;
        for (size_t i = 0; i < model->n_pieces; i++)
            logits[i] = -10.0f;
        logits[replay_next(model, sequence->tokens, n, &reply, &index)] = 10.0f;
    }
}

static void fill_inputs(const replay_model *model, pawl_slot *slot)
{
    const pawl_sequence *sequence = slot->sequence;
    const replay_reply *reply;
    uint64_t index;
    uint64_t begin = sequence->length - slot->n_tokens;
    for (uint64_t i = 0; i < slot->n_tokens; i++) {
        if (slot->input_logprobs) /* what the script would have said is likely */
            slot->input_logprobs[i] =
                begin + i == 0 ? 0
                : replay_next(model, sequence->tokens, begin + i, &reply, &index) == slot->tokens[i]
                    ? LOGPROB
                    : UNLIKELY;
        if (slot->input_argmax)
            slot->input_argmax[i] =
                replay_next(model, sequence->tokens, begin + i + 1, &reply, &index);
    }
}

static pawl_status sample(const replay_model *model, pawl_slot *slot)
{
    const pawl_sequence *sequence = slot->sequence;
    const replay_reply *reply;
    uint64_t index;
    int32_t token = replay_next(model, sequence->tokens, sequence->length, &reply, &index);
    if (reply->fail_at && index + 1 == reply->fail_at)
        return reply->fail_status;
    token = wanted(slot, token);
    if (!allowed(slot, token)) {
        token = 0;
        while ((size_t)token < model->n_pieces && !allowed(slot, token))
            token++;
        if ((size_t)token == model->n_pieces)
            return PAWL_E_ARGUMENT;
    }
    slot->n_out = 1;
    if (slot->out_tokens)
        slot->out_tokens[0] = token;
    if (slot->out_logprobs)
        slot->out_logprobs[0] = LOGPROB;
    fill_top(model, slot, token);
    return PAWL_OK;
}

static void answer(const replay_model *model, pawl_slot *slot)
{
    slot->n_proposed = 0;
    if (slot->flags & PAWL_SLOT_SAMPLE)
        slot->status = sample(model, slot);
    else
        slot->n_top = 0;
    if (slot->status) {
        replay_truncate(slot->sequence, slot->sequence->length - slot->n_tokens, NULL);
        return;
    }
    if (slot->n_logits <= slot->sequence->length)
        fill_logits(model, slot);
    if (slot->input_logprobs || slot->input_argmax)
        fill_inputs(model, slot);
}

/* A shorter or longer slot of another minor is worked on as a copy of ours. */
static void load_slot(pawl_slot *slot, const void *from, uint64_t stride)
{
    memset(slot, 0, sizeof *slot);
    memcpy(slot, from, stride < sizeof *slot ? stride : sizeof *slot);
    slot->status = PAWL_OK;
    slot->n_out = 0;
}

static bool twice(pawl_slot *slots, uint64_t stride, uint64_t i)
{
    for (uint64_t k = 0; k < i; k++)
        if (pawl_slot_at(slots, stride, k)->sequence == pawl_slot_at(slots, stride, i)->sequence)
            return true;
    return false;
}

static pawl_status run(pawl_engine *engine, pawl_slot *slots, uint64_t stride, uint64_t n_slots,
                       pawl_slot *work)
{
    uint64_t ms = 0;
    for (uint64_t i = 0; i < n_slots; i++) {
        pawl_slot *slot = &work[i];
        load_slot(slot, pawl_slot_at(slots, stride, i), stride);
        slot->status = twice(slots, stride, i) ? PAWL_E_ARGUMENT : check_slot(engine, slot);
        if (!slot->status)
            slot->status = replay_append(slot->sequence, slot->tokens, slot->n_tokens, NULL);
        uint64_t delay = slot->status ? 0 : delay_of(engine->model, slot);
        ms = delay > ms ? delay : ms;
    }
    bool done = spend(engine, ms);
    replay_report_pass(n_slots, ms);
    for (uint64_t i = 0; i < n_slots; i++) {
        pawl_slot *slot = &work[i];
        if (!done && !slot->status) {
            replay_truncate(slot->sequence, slot->sequence->length - slot->n_tokens, NULL);
            slot->status = PAWL_E_CANCELLED;
        } else if (!slot->status) {
            answer(engine->model, slot);
        }
        memcpy(pawl_slot_at(slots, stride, i), slot, stride < sizeof *slot ? stride : sizeof *slot);
    }
    return done ? PAWL_OK : PAWL_E_CANCELLED;
}

pawl_status replay_submit(pawl_engine *engine, pawl_slot *slots, uint64_t stride, uint64_t n_slots,
                          uint64_t *ticket, pawl_error *error)
{
    if (n_slots == 0 || n_slots > engine->max_sequences || !PAWL_SLOT_HAS(stride, input_argmax))
        return pawl_fail(error, PAWL_E_ARGUMENT, "a pass has 1 to %u slots of 1.0 or later",
                         engine->max_sequences);
    engine->n_submits++;
    if (engine->model->fail_submit == engine->n_submits)
        return pawl_fail(error, PAWL_E_INTERNAL, "the script has fail_submit");
    pawl_slot *work = calloc(n_slots, sizeof *work);
    if (!work)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    atomic_store(&engine->cancelled, false);
    pawl_status status = run(engine, slots, stride, n_slots, work);
    free(work);
    if (status)
        return pawl_fail(error, status, "cancelled");
    *ticket = engine->n_submits;
    return PAWL_OK;
}

pawl_status replay_wait(pawl_engine *engine, uint64_t ticket, pawl_error *error)
{
    if (ticket == 0 || ticket > engine->n_submits)
        return pawl_fail(error, PAWL_E_ARGUMENT, "no such ticket");
    return PAWL_OK;
}
