/*
 * formats/gguf.h - reading GGUF model files (versions 2 and 3, little-endian).
 *
 * A gguf_file is a read-only memory map plus an index of its metadata and
 * tensors. Nothing is copied: strings, arrays and tensor data point into the
 * map and live until gguf_close(). Opening checks everything that the header
 * claims against the real size of the file, so that no later access can leave
 * the map; what is damaged is named (key or tensor, offset, what was expected).
 *
 * A gguf_file is immutable after gguf_open(): any thread may read it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FORMATS_GGUF_H
#define FORMATS_GGUF_H

#include <pawl/plugin.h>

#include <stdbool.h>

#define GGUF_MAX_DIMS 4

/* Type of a metadata value, as numbered in the file. */
enum gguf_value_type {
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_STRING = 8,
    GGUF_ARRAY = 9,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_F64 = 12
};

/* Type of tensor elements, as numbered in the file. */
enum gguf_tensor_type {
    GGUF_T_F32 = 0,
    GGUF_T_F16 = 1,
    GGUF_T_Q4_0 = 2,
    GGUF_T_Q4_1 = 3,
    GGUF_T_Q5_0 = 6,
    GGUF_T_Q5_1 = 7,
    GGUF_T_Q8_0 = 8,
    GGUF_T_Q2_K = 10,
    GGUF_T_Q3_K = 11,
    GGUF_T_Q4_K = 12,
    GGUF_T_Q5_K = 13,
    GGUF_T_Q6_K = 14,
    GGUF_T_IQ4_NL = 20,
    GGUF_T_IQ4_XS = 23,
    GGUF_T_I8 = 24,
    GGUF_T_I16 = 25,
    GGUF_T_I32 = 26,
    GGUF_T_I64 = 27,
    GGUF_T_F64 = 28,
    GGUF_T_BF16 = 30,
    GGUF_T_MXFP4 = 39
};

typedef struct gguf_file gguf_file;

typedef struct gguf_array {
    uint32_t type;           /* enum gguf_value_type of the elements; never GGUF_ARRAY   */
    uint64_t count;          /* elements                                                */
    const void *data;        /* packed elements (unaligned); strings: use gguf_array_string */
    uint64_t bytes;          /* of data                                                 */
    const uint64_t *strings; /* where each string starts in the file; or NULL   */
} gguf_array;

typedef struct gguf_tensor {
    pawl_bytes name;
    uint32_t type;                /* enum gguf_tensor_type                      */
    uint32_t n_dims;              /* 1..4                                       */
    uint64_t dims[GGUF_MAX_DIMS]; /* dims[0] runs fastest; unused ones are 1    */
    const void *data;             /* in the map, aligned to the file's alignment */
    uint64_t bytes;               /* of data                                    */
} gguf_tensor;

/* Maps and checks a file. PAWL_E_UNSUPPORTED: not a GGUF file, or a version or
 * byte order this reader does not know; PAWL_E_FORMAT: damaged;
 * PAWL_E_NOT_FOUND: cannot be opened. */
pawl_status gguf_open(pawl_bytes path, gguf_file **file, pawl_error *error);
/* The same over bytes that the caller keeps until gguf_close(); they should be
 * aligned as malloc() aligns, so that tensor data is. */
pawl_status gguf_open_memory(const void *data, uint64_t size, gguf_file **file, pawl_error *error);
void gguf_close(gguf_file *file); /* NULL allowed */

uint64_t gguf_file_bytes(const gguf_file *file);

/* Metadata by key. False: no such key, or a value of another kind. Integers of
 * every width convert to u64 where they are not negative; f32 and f64 to f64. */
bool gguf_get_u64(const gguf_file *file, const char *key, uint64_t *value);
bool gguf_get_f64(const gguf_file *file, const char *key, double *value);
bool gguf_get_bool(const gguf_file *file, const char *key, bool *value);
bool gguf_get_string(const gguf_file *file, const char *key, pawl_bytes *value);
bool gguf_get_array(const gguf_file *file, const char *key, gguf_array *value);

/* Elements of an array; i < count. Strings are found in O(1) (an index is built
 * on gguf_open). Numbers convert as above; false where that is not possible. */
pawl_bytes gguf_array_string(const gguf_file *file, const gguf_array *array, uint64_t i);
bool gguf_array_u64(const gguf_array *array, uint64_t i, uint64_t *value);
bool gguf_array_i64(const gguf_array *array, uint64_t i, int64_t *value);
bool gguf_array_f64(const gguf_array *array, uint64_t i, double *value);

/* All metadata pairs in file order, for inspection; i < gguf_pair_count(). */
uint64_t gguf_pair_count(const gguf_file *file);
pawl_bytes gguf_pair(const gguf_file *file, uint64_t i, uint32_t *type);

/* Tensors in file order, or by name (NULL: none). */
uint64_t gguf_tensor_count(const gguf_file *file);
const gguf_tensor *gguf_tensor_at(const gguf_file *file, uint64_t i);
const gguf_tensor *gguf_tensor_find(const gguf_file *file, const char *name);

/* "Q4_1", or NULL for a number unknown here. */
const char *gguf_type_name(uint32_t tensor_type);
/* Elements of one block and its bytes (F32: 1 and 4). False: unknown type. */
bool gguf_type_block(uint32_t tensor_type, uint64_t *elements, uint64_t *bytes);

#endif /* FORMATS_GGUF_H */
