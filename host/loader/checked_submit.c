/*
 * loader/checked_submit.c - submit and wait: slots in, slots out.
 *
 * The plugin gets a copy of the host's slots in which our objects are replaced by its
 * own and which are longer than ours, as if the host were of a later minor. When the
 * pass is over, what the plugin wrote into the slots is judged and copied back; what
 * slots point to is the host's memory all along. [owner]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/checked_engine.h"

#include <stdlib.h>
#include <string.h>

#define LONGER 64           /* bytes of later members; a multiple of 8        */
#define UNWRITTEN INT32_MAX /* what status and n_out are before the plugin ran */

static uint64_t sent_stride(const checked_pass *p)
{
    return p->callers_stride + LONGER;
}

static pawl_slot *sent_slot(const checked_pass *p, uint64_t i)
{
    return (pawl_slot *)(void *)(p->sent + sent_stride(p) * i);
}

static pawl_slot *callers_slot(const checked_pass *p, uint64_t i)
{
    return (pawl_slot *)(void *)((char *)p->callers + p->callers_stride * i);
}

static void free_pass(checked_pass *p)
{
    for (uint64_t i = 0; p->sent && i < p->n_slots; i++)
        free((void *)(uintptr_t)sent_slot(p, i)->adapters);
    free(p->sent);
    free(p->lengths);
    free(p);
}

/* The plugin's adapters for ours; NULL without memory. */
static const pawl_adapter **real_adapters(const pawl_slot *slot)
{
    const pawl_adapter **list = calloc(slot->n_adapters, sizeof *list);
    for (uint32_t i = 0; list && i < slot->n_adapters; i++)
        list[i] = slot->adapters[i]->real;
    return list;
}

static checked_pass *new_pass(pawl_slot *slots, uint64_t stride, uint64_t n_slots)
{
    checked_pass *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->callers = slots;
    p->callers_stride = stride;
    p->n_slots = n_slots;
    p->sent = calloc(n_slots + 1, sent_stride(p));
    p->lengths = calloc(n_slots + 1, sizeof *p->lengths);
    bool good = p->sent && p->lengths;
    for (uint64_t i = 0; good && i < n_slots; i++) {
        pawl_slot *to = sent_slot(p, i);
        memset(to, 0xa5, sent_stride(p));
        memcpy(to, callers_slot(p, i), stride);
        to->sequence = callers_slot(p, i)->sequence->real;
        to->adapters = NULL;
        to->status = UNWRITTEN;
        to->n_out = UNWRITTEN;
        if (to->n_adapters)
            good = (to->adapters = real_adapters(callers_slot(p, i))) != NULL;
    }
    if (good)
        return p;
    free_pass(p);
    return NULL;
}

/* What the host hands over, before the plugin sees it. */
static void check_array(const pawl_engine *e, const pawl_slot *slots, uint64_t stride,
                        uint64_t n_slots)
{
    CHECKED_THAT(e->c, slots && n_slots > 0, "a pass has slots", "it has %llu",
                 (unsigned long long)n_slots);
    CHECKED_THAT(e->c, stride >= sizeof(pawl_slot) && stride % 8 == 0,
                 "slot_stride is the size of a slot", "it is %llu", (unsigned long long)stride);
    CHECKED_THAT(e->c, e->n_passes < e->info.max_in_flight, "max_in_flight submits are open",
                 "another one after %u", e->n_passes);
    for (uint64_t i = 0; i < n_slots; i++) {
        const pawl_slot *slot = (const pawl_slot *)(const void *)((const char *)slots + stride * i);
        checked_slot_in(e, i, slot);
        for (uint64_t k = 0; k < i; k++)
            CHECKED_THAT(
                e->c,
                ((const pawl_slot *)(const void *)((const char *)slots + stride * k))->sequence !=
                    slot->sequence,
                "a sequence is in one slot of a pass", "slots %llu and %llu share one",
                (unsigned long long)k, (unsigned long long)i);
    }
}

/* The pass is over with this status, of submit() or of wait(): looks at what came back and gives it
 * to the host. */
static void end_pass(pawl_engine *e, checked_pass *p, pawl_status status)
{
    for (uint64_t i = 0; i < p->n_slots; i++) {
        pawl_slot *back = sent_slot(p, i), *to = callers_slot(p, i);
        pawl_sequence *sequence = to->sequence;
        const unsigned char *later = (const unsigned char *)back + p->callers_stride;
        for (size_t k = 0; k < LONGER; k++)
            CHECKED_THAT(e->c, later[k] == 0xa5, "slots are walked by slot_stride",
                         "slot %llu: a byte of a later minor is written", (unsigned long long)i);
        pawl_slot sent = *to;
        sent.sequence = sequence->real;
        sent.adapters = back->adapters;
        if (!status) {
            checked_slot_out(e, i, &sent, back, sequence->n_passes ? CHECKED_UNSET : p->lengths[i]);
            sequence->grown = sequence->grown || !back->status;
        }
        if (back->status == UNWRITTEN)
            continue;
        to->status = back->status;
        to->n_out = back->n_out;
        to->n_proposed = back->n_proposed;
        to->n_top = back->n_top;
    }
    free_pass(p);
}

pawl_status checked_submit(pawl_engine *e, pawl_slot *slots, uint64_t stride, uint64_t n_slots,
                           uint64_t *ticket, pawl_error *error)
{
    checked_error shield;
    uint64_t given = CHECKED_UNSET;
    check_array(e, slots, stride, n_slots);
    checked_pass *p = new_pass(slots, stride, n_slots);
    if (!p)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to check a pass");
    for (uint64_t i = 0; i < n_slots; i++)
        p->lengths[i] = callers_slot(p, i)->sequence->n_passes
                            ? CHECKED_UNSET /* what an open pass will add is not known */
                            : e->api->length(sent_slot(p, i)->sequence);
    pawl_status status = e->api->submit(e->real, sent_slot(p, 0), sent_stride(p), n_slots, &given,
                                        checked_error_begin(&shield, error));
    checked_status(e->c, "submit", status, &shield);
    CHECKED_THAT(e->c, !status || given == CHECKED_UNSET, "out parameters are untouched on failure",
                 "submit() failed with status %d and gave a ticket", status);
    if (status) {
        end_pass(e, p, status);
        return status;
    }
    CHECKED_THAT(e->c, given != CHECKED_UNSET, "a call that succeeds gives its object",
                 "submit() gave no ticket");
    for (uint64_t i = 0; i < n_slots; i++)
        callers_slot(p, i)->sequence->n_passes++;
    p->ticket = given;
    p->next = e->passes;
    e->passes = p;
    e->n_passes++;
    *ticket = given;
    return PAWL_OK;
}

pawl_status checked_wait(pawl_engine *e, uint64_t ticket, pawl_error *error)
{
    checked_error shield;
    checked_pass **at = &e->passes;
    while (*at && (*at)->ticket != ticket)
        at = &(*at)->next;
    checked_pass *p = *at;
    CHECKED_THAT(e->c, p, "wait() is for an open submit", "ticket %llu is none",
                 (unsigned long long)ticket);
    pawl_status status = e->api->wait(e->real, ticket, checked_error_begin(&shield, error));
    checked_status(e->c, "wait", status, &shield);
    *at = p->next;
    e->n_passes--;
    for (uint64_t i = 0; i < p->n_slots; i++)
        callers_slot(p, i)->sequence->n_passes--;
    end_pass(e, p, status);
    return status;
}
