/*
 * store/stats.c - what is in pawl.db. See stats.h.
 *
 * Lengths come from the rows' headers: no text and no timeline is read for them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/stats.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "store/care.h"
#include "store/record.h"
#include "store/rows.h"

static pawl_status read_numbers(sqlite3 *db, stats *out, pawl_error *error)
{
    const struct {
        int64_t *to;
        const char *sql;
    } list[] = {
        {&out->version, "PRAGMA user_version"},
        {&out->responses, "SELECT count(*) FROM response WHERE NOT removed"},
        {&out->removed, "SELECT count(*) FROM response WHERE removed"},
        {&out->conversations, "SELECT count(*) FROM conversation"},
        {&out->keys, "SELECT count(*) FROM api_key"},
        {&out->keys_revoked, "SELECT count(*) FROM api_key WHERE revoked_ms"},
        {&out->tokens, "SELECT coalesce(sum(length(tokens)) / 4, 0) FROM response"},
        {&out->oldest_ms, "SELECT coalesce(min(created_ms), 0) FROM response WHERE NOT removed"},
        {&out->newest_ms, "SELECT coalesce(max(created_ms), 0) FROM response WHERE NOT removed"},
    };
    int64_t pages = 0, size = 0;
    pawl_status status = PAWL_OK;
    for (size_t i = 0; i < sizeof list / sizeof list[0] && !status; i++)
        status = db_get_int(db, list[i].sql, list[i].to, error);
    if (!status)
        status = db_get_int(db, "PRAGMA freelist_count", &pages, error);
    if (!status)
        status = db_get_int(db, "PRAGMA page_size", &size, error);
    out->unused_bytes = pages * size;
    return status;
}

static pawl_status read_tenants(sqlite3 *db, stats *out, pawl_error *error)
{
    sqlite3_stmt *rows;
    pawl_status status = db_prepare(
        db,
        "SELECT tenant, sum(n), sum(talks), sum(bytes) FROM ("
        "SELECT tenant, NOT removed AS n, 0 AS talks, length(request) + length(result) + "
        "length(input) + length(output) + length(tokens) AS bytes FROM response UNION ALL "
        "SELECT tenant, 0, 1, length(metadata) + length(tail) FROM conversation) "
        "GROUP BY tenant ORDER BY sum(bytes) DESC, tenant LIMIT ?1",
        &rows, error);
    if (status)
        return status;
    out->tenants = calloc(STATS_MAX_TENANTS, sizeof *out->tenants);
    if (!out->tenants)
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory for the tenants");
    sqlite3_bind_int(rows, 1, STATS_MAX_TENANTS);
    int rc = SQLITE_DONE;
    while (!status && out->n_tenants < STATS_MAX_TENANTS &&
           (rc = sqlite3_step(rows)) == SQLITE_ROW) {
        const char *bad = NULL, *name = rows_text(rows, 0, RECORD_MAX_TENANT, &bad);
        stats_tenant *tenant = &out->tenants[out->n_tenants++];
        snprintf(tenant->tenant, sizeof tenant->tenant, "%s", name ? name : "?");
        tenant->responses = sqlite3_column_int64(rows, 1);
        tenant->conversations = sqlite3_column_int64(rows, 2);
        tenant->bytes = sqlite3_column_int64(rows, 3);
    }
    if (!status && rc != SQLITE_ROW && rc != SQLITE_DONE)
        status = db_fail(db, "counting", error);
    sqlite3_finalize(rows);
    return status;
}

pawl_status stats_read(const char *folder, stats *out, pawl_error *error)
{
    care c;
    stats made = {0};
    pawl_status status = care_open(folder, CARE_READ, &c, error);
    if (status)
        return status;
    status = db_exec(c.db, "BEGIN", error); /* all of it from one moment */
    if (!status)
        status = read_numbers(c.db, &made, error);
    if (!status)
        status = read_tenants(c.db, &made, error);
    made.file_bytes = file_size(c.path, "");
    made.log_bytes = file_size(c.path, "-wal");
    care_close(&c);
    if (status)
        stats_clear(&made);
    else
        *out = made;
    return status;
}

void stats_clear(stats *s)
{
    free(s->tenants);
    *s = (stats){0};
}
