/*
 * loader/quarantine.c - reading, changing and replacing quarantine.json.
 *
 * Every change reads the file anew under the lock, so that two processes do not lose
 * each other's entries; it is small, and changes are rare. A file that is damaged counts
 * as empty: the worst that follows is a probe too many.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/quarantine.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define FILE_NAME "quarantine.json"
#define MAX_BYTES (256u << 10)

struct quarantine {
    char *folder;
    cJSON *libraries; /* array of objects, oldest first      */
    bool complained;  /* that it cannot be written, once     */
};

/* $XDG_STATE_HOME/pawl or ~/.local/state/pawl, to be free()d, or NULL. */
static char *state_folder(void)
{
    const char *base = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (base && base[0] == '/')
        return file_join(base, "pawl");
    return home && home[0] == '/' ? file_join(home, ".local/state/pawl") : NULL;
}

/* An array, empty where there is no file or no sense in it; NULL without memory. */
static cJSON *read_libraries(const char *folder)
{
    buf text;
    cJSON *json = NULL, *list = NULL;
    char *path = file_join(folder, FILE_NAME);
    buf_init(&text, MAX_BYTES);
    if (path && !file_read(path, &text, NULL) &&
        !json_parse(buf_text(&text), text.size, &json, NULL) &&
        json_get_number(json, "quarantine", 0) == 1 && cJSON_IsArray(json_get(json, "libraries")))
        list = cJSON_DetachItemFromObjectCaseSensitive(json, "libraries");
    cJSON_Delete(json);
    buf_clear(&text);
    free(path);
    return list ? list : cJSON_CreateArray();
}

/* A file beside it, whole on the disk before it takes the name. */
static pawl_status replace_file(const char *folder, const cJSON *libraries, pawl_error *error)
{
    buf text;
    buf_init(&text, MAX_BYTES);
    buf_add_text(&text, "{\"quarantine\":1,\"libraries\":");
    json_add(&text, libraries);
    buf_add_text(&text, "}\n");
    char *path = file_join(folder, FILE_NAME), *fresh = file_join(folder, FILE_NAME ".new");
    int file = path && fresh && !text.failed
                   ? open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)
                   : -1;
    bool good =
        file >= 0 && write(file, text.data, text.size) == (ssize_t)text.size && fsync(file) == 0;
    int saved = errno;
    if (file >= 0)
        close(file);
    good = good && rename(fresh, path) == 0;
    pawl_status status = PAWL_OK;
    if (!good)
        status = pawl_fail(error, PAWL_E_NOT_FOUND, "%s/" FILE_NAME ": %s", folder,
                           strerror(errno ? errno : saved));
    buf_clear(&text);
    free(path);
    free(fresh);
    return status;
}

/* Opens and locks the folder, which close() undoes; -1 with a reason. */
static int lock_folder(const char *folder, pawl_error *error)
{
    if (file_make_folder(folder, error))
        return -1;
    int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0 && flock(lock, LOCK_EX) == 0)
        return lock;
    pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", folder, strerror(errno));
    if (lock >= 0)
        close(lock);
    return -1;
}

quarantine *quarantine_open(void)
{
    quarantine *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->folder = state_folder();
    q->libraries = q->folder ? read_libraries(q->folder) : NULL;
    if (q->libraries)
        return q;
    quarantine_close(q);
    return NULL;
}

void quarantine_close(quarantine *q)
{
    if (!q)
        return;
    cJSON_Delete(q->libraries);
    free(q->folder);
    free(q);
}

bool quarantine_is_empty(const quarantine *q)
{
    return !q || cJSON_GetArraySize(q->libraries) == 0;
}

static bool has(const cJSON *entry, const char *member, const char *text)
{
    const char *value = json_get_text(entry, member);
    return value && strcmp(value, text) == 0;
}

const char *quarantine_reason(const quarantine *q, const char *sha256)
{
    const cJSON *entry;
    if (q)
        cJSON_ArrayForEach(entry, q->libraries)
        {
            if (has(entry, "sha256", sha256)) {
                const char *reason = json_get_text(entry, "reason");
                return reason ? reason : "its probe died";
            }
        }
    return NULL;
}

/* Takes out what has this digest, or also this id; how many there were. */
static size_t take_out(cJSON *libraries, const char *sha256, const char *id)
{
    size_t count = 0;
    for (int i = cJSON_GetArraySize(libraries); i-- > 0;) {
        const cJSON *entry = cJSON_GetArrayItem(libraries, i);
        if (has(entry, "sha256", sha256) || (id && has(entry, "id", id))) {
            cJSON_DeleteItemFromArray(libraries, i);
            count++;
        }
    }
    return count;
}

void quarantine_add(quarantine *q, const char *sha256, const char *id, const char *library,
                    const char *reason)
{
    pawl_error why = {.struct_size = sizeof why};
    if (!q)
        return;
    int lock = lock_folder(q->folder, &why);
    cJSON *libraries = lock >= 0 ? read_libraries(q->folder) : NULL;
    if (libraries) {
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "sha256", sha256);
        cJSON_AddStringToObject(entry, "id", id);
        cJSON_AddStringToObject(entry, "library", library);
        cJSON_AddStringToObject(entry, "reason", reason);
        const base_clock *clock = clock_system();
        cJSON_AddNumberToObject(entry, "time", (double)(clock->wall_ms(clock->context) / 1000));
        take_out(libraries, sha256, NULL);
        cJSON_AddItemToArray(libraries, entry);
        while (cJSON_GetArraySize(libraries) > QUARANTINE_MAX)
            cJSON_DeleteItemFromArray(libraries, 0);
        if (replace_file(q->folder, libraries, &why) == PAWL_OK) {
            cJSON_Delete(q->libraries);
            q->libraries = libraries;
            libraries = NULL;
        }
    }
    cJSON_Delete(libraries);
    if (lock >= 0)
        close(lock);
    if (why.message[0] && !q->complained)
        log_write(PAWL_LOG_WARN, "loader", "plugins that die are not written down: %s",
                  why.message);
    q->complained = q->complained || why.message[0];
}

pawl_status quarantine_release(const char *id_or_sha256, size_t *count, pawl_error *error)
{
    char *folder = state_folder();
    if (!folder)
        return pawl_fail(error, PAWL_E_NOT_FOUND,
                         "there is no state folder: neither XDG_STATE_HOME nor HOME is set");
    int lock = lock_folder(folder, error);
    cJSON *libraries = lock >= 0 ? read_libraries(folder) : NULL;
    pawl_status status = lock < 0 ? PAWL_E_NOT_FOUND : PAWL_OK;
    size_t n = libraries ? take_out(libraries, id_or_sha256, id_or_sha256) : 0;
    if (n)
        status = replace_file(folder, libraries, error);
    if (!status)
        *count = n;
    cJSON_Delete(libraries);
    if (lock >= 0)
        close(lock);
    free(folder);
    return status;
}
