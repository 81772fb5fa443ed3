/*
 * table_test.c - the table of settings is sound, and schemas/config.schema.json says the
 * same as it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "config/config.h"

static void rows_are_sound(void **state)
{
    (void)state;
    config *c = config_open();
    assert_string_equal(config_errors(c), ""); /* every default is one that is allowed */
    config_close(c);
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const config_setting *row = config_row((enum config_id)id);
        char env[80] = "PAWL_";
        assert_non_null(row->name);
        assert_non_null(row->help);
        assert_in_range(row->scope, CONFIG_OF_SERVER, CONFIG_OF_BOTH);
        assert_true(!(row->flag || row->secret) == !row->argument);
        assert_true(!row->env || row->flag || row->secret);
        assert_true(!row->secret || !row->flag);
        assert_true((row->type == CONFIG_TYPE_CHOICE) == (row->choices != NULL));
        assert_true(row->scope != CONFIG_OF_MODEL || (!row->flag && !row->fallback));
        for (size_t i = 0; row->env && i <= strlen(row->name); i++)
            env[5 + i] = (char)toupper((unsigned char)row->name[i]);
        assert_true(!row->env || strcmp(env, row->env) == 0);
        for (int other = 0; other < id; other++) {
            const config_setting *o = config_row((enum config_id)other);
            assert_string_not_equal(o->name, row->name);
            assert_true(!row->letter || row->letter != o->letter);
        }
    }
}

static cJSON *read_schema(void)
{
    buf text;
    cJSON *schema = NULL;
    buf_init(&text, 1 << 20);
    assert_int_equal(file_read(PAWL_SOURCE_DIR "/schemas/config.schema.json", &text, NULL),
                     PAWL_OK);
    assert_int_equal(json_parse(buf_text(&text), text.size, &schema, NULL), PAWL_OK);
    buf_clear(&text);
    return schema;
}

static void equal_text(const char *name, const cJSON *property, const char *key, const char *want)
{
    const char *got = json_get_text(property, key);
    if (!got || strcmp(got, want) != 0)
        fail_msg("%s: %s is %s in the schema, %s in the table", name, key, got ? got : "absent",
                 want);
}

static void check_default(const config_setting *row, const cJSON *property)
{
    const cJSON *given = json_get(property, "default");
    if (!row->fallback)
        assert_null(given);
    else if (row->type == CONFIG_TYPE_NUMBER)
        assert_int_equal((uint64_t)json_get_number(property, "default", -1),
                         strtoull(row->fallback, NULL, 10));
    else if (row->type == CONFIG_TYPE_SWITCH)
        assert_true(cJSON_IsTrue(given) == (strcmp(row->fallback, "true") == 0));
    else
        equal_text(row->name, property, "default", row->fallback);
}

/* One row and its property; a model's own have no default. */
static void check_row(const config_setting *row, const cJSON *properties, bool of_model)
{
    static const char *const types[] = {"string", "string", "integer", "boolean",
                                        "string", "array",  "array",   "object"};
    const cJSON *property = json_get(properties, row->name);
    if (!property)
        fail_msg("%s is not in the schema", row->name);
    equal_text(row->name, property, "type", types[row->type]);
    equal_text(row->name, property, "description", row->help);
    if (row->type == CONFIG_TYPE_NUMBER) {
        assert_int_equal((uint64_t)json_get_number(property, "minimum", -1), row->min);
        assert_int_equal((uint64_t)json_get_number(property, "maximum", -1), row->max);
    }
    if (row->type == CONFIG_TYPE_CHOICE) {
        const cJSON *word;
        char words[200] = "";
        cJSON_ArrayForEach(word, json_get(property, "enum"))
        {
            strcat(words, *words ? " " : "");
            strcat(words, word->valuestring);
        }
        assert_string_equal(words, row->choices);
    }
    if (!of_model)
        check_default(row, property);
}

static void the_schema_agrees(void **state)
{
    (void)state;
    cJSON *schema = read_schema();
    const cJSON *server = json_get(schema, "properties");
    const cJSON *model = json_get(json_get(json_get(server, "models"), "items"), "properties");
    int n_server = 1, n_model = 0; /* models themselves */
    for (int id = 0; id < CONFIG_COUNT; id++) {
        const config_setting *row = config_row((enum config_id)id);
        if (row->scope & CONFIG_OF_SERVER) {
            check_row(row, server, false);
            n_server += row->secret ? 2 : 1;
        }
        if (row->scope & CONFIG_OF_MODEL) {
            check_row(row, model, true);
            n_model++;
        }
    }
    assert_int_equal(cJSON_GetArraySize(server), n_server);
    assert_int_equal(cJSON_GetArraySize(model), n_model);
    cJSON_Delete(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sound),
        cmocka_unit_test(the_schema_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
