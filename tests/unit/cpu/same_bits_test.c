/*
 * tests/unit/cpu/same_bits_test.c - the same bits for each sequence, however it is
 * run (kernels/README.md, "The rule").
 *
 * Sixteen sequences of different lengths: alone and together, prefilled in one piece
 * and in chunks of 1, 7, 64 and 512 tokens while others decode, on 1 to 4 threads,
 * with every instruction set, forked, cut back, saved and loaded here and in another
 * process, closed and computed again. For every way in which keys and values are kept,
 * of two random models of odd sizes and of SmolLM2 (SKIP where it is not at hand).
 * PAWL_TEST_LONG=1 plays every combination instead of a selection: some minutes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "same_bits.h"

#include <sys/wait.h>

#include "real.h"

#define REAL_VOCAB 49152u

static const char *const kv_types[] = {"f16", "bf16", "q8", "f32"};
static const size_t chunks[] = {1, 7, 64, 512};

/* On both sides of pages (64), spans and chunks (256), passes (128). */
static const size_t tiny_lengths[CAST] = {600, 300, 257, 256, 255, 129, 128, 64,
                                          65,  63,  1,   2,   7,   33,  40,  90};
static const size_t real_lengths[CAST] = {261, 65, 1,  17, 64, 33, 2,  7,
                                          40,  5,  12, 3,  24, 8,  70, 50};
static const size_t short_lengths[CAST] = {70, 5, 33};
static const size_t slow_lengths[CAST] = {260, 65, 1, 40};

static bool everything(void)
{
    return getenv("PAWL_TEST_LONG") != NULL;
}

/* A floating model whose every size is odd in some way, or one of int8 products. */
static tiny_shape odd_shape(bool blocks)
{
    tiny_shape s = tiny_shape_default();
    const uint32_t floating[] = {101, 57, 131}, whole[] = {224, 96, 160}, heads[] = {9, 3, 15};
    s.hidden = blocks ? 96 : 90;
    s.head_size = blocks ? 32 : 44; /* 44: a block and a part of one */
    s.type = blocks ? GGUF_T_Q4_1 : GGUF_T_F16;
    s.context = 1024;
    for (size_t i = 0; i < TINY_LAYERS; i++) {
        s.heads[i] = heads[i];
        s.kv_heads[i] = 3;
        s.width[i] = blocks ? whole[i] : floating[i];
    }
    return s;
}

static void options_of(char *options, size_t room, const char *kv, const char *isa)
{
    snprintf(options, room, "{\"kv_type\":\"%s\",\"isa\":\"%s\"}", kv, isa);
}

static void play_way(const script *s, uint32_t threads, const char *isa, const char *kv,
                     const way *w)
{
    char options[96], what[160];
    options_of(options, sizeof options, kv, isa);
    snprintf(what, sizeof what, "%s, %u threads, parts %x, chunks of %zu%s", options, threads,
             w->who, w->chunk, w->events ? ", disturbed" : "");
    pawl_engine *engine = cast_engine(s->path, threads, options);
    play(engine, s, w, what);
    tiny_api()->close(engine);
}

/* Each part by itself, in chunks. */
static void play_alone(const script *s, const char *kv, uint32_t who, size_t chunk)
{
    char options[96], what[160];
    options_of(options, sizeof options, kv, "auto");
    pawl_engine *engine = cast_engine(s->path, 2, options);
    for (uint32_t i = 0; i < CAST; i++) {
        const way w = {.who = who & 1u << i, .chunk = chunk};
        snprintf(what, sizeof what, "%s, part %u alone in chunks of %zu", options, i, chunk);
        if (w.who)
            play(engine, s, &w, what);
    }
    tiny_api()->close(engine);
}

/* ---- in another process ---- */

/* The file that goes to it: this, then the ids, then the saved chunks. What comes back
 * in its place: the ids of [at, total), then their bits. */
typedef struct letter {
    size_t at;    /* tokens with state                  */
    size_t known; /* ids: one more                      */
    size_t total; /* how far the other one is to go     */
    uint32_t vocab;
    uint32_t threads;
} letter;

/* Argument of the other process: FILE MODEL OPTIONS. */
static int resume(char **argv)
{
    letter l;
    FILE *file = fopen(argv[0], "rb");
    assert_true(file && fread(&l, sizeof l, 1, file) == 1);
    int32_t *tokens = tiny_tokens(0, l.total + 1, l.vocab);
    assert_int_equal(l.known, fread(tokens, sizeof *tokens, l.known, file));
    blob saved = {.data = malloc((size_t)64 << 20)};
    assert_non_null(saved.data);
    saved.size = fread(saved.data, 1, (size_t)64 << 20, file);
    fclose(file);
    pawl_engine *engine = cast_engine(argv[1], l.threads, argv[2]);
    script s = {.path = argv[1], .vocab = l.vocab, .looked = WHOLE};
    pawl_sequence *sequence = tiny_sequence(engine);
    blob_load_all(&saved, sequence, tokens, l.at);
    file = fopen(argv[0], "wb");
    assert_non_null(file);
    float *logits = tiny_floats(s.vocab);
    for (size_t at = l.at; at < l.total; at++) {
        int32_t out;
        pawl_slot slot = {.sequence = sequence,
                          .tokens = tokens + at,
                          .n_tokens = 1,
                          .flags = PAWL_SLOT_SAMPLE,
                          .out_tokens = &out,
                          .logits = logits,
                          .n_logits = 1};
        assert_int_equal(PAWL_OK, tiny_submit(engine, &slot, 1));
        uint64_t bits = bits_of(logits, s.vocab);
        tokens[at + 1] = at + 1 < l.known ? tokens[at + 1] : out;
        assert_true(fwrite(&tokens[at], sizeof *tokens, 1, file) == 1);
        assert_true(fwrite(&bits, sizeof bits, 1, file) == 1);
    }
    assert_int_equal(0, fclose(file));
    tiny_api()->sequence_close(sequence);
    tiny_api()->close(engine);
    free(saved.data);
    free(tokens);
    free(logits);
    return 0;
}

/* Saves part p after `at` tokens, as a sequence in another engine would be. */
static void write_letter(const script *s, const part *p, size_t at, const char *options,
                         uint32_t threads, const char *path)
{
    letter l = {at, at + 1, p->total, s->vocab, threads};
    blob saved = {0};
    pawl_engine *engine = cast_engine(s->path, 2, options);
    pawl_sequence *sequence = tiny_sequence(engine);
    tiny_run(engine, sequence, p->tokens, at, NULL, 0);
    blob_save_all(&saved, sequence, at);
    tiny_api()->sequence_close(sequence);
    tiny_api()->close(engine);
    FILE *file = fopen(path, "wb");
    assert_true(file && fwrite(&l, sizeof l, 1, file) == 1);
    assert_int_equal(l.known, fwrite(p->tokens, sizeof *p->tokens, l.known, file));
    assert_int_equal(saved.size, fwrite(saved.data, 1, saved.size, file));
    assert_int_equal(0, fclose(file));
    free(saved.data);
}

static void expect_answer(const part *p, size_t at, const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    for (; at < p->total; at++) {
        int32_t token;
        uint64_t bits;
        assert_true(fread(&token, sizeof token, 1, file) == 1);
        assert_true(fread(&bits, sizeof bits, 1, file) == 1);
        if (token != p->tokens[at] || bits != p->bits[at])
            fail_msg("in another process: part of %zu tokens: token %zu or what follows differs",
                     p->prompt, at);
    }
    fclose(file);
}

static void play_elsewhere(const script *s, const part *p, const char *kv, const char *isa,
                           uint32_t threads)
{
    char path[] = "/tmp/pawl-resume-XXXXXX", here[96], there[96];
    int fd = mkstemp(path), status = -1;
    size_t at = p->prompt + 2;
    assert_true(fd >= 0);
    close(fd);
    options_of(here, sizeof here, kv, "auto");
    options_of(there, sizeof there, kv, isa);
    write_letter(s, p, at, here, threads, path);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "same_bits_test", "--resume", path, s->path, there, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_int_equal(0, status);
    expect_answer(p, at, path);
    unlink(path);
}

/* ---- the plays ---- */

/* A selection: each chunk size and each number of threads with one another once. */
static void play_selection(const script *s, const char *kv, uint32_t *happened)
{
    for (uint32_t i = 0; i < 4; i++) {
        play_alone(s, kv, ALL_PARTS, chunks[i]);
        const way w = {ALL_PARTS, chunks[i], i, 0, NULL};
        const way disturbed = {ALL_PARTS, chunks[i], i, EVENT_ALL, happened};
        play_way(s, i + 1, "auto", kv, &w);
        play_way(s, 4 - i, "auto", kv, &disturbed);
    }
}

static void play_everything(const script *s, const char *kv, uint32_t *happened)
{
    for (uint32_t i = 0; i < 4; i++) {
        play_alone(s, kv, ALL_PARTS, chunks[i]);
        for (uint32_t threads = 1; threads <= 4; threads++) {
            const way w = {ALL_PARTS, chunks[i], threads, 0, NULL};
            play_way(s, threads, "auto", kv, &w);
            for (uint32_t event = 1; event < EVENT_ALL; event *= 2) {
                const way disturbed = {ALL_PARTS, chunks[i], threads, event, happened};
                play_way(s, threads, "auto", kv, &disturbed);
            }
        }
    }
}

static void play_instruction_sets(const script *s, const char *kv, uint32_t who)
{
    static const char *const isas[] = {"reference", "avx2", "avx512"};
    for (size_t i = 0; i < 3; i++) {
        const way w = {who, 64, 1, 0, NULL};
        if (kernels_choose(isas[i]))
            play_way(s, 2, isas[i], kv, &w);
        else
            printf("SKIP %s: this machine has no such instructions\n", isas[i]);
    }
}

static void play_model(const char *path, uint32_t vocab, const char *kv)
{
    char options[96];
    uint32_t happened = 0;
    options_of(options, sizeof options, kv, "auto");
    script s = {.path = path, .options = options, .vocab = vocab, .looked = WHOLE};
    write_script(&s, TINY_SLOW ? slow_lengths : tiny_lengths, 6);
    if (TINY_SLOW) {
        const way w = {ALL_PARTS, 64, 1, EVENT_ALL, &happened};
        play_way(&s, 2, "auto", kv, &w);
    } else if (everything()) {
        play_everything(&s, kv, &happened);
    } else {
        play_selection(&s, kv, &happened);
    }
    assert_true(TINY_SLOW || happened == EVENT_ALL);
    play_instruction_sets(&s, kv, everything() ? ALL_PARTS : TINY_SLOW ? 0xc : 0x7fe0);
    play_elsewhere(&s, &s.parts[0], kv, "reference", 3);
    play_elsewhere(&s, &s.parts[1], kv, "auto", 1);
    clear_script(&s);
}

static void test_odd_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        tiny_shape shape = odd_shape(i);
        char *path = tiny_write(&shape);
        for (size_t kv = 0; kv < (TINY_SLOW ? 3 : 4); kv++)
            play_model(path, shape.vocab, kv_types[kv]);
        tiny_remove(path);
    }
}

/* The real model with one type: everybody (in the long form, with F16, in every
 * combination) or three short parts. */
static void play_real(const char *path, const char *kv, bool all)
{
    char options[96];
    uint32_t happened = 0;
    options_of(options, sizeof options, kv, "auto");
    script s = {.path = path, .options = options, .vocab = REAL_VOCAB, .looked = 2};
    write_script(&s, all ? real_lengths : short_lengths, 4);
    if (everything() && strcmp(kv, "f16") == 0) {
        play_everything(&s, kv, &happened);
        play_instruction_sets(&s, kv, 0x0e);
    } else {
        const way w = {ALL_PARTS, all ? 7 : 64, 1, 0, NULL};
        const way disturbed = {all ? 0x1e : ALL_PARTS, all ? 64 : 7, 1, EVENT_ALL, &happened};
        play_way(&s, 2, "auto", kv, &w);
        play_way(&s, 3, kernels_choose("avx2") ? "avx2" : "auto", kv, &disturbed);
        play_alone(&s, kv, all ? 0x0a : 0x02, 1);
        assert_true(happened);
    }
    play_elsewhere(&s, &s.parts[0], kv, "auto", 1);
    clear_script(&s);
}

static void test_real_model(void **state)
{
    (void)state;
    char buffer[512];
    const char *path = real_model(buffer, sizeof buffer);
    if (path && TINY_SLOW)
        printf("SKIP: the real model takes too long under a sanitizer\n");
    if (!path || TINY_SLOW) {
        skip();
        return;
    }
    for (size_t kv = 0; kv < 4; kv++)
        play_real(path, kv_types[kv], everything() || kv == 0);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--resume") == 0)
        return resume(argv + 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd_sizes),
        cmocka_unit_test(test_real_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
