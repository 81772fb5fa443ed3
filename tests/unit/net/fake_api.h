/*
 * fake_api.h - a worker and a dialect for tests of the server, instead of run and api.
 *
 * Whoever links this file's functions gets none of the real ones. A request (a path
 * after its '/', or a frame) is words:
 *
 *   reply | fold | stream | early     how it is answered; early: all events come before
 *                                     the call does
 *   lane=L parent=ID id=ID            of a frame
 *   n=N delay=MS                      events of its turn, and the time before each
 *   endless                           until it is cancelled
 *   large                             a reply of FAKE_LARGE bytes
 *   pulled                            its events are there, to be pulled; of every third
 *                                     one must be told first
 *   cancel | refused                  frames of these types
 *
 * Every event makes one message {"n":K}, the last one {"end":"completed","parent":ID}.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FAKE_API_H
#define FAKE_API_H

#include "api/api.h"
#include "base/queue.h"
#include "run/keys.h"
#include "run/ready.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAKE_LARGE ((size_t)5 << 20)

/* How many calls there are, and turns that were asked to stop. */
static atomic_int fake_calls, fake_cancels, fake_waits;

/* ------------------------------------------------------------------ worker ---- */

struct run_runtime {
    queue *jobs;
    pthread_t thread;
    atomic_bool full; /* jobs are refused */
    atomic_bool unready;
    /* A stored key: its hash, and what is to be said of it. */
    char key_hash[STORE_KEY_HASH_SIZE];
    atomic_int key_answer;
};

typedef struct fake_job {
    void (*run)(void *arg);
    void *arg;
} fake_job;

static void *fake_work(void *arg)
{
    run_runtime *runtime = arg;
    fake_job *job;
    while ((job = queue_pop(runtime->jobs, -1)) != NULL) {
        job->run(job->arg);
        free(job);
    }
    return NULL;
}

static inline run_runtime *fake_open(void)
{
    run_runtime *runtime = calloc(1, sizeof *runtime);
    runtime->jobs = queue_open(1000);
    pthread_create(&runtime->thread, NULL, fake_work, runtime);
    return runtime;
}

static inline void fake_close(run_runtime *runtime)
{
    queue_close(runtime->jobs);
    pthread_join(runtime->thread, NULL);
    queue_free(runtime->jobs);
    free(runtime);
}

bool run_defer(run_runtime *runtime, void (*run)(void *arg), void *arg)
{
    fake_job *job = malloc(sizeof *job);
    *job = (fake_job){run, arg};
    if (!atomic_load(&runtime->full) && queue_push(runtime->jobs, job))
        return true;
    free(job);
    return false;
}

const base_clock *run_clock(const run_runtime *runtime)
{
    (void)runtime;
    return clock_system();
}

bool run_is_ready(run_runtime *runtime, char *why, size_t size)
{
    snprintf(why, size, "No model is loaded.");
    return !atomic_load(&runtime->unready);
}

int run_retry_after(const run_runtime *runtime)
{
    (void)runtime;
    return 17;
}

bool run_keys_exist(const run_runtime *runtime)
{
    return runtime->key_hash[0] != '\0';
}

enum run_key_answer run_key_find(run_runtime *runtime, const char *hash, run_caller *caller)
{
    if (hash ? strcmp(hash, runtime->key_hash) != 0 : strcmp(caller->key, "key_stored") != 0)
        return RUN_KEY_UNKNOWN;
    enum run_key_answer answer = (enum run_key_answer)atomic_load(&runtime->key_answer);
    if (answer == RUN_KEY_GOOD)
        *caller = (run_caller){"key_stored", "name", "tenant", STORE_SCOPE_INFERENCE};
    return answer;
}

/* -------------------------------------------------------------------- call ---- */

struct api_call {
    enum api_call_kind kind;
    int status;
    char body[200];
    char *large; /* instead of it, or NULL */
    char id[64];
    char parent[64];
    int n;     /* events of the turn, -1: endless */
    int delay; /* ms before each                  */
    int seen;  /* events that were given to it    */
    run_record *record;
    run_listener listener;
    pthread_t thread;
    bool threaded;
    atomic_bool cancelled;
    bool pulled, told; /* told: of the next event, which was not there before */
    void (*more)(void *arg);
    void *more_arg;
};

static void fake_sleep(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/* The value of NAME=… among the words; "" where it is missing. */
static void fake_word(const char *words, const char *name, char value[64])
{
    const char *at = strstr(words, name);
    *value = '\0';
    if (at)
        sscanf(at + strlen(name), "%63[^ ]", value);
}

static void *fake_turn(void *arg)
{
    api_call *call = arg;
    run_listener to = call->listener;
    for (int i = 0; i != call->n && !atomic_load(&call->cancelled); i++) {
        for (int ms = 0; ms < call->delay && !atomic_load(&call->cancelled); ms += 5)
            fake_sleep(5);
        to.on_event(to.arg, run_event_new(RUN_DELTA));
    }
    run_event *end = run_event_new(RUN_END);
    end->record = run_record_new();
    end->record->id = strdup(call->id);
    end->record->status = atomic_load(&call->cancelled) ? "cancelled" : "completed";
    to.on_event(to.arg, end);
    return NULL;
}

static api_call *fake_start(const char *words, run_record *parent, run_listener listener)
{
    char number[64];
    api_call *call = calloc(1, sizeof *call);
    atomic_fetch_add(&fake_calls, 1);
    call->listener = listener;
    call->status = 200;
    fake_word(words, "id=", call->id);
    snprintf(call->parent, sizeof call->parent, "%s", parent ? parent->id : "none");
    call->kind = strstr(words, "fold") ? API_FOLD : strstr(words, "reply") ? API_REPLY : API_STREAM;
    snprintf(call->body, sizeof call->body, "{\"parent\":\"%s\"}", call->parent);
    if (strstr(words, "error")) {
        call->kind = API_REPLY;
        call->status = 400;
    }
    fake_word(words, "n=", number);
    call->n = strstr(words, "endless") ? -1 : atoi(number);
    fake_word(words, "delay=", number);
    call->delay = atoi(number);
    if (strstr(words, "large")) {
        call->large = malloc(FAKE_LARGE);
        memset(call->large, 'x', FAKE_LARGE);
    }
    if (call->kind == API_REPLY)
        return call;
    call->pulled = strstr(words, "pulled") != NULL;
    if (call->pulled)
        return call;
    call->threaded = !strstr(words, "early");
    if (call->threaded)
        pthread_create(&call->thread, NULL, fake_turn, call);
    else
        fake_turn(call);
    return call;
}

api_call *api_http(run_runtime *runtime, const api_http_request *request, run_listener listener)
{
    (void)runtime;
    api_call *call = fake_start(request->path, NULL, listener);
    if (call->kind == API_REPLY)
        snprintf(call->body, sizeof call->body,
                 "{\"method\":\"%s\",\"query\":\"%s\",\"body\":%zu,\"tenant\":\"%s\"}",
                 request->method, request->query, request->body_size, request->caller->tenant);
    return call;
}

enum api_call_kind api_call_kind(const api_call *call)
{
    return call->kind;
}

int api_call_status(const api_call *call)
{
    return call->status;
}

const char *api_call_body(const api_call *call, size_t *size)
{
    *size = call->large ? FAKE_LARGE : strlen(call->body);
    return call->large ? call->large : call->body;
}

const char *api_call_content_type(const api_call *call)
{
    return call->kind == API_STREAM ? "text/event-stream; charset=utf-8" : "application/json";
}

int api_call_retry_after(const api_call *call)
{
    (void)call;
    return 0;
}

const char *api_call_id(const api_call *call)
{
    return *call->id ? call->id : NULL;
}

void api_call_event(api_call *call, run_event *event, api_emit emit, void *arg)
{
    char text[200];
    int n = snprintf(text, sizeof text, "{\"n\":%d}", call->seen++);
    if (event->type == RUN_END) {
        call->record = event->record;
        event->record = NULL;
        n = snprintf(text, sizeof text, "{\"end\":\"%s\",\"parent\":\"%s\"}", call->record->status,
                     call->parent);
        snprintf(call->body, sizeof call->body, "{\"events\":%d}", call->seen);
    }
    run_event_free(event);
    if (call->kind == API_STREAM)
        emit(arg, "event", text, (size_t)n);
}

bool api_call_summary(const api_call *call, api_summary *summary)
{
    (void)call;
    (void)summary;
    return false;
}

const char *api_endpoint(const char *method, const char *path)
{
    (void)method;
    (void)path;
    return "fake";
}

bool api_call_done(const api_call *call)
{
    return call->record != NULL;
}

run_record *api_call_record(api_call *call)
{
    return call->record;
}

bool api_call_is_pulled(const api_call *call)
{
    return call->pulled;
}

void api_call_on_more(api_call *call, void (*more)(void *arg), void *arg)
{
    call->more = more;
    call->more_arg = arg;
}

enum api_pull api_call_pull(api_call *call, api_emit emit, void *arg)
{
    bool last = call->seen == call->n;
    if (call->seen % 3 == 2 && !call->told) {
        call->told = true;
        atomic_fetch_add(&fake_waits, 1);
        call->more(call->more_arg);
        return API_PULL_WAIT;
    }
    call->told = false;
    run_event *event = run_event_new(last ? RUN_END : RUN_DELTA);
    if (last) {
        event->record = run_record_new();
        event->record->id = strdup(call->id);
        event->record->status = "completed";
    }
    api_call_event(call, event, emit, arg);
    return last ? API_PULL_DONE : API_PULL_MORE;
}

void api_call_unplug(api_call *call)
{
    call->more = NULL;
}

void api_call_leave(api_call *call)
{
    if (!call->pulled)
        api_call_cancel(call);
}

bool api_call_stays(const api_call *call)
{
    return call->pulled;
}

bool api_cancel(run_runtime *runtime, const run_caller *caller, const char *response_id)
{
    (void)runtime;
    (void)caller;
    return strcmp(response_id, "resp_elsewhere") == 0;
}

void run_tend(run_runtime *runtime)
{
    (void)runtime;
}

size_t run_kept_running(run_runtime *runtime)
{
    (void)runtime;
    return 0;
}

void run_cancel_kept(run_runtime *runtime)
{
    (void)runtime;
}

void api_call_cancel(api_call *call)
{
    atomic_store(&call->cancelled, true);
    atomic_fetch_add(&fake_cancels, 1);
}

void api_call_free(api_call *call)
{
    if (!call)
        return;
    if (call->threaded)
        pthread_join(call->thread, NULL);
    run_record_release(call->record);
    free(call->large);
    free(call);
    atomic_fetch_sub(&fake_calls, 1);
}

/* ------------------------------------------------------------------ frames ---- */

struct api_frame {
    char words[1000];
    char lane[64];
    char parent[64];
    char id[64];
};

api_frame *api_frame_parse(run_runtime *runtime, const char *data, size_t size)
{
    (void)runtime;
    api_frame *frame = calloc(1, sizeof *frame);
    snprintf(frame->words, sizeof frame->words, "%.*s", (int)size, data);
    fake_word(frame->words, "lane=", frame->lane);
    fake_word(frame->words, "parent=", frame->parent);
    fake_word(frame->words, "id=", frame->id);
    return frame;
}

enum api_frame_type api_frame_type(const api_frame *frame)
{
    return strstr(frame->words, "cancel")    ? API_FRAME_CANCEL
           : strstr(frame->words, "refused") ? API_FRAME_REFUSED
                                             : API_FRAME_CREATE;
}

const char *api_frame_lane(const api_frame *frame)
{
    return *frame->lane ? frame->lane : NULL;
}

const char *api_frame_parent(const api_frame *frame)
{
    return *frame->parent ? frame->parent : NULL;
}

const char *api_frame_response_id(const api_frame *frame)
{
    return *frame->id ? frame->id : NULL;
}

void api_frame_free(api_frame *frame)
{
    free(frame);
}

api_call *api_frame_start(run_runtime *runtime, api_frame *frame, const run_caller *caller,
                          run_record *parent, run_listener listener)
{
    (void)runtime, (void)caller;
    return fake_start(frame->words, parent, listener);
}

char *api_error_frame(int status, const char *type, const char *code, const char *param,
                      const char *message, const char *lane)
{
    char text[300];
    (void)type, (void)param, (void)message;
    snprintf(text, sizeof text, "error %d %s %s", status, code, lane ? lane : "-");
    return strdup(text);
}

char *api_frame_error(const api_frame *frame)
{
    (void)frame;
    return strdup("error 400 refused -");
}

char *api_error_body(const char *type, const char *code, const char *param, const char *message)
{
    char text[300];
    (void)type, (void)param, (void)message;
    snprintf(text, sizeof text, "{\"error\":\"%s\"}", code);
    return strdup(text);
}

#endif /* FAKE_API_H */
