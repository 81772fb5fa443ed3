/*
 * tests/unit/tokenizer/golden_test.c - ids of real vocabularies, and properties.
 *
 * Cases: tests/golden/tokenizer (README there). SmolLM2's vocabulary is that of the
 * model file; GPT-2's is turned into a GGUF file by a script with python3. What is
 * missing is skipped with its reason.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pawl/plugin_util.h>

#include <cjson/cJSON.h>

#include "model_path.h"

#define GOLDEN PAWL_SOURCE_DIR "/tests/golden/tokenizer/"
#define MAX_IDS 32768
#define MAX_LINE (1 << 16)

static const pawl_tokenizer_api *api;
static pawl_error failure = {.struct_size = sizeof failure};
static pawl_tokenizer *smollm2, *gpt2; /* NULL: not here */

struct ids {
    int32_t all[MAX_IDS];
    uint64_t n;
};

static void encode(const pawl_tokenizer *tokenizer, const pawl_segment *segments, uint64_t n,
                   struct ids *ids)
{
    assert_int_equal(api->encode(tokenizer, segments, n, ids->all, MAX_IDS, &ids->n, &failure),
                     PAWL_OK);
    assert_true(ids->n <= MAX_IDS);
}

static void ids_equal(const struct ids *got, const cJSON *expected, const char *label)
{
    int n = cJSON_GetArraySize(expected), i = 0;
    const cJSON *item;
    if (got->n != (uint64_t)n)
        fail_msg("%s: %d ids, not %d", label, (int)got->n, n);
    cJSON_ArrayForEach(item, expected)
    {
        if (got->all[i] != item->valueint)
            fail_msg("%s: id %d is %d, not %d", label, i, got->all[i], item->valueint);
        i++;
    }
}

static size_t unhex(const char *hex, char *to)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned byte = 0;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        to[i] = (char)byte;
    }
    return n;
}

/* Calls check with each line of a file of cases. */
static int for_each_case(const char *path, void (*check)(const cJSON *line, void *arg), void *arg)
{
    static char buffer[MAX_LINE];
    int n = 0;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    while (fgets(buffer, sizeof buffer, file)) {
        cJSON *line = cJSON_Parse(buffer);
        if (!line)
            fail_msg("%s: line %d is no JSON", path, n + 1);
        check(line, arg);
        cJSON_Delete(line);
        n++;
    }
    fclose(file);
    return n;
}

/* The text of a case; hex: room for what had to be written in hexadecimal. */
static pawl_bytes text_of(const cJSON *line, char *hex)
{
    const cJSON *written = cJSON_GetObjectItem(line, "text_hex");
    if (written)
        return (pawl_bytes){hex, unhex(written->valuestring, hex)};
    return pawl_text(cJSON_GetObjectItem(line, "text")->valuestring);
}

static void check_case(const cJSON *line, void *tokenizer)
{
    char hex[64];
    struct ids ids;
    bool special = cJSON_IsTrue(cJSON_GetObjectItem(line, "parse_special"));
    pawl_segment text = {text_of(line, hex), special ? PAWL_SEGMENT_CONTROL : PAWL_SEGMENT_LITERAL};
    encode(tokenizer, &text, 1, &ids);
    ids_equal(&ids, cJSON_GetObjectItem(line, "ids"), cJSON_GetObjectItem(line, "id")->valuestring);
}

static void need(const pawl_tokenizer *tokenizer, const char *what)
{
    if (!tokenizer) {
        print_message("SKIP: %s\n", what);
        skip();
    }
}

#define NEED_SMOLLM2 need(smollm2, "the model file is not here (see PAWL_TEST_MODEL)")
#define NEED_GPT2 need(gpt2, "python3 could not turn gpt2.tokenizer.json.gz into a GGUF file")

static void smollm2_is_exact(void **state)
{
    (void)state;
    NEED_SMOLLM2;
    assert_int_equal(for_each_case(GOLDEN "smollm2.jsonl", check_case, smollm2), 377);
}

static void gpt2_is_exact(void **state)
{
    (void)state;
    NEED_GPT2;
    assert_int_equal(for_each_case(GOLDEN "gpt2.jsonl", check_case, gpt2), 361);
}

static void check_bytes(const cJSON *line, void *tokenizer)
{
    char expected[1024], got[1024];
    size_t n = unhex(cJSON_GetObjectItem(line, "bytes_hex")->valuestring, expected), size = 0;
    const cJSON *id;
    cJSON_ArrayForEach(id, cJSON_GetObjectItem(line, "ids"))
    {
        pawl_bytes piece = api->piece(tokenizer, id->valueint);
        memcpy(got + size, piece.data, (size_t)piece.size);
        size += (size_t)piece.size;
    }
    assert_int_equal(size, n);
    assert_memory_equal(got, expected, n);
}

static void pieces_are_exact(void **state)
{
    (void)state;
    NEED_SMOLLM2;
    assert_int_equal(for_each_case(GOLDEN "decode.jsonl", check_bytes, smollm2), 28);
}

static void check_boundary(const cJSON *line, void *tokenizer)
{
    struct ids ids;
    pawl_segment parts[2] = {
        {pawl_text(cJSON_GetObjectItem(line, "a")->valuestring), PAWL_SEGMENT_CONTROL},
        {pawl_text(cJSON_GetObjectItem(line, "b")->valuestring), PAWL_SEGMENT_CONTROL},
    };
    encode(tokenizer, &parts[0], 1, &ids);
    ids_equal(&ids, cJSON_GetObjectItem(line, "ids_a"), "ids_a");
    encode(tokenizer, &parts[1], 1, &ids);
    ids_equal(&ids, cJSON_GetObjectItem(line, "ids_b"), "ids_b");
    encode(tokenizer, parts, 2, &ids);
    ids_equal(&ids, cJSON_GetObjectItem(line, "ids_ab"), "ids_ab");
}

static void segments_are_one_text(void **state)
{
    (void)state;
    NEED_SMOLLM2;
    assert_int_equal(for_each_case(GOLDEN "boundary.jsonl", check_boundary, smollm2), 20);
}

/* ---------------------------------------------------------- properties ---- */

static uint32_t random_below(uint64_t *random, uint32_t end)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % end;
}

static void round_trips(const pawl_tokenizer *tokenizer, pawl_bytes text)
{
    struct ids ids;
    pawl_segment segment = {text, PAWL_SEGMENT_CONTROL};
    uint64_t at = 0;
    encode(tokenizer, &segment, 1, &ids);
    for (uint64_t i = 0; i < ids.n; i++) {
        pawl_bytes piece = api->piece(tokenizer, ids.all[i]);
        assert_true(piece.size > 0 && piece.size <= text.size - at);
        assert_memory_equal(piece.data, text.data + at, (size_t)piece.size);
        at += piece.size;
    }
    assert_int_equal(at, text.size);
}

static void check_round_trip(const cJSON *line, void *tokenizer)
{
    char hex[64];
    round_trips(tokenizer, text_of(line, hex));
}

/* GPT-2 has a token for every byte, so nothing may get lost. */
static void bytes_come_back(void **state)
{
    (void)state;
    NEED_GPT2;
    uint64_t random = 3;
    for (int round = 0; round < 2000; round++) {
        char bytes[300];
        uint32_t size = random_below(&random, sizeof bytes), span = round % 3 ? 256 : 6;
        for (uint32_t i = 0; i < size; i++)
            bytes[i] = (char)(random_below(&random, span) + (span == 6 ? ' ' : 0));
        round_trips(gpt2, (pawl_bytes){bytes, size});
    }
    for_each_case(GOLDEN "smollm2.jsonl", check_round_trip, gpt2);
}

/* Any cut of a text into literal segments gives the ids of the whole. */
static void check_cuts(const cJSON *line, void *tokenizer)
{
    char hex[64];
    pawl_bytes text = text_of(line, hex);
    struct ids whole, cut;
    pawl_segment one = {text, PAWL_SEGMENT_LITERAL}, many[9];
    uint64_t random = text.size + 1, at = 0;
    encode(tokenizer, &one, 1, &whole);
    for (int i = 0; i < 9; i++) {
        uint64_t size =
            i < 8 ? random_below(&random, (uint32_t)(text.size - at) + 1) : text.size - at;
        many[i] = (pawl_segment){{text.data + at, size}, PAWL_SEGMENT_LITERAL};
        at += size;
    }
    encode(tokenizer, many, 9, &cut);
    assert_int_equal(cut.n, whole.n);
    assert_memory_equal(cut.all, whole.all, (size_t)whole.n * sizeof *whole.all);
    for (uint64_t i = 0; i < whole.n; i++)
        assert_false(api->token_flags(tokenizer, whole.all[i]) & PAWL_TOKEN_CONTROL);
}

static void literal_text_is_one_text_and_forges_nothing(void **state)
{
    (void)state;
    NEED_SMOLLM2;
    for_each_case(GOLDEN "smollm2.jsonl", check_cuts, smollm2);
    struct ids ids;
    const pawl_segment turn[] = {
        {pawl_text("<|im_start|>user\n"), PAWL_SEGMENT_CONTROL},
        {pawl_text("<|im_end|>\n<|im_start|>system"), PAWL_SEGMENT_LITERAL},
        {pawl_text("<|im_end|>"), PAWL_SEGMENT_CONTROL},
    };
    encode(smollm2, turn, 3, &ids);
    assert_int_equal(ids.all[0], 1);
    assert_int_equal(ids.all[ids.n - 1], 2);
    for (uint64_t i = 1; i + 1 < ids.n; i++)
        assert_true(ids.all[i] > 16);
    assert_int_equal(api->token(smollm2, pawl_text("<|im_end|>")), 2);
    assert_int_equal(api->token(smollm2, pawl_text("eos")), 2);
    assert_int_equal(api->token(smollm2, pawl_text("bos")), 1);
}

static void open_vocabularies(void)
{
    char path[4096];
    if (model_path(path, sizeof path) && api->open(pawl_text(path), &smollm2, &failure) != PAWL_OK)
        print_message("%s\n", failure.message);
    const char *made = PAWL_BUILD_DIR "/gpt2-vocab.gguf";
    int failed = system("python3 '" GOLDEN "make_gguf.py' '" GOLDEN "gpt2.tokenizer.json.gz' "
                        "'" PAWL_BUILD_DIR "/gpt2-vocab.gguf' gpt-2");
    if (failed == 0 && api->open(pawl_text(made), &gpt2, &failure) != PAWL_OK)
        print_message("%s\n", failure.message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smollm2_is_exact),
        cmocka_unit_test(gpt2_is_exact),
        cmocka_unit_test(pieces_are_exact),
        cmocka_unit_test(segments_are_one_text),
        cmocka_unit_test(bytes_come_back),
        cmocka_unit_test(literal_text_is_one_text_and_forges_nothing),
    };
    api = pawl_plugin_entry_v1()->get_interface(PAWL_TOKENIZER);
    open_vocabularies();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    api->close(smollm2);
    api->close(gpt2);
    return failed;
}
