/*
 * tests/unit/loader/manifest_test.c - manifests good and bad.
 *
 * The examples are the corpus of the manifest fuzzer, tests/fuzz/corpus/manifest:
 * good_* are accepted and bad_* refused, by this code and by the schema alike
 * (tests/plugins/manifest_schema.py judges the same files); strict_* are refused by
 * the code alone, since a schema cannot say it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>

#define CORPUS PAWL_SOURCE_DIR "/tests/fuzz/corpus/manifest"

static void judges_every_example(void **state)
{
    int n_good = 0, n_bad = 0;
    DIR *folder = opendir(CORPUS);
    assert_non_null(folder);
    (void)state;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];
        manifest m;
        pawl_error error = {.struct_size = sizeof error};
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", CORPUS, entry->d_name);
        bool accepted = manifest_read(path, &m, &error) == PAWL_OK;
        bool good = strncmp(entry->d_name, "good_", 5) == 0;
        if (accepted != good)
            fail_msg("%s: %s", entry->d_name, accepted ? "accepted" : error.message);
        if (accepted)
            manifest_clear(&m);
        else
            assert_true(error.message[0] != '\0');
        n_good += good;
        n_bad += !good;
    }
    closedir(folder);
    assert_true(n_good > 5 && n_bad > 50);
}

static void reads_every_field(void **state)
{
    manifest m;
    (void)state;
    assert_int_equal(manifest_read(CORPUS "/good_full.json", &m, NULL), PAWL_OK);
    assert_string_equal(m.id, "dev.pawl.cuda");
    assert_string_equal(m.name, "CUDA engine");
    assert_string_equal(m.version, "0.1.0");
    assert_string_equal(m.library, "cuda.so");
    assert_string_equal(m.interfaces, "pawl.engine/1");
    assert_string_equal(m.cpu, "avx2 fma");
    assert_int_equal(strlen(m.sha256), 64);
    assert_int_equal(m.abi_major, 1);
    assert_int_equal(m.abi_minor, 0);
    manifest_clear(&m);
}

static void refuse(const char *text, const char *word)
{
    manifest m;
    pawl_error error = {.struct_size = sizeof error};
    assert_int_equal(manifest_parse(text, strlen(text), &m, &error), PAWL_E_FORMAT);
    if (!strstr(error.message, word))
        fail_msg("\"%s\" does not name %s", error.message, word);
}

static void names_what_is_wrong(void **state)
{
    (void)state;
    refuse("{\"libary\":1}", "libary");
    refuse("{\"manifest\":1}", "\"id\" is missing");
    refuse("{\"library\":\"../x.so\"}", "library");
    refuse("{\"manifest\":1,\"manifest\":1}", "twice");
    refuse("{\"requires\":{\"gpu\":[]}}", "gpu");
}

static void lists_words(void **state)
{
    (void)state;
    assert_true(manifest_lists("pawl.engine/1 pawl.chat/1", "pawl.chat/1"));
    assert_true(manifest_lists("pawl.engine/1 pawl.chat/1", "pawl.engine/1"));
    assert_false(manifest_lists("pawl.engine/10", "pawl.engine/1"));
    assert_false(manifest_lists("xpawl.engine/1", "pawl.engine/1"));
    assert_false(manifest_lists("", "pawl.engine/1"));
    assert_true(manifest_lists("avx avx2", "avx2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judges_every_example),
        cmocka_unit_test(reads_every_field),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(lists_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
