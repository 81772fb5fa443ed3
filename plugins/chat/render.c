/*
 * chat/render.c - from a chat request to the parts of a prompt.
 *
 * One renderer for all dialects: what differs between them is text, and that
 * stands in their prompt_style. Whatever came with the request (messages,
 * tools, names, arguments) goes out as literal text, whatever comes from the
 * style as text in which control tokens may be matched. So nobody who writes a
 * message, a tool's description or a file can end a turn or begin one.
 *
 * Owns the JSON it builds while a call runs. Runs on any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat/render.h"

#include <string.h>

enum { PROMPT_MAX = 256 * 1024 * 1024 };

struct prompt {
    const struct prompt_style *style;
    struct text json;    /* the object as far as it is written; status: failure */
    struct text scratch; /* what is being put together for one literal          */
    bool any;            /* a part is open                                      */
    bool special;        /* its kind                                            */
    bool turns;          /* a turn has been written                             */
};

static void add(struct prompt *prompt, bool special, const char *data, size_t size)
{
    if (size == 0)
        return;
    if (prompt->any && prompt->special != special) {
        text_add_string(&prompt->json,
                        prompt->special ? "\",\"special\":true}," : "\",\"special\":false},");
        prompt->any = false;
    }
    if (!prompt->any)
        text_add_string(&prompt->json, "{\"text\":\"");
    prompt->any = true;
    prompt->special = special;
    json_escape(&prompt->json, data, size);
}

/* Text of the template. */
static void special(struct prompt *prompt, const char *text)
{
    if (text)
        add(prompt, true, text, strlen(text));
}

/* Text of the request: what is in scratch, which is empty again afterwards. */
static void literal(struct prompt *prompt)
{
    add(prompt, false, prompt->scratch.data, prompt->scratch.size);
    prompt->scratch.size = 0;
}

static void literal_message(struct prompt *prompt, const struct message *message)
{
    message_text(message, &prompt->scratch);
    literal(prompt);
}

static void literal_json(struct prompt *prompt, struct json_view value)
{
    json_dump(value, &prompt->scratch);
    literal(prompt);
}

static void begin_turn(struct prompt *prompt, const char *role)
{
    if (prompt->turns)
        special(prompt, prompt->style->turn_join);
    prompt->turns = true;
    special(prompt, prompt->style->turn_begin);
    if (prompt->style->names_roles)
        special(prompt, role);
    special(prompt, prompt->style->role_end);
}

static void end_turn(struct prompt *prompt)
{
    special(prompt, prompt->style->turn_end);
}

/* ---------------------------------------------------- system and tools ----- */

static void add_tools(struct prompt *prompt, struct json_view tools)
{
    const struct prompt_style *style = prompt->style;
    struct json_view tool;
    size_t at = 0;
    special(prompt, style->tools_begin);
    for (size_t k = 0; json_next(tools, &at, &tool); k++) {
        if (k)
            special(prompt, style->tool_join);
        special(prompt, style->tool_begin);
        literal_json(prompt, tool);
    }
    special(prompt, style->tools_end);
}

/* The head of the prompt; `first` is the request's first message if that is one
 * of the system, or NULL. */
static void add_system(struct prompt *prompt, const struct message *first, struct json_view tools)
{
    const struct prompt_style *style = prompt->style;
    const char *text = tools.size ? style->default_tools_system : style->default_system;
    bool shows_tools = tools.size && style->tools_begin;
    if (!first && !text && !shows_tools)
        return;
    begin_turn(prompt, "system");
    if (first)
        literal_message(prompt, first);
    else
        special(prompt, text);
    if (shows_tools) {
        if (first || text)
            special(prompt, style->tools_join);
        add_tools(prompt, tools);
    }
    end_turn(prompt);
}

/* ----------------------------------------------------------- assistant ----- */

static void add_arguments(struct prompt *prompt, struct json_view arguments)
{
    char kind = json_kind(arguments);
    if (kind == '"' && prompt->style->string_arguments)
        json_decode(arguments, &prompt->scratch);
    else if (kind == '"' || kind == '{')
        json_dump(arguments, &prompt->scratch);
    else
        text_add_string(&prompt->scratch, "{}");
    literal(prompt);
}

static void add_calls(struct prompt *prompt, struct json_view calls, bool after_text)
{
    const struct prompt_style *style = prompt->style;
    struct json_view call;
    size_t at = 0, k = 0;
    if (!style->calls_begin)
        return;
    for (; json_next(calls, &at, &call); k++) {
        struct json_view function = json_member(call, "function");
        if (k == 0 && after_text)
            special(prompt, style->calls_join);
        special(prompt, k ? style->call_join : style->calls_begin);
        special(prompt, style->call_begin);
        json_decode(json_member(function, "name"), &prompt->scratch);
        literal(prompt);
        special(prompt, style->call_arguments);
        add_arguments(prompt, json_member(function, "arguments"));
        special(prompt, style->call_end);
    }
    if (k)
        special(prompt, style->calls_end);
}

static struct json_view strip_newlines(struct json_view text, bool front, bool back)
{
    while (front && text.size && text.data[0] == '\n') {
        text.data++;
        text.size--;
    }
    while (back && text.size && text.data[text.size - 1] == '\n')
        text.size--;
    return text;
}

static const char *find(struct json_view text, const char *needle)
{
    return text.size ? memmem(text.data, text.size, needle, strlen(needle)) : NULL;
}

/* An answer's text may have its thought in front of it: cut it off. As the
 * template does: the thought is what stands before the first end marker and
 * after the last begin marker before that, the answer what follows the last. */
static void split_thought(struct json_view *answer, struct json_view *thought)
{
    static const char begin[] = "<think>", end[] = "</think>";
    const char *cut = find(*answer, end), *next;
    if (!cut)
        return;
    *thought = (struct json_view){answer->data, (size_t)(cut - answer->data)};
    *thought = strip_newlines(*thought, false, true);
    while ((next = find(*thought, begin))) {
        next += sizeof begin - 1;
        thought->size -= (size_t)(next - thought->data);
        thought->data = next;
    }
    *thought = strip_newlines(*thought, true, false);
    while ((next = find(*answer, end))) {
        next += sizeof end - 1;
        answer->size -= (size_t)(next - answer->data);
        answer->data = next;
    }
    *answer = strip_newlines(*answer, true, false);
}

/* current: the message belongs to the exchange that is going on. */
static void add_assistant(struct prompt *prompt, const struct message *message, bool current,
                          bool last)
{
    const struct prompt_style *style = prompt->style;
    struct text written, kept;
    text_init(&written, PROMPT_MAX);
    text_init(&kept, PROMPT_MAX);
    message_text(message, &written);
    struct json_view answer = {written.data, written.size}, thought = {NULL, 0};
    if (style->thought_begin && json_kind(message->reasoning) == '"') {
        json_decode(message->reasoning, &kept);
        thought = (struct json_view){kept.data, kept.size};
    } else if (style->thought_begin) {
        split_thought(&answer, &thought);
    }

    begin_turn(prompt, "assistant");
    if (style->thought_begin && current && (last || thought.size)) {
        special(prompt, style->thought_begin);
        thought = strip_newlines(thought, true, true);
        add(prompt, false, thought.data, thought.size);
        special(prompt, style->thought_end);
        answer = strip_newlines(answer, true, false);
    }
    add(prompt, false, answer.data, answer.size);
    add_calls(prompt, message->calls, answer.size > 0);
    end_turn(prompt);
    if (written.status != PAWL_OK || kept.status != PAWL_OK)
        prompt->scratch.status = written.status != PAWL_OK ? written.status : kept.status;
    text_clear(&written);
    text_clear(&kept);
}

/* ------------------------------------------------------------- messages ---- */

static void add_result(struct prompt *prompt, const struct request *request, size_t i)
{
    const struct prompt_style *style = prompt->style;
    bool first = i == 0 || request->messages[i - 1].role != ROLE_TOOL;
    bool last = i + 1 == request->n_messages || request->messages[i + 1].role != ROLE_TOOL;
    if (!style->results_role) {
        begin_turn(prompt, "tool");
        literal_message(prompt, &request->messages[i]);
        end_turn(prompt);
        return;
    }
    if (first)
        begin_turn(prompt, style->results_role);
    else
        special(prompt, style->result_join);
    special(prompt, style->result_begin);
    literal_message(prompt, &request->messages[i]);
    special(prompt, style->result_end);
    if (last)
        end_turn(prompt);
}

/* Where the exchange that is going on begins: at the last question, a user's
 * message that is not the result of a tool in disguise. */
static size_t last_question(struct prompt *prompt, const struct request *request)
{
    static const char begin[] = "<tool_response>", end[] = "</tool_response>";
    struct text *text = &prompt->scratch;
    size_t found = request->n_messages - 1;
    for (size_t i = request->n_messages; i-- > 0;) {
        if (request->messages[i].role != ROLE_USER)
            continue;
        message_text(&request->messages[i], text);
        bool result = text->size >= sizeof end - 1 &&
                      memcmp(text->data, begin, sizeof begin - 1) == 0 &&
                      memcmp(text->data + text->size - (sizeof end - 1), end, sizeof end - 1) == 0;
        text->size = 0;
        if (!result) {
            found = i;
            break;
        }
    }
    return found;
}

static void add_messages(struct prompt *prompt, const struct request *request, size_t from)
{
    size_t question = prompt->style->thought_begin ? last_question(prompt, request) : 0;
    for (size_t i = from; i < request->n_messages; i++) {
        const struct message *message = &request->messages[i];
        switch (message->role) {
        case ROLE_ASSISTANT:
            add_assistant(prompt, message, i > question, i + 1 == request->n_messages);
            break;
        case ROLE_TOOL:
            add_result(prompt, request, i);
            break;
        case ROLE_SYSTEM:
        case ROLE_USER:
            begin_turn(prompt, message->role == ROLE_USER ? "user" : "system");
            literal_message(prompt, message);
            end_turn(prompt);
            break;
        }
    }
}

static void add_end(struct prompt *prompt, const struct dialect *dialect, const char *eos)
{
    struct text *json = &prompt->json;
    bool known = false;
    if (prompt->any)
        text_add_string(json, prompt->special ? "\",\"special\":true}" : "\",\"special\":false}");
    text_add_string(json, "],\"stop\":[");
    for (const char *const *stop = dialect->stop; *stop; stop++) {
        text_add_string(json, stop == dialect->stop ? "\"" : ",\"");
        json_escape(json, *stop, strlen(*stop));
        text_add_byte(json, '"');
        known = known || (eos && strcmp(*stop, eos) == 0);
    }
    if (eos && !known) {
        text_add_string(json, ",\"");
        json_escape(json, eos, strlen(eos));
        text_add_byte(json, '"');
    }
    text_add_string(json, "],\"starts_in_reasoning\":false}");
}

/* --------------------------------------------------------------- public ---- */

static pawl_status check_tools(const struct dialect *dialect, const struct request *request,
                               pawl_error *error)
{
    if (!dialect->style->refuses_tools)
        return PAWL_OK;
    if (request->tools.size)
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "tools: the chat dialect %s of this model has none", dialect->name);
    for (size_t i = 0; i < request->n_messages; i++) {
        struct json_view call;
        size_t at = 0;
        if (json_next(request->messages[i].calls, &at, &call))
            return pawl_fail(error, PAWL_E_ARGUMENT,
                             "messages[%zu].tool_calls: the chat dialect %s of this model has none",
                             i, dialect->name);
    }
    return PAWL_OK;
}

static pawl_status check_parts(const struct dialect *dialect, const struct request *request,
                               pawl_error *error)
{
    for (size_t i = 0; dialect->style->refuses_parts && i < request->n_messages; i++)
        if (json_kind(request->messages[i].content) == '[')
            return pawl_fail(error, PAWL_E_ARGUMENT,
                             "messages[%zu].content is an array; the chat dialect %s takes a "
                             "string, as its reference does: join the parts",
                             i, dialect->name);
    return PAWL_OK;
}

pawl_status render_request(const struct dialect *dialect, const char *eos,
                           const struct request *request, const pawl_sink *to, pawl_error *error)
{
    struct prompt prompt = {.style = dialect->style};
    const struct message *first = request->messages;
    pawl_status status = check_tools(dialect, request, error);
    if (status == PAWL_OK)
        status = check_parts(dialect, request, error);
    if (status != PAWL_OK)
        return status;
    text_init(&prompt.json, PROMPT_MAX);
    text_init(&prompt.scratch, PROMPT_MAX);

    text_add_string(&prompt.json, "{\"parts\":[");
    bool has_system = first->role == ROLE_SYSTEM;
    add_system(&prompt, has_system ? first : NULL, request->tools);
    add_messages(&prompt, request, has_system ? 1 : 0);
    if (request->generate && dialect->style->names_roles) {
        begin_turn(&prompt, "assistant");
        if (request->no_thinking)
            special(&prompt, dialect->style->no_thought);
    }
    add_end(&prompt, dialect, eos);

    status = prompt.json.status != PAWL_OK ? prompt.json.status : prompt.scratch.status;
    if (status == PAWL_OK)
        status = to->write(to->context, prompt.json.data, prompt.json.size);
    else if (status == PAWL_E_LIMIT)
        pawl_fail(error, status, "the prompt is longer than %d bytes", (int)PROMPT_MAX);
    else
        pawl_fail(error, status, "no memory for the prompt");
    text_clear(&prompt.json);
    text_clear(&prompt.scratch);
    return status;
}
