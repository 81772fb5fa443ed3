/*
 * tokenizer/classes.c - builds the class table from utf8proc's categories.
 *
 * The reference tokenizer knows Unicode 16, the utf8proc of a stable distribution
 * may know 15: what was assigned in between is added here.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tokenizer/classes.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

struct range {
    uint32_t first;
    uint32_t last;
};

/* Unicode White_Space. */
static const struct range spaces[] = {
    {0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
};

/* Assigned by Unicode 15.1 and 16. */
static const struct range new_letters[] = {
    {0x1c89, 0x1c8a},   {0xa7cb, 0xa7cd},   {0xa7da, 0xa7dc},   {0x105c0, 0x105f3},
    {0x10d4a, 0x10d65}, {0x10d6f, 0x10d85}, {0x10ec2, 0x10ec4}, {0x11380, 0x11389},
    {0x1138b, 0x1138b}, {0x1138e, 0x1138e}, {0x11390, 0x113b5}, {0x113b7, 0x113b7},
    {0x113d1, 0x113d1}, {0x113d3, 0x113d3}, {0x11bc0, 0x11be0}, {0x13460, 0x143fa},
    {0x16100, 0x1611d}, {0x16d40, 0x16d6c}, {0x18cff, 0x18cff}, {0x1e5d0, 0x1e5ed},
    {0x1e5f0, 0x1e5f0}, {0x2ebf0, 0x2ee5d},
};
static const struct range new_numbers[] = {
    {0x10d40, 0x10d49}, {0x116d0, 0x116e3}, {0x11bf0, 0x11bf9}, {0x16130, 0x16139},
    {0x16d70, 0x16d79}, {0x1ccf0, 0x1ccf9}, {0x1e5f1, 0x1e5fa},
};
static const struct range new_marks[] = {
    {0x897, 0x897},     {0x10d69, 0x10d6d}, {0x10efc, 0x10efc}, {0x113b8, 0x113c0},
    {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113ca}, {0x113cc, 0x113d0},
    {0x113d2, 0x113d2}, {0x113e1, 0x113e2}, {0x11f5a, 0x11f5a}, {0x1611e, 0x1612f},
    {0x1e5ee, 0x1e5ef},
};

/* Digits of Unicode 17: known to the reference where it cuts digits out, but not to
 * its regular expressions. */
static const struct range newest_digits[] = {{0x11de0, 0x11de9}, {0x16ff4, 0x16ff6}};

/* Starters that are alike before and after NFC, and that join with nothing but
 * characters outside these ranges. Not all there are: the bulk of real text. */
static const struct range stable[] = {
    {0x0, 0x2ff},     {0x400, 0x482},   {0x2010, 0x2027}, {0x2030, 0x205e},
    {0x3000, 0x3029}, {0x3030, 0x303f}, {0x3041, 0x3096}, {0x30a0, 0x30ff},
    {0x4e00, 0x9fff}, {0xac00, 0xd7a3}, {0xff01, 0xffef}, {0x1f300, 0x1faff},
};

static bool in_ranges(const struct range *ranges, size_t n, uint32_t code)
{
    if (code > ranges[n - 1].last) /* they are sorted */
        return false;
    size_t i = 0;
    while (code > ranges[i].last)
        i++;
    return code >= ranges[i].first;
}

static uint8_t class_of_category(utf8proc_category_t category)
{
    switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return CLASS_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return CLASS_NUMBER;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return CLASS_MARK;
    default:
        return 0;
    }
}

#define IN(ranges, code) in_ranges(ranges, sizeof(ranges) / sizeof *(ranges), code)

static uint8_t class_of(uint32_t code)
{
    uint8_t class = class_of_category(utf8proc_category((utf8proc_int32_t)code));
    if (code >= 0x800 && class == 0) {
        class = IN(new_letters, code) ? CLASS_LETTER : 0;
        class |= IN(new_numbers, code) ? CLASS_NUMBER : 0;
        class |= IN(new_marks, code) ? CLASS_MARK : 0;
        class |= IN(newest_digits, code) ? CLASS_NEWEST_DIGIT : 0;
    }
    if (IN(spaces, code))
        class |= CLASS_SPACE;
    if (code == '\r' || code == '\n')
        class |= CLASS_NEWLINE;
    if (!IN(stable, code))
        class |= CLASS_COMPOSES;
    return class;
}

static void fill_block(uint32_t first, uint8_t block[256])
{
    for (uint32_t i = 0; i < 256; i++)
        block[i] = class_of(first + i);
}

pawl_status classes_init(struct classes *classes, pawl_error *error)
{
    uint8_t block[256];
    memset(classes, 0, sizeof *classes);
    classes->blocks = calloc(CLASS_MAX_BLOCKS, sizeof *classes->blocks);
    if (!classes->blocks)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the Unicode class table");
    for (uint32_t page = 0; page < CLASS_PAGES; page++) {
        uint32_t same = 0;
        fill_block(page << 8, block);
        while (same < classes->n_blocks && memcmp(classes->blocks[same], block, sizeof block) != 0)
            same++;
        if (same == CLASS_MAX_BLOCKS)
            return pawl_fail(error, PAWL_E_INTERNAL, "more than %d kinds of Unicode blocks",
                             CLASS_MAX_BLOCKS);
        if (same == classes->n_blocks)
            memcpy(classes->blocks[classes->n_blocks++], block, sizeof block);
        classes->page[page] = (uint16_t)same;
    }
    for (uint32_t code = 0; code < 128; code++)
        classes->ascii[code] = classes_of(classes, code);
    return PAWL_OK;
}

void classes_clear(struct classes *classes)
{
    free(classes->blocks);
    classes->blocks = NULL;
}

static bool continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

uint32_t classes_decode(const uint8_t *data, size_t size, uint32_t *code)
{
    uint8_t lead = data[0];
    if (lead < 0x80) {
        *code = lead;
        return 1;
    }
    if (lead >= 0xc2 && lead < 0xe0 && size >= 2 && continues(data[1])) {
        *code = (uint32_t)(lead & 0x1f) << 6 | (data[1] & 0x3f);
        return 2;
    }
    if (lead >= 0xe0 && lead < 0xf0 && size >= 3 && continues(data[1]) && continues(data[2])) {
        uint32_t c =
            (uint32_t)(lead & 0x0f) << 12 | (uint32_t)(data[1] & 0x3f) << 6 | (data[2] & 0x3f);
        if (c >= 0x800 && (c < 0xd800 || c > 0xdfff)) {
            *code = c;
            return 3;
        }
    }
    if (lead >= 0xf0 && lead < 0xf5 && size >= 4 && continues(data[1]) && continues(data[2]) &&
        continues(data[3])) {
        uint32_t c = (uint32_t)(lead & 0x07) << 18 | (uint32_t)(data[1] & 0x3f) << 12 |
                     (uint32_t)(data[2] & 0x3f) << 6 | (data[3] & 0x3f);
        if (c >= 0x10000 && c <= 0x10ffff) {
            *code = c;
            return 4;
        }
    }
    *code = UINT32_MAX;
    return 1;
}
