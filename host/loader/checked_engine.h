/*
 * loader/checked_engine.h - our engines and sequences, in front of a plugin's.
 *
 * All of an engine is [owner], but `api`, `real` and `c`, which do not change.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_CHECKED_ENGINE_H
#define LOADER_CHECKED_ENGINE_H

#include "loader/checked_rules.h"

/* A submit that has not been waited for. */
typedef struct checked_pass {
    struct checked_pass *next;
    uint64_t ticket;
    uint64_t n_slots;
    pawl_slot *callers;      /* the host's slots, written when the pass is over   */
    uint64_t callers_stride; /* of them                                           */
    char *sent;              /* the slots that the plugin got, longer than ours   */
    uint64_t *lengths;       /* of the sequences before, by slot                  */
} checked_pass;

struct pawl_engine {
    checked *c;
    const pawl_engine_api *api; /* the plugin's                                      */
    pawl_engine *real;          /* the plugin's                                      */
    atomic_bool owner;          /* an [owner] call runs                              */
    uint32_t max_sequences;     /* as configured; 0: the engine's choice             */
    uint32_t n_sequences;       /* open                                              */
    int n_adapters;             /* open                                              */
    uint32_t n_passes;          /* open                                              */
    checked_pass *passes;
    pawl_engine_info info;
};

struct pawl_sequence {
    pawl_engine *engine;
    pawl_sequence *real;
    uint32_t n_passes; /* open submits that hold it                               */
    bool grown;        /* by a submit or a fork: no state can be loaded           */
    uint64_t loaded;   /* end of the last chunk                                   */
};

struct pawl_adapter {
    pawl_engine *engine;
    pawl_adapter *real;
};

#define CHECKED_MAX_ADAPTERS 64 /* of one slot */

/* checked_submit.c; the callers have entered [owner]. */
pawl_status checked_submit(pawl_engine *e, pawl_slot *slots, uint64_t stride, uint64_t n_slots,
                           uint64_t *ticket, pawl_error *error);
pawl_status checked_wait(pawl_engine *e, uint64_t ticket, pawl_error *error);
/* checked_slot.c: what the host hands over, and what the plugin hands back. */
void checked_slot_in(const pawl_engine *e, uint64_t i, const pawl_slot *slot);
void checked_slot_out(const pawl_engine *e, uint64_t i, const pawl_slot *sent,
                      const pawl_slot *back, uint64_t length_before);

#endif /* LOADER_CHECKED_ENGINE_H */
