/*
 * store/control_wire.c - the lines between the two sides. See control.h.
 *
 *   {"do":"key_add","key":{…}}                           {"ok":true}
 *   {"do":"key_mark","id":"…","mark":0,"when_ms":…}      {"ok":false,"code":-3,"message":"…"}
 *   {"do":"key_list"}                                    {"ok":true,"keys":[{…},…]}
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/json.h"

cJSON *control_key_out(const store_key *key)
{
    cJSON *out = cJSON_CreateObject();
    bool done = cJSON_AddStringToObject(out, "id", key->id) &&
                cJSON_AddStringToObject(out, "hash", key->hash) &&
                cJSON_AddStringToObject(out, "hint", key->hint) &&
                cJSON_AddStringToObject(out, "name", key->name) &&
                cJSON_AddStringToObject(out, "tenant", key->tenant) &&
                cJSON_AddNumberToObject(out, "scopes", key->scopes) &&
                cJSON_AddNumberToObject(out, "created_ms", (double)key->created_ms) &&
                cJSON_AddNumberToObject(out, "expires_ms", (double)key->expires_ms) &&
                cJSON_AddNumberToObject(out, "revoked_ms", (double)key->revoked_ms) &&
                cJSON_AddNumberToObject(out, "used_ms", (double)key->used_ms);
    if (done)
        return out;
    cJSON_Delete(out);
    return NULL;
}

static bool take_text(const cJSON *from, const char *name, char *to, size_t room)
{
    const char *text = json_get_text(from, name);
    if (!text || strlen(text) >= room)
        return false;
    memcpy(to, text, strlen(text) + 1);
    return true;
}

/* A time; what no clock says is 0. */
static int64_t take_time(const cJSON *from, const char *name)
{
    double value = json_get_number(from, name, 0);
    return value > 0 && value < 9e15 ? (int64_t)value : 0;
}

bool control_key_in(const cJSON *from, store_key *key)
{
    double scopes = json_get_number(from, "scopes", 0);
    *key = (store_key){.scopes = scopes > 0 && scopes < 256 ? (uint32_t)scopes : 0,
                       .created_ms = take_time(from, "created_ms"),
                       .expires_ms = take_time(from, "expires_ms"),
                       .revoked_ms = take_time(from, "revoked_ms"),
                       .used_ms = take_time(from, "used_ms")};
    return take_text(from, "id", key->id, sizeof key->id) &&
           take_text(from, "hash", key->hash, sizeof key->hash) &&
           take_text(from, "hint", key->hint, sizeof key->hint) &&
           take_text(from, "name", key->name, sizeof key->name) &&
           take_text(from, "tenant", key->tenant, sizeof key->tenant);
}

char *control_read_line(int fd, size_t max)
{
    buf line;
    char block[4096];
    buf_init(&line, max);
    for (;;) {
        ssize_t n = recv(fd, block, sizeof block, 0);
        if (n < 0 && errno == EINTR)
            continue;
        char *end = n > 0 ? memchr(block, '\n', (size_t)n) : NULL;
        if (n <= 0 || !buf_add(&line, block, end ? (size_t)(end - block) : (size_t)n))
            break;
        if (end)
            return buf_take(&line);
    }
    buf_clear(&line);
    return NULL;
}

bool control_write_line(int fd, cJSON *line)
{
    char *text = line ? json_print(line) : NULL;
    cJSON_Delete(line);
    if (!text)
        return false;
    size_t size = strlen(text), sent = 0;
    text[size++] = '\n'; /* in place of the NUL */
    while (sent < size) {
        ssize_t n = send(fd, text + sent, size - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        sent += (size_t)n;
    }
    free(text);
    return sent == size;
}

int control_address(const char *folder, struct sockaddr_un *address)
{
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (fd >= 0)
        snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/control", fd);
    return fd;
}
