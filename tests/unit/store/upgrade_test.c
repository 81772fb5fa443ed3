/*
 * upgrade_test.c - files that earlier versions of Pawl wrote, opened by this one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/file.h"
#include "store/sqlite_store.h"
#include "store_help.h"

#define ROOT "resp_3cf31c2fa9384e8ff550d2f15945698f"
#define CHILD "resp_ac0ae2f0e37918c4d823ae3dbacde11d"
#define OTHER "resp_12cf161bf61a353c96fb958829fc411f"

static void copy_into(const char *name, const char *folder)
{
    char from[512], to[128];
    buf bytes;
    buf_init(&bytes, 16u << 20);
    snprintf(from, sizeof from, "%s/tests/golden/store/%s", PAWL_SOURCE_DIR, name);
    snprintf(to, sizeof to, "%s/pawl.db", folder);
    assert_int_equal(file_read(from, &bytes, NULL), PAWL_OK);
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.data, 1, bytes.size, file), bytes.size);
    assert_int_equal(fclose(file), 0);
    buf_clear(&bytes);
}

static void version_2_goes_on(void **state)
{
    (void)state;
    char folder[64], copy[128];
    store *s = NULL;
    store_response *got = NULL;
    store_conversation talk = {.id = "conv_a", .metadata = "{}", .tail = "[]", .head_id = CHILD};
    pawl_error error = {.struct_size = sizeof error};
    help_waiter w = HELP_WAITER;
    help_make_folder(folder);
    copy_into("pawl-2.db", folder);
    assert_int_equal(sqlite_store_open(folder, &s, &error), PAWL_OK);
    snprintf(copy, sizeof copy, "%s/pawl.db.v2", folder);
    assert_int_equal(access(copy, R_OK), 0);

    assert_int_equal(s->get(s, CHILD, 0, &got, &error), PAWL_OK);
    assert_string_equal(got->parent_id, ROOT);
    assert_int_equal(got->n_tokens, 184);
    assert_null(got->conversation_id);
    free(got);
    assert_true(help_has(s, OTHER, 0));
    assert_true(help_has(s, ROOT, STORE_GET_REMOVED) && !help_has(s, ROOT, 0));
    assert_int_equal(s->key_count(s), 1);

    /* Old responses may become the head of a conversation. */
    assert_int_equal(s->conversation_put(s, &talk, help_done, &w, &error), PAWL_OK);
    assert_int_equal(help_wait(&w, 1), PAWL_OK);
    store_response next = help_response("resp_new", CHILD);
    next.conversation_id = "conv_a";
    next.conversation_revision = 1;
    assert_int_equal(help_put(s, &next, &error), PAWL_OK);
    assert_int_equal(help_remove(s, OTHER, &error), PAWL_OK);
    assert_true(help_has(s, ROOT, STORE_GET_REMOVED));
    s->close(s);
    help_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(version_2_goes_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
