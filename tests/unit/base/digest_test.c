/*
 * digest_test.c - SHA-256 against the vectors of FIPS 180-4 and against itself.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"

static void known_vectors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char hex[DIGEST_HEX_SIZE];
        assert_int_equal(digest_bytes(cases[i].text, strlen(cases[i].text), hex, NULL), PAWL_OK);
        assert_string_equal(hex, cases[i].hex);
    }
}

/* Each piece is told from its neighbours by its length. */
static void pieces(void **state)
{
    (void)state;
    const pawl_bytes lists[][3] = {
        {{"ab", 2}, {"c", 1}, {"", 0}},
        {{"a", 1}, {"bc", 2}, {"", 0}},
        {{"", 0}, {"ab", 2}, {"c", 1}},
        {{"abc", 3}, {NULL, 0}, {NULL, 0}},
    };
    uint8_t sums[5][DIGEST_SIZE];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(digest_pieces(lists[i], 3, sums[i], NULL), PAWL_OK);
    assert_int_equal(digest_pieces(lists[0], 2, sums[4], NULL), PAWL_OK);
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(sums[i], sums[k], DIGEST_SIZE);
    /* it is SHA-256 over length, bytes, length, bytes... */
    char joined[] = "\2\0\0\0\0\0\0\0ab\1\0\0\0\0\0\0\0c", hex[DIGEST_HEX_SIZE],
         got[DIGEST_HEX_SIZE];
    assert_int_equal(digest_bytes(joined, sizeof joined - 1, hex, NULL), PAWL_OK);
    for (size_t i = 0; i < DIGEST_SIZE; i++)
        snprintf(got + 2 * i, 3, "%02x", sums[4][i]);
    assert_string_equal(got, hex);
}

static void files(void **state)
{
    (void)state;
    char path[] = "/tmp/pawl-digest-XXXXXX", hex[DIGEST_HEX_SIZE] = "untouched";
    char *text = malloc(1000000);
    memset(text, 'a', 1000000);
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, 1000000), 1000000);
    close(fd);
    assert_int_equal(digest_file(path, hex, NULL), PAWL_OK);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    unlink(path);
    free(text);

    pawl_error error;
    strcpy(hex, "untouched");
    assert_int_equal(digest_file(path, hex, &error), PAWL_E_NOT_FOUND);
    assert_non_null(strstr(error.message, path));
    assert_int_equal(digest_file("/tmp", hex, &error), PAWL_E_FORMAT);
    assert_string_equal(hex, "untouched");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_vectors), cmocka_unit_test(pieces),
                                       cmocka_unit_test(files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
