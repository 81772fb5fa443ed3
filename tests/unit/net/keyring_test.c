/*
 * keyring_test.c - keys of a file and of the environment, beside a stored one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "base/digest.h"
#include "fake_api.h"
#include "net/keyring.h"

typedef struct fixture {
    char file[64];
    run_runtime runtime;
    keyring *ring;
    pawl_error error;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    strcpy(f->file, "/tmp/pawl-keys-XXXXXX");
    close(mkstemp(f->file));
    f->error.struct_size = sizeof f->error;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    keyring_close(f->ring);
    unlink(f->file);
    free(f);
    return 0;
}

static pawl_status open_ring(fixture *f, const char *text, const char *secret)
{
    if (text) {
        FILE *file = fopen(f->file, "w");
        fputs(text, file);
        fclose(file);
    }
    keyring_close(f->ring);
    f->ring = NULL;
    return keyring_open(text ? f->file : NULL, secret, &f->runtime, &f->ring, &f->error);
}

static enum keyring_answer find(fixture *f, const char *authorization, run_caller *caller)
{
    memset(caller, 'x', sizeof *caller);
    return keyring_find(f->ring, authorization, caller);
}

static void nobody_needs_a_key_where_there_is_none(void **state)
{
    fixture *f = *state;
    run_caller caller;
    static const char *const shown[] = {"", "Bearer any", "Basic dTpw", "?"};
    assert_int_equal(open_ring(f, NULL, NULL), PAWL_OK);
    assert_false(keyring_required(f->ring));
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(find(f, shown[i], &caller), KEYRING_GOOD);
        assert_string_equal(caller.tenant, "");
        assert_int_equal(caller.scopes, STORE_SCOPES_ALL);
    }
    assert_true(keyring_still_good(f->ring, &caller));
    strcpy(f->runtime.key_hash, "one was added meanwhile");
    assert_false(keyring_still_good(f->ring, &caller));
    assert_int_equal(find(f, "Bearer any", &caller), KEYRING_UNKNOWN);
}

static void reads_a_file(void **state)
{
    fixture *f = *state;
    run_caller caller;
    assert_int_equal(open_ring(f,
                               "# keys\n\n  secret-of-the-first-user  \r\n"
                               "secret-of-the-second-user   team b\t# moved\n"
                               "secret-of-the-third-user#c",
                               "secret-of-the-environment"),
                     PAWL_OK);
    assert_true(keyring_required(f->ring));
    assert_int_equal(find(f, "Bearer secret-of-the-first-user", &caller), KEYRING_GOOD);
    assert_string_equal(caller.tenant, "");
    assert_non_null(strstr(caller.name, "line 3"));
    assert_int_equal(find(f, "bearer   secret-of-the-second-user", &caller), KEYRING_GOOD);
    assert_string_equal(caller.tenant, "team");
    assert_int_equal(find(f, "Bearer secret-of-the-third-user", &caller), KEYRING_GOOD);
    assert_int_equal(find(f, "Bearer secret-of-the-environment", &caller), KEYRING_GOOD);
    assert_string_equal(caller.name, "PAWL_API_KEY");
    assert_true(keyring_still_good(f->ring, &caller));
    static const struct {
        const char *shown;
        enum keyring_answer answer;
    } bad[] = {{"", KEYRING_MISSING},
               {"secret-of-the-first-user", KEYRING_MALFORMED},
               {"Basic secret-of-the-first-user", KEYRING_MALFORMED},
               {"Bearer", KEYRING_MALFORMED},
               {"Bearer ", KEYRING_MALFORMED},
               {"Bearer secret-of-the-first-user x", KEYRING_MALFORMED},
               {"Bearersecret-of-the-first-user", KEYRING_MALFORMED},
               {"Bearer secret-of-the-first-use", KEYRING_UNKNOWN},
               {"Bearer secret-of-the-first-userr", KEYRING_UNKNOWN},
               {"Bearer SECRET-OF-THE-FIRST-USER", KEYRING_UNKNOWN},
               {"Bearer keys", KEYRING_UNKNOWN}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(find(f, bad[i].shown, &caller), bad[i].answer);
}

static void refuses_a_file(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *text;
        const char *words;
    } bad[] = {{"", "no key"},
               {"# nothing\n\n", "no key"},
               {"good-secret-of-one\nsch\xc3\xb6n\n", "line 2"},
               {"secret \x01", "line 1"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_not_equal(open_ring(f, bad[i].text, NULL), PAWL_OK);
        assert_non_null(strstr(f->error.message, bad[i].words));
    }
    static const mode_t modes[] = {0640, 0604, 0660, 0601};
    for (size_t i = 0; i < 4; i++) {
        chmod(f->file, modes[i]);
        assert_int_equal(open_ring(f, "secret", NULL), PAWL_E_ARGUMENT);
        assert_non_null(strstr(f->error.message, "chmod 600"));
    }
    chmod(f->file, 0400);
    assert_int_equal(keyring_open(f->file, NULL, &f->runtime, &f->ring, &f->error), PAWL_OK);
    unlink(f->file);
    keyring *none = NULL;
    assert_int_equal(keyring_open(f->file, NULL, &f->runtime, &none, &f->error), PAWL_E_NOT_FOUND);
    assert_int_equal(keyring_open("/tmp", NULL, &f->runtime, &none, &f->error), PAWL_E_ARGUMENT);
    assert_null(none);
}

static void asks_the_store_at_every_request(void **state)
{
    fixture *f = *state;
    run_caller caller;
    static const enum run_key_answer said[] = {RUN_KEY_GOOD, RUN_KEY_EXPIRED, RUN_KEY_REVOKED,
                                               RUN_KEY_UNKNOWN};
    static const enum keyring_answer wanted[] = {KEYRING_GOOD, KEYRING_EXPIRED, KEYRING_REVOKED,
                                                 KEYRING_UNKNOWN};
    assert_int_equal(digest_bytes("stored", 6, f->runtime.key_hash, NULL), PAWL_OK);
    assert_int_equal(open_ring(f, NULL, "secret-of-the-environment"), PAWL_OK);
    for (size_t i = 0; i < 4; i++) {
        atomic_store(&f->runtime.key_answer, (int)said[i]);
        assert_int_equal(find(f, "Bearer stored", &caller), wanted[i]);
        run_caller before = {.key = "key_stored", .name = "name"};
        assert_int_equal(keyring_still_good(f->ring, &before), i == 0);
        assert_non_null(keyring_message(wanted[i]));
    }
    assert_int_equal(find(f, "Bearer secret-of-the-environment", &caller), KEYRING_GOOD);
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        EACH(nobody_needs_a_key_where_there_is_none),
        EACH(reads_a_file),
        EACH(refuses_a_file),
        EACH(asks_the_store_at_every_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
