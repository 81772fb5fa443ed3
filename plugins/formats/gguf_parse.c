/*
 * formats/gguf_parse.c - the header of a GGUF file, checked claim by claim.
 *
 *   magic "GGUF" | u32 version | u64 tensors | u64 pairs
 *   pairs    x { string key | u32 type | value }
 *   tensors  x { string name | u32 n_dims | u64 dims[n_dims] | u32 type | u64 offset }
 *   padding to the alignment, then the tensor data; offsets count from there
 *
 *   string = u64 size | bytes         array = u32 type | u64 count | elements
 *
 * Nothing the file says is believed before it has been compared with the bytes
 * that are really there. Runs on the thread that opens the file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "formats/gguf_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/label.h"

/* A place in the file. pos <= size always. */
struct cursor {
    const uint8_t *data; /* of the whole file                           */
    uint64_t size;
    uint64_t pos;
};

int gguf_compare(pawl_bytes a, pawl_bytes b)
{
    if (a.size != b.size)
        return a.size < b.size ? -1 : 1;
    return a.size ? memcmp(a.data, b.data, (size_t)a.size) : 0;
}

uint64_t gguf_value_size(uint32_t type)
{
    switch (type) {
    case GGUF_U8:
    case GGUF_I8:
    case GGUF_BOOL:
        return 1;
    case GGUF_U16:
    case GGUF_I16:
        return 2;
    case GGUF_U32:
    case GGUF_I32:
    case GGUF_F32:
        return 4;
    case GGUF_U64:
    case GGUF_I64:
    case GGUF_F64:
        return 8;
    default:
        return 0;
    }
}

static pawl_status truncated(const struct cursor *at, const char *what, uint64_t need,
                             pawl_error *error)
{
    return pawl_fail(error, PAWL_E_FORMAT,
                     "%s: %" PRIu64 " bytes at offset %" PRIu64 " end beyond the file of %" PRIu64
                     " bytes; the file is truncated or damaged",
                     what, need, at->pos, at->size);
}

static pawl_status take(struct cursor *at, uint64_t bytes, const char *what, const uint8_t **data,
                        pawl_error *error)
{
    if (bytes > at->size - at->pos)
        return truncated(at, what, bytes, error);
    *data = at->data + at->pos;
    at->pos += bytes;
    return PAWL_OK;
}

static pawl_status take_u32(struct cursor *at, const char *what, uint32_t *value, pawl_error *error)
{
    const uint8_t *data = NULL;
    pawl_status status = take(at, sizeof *value, what, &data, error);
    if (status == PAWL_OK)
        memcpy(value, data, sizeof *value);
    return status;
}

static pawl_status take_u64(struct cursor *at, const char *what, uint64_t *value, pawl_error *error)
{
    const uint8_t *data = NULL;
    pawl_status status = take(at, sizeof *value, what, &data, error);
    if (status == PAWL_OK)
        memcpy(value, data, sizeof *value);
    return status;
}

static pawl_status take_string(struct cursor *at, const char *what, pawl_bytes *string,
                               pawl_error *error)
{
    uint64_t size;
    const uint8_t *data = NULL;
    pawl_status status = take_u64(at, what, &size, error);
    if (status == PAWL_OK)
        status = take(at, size, what, &data, error);
    if (status != PAWL_OK)
        return status;
    string->data = (const char *)data;
    string->size = size;
    return PAWL_OK;
}

/* A key or name: a string between 1 and `max` bytes. */
static pawl_status take_name(struct cursor *at, const char *what, uint64_t max, pawl_bytes *name,
                             pawl_error *error)
{
    uint64_t start = at->pos;
    pawl_status status = take_string(at, what, name, error);
    if (status != PAWL_OK)
        return status;
    if (name->size == 0 || name->size > max)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "%s at offset %" PRIu64 " is %" PRIu64 " bytes long; 1 to %" PRIu64
                         " are allowed",
                         what, start, name->size, max);
    return PAWL_OK;
}

static pawl_status check_bools(const char *what, const uint8_t *data, uint64_t count,
                               pawl_error *error)
{
    for (uint64_t i = 0; i < count; i++)
        if (data[i] > 1)
            return pawl_fail(error, PAWL_E_FORMAT, "%s: a bool is %u; 0 or 1 is allowed", what,
                             data[i]);
    return PAWL_OK;
}

/* Walks the strings of an array once and notes where each begins. */
static pawl_status index_strings(struct cursor *at, struct gguf_pair *pair, const char *what,
                                 pawl_error *error)
{
    uint64_t count = pair->array.count;
    if (count > GGUF_MAX_STRINGS || count > (at->size - at->pos) / sizeof(uint64_t))
        return pawl_fail(error, PAWL_E_FORMAT,
                         "%s: an array of %" PRIu64 " strings at offset %" PRIu64
                         " does not fit the file of %" PRIu64 " bytes (at most %u are allowed)",
                         what, count, at->pos, at->size, GGUF_MAX_STRINGS);
    if (count == 0)
        return PAWL_OK;
    pair->strings = malloc((size_t)count * sizeof *pair->strings);
    if (!pair->strings)
        return pawl_fail(error, PAWL_E_MEMORY, "%s: no memory to index %" PRIu64 " strings", what,
                         count);
    for (uint64_t i = 0; i < count; i++) {
        pawl_bytes string;
        pair->strings[i] = at->pos;
        pawl_status status = take_string(at, what, &string, error);
        if (status != PAWL_OK)
            return status;
    }
    pair->array.strings = pair->strings;
    return PAWL_OK;
}

static pawl_status take_array(struct cursor *at, struct gguf_pair *pair, const char *what,
                              pawl_error *error)
{
    gguf_array *array = &pair->array;
    pawl_status status = take_u32(at, what, &array->type, error);
    if (status == PAWL_OK)
        status = take_u64(at, what, &array->count, error);
    if (status != PAWL_OK)
        return status;
    if (array->type == GGUF_ARRAY)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "%s: an array of arrays at offset %" PRIu64 "; arrays may hold numbers, "
                         "bools or strings",
                         what, at->pos);
    uint64_t start = at->pos;
    const uint8_t *data = at->data + at->pos;
    uint64_t size = gguf_value_size(array->type);
    if (array->type == GGUF_STRING) {
        status = index_strings(at, pair, what, error);
    } else if (size == 0) {
        return pawl_fail(error, PAWL_E_FORMAT,
                         "%s: elements of unknown type %" PRIu32 "; types 0 to 12 are known", what,
                         array->type);
    } else if (array->count > (at->size - at->pos) / size) {
        return pawl_fail(error, PAWL_E_FORMAT,
                         "%s: an array of %" PRIu64 " elements of %" PRIu64
                         " bytes at offset %" PRIu64 " ends beyond the file of %" PRIu64 " bytes",
                         what, array->count, size, at->pos, at->size);
    } else {
        status = take(at, array->count * size, what, &data, error);
        if (status == PAWL_OK && array->type == GGUF_BOOL)
            status = check_bools(what, data, array->count, error);
    }
    array->data = data;
    array->bytes = at->pos - start;
    return status;
}

static pawl_status take_pair(struct cursor *at, uint64_t i, struct gguf_pair *pair,
                             pawl_error *error)
{
    char what[96];
    snprintf(what, sizeof what, "key %" PRIu64, i);
    pawl_status status = take_name(at, what, GGUF_MAX_KEY, &pair->key, error);
    if (status != PAWL_OK)
        return status;
    snprintf(what, sizeof what, "key '%s'", label_of(pair->key).text);
    status = take_u32(at, what, &pair->type, error);
    if (status != PAWL_OK)
        return status;
    if (pair->type == GGUF_STRING)
        return take_string(at, what, &pair->string, error);
    if (pair->type == GGUF_ARRAY)
        return take_array(at, pair, what, error);
    uint64_t size = gguf_value_size(pair->type);
    if (size == 0)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "%s: value of unknown type %" PRIu32 "; types 0 to 12 are known", what,
                         pair->type);
    status = take(at, size, what, &pair->value, error);
    if (status == PAWL_OK && pair->type == GGUF_BOOL)
        status = check_bools(what, pair->value, 1, error);
    return status;
}

/* Size of a tensor's data from its type and dims, every product checked. */
static pawl_status measure_tensor(gguf_tensor *tensor, const char *what, pawl_error *error)
{
    uint64_t block, bytes, rows = 1;
    if (!gguf_type_block(tensor->type, &block, &bytes))
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "%s: elements of type %" PRIu32 ", which this reader does not know", what,
                         tensor->type);
    for (uint32_t d = 0; d < tensor->n_dims; d++)
        if (tensor->dims[d] == 0)
            return pawl_fail(error, PAWL_E_FORMAT, "%s: dimension %u is 0; at least 1 is expected",
                             what, d);
    if (tensor->dims[0] % block != 0)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "%s: rows of %" PRIu64 " elements; %s needs a multiple of %" PRIu64, what,
                         tensor->dims[0], gguf_type_name(tensor->type), block);
    bool fits = !__builtin_mul_overflow(tensor->dims[0] / block, bytes, &tensor->bytes);
    for (uint32_t d = 1; d < tensor->n_dims; d++)
        fits = fits && !__builtin_mul_overflow(rows, tensor->dims[d], &rows);
    fits = fits && !__builtin_mul_overflow(tensor->bytes, rows, &tensor->bytes);
    fits = fits && tensor->bytes / bytes <= INT64_MAX / block;
    if (!fits)
        return pawl_fail(error, PAWL_E_FORMAT, "%s: its dimensions multiply to more than 64 bits",
                         what);
    return PAWL_OK;
}

/* The offset is left in *offset until the start of the data is known. */
static pawl_status take_tensor(struct cursor *at, uint64_t i, gguf_tensor *tensor, uint64_t *offset,
                               pawl_error *error)
{
    char what[96];
    snprintf(what, sizeof what, "tensor %" PRIu64, i);
    pawl_status status = take_name(at, what, GGUF_MAX_NAME, &tensor->name, error);
    if (status != PAWL_OK)
        return status;
    snprintf(what, sizeof what, "tensor '%s'", label_of(tensor->name).text);
    status = take_u32(at, what, &tensor->n_dims, error);
    if (status != PAWL_OK)
        return status;
    if (tensor->n_dims < 1 || tensor->n_dims > GGUF_MAX_DIMS)
        return pawl_fail(error, PAWL_E_FORMAT, "%s: %" PRIu32 " dimensions; 1 to %d are expected",
                         what, tensor->n_dims, GGUF_MAX_DIMS);
    for (uint32_t d = 0; d < GGUF_MAX_DIMS; d++) {
        tensor->dims[d] = 1;
        if (d < tensor->n_dims && status == PAWL_OK)
            status = take_u64(at, what, &tensor->dims[d], error);
    }
    if (status == PAWL_OK)
        status = take_u32(at, what, &tensor->type, error);
    if (status == PAWL_OK)
        status = take_u64(at, what, offset, error);
    if (status == PAWL_OK)
        status = measure_tensor(tensor, what, error);
    return status;
}

static pawl_status read_alignment(const struct gguf_file *file, uint64_t *alignment,
                                  pawl_error *error)
{
    static const char key[] = "general.alignment";
    *alignment = 32;
    if (gguf_find(file, key) && !gguf_get_u64(file, key, alignment))
        *alignment = 0;
    if (*alignment < GGUF_MIN_ALIGNMENT || *alignment > GGUF_MAX_ALIGNMENT ||
        (*alignment & (*alignment - 1)) != 0)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "key 'general.alignment': expected a power of two from %u to %u",
                         GGUF_MIN_ALIGNMENT, GGUF_MAX_ALIGNMENT);
    return PAWL_OK;
}

/* Turns offsets into pointers; every tensor must lie inside the file. */
static pawl_status place_tensors(struct gguf_file *file, uint64_t header_end,
                                 const uint64_t *offsets, uint64_t alignment, pawl_error *error)
{
    uint64_t start = (header_end + alignment - 1) & ~(alignment - 1); /* size is far below 2^64 */
    for (uint64_t i = 0; i < file->n_tensors; i++) {
        gguf_tensor *tensor = &file->tensors[i];
        struct label name = label_of(tensor->name);
        uint64_t offset = offsets[i], begin, end;
        if (offset % alignment != 0)
            return pawl_fail(error, PAWL_E_FORMAT,
                             "tensor '%s': offset %" PRIu64
                             " is not a multiple of the alignment %" PRIu64,
                             name.text, offset, alignment);
        if (__builtin_add_overflow(start, offset, &begin) ||
            __builtin_add_overflow(begin, tensor->bytes, &end) || end > file->size)
            return pawl_fail(error, PAWL_E_FORMAT,
                             "tensor '%s': data of %" PRIu64 " bytes at offset %" PRIu64
                             " + %" PRIu64 " ends beyond the file of %" PRIu64
                             " bytes; the file is truncated or damaged",
                             name.text, tensor->bytes, start, offset, file->size);
        tensor->data = file->data + begin;
    }
    return PAWL_OK;
}

static int compare_pairs(const void *a, const void *b, void *file)
{
    const struct gguf_pair *pairs = ((const struct gguf_file *)file)->pairs;
    return gguf_compare(pairs[*(const uint32_t *)a].key, pairs[*(const uint32_t *)b].key);
}

static int compare_tensors(const void *a, const void *b, void *file)
{
    const gguf_tensor *tensors = ((const struct gguf_file *)file)->tensors;
    return gguf_compare(tensors[*(const uint32_t *)a].name, tensors[*(const uint32_t *)b].name);
}

static void sort_order(uint32_t *order, uint64_t count, struct gguf_file *file,
                       int (*compare)(const void *, const void *, void *))
{
    for (uint64_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, (size_t)count, sizeof *order, compare, file);
}

/* Sorted indexes: lookups by bisection, and duplicates become neighbours. Sorted
 * and not hashed, because no choice of names can make sorting slow. */
static pawl_status index_names(struct gguf_file *file, pawl_error *error)
{
    sort_order(file->pair_order, file->n_pairs, file, compare_pairs);
    sort_order(file->tensor_order, file->n_tensors, file, compare_tensors);
    for (uint64_t i = 1; i < file->n_pairs; i++)
        if (compare_pairs(&file->pair_order[i - 1], &file->pair_order[i], file) == 0)
            return pawl_fail(error, PAWL_E_FORMAT, "key '%s' occurs twice",
                             label_of(file->pairs[file->pair_order[i]].key).text);
    for (uint64_t i = 1; i < file->n_tensors; i++)
        if (compare_tensors(&file->tensor_order[i - 1], &file->tensor_order[i], file) == 0)
            return pawl_fail(error, PAWL_E_FORMAT, "tensor '%s' occurs twice",
                             label_of(file->tensors[file->tensor_order[i]].name).text);
    return PAWL_OK;
}

static pawl_status take_version(struct cursor *at, pawl_error *error)
{
    const uint8_t *magic;
    uint32_t version = 0;
    if (at->size < 4 || memcmp(at->data, "GGUF", 4) != 0)
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "not a GGUF file: it does not begin with \"GGUF\"");
    pawl_status status = take(at, 4, "magic", &magic, error);
    if (status == PAWL_OK)
        status = take_u32(at, "version", &version, error);
    if (status != PAWL_OK)
        return status;
    if (version == 2 || version == 3) /* 3 added nothing but byte order */
        return PAWL_OK;
    if ((version & 0xffffu) == 0)
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "a big-endian GGUF file; convert it to little-endian");
    return pawl_fail(error, PAWL_E_UNSUPPORTED,
                     "GGUF version %" PRIu32 "; versions 2 and 3 are known", version);
}

/* Makes room for what the header promises, after comparing it with what the rest
 * of the file could hold at the very least. */
static pawl_status take_counts(struct cursor *at, struct gguf_file *file, pawl_error *error)
{
    uint64_t n_tensors = 0, n_pairs = 0;
    pawl_status status = take_u64(at, "tensor count", &n_tensors, error);
    if (status == PAWL_OK)
        status = take_u64(at, "key count", &n_pairs, error);
    if (status != PAWL_OK)
        return status;
    uint64_t rest = at->size - at->pos;
    const uint64_t least_pair = 8 + 1 + 4 + 1, least_tensor = 8 + 1 + 4 + 8 + 4 + 8;
    if (n_pairs > GGUF_MAX_PAIRS || n_pairs > rest / least_pair)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "%" PRIu64 " keys do not fit the file of %" PRIu64
                         " bytes (at most %u are allowed)",
                         n_pairs, at->size, GGUF_MAX_PAIRS);
    if (n_tensors > GGUF_MAX_TENSORS || n_tensors > rest / least_tensor)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "%" PRIu64 " tensors do not fit the file of %" PRIu64
                         " bytes (at most %u are allowed)",
                         n_tensors, at->size, GGUF_MAX_TENSORS);
    file->pairs = calloc((size_t)n_pairs + 1, sizeof *file->pairs);
    file->tensors = calloc((size_t)n_tensors + 1, sizeof *file->tensors);
    file->pair_order = calloc((size_t)n_pairs + 1, sizeof *file->pair_order);
    file->tensor_order = calloc((size_t)n_tensors + 1, sizeof *file->tensor_order);
    if (!file->pairs || !file->tensors || !file->pair_order || !file->tensor_order)
        return pawl_fail(error, PAWL_E_MEMORY,
                         "no memory for %" PRIu64 " keys and %" PRIu64 " tensors", n_pairs,
                         n_tensors);
    file->n_pairs = n_pairs;
    file->n_tensors = n_tensors;
    return PAWL_OK;
}

pawl_status gguf_parse(struct gguf_file *file, pawl_error *error)
{
    struct cursor at = {file->data, file->size, 0};
    uint64_t alignment;
    pawl_status status = take_version(&at, error);
    if (status == PAWL_OK)
        status = take_counts(&at, file, error);
    for (uint64_t i = 0; status == PAWL_OK && i < file->n_pairs; i++)
        status = take_pair(&at, i, &file->pairs[i], error);
    if (status != PAWL_OK)
        return status;

    uint64_t *offsets = calloc((size_t)file->n_tensors + 1, sizeof *offsets);
    if (!offsets)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for %" PRIu64 " tensors",
                         file->n_tensors);
    for (uint64_t i = 0; status == PAWL_OK && i < file->n_tensors; i++)
        status = take_tensor(&at, i, &file->tensors[i], &offsets[i], error);
    if (status == PAWL_OK)
        status = index_names(file, error);
    if (status == PAWL_OK)
        status = read_alignment(file, &alignment, error);
    if (status == PAWL_OK)
        status = place_tensors(file, at.pos, offsets, alignment, error);
    free(offsets);
    return status;
}
