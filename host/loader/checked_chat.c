/*
 * loader/checked_chat.c - the checking table of chat dialects and their parsers.
 *
 * open and close are [main] of the plugin, a parser is [owner], rendering is [any]. The
 * number of a dialect's open parsers is atomic: each may have another owner.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/checked_rules.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

struct pawl_chat {
    checked *c;
    const pawl_chat_api *api; /* the plugin's                   */
    pawl_chat *real;          /* the plugin's                   */
    atomic_int parsers;       /* open                           */
};

struct pawl_parser {
    pawl_chat *chat;
    pawl_parser *real;
    atomic_bool owner;   /* an [owner] call runs                            */
    bool finished;       /* by finish()                                     */
    bool inside;         /* feed() or finish() runs: events may come        */
    bool call;           /* a call has begun and not ended                  */
    uint64_t index;      /* of the call that is open                        */
    uint64_t next;       /* the least index that the next call may have     */
    pawl_chat_emit emit; /* the host's, while `inside`                      */
    void *arg;
};

/* ---- dialects: [main] and [any] ---- */

static pawl_status dialects(checked *c, const pawl_sink *to, pawl_error *error)
{
    checked_error e;
    checked_sink s;
    pawl_status status = c->chat->dialects(checked_sink_begin(&s, c, "dialects", to),
                                           checked_error_begin(&e, error));
    checked_sink_end(&s, status);
    return checked_status(c, "dialects", status, &e);
}

static pawl_status open_chat(checked *c, pawl_bytes config, pawl_chat **out, pawl_error *error)
{
    checked_error shield;
    pawl_chat *chat = calloc(1, sizeof *chat);
    if (!chat)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to check a dialect");
    chat->c = c;
    chat->api = c->chat;
    chat->real = CHECKED_NONE;
    checked_enter(c, &c->main, "[main]", "open");
    pawl_status status = chat->api->open(config, &chat->real, checked_error_begin(&shield, error));
    checked_status(c, "open", status, &shield);
    checked_object(c, "open", status, chat->real);
    if (status) {
        free(chat);
    } else {
        atomic_fetch_add(&c->open, 1);
        *out = chat;
    }
    checked_leave(&c->main);
    return status;
}

static void close_chat(pawl_chat *chat)
{
    checked *c = chat->c;
    int parsers = atomic_load_explicit(&chat->parsers, memory_order_relaxed);
    checked_enter(c, &c->main, "[main]", "close");
    CHECKED_THAT(c, parsers == 0, "a dialect is closed after its parsers", "%d are open", parsers);
    chat->api->close(chat->real);
    atomic_fetch_sub(&c->open, 1);
    free(chat);
    checked_leave(&c->main);
}

static const char *dialect(const pawl_chat *chat)
{
    const char *name = chat->api->dialect(chat->real);
    CHECKED_THAT(chat->c, name && name[0], "a dialect has a name", "it has none");
    return name;
}

static pawl_status render(const pawl_chat *chat, pawl_bytes request, const pawl_sink *to,
                          pawl_error *error)
{
    checked_error e;
    checked_sink s;
    pawl_status status =
        chat->api->render(chat->real, request, checked_sink_begin(&s, chat->c, "render", to),
                          checked_error_begin(&e, error));
    checked_sink_end(&s, status);
    CHECKED_THAT(chat->c, status || s.size, "render() writes", "nothing, with status 0");
    return checked_status(chat->c, "render", status, &e);
}

/* ---- parsers: [owner] ---- */

static pawl_status parser_open(const pawl_chat *chat, pawl_bytes request, pawl_parser **out,
                               pawl_error *error)
{
    checked_error shield;
    pawl_parser *p = calloc(1, sizeof *p);
    if (!p)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to check a parser");
    p->chat = (pawl_chat *)(uintptr_t)chat; /* its count of parsers is ours, and atomic */
    p->real = CHECKED_NONE;
    pawl_status status =
        chat->api->parser_open(chat->real, request, &p->real, checked_error_begin(&shield, error));
    checked_status(chat->c, "parser_open", status, &shield);
    checked_object(chat->c, "parser_open", status, p->real);
    if (status) {
        free(p);
        return status;
    }
    atomic_fetch_add_explicit(&p->chat->parsers, 1, memory_order_relaxed);
    *out = p;
    return PAWL_OK;
}

static void parser_close(pawl_parser *p)
{
    checked_enter(p->chat->c, &p->owner, "[owner]", "parser_close");
    p->chat->api->parser_close(p->real);
    atomic_fetch_sub_explicit(&p->chat->parsers, 1, memory_order_relaxed);
    free(p);
}

/* Calls begin one after the other and end before the next begins. */
static void follow_call(pawl_parser *p, const pawl_chat_event *event)
{
    const checked *c = p->chat->c;
    unsigned long long index = event->index;
    switch (event->type) {
    case PAWL_CHAT_CALL_BEGIN:
        CHECKED_THAT(c, !p->call && event->index >= p->next, "calls begin and end in order",
                     "call %llu begins%s", index, p->call ? " inside another" : " again");
        p->call = true;
        p->index = event->index;
        p->next = event->index + 1;
        break;
    case PAWL_CHAT_CALL_DELTA:
    case PAWL_CHAT_CALL_END:
        CHECKED_THAT(c, p->call && event->index == p->index, "calls begin and end in order",
                     "call %llu goes on or ends and is not open", index);
        p->call = event->type == PAWL_CHAT_CALL_DELTA;
        break;
    case PAWL_CHAT_CALL_BAD:
        p->call = false;
        break;
    default:
        break;
    }
}

static void on_event(void *arg, const pawl_chat_event *event)
{
    pawl_parser *p = arg;
    const checked *c = p->chat->c;
    CHECKED_THAT(c, p->inside, "events come inside feed() and finish()", "one came later");
    CHECKED_THAT(c, event->struct_size >= sizeof *event, "every struct has its struct_size",
                 "an event has %u", event->struct_size);
    CHECKED_THAT(c, event->type >= PAWL_CHAT_TEXT && event->type <= PAWL_CHAT_DROPPED,
                 "events are of the header's types", "%d", event->type);
    CHECKED_THAT(c, event->text.data || !event->text.size, "an event's text is bytes",
                 "%llu of NULL", (unsigned long long)event->text.size);
    follow_call(p, event);
    p->emit(p->arg, event);
}

static void enter_parser(pawl_parser *p, const char *call, pawl_chat_emit emit, void *arg)
{
    checked_enter(p->chat->c, &p->owner, "[owner]", call);
    CHECKED_THAT(p->chat->c, !p->finished, "finish() is a parser's last call", "%s() came after it",
                 call);
    p->inside = true;
    p->emit = emit;
    p->arg = arg;
}

static void leave_parser(pawl_parser *p)
{
    p->inside = false;
    checked_leave(&p->owner);
}

static pawl_status feed(pawl_parser *p, pawl_segment piece, pawl_chat_emit emit, void *arg,
                        pawl_error *error)
{
    checked_error shield;
    const pawl_chat *chat = p->chat;
    enter_parser(p, "feed", emit, arg);
    CHECKED_THAT(
        chat->c, piece.kind <= PAWL_SEGMENT_CONTROL && (piece.text.data || !piece.text.size),
        "segments are texts of a kind", "a piece of kind %llu", (unsigned long long)piece.kind);
    CHECKED_THAT(chat->c,
                 utf8_valid_prefix(piece.text.data, (size_t)piece.text.size) == piece.text.size,
                 "a reply is fed in whole characters", "a piece is no UTF-8");
    pawl_status status =
        chat->api->feed(p->real, piece, on_event, p, checked_error_begin(&shield, error));
    checked_status(chat->c, "feed", status, &shield);
    leave_parser(p);
    return status;
}

static pawl_status finish(pawl_parser *p, pawl_chat_emit emit, void *arg, pawl_error *error)
{
    checked_error shield;
    const pawl_chat *chat = p->chat;
    enter_parser(p, "finish", emit, arg);
    pawl_status status =
        chat->api->finish(p->real, on_event, p, checked_error_begin(&shield, error));
    checked_status(chat->c, "finish", status, &shield);
    CHECKED_THAT(chat->c, status || !p->call, "finish() closes what is open", "call %llu is open",
                 (unsigned long long)p->index);
    p->finished = true;
    leave_parser(p);
    return status;
}

/* ---- the table ---- */

#define FUNCTIONS(n)                                                                               \
    static pawl_status dialects_##n(const pawl_sink *to, pawl_error *error)                        \
    {                                                                                              \
        return dialects(checked_at(n), to, error);                                                 \
    }                                                                                              \
    static pawl_status open_##n(pawl_bytes config, pawl_chat **out, pawl_error *error)             \
    {                                                                                              \
        return open_chat(checked_at(n), config, out, error);                                       \
    }
CHECKED_SLOTS(FUNCTIONS)

#define TABLE(n) {.dialects = dialects_##n, .open = open_##n},
static const pawl_chat_api by_plugin[CHECKED_MAX] = {CHECKED_SLOTS(TABLE)};

const void *checked_chat_table(checked *c, const pawl_chat_api *api)
{
    pawl_chat_api *t = &c->chat_table;
    c->chat = api;
    memset(t, 0, sizeof *t);
    t->struct_size = sizeof *t;
    CHECKED_MEMBER(t, api, dialects, by_plugin[c->index].dialects);
    CHECKED_MEMBER(t, api, open, by_plugin[c->index].open);
    CHECKED_MEMBER(t, api, close, close_chat);
    CHECKED_MEMBER(t, api, dialect, dialect);
    CHECKED_MEMBER(t, api, render, render);
    CHECKED_MEMBER(t, api, parser_open, parser_open);
    CHECKED_MEMBER(t, api, parser_close, parser_close);
    CHECKED_MEMBER(t, api, feed, feed);
    CHECKED_MEMBER(t, api, finish, finish);
    return t;
}
