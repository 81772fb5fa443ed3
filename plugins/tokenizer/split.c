/*
 * tokenizer/split.c - the scanners behind split.h.
 *
 * next_gpt2, alternatives in this order (the first that matches wins):
 *     's|'t|'re|'ve|'m|'ll|'d     ?\p{L}+     ?\p{N}+     ?[^\s\p{L}\p{N}]+
 *     \s+(?!\S)    \s+
 * next_gpt4:
 *     (?i:'s|'t|'re|'ve|'m|'ll|'d)    [^\r\n\p{L}\p{N}]?\p{L}+    \p{N}{1,max}
 *      ?[^\s\p{L}\p{N}]+[\r\n]*    \s*[\r\n]+    \s+(?!\S)    \s+
 * (a blank before ? is a real one). Where `letters` has marks, read [\p{L}\p{M}]
 * for \p{L} in the words and in what is excluded from the fourth alternative.
 *
 * \s+(?!\S) is a run of white space that gives its last character back when
 * something follows, so that it can lead the next piece. digits_alone: digits were
 * cut out one by one before, so that for the expression the text ends in front of
 * every digit.
 *
 * Bytes that are not UTF-8 count as characters of no class.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tokenizer/split.h"

#include <pawl/plugin_util.h>

/* End of the run of characters in (or, flip 0xff, outside) a set of classes. */
static size_t run_end(const struct classes *classes, const uint8_t *text, size_t size, size_t at,
                      uint8_t set, bool inside)
{
    while (at < size) {
        uint32_t length;
        uint8_t class = classes_at(classes, text + at, size - at, &length);
        if (((class & set) != 0) != inside)
            break;
        at += length;
    }
    return at;
}

/* Length of a contraction at the apostrophe, or 0. */
static size_t contraction(const uint8_t *text, size_t size, bool any_case)
{
    if (size < 2)
        return 0;
    uint8_t fold = any_case ? 0x20 : 0;
    uint8_t first = text[1] | fold;
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return 2;
    if (any_case && size >= 3 && text[1] == 0xc5 && text[2] == 0xbf)
        return 3; /* U+017F folds to s */
    if (size < 3)
        return 0;
    uint8_t second = text[2] | fold;
    if ((first == 'l' && second == 'l') || ((first == 'r' || first == 'v') && second == 'e'))
        return 3;
    return 0;
}

/* \s*[\r\n]+ (if newlines) | \s+(?!\S) | \s+ at white space. */
static size_t space_end(const struct split_rule *rule, const struct classes *classes,
                        const uint8_t *text, size_t size, bool newlines)
{
    size_t at = 0, last = 0, after_newline = 0;
    uint8_t class = 0;
    while (at < size) {
        uint32_t length;
        class = classes_at(classes, text + at, size - at, &length);
        if (!(class & CLASS_SPACE))
            break;
        last = at;
        at += length;
        if (class & CLASS_NEWLINE)
            after_newline = at;
    }
    if (newlines && after_newline)
        return after_newline;
    if (at == size || last == 0 || (rule->digits_alone && (class & rule->digits)))
        return at;
    return last;
}

static size_t next_gpt2(const struct split_rule *rule, const struct classes *classes,
                        const uint8_t *text, size_t size)
{
    uint32_t length;
    size_t at = 0;
    if (text[0] == '\'') {
        size_t taken = contraction(text, size, rule->any_case);
        if (taken)
            return taken;
    }
    uint8_t class = classes_at(classes, text, size, &length);
    if (text[0] == ' ' && size > 1) { /* leads what follows, if that is no space */
        at = 1;
        class = classes_at(classes, text + 1, size - 1, &length);
        if (rule->digits_alone && (class & rule->digits))
            return 1;
    }
    if (class & CLASS_SPACE)
        return space_end(rule, classes, text, size, false);
    if (class & rule->letters)
        return run_end(classes, text, size, at + length, rule->letters, true);
    if (class & rule->digits)
        return rule->digits_alone ? length
                                  : run_end(classes, text, size, at + length, rule->digits, true);
    uint8_t named = rule->letters | rule->digits | CLASS_SPACE;
    return run_end(classes, text, size, at + length, named, false);
}

static size_t digits_end(const struct split_rule *rule, const struct classes *classes,
                         const uint8_t *text, size_t size)
{
    size_t at = 0;
    for (uint32_t n = 0; at < size && (rule->max_digits == 0 || n < rule->max_digits); n++) {
        uint32_t length;
        if (!(classes_at(classes, text + at, size - at, &length) & rule->digits))
            break;
        at += length;
    }
    return at;
}

static size_t next_gpt4(const struct split_rule *rule, const struct classes *classes,
                        const uint8_t *text, size_t size)
{
    uint32_t length, second = 0;
    if (text[0] == '\'') {
        size_t taken = contraction(text, size, rule->any_case);
        if (taken)
            return taken;
    }
    uint8_t class = classes_at(classes, text, size, &length), after = CLASS_SPACE;
    if (class & rule->letters)
        return run_end(classes, text, size, length, rule->letters, true);
    if (class & rule->digits)
        return digits_end(rule, classes, text, size);
    if (length < size)
        after = classes_at(classes, text + length, size - length, &second);
    if ((after & rule->letters) && !(class & CLASS_NEWLINE)) /* any one character leads a word */
        return run_end(classes, text, size, length + second, rule->letters, true);

    uint8_t named = rule->letters | rule->digits | CLASS_SPACE;
    size_t at = 0;
    if (!(class & named))
        at = run_end(classes, text, size, length, named, false);
    else if (text[0] == ' ' && !(after & named))
        at = run_end(classes, text, size, 1 + second, named, false);
    if (at == 0)
        return space_end(rule, classes, text, size, true);
    while (at < size && (text[at] == '\r' || text[at] == '\n'))
        at++;
    return at;
}

#define WORDS .letters = CLASS_LETTER, .digits = CLASS_NUMBER
#define GPT2(name)                                                                                 \
    {                                                                                              \
        .pre = name, .next = next_gpt2, WORDS                                                      \
    }
#define SMOLLM(name)                                                                               \
    {                                                                                              \
        .pre = name, .next = next_gpt2, .letters = CLASS_LETTER,                                   \
        .digits = CLASS_NUMBER | CLASS_NEWEST_DIGIT, .digits_alone = true                          \
    }
#define LLAMA3(name)                                                                               \
    {                                                                                              \
        .pre = name, .next = next_gpt4, WORDS, .max_digits = 3, .any_case = true,                  \
        .ignore_merges = true, .add_bos = true                                                     \
    }
#define QWEN2(name)                                                                                \
    {                                                                                              \
        .pre = name, .next = next_gpt4, WORDS, .max_digits = 1, .any_case = true, .nfc = true      \
    }

static const struct split_rule rules[] = {
    GPT2("gpt-2"),
    GPT2("gpt2"),
    GPT2("phi-2"),
    GPT2("mpt"),
    GPT2("olmo"),
    GPT2("jais"),
    GPT2("trillion"),
    SMOLLM("smollm"),
    SMOLLM("starcoder"),
    SMOLLM("refact"),
    SMOLLM("command-r"),
    SMOLLM("codeshell"),
    LLAMA3("llama-bpe"),
    LLAMA3("llama3"),
    LLAMA3("llama-v3"),
    LLAMA3("falcon3"),
    LLAMA3("lfm2"),
    QWEN2("qwen2"),
    QWEN2("deepseek-r1-qwen"),
    {.pre = "qwen35",
     .next = next_gpt4,
     .letters = CLASS_LETTER | CLASS_MARK,
     .digits = CLASS_NUMBER,
     .max_digits = 1,
     .any_case = true,
     .nfc = true},
};

const struct split_rule *split_find(pawl_bytes pre)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (pawl_bytes_are(pre, rules[i].pre))
            return &rules[i];
    return NULL;
}
