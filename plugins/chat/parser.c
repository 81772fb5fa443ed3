/*
 * chat/parser.c - the streaming parser of one reply.
 *
 *      bytes --> markers --> white space --> state's event
 *                   |            (text states)
 *                   +------> converter --> calls        (REPLY_CALL)
 *
 * The reply is taken byte by byte, so that where a piece ends can have no
 * influence on the events. Three things are held back, each only as long as
 * its meaning is open:
 *   hold   bytes that may become a marker of the present state; the longest
 *          suffix of the text that is a proper beginning of one
 *   space  white space that is text if text follows, and markup's if a marker
 *          does; at most SPACE_MAX bytes
 *   raw    a call that is not finished (calls.c)
 * All other bytes go out at once, and nothing that went out is taken back.
 *
 * Owned by whoever opened it; one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat/parser.h"

#include "chat/calls.h"

#include <stdlib.h>
#include <string.h>

enum { SPACE_MAX = 4096 };

/* What becomes of plain text in a state. */
enum { NO_EVENT = -1, TO_RAW = -2 };

struct state_info {
    int32_t event;         /* type of event that text becomes, NO_EVENT or TO_RAW */
    enum reply_state then; /* the state after the first byte that is no space     */
    bool drops_leading;    /* space before that byte is dropped                   */
    bool drops_final;      /* space before the end of the reply is dropped        */
};

static const struct state_info states[REPLY_STATES] = {
    [REPLY_START] = {PAWL_CHAT_TEXT, REPLY_ANSWER, false, false},
    [REPLY_THOUGHT_START] = {PAWL_CHAT_REASONING, REPLY_THOUGHT, true, true},
    [REPLY_THOUGHT] = {PAWL_CHAT_REASONING, REPLY_THOUGHT, false, false},
    [REPLY_ANSWER_START] = {PAWL_CHAT_TEXT, REPLY_ANSWER, true, true},
    [REPLY_ANSWER] = {PAWL_CHAT_TEXT, REPLY_ANSWER, false, false},
    [REPLY_AFTER_CALL] = {PAWL_CHAT_TEXT, REPLY_ANSWER, false, true},
    [REPLY_CALL_CLOSE] = {PAWL_CHAT_DROPPED, REPLY_CALL_JUNK, false, true},
    [REPLY_CALL_JUNK] = {PAWL_CHAT_DROPPED, REPLY_CALL_JUNK, false, false},
    [REPLY_CALL_BAD] = {TO_RAW, REPLY_CALL_BAD, false, false},
    [REPLY_CALL] = {NO_EVENT, REPLY_CALL, false, false},
};

struct pawl_parser {
    const struct dialect *dialect;
    bool calls_allowed;
    bool finished;           /* finish() was called                              */
    enum reply_state state;  /* where in the reply                               */
    enum reply_state before; /* the state in which the open block's marker came  */
    char hold[MARKER_MAX];   /* the beginning of a marker, perhaps               */
    size_t held;             /* bytes of it                                      */
    struct text space;       /* white space whose meaning is open                */
    struct calls calls;
    struct emitter out;
};

static void take_byte(pawl_parser *parser, char c);

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* ---------------------------------------------------------- plain text ----- */

static bool rule_holds(const pawl_parser *parser, const struct reply_rule *rule)
{
    return rule->in == parser->state && (parser->calls_allowed || !rule->for_calls);
}

static bool state_has_markers(const pawl_parser *parser)
{
    for (const struct reply_rule *rule = parser->dialect->rules; rule->marker; rule++)
        if (rule_holds(parser, rule))
            return true;
    return false;
}

static void drop_space(pawl_parser *parser)
{
    /* Between the content of a block and its end marker it is markup. */
    if (parser->state != REPLY_CALL_CLOSE)
        emitter_add(&parser->out, PAWL_CHAT_DROPPED, 0, parser->space.data, parser->space.size);
    parser->space.size = 0;
}

static void keep_space(pawl_parser *parser)
{
    emitter_add(&parser->out, states[parser->state].event, 0, parser->space.data,
                parser->space.size);
    parser->space.size = 0;
}

static void raw_byte(pawl_parser *parser, char c)
{
    struct calls *calls = &parser->calls;
    if (calls->raw.size == calls->raw.limit) {
        calls_bad(calls);
        parser->state = REPLY_CALL_JUNK;
        emitter_add(&parser->out, PAWL_CHAT_DROPPED, 0, &c, 1);
    } else {
        text_add_byte(&calls->raw, c);
    }
}

/* A byte that belongs to no marker. */
static void plain_byte(pawl_parser *parser, char c)
{
    const struct state_info *info = &states[parser->state];
    if (info->event == TO_RAW) {
        raw_byte(parser, c);
        return;
    }
    if (is_space(c) && parser->space.size < SPACE_MAX && state_has_markers(parser)) {
        text_add_byte(&parser->space, c);
        return;
    }
    if (info->drops_leading)
        drop_space(parser);
    else
        keep_space(parser);
    if (is_space(c) && info->drops_leading) {
        emitter_add(&parser->out, PAWL_CHAT_DROPPED, 0, &c, 1);
        return;
    }
    emitter_add(&parser->out, info->event, 0, &c, 1);
    if (!is_space(c))
        parser->state = info->then;
}

/* ------------------------------------------------------------- markers ----- */

/* The rule whose marker is held, or NULL; *partial: the beginning of one is. */
static const struct reply_rule *find_rule(const pawl_parser *parser, bool *partial)
{
    *partial = false;
    for (const struct reply_rule *rule = parser->dialect->rules; rule->marker; rule++) {
        if (!rule_holds(parser, rule) || rule->marker[0] != parser->hold[0])
            continue;
        size_t size = strlen(rule->marker);
        if (parser->held > size || memcmp(parser->hold, rule->marker, parser->held) != 0)
            continue;
        if (parser->held == size)
            return rule;
        *partial = true;
    }
    return NULL;
}

static void follow(pawl_parser *parser, const struct reply_rule *rule)
{
    struct calls *calls = &parser->calls;
    size_t size = strlen(rule->marker);
    if (rule->to == REPLY_CALL) {
        if (parser->state == REPLY_CALL_CLOSE) { /* a block without its end marker */
            drop_space(parser);
            parser->state = REPLY_AFTER_CALL;
        }
        parser->before = parser->state; /* its space is dropped once a call is sure */
        calls_open(calls, rule->marker, size);
        parser->dialect->converter->begin(calls);
    } else {
        drop_space(parser);
        if (parser->state == REPLY_CALL_BAD) {
            text_add(&calls->raw, rule->marker, size);
            if (calls->raw.status == PAWL_E_LIMIT)
                calls->raw.status = PAWL_OK; /* the last marker does not fit: leave it out */
            calls_bad(calls);
        }
    }
    parser->state = rule->to;
}

/* Sorts what is held into a marker, the beginning of one, and plain bytes. */
static void sort_held(pawl_parser *parser)
{
    while (parser->held > 0) {
        bool partial;
        const struct reply_rule *rule = find_rule(parser, &partial);
        if (rule) {
            parser->held = 0;
            follow(parser, rule);
        } else if (partial) {
            return;
        } else {
            char c = parser->hold[0];
            memmove(parser->hold, parser->hold + 1, --parser->held);
            plain_byte(parser, c);
        }
    }
}

/* ---------------------------------------------------------------- calls ---- */

/* The block that was opened holds no call: its text is text. */
static void block_is_prose(pawl_parser *parser)
{
    struct calls *calls = &parser->calls;
    parser->state = parser->before;
    for (size_t i = 0; i < calls->raw.size; i++)
        plain_byte(parser, calls->raw.data[i]);
    calls->raw.size = 0;
}

static void call_byte(pawl_parser *parser, char c)
{
    struct calls *calls = &parser->calls;
    enum convert got = parser->dialect->converter->byte(calls, (unsigned char)c);
    if ((calls->started || got == CONVERT_BAD) && parser->space.size > 0) {
        emitter_add(&parser->out, PAWL_CHAT_DROPPED, 0, parser->space.data, parser->space.size);
        parser->space.size = 0;
    }
    switch (got) {
    case CONVERT_MORE:
        return;
    case CONVERT_DONE:
        parser->state = REPLY_CALL_CLOSE;
        return;
    case CONVERT_PROSE:
        block_is_prose(parser);
        break;
    case CONVERT_BAD: /* a call whose end is out stays good; what follows is not part of it */
        parser->state = calls->ended ? REPLY_CALL_JUNK : REPLY_CALL_BAD;
        break;
    }
    take_byte(parser, c);
}

static void take_byte(pawl_parser *parser, char c)
{
    if (parser->state == REPLY_CALL) {
        call_byte(parser, c);
        return;
    }
    parser->hold[parser->held++] = c;
    sort_held(parser);
}

/* What is held can no longer become a marker. */
static void release_held(pawl_parser *parser)
{
    for (size_t i = 0; i < parser->held; i++)
        plain_byte(parser, parser->hold[i]);
    parser->held = 0;
}

/* -------------------------------------------------------- control tokens --- */

static bool is_stop(const pawl_parser *parser, pawl_bytes token)
{
    for (const char *const *stop = parser->dialect->stop; *stop; stop++)
        if (strlen(*stop) == token.size && memcmp(*stop, token.data, (size_t)token.size) == 0)
            return true;
    return false;
}

static bool is_of_marker(const pawl_parser *parser, pawl_bytes token)
{
    for (const struct reply_rule *rule = parser->dialect->rules; rule->marker; rule++)
        if (memmem(rule->marker, strlen(rule->marker), token.data, (size_t)token.size))
            return true;
    return false;
}

/* A control token is a marker, a part of one, or no text at all. */
static void take_control(pawl_parser *parser, pawl_bytes token)
{
    if (is_stop(parser, token))
        return;
    if (is_of_marker(parser, token)) {
        for (uint64_t i = 0; i < token.size; i++)
            take_byte(parser, token.data[i]);
        return;
    }
    release_held(parser);
    emitter_add(&parser->out, PAWL_CHAT_DROPPED, 0, token.data, (size_t)token.size);
}

/* --------------------------------------------------------------- public ---- */

pawl_status parser_open(const struct dialect *dialect, bool calls_allowed, bool starts_in_reasoning,
                        pawl_parser **parser, pawl_error *error)
{
    pawl_parser *made = calloc(1, sizeof *made);
    if (!made)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a reply parser");
    made->dialect = dialect;
    made->calls_allowed = calls_allowed;
    made->state = REPLY_THOUGHT_START;
    if (!starts_in_reasoning || !state_has_markers(made))
        made->state = REPLY_START;
    text_init(&made->space, SPACE_MAX);
    emitter_init(&made->out);
    calls_init(&made->calls, &made->out);
    *parser = made;
    return PAWL_OK;
}

void parser_close(pawl_parser *parser)
{
    if (!parser)
        return;
    text_clear(&parser->space);
    calls_clear(&parser->calls);
    emitter_clear(&parser->out);
    free(parser);
}

/* Memory that ran out is the only failure, and it stays. */
static pawl_status outcome(const pawl_parser *parser, pawl_error *error)
{
    if (parser->space.status != PAWL_OK || parser->calls.raw.status != PAWL_OK ||
        parser->out.text.status != PAWL_OK)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the reply's text");
    return PAWL_OK;
}

pawl_status parser_feed(pawl_parser *parser, pawl_segment piece, pawl_chat_emit emit, void *arg,
                        pawl_error *error)
{
    if (parser->finished)
        return pawl_fail(error, PAWL_E_ARGUMENT, "the reply is finished; open another parser");
    parser->out.emit = emit;
    parser->out.arg = arg;
    if (piece.kind == PAWL_SEGMENT_CONTROL && piece.text.size > 0) {
        take_control(parser, piece.text);
    } else {
        for (uint64_t i = 0; i < piece.text.size && outcome(parser, NULL) == PAWL_OK; i++)
            take_byte(parser, piece.text.data[i]);
    }
    emitter_flush(&parser->out);
    return outcome(parser, error);
}

pawl_status parser_finish(pawl_parser *parser, pawl_chat_emit emit, void *arg, pawl_error *error)
{
    struct calls *calls = &parser->calls;
    if (parser->finished)
        return PAWL_OK;
    parser->out.emit = emit;
    parser->out.arg = arg;
    if (parser->state == REPLY_CALL && !calls->started)
        block_is_prose(parser);
    release_held(parser);
    if (parser->state == REPLY_CALL_BAD ||
        (parser->state == REPLY_CALL && !calls->ended && (calls->inside || !calls->any)))
        calls_bad(calls);
    if (states[parser->state].drops_final)
        drop_space(parser);
    else
        keep_space(parser);
    emitter_flush(&parser->out);
    parser->finished = true;
    return outcome(parser, error);
}
