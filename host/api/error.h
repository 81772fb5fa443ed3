/*
 * api/error.h - why a request is not answered, in the form that every dialect sends.
 *
 * An api_error is a value: whoever refuses fills it, whoever answers turns it into
 * a body or a frame. Its message says what was wrong and what would be right; its
 * param is the place in the request as a path, "input[2].content[0].type".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_ERROR_H
#define API_ERROR_H

#include "api/api.h"
#include "base/buf.h"

#define API_PARAM_SIZE 160

typedef struct api_error {
    int status;                 /* HTTP status                                   */
    int retry_after;            /* seconds for the header; 0: no header          */
    const char *type;           /* static: "invalid_request_error", …            */
    const char *code;           /* static: "invalid_value", …; NULL: null        */
    char param[API_PARAM_SIZE]; /* "": null                                      */
    char message[512];
} api_error;

/* Fills the error; type and retry_after follow from the status. param and code may
 * be NULL. Always false, so that a check can `return api_refuse(...)`. */
bool api_refuse(api_error *error, int status, const char *code, const char *param,
                const char *format, ...) PAWL_PRINTF(5, 6);
/* No memory: 500, from static texts. */
bool api_refuse_memory(api_error *error);
/* The events of a response that were asked for are not kept: 409. */
bool api_refuse_expired(api_error *error, const char *id);
/* What run said, as the client is to see it. input: what the dialect calls the input,
 * "input", "messages" or "prompt". */
void api_refuse_run(api_error *error, const run_refusal *refusal, const char *input);

/* The body or the frame of an error, to be free()d. NULL without memory. */
char *api_error_text(const api_error *error);
char *api_error_frame_text(const api_error *error, const char *lane);

/* "input[3].content[0]" and "type" make "input[3].content[0].type"; a prefix "" leaves
 * the name. What does not fit is cut. */
void api_path(char path[API_PARAM_SIZE], const char *prefix, const char *name);
/* "tools" and 2 make "tools[2]". */
void api_path_at(char path[API_PARAM_SIZE], const char *prefix, size_t i);

#endif /* API_ERROR_H */
