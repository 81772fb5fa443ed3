/*
 * run/request.c - one request, whichever dialect it came in. See request.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/request.h"

#include <stdlib.h>

run_request *run_request_new(const base_clock *clock)
{
    run_request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    clock_new_id(clock, "resp_", request->id);
    request->created_ms = clock->wall_ms(clock->context);
    request->caller = RUN_NOBODY;
    request->store = true;
    request->generate = true;
    request->thinking = -1;
    request->sampling = (pawl_sampling){.struct_size = sizeof request->sampling,
                                        .temperature = 1.0f,
                                        .top_p = 1.0f,
                                        .repetition_penalty = 1.0f};
    clock->random(clock->context, &request->sampling.seed, sizeof request->sampling.seed);
    return request;
}

void run_request_free(run_request *request)
{
    if (!request)
        return;
    run_record_release(request->parent);
    cJSON_Delete(request->items);
    cJSON_Delete(request->tools);
    cJSON_Delete(request->echo);
    free(request->instructions);
    free(request->reasoning_effort);
    for (size_t i = 0; i < request->n_stop; i++)
        free(request->stop[i]);
    free(request);
}
