/*
 * loader/checked_rules.h - what the checking tables of all interfaces share.
 *
 * A table's functions have no context but the object they are called on, so our objects
 * stand in front of the plugin's: pawl_engine and its like are opaque in the header, and
 * in these files they are ours, with the plugin's own behind `real`. The functions that
 * have no object (inspect, open, dialects) exist once for each of CHECKED_MAX plugins.
 *
 * Guards are relaxed atomics on purpose: they must not make two threads look
 * synchronised to ThreadSanitizer when host and plugin are not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_CHECKED_RULES_H
#define LOADER_CHECKED_RULES_H

#include "loader/checked.h"

#include <stdatomic.h>
#include <stdbool.h>

#define CHECKED_MAX 16 /* plugins of one process at a time */
#define CHECKED_SLOTS(X)                                                                           \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

struct checked {
    atomic_bool used; /* this element is some plugin's                     */
    atomic_bool main; /* a [main] call runs                                */
    atomic_int open;  /* instances                                         */
    size_t index;     /* in the array of all                               */
    const pawl_plugin *plugin;
    const pawl_engine_api *engine; /* the plugin's tables, NULL: not asked for  */
    const pawl_tokenizer_api *tokenizer;
    const pawl_chat_api *chat;
    pawl_engine_api engine_table; /* ours in front of them                     */
    pawl_tokenizer_api tokenizer_table;
    pawl_chat_api chat_table;
};

/* The plugin of the n-th set of functions without an object. */
checked *checked_at(size_t n);

/* Logs the plugin and the rule, and aborts. */
_Noreturn void checked_broken(const checked *c, const char *rule, const char *format, ...)
    PAWL_PRINTF(3, 4);
/* The same where the condition does not hold. */
#define CHECKED_THAT(c, condition, rule, ...)                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            checked_broken(c, rule, __VA_ARGS__);                                                  \
    } while (0)

/* Between them no other call may enter: `what` says which calls, "[main]" or "[owner]". */
void checked_enter(const checked *c, atomic_bool *busy, const char *what, const char *call);
void checked_leave(atomic_bool *busy);

/* An out parameter that a failing call may not touch begins as this. */
#define CHECKED_NONE ((void *)(uintptr_t)8)
#define CHECKED_UNSET 0xfee1deadfee1deadu /* a number */
/* After an open: the object's out parameter and the status belong together. */
void checked_object(const checked *c, const char *call, pawl_status status, const void *object);

/* The caller's error behind one of ours: what the plugin may write and no byte more. */
typedef struct checked_error {
    pawl_error error;
    unsigned char beyond[32];
    pawl_error *callers; /* NULL: the plugin gets NULL too */
} checked_error;

pawl_error *checked_error_begin(checked_error *e, pawl_error *callers);
/* Looks at the status and the error of a call that has ended; gives the status back. */
pawl_status checked_status(const checked *c, const char *call, pawl_status status,
                           checked_error *e);

/* The caller's sink behind one that cuts: a few single bytes first, then pieces. */
typedef struct checked_sink {
    const checked *c;
    const char *call;
    const pawl_sink *callers;
    uint64_t size;     /* so far                                        */
    pawl_status ended; /* what the sink said when it wanted no more     */
    pawl_sink sink;    /* the plugin's end                              */
} checked_sink;

const pawl_sink *checked_sink_begin(checked_sink *s, const checked *c, const char *call,
                                    const pawl_sink *callers);
/* A sink that refused is the call's status. */
void checked_sink_end(const checked_sink *s, pawl_status status);

/* The caller's source behind one that gives little at a time. */
typedef struct checked_source {
    const checked *c;
    const pawl_source *callers;
    uint64_t size;     /* so far                                       */
    pawl_status ended; /* what the source said when it failed          */
    pawl_source source;
} checked_source;

const pawl_source *checked_source_begin(checked_source *s, const checked *c,
                                        const pawl_source *callers);
/* What could not be read was not loaded. */
void checked_source_end(const checked_source *s, pawl_status status);

/* Sets the member of our table where the plugin has it. */
#define CHECKED_MEMBER(ours, theirs, member, function)                                             \
    do {                                                                                           \
        if (PAWL_HAS(theirs, member))                                                              \
            (ours)->member = (function);                                                           \
    } while (0)

/* checked_engine.c, checked_tokenizer.c, checked_chat.c: fill our table of c. */
const void *checked_engine_table(checked *c, const pawl_engine_api *api);
const void *checked_tokenizer_table(checked *c, const pawl_tokenizer_api *api);
const void *checked_chat_table(checked *c, const pawl_chat_api *api);

#endif /* LOADER_CHECKED_RULES_H */
