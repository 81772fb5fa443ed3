/*
 * tests/unit/chat/chat_testing.h - what the tests of the chat plugin share.
 *
 * Runs a reply through a parser in any split and writes its events down as one
 * string, neighbours joined, so that two runs can be compared with strcmp:
 *     T(text) R(reasoning) B0(name) D0(arguments) E0() X0(bad call) O(dropped)
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHAT_TESTING_H
#define CHAT_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pawl/plugin_util.h>

#include "chat/chat.h"
#include "chat/json.h"

#include <stdio.h>

/* Text that a test builds; more than enough for every case. */
static inline struct text test_text(void)
{
    struct text text;
    text_init(&text, (size_t)64 * 1024 * 1024);
    return text;
}

static inline const char *test_string(struct text *text)
{
    text_add_byte(text, '\0');
    assert_int_equal(text->status, PAWL_OK);
    text->size--;
    return text->data;
}

static inline pawl_status test_write(void *context, const void *data, uint64_t size)
{
    text_add(context, data, (size_t)size);
    return PAWL_OK;
}

static inline pawl_chat *test_open(const char *dialect)
{
    char config[128];
    pawl_chat *chat = NULL;
    snprintf(config, sizeof config, "{\"dialect\":\"%s\"}", dialect);
    assert_int_equal(chat_api.open(pawl_text(config), &chat, NULL), PAWL_OK);
    return chat;
}

/* ---------------------------------------------------------------- events -- */

struct test_events {
    struct text text; /* the events so far                 */
    int32_t type;     /* of the last event, -1: none       */
    uint64_t index;   /* of the last event                 */
};

static inline void test_event(void *arg, const pawl_chat_event *event)
{
    static const char *const letters = "TRBDEXO";
    struct test_events *events = arg;
    bool joins = event->type <= PAWL_CHAT_REASONING || event->type == PAWL_CHAT_CALL_DELTA ||
                 event->type == PAWL_CHAT_DROPPED;
    bool same = events->type == event->type && events->index == event->index;
    if (events->type >= 0 && !(joins && same))
        text_add_byte(&events->text, ')');
    if (!(joins && same)) {
        char head[32];
        bool call = event->type >= PAWL_CHAT_CALL_BEGIN && event->type <= PAWL_CHAT_CALL_BAD;
        if (call)
            snprintf(head, sizeof head, "%c%d(", letters[event->type], (int)event->index);
        else
            snprintf(head, sizeof head, "%c(", letters[event->type]);
        text_add_string(&events->text, head);
    }
    text_add(&events->text, event->text.data, (size_t)event->text.size);
    events->type = event->type;
    events->index = event->index;
}

struct test_run {
    const pawl_chat *chat;
    const char *request;
    pawl_parser *parser;
    struct test_events events;
};

static inline void test_begin(struct test_run *run, const pawl_chat *chat, const char *request)
{
    *run = (struct test_run){.chat = chat, .request = request};
    run->events = (struct test_events){.text = test_text(), .type = -1};
    assert_int_equal(chat_api.parser_open(chat, pawl_text(request), &run->parser, NULL), PAWL_OK);
}

static inline void test_feed(struct test_run *run, const char *data, size_t size, uint64_t kind)
{
    pawl_segment piece = {{data, size}, kind};
    assert_int_equal(chat_api.feed(run->parser, piece, test_event, &run->events, NULL), PAWL_OK);
}

/* The events as a string, to be given to free(). */
static inline char *test_end(struct test_run *run)
{
    assert_int_equal(chat_api.finish(run->parser, test_event, &run->events, NULL), PAWL_OK);
    if (run->events.type >= 0)
        text_add_byte(&run->events.text, ')');
    test_string(&run->events.text);
    chat_api.parser_close(run->parser);
    return run->events.text.data;
}

static inline char *test_whole(const pawl_chat *chat, const char *request, const char *reply)
{
    struct test_run run;
    test_begin(&run, chat, request);
    test_feed(&run, reply, strlen(reply), PAWL_SEGMENT_LITERAL);
    return test_end(&run);
}

static const char test_tools[] =
    "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]}";

#endif /* CHAT_TESTING_H */
