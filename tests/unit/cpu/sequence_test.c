/*
 * tests/unit/cpu/sequence_test.c - pages, limits, failing slots, cancelling, and
 * what the host may ask.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <pthread.h>

#include "tiny.h"

static char *model_path; /* of the default shape */
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

static uint64_t free_pages(const pawl_engine *engine)
{
    uint64_t total, left;
    tiny_api()->capacity(engine, &total, &left);
    assert_true(left <= total);
    return left;
}

static void test_info(void **state)
{
    (void)state;
    pawl_engine *engine = tiny_open(model_path, 2, "{\"isa\":\"reference\"}");
    pawl_engine_info info = {.struct_size = sizeof info};
    tiny_api()->info(engine, &info);
    assert_int_equal(sizeof info, info.struct_size);
    assert_int_equal(shape.vocab, info.vocab_size);
    assert_int_equal(shape.context, info.context_limit);
    assert_int_equal(shape.hidden, info.hidden_size);
    assert_int_equal(1, info.max_in_flight);
    assert_int_equal(64, info.page_tokens);
    assert_int_equal(256, info.state_chunk);
    assert_true(info.rewind_tokens == UINT64_MAX);
    assert_true(info.features & PAWL_FEATURE_BATCH_INVARIANT);
    assert_string_equal("CPU 2 threads, portable C", info.device);
    assert_non_null(strstr(info.kv_format, "kv=f16"));
    pawl_engine_info small; /* an older, smaller host */
    memset(&small, 0x55, sizeof small);
    small.struct_size = 8;
    tiny_api()->info(engine, &small);
    assert_int_equal(shape.vocab, small.vocab_size);
    assert_true(small.context_limit == 0x5555555555555555u);
    tiny_api()->close(engine);
}

/* Pages are counted as they are held: reserved, shared, copied, given back. */
static void test_pages(void **state)
{
    (void)state;
    const pawl_engine_api *api = tiny_api();
    pawl_engine *engine = tiny_open(model_path, 1, "{}");
    uint64_t all = free_pages(engine);
    int32_t *tokens = tiny_tokens(1, 300, shape.vocab);
    pawl_sequence *a = tiny_sequence(engine);
    pawl_sequence *b;
    assert_int_equal(all, free_pages(engine));
    assert_int_equal(PAWL_OK, api->reserve(a, 130, NULL));
    assert_int_equal(all - 3, free_pages(engine));
    tiny_run(engine, a, tokens, 100, NULL, 0);
    assert_int_equal(all - 3, free_pages(engine));
    assert_int_equal(PAWL_OK, api->fork(a, 100, &b, NULL));
    assert_int_equal(all - 3, free_pages(engine)); /* two shared pages */
    tiny_run(engine, b, tokens, 1, NULL, 0);
    assert_int_equal(all - 4, free_pages(engine)); /* the open page was copied */
    assert_int_equal(PAWL_OK, api->truncate(a, 64, NULL));
    assert_int_equal(all - 2, free_pages(engine));
    api->sequence_close(a);
    assert_int_equal(all - 2, free_pages(engine)); /* b holds both */
    api->sequence_close(b);
    assert_int_equal(all, free_pages(engine));
    assert_int_equal(PAWL_E_LIMIT, api->reserve(a = tiny_sequence(engine), 701, NULL));
    assert_int_equal(all, free_pages(engine));
    api->sequence_close(a);
    free(tokens);
    api->close(engine);
}

/* A budget of a few pages: a slot without memory fails alone. */
static void test_memory(void **state)
{
    (void)state;
    const pawl_engine_api *api = tiny_api();
    pawl_error error = {.struct_size = sizeof error};
    pawl_engine *engine;
    pawl_engine_config config = tiny_config(model_path, 1, "{}");
    config.memory_budget = 1000;
    assert_int_equal(PAWL_E_MEMORY, api->open(&config, NULL, NULL, &engine, &error));
    assert_non_null(strstr(error.message, "scratch"));
    uint64_t pages = 0;
    for (config.memory_budget = 5000; pages < 4; config.memory_budget += 5000) {
        if (api->open(&config, NULL, NULL, &engine, NULL) != PAWL_OK)
            continue;
        pages = free_pages(engine);
        if (pages < 4)
            api->close(engine);
    }
    assert_int_equal(4, pages);
    int32_t *tokens = tiny_tokens(1, 300, shape.vocab);
    pawl_sequence *a = tiny_sequence(engine);
    pawl_sequence *b = tiny_sequence(engine);
    pawl_slot slots[2] = {{.sequence = a, .tokens = tokens, .n_tokens = 150},
                          {.sequence = b, .tokens = tokens, .n_tokens = 100}};
    assert_int_equal(PAWL_OK, tiny_submit(engine, slots, 2));
    assert_int_equal(PAWL_OK, slots[0].status);
    assert_int_equal(PAWL_E_MEMORY, slots[1].status);
    assert_int_equal(150, api->length(a));
    assert_int_equal(0, api->length(b));
    assert_int_equal(1, free_pages(engine));
    assert_int_equal(PAWL_OK, api->truncate(a, 64, NULL));
    assert_int_equal(PAWL_OK, tiny_submit(engine, slots + 1, 1));
    assert_int_equal(PAWL_OK, slots[1].status);
    assert_int_equal(100, api->length(b));
    api->sequence_close(a);
    api->sequence_close(b);
    free(tokens);
    api->close(engine);
}

/* Each bad slot has its own status; the good one among them runs. */
static void test_bad_slots(void **state)
{
    (void)state;
    const pawl_engine_api *api = tiny_api();
    pawl_engine *engine = tiny_open(model_path, 2, "{}");
    int32_t *tokens = tiny_tokens(1, 701, shape.vocab);
    const int32_t above[] = {1, (int32_t)shape.vocab};
    const int32_t below[] = {-1};
    const uint32_t nothing[16] = {0};
    const pawl_sampling wild = {.struct_size = sizeof wild, .temperature = NAN};
    int32_t out;
    float hidden[64];
    pawl_slot slots[12] = {
        {.tokens = tokens, .n_tokens = 3},
        {.tokens = tokens, .n_tokens = 701},
        {.tokens = above, .n_tokens = 2},
        {.tokens = below, .n_tokens = 1},
        {.tokens = tokens, .n_tokens = 0},
        {.tokens = tokens, .n_tokens = 3, .n_draft = 1},
        {.tokens = tokens, .n_tokens = 3, .hidden = hidden},
        {.tokens = tokens, .n_tokens = 3, .flags = PAWL_SLOT_CHAIN},
        {.tokens = tokens, .n_tokens = 3, .flags = PAWL_SLOT_SAMPLE},
        {.tokens = tokens,
         .n_tokens = 3,
         .flags = PAWL_SLOT_SAMPLE,
         .out_tokens = &out,
         .allow = nothing},
        {.tokens = tokens,
         .n_tokens = 3,
         .flags = PAWL_SLOT_SAMPLE,
         .out_tokens = &out,
         .sampling = &wild},
        {.tokens = tokens, .n_tokens = 3},
    };
    static const int32_t want[12] = {
        PAWL_OK,         PAWL_E_LIMIT,       PAWL_E_ARGUMENT,    PAWL_E_ARGUMENT,
        PAWL_E_ARGUMENT, PAWL_E_UNSUPPORTED, PAWL_E_UNSUPPORTED, PAWL_E_UNSUPPORTED,
        PAWL_E_ARGUMENT, PAWL_E_ARGUMENT,    PAWL_E_ARGUMENT,    PAWL_E_ARGUMENT,
    };
    for (size_t i = 0; i < 11; i++)
        slots[i].sequence = tiny_sequence(engine);
    slots[11].sequence = slots[0].sequence; /* twice in one submit */
    assert_int_equal(PAWL_OK, tiny_submit(engine, slots, 12));
    for (size_t i = 0; i < 12; i++) {
        if (slots[i].status != want[i])
            fail_msg("slot %zu: status %d instead of %d", i, slots[i].status, want[i]);
        assert_int_equal(0, slots[i].n_out);
    }
    assert_int_equal(3, api->length(slots[0].sequence));
    for (size_t i = 1; i < 11; i++)
        assert_int_equal(0, api->length(slots[i].sequence));
    for (size_t i = 0; i < 11; i++)
        api->sequence_close(slots[i].sequence);
    free(tokens);
    api->close(engine);
}

/* A newer host's slots are longer, an older one's shorter. */
static void test_other_strides(void **state)
{
    (void)state;
    const pawl_engine_api *api = tiny_api();
    pawl_engine *engine = tiny_open(model_path, 1, "{}");
    struct long_slot {
        pawl_slot slot;
        uint64_t more[4];
    } slots[2];
    int32_t *tokens = tiny_tokens(1, 5, shape.vocab);
    int32_t out[2] = {-1, -1};
    uint64_t ticket = 0;
    memset(slots, 0x7f, sizeof slots);
    for (size_t i = 0; i < 2; i++)
        slots[i].slot = (pawl_slot){.sequence = tiny_sequence(engine),
                                    .tokens = tokens,
                                    .n_tokens = 5,
                                    .flags = PAWL_SLOT_SAMPLE,
                                    .out_tokens = &out[i]};
    assert_int_equal(PAWL_OK,
                     api->submit(engine, &slots[0].slot, sizeof slots[0], 2, &ticket, NULL));
    assert_int_equal(PAWL_OK, slots[1].slot.status);
    assert_true(out[0] >= 0 && out[0] == out[1]);
    assert_true(slots[0].more[0] == 0x7f7f7f7f7f7f7f7fu);
    assert_int_equal(PAWL_OK, api->wait(engine, ticket, NULL));
    assert_int_equal(PAWL_E_ARGUMENT, api->wait(engine, ticket + 1, NULL));
    uint64_t small = offsetof(pawl_slot, n_top) - 4; /* ends with n_proposed's pair */
    assert_int_equal(PAWL_OK, api->submit(engine, &slots[0].slot, small, 1, &ticket, NULL));
    assert_int_equal(PAWL_OK, slots[0].slot.status);
    assert_int_equal(10, api->length(slots[0].slot.sequence));
    assert_int_equal(PAWL_E_ARGUMENT, api->submit(engine, &slots[0].slot, 8, 1, &ticket, NULL));
    for (size_t i = 0; i < 2; i++)
        api->sequence_close(slots[i].slot.sequence);
    free(tokens);
    api->close(engine);
}

static void test_sequences_are_counted(void **state)
{
    (void)state;
    const pawl_engine_api *api = tiny_api();
    pawl_engine *engine = tiny_open(model_path, 1, "{}");
    pawl_sequence *open[16];
    pawl_sequence *more = NULL;
    for (size_t i = 0; i < 16; i++)
        open[i] = tiny_sequence(engine);
    assert_int_equal(PAWL_E_BUSY, api->sequence_open(engine, &more, NULL));
    assert_int_equal(PAWL_E_BUSY, api->fork(open[0], 0, &more, NULL));
    assert_int_equal(PAWL_E_ARGUMENT, api->truncate(open[0], 1, NULL));
    assert_int_equal(PAWL_E_ARGUMENT, api->fork(open[0], 1, &more, NULL));
    assert_null(more);
    for (size_t i = 0; i < 16; i++)
        api->sequence_close(open[i]);
    api->close(engine);
}

/* Log-probabilities of given tokens: in one piece, in pieces, and from logits. */
static void test_input_logprobs(void **state)
{
    (void)state;
    enum { N = 200 };
    const pawl_engine_api *api = tiny_api();
    pawl_engine *engine = tiny_open(model_path, 2, "{}");
    int32_t *tokens = tiny_tokens(1, N, shape.vocab);
    float *logits = tiny_floats(N * shape.vocab);
    float whole[N], parts[N];
    int32_t argmax[N];
    pawl_sequence *a = tiny_sequence(engine);
    pawl_sequence *b = tiny_sequence(engine);
    pawl_slot slot = {.sequence = a,
                      .tokens = tokens,
                      .n_tokens = N,
                      .logits = logits,
                      .n_logits = N,
                      .input_logprobs = whole,
                      .input_argmax = argmax};
    assert_int_equal(PAWL_OK, tiny_submit(engine, &slot, 1));
    for (size_t at = 0; at < N; at += 67) {
        size_t n = at + 67 < N ? 67 : N - at;
        pawl_slot part = {
            .sequence = b, .tokens = tokens + at, .n_tokens = n, .input_logprobs = parts + at};
        assert_int_equal(PAWL_OK, tiny_submit(engine, &part, 1));
    }
    assert_memory_equal(whole, parts, sizeof whole);
    assert_true(whole[0] == 0.0f);
    for (size_t i = 1; i < N; i++) {
        const float *row = logits + (i - 1) * shape.vocab;
        double sum = 0;
        for (uint32_t v = 0; v < shape.vocab; v++) {
            sum += exp((double)row[v]);
            assert_true(row[v] <= row[argmax[i - 1]]);
        }
        assert_true(fabs((double)row[tokens[i]] - log(sum) - (double)whole[i]) < 1e-4);
    }
    assert_int_equal(PAWL_OK, api->truncate(b, 0, NULL));
    float *few = tiny_floats(4 * shape.vocab); /* the first row must stay untouched */
    slot = (pawl_slot){.sequence = b,
                       .tokens = tokens,
                       .n_tokens = N,
                       .input_argmax = argmax,
                       .logits = few + shape.vocab,
                       .n_logits = 3};
    assert_int_equal(PAWL_OK, tiny_submit(engine, &slot, 1));
    assert_memory_equal(logits + (N - 3) * shape.vocab, few + shape.vocab,
                        3 * shape.vocab * sizeof *few);
    for (uint32_t v = 0; v < shape.vocab; v++)
        assert_true(few[v] == 0.0f);
    api->sequence_close(a);
    api->sequence_close(b);
    free(few);
    free(tokens);
    free(logits);
    api->close(engine);
}

typedef struct canceller {
    pawl_engine *engine;
    volatile bool done;
} canceller;

static void *keep_cancelling(void *arg)
{
    canceller *c = arg;
    while (!__atomic_load_n(&c->done, __ATOMIC_ACQUIRE)) {
        tiny_api()->cancel(c->engine);
        usleep(100);
    }
    return NULL;
}

static void test_cancel(void **state)
{
    (void)state;
    const pawl_engine_api *api = tiny_api();
    pawl_engine *engine = tiny_open(model_path, 2, "{\"isa\":\"reference\"}");
    int32_t *tokens = tiny_tokens(1, 690, shape.vocab);
    float *want = tiny_floats(shape.vocab);
    float *got = tiny_floats(shape.vocab);
    pawl_sequence *sequence = tiny_sequence(engine);
    pawl_sequence *fresh = tiny_sequence(engine);
    canceller c = {engine, false};
    pthread_t thread;
    tiny_run(engine, sequence, tokens, 10, NULL, 0);
    uint64_t left = free_pages(engine);
    assert_int_equal(0, pthread_create(&thread, NULL, keep_cancelling, &c));
    pawl_slot slot = {.sequence = sequence, .tokens = tokens + 10, .n_tokens = 680};
    assert_int_equal(PAWL_E_CANCELLED, tiny_submit(engine, &slot, 1));
    assert_int_equal(PAWL_E_CANCELLED, slot.status);
    __atomic_store_n(&c.done, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    assert_int_equal(10, api->length(sequence));
    assert_int_equal(left, free_pages(engine));
    tiny_run(engine, sequence, tokens + 10, 100, got, 1); /* as if nothing had been */
    tiny_run(engine, fresh, tokens, 110, want, 1);
    assert_memory_equal(want, got, shape.vocab * sizeof *want);
    api->sequence_close(sequence);
    api->sequence_close(fresh);
    free(tokens);
    free(want);
    free(got);
    api->close(engine);
}

/* Nothing is left behind, and an idle engine rests. */
static void test_open_close(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        tiny_api()->close(tiny_open(model_path, 3, "{}"));
    pawl_engine *engine = tiny_open(model_path, 3, "{}");
    pawl_sequence *sequence = tiny_sequence(engine);
    tiny_run(engine, sequence, (const int32_t[]){1, 2, 3}, 3, NULL, 0);
    usleep(20000);
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(200000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    double used =
        (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    assert_true(used < 0.01);
    tiny_api()->sequence_close(sequence);
    tiny_api()->close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info),           cmocka_unit_test(test_pages),
        cmocka_unit_test(test_memory),         cmocka_unit_test(test_bad_slots),
        cmocka_unit_test(test_other_strides),  cmocka_unit_test(test_sequences_are_counted),
        cmocka_unit_test(test_input_logprobs), cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_open_close),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
