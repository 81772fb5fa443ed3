/*
 * tests/unit/cpu/model_test.c - models that must be refused, and how; options;
 * inspection.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tiny.h"

#include <cjson/cJSON.h>

/* Opening must fail with this code and a message that holds the word. */
static void expect_refusal(const tiny_shape *shape, const char *options, pawl_status code,
                           const char *word)
{
    char *path = tiny_write(shape);
    pawl_engine *engine = NULL;
    pawl_error error = {.struct_size = sizeof error};
    pawl_engine_config config = tiny_config(path, 1, options);
    pawl_status status = tiny_api()->open(&config, NULL, NULL, &engine, &error);
    if (status != code || !strstr(error.message, word))
        fail_msg("status %d \"%s\" instead of %d and \"%s\"", status, status ? error.message : "",
                 code, word);
    assert_null(engine);
    assert_int_equal(code, tiny_api()->open(&config, NULL, NULL, &engine, NULL));
    tiny_remove(path);
}

static void test_missing(void **state)
{
    (void)state;
    static const char *const tensors[] = {"token_embd.weight", "output_norm.weight",
                                          "blk.0.attn_q.weight", "blk.1.attn_norm.weight",
                                          "blk.2.ffn_down.weight"};
    static const char *const keys[] = {"llama.block_count", "llama.embedding_length",
                                       "llama.context_length", "llama.attention.head_count",
                                       "llama.feed_forward_length"};
    for (size_t i = 0; i < 5; i++) {
        tiny_shape shape = tiny_shape_default();
        shape.missing = tensors[i];
        expect_refusal(&shape, "{}", PAWL_E_NOT_FOUND, tensors[i]);
        shape.missing = keys[i];
        expect_refusal(&shape, "{}", PAWL_E_FORMAT, keys[i]);
    }
}

static void test_misshapen(void **state)
{
    (void)state;
    static const char *const tensors[] = {"token_embd.weight",   "output.weight",
                                          "output_norm.weight",  "blk.0.attn_k.weight",
                                          "blk.1.ffn_up.weight", "blk.2.ffn_norm.weight"};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        tiny_shape shape = tiny_shape_default();
        shape.misshapen = tensors[i];
        expect_refusal(&shape, "{}", PAWL_E_FORMAT, tensors[i]);
        expect_refusal(&shape, "{}", PAWL_E_FORMAT, "expected [");
    }
}

/* Rows of 64 are no whole blocks of 256. */
static void test_rows_of_blocks(void **state)
{
    (void)state;
    static const uint32_t types[] = {GGUF_T_Q2_K, GGUF_T_Q3_K, GGUF_T_Q4_K,
                                     GGUF_T_Q5_K, GGUF_T_Q6_K, GGUF_T_IQ4_XS};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        tiny_shape shape = tiny_shape_default();
        shape.type = types[i];
        expect_refusal(&shape, "{}", PAWL_E_FORMAT, "token_embd.weight");
        expect_refusal(&shape, "{}", PAWL_E_FORMAT, "multiple of 256");
    }
}

static void test_absurd_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint32_t value;
    } wrong[] = {
        {"llama.block_count", 0},
        {"llama.block_count", 4000000000u},
        {"llama.embedding_length", 0},
        {"llama.embedding_length", 4000000000u},
        {"llama.context_length", 0},
        {"llama.context_length", 4000000000u},
        {"llama.attention.head_count", 0},
        {"llama.attention.head_count", 4000000000u},
        {"llama.attention.head_count_kv", 0},
        {"llama.attention.head_count_kv", 1000000u},
        {"llama.feed_forward_length", 0},
        {"llama.feed_forward_length", 4000000000u},
        {"llama.attention.key_length", 1},
        {"llama.attention.key_length", 4000000000u},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tiny_shape shape = tiny_shape_default();
        shape.replaced = wrong[i].key;
        shape.value = wrong[i].value;
        expect_refusal(&shape, "{}", PAWL_E_FORMAT, wrong[i].key);
    }
    tiny_shape shape = tiny_shape_default();
    shape.replaced = "llama.attention.head_count_kv";
    shape.value = 3;
    expect_refusal(&shape, "{}", PAWL_E_FORMAT, "multiple");
    shape.replaced = "llama.block_count";
    shape.value = 4; /* arrays and tensors are for three */
    expect_refusal(&shape, "{}", PAWL_E_FORMAT, "one a layer");
    shape.value = 2; /* a layer too few: its weights would lie there unused */
    expect_refusal(&shape, "{}", PAWL_E_FORMAT, "block_count");
    shape.replaced = "llama.context_length";
    shape.value = 1; /* small, but possible */
    char *path = tiny_write(&shape);
    pawl_engine *engine = tiny_open(path, 1, "{}");
    tiny_api()->close(engine);
    tiny_remove(path);
}

static void test_unknown(void **state)
{
    (void)state;
    tiny_shape shape = tiny_shape_default();
    shape.family = "mamba";
    expect_refusal(&shape, "{}", PAWL_E_UNSUPPORTED, "mamba");
    shape = tiny_shape_default();
    shape.linear = -1;
    expect_refusal(&shape, "{\"colour\":1}", PAWL_E_ARGUMENT, "colour");
    expect_refusal(&shape, "{\"numeric\":\"f64\"}", PAWL_E_ARGUMENT, "fast, f32");
    expect_refusal(&shape, "{\"isa\":7}", PAWL_E_ARGUMENT, "isa");
    expect_refusal(&shape, "{\"kv_type\":\"q4\"}", PAWL_E_ARGUMENT, "f16, bf16, q8, f32");
    expect_refusal(&shape, "[]", PAWL_E_ARGUMENT, "object");
    expect_refusal(&shape, "{", PAWL_E_ARGUMENT, "object");
}

static void test_no_model(void **state)
{
    (void)state;
    pawl_engine *engine = NULL;
    pawl_engine_config config = tiny_config("/nonexistent/model.gguf", 1, "");
    assert_int_equal(PAWL_E_NOT_FOUND, tiny_api()->open(&config, NULL, NULL, &engine, NULL));
    config = tiny_config(PAWL_SOURCE_DIR "/CMakeLists.txt", 1, "");
    assert_int_equal(PAWL_E_UNSUPPORTED, tiny_api()->open(&config, NULL, NULL, &engine, NULL));
    assert_null(engine);
}

/* A file cut anywhere in its front is refused; so is one with flipped bytes, or
 * it opens and closes. */
static void test_cut_and_flipped(void **state)
{
    (void)state;
    tiny_shape shape = tiny_shape_default();
    char *path = tiny_write(&shape);
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(1 << 20);
    size_t size = fread(data, 1, 1 << 20, file);
    fclose(file);
    uint64_t seed = 4;
    for (size_t i = 0; i < 400; i++) {
        pawl_engine *engine = NULL;
        pawl_engine_config config = tiny_config(path, 1, "");
        size_t at = tiny_next(&seed) % 4096;
        uint8_t mask = (uint8_t)(1 + tiny_next(&seed) % 255);
        bool cut = i % 4 == 0;
        data[at] ^= cut ? 0 : mask;
        file = fopen(path, "wb");
        fwrite(data, 1, cut ? at : size, file);
        fclose(file);
        data[at] ^= cut ? 0 : mask;
        if (tiny_api()->open(&config, NULL, NULL, &engine, NULL) == PAWL_OK) {
            assert_false(cut);
            tiny_api()->close(engine);
        }
    }
    free(data);
    tiny_remove(path);
}

static pawl_status collect(void *context, const void *data, uint64_t size)
{
    char *text = context;
    size_t used = strlen(text);
    assert_true(used + size < 4096);
    memcpy(text + used, data, size);
    text[used + size] = '\0';
    return PAWL_OK;
}

static cJSON *inspect(const tiny_shape *shape)
{
    char text[4096] = "";
    char *path = tiny_write(shape);
    pawl_sink sink = {text, collect};
    assert_int_equal(PAWL_OK, tiny_api()->inspect(pawl_text(path), &sink, NULL));
    cJSON *json = cJSON_Parse(text);
    assert_non_null(json);
    tiny_remove(path);
    return json;
}

static double number(const cJSON *json, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(json, name);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static void test_inspect(void **state)
{
    (void)state;
    tiny_shape shape = tiny_shape_default();
    cJSON *json = inspect(&shape);
    assert_string_equal("gguf", cJSON_GetObjectItem(json, "format")->valuestring);
    assert_string_equal("llama", cJSON_GetObjectItem(json, "family")->valuestring);
    assert_string_equal("Tiny ?\"llama\"", cJSON_GetObjectItem(json, "name")->valuestring);
    assert_true(number(json, "vocab") == shape.vocab);
    assert_true(number(json, "context") == shape.context);
    assert_true(number(cJSON_GetObjectItem(json, "special"), "eos") == 2);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(json, "chat_template")));
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(json, "usable")));
    const cJSON *types = cJSON_GetObjectItem(json, "tensors");
    assert_true(number(cJSON_GetObjectItem(types, "Q4_1"), "count") == 23);
    assert_true(number(cJSON_GetObjectItem(types, "F32"), "count") == 7);
    const cJSON *memory = cJSON_GetObjectItem(json, "memory");
    assert_true(number(memory, "kv_per_token") == (2 + 1 + 2) * 16 * 2 * 2);
    assert_true(number(memory, "scratch") > 0);
    cJSON_Delete(json);

    tiny_shape mixed = tiny_shape_mixed();
    json = inspect(&mixed);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(json, "usable")));
    types = cJSON_GetObjectItem(json, "tensors");
    static const char *const names[] = {"Q2_K", "Q3_K",   "Q4_K",   "Q5_K",
                                        "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_true(number(cJSON_GetObjectItem(types, names[i]), "count") >= 2);
    memory = cJSON_GetObjectItem(json, "memory");
    assert_true(number(memory, "kv_per_token") == (2 + 1 + 2) * 64 * 2 * 2);
    cJSON_Delete(json);

    shape.family = "mamba";
    json = inspect(&shape);
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(json, "usable")));
    assert_non_null(strstr(cJSON_GetObjectItem(json, "why")->valuestring, "mamba"));
    assert_true(number(json, "file_bytes") > 1000);
    cJSON_Delete(json);
    pawl_sink nowhere = {NULL, collect};
    assert_int_equal(
        PAWL_E_UNSUPPORTED,
        tiny_api()->inspect(pawl_text(PAWL_SOURCE_DIR "/CMakeLists.txt"), &nowhere, NULL));
}

static pawl_status refuse(void *arg, double done)
{
    (void)arg;
    return done > 0.5 ? PAWL_E_CANCELLED : PAWL_OK;
}

static void test_progress_cancels(void **state)
{
    (void)state;
    tiny_shape shape = tiny_shape_default();
    char *path = tiny_write(&shape);
    pawl_engine *engine = NULL;
    pawl_engine_config config = tiny_config(path, 1, "");
    assert_int_equal(PAWL_E_CANCELLED, tiny_api()->open(&config, refuse, NULL, &engine, NULL));
    assert_null(engine);
    tiny_remove(path);
}

static void test_entry(void **state)
{
    (void)state;
    const pawl_plugin *plugin = pawl_plugin_entry_v1();
    assert_string_equal("dev.pawl.cpu", plugin->id);
    assert_true(plugin->probe(NULL) > 0);
    assert_null(plugin->get_interface("pawl.engine/2"));
    assert_null(plugin->get_interface(PAWL_CHAT));
    assert_int_equal(PAWL_OK, plugin->init(NULL, NULL));
    plugin->shutdown();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing),          cmocka_unit_test(test_misshapen),
        cmocka_unit_test(test_rows_of_blocks),   cmocka_unit_test(test_absurd_numbers),
        cmocka_unit_test(test_unknown),          cmocka_unit_test(test_no_model),
        cmocka_unit_test(test_cut_and_flipped),  cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_progress_cancels), cmocka_unit_test(test_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
