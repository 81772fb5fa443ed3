/*
 * tests/unit/tokenizer/tokenizer_test.c - the plugin's table over a toy vocabulary.
 *
 * Everything goes through pawl_plugin_entry_v1(), as the host does it; only the
 * vocabularies are opened from memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <unistd.h>

#include "toy_vocab.h"

static const pawl_tokenizer_api *api;
static pawl_error failure = {.struct_size = sizeof failure};

#define LITERAL(text)                                                                              \
    {                                                                                              \
        {text, sizeof(text) - 1}, PAWL_SEGMENT_LITERAL                                             \
    }
#define CONTROL(text)                                                                              \
    {                                                                                              \
        {text, sizeof(text) - 1}, PAWL_SEGMENT_CONTROL                                             \
    }

static pawl_tokenizer *open_toy(void)
{
    struct toy toy;
    pawl_tokenizer *tokenizer = NULL;
    toy_init(&toy);
    assert_int_equal(toy_open(&toy, &tokenizer, &failure), PAWL_OK);
    return tokenizer;
}

static void refused(const struct toy *toy, pawl_status expected, const char *words)
{
    pawl_tokenizer *tokenizer = NULL;
    assert_int_equal(toy_open(toy, &tokenizer, &failure), expected);
    assert_null(tokenizer);
    if (!strstr(failure.message, words))
        fail_msg("message \"%s\" does not say \"%s\"", failure.message, words);
}

/* The ids of segments as text, "104 101". */
static void ids_are(const pawl_tokenizer *tokenizer, const pawl_segment *segments, uint64_t n,
                    const char *expected)
{
    int32_t ids[64];
    uint64_t needed = 0;
    char got[512] = "";
    assert_int_equal(api->encode(tokenizer, segments, n, ids, 64, &needed, &failure), PAWL_OK);
    assert_true(needed <= 64);
    for (uint64_t i = 0; i < needed; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", i ? " " : "", ids[i]);
    assert_string_equal(got, expected);
}

static void is_a_plugin(void **state)
{
    (void)state;
    const pawl_plugin *plugin = pawl_plugin_entry_v1();
    assert_int_equal(plugin->struct_size, sizeof *plugin);
    assert_string_equal(plugin->id, "dev.pawl.tokenizer");
    assert_int_equal(plugin->probe(&failure), 10);
    assert_int_equal(plugin->init(NULL, &failure), PAWL_OK);
    assert_null(plugin->get_interface(PAWL_ENGINE));
    assert_null(plugin->get_interface("pawl.tokenizer/2"));
    assert_ptr_equal(plugin->get_interface(PAWL_TOKENIZER), api);
    plugin->shutdown();
}

static void tells_about_itself(void **state)
{
    (void)state;
    pawl_tokenizer *tokenizer = open_toy();
    pawl_tokenizer_info info = {.struct_size = sizeof info};
    api->info(tokenizer, &info);
    assert_int_equal(info.vocab_size, TOY_TOKENS);
    assert_int_equal(info.bos, TOY_FIRST_CONTROL);
    assert_int_equal(info.eos, -1);
    assert_int_equal(info.eot, TOY_FIRST_CONTROL + 2); /* <|end|>, known by its name */
    assert_int_equal(info.add_bos, 1);
    assert_string_equal(info.name, "bpe gpt2/gpt-2");
    assert_int_equal(strlen(info.digest), 64);
    assert_int_equal(api->token(tokenizer, pawl_text("bos")), info.bos);
    assert_int_equal(api->token(tokenizer, pawl_text("eos")), -1);
    assert_int_equal(api->token(tokenizer, pawl_text("eot")), info.eot);
    assert_int_equal(api->token(tokenizer, pawl_text("<tool>")), TOY_FIRST_CONTROL + 3);
    assert_int_equal(api->token(tokenizer, pawl_text("hello")), -1);
    assert_int_equal(api->token(tokenizer, pawl_text("<|nope|>")), -1);

    struct toy other;
    pawl_tokenizer *changed = NULL;
    pawl_tokenizer_info second = {.struct_size = sizeof second};
    toy_init(&other);
    other.pre = "smollm";
    assert_int_equal(toy_open(&other, &changed, &failure), PAWL_OK);
    api->info(changed, &second);
    assert_string_not_equal(info.digest, second.digest);
    api->close(changed);
    api->close(tokenizer);
}

static void gives_pieces_and_flags(void **state)
{
    (void)state;
    pawl_tokenizer *tokenizer = open_toy();
    for (int32_t id = 0; id < 256; id++) {
        pawl_bytes piece = api->piece(tokenizer, id);
        assert_int_equal(piece.size, 1);
        assert_int_equal((uint8_t)piece.data[0], id);
        assert_int_equal(api->token_flags(tokenizer, id), id < 0x80 ? 0 : PAWL_TOKEN_BYTES);
    }
    assert_true(pawl_bytes_are(api->piece(tokenizer, TOY_FIRST_WORD + 6), " wor"));
    assert_true(pawl_bytes_are(api->piece(tokenizer, TOY_FIRST_CONTROL), "<|a|>"));
    assert_int_equal(api->piece(tokenizer, -1).size, 0);
    assert_int_equal(api->piece(tokenizer, TOY_TOKENS).size, 0);
    assert_int_equal(api->token_flags(tokenizer, TOY_FIRST_CONTROL),
                     PAWL_TOKEN_CONTROL | PAWL_TOKEN_ADDED);
    assert_int_equal(api->token_flags(tokenizer, TOY_FIRST_CONTROL + 3), PAWL_TOKEN_ADDED);
    assert_int_equal(api->token_flags(tokenizer, TOY_FIRST_CONTROL + 5), 0);
    assert_int_equal(api->token_flags(tokenizer, -1), 0);
    assert_int_equal(api->token_flags(tokenizer, TOY_TOKENS), 0);
    api->close(tokenizer);
}

static void encodes_across_segments(void **state)
{
    (void)state;
    pawl_tokenizer *tokenizer = open_toy();
    const pawl_segment one[] = {LITERAL("hello wor")};
    const pawl_segment cut[] = {LITERAL("he"), CONTROL("l"), LITERAL(""), LITERAL("lo"),
                                CONTROL(" wor")};
    ids_are(tokenizer, one, 1, "259 262");
    ids_are(tokenizer, cut, 5, "259 262");
    ids_are(tokenizer, NULL, 0, "");
    ids_are(tokenizer, (pawl_segment[]){{{NULL, 0}, 0}}, 1, "");
    const pawl_segment letters[] = {LITERAL("aaaaaaa")};
    ids_are(tokenizer, letters, 1, "264 263 97");
    api->close(tokenizer);
}

static void matches_control_tokens_only_where_allowed(void **state)
{
    (void)state;
    pawl_tokenizer *tokenizer = open_toy();
    const pawl_segment literal[] = {LITERAL("<|a|>")};
    const pawl_segment control[] = {CONTROL("he<|a|>ll<|a|><|b|>o")};
    const pawl_segment across[] = {CONTROL("<|a"), CONTROL("|>")};
    const pawl_segment lead[] = {CONTROL("<|a|"), LITERAL(">")};
    const pawl_segment around[] = {LITERAL("hel"), CONTROL("<|end|>"), LITERAL("lo")};
    const pawl_segment filler[] = {CONTROL("[PAD7]<|nope|><tool>")};
    ids_are(tokenizer, literal, 1, "60 124 97 124 62");
    ids_are(tokenizer, control, 1, "256 265 257 266 111");
    ids_are(tokenizer, across, 2, "60 124 97 124 62");
    ids_are(tokenizer, lead, 2, "60 124 97 124 62");
    ids_are(tokenizer, around, 3, "256 108 267 108 111");
    ids_are(tokenizer, filler, 1, "91 80 65 68 55 93 60 124 110 111 112 101 124 62 268");
    api->close(tokenizer);
}

static void sizes_in_two_calls(void **state)
{
    (void)state;
    pawl_tokenizer *tokenizer = open_toy();
    const pawl_segment text[] = {LITERAL("hello wor!")};
    int32_t ids[3] = {-7, -7, -7};
    uint64_t needed = 0;
    assert_int_equal(api->encode(tokenizer, text, 1, NULL, 0, &needed, NULL), PAWL_OK);
    assert_int_equal(needed, 3);
    assert_int_equal(api->encode(tokenizer, text, 1, ids, 2, &needed, NULL), PAWL_OK);
    assert_int_equal(needed, 3);
    assert_int_equal(ids[1], 262);
    assert_int_equal(ids[2], -7);
    const pawl_segment bad[] = {{{"x", 1}, 7}};
    needed = 99;
    assert_int_equal(api->encode(tokenizer, bad, 1, ids, 3, &needed, &failure), PAWL_E_ARGUMENT);
    assert_int_equal(needed, 99);
    const pawl_segment huge[] = {LITERAL("a"), {{"x", UINT64_MAX}, 0}};
    assert_int_equal(api->encode(tokenizer, huge, 2, ids, 3, &needed, &failure), PAWL_E_LIMIT);
    api->close(tokenizer);
}

static void refuses_other_kinds(void **state)
{
    (void)state;
    struct toy toy;
    pawl_tokenizer *tokenizer = NULL;
    toy_init(&toy);
    toy.model = "llama";
    refused(&toy, PAWL_E_UNSUPPORTED, "tokenizer.ggml.model 'llama'");
    toy.model = "gpt2";
    toy.pre = "tekken";
    refused(&toy, PAWL_E_UNSUPPORTED, "tokenizer.ggml.pre 'tekken'");
    toy.pre = NULL;
    refused(&toy, PAWL_E_UNSUPPORTED, "no tokenizer.ggml.pre");
    assert_int_equal(api->open(pawl_text("/nonexistent"), &tokenizer, &failure), PAWL_E_NOT_FOUND);
    assert_int_equal(api->open(pawl_text("/"), &tokenizer, &failure), PAWL_E_UNSUPPORTED);
    api->close(NULL);
}

static void refuses_damaged_vocabularies(void **state)
{
    (void)state;
    struct toy toy;
    toy_init(&toy);
    toy.bos = TOY_TOKENS;
    refused(&toy, PAWL_E_FORMAT, "tokenizer.ggml.bos_token_id is 271");
    toy_init(&toy);
    toy.merges[2] = pawl_text("he zz");
    refused(&toy, PAWL_E_FORMAT, "merge 2 needs 'zz'");
    toy.merges[2] = pawl_text("he he");
    refused(&toy, PAWL_E_FORMAT, "merge 2 needs 'hehe'");
    toy.merges[2] = pawl_text("hehe");
    refused(&toy, PAWL_E_FORMAT, "merge 2 'hehe' is not two tokens");
    toy.merges[2] = pawl_text("he ");
    refused(&toy, PAWL_E_FORMAT, "merge 2");
    toy.merges[2] = pawl_text("");
    refused(&toy, PAWL_E_FORMAT, "merge 2");
    toy_init(&toy);
    toy.tokens[70] = toy.tokens[71];
    refused(&toy, PAWL_E_FORMAT, "tokens 70 and 71 are both 'G'");
    toy_init(&toy);
    toy.n_types--;
    refused(&toy, PAWL_E_FORMAT, "token_type has 270 entries");
    toy_init(&toy);
    toy.types[3] = 0;
    refused(&toy, PAWL_E_FORMAT, "token 3 has type 0");
    toy.types[3] = 7;
    refused(&toy, PAWL_E_FORMAT, "token 3 has type 7");
    toy.types[3] = -1;
    refused(&toy, PAWL_E_FORMAT, "token 3");
    static char wide[70000];
    memset(wide, 'w', sizeof wide);
    toy_init(&toy);
    toy.tokens[TOY_FIRST_CONTROL] = (pawl_bytes){wide, 300};
    refused(&toy, PAWL_E_UNSUPPORTED, "is 300 bytes long");
    toy.tokens[TOY_FIRST_CONTROL] = (pawl_bytes){wide, sizeof wide};
    refused(&toy, PAWL_E_FORMAT, "is 70000 bytes long");
}

/* Bytes that a vocabulary lacks are left out, as the reference does. */
static void leaves_out_bytes_without_a_token(void **state)
{
    (void)state;
    struct toy toy;
    pawl_tokenizer *tokenizer = NULL;
    toy_init(&toy);
    toy.types[0xff] = VOCAB_UNUSED;
    assert_int_equal(toy_open(&toy, &tokenizer, &failure), PAWL_OK);
    const pawl_segment text[] = {LITERAL("\xff\xfe!")};
    ids_are(tokenizer, text, 1, "254 33");
    api->close(tokenizer);
}

/* A token that no merges lead to is found by families that ignore merges, only. */
static void looks_tokens_up_where_the_family_does(void **state)
{
    (void)state;
    struct toy toy;
    pawl_tokenizer *tokenizer = NULL;
    const pawl_segment text[] = {LITERAL("xyz")};
    toy_init(&toy);
    toy.tokens[TOY_TOKENS - 1] = pawl_text("xyz");
    toy.types[TOY_TOKENS - 1] = VOCAB_NORMAL;
    assert_int_equal(toy_open(&toy, &tokenizer, &failure), PAWL_OK);
    ids_are(tokenizer, text, 1, "120 121 122");
    api->close(tokenizer);
    toy.pre = "llama-bpe";
    assert_int_equal(toy_open(&toy, &tokenizer, &failure), PAWL_OK);
    ids_are(tokenizer, text, 1, "270");
    api->close(tokenizer);
}

static void opens_files(void **state)
{
    (void)state;
    struct toy toy;
    struct gguf_writer w;
    pawl_tokenizer *tokenizer = NULL;
    char path[] = "/tmp/pawl-vocab-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    toy_init(&toy);
    toy_write(&toy, &w);
    assert_true(gguf_writer_save(&w, path));
    assert_int_equal(api->open(pawl_text(path), &tokenizer, &failure), PAWL_OK);
    assert_int_equal(truncate(path, 0), 0); /* the tokenizer keeps nothing of the file */
    const pawl_segment text[] = {LITERAL("hello")};
    ids_are(tokenizer, text, 1, "259");
    unlink(path);
    api->close(tokenizer);
    gguf_writer_clear(&w);
}

static void *encode_often(void *tokenizer)
{
    const pawl_segment text[] = {CONTROL("hello wor<|a|>aaaaaaa")};
    for (int i = 0; i < 2000; i++) {
        int32_t ids[8];
        uint64_t needed = 0;
        if (api->encode(tokenizer, text, 1, ids, 8, &needed, NULL) != PAWL_OK || needed != 6 ||
            ids[2] != TOY_FIRST_CONTROL || ids[5] != 'a')
            return tokenizer;
    }
    return NULL;
}

static void encodes_on_any_thread(void **state)
{
    (void)state;
    pawl_tokenizer *tokenizer = open_toy();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, tokenizer), 0);
    for (int i = 0; i < 4; i++) {
        void *bad = tokenizer;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    api->close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_a_plugin),
        cmocka_unit_test(tells_about_itself),
        cmocka_unit_test(gives_pieces_and_flags),
        cmocka_unit_test(encodes_across_segments),
        cmocka_unit_test(matches_control_tokens_only_where_allowed),
        cmocka_unit_test(sizes_in_two_calls),
        cmocka_unit_test(refuses_other_kinds),
        cmocka_unit_test(refuses_damaged_vocabularies),
        cmocka_unit_test(leaves_out_bytes_without_a_token),
        cmocka_unit_test(looks_tokens_up_where_the_family_does),
        cmocka_unit_test(opens_files),
        cmocka_unit_test(encodes_on_any_thread),
    };
    api = pawl_plugin_entry_v1()->get_interface(PAWL_TOKENIZER);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
