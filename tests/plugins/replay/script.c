/*
 * tests/plugins/replay/script.c - which token follows a timeline.
 *
 * The answer depends on the tokens alone:
 *
 *   … <|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\nFo
 *     '--------- the reply is chosen by this --------' '-- header -' '- position 2
 *
 * The last <|im_start|> with a line "assistant" after it divides the prompt from
 * what was generated; an opened thought ("<think>\n", or an empty one) that the
 * template put behind the header belongs to the prompt, unless the reply starts
 * with a thought itself. The position in the reply is the number of tokens since,
 * whichever they are: where a mask forced another token the script goes on behind
 * it. A timeline without that header takes the longest end of it that is a
 * beginning of the reply for what was generated.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "replay/replay.h"

/* The tokens' text, NUL bytes as blanks, NUL-terminated; NULL without memory. */
static char *decode(const replay_model *model, const int32_t *tokens, uint64_t n)
{
    size_t size = 0;
    for (uint64_t i = 0; i < n; i++)
        size += model->pieces[tokens[i]].size;
    char *text = malloc(size + 1);
    char *at = text;
    for (uint64_t i = 0; text && i < n; i++) {
        const replay_piece *piece = &model->pieces[tokens[i]];
        memcpy(at, piece->text, piece->size);
        if (*at == '\0')
            *at = ' ';
        at += piece->size;
    }
    if (text)
        *at = '\0';
    return text;
}

/* True if the tokens from `at` are, byte for byte, this text. */
static bool begins_with(const int32_t *tokens, uint64_t n, uint64_t at, const char *text)
{
    for (; *text; text++, at++)
        if (at >= n || tokens[at] != (unsigned char)*text)
            return false;
    return true;
}

/* True if a header says where generation began; else *start is n. */
static bool generation_start(const int32_t *tokens, uint64_t n, uint64_t *start)
{
    uint64_t i = n;
    while (i > 0 && tokens[i - 1] != REPLAY_IM_START)
        i--;
    bool found = i > 0 && begins_with(tokens, n, i, "assistant\n");
    *start = found ? i + strlen("assistant\n") : n;
    return found;
}

static bool fits(const replay_reply *reply, const char *text)
{
    for (size_t i = 0; i < reply->n_when; i++)
        if (!strstr(text, reply->when[i]))
            return false;
    return true;
}

static const replay_reply *choose(const replay_model *model, const int32_t *tokens, uint64_t n)
{
    const replay_reply *last = &model->replies[model->n_replies - 1];
    char *text = decode(model, tokens, n);
    if (!text)
        return last;
    const char *from = text;
    for (const char *at = text; (at = strstr(at, "<|im_start|>user")); at++)
        from = at;
    const replay_reply *reply = model->replies;
    while (reply < last && !fits(reply, from))
        reply++;
    free(text);
    return reply;
}

static uint64_t skip_thought(const replay_reply *reply, const int32_t *tokens, uint64_t n,
                             uint64_t at)
{
    static const char *const openings[] = {"<think>\n\n</think>\n\n", "<think>\n"};
    if (begins_with(reply->tokens, reply->n_tokens, 0, "<think>"))
        return at;
    for (int i = 0; i < 2; i++)
        if (begins_with(tokens, n, at, openings[i]))
            return at + strlen(openings[i]);
    return at;
}

/* How many tokens at the timeline's end are the reply's first ones. */
static uint64_t overlap(const replay_reply *reply, const int32_t *tokens, uint64_t n)
{
    uint64_t k = n < reply->n_tokens ? n : reply->n_tokens;
    while (k && memcmp(tokens + n - k, reply->tokens, k * sizeof *tokens) != 0)
        k--;
    return k;
}

int32_t replay_next(const replay_model *model, const int32_t *tokens, uint64_t n,
                    const replay_reply **reply, uint64_t *index)
{
    uint64_t start;
    bool found = generation_start(tokens, n, &start);
    const replay_reply *chosen = choose(model, tokens, start);
    uint64_t at = found ? n - skip_thought(chosen, tokens, n, start) : overlap(chosen, tokens, n);
    *reply = chosen;
    *index = at;
    if (at < chosen->n_tokens)
        return chosen->tokens[at];
    return chosen->end >= 0 ? chosen->end : chosen->tokens[at % chosen->n_tokens];
}
