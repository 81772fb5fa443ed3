/*
 * tests/fuzz/manifest_fuzz.c - plugin manifests: any bytes at all.
 *
 * What is accepted must keep the promises that the loader builds paths and lists
 * on: a library below its folder, a known alphabet.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/manifest.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    manifest m;
    pawl_error error = {.struct_size = sizeof error};
    if (manifest_parse((const char *)data, size, &m, &error)) {
        require(error.message[0] != '\0');
        return 0;
    }
    require(m.id && m.name && m.version && m.library && m.interfaces);
    require(m.library[0] != '/' && m.library[0] != '.' && !strstr(m.library, "/."));
    require(strspn(m.id, "abcdefghijklmnopqrstuvwxyz0123456789._-") == strlen(m.id));
    require(!m.sha256 || strlen(m.sha256) == 64);
    manifest_clear(&m);
    return 0;
}
