/*
 * tests/plugins/liar/engine.c - lies of the engine and the tokenizer.
 *
 * Each function passes the call on to replay's and, if it is its turn, spoils what
 * goes in or comes out.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "liar/liar.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static atomic_int instances;              /* engines that are open                 */
static atomic_int asked;                  /* how often capacity() was              */
static pthread_t opener;                  /* the thread that opened an engine last */
static pawl_engine *single;               /* the engine of one thread that was opened last */
static const pawl_sequence *cut, *loaded; /* the latest that was cut, or loaded */

static pawl_status inspect(pawl_bytes path, const pawl_sink *json, pawl_error *error)
{
    return replay_engine.inspect(path, json, error);
}

static pawl_status open_engine(const pawl_engine_config *config,
                               pawl_status (*progress)(void *arg, double done), void *arg,
                               pawl_engine **out, pawl_error *error)
{
    pawl_engine_config mine = *config;
    if (lie("leak_file") && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
        return PAWL_E_INTERNAL;
    if (lie("any_option"))
        mine.options = (pawl_bytes){NULL, 0};
    if (lie("deaf"))
        progress = NULL;
    if (lie("exact_config") && config->struct_size != sizeof *config)
        return pawl_fail(error, PAWL_E_ARGUMENT, "another config");
    pawl_status status = PAWL_E_MEMORY;
    if (lie("half_budget") && config->memory_budget == 1)
        pawl_fail(error, status, "one byte");
    else
        status = replay_engine.open(&mine, progress, arg, out, lie("mute") ? NULL : error);
    if (status && (lie("half_open") || lie("half_budget")))
        *out = NULL;
    if (status && lie("needs_error"))
        error->code = status;
    opener = pthread_self();
    if (!status && config->threads == 1)
        single = *out;
    instances += status == PAWL_OK;
    return status;
}

static void close_engine(pawl_engine *engine)
{
    instances--;
    replay_engine.close(engine);
}

static void info(const pawl_engine *engine, pawl_engine_info *out)
{
    pawl_engine_info full = {.struct_size = sizeof full};
    replay_engine.info(engine, &full);
    static char format[40];
    if (lie("no_format"))
        full.kv_format = "";
    if (lie("exchange")) {
        snprintf(format, sizeof format, "liar %ld", (long)getpid());
        full.kv_format = format;
    }
    if (lie("overrun")) {
        full.struct_size = out->struct_size;
        memcpy(out, &full, sizeof full);
    } else {
        pawl_fill(out, &full, sizeof full);
    }
}

static void capacity(const pawl_engine *engine, uint64_t *total, uint64_t *free_pages)
{
    asked++;
    replay_engine.capacity(engine, total, free_pages);
    if (lie("capacity"))
        *free_pages = *total;
}

static pawl_status sequence_open(pawl_engine *engine, pawl_sequence **out, pawl_error *error)
{
    if (lie("too_many"))
        engine->max_sequences = 1000;
    return replay_sequence_open(engine, out, error);
}

static void sequence_close(pawl_sequence *sequence)
{
    if (lie("leak_page"))
        atomic_fetch_add(&sequence->engine->held, 1);
    replay_sequence_close(sequence);
}

/* Puts the token first among the best, where replay has its own. */
static void set_token(pawl_slot *slot, int32_t token)
{
    int32_t old = slot->out_tokens[0];
    slot->out_tokens[0] = token;
    for (uint32_t i = 1; i < slot->n_top; i++)
        if (slot->top[i].token == token)
            slot->top[i].token = old;
    if (slot->n_top)
        slot->top[0].token = token;
}

/* Unlike replay's, this answer depends on every token of the timeline. */
static void mix(const pawl_engine *engine, pawl_slot *slot)
{
    uint64_t hash = 14695981039346656037u;
    bool hot = slot->sampling && slot->sampling->temperature > 0;
    for (uint64_t i = 0; i < slot->sequence->length; i++)
        hash = (hash ^ (uint64_t)slot->sequence->tokens[i]) * 1099511628211u;
    if (slot->n_out && (!slot->allow || lie("mask") || (hot && lie("hot_mask"))))
        set_token(slot, (int32_t)((hash >> 20) % engine->model->n_pieces));
}

/* Lies that are told of what sampling was asked for. */
static bool spoils_sampling(const pawl_slot *slot)
{
    static int passes;
    const pawl_sampling *s = slot->sampling;
    bool hot = s && s->temperature > 0;
    return (lie("top_k") && hot && s->top_k == 1) || (lie("seed") && hot && ++passes % 5 == 0) ||
           (lie("resume") && hot && slot->n_tokens > 24);
}

/* Lies of a plugin that has seen one thread and one engine. */
static bool spoils_by_thread(void)
{
    return (lie("owner") && !pthread_equal(pthread_self(), opener)) ||
           (lie("any") && atomic_load(&asked)) || (lie("instances") && atomic_load(&instances) > 1);
}

/* Lies of an engine whose sums depend on what is beside them: the last bit of a logit. */
static void spoil_bits(const pawl_engine *engine, pawl_slot *slot, uint64_t i, uint64_t n_slots)
{
    bool spoil = (lie("pieces") && slot->n_tokens == 7) || (lie("company") && n_slots > 4) ||
                 (lie("order") && n_slots == 4 && i == 2) ||
                 (lie("history") && slot->sequence == cut) ||
                 (lie("workers") && engine == single) ||
                 (lie("instance") && slot->sequence == loaded && atomic_load(&instances) > 1);
    if (spoil && slot->logits && slot->n_logits)
        slot->logits[1] = nextafterf(slot->logits[1], 0);
}

static void spoil_out(const pawl_engine *engine, pawl_slot *slot, uint64_t n_slots)
{
    static int passes;
    bool spoil = (lie("random") && ++passes % 5 == 0) || (lie("batch") && n_slots > 2) ||
                 (lie("split") && slot->n_tokens == 3) || spoils_sampling(slot) ||
                 spoils_by_thread();
    if (slot->status == PAWL_OK)
        mix(engine, slot);
    if (slot->n_out && spoil)
        set_token(slot, (slot->out_tokens[0] + 1) % (int32_t)engine->model->n_pieces);
    if (slot->n_out && lie("penalties") && slot->sampling->repetition_penalty > 1)
        slot->out_tokens[0] = (int32_t)engine->model->n_pieces;
    if (slot->n_top > 2 && lie("tops"))
        slot->top[2].logprob = slot->top[1].logprob + 1;
    if (slot->status == PAWL_E_LIMIT && lie("limit"))
        slot->status = PAWL_E_MEMORY;
}

static pawl_status submit(pawl_engine *engine, pawl_slot *slots, uint64_t stride, uint64_t n_slots,
                          uint64_t *ticket, pawl_error *error)
{
    static atomic_bool was_cancelled;
    if (atomic_load(&engine->cancelled))
        was_cancelled = true;
    if (lie("crash")) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer would explain it and exit */
        raise(SIGSEGV);
    }
    if (lie("hang"))
        for (;;)
            pause();
    if (lie("cancel") && was_cancelled)
        return pawl_fail(error, PAWL_E_CANCELLED, "for ever");
    if (lie("stride"))
        stride = sizeof *slots;
    pawl_status status = replay_submit(engine, slots, stride, n_slots, ticket, error);
    for (uint64_t i = 0; i < n_slots && !status; i++) {
        spoil_out(engine, pawl_slot_at(slots, stride, i), n_slots);
        spoil_bits(engine, pawl_slot_at(slots, stride, i), i, n_slots);
        if (lie("spoil") && pawl_slot_at(slots, stride, i)->status)
            return pawl_fail(error, PAWL_E_ARGUMENT, "one slot failed, so all do");
    }
    return status;
}

static pawl_status truncate_sequence(pawl_sequence *sequence, uint64_t n, pawl_error *error)
{
    if (lie("truncate") || (lie("returned") && n == sequence->length))
        return PAWL_OK;
    cut = sequence;
    return replay_truncate(sequence, n, error);
}

static pawl_status fork_sequence(const pawl_sequence *from, uint64_t n, pawl_sequence **to,
                                 pawl_error *error)
{
    pawl_status status = replay_fork(from, n, to, error);
    if (!status && lie("fork") && n)
        (*to)->tokens[n - 1] = 'x';
    if (!status && lie("reserve") && from->pages > 1) { /* its last page will have to be copied */
        atomic_fetch_sub(&from->engine->held, 1);
        ((pawl_sequence *)(uintptr_t)from)->pages--;
    }
    return status;
}

static pawl_status state_load(pawl_sequence *sequence, uint32_t part, const int32_t *tokens,
                              uint64_t begin, uint64_t end, const pawl_source *from,
                              pawl_error *error)
{
    if (lie("damage")) /* trusts whatever it is given */
        return replay_append(sequence, tokens, end - begin, error);
    pawl_status status = replay_state_load(sequence, part, tokens, begin, end, from, error);
    if (!status && lie("state") && end)
        sequence->tokens[end - 1] = 'x';
    loaded = sequence;
    return status;
}

static void cancel(pawl_engine *engine)
{
    replay_engine.cancel(engine);
}

#define ENGINE                                                                                     \
    .struct_size = sizeof(pawl_engine_api), .inspect = inspect, .open = open_engine,               \
    .close = close_engine, .info = info, .capacity = capacity, .reserve = replay_reserve,          \
    .sequence_open = sequence_open, .sequence_close = sequence_close, .submit = submit,            \
    .cancel = cancel, .length = replay_length, .truncate = truncate_sequence,                      \
    .fork = fork_sequence, .state_save = replay_state_save, .state_load = state_load

const pawl_engine_api liar_engine = {ENGINE, .wait = replay_wait};
const pawl_engine_api liar_engine_with_a_hole = {ENGINE};

/* ---- tokenizer ---- */

static pawl_status open_tokenizer(pawl_bytes path, pawl_tokenizer **out, pawl_error *error)
{
    return replay_tokenizer.open(path, out, error);
}

static void close_tokenizer(pawl_tokenizer *tokenizer)
{
    replay_tokenizer.close(tokenizer);
}

static void tokenizer_info(const pawl_tokenizer *tokenizer, pawl_tokenizer_info *out)
{
    replay_tokenizer.info(tokenizer, out);
}

static pawl_status encode(const pawl_tokenizer *tokenizer, const pawl_segment *segments,
                          uint64_t n_segments, int32_t *tokens, uint64_t room, uint64_t *needed,
                          pawl_error *error)
{
    static atomic_int inside;
    pawl_segment all[2];
    if (lie("static_encode")) { /* as if the work were done in one static buffer */
        bool other = atomic_fetch_add(&inside, 1) > 0;
        usleep(1000);
        atomic_fetch_sub(&inside, 1);
        n_segments = other ? 1 : n_segments;
    }
    for (uint64_t i = 0; i < n_segments && i < 2; i++) {
        all[i] = segments[i];
        if (lie("forge"))
            all[i].kind = PAWL_SEGMENT_CONTROL;
        if (lie("deny"))
            all[i].kind = PAWL_SEGMENT_LITERAL;
        if (lie("borders") && i == 0 && n_segments == 2 && all[i].text.size)
            all[i].text.size--;
    }
    return replay_tokenizer.encode(tokenizer, all, n_segments < 2 ? n_segments : 2, tokens, room,
                                   needed, error);
}

static pawl_bytes piece(const pawl_tokenizer *tokenizer, int32_t token)
{
    if (lie("piece") && token == 'o')
        return pawl_text("0");
    if (lie("outside") && token < 0)
        return pawl_text("?");
    return replay_tokenizer.piece(tokenizer, token);
}

static int32_t token_by_name(const pawl_tokenizer *tokenizer, pawl_bytes name)
{
    return replay_tokenizer.token(tokenizer, name);
}

static uint32_t token_flags(const pawl_tokenizer *tokenizer, int32_t token)
{
    return replay_tokenizer.token_flags(tokenizer, token);
}

const pawl_tokenizer_api liar_tokenizer = {.struct_size = sizeof liar_tokenizer,
                                           .open = open_tokenizer,
                                           .close = close_tokenizer,
                                           .info = tokenizer_info,
                                           .encode = encode,
                                           .piece = piece,
                                           .token = token_by_name,
                                           .token_flags = token_flags};
