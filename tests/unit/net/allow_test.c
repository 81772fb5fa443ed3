/*
 * allow_test.c - hosts and origins that may ask, and addresses that are counted.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/allow.h"
#include "net/peers.h"

static allow_list open_list(bool network, const char *host, const char *origin)
{
    allow_list list;
    assert_int_equal(allow_open(&list, network, &host, host != NULL, &origin, origin != NULL, NULL),
                     PAWL_OK);
    return list;
}

static void hosts(void **state)
{
    (void)state;
    allow_list list = open_list(false, "pawl.example", NULL);
    assert_true(allow_host(&list, "localhost:8080"));
    assert_true(allow_host(&list, "PAWL.example"));
    assert_true(allow_host(&list, "pawl.example:8443"));
    static const char *const strange[] = {
        "pawl.example.org", "pawl.example:x", "pawl.example:", "x.pawl.example",
        "pawl.example:1:2", "pawl.exampl",    "192.0.2.1",     ""};
    for (size_t i = 0; i < 8; i++)
        assert_false(allow_host(&list, strange[i]));
    allow_close(&list);
    list = open_list(true, "a.example:1", NULL);
    assert_true(allow_host(&list, "192.0.2.1:80"));
    assert_true(allow_host(&list, "a.example:1"));
    assert_false(allow_host(&list, "a.example:11"));
    assert_false(allow_host(&list, "a.example"));
    allow_close(&list);
    list = open_list(false, "*", NULL);
    assert_true(allow_host(&list, "anything"));
    allow_close(&list);
}

static void origins(void **state)
{
    (void)state;
    allow_list list = open_list(false, NULL, "https://app.example");
    assert_true(allow_origin(&list, "http://localhost:3000", "localhost:80"));
    assert_null(allow_cors(&list, "http://localhost:3000"));
    assert_string_equal(allow_cors(&list, "https://APP.example"), "https://app.example");
    assert_true(allow_origin(&list, "https://app.example", "x"));
    static const char *const foreign[] = {"null", "http://app.example", "https://app.example:1",
                                          "https://app.example.org", "https://x.app.example"};
    for (size_t i = 0; i < 5; i++)
        assert_false(allow_origin(&list, foreign[i], "app.example.org:9"));
    allow_close(&list);
    list = open_list(true, NULL, NULL);
    assert_false(allow_origin(&list, "http://localhost:3000", "192.0.2.1"));
    assert_true(allow_origin(&list, "http://192.0.2.1:80", "192.0.2.1:80")); /* its own page */
    assert_false(allow_origin(&list, "file://192.0.2.1:80", "192.0.2.1:80"));
    assert_false(allow_origin(&list, "null", ""));
    allow_close(&list);
    list = open_list(true, NULL, "*");
    assert_string_equal(allow_cors(&list, "null"), "*");
    allow_close(&list);
}

static void refuses_what_is_no_name(void **state)
{
    (void)state;
    static const char *const bad_hosts[] = {"", "a b", "http://a", "a/b"};
    static const char *const bad_origins[] = {"", "app.example", "https://", "https://a/b",
                                              "https://a b"};
    allow_list list;
    pawl_error error = {.struct_size = sizeof error};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(allow_open(&list, false, &bad_hosts[i], 1, NULL, 0, &error),
                         PAWL_E_ARGUMENT);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(allow_open(&list, false, NULL, 0, &bad_origins[i], 1, &error),
                         PAWL_E_ARGUMENT);
    assert_non_null(strstr(error.message, "--allow-origin"));
}

/* Counts come and go, whatever the order. */
static void counts_addresses(void **state)
{
    (void)state;
    peers all = {0};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 8), 0);
    getsockname(listener, (struct sockaddr *)&at, &size);
    int clients[3], servers[3];
    peer *seen[3];
    for (int i = 0; i < 3; i++) {
        struct sockaddr_in from = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(0x7f000001u + (i == 2))};
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(clients[i], (struct sockaddr *)&from, sizeof from), 0);
        assert_int_equal(connect(clients[i], (struct sockaddr *)&at, sizeof at), 0);
        servers[i] = accept(listener, NULL, NULL);
        if (i == 0)
            assert_null(peers_look(&all, servers[i]));
        seen[i] = peers_join(&all, servers[i]);
        assert_non_null(seen[i]);
        assert_true(seen[i]->loopback);
    }
    assert_ptr_equal(seen[0], seen[1]);
    assert_ptr_not_equal(seen[0], seen[2]);
    assert_int_equal(seen[0]->n, 2);
    assert_ptr_equal(peers_look(&all, servers[0]), seen[0]);
    assert_null(peers_join(&all, -1));
    for (int i = 0; i < 3; i++) {
        peers_leave(&all, seen[i]);
        close(clients[i]);
    }
    assert_null(peers_look(&all, servers[0]));
    for (size_t i = 0; i < PEERS_BUCKETS; i++)
        assert_null(all.buckets[i]);
    for (int i = 0; i < 3; i++)
        close(servers[i]);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts),
        cmocka_unit_test(origins),
        cmocka_unit_test(refuses_what_is_no_name),
        cmocka_unit_test(counts_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
