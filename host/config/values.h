/*
 * config/values.h - what a config holds, for the files of this room.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFIG_VALUES_H
#define CONFIG_VALUES_H

#include "config/config.h"

#define CONFIG_NAME_SIZE 64
#define CONFIG_MODEL_ENV "PAWL_MODEL" /* [NAME=]PATH of the only model */

/* The layers; a later one wins. */
enum config_origin { FROM_NOWHERE, FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_FLAG };

typedef struct config_value {
    enum config_origin origin;
    unsigned line;                 /* in the file                                  */
    char *text;                    /* NULL: not set, or a list                     */
    uint64_t number;               /* of a number; of a switch 0 or 1              */
    char *items[CONFIG_MAX_ITEMS]; /* of a list                                    */
    size_t n_items;
    char *secret_path; /* the file that holds the secret, until it is fetched */
} config_value;

typedef struct config_model {
    enum config_origin origin;
    unsigned line;
    config_value values[CONFIG_COUNT];
} config_model;

struct config {
    char *path; /* of the file, or NULL */
    config_value values[CONFIG_COUNT];
    config_model models[CONFIG_MAX_MODELS]; /* all of one origin */
    size_t n_models;
    buf errors; /* lines */
    size_t n_errors;
    size_t n_absent; /* of them */
};

/* Where something comes from, for its errors. */
typedef struct config_place {
    enum config_origin origin;
    unsigned line;     /* in the file */
    const char *thing; /* "models[1].threads", "PAWL_THREADS", "--threads" */
} config_place;

static inline bool config_is_list(enum config_type type)
{
    return type == CONFIG_TYPE_TEXTS || type == CONFIG_TYPE_PATHS;
}

void config_say(config *c, const config_place *place, const char *format, ...) PAWL_PRINTF(3, 4);
void config_no_memory(config *c);

/* Checks a text and makes it the value, unless a later layer has set it. */
void config_set(config *c, enum config_id id, config_value *value, const config_place *place,
                const char *text);
/* A secret's file instead of the secret. */
void config_set_secret_file(config *c, enum config_id id, config_value *value,
                            const config_place *place, const char *path);
/* A new model of this layer. NULL: it is not to be used, or there are too many. */
config_model *config_new_model(config *c, const config_place *place);
void config_clear_value(config_value *value);

/* The known name that is nearest, or NULL. table.c */
const char *config_suggest(const char *name, unsigned scope);

#endif /* CONFIG_VALUES_H */
