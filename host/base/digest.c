/*
 * base/digest.c - SHA-256 over OpenSSL's EVP interface. See digest.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

static pawl_status finish_binary(EVP_MD_CTX *context, uint8_t sum[DIGEST_SIZE], pawl_error *error)
{
    unsigned char all[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (EVP_DigestFinal_ex(context, all, &size) != 1 || size != DIGEST_SIZE)
        return pawl_fail(error, PAWL_E_INTERNAL, "SHA-256 failed");
    memcpy(sum, all, DIGEST_SIZE);
    return PAWL_OK;
}

static pawl_status finish(EVP_MD_CTX *context, char hex[DIGEST_HEX_SIZE], pawl_error *error)
{
    uint8_t sum[DIGEST_SIZE];
    pawl_status status = finish_binary(context, sum, error);
    for (unsigned i = 0; !status && i < DIGEST_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    return status;
}

static pawl_status begin(EVP_MD_CTX **context, pawl_error *error)
{
    *context = EVP_MD_CTX_new();
    if (*context && EVP_DigestInit_ex(*context, EVP_sha256(), NULL) == 1)
        return PAWL_OK;
    EVP_MD_CTX_free(*context);
    return pawl_fail(error, PAWL_E_MEMORY, "no memory for SHA-256");
}

pawl_status digest_bytes(const void *data, size_t size, char hex[DIGEST_HEX_SIZE],
                         pawl_error *error)
{
    EVP_MD_CTX *context;
    pawl_status status = begin(&context, error);
    if (status)
        return status;
    EVP_DigestUpdate(context, data, size);
    status = finish(context, hex, error);
    EVP_MD_CTX_free(context);
    return status;
}

pawl_status digest_pieces(const pawl_bytes *pieces, size_t n_pieces, uint8_t sum[DIGEST_SIZE],
                          pawl_error *error)
{
    EVP_MD_CTX *context;
    pawl_status status = begin(&context, error);
    if (status)
        return status;
    for (size_t i = 0; i < n_pieces; i++) {
        uint8_t size[8];
        for (size_t k = 0; k < sizeof size; k++)
            size[k] = (uint8_t)(pieces[i].size >> 8 * k);
        EVP_DigestUpdate(context, size, sizeof size);
        EVP_DigestUpdate(context, pieces[i].data, (size_t)pieces[i].size);
    }
    status = finish_binary(context, sum, error);
    EVP_MD_CTX_free(context);
    return status;
}

pawl_status digest_file(const char *path, char hex[DIGEST_HEX_SIZE], pawl_error *error)
{
    EVP_MD_CTX *context;
    FILE *file = fopen(path, "rb");
    if (!file)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", path, strerror(errno));
    pawl_status status = begin(&context, error);
    if (!status) {
        char block[65536];
        size_t n;
        while ((n = fread(block, 1, sizeof block, file)) > 0)
            EVP_DigestUpdate(context, block, n);
        status = ferror(file) ? pawl_fail(error, PAWL_E_FORMAT, "%s: cannot be read", path)
                              : finish(context, hex, error);
        EVP_MD_CTX_free(context);
    }
    fclose(file);
    return status;
}
