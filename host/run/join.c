/*
 * run/join.c - turns that came together and begin alike compute their beginning once.
 * See join.h.
 *
 *     16 requests with one new system text arrive at once
 *       -> admitted together, each with pages for its whole prompt, since nothing has
 *          state yet that they could share
 *       -> the first one's prompt is computed; when it has left what they have in common,
 *          the others give up their sequences, return to the head of their line, and are
 *          admitted in the next round as forks of it
 *
 * A turn does so once at most, so that it always comes on.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/join.h"

#define GAIN_TOKENS 256 /* fewer are computed sooner than moved */

/* Whether another sequence has a good part of this turn's prompt, and will not have more. */
static bool can_join(const run_step *step, const run_active *a)
{
    const live *own = a->entry;
    uint64_t shared = 0;
    if (a->load || a->turn->joined || a->turn->request->probe ||
        own->n_tokens + GAIN_TOKENS > run_turn_reusable(a->turn))
        return false;
    const live *other = live_find(step->sequences, a->turn, &shared);
    return other && other != own && !other->loading && shared >= own->n_tokens + GAIN_TOKENS &&
           (!other->busy || other->n_tokens > shared);
}

void run_join(run_step *step)
{
    for (size_t i = step->n_active; i-- > 0;) {
        run_turn *turn = step->active[i].turn;
        if (!can_join(step, &step->active[i]))
            continue;
        turn->joined = true;
        run_step_return(step, i);
    }
}
