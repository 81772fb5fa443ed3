/*
 * host/cmd_serve.c - `pawl serve`: options to a running server, until a signal.
 *
 * [main] is the thread that opens everything and then runs net's loop. SIGTERM and
 * SIGINT end the loop; whatever runs then is cancelled and stored as such.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "commands.h"

#include "base/file.h"
#include "base/log.h"
#include "net/server.h"
#include "run/runtime.h"
#include "store/sqlite_store.h"

#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MODELS 32
#define MAX_FOLDERS 16

typedef struct options {
    run_model_config models[MAX_MODELS];
    char *names[MAX_MODELS]; /* copies of NAME in NAME=PATH */
    size_t n_models;
    const char *folders[MAX_FOLDERS]; /* --plugin-dir                */
    size_t n_folders;
    const char *listen;
    const char *data; /* NULL: the default folder    */
    uint32_t threads;
    uint64_t context;
    uint64_t kv_bytes;
    uint32_t sequences;
    uint32_t queue;
    bool verbose;
} options;

enum option_key { KEY_CONTEXT = 256, KEY_KV, KEY_SEQUENCES, KEY_QUEUE, KEY_PLUGINS };

static const struct argp_option option_table[] = {
    {"model", 'm', "[NAME=]PATH", 0, "A model file to serve; may be given several times", 0},
    {"listen", 'l', "HOST:PORT", 0,
     "Loopback address to listen on (127.0.0.1:8080; port 0: any free one)", 0},
    {"data", 'd', "DIR", 0, "Data folder (default: $XDG_DATA_HOME/pawl)", 0},
    {"threads", 't', "N", 0, "Threads of the engine (default: its choice)", 0},
    {"context", KEY_CONTEXT, "TOKENS", 0, "Longest sequence (default: the model's)", 0},
    {"kv-mb", KEY_KV, "MB", 0, "Memory for attention state per model (default: 1/4 of all)", 0},
    {"sequences", KEY_SEQUENCES, "N", 0, "Turns that run at once per model (default: 16)", 0},
    {"queue", KEY_QUEUE, "N", 0, "Turns that may wait per model (default: 256)", 0},
    {"plugin-dir", KEY_PLUGINS, "DIR", 0, "Search plugins here first; may be repeated", 0},
    {"verbose", 'v', NULL, 0, "Log debug lines too", 0},
    {0},
};

static uint64_t number(const char *text, uint64_t max, const char *what, struct argp_state *state)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || value > max)
        argp_error(state, "--%s %s: a whole number from 0 to %llu is wanted", what, text,
                   (unsigned long long)max);
    return value;
}

static void add_model(options *o, const char *text, struct argp_state *state)
{
    if (o->n_models == MAX_MODELS)
        argp_error(state, "more than %d models", MAX_MODELS);
    const char *equals = strchr(text, '='), *slash = strchr(text, '/');
    run_model_config *model = &o->models[o->n_models];
    model->path = text;
    if (equals && (!slash || equals < slash)) {
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
    options *o = state->input;
    switch (key) {
    case 'm':
        add_model(o, arg, state);
        return 0;
    case 'l':
        o->listen = arg;
        return 0;
    case 'd':
        o->data = arg;
        return 0;
    case 't':
        o->threads = (uint32_t)number(arg, 1024, "threads", state);
        return 0;
    case KEY_CONTEXT:
        o->context = number(arg, 1u << 30, "context", state);
        return 0;
    case KEY_KV:
        o->kv_bytes = number(arg, 1u << 30, "kv-mb", state) << 20;
        return 0;
    case KEY_SEQUENCES:
        o->sequences = (uint32_t)number(arg, 1024, "sequences", state);
        return 0;
    case KEY_QUEUE:
        o->queue = (uint32_t)number(arg, 1u << 20, "queue", state);
        return 0;
    case KEY_PLUGINS:
        if (o->n_folders == MAX_FOLDERS)
            argp_error(state, "more than %d plugin folders", MAX_FOLDERS);
        o->folders[o->n_folders++] = arg;
        return 0;
    case 'v':
        o->verbose = true;
        return 0;
    case ARGP_KEY_END:
        if (o->n_models == 0)
            argp_error(state, "no model; give --model PATH");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* $XDG_DATA_HOME/pawl or ~/.local/share/pawl, to be free()d. */
static char *default_data_folder(void)
{
    const char *base = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (base && base[0])
        return file_join(base, "pawl");
    return home && home[0] ? file_join(home, ".local/share/pawl") : NULL;
}

static pawl_status open_store(const options *o, store **out, pawl_error *error)
{
    char *fallback = o->data ? NULL : default_data_folder();
    const char *folder = o->data ? o->data : fallback;
    pawl_status status = folder
                             ? sqlite_store_open(folder, out, error)
                             : pawl_fail(error, PAWL_E_ARGUMENT, "no data folder; give --data DIR");
    free(fallback);
    return status;
}

static pawl_status open_runtime(options *o, registry *plugins, run_runtime **runtime,
                                pawl_error *error)
{
    store *kept = NULL;
    pawl_status status = open_store(o, &kept, error);
    if (status)
        return status;
    for (size_t i = 0; i < o->n_models; i++) {
        o->models[i].threads = o->threads;
        o->models[i].max_context = o->context;
        o->models[i].memory_budget = o->kv_bytes;
        o->models[i].max_sequences = o->sequences;
    }
    run_config config = {.plugins = plugins,
                         .models = o->models,
                         .n_models = o->n_models,
                         .store = kept,
                         .clock = clock_system(),
                         .queue_limit = o->queue};
    return run_open(&config, runtime, error);
}

/* The signal handler's one way to the loop; set before the handlers are. */
static net_server *serving;

static void on_signal(int number_unused)
{
    (void)number_unused;
    net_stop(serving);
}

static void handle_signals(void)
{
    struct sigaction stop = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

/* The line that scripts wait for; the port is the real one, also for port 0. */
static void print_address(const char *listen, unsigned port)
{
    const char *colon = strrchr(listen, ':');
    int host_size = colon ? (int)(colon - listen) : (int)strlen(listen);
    printf("listening on http://%.*s:%u/v1\n", host_size, listen, port);
    fflush(stdout);
}

static pawl_status serve(options *o, registry *plugins, pawl_error *error)
{
    run_runtime *runtime = NULL;
    net_server *server = NULL;
    pawl_status status = open_runtime(o, plugins, &runtime, error);
    if (status)
        return status;
    net_config config = {.listen = o->listen, .runtime = runtime};
    status = net_open(&config, &server, error);
    if (!status) {
        serving = server;
        handle_signals();
        print_address(o->listen, net_port(server));
        status = net_serve(server);
        if (status)
            pawl_fail(error, status, "the network loop failed");
        log_write(PAWL_LOG_INFO, "serve", "stopping");
    }
    run_close(runtime); /* every END comes before this returns */
    net_close(server);
    return status;
}

int cmd_serve(int argc, char **argv)
{
    static const struct argp parser = {
        .options = option_table,
        .parser = parse_option,
        .doc = "Serve models over WebSocket and HTTP (OpenAI Responses dialect) on loopback.\v"
               "On start it prints one line, `listening on http://HOST:PORT/v1`; the log goes to "
               "standard error as JSON lines. SIGTERM and SIGINT end it.",
    };
    options o = {.listen = "127.0.0.1:8080"};
    registry *plugins = NULL;
    pawl_error error = {.struct_size = sizeof error};
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    log_set_level(o.verbose ? PAWL_LOG_DEBUG : PAWL_LOG_INFO);
    registry_config search = {.folders = o.folders, .n_folders = o.n_folders};
    pawl_status status = registry_open(&search, &plugins, &error);
    if (!status)
        status = serve(&o, plugins, &error);
    registry_close(plugins);
    for (size_t i = 0; i < o.n_models; i++)
        free(o.names[i]);
    if (status)
        fprintf(stderr, "pawl serve: %s\n", error.message);
    return status ? 1 : 0;
}
