/*
 * script/pipeline.c - a pipeline: a file that declares itself. See pipeline.h.
 *
 * A bundle is JSON: {"text":…,"modules":{NAME:TEXT,…}}.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/pipeline.h"

#include "base/file.h"
#include "base/utf8.h"
#include "script/schema.h"
#include "script/state.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_MEMORY (64u << 20)

static bool refuse(script_result *why, enum script_end end, const char *message)
{
    *why = (script_result){.end = end, .message = strdup(message)};
    return false;
}

pipeline *pipeline_retain(pipeline *p)
{
    __atomic_add_fetch(&p->references, 1, __ATOMIC_RELAXED);
    return p;
}

void pipeline_release(pipeline *p)
{
    if (!p || __atomic_sub_fetch(&p->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    for (size_t i = 0; i < p->n_modules; i++) {
        free(p->modules[i].name);
        free(p->modules[i].text);
    }
    cJSON_Delete(p->params);
    free(p->name);
    free(p->description);
    free(p->title);
    free(p->text);
    free(p->bundle);
    free(p);
}

/* ------------------------------------------------------------- making one */

static pipeline *new_pipeline(const char *title, const char *text, size_t size, script_result *why)
{
    char message[200];
    size_t valid = utf8_valid_prefix(text, size);
    if (size > SCRIPT_MAX_SOURCE) {
        refuse(why, SCRIPT_MEMORY, "the script has more than 1 MiB of text");
        return NULL;
    }
    if (valid != size || memchr(text, '\0', size)) {
        snprintf(message, sizeof message, "%.100s: no UTF-8 text, but other bytes at %zu", title,
                 valid != size ? valid : (size_t)((const char *)memchr(text, '\0', size) - text));
        refuse(why, SCRIPT_SYNTAX, message);
        return NULL;
    }
    pipeline *p = calloc(1, sizeof *p);
    if (p) {
        p->references = 1;
        p->title = strdup(title);
        p->text = strndup(text, size);
    }
    if (p && p->title && p->text)
        return p;
    pipeline_release(p);
    refuse(why, SCRIPT_MEMORY, "no memory for a pipeline");
    return NULL;
}

static bool make_bundle(pipeline *p, script_result *why)
{
    buf out;
    buf_init(&out, PIPELINE_MAX_BUNDLE);
    buf_add_text(&out, "{\"text\":");
    json_add_quoted(&out, json_text(p->text));
    buf_add_text(&out, ",\"modules\":{");
    for (size_t i = 0; i < p->n_modules; i++) {
        buf_add_text(&out, i ? "," : "");
        json_add_quoted(&out, json_text(p->modules[i].name));
        buf_add_text(&out, ":");
        json_add_quoted(&out, json_text(p->modules[i].text));
    }
    buf_add_text(&out, "}}");
    bool fits = !out.failed && digest_bytes(out.data, out.size, p->hash, NULL) == PAWL_OK;
    p->bundle = fits ? buf_take(&out) : NULL;
    buf_clear(&out);
    return p->bundle || refuse(why, SCRIPT_MEMORY, "the script and its modules have over 4 MiB");
}

static bool take_declaration(pipeline *p, const declaration *from, script_result *why)
{
    p->name = strdup(from->name);
    p->limits = from->limits;
    if (from->description)
        p->description = strdup(from->description);
    if (from->params && json_parse(from->params, strlen(from->params), &p->params, NULL) != PAWL_OK)
        return refuse(why, SCRIPT_MEMORY, "no memory for a pipeline");
    return p->name || refuse(why, SCRIPT_MEMORY, "no memory for a pipeline");
}

/* Runs the file once, for what it declares and requires. Takes the pipeline. */
static bool declare(pipeline *p, const char *const *roots, size_t n_roots,
                    const script_limits *limits, pipeline **out, script_result *why)
{
    script_config config = {.clock = clock_system(), .pipeline = p, .limits = *limits};
    script *s = NULL;
    script_result unused;
    bool good = script_load(&config, roots, n_roots, &s, why);
    if (good) {
        good = take_declaration(p, &s->declared, why) && make_bundle(p, why);
        script_close(s, &unused);
        script_result_clear(&unused);
    }
    if (good)
        *out = p;
    else
        pipeline_release(p);
    return good;
}

bool pipeline_load(const char *title, const char *text, size_t size, const char *const *roots,
                   size_t n_roots, const script_limits *limits, pipeline **out, script_result *why)
{
    pipeline *p = new_pipeline(title, text, size, why);
    return p && declare(p, roots, n_roots, limits, out, why);
}

bool pipeline_read(const char *path, const char *const *roots, size_t n_roots,
                   const script_limits *limits, pipeline **out, script_result *why)
{
    const char *all[PIPELINE_MAX_ROOTS + 1];
    const char *slash = strrchr(path, '/');
    pawl_error error = {.struct_size = sizeof error};
    buf text;
    buf_init(&text, SCRIPT_MAX_SOURCE);
    if (file_read(path, &text, &error) != PAWL_OK) {
        buf_clear(&text);
        return refuse(why, SCRIPT_SYNTAX, error.message);
    }
    char *own = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    all[0] = own ? own : ".";
    for (size_t i = 0; i < n_roots && i < PIPELINE_MAX_ROOTS; i++)
        all[i + 1] = roots[i];
    bool good = pipeline_load(slash ? slash + 1 : path, buf_text(&text), text.size, all,
                              1 + (n_roots < PIPELINE_MAX_ROOTS ? n_roots : PIPELINE_MAX_ROOTS),
                              limits, out, why);
    free(own);
    buf_clear(&text);
    return good;
}

bool pipeline_unbundle(const char *title, const char *bundle, const script_limits *limits,
                       pipeline **out, script_result *why)
{
    cJSON *json = NULL;
    const cJSON *module;
    json_parse(bundle, strlen(bundle), &json, NULL);
    const char *text = json_get_text(json, "text");
    pipeline *p = text ? new_pipeline(title, text, strlen(text), why) : NULL;
    if (!text)
        refuse(why, SCRIPT_SYNTAX, "the stored script is damaged");
    cJSON_ArrayForEach(module, json_get(json, "modules"))
    {
        if (!p || p->n_modules == PIPELINE_MAX_MODULES || !cJSON_IsString(module))
            break;
        p->modules[p->n_modules].name = strdup(module->string);
        p->modules[p->n_modules].text = strdup(module->valuestring);
        p->n_modules++;
    }
    cJSON_Delete(json);
    return p && declare(p, NULL, 0, limits, out, why);
}

/* ------------------------------------------------------------- inputs */

pawl_status pipeline_set_member(const pipeline *p, cJSON *input, const char *text,
                                pawl_error *error)
{
    const char *equals = strchr(text, '=');
    char *name = equals ? strndup(text, (size_t)(equals - text)) : NULL;
    cJSON *value = NULL;
    pawl_status status = name ? schema_typed(p->params, name, equals + 1, &value, error)
                              : pawl_fail(error, PAWL_E_ARGUMENT, "%.100s: K=V is wanted", text);
    if (!status) {
        cJSON_DeleteItemFromObjectCaseSensitive(input, name);
        cJSON_AddItemToObject(input, name, value);
    }
    free(name);
    return status;
}

/* ------------------------------------------------------------- limits */

static uint64_t stricter(uint64_t a, uint64_t b)
{
    return !a ? b : !b ? a : a < b ? a : b;
}

script_limits pipeline_limits(const pipeline *p, const script_limits *allowed)
{
    const script_limits *own = &p->limits;
    return (script_limits){
        .memory = (size_t)stricter(own->memory ? own->memory : DEFAULT_MEMORY, allowed->memory),
        .instructions = stricter(own->instructions, allowed->instructions),
        .wall_ms = (int64_t)stricter((uint64_t)own->wall_ms, (uint64_t)allowed->wall_ms),
        .tokens = stricter(own->tokens, allowed->tokens),
        .calls = stricter(own->calls, allowed->calls),
        .tool_calls = stricter(own->tool_calls, allowed->tool_calls)};
}
