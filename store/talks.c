/*
 * store/talks.c - names for places in the tree of responses. See talks.h.
 *
 *     a ── b ── c            put(d in A): d's parent is A's head, A's head becomes d
 *          │    └─ head of A remove(A): c goes with A; a and b stay for B, removed,
 *          └─ head of B      if they were made in A; they go when B does
 *
 * A row is what someone wrote into a file once: it is checked before it is believed.
 * Statements are always reset before a function returns, for one that is not pins the
 * log. Runs on the thread that owns the connection.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/talks.h"

#include <stdlib.h>
#include <string.h>

#include "store/record.h"
#include "store/rows.h"

#define COLUMNS "id, revision, created_ms, updated_ms, tenant, title, head, base, metadata, tail"
#define LIST_COLUMNS                                                                               \
    "id, revision, created_ms, updated_ms, tenant, title, head, base, metadata, NULL"

/* Places of the columns above. */
enum { ID, REVISION, CREATED_MS, UPDATED_MS, TENANT, TITLE, HEAD, BASE, METADATA, TAIL };

pawl_status talks_open(talks *t, responses *rows, bool writes, pawl_error *error)
{
    talks made = {.rows = rows};
    const struct {
        sqlite3_stmt **to;
        const char *sql;
    } list[] = {
        {&made.get, "SELECT " COLUMNS " FROM conversation WHERE id = ?1"},
        {&made.place, "SELECT revision, head FROM conversation WHERE id = ?1"},
        {&made.insert, "INSERT INTO conversation (" COLUMNS ") VALUES "
                       "(?1, 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"},
        {&made.update, "UPDATE conversation SET revision = revision + 1, updated_ms = ?4, title = "
                       "?6, head = ?7, base = ?8, metadata = ?9, tail = ?10 WHERE id = ?1"},
        {&made.advance, "UPDATE conversation SET revision = revision + 1, updated_ms = ?2, head = "
                        "?3, base = NULL, tail = '[]' WHERE id = ?1"},
        {&made.delete_1, "DELETE FROM conversation WHERE id = ?1"},
        {&made.mark, "UPDATE response SET removed = 1 WHERE conversation = ?1"},
        {&made.leaves, "SELECT id FROM response WHERE conversation = ?1 AND NOT EXISTS (SELECT 1 "
                       "FROM response AS child WHERE child.parent = response.id) AND NOT EXISTS "
                       "(SELECT 1 FROM conversation WHERE head = response.id)"},
    };
    size_t n = writes ? sizeof list / sizeof list[0] : 2;
    for (size_t i = 0; i < n; i++) {
        pawl_status status = db_prepare(rows->db, list[i].sql, list[i].to, error);
        if (status) {
            talks_close(&made);
            return status;
        }
    }
    *t = made;
    return PAWL_OK;
}

void talks_close(talks *t)
{
    sqlite3_finalize(t->get);
    sqlite3_finalize(t->place);
    sqlite3_finalize(t->insert);
    sqlite3_finalize(t->update);
    sqlite3_finalize(t->advance);
    sqlite3_finalize(t->delete_1);
    sqlite3_finalize(t->mark);
    sqlite3_finalize(t->leaves);
    memset(t, 0, sizeof *t);
}

/* ---------------------------------------------------------------- writing --- */

/* Where a conversation is now. */
typedef struct place {
    char head[RECORD_MAX_ID + 1]; /* "" none           */
    int64_t revision;             /* 0: there is no such conversation */
} place;

static pawl_status find_place(talks *t, const char *id, place *out, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    *out = (place){.revision = 0};
    rows_bind_text(t->place, 1, id);
    int rc = sqlite3_step(t->place);
    if (rc == SQLITE_ROW) {
        const char *bad = NULL;
        out->revision = rows_int(t->place, 0, &bad);
        const char *head = rows_link(t->place, 1, &bad);
        if (head && !bad)
            strcpy(out->head, head);
        if (bad || out->revision < 1)
            status = pawl_fail(error, PAWL_E_FORMAT, "the stored conversation %s is damaged: %s",
                               id, bad ? bad : "revision");
    } else if (rc != SQLITE_DONE) {
        status = db_fail(t->rows->db, "looking for a conversation", error);
    }
    rows_reset(t->place);
    return status;
}

static pawl_status fail_changed(const char *id, pawl_error *error)
{
    return pawl_fail(error, PAWL_E_BUSY,
                     "the conversation %s has changed since it was read; read it again", id);
}

static pawl_status fail_unknown(const char *id, pawl_error *error)
{
    return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored conversation %s", id);
}

static pawl_status write_row(talks *t, sqlite3_stmt *to, const store_conversation *from,
                             pawl_error *error)
{
    bool is_new = to == t->insert;
    rows_bind_text(to, 1 + ID, from->id);
    sqlite3_bind_int64(to, 1 + UPDATED_MS, from->updated_ms);
    if (is_new) {
        sqlite3_bind_int64(to, 1 + CREATED_MS, from->created_ms);
        rows_bind_text(to, 1 + TENANT, from->tenant ? from->tenant : "");
    }
    rows_bind_text(to, 1 + TITLE, from->title ? from->title : "");
    rows_bind_text(to, 1 + HEAD, from->head_id);
    rows_bind_text(to, 1 + BASE, from->base_id);
    rows_bind_text(to, 1 + METADATA, from->metadata);
    rows_bind_text(to, 1 + TAIL, from->tail);
    return rows_run(t->rows->db, to, "storing a conversation", error);
}

pawl_status talks_put(talks *t, const store_conversation *conversation, pawl_error *error)
{
    place now;
    const char *id = conversation->id;
    bool is_new = conversation->revision == 0;
    pawl_status status = find_place(t, id, &now, error);
    if (!status && is_new && now.revision)
        status = pawl_fail(error, PAWL_E_ARGUMENT, "there is a stored conversation %s already", id);
    else if (!status && !is_new && !now.revision)
        status = fail_unknown(id, error);
    else if (!status && !is_new && (uint64_t)now.revision != conversation->revision)
        status = fail_changed(id, error);
    if (!status && conversation->head_id)
        status = responses_check(t->rows, conversation->head_id, error);
    if (!status && conversation->base_id)
        status = responses_check(t->rows, conversation->base_id, error);
    if (!status)
        status = write_row(t, is_new ? t->insert : t->update, conversation, error);
    if (!status && now.head[0])
        status = responses_let_go(t->rows, now.head, error);
    return status;
}

pawl_status talks_put_response(talks *t, const store_response *response, pawl_error *error)
{
    place now = {.revision = 0};
    const char *id = response->conversation_id, *parent = response->parent_id;
    bool moves = response->conversation_revision != 0;
    pawl_status status = id ? find_place(t, id, &now, error) : PAWL_OK;
    bool on_head = parent ? strcmp(parent, now.head) == 0 : !now.head[0];
    if (status)
        return status;
    if (moves && !now.revision)
        return fail_unknown(id, error);
    if (moves && (uint64_t)now.revision != response->conversation_revision)
        return fail_changed(id, error);
    if (moves && !on_head)
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "the response %s does not follow the head of its conversation %s",
                         response->id, id);
    status = responses_put(t->rows, response, parent && on_head, error);
    if (status || !moves)
        return status;
    rows_bind_text(t->advance, 1, id);
    sqlite3_bind_int64(t->advance, 2, response->completed_ms);
    rows_bind_text(t->advance, 3, response->id);
    return rows_run(t->rows->db, t->advance, "moving a conversation on", error);
}

/* The ids of the conversation's responses that nothing needs, each RECORD_MAX_ID + 1
 * bytes, to be free()d: they are found before the first of them goes. */
static pawl_status find_leaves(talks *t, const char *id, char (**out)[RECORD_MAX_ID + 1],
                               size_t *n_out, pawl_error *error)
{
    char(*list)[RECORD_MAX_ID + 1] = NULL;
    size_t n = 0, room = 0;
    pawl_status status = PAWL_OK;
    int rc;
    rows_bind_text(t->leaves, 1, id);
    while (!status && (rc = sqlite3_step(t->leaves)) != SQLITE_DONE) {
        const char *bad = NULL;
        const char *leaf = rc == SQLITE_ROW ? rows_link(t->leaves, 0, &bad) : NULL;
        if (rc != SQLITE_ROW) {
            status = db_fail(t->rows->db, "removing a conversation", error);
            break;
        }
        if (!leaf || bad)
            continue;
        if (n == room) {
            room = room ? 2 * room : 64;
            void *more = realloc(list, room * sizeof *list);
            if (!more) {
                status = pawl_fail(error, PAWL_E_MEMORY, "no memory to remove %s", id);
                break;
            }
            list = more;
        }
        strcpy(list[n++], leaf);
    }
    rows_reset(t->leaves);
    if (status) {
        free(list);
        return status;
    }
    *out = list;
    *n_out = n;
    return PAWL_OK;
}

pawl_status talks_remove(talks *t, const char *id, pawl_error *error)
{
    place now;
    char(*leaves)[RECORD_MAX_ID + 1] = NULL;
    size_t n = 0;
    pawl_status status = find_place(t, id, &now, error);
    if (!status && !now.revision)
        status = fail_unknown(id, error);
    if (status)
        return status;
    rows_bind_text(t->delete_1, 1, id);
    status = rows_run(t->rows->db, t->delete_1, "removing a conversation", error);
    if (!status) {
        rows_bind_text(t->mark, 1, id);
        status = rows_run(t->rows->db, t->mark, "removing a conversation", error);
    }
    if (!status)
        status = find_leaves(t, id, &leaves, &n, error);
    for (size_t i = 0; i < n && !status; i++)
        status = responses_let_go(t->rows, leaves[i], error);
    free(leaves);
    if (!status && now.head[0]) /* of a fork, it may be another one's */
        status = responses_let_go(t->rows, now.head, error);
    return status;
}

/* ---------------------------------------------------------------- reading --- */

static pawl_status take_row(sqlite3_stmt *row, bool with_tail, store_conversation **out,
                            pawl_error *error)
{
    const char *bad = NULL;
    size_t size;
    store_conversation seen = {.id = rows_text(row, ID, RECORD_MAX_ID, &bad),
                               .created_ms = rows_int(row, CREATED_MS, &bad),
                               .updated_ms = rows_int(row, UPDATED_MS, &bad),
                               .tenant = rows_text(row, TENANT, RECORD_MAX_TENANT, &bad),
                               .title = rows_text(row, TITLE, RECORD_MAX_TITLE, &bad),
                               .head_id = rows_link(row, HEAD, &bad),
                               .base_id = rows_link(row, BASE, &bad),
                               .metadata = rows_text(row, METADATA, RECORD_MAX_METADATA, &bad)};
    int64_t revision = rows_int(row, REVISION, &bad);
    if (with_tail)
        seen.tail = rows_text(row, TAIL, RECORD_MAX_TEXT, &bad);
    if (!bad && revision < 1)
        bad = "revision";
    if (bad)
        return pawl_fail(error, PAWL_E_FORMAT, "the stored conversation %.64s is damaged: %s",
                         seen.id ? seen.id : "?", bad);
    seen.revision = (uint64_t)revision;
    *out = record_conversation_copy(&seen, &size);
    if (*out)
        return PAWL_OK;
    return pawl_fail(error, PAWL_E_MEMORY, "no memory for the stored conversation %s", seen.id);
}

pawl_status talks_get(talks *t, const char *id, store_conversation **out, pawl_error *error)
{
    pawl_status status;
    rows_bind_text(t->get, 1, id);
    int rc = sqlite3_step(t->get);
    if (rc == SQLITE_ROW)
        status = take_row(t->get, true, out, error);
    else if (rc == SQLITE_DONE)
        status = fail_unknown(id, error);
    else
        status = db_fail(t->rows->db, "reading a conversation", error);
    rows_reset(t->get);
    return status;
}

/* The statement of a page, its values bound. */
static pawl_status prepare_page(talks *t, const store_page *page, const char *tenant,
                                int64_t after_ms, sqlite3_stmt **out, pawl_error *error)
{
    const char *sql;
    if (page->title)
        sql = "SELECT " LIST_COLUMNS " FROM conversation WHERE tenant = ?1 AND title = ?2 AND "
              "title <> '' ORDER BY updated_ms DESC, id LIMIT ?5";
    else if (!page->after)
        sql = page->ascending ? "SELECT " LIST_COLUMNS " FROM conversation WHERE tenant = ?1 "
                                "ORDER BY created_ms, id LIMIT ?5"
                              : "SELECT " LIST_COLUMNS " FROM conversation WHERE tenant = ?1 "
                                "ORDER BY created_ms DESC, id DESC LIMIT ?5";
    else
        sql = page->ascending
                  ? "SELECT " LIST_COLUMNS " FROM conversation WHERE tenant = ?1 AND "
                    "(created_ms, id) > (?3, ?4) ORDER BY created_ms, id LIMIT ?5"
                  : "SELECT " LIST_COLUMNS " FROM conversation WHERE tenant = ?1 AND "
                    "(created_ms, id) < (?3, ?4) ORDER BY created_ms DESC, id DESC LIMIT ?5";
    pawl_status status = db_prepare(t->rows->db, sql, out, error);
    if (status)
        return status;
    rows_bind_text(*out, 1, tenant);
    if (page->title)
        rows_bind_text(*out, 2, page->title);
    else if (page->after) {
        sqlite3_bind_int64(*out, 3, after_ms);
        rows_bind_text(*out, 4, page->after);
    }
    sqlite3_bind_int64(*out, 5, (int64_t)page->limit);
    return PAWL_OK;
}

static void free_list(store_conversation **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(list[i]);
    free(list);
}

pawl_status talks_list(talks *t, const store_page *page, store_conversation ***out, size_t *n_out,
                       pawl_error *error)
{
    sqlite3_stmt *rows;
    store_conversation *after = NULL;
    const char *tenant = page->tenant ? page->tenant : "";
    int64_t after_ms = 0;
    if (page->after && !page->title) {
        pawl_status status = talks_get(t, page->after, &after, error);
        if (!status && strcmp(after->tenant, tenant) != 0)
            status = fail_unknown(page->after, error);
        after_ms = status ? 0 : after->created_ms;
        free(after);
        if (status)
            return status;
    }
    store_conversation **list = calloc(page->limit + 1, sizeof *list);
    if (!list)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a list of conversations");
    pawl_status status = prepare_page(t, page, tenant, after_ms, &rows, error);
    if (status) {
        free(list);
        return status;
    }
    size_t n = 0;
    int rc = SQLITE_DONE;
    while (!status && n < page->limit && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
        status = take_row(rows, false, &list[n], error);
        n += status == PAWL_OK;
    }
    if (!status && rc != SQLITE_ROW && rc != SQLITE_DONE)
        status = db_fail(t->rows->db, "listing the conversations", error);
    sqlite3_finalize(rows);
    if (status) {
        free_list(list, n);
        return status;
    }
    *out = list;
    *n_out = n;
    return PAWL_OK;
}
