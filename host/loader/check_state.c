/*
 * loader/check_state.c - engine rules about saved state: chunks and the boundary.
 *
 * A sequence of two chunks and a few tokens is saved chunk by chunk; the boundary is
 * saved where the engine says that it needs one. Loading goes into a second sequence,
 * byte by byte, as the slowest of sources would. For group "exchange" the state goes
 * through a file, to another process:
 *
 *   chunk u64 | kv_format[256] | expected ids i32 x RUN | three sizes u64 | their bytes
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_engine.h"

#include "base/buf.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

#define M CHECK_RUN
#define MAX_STATE (256u << 20)
#define REST 3 /* tokens after the last chunk */

typedef struct saved {
    buf chunks[2];
    buf boundary;
    int32_t *tokens; /* two chunks and REST */
    uint64_t chunk;
} saved;

typedef struct reader {
    const buf *from;
    size_t at;
} reader;

/* Short reads, of one byte at first. */
static pawl_status read_some(void *context, void *data, uint64_t size, uint64_t *got)
{
    reader *r = context;
    uint64_t n = r->at < 64 ? 1 : 4093;
    n = n < size ? n : size;
    n = n < r->from->size - r->at ? n : r->from->size - r->at;
    if (n)
        memcpy(data, r->from->data + r->at, (size_t)n);
    r->at += (size_t)n;
    *got = n;
    return PAWL_OK;
}

static void clear(saved *s)
{
    buf_clear(&s->chunks[0]);
    buf_clear(&s->chunks[1]);
    buf_clear(&s->boundary);
    free(s->tokens);
}

static enum check_verdict save(check *c, const pawl_sequence *sequence, saved *s)
{
    pawl_error why = {.struct_size = sizeof why};
    uint64_t n = s->chunk;
    pawl_status status = PAWL_OK;
    for (uint64_t i = 0; i < 2 && !status; i++) {
        pawl_sink to = buf_sink(&s->chunks[i]);
        status =
            c->engine_api->state_save(sequence, PAWL_STATE_CHUNK, i * n, (i + 1) * n, &to, &why);
    }
    pawl_sink to = buf_sink(&s->boundary);
    if (!status && c->info.boundary_bytes)
        status = c->engine_api->state_save(sequence, PAWL_STATE_BOUNDARY, 2 * n, 2 * n + REST, &to,
                                           &why);
    CHECK_THAT(c, status == PAWL_OK, "state_save: %s", why.message);
    CHECK_THAT(c, s->chunks[0].size && s->chunks[1].size, "state_save wrote nothing");
    return CHECK_PASS;
}

static pawl_status load(check *c, pawl_sequence *sequence, const saved *s, pawl_error *error)
{
    uint64_t n = s->chunk;
    pawl_status status = PAWL_OK;
    for (uint64_t i = 0; i < 2 && !status; i++) {
        reader r = {&s->chunks[i], 0};
        pawl_source from = {&r, read_some};
        status = c->engine_api->state_load(sequence, PAWL_STATE_CHUNK, s->tokens + i * n, i * n,
                                           (i + 1) * n, &from, error);
    }
    if (!status && c->info.boundary_bytes) {
        reader r = {&s->boundary, 0};
        pawl_source from = {&r, read_some};
        status = c->engine_api->state_load(sequence, PAWL_STATE_BOUNDARY, s->tokens + 2 * n, 2 * n,
                                           2 * n + REST, &from, error);
    }
    return status;
}

/* Prefills two chunks and REST tokens, saves, and runs one token and on from there. */
static enum check_verdict make(check *c, saved *s, int32_t *expect)
{
    pawl_sequence *sequence;
    CHECK_NEED(c, check_engine(c));
    if (!PAWL_HAS(c->engine_api, state_save) || !PAWL_HAS(c->engine_api, state_load))
        return check_say(c, CHECK_SKIP, "it saves no state");
    *s = (saved){.chunk = c->info.state_chunk ? c->info.state_chunk : 16};
    if (2 * s->chunk + REST + M + 1 > c->info.context_limit)
        return check_say(c, CHECK_SKIP, "two chunks of %llu tokens do not fit its context",
                         (unsigned long long)s->chunk);
    buf_init(&s->chunks[0], MAX_STATE);
    buf_init(&s->chunks[1], MAX_STATE);
    buf_init(&s->boundary, MAX_STATE);
    uint64_t n = 2 * s->chunk + REST;
    s->tokens = calloc(n + 1, sizeof *s->tokens);
    if (!s->tokens || !check_open_sequence(c, &sequence)) {
        clear(s);
        return CHECK_FAIL;
    }
    check_prompt(c, 12, s->tokens, n + 1);
    check_step step = {.sequence = sequence, .tokens = s->tokens, .n = n};
    enum check_verdict verdict = CHECK_FAIL;
    if (check_pass(c, &step, 1, NULL) || step.status)
        check_say(c, CHECK_FAIL, "a pass failed");
    else
        verdict = save(c, sequence, s);
    if (verdict == CHECK_PASS && !check_greedy(c, sequence, s->tokens + n, 1, expect, M))
        verdict = CHECK_FAIL;
    c->engine_api->sequence_close(sequence);
    if (verdict != CHECK_PASS)
        clear(s);
    return verdict;
}

static enum check_verdict go_on(check *c, pawl_sequence *sequence, const saved *s,
                                const int32_t *expect)
{
    int32_t out[M];
    pawl_error why = {.struct_size = sizeof why};
    uint64_t n = 2 * s->chunk + REST;
    CHECK_THAT(c, load(c, sequence, s, &why) == PAWL_OK, "state_load: %s", why.message);
    uint64_t length = c->engine_api->length(sequence);
    CHECK_THAT(c, length == 2 * s->chunk || length == n, "length() is %llu after loading",
               (unsigned long long)length);
    if (!check_greedy(c, sequence, s->tokens + length, n + 1 - length, out, M))
        return CHECK_FAIL;
    return check_same(c, "from saved state", expect, out, M);
}

/* One part of the one, through memory, into the other. */
static pawl_status move_part(check *c, const pawl_sequence *from, const int32_t *tokens,
                             uint32_t part, uint64_t begin, uint64_t end, pawl_sequence *to,
                             pawl_error *error)
{
    buf bytes;
    buf_init(&bytes, MAX_STATE);
    pawl_sink sink = buf_sink(&bytes);
    reader r = {&bytes, 0};
    pawl_source source = {&r, read_some};
    pawl_status status = c->engine_api->state_save(from, part, begin, end, &sink, error);
    if (!status)
        status = c->engine_api->state_load(to, part, tokens + begin, begin, end, &source, error);
    buf_clear(&bytes);
    return status;
}

enum check_verdict check_state_move(check *c, const pawl_sequence *from, const int32_t *tokens,
                                    uint64_t n, pawl_sequence *to)
{
    uint64_t at = 0, chunk = c->info.state_chunk ? c->info.state_chunk : 16;
    pawl_error why = {.struct_size = sizeof why};
    pawl_status status = PAWL_OK;
    for (; at + chunk <= n && !status; at += chunk)
        status = move_part(c, from, tokens, PAWL_STATE_CHUNK, at, at + chunk, to, &why);
    if (!status && c->info.boundary_bytes)
        status = move_part(c, from, tokens, PAWL_STATE_BOUNDARY, at, n, to, &why);
    CHECK_THAT(c, status == PAWL_OK, "a state does not move: %s", why.message);
    return CHECK_PASS;
}

enum check_verdict check_state_continues(check *c)
{
    saved s;
    int32_t expect[M];
    pawl_sequence *sequence;
    CHECK_NEED(c, make(c, &s, expect));
    enum check_verdict verdict = CHECK_FAIL;
    if (check_open_sequence(c, &sequence)) {
        verdict = go_on(c, sequence, &s, expect);
        c->engine_api->sequence_close(sequence);
    }
    size_t bytes = s.chunks[0].size;
    clear(&s);
    return verdict == CHECK_PASS ? check_say(c, CHECK_PASS, "%zu bytes a chunk", bytes) : verdict;
}

/* One damage at a time to the first chunk: flipped bytes, a cut, other tokens. */
static enum check_verdict try_damage(check *c, pawl_sequence *sequence, saved *s)
{
    buf *chunk = &s->chunks[0];
    uint64_t random = 3;
    size_t size = chunk->size;
    for (int i = 0; i < 40; i++) {
        size_t at = i < 20 ? (size_t)i * 3 % size : check_random(&random) % size;
        char kept = chunk->data[at];
        if (i % 8 == 7) {
            chunk->size = at;
        } else {
            chunk->data[at] = (char)(kept ^ 0x41);
        }
        pawl_status status = load(c, sequence, s, NULL);
        chunk->data[at] = kept;
        chunk->size = size;
        CHECK_THAT(c, status == PAWL_E_FORMAT, "%s at byte %zu of %zu gives status %d",
                   i % 8 == 7 ? "a cut" : "a change", at, size, status);
        CHECK_THAT(c, c->engine_api->length(sequence) == 0, "the sequence has changed");
    }
    s->tokens[1] = s->tokens[1] == 5 ? 6 : 5;
    CHECK_THAT(c, load(c, sequence, s, NULL) != PAWL_OK, "it was loaded for other tokens");
    return CHECK_PASS;
}

enum check_verdict check_state_damage(check *c)
{
    saved s;
    int32_t expect[M];
    pawl_sequence *sequence;
    CHECK_NEED(c, make(c, &s, expect));
    enum check_verdict verdict = CHECK_FAIL;
    if (check_open_sequence(c, &sequence)) {
        verdict = try_damage(c, sequence, &s);
        c->engine_api->sequence_close(sequence);
    }
    clear(&s);
    return verdict;
}

/* ---- through a file ---- */

typedef struct head {
    uint64_t chunk;
    char kv_format[256];
    int32_t expect[M];
    uint64_t sizes[3]; /* of the chunks and the boundary */
} head;

static bool write_state(const char *path, const head *h, const saved *s)
{
    const buf *parts[] = {&s->chunks[0], &s->chunks[1], &s->boundary};
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(h, sizeof *h, 1, file) == 1;
    for (int i = 0; good && i < 3; i++)
        good = parts[i]->size == 0 || fwrite(parts[i]->data, parts[i]->size, 1, file) == 1;
    return file && fclose(file) == 0 && good;
}

enum check_verdict check_state_put(check *c, const char *path)
{
    saved s;
    head h = {.chunk = 0};
    CHECK_NEED(c, make(c, &s, h.expect));
    h.chunk = s.chunk;
    snprintf(h.kv_format, sizeof h.kv_format, "%s", c->info.kv_format);
    h.sizes[0] = s.chunks[0].size;
    h.sizes[1] = s.chunks[1].size;
    h.sizes[2] = s.boundary.size;
    bool good = write_state(path, &h, &s);
    clear(&s);
    CHECK_THAT(c, good, "%s cannot be written", path);
    return CHECK_PASS;
}

/* The parts behind the head; false: it is not whole. */
static bool read_state(const char *path, head *h, saved *s)
{
    buf all;
    buf *parts[] = {&s->chunks[0], &s->chunks[1], &s->boundary};
    buf_init(&all, MAX_STATE);
    bool good = !file_read(path, &all, NULL) && all.size >= sizeof *h;
    size_t at = sizeof *h;
    if (good)
        memcpy(h, all.data, sizeof *h);
    for (int i = 0; good && i < 3; i++) {
        buf_init(parts[i], MAX_STATE);
        good = h->sizes[i] <= all.size - at && buf_add(parts[i], all.data + at, h->sizes[i]);
        at += good ? h->sizes[i] : 0;
    }
    buf_clear(&all);
    return good;
}

enum check_verdict check_state_take(check *c, const char *path)
{
    saved s = {.tokens = NULL};
    head h;
    pawl_sequence *sequence;
    CHECK_NEED(c, check_engine(c));
    bool read = read_state(path, &h, &s);
    s.chunk = read && h.chunk < 1u << 20 ? h.chunk : 1;
    uint64_t n = 2 * s.chunk + REST;
    s.tokens = calloc(n + 1, sizeof *s.tokens);
    enum check_verdict verdict = CHECK_FAIL;
    if (!read || !s.tokens) {
        check_say(c, CHECK_FAIL, "%s is no whole state", path);
    } else if (strncmp(h.kv_format, c->info.kv_format, sizeof h.kv_format - 1) != 0) {
        check_say(c, CHECK_FAIL, "kv_format is %s here and was %s", c->info.kv_format, h.kv_format);
    } else if (check_open_sequence(c, &sequence)) {
        check_prompt(c, 12, s.tokens, n + 1);
        verdict = go_on(c, sequence, &s, h.expect);
        c->engine_api->sequence_close(sequence);
    }
    clear(&s);
    return verdict;
}
