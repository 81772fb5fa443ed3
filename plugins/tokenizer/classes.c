/*
 * tokenizer/classes.c - builds the class table from utf8proc's categories.
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

/* Starters that are alike before and after NFC, and that join with nothing but
 * characters outside these ranges. Not all there are: the bulk of real text. */
static const struct range stable[] = {
    {0x0, 0x2ff},     {0x400, 0x482},   {0x2010, 0x2027}, {0x2030, 0x205e},
    {0x3000, 0x3029}, {0x3030, 0x303f}, {0x3041, 0x3096}, {0x30a0, 0x30ff},
    {0x4e00, 0x9fff}, {0xac00, 0xd7a3}, {0xff01, 0xffef}, {0x1f300, 0x1faff},
};

static bool in_ranges(const struct range *ranges, size_t n, uint32_t code)
{
    for (size_t i = 0; i < n; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
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

static void fill_block(uint32_t first, uint8_t block[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t code = first + i;
        uint8_t class = class_of_category(utf8proc_category((utf8proc_int32_t)code));
        if (in_ranges(spaces, sizeof spaces / sizeof *spaces, code))
            class |= CLASS_SPACE;
        if (code == '\r' || code == '\n')
            class |= CLASS_NEWLINE;
        if (!in_ranges(stable, sizeof stable / sizeof *stable, code))
            class |= CLASS_COMPOSES;
        block[i] = class;
    }
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
