/*
 * tests/plugins/replay/replay.h - a model that is a script.
 *
 * The test plugin dev.pawl.test.replay offers an engine and a tokenizer for files
 * NAME.replay.json, which list replies and when each is given; the README beside
 * this folder says which keys there are. What comes next is a pure function of the
 * sequence's tokens (script.c), so that splitting, truncating, forking and resuming
 * a timeline change nothing, as with a real engine.
 *
 * A replay_model is read once and then only read; engine and tokenizer each own
 * one. A sequence belongs to the thread that drives its engine.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef REPLAY_H
#define REPLAY_H

#include <pawl/plugin.h>
#include <pawl/plugin_util.h>

#include <stdatomic.h>

/* Ids: 0..255 are bytes, then three control tokens, then "vocab", "control" and
 * the pieces that replies bring along. */
enum { REPLAY_IM_START = 256, REPLAY_IM_END = 257, REPLAY_END_OF_TEXT = 258 };

typedef struct replay_piece {
    char *text;
    size_t size;
    uint32_t flags; /* enum pawl_token_flag */
} replay_piece;

typedef struct replay_reply {
    char **when; /* all of them must occur in the last user turn */
    size_t n_when;
    int32_t *tokens;
    size_t n_tokens;
    int32_t end;             /* token after the last one; -1: begin again          */
    uint32_t delay_ms;       /* of the pass that samples a token                   */
    uint64_t fail_at;        /* the n-th sampled token fails, from 1; 0: none      */
    pawl_status fail_status; /* with this                                          */
} replay_reply;

typedef struct replay_model {
    char *name;
    char *chat_template;
    replay_piece *pieces;
    size_t n_pieces;
    replay_reply *replies; /* the last one is given when no other fits              */
    size_t n_replies;
    uint64_t file_bytes;
    uint64_t digest; /* FNV-1a of the file                                   */
    uint64_t context;
    uint32_t max_sequences;
    uint32_t page_tokens;
    uint64_t pages; /* 0: enough for max_sequences full contexts            */
    uint32_t state_chunk;
    uint32_t prefill_delay; /* ms for each token of a pass but the first            */
    uint64_t fail_submit;   /* the n-th submit fails as a whole, from 1; 0: none    */
    pawl_status fail_open;  /* open() gives this                                    */
    pawl_status fail_load;  /* state_load() gives this                              */
    pawl_status fail_save;  /* state_save() gives this                              */
} replay_model;

struct pawl_engine {
    replay_model *model;
    uint64_t context;
    uint32_t max_sequences;
    uint32_t n_sequences;
    uint64_t pages;            /* in all                              */
    atomic_uint_fast64_t held; /* by sequences, capacity() is [any]   */
    uint64_t n_submits;
    atomic_bool cancelled; /* the open submit is to end           */
    char kv_format[64];
};

struct pawl_sequence {
    pawl_engine *engine;
    int32_t *tokens;
    uint64_t length;
    uint64_t room;
    uint64_t pages; /* held */
};

/* model.c */
pawl_status replay_model_open(pawl_bytes path, replay_model **out, pawl_error *error);
void replay_model_close(replay_model *model);
int32_t replay_find_piece(const replay_model *model, const char *text, size_t size);

/* script.c: the token that follows, and of which reply it is which one, from 0. */
int32_t replay_next(const replay_model *model, const int32_t *tokens, uint64_t n,
                    const replay_reply **reply, uint64_t *index);

/* sequence.c */
pawl_status replay_reserve(pawl_sequence *sequence, uint64_t n_tokens, pawl_error *error);
pawl_status replay_sequence_open(pawl_engine *engine, pawl_sequence **out, pawl_error *error);
void replay_sequence_close(pawl_sequence *sequence);
uint64_t replay_length(const pawl_sequence *sequence);
pawl_status replay_truncate(pawl_sequence *sequence, uint64_t n, pawl_error *error);
pawl_status replay_fork(const pawl_sequence *from, uint64_t n, pawl_sequence **to,
                        pawl_error *error);
pawl_status replay_append(pawl_sequence *sequence, const int32_t *tokens, uint64_t n,
                          pawl_error *error);
pawl_status replay_state_save(const pawl_sequence *sequence, uint32_t part, uint64_t begin,
                              uint64_t end, const pawl_sink *to, pawl_error *error);
pawl_status replay_state_load(pawl_sequence *sequence, uint32_t part, const int32_t *tokens,
                              uint64_t begin, uint64_t end, const pawl_source *from,
                              pawl_error *error);

/* report.c: to the host of the process, where it takes reports. */
void replay_report_to(const pawl_host *to); /* NULL: no longer */
void replay_report_pass(uint64_t n_slots, uint64_t ms);

/* submit.c */
pawl_status replay_submit(pawl_engine *engine, pawl_slot *slots, uint64_t stride, uint64_t n_slots,
                          uint64_t *ticket, pawl_error *error);
pawl_status replay_wait(pawl_engine *engine, uint64_t ticket, pawl_error *error);

/* engine.c, tokenizer.c */
extern const pawl_engine_api replay_engine;
extern const pawl_tokenizer_api replay_tokenizer;

#endif /* REPLAY_H */
