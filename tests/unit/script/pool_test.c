/*
 * tests/unit/script/pool_test.c - many runs on a few threads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kept.h"
#include "script/pool.h"

#include <pthread.h>

#define N_RUNS 60

typedef struct ends {
    pthread_mutex_t lock;
    pthread_cond_t came;
    size_t n;
    char latest[CLOCK_ID_SIZE];
} ends;

static void on_ended(void *arg, const char *id)
{
    ends *e = arg;
    pthread_mutex_lock(&e->lock);
    e->n++;
    snprintf(e->latest, sizeof e->latest, "%s", id);
    pthread_cond_broadcast(&e->came);
    pthread_mutex_unlock(&e->lock);
}

static void wait_for(ends *e, size_t n)
{
    pthread_mutex_lock(&e->lock);
    while (e->n < n)
        pthread_cond_wait(&e->came, &e->lock);
    pthread_mutex_unlock(&e->lock);
}

typedef struct world {
    kept k;
    pool *pool;
    ends ends;
} world;

static void open_world(world *w, size_t n_workers)
{
    pawl_error error = {.struct_size = sizeof error};
    *w = (world){.ends = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, ""}};
    kept_make(&w->k);
    w->pool = pool_open(clock_system(), n_workers, on_ended, &w->ends, &error);
    assert_non_null(w->pool);
}

static void close_world(world *w)
{
    pool_stop(w->pool);
    kept_close(&w->k);
    pool_free(w->pool);
}

static void begin(world *w, const char *source, char id[CLOCK_ID_SIZE])
{
    static const script_limits limits = {.memory = 8u << 20, .wall_ms = 60000};
    pawl_error error = {.struct_size = sizeof error};
    instance_config config = {.runtime = w->k.runtime, .allowed = limits, .caller = RUN_NOBODY};
    pipeline *p = kept_load(source, false, &limits);
    instance *i = NULL;
    pool_place *place = pool_reserve(w->pool);
    assert_non_null(place);
    pool_configure(place, &config);
    assert_int_equal(instance_begin(&config, p, "", "{}", &i, &error), PAWL_OK);
    snprintf(id, CLOCK_ID_SIZE, "%s", instance_id(i));
    pipeline_release(p);
    pool_start(place, i);
}

/* Whether the run's row has this state and this result (NULL: any). */
static void stands(world *w, const char *id, const char *state, const char *result)
{
    pawl_error error = {.struct_size = sizeof error};
    run_caller caller = RUN_NOBODY;
    store_run *row = NULL;
    assert_int_equal(instance_look(w->k.runtime, &caller, id, &row, &error), PAWL_OK);
    assert_string_equal(row->state, state);
    if (result)
        assert_string_equal(row->result, result);
    free(row);
}

static void all_come_to_their_end(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "ctx:sleep(5) return ctx:step('a', function() ctx:emit('x', 1) return 7 end)",
        "local n = 0 for i = 1, 200000 do n = n + i % 3 end return 7",
        "return ctx:map({1, 2, 3}, function(i) ctx:sleep(i) return ctx:step('k' .. i, function()\n"
        "return i end) end)[3] + 4",
        "for i = 1, 5 do ctx:now() ctx:sleep(0) end return 7",
    };
    char ids[N_RUNS][CLOCK_ID_SIZE];
    world w;
    open_world(&w, 3);
    for (size_t i = 0; i < N_RUNS; i++)
        begin(&w, sources[i % 4], ids[i]);
    wait_for(&w.ends, N_RUNS);
    for (size_t i = 0; i < N_RUNS; i++)
        stands(&w, ids[i], "done", "7");
    assert_int_equal(pool_count(w.pool), 0);
    close_world(&w);
}

/* One thread, three scripts that spin, and one that has little to do. */
static void slices_are_shared(void **state)
{
    (void)state;
    char spinning[3][CLOCK_ID_SIZE], id[CLOCK_ID_SIZE];
    world w;
    open_world(&w, 1);
    for (size_t i = 0; i < 3; i++)
        begin(&w, "while true do pcall(function() while true do end end) end", spinning[i]);
    begin(&w, "for i = 1, 20 do ctx:sleep(0) end return 7", id);
    wait_for(&w.ends, 1);
    assert_string_equal(w.ends.latest, id);
    for (size_t i = 0; i < 3; i++)
        assert_true(pool_cancel(w.pool, spinning[i]));
    wait_for(&w.ends, 4);
    for (size_t i = 0; i < 3; i++)
        stands(&w, spinning[i], "cancelled", NULL);
    assert_false(pool_cancel(w.pool, id));
    close_world(&w);
}

/* What a stop cuts off goes on in the next process. */
static void what_is_cut_off_goes_on(void **state)
{
    (void)state;
    char id[CLOCK_ID_SIZE];
    world w;
    pawl_error error = {.struct_size = sizeof error};
    script_limits limits = {.memory = 8u << 20};
    instance *i = NULL;
    open_world(&w, 2);
    begin(&w, "local n = ctx:step('a', function() return 5 end) ctx:sleep(200) return n + 2", id);
    struct timespec pause = {.tv_nsec = 50000000};
    nanosleep(&pause, NULL);
    pool_stop(w.pool);
    run_close(w.k.runtime);
    pool_free(w.pool);
    kept_open(&w.k);
    stands(&w, id, "running", NULL);
    instance_config config = {.runtime = w.k.runtime, .allowed = limits, .caller = RUN_NOBODY};
    config.allowed.memory = 32u << 20;
    assert_int_equal(instance_resume(&config, id, &i, &error), PAWL_OK);
    script_result result = kept_finish(i);
    assert_string_equal(result.value, "7");
    script_result_clear(&result);
    assert_int_equal(instance_resume(&config, id, &i, &error), PAWL_E_ARGUMENT); /* done */
    run_caller other = {.tenant = "other"};
    config.caller = other;
    assert_int_equal(instance_resume(&config, id, &i, &error), PAWL_E_NOT_FOUND);
    kept_close(&w.k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_come_to_their_end),
        cmocka_unit_test(slices_are_shared),
        cmocka_unit_test(what_is_cut_off_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
