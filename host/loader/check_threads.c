/*
 * loader/check_threads.c - group "threads": [owner] moves, [any] comes from everywhere.
 *
 * Results must be those of one thread. That shows the coarse mistakes (state by thread,
 * a static buffer, a cancel that sticks); in a build with ThreadSanitizer, host and
 * plugin, these calls show the fine ones. So threads here share nothing of their own but
 * relaxed atomics, which order nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_engine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N CHECK_PROMPT
#define M CHECK_RUN
#define N_HELPERS 3
#define ROUNDS 6
#define LIMIT_MS 5000 /* of waiting for the other threads    */
#define STORM_MS 500  /* or until some passes were cancelled */

static pawl_bytes bytes_of(const char *text)
{
    return (pawl_bytes){text, strlen(text)};
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool stopped(atomic_bool *stop)
{
    return atomic_load_explicit(stop, memory_order_relaxed);
}

/* ---- the owner moves ---- */

typedef struct call {
    check *c;
    pawl_sequence *sequence;
    pawl_sequence *fork; /* out, of fork() */
    const int32_t *tokens;
    uint64_t n;
    int32_t token; /* out, of a pass */
    bool good;     /* out            */
} call;

static void *do_open(void *arg)
{
    call *k = arg;
    k->good = check_open_sequence(k->c, &k->sequence);
    return NULL;
}

static void *do_pass(void *arg)
{
    call *k = arg;
    check_step step = {.sequence = k->sequence, .tokens = k->tokens, .n = k->n, .sample = true};
    k->good = check_pass(k->c, &step, 1, NULL) == PAWL_OK && step.status == PAWL_OK;
    k->token = step.token;
    return NULL;
}

static void *do_fork(void *arg)
{
    call *k = arg;
    k->good = k->c->engine_api->fork(k->sequence, k->n, &k->fork, NULL) == PAWL_OK;
    return NULL;
}

static void *do_close(void *arg)
{
    call *k = arg;
    k->c->engine_api->sequence_close(k->sequence);
    k->good = true;
    return NULL;
}

/* One call on a thread of its own; false: it failed. */
static bool elsewhere(call *k, void *(*what)(void *))
{
    pthread_t thread;
    k->good = false;
    return pthread_create(&thread, NULL, what, k) == 0 && pthread_join(thread, NULL) == 0 &&
           k->good;
}

static enum check_verdict owner(check *c)
{
    int32_t prompt[N], expect[M], out[M];
    CHECK_NEED(c, check_fresh(c, 21, prompt, expect));
    call k = {.c = c, .tokens = prompt, .n = N};
    if (!elsewhere(&k, do_open))
        return check_say(c, CHECK_FAIL, "no sequence can be opened on another thread");
    int done = 0;
    for (; done < M && elsewhere(&k, do_pass); done++) {
        out[done] = k.token;
        k.tokens = &out[done];
        k.n = 1;
        if (done == M / 2) { /* the fork goes on */
            k.n = k.c->engine_api->length(k.sequence);
            if (!elsewhere(&k, do_fork) || !elsewhere(&k, do_close))
                break;
            k.sequence = k.fork;
            k.n = 1;
        }
    }
    elsewhere(&k, do_close);
    CHECK_THAT(c, done == M, "a pass or fork on another thread failed");
    return check_same(c, "from changing threads", expect, out, M);
}

/* ---- [any] while passes run ---- */

typedef struct helper {
    check *c;
    atomic_bool *stop;
    bool (*look)(struct helper *h); /* true: the answer is as it should be */
    atomic_ulong calls;             /* out                                 */
    uint64_t wrong;                 /* out                                 */
    uint64_t expect;                /* of the answer                       */
    pthread_t thread;
} helper;

static void *help(void *arg)
{
    helper *h = arg;
    const struct timespec pause = {0, 200000};
    while (!stopped(h->stop)) {
        h->wrong += !h->look(h);
        atomic_fetch_add_explicit(&h->calls, 1, memory_order_relaxed);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Starts them; gives how many run. */
static int start(helper *helpers, int n)
{
    int i = 0;
    while (i < n && pthread_create(&helpers[i].thread, NULL, help, &helpers[i]) == 0)
        i++;
    return i;
}

static void stop(helper *helpers, int n)
{
    if (n)
        atomic_store_explicit(helpers[0].stop, true, memory_order_relaxed);
    for (int i = 0; i < n; i++)
        pthread_join(helpers[i].thread, NULL);
}

static uint64_t calls_of(helper *h)
{
    return atomic_load_explicit(&h->calls, memory_order_relaxed);
}

/* Each has asked a few times. */
static bool all_called(helper *helpers, int n)
{
    for (int i = 0; i < n; i++)
        if (calls_of(&helpers[i]) < ROUNDS)
            return false;
    return true;
}

static bool look_capacity(helper *h)
{
    uint64_t total = 0, unused = 1;
    pawl_engine_info info = {.struct_size = sizeof info};
    h->c->engine_api->capacity(h->c->engine, &total, &unused);
    h->c->engine_api->info(h->c->engine, &info);
    return unused <= total && info.vocab_size == h->c->info.vocab_size;
}

static pawl_status hash_bytes(void *context, const void *data, uint64_t size)
{
    uint64_t *hash = context;
    for (uint64_t i = 0; i < size; i++)
        *hash = (*hash ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return PAWL_OK;
}

static uint64_t inspect_hash(check *c)
{
    uint64_t hash = 14695981039346656037u;
    pawl_sink to = {&hash, hash_bytes};
    return c->engine_api->inspect(bytes_of(c->model), &to, NULL) ? 0 : hash;
}

static bool look_inspect(helper *h)
{
    return inspect_hash(h->c) == h->expect;
}

/* Ids of a text and the bytes they stand for, as a number. */
static uint64_t encode_hash(check *c)
{
    static const char text[] = "Words of na\xc3\xafve w\xc3\xb6rld, 123!\n\tfor (;;) <|im_end|>";
    int32_t ids[256];
    uint64_t n = 0, hash = 14695981039346656037u;
    pawl_segment segments[] = {{{text, sizeof text - 1}, PAWL_SEGMENT_LITERAL},
                               {{text, sizeof text - 1}, PAWL_SEGMENT_CONTROL}};
    if (c->tokenizer_api->encode(c->tokenizer, segments, 2, ids, 256, &n, NULL) || n > 256)
        return 0;
    hash_bytes(&hash, ids, n * sizeof *ids);
    for (uint64_t i = 0; i < n; i++) {
        pawl_bytes piece = c->tokenizer_api->piece(c->tokenizer, ids[i]);
        uint32_t flags = c->tokenizer_api->token_flags(c->tokenizer, ids[i]);
        hash_bytes(&hash, piece.data, piece.size);
        hash_bytes(&hash, &flags, sizeof flags);
    }
    return hash;
}

static bool look_encode(helper *h)
{
    return encode_hash(h->c) == h->expect;
}

static enum check_verdict any(check *c)
{
    int32_t prompt[N], expect[M], out[M];
    atomic_bool end = false;
    CHECK_NEED(c, check_fresh(c, 22, prompt, expect));
    bool tokenizer = check_tokenizer(c) == CHECK_PASS;
    c->why[0] = '\0';
    helper helpers[N_HELPERS] = {{c, &end, look_capacity, .expect = 0},
                                 {c, &end, look_inspect, .expect = inspect_hash(c)},
                                 {c, &end, look_encode, .expect = 0}};
    if (tokenizer)
        helpers[2].expect = encode_hash(c);
    enum check_verdict verdict = CHECK_PASS;
    int n = start(helpers, tokenizer ? 3 : 2);
    int64_t limit = now_ms() + LIMIT_MS;
    for (bool enough = false; !enough && verdict == CHECK_PASS;) {
        enough = all_called(helpers, n) || now_ms() > limit; /* a round more, then */
        verdict = check_fresh(c, 22, prompt, out);
        if (verdict == CHECK_PASS)
            verdict = check_same(c, "while others ask", expect, out, M);
    }
    stop(helpers, n);
    CHECK_NEED(c, verdict);
    static const char *const names[] = {"capacity() and info()", "inspect()",
                                        "encode() and piece()"};
    for (int i = 0; i < n; i++)
        CHECK_THAT(c, helpers[i].wrong == 0, "%s gave other answers %llu times of %llu", names[i],
                   (unsigned long long)helpers[i].wrong, (unsigned long long)calls_of(&helpers[i]));
    return CHECK_PASS;
}

/* ---- cancel from everywhere ---- */

/* At uneven times, so that some passes end before it comes. */
static bool look_cancel(helper *h)
{
    const struct timespec pause = {0, (long)(calls_of(h) * 7 % 16) * 1000000};
    nanosleep(&pause, NULL);
    h->c->engine_api->cancel(h->c->engine);
    return true;
}

/* Passes until the time is over; each is done, or cancelled and as if it never was. */
static enum check_verdict storm(check *c, pawl_sequence *sequence, const int32_t *prompt,
                                int *cancelled)
{
    int done = 0;
    check_step step = {.sequence = sequence, .tokens = prompt, .n = N};
    int64_t limit = now_ms() + STORM_MS;
    while ((done < 3 || *cancelled < 3) && now_ms() < limit) {
        uint64_t before = c->engine_api->length(sequence);
        pawl_status status = check_pass(c, &step, 1, NULL);
        status = status ? status : step.status;
        CHECK_THAT(c, status == PAWL_OK || status == PAWL_E_CANCELLED, "status %d", status);
        uint64_t after = c->engine_api->length(sequence);
        CHECK_THAT(c, after == before + (status ? 0 : N), "length %llu after %llu, status %d",
                   (unsigned long long)after, (unsigned long long)before, status);
        done += !status;
        *cancelled += status == PAWL_E_CANCELLED;
        if (after + N > c->info.context_limit || after > 400)
            CHECK_THAT(c, c->engine_api->truncate(sequence, 0, NULL) == PAWL_OK, "truncate fails");
    }
    return CHECK_PASS;
}

static enum check_verdict cancel(check *c)
{
    int32_t prompt[N], before[M], after[M];
    atomic_bool end = false;
    pawl_sequence *sequence;
    int cancelled = 0;
    CHECK_NEED(c, check_fresh(c, 23, prompt, before));
    if (!check_open_sequence(c, &sequence))
        return CHECK_FAIL;
    helper helpers[2] = {{c, &end, look_cancel, .expect = 0}, {c, &end, look_cancel, .expect = 0}};
    int n = start(helpers, 2);
    enum check_verdict verdict = storm(c, sequence, prompt, &cancelled);
    stop(helpers, n);
    c->engine_api->sequence_close(sequence);
    CHECK_NEED(c, verdict);
    CHECK_NEED(c, check_fresh(c, 23, prompt, after));
    CHECK_NEED(c, check_same(c, "after many cancel()", before, after, M));
    return check_say(c, CHECK_PASS, "%d passes were cancelled", cancelled);
}

/* ---- instances side by side ---- */

typedef struct instance {
    check own; /* a copy with an engine of its own */
    int32_t prompt[N];
    int32_t out[M];
    enum check_verdict verdict;
} instance;

static void *live(void *arg)
{
    instance *i = arg;
    i->verdict = check_fresh(&i->own, 24, i->prompt, i->out);
    return NULL;
}

static enum check_verdict side_by_side(check *c, instance *two, const int32_t *expect)
{
    pthread_t threads[2];
    int n = 0;
    while (n < 2 && pthread_create(&threads[n], NULL, live, &two[n]) == 0)
        n++;
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++) {
        CHECK_THAT(c, two[i].verdict == CHECK_PASS, "%s", two[i].own.why);
        CHECK_NEED(c, check_same(c, "beside another engine", expect, two[i].out, M));
    }
    return CHECK_PASS;
}

static enum check_verdict instances(check *c)
{
    int32_t prompt[N], expect[M];
    pawl_error why = {.struct_size = sizeof why};
    CHECK_NEED(c, check_fresh(c, 24, prompt, expect));
    pawl_engine_config config = check_engine_config(c);
    instance *two = calloc(2, sizeof *two);
    if (!two)
        return check_say(c, CHECK_SKIP, "no memory");
    two[0].own = two[1].own = *c;
    pawl_status status = c->engine_api->open(&config, NULL, NULL, &two[1].own.engine, &why);
    enum check_verdict verdict = CHECK_PASS;
    if (status)
        verdict = check_say(c, status == PAWL_E_MEMORY ? CHECK_SKIP : CHECK_FAIL,
                            "a second engine does not open: %s", why.message);
    for (int i = 0; i < ROUNDS && verdict == CHECK_PASS; i++)
        verdict = side_by_side(c, two, expect);
    if (!status)
        c->engine_api->close(two[1].own.engine);
    free(two);
    return verdict;
}

/* ---- tokenizer and chat ---- */

/* The same look on several threads at once, for a while. */
static enum check_verdict all_look(check *c, bool (*look)(helper *h), uint64_t expect)
{
    atomic_bool end = false;
    helper helpers[4];
    const struct timespec a_while = {0, 100000000};
    CHECK_THAT(c, expect, "it fails on one thread");
    for (int i = 0; i < 4; i++)
        helpers[i] = (helper){c, &end, look, .expect = expect};
    int n = start(helpers, 4);
    nanosleep(&a_while, NULL);
    stop(helpers, n);
    uint64_t calls = 0, wrong = 0;
    for (int i = 0; i < n; i++) {
        calls += calls_of(&helpers[i]);
        wrong += helpers[i].wrong;
    }
    CHECK_THAT(c, wrong == 0, "%llu answers of %llu are others", (unsigned long long)wrong,
               (unsigned long long)calls);
    return check_say(c, CHECK_PASS, "%llu times on %d threads", (unsigned long long)calls, n);
}

static enum check_verdict encode(check *c)
{
    CHECK_NEED(c, check_tokenizer(c));
    return all_look(c, look_encode, encode_hash(c));
}

static void hash_event(void *arg, const pawl_chat_event *event)
{
    hash_bytes(arg, &event->type, sizeof event->type);
    hash_bytes(arg, event->text.data, event->text.size);
}

/* A prompt, and a reply through a parser of this thread's own, as a number. */
static uint64_t chat_hash(check *c)
{
    static const char request[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello w\\u00f6rld\"}]}";
    uint64_t hash = 14695981039346656037u;
    pawl_sink to = {&hash, hash_bytes};
    pawl_parser *parser;
    pawl_segment piece = {bytes_of("Some <b>text</b>"), PAWL_SEGMENT_LITERAL};
    if (c->chat_api->render(c->chat, bytes_of(request), &to, NULL) ||
        c->chat_api->parser_open(c->chat, bytes_of(request), &parser, NULL))
        return 0;
    bool good = c->chat_api->feed(parser, piece, hash_event, &hash, NULL) == PAWL_OK &&
                c->chat_api->finish(parser, hash_event, &hash, NULL) == PAWL_OK;
    c->chat_api->parser_close(parser);
    return good ? hash : 0;
}

static bool look_chat(helper *h)
{
    return chat_hash(h->c) == h->expect;
}

static enum check_verdict chat(check *c)
{
    CHECK_NEED(c, check_open_chat(c, &c->chat));
    enum check_verdict verdict = all_look(c, look_chat, chat_hash(c));
    c->chat_api->close(c->chat);
    c->chat = NULL;
    return verdict;
}

static const check_rule rules[] = {
    {"owner", "each call on an engine may come from another thread", owner},
    {"any", "capacity, inspect and encode answer while passes run, and do not disturb", any},
    {"cancel", "cancel() from many threads only cancels", cancel},
    {"instances", "two engines run side by side and do not notice", instances},
    {"encode", "the tokenizer answers many threads at once", encode},
    {"chat", "a dialect renders, and parsers parse, on many threads at once", chat},
};

const check_group check_threads_group = {"threads", rules, sizeof rules / sizeof *rules};
