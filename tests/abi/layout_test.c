/*
 * tests/abi/layout_test.c - where every member of the ABI lies.
 *
 * Prints a line for each member, "struct.member offset size", and for each struct
 * that is frozen. gate.sh compares them with what was recorded for each released
 * minor: no recorded line may be missing. This sees what abidiff does not, a member
 * inserted in the middle behind #if PAWL_ABI_MINOR. Exit status 1: the members
 * listed here do not fill their struct, so one is missing in the list (or the header
 * has padding).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <pawl/plugin.h>

typedef struct row {
    const char *name;
    const char *member; /* NULL: the struct itself      */
    size_t offset;
    size_t size;
    int frozen; /* the struct's size is printed */
} row;

#define STRUCT(type)                                                                               \
    {                                                                                              \
#type, NULL, 0, sizeof(struct type), 0                                                     \
    }
#define FROZEN(type)                                                                               \
    {                                                                                              \
#type, NULL, 0, sizeof(struct type), 1                                                     \
    }
#define MEMBER(type, member)                                                                       \
    {                                                                                              \
#type, #member, offsetof(struct type, member), sizeof(((struct type *)0)->member), 0       \
    }

static const row rows[] = {
    FROZEN(pawl_bytes),
    MEMBER(pawl_bytes, data),
    MEMBER(pawl_bytes, size),
    FROZEN(pawl_sink),
    MEMBER(pawl_sink, context),
    MEMBER(pawl_sink, write),
    FROZEN(pawl_source),
    MEMBER(pawl_source, context),
    MEMBER(pawl_source, read),
    FROZEN(pawl_error),
    MEMBER(pawl_error, struct_size),
    MEMBER(pawl_error, code),
    MEMBER(pawl_error, message),
    STRUCT(pawl_host),
    MEMBER(pawl_host, struct_size),
    MEMBER(pawl_host, abi_minor),
    MEMBER(pawl_host, context),
    MEMBER(pawl_host, version),
    MEMBER(pawl_host, get_interface),
    MEMBER(pawl_host, log),
    MEMBER(pawl_host, metric),
    MEMBER(pawl_host, report),
    STRUCT(pawl_plugin),
    MEMBER(pawl_plugin, struct_size),
    MEMBER(pawl_plugin, abi_minor),
    MEMBER(pawl_plugin, flags),
    MEMBER(pawl_plugin, id),
    MEMBER(pawl_plugin, version),
    MEMBER(pawl_plugin, probe),
    MEMBER(pawl_plugin, init),
    MEMBER(pawl_plugin, shutdown),
    MEMBER(pawl_plugin, get_interface),
    STRUCT(pawl_engine_config),
    MEMBER(pawl_engine_config, struct_size),
    MEMBER(pawl_engine_config, max_sequences),
    MEMBER(pawl_engine_config, max_context),
    MEMBER(pawl_engine_config, memory_budget),
    MEMBER(pawl_engine_config, threads),
    MEMBER(pawl_engine_config, n_devices),
    MEMBER(pawl_engine_config, devices),
    MEMBER(pawl_engine_config, model_path),
    MEMBER(pawl_engine_config, options),
    STRUCT(pawl_engine_info),
    MEMBER(pawl_engine_info, struct_size),
    MEMBER(pawl_engine_info, vocab_size),
    MEMBER(pawl_engine_info, context_limit),
    MEMBER(pawl_engine_info, features),
    MEMBER(pawl_engine_info, hidden_size),
    MEMBER(pawl_engine_info, max_in_flight),
    MEMBER(pawl_engine_info, max_draft),
    MEMBER(pawl_engine_info, page_tokens),
    MEMBER(pawl_engine_info, state_chunk),
    MEMBER(pawl_engine_info, reserved),
    MEMBER(pawl_engine_info, rewind_tokens),
    MEMBER(pawl_engine_info, chunk_bytes),
    MEMBER(pawl_engine_info, boundary_bytes),
    MEMBER(pawl_engine_info, kv_format),
    MEMBER(pawl_engine_info, device),
    STRUCT(pawl_sampling),
    MEMBER(pawl_sampling, struct_size),
    MEMBER(pawl_sampling, top_k),
    MEMBER(pawl_sampling, temperature),
    MEMBER(pawl_sampling, top_p),
    MEMBER(pawl_sampling, min_p),
    MEMBER(pawl_sampling, repetition_penalty),
    MEMBER(pawl_sampling, presence_penalty),
    MEMBER(pawl_sampling, frequency_penalty),
    MEMBER(pawl_sampling, seed),
    MEMBER(pawl_sampling, penalty_begin),
    MEMBER(pawl_sampling, bias_ids),
    MEMBER(pawl_sampling, bias),
    MEMBER(pawl_sampling, n_bias),
    STRUCT(pawl_slot),
    MEMBER(pawl_slot, sequence),
    MEMBER(pawl_slot, tokens),
    MEMBER(pawl_slot, n_tokens),
    MEMBER(pawl_slot, flags),
    MEMBER(pawl_slot, n_draft),
    MEMBER(pawl_slot, sampling),
    MEMBER(pawl_slot, allow),
    MEMBER(pawl_slot, allow_stride),
    MEMBER(pawl_slot, adapters),
    MEMBER(pawl_slot, adapter_scales),
    MEMBER(pawl_slot, n_adapters),
    MEMBER(pawl_slot, pooling),
    MEMBER(pawl_slot, embeddings),
    MEMBER(pawl_slot, embedding_at),
    MEMBER(pawl_slot, n_embeddings),
    MEMBER(pawl_slot, status),
    MEMBER(pawl_slot, n_out),
    MEMBER(pawl_slot, out_tokens),
    MEMBER(pawl_slot, out_logprobs),
    MEMBER(pawl_slot, proposed),
    MEMBER(pawl_slot, n_proposed),
    MEMBER(pawl_slot, n_top),
    MEMBER(pawl_slot, top),
    MEMBER(pawl_slot, hidden),
    MEMBER(pawl_slot, logits),
    MEMBER(pawl_slot, n_logits),
    MEMBER(pawl_slot, input_logprobs),
    MEMBER(pawl_slot, input_argmax),
    FROZEN(pawl_top),
    MEMBER(pawl_top, token),
    MEMBER(pawl_top, logprob),
    STRUCT(pawl_engine_api),
    MEMBER(pawl_engine_api, struct_size),
    MEMBER(pawl_engine_api, reserved),
    MEMBER(pawl_engine_api, inspect),
    MEMBER(pawl_engine_api, open),
    MEMBER(pawl_engine_api, close),
    MEMBER(pawl_engine_api, info),
    MEMBER(pawl_engine_api, capacity),
    MEMBER(pawl_engine_api, reserve),
    MEMBER(pawl_engine_api, sequence_open),
    MEMBER(pawl_engine_api, sequence_close),
    MEMBER(pawl_engine_api, submit),
    MEMBER(pawl_engine_api, wait),
    MEMBER(pawl_engine_api, cancel),
    MEMBER(pawl_engine_api, length),
    MEMBER(pawl_engine_api, truncate),
    MEMBER(pawl_engine_api, fork),
    MEMBER(pawl_engine_api, state_save),
    MEMBER(pawl_engine_api, state_load),
    MEMBER(pawl_engine_api, adapter_open),
    MEMBER(pawl_engine_api, adapter_close),
    MEMBER(pawl_engine_api, adapter_digest),
    FROZEN(pawl_segment),
    MEMBER(pawl_segment, text),
    MEMBER(pawl_segment, kind),
    STRUCT(pawl_tokenizer_info),
    MEMBER(pawl_tokenizer_info, struct_size),
    MEMBER(pawl_tokenizer_info, vocab_size),
    MEMBER(pawl_tokenizer_info, bos),
    MEMBER(pawl_tokenizer_info, eos),
    MEMBER(pawl_tokenizer_info, eot),
    MEMBER(pawl_tokenizer_info, add_bos),
    MEMBER(pawl_tokenizer_info, name),
    MEMBER(pawl_tokenizer_info, digest),
    STRUCT(pawl_tokenizer_api),
    MEMBER(pawl_tokenizer_api, struct_size),
    MEMBER(pawl_tokenizer_api, reserved),
    MEMBER(pawl_tokenizer_api, open),
    MEMBER(pawl_tokenizer_api, close),
    MEMBER(pawl_tokenizer_api, info),
    MEMBER(pawl_tokenizer_api, encode),
    MEMBER(pawl_tokenizer_api, piece),
    MEMBER(pawl_tokenizer_api, token),
    MEMBER(pawl_tokenizer_api, token_flags),
    STRUCT(pawl_chat_event),
    MEMBER(pawl_chat_event, struct_size),
    MEMBER(pawl_chat_event, type),
    MEMBER(pawl_chat_event, index),
    MEMBER(pawl_chat_event, text),
    STRUCT(pawl_chat_api),
    MEMBER(pawl_chat_api, struct_size),
    MEMBER(pawl_chat_api, reserved),
    MEMBER(pawl_chat_api, dialects),
    MEMBER(pawl_chat_api, open),
    MEMBER(pawl_chat_api, close),
    MEMBER(pawl_chat_api, dialect),
    MEMBER(pawl_chat_api, render),
    MEMBER(pawl_chat_api, parser_open),
    MEMBER(pawl_chat_api, parser_close),
    MEMBER(pawl_chat_api, feed),
    MEMBER(pawl_chat_api, finish),
};

#define N_ROWS (sizeof rows / sizeof *rows)

/* The members listed for the struct at rows[i] fill it without a gap. */
static int filled(size_t i)
{
    size_t end = 0, k = i + 1;
    while (k < N_ROWS && rows[k].member && rows[k].offset == end)
        end += rows[k++].size;
    if (end == rows[i].size && (k == N_ROWS || !rows[k].member))
        return 1;
    fprintf(stderr, "%s: the members listed end at %zu of %zu\n", rows[i].name, end, rows[i].size);
    return 0;
}

int main(void)
{
    int good = 1;
    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].member)
            printf("%s.%s %zu %zu\n", rows[i].name, rows[i].member, rows[i].offset, rows[i].size);
        else if (rows[i].frozen)
            printf("%s %zu\n", rows[i].name, rows[i].size);
        if (!rows[i].member)
            good &= filled(i);
    }
    return good ? 0 : 1;
}
