/*
 * config/config.c - values, layers, errors. See config.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "config/values.h"

#include "base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ERROR_BYTES (64u << 10)
#define MAX_SECRET 4096

/* ---------------------------------------------------------------------- errors ---- */

void config_say(config *c, const config_place *place, const char *format, ...)
{
    char message[500];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (place->origin == FROM_FILE)
        buf_printf(&c->errors, "%s:%u: ", c->path, place->line);
    buf_printf(&c->errors, "%s%s%s\n", place->thing, *place->thing ? ": " : "", message);
    c->n_errors++;
}

void config_no_memory(config *c)
{
    config_say(c, &(config_place){.thing = ""}, "no memory for the configuration");
}

size_t config_error_count(const config *c)
{
    return c->n_errors;
}

size_t config_absent_count(const config *c)
{
    return c->n_absent;
}

const char *config_errors(const config *c)
{
    return buf_text(&c->errors);
}

/* ---------------------------------------------------------------------- values ---- */

void config_clear_value(config_value *value)
{
    free(value->text);
    free(value->secret_path);
    for (size_t i = 0; i < value->n_items; i++)
        free(value->items[i]);
    *value = (config_value){0};
}

static bool is_number(const char *text, uint64_t *number)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *number = value;
    return text[0] >= '0' && text[0] <= '9' && !*end && !errno;
}

static bool is_switch(const char *text, uint64_t *number)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i]) != 0)
            continue;
        *number = i & 1;
        return true;
    }
    return false;
}

static bool is_choice(const char *text, const char *choices)
{
    size_t size = strlen(text);
    for (const char *at = choices; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == size && memcmp(at, text, size) == 0)
            return true;
        at += word;
    }
    return false;
}

/* Judges a text; false: said. */
static bool check_text(config *c, const config_setting *row, const config_place *place,
                       const char *text, uint64_t *number)
{
    *number = 0;
    switch (row->type) {
    case CONFIG_TYPE_NUMBER:
        if (is_number(text, number) && *number >= row->min && *number <= row->max)
            return true;
        config_say(c, place, "%.60s: a whole number from %llu to %llu is expected", text,
                   (unsigned long long)row->min, (unsigned long long)row->max);
        return false;
    case CONFIG_TYPE_SWITCH:
        if (is_switch(text, number))
            return true;
        config_say(c, place, "%.60s: true or false is expected", text);
        return false;
    case CONFIG_TYPE_CHOICE:
        if (is_choice(text, row->choices))
            return true;
        config_say(c, place, "%.60s: one of these is expected: %s", text, row->choices);
        return false;
    default:
        if (*text)
            return true;
        config_say(c, place, "it is empty; leave it out, or give %s",
                   row->argument ? row->argument : "a value");
        return false;
    }
}

/* Makes the value one of the place's layer. False: a later layer has it, or this one
 * twice (said, unless it is a list). */
static bool open_value(config *c, const config_setting *row, config_value *value,
                       const config_place *place)
{
    if (value->origin > place->origin)
        return false;
    if (value->origin < place->origin)
        config_clear_value(value);
    else if (!config_is_list(row->type) && place->origin == FROM_FLAG)
        config_clear_value(value); /* as with all commands, the last one counts */
    else if (!config_is_list(row->type)) {
        config_say(c, place, "it is given twice, by itself and by %s_file", row->name);
        return false;
    }
    value->origin = place->origin;
    value->line = place->line;
    return true;
}

/* A file's relative paths begin at its folder. */
static char *copy_path(const config *c, const config_place *place, const char *text)
{
    const char *slash = c->path ? strrchr(c->path, '/') : NULL;
    if (place->origin != FROM_FILE || text[0] == '/' || !slash)
        return strdup(text);
    char *folder = strndup(c->path, slash == c->path ? 1 : (size_t)(slash - c->path));
    char *path = folder ? file_join(folder, text) : NULL;
    free(folder);
    return path;
}

void config_set(config *c, enum config_id id, config_value *value, const config_place *place,
                const char *text)
{
    const config_setting *row = config_row(id);
    uint64_t number;
    if (!check_text(c, row, place, text, &number) || !open_value(c, row, value, place))
        return;
    bool list = config_is_list(row->type);
    bool path = row->type == CONFIG_TYPE_PATH || row->type == CONFIG_TYPE_PATHS;
    if (list && value->n_items == CONFIG_MAX_ITEMS) {
        config_say(c, place, "there are more than %d", CONFIG_MAX_ITEMS);
        return;
    }
    char *copy = path ? copy_path(c, place, text) : strdup(text);
    if (!copy)
        config_no_memory(c);
    else if (list)
        value->items[value->n_items++] = copy;
    else
        value->text = copy;
    value->number = number;
}

void config_set_secret_file(config *c, enum config_id id, config_value *value,
                            const config_place *place, const char *path)
{
    if (!*path)
        config_say(c, place, "it is empty; the path of a file is expected");
    else if (open_value(c, config_row(id), value, place) &&
             !(value->secret_path = copy_path(c, place, path)))
        config_no_memory(c);
}

/* ---------------------------------------------------------------------- models ---- */

static void drop_models(config *c)
{
    for (size_t i = 0; i < c->n_models; i++)
        for (int id = 0; id < CONFIG_COUNT; id++)
            config_clear_value(&c->models[i].values[id]);
    c->n_models = 0;
}

config_model *config_new_model(config *c, const config_place *place)
{
    if (c->n_models && c->models[0].origin > place->origin)
        return NULL;
    if (c->n_models && c->models[0].origin < place->origin)
        drop_models(c);
    if (c->n_models == CONFIG_MAX_MODELS) {
        config_say(c, place, "there are more than %d models", CONFIG_MAX_MODELS);
        return NULL;
    }
    config_model *m = &c->models[c->n_models++];
    *m = (config_model){.origin = place->origin, .line = place->line};
    return m;
}

/* [NAME=]PATH */
static void read_model(config *c, const config_place *place, const char *text)
{
    const char *equals = strchr(text, '='), *slash = strchr(text, '/');
    bool named = equals && (!slash || equals < slash);
    const char *path = named ? equals + 1 : text;
    if (equals == text || !*path) {
        config_say(c, place, "%.200s: [NAME=]PATH is expected", text);
        return;
    }
    config_model *m = config_new_model(c, place);
    if (!m)
        return;
    config_set(c, CONFIG_PATH, &m->values[CONFIG_PATH], place, path);
    if (!named)
        return;
    char *name = strndup(text, (size_t)(equals - text));
    if (name)
        config_set(c, CONFIG_NAME, &m->values[CONFIG_NAME], place, name);
    else
        config_no_memory(c);
    free(name);
}

/* ----------------------------------------------------------------- environment ---- */

/* The value of NAME followed by ending, NULL where it is absent or empty. */
static const char *find_in(char *const *environment, const char *name, const char *ending)
{
    size_t size = strlen(name), more = strlen(ending);
    for (; *environment; environment++)
        if (strncmp(*environment, name, size) == 0 &&
            strncmp(*environment + size, ending, more) == 0 && (*environment)[size + more] == '=')
            return (*environment)[size + more + 1] ? *environment + size + more + 1 : NULL;
    return NULL;
}

void config_read_environment(config *c, char *const *environment)
{
    char thing[CONFIG_NAME_SIZE];
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const config_setting *row = config_row((enum config_id)id);
        config_place place = {.origin = FROM_ENVIRONMENT, .thing = row->env};
        const char *text = row->env ? find_in(environment, row->env, "") : NULL;
        if (text)
            config_set(c, (enum config_id)id, &c->values[id], &place, text);
        text = row->env && row->secret ? find_in(environment, row->env, "_FILE") : NULL;
        if (!text)
            continue;
        snprintf(thing, sizeof thing, "%s_FILE", row->env);
        place.thing = thing;
        config_set_secret_file(c, (enum config_id)id, &c->values[id], &place, text);
    }
    const char *model = find_in(environment, CONFIG_MODEL_ENV, "");
    if (model)
        read_model(c, &(config_place){.origin = FROM_ENVIRONMENT, .thing = CONFIG_MODEL_ENV},
                   model);
}

/* ----------------------------------------------------------------------- flags ---- */

void config_read_flag(config *c, enum config_id id, const char *text)
{
    char thing[CONFIG_NAME_SIZE];
    snprintf(thing, sizeof thing, "--%s", config_row(id)->flag);
    config_set(c, id, &c->values[id], &(config_place){.origin = FROM_FLAG, .thing = thing}, text);
}

void config_read_model_flag(config *c, const char *text)
{
    const config_place place = {.origin = FROM_FLAG, .thing = "--model"};
    read_model(c, &place, text);
}

/* -------------------------------------------------------------------- checking ---- */

static void fetch_secret(config *c, config_value *value, const config_place *place)
{
    buf text;
    pawl_error error = {.struct_size = sizeof error};
    buf_init(&text, MAX_SECRET);
    if (file_read(value->secret_path, &text, &error)) {
        config_say(c, place, "%s", error.message);
        c->n_absent++;
    } else {
        while (text.size && strchr(" \t\r\n", text.data[text.size - 1]))
            text.data[--text.size] = '\0';
        if (!text.size || strlen(text.data) != text.size || strpbrk(text.data, "\r\n"))
            config_say(c, place, "%s: one line with the secret is expected", value->secret_path);
        else if (!(value->text = buf_take(&text)))
            config_no_memory(c);
    }
    buf_clear(&text);
}

/* Where a value of the server came from. */
static config_place place_of(const config *c, enum config_id id, char thing[CONFIG_NAME_SIZE])
{
    const config_setting *row = config_row(id);
    const config_value *value = &c->values[id];
    const char *file = value->secret_path ? "file" : "";
    switch (value->origin) {
    case FROM_FLAG:
        snprintf(thing, CONFIG_NAME_SIZE, "--%s", row->flag);
        break;
    case FROM_ENVIRONMENT:
        snprintf(thing, CONFIG_NAME_SIZE, "%s%s", row->env, *file ? "_FILE" : "");
        break;
    default:
        snprintf(thing, CONFIG_NAME_SIZE, "%s%s%s", row->name, *file ? "_" : "", file);
        break;
    }
    return (config_place){.origin = value->origin, .line = value->line, .thing = thing};
}

void config_fault(config *c, enum config_id id, const char *why)
{
    char thing[CONFIG_NAME_SIZE];
    config_place place = place_of(c, id, thing);
    config_say(c, &place, "%s", why);
}

static void check_model(config *c, size_t i)
{
    const config_model *m = &c->models[i];
    const config_value *path = &m->values[CONFIG_PATH], *name = &m->values[CONFIG_NAME];
    char thing[CONFIG_NAME_SIZE];
    snprintf(thing, sizeof thing, "models[%zu]", i);
    config_place place = {.origin = m->origin, .line = m->line, .thing = thing};
    if (m->origin != FROM_FILE)
        place.thing = m->origin == FROM_FLAG ? "--model" : CONFIG_MODEL_ENV;
    if (!path->text)
        config_say(c, &place, "it has no path");
    else if (access(path->text, R_OK)) {
        config_say(c, &place, "%.300s: %s", path->text, strerror(errno));
        c->n_absent++;
    }
    for (size_t k = 0; name->text && k < i; k++) {
        const char *other = c->models[k].values[CONFIG_NAME].text;
        if (!other || strcmp(other, name->text) != 0)
            continue;
        config_say(c, &place, "another model is named \"%.60s\" already; give each its own name",
                   other);
        break;
    }
}

void config_check(config *c)
{
    char thing[CONFIG_NAME_SIZE];
    for (int id = 0; id < CONFIG_COUNT; id++) {
        if (!c->values[id].secret_path)
            continue;
        config_place place = place_of(c, (enum config_id)id, thing);
        fetch_secret(c, &c->values[id], &place);
    }
    for (size_t i = 0; i < c->n_models; i++)
        check_model(c, i);
    if (!c->n_models && !c->n_errors)
        config_say(c, &(config_place){.thing = ""},
                   "there is no model; give --model PATH, or \"models\" in a file");
}

/* ----------------------------------------------------------------- life, values ---- */

config *config_open(void)
{
    config *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    buf_init(&c->errors, MAX_ERROR_BYTES);
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const config_setting *row = config_row((enum config_id)id);
        if (row->fallback)
            config_set(c, (enum config_id)id, &c->values[id],
                       &(config_place){.origin = FROM_DEFAULT, .thing = row->name}, row->fallback);
    }
    return c;
}

void config_close(config *c)
{
    if (!c)
        return;
    drop_models(c);
    for (int id = 0; id < CONFIG_COUNT; id++)
        config_clear_value(&c->values[id]);
    buf_clear(&c->errors);
    free(c->path);
    free(c);
}

const char *config_text(const config *c, enum config_id id)
{
    return c->values[id].text;
}

uint64_t config_number(const config *c, enum config_id id)
{
    return c->values[id].number;
}

bool config_switch(const config *c, enum config_id id)
{
    return c->values[id].number != 0;
}

size_t config_item_count(const config *c, enum config_id id)
{
    return c->values[id].n_items;
}

const char *config_item(const config *c, enum config_id id, size_t i)
{
    return c->values[id].items[i];
}

size_t config_model_count(const config *c)
{
    return c->n_models;
}

static const config_value *of_model(const config *c, size_t model, enum config_id id)
{
    const config_value *own = &c->models[model].values[id];
    return own->origin == FROM_NOWHERE ? &c->values[id] : own;
}

const char *config_model_text(const config *c, size_t model, enum config_id id)
{
    return of_model(c, model, id)->text;
}

uint64_t config_model_number(const config *c, size_t model, enum config_id id)
{
    return of_model(c, model, id)->number;
}
