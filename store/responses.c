/*
 * store/responses.c - the tree of responses, on one connection. See responses.h.
 *
 *     a ── b ── c          remove(b): b is marked, because c descends from it
 *          └─── d          remove(c), remove(d): d goes, then b, which nobody
 *                          needs any more; a stays: it was never removed
 *
 * A row of the table is what someone wrote into a file once: every column is
 * checked before it is believed. Statements are always reset before a function
 * returns, for one that is not pins the log.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/responses.h"

#include <stdlib.h>
#include <string.h>

#include "schema_sql.h"
#include "store/record.h"
#include "store/rows.h"

static const char *const scripts[] = {schema_sql, schema_2_sql, schema_3_sql, schema_4_sql,
                                      schema_5_sql};

const db_kind responses_kind = {
    .name = "pawl.db",
    .application_id = 0x5041574C, /* "PAWL" */
    .scripts = scripts,
    .version = sizeof scripts / sizeof scripts[0],
};

#define COLUMNS                                                                                    \
    "id, parent, removed, n_prompt, created_ms, completed_ms, model, status, request, result, "    \
    "input, output, tokens, tenant, conversation"

/* The same places without what stands far back in a row of many tokens. */
#define TEXT_COLUMNS                                                                               \
    "id, parent, removed, n_prompt, created_ms, completed_ms, model, status, request, result, "    \
    "input, output, x'' AS tokens, '' AS tenant, NULL AS conversation"

/* Places of the columns above. */
enum {
    ID,
    PARENT,
    REMOVED,
    N_PROMPT,
    CREATED_MS,
    COMPLETED_MS,
    MODEL,
    STATUS,
    REQUEST,
    RESULT,
    INPUT,
    OUTPUT,
    TOKENS,
    TENANT,
    CONVERSATION
};

pawl_status responses_open(responses *r, sqlite3 *db, bool writes, pawl_error *error)
{
    responses made = {.db = db};
    const struct {
        sqlite3_stmt **to;
        const char *sql;
    } list[] = {
        {&made.get, "SELECT " COLUMNS " FROM response WHERE id = ?1"},
        {&made.texts, "SELECT " TEXT_COLUMNS " FROM response WHERE id = ?1"},
        {&made.look,
         "SELECT parent, removed, EXISTS (SELECT 1 FROM response AS child WHERE "
         "child.parent = response.id) OR EXISTS (SELECT 1 FROM conversation WHERE "
         "head = response.id), status = '" STORE_QUEUED "' FROM response WHERE id = ?1"},
        {&made.insert, "INSERT INTO response (" COLUMNS ") VALUES "
                       "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"},
        {&made.mark, "UPDATE response SET removed = 1 WHERE id = ?1"},
        {&made.delete_1, "DELETE FROM response WHERE id = ?1"},
    };
    size_t n = writes ? sizeof list / sizeof list[0] : 3;
    for (size_t i = 0; i < n; i++) {
        pawl_status status = db_prepare(db, list[i].sql, list[i].to, error);
        if (status) {
            responses_close(&made);
            return status;
        }
    }
    pawl_status status = answers_open(&made.answers, db, writes, error);
    if (status) {
        responses_close(&made);
        return status;
    }
    *r = made;
    return PAWL_OK;
}

void responses_close(responses *r)
{
    sqlite3_finalize(r->get);
    sqlite3_finalize(r->texts);
    sqlite3_finalize(r->look);
    sqlite3_finalize(r->insert);
    sqlite3_finalize(r->mark);
    sqlite3_finalize(r->delete_1);
    answers_close(&r->answers);
    memset(r, 0, sizeof *r);
}

/* -------------------------------------------------------------- walking --- */

/* What the tree says of one row. */
typedef struct node {
    char parent[RECORD_MAX_ID + 1]; /* "" at a root            */
    bool found;                     /* there is such a row     */
    bool removed;                   /* it is only kept         */
    bool needed;                    /* something descends from it, or it is a head */
    bool queued;                    /* it has not ended        */
} node;

static pawl_status look(responses *r, const char *id, node *out, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    *out = (node){.found = false};
    rows_bind_text(r->look, 1, id);
    int rc = sqlite3_step(r->look);
    if (rc == SQLITE_ROW) {
        const char *parent = (const char *)sqlite3_column_text(r->look, 0);
        out->found = true;
        out->removed = sqlite3_column_int(r->look, 1) != 0;
        out->needed = sqlite3_column_int(r->look, 2) != 0;
        out->queued = sqlite3_column_int(r->look, 3) != 0;
        if (parent && !record_id_ok(parent))
            status =
                pawl_fail(error, PAWL_E_FORMAT, "the stored response %s is damaged: parent", id);
        else if (parent)
            strcpy(out->parent, parent);
    } else if (rc != SQLITE_DONE) {
        status = db_fail(r->db, "looking for a response", error);
    }
    rows_reset(r->look);
    return status;
}

static pawl_status run_on(responses *r, sqlite3_stmt *statement, const char *id, const char *doing,
                          pawl_error *error)
{
    rows_bind_text(statement, 1, id);
    return rows_run(r->db, statement, doing, error);
}

/* Deletes the row and then, upwards, every removed one that has become a leaf. Each
 * turn deletes a row, so it ends even on a file whose parents form a ring. */
static pawl_status collect(responses *r, const char *leaf, node at, pawl_error *error)
{
    char id[RECORD_MAX_ID + 1];
    strcpy(id, leaf);
    for (;;) {
        pawl_status status = run_on(r, r->delete_1, id, "removing a response", error);
        if (status || !at.parent[0])
            return status;
        strcpy(id, at.parent);
        status = look(r, id, &at, error);
        if (status || !at.found || !at.removed || at.needed)
            return status;
    }
}

pawl_status responses_remove(responses *r, const char *id, pawl_error *error)
{
    node at;
    pawl_status status = look(r, id, &at, error);
    if (status)
        return status;
    if (!at.found || at.removed)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored response %s", id);
    status = answers_forget(&r->answers, id, error);
    if (status)
        return status;
    if (at.needed)
        return run_on(r, r->mark, id, "removing a response", error);
    return collect(r, id, at, error);
}

pawl_status responses_check(responses *r, const char *id, pawl_error *error)
{
    node at;
    pawl_status status = look(r, id, &at, error);
    if (status || at.found)
        return status;
    return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored response %s", id);
}

pawl_status responses_let_go(responses *r, const char *id, pawl_error *error)
{
    node at;
    pawl_status status = look(r, id, &at, error);
    if (status || !at.found || !at.removed || at.needed)
        return status;
    return collect(r, id, at, error);
}

/* -------------------------------------------------------------- writing --- */

/* The file's form of the tokens, to be free()d. */
static unsigned char *tokens_out(const store_response *response)
{
    size_t n = (size_t)response->n_tokens;
    unsigned char *bytes = malloc(n ? 4 * n : 1);
    for (size_t i = 0; bytes && i < n; i++) {
        uint32_t token = (uint32_t)response->tokens[i];
        for (int k = 0; k < 4; k++)
            bytes[4 * i + (size_t)k] = (unsigned char)(token >> (8 * k));
    }
    return bytes;
}

static void tokens_in(int32_t *tokens, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++, bytes += 4) {
        uint32_t token = bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                         (uint32_t)bytes[3] << 24;
        tokens[i] = (int32_t)token;
    }
}

static pawl_status check_place(responses *r, const store_response *response, bool head,
                               pawl_error *error)
{
    node at;
    bool queued = strcmp(response->status, STORE_QUEUED) == 0; /* it is nobody's head yet */
    pawl_status status = look(r, response->id, &at, error);
    if (status)
        return status;
    if (at.found && at.queued && !at.needed)
        status = run_on(r, r->delete_1, response->id, "replacing a queued response", error);
    else if (at.found)
        return pawl_fail(error, PAWL_E_ARGUMENT, "there is a stored response %s already",
                         response->id);
    if (status || !response->parent_id)
        return status;
    status = look(r, response->parent_id, &at, error);
    if (!status && (!at.found || (at.removed && !head && !queued)))
        status = pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored response %s",
                           response->parent_id);
    return status;
}

pawl_status responses_put(responses *r, const store_response *response, bool head,
                          pawl_error *error)
{
    pawl_status status = check_place(r, response, head, error);
    if (status)
        return status;
    unsigned char *tokens = tokens_out(response);
    if (!tokens)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a response of %llu tokens",
                         (unsigned long long)response->n_tokens);
    sqlite3_stmt *insert = r->insert;
    rows_bind_text(insert, 1 + ID, response->id);
    rows_bind_text(insert, 1 + PARENT, response->parent_id);
    sqlite3_bind_int(insert, 1 + REMOVED, 0);
    sqlite3_bind_int64(insert, 1 + N_PROMPT, (sqlite3_int64)response->n_prompt);
    sqlite3_bind_int64(insert, 1 + CREATED_MS, response->created_ms);
    sqlite3_bind_int64(insert, 1 + COMPLETED_MS, response->completed_ms);
    rows_bind_text(insert, 1 + MODEL, response->model);
    rows_bind_text(insert, 1 + STATUS, response->status);
    rows_bind_text(insert, 1 + REQUEST, response->request);
    rows_bind_text(insert, 1 + RESULT, response->result);
    rows_bind_text(insert, 1 + INPUT, response->input);
    rows_bind_text(insert, 1 + OUTPUT, response->output);
    sqlite3_bind_blob64(insert, 1 + TOKENS, tokens, 4 * response->n_tokens, SQLITE_STATIC);
    rows_bind_text(insert, 1 + TENANT, response->tenant ? response->tenant : "");
    rows_bind_text(insert, 1 + CONVERSATION, response->conversation_id);
    status = rows_run(r->db, insert, "storing a response", error);
    free(tokens);
    if (!status && response->key)
        status = answers_put(&r->answers, response, error);
    return status;
}

/* -------------------------------------------------------------- reading --- */

/* Points the members at the row's columns, but for tokens, which are counted only.
 * Returns the name of a damaged column, or NULL. */
static const char *read_row(sqlite3_stmt *row, bool texts_only, store_response *out, bool *removed)
{
    const char *bad = NULL;
    memset(out, 0, sizeof *out);
    *removed = rows_int(row, REMOVED, &bad) != 0;
    out->id = rows_text(row, ID, RECORD_MAX_ID, &bad);
    out->parent_id = rows_link(row, PARENT, &bad);
    out->created_ms = rows_int(row, CREATED_MS, &bad);
    out->completed_ms = rows_int(row, COMPLETED_MS, &bad);
    out->model = rows_text(row, MODEL, RECORD_MAX_NAME, &bad);
    out->status = rows_text(row, STATUS, RECORD_MAX_NAME, &bad);
    out->request = rows_text(row, REQUEST, RECORD_MAX_TEXT, &bad);
    out->result = rows_text(row, RESULT, RECORD_MAX_TEXT, &bad);
    out->input = rows_text(row, INPUT, RECORD_MAX_TEXT, &bad);
    out->output = rows_text(row, OUTPUT, RECORD_MAX_TEXT, &bad);
    out->tenant = rows_text(row, TENANT, RECORD_MAX_TENANT, &bad);
    out->conversation_id = rows_link(row, CONVERSATION, &bad);
    int64_t n_prompt = rows_int(row, N_PROMPT, &bad);
    size_t bytes = (size_t)sqlite3_column_bytes(row, TOKENS);
    if (sqlite3_column_type(row, TOKENS) != SQLITE_BLOB || bytes % 4 != 0 ||
        bytes / 4 > RECORD_MAX_TOKENS)
        bad = "tokens";
    out->n_tokens = bytes / 4;
    if (texts_only)
        return bad;
    if (!bad && (n_prompt < 0 || (uint64_t)n_prompt > out->n_tokens))
        bad = "n_prompt";
    out->n_prompt = (uint64_t)n_prompt;
    return bad;
}

static pawl_status take_row(sqlite3_stmt *row, const char *id, int how, store_response **out,
                            pawl_error *error)
{
    store_response seen;
    bool removed;
    size_t size;
    const char *bad = read_row(row, how & STORE_GET_TEXTS, &seen, &removed);
    if (bad)
        return pawl_fail(error, PAWL_E_FORMAT, "the stored response %s is damaged: %s", id, bad);
    if (removed && !(how & STORE_GET_REMOVED))
        return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored response %s", id);
    store_response *made = record_copy(&seen, &size);
    if (!made)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the stored response %s", id);
    if (seen.n_tokens)
        tokens_in((int32_t *)(void *)(made + 1), sqlite3_column_blob(row, TOKENS),
                  (size_t)seen.n_tokens);
    *out = made;
    return PAWL_OK;
}

pawl_status responses_get(responses *r, const char *id, int how, store_response **out,
                          pawl_error *error)
{
    pawl_status status;
    sqlite3_stmt *get = how & STORE_GET_TEXTS ? r->texts : r->get;
    rows_bind_text(get, 1, id);
    int rc = sqlite3_step(get);
    if (rc == SQLITE_ROW)
        status = take_row(get, id, how, out, error);
    else if (rc == SQLITE_DONE)
        status = pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored response %s", id);
    else
        status = db_fail(r->db, "reading a response", error);
    rows_reset(get);
    return status;
}
