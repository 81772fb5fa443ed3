/*
 * cpu/model_shape.c - a llama model's sizes out of GGUF metadata.
 *
 * Counts of heads and widths may differ from layer to layer: then the value is
 * an array. Everything that could make a later size absurd is refused here.
 * Runs while a model opens or is inspected.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/model.h"

#include <pawl/plugin_util.h>

#include <math.h>

#include "formats/label.h"

/* A count within [least, most]; absent: `otherwise`, or an error where that is 0. */
static pawl_status get_count(const model *m, const char *key, uint64_t least, uint64_t most,
                             uint32_t otherwise, uint32_t *out, pawl_error *error)
{
    uint64_t value = otherwise;
    if (!gguf_get_u64(m->file, key, &value) && !otherwise)
        return pawl_fail(error, PAWL_E_FORMAT, "%s is missing or no count", key);
    if (value < least || value > most)
        return pawl_fail(error, PAWL_E_FORMAT, "%s is %llu, expected %llu to %llu", key,
                         (unsigned long long)value, (unsigned long long)least,
                         (unsigned long long)most);
    *out = (uint32_t)value;
    return PAWL_OK;
}

/* The same for one layer of a value that may be an array. */
static pawl_status get_layer_count(const model *m, const char *key, uint32_t layer, uint64_t most,
                                   uint32_t otherwise, uint32_t *out, pawl_error *error)
{
    gguf_array array;
    uint64_t value;
    if (!gguf_get_array(m->file, key, &array))
        return get_count(m, key, 1, most, otherwise, out, error);
    if (array.count < m->n_layers)
        return pawl_fail(error, PAWL_E_FORMAT, "%s has %llu values, expected %u (one a layer)", key,
                         (unsigned long long)array.count, m->n_layers);
    if (!gguf_array_u64(&array, layer, &value) || value < 1 || value > most)
        return pawl_fail(error, PAWL_E_FORMAT, "%s of layer %u is not within 1 to %llu", key, layer,
                         (unsigned long long)most);
    *out = (uint32_t)value;
    return PAWL_OK;
}

static pawl_status read_layer(model *m, uint32_t index, pawl_error *error)
{
    model_layer *layer = &m->layers[index];
    pawl_status status = get_layer_count(m, "llama.attention.head_count", index, MODEL_MAX_HEADS, 0,
                                         &layer->heads, error);
    if (status == PAWL_OK)
        status = get_layer_count(m, "llama.attention.head_count_kv", index, MODEL_MAX_HEADS,
                                 layer->heads, &layer->kv_heads, error);
    if (status == PAWL_OK)
        status = get_layer_count(m, "llama.feed_forward_length", index, MODEL_MAX_WIDTH, 0,
                                 &layer->width, error);
    if (status != PAWL_OK)
        return status;
    if (layer->heads % layer->kv_heads != 0)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "layer %u has %u heads over %u key/value heads, expected a multiple",
                         index, layer->heads, layer->kv_heads);
    m->max_heads = layer->heads > m->max_heads ? layer->heads : m->max_heads;
    m->max_kv_heads = layer->kv_heads > m->max_kv_heads ? layer->kv_heads : m->max_kv_heads;
    m->max_width = layer->width > m->max_width ? layer->width : m->max_width;
    return PAWL_OK;
}

/* Channels of one head: stated, or the hidden row shared out over the heads. */
static pawl_status read_head_size(model *m, pawl_error *error)
{
    uint32_t heads = m->layers[0].heads;
    uint32_t shared = m->hidden % heads == 0 ? m->hidden / heads : 0;
    uint32_t value_size;
    pawl_status status = get_count(m, "llama.attention.key_length", 2, MODEL_MAX_HEAD_SIZE, shared,
                                   &m->head_size, error);
    if (status == PAWL_OK)
        status = get_count(m, "llama.attention.value_length", 1, MODEL_MAX_HEAD_SIZE, m->head_size,
                           &value_size, error);
    if (status != PAWL_OK)
        return status;
    if (value_size != m->head_size)
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "keys of %u and values of %u channels: this engine needs them equal",
                         m->head_size, value_size);
    if ((uint64_t)m->max_heads * m->head_size > MODEL_MAX_WIDTH)
        return pawl_fail(error, PAWL_E_FORMAT, "%u heads of %u channels exceed %u", m->max_heads,
                         m->head_size, MODEL_MAX_WIDTH);
    return PAWL_OK;
}

static pawl_status read_scaling(const model *m, double *factor, pawl_error *error)
{
    pawl_bytes type;
    *factor = 1.0;
    if (gguf_get_f64(m->file, "llama.rope.scale_linear", factor) && !(*factor > 0))
        *factor = 1.0; /* 0 says "none" in old files */
    if (!gguf_get_string(m->file, "llama.rope.scaling.type", &type) || pawl_bytes_are(type, "none"))
        return PAWL_OK;
    if (!pawl_bytes_are(type, "linear"))
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "llama.rope.scaling.type is \"%s\"; this engine knows none and linear",
                         label_of(type).text);
    gguf_get_f64(m->file, "llama.rope.scaling.factor", factor);
    if (!(*factor > 0 && *factor < 1e6))
        return pawl_fail(error, PAWL_E_FORMAT,
                         "llama.rope.scaling.factor is %g, expected more than 0 and below 1e6",
                         *factor);
    return PAWL_OK;
}

/* Angles per position: base ^ (-2 i / channels) / factor. */
static pawl_status read_rope(model *m, pawl_error *error)
{
    double base = 10000.0;
    double factor;
    uint32_t channels;
    pawl_status status =
        get_count(m, "llama.rope.dimension_count", 2, m->head_size, m->head_size, &channels, error);
    if (status == PAWL_OK)
        status = read_scaling(m, &factor, error);
    if (status != PAWL_OK)
        return status;
    gguf_get_f64(m->file, "llama.rope.freq_base", &base);
    if (channels % 2 != 0 || !(base >= 1.0 && base <= 1e15))
        return pawl_fail(error, PAWL_E_FORMAT,
                         "rope over %u channels with base %g: expected an even number and 1 to "
                         "1e15",
                         channels, base);
    m->rope_pairs = channels / 2;
    m->rope_speed = malloc(m->rope_pairs * sizeof *m->rope_speed);
    if (!m->rope_speed)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the rotation table");
    for (uint32_t i = 0; i < m->rope_pairs; i++)
        m->rope_speed[i] = pow(base, -2.0 * i / channels) / factor;
    return PAWL_OK;
}

static pawl_status check_family(const model *m, pawl_error *error)
{
    pawl_bytes family;
    uint64_t experts = 0;
    if (!gguf_get_string(m->file, "general.architecture", &family))
        return pawl_fail(error, PAWL_E_FORMAT, "general.architecture is missing or no string");
    if (!pawl_bytes_are(family, "llama"))
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "models of the family \"%s\" are not known here; this engine runs llama",
                         label_of(family).text);
    if (gguf_get_u64(m->file, "llama.expert_count", &experts) && experts > 0)
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "a llama with %llu experts; this engine runs dense ones",
                         (unsigned long long)experts);
    return PAWL_OK;
}

pawl_status model_read_shape(model *m, pawl_error *error)
{
    double epsilon = 1e-5;
    uint64_t window = 0;
    pawl_status status = check_family(m, error);
    if (status == PAWL_OK)
        status = get_count(m, "llama.block_count", 1, MODEL_MAX_LAYERS, 0, &m->n_layers, error);
    if (status == PAWL_OK)
        status = get_count(m, "llama.embedding_length", 1, MODEL_MAX_WIDTH, 0, &m->hidden, error);
    if (status == PAWL_OK)
        status = get_count(m, "llama.context_length", 1, MODEL_MAX_CONTEXT, 0, &m->context, error);
    if (status != PAWL_OK)
        return status;
    /* Inside its window, windowed attention is plain attention: stay there. */
    if (gguf_get_u64(m->file, "llama.attention.sliding_window", &window) && window > 0 &&
        window < m->context)
        m->context = (uint32_t)window;
    gguf_get_f64(m->file, "llama.attention.layer_norm_rms_epsilon", &epsilon);
    if (!(epsilon > 0 && epsilon < 1))
        return pawl_fail(error, PAWL_E_FORMAT,
                         "llama.attention.layer_norm_rms_epsilon is %g, expected 0 to 1", epsilon);
    m->epsilon = (float)epsilon;
    m->layers = calloc(m->n_layers, sizeof *m->layers);
    if (!m->layers)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for %u layers", m->n_layers);
    for (uint32_t i = 0; status == PAWL_OK && i < m->n_layers; i++)
        status = read_layer(m, i, error);
    if (status == PAWL_OK)
        status = read_head_size(m, error);
    return status == PAWL_OK ? read_rope(m, error) : status;
}
