/*
 * server_test.c - the server with a fake dialect behind it: what takes time, what
 * comes in an unusual order, and what a real model does not do on demand.
 *
 * The server serves on a thread of its own; the test is the client.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "serving.h"

/* ------------------------------------------------------------------- tests ---- */

static void answers_in_every_kind(void **state)
{
    (void)state;
    fixture f = {0};
    start(&f, (net_config){0});
    int fd = dial(&f);
    post(fd, "reply?a=b%26c&d");
    expect(fd, "{\"method\":\"POST\",\"query\":\"a=b%26c&d\",\"body\":2,\"tenant\":\"\"}");
    post(fd, "fold%20n=3");
    expect(fd, "{\"events\":4}");
    post(fd, "stream%20n=2");
    expect(fd, "event: event\ndata: {\"end\":\"completed\",\"parent\":\"none\"}\n\n\r\n0\r\n\r\n");
    post(fd, "early%20n=3");
    expect(fd, "data: {\"n\":2}\n\n\r\n38\r\nevent: event\ndata: {\"end\":\"completed\","
               "\"parent\":\"none\"}\n\n\r\n0\r\n\r\n");
    post(fd, "fold%20early%20n=5");
    expect(fd, "{\"events\":6}");
    close(fd);
    stop(&f);
}

/* A reply that the socket does not take at once, and the next request right after it. */
static void keeps_a_connection_after_large_replies(void **state)
{
    (void)state;
    fixture f = {0};
    start(&f, (net_config){0});
    int fd = dial(&f);
    static char heard[FAKE_LARGE + 1000];
    for (int i = 0; i < 30; i++) {
        size_t n = 0, whole = 1;
        post(fd, "reply%20large");
        while (n < whole) {
            ssize_t got = recv(fd, heard + n, sizeof heard - n, 0);
            assert_true(got > 0);
            n += (size_t)got;
            const char *body = strstr(heard, "\r\n\r\n");
            whole = (size_t)(body + 4 - heard) + FAKE_LARGE;
        }
        memset(heard, 0, 1000);
    }
    post(fd, "reply");
    expect(fd, "\"POST\"");
    close(fd);
    stop(&f);
}

static void says_when_it_has_too_much_to_do(void **state)
{
    (void)state;
    fixture f = {0};
    start(&f, (net_config){0});
    int fd = dial(&f), ws = open_socket(&f);
    atomic_store(&f.runtime->full, true);
    post(fd, "reply");
    expect(fd, "\r\nRetry-After: 17\r\n");
    frame(ws, 1, "stream n=1");
    expect(ws, "error 503 server_is_overloaded -");
    atomic_store(&f.runtime->full, false);
    frame(ws, 1, "stream n=1 lane=x");
    expect(ws, "{\"end\"");
    post(fd, "reply");
    expect(fd, "200 OK");
    close(fd);
    close(ws);
    stop(&f);
}

static void comments_while_nothing_comes(void **state)
{
    (void)state;
    fixture f = {0};
    start(&f, (net_config){.comment_interval = 1});
    int fd = dial(&f);
    post(fd, "stream%20n=1%20delay=3500");
    char heard[4096];
    assert_true(hear(fd, heard, sizeof heard, "0\r\n\r\n", 20000));
    const char *first = strstr(heard, "e\r\n: keep-alive\n\n\r\n");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, ": keep-alive"));
    close(fd);
    stop(&f);
}

/* Kept events come at the pace of their client, who may also go. */
static void kept_events_are_pulled(void **state)
{
    (void)state;
    fixture f = {0};
    char heard[65536];
    start(&f, (net_config){0});
    int fd = dial(&f), ws = open_socket(&f);
    atomic_store(&fake_waits, 0);
    post(fd, "stream%20pulled%20n=500");
    expect(fd, "{\"n\":499}");
    for (int i = 0; i < 2; i++) {
        frame(ws, 1, "stream pulled n=500");
        expect(ws, "{\"end\":\"completed\"");
    }
    assert_true(atomic_load(&fake_waits) > 400);
    post(fd, "fold%20pulled%20n=500");
    expect(fd, "{\"events\":501}");
    /* Those who do not read: the events wait where they are, and the server for nobody. */
    int slow = dial(&f), slow_ws = open_socket(&f);
    post(slow, "stream%20pulled%20n=2000000");
    frame(slow_ws, 1, "stream pulled n=2000000");
    for (int i = 0; i < 20; i++) {
        fake_sleep(20);
        frame(ws, 1, "stream n=1");
        expect(ws, "{\"end\":\"completed\"");
    }
    assert_int_equal(atomic_load(&fake_calls), 2);
    assert_true(hear(slow, heard, sizeof heard, "{\"n\":1000}", 5000));
    close(slow);
    close(slow_ws);
    wait_until(&fake_calls, 0);
    frame(ws, 1, "cancel id=resp_elsewhere"); /* is told its end as by any other frame */
    expect(ws, "{\"end\":\"completed\"");
    close(fd);
    close(ws);
    stop(&f);
}

static void ends_idle_connections(void **state)
{
    (void)state;
    fixture f = {0};
    start(&f, (net_config){.idle_timeout = 1});
    int fd = dial(&f);
    post(fd, "fold%20n=1%20delay=1500");
    expect(fd, "{\"events\":2}");
    expect_end(fd, 5000);
    close(fd);
    stop(&f);
}

static void pings_and_hangs_up(void **state)
{
    (void)state;
    fixture f = {0};
    start(&f, (net_config){.ping_interval = 1});
    int mute = open_socket(&f), lively = open_socket(&f);
    for (int i = 0; i < 4; i++) {
        expect(lively, "\x89");
        frame(lively, 10, "");
    }
    expect_end(mute, 9000);
    frame(lively, 1, "stream n=1");
    expect(lively, "{\"end\"");
    close(mute);
    close(lively);
    stop(&f);
}

static void a_socket_has_a_lifetime(void **state)
{
    (void)state;
    fixture f = {0};
    start(&f, (net_config){.socket_lifetime = 1, .socket_grace = 1});
    int busy = open_socket(&f), idle = open_socket(&f);
    frame(busy, 1, "endless delay=50 lane=a");
    frame(busy, 1, "stream n=1 lane=a");
    expect(idle, "error 400 websocket_connection_limit_reached -\x88\x0a\x03\xe8lifetime");
    expect(busy, "{\"end\":\"cancelled\",\"parent\":\"none\"}\x81\x2e"
                 "error 400 websocket_connection_limit_reached a\x88\x0a\x03\xe8lifetime");
    close(busy);
    close(idle);
    stop(&f);
    start(&f, (net_config){.socket_lifetime = 1, .socket_grace = 30});
    busy = open_socket(&f);
    frame(busy, 1, "stream n=1 delay=2000");
    expect(busy, "{\"end\":\"completed\",\"parent\":\"none\"}\x88\x0a\x03\xe8lifetime");
    close(busy);
    stop(&f);
}

static void lanes_and_their_memory(void **state)
{
    (void)state;
    fixture f = {0};
    start(&f, (net_config){0});
    int ws = open_socket(&f);
    frame(ws, 1, "stream n=1 id=resp_1 lane=a");
    expect(ws, "\"parent\":\"none\"}");
    frame(ws, 1, "stream n=1 id=resp_2 lane=b parent=resp_1");
    expect(ws, "\"parent\":\"resp_1\"}");
    frame(ws, 1, "error lane=b parent=resp_1"); /* another lane's: stays */
    expect(ws, "{\"parent\":\"resp_1\"}");
    frame(ws, 1, "error lane=a parent=resp_1"); /* its own: goes */
    expect(ws, "{\"parent\":\"resp_1\"}");
    frame(ws, 1, "stream n=1 parent=resp_1");
    expect(ws, "\"parent\":\"none\"}");
    frame(ws, 1, "refused");
    expect(ws, "error 400 refused -");
    frame(ws, 1, "endless delay=10 id=resp_3 lane=a");
    expect(ws, "{\"n\":1}");
    frame(ws, 1, "cancel lane=b");
    expect(ws, "error 400 response_not_found b");
    frame(ws, 1, "cancel id=resp_3");
    expect(ws, "{\"end\":\"cancelled\"");
    frame(ws, 1, "stream n=1 parent=resp_3"); /* cancelled: no parent */
    expect(ws, "\"parent\":\"none\"}");
    frame(ws, 1, "endless delay=10 lane=a");
    frame(ws, 1, "cancel lane=a");
    expect(ws, "{\"end\":\"cancelled\"");
    close(ws);
    stop(&f);
}

static void whoever_goes_is_cancelled(void **state)
{
    (void)state;
    static const char *const words[] = {"stream%20endless%20delay=10", "fold%20endless%20delay=10"};
    fixture f = {0};
    start(&f, (net_config){0});
    for (size_t i = 0; i < 2; i++) {
        int fd = dial(&f);
        atomic_store(&fake_cancels, 0);
        post(fd, words[i]);
        wait_until(&fake_calls, 1);
        close(fd);
        wait_until(&fake_calls, 0);
        assert_int_equal(atomic_load(&fake_cancels), 1);
    }
    int ws = open_socket(&f);
    atomic_store(&fake_cancels, 0);
    for (int i = 0; i < 20; i++) {
        char text[64];
        snprintf(text, sizeof text, "endless delay=10 lane=l%d", i);
        frame(ws, 1, text);
    }
    wait_until(&fake_calls, 16);
    close(ws);
    wait_until(&fake_calls, 0);
    assert_int_equal(atomic_load(&fake_cancels), 16);
    stop(&f);
}

static void stops_while_much_runs(void **state)
{
    (void)state;
    fixture f = {0};
    start(&f, (net_config){0});
    int ws = open_socket(&f), fd = dial(&f), fold = dial(&f), idle = dial(&f);
    frame(ws, 1, "endless delay=10");
    frame(ws, 1, "endless delay=10");
    post(fd, "stream%20endless%20delay=10");
    post(fold, "fold%20endless%20delay=10");
    wait_until(&fake_calls, 3);
    stop(&f);
    expect(ws, "{\"end\":\"cancelled\",\"parent\":\"none\"}\x88\x0f\x03\xe9shutting down");
    expect(fd, "{\"end\":\"cancelled\",\"parent\":\"none\"}\n\n\r\n0\r\n\r\n");
    expect(fold, "{\"events\":");
    expect_end(idle, 1000);
    close(ws);
    close(fd);
    close(fold);
    close(idle);
}

static void stops_before_it_serves(void **state)
{
    (void)state;
    fixture f = {.runtime = fake_open()};
    net_config config = {.listen = "127.0.0.1:0", .runtime = f.runtime};
    assert_int_equal(net_open(&config, &f.server, NULL), PAWL_OK);
    net_stop(f.server);
    assert_int_equal(net_serve(f.server), PAWL_OK);
    fake_close(f.runtime);
    net_close(f.server);
    net_close(NULL);
}

/* Those who watch the server do not wait for its worker. */
static void probes_need_no_worker(void **state)
{
    (void)state;
    static const char *const paths[] = {"livez", "readyz", "health", "v1/health"};
    fixture f = {.runtime = fake_open()};
    start(&f, (net_config){0});
    atomic_store(&f.runtime->full, true);
    for (int ready = 1; ready >= 0; ready--) {
        atomic_store(&f.runtime->unready, !ready);
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
            int fd = dial(&f);
            get(fd, paths[i], "");
            expect(fd, ready || i == 0 ? "200 OK" : "503 Service Unavailable");
            close(fd);
        }
    }
    atomic_store(&f.runtime->full, false);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_in_every_kind),
        cmocka_unit_test(keeps_a_connection_after_large_replies),
        cmocka_unit_test(says_when_it_has_too_much_to_do),
        cmocka_unit_test(comments_while_nothing_comes),
        cmocka_unit_test(kept_events_are_pulled),
        cmocka_unit_test(ends_idle_connections),
        cmocka_unit_test(pings_and_hangs_up),
        cmocka_unit_test(a_socket_has_a_lifetime),
        cmocka_unit_test(lanes_and_their_memory),
        cmocka_unit_test(whoever_goes_is_cancelled),
        cmocka_unit_test(stops_while_much_runs),
        cmocka_unit_test(stops_before_it_serves),
        cmocka_unit_test(probes_need_no_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
