/*
 * api/keep_parse.c - what becomes of a request whose client goes away. See parse.h.
 *
 *   background      it needs no client at all
 *   disconnect      "detach": it runs on for a while, so that somebody can come back;
 *                   "cancel": it ends with its last client
 *
 * Detached is what is stored, or has an Idempotency-Key: whoever comes back must be able to
 * name it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/parse.h"

#include <string.h>

#include "api/fields.h"

bool keep_parse(parse_state *s)
{
    run_request *request = s->request;
    const char *word = NULL;
    if (!field_word(s->body, "", "disconnect", "cancel detach", &word, s->error))
        return false;
    request->keep_events = request->store || request->key;
    request->cancel_on_leave = word && strcmp(word, "cancel") == 0;
    if (word && !request->cancel_on_leave && !request->keep_events)
        return api_refuse(
            s->error, 400, "invalid_value", "disconnect",
            "\"disconnect\": \"detach\" needs a response that can be found again: one "
            "that is stored, or one with an Idempotency-Key.");
    return true;
}

bool background_parse(parse_state *s)
{
    run_request *request = s->request;
    if (!field_bool(s->body, "", "background", &request->background, s->error) || !keep_parse(s))
        return false;
    if (!request->background)
        return true;
    if (!request->store)
        return api_refuse(s->error, 400, "invalid_value", "background",
                          "A background response must be stored, else nobody could read it; leave "
                          "\"store\" out, or \"background\".");
    if (request->cancel_on_leave)
        return api_refuse(s->error, 400, "invalid_value", "disconnect",
                          "A background response needs no client, so that \"disconnect\": "
                          "\"cancel\" means nothing for it; leave it out.");
    return echo_add(s, "background", cJSON_CreateBool(true));
}
