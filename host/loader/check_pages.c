/*
 * loader/check_pages.c - engine rules about pages: capacity() and reserve() tell the truth.
 *
 * Admission rests on two numbers. If reserve() takes less than its tokens will need, a
 * turn fails for memory that another one took; if a closed sequence or a truncation gives
 * back more or less than was taken, the numbers drift for as long as a server runs. Forks
 * are where both go wrong: a page that two sequences share is counted once, and must be
 * there a second time when one of them writes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_engine.h"

#include <stdlib.h>

#define MAX_OPEN 8 /* as check_engine_config() asks for */
#define HEAD 37    /* tokens before the fork: no multiple of a usual page */
#define MORE 75    /* tokens that are reserved beyond it */
#define ROUNDS 40

typedef struct counts {
    uint64_t total, unused;
} counts;

static counts count(check *c)
{
    counts n = {0, 0};
    c->engine_api->capacity(c->engine, &n.total, &n.unused);
    return n;
}

static void close_all(check *c, pawl_sequence **open, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (open[i])
            c->engine_api->sequence_close(open[i]);
        open[i] = NULL;
    }
}

static enum check_verdict append(check *c, pawl_sequence *sequence, uint64_t n, const char *what)
{
    int32_t tokens[MORE];
    check_prompt(c, n, tokens, n);
    check_step step = {.sequence = sequence, .tokens = tokens, .n = n};
    pawl_error why = {.struct_size = sizeof why};
    pawl_status status = check_pass(c, &step, 1, &why);
    status = status ? status : step.status;
    CHECK_THAT(c, status == PAWL_OK, "%s: a pass of %llu tokens has status %d", what,
               (unsigned long long)n, status);
    return CHECK_PASS;
}

/* ---- capacity ---- */

/* One reservation against the numbers before and after it. Sets *full when it fails. */
static enum check_verdict judge_reserve(check *c, pawl_sequence *sequence, uint64_t n, bool *full)
{
    uint64_t pages = (n + c->info.page_tokens - 1) / c->info.page_tokens;
    counts before = count(c);
    pawl_error why = {.struct_size = sizeof why};
    pawl_status status = c->engine_api->reserve(sequence, n, &why);
    counts after = count(c);
    CHECK_THAT(c, after.total == before.total, "%llu pages in all became %llu",
               (unsigned long long)before.total, (unsigned long long)after.total);
    *full = status == PAWL_E_MEMORY;
    if (*full) {
        CHECK_THAT(c, before.unused < pages, "reserve() of %llu pages fails; %llu are free",
                   (unsigned long long)pages, (unsigned long long)before.unused);
        CHECK_THAT(c, after.unused == before.unused, "a failing reserve() keeps %lld pages",
                   (long long)(before.unused - after.unused));
        return CHECK_PASS;
    }
    CHECK_THAT(c, status == PAWL_OK, "reserve: %s", why.message);
    CHECK_THAT(c, before.unused - after.unused == pages,
               "reserve() of %llu tokens takes %lld pages of %u", (unsigned long long)n,
               (long long)(before.unused - after.unused), c->info.page_tokens);
    return CHECK_PASS;
}

enum check_verdict check_capacity(check *c)
{
    pawl_sequence *open[MAX_OPEN] = {NULL};
    CHECK_NEED(c, check_engine(c));
    counts first = count(c);
    enum check_verdict verdict = CHECK_PASS;
    bool full = false;
    CHECK_THAT(c, first.unused == first.total && first.total,
               "%llu pages of %llu are free and no sequence is open",
               (unsigned long long)first.unused, (unsigned long long)first.total);
    for (size_t i = 0; i < MAX_OPEN && verdict == CHECK_PASS && !full; i++) {
        if (c->engine_api->sequence_open(c->engine, &open[i], NULL) != PAWL_OK)
            break;
        uint64_t n = i ? c->info.context_limit : c->info.context_limit / 2 + 1;
        verdict = judge_reserve(c, open[i], n, &full);
    }
    close_all(c, open, MAX_OPEN);
    if (verdict != CHECK_PASS)
        return verdict;
    counts last = count(c);
    CHECK_THAT(c, last.unused == first.unused, "%llu pages are free at the end, %llu at first",
               (unsigned long long)last.unused, (unsigned long long)first.unused);
    return check_say(c, CHECK_PASS, "%llu pages of %u tokens%s", (unsigned long long)first.total,
                     c->info.page_tokens, full ? ", all used up" : "");
}

/* ---- reserve ---- */

/* Takes what is free, as far as sequences go. */
static void take_rest(check *c, pawl_sequence **open, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (c->engine_api->sequence_open(c->engine, &open[i], NULL) != PAWL_OK)
            return;
        uint64_t tokens = c->info.context_limit;
        while (tokens && c->engine_api->reserve(open[i], tokens, NULL) != PAWL_OK)
            tokens /= 2;
    }
}

/* MORE tokens in pieces; no page that nobody held may be needed for them. */
static enum check_verdict use_up(check *c, pawl_sequence *sequence, const char *what)
{
    static const uint64_t pieces[] = {1, 5, 29, 1, MORE - 36};
    uint64_t before = count(c).unused;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        CHECK_NEED(c, append(c, sequence, pieces[i], what));
        uint64_t now = count(c).unused;
        CHECK_THAT(c, now >= before, "%s: appending what was reserved takes %llu more pages", what,
                   (unsigned long long)(before - now));
    }
    return CHECK_PASS;
}

/* An origin that has reserved is forked twice; the first fork reserves, too. */
static enum check_verdict with_forks(check *c, pawl_sequence **open)
{
    pawl_error why = {.struct_size = sizeof why};
    if (!check_open_sequence(c, &open[0]))
        return CHECK_FAIL;
    CHECK_NEED(c, append(c, open[0], HEAD, "the origin"));
    CHECK_THAT(c, !c->engine_api->reserve(open[0], MORE, &why), "reserve: %s", why.message);
    for (int i = 1; i < 3; i++)
        CHECK_THAT(c, !c->engine_api->fork(open[0], HEAD, &open[i], &why), "fork: %s", why.message);
    CHECK_THAT(c, !c->engine_api->reserve(open[1], MORE, &why), "reserve of a fork: %s",
               why.message);
    take_rest(c, open + 3, MAX_OPEN - 3);
    CHECK_NEED(c, use_up(c, open[0], "an origin of forks"));
    return use_up(c, open[1], "a fork");
}

enum check_verdict check_reserve(check *c)
{
    pawl_sequence *open[MAX_OPEN] = {NULL};
    CHECK_NEED(c, check_engine(c));
    if (c->info.context_limit < HEAD + MORE || count(c).total * c->info.page_tokens < 512)
        return check_say(c, CHECK_SKIP, "its context or its pages are too few");
    enum check_verdict verdict = with_forks(c, open);
    close_all(c, open, MAX_OPEN);
    return verdict;
}

/* ---- returned ---- */

/* One sequence opens, grows, is cut, forked or closed. */
static enum check_verdict disturb(check *c, pawl_sequence **open, uint64_t *random)
{
    size_t i = check_random(random) % MAX_OPEN, k = check_random(random) % MAX_OPEN;
    uint64_t length = open[i] ? c->engine_api->length(open[i]) : 0;
    uint64_t n = check_random(random) % 40 + 1;
    switch (check_random(random) % 5) {
    case 0:
        close_all(c, &open[i], 1);
        return CHECK_PASS;
    case 1: /* reserved and not used */
        if (open[i] && length + 2 * n < c->info.context_limit)
            c->engine_api->reserve(open[i], 2 * n, NULL);
        return CHECK_PASS;
    case 2:
        if (open[i] && n < length && n <= c->info.rewind_tokens)
            CHECK_THAT(c, !c->engine_api->truncate(open[i], length - n, NULL), "truncate failed");
        return CHECK_PASS;
    case 3:
        if (open[i] && !open[k])
            c->engine_api->fork(open[i], length, &open[k], NULL);
        return CHECK_PASS;
    default:
        if (!open[i])
            return check_open_sequence(c, &open[i]) ? CHECK_PASS : CHECK_FAIL;
        return length + n < 300 && length + n < c->info.context_limit
                   ? append(c, open[i], n, "beside forks")
                   : CHECK_PASS;
    }
}

/* What is left of a sequence that was cut to its own length and then to nothing. */
static enum check_verdict cut_to_nothing(check *c, pawl_sequence *sequence)
{
    uint64_t before = count(c).unused;
    pawl_error why = {.struct_size = sizeof why};
    CHECK_NEED(c, append(c, sequence, HEAD, "a fresh sequence"));
    CHECK_THAT(c, !c->engine_api->truncate(sequence, HEAD, &why), "truncate: %s", why.message);
    uint64_t with = count(c).unused;
    CHECK_THAT(c, !c->engine_api->reserve(sequence, MORE, &why), "reserve: %s", why.message);
    CHECK_THAT(c, !c->engine_api->truncate(sequence, HEAD, &why), "truncate: %s", why.message);
    CHECK_THAT(c, count(c).unused == with, "truncate() keeps %lld pages that were reserved",
               (long long)(with - count(c).unused));
    if (c->info.rewind_tokens < HEAD)
        return CHECK_PASS;
    CHECK_THAT(c, !c->engine_api->truncate(sequence, 0, &why), "truncate: %s", why.message);
    CHECK_THAT(c, count(c).unused == before, "an empty sequence holds %lld pages",
               (long long)(before - count(c).unused));
    return CHECK_PASS;
}

enum check_verdict check_returned(check *c)
{
    pawl_sequence *open[MAX_OPEN] = {NULL};
    uint64_t random = 11;
    CHECK_NEED(c, check_engine(c));
    if (c->info.context_limit < HEAD + MORE)
        return check_say(c, CHECK_SKIP, "its context is short");
    counts first = count(c);
    enum check_verdict verdict = check_open_sequence(c, &open[0]) ? CHECK_PASS : CHECK_FAIL;
    if (verdict == CHECK_PASS)
        verdict = cut_to_nothing(c, open[0]);
    for (int i = 0; i < ROUNDS * MAX_OPEN && verdict == CHECK_PASS; i++) {
        verdict = disturb(c, open, &random);
        counts now = count(c);
        if (verdict == CHECK_PASS && now.unused > now.total)
            verdict = check_say(c, CHECK_FAIL, "%llu pages of %llu are free",
                                (unsigned long long)now.unused, (unsigned long long)now.total);
    }
    close_all(c, open, MAX_OPEN);
    if (verdict != CHECK_PASS)
        return verdict;
    counts last = count(c);
    CHECK_THAT(c, last.unused == first.unused, "%lld pages are missing when all is closed",
               (long long)(first.unused - last.unused));
    return CHECK_PASS;
}
