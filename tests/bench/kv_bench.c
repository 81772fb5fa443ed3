/*
 * kv_bench.c - figures of the prefix cache: kv_bench speed [FOLDER] | kv_bench hits
 *
 *     speed   512 MB in chunks of several sizes: put, written, loaded, read from each tier
 *     hits    a day of conversations (kv_trace.h) in a disk tier of 32 MB: how many chunks
 *             are found by kv, and would be by plain LRU and by an oracle (Belady: that goes
 *             whose next use is farthest) with as many bytes
 *
 * Not a test: nothing fails. Figures go to tests/RECORDS.md.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "kv_play.h"
#include "store/kv_db.h"

enum { MB = 1024 * 1024, VISITS = 4000, SIZE = 60000, DISK = 32 * MB, MAX_ITEMS = 1 << 16 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Of this thread alone: what a machine that is busy with others does not change much. */
static double worked(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static kv *open_kv(const kv_config *config)
{
    kv *k = NULL;
    pawl_error error = {.struct_size = sizeof error};
    if (kv_open(config, &k, &error) != PAWL_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    return k;
}

/* ------------------------------------------------------------------- speed --- */

static void put_plain(kv *k, uint32_t i, uint64_t size)
{
    int32_t tokens[KV_HELP_TOKENS];
    kv_help_tokens(1, i, tokens);
    kv_chunk chunk = {.key = kv_help_key(1, i),
                      .tenant = "",
                      .begin = i,
                      .tokens = tokens,
                      .n_tokens = KV_HELP_TOKENS,
                      .part = PAWL_STATE_CHUNK,
                      .payload = malloc(size),
                      .size = size};
    if (i > 0)
        chunk.parent = kv_help_key(1, i - 1);
    memset(chunk.payload, (int)i, size);
    if (kv_put(k, &chunk) != PAWL_OK)
        printf("chunk %u is not taken\n", i);
}

/* GB/s of reading them all, by the clock and by the processor. */
typedef struct rate {
    double wall, work;
} rate;

static rate read_all(kv *k, uint32_t n, uint64_t size, uint8_t *data)
{
    double begin = now(), work = worked();
    for (uint32_t i = 0; i < n; i++) {
        int32_t tokens[KV_HELP_TOKENS];
        kv_reader *reader;
        pawl_source source;
        uint64_t got = 0;
        kv_key key = kv_help_key(1, i);
        kv_help_tokens(1, i, tokens);
        if (kv_read(k, &key, tokens, KV_HELP_TOKENS, &reader, &source) != PAWL_OK)
            continue;
        pawl_status status = source.read(source.context, data, size, &got);
        kv_read_end(reader, status == PAWL_OK && got == size);
    }
    double gb = (double)(n * size) / 1e9;
    return (rate){gb / (now() - begin), gb / (worked() - work)};
}

static void speed_of(const char *folder, uint64_t size)
{
    uint32_t n = (uint32_t)((512u << 20) / size);
    uint8_t *data = malloc(size);
    kv_config config = {.folder = folder,
                        .disk_bytes = 2ull << 30,
                        .memory_bytes = 1ull << 30,
                        .write_bytes_second = 4ull << 30};
    kv *k = open_kv(&config);
    memset(data, 1, size);
    double begin = now();
    for (uint32_t i = 0; i < n; i++)
        put_plain(k, i, size);
    kv_flush(k);
    double written = (double)(n * size) / 1e6 / (now() - begin);
    read_all(k, n, size, data);
    rate memory = read_all(k, n, size, data);
    kv_close(k);
    config.memory_bytes = 0;
    begin = now();
    k = open_kv(&config);
    double opened = (now() - begin) * 1e3;
    rate disk = read_all(k, n, size, data);
    rate again = read_all(k, n, size, data);
    printf("%9llu bytes: written %4.0f MB/s, opened in %4.1f ms; GB/s by the clock (of processor "
           "time): memory %.1f (%.1f), disk %.2f (%.2f), again %.2f (%.2f)\n",
           (unsigned long long)size, written, opened, memory.wall, memory.work, disk.wall,
           disk.work, again.wall, again.work);
    kv_close(k);
    free(data);
}

static int speed(const char *where)
{
    static const uint64_t sizes[] = {256 << 10, 1 << 20, 6 << 20, 16 << 20, 40 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char folder[64];
        if (where)
            snprintf(folder, sizeof folder, "%s/pawl-kv-XXXXXX", where);
        else
            strcpy(folder, "/tmp/pawl-kv-XXXXXX");
        if (!mkdtemp(folder))
            return 1;
        speed_of(folder, sizes[i]);
        help_remove_folder(folder);
    }
    return 0;
}

/* -------------------------------------------------------------------- hits --- */

/* A chunk in the simulation of another policy. */
typedef struct item {
    uint32_t c, i;
    bool cached;
    double worth; /* the least goes first */
} item;

typedef struct simulation {
    item items[MAX_ITEMS];
    uint32_t n_items;
    uint32_t table[4 * MAX_ITEMS]; /* place + 1 of an item, by its hash */
    uint32_t cached[MAX_ITEMS];    /* places of those that are, in no order */
    uint32_t n_cached, most;       /* how many fit                          */
    uint32_t *next_use;            /* of each item of each visit; see oracle */
} simulation;

static uint32_t place_of(simulation *s, const trace_item *wanted)
{
    uint32_t *table = s->table;
    uint32_t h = (wanted->c * 2654435761u ^ wanted->i * 40503u) % (4 * MAX_ITEMS);
    while (table[h]) {
        const item *at = &s->items[table[h] - 1];
        if (at->c == wanted->c && at->i == wanted->i)
            return table[h] - 1;
        h = (h + 1) % (4 * MAX_ITEMS);
    }
    s->items[s->n_items] = (item){.c = wanted->c, .i = wanted->i};
    table[h] = ++s->n_items;
    return s->n_items - 1;
}

static void insert(simulation *s, uint32_t place)
{
    if (s->items[place].cached)
        return;
    if (s->n_cached == s->most) {
        uint32_t first = 0;
        for (uint32_t j = 1; j < s->n_cached; j++) {
            if (s->items[s->cached[j]].worth < s->items[s->cached[first]].worth)
                first = j;
        }
        s->items[s->cached[first]].cached = false;
        s->cached[first] = s->cached[--s->n_cached];
    }
    s->items[place].cached = true;
    s->cached[s->n_cached++] = place;
}

/* What an item is worth once visit n is over: LRU its time, the oracle how soon it is wanted
 * again; of one visit the deeper is worth less. */
static double worth_of(bool oracle, uint32_t n, uint32_t next, uint32_t depth)
{
    return (oracle ? -(double)next : (double)n) - depth / 1000.;
}

static double simulate(simulation *s, const trace_visit *visits, uint32_t *places, bool oracle)
{
    static uint32_t later[MAX_ITEMS];
    uint64_t found = 0, wanted = 0;
    for (uint32_t j = 0; j < MAX_ITEMS; j++)
        later[j] = 1u << 30;
    for (uint32_t n = VISITS; n-- > 0;) {
        for (uint32_t j = 0; j < visits[n].n_items; j++)
            s->next_use[n * TRACE_MAX_ITEMS + j] = later[places[n * TRACE_MAX_ITEMS + j]];
        for (uint32_t j = 0; j < visits[n].n_wanted; j++)
            later[places[n * TRACE_MAX_ITEMS + j]] = n;
    }
    for (uint32_t j = 0; j < s->n_items; j++)
        s->items[j].cached = false;
    s->n_cached = 0;
    for (uint32_t n = 0; n < VISITS; n++) {
        const trace_visit *v = &visits[n];
        const uint32_t *place = &places[n * TRACE_MAX_ITEMS];
        uint32_t hits = 0;
        while (hits < v->n_wanted && s->items[place[hits]].cached)
            hits++;
        found += hits;
        wanted += v->n_wanted;
        for (uint32_t j = 0; j < v->n_items; j++)
            s->items[place[j]].worth = worth_of(oracle, n, s->next_use[n * TRACE_MAX_ITEMS + j], j);
        for (uint32_t j = 0; j < v->n_items; j++)
            insert(s, place[j]);
    }
    return 100. * (double)found / (double)wanted;
}

static double play(const trace_visit *visits, double *from_memory)
{
    char folder[64];
    play_clock clock;
    uint64_t found = 0, wanted = 0;
    kv_help_make_folder(folder);
    play_clock_init(&clock);
    clock.now_ms = visits[0].at_ms;
    kv_config config = {.folder = folder,
                        .disk_bytes = DISK,
                        .memory_bytes = DISK / 4,
                        .write_bytes_second = 1u << 30,
                        .clock = &clock.clock};
    metrics *all = config.metrics = metrics_open();
    static const metric_spec hits = {
        METRIC_COUNTER, "pawl_prefix_cache_tier_hits_total", "", {"tier"}, NULL};
    kv *k = open_kv(&config);
    for (uint32_t n = 0; n < VISITS; n++) {
        clock.now_ms = visits[n].at_ms;
        found += play_visit(k, &visits[n], SIZE);
        wanted += visits[n].n_wanted;
        kv_flush(k);
    }
    *from_memory = 100. * metric_value(metric_with(metrics_family(all, &hits), "memory", NULL)) /
                   (double)wanted;
    kv_close(k);
    metrics_close(all);
    help_remove_folder(folder);
    return 100. * (double)found / (double)wanted;
}

static void hits_of(bool floods)
{
    trace_visit *visits = calloc(VISITS, sizeof *visits);
    uint32_t *places = calloc((size_t)VISITS * TRACE_MAX_ITEMS, sizeof *places);
    simulation *s = calloc(1, sizeof *s);
    double memory;
    trace t;
    trace_begin(&t, 1, floods);
    s->next_use = calloc((size_t)VISITS * TRACE_MAX_ITEMS, sizeof *s->next_use);
    s->most = (uint32_t)(DISK / kv_db_footprint(SIZE, PLAY_TOKENS));
    for (uint32_t n = 0; n < VISITS; n++) {
        trace_next(&t, &visits[n]);
        for (uint32_t j = 0; j < visits[n].n_items; j++)
            places[n * TRACE_MAX_ITEMS + j] = place_of(s, &visits[n].items[j]);
    }
    printf("%d visits%s, %u chunks, %u fit\n", VISITS,
           floods ? ", half of them by people who never come back" : "", s->n_items, s->most);
    double kv_rate = play(visits, &memory);
    printf("kv      %.1f %% found (%.1f %% in memory, a quarter of the bytes)\n", kv_rate, memory);
    printf("LRU     %.1f %%\n", simulate(s, visits, places, false));
    printf("oracle  %.1f %%\n", simulate(s, visits, places, true));
    free(s->next_use);
    free(s);
    free(places);
    free(visits);
}

int main(int argc, char **argv)
{
    log_set_level(PAWL_LOG_WARN);
    if (argc >= 2 && strcmp(argv[1], "speed") == 0)
        return speed(argc > 2 ? argv[2] : NULL);
    if (argc == 2 && strcmp(argv[1], "hits") == 0)
        return hits_of(false), hits_of(true), 0;
    fprintf(stderr, "usage: kv_bench speed [FOLDER] | kv_bench hits\n");
    return 2;
}
