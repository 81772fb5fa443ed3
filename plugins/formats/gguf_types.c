/*
 * formats/gguf_types.c - the element types of GGUF tensors.
 *
 * A quantised type stores a row in blocks; a block of `elements` numbers takes
 * `bytes` bytes. Facts only; pure functions on a constant table, any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "formats/gguf.h"

struct type_row {
    const char *name;  /* NULL: no such type                            */
    uint16_t elements; /* of one block                                  */
    uint16_t bytes;    /* of one block                                  */
};

static const struct type_row types[] = {
    [GGUF_T_F32] = {"F32", 1, 4},         [GGUF_T_F16] = {"F16", 1, 2},
    [GGUF_T_Q4_0] = {"Q4_0", 32, 18},     [GGUF_T_Q4_1] = {"Q4_1", 32, 20},
    [GGUF_T_Q5_0] = {"Q5_0", 32, 22},     [GGUF_T_Q5_1] = {"Q5_1", 32, 24},
    [GGUF_T_Q8_0] = {"Q8_0", 32, 34},     [GGUF_T_Q2_K] = {"Q2_K", 256, 84},
    [GGUF_T_Q3_K] = {"Q3_K", 256, 110},   [GGUF_T_Q4_K] = {"Q4_K", 256, 144},
    [GGUF_T_Q5_K] = {"Q5_K", 256, 176},   [GGUF_T_Q6_K] = {"Q6_K", 256, 210},
    [GGUF_T_IQ4_NL] = {"IQ4_NL", 32, 18}, [GGUF_T_IQ4_XS] = {"IQ4_XS", 256, 136},
    [GGUF_T_I8] = {"I8", 1, 1},           [GGUF_T_I16] = {"I16", 1, 2},
    [GGUF_T_I32] = {"I32", 1, 4},         [GGUF_T_I64] = {"I64", 1, 8},
    [GGUF_T_F64] = {"F64", 1, 8},         [GGUF_T_BF16] = {"BF16", 1, 2},
    [GGUF_T_MXFP4] = {"MXFP4", 32, 17},
};

static const struct type_row *find_type(uint32_t type)
{
    if (type >= sizeof types / sizeof *types || !types[type].name)
        return NULL;
    return &types[type];
}

const char *gguf_type_name(uint32_t tensor_type)
{
    const struct type_row *row = find_type(tensor_type);
    return row ? row->name : NULL;
}

bool gguf_type_block(uint32_t tensor_type, uint64_t *elements, uint64_t *bytes)
{
    const struct type_row *row = find_type(tensor_type);
    if (!row)
        return false;
    *elements = row->elements;
    *bytes = row->bytes;
    return true;
}
