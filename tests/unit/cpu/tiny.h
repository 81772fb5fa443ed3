/*
 * tests/unit/cpu/tiny.h - small random llamas, and short words for the engine's
 * table. Everything goes through pawl_plugin_entry_v1(), as a host would.
 *
 * Model files are made in the temporary folder and removed by their maker.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_UNIT_CPU_TINY_H
#define TESTS_UNIT_CPU_TINY_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <unistd.h>

#include <pawl/plugin.h>
#include <pawl/plugin_util.h>

#include "gguf_writer.h"
#include "kernels/kernels.h"

#define TINY_LAYERS 3

/* 1 where sanitizers make everything many times slower: do less of the same. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TINY_SLOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TINY_SLOW 1
#endif
#endif
#ifndef TINY_SLOW
#define TINY_SLOW 0
#endif

/* What to build; tiny_shape_default() first. */
typedef struct tiny_shape {
    uint32_t hidden;
    uint32_t head_size;
    uint32_t heads[TINY_LAYERS];
    uint32_t kv_heads[TINY_LAYERS];
    uint32_t width[TINY_LAYERS];
    uint32_t vocab;
    uint32_t context;
    uint32_t type; /* GGUF type of the matrices                    */
    bool tied;     /* no output.weight                             */
    bool biases;
    float rope_base;
    float linear;          /* rope scaling factor, 0: none                 */
    bool rope_factors;     /* a rope_freqs.weight tensor                   */
    const char *missing;   /* a tensor or key that is left out             */
    const char *misshapen; /* a tensor whose first dimension is doubled    */
    const char *replaced;  /* a key that gets `value` instead              */
    uint32_t value;
    const char *family;
    uint64_t seed;
} tiny_shape;

static inline tiny_shape tiny_shape_default(void)
{
    return (tiny_shape){.hidden = 64,
                        .head_size = 16,
                        .heads = {4, 2, 6},
                        .kv_heads = {2, 1, 2},
                        .width = {96, 64, 128},
                        .vocab = 211,
                        .context = 700,
                        .type = GGUF_T_Q4_1,
                        .rope_base = 10000.0f,
                        .family = "llama",
                        .seed = 1};
}

static inline uint64_t tiny_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline float tiny_float(uint64_t *state)
{
    return (float)((double)(tiny_next(state) >> 11) * 0x1p-52 - 1.0);
}

static inline bool tiny_is(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* A tensor of random numbers around `centre`; rows 0: a vector in F32. */
static inline void tiny_tensor(struct gguf_writer *w, tiny_shape *s, const char *name,
                               uint32_t type, uint64_t columns, uint64_t rows, float centre)
{
    if (tiny_is(s->missing, name))
        return;
    uint64_t dims[2] = {tiny_is(s->misshapen, name) ? columns * 2 : columns, rows};
    uint64_t elements, block;
    assert_true(gguf_type_block(type, &elements, &block));
    size_t n = (size_t)(dims[0] * (rows ? rows : 1));
    size_t bytes = n / (size_t)elements * (size_t)block;
    uint8_t *data = malloc(bytes + 4);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)tiny_next(&s->seed);
    for (size_t i = 0; i < bytes; i += (size_t)block) {
        float x = centre + 0.2f * tiny_float(&s->seed);
        uint16_t half = kernels_f16_from_f32(elements > 1 ? 0.03f * tiny_float(&s->seed) : x);
        uint16_t m = kernels_f16_from_f32(0.15f * tiny_float(&s->seed));
        if (type == GGUF_T_F32)
            memcpy(data + i, &x, 4);
        else if (type == GGUF_T_BF16)
            memcpy(data + i, (uint8_t *)&x + 2, 2);
        else
            memcpy(data + i, &half, 2);
        if (type == GGUF_T_Q4_1 || type == GGUF_T_Q5_1)
            memcpy(data + i + 2, &m, 2);
        if (type == GGUF_T_Q8_0) { /* wider integers, smaller steps */
            half = kernels_f16_from_f32(0.002f * tiny_float(&s->seed));
            memcpy(data + i, &half, 2);
        }
    }
    gguf_put_tensor(w, name, type, rows ? 2 : 1, dims, data, bytes);
    free(data);
}

static inline void tiny_key(struct gguf_writer *w, const tiny_shape *s, const char *key,
                            uint32_t value)
{
    if (!tiny_is(s->missing, key))
        gguf_put_u32(w, key, tiny_is(s->replaced, key) ? s->value : value);
}

static inline void tiny_keys(struct gguf_writer *w, const tiny_shape *s, const char *key,
                             const uint32_t *values)
{
    if (tiny_is(s->replaced, key))
        gguf_put_u32(w, key, s->value);
    else if (!tiny_is(s->missing, key))
        gguf_put_array(w, key, GGUF_U32, TINY_LAYERS, values, TINY_LAYERS * sizeof *values);
}

static inline void tiny_metadata(struct gguf_writer *w, const tiny_shape *s)
{
    gguf_put_string(w, "general.architecture", s->family);
    gguf_put_string(w, "general.name", "Tiny \xff\"llama\"");
    gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_u32(w, "tokenizer.ggml.eos_token_id", 2);
    tiny_key(w, s, "llama.block_count", TINY_LAYERS);
    tiny_key(w, s, "llama.embedding_length", s->hidden);
    tiny_key(w, s, "llama.context_length", s->context);
    tiny_key(w, s, "llama.attention.key_length", s->head_size);
    tiny_keys(w, s, "llama.attention.head_count", s->heads);
    tiny_keys(w, s, "llama.attention.head_count_kv", s->kv_heads);
    tiny_keys(w, s, "llama.feed_forward_length", s->width);
    gguf_put_f32(w, "llama.rope.freq_base", s->rope_base);
    gguf_put_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    if (s->linear > 0) {
        gguf_put_string(w, "llama.rope.scaling.type", "linear");
        gguf_put_f32(w, "llama.rope.scaling.factor", s->linear);
    }
}

static inline void tiny_layer(struct gguf_writer *w, tiny_shape *s, uint32_t i)
{
    uint32_t queries = s->heads[i] * s->head_size;
    uint32_t keys = s->kv_heads[i] * s->head_size;
    const struct {
        const char *part;
        uint32_t columns;
        uint32_t rows; /* 0: a vector */
        float centre;
        bool bias;
    } parts[] = {
        {"attn_norm.weight", s->hidden, 0, 1, false},
        {"attn_q.weight", s->hidden, queries, 0, false},
        {"attn_k.weight", s->hidden, keys, 0, false},
        {"attn_v.weight", s->hidden, keys, 0, false},
        {"attn_output.weight", queries, s->hidden, 0, false},
        {"ffn_norm.weight", s->hidden, 0, 1, false},
        {"ffn_gate.weight", s->hidden, s->width[i], 0, false},
        {"ffn_up.weight", s->hidden, s->width[i], 0, false},
        {"ffn_down.weight", s->width[i], s->hidden, 0, false},
        {"attn_q.bias", queries, 0, 0, true},
        {"attn_k.bias", keys, 0, 0, true},
        {"attn_v.bias", keys, 0, 0, true},
        {"attn_output.bias", s->hidden, 0, 0, true},
    };
    for (size_t j = 0; j < sizeof parts / sizeof parts[0]; j++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s", i, parts[j].part);
        if (!parts[j].bias || s->biases)
            tiny_tensor(w, s, name, parts[j].rows ? s->type : GGUF_T_F32, parts[j].columns,
                        parts[j].rows, parts[j].centre);
    }
}

/* Writes the model and returns its path, to be given to tiny_remove(). */
static inline char *tiny_write(const tiny_shape *shape)
{
    struct gguf_writer w;
    tiny_shape s = *shape;
    char path[] = "/tmp/pawl-tiny-XXXXXX";
    gguf_writer_init(&w);
    tiny_metadata(&w, &s);
    tiny_tensor(&w, &s, "token_embd.weight", s.type, s.hidden, s.vocab, 0);
    tiny_tensor(&w, &s, "output_norm.weight", GGUF_T_F32, s.hidden, 0, 1);
    if (!s.tied)
        tiny_tensor(&w, &s, "output.weight", s.type, s.hidden, s.vocab, 0);
    if (s.rope_factors)
        tiny_tensor(&w, &s, "rope_freqs.weight", GGUF_T_F32, s.head_size / 2, 0, 2);
    for (uint32_t i = 0; i < TINY_LAYERS; i++)
        tiny_layer(&w, &s, i);
    gguf_writer_finish(&w);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_true(gguf_writer_save(&w, path));
    gguf_writer_clear(&w);
    char *copy = strdup(path);
    assert_non_null(copy);
    return copy;
}

static inline void tiny_remove(char *path)
{
    unlink(path);
    free(path);
}

static inline const pawl_engine_api *tiny_api(void)
{
    const pawl_engine_api *api = pawl_plugin_entry_v1()->get_interface(PAWL_ENGINE);
    assert_non_null(api);
    return api;
}

static inline pawl_engine_config tiny_config(const char *path, uint32_t threads,
                                             const char *options)
{
    return (pawl_engine_config){.struct_size = sizeof(pawl_engine_config),
                                .max_sequences = 16,
                                .threads = threads,
                                .model_path = pawl_text(path),
                                .options = pawl_text(options)};
}

static inline pawl_engine *tiny_open(const char *path, uint32_t threads, const char *options)
{
    pawl_engine *engine = NULL;
    pawl_error error = {.struct_size = sizeof error};
    pawl_engine_config config = tiny_config(path, threads, options);
    if (tiny_api()->open(&config, NULL, NULL, &engine, &error) != PAWL_OK)
        fail_msg("open: %s", error.message);
    return engine;
}

static inline pawl_sequence *tiny_sequence(pawl_engine *engine)
{
    pawl_sequence *sequence = NULL;
    assert_int_equal(PAWL_OK, tiny_api()->sequence_open(engine, &sequence, NULL));
    return sequence;
}

static inline pawl_status tiny_submit(pawl_engine *engine, pawl_slot *slots, size_t n)
{
    uint64_t ticket = 0;
    pawl_status status = tiny_api()->submit(engine, slots, sizeof *slots, n, &ticket, NULL);
    return status == PAWL_OK ? tiny_api()->wait(engine, ticket, NULL) : status;
}

/* Appends tokens; logits: n rows for the last n of them. */
static inline void tiny_run(pawl_engine *engine, pawl_sequence *sequence, const int32_t *tokens,
                            size_t n, float *logits, size_t n_logits)
{
    pawl_slot slot = {.sequence = sequence,
                      .tokens = tokens,
                      .n_tokens = n,
                      .logits = logits,
                      .n_logits = n_logits};
    assert_int_equal(PAWL_OK, tiny_submit(engine, &slot, 1));
    assert_int_equal(PAWL_OK, slot.status);
}

static inline int32_t *tiny_tokens(uint64_t seed, size_t n, uint32_t vocab)
{
    int32_t *tokens = malloc(n * sizeof *tokens);
    assert_non_null(tokens);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(tiny_next(&seed) % vocab);
    return tokens;
}

static inline float *tiny_floats(size_t n)
{
    float *floats = calloc(n, sizeof *floats);
    assert_non_null(floats);
    return floats;
}

#endif /* TESTS_UNIT_CPU_TINY_H */
