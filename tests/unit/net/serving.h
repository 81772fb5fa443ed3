/*
 * serving.h - a server with a fake dialect on a thread of its own, and a client to it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SERVING_H
#define SERVING_H

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include "fake_api.h"
#include "net/server.h"

typedef struct fixture {
    run_runtime *runtime; /* NULL: start() makes one */
    net_server *server;
    pthread_t thread;
} fixture;

static inline void *serve(void *arg)
{
    fixture *f = arg;
    assert_int_equal(net_serve(f->server), PAWL_OK);
    return NULL;
}

static inline void start(fixture *f, net_config config)
{
    pawl_error error = {.struct_size = sizeof error};
    if (!f->runtime)
        f->runtime = fake_open();
    config.listen = "127.0.0.1:0";
    config.runtime = f->runtime;
    assert_int_equal(net_open(&config, &f->server, &error), PAWL_OK);
    assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

/* Ends the server; nothing may be left. */
static inline void stop(fixture *f)
{
    net_stop(f->server);
    pthread_join(f->thread, NULL);
    fake_close(f->runtime);
    net_close(f->server);
    f->runtime = NULL;
    assert_int_equal(atomic_load(&fake_calls), 0);
}

/* ------------------------------------------------------------------ client ---- */

static inline int dial(const fixture *f)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons(net_port(f->server))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static inline void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Reads until the text has come, the connection ends, or so many ms have passed; what
 * came is NUL-terminated. True: the text has come. */
static inline bool hear(int fd, char *heard, size_t size, const char *until, int ms)
{
    size_t n = 0;
    heard[0] = '\0';
    for (int waited = 0; waited < ms && n + 1 < size; waited += 10) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 10) <= 0)
            continue;
        ssize_t got = recv(fd, heard + n, size - n - 1, 0);
        if (got <= 0)
            return false;
        for (ssize_t i = 0; i < got; i++)
            if (!heard[n + (size_t)i])
                heard[n + (size_t)i] = '?';
        n += (size_t)got;
        heard[n] = '\0';
        if (until && strstr(heard, until))
            return true;
    }
    return false;
}

static inline void expect(int fd, const char *text)
{
    char heard[65536];
    if (!hear(fd, heard, sizeof heard, text, 20000))
        fail_msg("'%s' did not come, but: %s", text, heard);
}

/* The connection ends within ms. */
static inline void expect_end(int fd, int ms)
{
    char heard[65536];
    for (int waited = 0; waited < ms; waited += 10) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 10) > 0 && recv(fd, heard, sizeof heard, 0) <= 0)
            return;
    }
    fail_msg("the connection goes on");
}

static inline void get(int fd, const char *words, const char *header)
{
    char text[1000];
    snprintf(text, sizeof text, "GET /%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", words, header);
    say(fd, text);
}

static inline void post(int fd, const char *words)
{
    char text[1000];
    snprintf(text, sizeof text,
             "POST /%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}", words);
    say(fd, text);
}

static inline int open_socket(const fixture *f)
{
    int fd = dial(f);
    say(fd, "GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    expect(fd, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
    return fd;
}

static inline void frame(int fd, int opcode, const char *text)
{
    char bytes[200] = {(char)(0x80 | opcode), (char)(0x80 | strlen(text))};
    assert_true(strlen(text) < 126);
    memcpy(bytes + 6, text, strlen(text));
    assert_int_equal(send(fd, bytes, 6 + strlen(text), MSG_NOSIGNAL), 6 + strlen(text));
}

static inline void wait_until(atomic_int *value, int wanted)
{
    for (int i = 0; i < 2000 && atomic_load(value) != wanted; i++)
        fake_sleep(10);
    assert_int_equal(atomic_load(value), wanted);
}

#endif /* SERVING_H */
