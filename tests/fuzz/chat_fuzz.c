/*
 * tests/fuzz/chat_fuzz.c - a reply gives the same events however it is cut.
 *
 * Input: a byte that chooses the dialect, one that seeds the cuts, then the reply,
 * which is also read as a request.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat/parser.h"
#include "chat/request.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_event(void *arg, const pawl_chat_event *event)
{
    struct text *log = arg; /* its first 2 bytes: type and index of the last event */
    char now[2] = {(char)('0' + event->type), (char)event->index};
    if (memcmp(log->data, now, 2) != 0 || strchr("245", now[0]))
        text_add(log, now, 2);
    memcpy(log->data, now, 2);
    text_add(log, event->text.data, (size_t)event->text.size);
}

static struct text parse(unsigned choice, pawl_bytes reply, unsigned seed)
{
    struct text log = {.limit = SIZE_MAX / 2};
    pawl_parser *parser = NULL;
    text_add(&log, "  ", 2);
    parser_open(&chat_dialects[choice % chat_n_dialects], choice & 64, choice & 128, &parser, NULL);
    for (uint64_t at = 0, n; at < reply.size; at += n, seed = seed * 5 + 3) {
        n = seed == 0 || seed % 7 + 1 > reply.size - at ? reply.size - at : seed % 7 + 1;
        parser_feed(parser, (pawl_segment){{reply.data + at, n}, 0}, on_event, &log, NULL);
    }
    parser_finish(parser, on_event, &log, NULL);
    parser_close(parser);
    return log;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request request = {0};
    if (size < 2)
        return 0;
    pawl_bytes reply = {(const char *)data + 2, size - 2};
    struct text whole = parse(data[0], reply, 0), cut = parse(data[0], reply, data[1] | 1u);
    if (whole.size != cut.size || memcmp(whole.data, cut.data, whole.size) != 0)
        abort();
    text_clear(&whole);
    text_clear(&cut);
    request_open(reply, &request, NULL);
    request_clear(&request);
    return 0;
}
