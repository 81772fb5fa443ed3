/*
 * sim/engine.h - an engine of plain C that checks whoever calls it.
 *
 * Sequences hold pages, forks share them; a pass takes virtual time and gives the
 * oracle's tokens. The seed in a slot's sampling says which turn it belongs to, so the
 * engine knows what each sequence has to hold, whose it is, and which tokens come next:
 * a slot that is not exactly what the turn needs ends the simulation at once, as does a
 * call that plugin.h does not allow.
 *
 * It refuses at random what an engine may refuse: a sequence, a fork or pages for
 * memory, a slot, a whole pass. What was reserved never fails for memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include "pages.h"
#include "run/plan.h"
#include "sim.h"

#define SIM_NOBODY UINT32_MAX

/* What a sequence holds while it is open. */
typedef struct sim_state {
    bool used;
    uint64_t n; /* tokens */
    uint32_t n_pages;
    uint32_t tenant; /* SIM_NOBODY: no token yet */
    uint32_t probe;  /* the probe that wrote into it, or SIM_NOBODY */
    uint16_t pages[SIM_MAX_CONTEXT / 4 + 1];
    uint64_t *hash; /* of the first n tokens; made when it is first used */
} sim_state;

struct pawl_sequence {
    pawl_engine *engine;
    uint32_t id;
    sim_state *state; /* NULL: closed */
    pawl_sequence *older;
};

struct pawl_engine {
    sim *sim;
    rng random; /* faults */
    page_pool pool;
    sim_state states[SIM_MAX_SEQUENCES];
    pawl_sequence *newest; /* of all that ever were: kept, so that late calls are seen */
    uint32_t n_sequences;  /* ever */
    uint32_t n_open;
    uint64_t ticket; /* of the open pass, or 0 */
    uint64_t passes;
    pawl_status wait_status; /* what wait() will say */
    uint64_t refusals;       /* answers that may make some turn fail */
    uint64_t faults;         /* answers that may make this turn fail, or none */
    uint64_t calls;          /* since the last pass */
};

extern const pawl_engine_api sim_engine_api;

void engine_open(sim *s);
void engine_close(sim *s); /* also what is still open in it */

#endif /* SIM_ENGINE_H */
