/*
 * loader/check_exchange.c - group "exchange": state that leaves its process.
 *
 * One child saves, a second one loads: what a saved state depends on beside kv_format
 * (an address, a table built at start) shows only there. The two halves are groups of
 * their own, which the user does not see; between them is a memory file of this
 * process, which they open by its path in /proc. No library is loaded here, so that a
 * fork (child.h) is sound.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_engine.h"

#include "loader/child.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LIMIT_MS 100000 /* of each half; the group's own limit comes on top */

/* A half fails with any of its lines, and is skipped or passes with its one rule. */
static enum check_verdict judge(check *c, const char *half, child *process)
{
    char how[160];
    const char *found = NULL;
    enum check_verdict verdict = CHECK_FAIL;
    if (!child_succeeded(process, how, sizeof how))
        return check_say(c, CHECK_FAIL, "the process that is to %s: %s", half, how);
    if ((found = strstr(buf_text(&process->output), "FAIL\t")))
        verdict = CHECK_FAIL;
    else if ((found = strstr(buf_text(&process->output), "SKIP\t")))
        verdict = CHECK_SKIP;
    else if ((found = strstr(buf_text(&process->output), "PASS\t")))
        verdict = CHECK_PASS;
    const char *text = found ? strstr(found, ": ") : NULL;
    size_t size = text ? strcspn(text + 2, "\n") : 0;
    if (verdict != CHECK_PASS)
        check_say(c, verdict, "%s: %.*s", half, (int)size, text ? text + 2 : "");
    return verdict;
}

static enum check_verdict run_half(check *c, const check_group *half, const char *path)
{
    char plugin[] = "plugin", command[] = "check-group", own[] = "own", tiny[] = "tiny";
    char *words[] = {plugin,
                     command,
                     (char *)(uintptr_t)half->name,
                     (char *)(uintptr_t)c->library_path,
                     (char *)(uintptr_t)c->manifest_path,
                     (char *)(uintptr_t)c->model,
                     c->own_model ? own : tiny,
                     (char *)(uintptr_t)path,
                     NULL};
    child process;
    pawl_error why = {.struct_size = sizeof why};
    if (child_start(&process, words, check_serve, LIMIT_MS, &why))
        return check_say(c, CHECK_SKIP, "%s", why.message);
    child_wait(&process, 1);
    enum check_verdict verdict = judge(c, half->name, &process);
    child_clear(&process);
    return verdict;
}

static enum check_verdict state(check *c)
{
    char path[64];
    int file = memfd_create("exchange", MFD_CLOEXEC);
    if (file < 0)
        return check_say(c, CHECK_SKIP, "no memory file");
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), file);
    enum check_verdict verdict = run_half(c, &check_save_group, path);
    if (verdict == CHECK_PASS)
        verdict = run_half(c, &check_take_group, path);
    close(file);
    return verdict;
}

static enum check_verdict save(check *c)
{
    return check_state_put(c, c->exchange);
}

static enum check_verdict take(check *c)
{
    return check_state_take(c, c->exchange);
}

static const check_rule rules[] = {
    {"state", "a state that one process saved goes on in another", state},
};
static const check_rule save_rules[] = {{"state", "it is saved", save}};
static const check_rule take_rules[] = {{"state", "it is loaded and goes on", take}};

const check_group check_exchange_group = {"exchange", rules, sizeof rules / sizeof *rules};
const check_group check_save_group = {"save", save_rules, 1};
const check_group check_take_group = {"load", take_rules, 1};
