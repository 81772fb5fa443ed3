/*
 * tests/unit/cpu/same_bits.h - a cast of sequences, and ways to play it.
 *
 * A script says what each part is: a prompt, then tokens that the model chose by
 * itself. It was written by the plainest run there is: alone, in one piece, on one
 * thread. play() runs some parts again in some other way and looks whether every
 * token and the bits of every row of logits are those of the script.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_UNIT_CPU_SAME_BITS_H
#define TESTS_UNIT_CPU_SAME_BITS_H

#include "blob.h"
#include "tiny.h"

#define CAST 16u
#define ALL_PARTS 0xffffu
#define GARBAGE 70u /* tokens that a sequence is led astray with: more than a page */
#define WHOLE SIZE_MAX

typedef struct part {
    size_t prompt;   /* tokens given                                            */
    size_t total;    /* and with those that were chosen                         */
    int32_t *tokens; /* total                                                   */
    uint64_t *bits;  /* total; of the logits behind each token, 0: not looked at */
} part;

typedef struct script {
    const char *path; /* of the model                                   */
    const char *options;
    uint32_t vocab;
    size_t looked; /* at so many of a prompt's last rows, and all later */
    part parts[CAST];
} script;

/* What may happen to a sequence between two steps. */
enum event {
    EVENT_FORK = 1,     /* goes on as a fork; the trunk goes astray       */
    EVENT_TRUNCATE = 2, /* goes astray, is cut back, goes on              */
    EVENT_RELOAD = 4,   /* is saved, closed, loaded                       */
    EVENT_PREEMPT = 8,  /* is closed; all is computed again               */
    EVENT_ALL = 15
};

typedef struct way {
    uint32_t who;     /* bit i: part i is played                  */
    size_t chunk;     /* most tokens of one sequence in one step  */
    size_t stagger;   /* steps from one entrance to the next      */
    uint32_t events;  /* of enum event                            */
    uint32_t *happen; /* out, or NULL: those that took place      */
} way;

typedef struct player {
    const part *part;
    pawl_sequence *sequence;
    size_t at;    /* tokens with state                        */
    size_t known; /* tokens given or chosen so far            */
    int32_t *tokens;
    size_t compared;
    uint32_t events; /* that may still happen                 */
} player;

static inline uint64_t bits_of(const float *row, uint32_t n)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &row[i], sizeof bits);
        sum = (sum ^ bits) * 0x100000001b3u;
        sum ^= sum >> 29;
    }
    return sum ? sum : 1;
}

static inline pawl_engine *cast_engine(const char *path, uint32_t threads, const char *options)
{
    pawl_engine *engine = NULL;
    pawl_error error = {.struct_size = sizeof error};
    pawl_engine_config config = tiny_config(path, threads, options);
    config.max_sequences = CAST + 1; /* a fork beside its trunk */
    config.max_context = 1024;
    if (tiny_api()->open(&config, NULL, NULL, &engine, &error) != PAWL_OK)
        fail_msg("open: %s", error.message);
    return engine;
}

/* How many logits a slot asks for that appends tokens [at, end). */
static inline size_t rows_looked_at(const script *s, const part *p, size_t at, size_t end)
{
    size_t first = p->prompt > s->looked ? p->prompt - s->looked : 0;
    size_t from = at > first ? at : first;
    return end > from ? end - from : 0;
}

/* Runs a part as the script will have it. */
static inline void write_part(pawl_engine *engine, const script *s, part *p)
{
    pawl_sequence *sequence = tiny_sequence(engine);
    for (size_t at = 0, n = p->prompt; at < p->total; at += n, n = 1) {
        size_t rows = rows_looked_at(s, p, at, at + n);
        float *logits = tiny_floats(rows * s->vocab);
        int32_t out;
        pawl_slot slot = {.sequence = sequence,
                          .tokens = p->tokens + at,
                          .n_tokens = n,
                          .flags = PAWL_SLOT_SAMPLE,
                          .out_tokens = &out,
                          .logits = logits,
                          .n_logits = rows};
        assert_int_equal(PAWL_OK, tiny_submit(engine, &slot, 1));
        assert_int_equal(PAWL_OK, slot.status);
        for (size_t i = 0; i < rows; i++)
            p->bits[at + n - rows + i] = bits_of(logits + i * s->vocab, s->vocab);
        if (at + n < p->total)
            p->tokens[at + n] = out;
        free(logits);
    }
    tiny_api()->sequence_close(sequence);
}

/* lengths: CAST of them, 0: no such part. */
static inline void write_script(script *s, const size_t *lengths, size_t generated)
{
    pawl_engine *engine = cast_engine(s->path, 1, s->options);
    for (size_t i = 0; i < CAST; i++) {
        part *p = &s->parts[i];
        p->prompt = lengths[i];
        p->total = lengths[i] ? lengths[i] + generated : 0;
        p->tokens = tiny_tokens(100 + i, p->total + 1, s->vocab);
        p->bits = calloc(p->total + 1, sizeof *p->bits);
        if (p->total)
            write_part(engine, s, p);
    }
    tiny_api()->close(engine);
}

static inline void clear_script(script *s)
{
    for (size_t i = 0; i < CAST; i++) {
        free(s->parts[i].tokens);
        free(s->parts[i].bits);
    }
}

/* Appends tokens that belong to no part. */
static inline void lead_astray(pawl_engine *engine, const script *s, pawl_sequence *sequence,
                               uint64_t seed)
{
    int32_t *tokens = tiny_tokens(seed, GARBAGE, s->vocab);
    tiny_run(engine, sequence, tokens, 1 + seed % GARBAGE, NULL, 0);
    free(tokens);
}

static inline void let_happen(pawl_engine *engine, const script *s, player *p, uint32_t event,
                              uint64_t random)
{
    const pawl_engine_api *api = tiny_api();
    pawl_sequence *old = p->sequence;
    size_t back = random % (p->at + 1);
    blob saved = {0};
    switch (event) {
    case EVENT_FORK:
        assert_int_equal(PAWL_OK, api->fork(old, back, &p->sequence, NULL));
        lead_astray(engine, s, old, random);
        api->sequence_close(old);
        p->at = back;
        break;
    case EVENT_TRUNCATE:
        lead_astray(engine, s, old, random);
        assert_int_equal(PAWL_OK, api->truncate(old, back, NULL));
        p->at = back;
        break;
    case EVENT_RELOAD:
        blob_save_all(&saved, old, p->at);
        api->sequence_close(old);
        p->sequence = tiny_sequence(engine);
        blob_load_all(&saved, p->sequence, p->tokens, p->at);
        free(saved.data);
        break;
    default: /* EVENT_PREEMPT */
        api->sequence_close(old);
        p->sequence = tiny_sequence(engine);
        p->at = 0;
    }
}

/* Each event once for each player, at some time. */
static inline void disturb(pawl_engine *engine, const script *s, player *p, const way *w,
                           uint64_t *seed)
{
    uint64_t random = tiny_next(seed);
    uint32_t event = 1u << random % 4;
    if (p->at == 0 || !(p->events & event) || random >> 8 & 1)
        return;
    p->events &= ~event;
    if (w->happen)
        *w->happen |= event;
    let_happen(engine, s, p, event, random >> 16);
}

/* What came out of a step, against the script. */
static inline void compare(const script *s, player *p, const pawl_slot *slot, const char *what)
{
    size_t n = slot->n_tokens, rows = slot->n_logits;
    for (size_t i = 0; i < rows; i++) {
        size_t at = p->at + n - rows + i;
        if (bits_of(slot->logits + i * s->vocab, s->vocab) != p->part->bits[at])
            fail_msg("%s: part of %zu tokens: the logits behind token %zu differ", what,
                     p->part->prompt, at);
        p->compared++;
    }
    p->at += n;
    if (p->at < p->known || p->known == p->part->total)
        return;
    if (slot->out_tokens[0] != p->part->tokens[p->known])
        fail_msg("%s: part of %zu tokens: token %zu differs", what, p->part->prompt, p->known);
    p->tokens[p->known++] = slot->out_tokens[0];
}

/* One step of all who are on stage, in another order each time. False: all are done. */
static inline bool step(pawl_engine *engine, const script *s, player *players, const way *w,
                        size_t number, const char *what)
{
    pawl_slot slots[CAST] = {{0}};
    player *owners[CAST];
    int32_t out[CAST];
    size_t n = 0;
    bool more = false;
    for (size_t i = 0; i < CAST; i++) {
        size_t who = (i + number * 5) % CAST;
        player *p = &players[who];
        if (!p->part || p->at == p->part->total)
            continue;
        more = true;
        if (number < who * w->stagger)
            continue;
        size_t end = w->chunk < p->known - p->at ? p->at + w->chunk : p->known;
        size_t rows = rows_looked_at(s, p->part, p->at, end);
        owners[n] = p;
        slots[n] = (pawl_slot){.sequence = p->sequence,
                               .tokens = p->tokens + p->at,
                               .n_tokens = end - p->at,
                               .flags = PAWL_SLOT_SAMPLE,
                               .out_tokens = &out[n],
                               .logits = tiny_floats(rows * s->vocab),
                               .n_logits = rows};
        n++;
    }
    assert_int_equal(PAWL_OK, tiny_submit(engine, slots, n));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(PAWL_OK, slots[i].status);
        compare(s, owners[i], &slots[i], what);
        free(slots[i].logits);
    }
    return more;
}

static inline void play(pawl_engine *engine, const script *s, const way *w, const char *what)
{
    player players[CAST] = {{0}};
    uint64_t seed = 17, total, left;
    for (size_t i = 0; i < CAST; i++) {
        const part *p = &s->parts[i];
        if (!(w->who >> i & 1) || p->total == 0)
            continue;
        players[i] = (player){.part = p,
                              .sequence = tiny_sequence(engine),
                              .known = p->prompt,
                              .tokens = tiny_tokens(0, p->total, s->vocab),
                              .events = w->events};
        memcpy(players[i].tokens, p->tokens, p->prompt * sizeof *p->tokens);
    }
    for (size_t number = 0; step(engine, s, players, w, number, what); number++)
        for (size_t i = 0; w->events && i < CAST; i++)
            if (players[i].part && players[i].at < players[i].part->total)
                disturb(engine, s, &players[i], w, &seed);
    for (size_t i = 0; i < CAST; i++) {
        player *p = &players[i];
        if (!p->part)
            continue;
        assert_true(p->compared >= rows_looked_at(s, p->part, 0, p->part->total));
        tiny_api()->sequence_close(p->sequence);
        free(p->tokens);
    }
    tiny_api()->capacity(engine, &total, &left);
    assert_int_equal(total, left);
}

#endif /* TESTS_UNIT_CPU_SAME_BITS_H */
