/*
 * pawl/plugin_util.h - small conveniences for people who write a plugin.
 *
 * Everything is static inline and rests on <pawl/plugin.h> alone, so it is no
 * part of the ABI: copy, change or ignore it. All functions are [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PAWL_PLUGIN_UTIL_H
#define PAWL_PLUGIN_UTIL_H

#include <pawl/plugin.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A pawl_bytes over a NUL-terminated string, which stays the caller's. */
static inline pawl_bytes pawl_text(const char *text)
{
    pawl_bytes bytes = {text, text ? strlen(text) : 0};
    return bytes;
}

/* True if the bytes are exactly this NUL-terminated string. */
static inline bool pawl_bytes_are(pawl_bytes bytes, const char *text)
{
    size_t size = strlen(text);
    return bytes.size == size && (size == 0 || memcmp(bytes.data, text, size) == 0);
}

/* A NUL-terminated copy to be given to free(), or NULL without memory. */
static inline char *pawl_bytes_copy(pawl_bytes bytes)
{
    char *copy = (char *)malloc((size_t)bytes.size + 1);
    if (copy) {
        if (bytes.size)
            memcpy(copy, bytes.data, (size_t)bytes.size);
        copy[bytes.size] = '\0';
    }
    return copy;
}

/* The i-th slot of an array that the host laid out with its own stride. */
static inline pawl_slot *pawl_slot_at(pawl_slot *slots, uint64_t stride, uint64_t i)
{
    return (pawl_slot *)(void *)((char *)slots + stride * i);
}

/* True if a slot of this stride reaches as far as the member. */
#define PAWL_SLOT_HAS(stride, member)                                                              \
    ((stride) >= offsetof(pawl_slot, member) + sizeof(((pawl_slot *)0)->member))

/* Writes a NUL-terminated string to a sink. */
static inline pawl_status pawl_sink_text(const pawl_sink *to, const char *text)
{
    return to->write(to->context, text, strlen(text));
}

/* Fills a caller-sized info struct: copies as much of *full as the caller's
 * struct_size allows and keeps that size. Both structs begin with struct_size. */
static inline void pawl_fill(void *target, const void *full, uint32_t full_size)
{
    uint32_t room;
    memcpy(&room, target, sizeof room);
    uint32_t size = room < full_size ? room : full_size;
    if (size > sizeof room)
        memcpy((char *)target + sizeof room, (const char *)full + sizeof room, size - sizeof room);
}

/* Logs a formatted line; longer ones are cut at 500 bytes. host may be NULL. */
static inline PAWL_PRINTF(4, 5) void pawl_log(const pawl_host *host, int32_t level,
                                              const char *component, const char *format, ...)
{
    char line[500];
    va_list args;
    if (!host || !PAWL_HAS(host, log))
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    host->log(host, level, component, pawl_text(line));
}

#endif /* PAWL_PLUGIN_UTIL_H */
