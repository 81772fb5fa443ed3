/*
 * config/print.c - all settings and where each comes from. See config.h.
 *
 * What is printed is a configuration itself: what is not set stands in a comment.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "config/values.h"

#include "base/json.h"

static void add_origin(const config *c, enum config_id id, const config_value *value, buf *out)
{
    const config_setting *row = config_row(id);
    switch (value->origin) {
    case FROM_FLAG:
        buf_printf(out, "--%s", row->flag ? row->flag : "model");
        break;
    case FROM_ENVIRONMENT:
        buf_printf(out, "%s%s", row->env ? row->env : CONFIG_MODEL_ENV,
                   value->secret_path ? "_FILE" : "");
        break;
    case FROM_FILE:
        buf_printf(out, "%s:%u", c->path, value->line);
        break;
    default:
        buf_add_text(out, "default");
        break;
    }
}

static void add_value(const config_setting *row, const config_value *value, buf *out)
{
    switch (row->type) {
    case CONFIG_TYPE_NUMBER:
        buf_printf(out, "%llu", (unsigned long long)value->number);
        break;
    case CONFIG_TYPE_SWITCH:
        buf_add_text(out, value->number ? "true" : "false");
        break;
    case CONFIG_TYPE_OBJECT:
        buf_add_text(out, value->text);
        break;
    case CONFIG_TYPE_TEXTS:
    case CONFIG_TYPE_PATHS:
        buf_add_text(out, "[");
        for (size_t i = 0; i < value->n_items; i++) {
            buf_add_text(out, i ? ", " : "");
            json_add_quoted(out, json_text(value->items[i]));
        }
        buf_add_text(out, "]");
        break;
    default:
        json_add_quoted(out, json_text(row->secret ? "********" : value->text));
        break;
    }
}

static void add_setting(const config *c, enum config_id id, const config_value *value,
                        const char *indent, buf *out)
{
    const config_setting *row = config_row(id);
    if (!value->text && !value->n_items && !value->secret_path) {
        buf_printf(out, "%s// \"%s\" is not set: %s\n", indent, row->name, row->help);
        return;
    }
    buf_printf(out, "%s\"%s\": ", indent, row->name);
    add_value(row, value, out);
    buf_add_text(out, ", // ");
    add_origin(c, id, value, out);
    buf_add_text(out, "\n");
}

static void add_model(const config *c, const config_model *m, buf *out)
{
    buf_add_text(out, "    {\n");
    for (int id = 0; id < CONFIG_COUNT; id++)
        if (m->values[id].origin != FROM_NOWHERE)
            add_setting(c, (enum config_id)id, &m->values[id], "      ", out);
    buf_add_text(out, "    },\n");
}

void config_print(const config *c, buf *out)
{
    buf_add_text(out, "{\n");
    for (int id = 0; id < CONFIG_COUNT; id++)
        if (config_row((enum config_id)id)->scope & CONFIG_OF_SERVER)
            add_setting(c, (enum config_id)id, &c->values[id], "  ", out);
    buf_add_text(out, "  \"models\": [\n");
    for (size_t i = 0; i < c->n_models; i++)
        add_model(c, &c->models[i], out);
    buf_add_text(out, "  ],\n}\n");
}
