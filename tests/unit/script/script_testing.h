/*
 * tests/unit/script/script_testing.h - runs a script and keeps what it said.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_TESTING_H
#define SCRIPT_TESTING_H

#include "base/buf.h"
#include "script/script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define UNHURRIED 20 /* a sanitizer makes our C slow, not Lua's */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNHURRIED 20
#endif
#endif
#ifndef UNHURRIED
#define UNHURRIED 1
#endif

typedef struct said {
    buf emitted;        /* "type data" lines                      */
    buf logged;         /* data of log events, one a line         */
    char progress[300]; /* the latest                      */
    size_t n_progress;
    int64_t cpu_ns; /* of loading and running              */
} said;

/* A file of tests uses a part of these. */
static inline void on_event(void *arg, const char *type, const char *data)
{
    said *s = arg;
    if (strcmp(type, "run.log") == 0)
        buf_printf(&s->logged, "%s\n", data);
    else if (strcmp(type, "run.progress") == 0)
        snprintf(s->progress, sizeof s->progress, "%s", data);
    else
        buf_printf(&s->emitted, "%s %s\n", type, data);
    s->n_progress += strcmp(type, "run.progress") == 0;
}

static inline int64_t cpu_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What most tests run: a pipeline whose function has this text. Lines keep their numbers. */
#define AS_PIPELINE                                                                                \
    "local h = require 'pawl' return h.pipeline{name = 't', run = function(ctx, input) "

typedef struct setting {
    const char *source;
    bool whole; /* the source is the whole file */
    const char *input;
    script_limits limits;
    const atomic_bool *cancel;
    const char *const *roots;
    size_t n_roots;
    void (*hear)(void *arg, const char *type, const char *data); /* NULL: on_event */
} setting;

/* A setting with the budgets of most tests. */
static inline setting a_setting(const char *source)
{
    return (setting){
        .source = source, .input = "{}", .limits = {.memory = 32u << 20, .wall_ms = 20000}};
}

static inline script_result run_setting(const setting *from, said *s)
{
    script_result result;
    buf text;
    pipeline *p = NULL;
    pawl_error error = {.struct_size = sizeof error};
    *s = (said){.n_progress = 0};
    buf_init(&s->emitted, 64u << 20);
    buf_init(&s->logged, 256u << 20);
    buf_init(&text, SCRIPT_MAX_SOURCE + 1000);
    buf_printf(&text, "%s%s%s", from->whole ? "" : AS_PIPELINE, from->source,
               from->whole ? "" : "\nend}");
    int64_t begun = cpu_now();
    if (pipeline_load("t.lua", buf_text(&text), text.size, from->roots, from->n_roots,
                      &from->limits, &p, &result)) {
        script_config config = {.clock = clock_system(),
                                .pipeline = p,
                                .limits = pipeline_limits(p, &from->limits),
                                .cancel = from->cancel};
        journal_listener listener = {.on_event = from->hear ? from->hear : on_event, .arg = s};
        assert_int_equal(
            journal_open(NULL, clock_system(), NULL, false, listener, &config.journal, &error),
            PAWL_OK);
        script_run(&config, from->input, &result);
        journal_close(config.journal);
        pipeline_release(p);
    }
    s->cpu_ns = cpu_now() - begun;
    buf_clear(&text);
    return result;
}

static inline void forget_said(said *s)
{
    buf_clear(&s->emitted);
    buf_clear(&s->logged);
}

/* The source must come to its end and return exactly this JSON. */
static inline void gives(const char *source, const char *json)
{
    said s;
    setting from = a_setting(source);
    script_result result = run_setting(&from, &s);
    if (result.end != SCRIPT_DONE)
        fail_msg("%s\n%s: %s\n%s", source, script_end_name(result.end), result.message,
                 result.traceback ? result.traceback : "");
    assert_string_equal(result.value, json);
    script_result_clear(&result);
    forget_said(&s);
}

/* The source must fail with an error that contains the text. */
static inline void fails(const char *source, const char *text)
{
    said s;
    setting from = a_setting(source);
    script_result result = run_setting(&from, &s);
    if (result.end != SCRIPT_FAILED || !strstr(result.message, text))
        fail_msg("%s\nended as %s: %s; wanted: %s", source, script_end_name(result.end),
                 result.message ? result.message : "", text);
    script_result_clear(&result);
    forget_said(&s);
}

#endif /* SCRIPT_TESTING_H */
