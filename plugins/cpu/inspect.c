/*
 * cpu/inspect.c - what is in a GGUF file, as JSON, without loading it.
 *
 * A file that this engine cannot run is described all the same, with the reason:
 * the very check that open() makes. Strings come from the file and may hold any
 * bytes; what is not UTF-8 becomes '?'.
 * Any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/engine.h"

#include <pawl/plugin_util.h>

#include <cjson/cJSON.h>

#include "cpu/memory.h"
#include "formats/label.h"

#define MAX_TYPES 64u                /* tensor types that are told apart */
#define MAX_TEXT ((uint64_t)1 << 20) /* of one string                  */

/* Length of the UTF-8 character at p, or 0: none there. */
static size_t character(const unsigned char *p, size_t left)
{
    static const unsigned char least[] = {0x80, 0xa0, 0x90};
    size_t n = p[0] < 0x80                    ? 1
               : p[0] >= 0xc2 && p[0] <= 0xdf ? 2
               : p[0] >= 0xe0 && p[0] <= 0xef ? 3
               : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                              : 0;
    if (n > left || p[0] == 0)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < least[1]) || (p[0] == 0xf0 && p[1] < least[2]) ||
        (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

/* Adds the string of a key, or null. */
static void add_text(cJSON *object, const char *name, const gguf_file *file, const char *key)
{
    pawl_bytes text;
    char *copy = NULL;
    if (gguf_get_string(file, key, &text) && text.size <= MAX_TEXT)
        copy = pawl_bytes_copy(text);
    if (!copy) {
        cJSON_AddNullToObject(object, name);
        return;
    }
    for (size_t i = 0; i < text.size;) {
        size_t n = character((const unsigned char *)copy + i, (size_t)text.size - i);
        if (n == 0)
            copy[i] = '?';
        i += n ? n : 1;
    }
    cJSON_AddStringToObject(object, name, copy);
    free(copy);
}

static void add_count(cJSON *object, const char *name, const gguf_file *file, const char *key)
{
    uint64_t value;
    if (gguf_get_u64(file, key, &value))
        cJSON_AddNumberToObject(object, name, (double)value);
}

/* Counts and bytes by type; returns the number of parameters, *bytes their size. */
static double add_tensors(cJSON *object, const gguf_file *file, double *bytes)
{
    double counts[MAX_TYPES] = {0};
    double sizes[MAX_TYPES] = {0};
    double parameters = 0;
    cJSON *tensors = cJSON_AddObjectToObject(object, "tensors");
    *bytes = 0;
    for (uint64_t i = 0; i < gguf_tensor_count(file); i++) {
        const gguf_tensor *t = gguf_tensor_at(file, i);
        double elements = 1;
        for (size_t d = 0; d < GGUF_MAX_DIMS; d++)
            elements *= (double)t->dims[d];
        parameters += elements;
        *bytes += (double)t->bytes;
        if (t->type < MAX_TYPES) {
            counts[t->type] += 1;
            sizes[t->type] += (double)t->bytes;
        }
    }
    for (uint32_t type = 0; type < MAX_TYPES; type++) {
        const char *name = gguf_type_name(type);
        if (counts[type] == 0 || !name)
            continue;
        cJSON *entry = cJSON_AddObjectToObject(tensors, name);
        cJSON_AddNumberToObject(entry, "count", counts[type]);
        cJSON_AddNumberToObject(entry, "bytes", sizes[type]);
    }
    return parameters;
}

static void add_special(cJSON *object, const gguf_file *file)
{
    static const char *const names[] = {"bos",     "eos",     "eot",       "eom",
                                        "unknown", "padding", "seperator", "mask"};
    cJSON *special = cJSON_AddObjectToObject(object, "special");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", names[i]);
        add_count(special, names[i], file, key);
    }
}

/* The vocabulary's size: rows of the embedding, else the list of tokens. */
static void add_vocab(cJSON *object, const gguf_file *file)
{
    const gguf_tensor *embedding = gguf_tensor_find(file, "token_embd.weight");
    gguf_array tokens;
    if (embedding)
        cJSON_AddNumberToObject(object, "vocab", (double)embedding->dims[1]);
    else if (gguf_get_array(file, "tokenizer.ggml.tokens", &tokens))
        cJSON_AddNumberToObject(object, "vocab", (double)tokens.count);
}

static void add_context(cJSON *object, const gguf_file *file)
{
    pawl_bytes family;
    char key[96];
    if (!gguf_get_string(file, "general.architecture", &family) || family.size > 64)
        return;
    snprintf(key, sizeof key, "%s.context_length", label_of(family).text);
    add_count(object, "context", file, key);
}

/* Sizes that need a model which this engine understands. */
static void add_use(cJSON *object, model *m, double weights)
{
    pawl_error why = {.struct_size = sizeof why};
    pawl_status status = model_bind(m, &why);
    cJSON *memory = cJSON_AddObjectToObject(object, "memory");
    cJSON_AddNumberToObject(memory, "weights", weights);
    if (status == PAWL_OK) {
        cJSON_AddNumberToObject(memory, "kv_per_token",
                                (double)kv_page_bytes(m, KERNELS_KV_F16) / KV_PAGE);
        cJSON *by_type = cJSON_AddObjectToObject(memory, "kv_per_token_by_type");
        for (uint32_t kv = 0; kv < KERNELS_KV_TYPES; kv++)
            cJSON_AddNumberToObject(by_type, options_kv_name(kv),
                                    (double)kv_page_bytes(m, kv) / KV_PAGE);
        cJSON_AddNumberToObject(memory, "scratch", (double)forward_bytes(m, 1));
    }
    cJSON_AddBoolToObject(object, "usable", status == PAWL_OK);
    if (status != PAWL_OK)
        cJSON_AddStringToObject(object, "why", why.message);
}

static cJSON *describe(model *m)
{
    double weights;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "format", "gguf");
    add_text(object, "family", m->file, "general.architecture");
    add_text(object, "name", m->file, "general.name");
    double parameters = add_tensors(object, m->file, &weights);
    cJSON_AddNumberToObject(object, "parameters", parameters);
    cJSON_AddNumberToObject(object, "file_bytes", (double)gguf_file_bytes(m->file));
    add_context(object, m->file);
    add_vocab(object, m->file);
    cJSON *tokenizer = cJSON_AddObjectToObject(object, "tokenizer");
    add_text(tokenizer, "model", m->file, "tokenizer.ggml.model");
    add_text(tokenizer, "pre", m->file, "tokenizer.ggml.pre");
    add_special(object, m->file);
    add_text(object, "chat_template", m->file, "tokenizer.chat_template");
    add_use(object, m, weights);
    return object;
}

pawl_status engine_inspect(pawl_bytes path, const pawl_sink *json, pawl_error *error)
{
    model m = {0};
    pawl_status status = gguf_open(path, &m.file, error);
    if (status != PAWL_OK)
        return status;
    cJSON *object = describe(&m);
    char *text = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    model_clear(&m);
    if (!text)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a description");
    status = pawl_sink_text(json, text);
    free(text);
    return status;
}
