/*
 * store/export.c - a store, or one conversation of it, as lines. See transfer.h.
 *
 * Everything is read in one transaction, so that the file shows one moment. Rows come in
 * the order in which they were made, which puts parents first. [main]
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

typedef struct exporter {
    care file;
    responses rows;
    talks talks;
    FILE *to;
    buf line;
    store_response *parent; /* the one that was needed last */
    transfer_counts counts;
} exporter;

static pawl_status write_line(exporter *e, const char *of, pawl_error *error)
{
    if (e->line.failed)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "%s is damaged or too large for a line; `pawl store check` says more", of);
    if (fwrite(e->line.data, 1, e->line.size, e->to) != e->line.size)
        return pawl_fail(error, PAWL_E_DEVICE, "the export cannot be written: %s", strerror(errno));
    buf_reset(&e->line);
    return PAWL_OK;
}

/* Makes e->parent the response of this id. */
static pawl_status find_parent(exporter *e, const char *id, pawl_error *error)
{
    if (e->parent && strcmp(e->parent->id, id) == 0)
        return PAWL_OK;
    free(e->parent);
    e->parent = NULL;
    return responses_get(&e->rows, id, STORE_GET_REMOVED, &e->parent, error);
}

static pawl_status export_response(exporter *e, const char *id, bool removed, pawl_error *error)
{
    store_response *r = NULL;
    pawl_status status = responses_get(&e->rows, id, STORE_GET_REMOVED, &r, error);
    if (!status && r->parent_id)
        status = find_parent(e, r->parent_id, error);
    if (!status) {
        transfer_add_response(&e->line, r, removed, r->parent_id ? e->parent : NULL);
        status = write_line(e, id, error);
    }
    if (status) {
        free(r);
        return status;
    }
    e->counts.responses++;
    free(e->parent); /* a chain's next one is this one's child, most often */
    e->parent = r;
    return PAWL_OK;
}

static pawl_status export_conversation(exporter *e, const char *id, bool removed, pawl_error *error)
{
    store_conversation *c = NULL;
    (void)removed;
    pawl_status status = talks_get(&e->talks, id, &c, error);
    if (status)
        return status;
    transfer_add_conversation(&e->line, c);
    status = write_line(e, id, error);
    free(c);
    e->counts.conversations += status == PAWL_OK;
    return status;
}

/* Calls write for each row (id, removed) of a query whose ?1 is the conversation. */
static pawl_status each_row(exporter *e, const char *sql, const char *conversation_id,
                            pawl_status (*write)(exporter *e, const char *id, bool removed,
                                                 pawl_error *error),
                            pawl_error *error)
{
    sqlite3_stmt *rows;
    pawl_status status = db_prepare(e->file.db, sql, &rows, error);
    if (status)
        return status;
    if (conversation_id)
        rows_bind_text(rows, 1, conversation_id);
    int rc = SQLITE_DONE;
    while (!status && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
        const char *bad = NULL, *id = rows_link(rows, 0, &bad);
        status = id && !bad ? write(e, id, sqlite3_column_int(rows, 1) != 0, error)
                            : pawl_fail(error, PAWL_E_FORMAT, "a row's id is damaged");
    }
    if (!status && rc != SQLITE_DONE)
        status = db_fail(e->file.db, "reading it", error);
    sqlite3_finalize(rows);
    return status;
}

static pawl_status export_rows(exporter *e, const char *conversation_id, pawl_error *error)
{
    static const char all[] = "SELECT id, removed FROM response ORDER BY rowid";
    static const char chain[] =
        "WITH RECURSIVE up (id) AS (SELECT coalesce(head, base) FROM conversation WHERE id = ?1 "
        "UNION SELECT parent FROM response JOIN up ON response.id = up.id) "
        "SELECT id, removed FROM response WHERE id IN (SELECT id FROM up) ORDER BY rowid";
    pawl_status status =
        each_row(e, conversation_id ? chain : all, conversation_id, export_response, error);
    if (!status)
        status = each_row(e,
                          conversation_id ? "SELECT id, 0 FROM conversation WHERE id = ?1"
                                          : "SELECT id, 0 FROM conversation ORDER BY rowid",
                          conversation_id, export_conversation, error);
    if (!status && conversation_id && !e->counts.conversations)
        status = pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored conversation %s",
                           conversation_id);
    return status;
}

static pawl_status export_all(exporter *e, const char *conversation_id, pawl_error *error)
{
    const base_clock *clock = clock_system();
    pawl_status status = db_exec(e->file.db, "BEGIN", error);
    if (!status)
        status = responses_open(&e->rows, e->file.db, false, error);
    if (!status)
        status = talks_open(&e->talks, &e->rows, false, error);
    if (status)
        return status;
    buf_printf(&e->line, "{\"pawl_export\":%d,\"created_ms\":%" PRId64 "}\n", TRANSFER_VERSION,
               clock->wall_ms(clock->context));
    status = write_line(e, "the header", error);
    if (!status)
        status = export_rows(e, conversation_id, error);
    if (status)
        return status;
    buf_printf(&e->line,
               "{\"type\":\"end\",\"responses\":%" PRId64 ",\"conversations\":%" PRId64 "}\n",
               e->counts.responses, e->counts.conversations);
    status = write_line(e, "the end", error);
    if (!status && fflush(e->to) != 0)
        status =
            pawl_fail(error, PAWL_E_DEVICE, "the export cannot be written: %s", strerror(errno));
    return status;
}

pawl_status transfer_export(const char *folder, const char *conversation_id, FILE *to,
                            transfer_counts *counts, pawl_error *error)
{
    exporter e = {.to = to};
    pawl_status status = care_open(folder, CARE_READ, &e.file, error);
    if (status)
        return status;
    buf_init(&e.line, TRANSFER_MAX_LINE);
    status = export_all(&e, conversation_id, error);
    free(e.parent);
    buf_clear(&e.line);
    talks_close(&e.talks);
    responses_close(&e.rows);
    care_close(&e.file);
    if (!status)
        *counts = e.counts;
    return status;
}
