/*
 * host/cmd_model.c - `pawl model`: what is in a model file, and its parts on their own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "commands.h"

#include "base/log.h"
#include "model_lines.h"
#include "run/model.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FOLDERS 16

typedef struct parsed {
    model_options options;
    const char *action;
    const char *folders[MAX_FOLDERS]; /* --plugin-dir */
    size_t n_folders;
} parsed;

typedef struct action {
    const char *name;
    int (*run)(const model_options *options);
    bool needs_path;
} action;

static const action actions[] = {
    {"inspect", model_inspect, true}, {"tokenize", model_tokenize, true},
    {"logits", model_logits, true},   {"render", model_render, false},
    {"parse", model_parse, false},
};

enum option_key { KEY_FORMAT = 256, KEY_ENGINE, KEY_NUMERIC, KEY_CONTEXT, KEY_DECODE, KEY_PLUGINS };

static const struct argp_option option_table[] = {
    {"format", KEY_FORMAT, "NAME", 0, "render, parse: the chat dialect by name", 0},
    {"engine", KEY_ENGINE, "NAME", 0, "logits: only this engine (cpu)", 0},
    {"numeric", KEY_NUMERIC, "MODE", 0,
     "logits: fast (quantised activations) or f32; default fast for GGUF", 0},
    {"threads", 't', "N", 0, "logits: threads of the engine", 0},
    {"context", KEY_CONTEXT, "TOKENS", 0, "logits: longest sequence", 0},
    {"decode", KEY_DECODE, NULL, 0, "tokenize: from ids to text", 0},
    {"plugin-dir", KEY_PLUGINS, "DIR", 0, "Search plugins here first; may be repeated", 0},
    {0},
};

static error_t take_word(parsed *p, char *arg, struct argp_state *state)
{
    if (!p->action)
        p->action = arg;
    else if (!p->options.path)
        p->options.path = arg;
    else
        argp_error(state, "unexpected argument '%s'", arg);
    return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    parsed *p = state->input;
    switch (key) {
    case KEY_FORMAT:
        p->options.format = arg;
        return 0;
    case KEY_ENGINE:
        p->options.engine = arg;
        return 0;
    case KEY_NUMERIC:
        p->options.numeric = arg;
        return 0;
    case 't':
        p->options.threads = (uint32_t)strtoul(arg, NULL, 10);
        return 0;
    case KEY_CONTEXT:
        p->options.context = strtoull(arg, NULL, 10);
        return 0;
    case KEY_DECODE:
        p->options.decode = true;
        return 0;
    case KEY_PLUGINS:
        if (p->n_folders == MAX_FOLDERS)
            argp_error(state, "more than %d plugin folders", MAX_FOLDERS);
        p->folders[p->n_folders++] = arg;
        return 0;
    case ARGP_KEY_ARG:
        return take_word(p, arg, state);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int model_inspect(const model_options *options)
{
    char *json = NULL;
    pawl_error error = {.struct_size = sizeof error};
    if (run_model_inspect(options->plugins, options->path, &json, &error) != PAWL_OK) {
        fprintf(stderr, "pawl model inspect: %s\n", error.message);
        return 1;
    }
    cJSON *tree = cJSON_Parse(json);
    char *text = tree ? cJSON_Print(tree) : NULL;
    puts(text ? text : json);
    free(text);
    cJSON_Delete(tree);
    free(json);
    return 0;
}

static int run_action(const action *chosen, parsed *p)
{
    pawl_error error = {.struct_size = sizeof error};
    registry_config search = {.folders = p->folders, .n_folders = p->n_folders};
    if (chosen->needs_path && !p->options.path) {
        fprintf(stderr, "pawl model %s: a model path is wanted\n", chosen->name);
        return 2;
    }
    if (registry_open(&search, &p->options.plugins, &error) != PAWL_OK) {
        fprintf(stderr, "pawl model: %s\n", error.message);
        return 1;
    }
    int status = chosen->run(&p->options);
    registry_close(p->options.plugins);
    return status;
}

int cmd_model(int argc, char **argv)
{
    static const struct argp parser = {
        .options = option_table,
        .parser = parse_option,
        .args_doc = "inspect|tokenize|logits|render|parse [PATH]",
        .doc = "Look into a model file, or run one part of it alone.\v"
               "inspect writes one JSON object. The others read JSON lines from standard input "
               "and write one answer a line, in order; a line that cannot be answered gives "
               "{\"error\":{\"code\",\"message\"}}:\n"
               "  tokenize PATH           {\"text\", \"parse_special\"?}  ->  {\"ids\"}\n"
               "  tokenize PATH --decode  {\"ids\"}  ->  {\"text\", \"bytes_hex\", \"stream\", "
               "\"flush\"}\n"
               "  logits PATH             {\"ids\", \"generate\"?, \"rows\"?, \"top\"?}  ->  "
               "{\"argmax\", \"logprobs\", \"logits\", \"top\", \"generated\"}\n"
               "  render PATH|--format N  a chat request  ->  {\"prompt\", \"special_ranges\", "
               "\"ids\"?}\n"
               "  parse --format N        {\"output\" or \"chunks\", \"tools\", "
               "\"starts_in_reasoning\"?}  ->  {\"reasoning\", \"content\", \"tool_calls\", "
               "\"finish_reason\"}",
    };
    parsed p = {0};
    argp_parse(&parser, argc, argv, 0, NULL, &p);
    log_set_level(PAWL_LOG_WARN);
    for (size_t i = 0; p.action && i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(p.action, actions[i].name) == 0)
            return run_action(&actions[i], &p);
    fprintf(stderr, "pawl model: %s '%s'; inspect, tokenize, logits, render or parse is wanted\n",
            p.action ? "unknown action" : "no action", p.action ? p.action : "");
    return 2;
}
