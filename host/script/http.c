/*
 * script/http.c - one HTTP request of a tool, under limits. See http.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/http.h"

#include "base/clock.h"
#include "script/address.h"
#include "script/crew.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MS 10000
#define LOOK_MS 1000 /* longest wait between two looks at the clock */

bool http_begin(void)
{
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

void http_end(void)
{
    curl_global_cleanup();
}

/* ------------------------------------------------------------- URLs */

/* One part of a URL in small letters, or "" where it has none. */
static void get_part(CURLU *url, CURLUPart part, unsigned flags, char *text, size_t size)
{
    char *value = NULL;
    text[0] = '\0';
    if (curl_url_get(url, part, &value, flags) == CURLUE_OK)
        snprintf(text, size, "%s", value);
    curl_free(value);
    for (char *c = text; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
}

/* False: it is no URL that a tool may have. */
static bool get_origin(const char *text, char origin[HTTP_MAX_ORIGIN], char host[256])
{
    char scheme[16], port[16], user[64];
    CURLU *url = curl_url();
    bool good = url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK;
    if (good) {
        get_part(url, CURLUPART_SCHEME, 0, scheme, sizeof scheme);
        get_part(url, CURLUPART_HOST, 0, host, 256);
        get_part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT, port, sizeof port);
        get_part(url, CURLUPART_USER, 0, user, sizeof user);
        good = !*user && *host && (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    }
    if (good)
        snprintf(origin, HTTP_MAX_ORIGIN, "%s://%s:%s", scheme, host, port);
    curl_url_cleanup(url);
    return good;
}

pawl_status http_check_url(const char *url, char origin[HTTP_MAX_ORIGIN], pawl_error *error)
{
    char host[256];
    if (get_origin(url, origin, host))
        return PAWL_OK;
    return pawl_fail(error, PAWL_E_ARGUMENT,
                     "'%.150s' is no http:// or https:// URL without a user name", url);
}

/* Whoever wrote the URL has seen which machine this is. */
static bool names_its_address(const char *host)
{
    unsigned char address[16];
    char bare[256];
    size_t size = strlen(host);
    snprintf(bare, sizeof bare, "%s", host);
    if (host[0] == '[' && size > 2) {
        memmove(bare, bare + 1, size);
        bare[size - 2] = '\0';
    }
    return strcmp(bare, "localhost") == 0 || inet_pton(AF_INET, bare, address) == 1 ||
           inet_pton(AF_INET6, bare, address) == 1;
}

char *http_add_query(const char *url, const char *name, const char *value)
{
    char *n = curl_easy_escape(NULL, name, 0), *v = curl_easy_escape(NULL, value, 0);
    char *made = NULL;
    if (n && v && asprintf(&made, "%s%c%s=%s", url, strchr(url, '?') ? '&' : '?', n, v) < 0)
        made = NULL;
    curl_free(n);
    curl_free(v);
    return made;
}

/* ------------------------------------------------------------- one exchange */

typedef struct exchange {
    const http_request *request;
    buf *body;
    bool any_address;
    bool refused; /* an address that is not public */
    bool too_large;
} exchange;

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    exchange *x = arg;
    (void)purpose;
    if (!x->any_address && !address_is_public(&address->addr)) {
        x->refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t take_body(char *data, size_t one, size_t n, void *arg)
{
    exchange *x = arg;
    if (buf_add(x->body, data, one * n))
        return one * n;
    x->too_large = true;
    return 0;
}

static struct curl_slist *make_headers(const http_request *r, bool own)
{
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    if (r->body)
        list = curl_slist_append(list, "Content-Type: application/json");
    for (size_t i = 0; own && i < r->n_headers; i++)
        list = curl_slist_append(list, r->headers[i]);
    return list;
}

static void set_options(CURL *easy, exchange *x, const char *url, struct curl_slist *headers)
{
    const http_request *r = x->request;
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "pawl");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)x->body->max);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, x);
    if (r->body)
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, r->body);
    if (strcmp(r->method, "GET") != 0)
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, r->method);
}

/* Runs the transfer until it has ended, the time is over or it is not wanted. */
static CURLcode transfer(CURLM *multi, const http_request *r, int64_t deadline_ns, bool *stopped)
{
    const base_clock *clock = clock_system();
    int running = 1, left_over;
    while (running) {
        struct curl_waitfd stop = {.fd = r->stop_fd, .events = CURL_WAIT_POLLIN};
        int64_t left = (deadline_ns - clock->monotonic_ns(clock->context)) / 1000000;
        if (left <= 0)
            return CURLE_OPERATION_TIMEDOUT;
        if (curl_multi_perform(multi, &running) != CURLM_OK)
            return CURLE_OUT_OF_MEMORY;
        *stopped = crew_is_stopped(r->stop_fd);
        if (*stopped)
            return CURLE_ABORTED_BY_CALLBACK;
        if (running)
            curl_multi_poll(multi, &stop, r->stop_fd >= 0, (int)(left < LOOK_MS ? left : LOOK_MS),
                            NULL);
    }
    const CURLMsg *message = curl_multi_info_read(multi, &left_over);
    return message ? message->data.result : CURLE_OK;
}

static bool explain(CURLcode code, const exchange *x, const char *url, bool stopped, failure *why)
{
    char origin[HTTP_MAX_ORIGIN], host[256]; /* its path and query are not for messages */
    if (!get_origin(url, origin, host))
        snprintf(origin, sizeof origin, "the server");
    if (stopped)
        return failure_set(why, "cancelled", false, "it was cancelled");
    if (x->too_large || code == CURLE_FILESIZE_EXCEEDED)
        return failure_set(why, "too_large", false, "%.200s: the reply has more than %zu bytes",
                           origin, x->body->max);
    if (x->refused)
        return failure_set(why, "denied", false,
                           "%.200s: this name means an address that is not public; if it should, "
                           "the tool needs \"private\": true",
                           origin);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return failure_set(why, "timeout", true, "%.200s: no reply within %.1f s", origin,
                           (double)x->request->timeout_ms / 1000);
    return failure_set(why, "network", true, "%.200s: %s", origin, curl_easy_strerror(code));
}

/* One request to one URL; *location: where its reply redirects to, or NULL; to be free()d. */
static bool exchange_once(const http_request *r, const char *url, bool own, int64_t deadline_ns,
                          http_reply *reply, char **location, failure *why)
{
    char origin[HTTP_MAX_ORIGIN], host[256] = "";
    bool stopped = false;
    CURLM *multi = curl_multi_init();
    CURL *easy = curl_easy_init();
    exchange x = {.request = r, .body = &reply->body};
    struct curl_slist *headers = make_headers(r, own);
    CURLcode code = CURLE_OUT_OF_MEMORY;
    buf_reset(&reply->body);
    x.any_address =
        get_origin(url, origin, host) && (r->private_addresses || names_its_address(host));
    if (multi && easy) {
        set_options(easy, &x, url, headers);
        curl_multi_add_handle(multi, easy);
        code = transfer(multi, r, deadline_ns, &stopped);
    }
    if (code == CURLE_OK) {
        long status = 0;
        const char *type = NULL, *to = NULL;
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type);
        curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &to);
        reply->status = (int)status;
        reply->json =
            type && (strncasecmp(type, "application/json", 16) == 0 || strstr(type, "+json"));
        *location = to && status >= 300 && status < 400 ? strdup(to) : NULL;
    }
    if (multi && easy)
        curl_multi_remove_handle(multi, easy);
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
    curl_slist_free_all(headers);
    return code == CURLE_OK || explain(code, &x, url, stopped, why);
}

/* ------------------------------------------------------------- redirects */

/* Whether a redirect to a URL is followed; *own: it stays with the tool's origin. */
static bool may_go_to(const http_request *r, const char *url, bool *own, failure *why)
{
    char origin[HTTP_MAX_ORIGIN], mine[HTTP_MAX_ORIGIN], host[256];
    *own = false;
    bool good = get_origin(r->url, mine, host) && get_origin(url, origin, host);
    if (good && strcmp(r->method, "GET") == 0) {
        *own = strcmp(origin, mine) == 0;
        for (size_t i = 0; i < r->n_origins; i++)
            if (*own || strcmp(r->origins[i], origin) == 0)
                return true;
        if (*own)
            return true;
    }
    return failure_set(why, "redirect", false,
                       "the server redirects a %s request to %.200s, which is not allowed",
                       r->method, good ? origin : "something else than a web page");
}

bool http_call(const http_request *request, http_reply *reply, failure *why)
{
    const base_clock *clock = clock_system();
    int64_t deadline_ns = clock->monotonic_ns(clock->context) +
                          (request->timeout_ms > 0 ? request->timeout_ms : 1) * 1000000;
    char *url = strdup(request->url);
    bool own = true, good = url || failure_set(why, "busy", true, "no memory for a request");
    for (int hops = 0; good; hops++) {
        char *location = NULL;
        good = exchange_once(request, url, own, deadline_ns, reply, &location, why);
        free(url);
        url = location;
        if (!good || !location)
            break;
        good = may_go_to(request, location, &own, why);
        if (good && hops == HTTP_MAX_REDIRECTS)
            good =
                failure_set(why, "redirect", false, "more than %d redirects", HTTP_MAX_REDIRECTS);
    }
    free(url);
    return good;
}
