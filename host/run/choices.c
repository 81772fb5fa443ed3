/*
 * run/choices.c - the events of several turns as those of one request. See choices.h.
 *
 * Turns may end on different threads, so counting an end and passing it on is one
 * step under the lock: nothing may come after the END of all.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/choices.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct choice_listener {
    run_choices *choices;
    uint32_t number;
} choice_listener;

struct run_choices {
    pthread_mutex_t lock;
    run_listener listener;
    size_t n_running;
    choice_listener each[];
};

static void on_event(void *arg, run_event *event)
{
    choice_listener *from = arg;
    run_choices *choices = from->choices;
    event->choice = from->number;
    pthread_mutex_lock(&choices->lock);
    if (event->type == RUN_END && --choices->n_running > 0)
        event->type = RUN_CHOICE_END;
    bool last = event->type == RUN_END;
    choices->listener.on_event(choices->listener.arg, event);
    pthread_mutex_unlock(&choices->lock);
    if (last)
        run_choices_close(choices);
}

run_choices *run_choices_open(size_t n, run_listener listener)
{
    run_choices *choices = calloc(1, sizeof *choices + n * sizeof choices->each[0]);
    if (!choices)
        return NULL;
    pthread_mutex_init(&choices->lock, NULL);
    choices->listener = listener;
    choices->n_running = n;
    for (size_t k = 0; k < n; k++)
        choices->each[k] = (choice_listener){choices, (uint32_t)k};
    return choices;
}

void run_choices_close(run_choices *choices)
{
    if (!choices)
        return;
    pthread_mutex_destroy(&choices->lock);
    free(choices);
}

run_listener run_choices_listener(run_choices *choices, size_t k)
{
    return (run_listener){on_event, &choices->each[k]};
}
