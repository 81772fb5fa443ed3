/*
 * contract.h - what the tests of store.h share: every implementation of it, and a store in a
 * folder of its own for each test. Another implementation joins by one line here.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONTRACT_H
#define CONTRACT_H

#include "store/sqlite_store.h"
#include "store_help.h"

static const struct implementation {
    const char *name;
    pawl_status (*open)(const char *folder, store **out, pawl_error *error);
} implementations[] = {{"sqlite", sqlite_store_open}};

#define N_IMPLEMENTATIONS (sizeof implementations / sizeof implementations[0])

/* The one under test: set by main() before the tests run. */
static const struct implementation *tested;

typedef struct fixture {
    char folder[64];
    store *s;
    pawl_error error;
} fixture;

static void reopen(fixture *f)
{
    if (f->s)
        f->s->close(f->s);
    f->s = NULL;
    assert_int_equal(tested->open(f->folder, &f->s, &f->error), PAWL_OK);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->error.struct_size = sizeof f->error;
    help_make_folder(f->folder);
    reopen(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    if (f->s)
        f->s->close(f->s);
    help_remove_folder(f->folder);
    free(f);
    return 0;
}

#endif /* CONTRACT_H */
