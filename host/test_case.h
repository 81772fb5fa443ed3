/*
 * host/test_case.h - one case of a pipeline's tests: a world is made for it, the pipeline
 * runs there, and what it gave is compared.
 *
 * The world: a model of scripted replies, a folder of documents and a file of tools, all in a
 * folder that is gone afterwards. Nothing is kept of the run. [main]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_TEST_CASE_H
#define HOST_TEST_CASE_H

#include "base/json.h"
#include "loader/registry.h"

#include <stdatomic.h>

typedef struct test_case {
    registry *plugins;
    const char *path;          /* of the pipeline's file          */
    const cJSON *json;         /* as lua/pawl.d.lua has it        */
    const atomic_bool *cancel; /* ends it                         */
    bool verbose;              /* what it says is shown           */
} test_case;

/* Runs it and compares. True: passed. *outcome: an object {result, error, emits, calls,
 * tokens}, for the case's own check; to be deleted. why: what was otherwise. */
bool test_case_run(const test_case *c, cJSON **outcome, buf *why);

#endif /* HOST_TEST_CASE_H */
