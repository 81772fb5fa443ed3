/*
 * host/cmd_key.c - `pawl key add|list|revoke`: who may use a server.
 *
 * Works on the data folder: by itself where no process holds it, otherwise through the
 * process that does (store/control.h), which knows of the change at once. The secret is
 * made here and shown once; what is stored is its SHA-256. [main]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "commands.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "store/control.h"
#include "store/sqlite_store.h"
#include "store/wait.h"

#include <argp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECRET_PREFIX "pawl-"
#define SECRET_BYTES 32 /* of randomness */
#define SECRET_SIZE (sizeof SECRET_PREFIX + SECRET_BYTES * 8 / 5 + 1)
#define HINT_CHARS 10
#define DAY_MS INT64_C(86400000)
#define MAX_DAYS 36500

typedef struct options {
    const char *action; /* "add", "list", "revoke" */
    const char *id;     /* of revoke               */
    const char *data;   /* NULL: the default       */
    const char *name;
    int64_t days; /* 0: for ever             */
    uint32_t scopes;
    bool json;
} options;

static const struct {
    const char *name;
    uint32_t bit;
} scopes[] = {{"inference", STORE_SCOPE_INFERENCE},
              {"metrics", STORE_SCOPE_METRICS},
              {"admin", STORE_SCOPE_ADMIN}};

#define N_SCOPES (sizeof scopes / sizeof *scopes)

static const struct argp_option option_table[] = {
    {"data", 'd', "DIR", 0, "Data folder (default: $XDG_DATA_HOME/pawl, ~/.local/share/pawl)", 0},
    {"name", 'n', "NAME", 0, "Whose key it is (default); keys of one name share what they store",
     0},
    {"expires", 'e', "DAYS", 0, "Until when it is good (for ever)", 0},
    {"scope", 's', "SCOPE", 0, "inference (default), metrics, admin; may be repeated", 0},
    {"json", 'j', NULL, 0, "list: one JSON line a key", 0},
    {0},
};

static uint32_t scope_of(const char *name, struct argp_state *state)
{
    for (size_t i = 0; i < N_SCOPES; i++)
        if (strcmp(scopes[i].name, name) == 0)
            return scopes[i].bit;
    argp_error(state, "--scope %s: inference, metrics or admin is wanted", name);
    return 0;
}

static void check_call(const options *o, struct argp_state *state)
{
    bool add = o->action && strcmp(o->action, "add") == 0;
    bool revoke = o->action && strcmp(o->action, "revoke") == 0;
    if (!add && !revoke && !(o->action && strcmp(o->action, "list") == 0))
        argp_error(state, "add, list or revoke is wanted");
    if (revoke != (o->id != NULL))
        argp_error(state, revoke ? "revoke wants the id of a key; `pawl key list` tells it"
                                 : "too many arguments");
    if (!add && (o->name || o->days || o->scopes))
        argp_error(state, "--name, --expires and --scope belong to add");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;
    char *end = NULL;
    switch (key) {
    case 'd':
        o->data = arg;
        return 0;
    case 'n':
        o->name = arg;
        return 0;
    case 'e':
        o->days = strtol(arg, &end, 10);
        if (end == arg || *end || o->days < 1 || o->days > MAX_DAYS)
            argp_error(state, "--expires %s: days from 1 to %d are wanted", arg, MAX_DAYS);
        return 0;
    case 's':
        o->scopes |= scope_of(arg, state);
        return 0;
    case 'j':
        o->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0)
            o->action = arg;
        else if (state->arg_num == 1)
            o->id = arg;
        else
            argp_error(state, "too many arguments");
        return 0;
    case ARGP_KEY_END:
        check_call(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --------------------------------------------------------------------- texts ---- */

/* Five bits a character; no letters that are taken for others. */
static void write_random(char *to, size_t n_chars)
{
    static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
    unsigned char bytes[64];
    const base_clock *clock = clock_system();
    clock->random(clock->context, bytes, sizeof bytes);
    for (size_t i = 0; i < n_chars; i++)
        to[i] = digits[bytes[i] & 31];
    to[n_chars] = '\0';
    explicit_bzero(bytes, sizeof bytes);
}

static void write_scopes(uint32_t bits, char text[64])
{
    *text = '\0';
    for (size_t i = 0; i < N_SCOPES; i++)
        if (bits & scopes[i].bit) {
            size_t used = strlen(text);
            snprintf(text + used, 64 - used, "%s%s", used ? "," : "", scopes[i].name);
        }
}

/* "2026-11-30", or what stands for no time. */
static void write_day(int64_t ms, const char *none, char text[16])
{
    struct tm tm;
    time_t seconds = (time_t)(ms / 1000);
    if (!ms || !gmtime_r(&seconds, &tm) || !strftime(text, 16, "%Y-%m-%d", &tm))
        snprintf(text, 16, "%s", none);
}

static const char *state_of(const store_key *key, int64_t now)
{
    return key->revoked_ms                             ? "revoked"
           : key->expires_ms && key->expires_ms <= now ? "expired"
                                                       : "good";
}

/* ------------------------------------------------------------------- actions ---- */

static pawl_status add(store *s, const options *o, int64_t now, pawl_error *error)
{
    char secret[SECRET_SIZE + 8] = SECRET_PREFIX, until[16], allowed[64];
    const char *name = o->name ? o->name : "default";
    store_key key = {.scopes = o->scopes ? o->scopes : STORE_SCOPE_INFERENCE,
                     .created_ms = now,
                     .expires_ms = o->days ? now + o->days * DAY_MS : 0};
    if (strlen(name) >= sizeof key.name || !*name)
        return pawl_fail(error, PAWL_E_ARGUMENT, "--name: 1 to %zu bytes are wanted",
                         sizeof key.name - 1);
    write_random(secret + sizeof SECRET_PREFIX - 1, (SECRET_BYTES * 8 + 4) / 5);
    memcpy(key.id, "key_", 4);
    write_random(key.id + 4, 10);
    snprintf(key.hint, sizeof key.hint, "%.*s", HINT_CHARS, secret);
    snprintf(key.name, sizeof key.name, "%s", name);
    snprintf(key.tenant, sizeof key.tenant, "%s", name);
    pawl_status status = digest_bytes(secret, strlen(secret), key.hash, error);
    if (!status) {
        store_wait w;
        store_wait_open(&w);
        status = s->key_add(s, &key, store_wait_done, &w, error);
        status = store_wait_close(&w, status, error);
    }
    if (!status) {
        write_day(key.expires_ms, "for ever", until);
        write_scopes(key.scopes, allowed);
        fprintf(stderr, "%s: name %s, scopes %s, good %s%s. The secret is shown this once:\n",
                key.id, key.name, allowed, key.expires_ms ? "until " : "", until);
        printf("%s\n", secret);
    }
    explicit_bzero(secret, sizeof secret);
    return status;
}

static void print_json(const store_key *key, int64_t now)
{
    char allowed[64];
    write_scopes(key->scopes, allowed);
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "id", key->id);
    cJSON_AddStringToObject(line, "name", key->name);
    cJSON_AddStringToObject(line, "hint", key->hint);
    cJSON_AddStringToObject(line, "scopes", allowed);
    cJSON_AddStringToObject(line, "state", state_of(key, now));
    cJSON_AddNumberToObject(line, "created_ms", (double)key->created_ms);
    cJSON_AddNumberToObject(line, "expires_ms", (double)key->expires_ms);
    cJSON_AddNumberToObject(line, "revoked_ms", (double)key->revoked_ms);
    cJSON_AddNumberToObject(line, "used_ms", (double)key->used_ms);
    char *text = json_print(line);
    printf("%s\n", text ? text : "{}");
    free(text);
    cJSON_Delete(line);
}

static void print_row(const store_key *key, int64_t now)
{
    char created[16], expires[16], used[16], allowed[64];
    write_day(key->created_ms, "-", created);
    write_day(key->expires_ms, "never", expires);
    write_day(key->used_ms, "never", used);
    write_scopes(key->scopes, allowed);
    printf("%-15s %-8s %-16s %-12s %-24s %-11s %-11s %s\n", key->id, state_of(key, now), key->name,
           key->hint, allowed, created, expires, used);
}

static pawl_status list(store *s, const options *o, int64_t now, pawl_error *error)
{
    store_key *keys;
    size_t n;
    pawl_status status = s->key_list(s, &keys, &n, error);
    if (status)
        return status;
    if (!o->json)
        printf("%-15s %-8s %-16s %-12s %-24s %-11s %-11s %s\n", "ID", "STATE", "NAME", "SECRET",
               "SCOPES", "CREATED", "EXPIRES", "LAST USED");
    for (size_t i = 0; i < n; i++) {
        if (o->json)
            print_json(&keys[i], now);
        else
            print_row(&keys[i], now);
    }
    free(keys);
    return PAWL_OK;
}

static pawl_status revoke(store *s, const options *o, int64_t now, pawl_error *error)
{
    store_wait w;
    store_wait_open(&w);
    pawl_status status = s->key_mark(s, o->id, STORE_KEY_REVOKED, now, store_wait_done, &w, error);
    status = store_wait_close(&w, status, error);
    if (!status)
        printf("%s is revoked: what asks with it from now on is refused\n", o->id);
    return status;
}

/* --------------------------------------------------------------------- folder ---- */

/* The folder itself, or the process that holds it. */
static pawl_status open_store(const char *folder, store **out, pawl_error *error)
{
    pawl_error why = {.struct_size = sizeof why};
    pawl_status status = sqlite_store_open(folder, out, error);
    if (status == PAWL_E_BUSY && control_connect(folder, out, &why) == PAWL_OK)
        return PAWL_OK;
    return status;
}

static pawl_status act(const options *o, pawl_error *error)
{
    store *s = NULL;
    char *fallback = o->data ? NULL : file_data_folder();
    const char *folder = o->data ? o->data : fallback;
    if (!folder)
        return pawl_fail(error, PAWL_E_ARGUMENT, "no data folder; give --data DIR");
    pawl_status status = open_store(folder, &s, error);
    free(fallback);
    if (status)
        return status;
    const base_clock *clock = clock_system();
    int64_t now = clock->wall_ms(clock->context);
    status = strcmp(o->action, "add") == 0    ? add(s, o, now, error)
             : strcmp(o->action, "list") == 0 ? list(s, o, now, error)
                                              : revoke(s, o, now, error);
    s->close(s);
    return status;
}

int cmd_key(int argc, char **argv)
{
    static const struct argp parser = {
        .options = option_table,
        .parser = parse_option,
        .args_doc = "add\nlist\nrevoke ID",
        .doc = "Make, list and revoke the API keys of a data folder.\v"
               "They work whether or not a server runs on the folder, which follows at once. "
               "As soon as there is one key, a server on this folder asks for one. `add` prints "
               "the secret on standard output, and what else there is to say on standard error.\n\n"
               "Scopes: inference (models, and what keys of its name have stored), metrics "
               "(/metrics), admin (all of these, and DELETE).",
    };
    options o = {0};
    pawl_error error = {.struct_size = sizeof error};
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    log_set_level(PAWL_LOG_ERROR);
    pawl_status status = act(&o, &error);
    if (status)
        fprintf(stderr, "pawl key: %s\n", error.message);
    return status ? 1 : 0;
}
