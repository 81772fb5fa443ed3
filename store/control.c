/*
 * store/control.c - the side that holds the folder. See control.h.
 *
 * One thread, one question at a time. Whoever asks has TIMEOUT_S to say it and to take
 * the answer; nobody else is kept waiting but others who ask.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/control.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "store/wait.h"

#define TIMEOUT_S 3
#define MAX_QUESTION ((size_t)16 << 10)

struct control {
    store *of;        /* borrowed                        */
    char *folder;     /* whose socket is to be removed   */
    int listener;     /* DIR/control                     */
    int stop;         /* an eventfd: readable at the end */
    pthread_t thread; /* control thread                  */
};

/* -------------------------------------------------------------- answering --- */

static cJSON *answer_status(pawl_status status, const pawl_error *error)
{
    cJSON *out = cJSON_CreateObject();
    cJSON_AddBoolToObject(out, "ok", status == PAWL_OK);
    if (status) {
        cJSON_AddNumberToObject(out, "code", status);
        cJSON_AddStringToObject(out, "message", error->message);
    }
    return out;
}

static cJSON *answer_list(store *s, pawl_error *error)
{
    store_key *keys;
    size_t n;
    pawl_status status = s->key_list(s, &keys, &n, error);
    if (status)
        return answer_status(status, error);
    cJSON *out = cJSON_CreateObject();
    cJSON_AddBoolToObject(out, "ok", true);
    cJSON *list = cJSON_AddArrayToObject(out, "keys");
    for (size_t i = 0; i < n; i++)
        cJSON_AddItemToArray(list, control_key_out(&keys[i]));
    free(keys);
    return out;
}

static cJSON *answer_add(store *s, const cJSON *question, pawl_error *error)
{
    store_key key;
    store_wait w;
    if (!control_key_in(json_get(question, "key"), &key))
        return answer_status(pawl_fail(error, PAWL_E_FORMAT, "this is no key"), error);
    store_wait_open(&w);
    pawl_status status = s->key_add(s, &key, store_wait_done, &w, error);
    status = store_wait_close(&w, status, error);
    if (!status)
        log_write(PAWL_LOG_INFO, "store", "the key %s (%s) was added", key.id, key.name);
    return answer_status(status, error);
}

static cJSON *answer_mark(store *s, const cJSON *question, pawl_error *error)
{
    const char *id = json_get_text(question, "id");
    double mark = json_get_number(question, "mark", -1);
    double when = json_get_number(question, "when_ms", -1);
    store_wait w;
    if (!id || (mark != STORE_KEY_REVOKED && mark != STORE_KEY_USED) || !(when > 0 && when < 9e15))
        return answer_status(pawl_fail(error, PAWL_E_FORMAT, "this is no mark of a key"), error);
    store_wait_open(&w);
    pawl_status status = s->key_mark(s, id, (enum store_key_mark)(int)mark, (int64_t)when,
                                     store_wait_done, &w, error);
    status = store_wait_close(&w, status, error);
    if (!status && mark == STORE_KEY_REVOKED)
        log_write(PAWL_LOG_INFO, "store", "the key %s was revoked", id);
    return answer_status(status, error);
}

static cJSON *answer(store *s, const char *line)
{
    pawl_error error = {.struct_size = sizeof error};
    cJSON *question = NULL, *out;
    if (json_parse(line, strlen(line), &question, &error) != PAWL_OK)
        return answer_status(PAWL_E_FORMAT, &error);
    const char *what = json_get_text(question, "do");
    if (what && strcmp(what, "key_add") == 0)
        out = answer_add(s, question, &error);
    else if (what && strcmp(what, "key_mark") == 0)
        out = answer_mark(s, question, &error);
    else if (what && strcmp(what, "key_list") == 0)
        out = answer_list(s, &error);
    else
        out = answer_status(pawl_fail(&error, PAWL_E_UNSUPPORTED,
                                      "this version does not know '%.40s'", what ? what : ""),
                            &error);
    cJSON_Delete(question);
    return out;
}

/* ----------------------------------------------------------------- thread --- */

static bool may_ask(int fd)
{
    struct ucred who;
    socklen_t size = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
           (who.uid == geteuid() || who.uid == 0);
}

static void serve_one(control *c)
{
    struct timeval timeout = {.tv_sec = TIMEOUT_S};
    int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    char *line = may_ask(fd) ? control_read_line(fd, MAX_QUESTION) : NULL;
    if (line)
        control_write_line(fd, answer(c->of, line));
    free(line);
    close(fd);
}

static void *control_thread(void *arg)
{
    control *c = arg;
    struct pollfd on[] = {{.fd = c->stop, .events = POLLIN}, {.fd = c->listener, .events = POLLIN}};
    while (poll(on, 2, -1) >= 0 || errno == EINTR) {
        if (on[0].revents)
            break;
        if (on[1].revents)
            serve_one(c);
    }
    return NULL;
}

/* ---------------------------------------------------------------- opening --- */

static int listen_in(const char *folder)
{
    struct sockaddr_un address;
    int in = control_address(folder, &address);
    int fd = in < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        unlink(address.sun_path); /* of a process that was killed: the folder is ours */
        mode_t before = umask(0177);
        int failed = bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 8);
        umask(before);
        if (failed) {
            int why = errno;
            close(fd);
            fd = -1;
            errno = why;
        }
    }
    if (in >= 0)
        close(in);
    return fd;
}

static bool start_thread(control *c)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are the main thread's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&c->thread, NULL, control_thread, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_setname_np(c->thread, "pawl-control");
    errno = rc;
    return rc == 0;
}

static void release(control *c)
{
    if (c->listener >= 0)
        close(c->listener);
    if (c->stop >= 0)
        close(c->stop);
    free(c->folder);
    free(c);
}

pawl_status control_open(const char *folder, store *of, control **out, pawl_error *error)
{
    control *c = calloc(1, sizeof *c);
    if (!c)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to open %s/control", folder);
    c->of = of;
    c->folder = strdup(folder);
    c->stop = eventfd(0, EFD_CLOEXEC);
    c->listener = listen_in(folder);
    if (!c->folder || c->stop < 0 || c->listener < 0 || !start_thread(c)) {
        pawl_fail(error, PAWL_E_UNSUPPORTED, "%s/control: %s", folder, strerror(errno));
        release(c);
        return PAWL_E_UNSUPPORTED;
    }
    *out = c;
    return PAWL_OK;
}

void control_close(control *c)
{
    struct sockaddr_un address;
    if (!c)
        return;
    eventfd_write(c->stop, 1);
    pthread_join(c->thread, NULL);
    int in = control_address(c->folder, &address);
    if (in >= 0) {
        unlink(address.sun_path);
        close(in);
    }
    release(c);
}
