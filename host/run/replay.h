/*
 * run/replay.h - the events of a response once more, made from its record.
 *
 * For when the events themselves are no longer kept: each item comes whole, in one
 * delta.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_REPLAY_H
#define RUN_REPLAY_H

#include "run/event.h"

/* Gives the listener all events from CREATED to END. False: no memory, or the record is
 * damaged; nothing was given. [any] */
bool run_replay(run_record *record, run_listener listener);

#endif /* RUN_REPLAY_H */
