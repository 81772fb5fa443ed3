/*
 * net/tls.h - the certificate and its key, as files. [main]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <pawl/plugin.h>

#include <libwebsockets.h>

/* What can be said about the files before OpenSSL looks at them, whose own words are
 * hard to understand: both given, readable, PEM, without a passphrase, the key private. */
pawl_status tls_check(const char *certificate, const char *key, pawl_error *error);
/* The settings of a vhost: TLS 1.2 and later, HTTP/1.1. The names are borrowed. */
void tls_configure(struct lws_context_creation_info *info, const char *certificate,
                   const char *key);
/* A vhost that serves: says until when its certificate is good, and warns before that. */
void tls_report(struct lws_vhost *vhost, const char *certificate);

#endif /* NET_TLS_H */
