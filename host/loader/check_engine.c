/*
 * loader/check_engine.c - group "engine": what makes a sequence a sequence.
 *
 * Every rule compares greedy runs: however the tokens came into a sequence (in one
 * pass, in pieces, in a batch, by fork, by saved state), what follows is the same.
 * Where an engine does not promise batch invariance, the rules that need it skip.
 * The rules about saved state are in check_state.c, those about sampling in
 * check_sample.c, about pages in check_pages.c.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N CHECK_PROMPT
#define M CHECK_RUN

enum check_verdict check_fresh(check *c, uint64_t seed, int32_t *prompt, int32_t *out)
{
    pawl_sequence *sequence;
    CHECK_NEED(c, check_engine(c));
    check_prompt(c, seed, prompt, N);
    if (!check_open_sequence(c, &sequence))
        return CHECK_FAIL;
    bool good = check_greedy(c, sequence, prompt, N, out, M);
    c->engine_api->sequence_close(sequence);
    return good ? CHECK_PASS : CHECK_FAIL;
}

enum check_verdict check_invariance(check *c)
{
    CHECK_NEED(c, check_engine(c));
    if (c->info.features & PAWL_FEATURE_BATCH_INVARIANT)
        return CHECK_PASS;
    return check_say(c, CHECK_SKIP, "it does not promise BATCH_INVARIANT");
}

static enum check_verdict info(check *c)
{
    CHECK_NEED(c, check_engine(c));
    const pawl_engine_info *i = &c->info;
    CHECK_THAT(c, i->vocab_size > 0, "vocab_size is 0");
    CHECK_THAT(c, i->context_limit > 0, "context_limit is 0");
    CHECK_THAT(c, i->max_in_flight > 0, "max_in_flight is 0");
    CHECK_THAT(c, i->page_tokens > 0, "page_tokens is 0");
    CHECK_THAT(c, i->kv_format && i->kv_format[0], "kv_format is empty");
    CHECK_THAT(c, i->device && i->device[0], "device is empty");
    return check_say(c, CHECK_PASS, "vocabulary %u, context %llu, %s", i->vocab_size,
                     (unsigned long long)i->context_limit, i->device);
}

static enum check_verdict greedy(check *c)
{
    int32_t prompt[N], first[M], second[M];
    CHECK_NEED(c, check_fresh(c, 1, prompt, first));
    CHECK_NEED(c, check_fresh(c, 1, prompt, second));
    return check_same(c, "the second time", first, second, M);
}

/* Four sequences in one batch, each pass, against each of them alone. */
static enum check_verdict batch(check *c)
{
    int32_t prompts[4][N], alone[4][M], together[4][M];
    check_step steps[4] = {{.n = 0}};
    enum check_verdict verdict = CHECK_PASS;
    CHECK_NEED(c, check_invariance(c));
    for (int i = 0; i < 4; i++)
        CHECK_NEED(c, check_fresh(c, (uint64_t)i + 1, prompts[i], alone[i]));
    int open = 0;
    while (open < 4 && check_open_sequence(c, &steps[open].sequence))
        open++;
    for (int i = 0; i < open; i++) {
        steps[i].tokens = prompts[i];
        steps[i].n = N;
        steps[i].sample = true;
    }
    for (int k = 0; k < M && open == 4 && verdict == CHECK_PASS; k++) {
        if (check_pass(c, steps, 4, NULL))
            verdict = check_say(c, CHECK_FAIL, "a pass failed");
        for (int i = 0; i < 4; i++) {
            together[i][k] = steps[i].status ? -1 : steps[i].token;
            steps[i].tokens = &together[i][k];
            steps[i].n = 1;
        }
    }
    for (int i = 0; i < open; i++)
        c->engine_api->sequence_close(steps[i].sequence);
    for (int i = 0; i < 4 && verdict == CHECK_PASS; i++)
        verdict = open == 4 ? check_same(c, "in a batch", alone[i], together[i], M) : CHECK_FAIL;
    return verdict;
}

/* The prompt in pieces of these sizes, then greedy. */
static enum check_verdict in_pieces(check *c, const int32_t *prompt, uint64_t piece, int32_t *out)
{
    pawl_sequence *sequence;
    if (!check_open_sequence(c, &sequence))
        return CHECK_FAIL;
    uint64_t at = 0;
    bool good = true;
    for (; good && at + piece < N; at += piece) {
        check_step step = {.sequence = sequence, .tokens = prompt + at, .n = piece};
        good = check_pass(c, &step, 1, NULL) == PAWL_OK && step.status == PAWL_OK;
        good = good && c->engine_api->length(sequence) == at + piece;
    }
    if (!good)
        check_say(c, CHECK_FAIL,
                  "a pass of %llu tokens failed or changed length() by another "
                  "number",
                  (unsigned long long)piece);
    good = good && check_greedy(c, sequence, prompt + at, N - at, out, M);
    c->engine_api->sequence_close(sequence);
    return good ? CHECK_PASS : CHECK_FAIL;
}

static enum check_verdict split(check *c)
{
    static const uint64_t sizes[] = {1, 2, 7, 16};
    int32_t prompt[N], whole[M], pieces[M];
    CHECK_NEED(c, check_invariance(c));
    CHECK_NEED(c, check_fresh(c, 2, prompt, whole));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CHECK_NEED(c, in_pieces(c, prompt, sizes[i], pieces));
        CHECK_NEED(c, check_same(c, "prefilled in pieces", whole, pieces, M));
    }
    return CHECK_PASS;
}

/* Feeds one run, goes back to the prompt less one token, and runs again. */
static enum check_verdict truncate(check *c)
{
    int32_t prompt[N], other[N], first[M], out[M];
    pawl_sequence *sequence;
    pawl_error why = {.struct_size = sizeof why};
    CHECK_NEED(c, check_fresh(c, 3, prompt, first));
    if (c->info.rewind_tokens < N + M)
        return check_say(c, CHECK_SKIP, "it goes back %llu tokens only",
                         (unsigned long long)c->info.rewind_tokens);
    check_prompt(c, 4, other, N);
    if (!check_open_sequence(c, &sequence))
        return CHECK_FAIL;
    enum check_verdict verdict = CHECK_FAIL;
    check_step head = {.sequence = sequence, .tokens = prompt, .n = N - 1};
    if (check_pass(c, &head, 1, NULL) || head.status)
        check_say(c, CHECK_FAIL, "a pass failed");
    else if (!check_greedy(c, sequence, other, N, out, M))
        ; /* it said why */
    else if (c->engine_api->truncate(sequence, N - 1, &why))
        check_say(c, CHECK_FAIL, "truncate: %s", why.message);
    else if (c->engine_api->length(sequence) != N - 1)
        check_say(c, CHECK_FAIL, "length() is %llu",
                  (unsigned long long)c->engine_api->length(sequence));
    else if (check_greedy(c, sequence, prompt + N - 1, 1, out, M))
        verdict = check_same(c, "after truncate()", first, out, M);
    c->engine_api->sequence_close(sequence);
    return verdict;
}

/* Both go on, by turns, with different tokens; neither may notice the other. */
static enum check_verdict run_both(check *c, pawl_sequence *from, pawl_sequence *fork,
                                   const int32_t *prompt, const int32_t *expect)
{
    int32_t other[N], out[M];
    uint64_t forked = c->engine_api->length(fork);
    CHECK_THAT(c, forked == N - 1, "the fork's length() is %llu", (unsigned long long)forked);
    check_prompt(c, 9, other, N);
    check_step noise = {.sequence = from, .tokens = other, .n = N};
    CHECK_THAT(c, check_pass(c, &noise, 1, NULL) == PAWL_OK && !noise.status, "a pass failed");
    if (!check_greedy(c, fork, prompt + N - 1, 1, out, M))
        return CHECK_FAIL;
    CHECK_NEED(c, check_same(c, "the fork", expect, out, M));
    CHECK_THAT(c, c->engine_api->length(from) == 2 * N - 1, "the origin changed length()");
    return CHECK_PASS;
}

static enum check_verdict fork_rule(check *c)
{
    int32_t prompt[N], expect[M], out[M];
    pawl_sequence *from, *fork;
    CHECK_NEED(c, check_fresh(c, 5, prompt, expect));
    if (!check_open_sequence(c, &from))
        return CHECK_FAIL;
    enum check_verdict verdict = CHECK_FAIL;
    pawl_error why = {.struct_size = sizeof why};
    check_step head = {.sequence = from, .tokens = prompt, .n = N - 1};
    if (check_pass(c, &head, 1, NULL) || head.status) {
        check_say(c, CHECK_FAIL, "a pass failed");
    } else if (c->engine_api->fork(from, N - 1, &fork, &why)) {
        check_say(c, CHECK_FAIL, "fork: %s", why.message);
    } else {
        verdict = run_both(c, from, fork, prompt, expect);
        c->engine_api->sequence_close(from); /* the fork outlives its origin */
        from = fork;
        if (verdict == CHECK_PASS && c->info.rewind_tokens >= N + M &&
            (c->engine_api->truncate(fork, N - 1, NULL) ||
             !check_greedy(c, fork, prompt + N - 1, 1, out, M)))
            verdict = check_say(c, CHECK_FAIL, "the fork does not outlive its origin");
        else if (verdict == CHECK_PASS && c->info.rewind_tokens >= N + M)
            verdict = check_same(c, "the fork alone", expect, out, M);
    }
    c->engine_api->sequence_close(from);
    return verdict;
}

/* A slot with an impossible token between two good ones, which go on afterwards. */
static enum check_verdict judge_failing(check *c, check_step *steps, const int32_t *expect)
{
    int32_t rest[M];
    int32_t bad = steps[1].tokens[N / 2];
    pawl_status status = check_pass(c, steps, 3, NULL);
    uint64_t length = c->engine_api->length(steps[1].sequence);
    CHECK_THAT(c, status == PAWL_OK, "the whole pass failed with status %d", status);
    CHECK_THAT(c, steps[1].status != PAWL_OK, "token %d of a vocabulary of %u was taken", bad,
               c->info.vocab_size);
    CHECK_THAT(c, length == 0, "the failed sequence has length %llu", (unsigned long long)length);
    for (int i = 0; i < 3; i += 2) {
        CHECK_THAT(c, steps[i].status == PAWL_OK, "the other slot has status %d", steps[i].status);
        CHECK_THAT(c, steps[i].token == expect[0], "the other slot sampled %d and not %d",
                   steps[i].token, expect[0]);
        if (!check_greedy(c, steps[i].sequence, expect, 1, rest, M - 1))
            return CHECK_FAIL;
        CHECK_NEED(c, check_same(c, "beside a failed slot", expect + 1, rest, M - 1));
    }
    return CHECK_PASS;
}

static enum check_verdict failing_slot(check *c)
{
    int32_t prompt[N], bad[N], expect[M];
    check_step steps[3] = {{.n = 0}};
    CHECK_NEED(c, check_invariance(c));
    CHECK_NEED(c, check_fresh(c, 6, prompt, expect));
    memcpy(bad, prompt, sizeof bad);
    bad[N / 2] = (int32_t)c->info.vocab_size;
    enum check_verdict verdict = CHECK_PASS;
    int open = 0;
    while (open < 3 && check_open_sequence(c, &steps[open].sequence))
        open++;
    for (int i = 0; i < open; i++) {
        steps[i].tokens = i == 1 ? bad : prompt;
        steps[i].n = N;
        steps[i].sample = true;
    }
    verdict = open == 3 ? judge_failing(c, steps, expect) : CHECK_FAIL;
    for (int i = 0; i < open; i++)
        c->engine_api->sequence_close(steps[i].sequence);
    return verdict;
}

/* Only three tokens are allowed, then one. */
static enum check_verdict mask(check *c)
{
    int32_t prompt[N];
    pawl_sequence *sequence;
    CHECK_NEED(c, check_engine(c));
    uint32_t words = (c->info.vocab_size + 31) / 32;
    uint32_t *allow = calloc(words, sizeof *allow);
    check_prompt(c, 7, prompt, N);
    if (!allow || !check_open_sequence(c, &sequence)) {
        free(allow);
        return CHECK_FAIL;
    }
    for (int i = 0; i < 3; i++)
        allow[prompt[i] / 32] |= 1u << prompt[i] % 32;
    check_step step = {
        .sequence = sequence, .tokens = prompt, .n = N, .allow = allow, .sample = true};
    bool good = true;
    int32_t token = -1;
    for (int k = 0; k < M && good; k++) {
        if (k == M / 2) {
            memset(allow, 0, words * sizeof *allow);
            allow[prompt[3] / 32] |= 1u << prompt[3] % 32;
        }
        good = check_pass(c, &step, 1, NULL) == PAWL_OK && !step.status && step.token >= 0 &&
               (uint32_t)step.token < c->info.vocab_size &&
               (allow[step.token / 32] >> step.token % 32 & 1);
        token = step.token;
        step.tokens = &token;
        step.n = 1;
    }
    c->engine_api->sequence_close(sequence);
    free(allow);
    CHECK_THAT(c, good, "status %d, token %d, which is not allowed", step.status, token);
    return CHECK_PASS;
}

/* Tokens past the context are a LIMIT, whoever asks. */
static enum check_verdict limit(check *c)
{
    pawl_sequence *sequence;
    CHECK_NEED(c, check_engine(c));
    uint64_t n = c->info.context_limit + 1;
    int32_t *tokens = n <= 65536 ? calloc(n, sizeof *tokens) : NULL;
    if (!tokens)
        return check_say(c, CHECK_SKIP, "a context of %llu is long",
                         (unsigned long long)c->info.context_limit);
    check_prompt(c, 8, tokens, n);
    if (!check_open_sequence(c, &sequence)) {
        free(tokens);
        return CHECK_FAIL;
    }
    pawl_status reserve = c->engine_api->reserve(sequence, n, NULL);
    check_step step = {.sequence = sequence, .tokens = tokens, .n = n, .sample = true};
    pawl_status status = check_pass(c, &step, 1, NULL);
    status = status ? status : step.status;
    c->engine_api->sequence_close(sequence);
    free(tokens);
    CHECK_THAT(c, reserve != PAWL_OK, "reserve() of %llu tokens succeeds", (unsigned long long)n);
    CHECK_THAT(c, status == PAWL_E_LIMIT, "a pass over %llu tokens has status %d and not %d",
               (unsigned long long)n, status, PAWL_E_LIMIT);
    return CHECK_PASS;
}

static void *cancel_soon(void *arg)
{
    check *c = arg;
    const struct timespec pause = {0, 20000000};
    for (int i = 0; i < 5; i++) {
        nanosleep(&pause, NULL);
        c->engine_api->cancel(c->engine);
    }
    return NULL;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* As long a pass as fits; it ends soon, and the engine works afterwards. */
static enum check_verdict cancel(check *c)
{
    pawl_sequence *sequence;
    pthread_t thread;
    int32_t prompt[N], before[M], after[M];
    CHECK_NEED(c, check_fresh(c, 10, prompt, before));
    uint64_t n = c->info.context_limit < 4096 ? c->info.context_limit : 4096;
    int32_t *tokens = calloc(n, sizeof *tokens);
    if (!tokens || !check_open_sequence(c, &sequence)) {
        free(tokens);
        return CHECK_FAIL;
    }
    check_prompt(c, 11, tokens, n);
    check_step step = {.sequence = sequence, .tokens = tokens, .n = n};
    bool started = pthread_create(&thread, NULL, cancel_soon, c) == 0;
    int64_t begin = now_ms();
    pawl_status status = check_pass(c, &step, 1, NULL);
    int64_t ms = now_ms() - begin;
    if (started)
        pthread_join(thread, NULL);
    c->engine_api->sequence_close(sequence);
    free(tokens);
    status = status ? status : step.status;
    CHECK_THAT(c, status == PAWL_OK || status == PAWL_E_CANCELLED, "status %d", status);
    CHECK_THAT(c, ms < 5000, "it took %lld ms", (long long)ms);
    CHECK_NEED(c, check_fresh(c, 10, prompt, after));
    CHECK_NEED(c, check_same(c, "after cancel()", before, after, M));
    return check_say(c, CHECK_PASS, "%s after %lld ms", status ? "cancelled" : "the pass was over",
                     (long long)ms);
}

static const check_rule rules[] = {
    {"info", "info() describes the open model", info},
    {"greedy", "greedy runs of one prompt are equal", greedy},
    {"batch", "a batch gives each sequence what it gets alone", batch},
    {"split", "a prompt in pieces gives what it gives at once", split},
    {"truncate", "a truncated sequence goes on like a fresh one", truncate},
    {"fork", "a fork and its origin do not notice each other", fork_rule},
    {"slot", "a failing slot does not spoil the others", failing_slot},
    {"mask", "only allowed tokens are sampled", mask},
    {"limit", "more tokens than the context holds are PAWL_E_LIMIT", limit},
    {"cancel", "cancel() ends an open pass and spoils nothing", cancel},
    {"top_k", "sampling among the one best token is greedy", check_top_k},
    {"seed", "one seed gives one run", check_seed},
    {"resume", "a resumed run samples what it would have sampled", check_resume},
    {"hot_mask", "only allowed tokens are sampled at high temperature", check_hot_mask},
    {"tops", "the best tokens come sorted, with log-probabilities of one distribution", check_tops},
    {"penalties", "penalties, biases and filters give tokens of the vocabulary", check_penalties},
    {"capacity", "capacity() counts what reserve() takes and refuses", check_capacity},
    {"reserve", "what was reserved is there, also after forks", check_reserve},
    {"returned", "truncate() and closing give back every page, in any order", check_returned},
    {"state", "a saved state goes on like the sequence it came from", check_state_continues},
    {"damage", "a damaged saved state is refused and changes nothing", check_state_damage},
};

const check_group check_engine_group = {"engine", rules, sizeof rules / sizeof *rules};
