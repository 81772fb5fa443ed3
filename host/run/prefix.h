/*
 * run/prefix.h - saved attention state of one model: looked for, loaded, kept.
 *
 * The engine writes and reads states, store/kv.h keeps them; here is decided which, and
 * when. A timeline is kept as its whole chunks and, at the end of a turn, its end: the part
 * of a chunk that is left or, where the engine has one, the boundary, which stands for that
 * part, too. Chunks alone are of use only to engines without a boundary.
 *
 *   live sequence ── prefix_save_one ──► kv (memory, kv.db)
 *   new sequence  ◄─ prefix_load_one ─── kv
 *
 * Both do one part at a time, so that the passes of others go on in between. Nothing here
 * fails a turn: what cannot be saved is not there later, what cannot be loaded is computed.
 * Engine thread only, but for opening and closing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_PREFIX_H
#define RUN_PREFIX_H

#include "base/clock.h"
#include "run/prefix_key.h"
#include "run/prefix_pace.h"

/* Timelines shorter than this are computed again. */
#define PREFIX_MIN_TOKENS 256

typedef struct prefix {
    const run_model *model;
    const base_clock *clock;
    kv *kv;
    kv_key fingerprint;
    uint32_t chunk;      /* tokens                                                 */
    bool boundary;       /* the engine has one                                     */
    uint64_t min_tokens; /* of a timeline that is worth it                         */
    prefix_pace pace;
    int64_t quiet_until; /* monotonic ns: the kv had no room, nothing is saved before; or 0 */
} prefix;

/* kv: outlives it. min_tokens 0: PREFIX_MIN_TOKENS. *out NULL: the engine cannot save. */
pawl_status prefix_open(const run_model *model, kv *store, uint64_t min_tokens,
                        const base_clock *clock, prefix **out, pawl_error *error);
void prefix_close(prefix *p); /* NULL allowed */

/* ------------------------------------------------------------ looking ---- */

/* Where the tokens begin that the kv keeps beside the state of [begin, end): a boundary right
 * behind a chunk is of no tokens, and is kept with that chunk's. */
static inline uint64_t prefix_named_begin(const prefix *p, uint64_t begin, uint64_t end)
{
    return begin == end ? begin - p->chunk : begin;
}

typedef struct prefix_hit {
    uint64_t n_tokens; /* that there is state for; 0: none          */
    uint64_t n_chunks; /* whole ones, from the first on             */
    bool has_end;      /* what follows them up to n_tokens          */
    kv_key end;        /* its key                                   */
} prefix_hit;

/* The longest beginning of the tokens that is kept, but never all of them: the last one
 * must be computed. chain: of these tokens' tenant and salt; is extended. */
prefix_hit prefix_find(prefix *p, prefix_chain *chain, const int32_t *tokens, uint64_t n_tokens);

/* ------------------------------------------------------------ loading ---- */

enum prefix_progress {
    PREFIX_MORE,  /* call again                                           */
    PREFIX_DONE,  /* load->n_tokens have state, maybe fewer than hoped    */
    PREFIX_BROKEN /* nothing has: the sequence must be closed             */
};

/* A hit that is being loaded; its parts stay pinned until the end. */
typedef struct prefix_load {
    prefix *prefix;
    kv_key *keys; /* n_keys: chunks, then the end; pinned    */
    uint64_t n_keys;
    uint64_t next;     /* of the keys                             */
    uint64_t n_tokens; /* have state                              */
    prefix_hit hit;
} prefix_load;

pawl_status prefix_load_begin(prefix *p, const prefix_chain *chain, const prefix_hit *hit,
                              prefix_load **out, pawl_error *error);
/* Loads one part into the sequence, which was empty at the first call. tokens: the timeline. */
enum prefix_progress prefix_load_one(prefix_load *load, pawl_sequence *sequence,
                                     const int32_t *tokens);
void prefix_load_end(prefix_load *load); /* NULL allowed */

/* ------------------------------------------------------------- saving ---- */

/* What of one timeline is kept already. Belongs to its holder; zero is a timeline that
 * nobody keeps. */
typedef struct prefix_track {
    prefix_chain chain;
    uint64_t n_kept; /* chunks, from the first on                     */
    uint64_t end_at; /* length at which its end was kept, too; 0: not */
    bool given_up;   /* it cannot be saved                            */
} prefix_track;

pawl_status prefix_track_begin(prefix *p, prefix_track *track, const char *tenant, const char *salt,
                               pawl_error *error);
/* Looks how much is there now, which counts as a use of it: what a live sequence holds is not
 * read, and may have been thrown out meanwhile. */
void prefix_track_look(prefix *p, prefix_track *track, const int32_t *tokens, uint64_t n_tokens);
/* The timeline was cut to n_tokens. */
void prefix_track_cut(prefix_track *track, uint64_t n_tokens);
void prefix_track_clear(prefix_track *track);

/* Saves the next part of a timeline that is not kept yet: a chunk or, with_end, its end.
 * The sequence has state for exactly n_tokens. False: nothing was left, or nothing could
 * be done. */
bool prefix_save_one(prefix *p, prefix_track *track, const char *tenant,
                     const pawl_sequence *sequence, const int32_t *tokens, uint64_t n_tokens,
                     bool with_end);

#endif /* RUN_PREFIX_H */
