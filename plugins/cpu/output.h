/*
 * cpu/output.h - what a submit works with, and reading results out of a pass.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CPU_OUTPUT_H
#define CPU_OUTPUT_H

#include "cpu/engine.h"
#include "cpu/sample.h"

/* One slot while its submit runs. */
typedef struct slot_work {
    pawl_slot slot;         /* the host's, as far as its stride reaches       */
    pawl_sampling sampling; /* slot.sampling points here                      */
    pawl_slot *host;        /* where the answers go                           */
    int32_t status;
    bool began;          /* its sequence is marked busy                    */
    uint32_t pages;      /* of the sequence before                         */
    uint64_t done;       /* tokens that are in a pass or through           */
    uint64_t pass_begin; /* tokens [pass_begin, pass_end) are in this pass */
    uint64_t pass_end;
    uint32_t pass_row; /* row of token pass_begin                        */
} slot_work;

/* A row of logits that somebody asked for. */
typedef struct output_row {
    slot_work *work;
    int64_t index; /* of the token it follows; -1: the last one before the slot */
} output_row;

typedef struct submit_work {
    pawl_engine *engine;
    slot_work *slots;
    uint32_t n_slots;
    forward_pass pass;
    output_row rows[FORWARD_LOGIT_ROWS]; /* whose inputs are in scratch->finals */
    uint32_t n_rows;
} submit_work;

/* Everything that the rows of this pass owe to their slots. False: cancelled. */
bool output_pass(submit_work *work);

#endif /* CPU_OUTPUT_H */
