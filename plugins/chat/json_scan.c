/*
 * chat/json_scan.c - checks JSON one byte at a time. See json_scan.h.
 *
 * A push-down automaton: one state, and one bit for each open level that says
 * whether it is an object. Runs on any thread, owns nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat/json_scan.h"

enum scan_state {
    SCAN_VALUE,       /* a value must come                   */
    SCAN_FIRST_VALUE, /* after '[': a value or ']'           */
    SCAN_FIRST_KEY,   /* after '{': a key or '}'             */
    SCAN_KEY,         /* after ',' in an object              */
    SCAN_COLON,       /* after a key                         */
    SCAN_AFTER,       /* after a value: ',' or a closing one */
    SCAN_STRING,
    SCAN_ESCAPE, /* after a backslash                   */
    SCAN_HEX,    /* in the digits of \uXXXX             */
    SCAN_LITERAL,
    SCAN_MINUS, /* number: after '-'                   */
    SCAN_ZERO,  /* number: after a leading 0           */
    SCAN_DIGITS,
    SCAN_POINT, /* number: after '.', a digit must come */
    SCAN_FRACTION,
    SCAN_EXPONENT, /* number: after 'e'                   */
    SCAN_SIGN,     /* number: after 'e+'                  */
    SCAN_POWER,
    SCAN_END, /* the outermost value is complete     */
    SCAN_DEAD
};

static bool is_space(unsigned char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(unsigned char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

void json_scan_init(struct json_scan *scan)
{
    *scan = (struct json_scan){.state = SCAN_VALUE};
}

bool json_scan_complete(const struct json_scan *scan)
{
    if (scan->depth != 0)
        return false;
    return scan->state == SCAN_END || scan->state == SCAN_ZERO || scan->state == SCAN_DIGITS ||
           scan->state == SCAN_FRACTION || scan->state == SCAN_POWER;
}

static unsigned scan_bad(struct json_scan *scan)
{
    scan->state = SCAN_DEAD;
    return JSON_BAD;
}

static bool scan_in_object(const struct json_scan *scan)
{
    unsigned bit = scan->depth - 1u;
    return scan->depth > 0 && (scan->is_object[bit / 64] >> (bit % 64) & 1);
}

static unsigned scan_value_end(struct json_scan *scan)
{
    scan->level = scan->depth;
    scan->state = scan->depth ? SCAN_AFTER : SCAN_END;
    return JSON_VALUE_END;
}

static unsigned scan_open(struct json_scan *scan, bool object)
{
    if (scan->depth == JSON_MAX_DEPTH)
        return scan_bad(scan);
    uint64_t bit = UINT64_C(1) << (scan->depth % 64);
    uint64_t *word = &scan->is_object[scan->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    scan->depth++;
    scan->state = object ? SCAN_FIRST_KEY : SCAN_FIRST_VALUE;
    return JSON_VALUE_BEGIN;
}

static unsigned scan_close(struct json_scan *scan, unsigned char c)
{
    if (scan->depth == 0 || scan_in_object(scan) != (c == '}'))
        return scan_bad(scan);
    scan->depth--;
    return scan_value_end(scan);
}

static unsigned scan_begin_value(struct json_scan *scan, unsigned char c)
{
    scan->level = scan->depth;
    switch (c) {
    case '{':
    case '[':
        return scan_open(scan, c == '{');
    case '"':
        scan->in_key = false;
        scan->state = SCAN_STRING;
        return JSON_VALUE_BEGIN;
    case '-':
        scan->state = SCAN_MINUS;
        return JSON_VALUE_BEGIN;
    case 't':
    case 'f':
    case 'n':
        scan->literal = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
        scan->state = SCAN_LITERAL;
        return JSON_VALUE_BEGIN;
    default:
        if (!is_digit(c))
            return scan_bad(scan);
        scan->state = c == '0' ? SCAN_ZERO : SCAN_DIGITS;
        return JSON_VALUE_BEGIN;
    }
}

static unsigned scan_string(struct json_scan *scan, unsigned char c)
{
    if (c == '\\') {
        scan->state = SCAN_ESCAPE;
        return 0;
    }
    if (c < 0x20)
        return scan_bad(scan);
    if (c != '"')
        return 0;
    if (!scan->in_key)
        return scan_value_end(scan);
    scan->level = scan->depth;
    scan->state = SCAN_COLON;
    return JSON_KEY_END;
}

static unsigned scan_escape(struct json_scan *scan, unsigned char c)
{
    switch (c) {
    case 'u':
        scan->left = 4;
        scan->state = SCAN_HEX;
        return 0;
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        scan->state = SCAN_STRING;
        return 0;
    default:
        return scan_bad(scan);
    }
}

/* What may follow a value: also what ends a number. */
static unsigned scan_after(struct json_scan *scan, unsigned char c)
{
    if (is_space(c)) {
        scan->state = scan->depth ? SCAN_AFTER : SCAN_END;
        return 0;
    }
    if (c == ',' && scan->depth) {
        scan->state = scan_in_object(scan) ? SCAN_KEY : SCAN_VALUE;
        return 0;
    }
    if (c == '}' || c == ']')
        return scan_close(scan, c);
    return scan_bad(scan);
}

static unsigned scan_number(struct json_scan *scan, unsigned char c)
{
    bool digit = is_digit(c);
    switch (scan->state) {
    case SCAN_MINUS:
        if (!digit)
            return scan_bad(scan);
        scan->state = c == '0' ? SCAN_ZERO : SCAN_DIGITS;
        return 0;
    case SCAN_ZERO:
    case SCAN_DIGITS:
        if (digit && scan->state == SCAN_DIGITS)
            return 0;
        if (c != '.' && c != 'e' && c != 'E')
            return scan_after(scan, c);
        scan->state = c == '.' ? SCAN_POINT : SCAN_EXPONENT;
        return 0;
    case SCAN_FRACTION:
        if (digit)
            return 0;
        if (c != 'e' && c != 'E')
            return scan_after(scan, c);
        scan->state = SCAN_EXPONENT;
        return 0;
    case SCAN_POWER:
        return digit ? 0 : scan_after(scan, c);
    default: /* SCAN_POINT, SCAN_EXPONENT, SCAN_SIGN: a digit must come */
        if (scan->state == SCAN_EXPONENT && (c == '+' || c == '-')) {
            scan->state = SCAN_SIGN;
            return 0;
        }
        if (!digit)
            return scan_bad(scan);
        scan->state = scan->state == SCAN_POINT ? SCAN_FRACTION : SCAN_POWER;
        return 0;
    }
}

static unsigned scan_key(struct json_scan *scan, unsigned char c)
{
    if (c != '"')
        return scan_bad(scan);
    scan->level = scan->depth;
    scan->in_key = true;
    scan->state = SCAN_STRING;
    return JSON_KEY_BEGIN;
}

unsigned json_scan_byte(struct json_scan *scan, unsigned char c)
{
    switch (scan->state) {
    case SCAN_STRING:
        return scan_string(scan, c);
    case SCAN_ESCAPE:
        return scan_escape(scan, c);
    case SCAN_HEX:
        if (!is_hex(c))
            return scan_bad(scan);
        if (--scan->left == 0)
            scan->state = SCAN_STRING;
        return 0;
    case SCAN_LITERAL:
        if (c != (unsigned char)*scan->literal)
            return scan_bad(scan);
        return *++scan->literal ? 0 : scan_value_end(scan);
    case SCAN_VALUE:
        return is_space(c) ? 0 : scan_begin_value(scan, c);
    case SCAN_FIRST_VALUE:
        if (c == ']')
            return scan_close(scan, c);
        return is_space(c) ? 0 : scan_begin_value(scan, c);
    case SCAN_FIRST_KEY:
        if (c == '}')
            return scan_close(scan, c);
        return is_space(c) ? 0 : scan_key(scan, c);
    case SCAN_KEY:
        return is_space(c) ? 0 : scan_key(scan, c);
    case SCAN_COLON:
        if (c == ':')
            scan->state = SCAN_VALUE;
        return c == ':' || is_space(c) ? 0 : scan_bad(scan);
    case SCAN_AFTER:
    case SCAN_END:
        return scan_after(scan, c);
    case SCAN_DEAD:
        return JSON_BAD;
    default:
        return scan_number(scan, c);
    }
}
