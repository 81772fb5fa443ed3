/*
 * api/reply_completions.c - a choice of a Completions answer: plain text.
 *
 * Log-probabilities have the old form: four lists side by side, with the place of each
 * token in the text, counted in characters. Pure; belongs to reply.c.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>

#include "api/fields.h"
#include "api/reply.h"

static void add_text(const char *text, buf *out)
{
    buf_add_text(out, ",\"text\":");
    json_add_quoted(out, json_text(text));
}

static void add_finish(const char *finish, buf *out)
{
    if (finish)
        buf_printf(out, ",\"finish_reason\":\"%s\"", finish);
    else
        buf_add_text(out, ",\"finish_reason\":null");
}

/* ------------------------------------------------------------- the four lists -- */

static const char *token_of(const cJSON *entry)
{
    const char *token = json_get_text(entry, "token");
    return token ? token : "";
}

static void add_token(const cJSON *entry, uint64_t *offset, buf *out)
{
    (void)offset;
    json_add_quoted(out, json_text(token_of(entry)));
}

static void add_logprob(const cJSON *entry, uint64_t *offset, buf *out)
{
    (void)offset;
    buf_printf(out, "%.9g", json_get_number(entry, "logprob", 0));
}

/* {"token":logprob,…} */
static void add_alternatives(const cJSON *entry, uint64_t *offset, buf *out)
{
    const cJSON *each;
    bool first = true;
    buf_add_text(out, "{");
    cJSON_ArrayForEach(each, json_get(entry, "top_logprobs"))
    {
        buf_add_text(out, first ? "" : ",");
        add_token(each, offset, out);
        buf_add_text(out, ":");
        add_logprob(each, offset, out);
        first = false;
    }
    buf_add_text(out, "}");
}

static void add_offset(const cJSON *entry, uint64_t *offset, buf *out)
{
    buf_printf(out, "%" PRIu64, *offset);
    *offset += field_characters(token_of(entry));
}

static const struct {
    const char *name;
    void (*add)(const cJSON *entry, uint64_t *offset, buf *out);
} lists[] = {{"tokens", add_token},
             {"token_logprobs", add_logprob},
             {"top_logprobs", add_alternatives},
             {"text_offset", add_offset}};

static void add_logprobs(const reply *r, const cJSON *logprobs, uint64_t offset, buf *out)
{
    buf_add_text(out, ",\"logprobs\":");
    if (!r->logprobs || !logprobs) {
        buf_add_text(out, "null");
        return;
    }
    const cJSON *entry;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        buf_printf(out, "%s\"%s\":[", i ? "," : "{", lists[i].name);
        cJSON_ArrayForEach(entry, logprobs)
        {
            if (entry != logprobs->child)
                buf_add_text(out, ",");
            lists[i].add(entry, &offset, out);
        }
        buf_add_text(out, "]");
    }
    buf_add_text(out, "}");
}

/* Before the first delta stands the prompt, where it is to be repeated. */
static void begin(reply *r, reply_choice *choice, buf *out)
{
    (void)choice;
    add_text(r->prompt ? r->prompt : "", out);
    buf_add_text(out, ",\"logprobs\":null");
    add_finish(NULL, out);
}

static void finish(reply *r, reply_choice *choice, buf *out)
{
    (void)r;
    add_text("", out);
    buf_add_text(out, ",\"logprobs\":null");
    add_finish(choice->finish, out);
}

static bool delta(reply *r, reply_choice *choice, const run_event *event, buf *out)
{
    if (event->type == RUN_ITEM_BEGIN || !event->text)
        return false;
    add_text(event->text, out);
    add_logprobs(r, event->logprobs, choice->n_characters, out);
    choice->n_characters += field_characters(event->text);
    add_finish(NULL, out);
    return true;
}

static void gather(reply *r, reply_choice *choice, run_event *event)
{
    (void)r;
    buf_add_text(&choice->text, event->text ? event->text : "");
    if (!choice->logprobs) {
        choice->logprobs = event->logprobs;
        event->logprobs = NULL;
    }
}

static void whole(reply *r, reply_choice *choice, buf *out)
{
    buf text;
    buf_init(&text, REPLY_MAX_BYTES);
    buf_add_text(&text, r->prompt ? r->prompt : "");
    buf_add(&text, buf_text(&choice->text), choice->text.size);
    add_text(buf_text(&text), out);
    if (text.failed)
        out->failed = true;
    buf_clear(&text);
    add_logprobs(r, choice->logprobs, 0, out);
    add_finish(choice->finish ? choice->finish : "stop", out);
}

const reply_dialect reply_completions = {.id_prefix = "cmpl-",
                                         .object = "text_completion",
                                         .chunk = "text_completion",
                                         .begin = begin,
                                         .finish = finish,
                                         .whole = whole,
                                         .delta = delta,
                                         .gather = gather};
