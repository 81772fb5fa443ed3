/*
 * run/join.h - turns that came together and begin alike compute their beginning once.
 *
 * Engine thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_JOIN_H
#define RUN_JOIN_H

#include "run/step.h"

/* Before a pass: who could go on from another turn's state by now does so. */
void run_join(run_step *step);

#endif /* RUN_JOIN_H */
