/*
 * run/live.h - the sequences that the engine holds, and which of them a prompt can
 * go on from.
 *
 * Every open sequence is one live entry with the tokens it has state for. An entry
 * is busy while a turn runs on it, else idle: kept for a turn that continues it,
 * and closed, least recently used first, when room is needed. What is closed is saved
 * before, where there is a prefix cache. Engine thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_LIVE_H
#define RUN_LIVE_H

#include "run/prefix.h"
#include "run/turn.h"

typedef struct live {
    pawl_sequence *sequence;
    char tenant[STORE_KEY_NAME_SIZE]; /* whose tokens it holds ...           */
    char salt[RUN_MAX_SALT + 1];      /* ... and what they were salted with  */
    int32_t *tokens;                  /* n_tokens that have state, in order */
    uint64_t n_tokens;
    uint64_t room;      /* of tokens                          */
    uint64_t used_at;   /* counts uses: larger is later       */
    bool busy;          /* a turn runs on it                  */
    bool loading;       /* saved state is coming into it      */
    prefix_track track; /* what of it is saved; zero: it is not to be   */
} live;

typedef struct live_set {
    const run_model *model;
    prefix *prefix; /* or NULL: nothing is saved          */
    live **entries; /* n_entries of at most max_entries   */
    size_t n_entries;
    size_t max_entries;
    uint64_t uses; /* the clock of used_at               */
} live_set;

/* saved: a prefix cache, or NULL. */
pawl_status live_set_open(live_set *set, const run_model *model, prefix *saved, size_t max_entries,
                          pawl_error *error);
void live_set_close(live_set *set); /* saves and closes all sequences */

/* A busy entry whose state covers the longest possible beginning of a turn's timeline, but
 * never all of it: continued where an idle entry ends there, forked where it goes
 * on differently or is busy, new otherwise. Its n_tokens is what was reused: only of the
 * same tenant and salt, since cached_tokens would tell one what another has asked. */
pawl_status live_take(live_set *set, const run_turn *turn, live **out, pawl_error *error);
/* The same without any state. */
pawl_status live_open(live_set *set, const run_turn *turn, live **out, pawl_error *error);
/* Where live_take() would go on from: *shared of the tokens have state there. NULL: nowhere,
 * *shared is 0. */
live *live_find(const live_set *set, const run_turn *turn, uint64_t *shared);
/* The turn is over or interrupted: keep its state for later. */
void live_keep(live_set *set, live *entry);
/* Its state is not to be trusted. */
void live_drop(live_set *set, live *entry);
/* Its state is good, but in the way. */
void live_evict(live_set *set, live *entry);
/* Evicts the idle entry that was used longest ago, but for one (or NULL). False: there is
 * none. */
bool live_evict_oldest(live_set *set, const live *but);
/* The engine has taken these tokens. False: no memory, drop the entry. */
bool live_append(live *entry, const int32_t *tokens, uint64_t n_tokens);
/* Saves the next part of an entry that is not saved yet; with_end: as prefix_save_one().
 * False: there is none. */
bool live_save_one(live_set *set, live *entry, bool with_end);

#endif /* RUN_LIVE_H */
