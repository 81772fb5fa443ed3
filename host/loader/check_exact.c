/*
 * loader/check_exact.c - group "exact": BATCH_INVARIANT, taken at its word.
 *
 * A timeline is a list of tokens and, for each, a digest of the logits behind it, taken
 * from one pass over all of them. Every rule brings the same tokens into sequences in
 * another way, and each row of logits that comes must have the same bits, each token that
 * is sampled and its log-probability too; those alone, where the engine gives no logits.
 * Engines that do not promise it skip the rules.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_engine.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LANES 6
#define MAX_PIECE 32   /* tokens of a lane in one pass, but where it is alone */
#define SHORT 80       /* tokens of a timeline, where nothing asks for more   */
#define ROUNDS 60      /* of chance                                           */
#define REAL_ROUNDS 15 /* with a model of the user's, which takes its time    */

typedef struct timeline {
    uint64_t n;
    int32_t *tokens;
    uint64_t *rows; /* digest of the logits behind each token    */
    int32_t *next;  /* what is sampled there, greedily           */
    float *logprob; /* of it                                     */
} timeline;

/* One sequence on its way through a timeline. */
typedef struct lane {
    pawl_sequence *sequence;
    timeline *of;
    uint64_t at;
    uint64_t piece; /* tokens in the next pass; 0: it is not in it */
} lane;

typedef struct bits {
    check *c;
    float *logits; /* of a whole pass */
    uint64_t room; /* in rows         */
    uint64_t random;
    const char *how;  /* for a verdict   */
    bool tokens_only; /* it gives no logits */
    int rounds;       /* of chance */
} bits;

static uint64_t digest(const float *row, uint32_t n)
{
    uint64_t hash = 14695981039346656037u;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, &row[i], sizeof word);
        hash = (hash ^ word) * 1099511628211u;
    }
    return hash;
}

/* What a lane's slot brought against its timeline. first: there is nothing yet to compare. */
static enum check_verdict judge(const bits *b, const lane *l, const check_step *step, bool first)
{
    check *c = b->c;
    timeline *of = l->of;
    uint64_t end = l->at + l->piece;
    CHECK_THAT(c, step->status == PAWL_OK, "%s: a slot has status %d", b->how, step->status);
    for (uint64_t i = 0; i < l->piece && !b->tokens_only; i++) {
        uint64_t row = digest(step->logits + i * c->info.vocab_size, c->info.vocab_size);
        if (first)
            of->rows[l->at + i] = row;
        CHECK_THAT(c, row == of->rows[l->at + i], "%s: other logits behind token %llu of %llu",
                   b->how, (unsigned long long)(l->at + i), (unsigned long long)of->n);
    }
    if (of->next[end - 1] < 0) {
        of->next[end - 1] = step->token;
        of->logprob[end - 1] = step->logprob;
    }
    CHECK_THAT(c, step->token == of->next[end - 1], "%s: it samples %d and not %d", b->how,
               step->token, of->next[end - 1]);
    CHECK_THAT(c, memcmp(&step->logprob, &of->logprob[end - 1], sizeof step->logprob) == 0,
               "%s: the log-probability of a token is %.9g and not %.9g", b->how,
               (double)step->logprob, (double)of->logprob[end - 1]);
    return CHECK_PASS;
}

/* One pass over the lanes that have a piece, in the order of the array. */
static enum check_verdict pass(bits *b, lane *lanes, size_t n, bool first)
{
    check *c = b->c;
    check_step steps[MAX_LANES];
    lane *whose[MAX_LANES];
    size_t n_steps = 0;
    uint64_t rows = 0;
    pawl_error why = {.struct_size = sizeof why};
    for (size_t i = 0; i < n; i++) {
        lane *l = &lanes[i];
        if (l->piece == 0)
            continue;
        steps[n_steps] =
            (check_step){.sequence = l->sequence,
                         .tokens = l->of->tokens + l->at,
                         .n = l->piece,
                         .sample = true,
                         .logits = b->tokens_only ? NULL : b->logits + rows * c->info.vocab_size,
                         .n_logits = b->tokens_only ? 0 : l->piece};
        whose[n_steps++] = l;
        rows += l->piece;
        CHECK_THAT(c, rows <= b->room, "the kit has no room for its own pass");
    }
    memset(b->logits, 0xff, (size_t)rows * c->info.vocab_size * sizeof *b->logits);
    if (n_steps && check_pass(c, steps, n_steps, &why))
        return check_say(c, CHECK_FAIL, "%s: a pass failed: %s", b->how, why.message);
    for (size_t k = 0; k < n_steps; k++) {
        CHECK_NEED(c, judge(b, whose[k], &steps[k], first));
        whose[k]->at += whose[k]->piece;
        uint64_t length = c->engine_api->length(whose[k]->sequence);
        CHECK_THAT(c, length == whose[k]->at, "%s: length() is %llu after %llu tokens", b->how,
                   (unsigned long long)length, (unsigned long long)whose[k]->at);
    }
    return CHECK_PASS;
}

/* ---- making and ending ---- */

static void forget(timeline *t)
{
    free(t->tokens);
    free(t->rows);
    free(t->next);
    free(t->logprob);
    *t = (timeline){0};
}

static void close_lanes(const bits *b, lane *lanes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (lanes[i].sequence)
            b->c->engine_api->sequence_close(lanes[i].sequence);
        lanes[i].sequence = NULL;
    }
}

static enum check_verdict begin_lane(const bits *b, lane *l, timeline *of)
{
    *l = (lane){.of = of};
    return check_open_sequence(b->c, &l->sequence) ? CHECK_PASS : CHECK_FAIL;
}

/* Fills a timeline of n tokens from one pass. */
static enum check_verdict record(bits *b, uint64_t seed, uint64_t n, timeline *t)
{
    lane alone;
    *t = (timeline){.n = n};
    t->tokens = calloc(n, sizeof *t->tokens);
    t->rows = calloc(n, sizeof *t->rows);
    t->next = calloc(n, sizeof *t->next);
    t->logprob = calloc(n, sizeof *t->logprob);
    if (!t->tokens || !t->rows || !t->next || !t->logprob)
        return check_say(b->c, CHECK_SKIP, "no memory for a timeline");
    check_prompt(b->c, seed, t->tokens, n);
    for (uint64_t i = 0; i < n; i++)
        t->next[i] = -1;
    CHECK_NEED(b->c, begin_lane(b, &alone, t));
    alone.piece = n;
    b->how = "at once";
    enum check_verdict verdict = pass(b, &alone, 1, true);
    close_lanes(b, &alone, 1);
    return verdict;
}

/* Whether logits are there to be had. */
static enum check_verdict look_for_logits(bits *b)
{
    check *c = b->c;
    int32_t token;
    check_step step = {
        .tokens = &token, .n = 1, .sample = true, .logits = b->logits, .n_logits = 1};
    check_prompt(c, 1, &token, 1);
    if (!check_open_sequence(c, &step.sequence))
        return CHECK_FAIL;
    pawl_status status = check_pass(c, &step, 1, NULL);
    c->engine_api->sequence_close(step.sequence);
    b->tokens_only = !status && step.status == PAWL_E_UNSUPPORTED;
    return CHECK_PASS;
}

/* What every rule begins with: the promise, room, and n timelines. */
static enum check_verdict begin(check *c, bits *b, timeline *lines, size_t n, uint64_t tokens)
{
    *b = (bits){.c = c, .random = 7, .rounds = c->own_model ? REAL_ROUNDS : ROUNDS};
    CHECK_NEED(c, check_invariance(c));
    if (tokens > c->info.context_limit || tokens > 4096)
        return check_say(c, CHECK_SKIP, "%llu tokens do not fit its context",
                         (unsigned long long)tokens);
    b->room = tokens > MAX_LANES * MAX_PIECE ? tokens : MAX_LANES * MAX_PIECE;
    b->logits = calloc(b->room * c->info.vocab_size, sizeof *b->logits);
    if (!b->logits)
        return check_say(c, CHECK_SKIP, "no memory for %llu rows of logits",
                         (unsigned long long)b->room);
    CHECK_NEED(c, look_for_logits(b));
    for (size_t i = 0; i < n; i++)
        CHECK_NEED(c, record(b, 40 + i, tokens, &lines[i]));
    return CHECK_PASS;
}

static void end(bits *b, timeline *lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        forget(&lines[i]);
    free(b->logits);
}

/* ---- the rules ---- */

/* A fresh sequence through a timeline in pieces; piece 0: all sizes mixed. */
static enum check_verdict walk(bits *b, timeline *t, uint64_t piece)
{
    lane l;
    CHECK_NEED(b->c, begin_lane(b, &l, t));
    enum check_verdict verdict = CHECK_PASS;
    while (l.at < t->n && verdict == CHECK_PASS) {
        l.piece = piece ? piece : 1 + check_random(&b->random) % MAX_PIECE;
        l.piece = l.piece < t->n - l.at ? l.piece : t->n - l.at;
        verdict = pass(b, &l, 1, false);
    }
    close_lanes(b, &l, 1);
    return verdict;
}

static enum check_verdict pieces(check *c)
{
    static const uint64_t sizes[] = {1, 2, 3, 7, 16, 31, 64, 0};
    bits b;
    timeline line = {0};
    enum check_verdict verdict = begin(c, &b, &line, 1, SHORT);
    b.how = "in pieces";
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && verdict == CHECK_PASS; i++)
        verdict = walk(&b, &line, sizes[i]);
    end(&b, &line, 1);
    return verdict;
}

/* Lanes change places, stand still, end and begin anew, each at its own pace. */
static enum check_verdict crowd(bits *b, timeline *lines, size_t n_lines, lane *lanes)
{
    for (int round = 0; round < b->rounds; round++) {
        for (size_t i = 0; i < MAX_LANES; i++) {
            size_t k = check_random(&b->random) % MAX_LANES;
            lane other = lanes[k];
            lanes[k] = lanes[i];
            lanes[i] = other;
        }
        for (size_t i = 0; i < MAX_LANES; i++) {
            lane *l = &lanes[i];
            if (l->sequence && l->at == l->of->n)
                close_lanes(b, l, 1);
            if (!l->sequence)
                CHECK_NEED(b->c, begin_lane(b, l, &lines[check_random(&b->random) % n_lines]));
            uint32_t most = check_random(&b->random) % 3 ? 3 : MAX_PIECE;
            l->piece = check_random(&b->random) % most;
            l->piece = l->piece < l->of->n - l->at ? l->piece : l->of->n - l->at;
        }
        CHECK_NEED(b->c, pass(b, lanes, MAX_LANES, false));
    }
    return CHECK_PASS;
}

static enum check_verdict company(check *c)
{
    bits b;
    timeline lines[3] = {{0}};
    lane lanes[MAX_LANES] = {{0}};
    enum check_verdict verdict = begin(c, &b, lines, 3, SHORT);
    b.how = "in company";
    if (verdict == CHECK_PASS)
        verdict = crowd(&b, lines, 3, lanes);
    close_lanes(&b, lanes, MAX_LANES);
    end(&b, lines, 3);
    return verdict;
}

/* The same four slots, turned by one place each time. */
static enum check_verdict turn(bits *b, timeline *lines, lane *lanes)
{
    for (size_t shift = 0; shift < 4; shift++) {
        for (size_t i = 0; i < 4; i++) {
            CHECK_NEED(b->c, begin_lane(b, &lanes[i], &lines[(i + shift) % 4]));
            lanes[i].piece = 5 * ((i + shift) % 4) + 1;
        }
        CHECK_NEED(b->c, pass(b, lanes, 4, false));
        for (size_t i = 0; i < 4; i++)
            lanes[i].piece = 1;
        CHECK_NEED(b->c, pass(b, lanes, 4, false));
        close_lanes(b, lanes, 4);
    }
    return CHECK_PASS;
}

static enum check_verdict order(check *c)
{
    bits b;
    timeline lines[4] = {{0}};
    lane lanes[4] = {{0}};
    enum check_verdict verdict = begin(c, &b, lines, 4, SHORT);
    b.how = "in another order";
    if (verdict == CHECK_PASS)
        verdict = turn(&b, lines, lanes);
    close_lanes(&b, lanes, 4);
    end(&b, lines, 4);
    return verdict;
}

/* Back to an earlier length: by truncate(), or as a fork, after which the origin ends or,
 * where it is kept, goes on first. */
static enum check_verdict go_back(bits *b, lane *l)
{
    check *c = b->c;
    uint64_t reach = c->info.rewind_tokens < l->at ? c->info.rewind_tokens : l->at;
    uint64_t n = l->at - check_random(&b->random) % (reach + 1);
    uint32_t kind = check_random(&b->random) % 3;
    pawl_error why = {.struct_size = sizeof why};
    if (kind == 0) {
        CHECK_THAT(c, !c->engine_api->truncate(l->sequence, n, &why), "truncate: %s", why.message);
        l->at = n;
        return CHECK_PASS;
    }
    lane fork = {.of = l->of, .at = n};
    CHECK_THAT(c, !c->engine_api->fork(l->sequence, n, &fork.sequence, &why), "fork: %s",
               why.message);
    enum check_verdict verdict = CHECK_PASS;
    l->piece = l->of->n - l->at < 3 ? l->of->n - l->at : 3;
    if (kind == 1)
        verdict = pass(b, l, 1, false);
    close_lanes(b, l, 1);
    *l = fork;
    return verdict;
}

/* Forth and back through a timeline, to its end. */
static enum check_verdict wander(bits *b, lane *l)
{
    for (int step = 0; step < b->rounds || l->at < l->of->n; step++) {
        if (step < b->rounds && check_random(&b->random) % 3 == 0)
            CHECK_NEED(b->c, go_back(b, l));
        l->piece = 1 + check_random(&b->random) % (step % 2 ? 4 : MAX_PIECE);
        l->piece = l->piece < l->of->n - l->at ? l->piece : l->of->n - l->at;
        CHECK_NEED(b->c, pass(b, l, 1, false));
    }
    return CHECK_PASS;
}

static enum check_verdict history(check *c)
{
    bits b;
    timeline line = {0};
    lane l = {0};
    enum check_verdict verdict = begin(c, &b, &line, 1, 2 * SHORT);
    b.how = "after forks and truncations";
    if (verdict == CHECK_PASS)
        verdict = begin_lane(&b, &l, &line);
    if (verdict == CHECK_PASS)
        verdict = wander(&b, &l);
    close_lanes(&b, &l, 1);
    end(&b, &line, 1);
    return verdict;
}

/* ---- another instance ---- */

static enum check_verdict open_other(check *c, uint32_t threads, pawl_engine **other)
{
    pawl_engine_config config = check_engine_config(c);
    pawl_error why = {.struct_size = sizeof why};
    config.threads = threads;
    if (c->engine_api->open(&config, NULL, NULL, other, &why) == PAWL_OK)
        return CHECK_PASS;
    return check_say(c, CHECK_FAIL, "a second instance does not open: %s", why.message);
}

static enum check_verdict workers(check *c)
{
    static const uint32_t threads[] = {1, 3};
    bits b;
    timeline line = {0};
    enum check_verdict verdict = begin(c, &b, &line, 1, SHORT);
    b.how = "on another number of threads";
    for (size_t i = 0; i < 2 && verdict == CHECK_PASS; i++) {
        pawl_engine *other, *mine = c->engine;
        verdict = open_other(c, threads[i], &other);
        if (verdict != CHECK_PASS)
            break;
        c->engine = other;
        verdict = walk(&b, &line, SHORT);
        if (verdict == CHECK_PASS)
            verdict = walk(&b, &line, 0);
        c->engine = mine;
        c->engine_api->close(other);
    }
    end(&b, &line, 1);
    return verdict;
}

/* A sequence with a past is saved; one of the other instance goes on from there. */
static enum check_verdict move_over(bits *b, timeline *line, uint64_t n, pawl_engine *other)
{
    check *c = b->c;
    pawl_engine *mine = c->engine;
    lane from = {0}, to = {0};
    timeline part = *line; /* its first n tokens */
    part.n = n;
    CHECK_NEED(c, begin_lane(b, &from, &part));
    enum check_verdict verdict = wander(b, &from);
    c->engine = other;
    if (verdict == CHECK_PASS)
        verdict = begin_lane(b, &to, line);
    if (verdict == CHECK_PASS)
        verdict = check_state_move(c, from.sequence, line->tokens, n, to.sequence);
    if (verdict == CHECK_PASS) {
        to.at = c->engine_api->length(to.sequence);
        to.piece = 3;
        verdict = pass(b, &to, 1, false);
        to.piece = line->n - to.at;
        if (verdict == CHECK_PASS)
            verdict = pass(b, &to, 1, false);
    }
    close_lanes(b, &to, 1);
    c->engine = mine;
    close_lanes(b, &from, 1);
    return verdict;
}

static enum check_verdict instance(check *c)
{
    bits b;
    timeline line = {0};
    pawl_engine *other = NULL;
    CHECK_NEED(c, check_engine(c));
    if (!PAWL_HAS(c->engine_api, state_save) || !PAWL_HAS(c->engine_api, state_load))
        return check_say(c, CHECK_SKIP, "it saves no state");
    uint64_t chunk = c->info.state_chunk ? c->info.state_chunk : 16;
    enum check_verdict verdict = begin(c, &b, &line, 1, 2 * chunk + 24);
    b.how = "in another instance";
    if (verdict == CHECK_PASS)
        verdict = open_other(c, 1, &other);
    if (verdict == CHECK_PASS)
        verdict = move_over(&b, &line, 2 * chunk + 5, other);
    if (other)
        c->engine_api->close(other);
    end(&b, &line, 1);
    return verdict;
}

static const check_rule rules[] = {
    {"pieces", "logits are the same, bit for bit, in passes of any size", pieces},
    {"company", "they are whatever else is in the pass", company},
    {"order", "they are in any order of the slots", order},
    {"history", "they are after forks and truncations of a timeline", history},
    {"workers", "they are on any number of threads", workers},
    {"instance", "they are where another instance goes on from saved state", instance},
};

const check_group check_exact_group = {"exact", rules, sizeof rules / sizeof *rules};
