/*
 * loader/check_sample.c - engine rules about sampling beyond the greedy.
 *
 * What is promised is little: that random numbers are a function of seed and position,
 * that masks hold, that the best tokens are told truly. Whether a distribution is right
 * is a matter of the engine's own tests.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N CHECK_PROMPT
#define M CHECK_RUN
#define N_TOP 5

static pawl_sampling hot(float temperature, uint64_t seed)
{
    return (pawl_sampling){.struct_size = sizeof(pawl_sampling),
                           .temperature = temperature,
                           .top_p = 1.0f,
                           .repetition_penalty = 1.0f,
                           .seed = seed};
}

/* A run of the seed's prompt in a fresh sequence, and the prompt. */
static enum check_verdict run(check *c, uint64_t seed, const pawl_sampling *sampling,
                              const uint32_t *allow, int32_t *prompt, int32_t *out)
{
    check_step step = {.tokens = prompt, .n = N, .sampling = sampling, .allow = allow};
    CHECK_NEED(c, check_engine(c));
    check_prompt(c, seed, prompt, N);
    if (!check_open_sequence(c, &step.sequence))
        return CHECK_FAIL;
    bool good = check_sampled(c, step, out, M);
    c->engine_api->sequence_close(step.sequence);
    return good ? CHECK_PASS : CHECK_FAIL;
}

enum check_verdict check_top_k(check *c)
{
    int32_t prompt[N], greedy[M], one[M];
    pawl_sampling sampling = hot(1.5f, 4);
    sampling.top_k = 1;
    CHECK_NEED(c, check_fresh(c, 13, prompt, greedy));
    CHECK_NEED(c, run(c, 13, &sampling, NULL, prompt, one));
    return check_same(c, "with top_k 1", greedy, one, M);
}

enum check_verdict check_seed(check *c)
{
    int32_t prompt[N], first[M], second[M];
    for (uint64_t seed = 0; seed < 4; seed++) {
        pawl_sampling sampling = hot(1.0f, seed << 40 | seed);
        CHECK_NEED(c, run(c, 14, &sampling, NULL, prompt, first));
        CHECK_NEED(c, run(c, 14, &sampling, NULL, prompt, second));
        CHECK_NEED(c, check_same(c, "the second time", first, second, M));
    }
    return CHECK_PASS;
}

/* The prompt and half of a run at once in a fresh sequence, and on from there. */
enum check_verdict check_resume(check *c)
{
    int32_t all[N + M], out[M];
    pawl_sampling sampling = hot(1.0f, 77);
    check_step step = {.tokens = all, .n = N + M / 2, .sampling = &sampling};
    CHECK_NEED(c, check_invariance(c));
    CHECK_NEED(c, run(c, 15, &sampling, NULL, all, all + N));
    if (!check_open_sequence(c, &step.sequence))
        return CHECK_FAIL;
    bool good = check_sampled(c, step, out, M - M / 2);
    c->engine_api->sequence_close(step.sequence);
    return good ? check_same(c, "resumed", all + N + M / 2, out, M - M / 2) : CHECK_FAIL;
}

enum check_verdict check_hot_mask(check *c)
{
    int32_t prompt[N], out[M];
    pawl_sampling sampling = hot(2.0f, 5);
    CHECK_NEED(c, check_engine(c));
    check_prompt(c, 16, prompt, N);
    uint32_t *allow = calloc((c->info.vocab_size + 31) / 32, sizeof *allow);
    if (!allow)
        return check_say(c, CHECK_SKIP, "no memory");
    for (int i = 0; i < 3; i++)
        allow[prompt[i] / 32] |= 1u << prompt[i] % 32;
    enum check_verdict verdict = run(c, 16, &sampling, allow, prompt, out);
    free(allow);
    return verdict;
}

static enum check_verdict judge_tops(check *c, const check_step *s)
{
    double sum = 0;
    CHECK_THAT(c, s->n_top <= N_TOP, "%u tops in room for %d", s->n_top, N_TOP);
    if (s->n_top == 0)
        return check_say(c, CHECK_SKIP, "it tells none");
    for (uint32_t i = 0; i < s->n_top; i++) {
        const struct pawl_top *top = &s->top[i];
        CHECK_THAT(c, top->token >= 0 && (uint32_t)top->token < c->info.vocab_size,
                   "top %u is token %d", i, top->token);
        CHECK_THAT(c, i == 0 || top[-1].logprob >= top->logprob, "top %u is better than top %u", i,
                   i - 1);
        for (uint32_t k = 0; k < i; k++)
            CHECK_THAT(c, s->top[k].token != top->token, "tops %u and %u are one token", k, i);
        sum += exp((double)top->logprob);
    }
    CHECK_THAT(c, sum <= 1.001, "their probabilities come to %g", sum);
    CHECK_THAT(c, s->top[0].token == s->token, "greedy gives %d, the best is %d", s->token,
               s->top[0].token);
    CHECK_THAT(c, fabsf(s->top[0].logprob - s->logprob) < 1e-3f,
               "the token's log-probability is %g, as the best %g", (double)s->logprob,
               (double)s->top[0].logprob);
    return CHECK_PASS;
}

enum check_verdict check_tops(check *c)
{
    int32_t prompt[N], token;
    struct pawl_top top[N_TOP];
    check_step step = {.tokens = prompt, .n = N, .sample = true, .top = top, .n_top = N_TOP};
    enum check_verdict verdict = CHECK_PASS;
    CHECK_NEED(c, check_engine(c));
    check_prompt(c, 17, prompt, N);
    if (!check_open_sequence(c, &step.sequence))
        return CHECK_FAIL;
    for (int k = 0; k < M && verdict == CHECK_PASS; k++) {
        step.n_top = N_TOP;
        pawl_status status = check_pass(c, &step, 1, NULL);
        verdict = status || step.status ? check_say(c, CHECK_FAIL, "status %d", step.status)
                                        : judge_tops(c, &step);
        token = step.token;
        step.tokens = &token;
        step.n = 1;
    }
    c->engine_api->sequence_close(step.sequence);
    return verdict;
}

enum check_verdict check_penalties(check *c)
{
    int32_t prompt[N], out[M];
    const int32_t ids[] = {0, 1, 5};
    const float bias[] = {-100.0f, 0.5f, 2.0f};
    pawl_sampling sampling = hot(0.8f, 9);
    sampling.top_k = 20;
    sampling.top_p = 0.9f;
    sampling.min_p = 0.01f;
    sampling.bias_ids = ids;
    sampling.bias = bias;
    sampling.n_bias = 3;
    static const float strong[][3] = {
        {1.3f, 0.5f, 0.5f}, {1.0f, 2.0f, 2.0f}, {0.7f, -2.0f, -2.0f}, {5.0f, 0.0f, 0.0f}};
    for (size_t i = 0; i < sizeof strong / sizeof *strong; i++) {
        sampling.repetition_penalty = strong[i][0];
        sampling.presence_penalty = strong[i][1];
        sampling.frequency_penalty = strong[i][2];
        sampling.temperature = i % 2 ? 0.0f : 0.8f;
        sampling.penalty_begin = i % 2 ? N : 0;
        CHECK_NEED(c, run(c, 18, &sampling, NULL, prompt, out));
    }
    return CHECK_PASS;
}
