/*
 * loader/checked.c - the plugins that are checked, and what all checks share.
 *
 * The array is the one mutable global of this room: a function pointer of a table
 * carries no context, so which plugin inspect() or open() belongs to can only be in
 * which function it is. Elements are taken and given back by [main]; what concurrent
 * calls change in them is atomic.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/checked_rules.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define SMALL 64    /* so many bytes go one by one ...  */
#define PIECE 4093u /* ... and then in pieces of these  */

static checked plugins[CHECKED_MAX];
static atomic_uint next; /* where the search begins: an old element rests a while */

checked *checked_at(size_t n)
{
    return &plugins[n];
}

checked *checked_open(const pawl_plugin *plugin)
{
    for (unsigned tried = 0; tried < CHECKED_MAX; tried++) {
        size_t i = atomic_fetch_add(&next, 1) % CHECKED_MAX;
        checked *c = &plugins[i];
        if (atomic_exchange(&c->used, true))
            continue;
        atomic_store(&c->main, false);
        atomic_store(&c->open, 0);
        c->index = i;
        c->plugin = plugin;
        c->engine = NULL;
        c->tokenizer = NULL;
        c->chat = NULL;
        return c;
    }
    log_write(PAWL_LOG_WARN, "check", "%s runs unchecked: %d plugins are checked already",
              plugin->id, CHECKED_MAX);
    return NULL;
}

void checked_close(checked *c)
{
    if (!c)
        return;
    int open = atomic_load(&c->open);
    CHECKED_THAT(c, open == 0, "instances are closed before shutdown()", "%d are open", open);
    atomic_store(&c->used, false);
}

const void *checked_table(checked *c, const char *interface_id, const void *table)
{
    if (strcmp(interface_id, PAWL_ENGINE) == 0)
        return c->engine == table ? &c->engine_table : checked_engine_table(c, table);
    if (strcmp(interface_id, PAWL_TOKENIZER) == 0)
        return c->tokenizer == table ? &c->tokenizer_table : checked_tokenizer_table(c, table);
    if (strcmp(interface_id, PAWL_CHAT) == 0)
        return c->chat == table ? &c->chat_table : checked_chat_table(c, table);
    return table;
}

void checked_broken(const checked *c, const char *rule, const char *format, ...)
{
    char what[300];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    log_write(PAWL_LOG_ERROR, "check", "%s: a rule of plugin.h is broken: %s: %s", c->plugin->id,
              rule, what);
    abort();
}

/* ---- threads ---- */

void checked_enter(const checked *c, atomic_bool *busy, const char *what, const char *call)
{
    bool other = atomic_exchange_explicit(busy, true, memory_order_relaxed);
    CHECKED_THAT(c, !other, "calls do not overlap", "%s call %s() while another one runs", what,
                 call);
}

void checked_leave(atomic_bool *busy)
{
    atomic_store_explicit(busy, false, memory_order_relaxed);
}

/* ---- statuses, errors, objects ---- */

void checked_object(const checked *c, const char *call, pawl_status status, const void *object)
{
    if (status)
        CHECKED_THAT(c, object == CHECKED_NONE, "out parameters are untouched on failure",
                     "%s() failed with status %d and wrote one", call, status);
    else
        CHECKED_THAT(c, object && object != CHECKED_NONE, "a call that succeeds gives its object",
                     "%s() gave none", call);
}

pawl_error *checked_error_begin(checked_error *e, pawl_error *callers)
{
    memset(e, 0xa5, sizeof *e);
    e->callers = callers;
    e->error = (pawl_error){.struct_size = sizeof e->error};
    if (callers) {
        e->error.code = callers->code;
        memcpy(e->error.message, callers->message, sizeof callers->message);
    }
    return callers ? &e->error : NULL;
}

pawl_status checked_status(const checked *c, const char *call, pawl_status status, checked_error *e)
{
    bool newer = c->plugin->abi_minor > PAWL_ABI_MINOR;
    CHECKED_THAT(c, status >= PAWL_OK && (status <= PAWL_E_INTERNAL || newer),
                 "statuses are those of the header", "%s() gave %d", call, status);
    if (!e->callers)
        return status;
    CHECKED_THAT(c, e->error.struct_size == sizeof e->error, "struct_size is the filler's",
                 "%s() changed the error's to %u", call, e->error.struct_size);
    for (size_t i = 0; i < sizeof e->beyond; i++)
        CHECKED_THAT(c, e->beyond[i] == 0xa5, "an error's message ends in its struct",
                     "%s() wrote %zu bytes beyond it", call, i + 1);
    CHECKED_THAT(c, memchr(e->error.message, 0, sizeof e->error.message),
                 "an error's message is terminated", "%s() left it open", call);
    e->callers->code = e->error.code;
    memcpy(e->callers->message, e->error.message, sizeof e->error.message);
    return status;
}

/* ---- sinks and sources ---- */

static pawl_status write_in_pieces(void *context, const void *data, uint64_t size)
{
    checked_sink *s = context;
    CHECKED_THAT(s->c, data || !size, "a sink is given bytes", "%s() wrote %llu bytes of NULL",
                 s->call, (unsigned long long)size);
    CHECKED_THAT(s->c, !s->ended, "a sink that refuses stops the callee",
                 "%s() went on after status %d", s->call, s->ended);
    while (size && !s->ended) {
        uint64_t n = s->size < SMALL ? 1 : size < PIECE ? size : PIECE;
        s->ended = s->callers->write(s->callers->context, data, n);
        data = (const char *)data + n;
        size -= n;
        s->size += n;
    }
    return s->ended;
}

const pawl_sink *checked_sink_begin(checked_sink *s, const checked *c, const char *call,
                                    const pawl_sink *callers)
{
    *s = (checked_sink){.c = c, .call = call, .callers = callers};
    s->sink = (pawl_sink){s, write_in_pieces};
    return callers ? &s->sink : NULL;
}

void checked_sink_end(const checked_sink *s, pawl_status status)
{
    CHECKED_THAT(s->c, !s->ended || status == s->ended, "a sink that refuses stops the callee",
                 "%s() gave status %d for the sink's %d", s->call, status, s->ended);
}

static pawl_status read_little(void *context, void *data, uint64_t size, uint64_t *got)
{
    checked_source *s = context;
    uint64_t n = s->size < SMALL ? 1 : PIECE, given = 0;
    CHECKED_THAT(s->c, data && got, "a source is given room", "it was asked for bytes at NULL");
    n = n < size ? n : size;
    pawl_status status = s->callers->read(s->callers->context, data, n, &given);
    if (status) {
        s->ended = status;
        return status;
    }
    CHECKED_THAT(s->c, given <= n, "a source gives what was asked for", "%llu bytes for %llu",
                 (unsigned long long)given, (unsigned long long)n);
    s->size += given;
    *got = given;
    return PAWL_OK;
}

const pawl_source *checked_source_begin(checked_source *s, const checked *c,
                                        const pawl_source *callers)
{
    *s = (checked_source){.c = c, .callers = callers};
    s->source = (pawl_source){s, read_little};
    return callers ? &s->source : NULL;
}

void checked_source_end(const checked_source *s, pawl_status status)
{
    CHECKED_THAT(s->c, !s->ended || status, "what cannot be read is not loaded",
                 "state_load() succeeded though its source gave status %d", s->ended);
}
