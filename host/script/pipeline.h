/*
 * script/pipeline.h - a pipeline: a Lua file that declares what it is called, what it
 * takes, what it may use, and what it does.
 *
 * Made from a text and the modules that it requires, which are read once, while the file
 * loads; immutable then and counted, so that any number of runs on any threads have the
 * same one, and a run that goes on after days goes on with the text that it began with.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_PIPELINE_H
#define SCRIPT_PIPELINE_H

#include "base/clock.h"
#include "base/digest.h"
#include "base/json.h"
#include "script/limits.h"

#define PIPELINE_MAX_NAME 64    /* bytes of a name                   */
#define PIPELINE_MAX_MODULES 64 /* that one pipeline requires        */
#define PIPELINE_MAX_BUNDLE (4u << 20)
#define PIPELINE_MAX_ROOTS 8

typedef struct pipeline_module {
    char *name;
    char *text;
} pipeline_module;

typedef struct pipeline {
    int references; /* by retain and release alone           */
    char *name;
    char *description;    /* or NULL                               */
    cJSON *params;        /* a checked schema of an object, or NULL: any texts */
    script_limits limits; /* as declared; 0: not                   */
    char *title;          /* what messages call the file           */
    char *text;
    pipeline_module modules[PIPELINE_MAX_MODULES];
    size_t n_modules;
    char *bundle;               /* text and modules, as it is stored     */
    char hash[DIGEST_HEX_SIZE]; /* of the bundle                   */
} pipeline;

/* Why a text is no pipeline, or how a run ended. */
typedef struct script_result {
    enum script_end end;
    char *message;   /* NULL when done                                 */
    char *traceback; /* of SCRIPT_FAILED and of what a budget stopped, else NULL */
    char *value;     /* JSON: what it returned; parked: its question; else NULL */
    uint64_t instructions;
    size_t peak_memory;
    int64_t elapsed_ns;
    uint64_t tokens;
    uint64_t calls;
} script_result;

void script_result_clear(script_result *result);

/* Loads a text. roots: n folders in which require("name") finds name.lua. Loading has
 * limits: an attack on them ends as in a run. False: *why says it. [any] */
bool pipeline_load(const char *title, const char *text, size_t size, const char *const *roots,
                   size_t n_roots, const script_limits *limits, pipeline **out, script_result *why);
/* The same from a file; the roots are its own folder and the given ones. */
bool pipeline_read(const char *path, const char *const *roots, size_t n_roots,
                   const script_limits *limits, pipeline **out, script_result *why);
/* The same from a bundle. */
bool pipeline_unbundle(const char *title, const char *bundle, const script_limits *limits,
                       pipeline **out, script_result *why);

pipeline *pipeline_retain(pipeline *p);
void pipeline_release(pipeline *p); /* NULL allowed */

/* Sets a member of an input from a text "NAME=TEXT", as of schema_typed(). */
pawl_status pipeline_set_member(const pipeline *p, cJSON *input, const char *text,
                                pawl_error *error);

/* What a run of it may use: the stricter of what it declares and what the host allows. */
script_limits pipeline_limits(const pipeline *p, const script_limits *allowed);

#endif /* SCRIPT_PIPELINE_H */
