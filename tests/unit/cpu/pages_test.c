/*
 * tests/unit/cpu/pages_test.c - capacity and reserve tell the truth: how many pages
 * there are for a budget, who holds them, and that what is reserved can be used.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tiny.h"

#define SHARERS 16u
#define PREFIX 2000u /* 31 whole pages and 16 tokens of another */

static const char *const kv_types[] = {"f16", "bf16", "q8", "f32"};

static tiny_shape shape;
static char *model_path;

static int make_model(void **state)
{
    (void)state;
    shape = tiny_shape_default();
    shape.context = 2400;
    model_path = tiny_write(&shape);
    return 0;
}

static int remove_model(void **state)
{
    (void)state;
    tiny_remove(model_path);
    return 0;
}

/* NULL: the budget is too small. */
static pawl_engine *open_with(const char *kv, uint64_t budget, pawl_error *error)
{
    char options[64];
    pawl_engine *engine = NULL;
    snprintf(options, sizeof options, "{\"kv_type\":\"%s\"}", kv);
    pawl_engine_config config = tiny_config(model_path, 2, options);
    config.max_sequences = SHARERS;
    config.memory_budget = budget;
    pawl_status status = tiny_api()->open(&config, NULL, NULL, &engine, error);
    assert_true(status == PAWL_OK || status == PAWL_E_MEMORY);
    return engine;
}

static uint64_t total_pages(const pawl_engine *engine)
{
    uint64_t total, left;
    tiny_api()->capacity(engine, &total, &left);
    return total;
}

static uint64_t held(const pawl_engine *engine)
{
    uint64_t total, left;
    tiny_api()->capacity(engine, &total, &left);
    assert_true(left <= total);
    return total - left;
}

/* What a page of 64 tokens takes, by the definition of the types. */
static uint64_t page_bytes(const char *kv)
{
    uint64_t numbers = 0;
    uint64_t blocks = (shape.head_size + 31) / 32;
    for (size_t i = 0; i < TINY_LAYERS; i++)
        numbers += 2 * 64 * shape.kv_heads[i] * (uint64_t)shape.head_size;
    if (strcmp(kv, "q8") == 0)
        return numbers + numbers / shape.head_size * blocks * 2;
    return numbers * (strcmp(kv, "f32") == 0 ? 4 : 2);
}

/* Scratch comes off a budget once; all the rest is pages, to the last byte. */
static void test_budget(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        uint64_t bytes = page_bytes(kv_types[i]);
        pawl_error error = {.struct_size = sizeof error};
        unsigned long long scratch = 0;
        assert_null(open_with(kv_types[i], 1000, &error));
        assert_non_null(strstr(error.message, "scratch takes"));
        sscanf(strstr(error.message, "scratch takes"), "scratch takes %llu", &scratch);
        for (uint64_t pages = 1; pages < 200; pages = 3 * pages + 1) {
            pawl_engine *exact = open_with(kv_types[i], scratch + pages * bytes, NULL);
            pawl_engine *less = open_with(kv_types[i], scratch + pages * bytes - 1, NULL);
            assert_non_null(exact);
            assert_int_equal(pages, total_pages(exact));
            assert_int_equal(pages - 1, less ? total_pages(less) : 0);
            tiny_api()->close(exact);
            if (less)
                tiny_api()->close(less);
        }
    }
}

/* One prefix of 2,000 tokens in sixteen sequences is held once; each has its own copy
 * of the page that is not full, and its own tokens after that. */
static void test_shared_prefix(void **state)
{
    (void)state;
    const pawl_engine_api *api = tiny_api();
    int32_t *tokens = tiny_tokens(1, PREFIX + 200, shape.vocab);
    for (size_t i = 0; i < 4; i++) {
        pawl_engine *engine = open_with(kv_types[i], 0, NULL);
        pawl_sequence *s[SHARERS] = {tiny_sequence(engine)};
        tiny_run(engine, s[0], tokens, PREFIX, NULL, 0);
        assert_int_equal(32, held(engine));
        for (size_t j = 1; j < SHARERS; j++)
            assert_int_equal(PAWL_OK, api->fork(s[0], PREFIX, &s[j], NULL));
        assert_int_equal(31 + SHARERS, held(engine));
        for (size_t j = 0; j < SHARERS; j++) /* 48 fill the page, 10 j begin others */
            tiny_run(engine, s[j], tokens + PREFIX, 48 + 10 * j, NULL, 0);
        uint64_t own = 0;
        for (size_t j = 0; j < SHARERS; j++)
            own += 1 + (10 * j + 63) / 64;
        assert_int_equal(31 + own, held(engine));
        for (size_t j = 0; j < SHARERS; j++) /* back to where all was shared */
            assert_int_equal(PAWL_OK, api->truncate(s[j], 31 * 64, NULL));
        assert_int_equal(31, held(engine));
        for (size_t j = 0; j + 1 < SHARERS; j++) {
            api->sequence_close(s[j]);
            assert_int_equal(31, held(engine)); /* the others still hold them */
        }
        api->sequence_close(s[SHARERS - 1]);
        assert_int_equal(0, held(engine));
        api->close(engine);
    }
    free(tokens);
}

/* An engine of exactly so many pages. */
static pawl_engine *engine_of(const char *kv, uint64_t pages)
{
    pawl_error error = {.struct_size = sizeof error};
    unsigned long long scratch = 0;
    assert_null(open_with(kv, 1000, &error));
    sscanf(strstr(error.message, "scratch takes"), "scratch takes %llu", &scratch);
    pawl_engine *engine = open_with(kv, scratch + pages * page_bytes(kv), NULL);
    assert_non_null(engine);
    assert_int_equal(pages, total_pages(engine));
    return engine;
}

/* With every page reserved by somebody, all of them can go on as far as they reserved;
 * one token further needs a page, and is refused without taking anything. */
static void test_reserved_is_usable(void **state)
{
    (void)state;
    const pawl_engine_api *api = tiny_api();
    int32_t *tokens = tiny_tokens(1, 400, shape.vocab);
    for (size_t i = 0; i < 4; i++) {
        pawl_engine *engine = engine_of(kv_types[i], 3 + 4 * 2);
        pawl_sequence *s[4] = {tiny_sequence(engine)};
        tiny_run(engine, s[0], tokens, 192, NULL, 0);
        for (size_t j = 1; j < 4; j++)
            assert_int_equal(PAWL_OK, api->fork(s[0], 192, &s[j], NULL));
        for (size_t j = 0; j < 4; j++)
            assert_int_equal(PAWL_OK, api->reserve(s[j], 128, NULL));
        assert_int_equal(total_pages(engine), held(engine));
        for (size_t j = 0; j < 4; j++)
            tiny_run(engine, s[j], tokens, 128, NULL, 0);
        assert_int_equal(PAWL_E_MEMORY, api->reserve(s[2], 1, NULL));
        pawl_slot slot = {.sequence = s[2], .tokens = tokens, .n_tokens = 1};
        assert_int_equal(PAWL_OK, tiny_submit(engine, &slot, 1));
        assert_int_equal(PAWL_E_MEMORY, slot.status);
        assert_int_equal(192 + 128, api->length(s[2]));
        for (size_t j = 0; j < 4; j++)
            api->sequence_close(s[j]);
        assert_int_equal(0, held(engine));
        api->close(engine);
    }
    free(tokens);
}

/* Cut back into a page that is shared: going on takes a copy of it, and if there is
 * no room for that and the rest, nothing is taken. */
static void test_refusal_takes_nothing(void **state)
{
    (void)state;
    const pawl_engine_api *api = tiny_api();
    int32_t *tokens = tiny_tokens(1, 400, shape.vocab);
    pawl_engine *engine = engine_of("q8", 4);
    pawl_sequence *a = tiny_sequence(engine), *b;
    tiny_run(engine, a, tokens, 128, NULL, 0);
    assert_int_equal(PAWL_OK, api->fork(a, 128, &b, NULL));
    assert_int_equal(PAWL_OK, api->truncate(b, 100, NULL));
    assert_int_equal(2, held(engine));
    assert_int_equal(PAWL_E_MEMORY, api->reserve(b, 28 + 128, NULL)); /* 2 and a copy */
    assert_int_equal(2, held(engine));
    assert_int_equal(PAWL_OK, api->reserve(b, 28 + 64, NULL));
    assert_int_equal(4, held(engine));
    tiny_run(engine, b, tokens, 28 + 64, NULL, 0);
    assert_int_equal(4, held(engine));
    api->sequence_close(a); /* gives back the page that b has a copy of */
    assert_int_equal(3, held(engine));
    api->sequence_close(b);
    assert_int_equal(0, held(engine));
    free(tokens);
    api->close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_shared_prefix),
        cmocka_unit_test(test_reserved_is_usable),
        cmocka_unit_test(test_refusal_takes_nothing),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
