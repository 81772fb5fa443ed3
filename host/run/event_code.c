/*
 * run/event_code.c - an event as bytes. See event_code.h.
 *
 *     | head | item_id | call_id | name | text | logprobs | item |
 *
 * The head is a struct of this process; each text is as long as the head says, and
 * ABSENT where there is none.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/event_code.h"

#include <stdlib.h>
#include <string.h>

#define ABSENT UINT32_MAX

enum { ITEM_ID, CALL_ID, NAME, TEXT, LOGPROBS, ITEM, TEXTS };

typedef struct code_head {
    uint32_t size; /* of all, head included            */
    uint8_t type;
    uint8_t kind;
    uint8_t complete;
    uint8_t has_logprobs; /* they are the item's              */
    uint32_t choice;
    uint32_t output_index;
    uint32_t sizes[TEXTS];
} code_head;

/* What END and CHOICE_END have beside. */
typedef struct code_end {
    const char *stop_reason; /* static                           */
    run_usage usage;
    run_times times;
} code_end;

static bool is_end(enum run_event_type type)
{
    return type == RUN_END || type == RUN_CHOICE_END;
}

/* A tree's text, or NULL; *failed where there was no memory for it. */
static char *text_of(const cJSON *tree, bool *failed)
{
    char *text = tree ? json_print(tree) : NULL;
    *failed = *failed || (tree && !text);
    return text;
}

bool event_encode(buf *out, const run_event *event)
{
    bool failed = false;
    bool twice = event->item && event->logprobs;
    char *logprobs = twice ? NULL : text_of(event->logprobs, &failed);
    char *item = text_of(event->item, &failed);
    const char *texts[TEXTS] = {event->item_id, event->call_id, event->name,
                                event->text,    logprobs,       item};
    code_head head = {.type = (uint8_t)event->type,
                      .kind = (uint8_t)event->kind,
                      .complete = event->complete,
                      .has_logprobs = twice,
                      .choice = event->choice,
                      .output_index = event->output_index};
    size_t size = sizeof head + (is_end(event->type) ? sizeof(code_end) : 0);
    for (int i = 0; i < TEXTS; i++) {
        size_t n = texts[i] ? strlen(texts[i]) : 0;
        head.sizes[i] = texts[i] ? (uint32_t)n : ABSENT;
        size += n;
        failed = failed || n >= ABSENT || size >= ABSENT;
    }
    head.size = (uint32_t)size;
    failed = failed || size > out->max - out->size || !buf_add(out, &head, sizeof head);
    if (!failed && is_end(event->type)) {
        code_end end = {event->stop_reason, event->usage, event->times};
        failed = !buf_add(out, &end, sizeof end);
    }
    for (int i = 0; i < TEXTS && !failed; i++)
        if (texts[i])
            failed = !buf_add(out, texts[i], head.sizes[i]);
    free(logprobs);
    free(item);
    return !failed;
}

size_t event_code_size(const char *data, size_t size)
{
    code_head head;
    if (size < sizeof head)
        return 0;
    memcpy(&head, data, sizeof head);
    return head.size >= sizeof head && head.size <= size ? head.size : 0;
}

static void take_id(char *id, size_t room, const char *from, uint32_t size)
{
    if (size != ABSENT && size < room) {
        memcpy(id, from, size);
        id[size] = '\0';
    }
}

/* The log-probabilities that the item of a message has. */
static cJSON *logprobs_of(const cJSON *item)
{
    const cJSON *part = cJSON_GetArrayItem(json_get(item, "content"), 0);
    return cJSON_Duplicate(json_get(part, "logprobs"), true);
}

/* Points texts at the bytes behind the head; false: they are more than there is. */
static bool find_texts(const code_head *head, const char *data, size_t at, const char *texts[TEXTS])
{
    for (int i = 0; i < TEXTS; i++) {
        uint32_t n = head->sizes[i] == ABSENT ? 0 : head->sizes[i];
        if (n > head->size - at)
            return false;
        texts[i] = data + at;
        at += n;
    }
    return at == head->size;
}

static bool take_texts(run_event *event, const code_head *head, const char *texts[TEXTS])
{
    const uint32_t *sizes = head->sizes;
    bool ok = true;
    take_id(event->item_id, sizeof event->item_id, texts[ITEM_ID], sizes[ITEM_ID]);
    take_id(event->call_id, sizeof event->call_id, texts[CALL_ID], sizes[CALL_ID]);
    if (sizes[NAME] != ABSENT)
        ok = (event->name = strndup(texts[NAME], sizes[NAME])) != NULL;
    if (ok && sizes[TEXT] != ABSENT)
        ok = (event->text = strndup(texts[TEXT], sizes[TEXT])) != NULL;
    if (ok && sizes[LOGPROBS] != ABSENT)
        ok = json_parse(texts[LOGPROBS], sizes[LOGPROBS], &event->logprobs, NULL) == PAWL_OK;
    if (ok && sizes[ITEM] != ABSENT)
        ok = json_parse(texts[ITEM], sizes[ITEM], &event->item, NULL) == PAWL_OK;
    if (ok && head->has_logprobs)
        ok = (event->logprobs = logprobs_of(event->item)) != NULL;
    return ok;
}

run_event *event_decode(const char *data, size_t size)
{
    code_head head;
    code_end end = {0};
    const char *texts[TEXTS];
    size_t at = sizeof head;
    if (!event_code_size(data, size))
        return NULL;
    memcpy(&head, data, sizeof head);
    if (is_end((enum run_event_type)head.type)) {
        if (head.size - at < sizeof end)
            return NULL;
        memcpy(&end, data + at, sizeof end);
        at += sizeof end;
    }
    run_event *event = run_event_new((enum run_event_type)head.type);
    if (!event || !find_texts(&head, data, at, texts) || !take_texts(event, &head, texts)) {
        run_event_free(event);
        return NULL;
    }
    event->kind = (enum run_item_kind)head.kind;
    event->complete = head.complete;
    event->choice = head.choice;
    event->output_index = head.output_index;
    event->stop_reason = end.stop_reason;
    event->usage = end.usage;
    event->times = end.times;
    return event;
}
