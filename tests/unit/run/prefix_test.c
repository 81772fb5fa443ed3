/*
 * unit/run/prefix_test.c - saved state: keys, what is saved and found, what is loaded.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_kv.h"
#include "fake_model.h"
#include "run/prefix.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define CHUNK 16

static int64_t now_ns;

static int64_t fake_now(void *context)
{
    (void)context;
    return now_ns;
}

static const base_clock fake_clock = {.monotonic_ns = fake_now};

typedef struct bench {
    pawl_engine engine;
    run_model model;
    kv kv;
    prefix *prefix;
    int32_t tokens[1024];
} bench;

static bench *bench_open(bool boundary, uint64_t min_tokens)
{
    bench *b = calloc(1, sizeof *b);
    b->engine = (pawl_engine){.max_sequences = 8, .pages = 4096, .reply_length = 4000};
    b->model = fake_saving_model(&b->engine, CHUNK, boundary);
    assert_int_equal(prefix_open(&b->model, &b->kv, min_tokens, &fake_clock, &b->prefix, NULL),
                     PAWL_OK);
    assert_non_null(b->prefix);
    for (int i = 0; i < 1024; i++)
        b->tokens[i] = (i * 7919 + i / 3) % 256;
    return b;
}

static void bench_close(bench *b)
{
    for (size_t i = 0; i < b->kv.n_rows; i++)
        assert_int_equal(b->kv.rows[i].pins, 0);
    assert_int_equal(b->engine.open_sequences, 0);
    fake_kv_clear(&b->kv);
    prefix_close(b->prefix);
    free(b);
}

/* A sequence with state for n tokens. */
static pawl_sequence *sequence_of(bench *b, const int32_t *tokens, uint64_t n)
{
    pawl_sequence *s = NULL;
    uint64_t ticket;
    assert_int_equal(fake_sequence_open(&b->engine, &s, NULL), PAWL_OK);
    pawl_slot slot = {.sequence = s, .tokens = tokens, .n_tokens = n};
    assert_int_equal(fake_submit(&b->engine, &slot, sizeof slot, 1, &ticket, NULL), PAWL_OK);
    return s;
}

static prefix_track track_of(bench *b, const char *tenant, const char *salt)
{
    prefix_track track;
    assert_int_equal(prefix_track_begin(b->prefix, &track, tenant, salt, NULL), PAWL_OK);
    return track;
}

/* Saves everything of a timeline; how many parts that took. */
static int save_all(bench *b, const int32_t *tokens, uint64_t n)
{
    prefix_track track = track_of(b, "me", "");
    pawl_sequence *s = sequence_of(b, tokens, n);
    int before = b->engine.saves;
    while (prefix_save_one(b->prefix, &track, "me", s, tokens, n, true))
        continue;
    fake_sequence_close(s);
    prefix_track_clear(&track);
    return b->engine.saves - before;
}

static prefix_hit find(bench *b, const char *tenant, const char *salt, const int32_t *tokens,
                       uint64_t n, prefix_chain *chain)
{
    prefix_chain own = {0};
    prefix_chain *c = chain ? chain : &own;
    assert_int_equal(prefix_chain_begin(c, &b->prefix->fingerprint, CHUNK, tenant, salt, NULL),
                     PAWL_OK);
    prefix_hit hit = prefix_find(b->prefix, c, tokens, n);
    prefix_chain_clear(&own);
    return hit;
}

/* Loads what is found; the sequence, or NULL where it is broken. */
static pawl_sequence *restore(bench *b, const int32_t *tokens, uint64_t n, uint64_t *n_loaded)
{
    prefix_chain chain;
    prefix_load *load = NULL;
    pawl_sequence *s = NULL;
    prefix_hit hit = find(b, "me", "", tokens, n, &chain);
    enum prefix_progress progress;
    assert_int_equal(prefix_load_begin(b->prefix, &chain, &hit, &load, NULL), PAWL_OK);
    prefix_chain_clear(&chain);
    assert_int_equal(fake_sequence_open(&b->engine, &s, NULL), PAWL_OK);
    while ((progress = prefix_load_one(load, s, tokens)) == PREFIX_MORE)
        continue;
    *n_loaded = load->n_tokens;
    prefix_load_end(load);
    if (progress == PREFIX_DONE)
        return s;
    fake_sequence_close(s);
    return NULL;
}

/* Goes on with the rest of the tokens, as if nothing had ever been saved. */
static void go_on(bench *b, pawl_sequence *s, const int32_t *tokens, uint64_t from, uint64_t n)
{
    int32_t out = 0;
    uint64_t ticket;
    pawl_slot slot = {.sequence = s,
                      .tokens = tokens + from,
                      .n_tokens = n - from,
                      .flags = PAWL_SLOT_SAMPLE,
                      .out_tokens = &out};
    assert_int_equal(fake_length(s), from);
    fake_submit(&b->engine, &slot, sizeof slot, 1, &ticket, NULL);
    assert_int_equal(slot.status, PAWL_OK);
    assert_int_equal(out, fake_next(tokens, n));
    fake_sequence_close(s);
}

/* ---------------------------------------------------------------- keys ---- */

static kv_key key_of(const run_model *model, const char *tenant, const char *salt,
                     const int32_t *tokens, uint64_t n)
{
    kv_key fingerprint, key;
    prefix_chain chain;
    assert_int_equal(prefix_fingerprint(model, &fingerprint, NULL), PAWL_OK);
    assert_int_equal(prefix_chain_begin(&chain, &fingerprint, CHUNK, tenant, salt, NULL), PAWL_OK);
    assert_int_equal(prefix_chain_extend(&chain, tokens, n, NULL), PAWL_OK);
    key = *prefix_chain_before(&chain, chain.n_keys);
    prefix_chain_clear(&chain);
    return key;
}

static void test_everything_is_in_the_key(void **state)
{
    (void)state;
    bench *b = bench_open(false, 1);
    registry_plugin engine = {.id = "cpu", .version = "1"}, newer = {.id = "cpu", .version = "2"};
    registry_plugin other = {.id = "cuda", .version = "1"};
    run_model models[6];
    for (int i = 0; i < 6; i++) {
        models[i] = b->model;
        models[i].engine_plugin = &engine;
    }
    models[1].info.kv_format = "fake/2";
    models[2].info.state_chunk = 2 * CHUNK;
    models[3].vocabulary.digest = "another";
    models[4].engine_plugin = &newer;
    models[5].engine_plugin = &other;
    kv_key keys[16];
    int n = 0;
    for (int i = 0; i < 6; i++)
        keys[n++] = key_of(&models[i], "me", "", b->tokens, 64);
    keys[n++] = key_of(&models[0], "you", "", b->tokens, 64);
    keys[n++] = key_of(&models[0], "me", "s", b->tokens, 64);
    keys[n++] = key_of(&models[0], "mes", "", b->tokens, 64);
    keys[n++] = key_of(&models[0], "me", "", b->tokens, 48);
    keys[n++] = key_of(&models[0], "me", "", b->tokens + 1, 64);
    b->tokens[0]++; /* the very first token is in all that follow */
    keys[n++] = key_of(&models[0], "me", "", b->tokens, 64);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(&keys[i], &keys[k], sizeof keys[i]);
    b->tokens[0]--;
    kv_key again = key_of(&models[0], "me", "", b->tokens, 64 + CHUNK - 1);
    assert_memory_equal(&again, &keys[0], sizeof again);
    bench_close(b);
}

static void test_links_differ_by_length_and_kind(void **state)
{
    (void)state;
    int32_t zeros[CHUNK] = {0};
    kv_key before = {{1}}, keys[CHUNK + 2];
    for (uint64_t n = 0; n <= CHUNK; n++)
        prefix_link(PAWL_STATE_CHUNK, &before, zeros, n, &keys[n], NULL);
    prefix_link(PAWL_STATE_BOUNDARY, &before, zeros, 0, &keys[CHUNK + 1], NULL);
    for (int i = 0; i < CHUNK + 2; i++)
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(&keys[i], &keys[k], sizeof keys[i]);
}

static void test_chain_is_cut_and_grows(void **state)
{
    (void)state;
    bench *b = bench_open(false, 1);
    prefix_chain chain;
    prefix_chain_begin(&chain, &b->prefix->fingerprint, CHUNK, "me", "", NULL);
    assert_int_equal(prefix_chain_extend(&chain, b->tokens, 1000, NULL), PAWL_OK);
    assert_int_equal(chain.n_keys, 1000 / CHUNK);
    kv_key last = chain.keys[5];
    prefix_chain_cut(&chain, 6 * CHUNK - 1);
    assert_int_equal(chain.n_keys, 5);
    prefix_chain_extend(&chain, b->tokens, 6 * CHUNK, NULL);
    assert_memory_equal(&last, &chain.keys[5], sizeof last);
    prefix_chain_clear(&chain);
    bench_close(b);
}

/* ------------------------------------------------------ saving, finding ---- */

static void test_round_trip(void **state)
{
    (void)state;
    uint64_t lengths[] = {1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 100, 999};
    for (int boundary = 0; boundary < 2; boundary++) {
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            bench *b = bench_open(boundary, 1);
            uint64_t n = lengths[i], loaded = 0;
            int parts = (int)(n / CHUNK) + (boundary || n % CHUNK);
            assert_int_equal(save_all(b, b->tokens, n), parts);
            assert_int_equal(find(b, "me", "", b->tokens, n + 1, NULL).n_tokens, n);
            pawl_sequence *s = restore(b, b->tokens, n + 5, &loaded);
            assert_int_equal(loaded, n);
            go_on(b, s, b->tokens, n, n + 5);
            assert_int_equal(find(b, "you", "", b->tokens, n + 1, NULL).n_tokens, 0);
            assert_int_equal(find(b, "me", "x", b->tokens, n + 1, NULL).n_tokens, 0);
            bench_close(b);
        }
    }
}

static void test_nothing_is_saved_twice(void **state)
{
    (void)state;
    bench *b = bench_open(false, 1);
    assert_int_equal(save_all(b, b->tokens, 100), 7);
    assert_int_equal(save_all(b, b->tokens, 100), 0);
    assert_int_equal(save_all(b, b->tokens, 120), 1 + 1); /* the seventh chunk, and its end */
    assert_int_equal(b->kv.puts, 9);
    b->tokens[50]++; /* another child of the first three chunks */
    assert_int_equal(save_all(b, b->tokens, 100), 4);
    bench_close(b);
}

static void test_one_part_at_a_time(void **state)
{
    (void)state;
    bench *b = bench_open(false, 1);
    prefix_track track = track_of(b, "me", "");
    pawl_sequence *s = sequence_of(b, b->tokens, 40);
    assert_true(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 40, false));
    assert_int_equal(b->engine.saves, 1);
    assert_true(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 40, false));
    assert_int_equal(b->engine.saves, 2);
    assert_false(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 40, false));
    assert_true(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 40, true));
    assert_false(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 40, true));
    assert_int_equal(b->engine.saves, 3);
    prefix_track_cut(&track, 20); /* somebody else goes on from there */
    fake_truncate(s, 20, NULL);
    assert_true(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 20, true));
    assert_false(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 20, true));
    assert_int_equal(b->engine.saves, 4);
    fake_kv_clear(&b->kv); /* all of it is thrown out */
    prefix_track_look(b->prefix, &track, b->tokens, 20);
    assert_true(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 20, true));
    assert_true(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 20, true));
    assert_false(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 20, true));
    prefix_track_clear(&track);
    fake_sequence_close(s);
    bench_close(b);
}

static void test_short_ones_are_not_worth_it(void **state)
{
    (void)state;
    bench *b = bench_open(false, 64);
    assert_int_equal(save_all(b, b->tokens, 63), 0);
    assert_int_equal(save_all(b, b->tokens, 64), 4);
    assert_int_equal(find(b, "me", "", b->tokens, 64, NULL).n_tokens, 0);
    assert_int_equal(find(b, "me", "", b->tokens, 65, NULL).n_tokens, 64);
    b->tokens[63]++; /* 48 are shared */
    assert_int_equal(find(b, "me", "", b->tokens, 65, NULL).n_tokens, 0);
    bench_close(b);
}

static void test_never_all_tokens(void **state)
{
    (void)state;
    bench *b = bench_open(false, 1);
    save_all(b, b->tokens, 64);
    assert_int_equal(find(b, "me", "", b->tokens, 64, NULL).n_tokens, 48);
    save_all(b, b->tokens, 60);
    assert_int_equal(find(b, "me", "", b->tokens, 64, NULL).n_tokens, 60);
    assert_int_equal(find(b, "me", "", b->tokens, 60, NULL).n_tokens, 48);
    assert_int_equal(find(b, "me", "", b->tokens, 0, NULL).n_tokens, 0);
    assert_int_equal(find(b, "me", "", b->tokens, 1, NULL).n_tokens, 0);
    bench_close(b);
}

static void test_children_of_one_parent(void **state)
{
    (void)state;
    bench *b = bench_open(false, 1);
    uint64_t loaded = 0;
    save_all(b, b->tokens, 90);
    for (int child = 0; child < 3; child++) {
        int32_t own[200];
        memcpy(own, b->tokens, sizeof own);
        own[90] = 300 + child;
        pawl_sequence *s = restore(b, own, 120, &loaded);
        assert_int_equal(loaded, 90);
        go_on(b, s, own, 90, 120);
        save_all(b, own, 150);
        assert_int_equal(find(b, "me", "", own, 160, NULL).n_tokens, 150);
    }
    bench_close(b);
}

/* -------------------------------------------------------------- damage ---- */

static void test_damage_is_a_miss(void **state)
{
    (void)state;
    bench *b = bench_open(false, 1);
    uint64_t loaded = 0;
    save_all(b, b->tokens, 100);
    b->kv.rows[3].damaged = true; /* in the order of saving: the fourth chunk */
    pawl_sequence *s = restore(b, b->tokens, 110, &loaded);
    assert_int_equal(loaded, 3 * CHUNK);
    go_on(b, s, b->tokens, loaded, 110);
    assert_int_equal(b->kv.bad_ends, 1);
    assert_int_equal(find(b, "me", "", b->tokens, 110, NULL).n_tokens, 3 * CHUNK);
    assert_int_equal(save_all(b, b->tokens, 100), 4); /* healed by the next who has it */
    assert_int_equal(find(b, "me", "", b->tokens, 110, NULL).n_tokens, 100);
    b->kv.reads = 0;
    b->kv.fail_read = 2; /* thrown out between looking and reading */
    s = restore(b, b->tokens, 110, &loaded);
    assert_int_equal(loaded, CHUNK);
    go_on(b, s, b->tokens, loaded, 110);
    b->engine.free_pages = 2; /* no room in the engine: nobody's fault */
    s = restore(b, b->tokens, 110, &loaded);
    assert_int_equal(loaded, 2 * CHUNK);
    assert_int_equal(b->kv.bad_ends, 1);
    fake_sequence_close(s);
    bench_close(b);
}

static void test_boundaries(void **state)
{
    (void)state;
    bench *b = bench_open(true, 1);
    uint64_t loaded = 0;
    save_all(b, b->tokens, 64); /* a cut in a long prompt */
    save_all(b, b->tokens, 100);
    assert_int_equal(find(b, "me", "", b->tokens, 110, NULL).n_tokens, 100);
    assert_int_equal(find(b, "me", "", b->tokens, 100, NULL).n_tokens,
                     64);                        /* 96 have no boundary */
    b->kv.rows[b->kv.n_rows - 1].damaged = true; /* the one at 100 */
    assert_null(restore(b, b->tokens, 110, &loaded));
    assert_int_equal(loaded, 0);
    pawl_sequence *s = restore(b, b->tokens, 110, &loaded);
    assert_int_equal(loaded, 64);
    go_on(b, s, b->tokens, loaded, 110);
    b->kv.rows[1].damaged = true; /* the second chunk: then the first is of no use */
    assert_null(restore(b, b->tokens, 110, &loaded));
    assert_int_equal(find(b, "me", "", b->tokens, 110, NULL).n_tokens, 0);
    bench_close(b);
}

static void test_a_full_cache_is_left_alone_for_a_while(void **state)
{
    (void)state;
    bench *b = bench_open(false, 1);
    prefix_track track = track_of(b, "me", "");
    pawl_sequence *s = sequence_of(b, b->tokens, 40);
    b->kv.refuse_put = PAWL_E_BUSY;
    for (int i = 0; i < 10; i++)
        assert_false(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 40, true));
    assert_int_equal(b->engine.saves, 1);
    now_ns += (int64_t)1000000000;
    b->kv.refuse_put = PAWL_OK;
    assert_true(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 40, true));
    b->kv.refuse_put = PAWL_E_LIMIT; /* never going to fit: it is not tried for ever */
    for (int i = 0; i < 10; i++)
        assert_false(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 40, true));
    assert_int_equal(b->engine.saves, 3);
    prefix_track_clear(&track);
    track = track_of(b, "me", "");
    b->engine.fail_save = PAWL_E_UNSUPPORTED;
    assert_false(prefix_save_one(b->prefix, &track, "me", s, b->tokens, 40, true));
    prefix_track_clear(&track);
    fake_sequence_close(s);
    bench_close(b);
}

static void test_engines_that_cannot(void **state)
{
    (void)state;
    pawl_engine engine = {.max_sequences = 1, .pages = 1};
    run_model model = fake_model(&engine);
    kv *k = calloc(1, sizeof *k);
    prefix *p = (prefix *)&engine;
    assert_int_equal(prefix_open(&model, k, 0, &fake_clock, &p, NULL), PAWL_OK);
    assert_null(p);
    free(k);
}

/* ---------------------------------------------------------------- pace ---- */

static void test_pace(void **state)
{
    (void)state;
    prefix_pace pace = {0};
    assert_true(prefix_pace_pays(&pace, 1000, 1)); /* nothing is known */
    prefix_pace_loaded(&pace, 256, 256 * 100);
    prefix_pace_computed(&pace, 8, 8 * 10); /* decoding: says nothing */
    assert_true(prefix_pace_pays(&pace, 1000, 1));
    prefix_pace_computed(&pace, 512, 512 * 1000);
    assert_true(prefix_pace_pays(&pace, 1000, 101));
    assert_false(prefix_pace_pays(&pace, 1000, 99));
    for (int i = 0; i < 100; i++)
        prefix_pace_loaded(&pace, 256, 256 * 5000); /* a slow disk */
    int tried = 0;
    for (int i = 0; i < 10 * PREFIX_PACE_RETRY; i++)
        tried += prefix_pace_pays(&pace, 1000, 1000);
    assert_int_equal(tried, 10);
    for (int i = 0; i < 100; i++)
        prefix_pace_loaded(&pace, 256, 256 * 100);
    assert_true(prefix_pace_pays(&pace, 1000, 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_is_in_the_key),
        cmocka_unit_test(test_links_differ_by_length_and_kind),
        cmocka_unit_test(test_chain_is_cut_and_grows),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_nothing_is_saved_twice),
        cmocka_unit_test(test_one_part_at_a_time),
        cmocka_unit_test(test_short_ones_are_not_worth_it),
        cmocka_unit_test(test_never_all_tokens),
        cmocka_unit_test(test_children_of_one_parent),
        cmocka_unit_test(test_damage_is_a_miss),
        cmocka_unit_test(test_boundaries),
        cmocka_unit_test(test_a_full_cache_is_left_alone_for_a_while),
        cmocka_unit_test(test_engines_that_cannot),
        cmocka_unit_test(test_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
