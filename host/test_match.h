/*
 * host/test_match.h - whether what a pipeline gave is what its test wants.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_TEST_MATCH_H
#define HOST_TEST_MATCH_H

#include "base/json.h"

/* Of an object every wanted member must match, others may be there; lists have equal lengths;
 * the rest is equal. False: why says where it is not, what is how the value is called. */
bool test_match(const cJSON *wanted, const cJSON *got, const char *what, buf *why);
/* Whether each wanted event, {type, data}, is matched by one of its own, in any order. */
bool test_match_events(const cJSON *wanted, const cJSON *got, buf *why);

#endif /* HOST_TEST_MATCH_H */
