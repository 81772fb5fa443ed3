/*
 * tests/unit/formats/gguf_writer.h - writes GGUF files for tests.
 *
 *     struct gguf_writer w;
 *     gguf_writer_init(&w);
 *     gguf_put_string(&w, "general.architecture", "llama");
 *     gguf_put_u32(&w, "llama.block_count", 2);
 *     gguf_put_tensor(&w, "output.weight", GGUF_T_F32, 2, (uint64_t[]){4, 3}, data, sizeof data);
 *     gguf_writer_finish(&w);              w.out now holds the file
 *     gguf_writer_save(&w, "/tmp/x.gguf");
 *     gguf_writer_clear(&w);
 *
 * The order of keys and tensors is free; names are not checked, so that damaged
 * files can be made too. A failed allocation ends the test program. The writer
 * owns its buffers until gguf_writer_clear(). One thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_GGUF_WRITER_H
#define TESTS_GGUF_WRITER_H

#include "formats/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gguf_bytes {
    uint8_t *data; /* size bytes of room                                */
    size_t size;
    size_t room;
};

struct gguf_writer {
    struct gguf_bytes out;     /* the finished file                     */
    struct gguf_bytes pairs;   /* encoded keys and values               */
    struct gguf_bytes tensors; /* encoded tensor records                */
    struct gguf_bytes data;    /* tensor data, each padded              */
    uint64_t n_pairs;
    uint64_t n_tensors;
    uint64_t alignment; /* 32 unless set before the first tensor        */
    uint32_t version;   /* 3 unless set                                 */
};

static inline void gguf_bytes_add(struct gguf_bytes *bytes, const void *data, size_t size)
{
    if (size > bytes->room - bytes->size) {
        bytes->room = (bytes->size + size) * 2 + 64;
        bytes->data = (uint8_t *)realloc(bytes->data, bytes->room);
        if (!bytes->data)
            abort();
    }
    if (size)
        memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
}

static inline void gguf_bytes_u32(struct gguf_bytes *bytes, uint32_t value)
{
    gguf_bytes_add(bytes, &value, sizeof value);
}

static inline void gguf_bytes_u64(struct gguf_bytes *bytes, uint64_t value)
{
    gguf_bytes_add(bytes, &value, sizeof value);
}

static inline void gguf_bytes_string(struct gguf_bytes *bytes, const char *data, size_t size)
{
    gguf_bytes_u64(bytes, size);
    gguf_bytes_add(bytes, data, size);
}

static inline void gguf_bytes_pad(struct gguf_bytes *bytes, uint64_t alignment)
{
    static const uint8_t zero = 0;
    while (bytes->size % alignment)
        gguf_bytes_add(bytes, &zero, 1);
}

static inline void gguf_writer_init(struct gguf_writer *w)
{
    memset(w, 0, sizeof *w);
    w->alignment = 32;
    w->version = 3;
}

static inline void gguf_writer_clear(struct gguf_writer *w)
{
    free(w->out.data);
    free(w->pairs.data);
    free(w->tensors.data);
    free(w->data.data);
    memset(w, 0, sizeof *w);
}

/* ------------------------------------------------------------ metadata ---- */

/* Any value: `size` bytes as they stand in the file after the type. */
static inline void gguf_put_raw(struct gguf_writer *w, const char *key, uint32_t type,
                                const void *value, size_t size)
{
    gguf_bytes_string(&w->pairs, key, strlen(key));
    gguf_bytes_u32(&w->pairs, type);
    gguf_bytes_add(&w->pairs, value, size);
    w->n_pairs++;
}

#define GGUF_PUT_NUMBER(name, ctype, type)                                                         \
    static inline void gguf_put_##name(struct gguf_writer *w, const char *key, ctype value)        \
    {                                                                                              \
        gguf_put_raw(w, key, type, &value, sizeof value);                                          \
    }
GGUF_PUT_NUMBER(u8, uint8_t, GGUF_U8)
GGUF_PUT_NUMBER(i8, int8_t, GGUF_I8)
GGUF_PUT_NUMBER(u16, uint16_t, GGUF_U16)
GGUF_PUT_NUMBER(i16, int16_t, GGUF_I16)
GGUF_PUT_NUMBER(u32, uint32_t, GGUF_U32)
GGUF_PUT_NUMBER(i32, int32_t, GGUF_I32)
GGUF_PUT_NUMBER(u64, uint64_t, GGUF_U64)
GGUF_PUT_NUMBER(i64, int64_t, GGUF_I64)
GGUF_PUT_NUMBER(f32, float, GGUF_F32)
GGUF_PUT_NUMBER(f64, double, GGUF_F64)
#undef GGUF_PUT_NUMBER

static inline void gguf_put_bool(struct gguf_writer *w, const char *key, bool value)
{
    uint8_t byte = value ? 1 : 0;
    gguf_put_raw(w, key, GGUF_BOOL, &byte, 1);
}

static inline void gguf_put_bytes(struct gguf_writer *w, const char *key, const void *data,
                                  size_t size)
{
    uint64_t length = size;
    gguf_put_raw(w, key, GGUF_STRING, &length, sizeof length);
    gguf_bytes_add(&w->pairs, data, size);
}

static inline void gguf_put_string(struct gguf_writer *w, const char *key, const char *value)
{
    gguf_put_bytes(w, key, value, strlen(value));
}

/* An array of numbers or bools: count elements, `bytes` in all. */
static inline void gguf_put_array(struct gguf_writer *w, const char *key, uint32_t type,
                                  uint64_t count, const void *data, size_t bytes)
{
    gguf_put_raw(w, key, GGUF_ARRAY, &type, sizeof type);
    gguf_bytes_u64(&w->pairs, count);
    gguf_bytes_add(&w->pairs, data, bytes);
}

static inline void gguf_put_strings(struct gguf_writer *w, const char *key,
                                    const pawl_bytes *strings, uint64_t count)
{
    gguf_put_array(w, key, GGUF_STRING, count, NULL, 0);
    for (uint64_t i = 0; i < count; i++)
        gguf_bytes_string(&w->pairs, strings[i].data, (size_t)strings[i].size);
}

/* ------------------------------------------------------------- tensors ---- */

/* A record alone, with whatever offset: for damaged files. */
static inline void gguf_put_tensor_record(struct gguf_writer *w, const char *name, uint32_t type,
                                          uint32_t n_dims, const uint64_t *dims, uint64_t offset)
{
    gguf_bytes_string(&w->tensors, name, strlen(name));
    gguf_bytes_u32(&w->tensors, n_dims);
    for (uint32_t d = 0; d < n_dims; d++)
        gguf_bytes_u64(&w->tensors, dims[d]);
    gguf_bytes_u32(&w->tensors, type);
    gguf_bytes_u64(&w->tensors, offset);
    w->n_tensors++;
}

static inline void gguf_put_tensor(struct gguf_writer *w, const char *name, uint32_t type,
                                   uint32_t n_dims, const uint64_t *dims, const void *data,
                                   size_t bytes)
{
    gguf_bytes_pad(&w->data, w->alignment);
    gguf_put_tensor_record(w, name, type, n_dims, dims, w->data.size);
    gguf_bytes_add(&w->data, data, bytes);
}

/* -------------------------------------------------------------- output ---- */

/* Puts the parts together in w->out; with no tensors there is no padding. */
static inline void gguf_writer_finish(struct gguf_writer *w)
{
    w->out.size = 0;
    gguf_bytes_add(&w->out, "GGUF", 4);
    gguf_bytes_u32(&w->out, w->version);
    gguf_bytes_u64(&w->out, w->n_tensors);
    gguf_bytes_u64(&w->out, w->n_pairs);
    gguf_bytes_add(&w->out, w->pairs.data, w->pairs.size);
    gguf_bytes_add(&w->out, w->tensors.data, w->tensors.size);
    if (w->n_tensors)
        gguf_bytes_pad(&w->out, w->alignment);
    gguf_bytes_add(&w->out, w->data.data, w->data.size);
}

/* Writes w->out to a file; false if that fails. */
static inline bool gguf_writer_save(const struct gguf_writer *w, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    bool written = fwrite(w->out.data, 1, w->out.size, file) == w->out.size;
    return fclose(file) == 0 && written;
}

#endif /* TESTS_GGUF_WRITER_H */
