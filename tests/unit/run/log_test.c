/*
 * unit/run/log_test.c - kept events: readers at every pace, bounds, who is there.
 *
 * The turns are made by hand and said to have ended by hand; time is the test's.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "run/logs.h"
#include "run/turn.h"

#define S ((int64_t)1000000000)

static int64_t fake_now;

static int64_t read_ns(void *context)
{
    (void)context;
    return __atomic_load_n(&fake_now, __ATOMIC_RELAXED);
}

static int64_t read_ms(void *context)
{
    return read_ns(context) / 1000000;
}

static void read_random(void *context, void *bytes, size_t size)
{
    clock_system()->random(context, bytes, size);
}

static const base_clock fake_clock = {NULL, read_ns, read_ms, read_random};

typedef struct fixture {
    run_logs *logs;
    metrics *measured;
    int passed_on; /* events that came to the first listener */
} fixture;

static void open_logs(fixture *f, size_t max, size_t total)
{
    fake_now = S;
    f->measured = metrics_open();
    run_logs_config config = {&fake_clock, 10 * S, 100 * S, max, total, f->measured};
    f->logs = run_logs_open(&config);
    assert_non_null(f->logs);
}

static double measured(const fixture *f, const char *name)
{
    metric_spec spec = {METRIC_GAUGE, name, "", {0}, NULL};
    buf text;
    buf_init(&text, 1 << 20);
    metrics_write(f->measured, &text);
    buf_clear(&text);
    metric *m = metrics_single(f->measured, &spec);
    if (!m) {
        spec.type = METRIC_COUNTER;
        m = metrics_single(f->measured, &spec);
    }
    return metric_value(m);
}

/* Nothing may be left. */
static void close_logs(fixture *f)
{
    while (run_logs_running(f->logs))
        fail_msg("a log still runs");
    fake_now += 1000 * S;
    run_logs_tend(f->logs);
    assert_int_equal(measured(f, "pawl_event_logs"), 0);
    assert_int_equal(measured(f, "pawl_event_log_bytes"), 0);
    assert_int_equal(measured(f, "pawl_event_log_readers"), 0);
    run_logs_close(f->logs);
    metrics_close(f->measured);
}

static void pass_on(void *arg, run_event *event)
{
    ((fixture *)arg)->passed_on++;
    run_event_free(event);
}

/* A response that runs: its log and its turn. */
typedef struct running {
    run_log *log;
    run_turn *turn;
    run_listener to;
    int n; /* deltas so far */
} running;

static running begin(fixture *f, const char *id, bool background, bool cancels)
{
    running r = {0};
    run_request *request = run_request_new(&fake_clock);
    snprintf(request->id, sizeof request->id, "%s", id);
    request->background = background;
    request->cancel_on_leave = cancels;
    request->key = strdup(id);
    r.log = run_logs_add(f->logs, request, 1,
                         background ? (run_listener){0} : (run_listener){pass_on, f});
    assert_non_null(r.log);
    run_request_free(request);
    r.turn = calloc(1, sizeof *r.turn);
    atomic_init(&r.turn->references, 1);
    run_log_begin(r.log, &r.turn, 1);
    r.to = run_log_listener(r.log);
    r.to.on_event(r.to.arg, run_event_new(RUN_CREATED));
    r.to.on_event(r.to.arg, run_event_new(RUN_IN_PROGRESS));
    r.to.on_event(r.to.arg, run_event_new(RUN_ITEM_BEGIN));
    return r;
}

static void say(running *r, int n)
{
    for (int i = 0; i < n; i++) {
        run_event *event = run_event_new(RUN_DELTA);
        char text[32];
        snprintf(text, sizeof text, "%d", r->n++);
        event->text = strdup(text);
        r->to.on_event(r->to.arg, event);
    }
}

static void end(running *r, bool stored)
{
    run_event *event = run_event_new(RUN_END);
    event->record = run_record_new();
    event->record->id = strdup("x");
    event->record->status = "completed";
    event->record->request = strdup("{}");
    event->record->input = strdup("[]");
    event->record->output = strdup("[]");
    event->record->stored = stored;
    event->stop_reason = atomic_load(&r->turn->cancelled) ? "cancelled" : "stop";
    r->to.on_event(r->to.arg, event);
    run_turn_release(r->turn);
}

/* Reads what is there. *next: the number of the next delta. */
static enum run_read read_on(run_reader *reader, int *next, int max)
{
    run_event *event = NULL;
    enum run_read got = READ_WAIT;
    for (int i = 0; i < max && (got = run_reader_next(reader, &event)) == READ_EVENT; i++) {
        if (event->type == RUN_DELTA)
            assert_int_equal(atoi(event->text), (*next)++);
        if (event->type == RUN_END)
            assert_non_null(event->record);
        run_event_free(event);
    }
    return got;
}

static void woken(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* ------------------------------------------------------------------------ tests -- */

static void readers_at_every_place(void **state)
{
    (void)state;
    fixture f = {0};
    run_tally skipped;
    run_reader *readers[50];
    int next[50] = {0};
    atomic_int wakes[50];
    open_logs(&f, 1 << 20, 1 << 24);
    running r = begin(&f, "resp_1", false, false);
    for (int i = 0; i < 50; i++) {
        say(&r, 1);
        atomic_init(&wakes[i], 0);
        readers[i] = run_reader_open(r.log, &skipped);
        run_reader_on_wake(readers[i], woken, &wakes[i]);
        for (int k = 0; k <= i; k++) /* each at a pace of its own */
            read_on(readers[k], &next[k], k % 7);
    }
    for (int i = 0; i < 50; i++)
        assert_int_equal(read_on(readers[i], &next[i], 1000), READ_WAIT);
    say(&r, 2);
    for (int i = 0; i < 50; i++)
        assert_int_equal(atomic_load(&wakes[i]), i % 7 ? atomic_load(&wakes[i]) : 1);
    end(&r, true);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(read_on(readers[i], &next[i], 1000), READ_OVER);
        assert_int_equal(next[i], 52);
        assert_true(atomic_load(&wakes[i]) >= 1);
        run_reader_close(readers[i]);
    }
    assert_int_equal(f.passed_on, 3 + 52 + 1);
    close_logs(&f);
}

static void a_full_log_drops_the_oldest(void **state)
{
    (void)state;
    fixture f = {0};
    run_tally skipped, seen, dropped;
    int next = 0, first;
    open_logs(&f, 4096, 1 << 24);
    running r = begin(&f, "resp_1", false, false);
    run_reader *slow = run_reader_open(r.log, &skipped), *fast = run_reader_open(r.log, &skipped);
    assert_int_equal(read_on(slow, &next, 3), READ_EVENT);
    int fast_next = 0;
    for (int i = 0; i < 500; i++) {
        say(&r, 1);
        assert_int_equal(read_on(fast, &fast_next, 10), READ_WAIT);
    }
    assert_int_equal(fast_next, 500);
    assert_int_equal(read_on(slow, &next, 5), READ_LOST);
    run_log_tally(r.log, &seen, &dropped);
    assert_int_equal(seen.n[RUN_DELTA][0], 500);
    assert_in_range(dropped.n[RUN_DELTA][0], 400, 499);
    assert_int_equal(dropped.n[RUN_CREATED][0], 1);
    run_reader *late = run_reader_open(r.log, &skipped);
    assert_memory_equal(&skipped, &dropped, sizeof skipped);
    first = (int)skipped.n[RUN_DELTA][0];
    assert_int_equal(read_on(late, &first, 1000), READ_WAIT);
    assert_int_equal(first, 500);
    assert_true(measured(&f, "pawl_event_log_bytes") < 3 * 4096 + 2048);
    run_reader_close(slow);
    run_reader_close(fast);
    end(&r, true);
    assert_int_equal(read_on(late, &first, 1000), READ_OVER);
    run_reader_close(late);
    close_logs(&f);
}

static void one_event_that_is_too_large(void **state)
{
    (void)state;
    fixture f = {0};
    run_tally skipped;
    int next = 0;
    open_logs(&f, 4096, 1 << 24);
    running r = begin(&f, "resp_1", false, false);
    run_reader *reader = run_reader_open(r.log, &skipped);
    run_event *event = run_event_new(RUN_DELTA);
    event->text = calloc(1, 5001);
    memset(event->text, 'x', 5000);
    r.to.on_event(r.to.arg, event);
    assert_int_equal(read_on(reader, &next, 5), READ_LOST);
    say(&r, 10);
    assert_int_equal(f.passed_on, 14); /* whoever asked for it has it all */
    end(&r, true);
    assert_int_equal(read_on(reader, &next, 5), READ_LOST);
    run_reader_close(reader);
    close_logs(&f);
}

static void all_together_are_bounded(void **state)
{
    (void)state;
    fixture f = {0};
    char id[32];
    open_logs(&f, 1 << 16, 1 << 20);
    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof id, "resp_%d", i);
        running r = begin(&f, id, false, false);
        say(&r, 40);
        end(&r, true);
        assert_true(measured(&f, "pawl_event_log_bytes") <= 1 << 20);
    }
    assert_null(run_logs_find(f.logs, NULL, "resp_0"));
    run_log *last = run_logs_find(f.logs, "", "resp_999");
    assert_non_null(last);
    assert_null(run_logs_find(f.logs, "another", "resp_999"));
    run_log_release(last);
    assert_true(measured(&f, "pawl_event_logs") > 100);
    /* Where all of them run, who wants more gives up his own. */
    running many[40];
    for (int i = 0; i < 40; i++) {
        snprintf(id, sizeof id, "resp_r%d", i);
        many[i] = begin(&f, id, true, false);
        say(&many[i], 600);
        assert_true(measured(&f, "pawl_event_log_bytes") <= (1 << 20) + 40 * 1024);
    }
    for (int i = 0; i < 40; i++)
        end(&many[i], true);
    close_logs(&f);
}

static void who_is_left_alone(void **state)
{
    (void)state;
    fixture f = {0};
    run_tally skipped;
    open_logs(&f, 1 << 16, 1 << 20);
    running detached = begin(&f, "resp_d", false, false);
    running background = begin(&f, "resp_b", true, false);
    running strict = begin(&f, "resp_s", false, true);
    run_log_leave(strict.log);
    assert_true(atomic_load(&strict.turn->cancelled));
    run_log_leave(detached.log);
    assert_true(atomic_load(&detached.turn->demoted));
    assert_int_equal(measured(&f, "pawl_responses_detached"), 1);
    fake_now += 9 * S;
    run_log_touch(detached.log); /* somebody looked */
    fake_now += 9 * S;
    run_logs_tend(f.logs);
    assert_false(atomic_load(&detached.turn->cancelled));
    run_reader *reader = run_reader_open(detached.log, &skipped); /* somebody came back */
    fake_now += 100 * S;
    run_logs_tend(f.logs);
    assert_false(atomic_load(&detached.turn->cancelled));
    run_reader_close(reader);
    fake_now += 11 * S;
    run_logs_tend(f.logs);
    assert_true(atomic_load(&detached.turn->cancelled));
    assert_false(atomic_load(&background.turn->cancelled));
    run_reader *other = run_reader_open(background.log, &skipped);
    run_reader_close(other);
    fake_now += 1000 * S;
    run_logs_tend(f.logs);
    assert_false(atomic_load(&background.turn->cancelled));
    assert_int_equal(measured(&f, "pawl_detached_total"), 2);
    assert_int_equal(measured(&f, "pawl_detached_cancelled_total"), 1);
    end(&detached, true);
    end(&background, true);
    end(&strict, true);
    close_logs(&f);
}

static void keys_and_the_window(void **state)
{
    (void)state;
    fixture f = {0};
    run_tally skipped;
    int next = 0;
    open_logs(&f, 1 << 16, 1 << 20);
    running r = begin(&f, "resp_1", false, false);
    run_log *found = run_logs_find_key(f.logs, "", "resp_1");
    assert_ptr_equal(found, r.log);
    say(&r, 3);
    end(&r, false);
    run_record *record = run_log_record(found);
    assert_non_null(record); /* no store has it */
    run_record_release(record);
    run_reader *reader = run_reader_open(found, &skipped);
    fake_now += 101 * S;
    run_logs_tend(f.logs);
    assert_null(run_logs_find(f.logs, NULL, "resp_1"));
    assert_null(run_logs_find_key(f.logs, "", "resp_1"));
    assert_int_equal(read_on(reader, &next, 100), READ_OVER); /* who reads reads on */
    run_reader_close(reader);
    run_log_release(found);
    running cancelled = begin(&f, "resp_2", false, false);
    run_log_cancel(cancelled.log);
    end(&cancelled, true);
    assert_null(run_logs_find_key(f.logs, "", "resp_2")); /* that was no answer */
    close_logs(&f);
}

/* A writer, readers that come and go, and a tidy one, for the thread sanitizer. */
static void *come_and_go(void *arg)
{
    run_log *log = arg;
    for (int i = 0; i < 200; i++) {
        run_tally skipped;
        run_event *event;
        run_reader *reader = run_reader_open(log, &skipped);
        atomic_int wakes;
        atomic_init(&wakes, 0);
        run_reader_on_wake(reader, woken, &wakes);
        for (int k = 0; k < i && run_reader_next(reader, &event) == READ_EVENT; k++)
            run_event_free(event);
        run_reader_close(reader);
    }
    return NULL;
}

static void *tidy(void *arg)
{
    for (int i = 0; i < 200; i++) {
        run_logs_tend(arg);
        run_logs_running(arg);
    }
    return NULL;
}

static void threads_together(void **state)
{
    (void)state;
    fixture f = {0};
    pthread_t threads[4];
    open_logs(&f, 8192, 1 << 16);
    running r = begin(&f, "resp_1", true, false);
    run_log *log = run_logs_find(f.logs, NULL, "resp_1");
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, come_and_go, log);
    pthread_create(&threads[3], NULL, tidy, f.logs);
    say(&r, 3000);
    end(&r, true);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    run_log_release(log);
    close_logs(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_at_every_place),
        cmocka_unit_test(a_full_log_drops_the_oldest),
        cmocka_unit_test(one_event_that_is_too_large),
        cmocka_unit_test(all_together_are_bounded),
        cmocka_unit_test(who_is_left_alone),
        cmocka_unit_test(keys_and_the_window),
        cmocka_unit_test(threads_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
