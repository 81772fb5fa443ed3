/*
 * formats/gguf_file.h - what a gguf_file is inside; for gguf*.c only.
 *
 * The file owns the map (if it made one), the two tables and their indexes. All
 * pointers in the tables lead into the map.
 *
 * Immutable once gguf_parse() has returned: any thread may read it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FORMATS_GGUF_FILE_H
#define FORMATS_GGUF_FILE_H

#include "formats/gguf.h"

/* Ceilings on what a header may claim. They lie far above real models; each
 * claim is checked against the size of the file as well. */
#define GGUF_MAX_PAIRS 65536u
#define GGUF_MAX_TENSORS 262144u
#define GGUF_MAX_KEY 65535u         /* bytes; the format's own limit        */
#define GGUF_MAX_NAME 255u          /* bytes of a tensor's name             */
#define GGUF_MAX_STRINGS (1u << 26) /* strings in one array             */
#define GGUF_MIN_ALIGNMENT 8u
#define GGUF_MAX_ALIGNMENT 65536u

struct gguf_pair {
    pawl_bytes key;
    uint32_t type;        /* enum gguf_value_type                       */
    const uint8_t *value; /* of a number or bool: its bytes in the map  */
    pawl_bytes string;    /* of a string                                */
    gguf_array array;     /* of an array                                */
    uint64_t *strings;    /* owned: array.strings                       */
};

struct gguf_file {
    const uint8_t *data;     /* the whole file                        */
    uint64_t size;           /* of data                               */
    void *map;               /* data, if it is to be unmapped; or NULL */
    struct gguf_pair *pairs; /* n_pairs, in file order                */
    gguf_tensor *tensors;    /* n_tensors, in file order              */
    uint32_t *pair_order;    /* indexes of pairs, sorted by key       */
    uint32_t *tensor_order;  /* indexes of tensors, sorted by name    */
    uint64_t n_pairs;
    uint64_t n_tensors;
};

/* Reads and checks the header of file->data. On failure the file holds whatever
 * had been allocated so far; gguf_close() frees it. */
pawl_status gguf_parse(struct gguf_file *file, pawl_error *error);

/* The pair of a key, or NULL. Needs pair_order. */
const struct gguf_pair *gguf_find(const struct gguf_file *file, const char *key);

/* Order of names: shorter ones first, then by bytes. */
int gguf_compare(pawl_bytes a, pawl_bytes b);

/* Bytes of one number or bool; 0 for strings, arrays and unknown types. */
uint64_t gguf_value_size(uint32_t type);

#endif /* FORMATS_GGUF_FILE_H */
