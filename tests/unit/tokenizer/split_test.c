/*
 * tests/unit/tokenizer/split_test.c - where texts are cut.
 *
 * The expected pieces follow from the regular expressions in split.c, read by hand.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pawl/plugin_util.h>

#include "tokenizer/split.h"

static struct classes classes;

/* The pieces of a text with a bar between them. */
static void pieces_are(const char *pre, const char *text, const char *expected)
{
    const struct split_rule *rule = split_find(pawl_text(pre));
    char got[512];
    size_t n = 0, size = strlen(text);
    assert_non_null(rule);
    for (size_t at = 0; at < size;) {
        size_t piece = split_next(rule, &classes, (const uint8_t *)text + at, size - at);
        assert_true(piece >= 1 && piece <= size - at);
        if (at > 0)
            got[n++] = '|';
        memcpy(got + n, text + at, piece);
        n += piece;
        at += piece;
    }
    got[n] = '\0';
    assert_string_equal(got, expected);
}

static void cuts_like_gpt2(void **state)
{
    (void)state;
    pieces_are("gpt-2", "Hello world", "Hello| world");
    pieces_are("gpt-2", "a  b   c", "a| | b|  | c");
    pieces_are("gpt-2", "end  ", "end|  ");
    pieces_are("gpt-2", " ", " ");
    pieces_are("gpt-2", "\n\nx\ty", "\n|\n|x|\t|y");
    pieces_are("gpt-2", "it's I'LL we'ven", "it|'s| I|'|LL| we|'ve|n");
    pieces_are("gpt-2", " 's 't", " '|s| '|t");
    pieces_are("gpt-2", "abc123 456", "abc|123| 456");
    pieces_are("gpt-2", "x=1; !!'s", "x|=|1|;| !!'|s");
    pieces_are("gpt-2", "'", "'");
    pieces_are("gpt-2", "l'l", "l|'|l");
}

static void cuts_digits_alone_for_smollm(void **state)
{
    (void)state;
    pieces_are("smollm", "abc123 45", "abc|1|2|3| |4|5");
    pieces_are("smollm", "  7", "  |7");
    pieces_are("smollm", "  a", " | a");
    pieces_are("smollm", "x\n\n8y", "x|\n\n|8|y");
    pieces_are("smollm", "-\xc2\xbd-", "-|\xc2\xbd|-");
    pieces_are("smollm", "'1's", "'|1|'s");
}

static void cuts_like_llama3(void **state)
{
    (void)state;
    pieces_are("llama-bpe", "1234567", "123|456|7");
    pieces_are("llama-bpe", "I'LL it\xe2\x80\x99s", "I|'LL| it|\xe2\x80\x99s");
    pieces_are("llama-bpe", "a'\xc5\xbfx", "a|'\xc5\xbf|x");
    pieces_are("llama-bpe", "foo.bar (x)", "foo|.bar| (|x|)");
    pieces_are("llama-bpe", "a\n\n  b", "a|\n\n| | b");
    pieces_are("llama-bpe", "a \n \n b", "a| \n \n| b");
    pieces_are("llama-bpe", "x;\r\ny", "x|;\r\n|y");
    pieces_are("llama-bpe", "\tx \t", "\tx| \t");
    pieces_are("llama-bpe", "  1", " | |1");
}

static void cuts_like_qwen(void **state)
{
    (void)state;
    pieces_are("qwen2", "1234", "1|2|3|4");
    pieces_are("qwen2", "a\xcc\x81ti", "a|\xcc\x81ti");
    pieces_are("qwen2", "a\xcc\x81\xcc\x82", "a|\xcc\x81\xcc\x82");
    pieces_are("qwen35", "a\xcc\x81ti", "a\xcc\x81ti");
    pieces_are("qwen35", "! \xcc\x81", "!| \xcc\x81");
}

static void takes_bytes_that_are_not_utf8(void **state)
{
    (void)state;
    pieces_are("gpt-2", "a\xff\xfe b", "a|\xff\xfe| b");
    pieces_are("gpt-2", "\xe4\xbd", "\xe4\xbd");
    pieces_are("llama-bpe", "\xe4\xbdx", "\xe4\xbd|x");
    pieces_are("llama-bpe", "\xbdx", "\xbdx");
    pieces_are("llama-bpe", " \xed\xa0\x80", " \xed\xa0\x80");
}

static void knows_only_its_rules(void **state)
{
    (void)state;
    assert_null(split_find(pawl_text("gpt")));
    assert_null(split_find(pawl_text("")));
    assert_null(split_find((pawl_bytes){"gpt-2\0", 6}));
}

static void classes_are_unicodes(void **state)
{
    (void)state;
    static const struct {
        uint32_t code;
        uint8_t class;
    } samples[] = {
        {'a', CLASS_LETTER},
        {'0', CLASS_NUMBER},
        {' ', CLASS_SPACE},
        {'\n', CLASS_SPACE | CLASS_NEWLINE},
        {'_', 0},
        {0x85, CLASS_SPACE},
        {0xa0, CLASS_SPACE},
        {0xaa, CLASS_LETTER},
        {0xbd, CLASS_NUMBER},
        {0x301, CLASS_MARK},
        {0x180e, 0},
        {0x200b, 0},
        {0x2028, CLASS_SPACE},
        {0x2167, CLASS_NUMBER},
        {0x3000, CLASS_SPACE},
        {0x4e00, CLASS_LETTER},
        {0xac00, CLASS_LETTER},
        {0x1f600, 0},
        {0x20000, CLASS_LETTER},
        {0x2ebf0, CLASS_LETTER}, /* Unicode 15.1 */
        {0x1ccf0, CLASS_NUMBER}, /* Unicode 16 */
        {0x11de0, CLASS_NEWEST_DIGIT},
        {0x10ffff, 0},
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        if ((classes_of(&classes, samples[i].code) & ~CLASS_COMPOSES) != samples[i].class)
            fail_msg("U+%04X", samples[i].code);
    assert_int_equal(classes_of(&classes, UINT32_MAX), 0);
}

static void decodes_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        uint32_t length;
        uint32_t code;
    } samples[] = {
        {"a", 1, 'a'},
        {"\xc3\xa9", 2, 0xe9},
        {"\xe2\x82\xac", 3, 0x20ac},
        {"\xf0\x9f\x98\x80", 4, 0x1f600},
        {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
        {"\x80", 1, UINT32_MAX},
        {"\xc0\x80", 1, UINT32_MAX},         /* too long a form */
        {"\xe0\x80\x80", 1, UINT32_MAX},     /* too long a form */
        {"\xed\xa0\x80", 1, UINT32_MAX},     /* a surrogate */
        {"\xf4\x90\x80\x80", 1, UINT32_MAX}, /* beyond Unicode */
        {"\xf0\x9f\x98", 1, UINT32_MAX},     /* cut */
        {"\xe2\x28\xa1", 1, UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        uint32_t code = 0;
        const char *bytes = samples[i].bytes;
        assert_int_equal(classes_decode((const uint8_t *)bytes, strlen(bytes), &code),
                         samples[i].length);
        assert_int_equal(code, samples[i].code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_like_gpt2),
        cmocka_unit_test(cuts_digits_alone_for_smollm),
        cmocka_unit_test(cuts_like_llama3),
        cmocka_unit_test(cuts_like_qwen),
        cmocka_unit_test(takes_bytes_that_are_not_utf8),
        cmocka_unit_test(knows_only_its_rules),
        cmocka_unit_test(classes_are_unicodes),
        cmocka_unit_test(decodes_strictly),
    };
    if (classes_init(&classes, NULL) != PAWL_OK)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    classes_clear(&classes);
    return failed;
}
