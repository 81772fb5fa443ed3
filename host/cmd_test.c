/*
 * host/cmd_test.c - `pawl test`: tests of pipelines, on a model of scripted replies.
 *
 * A test is a Lua file NAME_test.lua that returns h.tests{…}: its cases, each with replies, an
 * input and what should come of it (lua/pawl.d.lua). The model is the replay engine, a plugin
 * that only this command looks for: in test-plugins/ beside the program, or in
 * ../lib/pawl/test-plugins. TAP on standard output. [main]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "commands.h"

#include "base/file.h"
#include "base/log.h"
#include "script/script.h"
#include "test_case.h"

#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILES 1000
#define MAX_FOLDERS 16
#define ENDING "_test.lua"
#define TEST_MEMORY (256u << 20) /* of a file of tests, not of what it tests */
#define TEST_MS 60000

typedef struct options {
    const char *path; /* a folder or a file */
    const char *folders[MAX_FOLDERS];
    size_t n_folders;
    bool verbose;
} options;

typedef struct session {
    const options *options;
    registry *plugins;
    unsigned n, failed;
} session;

static const struct argp_option option_table[] = {
    {"plugin-dir", 'P', "DIR", 0, "Look for plugins here first; may be repeated", 1},
    {"verbose", 'v', NULL, 0, "Show what the pipelines say", 1},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;
    switch (key) {
    case 'P':
        if (o->n_folders == MAX_FOLDERS)
            argp_error(state, "more than %d plugin folders", MAX_FOLDERS);
        o->folders[o->n_folders++] = arg;
        return 0;
    case 'v':
        o->verbose = true;
        return 0;
    case ARGP_KEY_ARG:
        if (o->path)
            argp_error(state, "unexpected argument '%s'", arg);
        o->path = arg;
        return 0;
    case ARGP_KEY_END:
        if (!o->path)
            argp_error(state, "no DIR");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Set by the signal handler alone. */
static atomic_bool interrupted;

static void on_signal(int number_unused)
{
    (void)number_unused;
    atomic_store(&interrupted, true);
}

/* ------------------------------------------------------------- the file of tests */

/* Runs a file of tests, which is a pipeline itself, with an input. NULL: why. */
static cJSON *ask(pipeline *p, const char *input, buf *why)
{
    pawl_error error = {.struct_size = sizeof error};
    script_limits limits = {.memory = TEST_MEMORY, .wall_ms = TEST_MS};
    script_config config = {.clock = clock_system(),
                            .pipeline = p,
                            .limits = pipeline_limits(p, &limits),
                            .cancel = &interrupted};
    script_result result;
    cJSON *value = NULL;
    script_run(&config, input, &result);
    if (result.end != SCRIPT_DONE)
        buf_printf(why, "%s", result.message ? result.message : "no memory");
    else if (json_parse(result.value, strlen(result.value), &value, &error) != PAWL_OK)
        buf_printf(why, "%s", error.message);
    script_result_clear(&result);
    return value;
}

/* The case's own look at what came of it. */
static bool check(pipeline *p, int number, const cJSON *outcome, buf *why)
{
    buf input;
    buf_init(&input, 16u << 20);
    buf_printf(&input, "{\"case\":%d,\"outcome\":", number);
    json_add(&input, outcome);
    buf_add_text(&input, "}");
    cJSON *verdict = input.failed ? NULL : ask(p, buf_text(&input), why);
    const char *failed = json_get_text(verdict, "failed");
    if (failed)
        buf_printf(why, "check: %s", failed);
    bool good = verdict && !failed;
    cJSON_Delete(verdict);
    buf_clear(&input);
    return good;
}

/* ------------------------------------------------------------- TAP */

static void report(session *s, const char *file, const char *name, bool good, const char *why)
{
    printf("%sok %u - %s: %s\n", good ? "" : "not ", ++s->n, file, name);
    s->failed += !good;
    while (!good && *why) {
        size_t size = strcspn(why, "\n");
        printf("# %.*s\n", (int)size, why);
        why += size + (why[size] == '\n');
    }
    fflush(stdout);
}

static void run_case(session *s, pipeline *tests, const char *file, const char *path,
                     const cJSON *json, int number)
{
    char unnamed[32];
    const char *name = json_get_text(json, "name");
    cJSON *outcome = NULL;
    buf why;
    test_case c = {.plugins = s->plugins,
                   .path = path,
                   .json = json,
                   .cancel = &interrupted,
                   .verbose = s->options->verbose};
    buf_init(&why, 64u << 10);
    snprintf(unnamed, sizeof unnamed, "case %d", number);
    bool good = test_case_run(&c, &outcome, &why);
    if (good && json_get(json, "check"))
        good = check(tests, number, outcome, &why);
    report(s, file, name ? name : unnamed, good, buf_text(&why));
    cJSON_Delete(outcome);
    buf_clear(&why);
}

/* The pipeline that a file tests: the one it names, or NAME.lua for NAME_test.lua. */
static char *tested(const char *path, const char *named)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path)) : strdup("."), *found = NULL;
    if (folder && named)
        found = file_join(folder, named);
    else if (asprintf(&found, "%.*s.lua", (int)(strlen(path) - strlen(ENDING)), path) < 0)
        found = NULL;
    free(folder);
    return found;
}

static void run_file(session *s, const char *path)
{
    script_limits limits = {.memory = TEST_MEMORY, .wall_ms = TEST_MS};
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    script_result failed = {0};
    pipeline *p = NULL;
    cJSON *all = NULL;
    buf why;
    int number = 0;
    const cJSON *json;
    buf_init(&why, 64u << 10);
    if (!pipeline_read(path, NULL, 0, &limits, &p, &failed))
        buf_printf(&why, "%s", failed.message ? failed.message : "no memory");
    else
        all = ask(p, "{}", &why);
    if (all && !cJSON_IsArray(json_get(all, "cases")))
        buf_printf(&why, "%s returns no h.tests{…}", file);
    char *pipeline_path = all ? tested(path, json_get_text(all, "pipeline")) : NULL;
    if (why.size || !pipeline_path)
        report(s, file, "it loads", false, buf_text(&why));
    else
        cJSON_ArrayForEach(json, json_get(all, "cases")) if (!atomic_load(&interrupted))
            run_case(s, p, file, pipeline_path, json, ++number);
    free(pipeline_path);
    cJSON_Delete(all);
    pipeline_release(p);
    script_result_clear(&failed);
    buf_clear(&why);
}

/* ------------------------------------------------------------- all files */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_test(const char *name)
{
    size_t size = strlen(name), ending = strlen(ENDING);
    return size > ending && strcmp(name + size - ending, ENDING) == 0;
}

/* The tests of a folder in the order of their names; n of them, each to be free()d. */
static size_t find_tests(const char *folder, char **paths)
{
    size_t n = 0;
    DIR *listing = opendir(folder);
    for (struct dirent *e; listing && n < MAX_FILES && (e = readdir(listing));)
        if (is_test(e->d_name) && (paths[n] = file_join(folder, e->d_name)))
            n++;
    if (listing)
        closedir(listing);
    qsort(paths, n, sizeof paths[0], by_name);
    return n;
}

static int run_all(session *s)
{
    char *paths[MAX_FILES];
    const char *path = s->options->path;
    struct stat at;
    if (stat(path, &at)) {
        fprintf(stderr, "pawl test: %s: %s\n", path, strerror(errno));
        return 2;
    }
    size_t n = S_ISDIR(at.st_mode) ? find_tests(path, paths) : 0;
    printf("TAP version 13\n");
    if (!S_ISDIR(at.st_mode) && is_test(path))
        run_file(s, path);
    for (size_t i = 0; i < n; i++) {
        if (!atomic_load(&interrupted))
            run_file(s, paths[i]);
        free(paths[i]);
    }
    printf("1..%u\n", s->n);
    if (atomic_load(&interrupted))
        printf("Bail out! interrupted\n");
    if (s->n == 0)
        fprintf(stderr, "pawl test: no case in a file *" ENDING " of %s\n", path);
    return s->failed || s->n == 0 || atomic_load(&interrupted);
}

/* Opens the plugins, those for tests among them. */
static pawl_status open_plugins(options *o, registry **plugins, pawl_error *error)
{
    static const char *const below[] = {"test-plugins", "../lib/pawl/test-plugins"};
    const char *all[MAX_FOLDERS + 2];
    char *own = file_own_folder(), *found[2] = {NULL, NULL};
    size_t n = o->n_folders;
    memcpy(all, o->folders, n * sizeof all[0]);
    for (int i = 0; i < 2; i++) {
        found[i] = own ? file_join(own, below[i]) : NULL;
        if (found[i] && access(found[i], R_OK) == 0)
            all[n++] = found[i];
    }
    registry_config search = {.folders = all, .n_folders = n};
    pawl_status status = registry_open(&search, plugins, error);
    free(found[0]);
    free(found[1]);
    free(own);
    return status;
}

int cmd_test(int argc, char **argv)
{
    static const struct argp parser = {
        .options = option_table,
        .parser = parse_option,
        .args_doc = "DIR\nNAME_test.lua",
        .doc = "Run the tests of pipelines: the files *_test.lua of a folder.\v"
               "A test returns h.tests{…}, a list of cases: the replies that a scripted model "
               "gives, the input, and what should come of it. The result is TAP on standard "
               "output; the exit status is 0 if all cases passed, 1 if not, or if there was "
               "none, 2 if pawl was called wrongly. lua/README.md has an example."};
    pawl_error error = {.struct_size = sizeof error};
    options o = {.path = NULL};
    session s = {.options = &o};
    const struct sigaction stop = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    log_set_level(o.verbose ? PAWL_LOG_INFO : PAWL_LOG_WARN);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    if (open_plugins(&o, &s.plugins, &error) != PAWL_OK) {
        fprintf(stderr, "pawl test: %s\n", error.message);
        return 1;
    }
    int status = run_all(&s);
    registry_close(s.plugins);
    return status;
}
