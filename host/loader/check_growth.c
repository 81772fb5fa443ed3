/*
 * loader/check_growth.c - group "growth": structs of another minor, both ways.
 *
 * What a caller sizes (infos) comes shorter and longer, and not a byte beyond
 * struct_size may be written. What a later host fills (configs, sampling, slots)
 * comes longer, with 0xa5 in the members that this minor does not know.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_rules.h"

#include <string.h>

#define GUARD 64

/* Fills with every size from 8 to beyond and looks at the bytes behind. */
#define CHECK_INFO(c, type, call)                                                                  \
    do {                                                                                           \
        struct {                                                                                   \
            type info;                                                                             \
            unsigned char beyond[GUARD];                                                           \
        } room;                                                                                    \
        for (uint32_t size = 8; size <= sizeof(type) + GUARD / 2; size += 8) {                     \
            memset(&room, 0xa5, sizeof room);                                                      \
            room.info.struct_size = size;                                                          \
            call;                                                                                  \
            const unsigned char *bytes = (const unsigned char *)&room;                             \
            for (size_t i = size; i < sizeof room; i++)                                            \
                CHECK_THAT(c, bytes[i] == 0xa5, "with struct_size %u it wrote byte %zu", size, i); \
        }                                                                                          \
    } while (0)

static enum check_verdict engine_info(check *c)
{
    CHECK_NEED(c, check_engine(c));
    CHECK_INFO(c, pawl_engine_info, c->engine_api->info(c->engine, &room.info));
    return CHECK_PASS;
}

static enum check_verdict tokenizer_info(check *c)
{
    CHECK_NEED(c, check_tokenizer(c));
    CHECK_INFO(c, pawl_tokenizer_info, c->tokenizer_api->info(c->tokenizer, &room.info));
    return CHECK_PASS;
}

static enum check_verdict config(check *c)
{
    struct {
        pawl_engine_config config;
        unsigned char later[GUARD];
    } wide;
    pawl_engine *engine;
    pawl_error why = {.struct_size = sizeof why};
    CHECK_NEED(c, check_engine(c));
    memset(&wide, 0xa5, sizeof wide);
    wide.config = check_engine_config(c);
    wide.config.struct_size = sizeof wide;
    CHECK_THAT(c, c->engine_api->open(&wide.config, NULL, NULL, &engine, &why) == PAWL_OK, "%s",
               why.message);
    c->engine_api->close(engine);
    return CHECK_PASS;
}

typedef struct wide_slot {
    pawl_slot slot;
    unsigned char later[GUARD];
} wide_slot;

typedef struct wide_sampling {
    pawl_sampling sampling;
    unsigned char later[GUARD];
} wide_sampling;

/* Two sequences with slots of a later host; *tokens get what was sampled. */
static enum check_verdict wide_pass(check *c, pawl_sequence *const *sequences,
                                    const int32_t *prompt, uint64_t n, int32_t *tokens)
{
    wide_slot slots[2];
    wide_sampling greedy;
    pawl_error why = {.struct_size = sizeof why};
    uint64_t ticket;
    memset(&greedy, 0xa5, sizeof greedy);
    greedy.sampling =
        (pawl_sampling){.struct_size = sizeof greedy, .top_p = 1.0f, .repetition_penalty = 1.0f};
    memset(slots, 0xa5, sizeof slots);
    for (int i = 0; i < 2; i++)
        slots[i].slot = (pawl_slot){.sequence = sequences[i],
                                    .tokens = prompt,
                                    .n_tokens = n,
                                    .flags = PAWL_SLOT_SAMPLE,
                                    .sampling = &greedy.sampling,
                                    .out_tokens = &tokens[i]};
    pawl_status status =
        c->engine_api->submit(c->engine, &slots[0].slot, sizeof *slots, 2, &ticket, &why);
    if (!status)
        status = c->engine_api->wait(c->engine, ticket, &why);
    CHECK_THAT(c, status == PAWL_OK, "%s", why.message);
    for (int i = 0; i < 2; i++) {
        CHECK_THAT(c, slots[i].slot.status == PAWL_OK && slots[i].slot.n_out == 1,
                   "slot %d: status %d, %u tokens", i, slots[i].slot.status, slots[i].slot.n_out);
        for (int k = 0; k < GUARD; k++)
            CHECK_THAT(c, slots[i].later[k] == 0xa5, "slot %d: it wrote beyond its own slot", i);
    }
    return CHECK_PASS;
}

static enum check_verdict slots(check *c)
{
    pawl_sequence *sequences[2] = {NULL, NULL};
    int32_t prompt[7], tokens[2] = {-1, -2};
    CHECK_NEED(c, check_engine(c));
    check_prompt(c, 5, prompt, 7);
    enum check_verdict verdict = CHECK_FAIL;
    if (check_open_sequence(c, &sequences[0]) && check_open_sequence(c, &sequences[1]))
        verdict = wide_pass(c, sequences, prompt, 7, tokens);
    for (int i = 0; i < 2; i++)
        if (sequences[i])
            c->engine_api->sequence_close(sequences[i]);
    CHECK_NEED(c, verdict);
    CHECK_THAT(c, tokens[0] == tokens[1], "two slots with one prompt gave %d and %d", tokens[0],
               tokens[1]);
    return CHECK_PASS;
}

static const check_rule rules[] = {
    {"engine_info", "engine info() fills what fits and nothing beyond", engine_info},
    {"tokenizer_info", "tokenizer info() fills what fits and nothing beyond", tokenizer_info},
    {"config", "open() takes a longer config", config},
    {"slots", "submit() walks longer slots and takes longer sampling", slots},
};

const check_group check_growth_group = {"growth", rules, sizeof rules / sizeof *rules};
