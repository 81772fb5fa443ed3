/*
 * limits_test.c - who is refused, cut off or closed: keys, names, rates, slowness.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/digest.h"
#include "serving.h"

#define HANDSHAKE                                                                                  \
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"                   \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

static void asks_for_keys(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        const char *header;
        const char *status;
    } cases[] = {
        {"reply", "", "401 Unauthorized"},
        {"reply", "Authorization: Bearer first-secre\r\n", "401 Unauthorized"},
        {"reply", "Authorization: Basic first-secret\r\n", "401 Unauthorized"},
        {"reply", "Authorization: Bearer \r\n", "WWW-Authenticate: Bearer"},
        {"reply", "Authorization: Bearer first-secret\r\n", "200 OK"},
        {"reply", "authorization: bearer first-secret\r\n", "200 OK"},
        {"reply", "Authorization: Bearer stored\r\n", "\"tenant\":\"tenant\""},
        {"metrics", "", "401 Unauthorized"},
        {"metrics", "Authorization: Bearer stored\r\n", "403 Forbidden"},
        {"metrics", "Authorization: Bearer first-secret\r\n", "200 OK"},
        {"health", "", "200 OK"},
        {"livez", "", "200 OK"},
        {"readyz", "Authorization: Bearer wrong\r\n", "200 OK"},
        {"v1/readyz", "", "200 OK"},
        {"healthy", "", "401 Unauthorized"},
        {"v1/responses", HANDSHAKE, "401 Unauthorized"},
        {"v1/responses", HANDSHAKE "Authorization: Bearer x\r\n", "401 Unauthorized"},
        {"v1/responses", HANDSHAKE "Authorization: Bearer stored\r\n", "101 Switching"},
    };
    fixture f = {.runtime = fake_open()};
    assert_int_equal(digest_bytes("stored", 6, f.runtime->key_hash, NULL), PAWL_OK);
    start(&f, (net_config){.key = "first-secret"});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int fd = dial(&f);
        get(fd, cases[i].path, cases[i].header);
        expect(fd, cases[i].status);
        close(fd);
    }
    int fd = dial(&f);
    say(fd, "DELETE /reply HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer stored\r\n\r\n");
    expect(fd, "403 Forbidden");
    close(fd);
    stop(&f);
}

/* An open socket is asked again at each of its requests. */
static void a_revoked_key_ends_its_socket(void **state)
{
    (void)state;
    fixture f = {.runtime = fake_open()};
    assert_int_equal(digest_bytes("stored", 6, f.runtime->key_hash, NULL), PAWL_OK);
    start(&f, (net_config){.socket_grace = 5});
    int fd = dial(&f);
    get(fd, "v1/responses", HANDSHAKE "Authorization: Bearer stored\r\n");
    expect(fd, "\r\n\r\n");
    frame(fd, 1, "stream n=3 delay=300");
    expect(fd, "{\"n\":0}");
    atomic_store(&f.runtime->key_answer, RUN_KEY_REVOKED);
    frame(fd, 1, "stream n=1 lane=x");
    expect(fd, "error 401 invalid_api_key x");
    expect(fd, "key revoked"); /* after what ran has ended */
    close(fd);
    stop(&f);
}

static void pages_of_the_list_may_ask(void **state)
{
    (void)state;
    static const char *const origin = "https://app.example";
    fixture f = {0};
    start(&f, (net_config){.key = "secret", .origins = &origin, .n_origins = 1});
    int fd = dial(&f);
    say(fd, "OPTIONS /v1/responses HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n"
            "Access-Control-Request-Method: POST\r\n"
            "Access-Control-Request-Headers: authorization,x-stainless-os\r\n\r\n");
    expect(fd, "Access-Control-Allow-Headers: authorization,x-stainless-os\r\n");
    close(fd);
    fd = dial(&f);
    get(fd, "reply", "Origin: https://app.example\r\nAuthorization: Bearer secret\r\n");
    expect(fd, "Access-Control-Allow-Origin: https://app.example\r\n");
    close(fd);
    fd = dial(&f);
    get(fd, "reply", "Origin: https://app.example\r\n");
    expect(fd, "401 Unauthorized");
    close(fd);
    fd = dial(&f);
    say(fd, "OPTIONS /v1/responses HTTP/1.1\r\nHost: localhost\r\nOrigin: https://b.example\r\n"
            "Access-Control-Request-Method: POST\r\n\r\n");
    expect(fd, "403 Forbidden");
    close(fd);
    stop(&f);
}

static void keys_before_a_network(void **state)
{
    (void)state;
    fixture f = {.runtime = fake_open()};
    pawl_error error = {.struct_size = sizeof error};
    net_config config = {.listen = "0.0.0.0:0", .runtime = f.runtime};
    assert_int_equal(net_open(&config, &f.server, &error), PAWL_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, "pawl key add"));
    strcpy(f.runtime->key_hash, "there is one");
    assert_int_equal(net_open(&config, &f.server, &error), PAWL_OK);
    assert_non_null(strstr(net_shown_address(f.server), "http://0.0.0.0:"));
    net_close(f.server);
    config.tls_cert = "/nowhere";
    assert_int_equal(net_open(&config, &f.server, &error), PAWL_E_ARGUMENT);
    config.tls_key = "/nowhere";
    assert_int_equal(net_open(&config, &f.server, &error), PAWL_E_NOT_FOUND);
    fake_close(f.runtime);
}

static void connections_of_one_address(void **state)
{
    (void)state;
    enum { MOST = 4 };
    fixture f = {0};
    start(&f, (net_config){.max_per_address = MOST});
    int fds[MOST];
    for (int i = 0; i < MOST; i++) {
        fds[i] = dial(&f);
        post(fds[i], "reply");
        expect(fds[i], "200 OK");
    }
    int more = dial(&f);
    post(more, "reply");
    expect(more, "Retry-After: 17\r\n");
    close(more);
    close(fds[0]);
    fake_sleep(300);
    more = dial(&f);
    post(more, "reply");
    expect(more, "200 OK");
    int flood[MOST + 8];
    for (int i = 0; i < MOST + 8; i++)
        flood[i] = dial(&f);
    expect_end(flood[MOST + 7], 5000); /* without a word */
    for (int i = 0; i < MOST + 8; i++)
        close(flood[i]);
    for (int i = 1; i < MOST; i++)
        close(fds[i]);
    close(more);
    stop(&f);
}

static void slow_heads_and_bodies_end(void **state)
{
    (void)state;
    fixture f = {0};
    start(&f, (net_config){.header_timeout = 1, .body_timeout = 1});
    int mute = dial(&f), drip = dial(&f), body = dial(&f), chunks = dial(&f);
    say(body, "POST /reply HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nbegin");
    say(chunks, "POST /reply HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    say(drip, "GET /reply HTTP/1.1\r\n");
    for (int i = 0; i < 6; i++) { /* a byte now and then does not help */
        send(body, "x", 1, MSG_NOSIGNAL);
        send(drip, "X", 1, MSG_NOSIGNAL);
        fake_sleep(100);
    }
    expect(body, "408 Request Timeout");
    expect(chunks, "408 Request Timeout");
    expect_end(mute, 3000);
    expect_end(drip, 3000);
    static char text[65536];
    int good = dial(&f);
    say(good, "POST /reply HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000\r\n\r\n");
    memset(text, 'x', 2000);
    for (int i = 0; i < 10; i++) { /* slow, but not too slow */
        say(good, text);
        fake_sleep(400);
    }
    expect(good, "\"body\":20000");
    close(mute), close(drip), close(body), close(chunks), close(good);
    stop(&f);
}

static void slow_and_small_frames_end(void **state)
{
    (void)state;
    fixture f = {0};
    start(&f, (net_config){.body_timeout = 1});
    int slow = open_socket(&f), many = open_socket(&f), begun = open_socket(&f);
    const char first[] = "\x01\x81\0\0\0\0{", none[] = "\x00\x80\0\0\0\0";
    assert_int_equal(send(slow, first, 7, MSG_NOSIGNAL), 7);
    assert_int_equal(send(begun, "\x81\xfe\x0f\xff\0\0\0\0abc", 11, MSG_NOSIGNAL), 11);
    expect(slow, "error 408 request_timeout -\x88\x12\x03\xf0message too slow");
    expect(begun, "error 408 request_timeout -");
    send(many, first, 7, MSG_NOSIGNAL);
    for (int i = 0; i < 4000; i++)
        if (send(many, none, 6, MSG_NOSIGNAL) != 6)
            break;
    expect(many, "error 429 rate_limit_exceeded -");
    close(slow), close(many), close(begun);
    stop(&f);
}

static int dial_narrow(const fixture *f)
{
    int size = 2048, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons(net_port(f->server))};
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* A client that does not read is closed; one that reads slowly gets everything. */
static void who_does_not_read_is_closed(void **state)
{
    (void)state;
    fixture f = {0};
    start(&f, (net_config){.write_timeout = 1});
    int deaf = dial_narrow(&f), slow = dial(&f), stream = dial_narrow(&f);
    post(deaf, "reply%20large");
    post(slow, "reply%20large");
    post(stream, "endless");
    static char heard[1 << 20];
    size_t n = 0;
    for (int i = 0; i < 100 && n < FAKE_LARGE; i++) {
        size_t most = FAKE_LARGE - n < 100000 ? FAKE_LARGE - n : 100000;
        ssize_t got = recv(slow, heard, most, MSG_WAITALL);
        assert_true(got > 0);
        n += (size_t)got;
        fake_sleep(50);
    }
    assert_true(n >= FAKE_LARGE);
    wait_until(&fake_calls, 0);
    close(deaf), close(slow), close(stream);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_for_keys),
        cmocka_unit_test(a_revoked_key_ends_its_socket),
        cmocka_unit_test(pages_of_the_list_may_ask),
        cmocka_unit_test(keys_before_a_network),
        cmocka_unit_test(connections_of_one_address),
        cmocka_unit_test(slow_heads_and_bodies_end),
        cmocka_unit_test(slow_and_small_frames_end),
        cmocka_unit_test(who_does_not_read_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
