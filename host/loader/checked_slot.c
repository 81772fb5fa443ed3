/*
 * loader/checked_slot.c - one slot: is it whole, and is its answer one?
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/checked_engine.h"

#include <math.h>
#include <string.h>

/* ---- what the host hands over ---- */

static void sampling_in(const pawl_engine *e, uint64_t i, const pawl_slot *slot)
{
    const pawl_sampling *s = slot->sampling;
    unsigned long long at = i;
    if (!s)
        return;
    CHECKED_THAT(e->c, s->struct_size >= sizeof *s, "every struct has its struct_size",
                 "slot %llu: sampling of %u bytes", at, s->struct_size);
    CHECKED_THAT(e->c,
                 isfinite(s->temperature) && s->temperature >= 0 && isfinite(s->top_p) &&
                     isfinite(s->min_p) && isfinite(s->repetition_penalty) &&
                     isfinite(s->presence_penalty) && isfinite(s->frequency_penalty),
                 "sampling is by numbers", "slot %llu: temperature %g, top_p %g, min_p %g", at,
                 (double)s->temperature, (double)s->top_p, (double)s->min_p);
    CHECKED_THAT(e->c, !s->n_bias || (s->bias_ids && s->bias), "arrays have their counts",
                 "slot %llu: %llu biases of NULL", at, (unsigned long long)s->n_bias);
}

static void arrays_in(const pawl_engine *e, uint64_t i, const pawl_slot *slot)
{
    unsigned long long at = i;
    uint32_t words = (e->info.vocab_size + 31u) / 32;
    CHECKED_THAT(e->c, !slot->allow || !slot->n_draft || slot->allow_stride >= words,
                 "arrays have their counts",
                 "slot %llu: rows of a mask %llu words apart, the vocabulary needs %u", at,
                 (unsigned long long)slot->allow_stride, words);
    CHECKED_THAT(e->c, !slot->n_adapters || (slot->adapters && slot->adapter_scales),
                 "arrays have their counts", "slot %llu: %u adapters of NULL", at,
                 slot->n_adapters);
    CHECKED_THAT(e->c, slot->n_adapters <= CHECKED_MAX_ADAPTERS, "arrays have their counts",
                 "slot %llu: %u adapters", at, slot->n_adapters);
    for (uint32_t k = 0; k < slot->n_adapters; k++)
        CHECKED_THAT(e->c, slot->adapters[k]->engine == e, "a slot's adapters are its engine's",
                     "slot %llu: adapter %u is not", at, k);
    CHECKED_THAT(e->c, !slot->n_embeddings || (slot->embeddings && slot->embedding_at),
                 "arrays have their counts", "slot %llu: %llu embeddings of NULL", at,
                 (unsigned long long)slot->n_embeddings);
    CHECKED_THAT(e->c, !slot->logits || slot->n_logits <= slot->n_tokens,
                 "arrays have their counts", "slot %llu: %llu rows of logits for %llu tokens", at,
                 (unsigned long long)slot->n_logits, (unsigned long long)slot->n_tokens);
}

void checked_slot_in(const pawl_engine *e, uint64_t i, const pawl_slot *slot)
{
    const uint32_t known = PAWL_SLOT_SAMPLE | PAWL_SLOT_CHAIN;
    unsigned long long at = i;
    CHECKED_THAT(e->c, slot->sequence && slot->sequence->engine == e,
                 "a slot's sequence is its engine's", "slot %llu", at);
    CHECKED_THAT(e->c, slot->n_tokens > 0 && slot->tokens, "a slot has tokens",
                 "slot %llu has %llu", at, (unsigned long long)slot->n_tokens);
    CHECKED_THAT(e->c, (slot->flags & ~known) == 0, "a slot's flags are of the header",
                 "slot %llu has %x", at, slot->flags);
    CHECKED_THAT(e->c,
                 !(slot->flags & PAWL_SLOT_CHAIN) || (slot->sequence->n_passes && !slot->allow),
                 "CHAIN follows an open submit, without a mask", "slot %llu", at);
    CHECKED_THAT(e->c, slot->n_draft <= slot->n_tokens && slot->n_draft <= e->info.max_draft,
                 "a slot's draft fits", "slot %llu: %u of %llu tokens, max_draft %u", at,
                 slot->n_draft, (unsigned long long)slot->n_tokens, e->info.max_draft);
    CHECKED_THAT(e->c, !(slot->flags & PAWL_SLOT_SAMPLE) || slot->out_tokens,
                 "a slot has the room that it counts", "slot %llu samples to NULL", at);
    CHECKED_THAT(e->c, (slot->top || !slot->n_top) && (slot->proposed || !slot->n_proposed),
                 "a slot has the room that it counts", "slot %llu: %u tops, %u proposals", at,
                 slot->n_top, slot->n_proposed);
    uint64_t chained = slot->flags & PAWL_SLOT_CHAIN ? 1 : 0;
    for (uint64_t k = chained; k < slot->n_tokens; k++)
        CHECKED_THAT(e->c, slot->tokens[k] >= 0 && (uint32_t)slot->tokens[k] < e->info.vocab_size,
                     "token ids are of the vocabulary", "slot %llu is given token %d of %u", at,
                     slot->tokens[k], e->info.vocab_size);
    sampling_in(e, i, slot);
    arrays_in(e, i, slot);
}

/* ---- what the plugin hands back ---- */

static void inputs_kept(const pawl_engine *e, uint64_t i, const pawl_slot *sent,
                        const pawl_slot *back)
{
    pawl_slot now = *back;
    now.status = sent->status;
    now.n_out = sent->n_out;
    now.n_proposed = sent->n_proposed;
    now.n_top = sent->n_top;
    CHECKED_THAT(e->c, memcmp(sent, &now, sizeof now) == 0, "a slot's inputs are the host's",
                 "slot %llu: an input is changed", (unsigned long long)i);
}

static bool in_vocabulary(const pawl_engine *e, int32_t token)
{
    return token >= 0 && (uint32_t)token < e->info.vocab_size;
}

static void outputs(const pawl_engine *e, uint64_t i, const pawl_slot *back)
{
    unsigned long long at = i;
    for (uint32_t k = 0; k < back->n_out; k++) {
        int32_t token = back->out_tokens[k];
        CHECKED_THAT(e->c, in_vocabulary(e, token), "token ids are of the vocabulary",
                     "slot %llu sampled token %d of %u", at, token, e->info.vocab_size);
        const uint32_t *row = back->allow ? back->allow + back->allow_stride * k : NULL;
        CHECKED_THAT(e->c, !row || row[token / 32] >> (token % 32) & 1, "a mask is obeyed",
                     "slot %llu sampled token %d, which is not allowed", at, token);
        CHECKED_THAT(e->c, !back->out_logprobs || back->out_logprobs[k] <= 1e-3f,
                     "log-probabilities are none above 0", "slot %llu: %g", at,
                     (double)back->out_logprobs[k]);
    }
    for (uint32_t k = 0; k < back->n_proposed; k++)
        CHECKED_THAT(e->c, in_vocabulary(e, back->proposed[k]), "token ids are of the vocabulary",
                     "slot %llu proposes token %d of %u", at, back->proposed[k],
                     e->info.vocab_size);
}

/* For each token given a row of n_top, `room` from row to row. */
static void tops(const pawl_engine *e, uint64_t i, const pawl_slot *back, uint32_t room)
{
    for (uint64_t k = 0; k < (uint64_t)back->n_top * back->n_out; k++) {
        const struct pawl_top *top = &back->top[k / back->n_top * room + k % back->n_top];
        CHECKED_THAT(e->c, in_vocabulary(e, top->token), "token ids are of the vocabulary",
                     "slot %llu has top token %d of %u", (unsigned long long)i, top->token,
                     e->info.vocab_size);
        CHECKED_THAT(e->c, k % back->n_top == 0 || top[-1].logprob >= top->logprob,
                     "tops are sorted, best first", "slot %llu: %g before %g",
                     (unsigned long long)i, (double)top[-1].logprob, (double)top->logprob);
    }
}

/* How long the sequence is, against what it was. */
static void length_out(const pawl_engine *e, uint64_t i, const pawl_slot *sent,
                       const pawl_slot *back, uint64_t before)
{
    unsigned long long at = i;
    uint64_t now = e->api->length(sent->sequence);
    uint64_t accepted = sent->n_draft && back->n_out ? back->n_out - 1 : 0;
    if (before == CHECKED_UNSET || back->status == PAWL_E_DEVICE)
        return;
    if (back->status)
        CHECKED_THAT(e->c, now == before || (now == 0 && back->status == PAWL_E_INTERNAL),
                     "a failed slot's sequence is as long as before",
                     "slot %llu: status %d, length %llu after %llu", at, back->status,
                     (unsigned long long)now, (unsigned long long)before);
    else
        CHECKED_THAT(e->c, now == before + sent->n_tokens - sent->n_draft + accepted,
                     "a pass appends its tokens", "slot %llu: length %llu after %llu and %llu", at,
                     (unsigned long long)now, (unsigned long long)before,
                     (unsigned long long)sent->n_tokens);
}

void checked_slot_out(const pawl_engine *e, uint64_t i, const pawl_slot *sent,
                      const pawl_slot *back, uint64_t length_before)
{
    unsigned long long at = i;
    bool samples = (sent->flags & PAWL_SLOT_SAMPLE) != 0;
    bool newer = e->c->plugin->abi_minor > PAWL_ABI_MINOR;
    inputs_kept(e, i, sent, back);
    CHECKED_THAT(e->c, back->status >= PAWL_OK && (back->status <= PAWL_E_INTERNAL || newer),
                 "statuses are those of the header", "slot %llu has %d", at, back->status);
    length_out(e, i, sent, back, length_before);
    if (back->status)
        return;
    CHECKED_THAT(e->c,
                 samples ? back->n_out >= 1 && back->n_out <= sent->n_draft + 1 : !back->n_out,
                 "n_out is what there is room for", "slot %llu: %u tokens for %u proposals", at,
                 back->n_out, sent->n_draft);
    CHECKED_THAT(e->c, back->n_top <= sent->n_top && back->n_proposed <= sent->n_proposed,
                 "tops and proposals fit their room", "slot %llu: %u tops for %u, %u proposals", at,
                 back->n_top, sent->n_top, back->n_proposed);
    outputs(e, i, back);
    tops(e, i, back, sent->n_top);
}
