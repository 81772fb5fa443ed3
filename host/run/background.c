/*
 * run/background.c - accepting a background response: first the store, then the rest.
 *
 *   worker: a row with the status "queued" ─► store: it is on disk ─► CREATED, the queue
 *
 * So whoever was told the id finds it, whatever happens to the process. The row holds
 * already what is true if nothing ever replaces it: that the server stopped. run_find()
 * takes a queued row of which nothing runs as failed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/log.h"
#include "run/logs.h"
#include "run/scheduler.h"
#include "run/turn.h"

#include <stdlib.h>

typedef struct acceptance {
    run_logs *all;
    run_scheduler *scheduler;
    run_turn *turn; /* the scheduler's reference */
} acceptance;

static const char stopped[] =
    "{\"usage\":null,\"error\":{\"code\":\"server_error\",\"message\":\"The server stopped before "
    "this background response had ended; ask again.\"},\"incomplete_details\":null}";

/* Store thread: it is on disk, or it cannot be. Also from the worker, where it was not even
 * taken. */
static void on_queued(void *arg, pawl_status status, const pawl_error *error)
{
    acceptance *a = arg;
    run_turn *turn = a->turn;
    if (status) {
        log_write(PAWL_LOG_ERROR, "run", "%s could not be stored: %s", turn->request->id,
                  error ? error->message : "unknown");
        run_scheduler_unclaim(a->scheduler, &turn->request->caller, 1);
        run_turn_end(turn, TURN_FAILED, "the response could not be stored");
    } else {
        run_turn_created(turn);
        if (!run_scheduler_submit(a->scheduler, turn)) {
            run_scheduler_unclaim(a->scheduler, &turn->request->caller, 1);
            run_turn_end(turn, TURN_CANCELLED, NULL);
        }
    }
    run_logs_accepting(a->all, -1);
    free(a);
}

static pawl_status put_queued(store *keep, const run_request *request, acceptance *a,
                              pawl_error *error)
{
    char *echo = json_print(request->echo), *input = json_print(request->items);
    store_response row = {.id = request->id,
                          .parent_id = request->parent ? request->parent->id : NULL,
                          .model = request->model->name,
                          .tenant = request->caller.tenant,
                          .status = STORE_QUEUED,
                          .created_ms = request->created_ms,
                          .completed_ms = request->created_ms,
                          .request = echo,
                          .input = input,
                          .output = "[]",
                          .result = stopped};
    pawl_status status = echo && input ? keep->put(keep, &row, on_queued, a, error)
                                       : pawl_fail(error, PAWL_E_MEMORY, "no memory");
    free(echo);
    free(input);
    return status;
}

void run_background_begin(run_logs *all, run_scheduler *scheduler, store *keep, run_turn *turn)
{
    pawl_error error = {.struct_size = sizeof error};
    acceptance *a = malloc(sizeof *a);
    if (!a) {
        run_scheduler_unclaim(scheduler, &turn->request->caller, 1);
        run_turn_end(turn, TURN_FAILED, "no memory to store the response");
        return;
    }
    *a = (acceptance){all, scheduler, turn};
    run_logs_accepting(all, 1);
    pawl_status status = put_queued(keep, turn->request, a, &error);
    if (status)
        on_queued(a, status, &error);
}
