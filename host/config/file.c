/*
 * config/file.c - the file's layer: JSON with comments, every name checked. See config.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "config/values.h"

#include "base/file.h"
#include "base/jsonc.h"

#include <stdlib.h>
#include <string.h>

/* What is being read: the server's object, or one of a model. */
typedef struct section {
    config *c;
    config_value *values;
    unsigned scope;
    const char *prefix; /* "" or "models[1]." */
} section;

static config_place place_at(const jsonc *value, const char *thing)
{
    return (config_place){.origin = FROM_FILE, .line = value->line, .thing = thing};
}

static bool fits(const jsonc *value, enum config_type type)
{
    switch (type) {
    case CONFIG_TYPE_NUMBER:
        return value->kind == JSONC_NUMBER;
    case CONFIG_TYPE_SWITCH:
        return value->kind == JSONC_BOOL;
    case CONFIG_TYPE_TEXTS:
    case CONFIG_TYPE_PATHS:
        return value->kind == JSONC_ARRAY;
    case CONFIG_TYPE_OBJECT:
        return value->kind == JSONC_OBJECT;
    default:
        return value->kind == JSONC_STRING;
    }
}

static const char *expected(enum config_type type)
{
    static const enum jsonc_kind kinds[] = {
        [CONFIG_TYPE_TEXT] = JSONC_STRING,   [CONFIG_TYPE_PATH] = JSONC_STRING,
        [CONFIG_TYPE_NUMBER] = JSONC_NUMBER, [CONFIG_TYPE_SWITCH] = JSONC_BOOL,
        [CONFIG_TYPE_CHOICE] = JSONC_STRING, [CONFIG_TYPE_TEXTS] = JSONC_ARRAY,
        [CONFIG_TYPE_PATHS] = JSONC_ARRAY,   [CONFIG_TYPE_OBJECT] = JSONC_OBJECT};
    return jsonc_kind_name(kinds[type]);
}

static void take_items(const section *s, enum config_id id, const jsonc *list, const char *thing)
{
    char each[3 * CONFIG_NAME_SIZE];
    size_t i = 0;
    for (const jsonc *item = list->first; item; item = item->next, i++) {
        snprintf(each, sizeof each, "%s[%zu]", thing, i);
        config_place place = place_at(item, each);
        if (item->kind == JSONC_STRING)
            config_set(s->c, id, &s->values[id], &place, item->text);
        else
            config_say(s->c, &place, "%s is expected, this is %s", jsonc_kind_name(JSONC_STRING),
                       jsonc_kind_name(item->kind));
    }
}

static void take_object(const section *s, enum config_id id, const jsonc *value,
                        const config_place *place)
{
    buf text;
    buf_init(&text, 2 * JSONC_MAX_BYTES);
    jsonc_add(&text, value);
    if (text.failed)
        config_no_memory(s->c);
    else
        config_set(s->c, id, &s->values[id], place, buf_text(&text));
    buf_clear(&text);
}

static void take(const section *s, enum config_id id, const jsonc *value, const char *thing)
{
    const config_setting *row = config_row(id);
    config_place place = place_at(value, thing);
    if (value->kind == JSONC_NULL)
        return; /* as if it were not there */
    if (!fits(value, row->type))
        config_say(s->c, &place, "%s is expected, this is %s", expected(row->type),
                   jsonc_kind_name(value->kind));
    else if (config_is_list(row->type))
        take_items(s, id, value, thing);
    else if (row->type == CONFIG_TYPE_OBJECT)
        take_object(s, id, value, &place);
    else if (row->type == CONFIG_TYPE_SWITCH)
        config_set(s->c, id, &s->values[id], &place, value->truth ? "true" : "false");
    else
        config_set(s->c, id, &s->values[id], &place, value->text);
}

static void take_secret_file(const section *s, enum config_id id, const jsonc *value,
                             const char *thing)
{
    config_place place = place_at(value, thing);
    if (value->kind == JSONC_STRING)
        config_set_secret_file(s->c, id, &s->values[id], &place, value->text);
    else if (value->kind != JSONC_NULL)
        config_say(s->c, &place, "the path of a file is expected, this is %s",
                   jsonc_kind_name(value->kind));
}

/* One member, by its row. False: there is none of the name. */
static bool take_known(const section *s, const jsonc *member, const char *thing)
{
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const config_setting *row = config_row((enum config_id)id);
        size_t size = strlen(row->name);
        if (!(row->scope & s->scope) || strncmp(member->name, row->name, size) != 0)
            continue;
        bool whole = member->name[size] == '\0';
        if (whole)
            take(s, (enum config_id)id, member, thing);
        else if (row->secret && strcmp(member->name + size, "_file") == 0)
            take_secret_file(s, (enum config_id)id, member, thing);
        else
            continue;
        return true;
    }
    return false;
}

static void take_unknown(const section *s, const jsonc *member, const char *thing)
{
    config_place place = place_at(member, thing);
    const char *near = config_suggest(member->name, s->scope);
    if (near)
        config_say(s->c, &place, "there is no such setting; did you mean \"%s\"?", near);
    else
        config_say(s->c, &place, "there is no such setting; see `pawl serve --print-config`");
}

static void take_member(const section *s, const jsonc *member)
{
    char thing[2 * CONFIG_NAME_SIZE];
    snprintf(thing, sizeof thing, "%s%.80s", s->prefix, member->name);
    if (!take_known(s, member, thing))
        take_unknown(s, member, thing);
}

static void take_models(config *c, const jsonc *list)
{
    size_t i = 0;
    char thing[CONFIG_NAME_SIZE];
    config_place place = place_at(list, "models");
    if (list->kind != JSONC_ARRAY) {
        config_say(c, &place, "a list of objects is expected, this is %s",
                   jsonc_kind_name(list->kind));
        return;
    }
    for (const jsonc *value = list->first; value; value = value->next, i++) {
        snprintf(thing, sizeof thing, "models[%zu]", i);
        place = place_at(value, thing);
        if (value->kind != JSONC_OBJECT) {
            config_say(c, &place, "an object is expected, {\"path\": …}, this is %s",
                       jsonc_kind_name(value->kind));
            continue;
        }
        config_model unused = {0}; /* is checked all the same */
        config_model *m = config_new_model(c, &place);
        snprintf(thing, sizeof thing, "models[%zu].", i);
        section s = {c, m ? m->values : unused.values, CONFIG_OF_MODEL, thing};
        for (const jsonc *member = value->first; member; member = member->next)
            take_member(&s, member);
        for (int id = 0; id < CONFIG_COUNT; id++)
            config_clear_value(&unused.values[id]);
        if (!m && i >= CONFIG_MAX_MODELS)
            return;
    }
}

static void take_root(config *c, const jsonc *root)
{
    section s = {c, c->values, CONFIG_OF_SERVER, ""};
    if (root->kind != JSONC_OBJECT) {
        config_place place = place_at(root, "");
        config_say(c, &place, "the file must hold one object, {…}, this is %s",
                   jsonc_kind_name(root->kind));
        return;
    }
    for (const jsonc *member = root->first; member; member = member->next) {
        if (strcmp(member->name, "models") == 0)
            take_models(c, member);
        else
            take_member(&s, member);
    }
}

void config_read_text(config *c, const char *path, const char *text, size_t size)
{
    jsonc *root = NULL;
    unsigned line = 0;
    pawl_error error = {.struct_size = sizeof error};
    free(c->path);
    c->path = strdup(path);
    if (!c->path) {
        config_no_memory(c);
        return;
    }
    if (jsonc_parse(text, size, &root, &line, &error))
        config_say(c, &(config_place){.origin = FROM_FILE, .line = line, .thing = ""}, "%s",
                   error.message);
    else
        take_root(c, root);
    jsonc_free(root);
}

void config_read_file(config *c, const char *path)
{
    buf text;
    pawl_error error = {.struct_size = sizeof error};
    buf_init(&text, JSONC_MAX_BYTES);
    if (file_read(path, &text, &error))
        config_say(c, &(config_place){.thing = "--config"}, "%s", error.message);
    else
        config_read_text(c, path, buf_text(&text), text.size);
    buf_clear(&text);
}
