/*
 * tests/unit/loader/registry_test.c - which plugins are used, and which are refused.
 *
 * Each test copies the test plugins it needs into a folder of its own, spoils one
 * thing, and reads the reason.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/registry.h"

#include "base/buf.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "loader/library.h"
#include "loader/quarantine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define BUILT PAWL_BUILD_DIR "/tests/plugins/"

typedef struct fixture {
    char folder[64];
    char state[80]; /* XDG_STATE_HOME */
    registry *plugins;
} fixture;

static void write_text(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    fclose(file);
    chmod(path, 0644);
}

static void copy(const fixture *f, const char *name, const char *as)
{
    buf bytes;
    buf_init(&bytes, 64u << 20);
    char *from = file_join(BUILT, name), *to = file_join(f->folder, as);
    assert_int_equal(file_read(from, &bytes, NULL), PAWL_OK);
    write_text(to, bytes.data, bytes.size);
    free(from);
    free(to);
    buf_clear(&bytes);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    snprintf(f->folder, sizeof f->folder, "/tmp/registry-test-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->state, sizeof f->state, "%s/state", f->folder);
    setenv("XDG_STATE_HOME", f->state, 1);
    log_set_level(PAWL_LOG_ERROR + 1);
    unsetenv("PAWL_TEST_CRASH");
    unsetenv("PAWL_TEST_LIE");
    copy(f, "replay.so", "replay.so");
    copy(f, "replay.plugin.json", "replay.plugin.json");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    char command[128];
    registry_close(f->plugins);
    snprintf(command, sizeof command, "rm -rf %s", f->folder);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static void open_registry(fixture *f)
{
    const char *folders[] = {f->folder};
    registry_config config = {.folders = folders, .n_folders = 1, .only_folders = true};
    registry_close(f->plugins);
    f->plugins = NULL;
    assert_int_equal(registry_open(&config, &f->plugins, NULL), PAWL_OK);
}

/* Replaces the first occurrence in replay's manifest. */
static void edit_manifest(const fixture *f, const char *from, const char *to)
{
    buf text, out;
    char *path = file_join(f->folder, "replay.plugin.json");
    buf_init(&text, 65536);
    buf_init(&out, 65536);
    assert_int_equal(file_read(path, &text, NULL), PAWL_OK);
    char *at = strstr(text.data, from);
    assert_non_null(at);
    buf_add(&out, text.data, (size_t)(at - text.data));
    buf_add_text(&out, to);
    buf_add_text(&out, at + strlen(from));
    write_text(path, out.data, out.size);
    buf_clear(&text);
    buf_clear(&out);
    free(path);
}

static void refused(fixture *f, const char *reason)
{
    open_registry(f);
    assert_true(registry_count(f->plugins) >= 1);
    const registry_plugin *p = registry_at(f->plugins, 0);
    if (p->state != REGISTRY_REFUSED || !strstr(p->reason, reason))
        fail_msg("state %d, \"%s\" does not say \"%s\"", p->state, p->reason, reason);
}

static void runs_a_good_one(void **state)
{
    fixture *f = *state;
    const void *engine, *tokenizer;
    const registry_plugin *p;
    open_registry(f);
    assert_int_equal(registry_count(f->plugins), 1);
    assert_int_equal(registry_at(f->plugins, 0)->state, REGISTRY_USABLE);
    assert_int_equal(registry_at(f->plugins, 0)->generation, 0);
    assert_null(registry_at(f->plugins, 1));
    assert_int_equal(registry_use(f->plugins, PAWL_ENGINE, 0, &engine, &p, NULL), PAWL_OK);
    assert_string_equal(p->id, "dev.pawl.test.replay");
    assert_int_equal(p->state, REGISTRY_RUNNING);
    assert_int_equal(p->generation, 1);
    assert_int_equal(registry_use(f->plugins, PAWL_TOKENIZER, 0, &tokenizer, &p, NULL), PAWL_OK);
    assert_int_equal(p->generation, 1);
    assert_int_equal(registry_use(f->plugins, PAWL_ENGINE, 1, &engine, &p, NULL), PAWL_E_NOT_FOUND);
    assert_int_equal(registry_use(f->plugins, PAWL_CHAT, 0, &engine, &p, NULL), PAWL_E_NOT_FOUND);
}

static void a_second_registry_loads_again(void **state)
{
    fixture *f = *state;
    const void *first, *second;
    open_registry(f);
    assert_int_equal(registry_use(f->plugins, PAWL_ENGINE, 0, &first, NULL, NULL), PAWL_OK);
    open_registry(f);
    assert_int_equal(registry_use(f->plugins, PAWL_ENGINE, 0, &second, NULL, NULL), PAWL_OK);
    assert_ptr_not_equal(first, second);
}

static void a_replaced_file_is_another_generation(void **state)
{
    fixture *f = *state;
    library first, second;
    char *path = file_join(f->folder, "replay.so");
    assert_int_equal(library_open(path, &first, NULL), PAWL_OK);
    copy(f, "crash.so", "new.so");
    char *new = file_join(f->folder, "new.so");
    assert_int_equal(rename(new, path), 0);
    assert_int_equal(library_open(path, &second, NULL), PAWL_OK);
    assert_string_equal(first.plugin->id, "dev.pawl.test.replay");
    assert_string_equal(second.plugin->id, "dev.pawl.test.crash");
    free(new);
    free(path);
}

static void refuses_what_others_can_write(void **state)
{
    fixture *f = *state;
    char *path = file_join(f->folder, "replay.so");
    char *manifest = file_join(f->folder, "replay.plugin.json");
    chmod(path, 0664);
    refused(f, "can be written by others (mode 664)");
    chmod(path, 0644);
    chmod(manifest, 0646);
    refused(f, "can be written by others (mode 646)");
    chmod(manifest, 0644);
    chmod(f->folder, 0777);
    refused(f, "can be written by others (mode 777)");
    free(path);
    free(manifest);
    if (geteuid() != 0) {
        print_message("SKIP: other owners, since only root can give files away\n");
        return;
    }
    chmod(f->folder, 0755);
    assert_int_equal(chown(f->folder, 12345, 0), 0);
    refused(f, "belongs to user 12345");
}

static void refuses_by_manifest(void **state)
{
    fixture *f = *state;
    edit_manifest(f, "\"major\": 1", "\"major\": 2");
    refused(f, "ABI 2");
    edit_manifest(f, "\"major\": 2", "\"major\": 1");
    edit_manifest(f, "\"0.1.0\"", "\"0.2.0\"");
    refused(f, "version 0.2.0, its entry 0.1.0");
    edit_manifest(f, "\"0.2.0\"", "\"0.1.0\"");
    edit_manifest(f, "\"pawl.engine/1\"", "\"pawl.engine/1\", \"pawl.chat/1\"");
    refused(f, "lists pawl.chat/1");
    edit_manifest(f, "replay.so", "absent.so");
    refused(f, "absent.so: No such file");
    edit_manifest(f, "\"license\"", "\"licence\"");
    refused(f, "unknown key \"licence\"");
}

static void digest_is_compared(void **state)
{
    fixture *f = *state;
    char hex[DIGEST_HEX_SIZE], member[128];
    char *path = file_join(f->folder, "replay.so");
    assert_int_equal(digest_file(path, hex, NULL), PAWL_OK);
    snprintf(member, sizeof member, "\"sha256\": \"%s\", \"license\"", hex);
    edit_manifest(f, "\"license\"", member);
    open_registry(f);
    assert_int_equal(registry_at(f->plugins, 0)->state, REGISTRY_USABLE);
    free(path);
    edit_manifest(f, hex, "0000000000000000000000000000000000000000000000000000000000000000");
    refused(f, "has SHA-256");
}

static void refuses_what_is_no_plugin(void **state)
{
    fixture *f = *state;
    char *path = file_join(f->folder, "replay.so");
    write_text(path, "not a library", 13);
    refused(f, "replay.so");
    edit_manifest(f, "replay.so", "libc.so");
    char *link = file_join(f->folder, "libc.so");
    assert_int_equal(symlink("/lib/x86_64-linux-gnu/libc.so.6", link), 0);
    if (access(link, R_OK) == 0)
        refused(f, "does not export pawl_plugin_entry_v1");
    free(link);
    free(path);
}

static void release(size_t expected)
{
    size_t count = 99;
    assert_int_equal(quarantine_release("dev.pawl.test.crash", &count, NULL), PAWL_OK);
    assert_int_equal(count, expected);
}

static void survives_crash_and_exit(void **state)
{
    fixture *f = *state;
    copy(f, "crash.so", "crash.so");
    copy(f, "crash.plugin.json", "crash.plugin.json");
    refused(f, "SIGSEGV");
    assert_int_equal(registry_at(f->plugins, 1)->state, REGISTRY_USABLE);
    release(1);
    setenv("PAWL_TEST_CRASH", "abort", 1);
    refused(f, "SIGABRT");
    release(1);
    setenv("PAWL_TEST_CRASH", "exit", 1);
    refused(f, "status 3");
    release(0);
}

static void what_died_is_not_probed_again(void **state)
{
    fixture *f = *state;
    char reason[600];
    copy(f, "crash.so", "crash.so");
    copy(f, "crash.plugin.json", "crash.plugin.json");
    refused(f, "SIGSEGV");
    assert_null(strstr(registry_at(f->plugins, 0)->reason, "quarantine"));
    setenv("PAWL_TEST_CRASH", "exit", 1); /* were it probed, the reason would be another */
    refused(f, "SIGSEGV");
    refused(f, "quarantine");
    snprintf(reason, sizeof reason, "%s", registry_at(f->plugins, 0)->reason);
    assert_non_null(strstr(reason, "`pawl plugin release dev.pawl.test.crash`"));
    assert_int_equal(registry_at(f->plugins, 1)->state, REGISTRY_USABLE);
    release(1);
    refused(f, "status 3");
}

static void a_changed_file_gets_a_new_chance(void **state)
{
    fixture *f = *state;
    copy(f, "crash.so", "crash.so");
    copy(f, "crash.plugin.json", "crash.plugin.json");
    refused(f, "SIGSEGV");
    char *path = file_join(f->folder, "crash.so");
    FILE *file = fopen(path, "ab"); /* what lies behind the ELF file is not looked at */
    assert_non_null(file);
    fputc('\n', file);
    fclose(file);
    free(path);
    setenv("PAWL_TEST_CRASH", "exit", 1);
    refused(f, "status 3");
}

static void without_a_state_folder_all_are_probed(void **state)
{
    fixture *f = *state;
    copy(f, "crash.so", "crash.so");
    copy(f, "crash.plugin.json", "crash.plugin.json");
    write_text(f->state, "", 0); /* a file: no folder can be made there, even by root */
    refused(f, "SIGSEGV");
    setenv("PAWL_TEST_CRASH", "exit", 1);
    refused(f, "status 3");
}

static void first_of_two_ids_wins(void **state)
{
    fixture *f = *state;
    copy(f, "replay.plugin.json", "zweiter.plugin.json");
    open_registry(f);
    assert_int_equal(registry_count(f->plugins), 2);
    assert_int_equal(registry_at(f->plugins, 0)->state, REGISTRY_USABLE);
    assert_int_equal(registry_at(f->plugins, 1)->state, REGISTRY_REFUSED);
    assert_non_null(strstr(registry_at(f->plugins, 1)->reason, "found before"));
}

static void a_liar_is_refused(void **state)
{
    fixture *f = *state;
    copy(f, "liar.so", "liar.so");
    copy(f, "liar.plugin.json", "liar.plugin.json");
    refused(f, "its entry dev.pawl.test.somebody");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(runs_a_good_one),
        TEST(a_second_registry_loads_again),
        TEST(a_replaced_file_is_another_generation),
        TEST(refuses_what_others_can_write),
        TEST(refuses_by_manifest),
        TEST(digest_is_compared),
        TEST(refuses_what_is_no_plugin),
        TEST(survives_crash_and_exit),
        TEST(what_died_is_not_probed_again),
        TEST(a_changed_file_gets_a_new_chance),
        TEST(without_a_state_folder_all_are_probed),
        TEST(first_of_two_ids_wins),
        TEST(a_liar_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
