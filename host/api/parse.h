/*
 * api/parse.h - from the JSON of a request to a run_request, or to an error.
 *
 * What a request refers to (models, earlier responses) comes through a parse_env, so
 * that parsing can be tested and fuzzed without a runtime. Everything here runs on the
 * thread that parses, run's worker, and keeps nothing.
 *
 *   responses_parse.c    a Responses request as a whole, its links, its echo
 *   items_parse.c        its input items
 *   keep_parse.c         what becomes of it without its client
 *   params_parse.c       sampling, limits, reasoning, text
 *   tools_parse.c        tools and tool_choice, of Chat too
 *   chat_parse.c         a Chat Completions request as a whole
 *   messages_parse.c     its messages, as items
 *   completions_parse.c  a Completions request as a whole
 *   choices_parse.c      what those two share
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_PARSE_H
#define API_PARSE_H

#include "api/error.h"
#include "run/conversation.h"

#define PARSE_MAX_ITEMS 10000 /* in one input                                     */
#define PARSE_MAX_PARTS 1024  /* of one item                                      */
#define PARSE_MAX_ADDED 20    /* items added to a conversation at a time          */
#define PARSE_MAX_TOOLS 256
#define PARSE_MAX_NAME 128    /* bytes of a function's name                       */
#define PARSE_MAX_ID 128      /* bytes of an id that a client gives               */
#define PARSE_MAX_LOOKUPS 256 /* outputs in one input whose calls are in the chain  */
#define PARSE_MAX_VISITS 4096 /* records that one request's references may visit */
#define PARSE_MAX_BIASES 1024 /* entries of a logit_bias                         */
#define PARSE_EFFORTS "none minimal low medium high xhigh max"

typedef struct parse_env {
    const base_clock *clock;
    const run_caller *caller; /* who asks; NULL: RUN_NOBODY                  */
    const char *key;          /* Idempotency-Key, or NULL; then:             */
    const char *key_hash;     /* of what is asked for with it                */
    run_record *parent;       /* from the connection's memory, borrowed, or NULL */
    void *context;            /* for the functions                               */
    run_model *(*find_model)(void *context, const char *name); /* NULL: unknown           */
    const char *(*model_name)(void *context, size_t i);        /* NULL: no i-th one       */
    /* A reference; with_removed: an ancestor, of which the texts are enough. */
    run_record *(*find_record)(void *context, const char *id, bool with_removed);
    bool (*has_call)(void *context, run_record *from, const char *call_id);
    /* As run_conversation_open(), and loaded. NULL: there are none. */
    enum run_conversation_answer (*find_conversation)(void *context, const char *id, bool hold,
                                                      run_conversation **out);
    bool looks_only; /* nothing will follow from the request: it holds no conversation */
} parse_env;

/* The parts of one request on their way; out of responses_parse() it is not seen. */
typedef struct parse_state {
    const cJSON *body;
    const parse_env *env;
    run_request *request;
    api_error *error;
    bool nested; /* a tool's members stand in its "function", as in Chat */
} parse_state;

/* How a Chat or Completions request wants its answer. */
typedef struct parse_choices {
    size_t n;           /* replies, from 1 to RUN_MAX_CHOICES           */
    bool stream;        /* as events                                    */
    bool include_usage; /* a last chunk with the usage                  */
    bool echo;          /* Completions: the prompt before each reply    */
} parse_choices;

/* An empty request of the env's caller. NULL without memory. */
run_request *parse_new_request(const parse_env *env);
/* body is an object. NULL: refused, *error says why. The caller frees the request. */
run_request *responses_parse(const cJSON *body, const parse_env *env, api_error *error);
/* The same for POST /chat/completions and POST /completions; *choices is filled. */
run_request *chat_parse(const cJSON *body, const parse_env *env, parse_choices *choices,
                        api_error *error);
run_request *completions_parse(const cJSON *body, const parse_env *env, parse_choices *choices,
                               api_error *error);
/* A prompt as Completions has it, into raw_text or raw_tokens; name: its member. */
bool prompt_parse(parse_state *state, const char *name);
/* An array of token ids of the request's model. The caller free()s *ids. */
bool token_ids_parse(parse_state *state, const cJSON *array, const char *path, int32_t **ids,
                     uint64_t *n_ids);
/* An error of 404 that says which models there are. Always false. */
bool parse_refuse_model(const parse_env *env, const char *name, api_error *error);

/* Each takes its members from state->body into state->request and into the echo. */
bool params_parse(parse_state *state);
bool tools_parse(parse_state *state);
/* disconnect, and for Responses background too. Both need request->store. */
bool keep_parse(parse_state *state);
bool background_parse(parse_state *state);
/* Adds to request->items. Needs request->parent and request->conversation. */
bool items_parse(parse_state *state);
/* The same for the list "items", of at most PARSE_MAX_ADDED; absent: none. */
bool items_parse_added(parse_state *state);
/* "metadata" into the echo; absent: {}. */
bool metadata_parse(parse_state *state);
/* Why a conversation could not be opened. param may be NULL. Always false. */
bool conversation_refuse(enum run_conversation_answer answer, const char *id, const char *param,
                         api_error *error);
bool parse_model(parse_state *state);
bool params_sampling(parse_state *state); /* from temperature to seed */
bool params_stop(parse_state *state);
bool params_cache_salt(parse_state *state);
bool params_priority(parse_state *state);
bool params_template_kwargs(parse_state *state); /* what is switched in chat_template_kwargs */
bool messages_parse(parse_state *state);
/* n, stream, stream_options, logit_bias, priority. Needs request->model. */
bool choices_parse(parse_state *state, parse_choices *choices);
/* How much is to be thought: one of PARSE_EFFORTS. */
bool params_effort(parse_state *state, const char *effort);

/* Sets a member of the echo; what is there is replaced. False: no memory, refused. */
bool echo_add(parse_state *state, const char *name, cJSON *value);
bool echo_text(parse_state *state, const char *name, const char *text); /* NULL: null */
bool echo_number(parse_state *state, const char *name, double number);

#endif /* API_PARSE_H */
