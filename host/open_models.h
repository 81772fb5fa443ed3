/*
 * host/open_models.h - the options that say which models to open, and opening them.
 *
 * What every command that generates has in common. The argp parser is a child of the
 * command's own, whose parse function gives it an open_models at ARGP_KEY_INIT:
 * state->child_inputs[0] = &models. Strings point into argv. [main]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_OPEN_MODELS_H
#define HOST_OPEN_MODELS_H

#include "run/runtime.h"

#include <argp.h>

#define OPEN_MAX_MODELS 32
#define OPEN_MAX_FOLDERS 16

typedef struct open_models {
    run_model_config models[OPEN_MAX_MODELS];
    char *names[OPEN_MAX_MODELS]; /* copies of NAME in NAME=PATH */
    size_t n_models;
    const char *folders[OPEN_MAX_FOLDERS]; /* --plugin-dir                */
    size_t n_folders;
    uint32_t threads;
    uint64_t context;
    uint64_t kv_bytes;
    uint32_t sequences;
    uint32_t queue;
} open_models;

/* --model, --threads, --context, --kv-mb, --sequences, --queue, --plugin-dir */
extern const struct argp open_models_argp;

/* The whole number in text, or argp's error and exit. what: the option's name. */
uint64_t open_models_number(const char *text, uint64_t max, const char *what,
                            struct argp_state *state);

/* Opens the registry and the runtime on it. The store (or NULL) becomes the runtime's,
 * and is closed when this fails. Close the runtime first, then the registry. */
pawl_status open_models_open(open_models *o, store *kept, registry **plugins, run_runtime **runtime,
                             pawl_error *error);
void open_models_clear(open_models *o);

#endif /* HOST_OPEN_MODELS_H */
