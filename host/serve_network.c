/*
 * host/serve_network.c - the options of `pawl serve` that concern the network. [main]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "serve_network.h"

#include <errno.h>
#include <stdlib.h>

enum option_key {
    KEY_FILE = 512,
    KEY_HOST,
    KEY_ORIGIN,
    KEY_CERT,
    KEY_KEY,
    KEY_CONNECTIONS,
    KEY_ADDRESS,
    KEY_HEADER,
    KEY_BODY,
    KEY_WRITE,
    KEY_IDLE
};

static const struct argp_option option_table[] = {
    {"api-key-file", KEY_FILE, "FILE", 0,
     "Keys that clients may show, one a line, each maybe followed by a name; mode 600. "
     "PAWL_API_KEY gives one more, `pawl key` makes better ones",
     0},
    {"allow-host", KEY_HOST, "NAME[:PORT]", 0,
     "Another name that clients may call this server by; may be repeated; *: any", 0},
    {"allow-origin", KEY_ORIGIN, "URL", 0,
     "Pages that may use this server, for example https://app.example; may be repeated; *: any", 0},
    {"tls-cert", KEY_CERT, "FILE", 0, "Certificate and its chain, PEM: speak TLS", 0},
    {"tls-key", KEY_KEY, "FILE", 0, "The certificate's private key, PEM", 0},
    {"max-connections", KEY_CONNECTIONS, "N", 0, "Connections at once (1024)", 0},
    {"max-per-address", KEY_ADDRESS, "N", 0,
     "Of them from one client address (a quarter; from loopback all)", 0},
    {"header-timeout", KEY_HEADER, "SECONDS", 0, "For the first request's head (10)", 0},
    {"body-timeout", KEY_BODY, "SECONDS", 0, "In which 1 KiB of a body or a message must come (15)",
     0},
    {"write-timeout", KEY_WRITE, "SECONDS", 0,
     "In which a client must take a byte of what waits for it (30)", 0},
    {"idle-timeout", KEY_IDLE, "SECONDS", 0, "Between requests of a connection (120)", 0},
    {0},
};

static uint32_t number(const char *text, struct argp_state *state)
{
    char *end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || value < 1 || value > 1000000)
        argp_error(state, "'%s': a whole number from 1 to 1000000 is wanted", text);
    return (uint32_t)value;
}

static void add_name(const char **names, size_t *n, const char *name, struct argp_state *state)
{
    if (*n == SERVE_MAX_NAMES)
        argp_error(state, "more than %d names", SERVE_MAX_NAMES);
    names[(*n)++] = name;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    serve_network *network = state->input;
    net_config *config = &network->config;
    switch (key) {
    case ARGP_KEY_INIT:
        config->hosts = network->hosts;
        config->origins = network->origins;
        config->key = getenv("PAWL_API_KEY");
        return 0;
    case KEY_FILE:
        config->key_file = arg;
        return 0;
    case KEY_HOST:
        add_name(network->hosts, &config->n_hosts, arg, state);
        return 0;
    case KEY_ORIGIN:
        add_name(network->origins, &config->n_origins, arg, state);
        return 0;
    case KEY_CERT:
        config->tls_cert = arg;
        return 0;
    case KEY_KEY:
        config->tls_key = arg;
        return 0;
    case KEY_CONNECTIONS:
        config->max_connections = number(arg, state);
        return 0;
    case KEY_ADDRESS:
        config->max_per_address = number(arg, state);
        return 0;
    case KEY_HEADER:
        config->header_timeout = number(arg, state);
        return 0;
    case KEY_BODY:
        config->body_timeout = number(arg, state);
        return 0;
    case KEY_WRITE:
        config->write_timeout = number(arg, state);
        return 0;
    case KEY_IDLE:
        config->idle_timeout = number(arg, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp serve_network_argp = {.options = option_table, .parser = parse_option};
