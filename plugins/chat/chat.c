/*
 * chat/chat.c - the plugin's pawl.chat/1 table.
 *
 * A pawl_chat is the choice of one dialect and the few things that a model adds
 * to it; render() and parser_open() only read it, so any thread may call them
 * at any time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat/chat.h"

#include "chat/parser.h"
#include "chat/render.h"

#include <stdlib.h>

enum { EOS_MAX = 256, TEMPLATE_MAX = 1024 * 1024 };

struct pawl_chat {
    const struct dialect *dialect;
    char *eos; /* the model's own end token, or NULL; owned */
};

static void add_names(struct text *to, const char *quote, const char *between)
{
    for (unsigned i = 0; i < chat_n_dialects; i++) {
        text_add_string(to, i ? between : "");
        text_add_string(to, quote);
        text_add_string(to, chat_dialects[i].name);
        text_add_string(to, quote);
    }
}

static pawl_status chat_dialect_names(const pawl_sink *to, pawl_error *error)
{
    struct text names;
    text_init(&names, 4096);
    text_add_byte(&names, '[');
    add_names(&names, "\"", ",");
    text_add_byte(&names, ']');
    pawl_status status = names.status;
    if (status == PAWL_OK)
        status = to->write(to->context, names.data, names.size);
    else
        pawl_fail(error, status, "no memory for the names of the dialects");
    text_clear(&names);
    return status;
}

/* PAWL_E_UNSUPPORTED with the names that would have been right. */
static pawl_status refuse(pawl_error *error, const char *format, pawl_bytes what)
{
    struct text names;
    text_init(&names, 4096);
    add_names(&names, "", ", ");
    text_add_byte(&names, '\0');
    int size = what.size < 60 ? (int)what.size : 60;
    char message[200];
    snprintf(message, sizeof message, format, size, what.size ? what.data : "");
    pawl_fail(error, PAWL_E_UNSUPPORTED, "%s; known are %s", message,
              names.status == PAWL_OK ? names.data : "others");
    text_clear(&names);
    return PAWL_E_UNSUPPORTED;
}

/* An optional string member of the config, decoded. */
static pawl_status read_string(struct json_view config, const char *key, size_t limit,
                               struct text *to, pawl_error *error)
{
    struct json_view value = json_member(config, key);
    char kind = json_kind(value);
    text_init(to, limit);
    if (kind != '\0' && kind != 'n' && kind != '"')
        return pawl_fail(error, PAWL_E_ARGUMENT, "chat config: %s is not a string", key);
    json_decode(value, to);
    if (to->status == PAWL_E_LIMIT)
        return pawl_fail(error, PAWL_E_LIMIT, "chat config: %s is longer than %zu bytes", key,
                         limit);
    if (to->status != PAWL_OK)
        return pawl_fail(error, to->status, "no memory for the chat config");
    return PAWL_OK;
}

static pawl_status choose(struct json_view config, const struct dialect **dialect,
                          pawl_error *error)
{
    struct text name = {0}, text = {0}, family = {0};
    pawl_status status = read_string(config, "dialect", TEMPLATE_MAX, &name, error);
    if (status == PAWL_OK)
        status = read_string(config, "template", TEMPLATE_MAX, &text, error);
    if (status == PAWL_OK)
        status = read_string(config, "family", TEMPLATE_MAX, &family, error);
    if (status != PAWL_OK)
        goto done;

    pawl_bytes name_bytes = {name.data, name.size};
    pawl_bytes family_bytes = {family.data, family.size};
    const struct dialect *found = NULL;
    if (name.size) {
        found = dialect_named(name_bytes);
        if (!found)
            status = refuse(error, "no chat dialect \"%.*s\"", name_bytes);
    } else if (text.size) {
        found = dialect_of_template((pawl_bytes){text.data, text.size});
        if (!found)
            status = refuse(error,
                            "no chat dialect recognises the model's template; name one with "
                            "\"dialect\"%.*s",
                            (pawl_bytes){NULL, 0});
    } else {
        found = family.size ? dialect_of_family(family_bytes) : NULL;
        if (!found)
            status = refuse(error,
                            "the model has no chat template and its family \"%.*s\" has no "
                            "dialect; name one",
                            family_bytes);
    }
    if (found)
        *dialect = found;
done:
    text_clear(&name);
    text_clear(&text);
    text_clear(&family);
    return status;
}

static pawl_status chat_open(pawl_bytes config, pawl_chat **chat, pawl_error *error)
{
    struct json_view root;
    struct text eos = {0};
    pawl_chat made = {0};
    pawl_status status = json_parse(config, "the chat config", &root, error);
    if (status == PAWL_OK && json_kind(root) != '{')
        status = pawl_fail(error, PAWL_E_ARGUMENT, "the chat config is not an object");
    if (status == PAWL_OK)
        status = choose(root, &made.dialect, error);
    if (status == PAWL_OK)
        status = read_string(root, "eos", EOS_MAX, &eos, error);
    if (status != PAWL_OK)
        return status;

    bool has_eos = eos.size > 0;
    text_add_byte(&eos, '\0');
    pawl_chat *opened = eos.status == PAWL_OK ? calloc(1, sizeof *opened) : NULL;
    if (!opened) {
        text_clear(&eos);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a chat dialect");
    }
    made.eos = has_eos ? eos.data : NULL;
    if (!has_eos)
        text_clear(&eos);
    *opened = made;
    *chat = opened;
    return PAWL_OK;
}

static void chat_close(pawl_chat *chat)
{
    if (!chat)
        return;
    free(chat->eos);
    free(chat);
}

static const char *chat_dialect(const pawl_chat *chat)
{
    return chat->dialect->name;
}

static pawl_status chat_render(const pawl_chat *chat, pawl_bytes json, const pawl_sink *to,
                               pawl_error *error)
{
    struct request request;
    pawl_status status = request_open(json, &request, error);
    if (status != PAWL_OK)
        return status;
    status = render_request(chat->dialect, chat->eos, &request, to, error);
    request_clear(&request);
    return status;
}

static pawl_status chat_parser_open(const pawl_chat *chat, pawl_bytes json, pawl_parser **parser,
                                    pawl_error *error)
{
    struct reply_options options;
    pawl_status status = request_reply_options(json, &options, error);
    if (status != PAWL_OK)
        return status;
    return parser_open(chat->dialect, options.calls_allowed, options.starts_in_reasoning, parser,
                       error);
}

const pawl_chat_api chat_api = {
    .struct_size = sizeof(pawl_chat_api),
    .dialects = chat_dialect_names,
    .open = chat_open,
    .close = chat_close,
    .dialect = chat_dialect,
    .render = chat_render,
    .parser_open = chat_parser_open,
    .parser_close = parser_close,
    .feed = parser_feed,
    .finish = parser_finish,
};
