/*
 * formats/gguf.c - opening, closing and asking a GGUF file.
 *
 * The header itself is read in gguf_parse.c. Everything here but open and close
 * only reads: any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "formats/gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/gguf_file.h"

/* The part of a path that fits a message. */
#define PATH_SHOWN 120

static pawl_status map_file(const char *path, struct gguf_file *file, pawl_error *error)
{
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "%.*s: cannot be opened: %s", PATH_SHOWN, path,
                         strerror(errno));
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        close(fd);
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "%.*s: not a regular file, so not a GGUF file",
                         PATH_SHOWN, path);
    }
    if (facts.st_size < 4) { /* an empty file cannot be mapped */
        close(fd);
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "%.*s: not a GGUF file: only %d bytes",
                         PATH_SHOWN, path, (int)facts.st_size);
    }
    void *map = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int reason = errno;
    close(fd); /* the map stays */
    if (map == MAP_FAILED)
        return pawl_fail(error, PAWL_E_MEMORY, "%.*s: cannot be mapped: %s", PATH_SHOWN, path,
                         strerror(reason));
    file->map = map;
    file->data = map;
    file->size = (uint64_t)facts.st_size;
    return PAWL_OK;
}

pawl_status gguf_open(pawl_bytes path, gguf_file **file, pawl_error *error)
{
    char name[PATH_MAX];
    if (path.size == 0 || path.size >= sizeof name || memchr(path.data, 0, (size_t)path.size))
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "a path of 1 to %d bytes without NUL is expected, not one of %llu",
                         PATH_MAX - 1, (unsigned long long)path.size);
    memcpy(name, path.data, (size_t)path.size);
    name[path.size] = '\0';

    struct gguf_file *opened = calloc(1, sizeof *opened);
    if (!opened)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to open a file");
    pawl_status status = map_file(name, opened, error);
    if (status == PAWL_OK)
        status = gguf_parse(opened, error);
    if (status != PAWL_OK) {
        gguf_close(opened);
        return status;
    }
    *file = opened;
    return PAWL_OK;
}

pawl_status gguf_open_memory(const void *data, uint64_t size, gguf_file **file, pawl_error *error)
{
    struct gguf_file *opened = calloc(1, sizeof *opened);
    if (!opened)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to open a file");
    opened->data = data;
    opened->size = size;
    pawl_status status = gguf_parse(opened, error);
    if (status != PAWL_OK) {
        gguf_close(opened);
        return status;
    }
    *file = opened;
    return PAWL_OK;
}

void gguf_close(gguf_file *file)
{
    if (!file)
        return;
    for (uint64_t i = 0; i < file->n_pairs; i++)
        free(file->pairs[i].strings);
    free(file->pairs);
    free(file->tensors);
    free(file->pair_order);
    free(file->tensor_order);
    if (file->map)
        munmap(file->map, (size_t)file->size);
    free(file);
}

uint64_t gguf_file_bytes(const gguf_file *file)
{
    return file->size;
}

/* ------------------------------------------------------------- numbers ---- */

/* A number of any width, as signed or as unsigned; false: not an integer. */
static bool read_integer(uint32_t type, const uint8_t *data, bool *negative, uint64_t *bits)
{
    int64_t wide = 0;
    union {
        int8_t i8;
        int16_t i16;
        int32_t i32;
    } narrow;
    uint64_t raw = 0;
    switch (type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64: /* the file and every machine we run on are little-endian */
        memcpy(&raw, data, (size_t)gguf_value_size(type));
        *negative = false;
        *bits = raw;
        return true;
    case GGUF_I8:
        memcpy(&narrow.i8, data, sizeof narrow.i8);
        wide = narrow.i8;
        break;
    case GGUF_I16:
        memcpy(&narrow.i16, data, sizeof narrow.i16);
        wide = narrow.i16;
        break;
    case GGUF_I32:
        memcpy(&narrow.i32, data, sizeof narrow.i32);
        wide = narrow.i32;
        break;
    case GGUF_I64:
        memcpy(&wide, data, sizeof wide);
        break;
    default:
        return false;
    }
    *negative = wide < 0;
    *bits = (uint64_t)wide;
    return true;
}

static bool read_u64(uint32_t type, const uint8_t *data, uint64_t *value)
{
    bool negative;
    uint64_t bits;
    if (!read_integer(type, data, &negative, &bits) || negative)
        return false;
    *value = bits;
    return true;
}

static bool read_f64(uint32_t type, const uint8_t *data, double *value)
{
    if (type == GGUF_F32) {
        float narrow;
        memcpy(&narrow, data, sizeof narrow);
        *value = (double)narrow;
        return true;
    }
    if (type != GGUF_F64)
        return false;
    memcpy(value, data, sizeof *value);
    return true;
}

/* ------------------------------------------------------------ metadata ---- */

const struct gguf_pair *gguf_find(const struct gguf_file *file, const char *key)
{
    pawl_bytes wanted = {key, strlen(key)};
    uint64_t low = 0, high = file->n_pairs;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const struct gguf_pair *pair = &file->pairs[file->pair_order[middle]];
        int order = gguf_compare(wanted, pair->key);
        if (order == 0)
            return pair;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

bool gguf_get_u64(const gguf_file *file, const char *key, uint64_t *value)
{
    const struct gguf_pair *pair = gguf_find(file, key);
    return pair && read_u64(pair->type, pair->value, value);
}

bool gguf_get_f64(const gguf_file *file, const char *key, double *value)
{
    const struct gguf_pair *pair = gguf_find(file, key);
    return pair && read_f64(pair->type, pair->value, value);
}

bool gguf_get_bool(const gguf_file *file, const char *key, bool *value)
{
    const struct gguf_pair *pair = gguf_find(file, key);
    if (!pair || pair->type != GGUF_BOOL)
        return false;
    *value = *pair->value != 0;
    return true;
}

bool gguf_get_string(const gguf_file *file, const char *key, pawl_bytes *value)
{
    const struct gguf_pair *pair = gguf_find(file, key);
    if (!pair || pair->type != GGUF_STRING)
        return false;
    *value = pair->string;
    return true;
}

bool gguf_get_array(const gguf_file *file, const char *key, gguf_array *value)
{
    const struct gguf_pair *pair = gguf_find(file, key);
    if (!pair || pair->type != GGUF_ARRAY)
        return false;
    *value = pair->array;
    return true;
}

/* -------------------------------------------------------------- arrays ---- */

pawl_bytes gguf_array_string(const gguf_file *file, const gguf_array *array, uint64_t i)
{
    pawl_bytes string = {NULL, 0};
    if (array->type != GGUF_STRING || i >= array->count)
        return string;
    const uint8_t *at = file->data + array->strings[i];
    memcpy(&string.size, at, sizeof string.size);
    string.data = (const char *)at + sizeof string.size;
    return string;
}

/* The i-th number of an array, or NULL. */
static const uint8_t *array_at(const gguf_array *array, uint64_t i)
{
    uint64_t size = gguf_value_size(array->type);
    if (size == 0 || i >= array->count)
        return NULL;
    return (const uint8_t *)array->data + i * size;
}

bool gguf_array_u64(const gguf_array *array, uint64_t i, uint64_t *value)
{
    const uint8_t *at = array_at(array, i);
    return at && read_u64(array->type, at, value);
}

bool gguf_array_i64(const gguf_array *array, uint64_t i, int64_t *value)
{
    bool negative;
    uint64_t bits;
    const uint8_t *at = array_at(array, i);
    if (!at || !read_integer(array->type, at, &negative, &bits))
        return false;
    if (!negative && bits > INT64_MAX)
        return false;
    *value = (int64_t)bits;
    return true;
}

bool gguf_array_f64(const gguf_array *array, uint64_t i, double *value)
{
    const uint8_t *at = array_at(array, i);
    return at && read_f64(array->type, at, value);
}

/* ---------------------------------------------------------- inspection ---- */

uint64_t gguf_pair_count(const gguf_file *file)
{
    return file->n_pairs;
}

pawl_bytes gguf_pair(const gguf_file *file, uint64_t i, uint32_t *type)
{
    if (i >= file->n_pairs) {
        *type = GGUF_ARRAY;
        return (pawl_bytes){NULL, 0};
    }
    *type = file->pairs[i].type;
    return file->pairs[i].key;
}

uint64_t gguf_tensor_count(const gguf_file *file)
{
    return file->n_tensors;
}

const gguf_tensor *gguf_tensor_at(const gguf_file *file, uint64_t i)
{
    return i < file->n_tensors ? &file->tensors[i] : NULL;
}

const gguf_tensor *gguf_tensor_find(const gguf_file *file, const char *name)
{
    pawl_bytes wanted = {name, strlen(name)};
    uint64_t low = 0, high = file->n_tensors;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const gguf_tensor *tensor = &file->tensors[file->tensor_order[middle]];
        int order = gguf_compare(wanted, tensor->name);
        if (order == 0)
            return tensor;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
