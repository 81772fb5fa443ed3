/*
 * store/verify.c - is pawl.db sound? See verify.h.
 *
 * What is damaged is noted by its rowid in temporary tables, for an id may be what is
 * damaged. [main]
 *
 *     temp.bad_response (row)     temp.bad_talk (row)
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/verify.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "store/care.h"
#include "store/items.h"
#include "store/keys.h"
#include "store/record.h"
#include "store/rows.h"
#include "store/talks.h"

typedef struct checker {
    care file;
    responses rows;
    talks talks;
    verify_found found;
    void *arg;
    verify_report report;
} checker;

static void say(checker *c, const char *where, const char *what)
{
    c->report.faults++;
    c->found(c->arg, where, what);
}

static pawl_status open_checker(const char *folder, bool repair, verify_found found, void *arg,
                                checker *c, pawl_error *error)
{
    *c = (checker){.file = {.lock = -1}, .found = found, .arg = arg}; /* 0 is a descriptor */
    pawl_status status = care_open(folder, repair ? CARE_CHANGE : CARE_READ, &c->file, error);
    if (status)
        return status;
    status = responses_open(&c->rows, c->file.db, repair, error);
    if (!status)
        status = talks_open(&c->talks, &c->rows, repair, error);
    if (!status)
        status = db_exec(c->file.db,
                         "CREATE TEMP TABLE bad_response (row INTEGER PRIMARY KEY, why TEXT);"
                         "CREATE TEMP TABLE bad_talk (row INTEGER PRIMARY KEY, why TEXT);",
                         error);
    return status;
}

static void close_checker(checker *c)
{
    talks_close(&c->talks);
    responses_close(&c->rows);
    care_close(&c->file);
}

/* ---------------------------------------------------------------- the file --- */

/* Says each line that is not "ok"; *sound: there was none. */
static pawl_status check_file(checker *c, bool *sound, pawl_error *error)
{
    sqlite3_stmt *check;
    pawl_status status = db_prepare(c->file.db, "PRAGMA integrity_check(100)", &check, error);
    if (status)
        return status;
    int rc;
    *sound = true;
    while ((rc = sqlite3_step(check)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(check, 0);
        if (text && strcmp(text, "ok") == 0)
            continue;
        *sound = false;
        say(c, "pawl.db", text ? text : "?");
    }
    if (rc != SQLITE_DONE)
        status = db_fail(c->file.db, "checking it", error);
    sqlite3_finalize(check);
    return status;
}

/* -------------------------------------------------------------------- rows --- */

static pawl_status note_row(checker *c, const char *insert, int64_t row, const char *why,
                            pawl_error *error)
{
    sqlite3_stmt *statement;
    pawl_status status = db_prepare(c->file.db, insert, &statement, error);
    if (status)
        return status;
    sqlite3_bind_int64(statement, 1, row);
    rows_bind_text(statement, 2, why);
    status = rows_run(c->file.db, statement, "noting a fault", error);
    sqlite3_finalize(statement);
    return status;
}

#define NOTE_RESPONSE "INSERT OR IGNORE INTO bad_response VALUES (?1, ?2)"
#define NOTE_TALK "INSERT OR IGNORE INTO bad_talk VALUES (?1, ?2)"

/* What is wrong with a response that could be read, or NULL. One that is queued runs, or its
 * process was killed. */
static const char *fault_of(const store_response *r)
{
    if (strcmp(r->status, STORE_QUEUED) != 0 && !items_status_ok(r->status))
        return "status";
    if (!items_object_ok(r->request))
        return "request is no JSON object";
    if (!items_object_ok(r->result))
        return "result is no JSON object";
    if (!items_list_ok(r->input))
        return "input is no list of items";
    if (!items_list_ok(r->output))
        return "output is no list of items";
    for (uint64_t i = 0; i < r->n_tokens; i++)
        if (r->tokens[i] < 0)
            return "tokens";
    return NULL;
}

static pawl_status check_response(checker *c, int64_t row, const char *id, pawl_error *error)
{
    store_response *r = NULL;
    pawl_error why = {.struct_size = sizeof why};
    const char *fault = NULL;
    pawl_status status = id ? responses_get(&c->rows, id, STORE_GET_REMOVED, &r, &why)
                            : pawl_fail(&why, PAWL_E_FORMAT, "an id that is none");
    if (status == PAWL_E_FORMAT || status == PAWL_E_NOT_FOUND)
        fault = why.message;
    else if (status)
        return pawl_fail(error, status, "%s", why.message);
    else
        fault = fault_of(r);
    status = PAWL_OK;
    if (fault) {
        say(c, id ? id : "a response", fault);
        status = note_row(c, NOTE_RESPONSE, row, fault, error);
    }
    free(r);
    return status;
}

static pawl_status check_talk(checker *c, int64_t row, const char *id, pawl_error *error)
{
    store_conversation *talk = NULL;
    pawl_error why = {.struct_size = sizeof why};
    const char *fault = NULL;
    pawl_status status = id ? talks_get(&c->talks, id, &talk, &why)
                            : pawl_fail(&why, PAWL_E_FORMAT, "an id that is none");
    if (status == PAWL_E_FORMAT || status == PAWL_E_NOT_FOUND)
        fault = why.message;
    else if (status)
        return pawl_fail(error, status, "%s", why.message);
    else if (!items_object_ok(talk->metadata))
        fault = "metadata is no JSON object";
    else if (!items_list_ok(talk->tail))
        fault = "its tail is no list of items";
    status = PAWL_OK;
    if (fault) {
        say(c, id ? id : "a conversation", fault);
        status = note_row(c, NOTE_TALK, row, fault, error);
    }
    free(talk);
    return status;
}

/* Calls check for each row of a table; *n counts them. */
static pawl_status each_row(checker *c, const char *sql, int64_t *n,
                            pawl_status (*check)(checker *c, int64_t row, const char *id,
                                                 pawl_error *error),
                            pawl_error *error)
{
    sqlite3_stmt *rows;
    pawl_status status = db_prepare(c->file.db, sql, &rows, error);
    if (status)
        return status;
    int rc = SQLITE_DONE;
    while (!status && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
        const char *bad = NULL, *id = rows_link(rows, 1, &bad);
        (*n)++;
        status = check(c, sqlite3_column_int64(rows, 0), bad ? NULL : id, error);
    }
    if (!status && rc != SQLITE_DONE)
        status = db_fail(c->file.db, "reading it", error);
    sqlite3_finalize(rows);
    return status;
}

/* ------------------------------------------------------------------- links --- */

/* Says the rows that a query finds (rowid, id), and notes them. */
static pawl_status find_rows(checker *c, const char *sql, const char *note, const char *what,
                             pawl_error *error)
{
    sqlite3_stmt *rows;
    pawl_status status = db_prepare(c->file.db, sql, &rows, error);
    if (status)
        return status;
    int rc = SQLITE_DONE;
    while (!status && (rc = sqlite3_step(rows)) == SQLITE_ROW) {
        const char *id = (const char *)sqlite3_column_text(rows, 1);
        say(c, id ? id : "?", what);
        status = note_row(c, note, sqlite3_column_int64(rows, 0), what, error);
    }
    if (!status && rc != SQLITE_DONE)
        status = db_fail(c->file.db, "following links", error);
    sqlite3_finalize(rows);
    return status;
}

static pawl_status check_links(checker *c, pawl_error *error)
{
    pawl_status status = find_rows(c,
                                   "SELECT rowid, id FROM response WHERE parent IS NOT NULL AND "
                                   "parent NOT IN (SELECT id FROM response)",
                                   NOTE_RESPONSE, "its parent is missing", error);
    if (!status) /* whatever no root leads to, and is not below a missing parent */
        status = find_rows(
            c,
            "WITH RECURSIVE reached (id) AS (SELECT id FROM response WHERE parent IS NULL OR "
            "parent NOT IN (SELECT id FROM response) UNION SELECT response.id FROM response "
            "JOIN reached ON response.parent = reached.id) "
            "SELECT rowid, id FROM response WHERE id NOT IN (SELECT id FROM reached)",
            NOTE_RESPONSE, "it is its own ancestor, or descends from such a one", error);
    if (!status)
        status = find_rows(c,
                           "SELECT rowid, id FROM conversation WHERE head IS NOT NULL AND head NOT "
                           "IN (SELECT id FROM response)",
                           NOTE_TALK, "its head is missing", error);
    if (!status)
        status = find_rows(c,
                           "SELECT conversation.rowid, conversation.id FROM conversation JOIN "
                           "response ON response.id IN (head, base) WHERE response.tenant <> "
                           "conversation.tenant GROUP BY conversation.rowid",
                           NOTE_TALK, "its head is another tenant's", error);
    return status;
}

static pawl_status check_keys(checker *c, pawl_error *error)
{
    keys all;
    char what[64];
    pawl_status status = keys_open(&all, error);
    if (status)
        return status;
    status = keys_load(&all, c->file.db, error);
    c->report.keys = (int64_t)(all.n + all.n_damaged);
    snprintf(what, sizeof what, "%zu of them cannot be believed", all.n_damaged);
    if (!status && all.n_damaged)
        say(c, "keys", what);
    keys_close(&all);
    return status;
}

static pawl_status check_all(checker *c, pawl_error *error)
{
    bool sound;
    pawl_status status = check_file(c, &sound, error);
    if (!status)
        status = each_row(c, "SELECT rowid, id FROM response", &c->report.responses, check_response,
                          error);
    if (!status)
        status = each_row(c, "SELECT rowid, id FROM conversation", &c->report.conversations,
                          check_talk, error);
    if (!status)
        status = check_links(c, error);
    if (!status)
        status = check_keys(c, error);
    if (!status)
        status = db_get_int(c->file.db,
                            "SELECT count(*) FROM response WHERE removed AND NOT EXISTS (SELECT 1 "
                            "FROM response AS child WHERE child.parent = response.id) AND NOT "
                            "EXISTS (SELECT 1 FROM conversation WHERE head = response.id)",
                            &c->report.unneeded, error);
    return status;
}

pawl_status verify_run(const char *folder, verify_found found, void *arg, verify_report *out,
                       pawl_error *error)
{
    checker c;
    pawl_status status = open_checker(folder, false, found, arg, &c, error);
    if (!status)
        status = check_all(&c, error);
    close_checker(&c);
    if (!status)
        *out = c.report;
    return status;
}

/* ------------------------------------------------------------------ repair --- */

/* Conversations whose head is to go follow its parents up until one stays. */
static pawl_status move_heads(checker *c, pawl_error *error)
{
    int64_t steps = 0;
    pawl_status status = db_get_int(c->file.db, "SELECT count(*) FROM bad_response", &steps, error);
    int changed = 1, first = -1;
    for (; !status && changed && steps >= 0; steps--) { /* a ring ends it, too */
        status = db_exec(c->file.db,
                         "UPDATE conversation SET revision = revision + 1, head = (SELECT parent "
                         "FROM response WHERE response.id = head) WHERE head IN (SELECT id FROM "
                         "response WHERE rowid IN (SELECT row FROM bad_response)) AND rowid NOT "
                         "IN (SELECT row FROM bad_talk)",
                         error);
        changed = sqlite3_changes(c->file.db);
        if (first < 0)
            first = changed;
    }
    c->report.moved = first > 0 ? first : 0;
    return status;
}

static pawl_status take_out(checker *c, pawl_error *error)
{
    static const char delete_talks[] =
        "DELETE FROM conversation WHERE rowid IN (SELECT row FROM bad_talk)";
    static const char delete_responses[] =
        "DELETE FROM response WHERE rowid IN (SELECT row FROM bad_response)";
    pawl_status status = db_exec(
        c->file.db,
        "WITH RECURSIVE down (row, id) AS (SELECT rowid, id FROM response WHERE rowid IN (SELECT "
        "row FROM bad_response) UNION SELECT response.rowid, response.id FROM response JOIN down "
        "ON response.parent = down.id) INSERT OR IGNORE INTO bad_response SELECT row, NULL FROM "
        "down",
        error);
    if (!status)
        status = move_heads(c, error);
    if (!status)
        status = db_exec(c->file.db, delete_talks, error);
    if (!status)
        c->report.removed += sqlite3_changes(c->file.db);
    if (!status)
        status = db_exec(c->file.db,
                         "UPDATE conversation SET head = NULL WHERE head IN (SELECT id FROM "
                         "response WHERE rowid IN (SELECT row FROM bad_response)) OR head NOT IN "
                         "(SELECT id FROM response);"
                         "UPDATE conversation SET base = NULL WHERE base NOT IN (SELECT id FROM "
                         "response WHERE rowid NOT IN (SELECT row FROM bad_response))",
                         error);
    if (!status)
        status = db_exec(c->file.db, delete_responses, error);
    if (!status)
        c->report.removed += sqlite3_changes(c->file.db);
    return status;
}

static pawl_status is_sound_now(checker *c, pawl_error *error)
{
    int64_t links = 0;
    bool sound = true;
    pawl_status status = check_file(c, &sound, error);
    if (!status)
        status =
            db_get_int(c->file.db, "SELECT count(*) FROM pragma_foreign_key_check", &links, error);
    if (!status && (!sound || links))
        status = pawl_fail(error, PAWL_E_FORMAT,
                           "%s: taking the damaged rows out does not help; restore a backup",
                           c->file.path);
    return status;
}

static pawl_status repair(checker *c, pawl_error *error)
{
    /* Links may be torn in between, and are whole at COMMIT. */
    pawl_status status =
        db_exec(c->file.db, "BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON", error);
    if (!status)
        status = take_out(c, error);
    if (!status)
        status = is_sound_now(c, error);
    if (!status)
        return db_exec(c->file.db, "COMMIT", error);
    if (!sqlite3_get_autocommit(c->file.db))
        db_exec(c->file.db, "ROLLBACK", NULL);
    return status;
}

static pawl_status copy_before(checker *c, pawl_error *error)
{
    char *sql;
    int n = snprintf(c->report.copy, sizeof c->report.copy, "%s.damaged-%lld", c->file.path,
                     (long long)time(NULL));
    if (n < 0 || (size_t)n >= sizeof c->report.copy)
        return pawl_fail(error, PAWL_E_LIMIT, "%s: the name is too long to copy it", c->file.path);
    sql = sqlite3_mprintf("VACUUM INTO %Q", c->report.copy);
    pawl_status status =
        sql ? db_exec(c->file.db, sql, error)
            : pawl_fail(error, PAWL_E_MEMORY, "no memory to copy %s", c->file.path);
    sqlite3_free(sql);
    return status;
}

pawl_status verify_repair(const char *folder, verify_found found, void *arg, verify_report *out,
                          pawl_error *error)
{
    checker c;
    int64_t damaged = 0;
    pawl_status status = open_checker(folder, true, found, arg, &c, error);
    if (!status)
        status = check_all(&c, error);
    if (!status)
        status = db_get_int(c.file.db,
                            "SELECT (SELECT count(*) FROM bad_response) + (SELECT count(*) FROM "
                            "bad_talk)",
                            &damaged, error);
    if (!status && damaged)
        status = copy_before(&c, error);
    if (!status && damaged)
        status = repair(&c, error);
    close_checker(&c);
    if (!status)
        *out = c.report;
    return status;
}
