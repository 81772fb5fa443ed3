/*
 * loader/checked_engine.c - the checking table of engines: instances, sequences, state.
 *
 * What is asserted of threads: open and close are [main] of the plugin; all that is
 * [owner] enters the engine's guard; inspect, info, capacity and cancel may come from
 * anywhere, so they only read what does not change. Submits are in checked_submit.c.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/checked_engine.h"

#include <stdlib.h>
#include <string.h>

static void enter(pawl_engine *e, const char *call)
{
    checked_enter(e->c, &e->owner, "[owner]", call);
}

static void leave(pawl_engine *e)
{
    checked_leave(&e->owner);
}

/* ---- [main] ---- */

static pawl_status inspect(checked *c, pawl_bytes path, const pawl_sink *json, pawl_error *error)
{
    checked_error e;
    checked_sink s;
    pawl_status status = c->engine->inspect(path, checked_sink_begin(&s, c, "inspect", json),
                                            checked_error_begin(&e, error));
    checked_sink_end(&s, status);
    return checked_status(c, "inspect", status, &e);
}

/* The progress of open(): 0 to 1, and an end where the host wants one. */
typedef struct checked_progress {
    const checked *c;
    pawl_status (*callers)(void *arg, double done);
    void *arg;
    pawl_status ended;
} checked_progress;

static pawl_status on_progress(void *arg, double done)
{
    checked_progress *p = arg;
    CHECKED_THAT(p->c, done >= 0 && done <= 1, "progress goes from 0 to 1", "it is %g", done);
    CHECKED_THAT(p->c, !p->ended, "a progress callback that refuses stops open()",
                 "it went on after status %d", p->ended);
    p->ended = p->callers(p->arg, done);
    return p->ended;
}

static void read_info(pawl_engine *e)
{
    const pawl_engine_info *i = &e->info;
    e->info.struct_size = sizeof e->info;
    e->api->info(e->real, &e->info);
    CHECKED_THAT(e->c, i->struct_size == sizeof e->info, "struct_size is the filler's",
                 "info() changed it to %u", i->struct_size);
    CHECKED_THAT(e->c, i->vocab_size && i->context_limit && i->max_in_flight && i->page_tokens,
                 "info() describes the model",
                 "vocabulary %u, context %llu, max_in_flight %u, page_tokens %u", i->vocab_size,
                 (unsigned long long)i->context_limit, i->max_in_flight, i->page_tokens);
    CHECKED_THAT(e->c, i->kv_format && i->device, "info() describes the model",
                 "kv_format or device is NULL");
}

static pawl_status open_engine(checked *c, const pawl_engine_config *config,
                               pawl_status (*progress)(void *arg, double done), void *arg,
                               pawl_engine **out, pawl_error *error)
{
    checked_error shield;
    checked_progress p = {c, progress, arg, PAWL_OK};
    pawl_engine *e = calloc(1, sizeof *e);
    if (!e)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to check an engine");
    e->c = c;
    e->api = c->engine;
    e->real = CHECKED_NONE;
    checked_enter(c, &c->main, "[main]", "open");
    pawl_status status = e->api->open(config, progress ? on_progress : NULL, &p, &e->real,
                                      checked_error_begin(&shield, error));
    checked_status(c, "open", status, &shield);
    checked_object(c, "open", status, e->real);
    CHECKED_THAT(c, !p.ended || status, "a progress callback that refuses stops open()",
                 "open() succeeded after status %d", p.ended);
    if (status) {
        free(e);
    } else {
        e->max_sequences = config->max_sequences;
        atomic_fetch_add(&c->open, 1);
        read_info(e);
        *out = e;
    }
    checked_leave(&c->main);
    return status;
}

static void close_engine(pawl_engine *e)
{
    checked *c = e->c;
    checked_enter(c, &c->main, "[main]", "close");
    enter(e, "close");
    CHECKED_THAT(c, e->n_sequences == 0, "an engine is closed after its sequences", "%u are open",
                 e->n_sequences);
    CHECKED_THAT(c, e->n_adapters == 0, "an engine is closed after its adapters", "%d are open",
                 e->n_adapters);
    CHECKED_THAT(c, e->n_passes == 0, "a submit is waited for", "%u are open at close()",
                 e->n_passes);
    e->api->close(e->real);
    atomic_fetch_sub(&c->open, 1);
    free(e);
    checked_leave(&c->main);
}

static pawl_status adapter_open(pawl_engine *e, pawl_bytes path, pawl_adapter **out,
                                pawl_error *error)
{
    checked_error shield;
    pawl_adapter *a = calloc(1, sizeof *a);
    if (!a)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to check an adapter");
    a->engine = e;
    a->real = CHECKED_NONE;
    checked_enter(e->c, &e->c->main, "[main]", "adapter_open");
    pawl_status status =
        e->api->adapter_open(e->real, path, &a->real, checked_error_begin(&shield, error));
    checked_status(e->c, "adapter_open", status, &shield);
    checked_object(e->c, "adapter_open", status, a->real);
    if (status) {
        free(a);
    } else {
        e->n_adapters++;
        *out = a;
    }
    checked_leave(&e->c->main);
    return status;
}

static void adapter_close(pawl_adapter *a)
{
    pawl_engine *e = a->engine;
    checked_enter(e->c, &e->c->main, "[main]", "adapter_close");
    e->api->adapter_close(a->real);
    e->n_adapters--;
    free(a);
    checked_leave(&e->c->main);
}

static const char *adapter_digest(const pawl_adapter *a)
{
    return a->engine->api->adapter_digest(a->real);
}

/* ---- [any] ---- */

static void info(const pawl_engine *e, pawl_engine_info *out)
{
    struct {
        pawl_engine_info info;
        unsigned char beyond[64];
    } room;
    uint32_t size = out->struct_size;
    if (size < sizeof size || size > sizeof room.info) {
        e->api->info(e->real, out);
        return;
    }
    memset(&room, 0xa5, sizeof room);
    memcpy(&room, out, size);
    e->api->info(e->real, &room.info);
    const unsigned char *bytes = (const unsigned char *)&room;
    for (size_t i = size; i < sizeof room; i++)
        CHECKED_THAT(e->c, bytes[i] == 0xa5, "info() fills what fits", "byte %zu of %u is written",
                     i, size);
    memcpy(out, &room, size);
}

static void capacity(const pawl_engine *e, uint64_t *total, uint64_t *free_pages)
{
    *total = CHECKED_UNSET;
    *free_pages = CHECKED_UNSET;
    e->api->capacity(e->real, total, free_pages);
    CHECKED_THAT(e->c, *total != CHECKED_UNSET && *free_pages <= *total, "capacity() counts pages",
                 "%llu of %llu are free", (unsigned long long)*free_pages,
                 (unsigned long long)*total);
}

static void cancel(pawl_engine *e)
{
    e->api->cancel(e->real);
}

/* ---- [owner]: sequences ---- */

/* Puts ours before a sequence that the plugin opened or forked. */
static pawl_status wrap_sequence(pawl_engine *e, const char *call, pawl_status status,
                                 pawl_sequence *real, pawl_sequence *ours, pawl_sequence **out)
{
    checked_object(e->c, call, status, real);
    if (status) {
        free(ours);
        return status;
    }
    ours->engine = e;
    ours->real = real;
    e->n_sequences++;
    CHECKED_THAT(e->c, !e->max_sequences || e->n_sequences <= e->max_sequences,
                 "at most max_sequences are open", "%u of %u", e->n_sequences, e->max_sequences);
    *out = ours;
    return PAWL_OK;
}

static pawl_status sequence_open(pawl_engine *e, pawl_sequence **out, pawl_error *error)
{
    checked_error shield;
    pawl_sequence *real = CHECKED_NONE, *ours = calloc(1, sizeof *ours);
    if (!ours)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to check a sequence");
    enter(e, "sequence_open");
    pawl_status status = e->api->sequence_open(e->real, &real, checked_error_begin(&shield, error));
    checked_status(e->c, "sequence_open", status, &shield);
    status = wrap_sequence(e, "sequence_open", status, real, ours, out);
    if (!status)
        CHECKED_THAT(e->c, e->api->length(real) == 0, "a new sequence is empty", "it has %llu",
                     (unsigned long long)e->api->length(real));
    leave(e);
    return status;
}

static void sequence_close(pawl_sequence *s)
{
    pawl_engine *e = s->engine;
    enter(e, "sequence_close");
    CHECKED_THAT(e->c, s->n_passes == 0, "a submit is waited for",
                 "a sequence of an open one is closed");
    e->api->sequence_close(s->real);
    e->n_sequences--;
    free(s);
    leave(e);
}

static pawl_status reserve(pawl_sequence *s, uint64_t n_tokens, pawl_error *error)
{
    pawl_engine *e = s->engine;
    checked_error shield;
    enter(e, "reserve");
    pawl_status status = e->api->reserve(s->real, n_tokens, checked_error_begin(&shield, error));
    checked_status(e->c, "reserve", status, &shield);
    leave(e);
    return status;
}

static uint64_t length(const pawl_sequence *s)
{
    pawl_engine *e = s->engine;
    enter(e, "length");
    uint64_t n = e->api->length(s->real);
    CHECKED_THAT(e->c, n <= e->info.context_limit, "a sequence fits the context",
                 "length() is %llu", (unsigned long long)n);
    leave(e);
    return n;
}

static pawl_status truncate_sequence(pawl_sequence *s, uint64_t n, pawl_error *error)
{
    pawl_engine *e = s->engine;
    checked_error shield;
    enter(e, "truncate");
    uint64_t before = e->api->length(s->real);
    pawl_status status = e->api->truncate(s->real, n, checked_error_begin(&shield, error));
    uint64_t after = e->api->length(s->real);
    checked_status(e->c, "truncate", status, &shield);
    CHECKED_THAT(e->c, after == (status ? before : n), "truncate() leaves n tokens, or all",
                 "status %d, %llu of %llu for n %llu", status, (unsigned long long)after,
                 (unsigned long long)before, (unsigned long long)n);
    if (after == 0) {
        s->grown = false;
        s->loaded = 0;
    }
    leave(e);
    return status;
}

static pawl_status fork_sequence(const pawl_sequence *from, uint64_t n, pawl_sequence **out,
                                 pawl_error *error)
{
    pawl_engine *e = from->engine;
    checked_error shield;
    pawl_sequence *real = CHECKED_NONE, *ours = calloc(1, sizeof *ours);
    if (!ours)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to check a sequence");
    enter(e, "fork");
    pawl_status status = e->api->fork(from->real, n, &real, checked_error_begin(&shield, error));
    checked_status(e->c, "fork", status, &shield);
    ours->grown = n > 0;
    status = wrap_sequence(e, "fork", status, real, ours, out);
    if (!status)
        CHECKED_THAT(e->c, e->api->length(real) == n, "a fork has the first n tokens",
                     "%llu and not %llu", (unsigned long long)e->api->length(real),
                     (unsigned long long)n);
    leave(e);
    return status;
}

/* ---- [owner]: saved state ---- */

static bool is_chunk_end(const pawl_engine *e, uint64_t end)
{
    return !e->info.state_chunk || end % e->info.state_chunk == 0;
}

static pawl_status state_save(const pawl_sequence *s, uint32_t part, uint64_t begin, uint64_t end,
                              const pawl_sink *to, pawl_error *error)
{
    pawl_engine *e = s->engine;
    checked_error shield;
    checked_sink sink;
    enter(e, "state_save");
    uint64_t now = e->api->length(s->real);
    bool chunk = part == PAWL_STATE_CHUNK;
    CHECKED_THAT(e->c, chunk || part == PAWL_STATE_BOUNDARY, "a state's part is of the header",
                 "it is %u", part);
    CHECKED_THAT(e->c, begin <= end && end <= now, "what is saved has state",
                 "[%llu, %llu) of %llu tokens", (unsigned long long)begin, (unsigned long long)end,
                 (unsigned long long)now);
    CHECKED_THAT(e->c, end == now || (chunk && is_chunk_end(e, begin) && is_chunk_end(e, end)),
                 "chunks are aligned, the boundary is the end", "part %u, [%llu, %llu) of %llu",
                 part, (unsigned long long)begin, (unsigned long long)end, (unsigned long long)now);
    pawl_status status = e->api->state_save(s->real, part, begin, end,
                                            checked_sink_begin(&sink, e->c, "state_save", to),
                                            checked_error_begin(&shield, error));
    checked_sink_end(&sink, status);
    checked_status(e->c, "state_save", status, &shield);
    CHECKED_THAT(e->c, status || sink.size, "state_save() writes", "nothing, with status 0");
    leave(e);
    return status;
}

static pawl_status state_load(pawl_sequence *s, uint32_t part, const int32_t *tokens,
                              uint64_t begin, uint64_t end, const pawl_source *from,
                              pawl_error *error)
{
    pawl_engine *e = s->engine;
    checked_error shield;
    checked_source source;
    enter(e, "state_load");
    CHECKED_THAT(e->c, !s->grown, "state is loaded into an empty sequence",
                 "it has tokens of its own");
    CHECKED_THAT(e->c, begin == s->loaded && begin <= end, "chunks are loaded in order",
                 "[%llu, %llu) after %llu", (unsigned long long)begin, (unsigned long long)end,
                 (unsigned long long)s->loaded);
    uint64_t before = e->api->length(s->real);
    pawl_status status = e->api->state_load(s->real, part, tokens, begin, end,
                                            checked_source_begin(&source, e->c, from),
                                            checked_error_begin(&shield, error));
    uint64_t after = e->api->length(s->real);
    checked_source_end(&source, status);
    checked_status(e->c, "state_load", status, &shield);
    CHECKED_THAT(e->c, status ? after == before : after <= end,
                 "a failing load leaves the sequence as it was",
                 "status %d, length %llu after %llu", status, (unsigned long long)after,
                 (unsigned long long)before);
    if (!status) {
        s->loaded = end;
        s->grown = part == PAWL_STATE_BOUNDARY;
    }
    leave(e);
    return status;
}

/* ---- [owner]: passes ---- */

static pawl_status submit(pawl_engine *e, pawl_slot *slots, uint64_t stride, uint64_t n_slots,
                          uint64_t *ticket, pawl_error *error)
{
    enter(e, "submit");
    pawl_status status = checked_submit(e, slots, stride, n_slots, ticket, error);
    leave(e);
    return status;
}

static pawl_status wait_for(pawl_engine *e, uint64_t ticket, pawl_error *error)
{
    enter(e, "wait");
    pawl_status status = checked_wait(e, ticket, error);
    leave(e);
    return status;
}

/* ---- the table ---- */

#define FUNCTIONS(n)                                                                               \
    static pawl_status inspect_##n(pawl_bytes path, const pawl_sink *json, pawl_error *error)      \
    {                                                                                              \
        return inspect(checked_at(n), path, json, error);                                          \
    }                                                                                              \
    static pawl_status open_##n(const pawl_engine_config *config,                                  \
                                pawl_status (*progress)(void *arg, double done), void *arg,        \
                                pawl_engine **out, pawl_error *error)                              \
    {                                                                                              \
        return open_engine(checked_at(n), config, progress, arg, out, error);                      \
    }
CHECKED_SLOTS(FUNCTIONS)

#define TABLE(n) {.inspect = inspect_##n, .open = open_##n},
static const pawl_engine_api by_plugin[CHECKED_MAX] = {CHECKED_SLOTS(TABLE)};

const void *checked_engine_table(checked *c, const pawl_engine_api *api)
{
    pawl_engine_api *t = &c->engine_table;
    c->engine = api;
    memset(t, 0, sizeof *t);
    t->struct_size = sizeof *t;
    CHECKED_MEMBER(t, api, inspect, by_plugin[c->index].inspect);
    CHECKED_MEMBER(t, api, open, by_plugin[c->index].open);
    CHECKED_MEMBER(t, api, close, close_engine);
    CHECKED_MEMBER(t, api, info, info);
    CHECKED_MEMBER(t, api, capacity, capacity);
    CHECKED_MEMBER(t, api, reserve, reserve);
    CHECKED_MEMBER(t, api, sequence_open, sequence_open);
    CHECKED_MEMBER(t, api, sequence_close, sequence_close);
    CHECKED_MEMBER(t, api, submit, submit);
    CHECKED_MEMBER(t, api, wait, wait_for);
    CHECKED_MEMBER(t, api, cancel, cancel);
    CHECKED_MEMBER(t, api, length, length);
    CHECKED_MEMBER(t, api, truncate, truncate_sequence);
    CHECKED_MEMBER(t, api, fork, fork_sequence);
    CHECKED_MEMBER(t, api, state_save, state_save);
    CHECKED_MEMBER(t, api, state_load, state_load);
    CHECKED_MEMBER(t, api, adapter_open, adapter_open);
    CHECKED_MEMBER(t, api, adapter_close, adapter_close);
    CHECKED_MEMBER(t, api, adapter_digest, adapter_digest);
    return t;
}
