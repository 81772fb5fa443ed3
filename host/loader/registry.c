/*
 * loader/registry.c - from manifests to running plugins. See registry.h.
 *
 *   search -> manifest -> ABI, duplicate, owner, digest, processor -> probe (child)
 *          -> usable -> [registry_use] load, init -> running -> shutdown
 *
 * An entry owns its strings and, once loaded, its library. Everything here is
 * [main] but reading a table that registry_use() gave.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/registry.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "loader/checked.h"
#include "loader/library.h"
#include "loader/manifest.h"
#include "loader/probe.h"
#include "loader/quarantine.h"
#include "loader/search.h"
#include "loader/services.h"

#include <stdlib.h>
#include <string.h>

#define COMPONENT "loader"

typedef struct entry {
    registry_plugin shown; /* points at the strings below and at the manifest's */
    manifest manifest;
    char *path; /* of the manifest        */
    char *library_path;
    char reason[600];
    library loaded;
    services services; /* what it gets from us; valid until shutdown() */
    checked *checked;  /* in front of its tables, in a build with PAWL_CHECK; or NULL */
} entry;

struct registry {
    entry *entries;
    size_t count;
    uint32_t generations; /* handed out so far                       */
    metrics *metrics;     /* or NULL                                 */
};

/* ---- refusing ---- */

static void refuse(entry *e, const char *format, ...) PAWL_PRINTF(2, 3);

static void refuse(entry *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(e->reason, sizeof e->reason, format, args);
    va_end(args);
    e->shown.state = REGISTRY_REFUSED;
    log_write(PAWL_LOG_WARN, COMPONENT, "%s is not used: %s", e->shown.manifest_path, e->reason);
}

static void show(entry *e)
{
    const manifest *m = &e->manifest;
    e->shown.manifest_path = e->path;
    e->shown.library_path = e->library_path;
    e->shown.id = m->id ? m->id : "";
    e->shown.name = m->name ? m->name : "";
    e->shown.version = m->version ? m->version : "";
    e->shown.interfaces = m->interfaces ? m->interfaces : "";
    e->shown.reason = e->reason;
}

static char *library_path(const char *manifest_path, const char *relative)
{
    char *folder = strdup(manifest_path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    char *path = NULL;
    if (slash) {
        *slash = '\0';
        path = file_join(folder, relative);
    }
    free(folder);
    return path;
}

/* ---- checks before any code of it runs ---- */

static bool is_duplicate(const registry *r, const entry *e)
{
    for (size_t i = 0; i < r->count && &r->entries[i] != e; i++)
        if (r->entries[i].manifest.id && strcmp(r->entries[i].manifest.id, e->manifest.id) == 0)
            return true;
    return false;
}

static bool digest_fits(entry *e)
{
    char hex[DIGEST_HEX_SIZE];
    pawl_error why = {.struct_size = sizeof why};
    if (!e->manifest.sha256)
        return true;
    if (digest_file(e->library_path, hex, &why)) {
        refuse(e, "%s", why.message);
        return false;
    }
    if (strcmp(hex, e->manifest.sha256) == 0)
        return true;
    refuse(e, "%s has SHA-256 %s, its manifest says %s", e->library_path, hex, e->manifest.sha256);
    return false;
}

/* The processor's features as the kernel names them, one line of words. */
static void read_cpu_features(buf *out)
{
    buf text;
    buf_init(&text, 4u << 20);
    if (!file_read("/proc/cpuinfo", &text, NULL)) {
        const char *line = strstr(buf_text(&text), "\nflags");
        line = line ? line : strstr(buf_text(&text), "\nFeatures");
        const char *colon = line ? strchr(line, ':') : NULL;
        if (colon)
            buf_add(out, colon + 2, strcspn(colon + 2, "\n"));
    }
    buf_clear(&text);
}

static bool cpu_fits(entry *e)
{
    buf have;
    bool fits = true;
    if (!e->manifest.cpu)
        return true;
    buf_init(&have, 65536);
    read_cpu_features(&have);
    char *need = strdup(e->manifest.cpu);
    char *rest = need;
    for (char *word; fits && (word = strsep(&rest, " "));)
        if (*word && !manifest_lists(buf_text(&have), word)) {
            refuse(e, "it needs the processor feature \"%s\", which this machine lacks", word);
            fits = false;
        }
    free(need);
    buf_clear(&have);
    return fits;
}

static void add_entry(registry *r, search_hit *hit)
{
    entry *e = &r->entries[r->count++];
    pawl_error why = {.struct_size = sizeof why};
    e->path = hit->path;
    hit->path = NULL;
    show(e);
    if (hit->reason) {
        refuse(e, "%s", hit->reason);
        return;
    }
    if (manifest_read(e->path, &e->manifest, &why)) {
        refuse(e, "%s", why.message);
        return;
    }
    e->library_path = library_path(e->path, e->manifest.library);
    show(e);
    if (e->manifest.abi_major != PAWL_ABI_MAJOR)
        refuse(e, "it is built for ABI %u, this host speaks ABI %d", e->manifest.abi_major,
               PAWL_ABI_MAJOR);
    else if (is_duplicate(r, e))
        refuse(e, "another plugin with the id %s was found before it", e->manifest.id);
    else if (!e->library_path)
        refuse(e, "no memory");
    else if (search_trust(e->library_path, false, &why))
        refuse(e, "%s", why.message);
    else if (digest_fits(e) && cpu_fits(e))
        e->shown.state = REGISTRY_LISTED;
}

/* ---- probing ---- */

/* A file whose probe died is not probed again; then the entry is refused. */
static bool is_quarantined(entry *e, const quarantine *q)
{
    char hex[DIGEST_HEX_SIZE];
    if (quarantine_is_empty(q) || digest_file(e->library_path, hex, NULL))
        return false;
    const char *reason = quarantine_reason(q, hex);
    if (reason)
        refuse(e,
               "%.300s; it is in quarantine, since the file has not changed: `pawl plugin release "
               "%.128s` has it tried again",
               reason, e->manifest.id);
    return reason != NULL;
}

static void put_in_quarantine(const entry *e, quarantine *q, const char *reason)
{
    char hex[DIGEST_HEX_SIZE];
    if (q && !digest_file(e->library_path, hex, NULL))
        quarantine_add(q, hex, e->manifest.id, e->library_path, reason);
}

static void judge(entry *e, const probe_task *task, quarantine *q)
{
    if (task->died)
        put_in_quarantine(e, q, task->reason);
    if (!task->usable)
        refuse(e, "%s", task->reason);
    else if (strcmp(task->id, e->manifest.id) != 0)
        refuse(e, "its manifest calls it %s, its entry %s", e->manifest.id, task->id);
    else if (strcmp(task->version, e->manifest.version) != 0)
        refuse(e, "its manifest says version %s, its entry %s", e->manifest.version, task->version);
    else if (task->missing[0])
        refuse(e, "its manifest lists %s, its entry does not offer it", task->missing);
    else
        e->shown.state = REGISTRY_USABLE;
    e->shown.score = task->score;
}

static pawl_status probe_listed(registry *r, pawl_error *error)
{
    probe_task *tasks = calloc(r->count + 1, sizeof *tasks);
    entry **owners = calloc(r->count + 1, sizeof *owners);
    quarantine *q = quarantine_open();
    size_t n = 0;
    for (size_t i = 0; tasks && owners && i < r->count; i++) {
        entry *e = &r->entries[i];
        if (e->shown.state != REGISTRY_LISTED || is_quarantined(e, q))
            continue;
        owners[n] = e;
        tasks[n++] = (probe_task){.library = e->library_path, .interfaces = e->manifest.interfaces};
    }
    if (tasks && owners)
        probe_run(tasks, n, PROBE_LIMIT_MS);
    for (size_t i = 0; i < n; i++)
        judge(owners[i], &tasks[i], q);
    quarantine_close(q);
    bool done = tasks && owners;
    free(tasks);
    free(owners);
    return done ? PAWL_OK : pawl_fail(error, PAWL_E_MEMORY, "no memory to probe plugins");
}

/* ---- public ---- */

pawl_status registry_open(const registry_config *config, registry **out, pawl_error *error)
{
    search_hits hits;
    pawl_status status = search_find(config, &hits, error);
    if (status)
        return status;
    registry *r = calloc(1, sizeof *r);
    if (r)
        r->entries = calloc(hits.count + 1, sizeof *r->entries);
    if (!r || !r->entries) {
        free(r);
        search_clear(&hits);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to list plugins");
    }
    r->metrics = config->metrics;
    for (size_t i = 0; i < hits.count; i++)
        add_entry(r, &hits.items[i]);
    search_clear(&hits);
    status = probe_listed(r, error);
    if (status)
        registry_close(r);
    else
        *out = r;
    return status;
}

void registry_close(registry *r)
{
    if (!r)
        return;
    for (size_t i = r->count; i-- > 0;) {
        entry *e = &r->entries[i];
        if (e->shown.state == REGISTRY_RUNNING) {
            checked_close(e->checked);
            e->loaded.plugin->shutdown();
            e->shown.state = REGISTRY_STOPPED;
        }
        library_close(&e->loaded);
        manifest_clear(&e->manifest);
        free(e->path);
        free(e->library_path);
    }
    free(r->entries);
    free(r);
}

size_t registry_count(const registry *r)
{
    return r->count;
}

const registry_plugin *registry_at(const registry *r, size_t i)
{
    return i < r->count ? &r->entries[i].shown : NULL;
}

/* Loads and initialises; a plugin that fails is refused from now on. */
static bool start(registry *r, entry *e)
{
    pawl_error why = {.struct_size = sizeof why};
    if (e->shown.state == REGISTRY_RUNNING)
        return true;
    if (library_open(e->library_path, &e->loaded, &why)) {
        refuse(e, "%s", why.message);
        return false;
    }
    e->shown.generation = ++r->generations;
    services_init(&e->services, r->metrics, e->shown.id);
    if (e->loaded.plugin->init(&e->services.host, &why)) {
        why.message[sizeof why.message - 1] = '\0';
        refuse(e, "its init failed: %s", why.message[0] ? why.message : "no reason given");
        return false;
    }
    e->shown.state = REGISTRY_RUNNING;
    if (PAWL_CHECK)
        e->checked = checked_open(e->loaded.plugin);
    log_write(PAWL_LOG_INFO, COMPONENT, "%s %s runs as generation %u, from %s", e->shown.id,
              e->shown.version, e->shown.generation, e->library_path);
    return true;
}

/* The nth usable plugin by score, in search order where scores are equal. */
static entry *choose(registry *r, const char *interface_id, size_t nth)
{
    entry *last = NULL;
    for (size_t rank = 0; rank <= nth; rank++) {
        entry *best = NULL;
        for (size_t i = 0; i < r->count; i++) {
            entry *e = &r->entries[i];
            bool usable = e->shown.state == REGISTRY_USABLE || e->shown.state == REGISTRY_RUNNING;
            if (!usable || !manifest_lists(e->shown.interfaces, interface_id))
                continue;
            bool after_last = !last || e->shown.score < last->shown.score ||
                              (e->shown.score == last->shown.score && e > last);
            if (after_last && (!best || e->shown.score > best->shown.score))
                best = e;
        }
        if (!best)
            return NULL;
        last = best;
    }
    return last;
}

pawl_status registry_use(registry *r, const char *interface_id, size_t nth, const void **table,
                         const registry_plugin **plugin, pawl_error *error)
{
    for (entry *e; (e = choose(r, interface_id, nth));) {
        if (!start(r, e))
            continue;
        const void *found = e->loaded.plugin->get_interface(interface_id);
        if (!found) {
            checked_close(e->checked);
            e->loaded.plugin->shutdown();
            refuse(e, "it offered %s to its probe and not now", interface_id);
            continue;
        }
        *table = e->checked ? checked_table(e->checked, interface_id, found) : found;
        if (plugin)
            *plugin = &e->shown;
        return PAWL_OK;
    }
    return pawl_fail(error, PAWL_E_NOT_FOUND, "no%s plugin offers %s; see `pawl plugin list`",
                     nth ? " further" : " usable", interface_id);
}
