/*
 * tests/unit/loader/quarantine_test.c - what is written down, kept, bounded, released.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/quarantine.h"

#include "base/file.h"
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define DIGEST "00000000000000000000000000000000000000000000000000000000000000%02x"

static int set_up(void **state)
{
    char *folder = strdup("/tmp/quarantine-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    log_set_level(PAWL_LOG_ERROR + 1);
    setenv("XDG_STATE_HOME", folder, 1);
    *state = folder;
    return 0;
}

static int tear_down(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", (char *)*state);
    assert_int_equal(system(command), 0);
    free(*state);
    return 0;
}

static const char *digest(int n)
{
    static char text[80];
    snprintf(text, sizeof text, DIGEST, (unsigned)n & 0xff);
    return text;
}

static void add(int n, const char *id)
{
    quarantine *q = quarantine_open();
    assert_non_null(q);
    quarantine_add(q, digest(n), id, "/a/b.so", "its probe failed: \"so\"");
    quarantine_close(q);
}

/* True if a quarantine that is opened now knows the digest. */
static bool knows(int n)
{
    quarantine *q = quarantine_open();
    const char *reason = quarantine_reason(q, digest(n));
    bool known = reason && strcmp(reason, "its probe failed: \"so\"") == 0;
    assert_int_equal(known, reason != NULL);
    assert_true(!known || !quarantine_is_empty(q));
    quarantine_close(q);
    return known;
}

static void keeps_what_was_added(void **state)
{
    (void)state;
    quarantine *q = quarantine_open();
    assert_true(quarantine_is_empty(q));
    assert_null(quarantine_reason(q, digest(1)));
    quarantine_add(q, digest(1), "a.b", "/x.so", "died");
    assert_string_equal(quarantine_reason(q, digest(1)), "died"); /* at once */
    quarantine_close(q);
    add(1, "a.b"); /* again, with another reason */
    add(2, "a.c");
    assert_true(knows(1) && knows(2) && !knows(3));
    size_t count = 0;
    assert_int_equal(quarantine_release("a.b", &count, NULL), PAWL_OK);
    assert_int_equal(count, 1);
    assert_true(!knows(1) && knows(2));
    assert_int_equal(quarantine_release(digest(2), &count, NULL), PAWL_OK);
    assert_int_equal(count, 1);
    assert_int_equal(quarantine_release(digest(2), &count, NULL), PAWL_OK);
    assert_int_equal(count, 0);
    assert_false(knows(2));
}

static void the_oldest_make_room(void **state)
{
    (void)state;
    for (int i = 0; i < QUARANTINE_MAX + 3; i++)
        add(i, "a.b");
    assert_false(knows(2));
    assert_true(knows(3) && knows(QUARANTINE_MAX + 2));
    size_t count = 0;
    assert_int_equal(quarantine_release("a.b", &count, NULL), PAWL_OK);
    assert_int_equal(count, QUARANTINE_MAX);
}

static void nobody_else_can_read_or_write_it(void **state)
{
    char path[128];
    struct stat st;
    add(1, "a.b");
    snprintf(path, sizeof path, "%s/pawl/quarantine.json", (char *)*state);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    snprintf(path, sizeof path, "%s/pawl/quarantine.json.new", (char *)*state);
    assert_int_not_equal(stat(path, &st), 0);
}

static void damage_counts_as_empty(void **state)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "{\"quarantine\":2,\"libraries\":[]}",
                                        "{\"quarantine\":1,\"libraries\":{}}",
                                        "{\"quarantine\":1,\"libraries\":[1,null,{\"sha256\":7}]}"};
    char path[128];
    snprintf(path, sizeof path, "%s/pawl/quarantine.json", (char *)*state);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        add(1, "a.b");
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        fputs(texts[i], file);
        fclose(file);
        assert_false(knows(1));
        add(2, "a.b");
        assert_true(knows(2));
    }
}

static void a_folder_that_cannot_be_made_is_no_failure(void **state)
{
    char path[128];
    size_t count = 7;
    pawl_error why = {.struct_size = sizeof why};
    snprintf(path, sizeof path, "%s/pawl", (char *)*state);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fclose(file);
    add(1, "a.b");
    assert_false(knows(1));
    assert_int_not_equal(quarantine_release("a.b", &count, &why), PAWL_OK);
    assert_int_equal(count, 7);
    assert_non_null(strstr(why.message, path));
}

static void without_a_home_there_is_none(void **state)
{
    (void)state;
    size_t count = 7;
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    setenv("XDG_STATE_HOME", "relative", 1);
    unsetenv("HOME");
    assert_null(quarantine_open());
    assert_true(quarantine_is_empty(NULL));
    assert_null(quarantine_reason(NULL, digest(1)));
    quarantine_add(NULL, digest(1), "a.b", "/x.so", "died");
    assert_int_equal(quarantine_release("a.b", &count, NULL), PAWL_E_NOT_FOUND);
    if (home)
        setenv("HOME", home, 1);
    free(home);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(keeps_what_was_added),
        TEST(the_oldest_make_room),
        TEST(nobody_else_can_read_or_write_it),
        TEST(damage_counts_as_empty),
        TEST(a_folder_that_cannot_be_made_is_no_failure),
        TEST(without_a_home_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
