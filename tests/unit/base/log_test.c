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

/* What comes out of a function that logs. */
static char *captured(void (*write_lines)(void), char out[16384])
{
    int ends[2], kept = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    write_lines();
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(ends[1]);
    ssize_t size = read(ends[0], out, 16383);
    close(ends[0]);
    out[size > 0 ? size : 0] = '\0';
    return out;
}

static void write_members(void)
{
    log_line line;
    log_begin(&line, PAWL_LOG_INFO, "test", "m");
    log_text(&line, "text", "a \"b\"\n");
    log_text(&line, "none", NULL);
    log_number(&line, "big", UINT64_MAX);
    log_ms(&line, "ms", 1234567);
    log_end(&line);
    log_begin(&line, 99, "test", "no such level");
    log_text(&line, "text", "x");
    log_end(&line);
}

static void lines_have_members(void **state)
{
    (void)state;
    static char out[16384];
    uint64_t before = log_written(PAWL_LOG_INFO);
    log_set_level(PAWL_LOG_INFO);
    captured(write_members, out);
    assert_non_null(strstr(out, ",\"message\":\"m\",\"text\":\"a \\\"b\\\"\\n\",\"none\":null,"
                                "\"big\":18446744073709551615,\"ms\":1.2}\n"));
    assert_int_equal(log_written(PAWL_LOG_INFO), before + 1);
    assert_int_equal(log_written(99), 0);
    assert_string_equal(log_level_name(PAWL_LOG_WARN), "warn");
    assert_string_equal(log_level_name(4), "unknown");
}

static void write_many(void)
{
    for (int i = 0; i < 40; i++)
        log_write(PAWL_LOG_INFO, "test", "many");
    log_write(PAWL_LOG_ERROR, "test", "an error");
}

static void write_one(void)
{
    log_write(PAWL_LOG_INFO, "test", "one");
}

static size_t lines_of(const char *text)
{
    size_t n = 0;
    for (; (text = strchr(text, '\n')); text++)
        n++;
    return n;
}

static void too_many_lines_are_counted(void **state)
{
    (void)state;
    static char out[16384];
    uint64_t before = log_dropped();
    log_set_limit(5);
    size_t n = lines_of(captured(write_many, out)); /* in one second, or two */
    assert_in_range(n, 6, 12);
    assert_non_null(strstr(out, "an error"));
    assert_in_range(log_dropped() - before, 30, 35);
    usleep(1100000);
    captured(write_one, out);
    assert_non_null(strstr(out, "lines were left out"));
    assert_non_null(strstr(out, "\"one\""));
    log_set_limit(0);
    assert_int_equal(lines_of(captured(write_many, out)), 41);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_is_json),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(levels_are_obeyed),
        cmocka_unit_test(lines_have_members),
        cmocka_unit_test(too_many_lines_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
