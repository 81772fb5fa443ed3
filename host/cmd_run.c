/*
 * host/cmd_run.c - `pawl run`: one pipeline in this terminal.
 *
 * What the script emits goes to standard output, one JSON value a line; what it logs,
 * how far it is (on a terminal) and how it failed to standard error. The script runs on
 * [main]; SIGINT and SIGTERM cancel it, and a second one ends the process.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "commands.h"

#include "base/file.h"
#include "base/log.h"
#include "open_models.h"
#include "script/script.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_MEMORY_MB 64
#define MAX_SECONDS (366u * 24 * 3600)

typedef struct options {
    open_models served;
    const char *path;
    script_param params[SCRIPT_MAX_PARAMS];
    char *names[SCRIPT_MAX_PARAMS]; /* copies of K in K=V */
    size_t n_params;
    uint64_t memory_mb;
    uint64_t seconds;
    uint64_t instructions;
    bool verbose;
} options;

enum option_key { KEY_PARAM = 'p', KEY_MEMORY = 256, KEY_SECONDS, KEY_INSTRUCTIONS };

static const struct argp_option option_table[] = {
    {"param", KEY_PARAM, "K=V", 0, "A value for pawl.params, a text; may be repeated", 0},
    {"memory-mb", KEY_MEMORY, "N", 0, "Memory of the script (default: 64)", 0},
    {"seconds", KEY_SECONDS, "N", 0, "Time of the script, waiting included (default: any)", 0},
    {"instructions", KEY_INSTRUCTIONS, "N", 0, "Work of the script (default: any)", 0},
    {"verbose", 'v', NULL, 0, "Show debug lines and the log of the models too", 0},
    {0},
};

static void add_param(options *o, const char *text, struct argp_state *state)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        argp_error(state, "--param %s: K=V is wanted", text);
    if (o->n_params == SCRIPT_MAX_PARAMS)
        argp_error(state, "more than %d parameters", SCRIPT_MAX_PARAMS);
    o->names[o->n_params] = strndup(text, (size_t)(equals - text));
    o->params[o->n_params] = (script_param){o->names[o->n_params], equals + 1};
    o->n_params++;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->served;
        return 0;
    case KEY_PARAM:
        add_param(o, arg, state);
        return 0;
    case KEY_MEMORY:
        o->memory_mb = open_models_number(arg, 1u << 20, "memory-mb", state);
        if (o->memory_mb == 0)
            argp_error(state, "--memory-mb 0: a script needs at least 1");
        return 0;
    case KEY_SECONDS:
        o->seconds = open_models_number(arg, MAX_SECONDS, "seconds", state);
        return 0;
    case KEY_INSTRUCTIONS:
        o->instructions = open_models_number(arg, INT64_MAX, "instructions", state);
        return 0;
    case 'v':
        o->verbose = true;
        return 0;
    case ARGP_KEY_ARG:
        if (o->path)
            argp_error(state, "unexpected argument '%s'; one FILE.lua is run", arg);
        o->path = arg;
        return 0;
    case ARGP_KEY_END:
        if (!o->path)
            argp_error(state, "no FILE.lua");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ------------------------------------------------------------- what it says */

typedef struct terminal {
    bool live;  /* standard error is a terminal       */
    bool shown; /* the progress line stands there now */
    bool debug;
} terminal;

/* A line for people: what could steer their terminal is left out. */
static void put_text(const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        fputc(c < 0x20 && c != '\t' && c != '\n' ? '?' : c == 0x7f ? '?' : c, stderr);
    }
}

static void hide_progress(terminal *t)
{
    if (t->shown)
        fputs("\r\033[K", stderr);
    t->shown = false;
}

static void on_emit(void *arg, const char *json, size_t size)
{
    hide_progress(arg);
    fwrite(json, 1, size, stdout);
    fputc('\n', stdout);
    fflush(stdout);
}

static void on_progress(void *arg, double done, double total, const char *note)
{
    terminal *t = arg;
    if (!t->live)
        return;
    hide_progress(t);
    if (total > 0)
        fprintf(stderr, "%3.0f%% ", 100 * (done < total ? done / total : 1));
    fprintf(stderr, total > 0 ? "%.10g/%.10g " : "%.10g ", done, total);
    put_text(note);
    fflush(stderr);
    t->shown = true;
}

static void on_log(void *arg, int32_t level, const char *text)
{
    terminal *t = arg;
    const char *name = level == PAWL_LOG_ERROR  ? "error: "
                       : level == PAWL_LOG_WARN ? "warn: "
                       : level == PAWL_LOG_INFO ? ""
                                                : "debug: ";
    if (level == PAWL_LOG_DEBUG && !t->debug)
        return;
    hide_progress(t);
    fputs(name, stderr);
    put_text(text);
    fputc('\n', stderr);
}

/* ------------------------------------------------------------- running */

/* Set by the signal handler alone. */
static atomic_bool interrupted;

static void on_signal(int number_unused)
{
    (void)number_unused;
    atomic_store(&interrupted, true);
}

static void handle_signals(void)
{
    struct sigaction stop = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

static int run_source(const options *o, const buf *source, run_runtime *runtime)
{
    terminal screen = {.live = isatty(STDERR_FILENO) == 1, .debug = o->verbose};
    const char *slash = strrchr(o->path, '/');
    script_config config = {.runtime = runtime,
                            .clock = clock_system(),
                            .name = slash ? slash + 1 : o->path,
                            .source = buf_text(source),
                            .size = source->size,
                            .params = o->params,
                            .n_params = o->n_params,
                            .max_memory = (size_t)o->memory_mb << 20,
                            .max_instructions = o->instructions,
                            .max_ms = (int64_t)o->seconds * 1000,
                            .cancel = &interrupted,
                            .listener = {on_emit, on_progress, on_log, &screen}};
    script_result result;
    script_run(&config, &result);
    hide_progress(&screen);
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (result.end != SCRIPT_DONE) {
        fprintf(stderr, "pawl run: %s: ", script_end_name(result.end));
        put_text(result.message ? result.message : "no memory to say more");
        fputc('\n', stderr);
        put_text(result.traceback ? result.traceback : "");
        fputs(result.traceback ? "\n" : "", stderr);
    } else if (!written) {
        fprintf(stderr, "pawl run: standard output cannot be written\n");
    }
    int status = result.end == SCRIPT_DONE && written ? 0 : 1;
    script_result_clear(&result);
    return status;
}

static int run_file(options *o)
{
    pawl_error error = {.struct_size = sizeof error};
    registry *plugins = NULL;
    run_runtime *runtime = NULL;
    buf source;
    int result = 1;
    buf_init(&source, SCRIPT_MAX_SOURCE);
    pawl_status status = file_read(o->path, &source, &error);
    if (!status && o->served.n_models)
        status = open_models_open(&o->served, NULL, &plugins, &runtime, &error);
    if (status)
        fprintf(stderr, "pawl run: %s\n", error.message);
    else
        result = run_source(o, &source, runtime);
    run_close(runtime);
    registry_close(plugins);
    buf_clear(&source);
    return result;
}

int cmd_run(int argc, char **argv)
{
    static const struct argp_child children[] = {{.argp = &open_models_argp}, {0}};
    static const struct argp parser = {
        .options = option_table,
        .parser = parse_option,
        .args_doc = "FILE.lua",
        .children = children,
        .doc = "Run a pipeline: a Lua file that talks to models.\v"
               "What the script emits, and what it returns, is written to standard output as "
               "JSON, one value a line. The exit status is 0 if it came to its end, 1 if it "
               "failed; then the last lines of standard error say why: syntax, script, memory, "
               "instructions, time or cancelled. Nothing is stored. lua/README.md has the "
               "functions that a script can call.",
    };
    options o = {.memory_mb = DEFAULT_MEMORY_MB};
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    log_set_level(o.verbose ? PAWL_LOG_DEBUG : PAWL_LOG_WARN);
    handle_signals();
    int status = run_file(&o);
    open_models_clear(&o.served);
    for (size_t i = 0; i < o.n_params; i++)
        free(o.names[i]);
    return status;
}
