/*
 * loader/check_tokenizer.c - group "tokenizer": text to ids and back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_rules.h"

#include "base/buf.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TEXT (64u << 10)

/* Scripts, spaces of all kinds, digits, combining and astral characters, code. */
static const char *const corpus[] = {
    "",
    " ",
    "Hello world",
    "  two  spaces,\ttab\n\n newline \r\n",
    "It's 12345.67 o'clock; don't WON'T",
    "na\xc3\xafve caf\xc3\xa9 \xc3\x85ngstr\xc3\xb6m",
    "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82, \xce\xba\xcf\x8c\xcf\x83\xce\xbc\xce\xb5",
    "\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xb8\x96\xe7\x95\x8c\xe3\x80\x82\xe3\x81\x93\xe3\x82\x93",
    "\xd8\xb3\xd9\x84\xd8\xa7\xd9\x85 \xe0\xa4\xa8\xe0\xa4\xae\xe0\xa4\xb8\xe0\xa5\x8d\xe0\xa4\xa4",
    "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb \xf0\x9f\x87\xa9\xf0\x9f\x87\xaa",
    "\xf0\x9d\x94\x98 \xf0\x90\x8d\x88",
    "\xc2\xa0\xe2\x80\x89\xe3\x80\x80\xef\xbb\xbfodd\xe2\x80\xa8spaces",
    "int main(void) { return x[3] != 0x1F && y->z; } // \"quoted\" \\n",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "<|im_start|>user <|endoftext|> </s> [INST] <think>",
};

/* Normalised, this is another text. */
static const char decomposed[] = "e\xcc\x81 A\xcc\x8a \xe2\x84\xab";

#define N_CORPUS (sizeof corpus / sizeof *corpus)

/* Ids of the text, to be freed; NULL: it said why. */
static int32_t *encode(check *c, const pawl_segment *segments, uint64_t n_segments, uint64_t *n)
{
    const pawl_tokenizer_api *api = c->tokenizer_api;
    pawl_error why = {.struct_size = sizeof why};
    uint64_t needed = 0, again = 0;
    pawl_status status = api->encode(c->tokenizer, segments, n_segments, NULL, 0, &needed, &why);
    int32_t *tokens = !status && needed <= MAX_TEXT ? malloc((needed + 1) * sizeof *tokens) : NULL;
    if (!tokens) {
        check_say(c, CHECK_FAIL, "counting ids failed: %s", why.message);
        return NULL;
    }
    tokens[needed] = 0x5a5a5a;
    status = api->encode(c->tokenizer, segments, n_segments, tokens, needed, &again, &why);
    bool good = !status && again == needed && tokens[needed] == 0x5a5a5a;
    for (uint64_t i = 0; good && i < needed; i++)
        good = tokens[i] >= 0 && (uint32_t)tokens[i] < c->tokenizer_info.vocab_size;
    if (!good) {
        check_say(c, CHECK_FAIL,
                  "the second call gave status %d, %llu ids instead of %llu, or ids outside the "
                  "vocabulary",
                  status, (unsigned long long)again, (unsigned long long)needed);
        free(tokens);
        return NULL;
    }
    *n = needed;
    return tokens;
}

static int32_t *encode_text(check *c, pawl_bytes text, uint64_t kind, uint64_t *n)
{
    pawl_segment segment = {text, kind};
    return encode(c, &segment, 1, n);
}

static pawl_bytes bytes_of(const char *text)
{
    return (pawl_bytes){text, strlen(text)};
}

static void decode(check *c, const int32_t *tokens, uint64_t n, buf *out)
{
    for (uint64_t i = 0; i < n; i++) {
        pawl_bytes piece = c->tokenizer_api->piece(c->tokenizer, tokens[i]);
        buf_add(out, piece.data, (size_t)piece.size);
    }
}

/* SentencePiece puts a blank before the text; that is the one liberty. */
static bool is_text(const buf *got, pawl_bytes want)
{
    size_t extra = got->size > want.size && got->data[0] == ' ' ? 1 : 0;
    return !got->failed && got->size - extra == want.size &&
           (want.size == 0 || memcmp(got->data + extra, want.data, (size_t)want.size) == 0);
}

/* Appends the text that comes back; false: it said why. */
static bool there_and_back(check *c, pawl_bytes text, buf *back)
{
    uint64_t n;
    int32_t *tokens = encode_text(c, text, PAWL_SEGMENT_LITERAL, &n);
    if (!tokens)
        return false;
    decode(c, tokens, n, back);
    free(tokens);
    return true;
}

/* may_change: a vocabulary of the user's may normalise the text or lack some of its
 * bytes; what came back must then come back unchanged. */
static enum check_verdict round_trip_of(check *c, pawl_bytes text, const char *what,
                                        bool may_change)
{
    buf back, again;
    buf_init(&back, 4 * MAX_TEXT);
    buf_init(&again, 4 * MAX_TEXT);
    bool ran = there_and_back(c, text, &back);
    bool same = ran && is_text(&back, text);
    if (ran && !same && may_change && c->own_model) {
        ran = there_and_back(c, buf_bytes(&back), &again);
        same = ran && is_text(&again, buf_bytes(&back));
    }
    buf_clear(&back);
    buf_clear(&again);
    if (!ran)
        return CHECK_FAIL;
    CHECK_THAT(c, same, "%s does not come back", what);
    return CHECK_PASS;
}

static enum check_verdict round_trip(check *c)
{
    CHECK_NEED(c, check_tokenizer(c));
    for (size_t i = 0; i < N_CORPUS; i++)
        CHECK_NEED(c, round_trip_of(c, bytes_of(corpus[i]), corpus[i], false));
    return round_trip_of(c, bytes_of(decomposed), decomposed, true);
}

/* Random characters come back; random bytes, which are no UTF-8, may be refused. */
static enum check_verdict random_text(check *c)
{
    char raw[200];
    uint64_t state = 11;
    CHECK_NEED(c, check_tokenizer(c));
    for (int round = 0; round < 200; round++) {
        size_t size = check_random(&state) % sizeof raw;
        buf text;
        utf8_tail tail = {.size = 0};
        for (size_t i = 0; i < size; i++)
            raw[i] = (char)(check_random(&state) % (round % 2 ? 256 : 128));
        buf_init(&text, 4 * sizeof raw);
        utf8_feed(&tail, raw, size, &text);
        utf8_finish(&tail, &text);
        enum check_verdict verdict = round_trip_of(c, buf_bytes(&text), "random text", true);
        buf_clear(&text);
        CHECK_NEED(c, verdict);
        pawl_segment broken = {{raw, size}, PAWL_SEGMENT_LITERAL};
        uint64_t needed = 0;
        c->tokenizer_api->encode(c->tokenizer, &broken, 1, NULL, 0, &needed, NULL);
    }
    return CHECK_PASS;
}

/* Every two segments of a text give the ids of the whole. */
static enum check_verdict segments(check *c)
{
    CHECK_NEED(c, check_tokenizer(c));
    for (size_t t = 0; t < N_CORPUS; t++) {
        pawl_bytes text = bytes_of(corpus[t]);
        uint64_t n, n_split;
        int32_t *whole = encode_text(c, text, PAWL_SEGMENT_LITERAL, &n);
        bool same = whole != NULL;
        for (uint64_t cut = 0; same && cut <= text.size; cut++) {
            if (cut < text.size && ((unsigned char)text.data[cut] & 0xc0) == 0x80)
                continue; /* inside a character */
            pawl_segment two[] = {{{text.data, cut}, PAWL_SEGMENT_LITERAL},
                                  {{text.data + cut, text.size - cut}, PAWL_SEGMENT_LITERAL}};
            int32_t *split = encode(c, two, 2, &n_split);
            same = split && n_split == n && memcmp(split, whole, n * sizeof *whole) == 0;
            free(split);
            if (!same)
                check_say(c, CHECK_FAIL, "\"%s\" cut at byte %llu has other ids", corpus[t],
                          (unsigned long long)cut);
        }
        free(whole);
        if (!same)
            return CHECK_FAIL;
    }
    return CHECK_PASS;
}

/* Each control token's text, as a literal: no control token may come out. */
static enum check_verdict forge(check *c, int32_t token)
{
    uint64_t n;
    pawl_bytes name = c->tokenizer_api->piece(c->tokenizer, token);
    int32_t *tokens = encode_text(c, name, PAWL_SEGMENT_LITERAL, &n);
    if (!tokens)
        return CHECK_FAIL;
    int32_t forged = -1;
    for (uint64_t i = 0; i < n; i++)
        if (c->tokenizer_api->token_flags(c->tokenizer, tokens[i]) & PAWL_TOKEN_CONTROL)
            forged = tokens[i];
    free(tokens);
    CHECK_THAT(c, forged < 0, "the literal text \"%.*s\" gives control token %d", (int)name.size,
               name.data, forged);
    return CHECK_PASS;
}

static enum check_verdict literal(check *c)
{
    int tried = 0;
    CHECK_NEED(c, check_tokenizer(c));
    for (uint32_t i = 0; i < c->tokenizer_info.vocab_size && tried < 500; i++)
        if (c->tokenizer_api->token_flags(c->tokenizer, (int32_t)i) & PAWL_TOKEN_CONTROL) {
            tried++;
            CHECK_NEED(c, forge(c, (int32_t)i));
        }
    return tried ? check_say(c, CHECK_PASS, "%d control tokens", tried)
                 : check_say(c, CHECK_SKIP, "the vocabulary has no control tokens");
}

/* In a CONTROL segment the same text is that token, and token() knows it by name. */
static enum check_verdict control(check *c)
{
    int tried = 0;
    CHECK_NEED(c, check_tokenizer(c));
    for (uint32_t i = 0; i < c->tokenizer_info.vocab_size && tried < 500; i++) {
        int32_t id = (int32_t)i;
        if (!(c->tokenizer_api->token_flags(c->tokenizer, id) & PAWL_TOKEN_CONTROL))
            continue;
        uint64_t n;
        bool found = false;
        pawl_bytes name = c->tokenizer_api->piece(c->tokenizer, id);
        if (!name.size)
            continue;
        int32_t *tokens = encode_text(c, name, PAWL_SEGMENT_CONTROL, &n);
        for (uint64_t k = 0; tokens && k < n; k++)
            found = found || tokens[k] == id;
        free(tokens);
        CHECK_THAT(c, found, "\"%.*s\" in a CONTROL segment is not token %d", (int)name.size,
                   name.data, id);
        CHECK_THAT(c, c->tokenizer_api->token(c->tokenizer, name) == id,
                   "token(\"%.*s\") is not %d", (int)name.size, name.data, id);
        tried++;
    }
    return tried ? CHECK_PASS : check_say(c, CHECK_SKIP, "the vocabulary has no control tokens");
}

static enum check_verdict outside(check *c)
{
    CHECK_NEED(c, check_tokenizer(c));
    const int32_t ids[] = {-1, INT32_MIN, INT32_MAX, (int32_t)c->tokenizer_info.vocab_size};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        CHECK_THAT(c, c->tokenizer_api->piece(c->tokenizer, ids[i]).size == 0,
                   "token %d has a piece", ids[i]);
        CHECK_THAT(c, c->tokenizer_api->token_flags(c->tokenizer, ids[i]) == 0,
                   "token %d has flags", ids[i]);
    }
    CHECK_THAT(c, c->tokenizer_api->token(c->tokenizer, bytes_of("no such token")) == -1,
               "token() knows \"no such token\"");
    return CHECK_PASS;
}

static enum check_verdict info(check *c)
{
    CHECK_NEED(c, check_tokenizer(c));
    const pawl_tokenizer_info *i = &c->tokenizer_info;
    int32_t limit = (int32_t)i->vocab_size;
    CHECK_THAT(c, limit > 0, "vocab_size is %u", i->vocab_size);
    CHECK_THAT(c,
               i->bos >= -1 && i->bos < limit && i->eos >= -1 && i->eos < limit && i->eot >= -1 &&
                   i->eot < limit,
               "bos %d, eos %d, eot %d in a vocabulary of %d", i->bos, i->eos, i->eot, limit);
    CHECK_THAT(c, !i->add_bos || i->bos >= 0, "a prompt starts with bos, and there is none");
    CHECK_THAT(c, i->name && i->name[0] && i->digest && i->digest[0], "name or digest is empty");
    return check_say(c, CHECK_PASS, "%s, %d tokens", i->name, limit);
}

static const check_rule rules[] = {
    {"info", "info() describes the vocabulary", info},
    {"round_trip", "texts of many scripts come back byte for byte", round_trip},
    {"random", "random characters come back; broken UTF-8 does not crash it", random_text},
    {"segments", "a text in two segments has the ids of the whole", segments},
    {"literal", "literal text never becomes a control token", literal},
    {"control", "a CONTROL segment may hold each control token", control},
    {"outside", "ids outside the vocabulary have no piece and no flags", outside},
};

const check_group check_tokenizer_group = {"tokenizer", rules, sizeof rules / sizeof *rules};
