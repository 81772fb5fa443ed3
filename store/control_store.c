/*
 * store/control_store.c - the side that asks, as a store. See control.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json.h"

#define TIMEOUT_S 20 /* a disk may be slow */
#define MAX_ANSWER ((size_t)8 << 20)

typedef struct asker {
    store table;  /* first      */
    char *folder; /* whom to ask */
} asker;

static int dial(const char *folder, pawl_error *error)
{
    struct sockaddr_un address;
    struct timeval timeout = {.tv_sec = TIMEOUT_S};
    int in = control_address(folder, &address);
    int fd = in < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool connected = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    int why = errno;
    if (in >= 0)
        close(in);
    if (connected) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    pawl_fail(error, PAWL_E_NOT_FOUND, "%s/control: %s", folder, strerror(why));
    return -1;
}

/* Takes the question. The answer is the caller's to delete, unless refused. */
static pawl_status ask(store *s, cJSON *question, cJSON **out, pawl_error *error)
{
    const char *folder = ((asker *)s)->folder;
    int fd = dial(folder, error);
    if (fd < 0) {
        cJSON_Delete(question);
        return PAWL_E_NOT_FOUND;
    }
    char *line = control_write_line(fd, question) ? control_read_line(fd, MAX_ANSWER) : NULL;
    close(fd);
    cJSON *answer = NULL;
    if (!line || json_parse(line, strlen(line), &answer, NULL) != PAWL_OK) {
        free(line);
        return pawl_fail(error, PAWL_E_DEVICE, "%s/control gave no answer", folder);
    }
    free(line);
    if (json_get_bool(answer, "ok", false)) {
        *out = answer;
        return PAWL_OK;
    }
    const char *message = json_get_text(answer, "message");
    int code = (int)json_get_number(answer, "code", PAWL_E_INTERNAL);
    pawl_fail(error, code ? code : PAWL_E_INTERNAL, "%s", message ? message : "it was refused");
    cJSON_Delete(answer);
    return code ? code : PAWL_E_INTERNAL;
}

static pawl_status tell(store *s, cJSON *question, store_done done, void *arg, pawl_error *error)
{
    cJSON *answer = NULL;
    pawl_status status = ask(s, question, &answer, error);
    cJSON_Delete(answer);
    if (!status && done)
        done(arg, PAWL_OK, NULL);
    return status;
}

static pawl_status key_add(store *s, const store_key *key, store_done done, void *arg,
                           pawl_error *error)
{
    cJSON *question = cJSON_CreateObject();
    cJSON_AddStringToObject(question, "do", "key_add");
    cJSON_AddItemToObject(question, "key", control_key_out(key));
    return tell(s, question, done, arg, error);
}

static pawl_status key_mark(store *s, const char *id, enum store_key_mark mark, int64_t when_ms,
                            store_done done, void *arg, pawl_error *error)
{
    cJSON *question = cJSON_CreateObject();
    cJSON_AddStringToObject(question, "do", "key_mark");
    cJSON_AddStringToObject(question, "id", id);
    cJSON_AddNumberToObject(question, "mark", mark);
    cJSON_AddNumberToObject(question, "when_ms", (double)when_ms);
    return tell(s, question, done, arg, error);
}

static pawl_status key_list(store *s, store_key **keys, size_t *n_keys, pawl_error *error)
{
    cJSON *question = cJSON_CreateObject(), *answer = NULL;
    cJSON_AddStringToObject(question, "do", "key_list");
    pawl_status status = ask(s, question, &answer, error);
    if (status)
        return status;
    const cJSON *list = json_get(answer, "keys"), *each;
    size_t n = 0;
    store_key *made = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *made);
    if (made)
        cJSON_ArrayForEach(each, list)
        {
            if (control_key_in(each, &made[n]))
                n++;
        }
    cJSON_Delete(answer);
    if (!made)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the keys");
    *keys = made;
    *n_keys = n;
    return PAWL_OK;
}

static bool key_find(store *s, const char *hash, const char *id, store_key *key)
{
    store_key *keys;
    size_t n;
    bool found = false;
    if (key_list(s, &keys, &n, NULL) != PAWL_OK)
        return false;
    for (size_t i = 0; i < n && !found; i++) {
        found = strcmp(hash ? keys[i].hash : keys[i].id, hash ? hash : id) == 0;
        if (found)
            *key = keys[i];
    }
    free(keys);
    return found;
}

static size_t key_count(store *s)
{
    store_key *keys;
    size_t n = 0;
    if (key_list(s, &keys, &n, NULL) == PAWL_OK)
        free(keys);
    return n;
}

static pawl_status refuse(pawl_error *error)
{
    return pawl_fail(error, PAWL_E_UNSUPPORTED,
                     "the data folder is in use; only its keys can be asked about from here");
}

static pawl_status put(store *s, const store_response *response, store_done done, void *arg,
                       pawl_error *error)
{
    (void)s, (void)response, (void)done, (void)arg;
    return refuse(error);
}

static pawl_status get(store *s, const char *id, int with_removed, store_response **response,
                       pawl_error *error)
{
    (void)s, (void)id, (void)with_removed, (void)response;
    return refuse(error);
}

static pawl_status remove_one(store *s, const char *id, store_done done, void *arg,
                              pawl_error *error)
{
    (void)s, (void)id, (void)done, (void)arg;
    return refuse(error);
}

static pawl_status conversation_put(store *s, const store_conversation *conversation,
                                    store_done done, void *arg, pawl_error *error)
{
    (void)s, (void)conversation, (void)done, (void)arg;
    return refuse(error);
}

static pawl_status conversation_get(store *s, const char *id, store_conversation **conversation,
                                    pawl_error *error)
{
    (void)s, (void)id, (void)conversation;
    return refuse(error);
}

static pawl_status conversation_list(store *s, const store_page *page, store_conversation ***list,
                                     size_t *n, pawl_error *error)
{
    (void)s, (void)page, (void)list, (void)n;
    return refuse(error);
}

static void close_asker(store *s)
{
    asker *a = (asker *)s;
    if (!a)
        return;
    free(a->folder);
    free(a);
}

pawl_status control_connect(const char *folder, store **out, pawl_error *error)
{
    int fd = dial(folder, error);
    if (fd < 0)
        return PAWL_E_NOT_FOUND;
    close(fd);
    asker *a = calloc(1, sizeof *a);
    if (a)
        a->folder = strdup(folder);
    if (!a || !a->folder) {
        free(a);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to ask %s/control", folder);
    }
    a->table = (store){.put = put,
                       .get = get,
                       .remove = remove_one,
                       .close = close_asker,
                       .key_add = key_add,
                       .key_mark = key_mark,
                       .key_find = key_find,
                       .key_count = key_count,
                       .key_list = key_list,
                       .conversation_put = conversation_put,
                       .conversation_get = conversation_get,
                       .conversation_list = conversation_list,
                       .conversation_remove = remove_one};
    *out = &a->table;
    return PAWL_OK;
}
