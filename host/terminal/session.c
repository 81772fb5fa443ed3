/*
 * terminal/session.c - what is said in the terminal, kept or not. See session.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "terminal/session.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---------------------------------------------------------------- waiting --- */

/* Something that another thread does while [main] waits. */
typedef struct waiter {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t came;
    bool done;
    pawl_status status;
    char *why; /* room of a message: SESSION_WHY */
} waiter;

static void waiter_open(waiter *w, char *why)
{
    *w = (waiter){.why = why};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->came, NULL);
}

/* A store_done. */
static void waiter_done(void *arg, pawl_status status, const pawl_error *error)
{
    waiter *w = arg;
    pthread_mutex_lock(&w->lock);
    w->status = status;
    if (error)
        snprintf(w->why, SESSION_WHY, "%s", error->message);
    w->done = true;
    pthread_cond_signal(&w->came);
    pthread_mutex_unlock(&w->lock);
}

static pawl_status waiter_close(waiter *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->done)
        pthread_cond_wait(&w->came, &w->lock);
    pawl_status status = w->status;
    pthread_mutex_unlock(&w->lock);
    pthread_cond_destroy(&w->came);
    pthread_mutex_destroy(&w->lock);
    return status;
}

typedef struct errand {
    void (*job)(void *arg);
    void *arg;
    waiter w;
} errand;

static void run_errand(void *arg)
{
    errand *e = arg;
    e->job(e->arg);
    waiter_done(&e->w, PAWL_OK, NULL);
}

bool session_on_worker(session *s, void (*job)(void *arg), void *arg)
{
    errand e = {.job = job, .arg = arg};
    waiter_open(&e.w, s->why);
    if (run_defer(s->runtime, run_errand, &e))
        return waiter_close(&e.w) == PAWL_OK;
    snprintf(s->why, sizeof s->why, "it is ending");
    return false;
}

/* ------------------------------------------------------- on the worker --- */

static bool fail(session *s, const char *format, ...) PAWL_PRINTF(2, 3);

static bool fail(session *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->why, sizeof s->why, format, args);
    va_end(args);
    return false;
}

/* The conversation is closed here. The store's thread answers, so the worker may wait. */
static bool write_and_close(session *s, run_conversation *c)
{
    waiter w;
    pawl_error error = {.struct_size = sizeof error};
    waiter_open(&w, s->why);
    pawl_status status = run_conversation_write(c, waiter_done, &w, &error);
    if (status)
        waiter_done(&w, status, &error);
    status = waiter_close(&w);
    if (!status) {
        snprintf(s->id, sizeof s->id, "%s", c->id);
        snprintf(s->name, sizeof s->name, "%s", c->title ? c->title : "");
    }
    run_conversation_close(c);
    return status == PAWL_OK;
}

static run_conversation *open_id(session *s, const char *id)
{
    run_conversation *c = NULL;
    if (run_conversation_open(s->runtime, &RUN_NOBODY, id, true, &c) == RUN_CONVERSATION_FOUND)
        return c;
    fail(s, "the session cannot be read");
    return NULL;
}

/* The id of the session of this name, in id; "": there is none. */
static bool find_name(session *s, const char *name, char id[CLOCK_ID_SIZE + 32])
{
    store_conversation **list = NULL;
    size_t n = 0;
    pawl_error error = {.struct_size = sizeof error};
    store_page page = {.title = name, .limit = 1};
    if (run_conversation_list(s->runtime, &RUN_NOBODY, page, &list, &n, &error) != PAWL_OK)
        return fail(s, "%s", error.message);
    snprintf(id, CLOCK_ID_SIZE + 32, "%s", n ? list[0]->id : "");
    if (n)
        free(list[0]);
    free(list);
    return true;
}

static bool make(session *s, const char *name, const run_conversation *fork_of)
{
    run_conversation *c = run_conversation_new(s->runtime, &RUN_NOBODY);
    cJSON *metadata = cJSON_CreateObject();
    bool found = true;
    bool ok = c && metadata && (!name || cJSON_AddStringToObject(metadata, "title", name)) &&
              run_conversation_describe(c, metadata) &&
              (!fork_of || run_conversation_fork(c, fork_of, NULL, &found));
    cJSON_Delete(metadata);
    if (ok)
        return write_and_close(s, c);
    run_conversation_close(c);
    return fail(s, "there is no memory left");
}

/* What [main] has the worker do. */
typedef struct job {
    session *s;
    const char *name;
    buf *out;
    char **taken;
    bool ok;
} job;

static void count_items(session *s)
{
    run_conversation *c = open_id(s, s->id);
    cJSON *items = c ? run_conversation_items(c) : NULL;
    s->n_items = (size_t)cJSON_GetArraySize(items);
    cJSON_Delete(items);
    run_conversation_close(c);
}

static void do_open(void *arg)
{
    job *j = arg;
    session *s = j->s;
    char id[CLOCK_ID_SIZE + 32] = "";
    run_conversation *c = NULL;
    if (strncmp(j->name, "conv_", 5) == 0 && strlen(j->name) < sizeof id &&
        run_conversation_open(s->runtime, &RUN_NOBODY, j->name, false, &c) ==
            RUN_CONVERSATION_FOUND) {
        snprintf(id, sizeof id, "%s", j->name);
        snprintf(s->name, sizeof s->name, "%s", c->title ? c->title : "");
        run_conversation_close(c);
    } else if (!find_name(s, j->name, id)) {
        return;
    } else {
        snprintf(s->name, sizeof s->name, "%s", j->name);
    }
    if (!*id) {
        j->ok = make(s, j->name, NULL);
        return;
    }
    snprintf(s->id, sizeof s->id, "%s", id);
    count_items(s);
    j->ok = true;
}

static void do_new(void *arg)
{
    job *j = arg;
    char id[CLOCK_ID_SIZE + 32] = "";
    if (j->name && !find_name(j->s, j->name, id))
        return;
    j->ok = *id ? fail(j->s, "there is a session of that name; --session opens it")
                : make(j->s, j->name, NULL);
}

static void do_fork(void *arg)
{
    job *j = arg;
    char id[CLOCK_ID_SIZE + 32];
    if (!find_name(j->s, j->name, id))
        return;
    if (*id) {
        fail(j->s, "there is a session of that name; take another one");
        return;
    }
    run_conversation *from = open_id(j->s, j->s->id);
    j->ok = from && make(j->s, j->name, from);
    run_conversation_close(from);
}

/* The text of the last message of the user among the items, to be free()d, or NULL. */
static char *last_question(const cJSON *items)
{
    const cJSON *each;
    const char *text = NULL;
    cJSON_ArrayForEach(each, items)
    {
        const char *role = json_get_text(each, "role");
        if (role && strcmp(role, "user") == 0)
            text = json_get_text(cJSON_GetArrayItem(json_get(each, "content"), 0), "text");
    }
    return text ? strdup(text) : NULL;
}

static void do_undo(void *arg)
{
    job *j = arg;
    bool found = false;
    run_conversation *c = open_id(j->s, j->s->id);
    cJSON *items = c ? run_conversation_items(c) : NULL;
    *j->taken = last_question(items);
    cJSON_Delete(items);
    if (c && items && run_conversation_undo(c, &found) && found) {
        j->ok = write_and_close(j->s, c);
        return;
    }
    fail(j->s, c && items ? "there is nothing to take back" : "the session cannot be read");
    run_conversation_close(c);
}

static void add_line(buf *out, const session *s, const store_conversation *c)
{
    char time[32] = "";
    struct tm tm;
    time_t seconds = (time_t)(c->updated_ms / 1000);
    if (localtime_r(&seconds, &tm))
        strftime(time, sizeof time, "%Y-%m-%d %H:%M", &tm);
    buf_printf(out, "%s %s  %s\n", strcmp(c->id, s->id) == 0 ? "*" : " ", time,
               c->title && *c->title ? c->title : c->id);
}

static void do_list(void *arg)
{
    job *j = arg;
    store_conversation **list = NULL;
    size_t n = 0;
    pawl_error error = {.struct_size = sizeof error};
    store_page page = {.limit = STORE_MAX_PAGE};
    if (run_conversation_list(j->s->runtime, &RUN_NOBODY, page, &list, &n, &error) != PAWL_OK) {
        fail(j->s, "%s", error.message);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        add_line(j->out, j->s, list[i]);
        free(list[i]);
    }
    free(list);
    if (n == STORE_MAX_PAGE)
        buf_add_text(j->out, "  and earlier ones\n");
    j->ok = true;
}

/* ----------------------------------------------------------------- [main] --- */

static bool have_done(job *j, void (*work)(void *arg))
{
    return session_on_worker(j->s, work, j) && j->ok;
}

static bool check_name(session *s, const char *name)
{
    size_t size = strlen(name);
    if (size > 0 && size <= SESSION_MAX_NAME)
        return true;
    return fail(s, "a session's name has from 1 to %d bytes", SESSION_MAX_NAME);
}

bool session_open(session *s, run_runtime *runtime, bool kept, const char *name)
{
    *s = (session){.runtime = runtime, .kept = kept};
    job j = {.s = s, .name = name};
    if (!kept)
        return true;
    if (!name)
        return session_new(s, NULL);
    return check_name(s, name) && have_done(&j, do_open);
}

void session_close(session *s)
{
    run_record_release(s->last);
    s->last = NULL;
}

bool session_new(session *s, const char *name)
{
    job j = {.s = s, .name = name};
    if (name && !s->kept)
        return fail(s, "nothing is kept here; start with --session NAME for that");
    if (name && !check_name(s, name))
        return false;
    if (s->kept)
        return have_done(&j, do_new);
    run_record_release(s->last);
    s->last = NULL;
    return true;
}

bool session_fork(session *s, const char *name)
{
    job j = {.s = s, .name = name};
    if (!s->kept)
        return fail(s, "nothing is kept here; start with --session NAME for that");
    return check_name(s, name) && have_done(&j, do_fork);
}

bool session_undo(session *s, char **taken)
{
    job j = {.s = s, .taken = taken};
    *taken = NULL;
    if (s->kept)
        return have_done(&j, do_undo);
    if (!s->last)
        return fail(s, "there is nothing to take back");
    cJSON *items = NULL;
    run_record *before = s->last->parent ? run_record_retain(s->last->parent) : NULL;
    json_parse(s->last->input, strlen(s->last->input), &items, NULL);
    *taken = last_question(items);
    cJSON_Delete(items);
    run_record_release(s->last);
    s->last = before;
    return true;
}

bool session_list(session *s, buf *out)
{
    job j = {.s = s, .out = out};
    if (!s->kept)
        return fail(s, "nothing is kept here; start with --session NAME for that");
    return have_done(&j, do_list);
}

bool session_attach(session *s, run_request *request, cJSON *message)
{
    run_conversation *c = s->kept ? open_id(s, s->id) : NULL;
    bool ok = !s->kept || (c && run_conversation_load(c));
    if (c && !ok)
        run_conversation_close(c);
    else if (c)
        ok = run_conversation_attach(c, request);
    else if (ok)
        request->items = cJSON_CreateArray();
    if (!s->kept && s->last)
        request->parent = run_record_retain(s->last);
    request->store = s->kept;
    if (ok && message && cJSON_AddItemToArray(request->items, message))
        return true;
    cJSON_Delete(message);
    return fail(s, "the session cannot be read, or there is no memory left");
}

void session_advance(session *s, run_record *record)
{
    if (s->kept)
        return; /* the store knows */
    run_record_retain(record);
    run_record_release(s->last);
    s->last = record;
}
