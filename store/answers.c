/*
 * store/answers.c - which response answered a key. See answers.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/answers.h"

#include <string.h>

#include "store/rows.h"

#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)

pawl_status answers_open(answers *a, sqlite3 *db, bool writes, pawl_error *error)
{
    answers made = {.db = db};
    const struct {
        sqlite3_stmt **to;
        const char *sql;
    } list[] = {
        {&made.find, "SELECT hash, response FROM idempotency WHERE tenant = ?1 AND key = ?2 AND "
                     "created_ms >= ?3"},
        {&made.insert, "INSERT OR REPLACE INTO idempotency (tenant, key, hash, response, "
                       "created_ms) VALUES (?1, ?2, ?3, ?4, ?5)"},
        {&made.expire, "DELETE FROM idempotency WHERE created_ms < ?1 OR number <= "
                       "last_insert_rowid() - " TEXT_OF(ANSWERS_MAX)},
        {&made.forget, "DELETE FROM idempotency WHERE response = ?1"},
    };
    size_t n = writes ? sizeof list / sizeof list[0] : 1;
    for (size_t i = 0; i < n; i++) {
        pawl_status status = db_prepare(db, list[i].sql, list[i].to, error);
        if (status) {
            answers_close(&made);
            return status;
        }
    }
    *a = made;
    return PAWL_OK;
}

void answers_close(answers *a)
{
    sqlite3_finalize(a->find);
    sqlite3_finalize(a->insert);
    sqlite3_finalize(a->expire);
    sqlite3_finalize(a->forget);
    memset(a, 0, sizeof *a);
}

pawl_status answers_put(answers *a, const store_response *response, pawl_error *error)
{
    const char *const texts[] = {response->tenant ? response->tenant : "", response->key,
                                 response->key_hash, response->id};
    for (int i = 0; i < 4; i++)
        sqlite3_bind_text(a->insert, 1 + i, texts[i], -1, SQLITE_STATIC);
    sqlite3_bind_int64(a->insert, 5, response->completed_ms);
    pawl_status status = rows_run(a->db, a->insert, "noting an Idempotency-Key", error);
    if (status)
        return status;
    sqlite3_bind_int64(a->expire, 1, response->completed_ms - STORE_ANSWER_MS);
    return rows_run(a->db, a->expire, "dropping old Idempotency-Keys", error);
}

pawl_status answers_forget(answers *a, const char *response_id, pawl_error *error)
{
    sqlite3_bind_text(a->forget, 1, response_id, -1, SQLITE_STATIC);
    return rows_run(a->db, a->forget, "forgetting an Idempotency-Key", error);
}

pawl_status answers_find(answers *a, const char *tenant, const char *key, int64_t since_ms,
                         store_answer *out, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    store_answer found;
    sqlite3_bind_text(a->find, 1, tenant, -1, SQLITE_STATIC);
    sqlite3_bind_text(a->find, 2, key, -1, SQLITE_STATIC);
    sqlite3_bind_int64(a->find, 3, since_ms);
    int rc = sqlite3_step(a->find);
    if (rc != SQLITE_ROW)
        status = rc == SQLITE_DONE ? pawl_fail(error, PAWL_E_NOT_FOUND, "the key is new")
                                   : db_fail(a->db, "looking for an Idempotency-Key", error);
    else if (!rows_copy_text(a->find, 0, found.hash, sizeof found.hash) ||
             !rows_copy_text(a->find, 1, found.response_id, sizeof found.response_id))
        status = pawl_fail(error, PAWL_E_FORMAT, "a stored Idempotency-Key is damaged");
    else
        *out = found;
    sqlite3_reset(a->find);
    sqlite3_clear_bindings(a->find);
    return status;
}
