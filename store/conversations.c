/*
 * store/conversations.c - names for places in the tree of responses. See conversations.h.
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
#include "store/conversations.h"

#include <stdlib.h>
#include <string.h>

#include "store/record.h"
#include "store/rows.h"

#define COLUMNS "id, revision, created_ms, updated_ms, tenant, title, head, base, metadata, tail"
#define LIST_COLUMNS                                                                               \
    "id, revision, created_ms, updated_ms, tenant, title, head, base, metadata, NULL"

/* Places of the columns above. */
enum { ID, REVISION, CREATED_MS, UPDATED_MS, TENANT, TITLE, HEAD, BASE, METADATA, TAIL };

pawl_status conversations_open(conversations *c, responses *rows, bool writes, pawl_error *error)
{
    conversations made = {.rows = rows};
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
            conversations_close(&made);
            return status;
        }
    }
    *c = made;
    return PAWL_OK;
}

void conversations_close(conversations *c)
{
    sqlite3_finalize(c->get);
    sqlite3_finalize(c->place);
    sqlite3_finalize(c->insert);
    sqlite3_finalize(c->update);
    sqlite3_finalize(c->advance);
    sqlite3_finalize(c->delete_1);
    sqlite3_finalize(c->mark);
    sqlite3_finalize(c->leaves);
    memset(c, 0, sizeof *c);
}

/* ---------------------------------------------------------------- writing --- */

/* Where a conversation is now. */
typedef struct place {
    char head[RECORD_MAX_ID + 1]; /* "" none           */
    int64_t revision;             /* 0: there is no such conversation */
} place;

static pawl_status find_place(conversations *c, const char *id, place *out, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    *out = (place){.revision = 0};
    rows_bind_text(c->place, 1, id);
    int rc = sqlite3_step(c->place);
    if (rc == SQLITE_ROW) {
        const char *bad = NULL;
        out->revision = rows_int(c->place, 0, &bad);
        const char *head = rows_link(c->place, 1, &bad);
        if (head && !bad)
            strcpy(out->head, head);
        if (bad || out->revision < 1)
            status = pawl_fail(error, PAWL_E_FORMAT, "the stored conversation %s is damaged: %s",
                               id, bad ? bad : "revision");
    } else if (rc != SQLITE_DONE) {
        status = db_fail(c->rows->db, "looking for a conversation", error);
    }
    rows_reset(c->place);
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

static pawl_status write_row(conversations *c, sqlite3_stmt *to, const store_conversation *from,
                             pawl_error *error)
{
    bool is_new = to == c->insert;
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
    return rows_run(c->rows->db, to, "storing a conversation", error);
}

pawl_status conversations_put(conversations *c, const store_conversation *conversation,
                              pawl_error *error)
{
    place now;
    const char *id = conversation->id;
    bool is_new = conversation->revision == 0;
    pawl_status status = find_place(c, id, &now, error);
    if (!status && is_new && now.revision)
        status = pawl_fail(error, PAWL_E_ARGUMENT, "there is a stored conversation %s already", id);
    else if (!status && !is_new && !now.revision)
        status = fail_unknown(id, error);
    else if (!status && !is_new && (uint64_t)now.revision != conversation->revision)
        status = fail_changed(id, error);
    if (!status && conversation->head_id)
        status = responses_check(c->rows, conversation->head_id, error);
    if (!status && conversation->base_id)
        status = responses_check(c->rows, conversation->base_id, error);
    if (!status)
        status = write_row(c, is_new ? c->insert : c->update, conversation, error);
    if (!status && now.head[0])
        status = responses_let_go(c->rows, now.head, error);
    return status;
}

pawl_status conversations_put_response(conversations *c, const store_response *response,
                                       pawl_error *error)
{
    place now = {.revision = 0};
    const char *id = response->conversation_id, *parent = response->parent_id;
    bool moves = response->conversation_revision != 0;
    pawl_status status = id ? find_place(c, id, &now, error) : PAWL_OK;
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
    status = responses_put(c->rows, response, parent && on_head, error);
    if (status || !moves)
        return status;
    rows_bind_text(c->advance, 1, id);
    sqlite3_bind_int64(c->advance, 2, response->completed_ms);
    rows_bind_text(c->advance, 3, response->id);
    return rows_run(c->rows->db, c->advance, "moving a conversation on", error);
}

/* The ids of the conversation's responses that nothing needs, each RECORD_MAX_ID + 1
 * bytes, to be free()d: they are found before the first of them goes. */
static pawl_status find_leaves(conversations *c, const char *id, char (**out)[RECORD_MAX_ID + 1],
                               size_t *n_out, pawl_error *error)
{
    char(*list)[RECORD_MAX_ID + 1] = NULL;
    size_t n = 0, room = 0;
    pawl_status status = PAWL_OK;
    int rc;
    rows_bind_text(c->leaves, 1, id);
    while (!status && (rc = sqlite3_step(c->leaves)) != SQLITE_DONE) {
        const char *bad = NULL;
        const char *leaf = rc == SQLITE_ROW ? rows_link(c->leaves, 0, &bad) : NULL;
        if (rc != SQLITE_ROW) {
            status = db_fail(c->rows->db, "removing a conversation", error);
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
    rows_reset(c->leaves);
    if (status) {
        free(list);
        return status;
    }
    *out = list;
    *n_out = n;
    return PAWL_OK;
}

pawl_status conversations_remove(conversations *c, const char *id, pawl_error *error)
{
    place now;
    char(*leaves)[RECORD_MAX_ID + 1] = NULL;
    size_t n = 0;
    pawl_status status = find_place(c, id, &now, error);
    if (!status && !now.revision)
        status = fail_unknown(id, error);
    if (status)
        return status;
    rows_bind_text(c->delete_1, 1, id);
    status = rows_run(c->rows->db, c->delete_1, "removing a conversation", error);
    if (!status) {
        rows_bind_text(c->mark, 1, id);
        status = rows_run(c->rows->db, c->mark, "removing a conversation", error);
    }
    if (!status)
        status = find_leaves(c, id, &leaves, &n, error);
    for (size_t i = 0; i < n && !status; i++)
        status = responses_let_go(c->rows, leaves[i], error);
    free(leaves);
    if (!status && now.head[0]) /* of a fork, it may be another one's */
        status = responses_let_go(c->rows, now.head, error);
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

pawl_status conversations_get(conversations *c, const char *id, store_conversation **out,
                              pawl_error *error)
{
    pawl_status status;
    rows_bind_text(c->get, 1, id);
    int rc = sqlite3_step(c->get);
    if (rc == SQLITE_ROW)
        status = take_row(c->get, true, out, error);
    else if (rc == SQLITE_DONE)
        status = fail_unknown(id, error);
    else
        status = db_fail(c->rows->db, "reading a conversation", error);
    rows_reset(c->get);
    return status;
}

/* The statement of a page, its values bound. */
static pawl_status prepare_page(conversations *c, const store_page *page, const char *tenant,
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
    pawl_status status = db_prepare(c->rows->db, sql, out, error);
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

pawl_status conversations_list(conversations *c, const store_page *page, store_conversation ***out,
                               size_t *n_out, pawl_error *error)
{
    sqlite3_stmt *rows;
    store_conversation *after = NULL;
    const char *tenant = page->tenant ? page->tenant : "";
    int64_t after_ms = 0;
    if (page->after && !page->title) {
        pawl_status status = conversations_get(c, page->after, &after, error);
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
    pawl_status status = prepare_page(c, page, tenant, after_ms, &rows, error);
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
        status = db_fail(c->rows->db, "listing the conversations", error);
    sqlite3_finalize(rows);
    if (status) {
        free_list(list, n);
        return status;
    }
    *out = list;
    *n_out = n;
    return PAWL_OK;
}
