/*
 * loader/check_drive.c - drives an engine for the rules: passes, greedy runs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_rules.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STEPS 16

pawl_status check_pass(check *c, check_step *steps, uint64_t n_steps, pawl_error *error)
{
    static const pawl_sampling greedy = {
        .struct_size = sizeof greedy, .top_p = 1.0f, .repetition_penalty = 1.0f};
    pawl_slot slots[MAX_STEPS];
    uint64_t ticket = 0;
    if (n_steps > MAX_STEPS)
        return pawl_fail(error, PAWL_E_ARGUMENT, "at most %d steps", MAX_STEPS);
    memset(slots, 0, sizeof slots);
    for (uint64_t i = 0; i < n_steps; i++) {
        check_step *s = &steps[i];
        s->token = -1;
        slots[i] = (pawl_slot){.sequence = s->sequence,
                               .tokens = s->tokens,
                               .n_tokens = s->n,
                               .flags = s->sample ? PAWL_SLOT_SAMPLE : 0,
                               .sampling = s->sampling ? s->sampling : &greedy,
                               .allow = s->allow,
                               .allow_stride = (c->info.vocab_size + 31u) / 32,
                               .out_tokens = &s->token,
                               .out_logprobs = &s->logprob,
                               .top = s->top,
                               .n_top = s->n_top,
                               .logits = s->logits,
                               .n_logits = s->n_logits};
    }
    pawl_status status =
        c->engine_api->submit(c->engine, slots, sizeof *slots, n_steps, &ticket, error);
    if (!status)
        status = c->engine_api->wait(c->engine, ticket, error);
    for (uint64_t i = 0; i < n_steps; i++) {
        steps[i].status = status ? status : slots[i].status;
        steps[i].n_top = slots[i].n_top;
    }
    return status;
}

bool check_sampled(check *c, check_step step, int32_t *out, uint64_t n_out)
{
    pawl_error why = {.struct_size = sizeof why};
    step.sample = true;
    for (uint64_t i = 0; i < n_out; i++) {
        pawl_status status = check_pass(c, &step, 1, &why);
        if (status || step.status) {
            check_say(c, CHECK_FAIL, "a pass failed with status %d %s",
                      status ? status : step.status, status ? why.message : "");
            return false;
        }
        if (step.token < 0 || (uint32_t)step.token >= c->info.vocab_size) {
            check_say(c, CHECK_FAIL, "it sampled token %d of a vocabulary of %u", step.token,
                      c->info.vocab_size);
            return false;
        }
        if (step.allow && !(step.allow[step.token / 32] >> step.token % 32 & 1)) {
            check_say(c, CHECK_FAIL, "it sampled token %d, which is not allowed", step.token);
            return false;
        }
        out[i] = step.token;
        step.tokens = &out[i];
        step.n = 1;
    }
    return true;
}

bool check_greedy(check *c, pawl_sequence *sequence, const int32_t *prompt, uint64_t n,
                  int32_t *out, uint64_t n_out)
{
    return check_sampled(c, (check_step){.sequence = sequence, .tokens = prompt, .n = n}, out,
                         n_out);
}

bool check_open_sequence(check *c, pawl_sequence **sequence)
{
    pawl_error why = {.struct_size = sizeof why};
    if (c->engine_api->sequence_open(c->engine, sequence, &why) == PAWL_OK)
        return true;
    check_say(c, CHECK_FAIL, "no sequence can be opened: %s", why.message);
    return false;
}

/* Small ids and large ones; an id below 3 is often no text, and is left out. */
void check_prompt(const check *c, uint64_t seed, int32_t *tokens, uint64_t n)
{
    uint32_t vocab = c->info.vocab_size, skip = vocab > 64 ? 3 : 0;
    uint64_t state = seed * 77 + 1;
    for (uint64_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(skip + check_random(&state) % (vocab - skip));
}

enum check_verdict check_same(check *c, const char *what, const int32_t *a, const int32_t *b,
                              uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        CHECK_THAT(c, a[i] == b[i], "%s: token %llu is %d and not %d", what, (unsigned long long)i,
                   b[i], a[i]);
    return CHECK_PASS;
}
