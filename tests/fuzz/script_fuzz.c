/*
 * tests/fuzz/script_fuzz.c - any bytes as a script, and as JSON that a script reads.
 *
 * Texts that begin with '{', '[' or '"' are decoded, encoded and decoded again, which must
 * give the same text; all others run as a script under small budgets. Whatever happens,
 * the run ends in its time with an end that has a name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/script.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char round_trip[] = "local v, e = pawl.json.decode(pawl.params.text)\n"
                                 "if e then assert(e.code == 'json' and v == nil) return end\n"
                                 "local once = pawl.json.encode(v)\n"
                                 "local twice = pawl.json.encode(pawl.json.decode(once))\n"
                                 "if once ~= twice then return 'differs' end";

static void on_emit(void *arg, const char *json, size_t size)
{
    (void)size;
    if (*(bool *)arg && strcmp(json, "\"differs\"") == 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool json = size && strchr("{[\"", data[0]) && data[0];
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    script_param param = {"text", text};
    script_config config = {.clock = clock_system(),
                            .name = "fuzz.lua",
                            .source = json ? round_trip : text,
                            .size = json ? sizeof round_trip - 1 : size,
                            .params = &param,
                            .n_params = 1,
                            .max_memory = 4u << 20,
                            .max_instructions = 300000,
                            .max_ms = 2000,
                            .listener = {.emit = on_emit, .arg = &json}};
    script_result result;
    script_run(&config, &result);
    if (!*script_end_name(result.end) || (result.end == SCRIPT_DONE) != !result.message)
        abort();
    if (result.elapsed_ns > 5000000000 || (json && result.end == SCRIPT_FAILED))
        abort();
    script_result_clear(&result);
    free(text);
    return 0;
}
