/*
 * config_test.c - settings: layers, lists, models, and every error with its place.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/jsonc.h"
#include "config/config.h"

static config *of(const char *text)
{
    config *c = config_open();
    assert_non_null(c);
    config_read_text(c, "etc/pawl.json", text, strlen(text));
    return c;
}

static config *fine(const char *text)
{
    config *c = of(text);
    assert_string_equal(config_errors(c), "");
    return c;
}

/* ---------------------------------------------------------------------- layers ---- */

static void later_layers_win(void **state)
{
    (void)state;
    char *environment[] = {(char *)"PAWL_THREADS=3", (char *)"PAWL_CONTEXT=4096",
                           (char *)"PAWL_KV_MB=", (char *)"PAWL_THREADS_X=9", NULL};
    for (int order = 0; order < 2; order++) { /* the order of reading does not matter */
        config *c = config_open();
        static const char text[] = "{\"threads\": 2, \"context\": 1024, \"kv_mb\": 7}";
        assert_int_equal(config_number(c, CONFIG_SEQUENCES), 16);
        if (order == 0)
            config_read_text(c, "f", text, sizeof text - 1);
        config_read_flag(c, CONFIG_THREADS, "4");
        config_read_environment(c, environment);
        if (order == 1)
            config_read_text(c, "f", text, sizeof text - 1);
        assert_int_equal(config_number(c, CONFIG_THREADS), 4);
        assert_int_equal(config_number(c, CONFIG_CONTEXT), 4096);
        assert_int_equal(config_number(c, CONFIG_KV_MB), 7);
        config_read_flag(c, CONFIG_THREADS, "5"); /* the last of the same flag */
        assert_int_equal(config_number(c, CONFIG_THREADS), 5);
        assert_int_equal(config_error_count(c), 0);
        config_close(c);
    }
}

static void lists_and_paths(void **state)
{
    (void)state;
    config *c = fine("{\"plugin_dirs\": [\"a\", \"/b\"], \"data\": \"d\", \"log_access\": false,}");
    assert_int_equal(config_item_count(c, CONFIG_PLUGIN_DIRS), 2);
    assert_string_equal(config_item(c, CONFIG_PLUGIN_DIRS, 0), "etc/a");
    assert_string_equal(config_item(c, CONFIG_PLUGIN_DIRS, 1), "/b");
    assert_string_equal(config_text(c, CONFIG_DATA), "etc/d");
    assert_false(config_switch(c, CONFIG_LOG_ACCESS));
    config_read_flag(c, CONFIG_PLUGIN_DIRS, "x"); /* replaces the file's */
    config_read_flag(c, CONFIG_PLUGIN_DIRS, "y");
    assert_int_equal(config_item_count(c, CONFIG_PLUGIN_DIRS), 2);
    assert_string_equal(config_item(c, CONFIG_PLUGIN_DIRS, 1), "y");
    config_close(c);
}

static void models_have_their_own(void **state)
{
    (void)state;
    config *c = fine("{\"threads\": 2, \"dialect\": \"hermes\", \"models\": [\n"
                     "{\"name\": \"a\", \"path\": \"a.gguf\", \"threads\": 5, \"kv_mb\": 100},\n"
                     "{\"path\": \"/b.gguf\", \"engine\": \"dev.x\",\n"
                     " \"options\": {\"k\": [1.50, null, true]}},]}");
    config_read_flag(c, CONFIG_THREADS, "3");
    assert_int_equal(config_model_count(c), 2);
    assert_string_equal(config_model_text(c, 0, CONFIG_PATH), "etc/a.gguf");
    assert_int_equal(config_model_number(c, 0, CONFIG_THREADS), 5); /* more specific */
    assert_int_equal(config_model_number(c, 1, CONFIG_THREADS), 3);
    assert_int_equal(config_model_number(c, 0, CONFIG_KV_MB), 100);
    assert_int_equal(config_model_number(c, 1, CONFIG_KV_MB), 0);
    assert_string_equal(config_model_text(c, 1, CONFIG_DIALECT), "hermes");
    assert_string_equal(config_model_text(c, 1, CONFIG_ENGINE), "dev.x");
    assert_string_equal(config_model_text(c, 1, CONFIG_OPTIONS), "{\"k\":[1.50,null,true]}");
    assert_null(config_model_text(c, 1, CONFIG_NAME));
    config_read_model_flag(c, "n=/p/x=y"); /* all others are replaced */
    config_read_model_flag(c, "/q/a=b");
    assert_int_equal(config_model_count(c), 2);
    assert_string_equal(config_model_text(c, 0, CONFIG_NAME), "n");
    assert_string_equal(config_model_text(c, 0, CONFIG_PATH), "/p/x=y");
    assert_string_equal(config_model_text(c, 1, CONFIG_PATH), "/q/a=b");
    assert_int_equal(config_error_count(c), 0);
    config_close(c);
}

static void a_model_of_the_environment(void **state)
{
    (void)state;
    char *environment[] = {(char *)"PAWL_MODEL=m=/x", NULL};
    config *c = fine("{\"models\": [{\"path\": \"/f\"}]}");
    config_read_environment(c, environment);
    assert_int_equal(config_model_count(c), 1);
    assert_string_equal(config_model_text(c, 0, CONFIG_PATH), "/x");
    config_close(c);
}

/* ---------------------------------------------------------------------- errors ---- */

static const struct bad {
    const char *text;
    const char *error; /* whole, unless it ends in … */
} bad[] = {
    {"{\"thread\": 1}",
     "etc/pawl.json:1: thread: there is no such setting; did you mean \"threads\"?\n"},
    {"{\n\"model\": []}",
     "etc/pawl.json:2: model: there is no such setting; did you mean \"models\"?\n"},
    {"{\"frobnicate\": 1}",
     "etc/pawl.json:1: frobnicate: there is no such setting; see `pawl serve --print-config`\n"},
    {"{\"name\": \"x\"}", "etc/pawl.json:1: name: there is no such setting; see…"},
    {"{\"listen_file\": \"x\"}", "etc/pawl.json:1: listen_file: there is no such setting; see…"},
    {"{\"models\": [{\"path\": \"/x\", \"queue\": 1}]}",
     "etc/pawl.json:1: models[0].queue: there is no such setting; see…"},
    {"{\"models\": [{},\n\n{\"thraeds\": 1}]}",
     "etc/pawl.json:3: models[1].thraeds: there is no such setting; did you mean \"threads\"?\n"},
    {"{\"threads\": \"8\"}", "etc/pawl.json:1: threads: a number is expected, this is a string\n"},
    {"{\"threads\": 8.5}",
     "etc/pawl.json:1: threads: 8.5: a whole number from 0 to 1024 is expected\n"},
    {"{\"threads\": -1}",
     "etc/pawl.json:1: threads: -1: a whole number from 0 to 1024 is expected\n"},
    {"{\"threads\": 1025}",
     "etc/pawl.json:1: threads: 1025: a whole number from 0 to 1024 is expected\n"},
    {"{\"threads\": 99999999999999999999}",
     "etc/pawl.json:1: threads: 99999999999999999999: a whole number from 0 to 1024 is expected\n"},
    {"{\"sequences\": 0}",
     "etc/pawl.json:1: sequences: 0: a whole number from 1 to 1024 is expected\n"},
    {"{\"log_access\": 1}",
     "etc/pawl.json:1: log_access: true or false is expected, this is a number\n"},
    {"{\"log_level\": \"loud\"}", "etc/pawl.json:1: log_level: loud: one of these is expected: "
                                  "debug info warn error\n"},
    {"{\"log_level\": \"debug info\"}", "etc/pawl.json:1: log_level: debug info: one of these…"},
    {"{\"listen\": \"\"}",
     "etc/pawl.json:1: listen: it is empty; leave it out, or give HOST:PORT\n"},
    {"{\"plugin_dirs\": \"x\"}",
     "etc/pawl.json:1: plugin_dirs: a list is expected, this is a string\n"},
    {"{\"plugin_dirs\": [\"x\",\n 3]}",
     "etc/pawl.json:2: plugin_dirs[1]: a string is expected, this is a number\n"},
    {"{\"models\": {}}",
     "etc/pawl.json:1: models: a list of objects is expected, this is an object\n"},
    {"{\"models\": [\"x\"]}", "etc/pawl.json:1: models[0]: an object is expected, {\"path\": …}, "
                              "this is a string\n"},
    {"{\"models\": [{\"options\": \"x\"}]}",
     "etc/pawl.json:1: models[0].options: an object is expected, this is a string\n"},
    {"{\"api_key\": \"x\", \"api_key_file\": \"y\"}", "etc/pawl.json:1: api_key_file: it is given "
                                                      "twice, by itself and by api_key_file\n"},
    {"{\"api_key_file\": 1}",
     "etc/pawl.json:1: api_key_file: the path of a file is expected, this is a number\n"},
    {"[]", "etc/pawl.json:1: the file must hold one object, {…}, this is a list\n"},
    {"{\n\n \"a\": tru}", "etc/pawl.json:3: a value is expected…"},
    {"{\n/* x", "etc/pawl.json:2: the comment that begins here has no end, */\n"},
    {"", "etc/pawl.json:1: a value is expected…"},
};

/* What is expected may be cut short by three dots. */
static bool agrees(const char *got, const char *expected)
{
    static const char dots[] = "…";
    size_t size = strlen(expected), cut = sizeof dots - 1;
    if (size >= cut && strcmp(expected + size - cut, dots) == 0)
        return strncmp(got, expected, size - cut) == 0;
    return strcmp(got, expected) == 0;
}

static void errors_say_where_and_what(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        config *c = of(bad[i].text);
        if (!agrees(config_errors(c), bad[i].error))
            fail_msg("%s:\n got      %s expected %s", bad[i].text, config_errors(c), bad[i].error);
        assert_int_equal(config_error_count(c), 1);
        config_close(c);
    }
}

static void all_errors_are_told(void **state)
{
    (void)state;
    char *environment[] = {(char *)"PAWL_QUEUE=many", NULL};
    config *c = of("{\n\"threads\": 0.5,\n\"nonsense\": {},\n\"listen\": 7\n}");
    config_read_environment(c, environment);
    config_read_flag(c, CONFIG_LOG_LEVEL, "silent");
    config_read_model_flag(c, "=x");
    config_read_model_flag(c, "name=");
    config_fault(c, CONFIG_LISTEN, "no");
    assert_int_equal(config_error_count(c), 8);
    assert_non_null(strstr(config_errors(c), "\nPAWL_QUEUE: many: a whole number"));
    assert_non_null(strstr(config_errors(c), "\n--log-level: silent: one of"));
    assert_non_null(strstr(config_errors(c), "\n--model: =x: [NAME=]PATH is expected\n"));
    assert_non_null(strstr(config_errors(c), "\nlisten: no\n"));
    config_close(c);
}

static void too_many_items(void **state)
{
    (void)state;
    buf text;
    buf_init(&text, 1 << 16);
    buf_add_text(&text, "{\"allow_hosts\": [");
    for (int i = 0; i <= CONFIG_MAX_ITEMS; i++)
        buf_printf(&text, "\"host-%d\",", i);
    buf_add_text(&text, "]}");
    config *c = of(buf_text(&text));
    assert_string_equal(config_errors(c),
                        "etc/pawl.json:1: allow_hosts[64]: there are more than 64\n");
    assert_int_equal(config_item_count(c, CONFIG_ALLOW_HOSTS), CONFIG_MAX_ITEMS);
    assert_string_equal(config_item(c, CONFIG_ALLOW_HOSTS, 0), "host-0"); /* no path */
    config_close(c);
    buf_clear(&text);
}

static void too_many_models(void **state)
{
    (void)state;
    buf text;
    buf_init(&text, 1 << 16);
    buf_add_text(&text, "{\"models\": [");
    for (int i = 0; i < 40; i++)
        buf_printf(&text, "{\"path\": \"/%d\"},", i);
    buf_add_text(&text, "]}");
    config *c = of(buf_text(&text));
    assert_string_equal(config_errors(c),
                        "etc/pawl.json:1: models[32]: there are more than 32 models\n");
    assert_int_equal(config_model_count(c), 32);
    config_close(c);
    buf_clear(&text);
}

/* -------------------------------------------------------------------- checking ---- */

static void checks_models(void **state)
{
    (void)state;
    config *c = fine("{}");
    config_check(c);
    assert_string_equal(config_errors(c),
                        "there is no model; give --model PATH, or \"models\" in a file\n");
    config_close(c);
    c = fine("{\"models\": [\n{\"name\": \"a\"},\n{\"name\": \"a\", \"path\": \"/nowhere/x\"}\n]}");
    config_check(c);
    assert_string_equal(config_errors(c),
                        "etc/pawl.json:2: models[0]: it has no path\n"
                        "etc/pawl.json:3: models[1]: /nowhere/x: No such file or directory\n"
                        "etc/pawl.json:3: models[1]: another model is named \"a\" already; give "
                        "each its own name\n");
    config_close(c);
    c = config_open();
    config_read_model_flag(c, "a=/");
    config_read_model_flag(c, "a=/");
    config_read_model_flag(c, "/nowhere");
    config_check(c);
    assert_string_equal(config_errors(c), "--model: another model is named \"a\" already; give "
                                          "each its own name\n"
                                          "--model: /nowhere: No such file or directory\n");
    config_close(c);
}

static void secret_of(const char *content, const char *secret, const char *error)
{
    char path[] = "/tmp/pawl-config-XXXXXX", text[200];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    close(fd);
    snprintf(text, sizeof text, "PAWL_API_KEY_FILE=%s", path);
    char *environment[] = {text, NULL};
    config *c = fine("{\"models\": [{\"path\": \"/\"}]}");
    config_read_environment(c, environment);
    config_check(c);
    unlink(path);
    if (error)
        assert_non_null(strstr(config_errors(c), error));
    else
        assert_string_equal(config_text(c, CONFIG_API_KEY), secret);
    buf out;
    buf_init(&out, 1 << 16);
    config_print(c, &out);
    assert_null(secret ? strstr(buf_text(&out), secret) : NULL);
    assert_non_null(strstr(buf_text(&out), "\"api_key\": \"********\", // PAWL_API_KEY_FILE\n"));
    buf_clear(&out);
    config_close(c);
}

static void secrets_are_fetched_and_masked(void **state)
{
    (void)state;
    secret_of("sk-hidden\n", "sk-hidden", NULL);
    secret_of("sk-hidden \r\n\n", "sk-hidden", NULL);
    secret_of("", NULL, "PAWL_API_KEY_FILE: /tmp/pawl-config-");
    secret_of("two\nlines\n", NULL, "one line with the secret is expected");
    char *environment[] = {(char *)"PAWL_API_KEY=sk-open", NULL};
    config *c = fine("{\"models\": [{\"path\": \"/\"}], \"api_key_file\": \"/nowhere\"}");
    config_read_environment(c, environment); /* the later layer's; the file's is not opened */
    config_check(c);
    assert_string_equal(config_errors(c), "");
    assert_string_equal(config_text(c, CONFIG_API_KEY), "sk-open");
    config_close(c);
    c = fine("{\"models\": [{\"path\": \"/\"}], \"api_key_file\": \"/nowhere\"}");
    config_check(c);
    assert_non_null(strstr(config_errors(c), "etc/pawl.json:1: api_key_file: /nowhere"));
    config_close(c);
}

/* What is printed can be read again and says the same. */
static void the_print_is_a_configuration(void **state)
{
    (void)state;
    buf first;
    config *c = fine("{\"threads\": 2, \"plugin_dirs\": [\"/a\", \"/b\\\"\"], \"models\": ["
                     "{\"path\": \"/x\", \"options\": {\"y\": \"z\"}}, {\"path\": \"/y\"}]}");
    config_read_flag(c, CONFIG_CONTEXT, "77");
    buf_init(&first, 1 << 16);
    config_print(c, &first);
    assert_non_null(strstr(buf_text(&first), "  \"threads\": 2, // etc/pawl.json:1\n"));
    assert_non_null(strstr(buf_text(&first), "  \"context\": 77, // --context\n"));
    assert_non_null(strstr(buf_text(&first), "  \"sequences\": 16, // default\n"));
    config_close(c);
    c = fine(buf_text(&first));
    assert_int_equal(config_model_count(c), 2);
    assert_string_equal(config_model_text(c, 0, CONFIG_OPTIONS), "{\"y\":\"z\"}");
    assert_string_equal(config_item(c, CONFIG_PLUGIN_DIRS, 1), "/b\"");
    assert_int_equal(config_number(c, CONFIG_CONTEXT), 77);
    config_close(c);
    buf_clear(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_layers_win),
        cmocka_unit_test(lists_and_paths),
        cmocka_unit_test(models_have_their_own),
        cmocka_unit_test(a_model_of_the_environment),
        cmocka_unit_test(errors_say_where_and_what),
        cmocka_unit_test(all_errors_are_told),
        cmocka_unit_test(too_many_items),
        cmocka_unit_test(too_many_models),
        cmocka_unit_test(checks_models),
        cmocka_unit_test(secrets_are_fetched_and_masked),
        cmocka_unit_test(the_print_is_a_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
