/*
 * sim/oracle.c - what each turn must bring.
 *
 * The next token is a function of all tokens before it and, where a turn is not
 * greedy, of its seed; so a token that is lost, doubled or taken from another timeline
 * changes all that follow. One turn's whole future is known when it arrives.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sim.h"

#include <string.h>

uint64_t oracle_hash(uint64_t before, int32_t token)
{
    return rng_mix(before + (uint64_t)token + 1);
}

int32_t oracle_next(const sim *s, const sim_turn *t, uint64_t hash, uint64_t n)
{
    uint64_t x = rng_mix(hash ^ (t->greedy ? 0 : rng_mix(t->id + 1)) ^ n);
    if ((uint32_t)(x >> 32) % s->plan.end_odds == 0)
        return SIM_END;
    return SIM_FIRST + (int32_t)((uint32_t)x % SIM_LETTERS);
}

/* One more token. True: the reply ends with it. said: letters so far; from: where those
 * begin that a stop string may be looked for in. */
static bool extend(sim_turn *t, size_t *said, size_t *from)
{
    uint64_t n = t->n_full++;
    int32_t token = t->tokens[n] = oracle_next(t->sim, t, t->hash[n], n);
    t->hash[n + 1] = oracle_hash(t->hash[n], token);
    t->stopped = true;
    if (token == SIM_END) {
        *from = *said;
        if (!t->ignore_end && n + 1 - t->n_prompt > t->min_tokens)
            return true;
    } else {
        size_t size = strlen(t->stop);
        t->text[(*said)++] = (char)token;
        t->by_string =
            size && *said - *from >= size && memcmp(t->text + *said - size, t->stop, size) == 0;
        if (t->by_string)
            return true;
    }
    t->stopped = false;
    return t->n_full == t->limit;
}

void oracle_foresee(sim_turn *t)
{
    uint64_t context = t->sim->plan.context;
    size_t said = 0, from = 0;
    t->limit = t->max_tokens && t->max_tokens <= context - t->n_prompt ? t->n_prompt + t->max_tokens
                                                                       : context;
    t->n_full = t->n_prompt;
    t->stopped = t->by_string = false;
    t->hash[0] = 1;
    for (uint64_t n = 0; n < t->n_prompt; n++)
        t->hash[n + 1] = oracle_hash(t->hash[n], t->tokens[n]);
    if (!t->generate)
        t->stopped = true;
    else
        while (!extend(t, &said, &from))
            continue;
    t->text[said] = '\0';
}

size_t oracle_said(const sim_turn *t, uint64_t n, bool all)
{
    size_t said = 0;
    for (uint64_t i = t->n_prompt; i < n; i++)
        said += t->tokens[i] != SIM_END;
    return all && t->by_string ? said - strlen(t->stop) : said;
}
