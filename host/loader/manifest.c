/*
 * loader/manifest.c - a manifest's dozen fields, checked by hand.
 *
 * There is no JSON Schema library worth its weight in C, and twelve fields need
 * none. Every refusal names the field. Strings in manifests are short words of
 * restricted alphabets, so that nothing in a manifest can become a path outside
 * its folder, a line in a log or a symbol of another kind.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/manifest.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#define MAX_MANIFEST (256u << 10)
#define MAX_WORD 128
#define MAX_LIST 64

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_low(char c)
{
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_' || c == '-';
}

static bool is_name(char c)
{
    return is_low(c) || (c >= 'A' && c <= 'Z');
}

/* "dev.pawl.cpu": two or more words of a-z 0-9 _ -, separated by dots. Returns the
 * number of characters that are one, or 0. */
static size_t id_length(const char *text)
{
    size_t i = 0, words = 0;
    for (;;) {
        size_t begin = i;
        while (is_low(text[i]))
            i++;
        if (i == begin)
            return 0;
        words++;
        if (text[i] != '.')
            return words >= 2 && i <= MAX_WORD ? i : 0;
        i++;
    }
}

static bool is_id(const char *text)
{
    size_t length = id_length(text);
    return length && text[length] == '\0';
}

/* "pawl.engine/1" */
static bool is_interface(const char *text)
{
    size_t i = id_length(text);
    if (!i || text[i] != '/' || text[i + 1] < '1' || text[i + 1] > '9')
        return false;
    for (i += 2; is_digit(text[i]); i++)
        if (i > MAX_WORD)
            return false;
    return text[i] == '\0';
}

/* "1.2.3" with, perhaps, "-rc.1" or "+build" */
static bool is_version(const char *text)
{
    size_t i = 0;
    for (int part = 0; part < 3; part++) {
        size_t begin = i;
        while (is_digit(text[i]))
            i++;
        if (i == begin || (part < 2 && text[i++] != '.'))
            return false;
    }
    if (text[i] == '-' || text[i] == '+')
        for (i++; is_name(text[i]) || text[i] == '.' || text[i] == '+';)
            i++;
    return text[i] == '\0' && i <= 64;
}

/* "cuda.so", "sub/cuda.so": parts that begin with no dot, so never "..". */
static bool is_library(const char *text)
{
    size_t size = strlen(text);
    if (size < 4 || size > 256 || strcmp(text + size - 3, ".so") != 0)
        return false;
    for (size_t i = 0; i < size; i++) {
        bool first = i == 0 || text[i - 1] == '/';
        if (!is_name(text[i]) && (first || (text[i] != '.' && text[i] != '/')))
            return false;
    }
    return true;
}

static bool is_sha256(const char *text)
{
    size_t i = 0;
    while (is_digit(text[i]) || (text[i] >= 'a' && text[i] <= 'f'))
        i++;
    return i == 64 && text[i] == '\0';
}

/* A feature's or a model family's name, or one line for a human. */
static bool is_word(const char *text)
{
    size_t i = 0;
    while (is_name(text[i]) || text[i] == '.')
        i++;
    return i > 0 && i <= MAX_WORD && text[i] == '\0';
}

static bool is_line(const char *text)
{
    size_t i = 0, characters = 0;
    for (; (unsigned char)text[i] >= ' ' && text[i] != 127; i++)
        characters += ((unsigned char)text[i] & 0xc0) != 0x80;
    return i > 0 && characters <= MAX_WORD && text[i] == '\0';
}

/* ---- fields ---- */

typedef pawl_status (*read_field)(const cJSON *value, manifest *out, pawl_error *error);

static pawl_status bad(pawl_error *error, const char *field, const char *want)
{
    return pawl_fail(error, PAWL_E_FORMAT, "manifest: \"%s\" must be %s", field, want);
}

static pawl_status take_text(const cJSON *value, bool (*good)(const char *), const char *want,
                             char **out, pawl_error *error)
{
    if (!cJSON_IsString(value) || !good(value->valuestring))
        return bad(error, value->string, want);
    *out = strdup(value->valuestring);
    return *out ? PAWL_OK : pawl_fail(error, PAWL_E_MEMORY, "no memory");
}

/* A list of distinct words, joined by ' '. out may be NULL: checked only. */
static pawl_status take_list(const cJSON *value, bool (*good)(const char *), int max,
                             const char *want, char **out, pawl_error *error)
{
    buf joined;
    const cJSON *item;
    int n = 0;
    pawl_status status = cJSON_IsArray(value) ? PAWL_OK : bad(error, value->string, want);
    buf_init(&joined, 16384);
    cJSON_ArrayForEach(item, value)
    {
        if (status)
            break;
        if (++n > max || !cJSON_IsString(item) || !good(item->valuestring) ||
            manifest_lists(buf_text(&joined), item->valuestring))
            status = bad(error, value->string, want);
        else
            buf_printf(&joined, "%s%s", n > 1 ? " " : "", item->valuestring);
    }
    if (!status && joined.failed)
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory");
    if (!status && out) {
        *out = strdup(buf_text(&joined));
        status = *out ? PAWL_OK : pawl_fail(error, PAWL_E_MEMORY, "no memory");
    }
    buf_clear(&joined);
    return status;
}

static bool whole_number(const cJSON *value, uint32_t *out)
{
    if (!cJSON_IsNumber(value) || value->valuedouble < 0 || value->valuedouble > 65535)
        return false;
    *out = (uint32_t)value->valuedouble;
    return *out == value->valuedouble;
}

static pawl_status read_manifest(const cJSON *value, manifest *out, pawl_error *error)
{
    uint32_t n;
    (void)out;
    return whole_number(value, &n) && n == 1 ? PAWL_OK
                                             : bad(error, "manifest", "1, the format's version");
}

static pawl_status read_id(const cJSON *value, manifest *out, pawl_error *error)
{
    return take_text(value, is_id, "a reverse domain like \"dev.pawl.cpu\"", &out->id, error);
}

static pawl_status read_name(const cJSON *value, manifest *out, pawl_error *error)
{
    return take_text(value, is_line, "one line of 1 to 128 characters", &out->name, error);
}

static pawl_status read_version(const cJSON *value, manifest *out, pawl_error *error)
{
    return take_text(value, is_version, "a version like \"1.2.0\"", &out->version, error);
}

static pawl_status read_license(const cJSON *value, manifest *out, pawl_error *error)
{
    (void)out;
    return cJSON_IsString(value) && is_line(value->valuestring)
               ? PAWL_OK
               : bad(error, "license", "one line of 1 to 128 characters");
}

static pawl_status read_library(const cJSON *value, manifest *out, pawl_error *error)
{
    return take_text(value, is_library,
                     "a path below the manifest's folder that ends in .so: no absolute path, no "
                     "part that begins with a dot",
                     &out->library, error);
}

static pawl_status read_sha256(const cJSON *value, manifest *out, pawl_error *error)
{
    return take_text(value, is_sha256, "64 hex digits in lower case", &out->sha256, error);
}

static pawl_status read_abi(const cJSON *value, manifest *out, pawl_error *error)
{
    const cJSON *major = json_get(value, "major");
    const cJSON *minor = json_get(value, "minor");
    bool good = cJSON_IsObject(value) && cJSON_GetArraySize(value) == 2 && major && minor &&
                whole_number(major, &out->abi_major) && whole_number(minor, &out->abi_minor);
    return good ? PAWL_OK : bad(error, "abi", "{\"major\": number, \"minor\": number}");
}

static pawl_status read_interfaces(const cJSON *value, manifest *out, pawl_error *error)
{
    static const char want[] = "1 to 16 different ids like \"pawl.engine/1\"";
    if (cJSON_IsArray(value) && cJSON_GetArraySize(value) == 0)
        return bad(error, "interfaces", want);
    return take_list(value, is_interface, MANIFEST_MAX_INTERFACES, want, &out->interfaces, error);
}

static pawl_status read_requires(const cJSON *value, manifest *out, pawl_error *error)
{
    static const char want[] = "a list of at most 64 different words";
    const cJSON *item;
    if (!cJSON_IsObject(value))
        return bad(error, "requires", "an object");
    cJSON_ArrayForEach(item, value)
    {
        pawl_status status;
        if (strcmp(item->string, "cpu") == 0 && !out->cpu)
            status = take_list(item, is_word, MAX_LIST, want, &out->cpu, error);
        else if (strcmp(item->string, "cuda_arch") == 0)
            status = take_list(item, is_word, MAX_LIST, want, NULL, error);
        else
            status = pawl_fail(error, PAWL_E_FORMAT,
                               "manifest: \"requires\" has \"cpu\" and \"cuda_arch\", once each, "
                               "not \"%.40s\"",
                               item->string);
        if (status)
            return status;
    }
    return PAWL_OK;
}

static pawl_status read_models(const cJSON *value, manifest *out, pawl_error *error)
{
    (void)out;
    return take_list(value, is_word, 1024, "a list of at most 1024 different family names", NULL,
                     error);
}

static pawl_status read_options(const cJSON *value, manifest *out, pawl_error *error)
{
    (void)out;
    return cJSON_IsObject(value) ? PAWL_OK : bad(error, "options", "a JSON schema, an object");
}

static const struct {
    const char *name;
    read_field read;
    bool required;
} fields[] = {
    {"manifest", read_manifest, true},
    {"id", read_id, true},
    {"name", read_name, true},
    {"version", read_version, true},
    {"license", read_license, false},
    {"library", read_library, true},
    {"sha256", read_sha256, false},
    {"abi", read_abi, true},
    {"interfaces", read_interfaces, true},
    {"requires", read_requires, false},
    {"models", read_models, false},
    {"options", read_options, false},
};

#define N_FIELDS (sizeof fields / sizeof *fields)

static pawl_status read_all(const cJSON *json, manifest *out, pawl_error *error)
{
    bool seen[N_FIELDS] = {false};
    const cJSON *item;
    if (!cJSON_IsObject(json))
        return pawl_fail(error, PAWL_E_FORMAT, "a manifest is a JSON object");
    cJSON_ArrayForEach(item, json)
    {
        size_t i = 0;
        while (i < N_FIELDS && strcmp(fields[i].name, item->string) != 0)
            i++;
        if (i == N_FIELDS)
            return pawl_fail(error, PAWL_E_FORMAT, "manifest: unknown key \"%.60s\"", item->string);
        if (seen[i])
            return pawl_fail(error, PAWL_E_FORMAT, "manifest: \"%s\" is given twice", item->string);
        seen[i] = true;
        pawl_status status = fields[i].read(item, out, error);
        if (status)
            return status;
    }
    for (size_t i = 0; i < N_FIELDS; i++)
        if (fields[i].required && !seen[i])
            return pawl_fail(error, PAWL_E_FORMAT, "manifest: \"%s\" is missing", fields[i].name);
    return PAWL_OK;
}

/* ---- public ---- */

pawl_status manifest_parse(const char *text, size_t size, manifest *out, pawl_error *error)
{
    manifest m = {0};
    cJSON *json;
    if (size > MAX_MANIFEST)
        return pawl_fail(error, PAWL_E_LIMIT, "a manifest has at most %u bytes", MAX_MANIFEST);
    pawl_status status = json_parse(text, size, &json, error);
    if (status)
        return status;
    status = read_all(json, &m, error);
    cJSON_Delete(json);
    if (status)
        manifest_clear(&m);
    else
        *out = m;
    return status;
}

pawl_status manifest_read(const char *path, manifest *out, pawl_error *error)
{
    buf text;
    buf_init(&text, MAX_MANIFEST);
    pawl_status status = file_read(path, &text, error);
    if (!status)
        status = manifest_parse(buf_text(&text), text.size, out, error);
    buf_clear(&text);
    return status;
}

void manifest_clear(manifest *m)
{
    free(m->id);
    free(m->name);
    free(m->version);
    free(m->library);
    free(m->sha256);
    free(m->interfaces);
    free(m->cpu);
    *m = (manifest){0};
}

bool manifest_each_interface(const char *interfaces, bool (*visit)(void *arg, const char *id),
                             void *arg)
{
    char id[MAX_WORD * 2];
    while (*interfaces) {
        size_t size = strcspn(interfaces, " ");
        snprintf(id, sizeof id, "%.*s", (int)size, interfaces);
        if (!visit(arg, id))
            return false;
        interfaces += size + (interfaces[size] == ' ');
    }
    return true;
}

bool manifest_lists(const char *joined, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = joined; (at = strstr(at, word)); at++)
        if ((at == joined || at[-1] == ' ') && (at[size] == '\0' || at[size] == ' '))
            return true;
    return false;
}
