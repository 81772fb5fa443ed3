/*
 * loader/check_model.c - writes the kit's own model: a llama GGUF with random weights.
 *
 * GGUF 3, all little-endian:
 *
 *   "GGUF" | version u32 | tensors u64 | keys u64
 *   key: name (u64 length, bytes) | type u32 | value           … keys times
 *   tensor: name | dimensions u32 | each u64 | type u32 | offset u64   … tensors times
 *   padding to 32 | data of each tensor, each padded to 32
 *
 * The vocabulary is GPT-2's 256 byte tokens, some merges and three control tokens,
 * so that the same file serves engines and tokenizers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_rules.h"

#include "base/buf.h"

#include <errno.h>
#include <string.h>

#define DIM 64
#define HEADS 2
#define KV_HEADS 1
#define FFN 128
#define LAYERS 2
#define CONTEXT 1024
#define MAX_MODEL (4u << 20)

enum { GGUF_U32 = 4, GGUF_I32 = 5, GGUF_F32 = 6, GGUF_STRING = 8, GGUF_ARRAY = 9 };

static const char *const merges[][2] = {
    {"t", "h"},          {"i", "n"},         {"e", "r"},   {"a", "n"},        {"o", "u"},
    {"th", "e"},         {"l", "l"},         {"e", "ll"},  {"\xc4\xa0", "t"}, {"h", "e"},
    {"\xc4\xa0t", "he"}, {"in", "g"},        {"H", "ell"}, {"o", "r"},        {"Hell", "o"},
    {"\xc4\xa0", "w"},   {"\xc4\xa0w", "or"}};
static const char *const control[] = {"<|im_start|>", "<|im_end|>", "<|endoftext|>"};

#define N_MERGES (sizeof merges / sizeof *merges)
#define N_CONTROL (sizeof control / sizeof *control)
#define VOCAB (256 + N_MERGES + N_CONTROL)

/* ---- numbers and strings; the host is little-endian, as its ELF check says ---- */

static void add_u32(buf *out, uint32_t value)
{
    buf_add(out, &value, sizeof value);
}

static void add_u64(buf *out, uint64_t value)
{
    buf_add(out, &value, sizeof value);
}

static void add_string(buf *out, const char *text)
{
    add_u64(out, strlen(text));
    buf_add_text(out, text);
}

static void key_u32(buf *out, const char *key, uint32_t value)
{
    add_string(out, key);
    add_u32(out, GGUF_U32);
    add_u32(out, value);
}

static void key_f32(buf *out, const char *key, float value)
{
    add_string(out, key);
    add_u32(out, GGUF_F32);
    buf_add(out, &value, sizeof value);
}

static void key_string(buf *out, const char *key, const char *value)
{
    add_string(out, key);
    add_u32(out, GGUF_STRING);
    add_string(out, value);
}

static void key_array(buf *out, const char *key, uint32_t type, uint64_t count)
{
    add_string(out, key);
    add_u32(out, GGUF_ARRAY);
    add_u32(out, type);
    add_u64(out, count);
}

/* ---- vocabulary ---- */

/* GPT-2 shows each byte as a printable character: itself where it is one, else the
 * next of those from U+0100 on. */
static void byte_character(unsigned byte, char text[3])
{
    unsigned code = byte, next = 256;
    for (unsigned b = 0; b <= byte; b++) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte && !printable)
            code = next;
        next += !printable;
    }
    if (code < 128) {
        text[0] = (char)code;
        text[1] = '\0';
    } else {
        text[0] = (char)(0xc0 | code >> 6);
        text[1] = (char)(0x80 | (code & 0x3f));
        text[2] = '\0';
    }
}

static void add_vocabulary(buf *out)
{
    char text[32];
    key_string(out, "tokenizer.ggml.model", "gpt2");
    key_string(out, "tokenizer.ggml.pre", "gpt-2");
    key_array(out, "tokenizer.ggml.tokens", GGUF_STRING, VOCAB);
    for (unsigned b = 0; b < 256; b++) {
        byte_character(b, text);
        add_string(out, text);
    }
    for (size_t i = 0; i < N_MERGES; i++) {
        snprintf(text, sizeof text, "%s%s", merges[i][0], merges[i][1]);
        add_string(out, text);
    }
    for (size_t i = 0; i < N_CONTROL; i++)
        add_string(out, control[i]);
    key_array(out, "tokenizer.ggml.token_type", GGUF_I32, VOCAB);
    for (size_t i = 0; i < VOCAB; i++)
        add_u32(out, i < VOCAB - N_CONTROL ? 1 : 3); /* normal, control */
    key_array(out, "tokenizer.ggml.merges", GGUF_STRING, N_MERGES);
    for (size_t i = 0; i < N_MERGES; i++) {
        snprintf(text, sizeof text, "%s %s", merges[i][0], merges[i][1]);
        add_string(out, text);
    }
    key_u32(out, "tokenizer.ggml.bos_token_id", VOCAB - 1);
    key_u32(out, "tokenizer.ggml.eos_token_id", VOCAB - 2);
}

/* Gives the number of keys. */
static uint64_t add_keys(buf *out)
{
    key_string(out, "general.architecture", "llama");
    key_string(out, "general.name", "conformance");
    key_u32(out, "llama.block_count", LAYERS);
    key_u32(out, "llama.context_length", CONTEXT);
    key_u32(out, "llama.embedding_length", DIM);
    key_u32(out, "llama.feed_forward_length", FFN);
    key_u32(out, "llama.attention.head_count", HEADS);
    key_u32(out, "llama.attention.head_count_kv", KV_HEADS);
    key_u32(out, "llama.rope.dimension_count", DIM / HEADS);
    key_u32(out, "llama.vocab_size", VOCAB);
    key_f32(out, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    key_f32(out, "llama.rope.freq_base", 10000.0f);
    add_vocabulary(out);
    return 12 + 7;
}

/* ---- tensors ---- */

typedef struct writer {
    buf index; /* tensor infos */
    buf data;
    uint64_t count;
    uint64_t random;
} writer;

static void pad(buf *out)
{
    static const char zeros[32] = {0};
    buf_add(out, zeros, (32 - out->size % 32) % 32);
}

/* rows 0: a vector of ones with noise, as norms are. */
static void add_tensor(writer *w, const char *name, uint64_t columns, uint64_t rows)
{
    add_string(&w->index, name);
    add_u32(&w->index, rows ? 2 : 1);
    add_u64(&w->index, columns);
    if (rows)
        add_u64(&w->index, rows);
    add_u32(&w->index, 0); /* F32 */
    add_u64(&w->index, w->data.size);
    for (uint64_t i = 0; i < columns * (rows ? rows : 1); i++) {
        float noise = (float)check_random(&w->random) / 2147483648.0f - 0.5f;
        float value = rows ? noise * 0.5f : 1.0f + noise * 0.2f;
        buf_add(&w->data, &value, sizeof value);
    }
    pad(&w->data);
    w->count++;
}

static void add_layer(writer *w, int layer)
{
    static const struct {
        const char *name;
        uint64_t columns, rows;
    } parts[] = {{"attn_norm", DIM, 0},
                 {"attn_q", DIM, DIM},
                 {"attn_k", DIM, DIM / HEADS * KV_HEADS},
                 {"attn_v", DIM, DIM / HEADS * KV_HEADS},
                 {"attn_output", DIM, DIM},
                 {"ffn_norm", DIM, 0},
                 {"ffn_gate", DIM, FFN},
                 {"ffn_up", DIM, FFN},
                 {"ffn_down", FFN, DIM}};
    char name[64];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, parts[i].name);
        add_tensor(w, name, parts[i].columns, parts[i].rows);
    }
}

static pawl_status write_file(const char *path, const buf *bytes, pawl_error *error)
{
    FILE *file = bytes->failed ? NULL : fopen(path, "wbx");
    bool good = file && fwrite(bytes->data, 1, bytes->size, file) == bytes->size;
    if (file && fclose(file))
        good = false;
    return good ? PAWL_OK
                : pawl_fail(error, PAWL_E_NOT_FOUND, "%s cannot be written: %s", path,
                            bytes->failed ? "no memory" : strerror(errno));
}

pawl_status check_write_model(const char *path, pawl_error *error)
{
    buf keys, file;
    writer w = {.random = 42};
    buf_init(&keys, MAX_MODEL);
    buf_init(&file, MAX_MODEL);
    buf_init(&w.index, MAX_MODEL);
    buf_init(&w.data, MAX_MODEL);
    uint64_t n_keys = add_keys(&keys);
    add_tensor(&w, "token_embd.weight", DIM, VOCAB);
    for (int layer = 0; layer < LAYERS; layer++)
        add_layer(&w, layer);
    add_tensor(&w, "output_norm.weight", DIM, 0);
    add_tensor(&w, "output.weight", DIM, VOCAB);
    buf_add_text(&file, "GGUF");
    add_u32(&file, 3);
    add_u64(&file, w.count);
    add_u64(&file, n_keys);
    buf_add(&file, keys.data, keys.size);
    buf_add(&file, w.index.data, w.index.size);
    pad(&file);
    buf_add(&file, w.data.data, w.data.size);
    file.failed = file.failed || keys.failed || w.index.failed || w.data.failed;
    pawl_status status = write_file(path, &file, error);
    buf_clear(&keys);
    buf_clear(&file);
    buf_clear(&w.index);
    buf_clear(&w.data);
    return status;
}
