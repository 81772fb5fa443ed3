/*
 * script/http.h - one HTTP request of a tool, under limits. The only file that knows libcurl.
 *
 * http and https alone. Whom a request may reach is fixed by who wrote the tool: redirects
 * are followed for GET, to its own origin and to those that it names, three at most; headers
 * go to its own origin only. Its address is checked when it connects, not when its name was
 * looked up: a name that suddenly means 127.0.0.1 or a machine of the local network is
 * refused, unless the tool says `private` or has the address in its URL. No proxies, cookies,
 * .netrc or compression. Connections are not kept.
 *
 * Called on a thread of the crew; http_begin() and http_end() on [main]. No Lua.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_HTTP_H
#define SCRIPT_HTTP_H

#include "base/buf.h"
#include "script/failure.h"

#define HTTP_MAX_ORIGIN 300
#define HTTP_MAX_REDIRECTS 3

typedef struct http_request {
    const char *url;
    const char *method;         /* in capitals                           */
    char *const *headers;       /* "Name: value"; secrets                */
    size_t n_headers;           /*                                       */
    const char *body;           /* JSON, or NULL                         */
    const char *const *origins; /* where redirects may go, too           */
    size_t n_origins;           /*                                       */
    bool private_addresses;     /* names may mean addresses that are not public */
    int64_t timeout_ms;
    int stop_fd; /* as of crew.h */
} http_request;

typedef struct http_reply {
    int status;
    bool json; /* its type says so */
    buf body;  /* initialised by the caller: its maximum is obeyed */
} http_reply;

bool http_begin(void);
void http_end(void);

/* Whether a URL can be a tool's, and its origin: scheme://host:port. */
pawl_status http_check_url(const char *url, char origin[HTTP_MAX_ORIGIN], pawl_error *error);
/* Appends to a URL's query NAME=VALUE, encoded. NULL: no memory; else to be free()d. */
char *http_add_query(const char *url, const char *name, const char *value);

/* Makes the request. False: there is no reply; one of any status is a reply. */
bool http_call(const http_request *request, http_reply *reply, failure *why);

#endif /* SCRIPT_HTTP_H */
