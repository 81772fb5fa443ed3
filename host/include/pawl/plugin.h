/*
 * pawl/plugin.h - the one contract between the Pawl host and its plugins.
 *
 * ABI 1.0. Compiles on its own as C11 and as C++17 and includes nothing but
 * the standard headers below.
 *
 * A plugin is a shared object that exports exactly one symbol,
 * pawl_plugin_entry_v1. Everything else travels in tables of function
 * pointers, fetched by string id:
 *
 *     host                                   plugin
 *     ----                                   ------
 *     read manifest, dlopen
 *     pawl_plugin_entry_v1()          ->   static const pawl_plugin
 *     plugin->probe()                   ->   "can I run on this machine?"
 *     plugin->init(host)                ->   keeps the host pointer
 *     plugin->get_interface("pawl.engine/1") -> static const pawl_engine_api
 *     api->open(config)                 ->   an instance; api->close() ends it
 *     plugin->shutdown()                ->   threads joined, nothing left behind
 *
 * FIVE RULES HOLD EVERYWHERE; a comment on a member says only what they do not.
 *
 *  1. Growth.    Every table and every struct passed by pointer begins with
 *                struct_size, written by whoever FILLED the struct as sizeof.
 *                Members are only ever appended. Read a member that 1.0 did
 *                not have through PAWL_HAS(). Every member is 8 bytes wide
 *                or one of a pair of 4-byte ones, so there is no padding in
 *                which a new member could hide inside an old size.
 *  2. Ownership. No allocation crosses the border. Inputs are borrowed until
 *                the call returns. Bulk output goes to a pawl_sink that the
 *                caller supplies. An object is ended by the side that made it,
 *                with the close function named beside its open function.
 *  3. Threads.   [main]    one thread at a time, per plugin.
 *                [owner]   one thread at a time, per instance; which thread may
 *                          change between calls, two calls never overlap.
 *                [any]     any thread, at any time, concurrently.
 *                All host functions are [any] and never block for long.
 *                A plugin may start threads; they are joined when close() or
 *                shutdown() returns. None may run before init().
 *  4. Errors.    Fallible calls return pawl_status and take a caller-owned
 *                pawl_error last. It may be NULL. On failure out parameters
 *                are untouched and no object was created. A plugin does not
 *                print, exit, abort, raise, longjmp or throw across the border.
 *  5. Text.      UTF-8, length-counted, not NUL-terminated, unless the type is
 *                const char *; those are NUL-terminated and live as long as
 *                the plugin is loaded.
 *
 * Rule 1 has four exceptions, which are frozen for major 1: pawl_bytes,
 * pawl_segment, pawl_sink and pawl_source. An array of pawl_slot is walked by
 * the stride that comes with it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PAWL_PLUGIN_H
#define PAWL_PLUGIN_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------- version ---- */

/* MAJOR is also in the name of the entry symbol: a host of another major does
 * not find the symbol and never reads a struct it cannot understand.
 * MINOR rises when members or interfaces are added. A plugin built against a
 * newer minor loads in an older host and the other way round; each side asks
 * PAWL_HAS / get_interface and does without what is missing. */
#define PAWL_ABI_MAJOR 1
#ifndef PAWL_ABI_MINOR   /* define it lower to see the header as it was then; */
#define PAWL_ABI_MINOR 0 /* members of 1.N stand inside #if PAWL_ABI_MINOR >= N */
#endif

#if defined(__GNUC__)
#define PAWL_EXPORT __attribute__((visibility("default")))
#define PAWL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define PAWL_EXPORT
#define PAWL_PRINTF(f, a)
#endif

/* True if the filler of *table knew this member and set it. */
#define PAWL_HAS(table, member)                                              \
    ((table)->struct_size >= (size_t)((const char *)(&(table)->member + 1) -   \
                                      (const char *)(table)) &&                \
     (table)->member != 0)

/* ---------------------------------------------------------- small types ---- */

typedef struct pawl_host pawl_host;           /* services the host offers  */
typedef struct pawl_engine pawl_engine;       /* a loaded model            */
typedef struct pawl_sequence pawl_sequence;   /* one token timeline + state */
typedef struct pawl_adapter pawl_adapter;     /* a loaded LoRA adapter      */
typedef struct pawl_tokenizer pawl_tokenizer; /* a loaded vocabulary       */
typedef struct pawl_chat pawl_chat;           /* a chat dialect            */
typedef struct pawl_parser pawl_parser;       /* one reply being parsed    */

typedef struct pawl_bytes {
    const char *data;
    uint64_t size;
} pawl_bytes;

/* Where a callee writes output it does not own. write() returns PAWL_OK to
 * go on; any other status stops the callee, which then returns that status. */
typedef int32_t pawl_status;
typedef struct pawl_sink {
    void *context;
    pawl_status (*write)(void *context, const void *data, uint64_t size);
} pawl_sink;

/* Where a callee reads from. Sets *got to 0 at the end. */
typedef struct pawl_source {
    void *context;
    pawl_status (*read)(void *context, void *data, uint64_t size, uint64_t *got);
} pawl_source;

/* --------------------------------------------------------------- errors ---- */

/* Numbers never change meaning; new ones are added at the end. The host maps
 * them to wire errors, so choose by what the CLIENT should do next. */
enum pawl_status_code {
    PAWL_OK = 0,
    PAWL_E_ARGUMENT = 1,    /* caller's bug; do not retry                   */
    PAWL_E_UNSUPPORTED = 2, /* this build or machine cannot                 */
    PAWL_E_NOT_FOUND = 3,   /* file, tensor, template missing               */
    PAWL_E_FORMAT = 4,      /* input is damaged or of another format        */
    PAWL_E_MEMORY = 5,      /* host or device memory; retry when others end */
    PAWL_E_BUSY = 6,        /* no slot now; retry soon                      */
    PAWL_E_CANCELLED = 7,   /* asked to stop                                */
    PAWL_E_LIMIT = 8,       /* context or output limit reached              */
    PAWL_E_DEVICE = 9,      /* device lost; the instance must be closed     */
    PAWL_E_INTERNAL = 10    /* plugin's bug                                 */
};

typedef struct pawl_error {
    uint32_t struct_size;
    int32_t code;
    char message[240]; /* one line for a human; truncated, always terminated   */
} pawl_error;

static inline PAWL_PRINTF(3, 4) pawl_status
pawl_fail(pawl_error *error, pawl_status code, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        error->code = code;
        vsnprintf(error->message, sizeof error->message, format, args);
        va_end(args);
    }
    return code;
}

/* ---------------------------------------------------- what the host gives -- */

enum pawl_log_level { PAWL_LOG_DEBUG, PAWL_LOG_INFO, PAWL_LOG_WARN, PAWL_LOG_ERROR };
enum pawl_metric_type { PAWL_COUNTER, PAWL_GAUGE, PAWL_HISTOGRAM };

struct pawl_host {
    uint32_t struct_size;
    uint32_t abi_minor; /* of the host */
    void *context;      /* the host's; pass the pawl_host itself to each call */
    const char *version;

    /* Optional host interfaces by id. NULL if absent. */
    const void *(*get_interface)(const pawl_host *host, const char *id);

    /* One finished line without newline. `component` is a static string. */
    void (*log)(const pawl_host *host, int32_t level, const char *component,
                pawl_bytes line);

    /* Register once, then report by handle. Handle 0 is valid and ignored. */
    uint64_t (*metric)(const pawl_host *host, int32_t type, const char *name,
                       const char *help);
    void (*report)(const pawl_host *host, uint64_t metric, double value);
};

/* ----------------------------------------------------- what a plugin gives -- */

enum pawl_plugin_flag {
    PAWL_PLUGIN_UNLOADABLE = 1 << 0 /* dlclose after shutdown() is safe: no
                                       * threads, no TLS destructors, no atexit.
                                       * Without it the host never unloads.    */
};

typedef struct pawl_plugin {
    uint32_t struct_size;
    uint32_t abi_minor; /* PAWL_ABI_MINOR at build time */
    uint64_t flags;
    const char *id;      /* reverse domain, equals the manifest's, "dev.pawl.cpu" */
    const char *version; /* of the plugin, "1.2.0" */

    /* How well this machine suits the plugin: 0 cannot run (say why in *error),
     * higher is better. Cheap; no side effects; may be called in a short-lived
     * child process before init(). [main] */
    int32_t (*probe)(pawl_error *error);

    /* Once per process. `host` stays valid until shutdown() has returned. [main] */
    pawl_status (*init)(const pawl_host *host, pawl_error *error);
    void (*shutdown)(void);

    /* The tables below, by id; NULL if not offered. One plugin may offer
     * several. Pure: the same answer every time. [any] */
    const void *(*get_interface)(const char *id);
} pawl_plugin;

/* Ids: "pawl.<name>/<revision>" are defined here; others use their own
 * reverse domain. A draft keeps its id when it becomes stable. A change that
 * appending cannot express gets the next revision; the host may speak both. */
#define PAWL_ENGINE "pawl.engine/1"
#define PAWL_TOKENIZER "pawl.tokenizer/1"
#define PAWL_CHAT "pawl.chat/1"

/* The only exported symbol. Pure: returns a static const table. */
PAWL_EXPORT const pawl_plugin *pawl_plugin_entry_v1(void);

/* --------------------------------------------------------------- engine ---- */

typedef struct pawl_engine_config {
    uint32_t struct_size;
    uint32_t max_sequences;
    uint64_t max_context;     /* tokens of one sequence                         */
    uint64_t memory_budget;   /* bytes for KV and scratch; 0: as much as is free */
    uint32_t threads;         /* 0: the engine's choice                         */
    uint32_t n_devices;       /* 0: one                                         */
    const int32_t *devices;   /* n_devices ordinals, or NULL                    */
    pawl_bytes model_path;  /* directory or file                              */
    pawl_bytes options;     /* a JSON object, the plugin's own, schema in the
                               * manifest; unknown keys are an error            */
} pawl_engine_config;

enum pawl_engine_feature {
    PAWL_FEATURE_BATCH_INVARIANT = 1 << 0, /* a row's bits do not depend on its batch */
    PAWL_FEATURE_ADAPTERS = 1 << 1,
    PAWL_FEATURE_EMBEDDINGS_IN = 1 << 2,
    PAWL_FEATURE_HIDDEN_OUT = 1 << 3
};

typedef struct pawl_engine_info {
    uint32_t struct_size; /* by the caller: how much the plugin may fill */
    uint32_t vocab_size;
    uint64_t context_limit;
    uint64_t features;
    uint32_t hidden_size;
    uint32_t max_in_flight;  /* submits that may be open; 1: submit runs it all  */
    uint32_t max_draft;      /* proposed tokens that one slot can verify         */
    uint32_t page_tokens;    /* unit in which capacity() counts                  */
    uint32_t state_chunk;    /* tokens per saved chunk; 128 for DeepSeek-V4      */
    uint32_t reserved;
    uint64_t rewind_tokens;  /* how far truncate() can go back; UINT64_MAX: any  */
    uint64_t chunk_bytes;    /* of one saved chunk                               */
    uint64_t boundary_bytes; /* of the boundary state; 0: none needed            */
    /* Names everything that a saved state depends on: weights digest, layout,
     * dtype, kernel generation. Equal strings: states may be exchanged. */
    const char *kv_format;
    const char *device; /* "CPU 2 threads, AVX-512", "NVIDIA ... sm_120" */
} pawl_engine_info;

/* What one sequence does in one forward pass: append n_tokens, then, if asked,
 * choose what comes next. Arrays are the host's and borrowed until wait()
 * returns. Log-probabilities are of the distribution before temperature,
 * penalties and masks. */
enum pawl_slot_flag {
    PAWL_SLOT_SAMPLE = 1 << 0,
    PAWL_SLOT_CHAIN = 1 << 1 /* tokens[0] is what this sequence's previous, still
                                * open submit samples; not with masks or stops    */
};

typedef struct pawl_sampling {
    uint32_t struct_size;
    uint32_t top_k;
    float temperature; /* 0: greedy, ties to the lower id */
    float top_p;
    float min_p;
    float repetition_penalty;
    float presence_penalty;
    float frequency_penalty;
    uint64_t seed;          /* random numbers are a function of (seed, position): */
    uint64_t penalty_begin; /* a resumed turn samples what it would have sampled  */
    const int32_t *bias_ids;
    const float *bias;
    uint64_t n_bias;
} pawl_sampling;

typedef struct pawl_slot {
    pawl_sequence *sequence;
    const int32_t *tokens; /* the last n_draft of them are proposals to verify */
    uint64_t n_tokens;
    uint32_t flags;
    uint32_t n_draft;
    const pawl_sampling *sampling;
    const uint32_t *allow; /* n_draft + 1 rows of vocab_size bits, or NULL       */
    uint64_t allow_stride; /* uint32_t words from row to row                     */

    const pawl_adapter *const *adapters; /* n_adapters of them, summed with ... */
    const float *adapter_scales;           /* ... these weights                   */
    uint32_t n_adapters;
    uint32_t pooling;              /* hidden: 0 none, 1 last token, 2 mean       */
    const float *embeddings;       /* n_embeddings rows of hidden_size ...       */
    const uint64_t *embedding_at;  /* ... that replace the tokens at these places */
    uint64_t n_embeddings;

    int32_t status;       /* out: a failing slot does not fail the batch          */
    uint32_t n_out;       /* out: accepted proposals + 1; 0 without SAMPLE        */
    int32_t *out_tokens;  /* room for n_draft + 1                                 */
    float *out_logprobs;  /* same, or NULL                                        */
    int32_t *proposed;    /* what the engine proposes for the next step, or NULL  */
    uint32_t n_proposed;  /* in: room; out: how many                              */
    uint32_t n_top;       /* in: room in top[] per output token; out: filled      */
    struct pawl_top {
        int32_t token;
        float logprob;
    } *top;
    float *hidden;          /* hidden_size, or NULL                               */
    float *logits;          /* last n_logits rows of vocab_size, or NULL          */
    uint64_t n_logits;
    float *input_logprobs;  /* n_tokens: of each given token, or NULL             */
    int32_t *input_argmax;  /* n_tokens, or NULL                                  */
} pawl_slot;

enum pawl_state_part {
    PAWL_STATE_CHUNK = 1,   /* additive, shareable: tokens [begin, end), chunk-aligned */
    PAWL_STATE_BOUNDARY = 2 /* what only the end needs: windows, open remainders;
                               * only for end == length, at any length               */
};

typedef struct pawl_engine_api {
    uint32_t struct_size;
    uint32_t reserved;

    /* What is in this file or folder, as one JSON object. Reads headers only.
     *   "format", "family", "name": strings; "parameters", "file_bytes",
     *   "context", "vocab": numbers;
     *   "tensors": {TYPE: {"count", "bytes"}};
     *   "memory": {"weights", "kv_per_token", "scratch"}   bytes;
     *   "tokenizer": {"model", "pre"}; "special": {NAME: id}; "chat_template":
     *   string or null; "usable": bool, with "why" where this engine cannot
     *   run it.
     * PAWL_E_UNSUPPORTED: not a format this engine reads. [any] */
    pawl_status (*inspect)(pawl_bytes path, const pawl_sink *json, pawl_error *error);

    /* open may take minutes; progress 0..1, a non-OK return cancels. [main] */
    pawl_status (*open)(const pawl_engine_config *config,
                          pawl_status (*progress)(void *arg, double done), void *arg,
                          pawl_engine **engine, pawl_error *error);
    void (*close)(pawl_engine *engine); /* after all its sequences. [main] */
    void (*info)(const pawl_engine *engine, pawl_engine_info *info);

    /* Pages for admission: what there is and what nobody holds; a page keeps
     * the state of page_tokens tokens. [any] */
    void (*capacity)(const pawl_engine *engine, uint64_t *total_pages, uint64_t *free_pages);

    /* Takes the pages that n_tokens more tokens of this sequence will need, so
     * that no later submit of them fails for memory. [owner of engine] */
    pawl_status (*reserve)(pawl_sequence *sequence, uint64_t n_tokens, pawl_error *error);

    /* An empty timeline; at most max_sequences are open. [owner of engine] */
    pawl_status (*sequence_open)(pawl_engine *engine, pawl_sequence **sequence,
                                   pawl_error *error);
    void (*sequence_close)(pawl_sequence *sequence);

    /* One forward pass over all slots; the host's scheduler decides who is in.
     * The array is walked by slot_stride, the host's sizeof(pawl_slot); a
     * member that lies beyond it is absent. A sequence whose slot failed is as
     * long as before, or, where that cannot be restored, of length 0 and its
     * status PAWL_E_INTERNAL. [owner of engine] */
    pawl_status (*submit)(pawl_engine *engine, pawl_slot *slots, uint64_t slot_stride,
                            uint64_t n_slots, uint64_t *ticket, pawl_error *error);
    pawl_status (*wait)(pawl_engine *engine, uint64_t ticket, pawl_error *error);

    /* Makes an open submit end with PAWL_E_CANCELLED soon. [any] */
    void (*cancel)(pawl_engine *engine);

    /* length() counts tokens with state. fork() shares the first n tokens, copy
     * on write. truncate() forgets all after n, within rewind_tokens, and gives
     * back the pages that reserve() took beyond n; n == length is allowed and does
     * only that. fork at n < length needs the same rewind. [owner of engine] */
    uint64_t (*length)(const pawl_sequence *sequence);
    pawl_status (*truncate)(pawl_sequence *sequence, uint64_t n, pawl_error *error);
    pawl_status (*fork)(const pawl_sequence *from, uint64_t n, pawl_sequence **to,
                          pawl_error *error);

    /* Saved state. Chunks are loaded in order into an empty sequence, then the
     * boundary; tokens are those of [begin, end). Self-describing, checked:
     * damage is PAWL_E_FORMAT and leaves the sequence as it was. */
    pawl_status (*state_save)(const pawl_sequence *sequence, uint32_t part, uint64_t begin,
                                uint64_t end, const pawl_sink *to, pawl_error *error);
    pawl_status (*state_load)(pawl_sequence *sequence, uint32_t part, const int32_t *tokens,
                                uint64_t begin, uint64_t end, const pawl_source *from,
                                pawl_error *error);

    /* Optional: LoRA adapters, loaded beside the weights. [main] */
    pawl_status (*adapter_open)(pawl_engine *engine, pawl_bytes path,
                                  pawl_adapter **adapter, pawl_error *error);
    void (*adapter_close)(pawl_adapter *adapter);
    const char *(*adapter_digest)(const pawl_adapter *adapter);
} pawl_engine_api;

/* Optional, for tests and for developers: named intermediates of the last
 * positions (as many as asked) of a sequence's latest pass ("layer3.router.ids"). */
#define PAWL_ENGINE_TAPS "pawl.engine.taps/1"
/* Reserved: image encoders. */
#define PAWL_VISION "pawl.vision/1"

/* ------------------------------------------------------------ tokenizer ---- */

/* Text comes in segments, so that words from a user, a tool or a file never
 * become control tokens. All segments of a call are ONE text: merges run across
 * the borders of segments, so that the ids equal the reference tokenizer's ids
 * of the joined text. Only the matching of control tokens is confined: a match
 * lies wholly inside one CONTROL segment. */
enum pawl_segment_kind {
    PAWL_SEGMENT_LITERAL = 0,
    PAWL_SEGMENT_CONTROL = 1 /* "<|...|>" may be read as control tokens */
};

typedef struct pawl_segment {
    pawl_bytes text;
    uint64_t kind; /* enum pawl_segment_kind */
} pawl_segment;

enum pawl_token_flag {
    PAWL_TOKEN_CONTROL = 1 << 0, /* steers the model (a turn's end, a role): not text  */
    PAWL_TOKEN_ADDED = 1 << 1,   /* matched whole before any merging; may still be text */
    PAWL_TOKEN_BYTES = 1 << 2    /* its bytes alone need not be whole characters        */
};

typedef struct pawl_tokenizer_info {
    uint32_t struct_size; /* by the caller: how much the plugin may fill */
    uint32_t vocab_size;
    int32_t bos;     /* -1: none                                                */
    int32_t eos;     /* the token that ends a text, -1: none                    */
    int32_t eot;     /* the token that ends a turn where that is another, or -1 */
    uint32_t add_bos; /* 1: a prompt starts with bos                            */
    const char *name;   /* "bpe gpt2/smollm"                                    */
    const char *digest; /* names everything that ids depend on, hex             */
} pawl_tokenizer_info;

typedef struct pawl_tokenizer_api {
    uint32_t struct_size;
    uint32_t reserved;

    /* path: a model file or folder, or a bare vocabulary file. A vocabulary of
     * a kind that this plugin does not know is PAWL_E_UNSUPPORTED. [main] */
    pawl_status (*open)(pawl_bytes path, pawl_tokenizer **tokenizer, pawl_error *error);
    void (*close)(pawl_tokenizer *tokenizer); /* [main] */
    void (*info)(const pawl_tokenizer *tokenizer, pawl_tokenizer_info *info); /* [any] */

    /* Writes at most `room` tokens and sets *needed to the full count; a second
     * call with enough room completes it. [any] */
    pawl_status (*encode)(const pawl_tokenizer *tokenizer, const pawl_segment *segments,
                            uint64_t n_segments, int32_t *tokens, uint64_t room,
                            uint64_t *needed, pawl_error *error);

    /* The bytes of one token, which need not be whole characters: the host
     * holds back incomplete UTF-8. Valid until close(). [any] */
    pawl_bytes (*piece)(const pawl_tokenizer *tokenizer, int32_t token);

    /* Control token by name ("eos", "<|im_end|>"), -1 if there is none. [any] */
    int32_t (*token)(const pawl_tokenizer *tokenizer, pawl_bytes name);

    /* enum pawl_token_flag of one token; 0 for ids outside the vocabulary. [any] */
    uint32_t (*token_flags)(const pawl_tokenizer *tokenizer, int32_t token);
} pawl_tokenizer_api;

/* ---------------------------------------------------------- chat dialect ---- */

/* Turns messages into a prompt, and the reply's text back into meaning. */
enum pawl_chat_event_type {
    PAWL_CHAT_TEXT = 0,       /* answer text                                      */
    PAWL_CHAT_REASONING = 1,  /* thinking text                                    */
    PAWL_CHAT_CALL_BEGIN = 2, /* text = tool name, index = which call             */
    PAWL_CHAT_CALL_DELTA = 3, /* text = more of the arguments, JSON               */
    PAWL_CHAT_CALL_END = 4,   /* arguments complete and well-formed               */
    PAWL_CHAT_CALL_BAD = 5,   /* text = the raw call that could not be understood */
    PAWL_CHAT_DROPPED = 6     /* text that the dialect's rules discard            */
};

typedef struct pawl_chat_event {
    uint32_t struct_size;
    int32_t type;   /* enum pawl_chat_event_type                                  */
    uint64_t index; /* of the call, from 0 in each reply                          */
    pawl_bytes text;
} pawl_chat_event;

/* Receives events in order, inside feed() and finish(). */
typedef void (*pawl_chat_emit)(void *arg, const pawl_chat_event *event);

typedef struct pawl_chat_api {
    uint32_t struct_size;
    uint32_t reserved;

    /* Writes a JSON array of dialect names, best known first. [any] */
    pawl_status (*dialects)(const pawl_sink *to, pawl_error *error);

    /* config: a JSON object. "dialect": a name, or absent: chosen by "template",
     * the model's own chat template, and by "family". PAWL_E_UNSUPPORTED: no
     * dialect of this plugin fits. [main] */
    pawl_status (*open)(pawl_bytes config, pawl_chat **chat, pawl_error *error);
    void (*close)(pawl_chat *chat); /* after all its parsers. [main] */
    const char *(*dialect)(const pawl_chat *chat); /* the name chosen. [any] */

    /* request: JSON of the shape schemas/chat-request.schema.json. Writes one
     * JSON object:
     *   "parts": [{"text": string, "special": bool}, ...]  special: control
     *            tokens may be matched in it; false: literal text of a user, a
     *            tool or a file, which can never forge one;
     *   "stop":  [string, ...]   control tokens that end the reply;
     *   "starts_in_reasoning": bool   the prompt ends inside an open thought.
     * [any] */
    pawl_status (*render)(const pawl_chat *chat, pawl_bytes request, const pawl_sink *to,
                          pawl_error *error);

    /* request: the same object as for render(); its tools decide whether calls
     * are looked for, "starts_in_reasoning" (bool) may override. [owner] */
    pawl_status (*parser_open)(const pawl_chat *chat, pawl_bytes request, pawl_parser **parser,
                               pawl_error *error);
    void (*parser_close)(pawl_parser *parser);

    /* A piece of the reply in whole UTF-8 characters; kind CONTROL: it came as a
     * control token. Every split of the same reply gives the same events once
     * neighbouring deltas are joined. finish() flushes what was held back and
     * closes what is open; only parser_close() follows it. Neither fails because of
     * what the text says. [owner] */
    pawl_status (*feed)(pawl_parser *parser, pawl_segment piece, pawl_chat_emit emit, void *arg,
                        pawl_error *error);
    pawl_status (*finish)(pawl_parser *parser, pawl_chat_emit emit, void *arg, pawl_error *error);
} pawl_chat_api;

#ifdef __cplusplus
}
#endif
#endif /* PAWL_PLUGIN_H */
