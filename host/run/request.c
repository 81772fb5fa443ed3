/*
 * run/request.c - one request, whichever dialect it came in. See request.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/request.h"

#include "run/conversation.h"

#include <stdlib.h>

run_request *run_request_new(const base_clock *clock)
{
    run_request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    atomic_init(&request->references, 1);
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

run_request *run_request_retain(run_request *request)
{
    atomic_fetch_add(&request->references, 1);
    return request;
}

void run_request_free(run_request *request)
{
    if (!request || atomic_fetch_sub(&request->references, 1) != 1)
        return;
    run_record_release(request->parent);
    run_record_release(request->base);
    run_conversation_close(request->conversation);
    cJSON_Delete(request->items);
    cJSON_Delete(request->tools);
    cJSON_Delete(request->echo);
    free(request->instructions);
    free(request->raw_text);
    free(request->raw_tokens);
    free(request->bias_ids);
    free(request->bias);
    free(request->reasoning_effort);
    free(request->key);
    for (size_t i = 0; i < request->n_stop; i++)
        free(request->stop[i]);
    free(request);
}
