/*
 * terminal/reply.c - one turn in the terminal: asked, shown as it comes, stopped. See
 * reply.h.
 *
 * Events come on the worker, the engine thread or the store's; they add text to what
 * [main] has not shown yet and wake it through an eventfd. [main] waits for that one and for
 * the one that signals wake.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "terminal/reply.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MAX_PENDING ((size_t)64 << 20) /* text that is not shown yet */
#define DIM "\033[2m"
#define PLAIN "\033[0m"

/* In pending text: from here on thoughts, from here on the reply. */
#define MARK_DIM 1
#define MARK_PLAIN 2
#define MARKS_DIM "\001"
#define MARKS_PLAIN "\002"

typedef struct reply {
    session *s;
    const reply_style *style;
    const char *text;
    run_turn *turn; /* once it was started                       */
    bool started;
    int news;             /* an eventfd: something below has changed   */
    pthread_mutex_t lock; /* guards what follows                       */
    buf pending;          /* to be shown                               */
    bool dim;             /* the end of pending is thoughts            */
    bool ended;           /* END has come                              */
    run_record *record;   /* with it                                   */
} reply;

void reply_show(FILE *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool steers = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
        /* C2 80 to C2 9F are control characters too. */
        if (c == 0xC2 && (unsigned char)text[1] >= 0x80 && (unsigned char)text[1] < 0xA0) {
            steers = true;
            text++;
        }
        fputc(steers ? '?' : c, out);
    }
}

/* ----------------------------------------------------------------- events --- */

/* Marks of ours in the text would be taken for marks. */
static void add_clean(buf *out, const char *text)
{
    size_t begin = out->size;
    if (!buf_add_text(out, text))
        return;
    for (size_t i = begin; i < out->size; i++)
        if (out->data[i] == MARK_DIM || out->data[i] == MARK_PLAIN)
            out->data[i] = '?';
}

static void add_text(reply *r, const run_event *event)
{
    bool dim = event->kind == RUN_ITEM_REASONING;
    if (dim && !r->style->live)
        return;
    if (dim != r->dim)
        buf_add_text(&r->pending, dim ? MARKS_DIM : MARKS_PLAIN "\n");
    r->dim = dim;
    if (event->kind == RUN_ITEM_CALL)
        return; /* nobody here could answer it; ITEM_END shows it whole */
    add_clean(&r->pending, event->text ? event->text : "");
}

static void add_call(reply *r, const run_event *event)
{
    if (event->kind != RUN_ITEM_CALL)
        return;
    buf_printf(&r->pending, "[%s %s]", event->name ? event->name : "?",
               event->text ? event->text : "");
}

static void on_event(void *arg, run_event *event)
{
    reply *r = arg;
    pthread_mutex_lock(&r->lock);
    if (event->type == RUN_DELTA)
        add_text(r, event);
    else if (event->type == RUN_ITEM_END)
        add_call(r, event);
    if (event->type == RUN_END) {
        r->ended = true;
        r->record = event->record;
        event->record = NULL;
    }
    /* Under the lock: after END [main] closes everything that this uses. */
    eventfd_write(r->news, 1);
    pthread_mutex_unlock(&r->lock);
    run_event_free(event);
}

static void show_pending(const reply *r, char *text)
{
    FILE *out = r->style->out;
    while (text && *text) {
        size_t n = strcspn(text, MARKS_DIM MARKS_PLAIN);
        char mark = text[n];
        text[n] = '\0';
        reply_show(out, text);
        if (!mark)
            break;
        fputs(mark == MARK_DIM ? DIM : PLAIN, out);
        text += n + 1;
    }
    fflush(out);
}

/* ------------------------------------------------------------------ asking --- */

static cJSON *message_of(const base_clock *clock, const char *text)
{
    char id[CLOCK_ID_SIZE];
    cJSON *message = cJSON_CreateObject();
    clock_new_id(clock, "msg_", id);
    cJSON_AddStringToObject(message, "type", "message");
    cJSON_AddStringToObject(message, "id", id);
    cJSON_AddStringToObject(message, "status", "completed");
    cJSON_AddStringToObject(message, "role", "user");
    cJSON *part = cJSON_CreateObject();
    cJSON_AddStringToObject(part, "type", "input_text");
    cJSON_AddStringToObject(part, "text", text);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(message, "content"), part);
    return message;
}

/* What a server would repeat of such a request. */
static bool add_echo(run_request *request, const session *s, const reply_style *style)
{
    request->echo = cJSON_CreateObject();
    bool ok =
        request->echo && cJSON_AddStringToObject(request->echo, "model", request->model->name);
    if (ok && s->kept)
        ok = cJSON_AddStringToObject(cJSON_AddObjectToObject(request->echo, "conversation"), "id",
                                     s->id) != NULL;
    if (ok && style->system) {
        request->instructions = strdup(style->system);
        ok = request->instructions &&
             cJSON_AddStringToObject(request->echo, "instructions", style->system);
    }
    if (ok && style->max_tokens)
        ok = cJSON_AddNumberToObject(request->echo, "max_output_tokens",
                                     (double)style->max_tokens) != NULL;
    if (ok && style->temperature >= 0) {
        request->sampling.temperature = (float)style->temperature;
        ok = cJSON_AddNumberToObject(request->echo, "temperature", style->temperature) != NULL;
    }
    request->max_tokens = style->max_tokens;
    return ok;
}

/* [worker] */
static void start(void *arg)
{
    reply *r = arg;
    session *s = r->s;
    run_refusal refusal = {.message = "there is no memory left"};
    const base_clock *clock = run_clock(s->runtime);
    run_request *request = run_request_new(clock);
    if (request) {
        request->model = run_model_at(s->runtime, 0);
        request->keep_stopped = true;
    }
    if (!request || !add_echo(request, s, r->style)) {
        run_request_free(request);
    } else if (!session_attach(s, request, message_of(clock, r->text))) {
        run_request_free(request);
        return;
    } else {
        r->started =
            run_start(s->runtime, request, (run_listener){on_event, r}, &r->turn, &refusal);
    }
    if (!r->started)
        snprintf(s->why, sizeof s->why, "%s", refusal.message);
}

/* ----------------------------------------------------------------- waiting --- */

static void clear(int fd)
{
    eventfd_t count;
    eventfd_read(fd, &count);
}

/* Shows what comes until END. True: the user stopped it. */
static bool follow(reply *r)
{
    const reply_style *style = r->style;
    bool stopped = false, ended = false;
    while (!ended) {
        struct pollfd on[] = {{.fd = r->news, .events = POLLIN},
                              {.fd = style->wake, .events = POLLIN}};
        if (poll(on, 2, -1) < 0 && errno != EINTR)
            break;
        if (on[1].revents)
            clear(style->wake);
        if (!stopped && (atomic_exchange(style->interrupts, 0) || atomic_load(style->stop))) {
            stopped = true;
            run_cancel(r->turn);
        }
        clear(r->news);
        pthread_mutex_lock(&r->lock);
        char *text = r->pending.size ? buf_take(&r->pending) : NULL;
        ended = r->ended;
        pthread_mutex_unlock(&r->lock);
        show_pending(r, text);
        free(text);
    }
    return stopped;
}

static enum reply_end end_of(reply *r, bool stopped)
{
    const run_record *record = r->record;
    if (!record || strcmp(record->status, "failed") == 0) {
        cJSON *result = NULL;
        if (record)
            json_parse(record->result, strlen(record->result), &result, NULL);
        const char *why = json_get_text(json_get(result, "error"), "message");
        snprintf(r->s->why, sizeof r->s->why, "%s", why ? why : "the engine failed");
        cJSON_Delete(result);
        return REPLY_FAILED;
    }
    if (!run_record_can_continue(record))
        return REPLY_DROPPED;
    session_advance(r->s, r->record);
    if (strcmp(record->status, "completed") == 0)
        return REPLY_DONE;
    return stopped ? REPLY_STOPPED : REPLY_CUT;
}

enum reply_end reply_run(session *s, const reply_style *style, const char *text)
{
    reply r = {
        .s = s, .style = style, .text = text, .news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    enum reply_end end = REPLY_FAILED;
    if (r.news < 0) {
        snprintf(s->why, sizeof s->why, "%s", strerror(errno));
        return REPLY_FAILED;
    }
    pthread_mutex_init(&r.lock, NULL);
    buf_init(&r.pending, MAX_PENDING);
    if (session_on_worker(s, start, &r) && r.started) {
        bool stopped = follow(&r);
        if (r.dim)
            fputs(PLAIN, style->out);
        fputc('\n', style->out);
        fflush(style->out);
        end = end_of(&r, stopped);
    }
    run_turn_release(r.turn);
    run_record_release(r.record);
    buf_clear(&r.pending);
    pthread_mutex_destroy(&r.lock);
    close(r.news);
    return end;
}
