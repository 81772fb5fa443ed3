/*
 * script/tools.c - the file of tools that a host offers. See tools.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/tools.h"

#include "base/file.h"
#include "script/child.h"
#include "script/http.h"
#include "script/schema.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NAME 64
#define MAX_SECRET (16u << 10)
#define MOST_MS 600000
#define DEFAULT_MS 30000
#define DEFAULT_BYTES (256u << 10)
#define DEFAULT_MEMORY_MB 1024
#define DEFAULT_PROCESSES 16

/* ------------------------------------------------------------- parts */

static void clear_words(tool_words *words)
{
    for (size_t i = 0; i < words->n; i++)
        free(words->list[i]);
    *words = (tool_words){.n = 0};
}

/* The text becomes the list's. False: no memory, or too many. */
static bool add_word(tool_words *words, char *text)
{
    if (!text || words->n == TOOLS_MAX_WORDS) {
        free(text);
        return false;
    }
    words->list[words->n++] = text;
    return true;
}

static pawl_status refuse_unknown(const cJSON *object, const char *const *known, const char *what,
                                  pawl_error *error)
{
    const cJSON *member;
    if (!cJSON_IsObject(object))
        return pawl_fail(error, PAWL_E_FORMAT, "%s must be an object", what);
    cJSON_ArrayForEach(member, object)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], member->string) != 0)
            i++;
        if (!known[i])
            return pawl_fail(error, PAWL_E_FORMAT, "%s has an unknown member '%.60s'", what,
                             member->string);
    }
    return PAWL_OK;
}

/* A whole number in a range; absent: the fallback. */
static pawl_status read_number(const cJSON *object, const char *name, double least, double most,
                               double fallback, uint64_t *value, pawl_error *error)
{
    const cJSON *member = json_get(object, name);
    double number = !member ? fallback : cJSON_IsNumber(member) ? member->valuedouble : -1;
    if (!(number >= least && number <= most) || number != (double)(uint64_t)number)
        return pawl_fail(error, PAWL_E_FORMAT, "'%s' is a whole number from %.0f to %.0f", name,
                         least, most);
    *value = (uint64_t)number;
    return PAWL_OK;
}

static pawl_status read_switch(const cJSON *object, const char *name, bool *value,
                               pawl_error *error)
{
    const cJSON *member = json_get(object, name);
    if (member && !cJSON_IsBool(member))
        return pawl_fail(error, PAWL_E_FORMAT, "'%s' is true or false", name);
    *value = cJSON_IsTrue(member);
    return PAWL_OK;
}

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return true;
    return false;
}

/* ------------------------------------------------------------- secrets */

/* The value of a header: a text, or {"env": NAME} or {"file": PATH}, with a "prefix". */
static pawl_status read_secret(const cJSON *from, const char *name, buf *value, pawl_error *error)
{
    static const char *const known[] = {"env", "file", "prefix", NULL};
    const char *variable = json_get_text(from, "env"), *file = json_get_text(from, "file");
    const char *prefix = json_get_text(from, "prefix");
    pawl_status status = PAWL_OK;
    if (cJSON_IsString(from)) {
        buf_add_text(value, from->valuestring);
    } else {
        status = refuse_unknown(from, known, "a header's value", error);
        if (!status && !variable == !file)
            status =
                pawl_fail(error, PAWL_E_FORMAT,
                          "the header '%s' is a text, or an object with 'env' or 'file'", name);
        buf_add_text(value, prefix ? prefix : "");
        const char *secret = variable && !status ? getenv(variable) : NULL;
        if (!status && file)
            status = file_read(file, value, error);
        else if (!status && !secret)
            status = pawl_fail(error, PAWL_E_NOT_FOUND,
                               "the header '%s' needs the environment variable %s", name, variable);
        else if (!status)
            buf_add_text(value, secret);
    }
    while (value->size &&
           (value->data[value->size - 1] == '\n' || value->data[value->size - 1] == '\r'))
        value->data[--value->size] = '\0';
    if (!status &&
        (value->failed || strlen(buf_text(value)) != value->size || has_control(buf_text(value))))
        status =
            pawl_fail(error, PAWL_E_FORMAT, "the value of the header '%s' is not one line", name);
    return status;
}

static pawl_status read_headers(const cJSON *headers, tool *t, pawl_error *error)
{
    const cJSON *header;
    if (headers && !cJSON_IsObject(headers))
        return pawl_fail(error, PAWL_E_FORMAT, "'headers' is an object");
    cJSON_ArrayForEach(header, headers)
    {
        const char *name = header->string;
        buf value;
        char *line = NULL;
        if (!*name || strpbrk(name, " :\t") || has_control(name))
            return pawl_fail(error, PAWL_E_FORMAT, "'%.60s' is no name of a header", name);
        buf_init(&value, MAX_SECRET);
        pawl_status status = read_secret(header, name, &value, error);
        if (!status && asprintf(&line, "%s: %s", name, buf_text(&value)) < 0)
            line = NULL;
        buf_clear(&value);
        if (status)
            return status;
        if (!add_word(&t->headers, line))
            return pawl_fail(error, PAWL_E_LIMIT, "more than %d headers", TOOLS_MAX_WORDS);
    }
    return PAWL_OK;
}

/* ------------------------------------------------------------- one tool */

static pawl_status read_request(const cJSON *json, tool *t, pawl_error *error)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", NULL};
    char origin[HTTP_MAX_ORIGIN];
    const char *url = json_get_text(json, "url"), *method = json_get_text(json, "method");
    size_t i = 0;
    pawl_status status = http_check_url(url ? url : "", origin, error);
    if (json_get(json, "method") && !method)
        method = "?";
    while (!status && method && methods[i] && strcmp(methods[i], method) != 0)
        i++;
    if (!status && !methods[i])
        status = pawl_fail(error, PAWL_E_FORMAT, "'method' is GET, POST, PUT, PATCH or DELETE");
    if (!status)
        status = read_headers(json_get(json, "headers"), t, error);
    if (!status)
        status = read_switch(json, "private", &t->private_addresses, error);
    if (status)
        return status;
    t->url = strdup(url);
    t->method = strdup(methods[i]);
    return t->url && t->method ? PAWL_OK : pawl_fail(error, PAWL_E_MEMORY, "no memory for a tool");
}

/* The environment of a command: a few of ours, and those it names. */
static pawl_status read_environment(const cJSON *names, tool *t, pawl_error *error)
{
    static const char *const usual[] = {("PATH=" CHILD_PATH), "LANG=C.UTF-8", "HOME=/",
                                        "TMPDIR=/tmp"};
    const cJSON *name;
    bool good = true;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        good = good && add_word(&t->environment, strdup(usual[i]));
    if (names && !cJSON_IsArray(names))
        return pawl_fail(error, PAWL_E_FORMAT, "'env' is a list of names");
    cJSON_ArrayForEach(name, names)
    {
        char *line = NULL;
        const char *value = cJSON_IsString(name) ? getenv(name->valuestring) : NULL;
        if (!value)
            return pawl_fail(error, PAWL_E_NOT_FOUND, "the environment has no %.60s",
                             cJSON_IsString(name) ? name->valuestring : "such name");
        if (asprintf(&line, "%s=%s", name->valuestring, value) < 0)
            line = NULL;
        good = good && add_word(&t->environment, line);
    }
    return good ? PAWL_OK
                : pawl_fail(error, PAWL_E_LIMIT, "more than %d variables", TOOLS_MAX_WORDS);
}

static pawl_status read_command(const cJSON *json, tool *t, pawl_error *error)
{
    const cJSON *word, *command = json_get(json, "command");
    uint64_t memory_mb = 0, processes = 0;
    cJSON_ArrayForEach(word, command)
    {
        if (!cJSON_IsString(word) || !add_word(&t->command, strdup(word->valuestring)))
            return pawl_fail(error, PAWL_E_FORMAT, "'command' is a list of 1 to %d texts",
                             TOOLS_MAX_WORDS);
    }
    if (!cJSON_IsArray(command) || t->command.n == 0)
        return pawl_fail(error, PAWL_E_FORMAT, "'command' is a list of 1 to %d texts",
                         TOOLS_MAX_WORDS);
    if (!child_exists(t->command.list[0]))
        return pawl_fail(error, PAWL_E_NOT_FOUND,
                         "the program '%.200s' cannot be run; programs are "
                         "looked for in " CHILD_PATH,
                         t->command.list[0]);
    pawl_status status = read_environment(json_get(json, "env"), t, error);
    if (!status)
        status = read_number(json, "memory_mb", 1, 1 << 20, DEFAULT_MEMORY_MB, &memory_mb, error);
    if (!status)
        status = read_number(json, "processes", 1, 4096, DEFAULT_PROCESSES, &processes, error);
    if (!status)
        status = read_switch(json, "network", &t->network, error);
    t->memory = memory_mb << 20;
    t->processes = (uint32_t)processes;
    return status;
}

static bool is_name(const char *name)
{
    size_t size = name ? strlen(name) : 0;
    return size >= 1 && size <= MAX_NAME &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == size;
}

static pawl_status declare(const cJSON *json, tool *t, pawl_error *error)
{
    const cJSON *parameters = json_get(json, "parameters"),
                *description = json_get(json, "description");
    pawl_status status = parameters ? schema_check(parameters, error) : PAWL_OK;
    cJSON *made = cJSON_CreateObject();
    if (!status && description && !cJSON_IsString(description))
        status = pawl_fail(error, PAWL_E_FORMAT, "'description' is a text");
    cJSON_AddStringToObject(made, "name", t->name);
    if (description)
        cJSON_AddItemToObject(made, "description", cJSON_Duplicate(description, true));
    if (parameters)
        cJSON_AddItemToObject(made, "parameters", cJSON_Duplicate(parameters, true));
    t->declaration = json_print(made);
    cJSON_Delete(made);
    if (!status && !t->declaration)
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory for a tool");
    return status;
}

static pawl_status read_parts(const cJSON *json, tool *t, pawl_error *error)
{
    static const char *const of_request[] = {"name",      "description", "parameters", "url",
                                             "method",    "headers",     "private",    "timeout_ms",
                                             "max_bytes", NULL};
    static const char *const of_command[] = {"name",       "description", "parameters", "command",
                                             "env",        "memory_mb",   "processes",  "network",
                                             "timeout_ms", "max_bytes",   NULL};
    bool request = json_get(json, "url") != NULL;
    uint64_t timeout_ms = 0, max_bytes = 0;
    if (!request && !json_get(json, "command"))
        return pawl_fail(error, PAWL_E_FORMAT, "it has a 'url' or a 'command'");
    pawl_status status =
        refuse_unknown(json, request ? of_request : of_command,
                       request ? "a tool with a 'url'" : "a tool with a 'command'", error);
    if (!status)
        status = declare(json, t, error);
    if (!status)
        status = read_number(json, "timeout_ms", 1, MOST_MS, DEFAULT_MS, &timeout_ms, error);
    if (!status)
        status =
            read_number(json, "max_bytes", 1, TOOLS_MAX_BYTES, DEFAULT_BYTES, &max_bytes, error);
    t->timeout_ms = (int64_t)timeout_ms;
    t->max_bytes = (size_t)max_bytes;
    if (status)
        return status;
    return request ? read_request(json, t, error) : read_command(json, t, error);
}

/* Adds the tool to the list; its errors say which it is. */
static pawl_status read_tool(tools *all, const cJSON *json, pawl_error *error)
{
    pawl_error why = {.struct_size = sizeof why};
    const char *name = json_get_text(json, "name");
    if (!is_name(name))
        return pawl_fail(error, PAWL_E_FORMAT,
                         "tool %zu: a 'name' has 1 to %d letters, digits, '_' or '-'", all->n + 1,
                         MAX_NAME);
    if (all->n == TOOLS_MAX || tools_find(all, name))
        return pawl_fail(error, PAWL_E_FORMAT, "tool '%s': %s", name,
                         all->n == TOOLS_MAX ? "too many tools" : "a second one of this name");
    tool *t = &all->list[all->n++];
    t->name = strdup(name);
    if (!t->name)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a tool");
    pawl_status status = read_parts(json, t, &why);
    all->uses_http = all->uses_http || t->url;
    return status ? pawl_fail(error, status, "tool '%s': %s", name, why.message) : PAWL_OK;
}

/* ------------------------------------------------------------- the file */

static pawl_status read_list(tools *all, const cJSON *json, pawl_error *error)
{
    static const char *const known[] = {"tools", "redirects", NULL};
    const cJSON *item, *list = json_get(json, "tools"), *redirects = json_get(json, "redirects");
    pawl_status status = refuse_unknown(json, known, "the file", error);
    if (!status && (!cJSON_IsArray(list) || (redirects && !cJSON_IsArray(redirects))))
        status =
            pawl_fail(error, PAWL_E_FORMAT, "'tools' is a list of tools, 'redirects' one of URLs");
    if (status)
        return status;
    cJSON_ArrayForEach(item, redirects)
    {
        char origin[HTTP_MAX_ORIGIN];
        status = http_check_url(cJSON_IsString(item) ? item->valuestring : "", origin, error);
        if (!status && !add_word(&all->redirects, strdup(origin)))
            status = pawl_fail(error, PAWL_E_LIMIT, "more than %d redirects", TOOLS_MAX_WORDS);
        if (status)
            return status;
    }
    cJSON_ArrayForEach(item, list)
    {
        status = read_tool(all, item, error);
        if (status)
            return status;
    }
    return PAWL_OK;
}

pawl_status tools_read(const char *path, tools **out, pawl_error *error)
{
    pawl_error why = {.struct_size = sizeof why};
    cJSON *json = NULL;
    buf text;
    tools *all = calloc(1, sizeof *all);
    if (!all)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for tools");
    buf_init(&text, TOOLS_MAX_FILE);
    pawl_status status = file_read(path, &text, &why);
    if (!status)
        status = json_parse(buf_text(&text), text.size, &json, &why);
    if (!status)
        status = read_list(all, json, &why);
    if (!status && all->uses_http && !http_begin()) {
        all->uses_http = false;
        status = pawl_fail(&why, PAWL_E_INTERNAL, "libcurl does not start");
    } else if (status) {
        all->uses_http = false;
    }
    cJSON_Delete(json);
    buf_clear(&text);
    if (status) {
        tools_close(all);
        return pawl_fail(error, status, "%s: %s", path, why.message);
    }
    *out = all;
    return PAWL_OK;
}

void tools_close(tools *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n; i++) {
        tool *one = &t->list[i];
        free(one->name);
        free(one->declaration);
        free(one->url);
        free(one->method);
        clear_words(&one->command);
        clear_words(&one->environment);
        clear_words(&one->headers);
    }
    clear_words(&t->redirects);
    if (t->uses_http)
        http_end();
    free(t);
}

const tool *tools_find(const tools *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->list[i].name && strcmp(t->list[i].name, name) == 0)
            return &t->list[i];
    return NULL;
}
