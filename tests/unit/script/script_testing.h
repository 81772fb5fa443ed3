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
    buf emitted; /* one JSON value a line */
    buf logged;  /* "level text" lines    */
    double done, total;
    size_t n_progress;
    int64_t cpu_ns; /* of the whole run, closing included */
} said;

static void on_emit(void *arg, const char *json, size_t size)
{
    said *s = arg;
    buf_add(&s->emitted, json, size);
    buf_add(&s->emitted, "\n", 1);
}

static void on_progress(void *arg, double done, double total, const char *note)
{
    said *s = arg;
    (void)note;
    s->done = done;
    s->total = total;
    s->n_progress++;
}

static void on_log(void *arg, int32_t level, const char *text)
{
    said *s = arg;
    buf_printf(&s->logged, "%d %s\n", (int)level, text);
}

static inline int64_t cpu_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A configuration with the budgets of most tests. */
static inline script_config a_config(const char *source)
{
    return (script_config){.clock = clock_system(),
                           .name = "t.lua",
                           .source = source,
                           .size = strlen(source),
                           .max_memory = 32u << 20,
                           .max_ms = 20000};
}

static inline script_result run_config_of(script_config *config, said *s)
{
    script_result result;
    *s = (said){.n_progress = 0};
    buf_init(&s->emitted, 64u << 20);
    buf_init(&s->logged, 1u << 20);
    config->listener = (script_listener){on_emit, on_progress, on_log, s};
    int64_t begun = cpu_now();
    script_run(config, &result);
    s->cpu_ns = cpu_now() - begun;
    return result;
}

static inline void forget_said(said *s)
{
    buf_clear(&s->emitted);
    buf_clear(&s->logged);
}

/* The source must come to its end and emit exactly these lines. */
static inline void emits(const char *source, const char *lines)
{
    said s;
    script_config config = a_config(source);
    script_result result = run_config_of(&config, &s);
    if (result.end != SCRIPT_DONE)
        fail_msg("%s\n%s: %s\n%s", source, script_end_name(result.end), result.message,
                 result.traceback ? result.traceback : "");
    assert_string_equal(buf_text(&s.emitted), lines);
    script_result_clear(&result);
    forget_said(&s);
}

/* The source must fail with an error that contains the text. */
static inline void fails(const char *source, const char *text)
{
    said s;
    script_config config = a_config(source);
    script_result result = run_config_of(&config, &s);
    if (result.end != SCRIPT_FAILED || !strstr(result.message, text))
        fail_msg("%s\nended as %s: %s; wanted: %s", source, script_end_name(result.end),
                 result.message ? result.message : "", text);
    script_result_clear(&result);
    forget_said(&s);
}

#endif /* SCRIPT_TESTING_H */
