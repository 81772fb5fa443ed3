/*
 * sim/sim.h - one simulated schedule: what was planned, what is true, what was seen.
 *
 * A schedule is a function of its seed: no thread, no real clock, no address and no
 * hash of one decides anything. struct sim owns all of it; every part gets it as its
 * first argument or finds it behind its own first member.
 *
 *   plan.c    seed ─► sizes, chances, faults
 *   oracle.c  what each turn must bring, from the pure function of tokens
 *   engine.c  the engine table over pages.c; holds the host to plugin.h
 *   disk.c    the store table: puts complete later, or fail
 *   client.c  requests, arrivals, cancels; events.c holds what comes back to event.h
 *   fairness.c  what keys and classes got, against what they should get
 *   world.c   the loop: time, arrivals, rounds, the end
 *   trace.c   the last actions, the digest of all, the report
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "run/choices.h"
#include "run/scheduler.h"

#include "random.h"
#include "trace.h"

#define SIM_MAX_TURNS 256
#define SIM_MAX_CONTEXT 1536
#define SIM_MAX_PAGES 4096
#define SIM_MAX_SEQUENCES 64 /* open at once */
#define SIM_FIRST 'a'        /* the letters are the tokens that text is made of */
#define SIM_LETTERS 26
#define SIM_END 256 /* the control token that ends a reply */
#define SIM_FAMILIES 6
#define SIM_TENANTS 4
#define SIM_KEYS 6 /* key k is of tenant k % n_tenants; the last may be nobody */
#define SIM_CUTS 2
#define SIM_NEVER INT64_MAX

/* Drawn from the seed before anything happens. Chances are in thousandths. */
typedef struct sim_plan {
    uint32_t n_turns; /* so many will arrive, later choices included */
    uint32_t max_sequences;
    uint32_t open_sequences; /* the engine's limit */
    uint32_t queue_limit;
    uint32_t page_tokens;
    uint64_t pages;
    uint64_t context;
    uint64_t rewind; /* tokens */
    uint32_t n_families, n_tenants, n_keys;
    bool nobody;      /* the last key is no key at all, of the tenant "" */
    uint32_t per_key; /* places of one key; 0: the default */
    uint32_t slow;    /* passes take so many times as long */
    uint32_t batch, demote;
    bool small;     /* many small turns: shares show */
    uint32_t alone; /* so many turns come before any key but the first asks */
    uint32_t loud;  /* so many arrivals are the first key's */
    uint32_t longest_prompt, longest_reply;
    uint32_t end_odds; /* one token in so many is the end */
    int64_t gap_ns;    /* between arrivals, on the average */
    uint32_t burst;    /* so many arrive at once, at most */
    uint32_t cancel, follow, choices, raw_end, stop, store;
    uint32_t slot_fault, pass_fault, pass_cancel, memory_fault, put_fault, put_busy;
    uint32_t shutdown_at; /* turns that have arrived by then; 0: when all is over */
    bool clean;           /* no fault, and every turn has room when it is alone */
} sim_plan;

enum sim_cancel {
    CANCEL_NEVER,
    CANCEL_FIRST,
    CANCEL_AT,
    CANCEL_TOKEN,
    CANCEL_STORING,
    CANCEL_LATE
};

enum sim_put { PUT_NONE, PUT_REFUSED, PUT_OPEN, PUT_DONE, PUT_FAILED };

/* One turn: first what must come, then what has come. */
typedef struct sim_turn {
    struct sim *sim;
    uint32_t id; /* its place in sim->turns, and its sampling seed */
    struct sim_group *group;
    run_turn *turn; /* our reference, or NULL */
    uint32_t key, tenant;
    bool batch; /* its class, as the client wanted it last */
    bool demote;
    int64_t demote_at; /* time; SIM_NEVER: as soon as it runs */
    uint64_t cuts[SIM_CUTS];
    size_t n_cuts;
    bool greedy, ignore_end, generate, probe, store;
    uint64_t max_tokens, min_tokens;
    char stop[4]; /* "": none */
    /* oracle.c */
    int32_t *tokens; /* n_full of them, the first n_prompt given */
    uint64_t *hash;  /* of the first n tokens, for n from 0 to n_full */
    char *text;      /* all letters that may be said, before a stop string is cut */
    uint64_t n_prompt, n_full, limit;
    bool stopped, by_string; /* how it ends if it is left alone; else by its length */
    /* what the engine saw */
    bool entered;      /* a pass took tokens of it */
    bool hit;          /* its slot or its pass failed, for good */
    bool short_once;   /* of memory, which is to be tried again */
    uint64_t cached;   /* tokens of the first sequence that it came with */
    uint64_t sampled;  /* tokens that the engine gave */
    uint64_t woke_in;  /* rounds that had begun when its choices were let go on */
    uint64_t paid;     /* of its prompt, that was computed once */
    uint64_t computed; /* tokens that the engine took, again ones included */
    /* what the client did and saw */
    enum sim_cancel cancel;
    int64_t cancel_at; /* time, or number of deltas */
    bool cancelled;
    uint64_t cancelled_in; /* rounds that had begun by then */
    bool created, in_progress, item_open, ended;
    uint32_t items, deltas;
    size_t said; /* characters */
    int64_t arrived;
    enum sim_put put;
    uint64_t n_end; /* tokens of its record */
} sim_turn;

/* The turns of one request, one after the other in sim->turns. */
typedef struct sim_group {
    struct sim *sim;
    uint32_t first, n, n_ended;
    bool over;
} sim_group;

struct pawl_sequence; /* engine.h */

/* fairness.c: what keys were served while others waited. */
typedef struct sim_fairness {
    uint64_t served[SIM_KEYS]; /* virtual tokens: prompts once, generated ones twice */
    uint64_t largest;          /* turn, in the same */
    bool waits[SIM_KEYS];
    int64_t ahead[SIM_KEYS][SIM_KEYS]; /* the least, while the second one waits */
    int64_t batch_at;            /* when the batch class was served, or had no turn, last ... */
    int64_t began, longest_pass; /* of rounds */
    int64_t waited;              /* since then, when the round began */
    uint64_t raised;             /* ... and how many of it had been raised by then */
    uint64_t all_raised;         /* by now */
    bool batch;                  /* it had turns after the latest round */
} sim_fairness;

/* Counted over all schedules, so that a simulation that plays nothing is seen. */
typedef struct sim_totals {
    uint64_t schedules, turns, refused, completed, incomplete, cancelled, failed;
    uint64_t passes, tokens, forks, reused, recomputed, refusals, faults, shutdowns, busy_store;
    uint64_t key_full, demoted, raised;
} sim_totals;

typedef struct sim {
    uint64_t seed;
    sim_plan plan;
    rng random;  /* what the world does */
    rng entropy; /* what the clock's random() gives to the host */
    int64_t now; /* virtual, ns */
    sim_turn turns[SIM_MAX_TURNS];
    uint32_t n_turns;
    sim_group groups[SIM_MAX_TURNS];
    uint32_t n_groups;
    uint32_t n_ended;
    int64_t next_arrival;
    base_clock clock;
    run_model model;
    run_scheduler *scheduler;
    struct pawl_engine *engine;
    struct sim_disk *disk;
    sim_trace *trace;
    sim_totals totals;
    sim_fairness fairness;
    uint32_t first_open; /* all turns before it have ended */
    uint64_t progress;   /* grows with each event and each token */
    uint64_t rounds;     /* that have begun */
    uint64_t unhit;      /* turns that failed without a fault of their own */
} sim;

/* Plays the schedule of a seed; ends the process with a report where a rule is broken.
 * trace: where it is written, also while it runs. */
void sim_play(uint64_t seed, sim_trace *trace, sim_totals *totals);

void plan_draw(uint64_t seed, sim_plan *plan);

/* Fills what must come of a turn whose prompt is n_prompt tokens at t->tokens (with room
 * for the whole context). */
void oracle_foresee(sim_turn *t);
uint64_t oracle_hash(uint64_t before, int32_t token);
/* The token after n tokens of this hash. */
int32_t oracle_next(const sim *s, const sim_turn *t, uint64_t hash, uint64_t n);
/* Characters that its first n tokens say, where the turn has ended there. */
size_t oracle_said(const sim_turn *t, uint64_t n, bool all);

void client_arrive(sim *s);
void client_cancel(sim_turn *t);
void client_demote(sim_turn *t);
/* Cancels those whose time has come; the next one's time. */
int64_t client_cancel_due(sim *s);
void client_release(sim_turn *t);
run_caller client_caller(const sim *s, uint32_t key);
/* Whether it holds a place in the queue. */
bool client_waits(const sim_turn *t);

/* A turn is in a pass; tokens that it brought; before and after a round. */
void fairness_try(sim_turn *t);
void fairness_serve(sim_turn *t, uint64_t begin, uint64_t end, bool sampled);
void fairness_begin(sim *s);
void fairness_round(sim *s);

/* The listener of a group. */
void events_take(void *arg, run_event *event);

#endif /* SIM_SIM_H */
