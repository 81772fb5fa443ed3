/*
 * store/keys.c - API keys: their rows, and all of them in memory. See keys.h.
 *
 * What is compared is the SHA-256 of a secret. That is enough here: secrets are 256
 * random bits, which nobody guesses however fast the hash is; a slow hash (argon2)
 * serves passwords, which are few. The hash that was asked for is compared with every
 * key's from end to end, so that the time tells neither which key is near nor where.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"
#include "store/db.h"
#include "store/record.h"
#include "store/rows.h"

#define COLUMNS "id, hash, hint, name, tenant, scopes, created_ms, expires_ms, revoked_ms, used_ms"

enum { TEXTS = 5, NUMBERS = 5 }; /* columns, in this order */

/* ---------------------------------------------------------------- checks --- */

static bool is_printable(const char *text, size_t room)
{
    size_t size = strnlen(text, room);
    if (size == room)
        return false;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return utf8_valid_prefix(text, size) == size;
}

pawl_status keys_check(const store_key *key, pawl_error *error)
{
    bool hash = strnlen(key->hash, sizeof key->hash) == STORE_KEY_HASH_SIZE - 1 &&
                strspn(key->hash, "0123456789abcdef") == STORE_KEY_HASH_SIZE - 1;
    if (!key->id[0] || !is_printable(key->id, sizeof key->id) || !hash)
        return pawl_fail(error, PAWL_E_ARGUMENT, "a key without a valid id or hash");
    if (!key->name[0] || !is_printable(key->name, sizeof key->name) ||
        !is_printable(key->tenant, sizeof key->tenant) ||
        !is_printable(key->hint, sizeof key->hint))
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "a key's name has 1 to %d bytes of UTF-8 without control characters",
                         STORE_KEY_NAME_SIZE - 1);
    if (!key->scopes || (key->scopes & ~(uint32_t)STORE_SCOPES_ALL))
        return pawl_fail(error, PAWL_E_ARGUMENT, "a key with scopes that do not exist");
    return PAWL_OK;
}

/* ------------------------------------------------------------------ rows --- */

static bool take_row(sqlite3_stmt *row, store_key *key)
{
    *key = (store_key){.scopes = 0};
    bool good = rows_copy_text(row, 0, key->id, sizeof key->id) &&
                rows_copy_text(row, 1, key->hash, sizeof key->hash) &&
                rows_copy_text(row, 2, key->hint, sizeof key->hint) &&
                rows_copy_text(row, 3, key->name, sizeof key->name) &&
                rows_copy_text(row, 4, key->tenant, sizeof key->tenant);
    for (int i = TEXTS; i < TEXTS + NUMBERS; i++)
        good = good && sqlite3_column_type(row, i) == SQLITE_INTEGER;
    int64_t scopes = sqlite3_column_int64(row, TEXTS);
    key->scopes = scopes < 0 || scopes > STORE_SCOPES_ALL ? 0 : (uint32_t)scopes;
    key->created_ms = sqlite3_column_int64(row, TEXTS + 1);
    key->expires_ms = sqlite3_column_int64(row, TEXTS + 2);
    key->revoked_ms = sqlite3_column_int64(row, TEXTS + 3);
    key->used_ms = sqlite3_column_int64(row, TEXTS + 4);
    return good && keys_check(key, NULL) == PAWL_OK;
}

pawl_status keys_load(keys *all, sqlite3 *db, pawl_error *error)
{
    sqlite3_stmt *rows;
    pawl_status status =
        db_prepare(db, "SELECT " COLUMNS " FROM api_key ORDER BY created_ms, id", &rows, error);
    if (status)
        return status;
    all->n = all->n_damaged = 0;
    int rc;
    while ((rc = sqlite3_step(rows)) == SQLITE_ROW) {
        store_key key;
        if (all->n < STORE_MAX_KEYS && take_row(rows, &key)) {
            all->list[all->n++] = key;
            continue;
        }
        all->n_damaged++;
        log_write(PAWL_LOG_ERROR, "store", "a stored key is damaged and not accepted");
    }
    if (rc != SQLITE_DONE)
        status = db_fail(db, "reading the keys", error);
    sqlite3_finalize(rows);
    return status;
}

static pawl_status run(sqlite3 *db, sqlite3_stmt *statement, const char *doing, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    if (sqlite3_step(statement) != SQLITE_DONE)
        status = db_fail(db, doing, error);
    sqlite3_finalize(statement);
    return status;
}

pawl_status keys_insert(sqlite3 *db, const store_key *key, pawl_error *error)
{
    int64_t n;
    sqlite3_stmt *insert;
    pawl_status status = db_get_int(db, "SELECT count(*) FROM api_key", &n, error);
    if (!status && n >= STORE_MAX_KEYS)
        return pawl_fail(error, PAWL_E_LIMIT, "there are %d keys already, revoked ones included",
                         STORE_MAX_KEYS);
    if (!status)
        status = db_prepare(
            db, "INSERT INTO api_key (" COLUMNS ") VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)",
            &insert, error);
    if (status)
        return status;
    const char *const texts[TEXTS] = {key->id, key->hash, key->hint, key->name, key->tenant};
    const int64_t numbers[NUMBERS] = {key->scopes, key->created_ms, key->expires_ms,
                                      key->revoked_ms, key->used_ms};
    for (int i = 0; i < TEXTS; i++)
        sqlite3_bind_text(insert, 1 + i, texts[i], -1, SQLITE_STATIC);
    for (int i = 0; i < NUMBERS; i++)
        sqlite3_bind_int64(insert, 1 + TEXTS + i, numbers[i]);
    return run(db, insert, "adding a key", error);
}

pawl_status keys_update(sqlite3 *db, const char *id, enum store_key_mark mark, int64_t when_ms,
                        pawl_error *error)
{
    sqlite3_stmt *update;
    const char *sql = mark == STORE_KEY_REVOKED
                          ? "UPDATE api_key SET revoked_ms = iif(revoked_ms, revoked_ms, ?2) "
                            "WHERE id = ?1"
                          : "UPDATE api_key SET used_ms = max(used_ms, ?2) WHERE id = ?1";
    pawl_status status = db_prepare(db, sql, &update, error);
    if (status)
        return status;
    sqlite3_bind_text(update, 1, id, -1, SQLITE_STATIC);
    sqlite3_bind_int64(update, 2, when_ms);
    status = run(db, update, "changing a key", error);
    if (!status && sqlite3_changes(db) == 0)
        status = pawl_fail(error, PAWL_E_NOT_FOUND, "there is no key %s", id);
    return status;
}

/* ---------------------------------------------------------------- memory --- */

pawl_status keys_open(keys *all, pawl_error *error)
{
    *all = (keys){.n = 0};
    all->list =
        calloc(STORE_MAX_KEYS, sizeof *all->list); /* pages that are not used cost nothing */
    if (!all->list)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the keys");
    pthread_rwlock_init(&all->lock, NULL);
    return PAWL_OK;
}

void keys_close(keys *all)
{
    pthread_rwlock_destroy(&all->lock);
    free(all->list);
}

void keys_learn(keys *all, const store_key *key)
{
    pthread_rwlock_wrlock(&all->lock);
    if (all->n < STORE_MAX_KEYS)
        all->list[all->n++] = *key;
    pthread_rwlock_unlock(&all->lock);
}

void keys_learn_mark(keys *all, const char *id, enum store_key_mark mark, int64_t when_ms)
{
    pthread_rwlock_wrlock(&all->lock);
    for (size_t i = 0; i < all->n; i++) {
        store_key *key = &all->list[i];
        if (strcmp(key->id, id) != 0)
            continue;
        if (mark == STORE_KEY_REVOKED && !key->revoked_ms)
            key->revoked_ms = when_ms;
        else if (mark == STORE_KEY_USED && key->used_ms < when_ms)
            key->used_ms = when_ms;
    }
    pthread_rwlock_unlock(&all->lock);
}

/* Both have 64 characters; every one is looked at. */
static bool same_hash(const char *a, const char *b)
{
    unsigned difference = 0;
    for (size_t i = 0; i < STORE_KEY_HASH_SIZE - 1; i++)
        difference |= (unsigned)((unsigned char)a[i] ^ (unsigned char)b[i]);
    return difference == 0;
}

bool keys_find(keys *all, const char *hash, const char *id, store_key *key)
{
    bool found = false;
    if (hash && strlen(hash) != STORE_KEY_HASH_SIZE - 1)
        return false;
    pthread_rwlock_rdlock(&all->lock);
    for (size_t i = 0; i < all->n; i++) {
        const store_key *each = &all->list[i];
        if (hash ? same_hash(each->hash, hash) : strcmp(each->id, id) == 0) {
            *key = *each;
            found = true;
        }
    }
    pthread_rwlock_unlock(&all->lock);
    return found;
}

size_t keys_count(keys *all)
{
    pthread_rwlock_rdlock(&all->lock);
    size_t n = all->n + all->n_damaged;
    pthread_rwlock_unlock(&all->lock);
    return n;
}

pawl_status keys_list(keys *all, store_key **list, size_t *n, pawl_error *error)
{
    pthread_rwlock_rdlock(&all->lock);
    size_t count = all->n;
    store_key *copy = malloc((count + 1) * sizeof *copy);
    if (copy)
        memcpy(copy, all->list, count * sizeof *copy);
    pthread_rwlock_unlock(&all->lock);
    if (!copy)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a list of %zu keys", count);
    *list = copy;
    *n = count;
    return PAWL_OK;
}
