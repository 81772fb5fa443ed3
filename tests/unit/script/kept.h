/*
 * tests/unit/script/kept.h - runs of pipelines that are kept in a store, without a model.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_KEPT_H
#define SCRIPT_KEPT_H

#include "script/instance.h"
#include "script_testing.h"
#include "store/sqlite_store.h"

#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct kept {
    char folder[64];
    registry *plugins;
    run_runtime *runtime;
} kept;

static inline int remove_one(const char *path, const struct stat *st, int flag, struct FTW *where)
{
    (void)st;
    (void)flag;
    (void)where;
    return remove(path);
}

static inline void kept_open(kept *k)
{
    pawl_error error = {.struct_size = sizeof error};
    store *s = NULL;
    assert_int_equal(sqlite_store_open(k->folder, &s, &error), PAWL_OK);
    run_config config = {.store = s, .clock = clock_system()};
    assert_int_equal(run_open(&config, &k->runtime, &error), PAWL_OK);
}

static inline void kept_make(kept *k)
{
    *k = (kept){.folder = "/tmp/pawl-script-XXXXXX"};
    assert_non_null(mkdtemp(k->folder));
    kept_open(k);
}

static inline void kept_close(kept *k)
{
    run_close(k->runtime);
    nftw(k->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline pipeline *kept_load(const char *text, bool whole, const script_limits *limits)
{
    pipeline *p = NULL;
    script_result why;
    buf all;
    buf_init(&all, SCRIPT_MAX_SOURCE);
    buf_printf(&all, "%s%s%s", whole ? "" : AS_PIPELINE, text, whole ? "" : "\nend}");
    if (!pipeline_load("t.lua", buf_text(&all), all.size, NULL, 0, limits, &p, &why))
        fail_msg("%s: %s", text, why.message);
    buf_clear(&all);
    return p;
}

/* Steps it to its end and frees it. */
static inline script_result kept_finish(instance *i)
{
    script_result result;
    while (instance_step(i, 0) != SCRIPT_ENDED)
        instance_wait(i, 20);
    instance_close(i, &result);
    return result;
}

/* A run from its begin to its end; id: room for CLOCK_ID_SIZE, or NULL. */
static inline script_result kept_run(kept *k, const char *text, const script_limits *limits,
                                     char *id)
{
    pawl_error error = {.struct_size = sizeof error};
    instance_config config = {.runtime = k->runtime, .allowed = *limits, .caller = RUN_NOBODY};
    pipeline *p = kept_load(text, false, limits);
    instance *i = NULL;
    assert_int_equal(instance_begin(&config, p, "", "{}", &i, &error), PAWL_OK);
    if (id)
        snprintf(id, CLOCK_ID_SIZE, "%s", instance_id(i));
    pipeline_release(p);
    return kept_finish(i);
}

#endif /* SCRIPT_KEPT_H */
