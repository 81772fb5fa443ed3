/*
 * run/event.c - what a turn says while it runs. See event.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/event.h"

#include <stdlib.h>

run_event *run_event_new(enum run_event_type type)
{
    run_event *event = calloc(1, sizeof *event);
    if (event)
        event->type = type;
    return event;
}

void run_event_free(run_event *event)
{
    if (!event)
        return;
    free(event->name);
    free(event->text);
    cJSON_Delete(event->logprobs);
    cJSON_Delete(event->item);
    run_record_release(event->record);
    free(event);
}
