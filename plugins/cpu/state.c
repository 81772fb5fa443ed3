/*
 * cpu/state.c - saved keys and values of a stretch of tokens.
 *
 * A chunk stands for itself and is checked whole before it counts:
 *
 *   offset  bytes
 *        0      8   "PAWLKV\r\n"
 *        8      4   version, 1
 *       12      4   tokens, n
 *       16      8   begin, the position of the first one
 *       24      8   hash of kv_format
 *       32      8   bytes of the payload
 *       40    4*n   token ids
 *              .    payload: page by page, layer by layer, head by head:
 *                   keys [head_size][t], values [t][head_size]; t is the number
 *                   of tokens of the page, KV_PAGE or, in the last, the rest;
 *                   of Q8 also the scales, [blocks][t] behind the keys and
 *                   [t][blocks] behind the values
 *              8    checksum of all before it (digest.h)
 *
 * All numbers are little-endian. A whole page's keys and values are its very
 * memory, so that whole chunks are copied in large pieces. begin is a multiple
 * of ENGINE_CHUNK; end is one too, or the sequence's length (the tail, which is
 * good until the sequence has grown past the next multiple). There is no
 * boundary state: plain attention has nothing but keys and values.
 * Runs on the thread that owns the engine.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/engine.h"

#include <string.h>

#include "cpu/digest.h"
#include "cpu/sequence.h"

#define MAGIC "PAWLKV\r\n"
#define VERSION 1u

/* Bytes that are copied and summed at a time: what fits the caches is read from
 * memory once. */
#define PIECE ((size_t)64 << 10)
#define GATHER ((size_t)4 << 10) /* of rows of an unfinished page */

typedef struct state_header {
    char magic[8];
    uint32_t version;
    uint32_t tokens;
    uint64_t begin;
    uint64_t format;
    uint64_t payload;
} state_header;

/* Bytes on their way through a sink or from a source, and their checksum. */
typedef struct stream {
    const pawl_sink *to; /* one of the two */
    const pawl_source *from;
    pawl_status status;
    digest sum;
} stream;

static uint64_t payload_bytes(const pawl_engine *e, uint64_t tokens)
{
    return e->pool.page_bytes / KV_PAGE * tokens;
}

uint64_t state_chunk_bytes(const pawl_engine *engine)
{
    return sizeof(state_header) + ENGINE_CHUNK * sizeof(int32_t) +
           payload_bytes(engine, ENGINE_CHUNK) + sizeof(uint64_t);
}

/* Sources may give less than asked for, and 0 only at the end. */
static pawl_status read_fully(const pawl_source *from, uint8_t *data, uint64_t size)
{
    while (size > 0) {
        uint64_t got = 0;
        pawl_status status = from->read(from->context, data, size, &got);
        if (status != PAWL_OK)
            return status;
        if (got == 0 || got > size)
            return PAWL_E_FORMAT;
        data += got;
        size -= got;
    }
    return PAWL_OK;
}

/* Writes or reads `size` bytes at data, whichever way the stream goes. */
static void move(stream *s, void *data, size_t size)
{
    uint8_t *at = data;
    for (size_t n; s->status == PAWL_OK && size > 0; at += n, size -= n) {
        n = size < PIECE ? size : PIECE;
        if (s->to)
            s->status = s->to->write(s->to->context, at, n);
        else
            s->status = read_fully(s->from, at, n);
        if (s->status == PAWL_OK)
            digest_add(&s->sum, at, n);
    }
}

/* The first `bytes` of each of the rows, `stride` bytes apart, some at a time. */
static void move_rows(stream *s, uint8_t *data, size_t rows, size_t stride, size_t bytes)
{
    uint8_t gathered[GATHER];
    for (size_t n; s->status == PAWL_OK && rows > 0; data += n * stride, rows -= n) {
        n = rows < GATHER / bytes ? rows : GATHER / bytes;
        for (size_t i = 0; s->to && i < n; i++)
            memcpy(gathered + i * bytes, data + i * stride, bytes);
        move(s, gathered, n * bytes);
        for (size_t i = 0; !s->to && s->status == PAWL_OK && i < n; i++)
            memcpy(data + i * stride, gathered + i * bytes, bytes);
    }
}

/* The payload of one page's first t tokens. */
static void move_page(stream *s, const kv_pool *pool, uint32_t page, uint32_t t)
{
    uint8_t *at = pool->base + (size_t)page * pool->page_bytes;
    if (t == KV_PAGE) {
        move(s, at, pool->page_bytes);
        return;
    }
    size_t row = pool->head_size * pool->element; /* of one token's values */
    size_t scale = sizeof(uint16_t);
    for (size_t head = 0; head < pool->page_bytes / pool->head_bytes; head++) {
        uint8_t *keys = at + head * pool->head_bytes;
        uint8_t *values = keys + pool->head_bytes / 2;
        move_rows(s, keys, pool->head_size, KV_PAGE * pool->element, t * pool->element);
        move_rows(s, keys + KV_PAGE * row, pool->blocks, KV_PAGE * scale, t * scale);
        move(s, values, t * row);
        move(s, values + KV_PAGE * row, t * pool->blocks * scale);
    }
}

static void move_pages(stream *s, const kv_pool *pool, const uint32_t *pages, uint64_t tokens)
{
    for (; tokens > 0 && s->status == PAWL_OK; pages++) {
        uint32_t t = tokens < KV_PAGE ? (uint32_t)tokens : KV_PAGE;
        move_page(s, pool, *pages, t);
        tokens -= t;
    }
}

static pawl_status check_range(const pawl_engine *e, uint32_t part, uint64_t begin, uint64_t end,
                               pawl_error *error)
{
    if (part != PAWL_STATE_CHUNK)
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "this engine's state has no part %u; chunks are all of it", part);
    if (begin % ENGINE_CHUNK != 0 || begin >= end || end - begin > ENGINE_CHUNK || end > e->context)
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "no chunk [%llu, %llu): it begins at a multiple of %u and is no longer",
                         (unsigned long long)begin, (unsigned long long)end, ENGINE_CHUNK);
    return PAWL_OK;
}

pawl_status state_save(const pawl_sequence *sequence, uint32_t part, uint64_t begin, uint64_t end,
                       const pawl_sink *to, pawl_error *error)
{
    const pawl_engine *e = sequence->engine;
    pawl_status status = check_range(e, part, begin, end, error);
    if (status != PAWL_OK)
        return status;
    if (end > sequence->length || (end % ENGINE_CHUNK != 0 && end != sequence->length))
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "no chunk up to %llu of %u tokens: it ends at a multiple of %u or at the "
                         "end",
                         (unsigned long long)end, sequence->length, ENGINE_CHUNK);
    state_header header = {.version = VERSION,
                           .tokens = (uint32_t)(end - begin),
                           .begin = begin,
                           .format = e->kv_format_hash,
                           .payload = payload_bytes(e, end - begin)};
    memcpy(header.magic, MAGIC, sizeof header.magic);
    stream s = {.to = to};
    digest_init(&s.sum, VERSION);
    move(&s, &header, sizeof header);
    move(&s, sequence->tokens + begin, header.tokens * sizeof(int32_t));
    move_pages(&s, &e->pool, sequence->pages + begin / KV_PAGE, header.tokens);
    uint64_t sum = digest_value(&s.sum);
    move(&s, &sum, sizeof sum);
    return s.status == PAWL_OK ? PAWL_OK : pawl_fail(error, s.status, "the sink took no more");
}

/* The header and the ids: whose state is this? */
static pawl_status read_front(stream *s, const pawl_engine *e, const int32_t *tokens,
                              uint64_t begin, uint64_t end, pawl_error *error)
{
    state_header h;
    int32_t ids[ENGINE_CHUNK];
    memset(&h, 0, sizeof h);
    move(s, &h, sizeof h);
    if (s->status != PAWL_OK)
        return pawl_fail(error, s->status, "a saved chunk ends within its header");
    if (memcmp(h.magic, MAGIC, sizeof h.magic) != 0 || h.version != VERSION)
        return pawl_fail(error, PAWL_E_FORMAT, "no saved chunk of this engine's version");
    if (h.format != e->kv_format_hash)
        return pawl_fail(error, PAWL_E_FORMAT, "a chunk of another model or layout");
    if (h.begin != begin || h.tokens != end - begin || h.payload != payload_bytes(e, end - begin))
        return pawl_fail(error, PAWL_E_FORMAT,
                         "a chunk of %u tokens at %llu, expected %llu at %llu", h.tokens,
                         (unsigned long long)h.begin, (unsigned long long)(end - begin),
                         (unsigned long long)begin);
    move(s, ids, h.tokens * sizeof *ids);
    if (s->status != PAWL_OK)
        return pawl_fail(error, s->status, "a saved chunk ends within its token ids");
    if (memcmp(ids, tokens, h.tokens * sizeof *ids) != 0)
        return pawl_fail(error, PAWL_E_FORMAT, "a chunk of other tokens");
    return PAWL_OK;
}

pawl_status state_load(pawl_sequence *sequence, uint32_t part, const int32_t *tokens,
                       uint64_t begin, uint64_t end, const pawl_source *from, pawl_error *error)
{
    pawl_engine *e = sequence->engine;
    uint32_t pages = sequence->n_pages;
    pawl_status status = check_range(e, part, begin, end, error);
    if (status != PAWL_OK)
        return status;
    if (begin != sequence->length)
        return pawl_fail(error, PAWL_E_ARGUMENT, "a chunk at %llu does not follow %u tokens",
                         (unsigned long long)begin, sequence->length);
    for (uint64_t i = 0; i < end - begin; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= e->model->vocab)
            return pawl_fail(error, PAWL_E_ARGUMENT, "token %d is not in the vocabulary",
                             tokens[i]);
    stream s = {.from = from};
    digest_init(&s.sum, VERSION);
    status = read_front(&s, e, tokens, begin, end, error);
    if (status == PAWL_OK)
        status = sequence_prepare(sequence, end - begin, error);
    if (status != PAWL_OK)
        return status;
    move_pages(&s, &e->pool, sequence->pages + begin / KV_PAGE, end - begin);
    uint64_t want = digest_value(&s.sum);
    uint64_t sum = 0;
    move(&s, &sum, sizeof sum);
    if (s.status != PAWL_OK || sum != want) {
        sequence_trim(sequence, pages);
        return pawl_fail(error, s.status == PAWL_OK ? PAWL_E_FORMAT : s.status,
                         s.status == PAWL_OK ? "a damaged chunk: its checksum differs"
                                             : "a saved chunk ends early");
    }
    memcpy(sequence->tokens + begin, tokens, (size_t)(end - begin) * sizeof *tokens);
    sequence->length = (uint32_t)end;
    sequence->hidden_valid = false;
    return PAWL_OK;
}
