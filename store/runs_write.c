/*
 * store/runs_write.c - what changes runs of pipelines. See runs.h.
 *
 * Statements live for one write: what a write costs is its flush.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/runs.h"

#include <stdlib.h>
#include <string.h>

#include "store/record.h"

#define TEXTS_OF_RUN 8

/* Texts that point into the same allocation, which follows them. */
struct runs_write {
    store_run run;
    const char *text; /* of the source, or NULL */
    store_addition more;
    store_event events[];
};

/* --------------------------------------------------------------- checking --- */

typedef struct member {
    const char *name, *text;
    size_t max;
} member;

static pawl_status check(const member *members, size_t n, pawl_error *error)
{
    for (size_t i = 0; i < n; i++) {
        if (!members[i].text)
            return pawl_fail(error, PAWL_E_ARGUMENT, "a run without %s", members[i].name);
        if (strnlen(members[i].text, members[i].max + 1) > members[i].max)
            return pawl_fail(error, PAWL_E_LIMIT, "a run whose %s has more than %zu bytes",
                             members[i].name, members[i].max);
    }
    return PAWL_OK;
}

static bool is_state(const char *state)
{
    static const char *const states[] = {"running", "parked", "done", "failed", "cancelled"};
    for (size_t i = 0; state && i < sizeof states / sizeof states[0]; i++)
        if (strcmp(state, states[i]) == 0)
            return true;
    return false;
}

static pawl_status check_run(const store_run *run, const char *text, pawl_error *error)
{
    const member members[] = {{"pipeline", run->pipeline, 128},
                              {"path", run->path, 4096},
                              {"source", run->source, 64},
                              {"tenant", run->tenant, RECORD_MAX_TENANT},
                              {"params", run->params, STORE_MAX_VALUE},
                              {"result", run->result, STORE_MAX_VALUE},
                              {"text", text ? text : "", STORE_MAX_SOURCE}};
    if (!record_id_ok(run->id))
        return pawl_fail(error, PAWL_E_ARGUMENT, "a run's id has 1 to %d bytes", RECORD_MAX_ID);
    if (!is_state(run->state))
        return pawl_fail(error, PAWL_E_ARGUMENT, "a run of no known state");
    if (run->source && strlen(run->source) != 64)
        return pawl_fail(error, PAWL_E_ARGUMENT, "a run's source is a digest of 64 hex digits");
    return check(members, sizeof members / sizeof members[0], error);
}

static pawl_status check_addition(const store_addition *more, pawl_error *error)
{
    const member step[] = {{"step's key", more->key, STORE_MAX_STEP_KEY},
                           {"step's value", more->value, STORE_MAX_VALUE}};
    pawl_status status = PAWL_OK;
    if (!record_id_ok(more->run))
        return pawl_fail(error, PAWL_E_ARGUMENT, "a run's id has 1 to %d bytes", RECORD_MAX_ID);
    if (more->n_events > STORE_MAX_AT_ONCE)
        return pawl_fail(error, PAWL_E_LIMIT, "more than %d events in one write",
                         STORE_MAX_AT_ONCE);
    if (more->key)
        status = check(step, 2, error);
    for (size_t i = 0; i < more->n_events && !status; i++) {
        const member event[] = {{"event's type", more->events[i].type, STORE_MAX_EVENT_TYPE},
                                {"event's data", more->events[i].data, STORE_MAX_EVENT_DATA}};
        status = check(event, 2, error);
        if (!status && (more->events[i].seq == 0 || more->events[i].seq > INT64_MAX))
            status = pawl_fail(error, PAWL_E_ARGUMENT, "an event's number begins at 1");
    }
    return status;
}

/* --------------------------------------------------------------- copying --- */

/* Copies texts behind each other; NULL stays NULL. */
typedef struct packer {
    char *at;
} packer;

static const char *pack(packer *p, const char *text)
{
    if (!text)
        return NULL;
    size_t size = strlen(text) + 1;
    char *copy = memcpy(p->at, text, size);
    p->at += size;
    return copy;
}

static size_t room(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

pawl_status runs_prepare_put(const store_run *run, const char *text, runs_write **what,
                             size_t *size, pawl_error *error)
{
    pawl_status status = check_run(run, text, error);
    if (status)
        return status;
    size_t total = sizeof **what + room(run->id) + room(run->pipeline) + room(run->path) +
                   room(run->source) + room(run->state) + room(run->tenant) + room(run->params) +
                   room(run->result) + room(text);
    runs_write *made = calloc(1, total);
    if (!made)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to store the run %s", run->id);
    packer p = {(char *)(made + 1)};
    made->run = *run;
    const char **const texts[TEXTS_OF_RUN] = {
        &made->run.id,    &made->run.pipeline, &made->run.path,   &made->run.source,
        &made->run.state, &made->run.tenant,   &made->run.params, &made->run.result};
    for (size_t i = 0; i < TEXTS_OF_RUN; i++)
        *texts[i] = pack(&p, *texts[i]);
    made->text = pack(&p, text);
    *what = made;
    *size = total;
    return PAWL_OK;
}

pawl_status runs_prepare_add(const store_addition *more, runs_write **what, size_t *size,
                             pawl_error *error)
{
    pawl_status status = check_addition(more, error);
    if (status)
        return status;
    size_t n = more->n_events, total = sizeof **what + n * sizeof *more->events;
    total += room(more->run) + room(more->key) + room(more->key ? more->value : NULL);
    for (size_t i = 0; i < n; i++)
        total += room(more->events[i].type) + room(more->events[i].data);
    runs_write *made = calloc(1, total);
    if (!made)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to add to the run %s", more->run);
    packer p = {(char *)(made->events + n)};
    made->more = *more;
    made->more.run = pack(&p, more->run);
    made->more.key = pack(&p, more->key);
    made->more.value = pack(&p, more->key ? more->value : NULL);
    made->more.events = made->events;
    for (size_t i = 0; i < n; i++) {
        made->events[i] = more->events[i];
        made->events[i].type = pack(&p, more->events[i].type);
        made->events[i].data = pack(&p, more->events[i].data);
    }
    *what = made;
    *size = total;
    return PAWL_OK;
}

/* --------------------------------------------------------------- applying --- */

/* Runs one statement; texts: n of them as ?1…, then numbers. */
static pawl_status execute(sqlite3 *db, const char *sql, const char *const *texts, size_t n_texts,
                           const int64_t *numbers, size_t n_numbers, const char *doing,
                           pawl_error *error)
{
    sqlite3_stmt *statement;
    pawl_status status = db_prepare(db, sql, &statement, error);
    if (status)
        return status;
    for (size_t i = 0; i < n_texts; i++)
        sqlite3_bind_text64(statement, (int)i + 1, texts[i], strlen(texts[i]), SQLITE_STATIC,
                            SQLITE_UTF8);
    for (size_t i = 0; i < n_numbers; i++)
        sqlite3_bind_int64(statement, (int)(n_texts + i) + 1, numbers[i]);
    if (sqlite3_step(statement) != SQLITE_DONE)
        status = db_fail(db, doing, error);
    sqlite3_finalize(statement);
    return status;
}

static pawl_status exists(sqlite3 *db, const char *sql, const char *id, bool *found,
                          pawl_error *error)
{
    sqlite3_stmt *statement;
    pawl_status status = db_prepare(db, sql, &statement, error);
    if (status)
        return status;
    sqlite3_bind_text(statement, 1, id, -1, SQLITE_STATIC);
    int rc = sqlite3_step(statement);
    *found = rc == SQLITE_ROW;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        status = db_fail(db, "looking for a run", error);
    sqlite3_finalize(statement);
    return status;
}

/* Ended runs beyond the latest STORE_MAX_RUNS go, and texts that nobody uses any more. */
static pawl_status prune(sqlite3 *db, pawl_error *error)
{
    const int64_t most = STORE_MAX_RUNS;
    pawl_status status =
        execute(db,
                "DELETE FROM run WHERE id IN (SELECT id FROM run WHERE state IN ('done', 'failed', "
                "'cancelled') ORDER BY created_ms DESC LIMIT -1 OFFSET ?1)",
                NULL, 0, &most, 1, "removing old runs", error);
    if (!status && sqlite3_changes(db))
        status =
            db_exec(db, "DELETE FROM source WHERE hash NOT IN (SELECT source FROM run)", error);
    return status;
}

pawl_status runs_put(sqlite3 *db, const void *what, pawl_error *error)
{
    const runs_write *w = what;
    const store_run *run = &w->run;
    const char *const source[] = {run->source, w->text};
    bool found = false;
    pawl_status status = PAWL_OK;
    if (w->text)
        status = execute(db, "INSERT OR IGNORE INTO source (hash, text) VALUES (?1, ?2)", source, 2,
                         NULL, 0, "storing a script", error);
    if (!status)
        status = exists(db, "SELECT 1 FROM source WHERE hash = ?1", run->source, &found, error);
    if (!status && !found)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored script %s", run->source);
    const char *const texts[TEXTS_OF_RUN] = {run->id,    run->pipeline, run->path,   run->source,
                                             run->state, run->tenant,   run->params, run->result};
    const int64_t times[] = {run->created_ms, run->updated_ms};
    if (!status)
        status = execute(
            db,
            "INSERT INTO run (id, pipeline, path, source, state, tenant, params, result, "
            "created_ms, updated_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT "
            "(id) DO UPDATE SET state = ?5, params = ?7, result = ?8, updated_ms = ?10",
            texts, TEXTS_OF_RUN, times, 2, "storing a run", error);
    return status ? status : prune(db, error);
}

static pawl_status add_events(sqlite3 *db, const store_addition *more, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    for (size_t i = 0; i < more->n_events && !status; i++) {
        const store_event *event = &more->events[i];
        const char *const texts[] = {more->run, event->type, event->data};
        const int64_t numbers[] = {(int64_t)event->seq, event->at_ms};
        status = execute(db,
                         "INSERT INTO run_event (run, type, data, seq, at_ms) VALUES (?1, ?2, ?3, "
                         "?4, ?5)",
                         texts, 3, numbers, 2, "storing an event", error);
    }
    if (status || !more->n_events)
        return status;
    const int64_t last = (int64_t)more->events[more->n_events - 1].seq;
    const int64_t before = last > STORE_MAX_EVENTS ? last - STORE_MAX_EVENTS : 0;
    return execute(db, "DELETE FROM run_event WHERE run = ?1 AND seq <= ?2", &more->run, 1, &before,
                   1, "removing old events", error);
}

pawl_status runs_add(sqlite3 *db, const void *what, pawl_error *error)
{
    const store_addition *more = &((const runs_write *)what)->more;
    bool found = false;
    pawl_status status = exists(db, "SELECT 1 FROM run WHERE id = ?1", more->run, &found, error);
    if (!status && !found)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored run %s", more->run);
    if (!status && more->key) {
        const char *const texts[] = {more->run, more->key, more->value};
        status = execute(db, "INSERT INTO step (run, key, value, at_ms) VALUES (?1, ?2, ?3, ?4)",
                         texts, 3, &more->at_ms, 1, "storing a step", error);
    }
    return status ? status : add_events(db, more, error);
}

pawl_status runs_remove(sqlite3 *db, const void *what, pawl_error *error)
{
    const char *const id = what;
    pawl_status status =
        execute(db, "DELETE FROM run WHERE id = ?1", &id, 1, NULL, 0, "removing a run", error);
    if (!status && sqlite3_changes(db) == 0)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored run %s", id);
    if (!status)
        status =
            db_exec(db, "DELETE FROM source WHERE hash NOT IN (SELECT source FROM run)", error);
    return status;
}
