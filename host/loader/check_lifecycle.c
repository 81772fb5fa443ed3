/*
 * loader/check_lifecycle.c - group "lifecycle": opening and closing leaves nothing.
 *
 * The first instance is not counted: libraries may keep what they make once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_rules.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#define N_ROUNDS 50
#define SETTLE_MS 500 /* the kernel removes a joined thread's entry a moment later */

static int entries(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static enum check_verdict compare(check *c, int threads, int files)
{
    int now = entries("/proc/self/task");
    for (int ms = 0; now > threads && ms < SETTLE_MS; ms += 10) {
        usleep(10000);
        now = entries("/proc/self/task");
    }
    CHECK_THAT(c, now <= threads, "%d threads more than before", now - threads);
    now = entries("/proc/self/fd");
    CHECK_THAT(c, now <= files, "%d open files more than before", now - files);
    return CHECK_PASS;
}

static enum check_verdict engine(check *c)
{
    CHECK_NEED(c, check_engine(c));
    c->engine_api->close(c->engine);
    c->engine = NULL;
    int threads = entries("/proc/self/task"), files = entries("/proc/self/fd");
    int rounds = c->own_model ? 3 : N_ROUNDS; /* a real model takes its time */
    for (int i = 0; i < rounds; i++) {
        CHECK_NEED(c, check_engine(c));
        c->engine_api->close(c->engine);
        c->engine = NULL;
    }
    return compare(c, threads, files);
}

static enum check_verdict sequences(check *c)
{
    uint64_t total = 0, before = 0, after = 0;
    int32_t prompt[5], out[3];
    CHECK_NEED(c, check_engine(c));
    check_prompt(c, 1, prompt, 5);
    c->engine_api->capacity(c->engine, &total, &before);
    CHECK_THAT(c, before <= total, "%llu pages of %llu are free", (unsigned long long)before,
               (unsigned long long)total);
    for (int i = 0; i < N_ROUNDS; i++) {
        pawl_sequence *sequence;
        if (!check_open_sequence(c, &sequence))
            return CHECK_FAIL;
        bool good = check_greedy(c, sequence, prompt, 5, out, 3);
        c->engine_api->sequence_close(sequence);
        if (!good)
            return CHECK_FAIL;
    }
    c->engine_api->capacity(c->engine, &total, &after);
    CHECK_THAT(c, after == before, "%llu pages were free before, %llu after",
               (unsigned long long)before, (unsigned long long)after);
    return CHECK_PASS;
}

static enum check_verdict too_many(check *c)
{
    pawl_sequence *open[65] = {NULL}, *const none = (pawl_sequence *)(uintptr_t)8;
    uint32_t n = 0, limit = check_engine_config(c).max_sequences;
    CHECK_NEED(c, check_engine(c));
    pawl_sequence *next = none;
    while (n < 64 && c->engine_api->sequence_open(c->engine, &next, NULL) == PAWL_OK) {
        open[n++] = next;
        next = none;
    }
    for (uint32_t i = 0; i < n; i++)
        c->engine_api->sequence_close(open[i]);
    CHECK_THAT(c, n >= 1 && n <= limit, "%u were opened, max_sequences is %u", n, limit);
    CHECK_THAT(c, next == none, "a failing sequence_open() wrote its out parameter");
    return CHECK_PASS;
}

static enum check_verdict tokenizer(check *c)
{
    CHECK_NEED(c, check_tokenizer(c));
    c->tokenizer_api->close(c->tokenizer);
    c->tokenizer = NULL;
    int threads = entries("/proc/self/task"), files = entries("/proc/self/fd");
    int rounds = c->own_model ? 3 : N_ROUNDS;
    for (int i = 0; i < rounds; i++) {
        CHECK_NEED(c, check_tokenizer(c));
        c->tokenizer_api->close(c->tokenizer);
        c->tokenizer = NULL;
    }
    return compare(c, threads, files);
}

static enum check_verdict chat(check *c)
{
    static const char request[] = "{\"messages\":[]}";
    CHECK_NEED(c, check_chat_table(c));
    int threads = entries("/proc/self/task"), files = entries("/proc/self/fd");
    for (int i = 0; i < N_ROUNDS; i++) {
        pawl_chat *chat;
        pawl_parser *parser;
        pawl_bytes asked = {request, sizeof request - 1};
        CHECK_NEED(c, check_open_chat(c, &chat));
        if (c->chat_api->parser_open(chat, asked, &parser, NULL) == PAWL_OK)
            c->chat_api->parser_close(parser);
        c->chat_api->close(chat);
    }
    return compare(c, threads, files);
}

static const check_rule rules[] = {
    {"engine", "threads and files are as before after opening and closing often", engine},
    {"sequences", "closed sequences give all pages back", sequences},
    {"too_many", "no more than max_sequences can be opened", too_many},
    {"tokenizer", "the same for tokenizers", tokenizer},
    {"chat", "the same for chat dialects and parsers", chat},
};

const check_group check_lifecycle_group = {"lifecycle", rules, sizeof rules / sizeof *rules};
