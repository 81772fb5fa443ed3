/*
 * host/cmd_run_terminal.c - what runs of pipelines look like in a terminal. See
 * cmd_run_terminal.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd_run_terminal.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define MOST_LISTED 1000
#define EVENTS_AT_ONCE 500
#define PLAIN_NS (5 * (int64_t)1000000000) /* between two lines where there is no terminal */

void run_terminal_say(const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        fputc(c < 0x20 && c != '\t' && c != '\n' ? '?' : c == 0x7f ? '?' : c, stderr);
    }
}

void run_terminal_clear(run_terminal *t)
{
    if (t->shown)
        fputs("\r\033[K", stderr);
    t->shown = false;
}

/* How many characters a line of the terminal has. */
static unsigned terminal_width(void)
{
    struct winsize size = {.ws_col = 0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col : 80;
}

/* On a terminal one line that changes; else a line now and then, and a last one. */
static void show_progress(run_terminal *t, const cJSON *data)
{
    const base_clock *clock = clock_system();
    int64_t now = clock->monotonic_ns(clock->context);
    double done = json_get_number(data, "done", 0), total = json_get_number(data, "total", 0);
    buf line;
    progress_note(&t->progress, now, done);
    if (!t->live && t->printed_ns && now - t->printed_ns < PLAIN_NS &&
        !(total > 0 && done >= total))
        return;
    t->printed_ns = now;
    buf_init(&line, 4096);
    run_terminal_clear(t);
    progress_describe(&t->progress, now, total, json_get_text(data, "note"),
                      t->live ? terminal_width() - 1 : 0, &line);
    fprintf(stderr, t->live ? "%s" : "progress: %s\n", buf_text(&line));
    fflush(stderr);
    buf_clear(&line);
    t->shown = t->live;
}

static void show_log(run_terminal *t, const cJSON *data)
{
    const char *level = json_get_text(data, "level"), *message = json_get_text(data, "message");
    const cJSON *fields = json_get(data, "fields");
    char *more = fields ? json_print(fields) : NULL;
    if (!t->debug && level && strcmp(level, "debug") == 0) {
        free(more);
        return;
    }
    run_terminal_clear(t);
    if (level && strcmp(level, "info") != 0)
        fprintf(stderr, "%s: ", level);
    run_terminal_say(message ? message : "");
    run_terminal_say(more ? " " : "");
    run_terminal_say(more ? more : "");
    fputc('\n', stderr);
    free(more);
}

void run_terminal_event(void *arg, const char *type, const char *data)
{
    run_terminal *t = arg;
    static const char *const silent[] = {"run.started", "run.resumed", "run.failed",
                                         "run.cancelled"};
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; i++)
        if (strcmp(type, silent[i]) == 0)
            return;
    if (strcmp(type, "run.progress") != 0 && strcmp(type, "run.log") != 0) {
        run_terminal_clear(t);
        printf("{\"type\":\"%s\",\"data\":%s}\n", type, data);
        fflush(stdout);
        return;
    }
    cJSON *json = NULL;
    json_parse_with_nuls(data, strlen(data), &json, NULL);
    if (type[4] == 'p')
        show_progress(t, json);
    else
        show_log(t, json);
    cJSON_Delete(json);
}

/* ------------------------------------------------------------- what is stored */

static void format_time(int64_t ms, char text[32])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm at;
    if (!localtime_r(&seconds, &at) || strftime(text, 32, "%Y-%m-%d %H:%M:%S", &at) == 0)
        snprintf(text, 32, "%lld", (long long)ms);
}

pawl_status run_terminal_list(store *kept, pawl_error *error)
{
    store_run *runs = NULL;
    size_t n = 0;
    pawl_status status = kept->run_list(kept, NULL, MOST_LISTED, &runs, &n, error);
    if (status)
        return status;
    for (size_t i = 0; i < n; i++) {
        char begun[32], latest[32];
        format_time(runs[i].created_ms, begun);
        format_time(runs[i].updated_ms, latest);
        printf("%s  %-9s  %s  %s  %s\n", runs[i].id, runs[i].state, begun, latest,
               runs[i].pipeline);
    }
    free(runs);
    return PAWL_OK;
}

pawl_status run_terminal_events(store *kept, const char *id, uint64_t after, pawl_error *error)
{
    store_run *run = NULL;
    pawl_status status = kept->run_get(kept, id, &run, error);
    free(run);
    for (size_t n = 1; !status && n > 0;) {
        store_event *events = NULL;
        status = kept->run_events(kept, id, after, EVENTS_AT_ONCE, &events, &n, error);
        for (size_t i = 0; !status && i < n; i++) {
            printf("{\"seq\":%llu,\"at_ms\":%lld,\"type\":\"%s\",\"data\":%s}\n",
                   (unsigned long long)events[i].seq, (long long)events[i].at_ms, events[i].type,
                   events[i].data);
            after = events[i].seq;
        }
        free(events);
    }
    return status;
}
