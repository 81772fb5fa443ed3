/*
 * api/responses_object.h - the Response object, written as text.
 *
 * One writer for all places where it appears: in events, as the answer of a call that
 * does not stream, and read back from the store. Every key is always there. Pure; [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_RESPONSES_OBJECT_H
#define API_RESPONSES_OBJECT_H

#include "base/buf.h"
#include "run/event.h"

/* What a Response object is made of; all borrowed. */
typedef struct responses_view {
    const char *id;
    const char *status; /* in_progress, completed, incomplete, failed, cancelled */
    int64_t created_ms;
    int64_t completed_ms;   /* shown once it is completed                     */
    const cJSON *echo;      /* see responses_parse.c                          */
    const cJSON *output;    /* array of items; NULL: []                       */
    const cJSON *result;    /* of a finished one: usage, error, …; else NULL  */
    const run_usage *usage; /* where result has none; NULL: null              */
} responses_view;

/* Appends the object. False: it did not fit or there was no memory. */
bool responses_object_add(buf *out, const responses_view *view);
/* Appends the object of a finished response. False also when its texts are damaged. */
bool responses_record_add(buf *out, const run_record *record);

/* Gives an output item the keys that it may lack (status, annotations, logprobs,
 * summary). False: no memory. */
bool responses_item_complete(cJSON *item);

#endif /* API_RESPONSES_OBJECT_H */
