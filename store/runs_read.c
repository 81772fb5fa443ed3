/*
 * store/runs_read.c - what is asked about runs of pipelines. See runs.h.
 *
 * A row is what someone wrote into a file once: every column is checked before it is
 * believed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/runs.h"

#include <stdlib.h>
#include <string.h>

#include "store/record.h"

#define RUN_TEXTS 8
#define MAX_LISTED 1000
#define COLUMNS "id, pipeline, path, source, state, tenant, "
#define TIMES ", created_ms, updated_ms FROM run "

/* A text column that is one, without NUL inside; NULL otherwise. */
static const char *text_at(sqlite3_stmt *row, int at, size_t *size)
{
    if (sqlite3_column_type(row, at) != SQLITE_TEXT)
        return NULL;
    const char *text = (const char *)sqlite3_column_text(row, at);
    *size = (size_t)sqlite3_column_bytes(row, at);
    return text && strlen(text) == *size ? text : NULL;
}

static pawl_status damaged(pawl_error *error, const char *what)
{
    return pawl_fail(error, PAWL_E_FORMAT, "a stored %s is damaged", what);
}

/* A list that grows in one block: the structs first, their texts behind, as offsets until
 * it is complete. */
typedef struct block {
    char *texts;
    size_t size, room;
} block;

static bool keep(block *b, const char *text, size_t size, size_t *offset)
{
    if (b->size + size + 1 > b->room) {
        size_t wanted = 2 * (b->size + size + 1);
        char *more = realloc(b->texts, wanted);
        if (!more)
            return false;
        b->texts = more;
        b->room = wanted;
    }
    *offset = b->size;
    memcpy(b->texts + b->size, text, size + 1);
    b->size += size + 1;
    return true;
}

/* The structs (n of unit bytes) and the texts as one allocation. NULL without memory. */
static char *join(const void *structs, size_t bytes, const block *b)
{
    char *all = malloc(bytes + b->size + 1);
    if (!all)
        return NULL;
    memcpy(all, structs, bytes);
    if (b->size)
        memcpy(all + bytes, b->texts, b->size);
    return all;
}

/* A member that holds an offset becomes a pointer. */
static const char *place(const char *base, const char *offset)
{
    return base + (uintptr_t)offset;
}

static const char *as_offset(size_t offset)
{
    return (const char *)(uintptr_t)offset;
}

/* ------------------------------------------------------------------- runs --- */

static pawl_status take_run(sqlite3_stmt *row, store_run *run, block *b, pawl_error *error)
{
    const char **const members[RUN_TEXTS] = {&run->id,     &run->pipeline, &run->path,
                                             &run->source, &run->state,    &run->tenant,
                                             &run->params, &run->result};
    for (int i = 0; i < RUN_TEXTS; i++) {
        size_t size = 0, offset = 0;
        const char *text = text_at(row, i, &size);
        if (!text || (i == 0 && !record_id_ok(text)))
            return damaged(error, "run");
        if (!keep(b, text, size, &offset))
            return pawl_fail(error, PAWL_E_MEMORY, "no memory for a stored run");
        *members[i] = as_offset(offset);
    }
    run->created_ms = sqlite3_column_int64(row, RUN_TEXTS);
    run->updated_ms = sqlite3_column_int64(row, RUN_TEXTS + 1);
    return PAWL_OK;
}

/* All rows of the statement, which it finalizes. */
static pawl_status take_runs(sqlite3 *db, sqlite3_stmt *rows, size_t max, store_run **out,
                             size_t *n_out, pawl_error *error)
{
    block b = {0};
    store_run *list = calloc(max + 1, sizeof *list);
    pawl_status status = list ? PAWL_OK : pawl_fail(error, PAWL_E_MEMORY, "no memory for runs");
    size_t n = 0;
    int rc = SQLITE_DONE;
    while (!status && n < max && (rc = sqlite3_step(rows)) == SQLITE_ROW)
        status = take_run(rows, &list[n++], &b, error);
    if (!status && rc != SQLITE_DONE && rc != SQLITE_ROW)
        status = db_fail(db, "reading runs", error);
    size_t bytes = (n + 1) * sizeof *list;
    char *all = status ? NULL : join(list, bytes, &b);
    if (!status && !all)
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory for runs");
    if (all) {
        store_run *made = (store_run *)(void *)all;
        for (size_t i = 0; i < n; i++) {
            const char **const members[RUN_TEXTS] = {
                &made[i].id,    &made[i].pipeline, &made[i].path,   &made[i].source,
                &made[i].state, &made[i].tenant,   &made[i].params, &made[i].result};
            for (int k = 0; k < RUN_TEXTS; k++)
                *members[k] = place(all + bytes, *members[k]);
        }
        *out = made;
        *n_out = n;
    }
    sqlite3_finalize(rows);
    free(list);
    free(b.texts);
    return status;
}

static pawl_status get(sqlite3 *db, const runs_question *q, pawl_error *error)
{
    sqlite3_stmt *rows;
    store_run *found = NULL;
    size_t n = 0;
    pawl_status status =
        db_prepare(db, "SELECT " COLUMNS "params, result" TIMES "WHERE id = ?1", &rows, error);
    if (status)
        return status;
    sqlite3_bind_text(rows, 1, q->id, -1, SQLITE_STATIC);
    status = take_runs(db, rows, 1, &found, &n, error);
    if (!status && n == 0) {
        free(found);
        return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored run %s", q->id);
    }
    if (!status)
        *q->run = found;
    return status;
}

static pawl_status list(sqlite3 *db, const runs_question *q, pawl_error *error)
{
    sqlite3_stmt *rows;
    size_t max = q->max < MAX_LISTED ? q->max : MAX_LISTED;
    pawl_status status =
        db_prepare(db,
                   "SELECT " COLUMNS "'', ''" TIMES
                   "WHERE ?1 IS NULL OR state = ?1 ORDER BY created_ms DESC, id LIMIT ?2",
                   &rows, error);
    if (status)
        return status;
    if (q->id)
        sqlite3_bind_text(rows, 1, q->id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(rows, 2, (sqlite3_int64)max);
    return take_runs(db, rows, max, q->run, q->n, error);
}

/* ----------------------------------------------------------------- events --- */

static pawl_status take_event(sqlite3_stmt *row, store_event *event, block *b, pawl_error *error)
{
    size_t size = 0, offset = 0;
    event->seq = (uint64_t)sqlite3_column_int64(row, 0);
    event->at_ms = sqlite3_column_int64(row, 1);
    const char **const members[] = {&event->type, &event->data};
    for (int i = 0; i < 2; i++) {
        const char *text = text_at(row, 2 + i, &size);
        if (!text)
            return damaged(error, "event");
        if (!keep(b, text, size, &offset))
            return pawl_fail(error, PAWL_E_MEMORY, "no memory for stored events");
        *members[i] = as_offset(offset);
    }
    return PAWL_OK;
}

static pawl_status events(sqlite3 *db, const runs_question *q, pawl_error *error)
{
    sqlite3_stmt *rows;
    size_t max = q->max < STORE_MAX_AT_ONCE ? q->max : STORE_MAX_AT_ONCE, n = 0;
    block b = {0};
    int rc = SQLITE_DONE;
    pawl_status status = db_prepare(db,
                                    "SELECT seq, at_ms, type, data FROM run_event WHERE run = ?1 "
                                    "AND seq > ?2 ORDER BY seq LIMIT ?3",
                                    &rows, error);
    if (status)
        return status;
    sqlite3_bind_text(rows, 1, q->id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(rows, 2, q->after > INT64_MAX ? INT64_MAX : (sqlite3_int64)q->after);
    sqlite3_bind_int64(rows, 3, (sqlite3_int64)max);
    store_event *found = calloc(max + 1, sizeof *found);
    if (!found)
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory for stored events");
    while (!status && n < max && (rc = sqlite3_step(rows)) == SQLITE_ROW)
        status = take_event(rows, &found[n++], &b, error);
    if (!status && rc != SQLITE_DONE && rc != SQLITE_ROW)
        status = db_fail(db, "reading events", error);
    size_t bytes = (n + 1) * sizeof *found;
    char *all = status ? NULL : join(found, bytes, &b);
    if (!status && !all)
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory for stored events");
    if (all) {
        store_event *made = (store_event *)(void *)all;
        for (size_t i = 0; i < n; i++) {
            made[i].type = place(all + bytes, made[i].type);
            made[i].data = place(all + bytes, made[i].data);
        }
        *q->events = made;
        *q->n = n;
    }
    sqlite3_finalize(rows);
    free(found);
    free(b.texts);
    return status;
}

/* ----------------------------------------------------------------- others --- */

/* The one text that the statement, which it finalizes, gives. */
static pawl_status take_text(sqlite3 *db, sqlite3_stmt *row, const char *what, char **out,
                             pawl_error *error)
{
    pawl_status status = PAWL_OK;
    size_t size = 0;
    int rc = sqlite3_step(row);
    const char *text = rc == SQLITE_ROW ? text_at(row, 0, &size) : NULL;
    char *copy = text ? strdup(text) : NULL;
    if (copy)
        *out = copy;
    else if (rc == SQLITE_DONE)
        status = pawl_fail(error, PAWL_E_NOT_FOUND, "there is no such stored %s", what);
    else if (rc != SQLITE_ROW)
        status = db_fail(db, "reading of a run", error);
    else
        status = text ? pawl_fail(error, PAWL_E_MEMORY, "no memory for a stored %s", what)
                      : damaged(error, what);
    sqlite3_finalize(row);
    return status;
}

static pawl_status one_text(sqlite3 *db, const runs_question *q, const char *sql, const char *what,
                            pawl_error *error)
{
    sqlite3_stmt *row;
    pawl_status status = db_prepare(db, sql, &row, error);
    if (status)
        return status;
    sqlite3_bind_text(row, 1, q->id, -1, SQLITE_STATIC);
    if (q->key)
        sqlite3_bind_text(row, 2, q->key, -1, SQLITE_STATIC);
    return take_text(db, row, what, q->text, error);
}

static pawl_status measure(sqlite3 *db, const runs_question *q, pawl_error *error)
{
    sqlite3_stmt *row;
    pawl_status status =
        db_prepare(db,
                   "SELECT (SELECT count(*) FROM step WHERE run = ?1), (SELECT "
                   "coalesce(sum(length(key) + length(value)), 0) FROM step WHERE run = ?1), "
                   "(SELECT coalesce(max(seq), 0) FROM run_event WHERE run = ?1)",
                   &row, error);
    if (status)
        return status;
    sqlite3_bind_text(row, 1, q->id, -1, SQLITE_STATIC);
    if (sqlite3_step(row) == SQLITE_ROW)
        *q->size = (store_run_size){(uint64_t)sqlite3_column_int64(row, 0),
                                    (uint64_t)sqlite3_column_int64(row, 1),
                                    (uint64_t)sqlite3_column_int64(row, 2)};
    else
        status = db_fail(db, "measuring a run", error);
    sqlite3_finalize(row);
    return status;
}

pawl_status runs_read(sqlite3 *db, void *arg, pawl_error *error)
{
    const runs_question *q = arg;
    switch (q->kind) {
    case RUNS_GET:
        return get(db, q, error);
    case RUNS_SOURCE:
        return one_text(db, q, "SELECT text FROM source WHERE hash = ?1", "script", error);
    case RUNS_STEP:
        return one_text(db, q, "SELECT value FROM step WHERE run = ?1 AND key = ?2", "step", error);
    case RUNS_LIST:
        return list(db, q, error);
    case RUNS_EVENTS:
        return events(db, q, error);
    case RUNS_MEASURE:
        return measure(db, q, error);
    }
    return PAWL_E_INTERNAL;
}
