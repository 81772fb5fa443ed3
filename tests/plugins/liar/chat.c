/*
 * tests/plugins/liar/chat.c - a dialect that hands text through, and its lies.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "liar/liar.h"

#include <cjson/cJSON.h>
#include <unistd.h>

struct pawl_chat {
    int unused;
};

struct pawl_parser {
    bool called; /* a call was begun */
};

static pawl_status dialects(const pawl_sink *to, pawl_error *error)
{
    (void)error;
    return pawl_sink_text(to, "[\"plain\"]");
}

static pawl_status open_chat(pawl_bytes config, pawl_chat **out, pawl_error *error)
{
    cJSON *json = cJSON_ParseWithLength(config.data, config.size);
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(json, "dialect");
    bool known = cJSON_IsObject(json) &&
                 (lie("any_dialect") || !name || strcmp(cJSON_GetStringValue(name), "plain") == 0);
    cJSON_Delete(json);
    if (!known)
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "the only dialect is plain");
    *out = calloc(1, sizeof **out);
    return *out ? PAWL_OK : PAWL_E_MEMORY;
}

static void close_chat(pawl_chat *chat)
{
    free(chat);
}

static const char *dialect(const pawl_chat *chat)
{
    (void)chat;
    return lie("nameless") ? "other" : "plain";
}

static pawl_status render(const pawl_chat *chat, pawl_bytes request, const pawl_sink *to,
                          pawl_error *error)
{
    static atomic_int inside;
    bool other = false;
    (void)chat;
    if (lie("static_chat")) {
        other = atomic_fetch_add(&inside, 1) > 0;
        usleep(1000);
        atomic_fetch_sub(&inside, 1);
    }
    cJSON *in = cJSON_ParseWithLength(request.data, request.size);
    const cJSON *message = cJSON_GetObjectItemCaseSensitive(in, "messages");
    const cJSON *content =
        cJSON_GetObjectItemCaseSensitive(message ? message->child : NULL, "content");
    cJSON *out = cJSON_CreateObject(), *part = cJSON_CreateObject();
    cJSON_AddItemToArray(cJSON_AddArrayToObject(out, "parts"), part);
    cJSON_AddStringToObject(part, "text", content ? content->valuestring : "");
    cJSON_AddBoolToObject(part, "special", lie("special") || other);
    cJSON_AddArrayToObject(out, "stop");
    cJSON_AddBoolToObject(out, "starts_in_reasoning", false);
    char *text = cJSON_PrintUnformatted(out);
    pawl_status status = text ? pawl_sink_text(to, text) : pawl_fail(error, PAWL_E_MEMORY, "none");
    cJSON_free(text);
    cJSON_Delete(in);
    cJSON_Delete(out);
    return status;
}

static pawl_status parser_open(const pawl_chat *chat, pawl_bytes request, pawl_parser **out,
                               pawl_error *error)
{
    (void)chat;
    (void)request;
    *out = calloc(1, sizeof **out);
    return *out ? PAWL_OK : pawl_fail(error, PAWL_E_MEMORY, "no memory");
}

static void parser_close(pawl_parser *parser)
{
    free(parser);
}

static pawl_status feed(pawl_parser *parser, pawl_segment piece, pawl_chat_emit emit, void *arg,
                        pawl_error *error)
{
    (void)error;
    pawl_chat_event event = {.struct_size = sizeof event, .text = piece.text};
    if (lie("endless") && !parser->called) {
        pawl_chat_event begin = {.struct_size = sizeof begin, .type = PAWL_CHAT_CALL_BEGIN};
        emit(arg, &begin);
        parser->called = true;
    }
    if (piece.text.size)
        emit(arg, &event);
    if (lie("cut") && piece.text.size % 5 == 4) {
        event.type = PAWL_CHAT_DROPPED;
        emit(arg, &event);
    }
    return PAWL_OK;
}

static pawl_status finish(pawl_parser *parser, pawl_chat_emit emit, void *arg, pawl_error *error)
{
    (void)parser;
    (void)emit;
    (void)arg;
    (void)error;
    return PAWL_OK;
}

const pawl_chat_api liar_chat = {.struct_size = sizeof liar_chat,
                                 .dialects = dialects,
                                 .open = open_chat,
                                 .close = close_chat,
                                 .dialect = dialect,
                                 .render = render,
                                 .parser_open = parser_open,
                                 .parser_close = parser_close,
                                 .feed = feed,
                                 .finish = finish};
