/*
 * cpu/options.h - the engine's own options: a JSON object.
 *
 *   "numeric": "fast" (int8 activations) or "f32" (exact, slow; KV in F32 too)
 *   "isa":     "auto", "reference", "avx2", "avx512"
 *   "kv":      "f16" or "f32"
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CPU_OPTIONS_H
#define CPU_OPTIONS_H

#include <pawl/plugin.h>

#include <stdbool.h>

#include "kernels/kernels.h"

typedef struct cpu_options {
    bool exact; /* numeric is f32 */
    bool kv_f16;
    const kernels_table *kernels; /* of isa         */
} cpu_options;

/* Empty bytes are the defaults. An unknown key or value is PAWL_E_ARGUMENT, an
 * instruction set that this machine lacks PAWL_E_UNSUPPORTED. */
pawl_status options_parse(pawl_bytes json, cpu_options *options, pawl_error *error);

#endif /* CPU_OPTIONS_H */
