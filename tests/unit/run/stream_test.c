/*
 * unit/run/stream_test.c - tokens to items: split characters, stop strings, order.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_model.h"
#include "run/stream.h"

#include <setjmp.h>

#include <cmocka.h>

/* What a listener saw: one line an event. */
typedef struct seen {
    buf lines;
    buf text; /* all deltas joined */
} seen;

static void on_event(void *arg, run_event *event)
{
    static const char *const names[] = {"created", "in_progress", "begin", "delta", "end", "END"};
    seen *s = arg;
    buf_printf(&s->lines, "%s %u", names[event->type], event->output_index);
    if (event->text)
        buf_printf(&s->lines, " '%s'", event->text);
    if (event->type == RUN_ITEM_END && !event->complete)
        buf_add_text(&s->lines, " cut");
    buf_add_text(&s->lines, "\n");
    if (event->type == RUN_DELTA)
        buf_add_text(&s->text, event->text);
    run_event_free(event);
}

typedef struct bench {
    pawl_engine engine;
    run_model model;
    run_request *request;
    run_stream *stream;
    seen seen;
} bench;

static void bench_open(bench *b, const char *stop)
{
    memset(b, 0, sizeof *b);
    b->model = fake_model(&b->engine);
    b->request = run_request_new(clock_system());
    b->request->model = &b->model;
    if (stop)
        b->request->stop[b->request->n_stop++] = strdup(stop);
    buf_init(&b->seen.lines, 1 << 20);
    buf_init(&b->seen.text, 1 << 20);
}

static void bench_start(bench *b)
{
    run_listener listener = {on_event, &b->seen};
    assert_int_equal(run_stream_open(b->request, NULL, clock_system(), listener, &b->stream, NULL),
                     PAWL_OK);
}

static void bench_close(bench *b)
{
    run_stream_free(b->stream);
    run_request_free(b->request);
    buf_clear(&b->seen.lines);
    buf_clear(&b->seen.text);
}

/* Feeds bytes as tokens; true if none of them ended the reply. */
static bool feed(bench *b, const char *text)
{
    for (; *text; text++)
        if (!run_stream_token(b->stream, (unsigned char)*text, -1.0f, NULL, 0))
            return false;
    return true;
}

static void test_split_characters(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, NULL);
    bench_start(&b);
    assert_true(feed(&b, "a\xC3\xA9"));
    assert_true(feed(&b, "\xF0\x9F\x91\xA9"));
    run_stream_finish(b.stream, true);
    assert_string_equal(buf_text(&b.seen.lines), "begin 0\ndelta 0 'a'\ndelta 0 '\xC3\xA9'\n"
                                                 "delta 0 '\xF0\x9F\x91\xA9'\n"
                                                 "end 0 'a\xC3\xA9\xF0\x9F\x91\xA9'\n");
    bench_close(&b);
}

static void test_unfinished_character_at_the_end(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, NULL);
    bench_start(&b);
    assert_true(feed(&b, "x\xF0\x9F"));
    run_stream_finish(b.stream, false);
    assert_string_equal(buf_text(&b.seen.text), "x\xEF\xBF\xBD");
    assert_non_null(strstr(buf_text(&b.seen.lines), "cut"));
    bench_close(&b);
}

static void test_stop_string(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, "STOP");
    bench_start(&b);
    assert_false(feed(&b, "one STO two STSTOP never"));
    run_stream_finish(b.stream, true);
    assert_string_equal(buf_text(&b.seen.text), "one STO two ST");
    bench_close(&b);
}

static void test_held_text_is_not_lost(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, "STOP");
    bench_start(&b);
    assert_true(feed(&b, "one STO"));
    assert_string_equal(buf_text(&b.seen.text), "one ");
    run_stream_finish(b.stream, true);
    assert_string_equal(buf_text(&b.seen.text), "one STO");
    bench_close(&b);
}

static void test_logprobs_travel_with_their_text(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, NULL);
    b.request->logprobs = true;
    bench_start(&b);
    assert_true(feed(&b, "a\xC3\xA9"));
    run_stream_finish(b.stream, true);
    const cJSON *item = cJSON_GetArrayItem(run_stream_items(b.stream), 0);
    const cJSON *part = cJSON_GetArrayItem(json_get(item, "content"), 0);
    assert_int_equal(cJSON_GetArraySize(json_get(part, "logprobs")), 3);
    assert_string_equal(json_get_text(cJSON_GetArrayItem(json_get(part, "logprobs"), 0), "token"),
                        "a");
    bench_close(&b);
}

static void test_nothing_makes_no_item(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, NULL);
    bench_start(&b);
    run_stream_finish(b.stream, true);
    assert_int_equal(cJSON_GetArraySize(run_stream_items(b.stream)), 0);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_characters),
        cmocka_unit_test(test_unfinished_character_at_the_end),
        cmocka_unit_test(test_stop_string),
        cmocka_unit_test(test_held_text_is_not_lost),
        cmocka_unit_test(test_logprobs_travel_with_their_text),
        cmocka_unit_test(test_nothing_makes_no_item),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
