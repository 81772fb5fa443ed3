/*
 * cpu/sample.c - see sample.h. Runs in any worker, with that worker's scratch.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/sample.h"

#include <math.h>
#include <string.h>

#define FIRST_CANDIDATES 64 /* of an unbounded top-p; grows eightfold */

static uint64_t splitmix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

double sample_random(uint64_t seed, uint64_t position)
{
    return (double)(splitmix64(splitmix64(seed) ^ position) >> 11) * 0x1p-53;
}

static bool allowed(const uint32_t *allow, uint32_t id)
{
    return allow[id / 32] >> id % 32 & 1;
}

static bool within(float x, float least, float most)
{
    return x >= least && x <= most; /* false for NAN */
}

pawl_status sample_check(const pawl_sampling *s, const uint32_t *allow, uint32_t vocab)
{
    if (s) {
        bool good = within(s->temperature, 0, 1e6f) && within(s->top_p, 0, 1) &&
                    within(s->min_p, 0, 1) && within(s->repetition_penalty, 0, 1e6f) &&
                    within(s->presence_penalty, -1e6f, 1e6f) &&
                    within(s->frequency_penalty, -1e6f, 1e6f);
        if (!good || (s->n_bias > 0 && (!s->bias_ids || !s->bias)))
            return PAWL_E_ARGUMENT;
        for (uint64_t i = 0; i < s->n_bias; i++)
            if (s->bias_ids[i] < 0 || (uint32_t)s->bias_ids[i] >= vocab || !(s->bias[i] < INFINITY))
                return PAWL_E_ARGUMENT;
    }
    for (uint32_t id = 0; allow && id < vocab; id++)
        if (allowed(allow, id))
            return PAWL_OK;
    return allow ? PAWL_E_ARGUMENT : PAWL_OK;
}

static void penalise(const sample_input *in, uint32_t *seen, float *logits)
{
    const pawl_sampling *s = in->sampling;
    float repetition = s->repetition_penalty > 0 ? s->repetition_penalty : 1.0f;
    if (repetition == 1.0f && s->presence_penalty == 0 && s->frequency_penalty == 0)
        return;
    for (uint64_t i = s->penalty_begin; i < in->n_history; i++)
        seen[in->history[i]]++;
    for (uint64_t i = s->penalty_begin; i < in->n_history; i++) {
        int32_t id = in->history[i];
        if (seen[id] == 0)
            continue;
        float logit = logits[id];
        logit = logit > 0 ? logit / repetition : logit * repetition;
        logits[id] = logit - s->presence_penalty - s->frequency_penalty * (float)seen[id];
        seen[id] = 0;
    }
}

/* Logits after penalties, bias and mask. */
static float *adjust(const sample_input *in, const forward_worker *scratch)
{
    const pawl_sampling *s = in->sampling;
    float *logits = scratch->adjusted;
    memcpy(logits, in->logits, in->vocab * sizeof *logits);
    if (s) {
        penalise(in, scratch->seen, logits);
        for (uint64_t i = 0; i < s->n_bias; i++)
            logits[s->bias_ids[i]] += s->bias[i];
    }
    for (uint32_t id = 0; in->allow && id < in->vocab; id++)
        if (!allowed(in->allow, id))
            logits[id] = -INFINITY;
    return logits;
}

/* logits become exp((logit - greatest) / temperature): probabilities but for a
 * common factor, whose inverse is returned. NANs have none. */
static double weigh(const sample_input *in, float *logits, float greatest)
{
    float temperature = in->sampling->temperature;
    for (uint32_t id = 0; id < in->vocab; id++) {
        float x = (logits[id] - greatest) / temperature;
        logits[id] = x == x ? x : -INFINITY;
    }
    return (double)in->kernels->softmax_exp(logits, in->vocab, 0.0f, logits);
}

static int32_t pick_any(const float *weights, uint32_t vocab, double total, double random)
{
    double left = random * total;
    int32_t last = 0;
    for (uint32_t id = 0; id < vocab; id++) {
        if (weights[id] == 0)
            continue;
        last = (int32_t)id;
        left -= (double)weights[id];
        if (left < 0)
            break;
    }
    return last;
}

/* How many of the n best survive top-p and min-p, and their weight. False: more
 * than n might. total: the weight of all that top-p looks at. */
static bool cut(const pawl_sampling *s, const float *weights, const int32_t *ids, size_t n,
                double total, size_t *kept, double *kept_weight)
{
    float least = s->min_p * weights[ids[0]];
    double enough = s->top_p > 0 && s->top_p < 1 ? (double)s->top_p * total : INFINITY;
    *kept_weight = 0;
    for (*kept = 0; *kept < n; ++*kept) {
        float weight = weights[ids[*kept]];
        if (*kept > 0 && (weight < least || weight == 0 || *kept_weight >= enough))
            return true;
        *kept_weight += (double)weight;
    }
    return false;
}

static int32_t pick_best(const sample_input *in, const float *weights, double total, int32_t *ids,
                         double random)
{
    uint32_t top_k = in->sampling->top_k;
    size_t n = top_k > 0 ? top_k : FIRST_CANDIDATES;
    double kept_weight;
    size_t kept;
    for (;; n *= 8) {
        n = kernels_top_k(weights, in->vocab, n, ids);
        if (top_k > 0) {
            total = 0;
            for (size_t i = 0; i < n; i++)
                total += (double)weights[ids[i]];
        }
        if (cut(in->sampling, weights, ids, n, total, &kept, &kept_weight) || top_k > 0 ||
            n == in->vocab)
            break;
    }
    double left = random * kept_weight;
    for (size_t i = 0; i < kept; i++) {
        left -= (double)weights[ids[i]];
        if (left < 0)
            return ids[i];
    }
    return ids[kept - 1];
}

pawl_status sample_token(const sample_input *in, const forward_worker *scratch, int32_t *token)
{
    const pawl_sampling *s = in->sampling;
    bool greedy = !s || s->temperature == 0;
    bool plain = !s || (s->repetition_penalty == 0 && s->presence_penalty == 0 &&
                        s->frequency_penalty == 0 && s->n_bias == 0);
    float *adjusted = greedy && plain && !in->allow ? NULL : adjust(in, scratch);
    const float *logits = adjusted ? adjusted : in->logits;
    size_t best = in->kernels->argmax(logits, in->vocab);
    if (!(logits[best] > -INFINITY && logits[best] < INFINITY))
        return PAWL_E_INTERNAL;
    if (greedy) {
        *token = (int32_t)best;
        return PAWL_OK;
    }
    double random = sample_random(s->seed, in->n_history);
    double total = weigh(in, adjusted, logits[best]);
    bool whole = (s->top_k == 0 || s->top_k >= in->vocab) && (s->top_p == 0 || s->top_p == 1) &&
                 s->min_p == 0;
    *token = whole ? pick_any(adjusted, in->vocab, total, random)
                   : pick_best(in, adjusted, total, scratch->ids, random);
    return PAWL_OK;
}
