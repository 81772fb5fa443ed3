/*
 * tests/unit/tokenizer/normal_test.c - NFC as the reference tokenizer does it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tokenizer/normal.h"

static struct classes classes;

/* expected NULL: the text is to stay as it is, uncopied. */
static void nfc_is(const char *text, const char *expected)
{
    uint8_t *normal = NULL;
    size_t size = 0;
    assert_int_equal(
        normal_nfc(&classes, (const uint8_t *)text, strlen(text), &normal, &size, NULL), PAWL_OK);
    if (expected) {
        assert_non_null(normal);
        assert_int_equal(size, strlen(expected));
        assert_memory_equal(normal, expected, size);
    } else {
        assert_null(normal);
        assert_int_equal(size, strlen(text));
    }
    free(normal);
}

static void leaves_what_is_normal(void **state)
{
    (void)state;
    nfc_is("", NULL);
    nfc_is("plain ASCII", NULL);
    nfc_is("caf\xc3\xa9 \xd0\xbf\xd1\x80 \xe6\x97\xa5\xe6\x9c\xac \xed\x95\x9c \xf0\x9f\x98\x80",
           NULL);
    nfc_is("\xff\xfe\xe4\xbd", NULL);
}

static void composes(void **state)
{
    (void)state;
    nfc_is("cafe\xcc\x81", "caf\xc3\xa9");
    nfc_is("\xe2\x84\xab", "\xc3\x85");                             /* Angstrom sign */
    nfc_is("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c"); /* Hangul */
    nfc_is("q\xcc\x87\xcc\xa3", "q\xcc\xa3\xcc\x87");               /* marks in order */
    nfc_is("\xe0\xbe\xac", "\xe0\xbe\xab\xe0\xbe\xb7");             /* grows */
}

static void keeps_bytes_that_are_not_utf8(void **state)
{
    (void)state;
    nfc_is("\xff"
           "e\xcc\x81\xcc",
           "\xff\xc3\xa9\xcc");
    nfc_is("e\xff\xcc\x81", "e\xff\xcc\x81"); /* nothing combines across them */
}

static void stays_at_the_references_unicode(void **state)
{
    (void)state;
    nfc_is("\xcc\x81\xe0\xb0\xbc", "\xcc\x81\xe0\xb0\xbc"); /* U+0C3C is younger */
    nfc_is("\xea\xb0\xb8\xe1\x86\xa7", NULL);               /* U+11A7 is no final */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaves_what_is_normal),
        cmocka_unit_test(composes),
        cmocka_unit_test(keeps_bytes_that_are_not_utf8),
        cmocka_unit_test(stays_at_the_references_unicode),
    };
    if (classes_init(&classes, NULL) != PAWL_OK)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    classes_clear(&classes);
    return failed;
}
