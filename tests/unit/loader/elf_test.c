/*
 * tests/unit/loader/elf_test.c - the kit's ELF reader, on libraries good and broken.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_rules.h"

#include "base/buf.h"
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LIBRARY PAWL_BUILD_DIR "/tests/plugins/crash.so"

static void reads_a_plugin(void **state)
{
    check_elf facts;
    (void)state;
    assert_int_equal(check_read_elf(LIBRARY, &facts, NULL), PAWL_OK);
    assert_string_equal(facts.exported, "pawl_plugin_entry_v1");
    assert_int_equal(facts.n_exported, 1);
    assert_non_null(strstr(facts.needed, "libc.so.6"));
    assert_false(facts.soname);
    assert_false(facts.text_relocations);
    assert_false(facts.executable_stack);
    assert_true(facts.constructors >= 1);
}

static void sees_a_soname_and_many_symbols(void **state)
{
    static const char *const paths[] = {"/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6",
                                        "/usr/lib/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6"};
    check_elf facts;
    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        if (access(paths[i], R_OK))
            continue;
        assert_int_equal(check_read_elf(paths[i], &facts, NULL), PAWL_OK);
        assert_true(facts.soname);
        assert_true(facts.n_exported > 100);
        return;
    }
    print_message("SKIP: no libm.so.6 in the places known\n");
}

static void write_bytes(const char *path, const char *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

/* Any verdict will do; a sanitizer watches that nothing outside is read. */
static void survives_damage(void **state)
{
    buf bytes;
    char path[64];
    uint64_t random = 1;
    check_elf facts;
    (void)state;
    snprintf(path, sizeof path, "/tmp/elf-test-%d", (int)getpid());
    buf_init(&bytes, 16u << 20);
    assert_int_equal(file_read(LIBRARY, &bytes, NULL), PAWL_OK);
    for (int i = 0; i < 300; i++) {
        size_t size = bytes.size, at = 0;
        char kept;
        if (i < 100)
            size = check_random(&random) % size;
        else
            at = i < 250 ? check_random(&random) % 1024 : check_random(&random) % size;
        kept = bytes.data[at];
        if (i >= 100)
            bytes.data[at] = (char)(i % 2 ? 0xff : check_random(&random));
        write_bytes(path, bytes.data, size);
        check_read_elf(path, &facts, NULL);
        bytes.data[at] = kept;
    }
    unlink(path);
    write_bytes(path, "\177ELF", 4);
    pawl_error error = {.struct_size = sizeof error};
    assert_int_equal(check_read_elf(path, &facts, &error), PAWL_E_FORMAT);
    assert_non_null(strstr(error.message, "no ELF"));
    unlink(path);
    buf_clear(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_plugin),
        cmocka_unit_test(sees_a_soname_and_many_symbols),
        cmocka_unit_test(survives_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
