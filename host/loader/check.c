/*
 * loader/check.c - runs groups of rules in children and collects their lines.
 *
 * The temporary folder with the tiny model lives from the first group to the last.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check.h"

#include "base/file.h"
#include "loader/check_rules.h"
#include "loader/child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const check_group *const groups[] = {
    &check_file_group,     &check_entry_group,     &check_host_group,   &check_growth_group,
    &check_errors_group,   &check_lifecycle_group, &check_engine_group, &check_exact_group,
    &check_exchange_group, &check_tokenizer_group, &check_chat_group,   &check_threads_group,
};
/* What group "exchange" runs in two children of its own. */
static const check_group *const halves[] = {&check_save_group, &check_take_group};

#define N_GROUPS (sizeof groups / sizeof *groups)

const char *check_group_name(size_t i)
{
    return i < N_GROUPS ? groups[i]->name : NULL;
}

static const check_group *find_group(const char *name)
{
    for (size_t i = 0; i < N_GROUPS; i++)
        if (strcmp(groups[i]->name, name) == 0)
            return groups[i];
    return NULL;
}

static const check_group *find_half(const char *name)
{
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
        if (strcmp(halves[i]->name, name) == 0)
            return halves[i];
    return NULL;
}

/* ---- in the child ---- */

static const char *const verdict_names[] = {"PASS", "FAIL", "SKIP"};

static bool send_line(int out, const char *verdict, const char *rule, const char *text,
                      const char *why)
{
    buf line;
    buf_init(&line, 4096);
    buf_printf(&line, "%s\t%s\t%s%s%s\n", verdict, rule, text, *why ? ": " : "", why);
    for (size_t i = 0; i + 1 < line.size; i++)
        if (line.data[i] == '\n')
            line.data[i] = ' ';
    bool sent = !line.failed && child_answer(out, line.data, line.size);
    buf_clear(&line);
    return sent;
}

/* What the plugin prints goes to a memory file, to be counted. */
static int catch_output(void)
{
    int caught = memfd_create("output", MFD_CLOEXEC);
    if (caught >= 0) {
        dup2(caught, STDOUT_FILENO);
        dup2(caught, STDERR_FILENO);
    }
    return caught;
}

static void judge_output(check *c, int caught, int out)
{
    char text[200] = "";
    fflush(NULL);
    ssize_t size = caught >= 0 ? pread(caught, text, sizeof text - 1, 0) : 0;
    if (size > 0)
        check_say(c, CHECK_FAIL, "it wrote \"%s\"", text);
    send_line(out, size > 0 ? "FAIL" : "PASS", "quiet",
              "nothing is written to standard output and error", c->why);
}

int check_serve(int argc, char **argv, int out)
{
    const check_group *group = argc == 5   ? find_group(argv[0])
                               : argc == 6 ? find_half(argv[0])
                                           : NULL;
    if (!group)
        return 2;
    check c = {.library_path = argv[1],
               .manifest_path = argv[2],
               .model = argv[3],
               .own_model = strcmp(argv[4], "own") == 0,
               .exchange = argc == 6 ? argv[5] : NULL};
    int caught = catch_output();
    bool sent = true;
    for (size_t i = 0; i < group->n_rules && sent; i++) {
        const check_rule *rule = &group->rules[i];
        c.why[0] = '\0';
        send_line(out, "RUN", rule->name, rule->text, "");
        enum check_verdict verdict = rule->run(&c);
        sent = send_line(out, verdict_names[verdict], rule->name, rule->text, c.why);
    }
    c.why[0] = '\0';
    send_line(out, "RUN", "close", "everything can be closed", "");
    check_end(&c);
    judge_output(&c, caught, out);
    return 0;
}

/* ---- in the parent ---- */

typedef struct run {
    const check_config *config;
    check_report report;
    void *arg;
    size_t failed;
    char library[4096];
    char manifest[4096]; /* "" where there is none */
    char folder[64];     /* temporary              */
    char model[4096];
} run;

static void tell(run *r, const char *group, const char *rule, enum check_verdict verdict,
                 const char *text)
{
    r->failed += verdict == CHECK_FAIL;
    r->report(r->arg, group, rule, verdict, text);
}

/* Turns the child's lines into reports; `last` is the rule that was begun and not ended. */
static void read_lines(run *r, const char *group, char *lines, char *last, size_t size)
{
    char *rest = lines;
    last[0] = '\0';
    for (char *line; rest && (line = strsep(&rest, "\n"));) {
        char *text = line;
        const char *verdict = strsep(&text, "\t");
        const char *rule = strsep(&text, "\t");
        if (!rule || !text)
            continue;
        if (strcmp(verdict, "RUN") == 0) {
            snprintf(last, size, "%s", rule);
            continue;
        }
        last[0] = '\0';
        for (int v = 0; v < 3; v++)
            if (strcmp(verdict, verdict_names[v]) == 0)
                tell(r, group, rule, (enum check_verdict)v, text);
    }
}

static pawl_status run_group(run *r, const check_group *group, pawl_error *error)
{
    char name[32], how[160], last[64], text[300];
    snprintf(name, sizeof name, "%s", group->name);
    char plugin[] = "plugin", command[] = "check-group", own[] = "own", tiny[] = "tiny";
    char *words[] = {
        plugin, command, name, r->library, r->manifest, r->model, r->config->model ? own : tiny,
        NULL};
    child c;
    pawl_status status = child_start(&c, words, check_serve, r->config->limit_ms, error);
    if (status)
        return status;
    child_wait(&c, 1);
    char *lines = strdup(buf_text(&c.output));
    if (lines)
        read_lines(r, group->name, lines, last, sizeof last);
    if (lines && !child_succeeded(&c, how, sizeof how)) {
        snprintf(text, sizeof text, "the group's process lives to its end: %s%s%s", how,
                 last[0] ? " in rule " : "", last);
        tell(r, group->name, last[0] ? last : "survives", CHECK_FAIL, text);
    }
    free(lines);
    child_clear(&c);
    return lines ? PAWL_OK : pawl_fail(error, PAWL_E_MEMORY, "no memory");
}

/* NAME.so has its manifest beside it, NAME.plugin.json. */
static pawl_status find_files(run *r, pawl_error *error)
{
    struct stat st;
    if (!realpath(r->config->library, r->library))
        return pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", r->config->library, strerror(errno));
    size_t size = strlen(r->library);
    if (size > 3 && strcmp(r->library + size - 3, ".so") == 0)
        size -= 3;
    int n =
        snprintf(r->manifest, sizeof r->manifest, "%.*s%s", (int)size, r->library, MANIFEST_SUFFIX);
    if (n < 0 || (size_t)n >= sizeof r->manifest || stat(r->manifest, &st))
        r->manifest[0] = '\0';
    return PAWL_OK;
}

static pawl_status prepare_model(run *r, pawl_error *error)
{
    if (r->config->model) {
        if (!realpath(r->config->model, r->model))
            return pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", r->config->model, strerror(errno));
        return PAWL_OK;
    }
    const char *base = getenv("TMPDIR");
    snprintf(r->folder, sizeof r->folder, "%.40s/pawl-check-XXXXXX",
             base && base[0] == '/' && strlen(base) <= 40 ? base : "/tmp");
    if (!mkdtemp(r->folder)) {
        pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", r->folder, strerror(errno));
        r->folder[0] = '\0';
        return PAWL_E_NOT_FOUND;
    }
    snprintf(r->model, sizeof r->model, "%s/tiny.gguf", r->folder);
    return check_write_model(r->model, error);
}

static pawl_status run_groups(run *r, pawl_error *error)
{
    const check_config *config = r->config;
    pawl_status status = PAWL_OK;
    for (size_t i = 0; i < config->n_groups; i++)
        if (!find_group(config->groups[i]))
            return pawl_fail(error, PAWL_E_ARGUMENT, "there is no group \"%s\"", config->groups[i]);
    for (size_t g = 0; g < N_GROUPS && !status; g++) {
        bool wanted = config->n_groups == 0;
        for (size_t i = 0; i < config->n_groups; i++)
            wanted = wanted || strcmp(config->groups[i], groups[g]->name) == 0;
        if (wanted)
            status = run_group(r, groups[g], error);
    }
    return status;
}

pawl_status check_run(const check_config *config, check_report report, void *arg, size_t *failed,
                      pawl_error *error)
{
    run *r = calloc(1, sizeof *r);
    if (!r)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    r->config = config;
    r->report = report;
    r->arg = arg;
    pawl_status status = find_files(r, error);
    if (!status)
        status = prepare_model(r, error);
    if (!status)
        status = run_groups(r, error);
    if (r->folder[0]) {
        unlink(r->model);
        rmdir(r->folder);
    }
    if (!status)
        *failed = r->failed;
    free(r);
    return status;
}
