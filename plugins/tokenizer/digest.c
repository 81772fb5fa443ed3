/*
 * tokenizer/digest.c - names a vocabulary by what ids depend on.
 *
 * SHA-256 over the rule and every metadata value that this plugin reads, each with
 * its length before it, in a fixed order.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tokenizer/tokenizer.h"

#include <openssl/evp.h>
#include <string.h>

/* Rises when the same vocabulary would give other ids than before. */
#define GENERATION "pawl byte-level bpe 1"

static const char *const arrays[] = {
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.merges",
};

static const char *const ids[] = {
    "tokenizer.ggml.bos_token_id",     "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",     "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.padding_token_id",
};

static bool add(EVP_MD_CTX *context, const void *data, uint64_t size)
{
    return EVP_DigestUpdate(context, &size, sizeof size) == 1 &&
           (size == 0 || EVP_DigestUpdate(context, data, (size_t)size) == 1);
}

static bool add_everything(EVP_MD_CTX *context, const gguf_file *file, const char *rule)
{
    bool ok = add(context, GENERATION, strlen(GENERATION)) && add(context, rule, strlen(rule));
    for (size_t i = 0; ok && i < sizeof arrays / sizeof *arrays; i++) {
        gguf_array array = {.count = 0};
        (void)gguf_get_array(file, arrays[i], &array);
        ok = add(context, &array.type, sizeof array.type) && add(context, array.data, array.bytes);
    }
    for (size_t i = 0; ok && i < sizeof ids / sizeof *ids; i++) {
        uint64_t id = UINT64_MAX;
        (void)gguf_get_u64(file, ids[i], &id);
        ok = add(context, &id, sizeof id);
    }
    bool add_bos = false;
    uint8_t bos = gguf_get_bool(file, "tokenizer.ggml.add_bos_token", &add_bos) ? add_bos : 2;
    return ok && add(context, &bos, 1);
}

pawl_status tokenizer_digest(const gguf_file *file, const char *rule, char hex[65],
                             pawl_error *error)
{
    uint8_t hash[32];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool ok = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1 &&
              add_everything(context, file, rule) && EVP_DigestFinal_ex(context, hash, NULL) == 1;
    EVP_MD_CTX_free(context);
    if (!ok)
        return pawl_fail(error, PAWL_E_MEMORY, "the digest of the vocabulary cannot be made");
    for (size_t i = 0; i < sizeof hash; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    return PAWL_OK;
}
