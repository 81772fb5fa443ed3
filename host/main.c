/*
 * host/main.c - the command line: one table of subcommands.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "commands.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct command {
    const char *name;
    const char *full_name; /* what --help calls it */
    int (*run)(int argc, char **argv);
    const char *help;
} command;

static const command commands[] = {
    {"serve", "pawl serve", cmd_serve, "serve models over WebSocket and HTTP"},
    {"chat", "pawl chat", cmd_chat, "talk to a model in this terminal, and go on another day"},
    {"run", "pawl run", cmd_run, "run a pipeline: a Lua file, on models it is given"},
    {"model", "pawl model", cmd_model,
     "inspect a model; tokenize, logits, render, parse as JSON lines"},
    {"store", "pawl store", cmd_store,
     "check, count, shrink, copy, export and import the data folder"},
    {"key", "pawl key", cmd_key, "add, list and revoke API keys"},
    {"plugin", "pawl plugin", cmd_plugin,
     "list plugins; check one against the contract; lift a quarantine"},
};

static void help(FILE *to)
{
    fprintf(to, "Usage: pawl COMMAND [OPTION...]\n\n"
                "Pawl serves language models to workflow and agent platforms.\n\n"
                "Commands (each answers --help):\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].help);
    fprintf(to, "\n  --help     this text\n  --version  the version\n");
}

int main(int argc, char **argv)
{
    argp_err_exit_status = 2; /* commands.h */
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
        help(stdout);
        return 0;
    }
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        printf("pawl %s\n", PAWL_VERSION);
        return 0;
    }
    for (size_t i = 0; argc >= 2 && i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        char *full_name = strdup(commands[i].full_name);
        if (full_name)
            argv[1] = full_name;
        int status = commands[i].run(argc - 1, argv + 1);
        free(full_name);
        return status;
    }
    if (argc >= 2)
        fprintf(stderr, "pawl: unknown command '%s'\n\n", argv[1]);
    help(stderr);
    return 2;
}
