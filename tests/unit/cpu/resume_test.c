/*
 * tests/unit/cpu/resume_test.c - loading saved state takes a small part of the time
 * that computing it takes. Prints what was measured: SmolLM2, every kv type.
 *
 * Wanted is a fortieth; a tenth is judged, since machines are noisy.
 * PAWL_TEST_LONG=1 takes 6,000 tokens instead of 512.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <time.h>

#include "blob.h"
#include "real.h"
#include "tiny.h"

#define TOKENS (getenv("PAWL_TEST_LONG") ? 6000u : 512u)
#define ROUNDS 5
#define DECODED 16u

typedef struct figures {
    double prefill; /* seconds for all tokens */
    double decode;  /* seconds a token behind them */
    double save;
    double load;
    size_t bytes; /* saved */
} figures;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A sink into memory that is there already. */
static pawl_status fill(void *context, const void *data, uint64_t size)
{
    blob *b = context;
    memcpy(b->data + b->size, data, size);
    b->size += size;
    return PAWL_OK;
}

static void save_all(const pawl_sequence *sequence, size_t n, blob *b)
{
    pawl_sink sink = {b, fill};
    b->size = 0;
    for (size_t at = 0; at < n; at += KERNELS_SPAN)
        assert_int_equal(PAWL_OK, tiny_api()->state_save(
                                      sequence, PAWL_STATE_CHUNK, at,
                                      at + KERNELS_SPAN < n ? at + KERNELS_SPAN : n, &sink, NULL));
}

/* The best of some rounds: what the machine can when nobody else is there. */
static figures measure(const char *path, const char *options, size_t n)
{
    figures f = {0};
    int32_t *tokens = tiny_tokens(3, n + DECODED, 49152);
    pawl_engine *engine = tiny_open(path, 0, options);
    pawl_engine_info info = {.struct_size = sizeof info};
    tiny_api()->info(engine, &info);
    size_t room = (size_t)info.chunk_bytes * (n / KERNELS_SPAN + 1);
    blob saved = {.data = malloc(room)};
    assert_non_null(saved.data);
    memset(saved.data, 1, room);
    pawl_sequence *sequence = tiny_sequence(engine);
    double began = now();
    tiny_run(engine, sequence, tokens, n, NULL, 0);
    f.prefill = now() - began;
    f.save = f.load = f.prefill;
    for (int i = 0; i < ROUNDS; i++) {
        pawl_sequence *other = tiny_sequence(engine);
        began = now();
        save_all(sequence, n, &saved);
        f.save = fmin(f.save, now() - began);
        saved.at = 0;
        began = now();
        blob_load_all(&saved, other, tokens, n);
        f.load = fmin(f.load, now() - began);
        tiny_api()->sequence_close(other);
    }
    f.bytes = saved.size;
    began = now();
    for (size_t i = 0; i < DECODED; i++)
        tiny_run(engine, sequence, tokens + n + i, 1, NULL, 0);
    f.decode = (now() - began) / DECODED;
    tiny_api()->sequence_close(sequence);
    tiny_api()->close(engine);
    free(saved.data);
    free(tokens);
    return f;
}

static void test_loading_is_cheap(void **state)
{
    (void)state;
    static const char *const kv_types[] = {"f16", "bf16", "q8", "f32"};
    char buffer[512], options[64];
    const char *path = real_model(buffer, sizeof buffer);
    if (path && TINY_SLOW)
        printf("SKIP: times under a sanitizer say nothing\n");
    if (!path || TINY_SLOW) {
        skip();
        return;
    }
    for (size_t i = 0; i < sizeof kv_types / sizeof kv_types[0]; i++) {
        snprintf(options, sizeof options, "{\"kv_type\":\"%s\"}", kv_types[i]);
        size_t n = TOKENS;
        figures f = measure(path, options, n);
        double gb = (double)f.bytes / 1e9;
        printf("%-4s %zu tokens: %zu bytes/token; prefill %.0f/s, then decode %.1f/s; save %.1f "
               "GB/s, load %.1f GB/s: 1/%.0f of the prefill\n",
               kv_types[i], n, f.bytes / n, (double)n / f.prefill, 1 / f.decode, gb / f.save,
               gb / f.load, f.prefill / f.load);
        assert_true(f.load * 10 < f.prefill);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loading_is_cheap)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
