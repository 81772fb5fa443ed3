/*
 * plugin-echo/echo.c - the smallest useful Pawl plugin: an engine and a tokenizer.
 *
 * The "model" is a text file whose first line is "pawl-echo". It knows 258 tokens:
 * the 256 bytes, <|im_start|> and <|im_end|>. Its answer repeats the message before
 * it, token by token, and ends the turn:
 *
 *   <|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n   ->   Hi<|im_end|>
 *
 * What comes next depends on the sequence's tokens alone, as with a real model; a
 * real engine would keep attention state beside them. Read from the bottom: the
 * entry, the two tables, then the functions in them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <pawl/plugin.h>
#include <pawl/plugin_util.h>

enum { IM_START = 256, IM_END = 257, VOCAB = 258, CONTEXT = 8192, PAGE = 16 };

struct pawl_engine {
    uint64_t context; /* tokens of one sequence           */
    uint64_t pages;   /* of PAGE tokens each, in all      */
    uint64_t free_pages;
    uint32_t max_sequences;
    uint32_t n_sequences; /* open now                         */
};

struct pawl_sequence {
    pawl_engine *engine;
    int32_t *tokens; /* room for a full context                */
    uint64_t n;      /* how many there are                     */
    uint64_t pages;  /* that this sequence holds               */
};

static const pawl_host *host; /* from init() to shutdown() */

static const char *const control_names[] = {"<|im_start|>", "<|im_end|>"};

/* ------------------------------------------------------------ the model --- */

/* The only format that this plugin reads; anything else is UNSUPPORTED, so that the
 * host asks the next plugin. */
static pawl_status check_file(pawl_bytes path, pawl_error *error)
{
    static const char first_line[] = "pawl-echo\n";
    char head[sizeof first_line] = "";
    char *name = pawl_bytes_copy(path);
    FILE *file = name ? fopen(name, "rb") : NULL;
    free(name);
    if (!file)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "the file cannot be opened");
    size_t got = fread(head, 1, sizeof head - 1, file);
    fclose(file);
    if (got != sizeof head - 1 || strcmp(head, first_line) != 0)
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "its first line is not \"pawl-echo\"");
    return PAWL_OK;
}

/* Index of the last `token` among the first n, or n. */
static uint64_t last(const int32_t *tokens, uint64_t n, int32_t token)
{
    for (uint64_t i = n; i-- > 0;)
        if (tokens[i] == token)
            return i;
    return n;
}

/* Index behind the header that starts at `start`: <|im_start|>role\n */
static uint64_t behind_header(const int32_t *tokens, uint64_t n, uint64_t start)
{
    while (start < n && tokens[start] != '\n')
        start++;
    return start + 1;
}

static int32_t next_token(const int32_t *tokens, uint64_t n)
{
    uint64_t answer = last(tokens, n, IM_START);
    uint64_t message = last(tokens, answer, IM_START);
    if (answer == n || message == answer)
        return IM_END; /* no message to repeat */
    uint64_t from = behind_header(tokens, answer, message);
    uint64_t begin = behind_header(tokens, n, answer);
    uint64_t at = n >= begin ? from + (n - begin) : from;
    return at < answer && tokens[at] != IM_END ? tokens[at] : IM_END;
}

/* ----------------------------------------------------------- the engine --- */

static pawl_status engine_inspect(pawl_bytes path, const pawl_sink *json, pawl_error *error)
{
    pawl_status status = check_file(path, error);
    if (status)
        return status;
    return pawl_sink_text(
        json, "{\"format\":\"echo\",\"family\":\"echo\",\"name\":\"echo\",\"parameters\":0,"
              "\"file_bytes\":0,\"context\":8192,\"vocab\":258,\"tensors\":{},"
              "\"memory\":{\"weights\":0,\"kv_per_token\":4,\"scratch\":0},"
              "\"tokenizer\":{\"model\":\"echo\",\"pre\":\"bytes\"},"
              "\"special\":{\"eos\":257,\"eot\":257},"
              "\"chat_template\":\"{% for m in messages %}<|im_start|>{{ m.role }}\\n"
              "{{ m.content }}<|im_end|>\\n{% endfor %}<|im_start|>assistant\\n\","
              "\"usable\":true}");
}

static pawl_status engine_open(const pawl_engine_config *config,
                               pawl_status (*progress)(void *arg, double done), void *arg,
                               pawl_engine **out, pawl_error *error)
{
    pawl_status status = check_file(config->model_path, error);
    if (status)
        return status;
    if (config->options.size && !pawl_bytes_are(config->options, "{}"))
        return pawl_fail(error, PAWL_E_ARGUMENT, "echo has no options");
    status = progress ? progress(arg, 1.0) : PAWL_OK;
    if (status)
        return pawl_fail(error, status, "opening was cancelled");
    pawl_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    engine->context =
        config->max_context && config->max_context < CONTEXT ? config->max_context : CONTEXT;
    engine->max_sequences = config->max_sequences ? config->max_sequences : 8;
    engine->pages = engine->free_pages = (engine->context / PAGE + 1) * engine->max_sequences;
    pawl_log(host, PAWL_LOG_INFO, "echo", "open, context %llu",
             (unsigned long long)engine->context);
    *out = engine;
    return PAWL_OK;
}

static void engine_close(pawl_engine *engine)
{
    free(engine);
}

static void engine_info(const pawl_engine *engine, pawl_engine_info *info)
{
    pawl_engine_info full = {.vocab_size = VOCAB,
                             .context_limit = engine->context,
                             .features = PAWL_FEATURE_BATCH_INVARIANT,
                             .max_in_flight = 1, /* submit() does it all */
                             .page_tokens = PAGE,
                             .rewind_tokens = UINT64_MAX,
                             .kv_format = "echo/1",
                             .device = "CPU"};
    pawl_fill(info, &full, sizeof full);
}

static void engine_capacity(const pawl_engine *engine, uint64_t *total, uint64_t *free_pages)
{
    *total = engine->pages;
    *free_pages = __atomic_load_n(&engine->free_pages, __ATOMIC_RELAXED); /* [any] */
}

/* Holds as many pages as n tokens need; there are enough for all. */
static void hold(pawl_sequence *sequence, uint64_t n)
{
    uint64_t pages = (n + PAGE - 1) / PAGE;
    uint64_t free_pages = sequence->engine->free_pages + sequence->pages - pages;
    __atomic_store_n(&sequence->engine->free_pages, free_pages, __ATOMIC_RELAXED);
    sequence->pages = pages;
}

static pawl_status engine_reserve(pawl_sequence *sequence, uint64_t n_tokens, pawl_error *error)
{
    if (n_tokens > sequence->engine->context - sequence->n)
        return pawl_fail(error, PAWL_E_LIMIT, "the context holds %llu tokens",
                         (unsigned long long)sequence->engine->context);
    if ((sequence->n + n_tokens + PAGE - 1) / PAGE > sequence->pages)
        hold(sequence, sequence->n + n_tokens);
    return PAWL_OK;
}

static pawl_status sequence_open(pawl_engine *engine, pawl_sequence **out, pawl_error *error)
{
    if (engine->n_sequences == engine->max_sequences)
        return pawl_fail(error, PAWL_E_BUSY, "all %u sequences are open", engine->max_sequences);
    pawl_sequence *sequence = calloc(1, sizeof *sequence);
    int32_t *tokens = malloc(engine->context * sizeof *tokens);
    if (!sequence || !tokens) {
        free(sequence);
        free(tokens);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    }
    sequence->engine = engine;
    sequence->tokens = tokens;
    engine->n_sequences++;
    *out = sequence;
    return PAWL_OK;
}

static void sequence_close(pawl_sequence *sequence)
{
    hold(sequence, 0);
    sequence->engine->n_sequences--;
    free(sequence->tokens);
    free(sequence);
}

static uint64_t sequence_length(const pawl_sequence *sequence)
{
    return sequence->n;
}

static pawl_status sequence_truncate(pawl_sequence *sequence, uint64_t n, pawl_error *error)
{
    if (n > sequence->n)
        return pawl_fail(error, PAWL_E_ARGUMENT, "the sequence has only %llu tokens",
                         (unsigned long long)sequence->n);
    sequence->n = n;
    hold(sequence, n);
    return PAWL_OK;
}

static pawl_status sequence_fork(const pawl_sequence *from, uint64_t n, pawl_sequence **to,
                                 pawl_error *error)
{
    if (n > from->n)
        return pawl_fail(error, PAWL_E_ARGUMENT, "the sequence has only %llu tokens",
                         (unsigned long long)from->n);
    pawl_status status = sequence_open(from->engine, to, error);
    if (status)
        return status;
    memcpy((*to)->tokens, from->tokens, n * sizeof *from->tokens);
    (*to)->n = n;
    hold(*to, n);
    return PAWL_OK;
}

/* The wanted token, or the lowest one that the mask allows. */
static int32_t pick(int32_t wanted, const uint32_t *allow)
{
    if (!allow || allow[wanted / 32] >> wanted % 32 & 1)
        return wanted;
    for (int32_t token = 0; token < VOCAB; token++)
        if (allow[token / 32] >> token % 32 & 1)
            return token;
    return wanted;
}

static pawl_status run_slot(pawl_slot *slot)
{
    pawl_sequence *sequence = slot->sequence;
    if (slot->n_draft || slot->n_adapters || slot->n_embeddings || slot->logits || slot->hidden ||
        (slot->flags & PAWL_SLOT_CHAIN))
        return PAWL_E_UNSUPPORTED;
    for (uint64_t i = 0; i < slot->n_tokens; i++)
        if (slot->tokens[i] < 0 || slot->tokens[i] >= VOCAB)
            return PAWL_E_ARGUMENT;
    pawl_status status = engine_reserve(sequence, slot->n_tokens, NULL);
    if (status)
        return status;
    memcpy(sequence->tokens + sequence->n, slot->tokens, slot->n_tokens * sizeof *slot->tokens);
    sequence->n += slot->n_tokens;
    if (slot->flags & PAWL_SLOT_SAMPLE) {
        slot->n_out = 1;
        slot->out_tokens[0] = pick(next_token(sequence->tokens, sequence->n), slot->allow);
        if (slot->out_logprobs)
            slot->out_logprobs[0] = 0; /* an echo is certain */
    }
    return PAWL_OK;
}

static pawl_status engine_submit(pawl_engine *engine, pawl_slot *slots, uint64_t slot_stride,
                                 uint64_t n_slots, uint64_t *ticket, pawl_error *error)
{
    (void)engine;
    if (!PAWL_SLOT_HAS(slot_stride, input_argmax)) /* the last member that 1.0 has */
        return pawl_fail(error, PAWL_E_ARGUMENT, "slots of %llu bytes are too short",
                         (unsigned long long)slot_stride);
    for (uint64_t i = 0; i < n_slots; i++) {
        pawl_slot *slot = pawl_slot_at(slots, slot_stride, i);
        slot->n_out = slot->n_proposed = slot->n_top = 0;
        slot->status = run_slot(slot);
    }
    *ticket = 1;
    return PAWL_OK;
}

static pawl_status engine_wait(pawl_engine *engine, uint64_t ticket, pawl_error *error)
{
    (void)engine;
    (void)ticket;
    (void)error;
    return PAWL_OK;
}

static void engine_cancel(pawl_engine *engine)
{
    (void)engine; /* no pass is ever open for long */
}

static const pawl_engine_api engine_api = {.struct_size = sizeof engine_api,
                                           .inspect = engine_inspect,
                                           .open = engine_open,
                                           .close = engine_close,
                                           .info = engine_info,
                                           .capacity = engine_capacity,
                                           .reserve = engine_reserve,
                                           .sequence_open = sequence_open,
                                           .sequence_close = sequence_close,
                                           .submit = engine_submit,
                                           .wait = engine_wait,
                                           .cancel = engine_cancel,
                                           .length = sequence_length,
                                           .truncate = sequence_truncate,
                                           .fork = sequence_fork};
/* state_save and state_load stay NULL: the host prefills again instead. */

/* -------------------------------------------------------- the tokenizer --- */

struct pawl_tokenizer {
    char bytes[256]; /* the pieces of the tokens 0 to 255 */
};

static pawl_status tokenizer_open(pawl_bytes path, pawl_tokenizer **out, pawl_error *error)
{
    pawl_status status = check_file(path, error);
    if (status)
        return status;
    pawl_tokenizer *tokenizer = malloc(sizeof *tokenizer);
    if (!tokenizer)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    for (int i = 0; i < 256; i++)
        tokenizer->bytes[i] = (char)i;
    *out = tokenizer;
    return PAWL_OK;
}

static void tokenizer_close(pawl_tokenizer *tokenizer)
{
    free(tokenizer);
}

static void tokenizer_info(const pawl_tokenizer *tokenizer, pawl_tokenizer_info *info)
{
    (void)tokenizer;
    pawl_tokenizer_info full = {.vocab_size = VOCAB,
                                .bos = -1,
                                .eos = IM_END,
                                .eot = IM_END,
                                .name = "bytes",
                                .digest = "0"};
    pawl_fill(info, &full, sizeof full);
}

/* Control tokens are looked for in CONTROL segments only: what a user writes is
 * bytes, whatever it looks like. */
static int32_t token_at(pawl_bytes text, uint64_t at, uint64_t kind, uint64_t *size)
{
    for (int i = 0; kind == PAWL_SEGMENT_CONTROL && i < 2; i++) {
        *size = strlen(control_names[i]);
        if (*size <= text.size - at && memcmp(text.data + at, control_names[i], *size) == 0)
            return IM_START + i;
    }
    *size = 1;
    return (unsigned char)text.data[at];
}

static pawl_status tokenizer_encode(const pawl_tokenizer *tokenizer, const pawl_segment *segments,
                                    uint64_t n_segments, int32_t *tokens, uint64_t room,
                                    uint64_t *needed, pawl_error *error)
{
    (void)tokenizer;
    (void)error;
    uint64_t n = 0;
    for (uint64_t s = 0; s < n_segments; s++) {
        uint64_t size;
        for (uint64_t at = 0; at < segments[s].text.size; at += size, n++) {
            int32_t token = token_at(segments[s].text, at, segments[s].kind, &size);
            if (n < room)
                tokens[n] = token;
        }
    }
    *needed = n;
    return PAWL_OK;
}

static pawl_bytes tokenizer_piece(const pawl_tokenizer *tokenizer, int32_t token)
{
    if (token >= IM_START && token < VOCAB)
        return pawl_text(control_names[token - IM_START]);
    bool known = token >= 0 && token < IM_START;
    return (pawl_bytes){known ? &tokenizer->bytes[token] : "", known};
}

static int32_t tokenizer_token(const pawl_tokenizer *tokenizer, pawl_bytes name)
{
    (void)tokenizer;
    if (pawl_bytes_are(name, "eos") || pawl_bytes_are(name, "eot"))
        return IM_END;
    for (int i = 0; i < 2; i++)
        if (pawl_bytes_are(name, control_names[i]))
            return IM_START + i;
    return -1;
}

static uint32_t tokenizer_flags(const pawl_tokenizer *tokenizer, int32_t token)
{
    (void)tokenizer;
    if (token >= IM_START && token < VOCAB)
        return PAWL_TOKEN_CONTROL | PAWL_TOKEN_ADDED;
    return token >= 128 && token < 256 ? PAWL_TOKEN_BYTES : 0;
}

static const pawl_tokenizer_api tokenizer_api = {.struct_size = sizeof tokenizer_api,
                                                 .open = tokenizer_open,
                                                 .close = tokenizer_close,
                                                 .info = tokenizer_info,
                                                 .encode = tokenizer_encode,
                                                 .piece = tokenizer_piece,
                                                 .token = tokenizer_token,
                                                 .token_flags = tokenizer_flags};

/* ------------------------------------------------------------ the entry --- */

static int32_t probe(pawl_error *error)
{
    (void)error;
    return 1; /* runs everywhere, and never wins against a real engine */
}

static pawl_status init(const pawl_host *given, pawl_error *error)
{
    (void)error;
    host = given;
    return PAWL_OK;
}

static void shutdown(void)
{
    host = NULL;
}

static const void *get_interface(const char *id)
{
    if (strcmp(id, PAWL_ENGINE) == 0)
        return &engine_api;
    return strcmp(id, PAWL_TOKENIZER) == 0 ? &tokenizer_api : NULL;
}

const pawl_plugin *pawl_plugin_entry_v1(void)
{
    static const pawl_plugin plugin = {.struct_size = sizeof plugin,
                                       .abi_minor = PAWL_ABI_MINOR,
                                       .id = "dev.pawl.example.echo",
                                       .version = "1.0.0",
                                       .probe = probe,
                                       .init = init,
                                       .shutdown = shutdown,
                                       .get_interface = get_interface};
    return &plugin;
}
