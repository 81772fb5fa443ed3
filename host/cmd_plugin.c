/*
 * host/cmd_plugin.c - `pawl plugin list|check|release`, and what child processes are asked.
 *
 * `probe` and `check-group` are not for people: the loader starts our own binary
 * with them (loader/child.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "commands.h"

#include "base/json.h"
#include "base/log.h"
#include "loader/check.h"
#include "loader/child.h"
#include "loader/probe.h"
#include "loader/quarantine.h"
#include "loader/registry.h"

#include <stdlib.h>
#include <string.h>

#define MAX_WORDS 64

static const char usage[] =
    "Usage: pawl plugin list [--plugin-dir DIR]... [--json]\n"
    "       pawl plugin check FILE.so [--json] [--model PATH] [--group NAME]...\n"
    "                         [--time-limit SECONDS]\n"
    "       pawl plugin release ID|SHA256\n\n"
    "list says of every plugin whether it is used, and why not. check tries a plugin\n"
    "against the contract in <pawl/plugin.h>, one line a rule; its status is 0 only if\n"
    "no rule failed. A library whose probe crashed or hung is in quarantine and not\n"
    "tried again until its file changes, or until release takes it out.\n\n"
    "  --plugin-dir DIR    search this folder first\n"
    "  --model PATH        a model for the rules that need one, instead of a tiny llama GGUF\n"
    "  --group NAME        only this group of rules: ";

typedef struct options {
    const char *folders[MAX_WORDS];
    size_t n_folders;
    const char *groups[MAX_WORDS];
    size_t n_groups;
    const char *model;
    const char *file;
    int64_t limit_s; /* of each group of checks */
    bool json;
} options;

static void help(FILE *to)
{
    fputs(usage, to);
    for (size_t i = 0; check_group_name(i); i++)
        fprintf(to, "%s%s",
                i == 0  ? ""
                : i % 6 ? ", "
                        : ",\n                      ",
                check_group_name(i));
    fputs("\n  --time-limit N      seconds for each group (120)\n"
          "  --json              one JSON array instead of lines\n",
          to);
}

static int wrong(const char *what, const char *word)
{
    fprintf(stderr, "pawl plugin: %s%s\nTry pawl plugin --help.\n", what, word);
    return 2;
}

/* The value of `--name VALUE` or `--name=VALUE` at argv[*i], or NULL if it is another. */
static const char *value_of(const char *name, int argc, char **argv, int *i)
{
    size_t size = strlen(name);
    if (strncmp(argv[*i], name, size) != 0)
        return NULL;
    if (argv[*i][size] == '=')
        return argv[*i] + size + 1;
    return argv[*i][size] == '\0' && *i + 1 < argc ? argv[++*i] : NULL;
}

static int parse(int argc, char **argv, options *o)
{
    for (int i = 0; i < argc; i++) {
        const char *value;
        if (strcmp(argv[i], "--json") == 0)
            o->json = true;
        else if ((value = value_of("--plugin-dir", argc, argv, &i)) && o->n_folders < MAX_WORDS)
            o->folders[o->n_folders++] = value;
        else if ((value = value_of("--group", argc, argv, &i)) && o->n_groups < MAX_WORDS)
            o->groups[o->n_groups++] = value;
        else if ((value = value_of("--model", argc, argv, &i)))
            o->model = value;
        else if ((value = value_of("--time-limit", argc, argv, &i)) && atoi(value) > 0)
            o->limit_s = atoi(value);
        else if (argv[i][0] == '-' || o->file)
            return wrong("unknown word or missing value: ", argv[i]);
        else
            o->file = argv[i];
    }
    return 0;
}

/* ---- list ---- */

static const char *state_name(enum registry_state state)
{
    static const char *const names[] = {"listed", "refused", "usable", "running", "stopped"};
    return names[state];
}

static void print_plugin(const registry_plugin *p)
{
    if (p->id[0])
        printf("%s %s  %s\n", p->id, p->version, state_name(p->state));
    else
        printf("%s  %s\n", p->manifest_path, state_name(p->state));
    if (p->interfaces[0])
        printf("    %s\n", p->interfaces);
    if (p->library_path)
        printf("    %s\n", p->library_path);
    if (p->state == REGISTRY_REFUSED)
        printf("    not used: %s\n", p->reason);
    else
        printf("    used: its probe gave %d\n", p->score);
}

static cJSON *plugin_json(const registry_plugin *p)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "id", p->id);
    cJSON_AddStringToObject(json, "name", p->name);
    cJSON_AddStringToObject(json, "version", p->version);
    cJSON_AddStringToObject(json, "state", state_name(p->state));
    cJSON *list = cJSON_AddArrayToObject(json, "interfaces");
    char *words = strdup(p->interfaces), *rest = words;
    for (char *word; rest && (word = strsep(&rest, " "));)
        if (*word)
            cJSON_AddItemToArray(list, cJSON_CreateString(word));
    free(words);
    cJSON_AddStringToObject(json, "manifest", p->manifest_path);
    if (p->library_path)
        cJSON_AddStringToObject(json, "library", p->library_path);
    else
        cJSON_AddNullToObject(json, "library");
    cJSON_AddNumberToObject(json, "score", p->score);
    cJSON_AddStringToObject(json, "reason", p->reason);
    return json;
}

static void print_json(const cJSON *json)
{
    char *text = json_print(json);
    if (text)
        puts(text);
    free(text);
}

static int list(const options *o)
{
    registry *plugins;
    pawl_error why = {.struct_size = sizeof why};
    registry_config config = {.folders = o->folders, .n_folders = o->n_folders};
    if (o->file)
        return wrong("list takes no file: ", o->file);
    log_set_level(PAWL_LOG_ERROR); /* the reasons are in the answer */
    if (registry_open(&config, &plugins, &why)) {
        fprintf(stderr, "pawl plugin: %s\n", why.message);
        return 1;
    }
    cJSON *all = o->json ? cJSON_CreateArray() : NULL;
    for (size_t i = 0; i < registry_count(plugins); i++) {
        if (all)
            cJSON_AddItemToArray(all, plugin_json(registry_at(plugins, i)));
        else
            print_plugin(registry_at(plugins, i));
    }
    if (all)
        print_json(all);
    else if (registry_count(plugins) == 0)
        puts("no plugins were found");
    cJSON_Delete(all);
    registry_close(plugins);
    return 0;
}

/* ---- check ---- */

static const char *const verdicts[] = {"PASS", "FAIL", "SKIP"};

static void print_rule(void *arg, const char *group, const char *rule, enum check_verdict verdict,
                       const char *text)
{
    cJSON *all = arg;
    if (!all) {
        printf("%s %s.%s: %s\n", verdicts[verdict], group, rule, text);
        fflush(stdout);
        return;
    }
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "group", group);
    cJSON_AddStringToObject(json, "rule", rule);
    cJSON_AddStringToObject(json, "verdict", verdicts[verdict]);
    cJSON_AddStringToObject(json, "text", text);
    cJSON_AddItemToArray(all, json);
}

static int check(const options *o)
{
    size_t failed = 0;
    pawl_error why = {.struct_size = sizeof why};
    check_config config = {.library = o->file,
                           .model = o->model,
                           .groups = o->groups,
                           .n_groups = o->n_groups,
                           .limit_ms = o->limit_s * 1000};
    if (!o->file)
        return wrong("check needs a FILE.so", "");
    cJSON *all = o->json ? cJSON_CreateArray() : NULL;
    pawl_status status = check_run(&config, print_rule, all, &failed, &why);
    if (all && !status)
        print_json(all);
    cJSON_Delete(all);
    if (status) {
        fprintf(stderr, "pawl plugin: %s\n", why.message);
        return status == PAWL_E_ARGUMENT ? 2 : 1;
    }
    if (!o->json)
        printf("%zu failed\n", failed);
    return failed ? 1 : 0;
}

/* ---- release ---- */

static int release(const options *o)
{
    size_t count = 0;
    pawl_error why = {.struct_size = sizeof why};
    if (!o->file)
        return wrong("release needs the ID of a plugin, or the SHA-256 of its library", "");
    if (quarantine_release(o->file, &count, &why)) {
        fprintf(stderr, "pawl plugin: %s\n", why.message);
        return 1;
    }
    if (count == 0) {
        fprintf(stderr, "pawl plugin: nothing in quarantine has the id or digest %s\n", o->file);
        return 1;
    }
    printf("%zu released\n", count);
    return 0;
}

int cmd_plugin(int argc, char **argv)
{
    options o = {.limit_s = 120};
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "probe") == 0)
        return probe_serve(argc - 2, argv + 2, child_begin());
    if (strcmp(command, "check-group") == 0)
        return check_serve(argc - 2, argv + 2, child_begin());
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            help(stdout);
            return 0;
        }
    static const struct {
        const char *name;
        int (*run)(const options *o);
    } commands[] = {{"list", list}, {"check", check}, {"release", release}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(command, commands[i].name) == 0) {
            int failed = parse(argc - 2, argv + 2, &o);
            return failed ? failed : commands[i].run(&o);
        }
    return wrong("say list, check or release, not ", command[0] ? command : "nothing");
}
