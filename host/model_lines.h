/*
 * host/model_lines.h - what the JSON-lines subcommands of `pawl model` share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_MODEL_LINES_H
#define HOST_MODEL_LINES_H

#include "base/json.h"
#include "loader/registry.h"

/* The options of `pawl model`, for all its subcommands. */
typedef struct model_options {
    const char *path;    /* the model; NULL: none was given        */
    const char *format;  /* --format: chat dialect                 */
    const char *engine;  /* --engine: "cpu", or NULL               */
    const char *numeric; /* --numeric: fast, f32, qat, or NULL     */
    uint32_t threads;    /* --threads                              */
    uint64_t context;    /* --context                              */
    bool decode;         /* --decode                               */
    registry *plugins;
} model_options;

/* Answers one line: an object whose members the command knows, or an error. The
 * result becomes the caller's. */
typedef pawl_status (*model_answer)(void *context, const cJSON *line, cJSON **result,
                                    pawl_error *error);

/* Reads JSON lines from standard input until its end and writes one line for each, in
 * order; {"error":{"code","message"}} where there is no answer. Exit status. */
int model_lines(model_answer answer, void *context);

/* Reads an array of token ids; PAWL_E_ARGUMENT names the member. To be free()d. */
pawl_status model_ids(const cJSON *line, const char *name, int32_t **ids, uint64_t *n,
                      pawl_error *error);
cJSON *model_ids_json(const int32_t *ids, uint64_t n);

/* The subcommands; each is a main function of its own. */
int model_inspect(const model_options *options);
int model_tokenize(const model_options *options);
int model_logits(const model_options *options);
int model_render(const model_options *options);
int model_parse(const model_options *options);

#endif /* HOST_MODEL_LINES_H */
