/*
 * loader/services.c - what the host gives to a plugin. See services.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/services.h"

#include "base/log.h"

#include <string.h>

static const void *get_interface(const pawl_host *host, const char *id)
{
    (void)host;
    (void)id;
    return NULL;
}

static void write_log(const pawl_host *host, int32_t level, const char *component, pawl_bytes line)
{
    (void)host;
    int size = line.size < 2000 ? (int)line.size : 2000;
    log_write(level, component ? component : "plugin", "%.*s", size, line.data ? line.data : "");
}

static metric *make(const services *s, int32_t type, const char *name, const char *help)
{
    static const char prefix[] = "pawl_plugin_", ending[] = "_total";
    char full[128];
    size_t size = name ? strlen(name) : 0;
    bool ended = size >= sizeof ending && strcmp(name + size - (sizeof ending - 1), ending) == 0;
    if (size == 0 || size > sizeof full - sizeof prefix - sizeof ending || type < PAWL_COUNTER ||
        type > PAWL_HISTOGRAM)
        return NULL;
    snprintf(full, sizeof full, "%s%s%s", prefix, name,
             type == PAWL_COUNTER && !ended ? ending : "");
    metric_spec spec = {.type = type == PAWL_COUNTER ? METRIC_COUNTER
                                : type == PAWL_GAUGE ? METRIC_GAUGE
                                                     : METRIC_HISTOGRAM,
                        .name = full,
                        .help = help ? help : "Reported by a plugin.",
                        .labels = {"plugin"},
                        .bounds = type == PAWL_HISTOGRAM ? &metric_seconds : NULL};
    return metric_with(metrics_family(s->all, &spec), s->id, NULL);
}

static uint64_t add_metric(const pawl_host *host, int32_t type, const char *name, const char *help)
{
    services *s = host->context;
    if (!s->all)
        return 0;
    metric *m = make(s, type, name, help);
    unsigned at = m ? atomic_load(&s->taken) : SERVICES_MAX_METRICS;
    while (at < SERVICES_MAX_METRICS && !atomic_compare_exchange_weak(&s->taken, &at, at + 1))
        continue;
    if (at >= SERVICES_MAX_METRICS) {
        log_write(PAWL_LOG_WARN, "loader", "%s: its metric %s is not taken", s->id,
                  name ? name : "without a name");
        return 0;
    }
    s->types[at] = type;
    atomic_store(&s->handles[at], m);
    return at + 1;
}

static void report(const pawl_host *host, uint64_t handle, double value)
{
    services *s = host->context;
    if (handle == 0 || handle > SERVICES_MAX_METRICS)
        return;
    metric *m = atomic_load(&s->handles[handle - 1]);
    if (!m)
        return;
    switch (s->types[handle - 1]) {
    case PAWL_COUNTER:
        metric_add(m, value);
        break;
    case PAWL_GAUGE:
        metric_set(m, value);
        break;
    default:
        metric_observe(m, value);
        break;
    }
}

void services_init(services *s, metrics *all, const char *plugin_id)
{
    *s = (services){.host = {.struct_size = sizeof s->host,
                             .abi_minor = PAWL_ABI_MINOR,
                             .context = s,
                             .version = PAWL_VERSION,
                             .get_interface = get_interface,
                             .log = write_log,
                             .metric = add_metric,
                             .report = report},
                    .all = all,
                    .id = plugin_id};
}
