/*
 * unit/run/event_code_test.c - events as bytes: what went in comes out.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "run/event_code.h"

static char *printed(const cJSON *tree)
{
    return tree ? json_print(tree) : strdup("none");
}

static void same_text(const char *a, const char *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a)
        assert_string_equal(a, b);
}

static void same_tree(const cJSON *a, const cJSON *b)
{
    char *one = printed(a), *other = printed(b);
    assert_string_equal(one, other);
    free(one);
    free(other);
}

static void same(const run_event *a, const run_event *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->choice, b->choice);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->output_index, b->output_index);
    assert_int_equal(a->complete, b->complete);
    assert_string_equal(a->item_id, b->item_id);
    assert_string_equal(a->call_id, b->call_id);
    same_text(a->name, b->name);
    same_text(a->text, b->text);
    same_text(a->stop_reason, b->stop_reason);
    same_tree(a->logprobs, b->logprobs);
    same_tree(a->item, b->item);
    assert_memory_equal(&a->usage, &b->usage, sizeof a->usage);
    assert_memory_equal(&a->times, &b->times, sizeof a->times);
}

static const char logprobs[] =
    "[{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97],\"top_logprobs\":[]}]";

/* Every kind of event once, all members in use. */
static run_event *example(int i)
{
    run_event *e = run_event_new((enum run_event_type)(i % (RUN_END + 1)));
    e->choice = (uint32_t)i % 8;
    e->output_index = (uint32_t)i * 1000;
    e->kind = (enum run_item_kind)(i % 3);
    strcpy(e->item_id, i % 2 ? "msg_0123456789abcdef0123456789abcdef" : "");
    strcpy(e->call_id, i % 3 == RUN_ITEM_CALL ? "call_1" : "");
    e->name = i % 3 == RUN_ITEM_CALL ? strdup("f\xC3\xA4\"\n") : NULL;
    e->text = i % 4 ? strdup(i % 4 == 1 ? "" : "some \xF0\x9F\x98\x80 text") : NULL;
    e->complete = i % 2;
    if (e->type == RUN_ITEM_END && e->kind == RUN_ITEM_MESSAGE) {
        char item[300];
        snprintf(item, sizeof item,
                 "{\"id\":\"m\",\"content\":[{\"type\":\"output_text\",\"logprobs\":%s}]}",
                 logprobs);
        e->item = cJSON_Parse(item);
        e->logprobs = cJSON_Parse(logprobs);
    } else if (e->type == RUN_ITEM_END) {
        e->item = cJSON_Parse("{\"id\":\"m\",\"arguments\":\"{}\"}");
    } else if (e->type == RUN_DELTA) {
        e->logprobs = i % 5 ? cJSON_Parse(logprobs) : NULL;
    } else if (e->type == RUN_END || e->type == RUN_CHOICE_END) {
        e->stop_reason = "length";
        e->usage = (run_usage){1, 2, 3, (uint64_t)i};
        e->times = (run_times){4, 5, i};
    }
    return e;
}

#define N 210

static void all_come_back(void **state)
{
    (void)state;
    buf bytes;
    size_t at = 0;
    run_event *events[N];
    buf_init(&bytes, 1 << 20);
    for (int i = 0; i < N; i++) {
        events[i] = example(i);
        assert_true(event_encode(&bytes, events[i]));
    }
    for (int i = 0; i < N; i++) {
        size_t size = event_code_size(bytes.data + at, bytes.size - at);
        run_event *got = event_decode(bytes.data + at, bytes.size - at);
        assert_non_null(got);
        same(got, events[i]);
        run_event_free(got);
        run_event_free(events[i]);
        at += size;
    }
    assert_int_equal(at, bytes.size);
    buf_clear(&bytes);
}

static void a_token_is_small(void **state)
{
    (void)state;
    buf bytes;
    run_event *e = run_event_new(RUN_DELTA);
    strcpy(e->item_id, "msg_0123456789abcdef0123456789abcdef");
    e->text = strdup(" word");
    buf_init(&bytes, 1000);
    assert_true(event_encode(&bytes, e));
    assert_true(bytes.size <= 96);
    run_event_free(e);
    buf_clear(&bytes);
}

/* What does not fit is not there; bytes that end early are no event. */
static void nothing_half(void **state)
{
    (void)state;
    for (int i = 0; i < 21; i++) {
        buf bytes, small;
        run_event *e = example(i);
        buf_init(&bytes, 1 << 16);
        assert_true(event_encode(&bytes, e));
        for (size_t size = 0; size < bytes.size; size++) {
            buf_init(&small, size);
            assert_false(event_encode(&small, e));
            assert_int_equal(small.size, 0);
            buf_clear(&small);
            char *copy = malloc(size + 1);
            memcpy(copy, bytes.data, size);
            assert_null(event_decode(copy, size));
            assert_int_equal(event_code_size(copy, size), 0);
            free(copy);
        }
        run_event_free(e);
        buf_clear(&bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_come_back),
        cmocka_unit_test(a_token_is_small),
        cmocka_unit_test(nothing_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
