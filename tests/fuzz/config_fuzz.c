/*
 * tests/fuzz/config_fuzz.c - configuration files: any bytes at all.
 *
 * What is accepted must print as a configuration that is accepted too and prints the
 * same, apart from where values come from; what is refused must say so, with a place.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static config *read_config(const char *text, size_t size, buf *printed)
{
    config *c = config_open();
    require(c != NULL);
    config_read_text(c, "/f", text, size);
    buf_init(printed, 16u << 20);
    config_print(c, printed);
    require(!printed->failed);
    return c;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    buf first, second;
    config *c = read_config((const char *)data, size, &first);
    if (config_error_count(c)) {
        require(strncmp(config_errors(c), "/f:", 3) == 0);
    } else {
        config *again = read_config(buf_text(&first), first.size, &second);
        require(config_error_count(again) == 0);
        require(config_model_count(again) == config_model_count(c));
        for (int id = 0; id < CONFIG_COUNT; id++)
            require(config_number(again, (enum config_id)id) ==
                    config_number(c, (enum config_id)id));
        buf_clear(&second);
        config_close(again);
    }
    buf_clear(&first);
    config_close(c);
    return 0;
}
