/*
 * store/transfer.h - conversations and responses as lines of JSON, out of a store and into
 * one.
 *
 *   {"pawl_export":1,"created_ms":…}
 *   {"type":"response","id","parent","removed","conversation","tenant","model","status",
 *    "created_ms","completed_ms","request":{},"result":{},"input":[],"output":[],
 *    "n_prompt","same","tokens":[…]}       parents first; the first `same` tokens are the
 *   …                                      parent's, `tokens` are those behind them
 *   {"type":"conversation","id","tenant","title","metadata":{},"head","base","tail":[],
 *    "created_ms","updated_ms"}
 *   …
 *   {"type":"end","responses":N,"conversations":N}
 *
 * Keys are not in it. A file may come from anywhere: each line is checked like what a
 * client sends, and one that is wrong is named by its number.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_TRANSFER_H
#define STORE_TRANSFER_H

#include "base/json.h"
#include "store/store.h"

#include <stdio.h>

#define TRANSFER_VERSION 1
#define TRANSFER_MAX_LINE ((size_t)384 << 20) /* bytes */

typedef struct transfer_counts {
    int64_t responses, conversations;
} transfer_counts;

/* Writes a conversation (conversation_id) with the responses that lead to it, or everything
 * (NULL), as it is at one moment; also beside the process that holds the folder. [main] */
pawl_status transfer_export(const char *folder, const char *conversation_id, FILE *to,
                            transfer_counts *counts, pawl_error *error);

/* Reads such a file into the folder, which is held meanwhile and made where it is absent:
 * all of it or nothing. new_ids: everything gets an id of its own, and the links follow;
 * without that an id that exists is refused (PAWL_E_ARGUMENT). What an imported response
 * follows must be in the file. [main] */
pawl_status transfer_import(const char *folder, FILE *from, bool new_ids, transfer_counts *counts,
                            pawl_error *error);

/* -------------------------------------------------------- transfer_line.c --- */

enum transfer_kind { TRANSFER_HEADER, TRANSFER_RESPONSE, TRANSFER_CONVERSATION, TRANSFER_END };

/* One line; what it holds points into it. */
typedef struct transfer_line {
    enum transfer_kind kind;
    store_response response; /* tokens: those behind the parent's            */
    bool removed;            /* of a response                                */
    uint64_t same;           /* tokens that are the parent's                 */
    store_conversation conversation;
    transfer_counts counts; /* of the end                                   */
    cJSON *json;            /* the line                                     */
    char *texts[4];         /* JSON members as texts                        */
    int32_t *tokens;
} transfer_line;

/* PAWL_E_FORMAT, PAWL_E_ARGUMENT or PAWL_E_LIMIT says what is wrong. On success the line is
 * the caller's to clear. Pure. */
pawl_status transfer_parse(const char *data, size_t size, transfer_line *out, pawl_error *error);
void transfer_clear(transfer_line *line);

/* Appends a line with its newline. False: it does not fit, or a text is no JSON. */
bool transfer_add_response(buf *out, const store_response *r, bool removed,
                           const store_response *parent);
bool transfer_add_conversation(buf *out, const store_conversation *c);

#endif /* STORE_TRANSFER_H */
