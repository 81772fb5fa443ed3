/*
 * tests/unit/script/html_test.c - the text of HTML pages, good and bad ones.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/html.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void reads(const char *page, const char *text)
{
    buf out;
    buf_init(&out, 1u << 20);
    assert_true(html_to_text(page, strlen(page), &out));
    if (strcmp(buf_text(&out), text) != 0)
        fail_msg("%s\ngave:   %s\nwanted: %s", page, buf_text(&out), text);
    buf_clear(&out);
}

static void tags_are_dropped(void **state)
{
    (void)state;
    reads("", "");
    reads("a <b>bold</b> word", "a bold word\n");
    reads("<p>one<p>two<br>three</p>", "one\n\ntwo\nthree\n");
    reads("<h1>Head</h1>\n\n  text  \n", "Head\n\ntext\n");
    reads("<table><tr><td>a<td>b<tr><td>c</table>d", "a b\nc\n\nd\n");
    reads("<ul><li>x</li><li>y</li></ul>", "- x\n- y\n");
    reads("<a href='x>y' title = \"a>b\">link</a>", "link\n");
    reads("<pre>a\n  b\n\nc</pre>d", "a\nb\n\nc\n\nd\n");
    reads("<P>A<DIV>b", "A\nb\n");
}

static void what_is_no_text_is_left_out(void **state)
{
    (void)state;
    reads("a<script>if (x < 3) '</b>'</script>b", "ab\n");
    reads("a<STYLE type='x'>p { }</style >b", "ab\n");
    reads("a<script>never ends", "a\n");
    reads("a<!-- <p>no --> b<!doctype x>c<?php d ?>e", "a bce\n");
    reads("a<!-- never ends", "a\n");
    reads("a<![CDATA[ x ]]>b", "ab\n");
    reads("a<noscript>n</noscript><template>t</template><svg><text>s</text></svg>b", "ab\n");
}

static void references_are_replaced(void **state)
{
    (void)state;
    reads("&lt;b&gt; &amp;amp; &quot;&apos;", "<b> &amp; \"'\n");
    reads("&auml;&Auml;&euro;&hellip;&frac12;",
          "\xC3\xA4\xC3\x84\xE2\x82\xAC\xE2\x80\xA6\xC2\xBD\n");
    reads("&#65;&#x42;&#X43&#128;&#0;&#xD800;&#x110000;",
          "ABC\xE2\x82\xAC\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\n");
    reads("&#128512; &#99999999999999999999;", "\xF0\x9F\x98\x80 \xEF\xBF\xBD\n");
    reads("a&nbsp;b&shy;c&#10;d", "a bc d\n");
    reads("AT&T &unknown; &; & &# &#x &lt", "AT&T &unknown; &; & &# &#x &lt\n");
}

static void bad_pages_are_read(void **state)
{
    (void)state;
    reads("1 < 2 <", "1 < 2 <\n");
    reads("a<b", "a\n");
    reads("a<p class=\"x", "a\n");
    reads("</p></p>a</", "a</\n");
    reads("<averyveryverylongtagname>x", "x\n");
    reads("<>x<1>", "<>x<1>\n");
}

/* Pages that are made to be slow, and the maximum. */
static void it_stays_linear(void **state)
{
    (void)state;
    static const char *const units[] = {"<!--",   "<script>", "</", "<p",       "&#",
                                        "<a b='", "<li>",     "&a", "<![CDATA["};
    size_t size = 4u << 20;
    char *page = malloc(size);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        buf out;
        size_t n = strlen(units[i]);
        for (size_t at = 0; at < size; at++)
            page[at] = units[i][at % n];
        clock_t begun = clock();
        buf_init(&out, 2 * size);
        assert_true(html_to_text(page, size, &out));
        assert_true(out.size <= size + 1);
        if (clock() - begun > 5 * CLOCKS_PER_SEC)
            fail_msg("%s: slow", units[i]);
        buf_clear(&out);
    }
    buf out;
    memset(page, 'x', size);
    buf_init(&out, 1000);
    assert_false(html_to_text(page, size, &out));
    buf_clear(&out);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_are_dropped),        cmocka_unit_test(what_is_no_text_is_left_out),
        cmocka_unit_test(references_are_replaced), cmocka_unit_test(bad_pages_are_read),
        cmocka_unit_test(it_stays_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
