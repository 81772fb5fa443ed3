/*
 * cpu/model.c - finds a llama model's tensors in a GGUF file and checks them.
 *
 * model_shape.c reads the metadata; here each tensor is looked up by its name,
 * compared with the shape that the metadata demand, and bound. GGUF counts
 * dimensions from the fastest: a matrix of `rows` outputs over `columns` inputs
 * is [columns, rows]. Runs while a model opens, on the host's main thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/model.h"

#include <pawl/plugin_util.h>

/* Where a tensor's name comes from: "blk.7." and "attn_q.weight", or no layer. */
typedef struct tensor_name {
    char text[64];
} tensor_name;

static tensor_name name_of(int32_t layer, const char *part)
{
    tensor_name name;
    if (layer < 0)
        snprintf(name.text, sizeof name.text, "%s", part);
    else
        snprintf(name.text, sizeof name.text, "blk.%d.%s", (int)layer, part);
    return name;
}

static bool kernel_type(uint32_t type, uint32_t *kernel)
{
    static const struct {
        uint32_t file;
        uint32_t kernel;
    } types[] = {
        {GGUF_T_F32, KERNELS_F32},       {GGUF_T_F16, KERNELS_F16},
        {GGUF_T_BF16, KERNELS_BF16},     {GGUF_T_Q8_0, KERNELS_Q8_0},
        {GGUF_T_Q4_0, KERNELS_Q4_0},     {GGUF_T_Q4_1, KERNELS_Q4_1},
        {GGUF_T_Q5_0, KERNELS_Q5_0},     {GGUF_T_Q5_1, KERNELS_Q5_1},
        {GGUF_T_Q2_K, KERNELS_Q2_K},     {GGUF_T_Q3_K, KERNELS_Q3_K},
        {GGUF_T_Q4_K, KERNELS_Q4_K},     {GGUF_T_Q5_K, KERNELS_Q5_K},
        {GGUF_T_Q6_K, KERNELS_Q6_K},     {GGUF_T_IQ4_NL, KERNELS_IQ4_NL},
        {GGUF_T_IQ4_XS, KERNELS_IQ4_XS}, {GGUF_T_MXFP4, KERNELS_MXFP4},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].file == type) {
            *kernel = types[i].kernel;
            return true;
        }
    }
    return false;
}

/* A tensor of exactly this shape (rows 0: a vector), or an error naming it. */
static pawl_status find_tensor(const model *m, const char *name, uint64_t columns, uint64_t rows,
                               const gguf_tensor **out, uint32_t *type, pawl_error *error)
{
    const gguf_tensor *tensor = gguf_tensor_find(m->file, name);
    if (!tensor)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "tensor %s is missing", name);
    if (tensor->dims[0] != columns || tensor->dims[1] != (rows ? rows : 1) ||
        tensor->dims[2] != 1 || tensor->dims[3] != 1)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "tensor %s has the shape [%llu, %llu, %llu, %llu], expected [%llu, %llu]",
                         name, (unsigned long long)tensor->dims[0],
                         (unsigned long long)tensor->dims[1], (unsigned long long)tensor->dims[2],
                         (unsigned long long)tensor->dims[3], (unsigned long long)columns,
                         (unsigned long long)(rows ? rows : 1));
    if (!kernel_type(tensor->type, type)) {
        const char *type_name = gguf_type_name(tensor->type);
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "tensor %s is of type %s, which this engine cannot compute with", name,
                         type_name ? type_name : "unknown");
    }
    if (columns % kernels_block_elements(*type) != 0)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "tensor %s has rows of %llu numbers; %s needs a multiple of %zu", name,
                         (unsigned long long)columns, kernels_type_name(*type),
                         kernels_block_elements(*type));
    uint64_t bytes = kernels_row_bytes(*type, columns) * (rows ? rows : 1);
    if (bytes == 0 || tensor->bytes < bytes)
        return pawl_fail(error, PAWL_E_FORMAT, "tensor %s holds %llu bytes, its shape needs %llu",
                         name, (unsigned long long)tensor->bytes, (unsigned long long)bytes);
    *out = tensor;
    return PAWL_OK;
}

static pawl_status bind_matrix(const model *m, int32_t layer, const char *part, uint64_t rows,
                               uint64_t columns, kernels_matrix *out, pawl_error *error)
{
    const gguf_tensor *tensor;
    uint32_t type;
    tensor_name name = name_of(layer, part);
    pawl_status status = find_tensor(m, name.text, columns, rows, &tensor, &type, error);
    if (status == PAWL_OK)
        *out = (kernels_matrix){tensor->data, type, (size_t)rows, (size_t)columns};
    return status;
}

/* n floats that live as long as the model. */
static float *keep(model *m, size_t n)
{
    if (m->n_owned == m->owned_room) {
        size_t room = m->owned_room ? 2 * m->owned_room : 64;
        float **grown = realloc(m->owned, room * sizeof *grown);
        if (!grown)
            return NULL;
        m->owned = grown;
        m->owned_room = room;
    }
    float *floats = malloc(n * sizeof *floats);
    if (floats)
        m->owned[m->n_owned++] = floats;
    return floats;
}

static pawl_status bind_vector(model *m, int32_t layer, const char *part, uint64_t n,
                               const float **out, pawl_error *error)
{
    const gguf_tensor *tensor;
    uint32_t type;
    tensor_name name = name_of(layer, part);
    pawl_status status = find_tensor(m, name.text, n, 0, &tensor, &type, error);
    if (status != PAWL_OK)
        return status;
    float *copy = keep(m, (size_t)n);
    if (!copy)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for tensor %s", name.text);
    kernels_choose("reference")->dequantise(type, tensor->data, 0, (size_t)n, copy);
    *out = copy;
    return PAWL_OK;
}

static pawl_status bind_optional(model *m, int32_t layer, const char *part, uint64_t n,
                                 const float **out, pawl_error *error)
{
    tensor_name name = name_of(layer, part);
    *out = NULL;
    return gguf_tensor_find(m->file, name.text) ? bind_vector(m, layer, part, n, out, error)
                                                : PAWL_OK;
}

static pawl_status bind_layer(model *m, uint32_t index, pawl_error *error)
{
    model_layer *layer = &m->layers[index];
    int32_t i = (int32_t)index;
    uint64_t hidden = m->hidden;
    uint64_t queries = (uint64_t)layer->heads * m->head_size;
    uint64_t keys = (uint64_t)layer->kv_heads * m->head_size;
    const struct {
        const char *part;
        uint64_t rows;
        uint64_t columns;
        kernels_matrix *matrix;
    } matrices[] = {
        {"attn_q.weight", queries, hidden, &layer->q},
        {"attn_k.weight", keys, hidden, &layer->k},
        {"attn_v.weight", keys, hidden, &layer->v},
        {"attn_output.weight", hidden, queries, &layer->o},
        {"ffn_gate.weight", layer->width, hidden, &layer->gate},
        {"ffn_up.weight", layer->width, hidden, &layer->up},
        {"ffn_down.weight", hidden, layer->width, &layer->down},
    };
    const struct {
        const char *part;
        uint64_t n;
        const float **vector;
        bool optional;
    } vectors[] = {
        {"attn_norm.weight", hidden, &layer->attention_norm, false},
        {"ffn_norm.weight", hidden, &layer->feed_norm, false},
        {"attn_q.bias", queries, &layer->q_bias, true},
        {"attn_k.bias", keys, &layer->k_bias, true},
        {"attn_v.bias", keys, &layer->v_bias, true},
        {"attn_output.bias", hidden, &layer->o_bias, true},
    };
    pawl_status status = PAWL_OK;
    for (size_t j = 0; status == PAWL_OK && j < sizeof matrices / sizeof matrices[0]; j++)
        status = bind_matrix(m, i, matrices[j].part, matrices[j].rows, matrices[j].columns,
                             matrices[j].matrix, error);
    for (size_t j = 0; status == PAWL_OK && j < sizeof vectors / sizeof vectors[0]; j++)
        status = (vectors[j].optional ? bind_optional : bind_vector)(
            m, i, vectors[j].part, vectors[j].n, vectors[j].vector, error);
    return status;
}

/* The vocabulary's size is the number of rows of the embedding. */
static pawl_status bind_ends(model *m, pawl_error *error)
{
    const gguf_tensor *tensor = gguf_tensor_find(m->file, "token_embd.weight");
    if (!tensor)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "tensor token_embd.weight is missing");
    if (tensor->dims[1] < 1 || tensor->dims[1] > MODEL_MAX_VOCAB)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "tensor token_embd.weight has %llu rows, expected 1 to %u",
                         (unsigned long long)tensor->dims[1], MODEL_MAX_VOCAB);
    m->vocab = (uint32_t)tensor->dims[1];
    pawl_status status =
        bind_matrix(m, -1, "token_embd.weight", m->vocab, m->hidden, &m->embedding, error);
    if (status == PAWL_OK)
        status = bind_vector(m, -1, "output_norm.weight", m->hidden, &m->output_norm, error);
    m->output = m->embedding;
    if (status == PAWL_OK && gguf_tensor_find(m->file, "output.weight"))
        status = bind_matrix(m, -1, "output.weight", m->vocab, m->hidden, &m->output, error);
    return status;
}

/* Long-context llamas slow each pair by a factor of its own. */
static pawl_status apply_rope_factors(model *m, pawl_error *error)
{
    const float *factors;
    pawl_status status = bind_optional(m, -1, "rope_freqs.weight", m->rope_pairs, &factors, error);
    for (uint32_t i = 0; status == PAWL_OK && factors && i < m->rope_pairs; i++) {
        if (!(factors[i] > 0.0f))
            return pawl_fail(error, PAWL_E_FORMAT,
                             "tensor rope_freqs.weight holds %g at %u, expected more than 0",
                             (double)factors[i], i);
        m->rope_speed[i] /= (double)factors[i];
    }
    return status;
}

/* Weights of layers that block_count does not count: one of the two is wrong, and a
 * model without some of its layers would speak nonsense. */
static pawl_status check_no_more_layers(const model *m, pawl_error *error)
{
    for (uint64_t i = 0; i < gguf_tensor_count(m->file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(m->file, i);
        unsigned layer = 0;
        char name[64];
        snprintf(name, sizeof name, "%.*s", tensor->name.size < 63 ? (int)tensor->name.size : 63,
                 tensor->name.data);
        if (sscanf(name, "blk.%9u.", &layer) == 1 && layer >= m->n_layers)
            return pawl_fail(error, PAWL_E_FORMAT,
                             "tensor %s is of layer %u, but llama.block_count says that there are "
                             "%u layers",
                             name, layer, m->n_layers);
    }
    return PAWL_OK;
}

pawl_status model_bind(model *m, pawl_error *error)
{
    pawl_status status = model_read_shape(m, error);
    if (status == PAWL_OK)
        status = check_no_more_layers(m, error);
    if (status == PAWL_OK)
        status = bind_ends(m, error);
    for (uint32_t i = 0; status == PAWL_OK && i < m->n_layers; i++)
        status = bind_layer(m, i, error);
    return status == PAWL_OK ? apply_rope_factors(m, error) : status;
}

void model_clear(model *m)
{
    for (size_t i = 0; i < m->n_owned; i++)
        free(m->owned[i]);
    free(m->owned);
    free(m->layers);
    free(m->rope_speed);
    gguf_close(m->file);
    memset(m, 0, sizeof *m);
}

pawl_status model_open(pawl_bytes path, model **out, pawl_error *error)
{
    model *m = calloc(1, sizeof *m);
    if (!m)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a model");
    pawl_status status = gguf_open(path, &m->file, error);
    if (status == PAWL_OK)
        status = model_bind(m, error);
    if (status != PAWL_OK) {
        model_close(m);
        return status;
    }
    *out = m;
    return PAWL_OK;
}

void model_close(model *m)
{
    if (!m)
        return;
    model_clear(m);
    free(m);
}
