/*
 * input_test.c - what is a message, and what is not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "terminal/input.h"

typedef struct bench {
    int pipe[2];
    int wake;
    int prompts, more;
    input in;
    buf text;
} bench;

static void prompt(void *arg, bool more)
{
    bench *b = arg;
    b->prompts++;
    b->more += more;
}

/* Everything that is to be read is written, and the other end closed. */
static void bench_open(bench *b, const char *data, size_t size)
{
    memset(b, 0, sizeof *b);
    assert_int_equal(pipe(b->pipe), 0);
    b->wake = eventfd(0, EFD_NONBLOCK);
    assert_int_equal(write(b->pipe[1], data, size), size);
    close(b->pipe[1]);
    input_open(&b->in, b->pipe[0], b->wake, prompt, b);
    buf_init(&b->text, INPUT_MAX_MESSAGE);
}

static void bench_close(bench *b)
{
    input_close(&b->in);
    buf_clear(&b->text);
    close(b->pipe[0]);
    close(b->wake);
}

static void expect(bench *b, enum input_kind kind, const char *text)
{
    const char *why = NULL;
    assert_int_equal(input_next(&b->in, &b->text, &why), kind);
    if (text)
        assert_string_equal(buf_text(&b->text), text);
    if (kind == INPUT_REFUSED)
        assert_non_null(why);
}

static void messages(void **state)
{
    static const char data[] = "one\r\n\n/new x\n//y\n/\ntwo \\\nthree\\\n\nfour\\";
    bench b;
    (void)state;
    bench_open(&b, data, sizeof data - 1);
    expect(&b, INPUT_MESSAGE, "one");
    expect(&b, INPUT_MESSAGE, "");
    expect(&b, INPUT_COMMAND, "/new x");
    expect(&b, INPUT_MESSAGE, "/y");
    expect(&b, INPUT_COMMAND, "/");
    expect(&b, INPUT_MESSAGE, "two \nthree\n");
    expect(&b, INPUT_MESSAGE, "four\n");
    expect(&b, INPUT_END, NULL);
    expect(&b, INPUT_END, NULL);
    assert_int_equal(b.more, 3);
    bench_close(&b);
}

static void blocks(void **state)
{
    static const char data[] =
        "\"\"\"\n/exit\n\n  \"\"\"\nx\\\n\"\"\"\n\"\"\"\n\"\"\"\n\"\"\"\nopen";
    bench b;
    (void)state;
    bench_open(&b, data, sizeof data - 1);
    expect(&b, INPUT_MESSAGE, "/exit\n\n  \"\"\"\nx\\");
    expect(&b, INPUT_MESSAGE, "");
    expect(&b, INPUT_MESSAGE, "open");
    expect(&b, INPUT_END, NULL);
    bench_close(&b);
}

static void what_is_no_text(void **state)
{
    static const char data[] = "a\0b\n\xff\n\xc3\xa4\n";
    bench b;
    (void)state;
    bench_open(&b, data, sizeof data - 1);
    expect(&b, INPUT_REFUSED, NULL);
    expect(&b, INPUT_REFUSED, NULL);
    expect(&b, INPUT_MESSAGE, "\xc3\xa4");
    bench_close(&b);
}

static void too_long(void **state)
{
    bench b;
    (void)state;
    bench_open(&b, "", 0);
    size_t size = INPUT_MAX_MESSAGE + 1;
    char *data = malloc(size);
    memset(data, 'x', size);
    b.in.read.max = 1000;
    b.text.max = 100;
    buf_add(&b.in.read, data, 101);
    buf_add_text(&b.in.read, "\nshort\n");
    expect(&b, INPUT_REFUSED, NULL);
    expect(&b, INPUT_MESSAGE, "short");
    buf_add(&b.in.read, data, size);
    expect(&b, INPUT_REFUSED, NULL);
    expect(&b, INPUT_END, NULL);
    free(data);
    bench_close(&b);
}

static void a_signal_interrupts(void **state)
{
    bench b;
    (void)state;
    bench_open(&b, "line\n", 5);
    eventfd_write(b.wake, 1);
    expect(&b, INPUT_INTERRUPTED, NULL);
    eventfd_t count;
    eventfd_read(b.wake, &count);
    expect(&b, INPUT_MESSAGE, "line");
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages), cmocka_unit_test(blocks), cmocka_unit_test(what_is_no_text),
        cmocka_unit_test(too_long), cmocka_unit_test(a_signal_interrupts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
