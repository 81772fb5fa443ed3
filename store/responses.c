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

static const char *const scripts[] = {schema_sql, schema_2_sql, schema_3_sql, schema_4_sql};

const db_kind responses_kind = {
    .name = "pawl.db",
    .application_id = 0x5041574C, /* "PAWL" */
    .scripts = scripts,
    .version = sizeof scripts / sizeof scripts[0],
};

#define COLUMNS                                                                                    \
    "id, parent, removed, n_prompt, created_ms, completed_ms, model, status, request, result, "    \
    "input, output, tokens, tenant"

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
    TENANT
};

pawl_status responses_open(responses *r, sqlite3 *db, bool writes, pawl_error *error)
{
    responses made = {.db = db};
    const struct {
        sqlite3_stmt **to;
        const char *sql;
    } list[] = {
        {&made.get, "SELECT " COLUMNS " FROM response WHERE id = ?1"},
        {&made.look, "SELECT parent, removed, EXISTS (SELECT 1 FROM response AS child WHERE "
                     "child.parent = response.id) FROM response WHERE id = ?1"},
        {&made.insert, "INSERT INTO response (" COLUMNS ") VALUES "
                       "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"},
        {&made.mark, "UPDATE response SET removed = 1 WHERE id = ?1"},
        {&made.delete_1, "DELETE FROM response WHERE id = ?1"},
    };
    size_t n = writes ? sizeof list / sizeof list[0] : 2;
    for (size_t i = 0; i < n; i++) {
        pawl_status status = db_prepare(db, list[i].sql, list[i].to, error);
        if (status) {
            responses_close(&made);
            return status;
        }
    }
    *r = made;
    return PAWL_OK;
}

void responses_close(responses *r)
{
    sqlite3_finalize(r->get);
    sqlite3_finalize(r->look);
    sqlite3_finalize(r->insert);
    sqlite3_finalize(r->mark);
    sqlite3_finalize(r->delete_1);
    memset(r, 0, sizeof *r);
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text)
{
    if (text)
        sqlite3_bind_text64(statement, at, text, strlen(text), SQLITE_STATIC, SQLITE_UTF8);
    else
        sqlite3_bind_null(statement, at);
}

/* Runs a statement that answers with no row, and makes it ready for the next. */
static pawl_status run(sqlite3 *db, sqlite3_stmt *statement, const char *doing, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    if (sqlite3_step(statement) != SQLITE_DONE)
        status = db_fail(db, doing, error);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status;
}

/* -------------------------------------------------------------- walking --- */

/* What the tree says of one row. */
typedef struct node {
    char parent[RECORD_MAX_ID + 1]; /* "" at a root            */
    bool found;                     /* there is such a row     */
    bool removed;                   /* it is only kept         */
    bool has_children;              /* something stands on it  */
} node;

static pawl_status look(responses *r, const char *id, node *out, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    *out = (node){.found = false};
    bind_text(r->look, 1, id);
    int rc = sqlite3_step(r->look);
    if (rc == SQLITE_ROW) {
        const char *parent = (const char *)sqlite3_column_text(r->look, 0);
        out->found = true;
        out->removed = sqlite3_column_int(r->look, 1) != 0;
        out->has_children = sqlite3_column_int(r->look, 2) != 0;
        if (parent && !record_id_ok(parent))
            status =
                pawl_fail(error, PAWL_E_FORMAT, "the stored response %s is damaged: parent", id);
        else if (parent)
            strcpy(out->parent, parent);
    } else if (rc != SQLITE_DONE) {
        status = db_fail(r->db, "looking for a response", error);
    }
    sqlite3_reset(r->look);
    sqlite3_clear_bindings(r->look);
    return status;
}

static pawl_status run_on(responses *r, sqlite3_stmt *statement, const char *id, const char *doing,
                          pawl_error *error)
{
    bind_text(statement, 1, id);
    return run(r->db, statement, doing, error);
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
        if (status || !at.found || !at.removed || at.has_children)
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
    if (at.has_children)
        return run_on(r, r->mark, id, "removing a response", error);
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

static pawl_status check_place(responses *r, const store_response *response, pawl_error *error)
{
    node at;
    pawl_status status = look(r, response->id, &at, error);
    if (status)
        return status;
    if (at.found)
        return pawl_fail(error, PAWL_E_ARGUMENT, "there is a stored response %s already",
                         response->id);
    if (!response->parent_id)
        return PAWL_OK;
    status = look(r, response->parent_id, &at, error);
    if (!status && (!at.found || at.removed))
        status = pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored response %s",
                           response->parent_id);
    return status;
}

pawl_status responses_put(responses *r, const store_response *response, pawl_error *error)
{
    pawl_status status = check_place(r, response, error);
    if (status)
        return status;
    unsigned char *tokens = tokens_out(response);
    if (!tokens)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a response of %llu tokens",
                         (unsigned long long)response->n_tokens);
    sqlite3_stmt *insert = r->insert;
    bind_text(insert, 1 + ID, response->id);
    bind_text(insert, 1 + PARENT, response->parent_id);
    sqlite3_bind_int(insert, 1 + REMOVED, 0);
    sqlite3_bind_int64(insert, 1 + N_PROMPT, (sqlite3_int64)response->n_prompt);
    sqlite3_bind_int64(insert, 1 + CREATED_MS, response->created_ms);
    sqlite3_bind_int64(insert, 1 + COMPLETED_MS, response->completed_ms);
    bind_text(insert, 1 + MODEL, response->model);
    bind_text(insert, 1 + STATUS, response->status);
    bind_text(insert, 1 + REQUEST, response->request);
    bind_text(insert, 1 + RESULT, response->result);
    bind_text(insert, 1 + INPUT, response->input);
    bind_text(insert, 1 + OUTPUT, response->output);
    sqlite3_bind_blob64(insert, 1 + TOKENS, tokens, 4 * response->n_tokens, SQLITE_STATIC);
    bind_text(insert, 1 + TENANT, response->tenant ? response->tenant : "");
    status = run(r->db, insert, "storing a response", error);
    free(tokens);
    return status;
}

/* -------------------------------------------------------------- reading --- */

/* A text column that is one, without NUL inside; NULL with *bad set otherwise. */
static const char *column_text(sqlite3_stmt *row, int at, size_t max, const char **bad)
{
    if (sqlite3_column_type(row, at) == SQLITE_TEXT) {
        const char *text = (const char *)sqlite3_column_text(row, at);
        size_t size = (size_t)sqlite3_column_bytes(row, at);
        if (text && size <= max && strlen(text) == size)
            return text;
    }
    *bad = sqlite3_column_name(row, at);
    return NULL;
}

static int64_t column_int(sqlite3_stmt *row, int at, const char **bad)
{
    if (sqlite3_column_type(row, at) != SQLITE_INTEGER)
        *bad = sqlite3_column_name(row, at);
    return sqlite3_column_int64(row, at);
}

/* Points the members at the row's columns, but for tokens, which are counted only.
 * Returns the name of a damaged column, or NULL. */
static const char *read_row(sqlite3_stmt *row, store_response *out, bool *removed)
{
    const char *bad = NULL;
    memset(out, 0, sizeof *out);
    *removed = column_int(row, REMOVED, &bad) != 0;
    out->id = column_text(row, ID, RECORD_MAX_ID, &bad);
    if (sqlite3_column_type(row, PARENT) != SQLITE_NULL)
        out->parent_id = column_text(row, PARENT, RECORD_MAX_ID, &bad);
    if (out->parent_id && !record_id_ok(out->parent_id))
        bad = "parent";
    out->created_ms = column_int(row, CREATED_MS, &bad);
    out->completed_ms = column_int(row, COMPLETED_MS, &bad);
    out->model = column_text(row, MODEL, RECORD_MAX_NAME, &bad);
    out->status = column_text(row, STATUS, RECORD_MAX_NAME, &bad);
    out->request = column_text(row, REQUEST, RECORD_MAX_TEXT, &bad);
    out->result = column_text(row, RESULT, RECORD_MAX_TEXT, &bad);
    out->input = column_text(row, INPUT, RECORD_MAX_TEXT, &bad);
    out->output = column_text(row, OUTPUT, RECORD_MAX_TEXT, &bad);
    out->tenant = column_text(row, TENANT, RECORD_MAX_TENANT, &bad);
    int64_t n_prompt = column_int(row, N_PROMPT, &bad);
    size_t bytes = (size_t)sqlite3_column_bytes(row, TOKENS);
    if (sqlite3_column_type(row, TOKENS) != SQLITE_BLOB || bytes % 4 != 0 ||
        bytes / 4 > RECORD_MAX_TOKENS)
        bad = "tokens";
    out->n_tokens = bytes / 4;
    if (!bad && (n_prompt < 0 || (uint64_t)n_prompt > out->n_tokens))
        bad = "n_prompt";
    out->n_prompt = (uint64_t)n_prompt;
    return bad;
}

static pawl_status take_row(sqlite3_stmt *row, const char *id, bool with_removed,
                            store_response **out, pawl_error *error)
{
    store_response seen;
    bool removed;
    size_t size;
    const char *bad = read_row(row, &seen, &removed);
    if (bad)
        return pawl_fail(error, PAWL_E_FORMAT, "the stored response %s is damaged: %s", id, bad);
    if (removed && !with_removed)
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

pawl_status responses_get(responses *r, const char *id, bool with_removed, store_response **out,
                          pawl_error *error)
{
    pawl_status status;
    bind_text(r->get, 1, id);
    int rc = sqlite3_step(r->get);
    if (rc == SQLITE_ROW)
        status = take_row(r->get, id, with_removed, out, error);
    else if (rc == SQLITE_DONE)
        status = pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored response %s", id);
    else
        status = db_fail(r->db, "reading a response", error);
    sqlite3_reset(r->get);
    sqlite3_clear_bindings(r->get);
    return status;
}
