/*
 * net/keyring.c - keys of a file, of the environment, of the store. See keyring.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/keyring.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "net/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define MAX_FILE_BYTES ((size_t)1 << 20)
#define SHORT_SECRET 16 /* bytes, below which a warning is given */

typedef struct fixed_key {
    char hash[DIGEST_HEX_SIZE];
    run_caller caller;
} fixed_key;

struct keyring {
    run_runtime *runtime; /* borrowed: whose store has keys too */
    fixed_key *keys;      /* n of them                          */
    size_t n;
};

static bool is_secret(const char *text)
{
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++)
        if (text[i] <= 0x20 || text[i] >= 0x7f)
            return false;
    return size > 0 && size <= KEYRING_MAX_SECRET;
}

/* where: for messages and, unless there is a tenant, the name of the key. */
static pawl_status add(keyring *ring, const char *secret, const char *tenant, const char *where,
                       pawl_error *error)
{
    if (!is_secret(secret))
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "%s: a key has 1 to %d characters of visible ASCII", where,
                         KEYRING_MAX_SECRET);
    if (strlen(tenant) >= STORE_KEY_NAME_SIZE || !wire_is_clean(tenant))
        return pawl_fail(error, PAWL_E_ARGUMENT, "%s: a key's name has at most %d bytes of UTF-8",
                         where, STORE_KEY_NAME_SIZE - 1);
    if (ring->n == KEYRING_MAX)
        return pawl_fail(error, PAWL_E_LIMIT, "%s: more than %d keys", where, KEYRING_MAX);
    fixed_key *more = realloc(ring->keys, (ring->n + 1) * sizeof *more);
    if (!more)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the keys");
    ring->keys = more;
    fixed_key key = {.caller = RUN_NOBODY};
    pawl_status status = digest_bytes(secret, strlen(secret), key.hash, error);
    if (status)
        return status;
    snprintf(key.caller.name, sizeof key.caller.name, "%.64s", *tenant ? tenant : where);
    snprintf(key.caller.tenant, sizeof key.caller.tenant, "%s", tenant);
    ring->keys[ring->n++] = key;
    if (strlen(secret) < SHORT_SECRET)
        log_write(PAWL_LOG_WARN, "net",
                  "%s: a key of %zu characters can be guessed; `openssl rand -hex 32` makes one "
                  "that cannot",
                  where, strlen(secret));
    return PAWL_OK;
}

static pawl_status add_line(keyring *ring, char *line, const char *file, size_t number,
                            pawl_error *error)
{
    char where[300];
    line[strcspn(line, "#\r")] = '\0';
    char *rest = line, *secret = strsep(&rest, " \t");
    while (secret && !*secret) /* blanks before it */
        secret = strsep(&rest, " \t");
    if (!secret)
        return PAWL_OK;
    char *tenant = rest ? rest + strspn(rest, " \t") : line + strlen(line);
    tenant[strcspn(tenant, " \t")] = '\0';
    const char *base = strrchr(file, '/');
    snprintf(where, sizeof where, "%.200s line %zu", base ? base + 1 : file, number);
    return add(ring, secret, tenant, where, error);
}

static pawl_status check_mode(const char *file, pawl_error *error)
{
    struct stat st;
    if (stat(file, &st) != 0)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", file, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return pawl_fail(error, PAWL_E_ARGUMENT, "%s: a file of keys is a regular file", file);
    if (st.st_mode & 077)
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "%s has mode %03o: others can read the keys in it; chmod 600 it, and "
                         "change the keys if others may have",
                         file, (unsigned)st.st_mode & 0777);
    return PAWL_OK;
}

static pawl_status add_file(keyring *ring, const char *file, pawl_error *error)
{
    buf text;
    pawl_status status = check_mode(file, error);
    if (status)
        return status;
    buf_init(&text, MAX_FILE_BYTES);
    status = file_read(file, &text, error);
    if (!status && text.size && memchr(text.data, '\0', text.size))
        status = pawl_fail(error, PAWL_E_FORMAT, "%s: this is no text", file);
    char *rest = status || !text.size ? NULL : text.data;
    for (size_t number = 1; rest && !status; number++)
        status = add_line(ring, strsep(&rest, "\n"), file, number, error);
    if (text.data)
        explicit_bzero(text.data, text.size);
    buf_clear(&text);
    if (!status && !ring->n)
        status = pawl_fail(error, PAWL_E_ARGUMENT, "%s: there is no key in it", file);
    return status;
}

pawl_status keyring_open(const char *file, const char *secret, run_runtime *runtime, keyring **out,
                         pawl_error *error)
{
    keyring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the keys");
    ring->runtime = runtime;
    pawl_status status = file ? add_file(ring, file, error) : PAWL_OK;
    if (!status && secret && *secret)
        status = add(ring, secret, "", "PAWL_API_KEY", error);
    if (status) {
        keyring_close(ring);
        return status;
    }
    *out = ring;
    return PAWL_OK;
}

void keyring_close(keyring *ring)
{
    if (!ring)
        return;
    free(ring->keys);
    free(ring);
}

bool keyring_required(const keyring *ring)
{
    return ring->n > 0 || run_keys_exist(ring->runtime);
}

/* The KEY of "Bearer KEY", or NULL. */
static const char *bearer(const char *authorization)
{
    if (strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    const char *secret = authorization + 7 + strspn(authorization + 7, " ");
    return is_secret(secret) ? secret : NULL;
}

enum keyring_answer keyring_find(keyring *ring, const char *authorization, run_caller *caller)
{
    char hash[DIGEST_HEX_SIZE];
    const fixed_key *found = NULL;
    run_caller stored = {.scopes = 0};
    const char *secret = bearer(authorization);
    if (!keyring_required(ring)) {
        *caller = RUN_NOBODY;
        return KEYRING_GOOD;
    }
    if (!secret)
        return *authorization ? KEYRING_MALFORMED : KEYRING_MISSING;
    if (digest_bytes(secret, strlen(secret), hash, NULL) != PAWL_OK)
        return KEYRING_UNKNOWN;
    for (size_t i = 0; i < ring->n; i++)
        if (wire_same_secret(hash, ring->keys[i].hash))
            found = &ring->keys[i];
    enum run_key_answer answer = run_key_find(ring->runtime, hash, &stored);
    if (found || answer == RUN_KEY_GOOD) {
        *caller = found ? found->caller : stored;
        return KEYRING_GOOD;
    }
    return answer == RUN_KEY_EXPIRED   ? KEYRING_EXPIRED
           : answer == RUN_KEY_REVOKED ? KEYRING_REVOKED
                                       : KEYRING_UNKNOWN;
}

bool keyring_still_good(keyring *ring, const run_caller *caller)
{
    run_caller again = *caller;
    if (*caller->key)
        return run_key_find(ring->runtime, NULL, &again) == RUN_KEY_GOOD;
    return *caller->name || !keyring_required(ring);
}

const char *keyring_message(enum keyring_answer answer)
{
    switch (answer) {
    case KEYRING_MISSING:
        return "The API key is missing; send it as 'Authorization: Bearer KEY'.";
    case KEYRING_MALFORMED:
        return "The Authorization header is not understood; send 'Authorization: Bearer KEY'.";
    case KEYRING_EXPIRED:
        return "This API key has expired; ask for a new one.";
    case KEYRING_REVOKED:
        return "This API key was revoked; ask for a new one.";
    default:
        return "The API key is wrong; send a valid one as 'Authorization: Bearer KEY'.";
    }
}
