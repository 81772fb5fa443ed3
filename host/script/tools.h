/*
 * script/tools.h - the tools that a host offers to scripts: HTTP requests and commands.
 *
 * Read from one JSON file, which is the list of all that can be reached: a script, or a
 * model, chooses among names and gives arguments, never a URL or a command. README.md has
 * the form of the file. Immutable once read. No Lua.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_TOOLS_H
#define SCRIPT_TOOLS_H

#include "base/json.h"
#include "script/failure.h"

#define TOOLS_MAX 128
#define TOOLS_MAX_FILE (1u << 20)
#define TOOLS_MAX_WORDS 64 /* of a command, of an environment, of headers */
#define TOOLS_MAX_BYTES (4u << 20)
#define TOOLS_MAX_ARGUMENTS (1u << 20) /* bytes of arguments as JSON */

typedef struct tool_words {
    char *list[TOOLS_MAX_WORDS + 1]; /* ends with NULL */
    size_t n;
} tool_words;

typedef struct tool {
    char *name;
    char *declaration; /* JSON: name, description, parameters */
    int64_t timeout_ms;
    size_t max_bytes;
    /* a command */
    tool_words command; /* n is 0: it is a request */
    tool_words environment;
    uint64_t memory;
    uint32_t processes;
    bool network;
    /* a request */
    char *url;
    char *method;
    tool_words headers;
    bool private_addresses;
} tool;

typedef struct tools {
    tool list[TOOLS_MAX];
    size_t n;
    tool_words redirects; /* origins that replies may redirect to */
    bool uses_http;
} tools;

/* Reads a file, with the secrets that it names. The environment is read now. [main] */
pawl_status tools_read(const char *path, tools **out, pawl_error *error);
void tools_close(tools *t); /* NULL allowed */

const tool *tools_find(const tools *t, const char *name); /* NULL: there is none */

/* Calls one; arguments: a JSON object. *json: what is in out is JSON, else UTF-8 text.
 * timeout_ms: 0: the tool's own; at most that. [crew] (tools_call.c) */
bool tools_call(const tools *t, const tool *which, const char *arguments, int64_t timeout_ms,
                int stop_fd, buf *out, bool *json, failure *why);

#endif /* SCRIPT_TOOLS_H */
