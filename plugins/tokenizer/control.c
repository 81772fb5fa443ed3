/*
 * tokenizer/control.c - sorting and finding control tokens.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tokenizer/control.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    pawl_bytes x = ((const struct control *)a)->text, y = ((const struct control *)b)->text;
    int order = memcmp(x.data, y.data, (size_t)(x.size < y.size ? x.size : y.size));
    if (order != 0)
        return order;
    return x.size < y.size ? -1 : x.size > y.size;
}

void controls_init(struct controls *controls, struct control *all, uint32_t n)
{
    controls->all = all;
    controls->n = n;
    if (n)
        qsort(all, n, sizeof *all, compare);
    uint32_t at = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        controls->first[byte] = at;
        while (at < n && (uint8_t)all[at].text.data[0] == byte)
            at++;
    }
    controls->first[256] = at;
}

void controls_clear(struct controls *controls)
{
    free(controls->all);
    controls->all = NULL;
}

/* First of [low, high), whose members share `depth` bytes and are longer, with a
 * byte >= (or, past: >) the given one at that depth. */
static uint32_t bound(const struct controls *controls, uint32_t low, uint32_t high, size_t depth,
                      uint8_t byte, bool past)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint8_t here = (uint8_t)controls->all[middle].text.data[depth];
        if (here < byte || (past && here == byte))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that the text begins with, or NULL. */
static const struct control *match(const struct controls *controls, const uint8_t *text,
                                   size_t size)
{
    const struct control *longest = NULL;
    uint32_t low = controls->first[text[0]], high = controls->first[text[0] + 1u];
    for (size_t depth = 1; low < high; depth++) {
        if (controls->all[low].text.size == depth) /* the shortest sorts first */
            longest = &controls->all[low++];
        if (depth == size)
            break;
        low = bound(controls, low, high, depth, text[depth], false);
        high = bound(controls, low, high, depth, text[depth], true);
    }
    return longest;
}

bool controls_find(const struct controls *controls, const uint8_t *text, size_t size, size_t *at,
                   size_t *length, int32_t *token)
{
    for (size_t i = 0; i < size; i++) {
        if (controls->first[text[i]] == controls->first[text[i] + 1u])
            continue;
        const struct control *found = match(controls, text + i, size - i);
        if (!found)
            continue;
        *at = i;
        *length = (size_t)found->text.size;
        *token = found->token;
        return true;
    }
    return false;
}

int32_t controls_named(const struct controls *controls, pawl_bytes text)
{
    struct control wanted = {text, -1};
    if (text.size == 0 || controls->n == 0)
        return -1;
    const struct control *found =
        bsearch(&wanted, controls->all, controls->n, sizeof wanted, compare);
    return found ? found->token : -1;
}
