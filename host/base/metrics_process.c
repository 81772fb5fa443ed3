/*
 * base/metrics_process.c - what the system says of this process. See metrics.h.
 *
 * Read from /proc when the metrics are asked for, under the names that all Prometheus
 * clients use for it. What cannot be read keeps its last value.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/metrics.h"

#include "base/log.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { RESIDENT, VIRTUAL, OPEN_FDS, MAX_FDS, CPU, START, N_PROCESS };

static const metric_spec specs[N_PROCESS] = {
    {METRIC_GAUGE, "process_resident_memory_bytes", "Resident memory size.", {0}, NULL},
    {METRIC_GAUGE, "process_virtual_memory_bytes", "Virtual memory size.", {0}, NULL},
    {METRIC_GAUGE, "process_open_fds", "Open file descriptors.", {0}, NULL},
    {METRIC_GAUGE, "process_max_fds", "Limit of open file descriptors.", {0}, NULL},
    {METRIC_COUNTER, "process_cpu_seconds_total", "User and system time.", {0}, NULL},
    {METRIC_GAUGE, "process_start_time_seconds", "Start of the process since 1970.", {0}, NULL},
};

/* Adding a family again finds it, so that nothing has to be kept here. */
static metric *at(metrics *all, int which)
{
    return metrics_single(all, &specs[which]);
}

static void collect_memory(metrics *all)
{
    unsigned long long size = 0, resident = 0;
    long page = sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return;
    if (fscanf(file, "%llu %llu", &size, &resident) == 2 && page > 0) {
        metric_set(at(all, RESIDENT), (double)resident * (double)page);
        metric_set(at(all, VIRTUAL), (double)size * (double)page);
    }
    fclose(file);
}

static void collect_descriptors(metrics *all)
{
    struct rlimit limit;
    DIR *folder = opendir("/proc/self/fd");
    int n = -1; /* the folder itself is one */
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    closedir(folder);
    metric_set(at(all, OPEN_FDS), n);
    if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur != RLIM_INFINITY)
        metric_set(at(all, MAX_FDS), (double)limit.rlim_cur);
}

static void collect_logs(metrics *all)
{
    static const metric_spec lines = {
        METRIC_COUNTER, "pawl_log_lines_total", "Lines written to the log.", {"level"}, NULL};
    static const metric_spec dropped = {
        METRIC_COUNTER, "pawl_log_dropped_total", "Lines left out by the limit.", {0}, NULL};
    metric_family *family = metrics_family(all, &lines);
    for (int32_t level = PAWL_LOG_DEBUG; level <= PAWL_LOG_ERROR; level++)
        metric_raise_to(metric_with(family, log_level_name(level), NULL),
                        (double)log_written(level));
    metric_raise_to(metrics_single(all, &dropped), (double)log_dropped());
}

static void collect(void *arg)
{
    metrics *all = arg;
    struct timespec cpu;
    collect_memory(all);
    collect_descriptors(all);
    collect_logs(all);
    if (!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu))
        metric_raise_to(at(all, CPU), (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
}

void metrics_add_process(metrics *all, const char *version)
{
    static const metric_spec info = {METRIC_GAUGE,
                                     "pawl_build_info",
                                     "Always 1; its labels say what is running.",
                                     {"version", "abi"},
                                     NULL};
    char abi[32];
    struct timespec now;
    snprintf(abi, sizeof abi, "%d.%d", PAWL_ABI_MAJOR, PAWL_ABI_MINOR);
    metric_set(metric_with(metrics_family(all, &info), version, abi), 1);
    clock_gettime(CLOCK_REALTIME, &now);
    metric_set(at(all, START), (double)now.tv_sec + (double)now.tv_nsec / 1e9);
    metrics_on_write(all, collect, all);
}
