/*
 * tests/unit/script/address_test.c - which addresses tools may reach unasked.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

static bool is_public(const char *text)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
        return address_is_public((struct sockaddr *)&four);
    assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
    return address_is_public((struct sockaddr *)&six);
}

static void ours_and_theirs(void **state)
{
    (void)state;
    static const char *const theirs[] = {"1.1.1.1",          "9.255.255.255",   "11.0.0.0",
                                         "100.63.0.1",       "100.128.0.1",     "126.1.1.1",
                                         "128.0.0.1",        "169.253.1.1",     "172.15.0.1",
                                         "172.32.0.1",       "192.167.1.1",     "192.169.1.1",
                                         "223.255.255.255",  "2606:4700::1111", "::ffff:1.1.1.1",
                                         "64:ff9b::101:101", "2002:101:101::1"};
    static const char *const ours[] = {
        "0.0.0.0",         "10.1.2.3",       "100.64.0.1",      "127.0.0.1",   "127.255.0.1",
        "169.254.169.254", "172.16.0.1",     "172.31.255.255",  "192.168.0.1", "198.18.0.1",
        "224.0.0.1",       "240.0.0.1",      "255.255.255.255", "::",          "::1",
        "fe80::1",         "fc00::1",        "fd12::1",         "ff02::1",     "::ffff:127.0.0.1",
        "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::1",  "::7f00:1"};
    for (size_t i = 0; i < sizeof theirs / sizeof theirs[0]; i++)
        if (!is_public(theirs[i]))
            fail_msg("%s is public", theirs[i]);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (is_public(ours[i]))
            fail_msg("%s is not public", ours[i]);
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    assert_false(address_is_public((struct sockaddr *)&local));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ours_and_theirs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
