/*
 * tests/unit/tokenizer/merge_test.c - merging, and the other small tables.
 *
 * Both ways of merging are compared with the definition, written out naively.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pawl/plugin_util.h>

#include <time.h>

#include "tokenizer/control.h"
#include "tokenizer/merge.h"
#include "tokenizer/words.h"

static const struct hash_seed seed = {0x1234567, 0x89abcdf};

static uint32_t random_below(uint64_t *random, uint32_t end)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % end;
}

/* The definition: the lowest rank, the leftmost of equals, again and again. */
static size_t merge_naive(const struct merges *merges, const uint8_t *piece, size_t size,
                          uint32_t *tokens)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        if (merges->byte_ids[piece[i]] >= 0)
            tokens[n++] = (uint32_t)merges->byte_ids[piece[i]];
    for (;;) {
        struct merge_pair best = {0, MERGE_NONE, 0};
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            struct merge_pair pair = merges_find(merges, tokens[i], tokens[i + 1]);
            if (pair.rank < best.rank) {
                best = pair;
                at = i;
            }
        }
        if (best.rank == MERGE_NONE)
            return n;
        tokens[at] = best.into;
        for (size_t i = at + 1; i + 1 < n; i++)
            tokens[i] = tokens[i + 1];
        n--;
    }
}

/* Letters a, b, c, d and 60 merges between whatever exists so far, in an order of
 * ranks that no training would give. */
static void make_random(struct merges *merges, uint64_t *random)
{
    assert_int_equal(merges_init(merges, 60, seed, NULL), PAWL_OK);
    for (int i = 0; i < 4; i++)
        merges->byte_ids['a' + i] = i;
    for (uint32_t i = 0; i < 60; i++)
        merges_put(merges, random_below(random, 4 + i), random_below(random, 4 + i),
                   (i * 37 + 11) % 61, 4 + i);
}

static void merges_by_the_definition(void **state)
{
    (void)state;
    uint64_t random = 7;
    uint8_t piece[400];
    uint32_t naive[400], quick[MERGE_SHORT];
    struct merge_scratch scratch = {NULL, NULL, 0};
    for (int round = 0; round < 400; round++) {
        struct merges merges;
        make_random(&merges, &random);
        size_t size = random_below(&random, round % 4 == 0 ? 400 : 90) + 1;
        for (size_t i = 0; i < size; i++)
            piece[i] = (uint8_t)('a' + random_below(&random, round % 2 ? 5 : 2)); /* e: no token */
        size_t n = merge_naive(&merges, piece, size, naive), got = 0;
        const uint32_t *tokens = NULL;
        assert_int_equal(merge_long(&merges, piece, size, &scratch, &tokens, &got, NULL), PAWL_OK);
        assert_int_equal(got, n);
        assert_memory_equal(tokens, naive, n * sizeof *naive);
        if (size <= MERGE_SHORT) {
            assert_int_equal(merge_short(&merges, piece, size, quick), n);
            assert_memory_equal(quick, naive, n * sizeof *naive);
        }
        merges_clear(&merges);
    }
    merge_scratch_clear(&scratch);
}

static void merges_equal_pairs_from_the_left(void **state)
{
    (void)state;
    struct merges merges;
    uint32_t tokens[MERGE_SHORT];
    assert_int_equal(merges_init(&merges, 1, seed, NULL), PAWL_OK);
    merges.byte_ids['a'] = 5;
    merges_put(&merges, 5, 5, 0, 9);
    assert_int_equal(merge_short(&merges, (const uint8_t *)"aaaaa", 5, tokens), 3);
    assert_int_equal(tokens[0], 9);
    assert_int_equal(tokens[1], 9);
    assert_int_equal(tokens[2], 5);
    assert_int_equal(merge_short(&merges, (const uint8_t *)"", 0, tokens), 0);
    merges_put(&merges, 5, 5, 0, 10); /* the later one counts */
    assert_int_equal(merges_find(&merges, 5, 5).into, 10);
    assert_int_equal(merges_find(&merges, 5, 6).rank, MERGE_NONE);
    merges_clear(&merges);
}

/* Quadratic work would take minutes; the bound is generous for slow machines. */
static void merges_a_long_run_quickly(void **state)
{
    (void)state;
    enum { SIZE = 100000 };
    struct merges merges;
    struct merge_scratch scratch = {NULL, NULL, 0};
    uint8_t *piece = malloc(SIZE);
    assert_int_equal(merges_init(&merges, 16, seed, NULL), PAWL_OK);
    merges.byte_ids['a'] = 0;
    for (uint32_t i = 0; i < 10; i++)
        merges_put(&merges, i, i, i, i + 1);
    memset(piece, 'a', SIZE);
    const uint32_t *tokens = NULL;
    size_t n = 0;
    clock_t start = clock();
    assert_int_equal(merge_long(&merges, piece, SIZE, &scratch, &tokens, &n, NULL), PAWL_OK);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_int_equal(n, SIZE / 1024 + 3); /* the rest of 672 is 512 + 128 + 32 */
    if (seconds > 2)
        fail_msg("%d letters took %.3f s", SIZE, seconds);
    free(piece);
    merge_scratch_clear(&scratch);
    merges_clear(&merges);
}

static void finds_words(void **state)
{
    (void)state;
    struct words words;
    const uint8_t text[] = "abcdefghijklmnopqrstuvwxyz";
    assert_int_equal(words_init(&words, 30, seed, NULL), PAWL_OK);
    for (uint32_t size = 1; size <= 26; size++)
        words_put(&words, text, size, (int32_t)size);
    words_put(&words, text, 3, 99); /* the first stays */
    for (uint32_t size = 1; size <= 26; size++)
        assert_int_equal(words_find(&words, text, size), size);
    for (uint32_t size = 1; size < 26; size++)
        assert_int_equal(words_find(&words, text + 1, size), -1);
    words_clear(&words);
}

/* The first match in text, as "at:length=token". */
static void match_is(const struct controls *controls, const char *text, const char *expected)
{
    size_t at, length;
    int32_t token;
    char got[64] = "none";
    if (controls_find(controls, (const uint8_t *)text, strlen(text), &at, &length, &token))
        snprintf(got, sizeof got, "%zu:%zu=%d", at, length, token);
    assert_string_equal(got, expected);
}

static void finds_the_leftmost_longest_control_token(void **state)
{
    (void)state;
    static const char *const texts[] = {"<|a|>", "<|a|><|b|>", "<|ab", "x", "<|", "\xff<"};
    struct controls controls;
    struct control *all = calloc(6, sizeof *all);
    for (int i = 0; i < 6; i++)
        all[i] = (struct control){pawl_text(texts[i]), i};
    controls_init(&controls, all, 6);
    match_is(&controls, "", "none");
    match_is(&controls, "plain <", "none");
    match_is(&controls, "__<|a|>", "2:5=0");
    match_is(&controls, "<|a|><|b|>", "0:10=1");
    match_is(&controls, "<|a|><|b|", "0:5=0");
    match_is(&controls, "<|a|", "0:2=4");
    match_is(&controls, "<|abc", "0:4=2");
    match_is(&controls, "<x", "1:1=3");
    match_is(&controls, "<\xff<|", "1:2=5");
    assert_int_equal(controls_named(&controls, pawl_text("<|ab")), 2);
    assert_int_equal(controls_named(&controls, pawl_text("<|abc")), -1);
    assert_int_equal(controls_named(&controls, pawl_text("")), -1);
    controls_clear(&controls);
    controls_init(&controls, NULL, 0);
    match_is(&controls, "<|a|>", "none");
    assert_int_equal(controls_named(&controls, pawl_text("x")), -1);
    controls_clear(&controls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_by_the_definition),
        cmocka_unit_test(merges_equal_pairs_from_the_left),
        cmocka_unit_test(merges_a_long_run_quickly),
        cmocka_unit_test(finds_words),
        cmocka_unit_test(finds_the_leftmost_longest_control_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
