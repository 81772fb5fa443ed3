/*
 * net/tls.c - the certificate and its key, as files. See tls.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/tls.h"

#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define MAX_PEM ((size_t)1 << 20)
#define WARN_DAYS 21

static pawl_status read_pem(const char *path, const char *option, const char *begin, buf *text,
                            pawl_error *error)
{
    pawl_status status = file_read(path, text, error);
    if (!status && (memchr(buf_text(text), '\0', text->size) || !strstr(buf_text(text), begin)))
        status =
            pawl_fail(error, PAWL_E_FORMAT, "%s %s: not in PEM form; '%s…' was to be found in it",
                      option, path, begin);
    return status;
}

static pawl_status check_key(const char *key, pawl_error *error)
{
    buf text;
    struct stat st;
    buf_init(&text, MAX_PEM);
    pawl_status status = read_pem(key, "--tls-key", "-----BEGIN ", &text, error);
    if (!status && !strstr(buf_text(&text), "PRIVATE KEY-----"))
        status =
            pawl_fail(error, PAWL_E_FORMAT, "--tls-key %s: there is no private key in it", key);
    if (!status && strstr(buf_text(&text), "ENCRYPTED"))
        status = pawl_fail(error, PAWL_E_UNSUPPORTED,
                           "--tls-key %s has a passphrase; `openssl pkey -in IN -out OUT` takes it "
                           "off",
                           key);
    if (!status && stat(key, &st) == 0 && (st.st_mode & 007))
        status = pawl_fail(error, PAWL_E_ARGUMENT,
                           "--tls-key %s has mode %03o: everybody can read it; chmod 600 it", key,
                           (unsigned)st.st_mode & 0777);
    if (text.data)
        explicit_bzero(text.data, text.size);
    buf_clear(&text);
    return status;
}

pawl_status tls_check(const char *certificate, const char *key, pawl_error *error)
{
    buf text;
    if (!certificate || !key)
        return pawl_fail(error, PAWL_E_ARGUMENT, "TLS needs both --tls-cert and --tls-key");
    buf_init(&text, MAX_PEM);
    pawl_status status =
        read_pem(certificate, "--tls-cert", "-----BEGIN CERTIFICATE-----", &text, error);
    buf_clear(&text);
    return status ? status : check_key(key, error);
}

void tls_configure(struct lws_context_creation_info *info, const char *certificate, const char *key)
{
    info->options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    info->ssl_cert_filepath = certificate;
    info->ssl_private_key_filepath = key;
    info->ssl_options_set = (long)(SSL_OP_NO_TLSv1 | SSL_OP_NO_TLSv1_1);
    info->alpn = "http/1.1";
}

void tls_report(struct lws_vhost *vhost, const char *certificate)
{
    union lws_tls_cert_info_results until;
    char text[32];
    struct tm tm;
    if (lws_tls_vhost_cert_info(vhost, LWS_TLS_CERT_INFO_VALIDITY_TO, &until, 0) != 0 ||
        !gmtime_r(&until.time, &tm) || !strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &tm))
        return;
    bool soon = until.time < time(NULL) + WARN_DAYS * 86400;
    log_write(soon ? PAWL_LOG_WARN : PAWL_LOG_INFO, "net", "the certificate %s %s %s", certificate,
              until.time < time(NULL) ? "has expired:" : "is good until", text);
}
