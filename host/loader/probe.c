/*
 * loader/probe.c - the two sides of a probe: asking, and being asked.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/probe.h"

#include "base/json.h"
#include "loader/child.h"
#include "loader/library.h"
#include "loader/manifest.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_WORDS (3 + MANIFEST_MAX_INTERFACES + 1)

/* ---- in the child ---- */

static void add_text(cJSON *json, const char *key, const char *text)
{
    cJSON_AddStringToObject(json, key, text ? text : "");
}

static void ask(const pawl_plugin *plugin, int argc, char **argv, cJSON *answer)
{
    pawl_error why = {.struct_size = sizeof why};
    add_text(answer, "id", plugin->id);
    add_text(answer, "version", plugin->version);
    cJSON_AddNumberToObject(answer, "minor", plugin->abi_minor);
    const char *missing = NULL;
    for (int i = 1; i < argc && !missing; i++)
        if (!plugin->get_interface(argv[i]))
            missing = argv[i];
    add_text(answer, "missing", missing);
    int32_t score = plugin->probe(&why);
    cJSON_AddNumberToObject(answer, "score", score);
    why.message[sizeof why.message - 1] = '\0';
    if (score <= 0)
        add_text(answer, "reason", why.message[0] ? why.message : "it cannot run here");
}

int probe_serve(int argc, char **argv, int out)
{
    library l;
    pawl_error why = {.struct_size = sizeof why};
    cJSON *answer = cJSON_CreateObject();
    buf line;
    buf_init(&line, 65536);
    if (argc < 1 || !answer)
        return 2;
    if (library_open(argv[0], &l, &why))
        add_text(answer, "reason", why.message);
    else
        ask(l.plugin, argc, argv, answer);
    json_add(&line, answer);
    buf_add(&line, "\n", 1);
    bool sent = !line.failed && child_answer(out, line.data, line.size);
    buf_clear(&line);
    cJSON_Delete(answer);
    return sent ? 0 : 1;
}

/* ---- in the parent ---- */

static void start(probe_task *task, child *c, int64_t limit_ms)
{
    char *words[MAX_WORDS] = {(char *)(uintptr_t) "plugin", (char *)(uintptr_t) "probe",
                              (char *)(uintptr_t)task->library};
    pawl_error why = {.struct_size = sizeof why};
    char *ids = strdup(task->interfaces);
    char *rest = ids;
    for (int n = 3; rest && *rest && n < MAX_WORDS - 1; n++)
        words[n] = strsep(&rest, " ");
    if (child_start(c, words, probe_serve, limit_ms, &why))
        snprintf(task->reason, sizeof task->reason, "it could not be probed: %s", why.message);
    free(ids);
}

static void copy_text(const cJSON *json, const char *key, char *out, size_t size)
{
    const char *text = json_get_text(json, key);
    snprintf(out, size, "%s", text ? text : "");
}

static void read_answer(probe_task *task, const child *c)
{
    cJSON *json;
    pawl_error why = {.struct_size = sizeof why};
    char how[160];
    if (!child_succeeded(c, how, sizeof how)) {
        snprintf(task->reason, sizeof task->reason, "its probe failed: %s", how);
        task->died = child_died(c);
        return;
    }
    if (json_parse(buf_text(&c->output), c->output.size, &json, &why)) {
        snprintf(task->reason, sizeof task->reason, "its probe gave no answer");
        return;
    }
    copy_text(json, "id", task->id, sizeof task->id);
    copy_text(json, "version", task->version, sizeof task->version);
    copy_text(json, "missing", task->missing, sizeof task->missing);
    copy_text(json, "reason", task->reason, sizeof task->reason);
    double score = json_get_number(json, "score", 0);
    task->score = score > 0 && score < INT32_MAX ? (int32_t)score : 0;
    double minor = json_get_number(json, "minor", 0);
    task->abi_minor = minor > 0 && minor < UINT32_MAX ? (uint32_t)minor : 0;
    task->usable = task->score > 0 && task->reason[0] == '\0';
    cJSON_Delete(json);
}

void probe_run(probe_task *tasks, size_t n_tasks, int64_t limit_ms)
{
    child *children = calloc(n_tasks + 1, sizeof *children);
    for (size_t i = 0; i < n_tasks; i++) {
        tasks[i].usable = false;
        if (children)
            start(&tasks[i], &children[i], limit_ms);
        else
            snprintf(tasks[i].reason, sizeof tasks[i].reason, "no memory to probe it");
    }
    if (!children)
        return;
    child_wait(children, n_tasks);
    for (size_t i = 0; i < n_tasks; i++) {
        if (tasks[i].reason[0] == '\0')
            read_answer(&tasks[i], &children[i]);
        child_clear(&children[i]);
    }
    free(children);
}
