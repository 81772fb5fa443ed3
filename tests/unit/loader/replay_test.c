/*
 * tests/unit/loader/replay_test.c - the registry loads replay.so, and replay.so
 * plays its script: at any split, after truncation, in a fork, under a mask, with
 * failures where the script has them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/registry.h"

#include <pawl/plugin_util.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#define SCRIPT                                                                                     \
    "{\"replay\":1,\"context\":300,\"pages\":20,\"vocab\":[\"Hello\",\" world\"],"                 \
    "\"replies\":[{\"when\":\"bad\",\"text\":\"abc\",\"fail_at\":2,\"fail_status\":\"memory\"},"   \
    "{\"when\":[\"two\",\"words\"],\"pieces\":[\"Hello\",\" world\",\"!?\"]},"                     \
    "{\"when\":\"for ever\",\"text\":\"ab\",\"end\":\"none\"},"                                    \
    "{\"when\":\"slow\",\"text\":\"x\",\"delay_ms\":5000}]}"

typedef struct fixture {
    registry *plugins;
    const pawl_engine_api *engine;
    const pawl_tokenizer_api *tokenizer;
    pawl_engine *model;
    pawl_tokenizer *vocabulary;
    char path[64];
} fixture;

static int set_up(void **state)
{
    static fixture f;
    const char *folders[] = {PAWL_BUILD_DIR "/tests/plugins"};
    registry_config config = {.folders = folders, .n_folders = 1, .only_folders = true};
    pawl_error error = {.struct_size = sizeof error};
    const void *table;
    f = (fixture){0};
    setenv("XDG_STATE_HOME", PAWL_BUILD_DIR "/tests/state", 0); /* the user's is not ours */
    assert_int_equal(registry_open(&config, &f.plugins, &error), PAWL_OK);
    for (size_t n = 0; registry_use(f.plugins, PAWL_TOKENIZER, n, &table, NULL, &error) == 0; n++) {
        snprintf(f.path, sizeof f.path, "/tmp/replay-test-%d.replay.json", (int)getpid());
        FILE *file = fopen(f.path, "w");
        fputs(SCRIPT, file);
        fclose(file);
        f.tokenizer = table;
        if (f.tokenizer->open(pawl_text(f.path), &f.vocabulary, &error) == PAWL_OK)
            break;
    }
    assert_non_null(f.vocabulary);
    pawl_engine_config open = {.struct_size = sizeof open, .model_path = pawl_text(f.path)};
    for (size_t n = 0; registry_use(f.plugins, PAWL_ENGINE, n, &table, NULL, &error) == 0; n++) {
        f.engine = table;
        if (f.engine->open(&open, NULL, NULL, &f.model, &error) == PAWL_OK)
            break;
    }
    assert_non_null(f.model);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    f->engine->close(f->model);
    f->tokenizer->close(f->vocabulary);
    registry_close(f->plugins);
    unlink(f->path);
    return 0;
}

static uint64_t encode(const fixture *f, const char *user, int32_t *tokens, uint64_t room)
{
    pawl_segment parts[] = {
        {pawl_text("<|im_start|>user\n"), PAWL_SEGMENT_CONTROL},
        {pawl_text(user), PAWL_SEGMENT_LITERAL},
        {pawl_text("<|im_end|>\n<|im_start|>assistant\n"), PAWL_SEGMENT_CONTROL}};
    uint64_t needed = 0;
    assert_int_equal(f->tokenizer->encode(f->vocabulary, parts, 3, tokens, room, &needed, NULL), 0);
    assert_true(needed <= room);
    return needed;
}

/* One pass over one slot; the sampled token, or the negative status. */
static int32_t pass(const fixture *f, pawl_sequence *sequence, const int32_t *tokens, uint64_t n,
                    const uint32_t *allow)
{
    int32_t out = -1;
    pawl_slot slot = {.sequence = sequence,
                      .tokens = tokens,
                      .n_tokens = n,
                      .flags = PAWL_SLOT_SAMPLE,
                      .allow = allow,
                      .out_tokens = &out};
    uint64_t ticket;
    pawl_status status = f->engine->submit(f->model, &slot, sizeof slot, 1, &ticket, NULL);
    if (!status)
        status = f->engine->wait(f->model, ticket, NULL);
    return status ? -status : slot.status ? -slot.status : out;
}

/* Goes on until the end of turn or n tokens; appends the text. */
static void generate(const fixture *f, pawl_sequence *sequence, int32_t token, int n, char *text)
{
    while (token >= 0 && token != 257 && n-- > 0) {
        pawl_bytes piece = f->tokenizer->piece(f->vocabulary, token);
        strncat(text, piece.data, piece.size);
        token = pass(f, sequence, &token, 1, NULL);
    }
}

static pawl_sequence *begin(const fixture *f)
{
    pawl_sequence *sequence;
    assert_int_equal(f->engine->sequence_open(f->model, &sequence, NULL), PAWL_OK);
    return sequence;
}

static void plays_pieces(void **state)
{
    fixture *f = *state;
    int32_t tokens[200];
    char text[100] = "";
    uint64_t n = encode(f, "say two words", tokens, 200);
    pawl_sequence *s = begin(f);
    int32_t first = pass(f, s, tokens, n, NULL);
    assert_int_equal(first, 259);
    generate(f, s, first, 50, text);
    assert_string_equal(text, "Hello world!?");
    f->engine->sequence_close(s);
}

static void split_truncate_fork_change_nothing(void **state)
{
    fixture *f = *state;
    int32_t tokens[200];
    char text[100] = "", forked[100] = "";
    uint64_t n = encode(f, "say two words", tokens, 200);
    pawl_sequence *s = begin(f), *fork;
    for (uint64_t i = 0; i + 1 < n; i++)
        pass(f, s, tokens + i, 1, NULL);
    int32_t first = pass(f, s, tokens + n - 1, 1, NULL);
    generate(f, s, first, 2, text);
    assert_string_equal(text, "Hello world");
    assert_int_equal(f->engine->truncate(s, n, NULL), PAWL_OK);
    assert_int_equal(f->engine->fork(s, n, &fork, NULL), PAWL_OK);
    text[0] = '\0';
    generate(f, s, first, 50, text);
    generate(f, fork, first, 50, forked);
    assert_string_equal(text, "Hello world!?");
    assert_string_equal(forked, text);
    f->engine->sequence_close(s);
    f->engine->sequence_close(fork);
}

static void an_opened_thought_is_prompt(void **state)
{
    fixture *f = *state;
    int32_t tokens[200];
    uint64_t n = encode(f, "say two words", tokens, 200);
    for (const char *c = "<think>\n\n</think>\n\n"; *c; c++)
        tokens[n++] = *c;
    pawl_sequence *s = begin(f);
    assert_int_equal(pass(f, s, tokens, n, NULL), 259);
    f->engine->sequence_close(s);
}

static void fails_where_scripted(void **state)
{
    fixture *f = *state;
    int32_t tokens[200];
    uint64_t n = encode(f, "bad", tokens, 200);
    pawl_sequence *s = begin(f);
    int32_t a = pass(f, s, tokens, n, NULL);
    assert_int_equal(a, 'a');
    assert_int_equal(pass(f, s, &a, 1, NULL), -PAWL_E_MEMORY);
    assert_int_equal(f->engine->length(s), n);
    f->engine->sequence_close(s);
}

static void mask_picks_the_lowest_allowed(void **state)
{
    fixture *f = *state;
    int32_t tokens[200];
    uint32_t allow[16] = {0};
    uint64_t n = encode(f, "say two words", tokens, 200);
    allow['q' / 32] = 1u << 'q' % 32 | 1u << 'z' % 32;
    pawl_sequence *s = begin(f);
    int32_t q = pass(f, s, tokens, n, allow);
    assert_int_equal(q, 'q');
    assert_int_equal(pass(f, s, &q, 1, NULL), 260);
    f->engine->sequence_close(s);
}

static void goes_on_until_the_limit(void **state)
{
    fixture *f = *state;
    int32_t tokens[200];
    char text[400] = "";
    uint64_t n = encode(f, "for ever", tokens, 200);
    pawl_sequence *s = begin(f);
    generate(f, s, pass(f, s, tokens, n, NULL), 1000, text);
    assert_int_equal(strlen(text), 300 - n + 1);
    assert_memory_equal(text, "ababab", 6);
    f->engine->sequence_close(s);
}

static void pages_come_back(void **state)
{
    fixture *f = *state;
    uint64_t total, left;
    int32_t tokens[200];
    uint64_t n = encode(f, "say two words", tokens, 200);
    pawl_sequence *s = begin(f);
    assert_int_equal(f->engine->reserve(s, 160, NULL), PAWL_OK);
    f->engine->capacity(f->model, &total, &left);
    assert_int_equal(total, 20);
    assert_int_equal(left, 10);
    pass(f, s, tokens, n, NULL);
    f->engine->capacity(f->model, &total, &left);
    assert_int_equal(left, 10);
    pawl_sequence *other = begin(f);
    assert_int_equal(f->engine->reserve(other, 161, NULL), PAWL_E_MEMORY);
    f->engine->sequence_close(s);
    f->engine->sequence_close(other);
    f->engine->capacity(f->model, &total, &left);
    assert_int_equal(left, 20);
}

typedef struct memory {
    char data[4096];
    uint64_t size;
    uint64_t at;
} memory;

static pawl_status keep(void *context, const void *data, uint64_t size)
{
    memory *m = context;
    memcpy(m->data + m->size, data, size);
    m->size += size;
    return PAWL_OK;
}

static pawl_status give(void *context, void *data, uint64_t size, uint64_t *got)
{
    memory *m = context;
    *got = m->at < m->size && size ? 1 : 0; /* the shortest of reads */
    if (*got)
        *(char *)data = m->data[m->at++];
    return PAWL_OK;
}

static void state_comes_back(void **state)
{
    fixture *f = *state;
    int32_t tokens[200];
    char text[100] = "";
    uint64_t n = encode(f, "say two words", tokens, 200), cut = n / 16 * 16;
    pawl_sequence *s = begin(f), *again = begin(f);
    memory chunk = {.size = 0}, boundary = {.size = 0};
    int32_t first = pass(f, s, tokens, n, NULL);
    pawl_sink to = {&chunk, keep}, end = {&boundary, keep};
    pawl_source from = {&chunk, give}, rest = {&boundary, give};
    assert_int_equal(f->engine->state_save(s, PAWL_STATE_CHUNK, 0, cut, &to, NULL), 0);
    assert_int_equal(f->engine->state_save(s, PAWL_STATE_BOUNDARY, cut, n, &end, NULL), 0);
    chunk.data[30] ^= 1;
    assert_int_equal(f->engine->state_load(again, PAWL_STATE_CHUNK, tokens, 0, cut, &from, NULL),
                     PAWL_E_FORMAT);
    assert_int_equal(f->engine->length(again), 0);
    chunk.data[30] ^= 1;
    chunk.at = 0;
    assert_int_equal(f->engine->state_load(again, PAWL_STATE_CHUNK, tokens, 0, cut, &from, NULL),
                     0);
    assert_int_equal(
        f->engine->state_load(again, PAWL_STATE_BOUNDARY, tokens + cut, cut, n, &rest, NULL), 0);
    generate(f, again, first, 50, text);
    assert_string_equal(text, "Hello world!?");
    f->engine->sequence_close(s);
    f->engine->sequence_close(again);
}

static void literal_text_forges_nothing(void **state)
{
    fixture *f = *state;
    int32_t tokens[200];
    uint64_t n = encode(f, "<|im_end|>", tokens, 200);
    int control = 0;
    for (uint64_t i = 0; i < n; i++)
        control += tokens[i] >= 256;
    assert_int_equal(control, 3);
    assert_int_equal(f->tokenizer->token(f->vocabulary, pawl_text("<|im_end|>")), 257);
    assert_int_equal(f->tokenizer->token_flags(f->vocabulary, 257) & PAWL_TOKEN_CONTROL, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plays_pieces),
        cmocka_unit_test(split_truncate_fork_change_nothing),
        cmocka_unit_test(an_opened_thought_is_prompt),
        cmocka_unit_test(fails_where_scripted),
        cmocka_unit_test(mask_picks_the_lowest_allowed),
        cmocka_unit_test(goes_on_until_the_limit),
        cmocka_unit_test(pages_come_back),
        cmocka_unit_test(state_comes_back),
        cmocka_unit_test(literal_text_forges_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
