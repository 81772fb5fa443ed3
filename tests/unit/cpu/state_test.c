/*
 * tests/unit/cpu/state_test.c - saved chunks: round trips, and damage.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "blob.h"
#include "tiny.h"

#define LENGTH 600u /* two chunks and a tail of 88: a page and a part of one */

static char *model_path;
static tiny_shape shape;

static int make_model(void **state)
{
    (void)state;
    shape = tiny_shape_default();
    model_path = tiny_write(&shape);
    return 0;
}

static int remove_model(void **state)
{
    (void)state;
    tiny_remove(model_path);
    return 0;
}

static const uint64_t cuts[] = {0, 256, 512, LENGTH};

/* Saved by one engine, loaded by another; then both go on alike. */
static void round_trip(const char *options, uint32_t threads, size_t bite)
{
    const pawl_engine_api *api = tiny_api();
    int32_t *tokens = tiny_tokens(5, LENGTH + 70, shape.vocab);
    float *want = tiny_floats(70 * shape.vocab);
    float *got = tiny_floats(70 * shape.vocab);
    pawl_engine *first = tiny_open(model_path, 1, options);
    pawl_engine *second = tiny_open(model_path, threads, options);
    pawl_sequence *a = tiny_sequence(first);
    pawl_sequence *b = tiny_sequence(second);
    pawl_engine_info info = {.struct_size = sizeof info};
    api->info(first, &info);
    tiny_run(first, a, tokens, LENGTH, NULL, 0);
    for (size_t i = 0; i < 3; i++) {
        blob chunk = blob_save(a, cuts[i], cuts[i + 1]);
        chunk.bite = bite;
        if (i < 2)
            assert_int_equal(info.chunk_bytes, chunk.size);
        else
            assert_true(chunk.size < info.chunk_bytes);
        assert_int_equal(PAWL_OK, blob_load(b, &chunk, tokens, cuts[i], cuts[i + 1]));
        assert_int_equal(cuts[i + 1], api->length(b));
        free(chunk.data);
    }
    tiny_run(first, a, tokens + LENGTH, 70, want, 70);
    tiny_run(second, b, tokens + LENGTH, 70, got, 70);
    assert_memory_equal(want, got, 70 * shape.vocab * sizeof *want);
    blob again = blob_save(b, 512, LENGTH + 70); /* a tail that grew */
    free(again.data);
    api->sequence_close(a);
    api->sequence_close(b);
    api->close(first);
    api->close(second);
    free(tokens);
    free(want);
    free(got);
}

static void test_round_trip(void **state)
{
    (void)state;
    round_trip("{}", 2, 0);
    round_trip("{}", 1, 7);
    round_trip("{\"numeric\":\"f32\"}", 2, 1000);
}

/* A small chunk with each of its bytes changed, and cut at each length. */
static void test_damage(void **state)
{
    (void)state;
    enum { TOKENS = 3 };
    const pawl_engine_api *api = tiny_api();
    pawl_engine *engine = tiny_open(model_path, 1, "{}");
    int32_t *tokens = tiny_tokens(5, 256 + TOKENS, shape.vocab);
    pawl_sequence *sequence = tiny_sequence(engine);
    tiny_run(engine, sequence, tokens, 256 + TOKENS, NULL, 0);
    blob chunk = blob_save(sequence, 256, 256 + TOKENS);
    assert_int_equal(PAWL_OK, api->truncate(sequence, 256, NULL));
    uint64_t total, before, after;
    api->capacity(engine, &total, &before);
    for (size_t i = 0; i < chunk.size; i++) {
        uint8_t mask = (uint8_t)(1u << i % 8);
        chunk.data[i] ^= mask;
        if (blob_load(sequence, &chunk, tokens, 256, 256 + TOKENS) != PAWL_E_FORMAT)
            fail_msg("byte %zu of %zu may change unseen", i, chunk.size);
        chunk.data[i] ^= mask;
        assert_int_equal(256, api->length(sequence));
    }
    size_t size = chunk.size;
    for (chunk.size = 0; chunk.size < size; chunk.size++)
        assert_int_equal(PAWL_E_FORMAT, blob_load(sequence, &chunk, tokens, 256, 256 + TOKENS));
    api->capacity(engine, &total, &after);
    assert_int_equal(before, after);
    assert_int_equal(PAWL_OK, blob_load(sequence, &chunk, tokens, 256, 256 + TOKENS));
    free(chunk.data);
    free(tokens);
    api->sequence_close(sequence);
    api->close(engine);
}

/* Right bytes in the wrong place. */
static void test_foreign(void **state)
{
    (void)state;
    const pawl_engine_api *api = tiny_api();
    pawl_engine *engine = tiny_open(model_path, 1, "{}");
    pawl_engine *other = tiny_open(model_path, 1, "{\"kv_type\":\"f32\"}");
    int32_t *tokens = tiny_tokens(5, 520, shape.vocab);
    pawl_sequence *a = tiny_sequence(engine);
    pawl_sequence *b = tiny_sequence(engine);
    pawl_sequence *c = tiny_sequence(other);
    tiny_run(engine, a, tokens, 512, NULL, 0);
    blob chunk = blob_save(a, 0, 256);
    blob second = blob_save(a, 256, 512);
    pawl_sink sink = {&chunk, blob_write};
    assert_int_equal(PAWL_E_FORMAT, blob_load(c, &chunk, tokens, 0, 256));
    tokens[200]++;
    assert_int_equal(PAWL_E_FORMAT, blob_load(b, &chunk, tokens, 0, 256));
    tokens[200]--;
    assert_int_equal(PAWL_E_ARGUMENT, blob_load(b, &second, tokens, 256, 512));
    assert_int_equal(PAWL_OK, blob_load(b, &chunk, tokens, 0, 256));
    assert_int_equal(PAWL_E_FORMAT, blob_load(b, &chunk, tokens, 256, 512));
    assert_int_equal(PAWL_E_ARGUMENT, blob_load(b, &chunk, tokens, 0, 256));
    assert_int_equal(256, api->length(b));
    static const uint64_t bad[][2] = {{1, 256}, {0, 100}, {0, 257}, {256, 256}, {512, 600}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(PAWL_E_ARGUMENT,
                         api->state_save(a, PAWL_STATE_CHUNK, bad[i][0], bad[i][1], &sink, NULL));
    assert_int_equal(PAWL_E_ARGUMENT, api->state_save(a, PAWL_STATE_BOUNDARY, 0, 512, &sink, NULL));
    free(chunk.data);
    free(second.data);
    free(tokens);
    api->sequence_close(a);
    api->sequence_close(b);
    api->sequence_close(c);
    api->close(engine);
    api->close(other);
}

/* Another model of the same shape has another kv_format, and refuses the chunk. */
static void test_formats_differ(void **state)
{
    (void)state;
    tiny_shape changed = shape;
    changed.seed = 2;
    char *path = tiny_write(&changed);
    pawl_engine *engines[3] = {tiny_open(model_path, 1, "{}"), tiny_open(path, 1, "{}"),
                               tiny_open(model_path, 2, "{\"isa\":\"reference\"}")};
    char formats[3][256];
    int32_t *tokens = tiny_tokens(5, 256, shape.vocab);
    pawl_sequence *from = tiny_sequence(engines[0]);
    tiny_run(engines[0], from, tokens, 256, NULL, 0);
    blob chunk = blob_save(from, 0, 256);
    tiny_api()->sequence_close(from);
    for (size_t i = 1; i < 3; i++) {
        pawl_sequence *to = tiny_sequence(engines[i]);
        assert_int_equal(i == 1 ? PAWL_E_FORMAT : PAWL_OK, blob_load(to, &chunk, tokens, 0, 256));
        tiny_api()->sequence_close(to);
    }
    free(chunk.data);
    free(tokens);
    for (size_t i = 0; i < 3; i++) {
        pawl_engine_info info = {.struct_size = sizeof info};
        tiny_api()->info(engines[i], &info);
        snprintf(formats[i], sizeof formats[i], "%s", info.kv_format);
        tiny_api()->close(engines[i]);
    }
    assert_string_not_equal(formats[0], formats[1]);
    assert_string_equal(formats[0], formats[2]); /* equal bits, so equal states */
    tiny_remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_formats_differ),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
