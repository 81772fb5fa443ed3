/*
 * tests/fuzz/http_body_fuzz.c - any bytes as a request body in chunks.
 *
 * However the bytes are cut into reads, the decoder says the same and carries the same;
 * and what is put into chunks, with extensions and trailers, comes out as it was. The
 * first two bytes of an input choose the cuts and how much the body may hold.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/chunked.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct decoded {
    enum chunked_result result;
    size_t used; /* of the input, where the body is whole */
    buf body;
} decoded;

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* Pieces of 1 to 32 bytes, chosen by a small generator; step 0: all at once. */
static decoded decode(const char *data, size_t size, size_t max, unsigned step)
{
    decoded d = {.result = CHUNKED_MORE};
    chunked c;
    chunked_init(&c);
    buf_init(&d.body, max);
    for (size_t at = 0; at < size && d.result == CHUNKED_MORE;) {
        size_t n = size - at, used = 0;
        if (step) {
            step = step * 1103515245u + 12345u;
            size_t piece = 1 + (step >> 16) % 32;
            n = piece < n ? piece : n;
        }
        d.result = chunked_feed(&c, data + at, n, &used, &d.body);
        must(d.result != CHUNKED_MORE || used == n);
        at += n;
        if (d.result == CHUNKED_END)
            d.used = at - n + used;
    }
    must(d.body.size <= max);
    return d;
}

static void check_cuts(const char *data, size_t size, size_t max, unsigned step)
{
    decoded whole = decode(data, size, max, 0), cut = decode(data, size, max, step);
    must(whole.result == cut.result && whole.used == cut.used);
    if (whole.result == CHUNKED_END || whole.result == CHUNKED_MORE) {
        must(whole.body.size == cut.body.size);
        must(memcmp(buf_text(&whole.body), buf_text(&cut.body), cut.body.size) == 0);
    }
    buf_clear(&whole.body);
    buf_clear(&cut.body);
}

static void check_round_trip(const char *data, size_t size, unsigned step)
{
    buf wire;
    buf_init(&wire, 32 * size + 256);
    for (size_t at = 0; at < size;) {
        size_t n = 1 + (step + at) % 97;
        n = n < size - at ? n : size - at;
        buf_printf(&wire, at % 3 ? "%zx\r\n" : "%zX;name=\"value\"\r\n", n);
        buf_add(&wire, data + at, n);
        buf_add_text(&wire, "\r\n");
        at += n;
    }
    buf_add_text(&wire, step % 2 ? "0\r\n\r\n" : "000\r\nTrailer: x\r\n\r\n");
    size_t length = wire.size;
    buf_add_text(&wire, "GET /next"); /* is not the body's */
    decoded d = decode(buf_text(&wire), wire.size, size, step);
    must(d.result == CHUNKED_END && d.used == length && d.body.size == size);
    must(size == 0 || memcmp(buf_text(&d.body), data, size) == 0);
    buf_clear(&d.body);
    buf_clear(&wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    unsigned step = data[0] + 1u;
    size_t max = (size_t)data[1] * 16;
    check_cuts((const char *)data + 2, size - 2, max, step);
    check_round_trip((const char *)data + 2, size - 2, step);
    return 0;
}
