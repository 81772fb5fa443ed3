/*
 * host/open_models.c - the options that say which models to open, and opening them.
 * See open_models.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "open_models.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum option_key { KEY_CONTEXT = 512, KEY_KV, KEY_SEQUENCES, KEY_QUEUE, KEY_PLUGINS };

static const struct argp_option option_table[] = {
    {"model", 'm', "[NAME=]PATH", 0, "A model file to serve; may be given several times", 0},
    {"threads", 't', "N", 0, "Threads of the engine (default: its choice)", 0},
    {"context", KEY_CONTEXT, "TOKENS", 0, "Longest sequence (default: the model's)", 0},
    {"kv-mb", KEY_KV, "MB", 0, "Memory for attention state per model (default: 1/4 of all)", 0},
    {"sequences", KEY_SEQUENCES, "N", 0, "Turns that run at once per model (default: 16)", 0},
    {"queue", KEY_QUEUE, "N", 0, "Turns that may wait per model (default: 256)", 0},
    {"plugin-dir", KEY_PLUGINS, "DIR", 0, "Search plugins here first; may be repeated", 0},
    {0},
};

uint64_t open_models_number(const char *text, uint64_t max, const char *what,
                            struct argp_state *state)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || value > max)
        argp_error(state, "--%s %s: a whole number from 0 to %llu is wanted", what, text,
                   (unsigned long long)max);
    return value;
}

static void add_model(open_models *o, const char *text, struct argp_state *state)
{
    if (o->n_models == OPEN_MAX_MODELS)
        argp_error(state, "more than %d models", OPEN_MAX_MODELS);
    /* A name may have slashes, and a path an equals sign: what exists is a path. */
    const char *equals = access(text, F_OK) == 0 ? NULL : strchr(text, '=');
    run_model_config *model = &o->models[o->n_models];
    model->path = text;
    if (equals) {
        o->names[o->n_models] = strndup(text, (size_t)(equals - text));
        model->name = o->names[o->n_models];
        model->path = equals + 1;
    }
    if ((model->name && !model->name[0]) || !model->path[0])
        argp_error(state, "--model %s: [NAME=]PATH is wanted", text);
    o->n_models++;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    open_models *o = state->input;
    switch (key) {
    case 'm':
        add_model(o, arg, state);
        return 0;
    case 't':
        o->threads = (uint32_t)open_models_number(arg, 1024, "threads", state);
        return 0;
    case KEY_CONTEXT:
        o->context = open_models_number(arg, 1u << 30, "context", state);
        return 0;
    case KEY_KV:
        o->kv_bytes = open_models_number(arg, 1u << 30, "kv-mb", state) << 20;
        return 0;
    case KEY_SEQUENCES:
        o->sequences = (uint32_t)open_models_number(arg, 1024, "sequences", state);
        return 0;
    case KEY_QUEUE:
        o->queue = (uint32_t)open_models_number(arg, 1u << 20, "queue", state);
        return 0;
    case KEY_PLUGINS:
        if (o->n_folders == OPEN_MAX_FOLDERS)
            argp_error(state, "more than %d plugin folders", OPEN_MAX_FOLDERS);
        o->folders[o->n_folders++] = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp open_models_argp = {.options = option_table, .parser = parse_option};

pawl_status open_models_open(open_models *o, store *kept, registry **plugins, run_runtime **runtime,
                             pawl_error *error)
{
    registry_config search = {.folders = o->folders, .n_folders = o->n_folders};
    registry *opened = NULL;
    pawl_status status = registry_open(&search, &opened, error);
    if (status) {
        if (kept)
            kept->close(kept);
        return status;
    }
    for (size_t i = 0; i < o->n_models; i++) {
        o->models[i].threads = o->threads;
        o->models[i].max_context = o->context;
        o->models[i].memory_budget = o->kv_bytes;
        o->models[i].max_sequences = o->sequences;
    }
    run_config config = {.plugins = opened,
                         .models = o->models,
                         .n_models = o->n_models,
                         .store = kept,
                         .clock = clock_system(),
                         .queue_limit = o->queue};
    status = run_open(&config, runtime, error);
    if (status)
        registry_close(opened);
    else
        *plugins = opened;
    return status;
}

void open_models_clear(open_models *o)
{
    for (size_t i = 0; i < o->n_models; i++)
        free(o->names[i]);
}
