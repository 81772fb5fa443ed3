/*
 * tests/unit/script/docs_test.c - a folder of documents, with openat2() and without, and
 * paths that try to leave it. What texts are made of: tests/e2e/docs_test.py.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/docs.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct place {
    char root[64]; /* beside it lies a file "secret" */
    docs docs;
} place;

static void write_file(const char *root, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state)
{
    static const char script[] =
        "cd \"$1\" && mkdir -p d/sub/deep d/.hidden && echo secret > secret && echo a > d/a.txt && "
        "echo b > d/sub/b.txt && echo c > d/sub/deep/c.txt && echo h > d/.hidden/h.txt && "
        "ln -s ../secret d/out && ln -s \"$1/secret\" d/abs && ln -s .. d/up && ln -s a.txt d/in "
        "&& "
        "ln -s sub d/subin && mkfifo d/pipe && ln -s /proc/self/root d/magic && echo n > d/..notup";
    char command[2000];
    place *p = calloc(1, sizeof *p);
    pawl_error error = {.struct_size = sizeof error};
    snprintf(p->root, sizeof p->root, "/tmp/pawl-docs-XXXXXX");
    assert_non_null(mkdtemp(p->root));
    snprintf(command, sizeof command, "set -- x %s; shift; %s", p->root, script);
    assert_int_equal(system(command), 0);
    char folder[80];
    snprintf(folder, sizeof folder, "%s/d", p->root);
    assert_int_equal(docs_open(folder, &p->docs, &error), PAWL_OK);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    place *p = *state;
    char command[100];
    docs_close(&p->docs);
    snprintf(command, sizeof command, "rm -r %s", p->root);
    int status = system(command);
    free(p);
    return status;
}

/* What reading a path gives: its first letter, or the code of its failure. */
static const char *outcome(const docs *d, const char *path)
{
    static char first[2];
    static failure why;
    buf out;
    buf_init(&out, 1000);
    bool good = docs_read(d, path, -1, &out, &why);
    snprintf(first, sizeof first, "%.1s", buf_text(&out));
    buf_clear(&out);
    return good ? first : why.code;
}

static void no_path_leaves_it(void **state)
{
    place *p = *state;
    static const struct {
        const char *path, *with, *by_names;
    } cases[] = {
        {"a.txt", "a", "a"},
        {"./sub//b.txt", "b", "b"},
        {"sub/deep/c.txt", "c", "c"},
        {"..notup", "n", "n"},
        {"in", "a", "denied"},
        {"subin/b.txt", "b", "not_found"}, /* a link where a folder should be */
        {"sub/../a.txt", "a", "denied"},
        {"../secret", "denied", "denied"},
        {"sub/../../secret", "denied", "denied"},
        {"/etc/passwd", "denied", "denied"},
        {"out", "denied", "denied"},
        {"abs", "denied", "denied"},
        {"up/secret", "denied", "not_found"},
        {"magic/etc/passwd", "denied", "not_found"},
        {"..", "denied", "denied"},
        {"pipe", "not_a_file", "not_a_file"},
        {"sub", "not_a_file", "not_a_file"},
        {"", "not_a_file", "not_a_file"},
        {"none", "not_found", "not_found"},
        {"a.txt/x", "not_found", "not_found"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        docs walked = {.folder = p->docs.folder, .by_names = true};
        if (!p->docs.by_names)
            assert_string_equal(outcome(&p->docs, cases[i].path), cases[i].with);
        assert_string_equal(outcome(&walked, cases[i].path), cases[i].by_names);
    }
    char *path = malloc(100001);
    memset(path, 'x', 100000);
    path[100000] = '\0';
    assert_string_equal(outcome(&p->docs, path), "not_found");
    free(path);
}

static void it_is_listed(void **state)
{
    place *p = *state;
    docs walked = {.folder = p->docs.folder, .by_names = true};
    const docs *both[] = {&p->docs, &walked};
    failure why;
    docs_list list;
    char folder[80];
    snprintf(folder, sizeof folder, "%s/d", p->root);
    write_file(folder, "bad\xFFname", "x");
    for (int i = 0; i < 2; i++) {
        assert_true(docs_list_files(both[i], "", -1, &list, &why));
        assert_int_equal(list.n, 4); /* no links, pipes, hidden ones */
        assert_string_equal(list.entries[0].path, "a.txt");
        assert_string_equal(list.entries[1].path, "bad\xEF\xBF\xBDname");
        assert_string_equal(list.entries[2].path, "sub/b.txt");
        assert_string_equal(list.entries[3].path, "sub/deep/c.txt");
        assert_int_equal(list.entries[3].size, 2);
        docs_list_clear(&list);
        assert_true(docs_list_files(both[i], "sub/deep/", -1, &list, &why));
        assert_int_equal(list.n, 1);
        docs_list_clear(&list);
        assert_false(docs_list_files(both[i], "../d", -1, &list, &why));
        assert_string_equal(why.code, "denied");
        assert_false(docs_list_files(both[i], "none", -1, &list, &why));
        assert_false(docs_list_files(both[i], "/", -1, &list, &why));
    }
}

static void sizes_are_bounded(void **state)
{
    place *p = *state;
    failure why;
    docs_list list;
    char folder[200], command[400], hex[DIGEST_HEX_SIZE];
    snprintf(folder, sizeof folder, "%s/d", p->root);
    write_file(folder, "big", "0123456789");
    buf out;
    buf_init(&out, 9);
    assert_false(docs_read(&p->docs, "big", -1, &out, &why));
    assert_string_equal(why.code, "too_large");
    buf_clear(&out);
    assert_true(docs_hash(&p->docs, "big", -1, hex, &why));
    assert_string_equal(hex, "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882");
    assert_false(docs_hash(&p->docs, "../secret", -1, hex, &why));
    snprintf(command, sizeof command,
             "cd %s && x=. && for i in $(seq 40); do x=$x/n; done && mkdir -p $x", folder);
    assert_int_equal(system(command), 0);
    assert_false(docs_list_files(&p->docs, "", -1, &list, &why));
    assert_string_equal(why.code, "too_many");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_path_leaves_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_is_listed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sizes_are_bounded, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
