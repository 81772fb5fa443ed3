/*
 * tests/fuzz/script_fuzz.c - any bytes as a pipeline, and as JSON that one reads.
 *
 * Texts that begin with '{', '[' or '"' are decoded, encoded and decoded again, which must
 * give the same text; all others are the file of a pipeline, or the text of its function,
 * under small budgets. Whatever happens, it ends in its time with an end that has a name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/script.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char round_trip[] =
    "local h = require 'pawl' return h.pipeline{name = 'f', run = function(ctx, input)\n"
    "local v, e = h.parse(input.text)\n"
    "if e then assert(e.code == 'json' and v == nil) return end\n"
    "local once = h.json(v)\n"
    "local twice = h.json(h.parse(once))\n"
    "if once ~= twice then return 'differs' end end}";

static const char head[] =
    "local h = require 'pawl' return h.pipeline{name = 'f', run = function(ctx, input) ";

static const script_limits limits = {.memory = 4u << 20, .instructions = 300000, .wall_ms = 2000};

static void run(pipeline *p, const char *input, bool json)
{
    script_config config = {.clock = clock_system(), .pipeline = p, .limits = limits};
    script_result result;
    script_run(&config, input, &result);
    if (!*script_end_name(result.end) || (result.end == SCRIPT_DONE) != !result.message)
        abort();
    if (result.elapsed_ns > 5000000000 || (json && result.end == SCRIPT_FAILED))
        abort();
    if (json && result.value && strcmp(result.value, "\"differs\"") == 0)
        abort();
    script_result_clear(&result);
}

static void load_and_run(const char *text, size_t size, const char *input, bool json)
{
    pipeline *p = NULL;
    script_result why = {0};
    if (pipeline_load("fuzz.lua", text, size, NULL, 0, &limits, &p, &why)) {
        run(p, input, json);
        pipeline_release(p);
    } else if (!why.message || json) {
        abort();
    }
    script_result_clear(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    buf text;
    buf_init(&text, 2 * SCRIPT_MAX_SOURCE);
    if (size && data[0] && strchr("{[\"", data[0])) {
        buf_add_text(&text, "{\"text\":");
        json_add_quoted(&text, (pawl_bytes){(const char *)data, size});
        buf_add_text(&text, "}");
        load_and_run(round_trip, sizeof round_trip - 1, buf_text(&text), true);
    } else {
        load_and_run((const char *)data, size, "{}", false);
        buf_printf(&text, "%s", head);
        buf_add(&text, data, size);
        buf_add_text(&text, "\nend}");
        load_and_run(buf_text(&text), text.size, "{}", false);
    }
    buf_clear(&text);
    return 0;
}
