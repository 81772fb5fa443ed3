/*
 * loader/check_rules.h - what the groups of the conformance kit share.
 *
 * A group is a table of rules. A rule is a function that looks at one promise and
 * gives its verdict; where that is no PASS, or where a PASS has a figure worth
 * telling, it says so with check_say(). What several rules of a group need (the
 * library, an open engine) is made on first use and kept in the `check` until the
 * group ends. All of it runs in the group's own child process.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_CHECK_RULES_H
#define LOADER_CHECK_RULES_H

#include "loader/check.h"
#include "loader/library.h"
#include "loader/manifest.h"

typedef struct check {
    const char *library_path;
    const char *manifest_path; /* "" where there is none                               */
    const char *model;         /* "" where there is none                               */
    bool own_model;            /* the user's: a plugin that refuses it fails           */
    const char *exchange;      /* file between the two halves of group "exchange"      */
    char why[400];             /* said by the running rule                             */
    library loaded;            /* by check_load()                                      */
    bool initialised;          /* by check_init()                                      */
    pawl_host host;
    const pawl_engine_api *engine_api; /* by check_engine()                            */
    pawl_engine *engine;
    pawl_engine_info info;
    const pawl_tokenizer_api *tokenizer_api; /* by check_tokenizer()                   */
    pawl_tokenizer *tokenizer;
    pawl_tokenizer_info tokenizer_info;
    const pawl_chat_api *chat_api; /* by check_chat_table()                            */
    pawl_chat *chat;               /* while a rule of threads needs it                 */
} check;

typedef struct check_rule {
    const char *name;
    const char *text; /* the promise */
    enum check_verdict (*run)(check *c);
} check_rule;

typedef struct check_group {
    const char *name;
    const check_rule *rules;
    size_t n_rules;
} check_group;

extern const check_group check_file_group;      /* check_file.c      */
extern const check_group check_entry_group;     /* check_entry.c     */
extern const check_group check_host_group;      /* check_entry.c     */
extern const check_group check_growth_group;    /* check_growth.c    */
extern const check_group check_errors_group;    /* check_errors.c    */
extern const check_group check_lifecycle_group; /* check_lifecycle.c */
extern const check_group check_engine_group;    /* check_engine.c    */
extern const check_group check_exact_group;     /* check_exact.c     */
extern const check_group check_tokenizer_group; /* check_tokenizer.c */
extern const check_group check_chat_group;      /* check_chat.c      */
extern const check_group check_threads_group;   /* check_threads.c   */
extern const check_group check_exchange_group;  /* check_exchange.c  */
extern const check_group check_save_group;      /* check_exchange.c, not for users */
extern const check_group check_take_group;      /* check_exchange.c, not for users */

/* ---- check_rules.c ---- */

/* Sets what the rule has to say and gives the verdict back. */
enum check_verdict check_say(check *c, enum check_verdict verdict, const char *format, ...)
    PAWL_PRINTF(3, 4);
/* PASS if the condition holds, else FAIL with the text. */
#define CHECK_THAT(c, condition, ...)                                                              \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return check_say(c, CHECK_FAIL, __VA_ARGS__);                                          \
    } while (0)
/* Makes what a rule needs, or ends the rule with the reason. */
#define CHECK_NEED(c, make)                                                                        \
    do {                                                                                           \
        enum check_verdict need_ = (make);                                                         \
        if (need_ != CHECK_PASS)                                                                   \
            return need_;                                                                          \
    } while (0)

/* PASS: it is there. Else the verdict that the calling rule is to give. */
enum check_verdict check_load(check *c);
enum check_verdict check_init(check *c);
enum check_verdict check_engine_table(check *c); /* initialised, offers an engine */
enum check_verdict check_tokenizer_table(check *c);
enum check_verdict check_chat_table(check *c);
enum check_verdict check_engine(check *c); /* a model is open               */
enum check_verdict check_tokenizer(check *c);
/* The first dialect that the plugin names, for the caller to close. check_chat.c */
enum check_verdict check_open_chat(check *c, pawl_chat **chat);
void check_end(check *c); /* closes what is open */

pawl_engine_config check_engine_config(const check *c);

/* A small generator, the same on every machine. */
uint32_t check_random(uint64_t *state);

/* ---- check_drive.c: passes over sequences ---- */

typedef struct check_step {
    pawl_sequence *sequence;
    const int32_t *tokens;
    uint64_t n;
    const uint32_t *allow;         /* or NULL                          */
    const pawl_sampling *sampling; /* NULL: greedy                     */
    bool sample;
    struct pawl_top *top; /* or NULL                          */
    uint32_t n_top;       /* in: room in top[]; out: how many */
    float *logits;        /* n_logits rows of the last tokens, or NULL */
    uint64_t n_logits;
    int32_t token;  /* out */
    float logprob;  /* out */
    int32_t status; /* out */
} check_step;

/* One pass over all steps; submit and wait. */
pawl_status check_pass(check *c, check_step *steps, uint64_t n_steps, pawl_error *error);
/* The prompt in one pass, then n_out - 1 tokens one by one, sampled as the step says.
 * false: it said why. */
bool check_sampled(check *c, check_step step, int32_t *out, uint64_t n_out);
/* The same, greedily. */
bool check_greedy(check *c, pawl_sequence *sequence, const int32_t *prompt, uint64_t n,
                  int32_t *out, uint64_t n_out);
bool check_open_sequence(check *c, pawl_sequence **sequence);
/* Ids from the vocabulary, a function of the seed. */
void check_prompt(const check *c, uint64_t seed, int32_t *tokens, uint64_t n);
/* Text of both token lists, for a verdict. */
enum check_verdict check_same(check *c, const char *what, const int32_t *a, const int32_t *b,
                              uint64_t n);

/* ---- check_elf.c ---- */

typedef struct check_elf {
    char exported[512]; /* names of defined, visible symbols but sanitizers', joined by ' ' */
    size_t n_exported;
    char needed[512]; /* libraries, joined by ' '        */
    bool soname;
    bool text_relocations;
    bool executable_stack; /* or none was asked for           */
    uint64_t constructors; /* entries of DT_INIT_ARRAY        */
} check_elf;

/* Reads an ELF64 shared object, every offset checked. */
pawl_status check_read_elf(const char *path, check_elf *out, pawl_error *error);

/* ---- check_model.c ---- */

/* Writes a llama model of a few hundred kilobytes with random weights and a byte-level
 * vocabulary: enough for an engine and for a tokenizer. */
pawl_status check_write_model(const char *path, pawl_error *error);

#endif /* LOADER_CHECK_RULES_H */
