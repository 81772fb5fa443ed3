/*
 * chat/dialect.h - what a chat dialect is: one row of tables.
 *
 * A dialect says how it is recognised from a model's own chat template, how
 * messages become a prompt (style), which markers steer a reply (rules) and
 * who reads what stands inside a call (converter). The renderer and the reply
 * parser hold no dialect's name. A new dialect is a row in dialects.c; a new
 * kind of call syntax is one more converter.
 *
 * Everything here is constant data, shared by all threads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHAT_DIALECT_H
#define CHAT_DIALECT_H

#include <pawl/plugin.h>

#include <stdbool.h>

/* ------------------------------------------------------------- the prompt -- */

/* Template text around messages; NULL members are empty. A turn is
 *   turn_begin ROLE role_end TEXT turn_end */
struct prompt_style {
    const char *turn_begin;
    const char *role_end;
    const char *turn_end;
    const char *turn_join;            /* between turns                                       */
    const char *default_system;       /* where the first message is none of the system's     */
    const char *default_tools_system; /* the same in a request with tools              */

    const char *tools_join;  /* between the system's text and the tools                */
    const char *tools_begin; /* NULL: tools do not appear in the prompt                */
    const char *tool_begin;  /* before each tool                                       */
    const char *tool_join;   /* between two                                            */
    const char *tools_end;

    /* An assistant's calls: calls_begin, then each call_begin NAME call_arguments
     * JSON call_end. calls_begin NULL: calls of the past do not appear. */
    const char *calls_join; /* between the assistant's text and its calls              */
    const char *calls_begin;
    const char *call_begin;
    const char *call_arguments;
    const char *call_end;
    const char *call_join;
    const char *calls_end;

    const char *results_role; /* whose turn the results of tools stand in; results
                                 that follow each other share it. NULL: one turn of
                                 the role "tool" for each                              */
    const char *result_begin;
    const char *result_end;
    const char *result_join;

    const char *thought_begin; /* around reasoning in the current exchange; NULL:
                                  reasoning of the past is left out                    */
    const char *thought_end;
    const char *no_thought; /* ends the prompt where the request wants no thinking     */

    bool names_roles;      /* false: a message is its bare text                        */
    bool refuses_tools;    /* a request with tools is an error rather than without them */
    bool refuses_parts;    /* so does the reference: its template joins strings only   */
    bool string_arguments; /* arguments that came as a string are printed as that
                              string's text rather than as a JSON string               */
};

/* -------------------------------------------------------------- the reply -- */

/* Where the parser stands in a reply. What each state does with plain text is in
 * parser.c; how markers lead from one to the next is in a dialect's rules. */
enum reply_state {
    REPLY_START,         /* nothing but white space so far                 */
    REPLY_THOUGHT_START, /* in a thought, nothing but white space so far   */
    REPLY_THOUGHT,
    REPLY_ANSWER_START, /* after a thought, nothing but white space so far */
    REPLY_ANSWER,
    REPLY_CALL,       /* in a call block, the converter reads           */
    REPLY_CALL_CLOSE, /* its content is complete, the end marker is due */
    REPLY_CALL_JUNK,  /* something else came instead                    */
    REPLY_CALL_BAD,   /* what the converter could not read              */
    REPLY_AFTER_CALL, /* after a block, nothing but white space so far  */
    REPLY_STATES
};

/* At this marker, in this state, go there. Of the markers of one state none is
 * the beginning of another. */
struct reply_rule {
    enum reply_state in;
    const char *marker; /* at most MARKER_MAX bytes                    */
    enum reply_state to;
    bool for_calls; /* holds only where the request allows calls   */
};

enum { MARKER_MAX = 64 };

struct calls;

enum convert {
    CONVERT_MORE,  /* taken                                                      */
    CONVERT_DONE,  /* taken, and the block's content is complete                 */
    CONVERT_PROSE, /* not taken: this was no call; the block is text after all   */
    CONVERT_BAD    /* not taken: the call is damaged                             */
};

/* Reads the inside of one call block. */
struct converter {
    void (*begin)(struct calls *calls);
    enum convert (*byte)(struct calls *calls, unsigned char byte);
};

extern const struct converter convert_json; /* calls_json.c */

/* --------------------------------------------------------------- the rows -- */

struct dialect {
    const char *name;
    const char *const *needs; /* the template contains all of these ...          */
    const char *const *lacks; /* ... and none of these; NULL needs: never chosen */
    const char *family;       /* chosen by it where there is no template         */
    const char *const *stop;  /* control tokens that end a reply                 */
    const struct prompt_style *style;
    const struct reply_rule *rules; /* the last has no marker                      */
    const struct converter *converter;
};

extern const struct dialect chat_dialects[];
extern const unsigned chat_n_dialects;

/* By name, by template or by family; NULL if none fits. */
const struct dialect *dialect_named(pawl_bytes name);
const struct dialect *dialect_of_template(pawl_bytes text);
const struct dialect *dialect_of_family(pawl_bytes family);

#endif /* CHAT_DIALECT_H */
