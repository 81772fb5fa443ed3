/*
 * address_test.c - what may be listened on, and who may ask.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/address.h"

static void parses_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *host;
        uint16_t port;
        bool v6;
    } good[] = {{"127.0.0.1:8080", "127.0.0.1", 8080, false},
                {"localhost:0", "127.0.0.1", 0, false},
                {"LocalHost:65535", "127.0.0.1", 65535, false},
                {"127.1.2.3:1", "127.1.2.3", 1, false},
                {"[::1]:80", "::1", 80, true},
                {"0.0.0.0:80", "0.0.0.0", 80, false},
                {"192.168.0.1:80", "192.168.0.1", 80, false},
                {"[::]:80", "::", 80, true},
                {"[2001:DB8::1]:80", "2001:db8::1", 80, true}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        net_address address;
        assert_int_equal(address_parse(good[i].text, &address, NULL), PAWL_OK);
        assert_string_equal(address.host, good[i].host);
        assert_int_equal(address.port, good[i].port);
        assert_int_equal(address.v6, good[i].v6);
        assert_int_equal(address.loopback, i < 5);
        assert_int_equal(address.any, strspn(address.host, "0.:") == strlen(address.host));
    }
}

static void refuses_the_rest(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "8080",
                                      ":8080",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:x",
                                      "127.0.0.1:-1",
                                      "127.0.0.1:65536",
                                      "[::1",
                                      "[::1]",
                                      "::1:80",
                                      "example.org:80",
                                      "[127.0.0.1]:80",
                                      "127.0.0.1.org:80",
                                      "localhost.org:80",
                                      "127.0.0.1:080808"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        net_address address;
        pawl_error error = {.struct_size = sizeof error};
        assert_int_not_equal(address_parse(bad[i], &address, &error), PAWL_OK);
        assert_true(strlen(error.message) > 10);
    }
}

static void names_what_is_in_use(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    net_address address = {.host = "127.0.0.1", .port = ntohs(at.sin_port)};
    pawl_error error = {.struct_size = sizeof error};
    assert_int_equal(address_try(&address, &error), PAWL_E_BUSY);
    char want[32];
    snprintf(want, sizeof want, "127.0.0.1:%u", address.port);
    assert_non_null(strstr(error.message, want));
    close(fd);
    assert_int_equal(address_try(&address, &error), PAWL_OK);
}

static void knows_its_own_names(void **state)
{
    (void)state;
    assert_true(address_is_local_host("localhost"));
    assert_true(address_is_local_host("localhost."));
    assert_true(address_is_local_host("LOCALHOST:8080"));
    assert_true(address_is_local_host("127.0.0.1:1"));
    assert_true(address_is_local_host("[::1]"));
    assert_true(address_is_local_host("[0:0:0:0:0:0:0:1]:80"));
    static const char *const strange[] = {"",
                                          "example.org",
                                          "localhost.example.org",
                                          "127.0.0.1.nip.io",
                                          "127.0.0.1@x",
                                          "[::1]x",
                                          "[::2]",
                                          "0.0.0.0",
                                          "localhost:",
                                          "localhost:80:90",
                                          "localhost:80 ",
                                          "[::1",
                                          "127.0.0.1/x"};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        assert_false(address_is_local_host(strange[i]));
}

static void knows_addresses_from_names(void **state)
{
    (void)state;
    assert_true(address_is_literal("192.0.2.7"));
    assert_true(address_is_literal("192.0.2.7:8080"));
    assert_true(address_is_literal("[2001:db8::1]:443"));
    static const char *const names[] = {"",       "example.org", "192.0.2.7.nip.io", "0.0.0.0",
                                        "[::]:1", "192.0.2.7:",  "192.0.2",          "0x7f.1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_false(address_is_literal(names[i]));
}

static void knows_its_own_origins(void **state)
{
    (void)state;
    assert_true(address_is_local_origin("http://localhost:3000"));
    assert_true(address_is_local_origin("https://127.0.0.1"));
    assert_true(address_is_local_origin("HTTP://[::1]:1"));
    static const char *const foreign[] = {"",
                                          "null",
                                          "http://",
                                          "file://",
                                          "localhost",
                                          "http://localhost.example.org",
                                          "ftp://localhost",
                                          "http://localhost/page",
                                          "http://user@localhost",
                                          "https://example.org"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        assert_false(address_is_local_origin(foreign[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_addresses),      cmocka_unit_test(refuses_the_rest),
        cmocka_unit_test(names_what_is_in_use),  cmocka_unit_test(knows_its_own_names),
        cmocka_unit_test(knows_its_own_origins), cmocka_unit_test(knows_addresses_from_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
