/*
 * host/cmd_chat.c - `pawl chat`: a conversation in this terminal.
 *
 * Replies go to standard output, everything else to standard error. The conversation runs
 * on [main]; SIGINT stops a reply, SIGTERM and SIGHUP end it in order: what was said is
 * kept.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "commands.h"

#include "base/file.h"
#include "base/log.h"
#include "open_models.h"
#include "store/sqlite_store.h"
#include "terminal/chat.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct options {
    open_models served;
    const char *session;
    const char *data; /* NULL: the default */
    const char *system;
    uint64_t max_tokens;
    double temperature; /* negative: the default */
    bool verbose;
} options;

enum option_key { KEY_SYSTEM = 256, KEY_MAX_TOKENS, KEY_TEMPERATURE };

static const struct argp_option option_table[] = {
    {"session", 's', "NAME", 0, "Keep it under this name, and go on with it next time", 0},
    {"data", 'd', "DIR", 0,
     "Data folder of sessions (default: $XDG_DATA_HOME/pawl, ~/.local/share/pawl)", 0},
    {"system", KEY_SYSTEM, "TEXT", 0, "What the model is told before the conversation", 0},
    {"max-tokens", KEY_MAX_TOKENS, "N", 0, "Longest reply (default: until the context is full)", 0},
    {"temperature", KEY_TEMPERATURE, "T", 0, "0 is always the likeliest token (default: 1)", 0},
    {"verbose", 'v', NULL, 0, "Show the log of the models and the store too", 0},
    {0},
};

static void check_call(const options *o, struct argp_state *state)
{
    if (o->served.n_models != 1)
        argp_error(state, "one --model PATH is wanted");
    if (o->data && !o->session)
        argp_error(state, "--data belongs to --session; without that nothing is kept");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;
    char *end = NULL;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->served;
        return 0;
    case 's':
        o->session = arg;
        return 0;
    case 'd':
        o->data = arg;
        return 0;
    case KEY_SYSTEM:
        o->system = arg;
        return 0;
    case KEY_MAX_TOKENS:
        o->max_tokens = open_models_number(arg, 1u << 30, "max-tokens", state);
        return 0;
    case KEY_TEMPERATURE:
        o->temperature = strtod(arg, &end);
        if (end == arg || *end || !(o->temperature >= 0 && o->temperature <= 2))
            argp_error(state, "--temperature %s: a number from 0 to 2 is wanted", arg);
        return 0;
    case 'v':
        o->verbose = true;
        return 0;
    case ARGP_KEY_END:
        check_call(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---------------------------------------------------------------- signals --- */

/* Set by the signal handler alone, but for interrupts, which is taken to 0. */
static atomic_uint interrupts;
static atomic_bool stop;
static int wake = -1;

static void on_signal(int number)
{
    int before = errno;
    if (number == SIGINT)
        atomic_fetch_add(&interrupts, 1);
    else
        atomic_store(&stop, true);
    eventfd_write(wake, 1);
    errno = before;
}

/* Not before the models are open: until then a signal ends the process. */
static void handle_signals(void)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGHUP, &act, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

/* ----------------------------------------------------------------- running --- */

static pawl_status open_store(const options *o, store **out, pawl_error *error)
{
    char *fallback = o->data ? NULL : file_data_folder();
    const char *folder = o->data ? o->data : fallback;
    pawl_status status = folder
                             ? sqlite_store_open(folder, out, error)
                             : pawl_fail(error, PAWL_E_ARGUMENT, "no data folder; give --data DIR");
    free(fallback);
    return status;
}

static int talk(const options *o, run_runtime *runtime)
{
    wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake < 0) {
        fprintf(stderr, "pawl chat: %s\n", strerror(errno));
        return 1;
    }
    handle_signals();
    chat_config config = {.runtime = runtime,
                          .kept = o->session != NULL,
                          .session = o->session,
                          .in = STDIN_FILENO,
                          .typed = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO),
                          .notes = stderr,
                          .style = {.system = o->system,
                                    .max_tokens = o->max_tokens,
                                    .temperature = o->temperature,
                                    .out = stdout,
                                    .live = isatty(STDOUT_FILENO) == 1,
                                    .wake = wake,
                                    .interrupts = &interrupts,
                                    .stop = &stop}};
    int result = chat_run(&config);
    return fflush(stdout) == 0 && !ferror(stdout) ? result : 1;
}

static int run_chat(options *o)
{
    pawl_error error = {.struct_size = sizeof error};
    registry *plugins = NULL;
    run_runtime *runtime = NULL;
    store *kept = NULL;
    int result = 1;
    pawl_status status = o->session ? open_store(o, &kept, &error) : PAWL_OK;
    if (!status)
        status = open_models_open(&o->served, kept, &plugins, &runtime, &error);
    if (status)
        fprintf(stderr, "pawl chat: %s\n", error.message);
    else
        result = talk(o, runtime);
    run_close(runtime);
    registry_close(plugins);
    return result;
}

int cmd_chat(int argc, char **argv)
{
    static const struct argp_child children[] = {{.argp = &open_models_argp}, {0}};
    static const struct argp parser = {
        .options = option_table,
        .parser = parse_option,
        .children = children,
        .doc = "Talk to a model in this terminal.\v"
               "A line is a message, /help tells the commands, Ctrl-C stops a reply. With "
               "--session NAME the conversation is kept in the data folder and goes on there "
               "next time, also after this process was killed; it is a conversation like those of "
               "a server, whose metadata.title is NAME. A folder that a server holds is refused: "
               "then talk to that server. Replies go to standard output, everything else to "
               "standard error; the status is 0, or 1 if something failed and the input is no "
               "terminal.",
    };
    options o = {.temperature = -1};
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    log_set_level(o.verbose ? PAWL_LOG_DEBUG : PAWL_LOG_ERROR);
    int status = run_chat(&o);
    open_models_clear(&o.served);
    return status;
}
