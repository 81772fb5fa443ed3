/*
 * net/wire.c - heads, event blocks and small parsers. See wire.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/wire.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } known[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {422, "Unprocessable Content"},
        {426, "Upgrade Required"},
        {429, "Too Many Requests"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].status == status)
            return known[i].reason;
    return "Status";
}

void wire_add_head(buf *out, const wire_head *head)
{
    buf_printf(out, "HTTP/1.1 %d %s\r\nServer: pawl\r\n", head->status, reason_of(head->status));
    if (head->content_type)
        buf_printf(out, "Content-Type: %s\r\n", head->content_type);
    buf_printf(out, "x-request-id: %s\r\n", head->request_id);
    if (!head->stream)
        buf_printf(out, "Content-Length: %zu\r\n", head->size);
    else if (head->chunked)
        buf_add_text(out, "Transfer-Encoding: chunked\r\n");
    /* X-Accel-Buffering: nginx, where it stands before us, passes events on at once. */
    if (head->stream)
        buf_add_text(out, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    if (head->retry_after > 0)
        buf_printf(out, "Retry-After: %d\r\n", head->retry_after);
    if (head->cors)
        buf_printf(out,
                   "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n"
                   "Access-Control-Expose-Headers: x-request-id, Retry-After\r\n",
                   head->cors);
    if (head->preflight)
        buf_printf(out,
                   "Access-Control-Allow-Methods: GET, POST, DELETE\r\n"
                   "Access-Control-Allow-Headers: %s\r\nAccess-Control-Max-Age: 600\r\n",
                   head->preflight);
    if (head->status == 401)
        buf_add_text(out, "WWW-Authenticate: Bearer\r\n");
    if (head->status == 426)
        buf_add_text(out, "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
    if (head->close)
        buf_add_text(out, "Connection: close\r\n");
    else if (head->http_1_0)
        buf_add_text(out, "Connection: keep-alive\r\n");
    buf_add_text(out, "\r\n");
}

void wire_add_event(buf *out, const char *name, const char *json, size_t size, bool chunked)
{
    static const char event[] = "event: ", data[] = "data: ";
    size_t block = size + sizeof data - 1 + 2;
    if (name)
        block += strlen(name) + sizeof event - 1 + 1;
    if (chunked)
        buf_printf(out, "%zx\r\n", block);
    if (name) {
        buf_add_text(out, event);
        buf_add_text(out, name);
        buf_add_text(out, "\n");
    }
    buf_add_text(out, data);
    buf_add(out, json, size);
    buf_add_text(out, chunked ? "\n\n\r\n" : "\n\n");
}

void wire_add_comment(buf *out, bool chunked)
{
    static const char comment[] = ": keep-alive\n\n";
    if (chunked)
        buf_printf(out, "%zx\r\n", sizeof comment - 1);
    buf_add_text(out, comment);
    if (chunked)
        buf_add_text(out, "\r\n");
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~", c));
}

void wire_add_query(buf *out, const char *argument, size_t size)
{
    bool in_value = false;
    if (out->size)
        buf_add_text(out, "&");
    for (size_t i = 0; i < size; i++) {
        char c = argument[i];
        if (is_unreserved(c) || (c == '=' && !in_value))
            buf_add(out, &c, 1);
        else
            buf_printf(out, "%%%02X", (unsigned)(unsigned char)c);
        in_value = in_value || c == '=';
    }
}

bool wire_has_token(const char *list, const char *token)
{
    size_t size = strlen(token);
    while (*list) {
        list += strspn(list, ", \t");
        size_t n = strcspn(list, ", \t");
        if (n == size && strncasecmp(list, token, n) == 0)
            return true;
        list += n;
    }
    return false;
}

bool wire_parse_size(const char *text, uint64_t *size)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits])
        return false;
    *size = strtoull(text, NULL, 10);
    return true;
}

bool wire_same_secret(const char *given, const char *secret)
{
    size_t n = strlen(given), m = strlen(secret);
    unsigned difference = n != m;
    for (size_t i = 0; i < n; i++)
        difference |= (unsigned)(given[i] ^ secret[m ? i % m : 0]);
    return difference == 0 && m > 0;
}

bool wire_is_name_list(const char *text)
{
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++)
        if (!is_unreserved(text[i]) && text[i] != ',' && text[i] != ' ')
            return false;
    return size > 0;
}

bool wire_is_clean(const char *text)
{
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return utf8_valid_prefix(text, size) == size;
}
