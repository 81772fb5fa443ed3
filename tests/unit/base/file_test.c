/*
 * file_test.c - reading whole files, making folders, joining names.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static void joins(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *name, *joined;
    } cases[] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"},  {"/", "b", "/b"},
        {"", "b", "/b"},   {"a/b", "", "a/b/"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *joined = file_join(cases[i].folder, cases[i].name);
        assert_string_equal(joined, cases[i].joined);
        free(joined);
    }
}

static void reads(void **state)
{
    (void)state;
    char folder[] = "/tmp/pawl-file-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char *path = file_join(folder, "f");
    char *bytes = malloc(200000);
    for (size_t i = 0; i < 200000; i++)
        bytes[i] = (char)(i * 7);
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, 200000, f), 200000);
    fclose(f);

    buf out;
    pawl_error error;
    buf_init(&out, 200000);
    assert_int_equal(file_read(path, &out, &error), PAWL_OK);
    assert_int_equal(out.size, 200000);
    assert_memory_equal(out.data, bytes, 200000);
    buf_clear(&out);
    buf_init(&out, 199999);
    assert_int_equal(file_read(path, &out, &error), PAWL_E_LIMIT);
    assert_non_null(strstr(error.message, "199999"));
    buf_clear(&out);
    assert_int_equal(file_read("/dev/zero", &out, &error), PAWL_E_LIMIT); /* ends */
    buf_clear(&out);
    assert_int_equal(file_read(folder, &out, &error), PAWL_E_NOT_FOUND);
    assert_int_equal(file_read("/dev/null", &out, &error), PAWL_OK);
    unlink(path);
    assert_int_equal(file_read(path, &out, &error), PAWL_E_NOT_FOUND);
    assert_non_null(strstr(error.message, path));
    buf_clear(&out);
    rmdir(folder);
    free(path);
    free(bytes);
}

static void makes_folders(void **state)
{
    (void)state;
    char folder[] = "/tmp/pawl-file-XXXXXX", cut[PATH_MAX + 10];
    struct stat st;
    pawl_error error;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0750), 0);
    char *b = file_join(folder, "a//b/"), *a = file_join(folder, "a");
    mode_t before = umask(0);
    assert_int_equal(file_make_folder(b, &error), PAWL_OK);
    umask(before);
    assert_int_equal(stat(b, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0750); /* one that was there is left as it is */
    assert_int_equal(file_make_folder(b, &error), PAWL_OK);
    rmdir(b);
    rmdir(a);
    fclose(fopen(a, "w"));
    assert_int_not_equal(file_make_folder(a, &error), PAWL_OK);
    assert_int_not_equal(file_make_folder(b, &error), PAWL_OK);
    assert_int_equal(file_make_folder("", &error), PAWL_E_ARGUMENT);
    memset(cut, 'x', sizeof cut - 1);
    cut[sizeof cut - 1] = '\0';
    assert_int_equal(file_make_folder(cut, &error), PAWL_E_ARGUMENT);
    unlink(a);
    rmdir(folder);
    free(a);
    free(b);
}

static void knows_its_own_folder(void **state)
{
    (void)state;
    char *folder = file_own_folder();
    assert_non_null(folder);
    assert_non_null(strstr(folder, "tests/bin"));
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins),
        cmocka_unit_test(reads),
        cmocka_unit_test(makes_folders),
        cmocka_unit_test(knows_its_own_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
