/*
 * host/cmd_serve.c - `pawl serve`: settings to a running server, until a signal.
 *
 * [main] is the thread that opens everything and then runs net's loop. SIGTERM and
 * SIGINT end the loop in order: net drains, what then still runs is cancelled and
 * stored as such.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "commands.h"

#include "base/file.h"
#include "base/log.h"
#include "base/metrics.h"
#include "net/server.h"
#include "run/ready.h"
#include "serve_options.h"
#include "store/kv.h"
#include "store/sqlite_store.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static pawl_status open_kv(const config *c, const char *folder, metrics *all, kv **out,
                           pawl_error *error)
{
    kv_config saved = {
        .folder = folder,
        .disk_bytes = config_number(c, CONFIG_KV_DISK_MB) << 20,
        .memory_bytes = config_number(c, CONFIG_KV_MEMORY_MB) << 20,
        .tenant_disk_bytes = config_number(c, CONFIG_KV_TENANT_DISK_MB) << 20,
        .tenant_memory_bytes = config_number(c, CONFIG_KV_TENANT_MEMORY_MB) << 20,
        .write_bytes_second = config_number(c, CONFIG_KV_WRITE_MB_S) << 20,
        .metrics = all,
    };
    return saved.disk_bytes || saved.memory_bytes ? kv_open(&saved, out, error) : PAWL_OK;
}

/* What outlives the process, all in one folder: first the store, which locks it. */
static pawl_status open_stores(const config *c, metrics *all, run_config *run, pawl_error *error)
{
    const char *given = config_text(c, CONFIG_DATA);
    char *fallback = given ? NULL : file_data_folder();
    const char *folder = given ? given : fallback;
    pawl_status status = folder
                             ? sqlite_store_open_measured(folder, all, &run->store, error)
                             : pawl_fail(error, PAWL_E_ARGUMENT, "no data folder; give --data DIR");
    if (!status) {
        status = open_kv(c, folder, all, &run->kv, error);
        if (status)
            run->store->close(run->store);
    }
    free(fallback);
    return status;
}

/* The items of a list; how many there are. */
static size_t get_items(const config *c, enum config_id id, const char *items[CONFIG_MAX_ITEMS])
{
    size_t n = config_item_count(c, id);
    for (size_t i = 0; i < n; i++)
        items[i] = config_item(c, id, i);
    return n;
}

static void fill_models(const config *c, run_model_config *models)
{
    for (size_t i = 0; i < config_model_count(c); i++)
        models[i] = (run_model_config){
            .name = config_model_text(c, i, CONFIG_NAME),
            .path = config_model_text(c, i, CONFIG_PATH),
            .engine_id = config_model_text(c, i, CONFIG_ENGINE),
            .dialect = config_model_text(c, i, CONFIG_DIALECT),
            .options = config_model_text(c, i, CONFIG_OPTIONS),
            .threads = (uint32_t)config_model_number(c, i, CONFIG_THREADS),
            .max_context = config_model_number(c, i, CONFIG_CONTEXT),
            .memory_budget = config_model_number(c, i, CONFIG_KV_MB) << 20,
            .max_sequences = (uint32_t)config_model_number(c, i, CONFIG_SEQUENCES)};
}

static pawl_status open_runtime(const config *c, registry *plugins, metrics *all,
                                run_runtime **runtime, pawl_error *error)
{
    run_model_config models[CONFIG_MAX_MODELS];
    uint32_t detach_s = (uint32_t)config_number(c, CONFIG_DETACH_SECONDS);
    run_config run = {.plugins = plugins,
                      .models = models,
                      .n_models = config_model_count(c),
                      .kv_min_tokens = config_number(c, CONFIG_KV_MIN_TOKENS),
                      .clock = clock_system(),
                      .queue_limit = (uint32_t)config_number(c, CONFIG_QUEUE),
                      .key_limit = (uint32_t)config_number(c, CONFIG_QUEUE_PER_KEY),
                      .metrics = all,
                      .detach_s = detach_s ? detach_s : RUN_AT_ONCE,
                      .events_s = (uint32_t)config_number(c, CONFIG_EVENTS_SECONDS),
                      .events_max = (size_t)config_number(c, CONFIG_EVENTS_KB) << 10,
                      .events_max_all = (size_t)config_number(c, CONFIG_EVENTS_TOTAL_MB) << 20};
    pawl_status status = open_stores(c, all, &run, error);
    if (status)
        return status;
    fill_models(c, models);
    return run_open(&run, runtime, error);
}

static pawl_status open_server(const config *c, run_runtime *runtime, metrics *all,
                               net_server **server, pawl_error *error)
{
    const char *hosts[CONFIG_MAX_ITEMS], *origins[CONFIG_MAX_ITEMS];
    uint32_t lifetime = (uint32_t)config_number(c, CONFIG_SOCKET_SECONDS);
    net_config net = {.listen = config_text(c, CONFIG_LISTEN),
                      .runtime = runtime,
                      .max_body = (size_t)config_number(c, CONFIG_MAX_BODY_MB) << 20,
                      .max_connections = (uint32_t)config_number(c, CONFIG_MAX_CONNECTIONS),
                      .socket_lifetime = lifetime ? lifetime : NET_FOREVER,
                      .idle_timeout = (uint32_t)config_number(c, CONFIG_IDLE_SECONDS),
                      .header_timeout = (uint32_t)config_number(c, CONFIG_HEADER_SECONDS),
                      .body_timeout = (uint32_t)config_number(c, CONFIG_BODY_SECONDS),
                      .write_timeout = (uint32_t)config_number(c, CONFIG_WRITE_SECONDS),
                      .max_per_address = (uint32_t)config_number(c, CONFIG_MAX_PER_ADDRESS),
                      .drain = (uint32_t)config_number(c, CONFIG_DRAIN_SECONDS),
                      .log_access = config_switch(c, CONFIG_LOG_ACCESS),
                      .metrics = all,
                      .key_file = config_text(c, CONFIG_API_KEYS_FILE),
                      .key = config_text(c, CONFIG_API_KEY),
                      .hosts = hosts,
                      .n_hosts = get_items(c, CONFIG_ALLOW_HOSTS, hosts),
                      .origins = origins,
                      .n_origins = get_items(c, CONFIG_ALLOW_ORIGINS, origins),
                      .tls_cert = config_text(c, CONFIG_TLS_CERT),
                      .tls_key = config_text(c, CONFIG_TLS_KEY)};
    return net_open(&net, server, error);
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

static pawl_status serve(const config *c, registry *plugins, metrics *all, pawl_error *error)
{
    run_runtime *runtime = NULL;
    net_server *server = NULL;
    pawl_status status = open_runtime(c, plugins, all, &runtime, error);
    if (status)
        return status;
    status = open_server(c, runtime, all, &server, error);
    if (!status) {
        serving = server;
        handle_signals();
        run_warm_up(runtime);
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
    return status;
}

static void set_up_log(const config *c)
{
    const char *level = config_text(c, CONFIG_LOG_LEVEL);
    for (int32_t i = PAWL_LOG_DEBUG; i <= PAWL_LOG_ERROR; i++)
        if (strcmp(level, log_level_name(i)) == 0)
            log_set_level(i);
    log_set_limit((uint32_t)config_number(c, CONFIG_LOG_LIMIT));
}

static int run_server(const config *c)
{
    const char *folders[CONFIG_MAX_ITEMS];
    registry *plugins = NULL;
    pawl_error error = {.struct_size = sizeof error};
    registry_config search = {.folders = folders,
                              .n_folders = get_items(c, CONFIG_PLUGIN_DIRS, folders),
                              .metrics = metrics_open()};
    set_up_log(c);
    metrics_add_process(search.metrics, PAWL_VERSION);
    pawl_status status = registry_open(&search, &plugins, &error);
    if (!status)
        status = serve(c, plugins, search.metrics, &error);
    registry_close(plugins);
    metrics_close(search.metrics);
    if (status)
        fprintf(stderr, "pawl serve: %s\n", error.message);
    return status ? 1 : 0;
}

static void print_config(const config *c)
{
    buf text;
    buf_init(&text, 4u << 20);
    config_print(c, &text);
    fputs(buf_text(&text), stdout);
    buf_clear(&text);
}

int cmd_serve(int argc, char **argv)
{
    serve_options options;
    if (!serve_options_read(argc, argv, &options)) {
        fprintf(stderr, "pawl serve: no memory for the configuration\n");
        return 1;
    }
    int status;
    size_t n_errors = config_error_count(options.config);
    if (options.print)
        print_config(options.config);
    if (n_errors) {
        fputs(config_errors(options.config), stderr);
        fprintf(stderr, "pawl serve: %zu error%s in the settings; see --help\n", n_errors,
                n_errors > 1 ? "s" : "");
        bool failed = config_absent_count(options.config) == n_errors; /* not called wrongly */
        status = options.check || options.print || failed ? 1 : 2;
    } else {
        status = options.check || options.print ? 0 : run_server(options.config);
    }
    config_close(options.config);
    return status;
}
