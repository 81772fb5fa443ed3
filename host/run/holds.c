/*
 * run/holds.c - which conversations somebody works on. See holds.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/holds.h"

#include <stdlib.h>
#include <string.h>

typedef struct hold {
    struct hold *next;
    char id[]; /* of the conversation */
} hold;

void run_holds_open(run_holds *holds)
{
    pthread_mutex_init(&holds->lock, NULL);
    holds->first = NULL;
}

void run_holds_close(run_holds *holds)
{
    while (holds->first) {
        hold *next = holds->first->next;
        free(holds->first);
        holds->first = next;
    }
    pthread_mutex_destroy(&holds->lock);
}

/* The link that points to the hold of this id, or to the end. */
static hold **find(run_holds *holds, const char *id)
{
    hold **at = &holds->first;
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

bool run_holds_take(run_holds *holds, const char *id)
{
    size_t size = strlen(id) + 1;
    hold *made = malloc(sizeof *made + size);
    if (!made)
        return false;
    memcpy(made->id, id, size);
    pthread_mutex_lock(&holds->lock);
    bool is_free = *find(holds, id) == NULL;
    if (is_free) {
        made->next = holds->first;
        holds->first = made;
    }
    pthread_mutex_unlock(&holds->lock);
    if (!is_free)
        free(made);
    return is_free;
}

void run_holds_give(run_holds *holds, const char *id)
{
    pthread_mutex_lock(&holds->lock);
    hold **at = find(holds, id), *found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&holds->lock);
    free(found);
}
