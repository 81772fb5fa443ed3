/*
 * tests/unit/loader/checked_test.c - every rule of the checking layer fires, and none
 * without cause.
 *
 * A case runs in a child that must end by abort() with a line that names plugin and
 * rule. The same calls without a lie must end well.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/checked.h"

#include "checked_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the host's sins ---- */

static pawl_status sink_calls(void *context, const void *data, uint64_t size)
{
    world *w = context;
    (void)data;
    (void)size;
    w->engine_api->length(w->a);
    return PAWL_OK;
}

static void two_owners(void)
{
    world w;
    begin(&w);
    pawl_sink sink = {&w, sink_calls}; /* a call from within a call overlaps like any other */
    must(!pass(&w, 1));
    w.engine_api->state_save(w.a, PAWL_STATE_CHUNK, 0, FAKE_CHUNK, &sink, NULL);
}

static pawl_status progress_opens(void *arg, double done)
{
    world *w = arg;
    pawl_engine_config with = config();
    (void)done;
    return w->engine_api->open(&with, NULL, NULL, &w->engine, NULL);
}

static void two_mains(void)
{
    world w;
    begin(&w);
    pawl_engine_config with = config();
    w.engine_api->open(&with, progress_opens, &w, &w.engine, NULL);
}

static void event_feeds(void *arg, const pawl_chat_event *event)
{
    world *w = arg;
    (void)event;
    w->chat_api->feed(w->parser, (pawl_segment){text("b"), 0}, event_feeds, w, NULL);
}

static void two_parser_owners(void)
{
    world w;
    begin(&w);
    w.chat_api->feed(w.parser, (pawl_segment){text("a"), 0}, event_feeds, &w, NULL);
}

static void close_before_sequences(void)
{
    world w;
    begin(&w);
    w.engine_api->close(w.engine);
}

static void close_before_parsers(void)
{
    world w;
    begin(&w);
    w.chat_api->close(w.chat);
}

static void shutdown_before_close(void)
{
    world w;
    begin(&w);
    checked_close(w.c);
}

static void close_in_flight(void)
{
    world w;
    begin(&w);
    w.engine_api->submit(w.engine, w.slots, sizeof *w.slots, 1, &w.ticket, NULL);
    w.engine_api->sequence_close(w.a);
}

static void too_many_in_flight(void)
{
    world w;
    begin(&w);
    for (int i = 0; i < 3; i++)
        w.engine_api->submit(w.engine, w.slots, sizeof *w.slots, 1, &w.ticket, NULL);
}

static void wait_for_nothing(void)
{
    world w;
    begin(&w);
    w.engine_api->wait(w.engine, 5, NULL);
}

static void load_out_of_order(void)
{
    world w;
    begin(&w);
    pawl_source source = {&w, source_text};
    w.engine_api->state_load(w.a, PAWL_STATE_CHUNK, w.tokens, 4, 8, &source, NULL);
}

static void load_over_tokens(void)
{
    world w;
    begin(&w);
    pawl_source source = {&w, source_text};
    must(!pass(&w, 1));
    w.engine_api->state_load(w.a, PAWL_STATE_CHUNK, w.tokens, 0, 4, &source, NULL);
}

static void save_with(uint32_t part, uint64_t from, uint64_t to)
{
    world w;
    begin(&w);
    pawl_sink sink = {&w, sink_any};
    w.slots[0].n_tokens = 4;
    must(!pass(&w, 1));
    w.engine_api->state_save(w.a, part, from, to, &sink, NULL);
}

static void save_unaligned(void)
{
    save_with(PAWL_STATE_CHUNK, 0, 3);
}

static void save_too_much(void)
{
    save_with(PAWL_STATE_CHUNK, 0, 8);
}

static void save_what(void)
{
    save_with(3, 0, 4);
}

static void feed_after_finish(void)
{
    world w;
    begin(&w);
    w.chat_api->finish(w.parser, on_event, &w, NULL);
    w.chat_api->feed(w.parser, (pawl_segment){text("a"), 0}, on_event, &w, NULL);
}

static void feed_half_a_character(void)
{
    world w;
    begin(&w);
    w.chat_api->feed(w.parser, (pawl_segment){text("\xc3"), 0}, on_event, &w, NULL);
}

static void encode_to_nothing(void)
{
    world w;
    uint64_t n;
    pawl_segment digits = {text("1"), 0};
    begin(&w);
    w.tokenizer_api->encode(w.tokenizer, &digits, 1, NULL, 1, &n, NULL);
}

static void encode_what(void)
{
    world w;
    uint64_t n;
    pawl_segment digits = {text("1"), 2};
    begin(&w);
    w.tokenizer_api->encode(w.tokenizer, &digits, 1, NULL, 0, &n, NULL);
}

/* A slot is wrong in one member, at this offset, which becomes this value. */
static void wrong_slot(size_t offset, uint64_t value, size_t size)
{
    world w;
    begin(&w);
    w.slots[0].allow = NULL;
    memcpy((char *)&w.slots[0] + offset, &value, size); /* little-endian */
    pass(&w, 2);
}

#define WRONG_SLOT(name, member, value)                                                            \
    static void name(void)                                                                         \
    {                                                                                              \
        wrong_slot(offsetof(pawl_slot, member), value, sizeof(((pawl_slot *)0)->member));          \
    }
WRONG_SLOT(slot_sequence, sequence, 0)
WRONG_SLOT(slot_tokens, tokens, 0)
WRONG_SLOT(slot_n_tokens, n_tokens, 0)
WRONG_SLOT(slot_flags, flags, 4)
WRONG_SLOT(slot_chain, flags, PAWL_SLOT_CHAIN)
WRONG_SLOT(slot_draft, n_draft, 3)
WRONG_SLOT(slot_out, out_tokens, 0)
WRONG_SLOT(slot_top, top, 0)
WRONG_SLOT(slot_proposed, n_proposed, 1)
WRONG_SLOT(slot_adapters, n_adapters, 1)
WRONG_SLOT(slot_embeddings, n_embeddings, 1)

static void slot_twice(void)
{
    world w;
    begin(&w);
    w.slots[1].sequence = w.a;
    pass(&w, 2);
}

static void slot_token(void)
{
    world w;
    begin(&w);
    w.tokens[3] = FAKE_VOCAB;
    pass(&w, 2);
}

static void slot_logits(void)
{
    world w;
    begin(&w);
    w.slots[0].logits = w.logprobs;
    w.slots[0].n_logits = 5;
    pass(&w, 2);
}

static void slot_sampling(void)
{
    world w;
    begin(&w);
    w.sampling.temperature = -1;
    pass(&w, 2);
}

static void slot_sampling_size(void)
{
    world w;
    begin(&w);
    w.sampling.struct_size = 0;
    pass(&w, 2);
}

static void no_slots(void)
{
    world w;
    begin(&w);
    pass(&w, 0);
}

static void short_stride(void)
{
    world w;
    begin(&w);
    w.engine_api->submit(w.engine, w.slots, 64, 1, &w.ticket, NULL);
}

/* ---- the cases ---- */

typedef struct death {
    const char *lie;   /* the plugin's, "" where the host sins */
    void (*run)(void); /* all_well, or what the host does      */
    const char *rule;  /* said in the log                      */
} death;

static const death deaths[] = {
    {"", two_owners, "calls do not overlap: [owner] call length()"},
    {"", two_mains, "calls do not overlap: [main] call open()"},
    {"", two_parser_owners, "calls do not overlap: [owner] call feed()"},
    {"", close_before_sequences, "an engine is closed after its sequences"},
    {"", close_before_parsers, "a dialect is closed after its parsers"},
    {"", shutdown_before_close, "instances are closed before shutdown()"},
    {"", close_in_flight, "a submit is waited for"},
    {"", too_many_in_flight, "max_in_flight submits are open"},
    {"", wait_for_nothing, "wait() is for an open submit"},
    {"", load_out_of_order, "chunks are loaded in order"},
    {"", load_over_tokens, "state is loaded into an empty sequence"},
    {"", save_unaligned, "chunks are aligned"},
    {"", save_too_much, "what is saved has state"},
    {"", save_what, "a state's part is of the header"},
    {"", feed_after_finish, "finish() is a parser's last call"},
    {"", feed_half_a_character, "a reply is fed in whole characters"},
    {"", encode_to_nothing, "encode() has the room that it is told"},
    {"", encode_what, "segments are texts of a kind"},
    {"", slot_sequence, "a slot's sequence is its engine's"},
    {"", slot_tokens, "a slot has tokens"},
    {"", slot_n_tokens, "a slot has tokens"},
    {"", slot_flags, "a slot's flags are of the header"},
    {"", slot_chain, "CHAIN follows an open submit"},
    {"", slot_draft, "a slot's draft fits"},
    {"", slot_out, "a slot has the room that it counts"},
    {"", slot_top, "a slot has the room that it counts"},
    {"", slot_proposed, "a slot has the room that it counts"},
    {"", slot_adapters, "arrays have their counts"},
    {"", slot_embeddings, "arrays have their counts"},
    {"", slot_logits, "arrays have their counts"},
    {"", slot_twice, "a sequence is in one slot of a pass"},
    {"", slot_token, "token ids are of the vocabulary"},
    {"", slot_sampling, "sampling is by numbers"},
    {"", slot_sampling_size, "every struct has its struct_size"},
    {"", no_slots, "a pass has slots"},
    {"", short_stride, "slot_stride is the size of a slot"},
    {"status", all_well, "statuses are those of the header"},
    {"error_open", all_well, "an error's message is terminated"},
    {"error_beyond", all_well, "an error's message ends in its struct"},
    {"error_size", all_well, "struct_size is the filler's"},
    {"goes_on", all_well, "a sink that refuses stops the callee"},
    {"sink_status", all_well, "a sink that refuses stops the callee"},
    {"progress", all_well, "progress goes from 0 to 1"},
    {"progress_deaf", all_well, "a progress callback that refuses stops open()"},
    {"open_untouched", all_well, "out parameters are untouched on failure"},
    {"open_nothing", all_well, "a call that succeeds gives its object"},
    {"info_null", all_well, "info() describes the model"},
    {"info_beyond", all_well, "info() fills what fits"},
    {"capacity", all_well, "capacity() counts pages"},
    {"not_empty", all_well, "a new sequence is empty"},
    {"truncate", all_well, "truncate() leaves n tokens"},
    {"fork", all_well, "a fork has the first n tokens"},
    {"ticket", all_well, "out parameters are untouched on failure"},
    {"no_ticket", all_well, "a call that succeeds gives its object"},
    {"stride", all_well, "slots are walked by slot_stride"},
    {"unwritten", all_well, "statuses are those of the header"},
    {"slot_status", all_well, "statuses are those of the header"},
    {"inputs", all_well, "a slot's inputs are the host's"},
    {"shrinks", all_well, "a pass appends its tokens"},
    {"failed_grows", all_well, "a failed slot's sequence is as long as before"},
    {"n_out", all_well, "n_out is what there is room for"},
    {"n_out_0", all_well, "n_out is what there is room for"},
    {"n_top", all_well, "tops and proposals fit their room"},
    {"token", all_well, "token ids are of the vocabulary"},
    {"mask", all_well, "a mask is obeyed"},
    {"logprob", all_well, "log-probabilities are none above 0"},
    {"tops", all_well, "tops are sorted"},
    {"top_token", all_well, "token ids are of the vocabulary"},
    {"saves_nothing", all_well, "state_save() writes"},
    {"source_deaf", all_well, "what cannot be read is not loaded"},
    {"load_grows", all_well, "a failing load leaves the sequence as it was"},
    {"bos", all_well, "token ids are of the vocabulary"},
    {"needed", all_well, "out parameters are untouched on failure"},
    {"encode_beyond", all_well, "encode() writes at most `room` tokens"},
    {"encode_id", all_well, "token ids are of the vocabulary"},
    {"piece_null", all_well, "a piece is bytes"},
    {"piece_outside", all_well, "token ids are of the vocabulary"},
    {"name", all_well, "token ids are of the vocabulary"},
    {"flags", all_well, "token ids are of the vocabulary"},
    {"nameless", all_well, "a dialect has a name"},
    {"renders_nothing", all_well, "render() writes"},
    {"late", all_well, "events come inside feed() and finish()"},
    {"event_size", all_well, "every struct has its struct_size"},
    {"event_type", all_well, "events are of the header's types"},
    {"event_null", all_well, "an event's text is bytes"},
    {"call_order", all_well, "calls begin and end in order"},
    {"call_open", all_well, "finish() closes what is open"},
};

/* Runs it in a child; gives its status and what it wrote to standard error. */
static int in_child(const death *d, char *said, size_t size)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        told = d->lie;
        d->run();
        _exit(0);
    }
    close(ends[1]);
    size_t at = 0;
    for (ssize_t n; at + 1 < size && (n = read(ends[0], said + at, size - 1 - at)) > 0;)
        at += (size_t)n;
    said[at] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void every_rule_fires(void **state)
{
    char said[4096];
    int failed = 0;
    (void)state;
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
        const death *d = &deaths[i];
        int status = in_child(d, said, sizeof said);
        bool died = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
        if (died && strstr(said, d->rule) && strstr(said, "dev.pawl.test.fake"))
            continue;
        print_message("case %zu \"%s\": status %x and not \"%s\": %s\n", i, d->lie,
                      (unsigned)status, d->rule, said);
        failed++;
    }
    assert_int_equal(failed, 0);
}

static void nothing_fires_without_cause(void **state)
{
    (void)state;
    told = "";
    all_well();
}

static void a_pass_may_fail(void **state)
{
    world w;
    (void)state;
    told = "";
    begin(&w);
    told = "pass_fails";
    assert_int_equal(pass(&w, 2), PAWL_E_BUSY);
    assert_int_equal(w.ticket, 0);
    assert_int_equal(w.slots[0].status, 0); /* what the plugin did not write is as it was */
    end(&w);
}

static void more_plugins_than_places_run_unchecked(void **state)
{
    checked *all[64];
    size_t n = 0;
    (void)state;
    while (n < 64 && (all[n] = checked_open(&fake_plugin)))
        n++;
    assert_true(n >= 8 && n < 64);
    assert_ptr_equal(checked_table(all[0], PAWL_ENGINE, &fake_engine),
                     checked_table(all[0], PAWL_ENGINE, &fake_engine));
    assert_ptr_not_equal(checked_table(all[0], PAWL_ENGINE, &fake_engine),
                         checked_table(all[1], PAWL_ENGINE, &fake_engine));
    assert_ptr_equal(checked_table(all[0], "a.b/1", &fake_engine), &fake_engine);
    while (n)
        checked_close(all[--n]);
    checked_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_fires_without_cause),
        cmocka_unit_test(every_rule_fires),
        cmocka_unit_test(a_pass_may_fail),
        cmocka_unit_test(more_plugins_than_places_run_unchecked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
