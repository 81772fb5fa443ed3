/*
 * store/import.c - lines into a store, all of them or none. See transfer.h.
 *
 * One transaction on a connection of our own, while the folder is held. A temporary table
 * knows what has been read:
 *
 *     imported (old PRIMARY KEY, new)     new = old unless new ids are wanted
 *
 * so that a response can only follow one of the same file: a file from elsewhere must not
 * join itself to what somebody else has said here. [main]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/care.h"
#include "store/record.h"
#include "store/rows.h"
#include "store/talks.h"

#define BLOCK 65536

typedef struct importer {
    care file;
    responses rows;
    talks talks;
    sqlite3_stmt *look; /* an old id's new one */
    sqlite3_stmt *note;
    FILE *from;
    buf text;      /* what was read and is no line yet */
    size_t at;     /* where in it the next line begins */
    bool read_all; /* the file has ended               */
    bool new_ids;
    bool ended;     /* the end line has come            */
    int64_t number; /* of the line                      */
    transfer_counts counts;
} importer;

/* ------------------------------------------------------------------- lines --- */

/* The next line, without its newline, borrowed until the next call. *line NULL: the end. */
static pawl_status next_line(importer *m, const char **line, size_t *size, pawl_error *error)
{
    size_t seen = 0; /* bytes behind `at` that hold no newline */
    m->number++;
    for (;;) {
        size_t left = m->text.size - m->at;
        const char *begin = left ? m->text.data + m->at : "";
        const char *end = left > seen ? memchr(begin + seen, '\n', left - seen) : NULL;
        if (end || m->read_all) {
            *line = end || left ? begin : NULL;
            *size = end ? (size_t)(end - begin) : left;
            m->at += *size + (end != NULL);
            return PAWL_OK;
        }
        seen = left;
        if (m->at) {
            memmove(m->text.data, begin, left);
            m->text.size = left;
            m->at = 0;
        }
        char block[BLOCK];
        size_t n = fread(block, 1, sizeof block, m->from);
        if (n == 0 && ferror(m->from))
            return pawl_fail(error, PAWL_E_DEVICE, "it cannot be read: %s", strerror(errno));
        m->read_all = n == 0;
        if (n && !buf_add(&m->text, block, n))
            return pawl_fail(error, PAWL_E_LIMIT, "a line of more than %zu MiB",
                             TRANSFER_MAX_LINE >> 20);
    }
}

/* --------------------------------------------------------------------- ids --- */

/* The new id of an old one; "" where it was not read. */
static pawl_status find_id(importer *m, const char *old, char new_id[RECORD_MAX_ID + 1],
                           pawl_error *error)
{
    pawl_status status = PAWL_OK;
    *new_id = '\0';
    rows_bind_text(m->look, 1, old);
    int rc = sqlite3_step(m->look);
    if (rc == SQLITE_ROW)
        snprintf(new_id, RECORD_MAX_ID + 1, "%s", (const char *)sqlite3_column_text(m->look, 0));
    else if (rc != SQLITE_DONE)
        status = db_fail(m->file.db, "looking an id up", error);
    rows_reset(m->look);
    return status;
}

/* Gives an old id its new one, which it keeps. */
static pawl_status give_id(importer *m, const char *old, const char *prefix,
                           char new_id[RECORD_MAX_ID + 1], pawl_error *error)
{
    pawl_status status = find_id(m, old, new_id, error);
    if (status || *new_id)
        return status;
    if (m->new_ids) {
        char made[CLOCK_ID_SIZE];
        clock_new_id(clock_system(), prefix, made);
        snprintf(new_id, RECORD_MAX_ID + 1, "%s", made);
    } else {
        snprintf(new_id, RECORD_MAX_ID + 1, "%s", old);
    }
    rows_bind_text(m->note, 1, old);
    rows_bind_text(m->note, 2, new_id);
    return rows_run(m->file.db, m->note, "noting an id", error);
}

/* A link to something that must have been read already. */
static pawl_status follow(importer *m, const char *what, const char **link,
                          char new_id[RECORD_MAX_ID + 1], pawl_error *error)
{
    if (!*link)
        return PAWL_OK;
    pawl_status status = find_id(m, *link, new_id, error);
    if (!status && !*new_id)
        status = pawl_fail(error, PAWL_E_FORMAT, "its %s %.64s is not in the lines before it", what,
                           *link);
    *link = new_id;
    return status;
}

/* What the request says of the ids that it went by; NULL without memory. */
static char *request_of(const store_response *r)
{
    cJSON *request = NULL;
    if (json_parse(r->request, strlen(r->request), &request, NULL) != PAWL_OK)
        return NULL;
    cJSON *talk = cJSON_GetObjectItemCaseSensitive(request, "conversation");
    if (json_get(talk, "id") && r->conversation_id)
        cJSON_ReplaceItemInObjectCaseSensitive(talk, "id", cJSON_CreateString(r->conversation_id));
    if (json_get(request, "previous_response_id") && r->parent_id)
        cJSON_ReplaceItemInObjectCaseSensitive(request, "previous_response_id",
                                               cJSON_CreateString(r->parent_id));
    char *text = json_print(request);
    cJSON_Delete(request);
    return text;
}

/* --------------------------------------------------------------- responses --- */

/* Puts the parent's first tokens before the response's own; *tokens is to be free()d. */
static pawl_status join_tokens(importer *m, const transfer_line *line, store_response *r,
                               int32_t **tokens, pawl_error *error)
{
    store_response *parent = NULL;
    if (r->parent_id) {
        pawl_status status =
            responses_get(&m->rows, r->parent_id, STORE_GET_REMOVED, &parent, error);
        if (status)
            return status;
    }
    bool own = !parent || strcmp(parent->tenant ? parent->tenant : "", r->tenant) == 0;
    uint64_t n = line->same + r->n_tokens;
    pawl_status status = PAWL_OK;
    if (!own)
        status = pawl_fail(error, PAWL_E_FORMAT, "its parent is another tenant's");
    else if (parent && line->same > parent->n_tokens)
        status =
            pawl_fail(error, PAWL_E_FORMAT,
                      "'same' is more than the %" PRIu64 " tokens of its parent", parent->n_tokens);
    else if (n > RECORD_MAX_TOKENS || !(*tokens = malloc((size_t)(n + 1) * sizeof **tokens)))
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory for %" PRIu64 " tokens", n);
    if (!status) {
        if (line->same)
            memcpy(*tokens, parent->tokens, (size_t)line->same * sizeof **tokens);
        if (r->n_tokens)
            memcpy(*tokens + line->same, r->tokens, (size_t)r->n_tokens * sizeof **tokens);
        r->tokens = *tokens;
        r->n_tokens = n;
    }
    free(parent);
    return status;
}

static pawl_status mark_removed(importer *m, const char *id, pawl_error *error)
{
    rows_bind_text(m->rows.mark, 1, id);
    return rows_run(m->file.db, m->rows.mark, "storing a response", error);
}

static pawl_status check_new(importer *m, const char *old, pawl_error *error)
{
    char known[RECORD_MAX_ID + 1];
    pawl_status status = find_id(m, old, known, error);
    if (!status && *known)
        status = pawl_fail(error, PAWL_E_FORMAT, "the id %.64s came before", old);
    return status;
}

static pawl_status import_response(importer *m, const transfer_line *line, pawl_error *error)
{
    store_response r = line->response;
    char id[RECORD_MAX_ID + 1], parent[RECORD_MAX_ID + 1], talk[RECORD_MAX_ID + 1];
    int32_t *tokens = NULL;
    char *request = NULL;
    pawl_status status = check_new(m, r.id, error);
    if (!status)
        status = follow(m, "parent", &r.parent_id, parent, error);
    if (!status)
        status = give_id(m, r.id, "resp_", id, error);
    if (!status && r.conversation_id) {
        status = give_id(m, r.conversation_id, "conv_", talk, error);
        r.conversation_id = talk;
    }
    r.id = id;
    if (!status)
        status = join_tokens(m, line, &r, &tokens, error);
    if (!status && m->new_ids) {
        r.request = request = request_of(&r);
        if (!request)
            status = pawl_fail(error, PAWL_E_MEMORY, "no memory for a response");
    }
    if (!status)
        status = responses_put(&m->rows, &r, true, error);
    if (!status && line->removed)
        status = mark_removed(m, r.id, error);
    free(tokens);
    free(request);
    m->counts.responses += status == PAWL_OK;
    return status;
}

/* ----------------------------------------------------------- conversations --- */

static pawl_status check_tenant(importer *m, const char *id, const char *tenant, pawl_error *error)
{
    store_response *r = NULL;
    if (!id)
        return PAWL_OK;
    pawl_status status = responses_get(&m->rows, id, STORE_GET_REMOVED, &r, error);
    if (!status && strcmp(r->tenant ? r->tenant : "", tenant) != 0)
        status = pawl_fail(error, PAWL_E_FORMAT, "its head is another tenant's");
    free(r);
    return status;
}

static pawl_status import_conversation(importer *m, const transfer_line *line, pawl_error *error)
{
    store_conversation c = line->conversation;
    char id[RECORD_MAX_ID + 1], head[RECORD_MAX_ID + 1], base[RECORD_MAX_ID + 1];
    pawl_status status = follow(m, "head", &c.head_id, head, error);
    if (!status)
        status = follow(m, "base", &c.base_id, base, error);
    if (!status)
        status = check_tenant(m, c.head_id, c.tenant, error);
    if (!status)
        status = check_tenant(m, c.base_id, c.tenant, error);
    if (!status)
        status = give_id(m, c.id, "conv_", id, error);
    c.id = id;
    if (!status)
        status = talks_put(&m->talks, &c, error);
    m->counts.conversations += status == PAWL_OK;
    return status;
}

/* What the responses name, and the file does not have, is somebody else's, or nobody's. */
static pawl_status forget_strangers(importer *m, int64_t first_row, int64_t first_talk,
                                    pawl_error *error)
{
    char *sql = sqlite3_mprintf(
        "UPDATE response SET conversation = NULL WHERE rowid > %lld AND conversation NOT IN "
        "(SELECT id FROM conversation WHERE rowid > %lld)",
        (long long)first_row, (long long)first_talk);
    pawl_status status = sql ? db_exec(m->file.db, sql, error)
                             : pawl_fail(error, PAWL_E_MEMORY, "no memory to import");
    sqlite3_free(sql);
    return status;
}

/* ----------------------------------------------------------------- the file --- */

static pawl_status import_line(importer *m, const char *text, size_t size, pawl_error *error)
{
    transfer_line line;
    pawl_status status = transfer_parse(text, size, &line, error);
    if (status)
        return status;
    bool first = m->number == 1;
    if (first != (line.kind == TRANSFER_HEADER))
        status =
            pawl_fail(error, PAWL_E_FORMAT,
                      first ? "this is no export of Pawl: a header is wanted" : "a second header");
    else if (m->ended)
        status = pawl_fail(error, PAWL_E_FORMAT, "there is something after the end");
    else if (line.kind == TRANSFER_RESPONSE)
        status = import_response(m, &line, error);
    else if (line.kind == TRANSFER_CONVERSATION)
        status = import_conversation(m, &line, error);
    else if (line.kind == TRANSFER_END) {
        m->ended = true;
        if (line.counts.responses != m->counts.responses ||
            line.counts.conversations != m->counts.conversations)
            status = pawl_fail(error, PAWL_E_FORMAT,
                               "it speaks of %" PRId64 " responses and %" PRId64
                               " conversations, but %" PRId64 " and %" PRId64 " came",
                               line.counts.responses, line.counts.conversations,
                               m->counts.responses, m->counts.conversations);
    }
    transfer_clear(&line);
    return status;
}

static pawl_status import_lines(importer *m, pawl_error *error)
{
    pawl_error why = {.struct_size = sizeof why};
    const char *line;
    size_t size;
    for (;;) {
        pawl_status status = next_line(m, &line, &size, &why);
        if (!status && !line && m->ended)
            return PAWL_OK;
        if (!status && !line)
            status =
                pawl_fail(&why, PAWL_E_FORMAT,
                          m->number == 1 ? "it is empty" : "the end is missing: it was cut off");
        if (!status)
            status = import_line(m, line, size, &why);
        if (status)
            return pawl_fail(error, status, "line %" PRId64 ": %s", m->number, why.message);
    }
}

static pawl_status import_all(importer *m, pawl_error *error)
{
    int64_t row = 0, talk = 0;
    pawl_status status = db_exec(
        m->file.db, "BEGIN IMMEDIATE; CREATE TEMP TABLE imported (old TEXT PRIMARY KEY, new TEXT)",
        error);
    if (!status)
        status = db_prepare(m->file.db, "SELECT new FROM imported WHERE old = ?1", &m->look, error);
    if (!status)
        status = db_prepare(m->file.db, "INSERT INTO imported VALUES (?1, ?2)", &m->note, error);
    if (!status)
        status =
            db_get_int(m->file.db, "SELECT coalesce(max(rowid), 0) FROM response", &row, error);
    if (!status)
        status = db_get_int(m->file.db, "SELECT coalesce(max(rowid), 0) FROM conversation", &talk,
                            error);
    if (!status)
        status = import_lines(m, error);
    if (!status)
        status = forget_strangers(m, row, talk, error);
    if (!status)
        return db_exec(m->file.db, "COMMIT", error);
    if (!sqlite3_get_autocommit(m->file.db))
        db_exec(m->file.db, "ROLLBACK", NULL);
    return status;
}

pawl_status transfer_import(const char *folder, FILE *from, bool new_ids, transfer_counts *counts,
                            pawl_error *error)
{
    importer m = {.from = from, .new_ids = new_ids};
    pawl_status status = care_open(folder, CARE_MAKE, &m.file, error);
    if (status)
        return status;
    buf_init(&m.text, TRANSFER_MAX_LINE + BLOCK);
    status = responses_open(&m.rows, m.file.db, true, error);
    if (!status)
        status = talks_open(&m.talks, &m.rows, true, error);
    if (!status)
        status = import_all(&m, error);
    sqlite3_finalize(m.look);
    sqlite3_finalize(m.note);
    buf_clear(&m.text);
    talks_close(&m.talks);
    responses_close(&m.rows);
    care_close(&m.file);
    if (!status)
        *counts = m.counts;
    return status;
}
