/*
 * config/config.h - what the server is told: defaults, a file, the environment, flags.
 *
 * Every setting is one row of the table in table.c: from it come the names in the
 * file, in the environment and on the command line, the checks, the help and what
 * --print-config shows. To add a setting: a line in enum config_id, a row, a property
 * in schemas/config.schema.json, and its use.
 *
 * A later layer wins over an earlier one, in which order they are read does not
 * matter: defaults < file < environment < flags. A list is replaced as a whole. What a
 * model says for itself is more specific than what is said for all models, whichever
 * layer that comes from.
 *
 * Errors do not stop the reading: all are gathered, each with its place. [main]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/buf.h"

#define CONFIG_MAX_MODELS 32
#define CONFIG_MAX_ITEMS 64 /* of a list */

enum config_id {
    CONFIG_LISTEN,
    CONFIG_DATA,
    CONFIG_API_KEY,
    CONFIG_API_KEYS_FILE,
    CONFIG_ALLOW_HOSTS,
    CONFIG_ALLOW_ORIGINS,
    CONFIG_TLS_CERT,
    CONFIG_TLS_KEY,
    CONFIG_PLUGIN_DIRS,
    CONFIG_QUEUE,
    CONFIG_QUEUE_PER_KEY,
    CONFIG_DRAIN_SECONDS,
    CONFIG_MAX_CONNECTIONS,
    CONFIG_MAX_PER_ADDRESS,
    CONFIG_MAX_BODY_MB,
    CONFIG_SOCKET_SECONDS,
    CONFIG_IDLE_SECONDS,
    CONFIG_HEADER_SECONDS,
    CONFIG_BODY_SECONDS,
    CONFIG_WRITE_SECONDS,
    CONFIG_DETACH_SECONDS,
    CONFIG_EVENTS_SECONDS,
    CONFIG_EVENTS_KB,
    CONFIG_EVENTS_TOTAL_MB,
    CONFIG_LOG_LEVEL,
    CONFIG_LOG_ACCESS,
    CONFIG_LOG_LIMIT,
    CONFIG_KV_DISK_MB, /* saved state, of all models together; kv_mb is an engine's */
    CONFIG_KV_MEMORY_MB,
    CONFIG_KV_TENANT_DISK_MB,
    CONFIG_KV_TENANT_MEMORY_MB,
    CONFIG_KV_WRITE_MB_S,
    CONFIG_KV_MIN_TOKENS,
    CONFIG_NAME, /* of a model alone, like path and options */
    CONFIG_PATH,
    CONFIG_OPTIONS,
    CONFIG_ENGINE, /* of all models, or of one, like all below */
    CONFIG_DIALECT,
    CONFIG_THREADS,
    CONFIG_CONTEXT,
    CONFIG_KV_MB,
    CONFIG_SEQUENCES,
    CONFIG_COUNT
};

enum config_type {
    CONFIG_TYPE_TEXT,
    CONFIG_TYPE_PATH,   /* in a file: relative to that file's folder */
    CONFIG_TYPE_NUMBER, /* whole, from min to max                    */
    CONFIG_TYPE_SWITCH, /* true or false                             */
    CONFIG_TYPE_CHOICE, /* one of the words in choices               */
    CONFIG_TYPE_TEXTS,  /* a list; its flag may be repeated          */
    CONFIG_TYPE_PATHS,  /* likewise                                  */
    CONFIG_TYPE_OBJECT  /* JSON that is handed on; in a file only    */
};

enum config_scope { CONFIG_OF_SERVER = 1, CONFIG_OF_MODEL = 2, CONFIG_OF_BOTH = 3 };

typedef struct config_setting {
    const char *name; /* in the file                                       */
    enum config_type type;
    unsigned scope;       /* enum config_scope                                 */
    const char *flag;     /* without "--"; NULL: none                          */
    char letter;          /* of a short flag; 0: none                          */
    const char *env;      /* NULL: none                                        */
    bool secret;          /* never shown, has no flag; also as NAME_file and ENV_FILE:
                           * the file that holds it                            */
    const char *argument; /* for the help                                      */
    const char *fallback; /* its default as text; NULL: not set                */
    uint64_t min;
    uint64_t max;
    const char *choices; /* words with blanks between them                    */
    const char *help;
} config_setting;

typedef struct config config;

/* The row of a setting. [any] */
const config_setting *config_row(enum config_id id);

/* ------------------------------------------------------------- reading layers ---- */

config *config_open(void); /* the defaults; NULL without memory */
void config_close(config *c);

void config_read_file(config *c, const char *path);
/* The same of a text; path: what it is called and where its relative paths begin. */
void config_read_text(config *c, const char *path, const char *text, size_t size);
/* environment: NAME=VALUE each, NULL-terminated. */
void config_read_environment(config *c, char *const *environment);
void config_read_flag(config *c, enum config_id id, const char *text);
/* --model [NAME=]PATH */
void config_read_model_flag(config *c, const char *text);

/* What can only be judged when everything was read: models exist, names differ, files
 * are there; secrets are fetched from their files. */
void config_check(config *c);
/* An error of the caller's about the value of a setting. */
void config_fault(config *c, enum config_id id, const char *why);

/* How many errors there were, and their lines: "pawl.json:3: threads: …\n". */
size_t config_error_count(const config *c);
size_t config_absent_count(const config *c); /* of them: about files that are not there */
const char *config_errors(const config *c);

/* --------------------------------------------------------------------- values ---- */

const char *config_text(const config *c, enum config_id id); /* NULL: not set */
uint64_t config_number(const config *c, enum config_id id);  /* 0: not set    */
bool config_switch(const config *c, enum config_id id);
size_t config_item_count(const config *c, enum config_id id);
const char *config_item(const config *c, enum config_id id, size_t i);

size_t config_model_count(const config *c);
/* The model's own value, else that of all models. */
const char *config_model_text(const config *c, size_t model, enum config_id id);
uint64_t config_model_number(const config *c, size_t model, enum config_id id);

/* All settings with their origin, as a file that could be read again; secrets masked. */
void config_print(const config *c, buf *out);

#endif /* CONFIG_CONFIG_H */
