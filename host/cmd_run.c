/*
 * host/cmd_run.c - `pawl run`: one pipeline in this terminal, and what was kept of runs.
 *
 * What the script emits and returns goes to standard output, one JSON object a line; what it
 * logs, how far it is (on a terminal) and how it failed to standard error. The script runs on
 * [main]; SIGINT and SIGTERM cancel it, and a second one ends the process.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "commands.h"

#include "base/file.h"
#include "base/log.h"
#include "cmd_run_terminal.h"
#include "open_grants.h"
#include "open_models.h"
#include "store/sqlite_store.h"
#include "store/wait.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_SECONDS (366u * 24 * 3600)
#define MAX_PARAMS 64
#define MAX_INPUT_BYTES (16u << 20)
#define MOST_MEMORY_MB 1024 /* of a script, unless --memory-mb says otherwise */
#define POLL_MS 20          /* how often a waiting run looks for a signal     */
#define STATUS_PARKED 3

enum action { RUN, RESUME, LIST, EVENTS, REMOVE };

typedef struct options {
    open_models served;
    open_grants granted;
    enum action action;
    const char *path; /* FILE.lua                    */
    const char *id;   /* of a run                    */
    const char *answer;
    const char *data;
    const char *params_file;
    const char *params[MAX_PARAMS]; /* K=V */
    size_t n_params;
    const char *roots[PIPELINE_MAX_ROOTS];
    size_t n_roots;
    uint64_t after;
    uint64_t memory_mb;
    uint64_t seconds;
    uint64_t instructions;
    bool ephemeral;
    bool verbose;
} options;

enum option_key {
    KEY_PARAM = 'p',
    KEY_DATA = 'd',
    KEY_VERBOSE = 'v',
    KEY_MEMORY = 256,
    KEY_SECONDS,
    KEY_INSTRUCTIONS,
    KEY_PARAMS,
    KEY_MODULES,
    KEY_RESUME,
    KEY_ANSWER,
    KEY_LIST,
    KEY_EVENTS,
    KEY_AFTER,
    KEY_REMOVE,
    KEY_EPHEMERAL
};

static const struct argp_option option_table[] = {
    {"param", KEY_PARAM, "K=V", 0,
     "A member of the input, of the type that its schema has; with --resume another one than it "
     "began with, and a run that is done goes on, too",
     1},
    {"params-json", KEY_PARAMS, "FILE", 0, "The input as a JSON object; -: standard input", 1},
    {"modules", KEY_MODULES, "DIR", 0, "require looks here, after the file's folder", 1},
    {"memory-mb", KEY_MEMORY, "N", 0, "Most memory of the script (default: 1024)", 1},
    {"seconds", KEY_SECONDS, "N", 0, "Most time, waiting included (default: any)", 1},
    {"instructions", KEY_INSTRUCTIONS, "N", 0, "Most work of the script (default: any)", 1},
    {"resume", KEY_RESUME, "RUN", 0, "Go on with a run; no step that has finished is repeated", 2},
    {"answer", KEY_ANSWER, "JSON", 0, "With --resume: the answer that a parked run waits for", 2},
    {"list", KEY_LIST, NULL, 0, "List runs: id, state, begun, latest change, pipeline", 2},
    {"events", KEY_EVENTS, "RUN", 0, "Print what a run has said", 2},
    {"after", KEY_AFTER, "N", 0, "With --events: only those numbered above N", 2},
    {"remove", KEY_REMOVE, "RUN", 0, "Forget a run", 2},
    {"data", KEY_DATA, "DIR", 0, "Data folder (default: $XDG_DATA_HOME/pawl, ~/.local/share/pawl)",
     3},
    {"ephemeral", KEY_EPHEMERAL, NULL, 0, "Keep nothing: the run cannot be resumed", 3},
    {"verbose", KEY_VERBOSE, NULL, 0, "Show debug lines and the log of the models too", 3},
    {0},
};

/* ------------------------------------------------------------- the command line */

static void add_param(options *o, const char *text, struct argp_state *state)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        argp_error(state, "--param %s: K=V is wanted", text);
    if (o->n_params == MAX_PARAMS)
        argp_error(state, "more than %d parameters", MAX_PARAMS);
    o->params[o->n_params++] = text;
}

static void set_action(options *o, enum action action, const char *id, struct argp_state *state)
{
    if (o->action != RUN)
        argp_error(state, "only one of --resume, --list, --events, --remove is possible");
    o->action = action;
    o->id = id;
}

static bool parse_limit(int key, const char *arg, options *o, struct argp_state *state)
{
    switch (key) {
    case KEY_MEMORY:
        o->memory_mb = open_models_number(arg, 1u << 20, "memory-mb", state);
        if (o->memory_mb == 0)
            argp_error(state, "--memory-mb 0: a script needs at least 1");
        return true;
    case KEY_SECONDS:
        o->seconds = open_models_number(arg, MAX_SECONDS, "seconds", state);
        return true;
    case KEY_INSTRUCTIONS:
        o->instructions = open_models_number(arg, INT64_MAX, "instructions", state);
        return true;
    case KEY_AFTER:
        o->after = open_models_number(arg, INT64_MAX, "after", state);
        return true;
    default:
        return false;
    }
}

static bool parse_action(int key, const char *arg, options *o, struct argp_state *state)
{
    switch (key) {
    case KEY_RESUME:
        set_action(o, RESUME, arg, state);
        return true;
    case KEY_LIST:
        set_action(o, LIST, NULL, state);
        return true;
    case KEY_EVENTS:
        set_action(o, EVENTS, arg, state);
        return true;
    case KEY_REMOVE:
        set_action(o, REMOVE, arg, state);
        return true;
    default:
        return false;
    }
}

static void check_together(const options *o, struct argp_state *state)
{
    bool takes_file = o->action == RUN || o->action == RESUME;
    if (o->action == RUN && !o->path)
        argp_error(state, "no FILE.lua");
    if (!takes_file && o->path)
        argp_error(state, "unexpected argument '%s'", o->path);
    if (o->answer && o->action != RESUME)
        argp_error(state, "--answer goes with --resume RUN");
    if (o->ephemeral && o->action != RUN)
        argp_error(state, "--ephemeral keeps nothing to look at");
    if (o->params_file && o->action != RUN)
        argp_error(state, "a run keeps the input that it began with; --param K=V changes a member");
    if (!takes_file && o->n_params)
        argp_error(state, "--param goes with FILE.lua or --resume RUN");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;
    if (parse_limit(key, arg, o, state) || parse_action(key, arg, o, state))
        return 0;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->served;
        state->child_inputs[1] = &o->granted;
        return 0;
    case KEY_PARAM:
        add_param(o, arg, state);
        return 0;
    case KEY_PARAMS:
        o->params_file = arg;
        return 0;
    case KEY_MODULES:
        if (o->n_roots == PIPELINE_MAX_ROOTS)
            argp_error(state, "more than %d folders of modules", PIPELINE_MAX_ROOTS);
        o->roots[o->n_roots++] = arg;
        return 0;
    case KEY_ANSWER:
        o->answer = arg;
        return 0;
    case KEY_DATA:
        o->data = arg;
        return 0;
    case KEY_EPHEMERAL:
        o->ephemeral = true;
        return 0;
    case KEY_VERBOSE:
        o->verbose = true;
        return 0;
    case ARGP_KEY_ARG:
        if (o->path)
            argp_error(state, "unexpected argument '%s'; one FILE.lua is run", arg);
        o->path = arg;
        return 0;
    case ARGP_KEY_END:
        check_together(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ------------------------------------------------------------- the input */

static pawl_status read_params_file(const char *path, cJSON **input, pawl_error *error)
{
    buf text;
    buf_init(&text, MAX_INPUT_BYTES);
    pawl_status status = file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, &text, error);
    if (!status)
        status = json_parse(buf_text(&text), text.size, input, error);
    if (!status && !cJSON_IsObject(*input)) {
        cJSON_Delete(*input);
        *input = NULL;
        status = pawl_fail(error, PAWL_E_ARGUMENT, "%s holds no JSON object", path);
    }
    buf_clear(&text);
    return status;
}

/* The input of --params-json and --param as JSON, to be free()d. */
static pawl_status make_input(const options *o, const pipeline *p, char **text, pawl_error *error)
{
    cJSON *input = NULL;
    pawl_status status = PAWL_OK;
    if (o->params_file)
        status = read_params_file(o->params_file, &input, error);
    else
        input = cJSON_CreateObject();
    for (size_t i = 0; i < o->n_params && !status; i++)
        status = pipeline_set_member(p, input, o->params[i], error);
    char *made = status ? NULL : json_print(input);
    cJSON_Delete(input);
    if (!status && !made)
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory for the input");
    if (!status)
        status = instance_check_input(p, made, error);
    if (status)
        free(made);
    else
        *text = made;
    return status;
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

static int say_failure(enum script_end end, const char *message, const char *traceback)
{
    fprintf(stderr, "pawl run: %s: ", script_end_name(end));
    run_terminal_say(message ? message : "no memory to say more");
    fputc('\n', stderr);
    run_terminal_say(traceback ? traceback : "");
    fputs(traceback ? "\n" : "", stderr);
    return 1;
}

static int say_parked(const char *id, const char *question)
{
    cJSON *json = NULL;
    json_parse(question, strlen(question), &json, NULL);
    const char *prompt = json_get_text(json, "prompt");
    fprintf(stderr, "pawl run: parked: ");
    run_terminal_say(prompt ? prompt : "it waits for an answer");
    fprintf(stderr, "\nanswer with: pawl run --resume %s --answer JSON\n", id);
    cJSON_Delete(json);
    return STATUS_PARKED;
}

/* Steps an instance to its end and frees it. The exit status. */
static int run_to_end(instance *i, run_terminal *screen)
{
    char id[CLOCK_ID_SIZE];
    script_result result;
    int status = 0;
    snprintf(id, sizeof id, "%s", instance_id(i));
    if (*id)
        fprintf(stderr, "pawl run: %s\n", id);
    for (enum script_step at; (at = instance_step(i, 0)) != SCRIPT_ENDED;) {
        if (at == SCRIPT_WAITS)
            instance_wait(i, POLL_MS);
    }
    instance_close(i, &result);
    run_terminal_clear(screen);
    bool written = fflush(stdout) == 0 && !ferror(stdout);
    if (result.end == SCRIPT_PARKED)
        status = say_parked(id, result.value);
    else if (result.end != SCRIPT_DONE)
        status = say_failure(result.end, result.message, result.traceback);
    else if (!written)
        status = 1;
    if (!written)
        fprintf(stderr, "pawl run: standard output cannot be written\n");
    if (*id && status == 1)
        fprintf(stderr, "go on with: pawl run --resume %s\n", id);
    script_result_clear(&result);
    return status;
}

static instance_config configure(const options *o, run_runtime *runtime, run_terminal *screen)
{
    *screen = (run_terminal){.live = isatty(STDERR_FILENO) == 1, .debug = o->verbose};
    return (instance_config){
        .runtime = runtime,
        .allowed = {.memory = (size_t)(o->memory_mb ? o->memory_mb : MOST_MEMORY_MB) << 20,
                    .instructions = o->instructions,
                    .wall_ms = (int64_t)o->seconds * 1000},
        .listener = {.on_event = run_terminal_event, .arg = screen},
        .caller = RUN_NOBODY,
        .grants = &o->granted.grants,
        .cancel = &interrupted};
}

static int run_new(const options *o, run_runtime *runtime)
{
    run_terminal screen;
    instance_config config = configure(o, runtime, &screen);
    pawl_error error = {.struct_size = sizeof error};
    pipeline *p = NULL;
    script_result why;
    instance *i = NULL;
    char *input = NULL, *path = realpath(o->path, NULL);
    if (!pipeline_read(o->path, o->roots, o->n_roots, &config.allowed, &p, &why)) {
        say_failure(why.end, why.message, why.traceback);
        script_result_clear(&why);
        free(path);
        return 1;
    }
    pawl_status status = make_input(o, p, &input, &error);
    if (!status)
        status = instance_begin(&config, p, path ? path : o->path, input, &i, &error);
    if (status)
        fprintf(stderr, "pawl run: %s\n", error.message);
    int result = status ? 1 : run_to_end(i, &screen);
    pipeline_release(p);
    free(input);
    free(path);
    return result;
}

/* ------------------------------------------------------------- runs that were kept */

/* States whether the file is no longer the text that the run has. */
static void compare_source(const options *o, const instance_config *config, const store_run *row)
{
    const char *path = o->path ? o->path : row->path;
    pipeline *now = NULL;
    script_result why;
    if (!*path)
        return;
    bool good = pipeline_read(path, o->roots, o->n_roots, &config->allowed, &now, &why);
    if (!good || strcmp(now->hash, row->source) != 0)
        fprintf(stderr,
                "pawl run: %s has changed or is gone; the run goes on with the text that it began "
                "with\n",
                path);
    if (!good)
        script_result_clear(&why);
    pipeline_release(now);
}

/* A run that does not go on: it is done, or still waits. */
static int show_standing(const store_run *row)
{
    if (strcmp(row->state, "parked") == 0)
        return say_parked(row->id, row->result);
    fprintf(stderr, "pawl run: %s is done\n", row->id);
    printf("{\"type\":\"run.done\",\"data\":%s}\n", row->result);
    return 0;
}

static int resume(const options *o, run_runtime *runtime)
{
    run_terminal screen;
    instance_config config = configure(o, runtime, &screen);
    pawl_error error = {.struct_size = sizeof error};
    store_run *row = NULL;
    instance *i = NULL;
    pawl_status status = instance_look(runtime, &config.caller, o->id, &row, &error);
    if (!status && o->answer)
        status = instance_answer(runtime, &config.caller, o->id, o->answer, &error);
    if (!status && o->n_params)
        status = instance_change(&config, o->id, o->params, o->n_params, &error);
    if (status) {
        fprintf(stderr, "pawl run: %s\n", error.message);
        free(row);
        return 1;
    }
    compare_source(o, &config, row);
    status = instance_resume(&config, o->id, &i, &error);
    int result = 1;
    if (!status)
        result = run_to_end(i, &screen);
    else if (status == PAWL_E_ARGUMENT || status == PAWL_E_BUSY)
        result = show_standing(row);
    else
        fprintf(stderr, "pawl run: %s\n", error.message);
    free(row);
    return result;
}

static pawl_status remove_run(store *kept, const char *id, pawl_error *error)
{
    store_wait wait;
    store_wait_open(&wait);
    pawl_status asked = kept->run_remove(kept, id, store_wait_done, &wait, error);
    return store_wait_close(&wait, asked, error);
}

/* ------------------------------------------------------------- all of it */

static pawl_status open_store(const options *o, store **kept, pawl_error *error)
{
    char *folder = o->data ? strdup(o->data) : file_data_folder();
    pawl_status status = folder
                             ? sqlite_store_open(folder, kept, error)
                             : pawl_fail(error, PAWL_E_ARGUMENT, "no data folder; give --data DIR");
    free(folder);
    return status;
}

static int look(const options *o, store *kept)
{
    pawl_error error = {.struct_size = sizeof error};
    pawl_status status = o->action == LIST     ? run_terminal_list(kept, &error)
                         : o->action == EVENTS ? run_terminal_events(kept, o->id, o->after, &error)
                                               : remove_run(kept, o->id, &error);
    kept->close(kept);
    if (status)
        fprintf(stderr, "pawl run: %s\n", error.message);
    return status ? 1 : 0;
}

static int act(options *o)
{
    pawl_error error = {.struct_size = sizeof error};
    registry *plugins = NULL;
    run_runtime *runtime = NULL;
    store *kept = NULL;
    pawl_status status = o->ephemeral ? PAWL_OK : open_store(o, &kept, &error);
    if (!status && o->action != RUN && o->action != RESUME)
        return look(o, kept);
    if (!status)
        status = open_models_open(&o->served, kept, &plugins, &runtime, &error);
    if (status) {
        fprintf(stderr, "pawl run: %s\n", error.message);
        if (status == PAWL_E_BUSY)
            fprintf(stderr, "give the run a folder of its own (--data DIR), or --ephemeral\n");
        return 1;
    }
    status = open_grants_open(&o->granted, &error);
    if (status)
        fprintf(stderr, "pawl run: %s\n", error.message);
    int result = status ? 1 : o->action == RUN ? run_new(o, runtime) : resume(o, runtime);
    open_grants_close(&o->granted);
    run_close(runtime);
    registry_close(plugins);
    return result;
}

int cmd_run(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {.argp = &open_models_argp}, {.argp = &open_grants_argp}, {0}};
    static const struct argp parser = {
        .options = option_table,
        .parser = parse_option,
        .args_doc = "FILE.lua\n--resume RUN\n--list\n--events RUN\n--remove RUN",
        .children = children,
        .doc = "Run a pipeline: a Lua file that talks to models.\v"
               "What the script emits and returns is written to standard output, one JSON object "
               "{\"type\",\"data\"} a line. A run has an id, printed first on standard error; what "
               "its steps give is on the disk, so that --resume RUN goes on where it was cut off, "
               "with the text that it began with. The exit status is 0 if it came to its end, 1 if "
               "it failed (the last lines of standard error say why: syntax, script, memory, "
               "instructions, time, tokens, calls, tool_calls or cancelled), 2 if pawl was called "
               "wrongly, 3 if the run is parked until it gets an answer. lua/README.md has the "
               "functions that a script can call.",
    };
    options o = {.action = RUN};
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    log_set_level(o.verbose ? PAWL_LOG_DEBUG : PAWL_LOG_WARN);
    handle_signals();
    int status = act(&o);
    open_models_clear(&o.served);
    return status;
}
