/*
 * host/serve_options.c - the command line of `pawl serve`. See serve_options.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "serve_options.h"

#include "net/address.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Keys of options without a letter. */
enum {
    KEY_SETTING = 0x200, /* + its id */
    KEY_CONFIG = KEY_SETTING + CONFIG_COUNT,
    KEY_PRINT,
    KEY_CHECK
};

#define N_FIXED 5
#define TEXT_SIZE 200

/* While argp runs. */
typedef struct parsing {
    serve_options *options;
    const char *file;
    struct argp_option table[CONFIG_COUNT + N_FIXED + 1];
    char texts[CONFIG_COUNT][TEXT_SIZE]; /* helps with their defaults */
} parsing;

static const struct argp_option fixed[N_FIXED] = {
    {"config", KEY_CONFIG, "FILE", 0, "Read settings from this file (JSON with comments)", 1},
    {"check-config", KEY_CHECK, NULL, 0, "Say what is wrong with the settings, and end", 1},
    {"print-config", KEY_PRINT, NULL, 0, "Print all settings and where they are from, and end", 1},
    {"model", 'm', "[NAME=]PATH", 0, "A model to serve; may be repeated", 2},
    {"verbose", 'v', NULL, 0, "The same as --log-level debug", 2},
};

/* The option of one setting. A secret has none, since everybody on the machine can read a
 * command line. */
static void add_option(parsing *p, struct argp_option *at, int id)
{
    const config_setting *row = config_row((enum config_id)id);
    snprintf(p->texts[id], TEXT_SIZE, "%s%s%s%s", row->help, row->fallback ? " (default: " : "",
             row->fallback ? row->fallback : "", row->fallback ? ")" : "");
    *at = (struct argp_option){
        .name = row->flag,
        .key = row->letter ? row->letter : KEY_SETTING + id,
        .arg = row->argument,
        .doc = p->texts[id],
        .group = row->scope == CONFIG_OF_BOTH ? 3 : 2,
    };
}

static void build_table(parsing *p)
{
    size_t n = 0;
    for (; n < N_FIXED; n++)
        p->table[n] = fixed[n];
    for (int id = 0; id < CONFIG_COUNT; id++)
        if (config_row((enum config_id)id)->flag)
            add_option(p, &p->table[n++], id);
}

static bool read_setting(config *c, int key, const char *text)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const config_setting *row = config_row((enum config_id)id);
        if (key != KEY_SETTING + id && (!row->letter || key != row->letter))
            continue;
        config_read_flag(c, (enum config_id)id, text);
        return true;
    }
    return false;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    parsing *p = state->input;
    switch (key) {
    case KEY_CONFIG:
        p->file = arg;
        return 0;
    case KEY_PRINT:
        p->options->print = true;
        return 0;
    case KEY_CHECK:
        p->options->check = true;
        return 0;
    case 'm':
        config_read_model_flag(p->options->config, arg);
        return 0;
    case 'v':
        config_read_flag(p->options->config, CONFIG_LOG_LEVEL, "debug");
        return 0;
    default:
        return read_setting(p->options->config, key, arg) ? 0 : ARGP_ERR_UNKNOWN;
    }
}

/* What the rooms below would refuse later, said together with the rest. */
static void check_address(config *c)
{
    net_address address;
    pawl_error error = {.struct_size = sizeof error};
    if (address_parse(config_text(c, CONFIG_LISTEN), &address, &error))
        config_fault(c, CONFIG_LISTEN, error.message);
}

bool serve_options_read(int argc, char **argv, serve_options *options)
{
    static const char doc[] =
        "Serve models over WebSocket and HTTP (OpenAI's Responses, Chat Completions and "
        "Completions).\v"
        "Settings come from their defaults, the file of --config or PAWL_CONFIG, the "
        "environment (PAWL_LISTEN for --listen, and so on) and these options; the later wins. "
        "The file may have several models, each with its own settings. See "
        "examples/deploy/pawl.json.\n\n"
        "On start it prints one line, `listening on http://HOST:PORT/v1`; the log goes to "
        "standard error as JSON lines. GET /livez, /readyz and /metrics tell how it is. "
        "SIGTERM and SIGINT end it in order: what runs may end within --drain-seconds; a second "
        "signal ends it at once.";
    parsing *p = calloc(1, sizeof *p);
    *options = (serve_options){.config = config_open()};
    if (!p || !options->config) {
        free(p);
        config_close(options->config);
        return false;
    }
    p->options = options;
    p->file = getenv("PAWL_CONFIG");
    build_table(p);
    struct argp parser = {.options = p->table, .parser = parse_option, .doc = doc};
    argp_parse(&parser, argc, argv, 0, NULL, p);
    if (p->file && *p->file)
        config_read_file(options->config, p->file);
    config_read_environment(options->config, environ);
    config_check(options->config);
    check_address(options->config);
    free(p);
    return true;
}
