/*
 * tests/unit/script/schema_test.c - which values a schema takes, and what it says of others.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static cJSON *parse(const char *text)
{
    cJSON *value = NULL;
    assert_int_equal(json_parse(text, strlen(text), &value, NULL), PAWL_OK);
    return value;
}

/* why: NULL where the schema is good and takes the value. */
static void judged(const char *schema_text, const char *text, const char *why)
{
    pawl_error error = {.struct_size = sizeof error};
    cJSON *schema = parse(schema_text), *value = parse(text);
    pawl_status status = schema_check(schema, &error);
    if (!status)
        status = schema_holds(schema, value, "v", &error);
    if ((status == PAWL_OK) != !why || (why && !strstr(error.message, why)))
        fail_msg("%s, %s: %s", schema_text, text, status ? error.message : "taken");
    cJSON_Delete(schema);
    cJSON_Delete(value);
}

static void values_are_judged(void **state)
{
    (void)state;
    judged("{}", "[1,\"x\",null]", NULL);
    judged("{\"type\":\"integer\"}", "5.0", NULL);
    judged("{\"type\":\"integer\"}", "5.5", "v must be of type integer");
    judged("{\"type\":\"number\"}", "\"5\"", "of type number");
    judged("{\"type\":[\"string\",\"null\"]}", "null", NULL);
    judged("{\"type\":[\"string\",\"null\"]}", "1", "string or null");
    judged("{\"enum\":[1,\"a\",{\"b\":[]}]}", "{\"b\":[]}", NULL);
    judged("{\"enum\":[1,\"a\"]}", "\"A\"", "one of [1,\"a\"]");
    judged("{\"const\":{\"a\":1}}", "{\"a\":2}", "must be {\"a\":1}");
    judged("{\"minLength\":2,\"maxLength\":3}", "\"\xC3\xA4\xC3\xA4\"", NULL);
    judged("{\"minLength\":2}", "\"\xC3\xA4\"", "a length of at least 2");
    judged("{\"maxLength\":3}", "\"abcd\"", "a length of at most 3");
    judged("{\"minimum\":1,\"maximum\":2}", "1", NULL);
    judged("{\"minimum\":1}", "0.9", "at least 1");
    judged("{\"exclusiveMinimum\":1}", "1", "above 1");
    judged("{\"exclusiveMaximum\":2}", "2", "below 2");
    judged("{\"minItems\":1}", "[]", "a number of items of at least 1");
    judged("{\"maxItems\":1}", "[1,2]", "at most 1");
    judged("{\"items\":{\"type\":\"string\"}}", "[\"a\",2]", "v[1] must be");
    judged("{\"required\":[\"a\"]}", "{\"b\":1}", "v lacks 'a'");
    judged("{\"properties\":{\"a\":{\"properties\":{\"b\":{\"type\":\"null\"}}}}}",
           "{\"a\":{\"b\":1}}", "v.a.b must be of type null");
    judged("{\"additionalProperties\":false,\"properties\":{\"a\":{}}}", "{\"a\":1}", NULL);
    judged("{\"additionalProperties\":false}", "{\"a\":1}", "unknown member 'a'");
    judged("{\"additionalProperties\":{\"type\":\"string\"}}", "{\"a\":1}", "v.a must be");
    judged("{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[1]}", "1", NULL);
    judged("{\"properties\":{\"a\":{}}}", "5", NULL); /* says nothing of other types */
}

static void schemas_are_judged(void **state)
{
    (void)state;
    judged("{\"pattern\":\"x\"}", "1", "the keyword 'pattern'");
    judged("{\"properties\":{\"a\":{\"anyOf\":[]}}}", "1", "properties.a has the keyword 'anyOf'");
    judged("[]", "1", "must be a schema");
    judged("{\"type\":\"int\"}", "1", "type must be object, array");
    judged("{\"type\":[]}", "1", "type must be");
    judged("{\"enum\":[]}", "1", "not empty");
    judged("{\"required\":[1]}", "1", "a list of texts");
    judged("{\"minLength\":-1}", "1", "whole number from 0");
    judged("{\"minimum\":\"1\"}", "1", "a number");
    judged("{\"items\":[]}", "1", "items must be a schema");
    judged("{\"properties\":[]}", "1", "an object of schemas");
    judged("{\"title\":1}", "1", "a text");
}

static void typed(const char *schema_text, const char *text, const char *wanted)
{
    cJSON *schema = schema_text ? parse(schema_text) : NULL, *value = NULL;
    pawl_status status = schema_typed(schema, "a", text, &value, NULL);
    char *json = status ? NULL : json_print(value);
    if (wanted)
        assert_string_equal(json, wanted);
    else
        assert_int_equal(status, PAWL_E_ARGUMENT);
    cJSON_free(json);
    cJSON_Delete(schema);
    cJSON_Delete(value);
}

static void texts_get_types(void **state)
{
    (void)state;
    typed(NULL, "5", "\"5\"");
    typed("{}", "5", "\"5\"");
    typed("{\"properties\":{\"a\":{\"type\":\"string\"}}}", "5", "\"5\"");
    typed("{\"properties\":{\"a\":{\"type\":\"integer\"}}}", "5", "5");
    typed("{\"properties\":{\"a\":{\"type\":\"integer\"}}}", "5x", NULL);
    typed("{\"properties\":{\"a\":{\"type\":\"boolean\"}}}", "true", "true");
    typed("{\"properties\":{\"a\":{\"type\":\"boolean\"}}}", "1", NULL);
    typed("{\"properties\":{\"a\":{\"type\":\"array\"}}}", "[1]", "[1]");
    typed("{\"properties\":{\"a\":{\"type\":[\"integer\",\"string\"]}}}", "x", "\"x\"");
    typed("{\"properties\":{\"a\":{\"type\":[\"integer\",\"string\"]}}}", "7", "7");
    typed("{\"additionalProperties\":false}", "7", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_judged),
        cmocka_unit_test(schemas_are_judged),
        cmocka_unit_test(texts_get_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
