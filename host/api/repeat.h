/*
 * api/repeat.h - a request with an Idempotency-Key: has it been asked before?
 *
 * The key belongs to its tenant. What was asked is compared by a digest of the request;
 * what is answered once is answered again, and what runs is joined. A request that was
 * refused leaves nothing behind.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_REPEAT_H
#define API_REPEAT_H

#include "api/error.h"
#include "base/digest.h"
#include "run/log.h"

typedef struct repeat {
    const char *key; /* borrowed; NULL: the request has none           */
    char hash[DIGEST_HEX_SIZE];
    run_log *log;       /* a reference: who runs it or has just run it    */
    run_record *record; /* a reference: what answered it before           */
} repeat;

/* Looks the key up. name: of the header or member, for errors; endpoint: what is asked.
 * False: refused. Else *r is to be cleared; neither log nor record: it is new. [worker] */
bool repeat_open(repeat *r, run_runtime *runtime, const run_caller *caller, const char *key,
                 const char *name, const char *endpoint, const cJSON *body, api_error *error);
void repeat_clear(repeat *r);

#endif /* API_REPEAT_H */
