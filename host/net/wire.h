/*
 * net/wire.h - the texts of HTTP and of event streams.
 *
 * Everything ends lines the way its clients need: CRLF in HTTP, LF alone in events
 * (some clients look for "\n\n" only). Functions append to a buf and leave checking
 * its `failed` to the caller. All [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_WIRE_H
#define NET_WIRE_H

#include "base/buf.h"

/* The head of a reply. */
typedef struct wire_head {
    int status;
    const char *content_type;
    const char *request_id;
    size_t size;           /* of the body; not used with stream              */
    bool stream;           /* no length: chunked, or until the end for HTTP/1.0 */
    bool chunked;          /* with stream                                    */
    bool close;            /* the connection ends after this reply           */
    bool http_1_0;         /* the client's version: keep-alive must be said  */
    int retry_after;       /* seconds; 0: no header                          */
    const char *cors;      /* which pages may read it: "*" or an origin; NULL: none      */
    const char *preflight; /* headers that they may send; NULL: this is no preflight     */
} wire_head;

void wire_add_head(buf *out, const wire_head *head);

/* One event of a stream: "event: NAME\ndata: JSON\n\n", without its first line where
 * name is NULL; as one chunk of the transfer coding, where that is used. */
void wire_add_event(buf *out, const char *name, const char *json, size_t size, bool chunked);
void wire_add_comment(buf *out, bool chunked); /* ": keep-alive\n\n" */

/* Appends one "name=value" of a query, which comes decoded, as it was sent: what is
 * not unreserved is percent-encoded, '&' stands between two. */
void wire_add_query(buf *out, const char *argument, size_t size);

/* Whether a comma-separated header value has the token, in any case. */
bool wire_has_token(const char *list, const char *token);
/* Reads digits only; false: empty, anything else, or too large. */
bool wire_parse_size(const char *text, uint64_t *size);
/* Compares a secret in a time that does not depend on where they differ. */
bool wire_same_secret(const char *given, const char *secret);
/* Whether the text is a list of header names, "authorization, content-type". */
bool wire_is_name_list(const char *text);
/* Whether the text is UTF-8 without control characters. */
bool wire_is_clean(const char *text);

#endif /* NET_WIRE_H */
