/*
 * unit/run/prefix_engine_test.c - saved state with the CPU engine: what is loaded goes on
 * bit for bit as if it had never been away.
 *
 * A small random llama, and the plugin as the host has it. Each case computes a timeline,
 * saves it, closes the engine as a restart would, loads what is there in a new one and
 * compares the logits of all that follows with an engine that was never closed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tiny.h" /* first: kernels.h has parameters named kv */

#include "fake_kv.h"
#include "run/prefix.h"

#include <dlfcn.h>

#define CONTEXT 1400
#define ROWS 8 /* that are compared */

static char *model_path;
static tiny_shape shape;

/* tiny.h asks for it; the real one is in the shared object. */
const pawl_plugin *pawl_plugin_entry_v1(void)
{
    static void *library;
    const pawl_plugin *(*entry)(void) = NULL;
    if (!library)
        library = dlopen(PAWL_BUILD_DIR "/plugins/cpu.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    void *symbol = dlsym(library, "pawl_plugin_entry_v1");
    memcpy(&entry, &symbol, sizeof entry);
    assert_non_null(entry);
    return entry();
}

static int make_model(void **state)
{
    (void)state;
    shape = tiny_shape_default();
    shape.context = CONTEXT;
    model_path = tiny_write(&shape);
    return 0;
}

static int remove_model(void **state)
{
    (void)state;
    tiny_remove(model_path);
    return 0;
}

typedef struct world {
    run_model model;
    prefix *prefix;
} world;

static void world_open(world *w, kv *k, const char *options)
{
    *w = (world){.model = {.name = (char *)(uintptr_t) "tiny", .engine_api = tiny_api()}};
    w->model.engine = tiny_open(model_path, 1, options);
    w->model.info.struct_size = sizeof w->model.info;
    tiny_api()->info(w->model.engine, &w->model.info);
    assert_int_equal(prefix_open(&w->model, k, 1, clock_system(), &w->prefix, NULL), PAWL_OK);
    assert_non_null(w->prefix);
}

static void world_close(world *w)
{
    prefix_close(w->prefix);
    tiny_api()->close(w->model.engine);
}

static void save(world *w, const pawl_sequence *s, const int32_t *tokens, uint64_t n)
{
    prefix_track track;
    assert_int_equal(prefix_track_begin(w->prefix, &track, "", "", NULL), PAWL_OK);
    while (prefix_save_one(w->prefix, &track, "", s, tokens, n, true))
        continue;
    assert_false(track.given_up);
    prefix_track_clear(&track);
}

/* A sequence that has what is kept; *n says of how many tokens. */
static pawl_sequence *load(world *w, const int32_t *tokens, uint64_t n_tokens, uint64_t *n)
{
    prefix_chain chain;
    prefix_load *load = NULL;
    pawl_sequence *s = tiny_sequence(w->model.engine);
    prefix_chain_begin(&chain, &w->prefix->fingerprint, w->prefix->chunk, "", "", NULL);
    prefix_hit hit = prefix_find(w->prefix, &chain, tokens, n_tokens);
    assert_int_equal(prefix_load_begin(w->prefix, &chain, &hit, &load, NULL), PAWL_OK);
    prefix_chain_clear(&chain);
    while (prefix_load_one(load, s, tokens) == PREFIX_MORE)
        continue;
    *n = load->n_tokens;
    assert_int_equal(tiny_api()->length(s), *n);
    prefix_load_end(load);
    return s;
}

/* The logits of the last ROWS tokens, with the rest of the timeline computed in one piece. */
static void finish(world *w, pawl_sequence *s, const int32_t *tokens, uint64_t from, uint64_t n,
                   float *logits)
{
    tiny_run(w->model.engine, s, tokens + from, (size_t)(n - from), logits, ROWS);
    tiny_api()->sequence_close(s);
}

static void compare(uint64_t n_saved, uint64_t n_all, int damaged, uint64_t expected,
                    const char *options)
{
    kv *k = calloc(1, sizeof *k);
    size_t n_floats = (size_t)ROWS * shape.vocab;
    float *want = tiny_floats(n_floats), *got = tiny_floats(n_floats);
    int32_t *tokens = tiny_tokens(n_all, CONTEXT, shape.vocab);
    uint64_t n = 0;
    world w;
    world_open(&w, k, options);
    pawl_sequence *s = tiny_sequence(w.model.engine);
    tiny_run(w.model.engine, s, tokens, (size_t)n_saved, want, 1);
    save(&w, s, tokens, n_saved);
    finish(&w, s, tokens, n_saved, n_all, want);
    world_close(&w);
    if (damaged >= 0)
        k->rows[damaged].damaged = true;
    world_open(&w, k, options);
    s = load(&w, tokens, n_all, &n);
    assert_int_equal(n, expected);
    finish(&w, s, tokens, n, n_all, got);
    assert_memory_equal(want, got, n_floats * sizeof *want);
    world_close(&w);
    fake_kv_clear(k);
    free(k);
    free(want);
    free(got);
    free(tokens);
}

static void test_goes_on_exactly(void **state)
{
    (void)state;
    static const uint64_t saved[] = {1, 63, 64, 65, 255, 256, 257, 600, 1024, 1100};
    size_t n = TINY_SLOW ? 6 : sizeof saved / sizeof saved[0];
    for (size_t i = 0; i < n; i++)
        compare(saved[i], saved[i] + ROWS + 13 * i, -1, saved[i], "{}");
    compare(300, 330, -1, 300, "{\"kv_type\":\"f32\"}");
    compare(300, 330, -1, 300, "{\"kv_type\":\"bf16\"}");
    compare(300, 330, -1, 300, "{\"kv_type\":\"q8\"}");
}

static void test_goes_on_exactly_after_damage(void **state)
{
    (void)state;
    compare(600, 640, 0, 0, "{}"); /* rows: two chunks, then the end */
    compare(600, 640, 1, 256, "{}");
    compare(600, 640, 2, 512, "{}");
}

/* Other weights, other layouts and other precisions are other keys. */
static void test_strangers_find_nothing(void **state)
{
    (void)state;
    kv *k = calloc(1, sizeof *k);
    int32_t *tokens = tiny_tokens(5, CONTEXT, shape.vocab);
    float first[1024];
    uint64_t n = 1;
    world w;
    world_open(&w, k, "{}");
    pawl_sequence *s = tiny_sequence(w.model.engine);
    tiny_run(w.model.engine, s, tokens, 300, first, 1);
    save(&w, s, tokens, 300);
    tiny_api()->sequence_close(s);
    world_close(&w);
    world_open(&w, k, "{\"kv_type\":\"f32\"}");
    tiny_api()->sequence_close(load(&w, tokens, 400, &n));
    assert_int_equal(n, 0);
    world_close(&w);
    char *first_path = model_path;
    tiny_shape other = shape;
    other.seed = 99;
    model_path = tiny_write(&other);
    world_open(&w, k, "{}");
    tiny_api()->sequence_close(load(&w, tokens, 400, &n));
    assert_int_equal(n, 0);
    world_close(&w);
    tiny_remove(model_path);
    model_path = first_path;
    assert_int_equal(k->bad_ends, 0); /* nothing was even tried */
    fake_kv_clear(k);
    free(k);
    free(tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_on_exactly),
        cmocka_unit_test(test_goes_on_exactly_after_damage),
        cmocka_unit_test(test_strangers_find_nothing),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
