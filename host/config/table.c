/*
 * config/table.c - the settings, one row each. See config.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "config/values.h"

#include <stddef.h>
#include <string.h>

#define NUMBER(low, high) .type = CONFIG_TYPE_NUMBER, .min = (low), .max = (high)

static const config_setting rows[CONFIG_COUNT] = {
    [CONFIG_LISTEN] = {.name = "listen",
                       .type = CONFIG_TYPE_TEXT,
                       .scope = CONFIG_OF_SERVER,
                       .flag = "listen",
                       .letter = 'l',
                       .env = "PAWL_LISTEN",
                       .argument = "HOST:PORT",
                       .fallback = "127.0.0.1:8080",
                       .help =
                           "Address to listen on, but loopback only with a key; port 0: any free "
                           "one"},
    [CONFIG_DATA] = {.name = "data",
                     .type = CONFIG_TYPE_PATH,
                     .scope = CONFIG_OF_SERVER,
                     .flag = "data",
                     .letter = 'd',
                     .env = "PAWL_DATA",
                     .argument = "DIR",
                     .help = "Data folder; not set: $XDG_DATA_HOME/pawl"},
    [CONFIG_API_KEY] = {.name = "api_key",
                        .type = CONFIG_TYPE_TEXT,
                        .scope = CONFIG_OF_SERVER,
                        .env = "PAWL_API_KEY",
                        .secret = true,
                        .argument = "SECRET",
                        .help = "A key that clients may show, beside those of `pawl key`"},
    [CONFIG_API_KEYS_FILE] = {.name = "api_keys_file",
                              .type = CONFIG_TYPE_PATH,
                              .scope = CONFIG_OF_SERVER,
                              .flag = "api-key-file",
                              .env = "PAWL_API_KEYS_FILE",
                              .argument = "FILE",
                              .help = "More of them, one a line, each maybe followed by a name; "
                                      "mode 600"},
    [CONFIG_ALLOW_HOSTS] = {.name = "allow_hosts",
                            .type = CONFIG_TYPE_TEXTS,
                            .scope = CONFIG_OF_SERVER,
                            .flag = "allow-host",
                            .argument = "NAME[:PORT]",
                            .help = "Another name that clients may call this server by; may be "
                                    "repeated; *: any"},
    [CONFIG_ALLOW_ORIGINS] = {.name = "allow_origins",
                              .type = CONFIG_TYPE_TEXTS,
                              .scope = CONFIG_OF_SERVER,
                              .flag = "allow-origin",
                              .argument = "URL",
                              .help = "Pages that may use this server, for example "
                                      "https://app.example; may be repeated; *: any"},
    [CONFIG_TLS_CERT] = {.name = "tls_cert",
                         .type = CONFIG_TYPE_PATH,
                         .scope = CONFIG_OF_SERVER,
                         .flag = "tls-cert",
                         .env = "PAWL_TLS_CERT",
                         .argument = "FILE",
                         .help = "Certificate and its chain, PEM: speak TLS"},
    [CONFIG_TLS_KEY] = {.name = "tls_key",
                        .type = CONFIG_TYPE_PATH,
                        .scope = CONFIG_OF_SERVER,
                        .flag = "tls-key",
                        .env = "PAWL_TLS_KEY",
                        .argument = "FILE",
                        .help = "The certificate's private key, PEM"},
    [CONFIG_PLUGIN_DIRS] = {.name = "plugin_dirs",
                            .type = CONFIG_TYPE_PATHS,
                            .scope = CONFIG_OF_SERVER,
                            .flag = "plugin-dir",
                            .argument = "DIR",
                            .help = "Search plugins here first; may be repeated"},
    [CONFIG_QUEUE] = {.name = "queue",
                      NUMBER(1, 1 << 20),
                      .scope = CONFIG_OF_SERVER,
                      .flag = "queue",
                      .env = "PAWL_QUEUE",
                      .argument = "N",
                      .fallback = "256",
                      .help = "Turns that may wait per model"},
    [CONFIG_QUEUE_PER_KEY] = {.name = "queue_per_key",
                              NUMBER(1, 1 << 20),
                              .scope = CONFIG_OF_SERVER,
                              .flag = "queue-per-key",
                              .env = "PAWL_QUEUE_PER_KEY",
                              .argument = "N",
                              .help = "Of them of one key; not set: a quarter, but at least 8"},
    [CONFIG_DRAIN_SECONDS] = {.name = "drain_seconds",
                              NUMBER(0, 86400),
                              .scope = CONFIG_OF_SERVER,
                              .flag = "drain-seconds",
                              .env = "PAWL_DRAIN_SECONDS",
                              .argument = "N",
                              .fallback = "30",
                              .help = "How long running turns may go on after SIGTERM"},
    [CONFIG_MAX_CONNECTIONS] = {.name = "max_connections",
                                NUMBER(1, 65536),
                                .scope = CONFIG_OF_SERVER,
                                .flag = "max-connections",
                                .env = "PAWL_MAX_CONNECTIONS",
                                .argument = "N",
                                .fallback = "1024",
                                .help = "Clients that may be connected at once"},
    [CONFIG_MAX_PER_ADDRESS] = {.name = "max_per_address",
                                NUMBER(1, 65536),
                                .scope = CONFIG_OF_SERVER,
                                .flag = "max-per-address",
                                .env = "PAWL_MAX_PER_ADDRESS",
                                .argument = "N",
                                .help = "Of them from one address; not set: a quarter, and from "
                                        "loopback all"},
    [CONFIG_MAX_BODY_MB] = {.name = "max_body_mb",
                            NUMBER(1, 512),
                            .scope = CONFIG_OF_SERVER,
                            .flag = "max-body-mb",
                            .env = "PAWL_MAX_BODY_MB",
                            .argument = "MB",
                            .fallback = "32",
                            .help = "Largest request, over HTTP and over a socket"},
    [CONFIG_SOCKET_SECONDS] = {.name = "socket_seconds",
                               NUMBER(0, 8388607),
                               .scope = CONFIG_OF_SERVER,
                               .flag = "socket-seconds",
                               .env = "PAWL_SOCKET_SECONDS",
                               .argument = "N",
                               .fallback = "3600",
                               .help = "How long a WebSocket may live; 0: for ever"},
    [CONFIG_IDLE_SECONDS] = {.name = "idle_seconds",
                             NUMBER(1, 8388607),
                             .scope = CONFIG_OF_SERVER,
                             .flag = "idle-seconds",
                             .env = "PAWL_IDLE_SECONDS",
                             .argument = "N",
                             .fallback = "120",
                             .help = "How long an HTTP connection waits for a request"},
    [CONFIG_HEADER_SECONDS] = {.name = "header_seconds",
                               NUMBER(1, 1000000),
                               .scope = CONFIG_OF_SERVER,
                               .flag = "header-seconds",
                               .env = "PAWL_HEADER_SECONDS",
                               .argument = "N",
                               .fallback = "10",
                               .help = "How long the first request's head may take"},
    [CONFIG_BODY_SECONDS] = {.name = "body_seconds",
                             NUMBER(1, 1000000),
                             .scope = CONFIG_OF_SERVER,
                             .flag = "body-seconds",
                             .env = "PAWL_BODY_SECONDS",
                             .argument = "N",
                             .fallback = "15",
                             .help = "Time in which 1 KiB of a body or a message must come"},
    [CONFIG_WRITE_SECONDS] = {.name = "write_seconds",
                              NUMBER(1, 1000000),
                              .scope = CONFIG_OF_SERVER,
                              .flag = "write-seconds",
                              .env = "PAWL_WRITE_SECONDS",
                              .argument = "N",
                              .fallback = "30",
                              .help = "Time in which a client must take a byte of what waits"},
    [CONFIG_LOG_LEVEL] = {.name = "log_level",
                          .type = CONFIG_TYPE_CHOICE,
                          .scope = CONFIG_OF_SERVER,
                          .flag = "log-level",
                          .env = "PAWL_LOG_LEVEL",
                          .argument = "LEVEL",
                          .fallback = "info",
                          .choices = "debug info warn error",
                          .help = "Least level that is logged: debug, info, warn, error"},
    [CONFIG_LOG_ACCESS] = {.name = "log_access",
                           .type = CONFIG_TYPE_SWITCH,
                           .scope = CONFIG_OF_SERVER,
                           .flag = "log-access",
                           .env = "PAWL_LOG_ACCESS",
                           .argument = "true|false",
                           .fallback = "true",
                           .help = "A line (info) for each request that was answered"},
    [CONFIG_LOG_LIMIT] = {.name = "log_limit",
                          NUMBER(0, 1000000),
                          .scope = CONFIG_OF_SERVER,
                          .flag = "log-limit",
                          .env = "PAWL_LOG_LIMIT",
                          .argument = "N",
                          .fallback = "0",
                          .help = "Most debug and info lines a second; 0: no limit"},
    [CONFIG_NAME] = {.name = "name",
                     .type = CONFIG_TYPE_TEXT,
                     .scope = CONFIG_OF_MODEL,
                     .help = "What clients call the model; not set: made from its path"},
    [CONFIG_PATH] = {.name = "path",
                     .type = CONFIG_TYPE_PATH,
                     .scope = CONFIG_OF_MODEL,
                     .help = "File or folder of the model"},
    [CONFIG_OPTIONS] = {.name = "options",
                        .type = CONFIG_TYPE_OBJECT,
                        .scope = CONFIG_OF_MODEL,
                        .help = "Options of the engine; its plugin says which there are"},
    [CONFIG_ENGINE] = {.name = "engine",
                       .type = CONFIG_TYPE_TEXT,
                       .scope = CONFIG_OF_BOTH,
                       .flag = "engine",
                       .env = "PAWL_ENGINE",
                       .argument = "ID",
                       .help = "Plugin that must serve the model; not set: the best that can"},
    [CONFIG_DIALECT] = {.name = "dialect",
                        .type = CONFIG_TYPE_TEXT,
                        .scope = CONFIG_OF_BOTH,
                        .flag = "dialect",
                        .env = "PAWL_DIALECT",
                        .argument = "NAME",
                        .help = "Chat dialect; not set: found by the model's template"},
    [CONFIG_THREADS] = {.name = "threads",
                        NUMBER(0, 1024),
                        .scope = CONFIG_OF_BOTH,
                        .flag = "threads",
                        .letter = 't',
                        .env = "PAWL_THREADS",
                        .argument = "N",
                        .fallback = "0",
                        .help = "Threads of the engine; 0: its choice"},
    [CONFIG_CONTEXT] = {.name = "context",
                        NUMBER(0, 1 << 30),
                        .scope = CONFIG_OF_BOTH,
                        .flag = "context",
                        .env = "PAWL_CONTEXT",
                        .argument = "TOKENS",
                        .fallback = "0",
                        .help = "Longest sequence; 0: what the model can"},
    [CONFIG_KV_MB] = {.name = "kv_mb",
                      NUMBER(0, 1 << 30),
                      .scope = CONFIG_OF_BOTH,
                      .flag = "kv-mb",
                      .env = "PAWL_KV_MB",
                      .argument = "MB",
                      .fallback = "0",
                      .help = "Memory for attention state, per model; 0: a quarter of all"},
    [CONFIG_SEQUENCES] = {.name = "sequences",
                          NUMBER(1, 1024),
                          .scope = CONFIG_OF_BOTH,
                          .flag = "sequences",
                          .env = "PAWL_SEQUENCES",
                          .argument = "N",
                          .fallback = "16",
                          .help = "Turns that run at once, per model"},
};

const config_setting *config_row(enum config_id id)
{
    return &rows[id];
}

/* Editing steps from one name to the other; names are short. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[CONFIG_NAME_SIZE + 1];
    size_t n = strnlen(b, CONFIG_NAME_SIZE);
    for (size_t k = 0; k <= n; k++)
        row[k] = (unsigned)k;
    for (size_t i = 0; a[i] && i < CONFIG_NAME_SIZE; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t k = 1; k <= n; k++) {
            unsigned least = diagonal + (a[i] != b[k - 1]);
            diagonal = row[k];
            least = least < row[k] + 1 ? least : row[k] + 1;
            row[k] = least < row[k - 1] + 1 ? least : row[k - 1] + 1;
        }
    }
    return row[n];
}

const char *config_suggest(const char *name, unsigned scope)
{
    const char *best = NULL;
    size_t size = strlen(name);
    unsigned least = size < 4 ? 2 : 3; /* steps that are too many */
    if (size >= CONFIG_NAME_SIZE)
        return NULL;
    for (int id = 0; id < CONFIG_COUNT; id++) {
        unsigned steps = rows[id].scope & scope ? distance(name, rows[id].name) : least;
        if (steps < least) {
            least = steps;
            best = rows[id].name;
        }
    }
    if (scope == CONFIG_OF_SERVER && distance(name, "models") < least)
        best = "models";
    return best;
}
