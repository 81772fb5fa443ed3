/*
 * log_test.c - a line is one JSON object, whatever is in it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"

/* Writes one line with standard error going to a pipe; returns what came out. */
static size_t capture(int32_t level, const char *message, char out[16384])
{
    int ends[2], kept = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    log_write(level, "te\"st", "%s", message);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(ends[1]);
    ssize_t size = read(ends[0], out, 16383);
    close(ends[0]);
    return size > 0 ? (size_t)size : 0;
}

static void line_is_json(void **state)
{
    (void)state;
    static char out[16384];
    size_t size = capture(PAWL_LOG_WARN, "a \"b\"\n\x01 \xFF {}", out);
    assert_int_equal(out[size - 1], '\n');
    assert_ptr_equal(memchr(out, '\n', size), out + size - 1);
    cJSON *line = NULL;
    assert_int_equal(json_parse(out, size, &line, NULL), PAWL_OK);
    assert_string_equal(json_get_text(line, "level"), "warn");
    assert_string_equal(json_get_text(line, "component"), "te\"st");
    assert_string_equal(json_get_text(line, "message"), "a \"b\"\n\x01 \xEF\xBF\xBD {}");
    assert_int_equal(strlen(json_get_text(line, "time")), strlen("2026-11-30T12:00:00.123Z"));
    cJSON_Delete(line);
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    static char out[16384], message[9000];
    memset(message, '\x01', sizeof message - 1); /* each becomes six bytes */
    size_t size = capture(PAWL_LOG_ERROR, message, out);
    cJSON *line = NULL;
    assert_int_equal(json_parse(out, size, &line, NULL), PAWL_OK);
    assert_in_range(strlen(json_get_text(line, "message")), 1900, 2000);
    cJSON_Delete(line);
}

static void levels_are_obeyed(void **state)
{
    (void)state;
    static char out[16384];
    assert_int_equal(capture(PAWL_LOG_DEBUG, "x", out), 0);
    log_set_level(PAWL_LOG_ERROR);
    assert_int_equal(capture(PAWL_LOG_WARN, "x", out), 0);
    assert_int_not_equal(capture(PAWL_LOG_ERROR, "x", out), 0);
    assert_int_equal(capture(99, "x", out), 0);
    log_set_level(PAWL_LOG_DEBUG);
    assert_int_not_equal(capture(PAWL_LOG_DEBUG, "x", out), 0);
    assert_int_equal(capture(-1, "x", out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_is_json),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(levels_are_obeyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
