/*
 * run/event_code.h - an event as bytes, for keeping it.
 *
 * An event as an allocation takes a few hundred bytes; as bytes, a token takes some
 * eighty. The bytes stay in the process that wrote them. Two things come back
 * otherwise than they went in: records stay with whoever keeps the bytes, and an
 * ITEM_END's log-probabilities are those of its item, so that they are kept once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_EVENT_CODE_H
#define RUN_EVENT_CODE_H

#include "base/buf.h"
#include "run/event.h"

/* Appends the event. False: it did not fit or there was no memory; nothing whole was
 * appended. [any] */
bool event_encode(buf *out, const run_event *event);
/* How many bytes the event at the beginning of data takes; 0: they are no event. */
size_t event_code_size(const char *data, size_t size);
/* The event at the beginning of data. NULL: no memory, or no event. [any] */
run_event *event_decode(const char *data, size_t size);

#endif /* RUN_EVENT_CODE_H */
