/*
 * cpu/options.h - the engine's own options: a JSON object.
 *
 *   "numeric": "fast" (int8 activations) or "f32" (exact, slow)
 *   "isa":     "auto", "reference", "avx2", "avx512"
 *   "kv_type": "f16", "bf16", "q8", "f32": how keys and values are kept; where it
 *              is not given, f16, and f32 with numeric f32
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CPU_OPTIONS_H
#define CPU_OPTIONS_H

#include <pawl/plugin.h>

#include <stdbool.h>

#include "kernels/kernels.h"

typedef struct cpu_options {
    bool exact;                   /* numeric is f32  */
    uint32_t kv;                  /* enum kernels_kv */
    const kernels_table *kernels; /* of isa          */
} cpu_options;

/* Empty bytes are the defaults. An unknown key or value is PAWL_E_ARGUMENT, an
 * instruction set that this machine lacks PAWL_E_UNSUPPORTED. */
pawl_status options_parse(pawl_bytes json, cpu_options *options, pawl_error *error);

/* As in "kv_type". */
const char *options_kv_name(uint32_t kv);

#endif /* CPU_OPTIONS_H */
