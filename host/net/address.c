/*
 * net/address.c - loopback addresses, host names and origins. See address.h.
 *
 * "localhost" is 127.0.0.1, whatever the resolver says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* A host and what follows it, found in "HOST", "HOST:PORT", "[HOST]" or "[HOST]:PORT". */
typedef struct host_part {
    char host[64];
    const char *rest; /* "" or ":…" */
    bool bracketed;
} host_part;

static bool split_host(const char *text, host_part *part)
{
    part->bracketed = *text == '[';
    const char *begin = text + part->bracketed;
    size_t size = strcspn(begin, part->bracketed ? "]" : ":");
    if (size == 0 || size >= sizeof part->host || (part->bracketed && begin[size] != ']'))
        return false;
    memcpy(part->host, begin, size);
    part->host[size] = '\0';
    part->rest = begin + size + part->bracketed;
    return *part->rest == '\0' || *part->rest == ':';
}

static bool parse_port(const char *text, uint16_t *port)
{
    size_t size = strspn(text, "0123456789");
    if (size == 0 || size > 5 || text[size])
        return false;
    unsigned long value = strtoul(text, NULL, 10);
    if (value > 65535)
        return false;
    *port = (uint16_t)value;
    return true;
}

static bool is_loopback(const host_part *part)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (part->bracketed)
        return inet_pton(AF_INET6, part->host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
    if (strcasecmp(part->host, "localhost") == 0 || strcasecmp(part->host, "localhost.") == 0)
        return true;
    return inet_pton(AF_INET, part->host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

/* An address in its one usual form. False: it is a name. */
static bool to_literal(const host_part *part, char text[46])
{
    struct in_addr v4;
    struct in6_addr v6;
    if (part->bracketed)
        return inet_pton(AF_INET6, part->host, &v6) == 1 && inet_ntop(AF_INET6, &v6, text, 46);
    return inet_pton(AF_INET, part->host, &v4) == 1 && inet_ntop(AF_INET, &v4, text, 46);
}

static bool is_any(const char *literal)
{
    return strcmp(literal, "0.0.0.0") == 0 || strcmp(literal, "::") == 0;
}

pawl_status address_parse(const char *text, net_address *address, pawl_error *error)
{
    host_part part;
    uint16_t port;
    if (!split_host(text, &part) || *part.rest != ':' || !parse_port(part.rest + 1, &port))
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "'%.80s' is no address to listen on; it must be HOST:PORT, for example "
                         "127.0.0.1:8080 or [::1]:8080",
                         text);
    net_address got = {.port = port, .v6 = part.bracketed, .loopback = is_loopback(&part)};
    if (got.loopback && !part.bracketed && part.host[0] != '1')
        memcpy(got.host, "127.0.0.1", sizeof "127.0.0.1");
    else if (!to_literal(&part, got.host))
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "%.80s is a name; give the address to listen on, for example "
                         "0.0.0.0:%u for all",
                         text, port);
    got.any = is_any(got.host);
    *address = got;
    return PAWL_OK;
}

pawl_status address_try(const net_address *address, pawl_error *error)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(address->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(address->port)};
    if (address->v6)
        inet_pton(AF_INET6, address->host, &v6.sin6_addr);
    else
        inet_pton(AF_INET, address->host, &v4.sin_addr);
    int on = 1;
    int fd = socket(address->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
                 bind(fd, address->v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4,
                      address->v6 ? sizeof v6 : sizeof v4) ||
                 listen(fd, 1);
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (!failed)
        return PAWL_OK;
    const char *open = address->v6 ? "[" : "";
    const char *shut = address->v6 ? "]" : "";
    if (why == EADDRINUSE)
        return pawl_fail(error, PAWL_E_BUSY,
                         "%s%s%s:%u is in use by another process; stop it or choose another port",
                         open, address->host, shut, address->port);
    return pawl_fail(error, PAWL_E_UNSUPPORTED, "cannot listen on %s%s%s:%u: %s", open,
                     address->host, shut, address->port, strerror(why));
}

bool address_is_local_host(const char *host)
{
    host_part part;
    uint16_t port;
    return split_host(host, &part) && (!*part.rest || parse_port(part.rest + 1, &port)) &&
           is_loopback(&part);
}

bool address_is_literal(const char *host)
{
    host_part part;
    uint16_t port;
    char literal[46];
    return split_host(host, &part) && (!*part.rest || parse_port(part.rest + 1, &port)) &&
           to_literal(&part, literal) && !is_any(literal);
}

bool address_is_local_origin(const char *origin)
{
    static const char *const schemes[] = {"http://", "https://", "ws://", "wss://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t size = strlen(schemes[i]);
        if (strncasecmp(origin, schemes[i], size) == 0)
            return address_is_local_host(origin + size);
    }
    return false;
}
