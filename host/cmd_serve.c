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
#include "open_models.h"
#include "serve_network.h"
#include "store/sqlite_store.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    open_models served;
    serve_network network;
    const char *listen;
    const char *data; /* NULL: the default folder */
    bool verbose;
} options;

static const struct argp_option option_table[] = {
    {"listen", 'l', "HOST:PORT", 0,
     "Address to listen on (127.0.0.1:8080; port 0: any free one); others than loopback need a "
     "key",
     0},
    {"data", 'd', "DIR", 0, "Data folder (default: $XDG_DATA_HOME/pawl)", 0},
    {"verbose", 'v', NULL, 0, "Log debug lines too", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->served;
        state->child_inputs[1] = &o->network;
        return 0;
    case 'l':
        o->listen = arg;
        return 0;
    case 'd':
        o->data = arg;
        return 0;
    case 'v':
        o->verbose = true;
        return 0;
    case ARGP_KEY_END:
        if (o->served.n_models == 0)
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

static pawl_status serve(options *o, pawl_error *error)
{
    store *kept = NULL;
    registry *plugins = NULL;
    run_runtime *runtime = NULL;
    net_server *server = NULL;
    pawl_status status = open_store(o, &kept, error);
    if (!status)
        status = open_models_open(&o->served, kept, &plugins, &runtime, error);
    if (status)
        return status;
    net_config config = o->network.config;
    config.listen = o->listen;
    config.runtime = runtime;
    status = net_open(&config, &server, error);
    if (!status) {
        serving = server;
        handle_signals();
        /* The line that scripts wait for; the port is the real one, also for port 0. */
        printf("listening on %s/v1\n", net_shown_address(server));
        fflush(stdout);
        status = net_serve(server);
        if (status)
            pawl_fail(error, status, "the network loop failed");
        log_write(PAWL_LOG_INFO, "serve", "stopping");
    }
    run_close(runtime); /* every END comes before this returns */
    net_close(server);
    registry_close(plugins);
    return status;
}

int cmd_serve(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {.argp = &open_models_argp}, {&serve_network_argp, 0, "Network:", 0}, {0}};
    static const struct argp parser = {
        .options = option_table,
        .parser = parse_option,
        .children = children,
        .doc = "Serve models over WebSocket and HTTP (OpenAI's Responses, Chat Completions and "
               "Completions).\v"
               "On start it prints one line, `listening on http://HOST:PORT/v1`; the log goes to "
               "standard error as JSON lines. SIGTERM and SIGINT end it.",
    };
    options o = {.listen = "127.0.0.1:8080"};
    pawl_error error = {.struct_size = sizeof error};
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    log_set_level(o.verbose ? PAWL_LOG_DEBUG : PAWL_LOG_INFO);
    pawl_status status = serve(&o, &error);
    open_models_clear(&o.served);
    if (status)
        fprintf(stderr, "pawl serve: %s\n", error.message);
    return status ? 1 : 0;
}
