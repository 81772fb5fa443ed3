/*
 * host/open_grants.c - what pipelines may reach. See open_grants.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "open_grants.h"

#define THREADS 8 /* files, child processes and requests at once */

enum { KEY_DOCS = 'D', KEY_TOOLS = 'T' };

static const struct argp_option option_table[] = {
    {"docs", KEY_DOCS, "DIR", 0, "A folder that scripts may read, as ctx.docs", 1},
    {"tools", KEY_TOOLS, "FILE", 0,
     "A JSON file of HTTP requests and commands that ctx:tools can name", 1},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    open_grants *o = state->input;
    switch (key) {
    case KEY_DOCS:
        o->docs_folder = arg;
        return 0;
    case KEY_TOOLS:
        o->tools_file = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp open_grants_argp = {.options = option_table, .parser = parse_option};

pawl_status open_grants_open(open_grants *o, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    o->docs.folder = -1;
    if (o->docs_folder)
        status = docs_open(o->docs_folder, &o->docs, error);
    if (!status && o->tools_file)
        status = tools_read(o->tools_file, &o->tools, error);
    if (!status && (o->docs_folder || o->tools_file) && !(o->grants.crew = crew_open(THREADS)))
        status = pawl_fail(error, PAWL_E_MEMORY, "no threads for documents and tools");
    o->grants.docs = o->docs_folder ? &o->docs : NULL;
    o->grants.tools = o->tools;
    if (status)
        open_grants_close(o);
    return status;
}

void open_grants_close(open_grants *o)
{
    crew_close(o->grants.crew);
    tools_close(o->tools);
    if (o->grants.docs)
        docs_close(&o->docs);
    o->tools = NULL;
    o->grants = (script_grants){.crew = NULL};
}
