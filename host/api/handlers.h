/*
 * api/handlers.h - the endpoints, one function each, and what they share.
 *
 * Each takes a routed request and gives its call; NULL only without memory. All run on
 * run's worker.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_HANDLERS_H
#define API_HANDLERS_H

#include "api/call.h"
#include "api/parse.h"
#include "api/repeat.h"
#include "api/route.h"

typedef struct api_context {
    run_runtime *runtime;
    run_caller caller; /* who asks */
    const api_http_request *request;
    char id[ROUTE_ID_SIZE];   /* what the path names, or ""   */
    char item[ROUTE_ID_SIZE]; /* likewise, in a conversation */
    run_listener listener;
} api_context;

/* responses_call.c */
api_call *responses_create(const api_context *context);
api_call *responses_input_tokens(const api_context *context);
/* The environment of a request in this context; it borrows both. */
parse_env responses_env(const api_context *context, run_record *parent);
/* What is asked for, and how it is to be answered. */
typedef struct responses_order {
    const cJSON *body;
    const char *key;      /* Idempotency-Key, or NULL                 */
    const char *key_name; /* where it stands, for errors              */
    const char *lane;     /* stream_id, or NULL                       */
    run_record *parent;   /* from the connection's memory, borrowed, or NULL */
    enum api_call_kind kind;
} responses_order;
/* Parses and starts a request, or joins the one of the same key. NULL: refused, *error says
 * why; nothing runs. */
api_call *responses_start(const api_context *context, const responses_order *order,
                          api_error *error);

/* responses_read.c */
api_call *responses_retrieve(const api_context *context);
api_call *responses_delete(const api_context *context);
api_call *responses_cancel(const api_context *context);
api_call *responses_input_items(const api_context *context);
/* {"object":"list",…} of some items by limit, order and after of the query. */
bool responses_page_add(buf *out, const cJSON *items, const char *query, api_error *error);
/* What a query says of a page. */
typedef struct page_query {
    int limit;
    bool ascending;
    char after[PARSE_MAX_ID + 1]; /* "": from the beginning */
} page_query;
bool responses_page_query(const char *query, page_query *page, api_error *error);

/* conversations.c, conversations_items.c */
api_call *conversations_create(const api_context *context);
api_call *conversations_list(const api_context *context);
api_call *conversations_retrieve(const api_context *context);
api_call *conversations_update(const api_context *context);
api_call *conversations_delete(const api_context *context);
api_call *conversations_items(const api_context *context);
api_call *conversations_add(const api_context *context);
api_call *conversations_item(const api_context *context);
api_call *conversations_drop(const api_context *context);

/* chat_call.c */
api_call *chat_create(const api_context *context);
api_call *completions_create(const api_context *context);

/* tokens.c */
api_call *tokens_tokenize(const api_context *context);
api_call *tokens_detokenize(const api_context *context);
/* The answers; a body may get the name of the only model. False: refused. */
bool tokens_encode(const parse_env *env, run_runtime *runtime, cJSON *body, buf *out,
                   api_error *error);
bool tokens_decode(const parse_env *env, cJSON *body, buf *out, api_error *error);
/* The text of tokens, whole characters. */
bool tokens_text(const run_model *model, const int32_t *tokens, uint64_t n_tokens, buf *out);

/* models.c */
api_call *models_list(const api_context *context);
api_call *models_get(const api_context *context);
api_call *server_health(const api_context *context);
api_call *server_ready(const api_context *context);
api_call *server_metrics(const api_context *context);
api_call *server_version(const api_context *context);

/* A body that must be a JSON object. NULL: refused. The caller deletes it. */
cJSON *handlers_body(const char *data, size_t size, api_error *error);

#endif /* API_HANDLERS_H */
