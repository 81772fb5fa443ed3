/*
 * run/choices.h - the events of several turns as those of one request.
 *
 * A request may ask for several replies to one prompt. Each is a turn of its own;
 * here their events get the number of their choice, and only the END of the turn
 * that ends last stays an END, so that a listener counts nothing. It frees itself
 * after that one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_CHOICES_H
#define RUN_CHOICES_H

#include "run/event.h"

typedef struct run_choices run_choices;

/* For n turns, each of which must end. NULL without memory. */
run_choices *run_choices_open(size_t n, run_listener listener);
/* For when none of the turns was begun. NULL allowed. */
void run_choices_close(run_choices *choices);
/* What the k-th turn is to report to. [any thread that runs a turn] */
run_listener run_choices_listener(run_choices *choices, size_t k);

#endif /* RUN_CHOICES_H */
