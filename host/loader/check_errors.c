/*
 * loader/check_errors.c - group "errors": missing, damaged and absurd inputs.
 *
 * A damaged model may be refused or, where the damage hits only weights, taken; it
 * may never crash. Copies of the model are damaged in memory files, so that the
 * user's own file is only read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_rules.h"

#include "base/buf.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_DAMAGED (8u << 20) /* a larger model is not damaged: it would take minutes */
#define N_CUTS 40
#define N_FLIPS 120

static pawl_bytes text(const char *s)
{
    return (pawl_bytes){s, strlen(s)};
}

static pawl_status count_bytes(void *context, const void *data, uint64_t size)
{
    uint64_t *total = context;
    (void)data;
    *total += size;
    return PAWL_OK;
}

static pawl_engine *const no_engine = (pawl_engine *)(uintptr_t)8;
static pawl_tokenizer *const no_tokenizer = (pawl_tokenizer *)(uintptr_t)8;

/* Tries every reader of model files on a path; what opens is closed. */
static void read_with_all(check *c, const char *path)
{
    uint64_t total = 0;
    pawl_sink to = {&total, count_bytes};
    pawl_engine_config config = check_engine_config(c);
    pawl_engine *engine;
    pawl_tokenizer *tokenizer;
    config.model_path = text(path);
    if (c->engine_api) {
        c->engine_api->inspect(text(path), &to, NULL);
        if (c->engine_api->open(&config, NULL, NULL, &engine, NULL) == PAWL_OK)
            c->engine_api->close(engine);
    }
    if (c->tokenizer_api && c->tokenizer_api->open(text(path), &tokenizer, NULL) == PAWL_OK)
        c->tokenizer_api->close(tokenizer);
}

/* Makes the tables that there are; SKIP where there is neither. */
static enum check_verdict readers(check *c)
{
    enum check_verdict engine = check_engine_table(c);
    enum check_verdict tokenizer = check_tokenizer_table(c);
    if (engine == CHECK_PASS || tokenizer == CHECK_PASS) {
        c->why[0] = '\0';
        return CHECK_PASS;
    }
    return engine == CHECK_FAIL ? engine : check_say(c, CHECK_SKIP, "it reads no model files");
}

static enum check_verdict missing(check *c)
{
    static const char *const paths[] = {"/nonexistent/model.gguf", "", "/dev/null", "/"};
    CHECK_NEED(c, readers(c));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        uint64_t total = 0;
        pawl_sink to = {&total, count_bytes};
        pawl_error why = {.struct_size = sizeof why};
        pawl_engine_config config = check_engine_config(c);
        pawl_engine *engine = no_engine;
        pawl_tokenizer *tokenizer = no_tokenizer;
        config.model_path = text(paths[i]);
        if (c->engine_api) {
            CHECK_THAT(c, c->engine_api->open(&config, NULL, NULL, &engine, &why),
                       "the engine opened \"%s\"", paths[i]);
            CHECK_THAT(c, engine == no_engine, "a failing open() wrote its out parameter");
            CHECK_THAT(c, why.message[0], "the engine refused \"%s\" and did not say why",
                       paths[i]);
            CHECK_THAT(c, c->engine_api->inspect(text(paths[i]), &to, NULL),
                       "the engine inspected \"%s\"", paths[i]);
        }
        if (c->tokenizer_api) {
            CHECK_THAT(c, c->tokenizer_api->open(text(paths[i]), &tokenizer, &why),
                       "the tokenizer opened \"%s\"", paths[i]);
            CHECK_THAT(c, tokenizer == no_tokenizer, "a failing open() wrote its out parameter");
        }
    }
    return CHECK_PASS;
}

/* The same calls without an error to fill. */
static enum check_verdict silent(check *c)
{
    uint64_t total = 0;
    pawl_sink to = {&total, count_bytes};
    pawl_engine_config config = check_engine_config(c);
    pawl_engine *engine;
    pawl_tokenizer *tokenizer;
    CHECK_NEED(c, readers(c));
    config.model_path = text("/nonexistent/model.gguf");
    if (c->engine_api) {
        CHECK_THAT(c, c->engine_api->open(&config, NULL, NULL, &engine, NULL), "the engine opened");
        CHECK_THAT(c, c->engine_api->inspect(config.model_path, &to, NULL), "it inspected");
    }
    if (c->tokenizer_api)
        CHECK_THAT(c, c->tokenizer_api->open(config.model_path, &tokenizer, NULL),
                   "the tokenizer opened");
    return CHECK_PASS;
}

/* One byte for keys, values and scratch: too little, unless it needs none. */
static enum check_verdict budget(check *c)
{
    pawl_engine *engine = no_engine;
    pawl_error why = {.struct_size = sizeof why};
    CHECK_NEED(c, check_engine(c));
    pawl_engine_config config = check_engine_config(c);
    config.memory_budget = 1;
    pawl_status status = c->engine_api->open(&config, NULL, NULL, &engine, &why);
    if (status == PAWL_OK) {
        c->engine_api->close(engine);
        return check_say(c, CHECK_PASS, "it does not need any");
    }
    CHECK_THAT(c, engine == no_engine, "a failing open() wrote its out parameter");
    CHECK_THAT(c, why.message[0], "it refuses and does not say why");
    CHECK_THAT(c, status == PAWL_E_MEMORY || status == PAWL_E_ARGUMENT, "status %d", status);
    return CHECK_PASS;
}

static enum check_verdict option(check *c)
{
    static const char *const wrong[] = {"{\"no_such_option_here\": 1}", "[1]", "{\"a\":", "5"};
    CHECK_NEED(c, check_engine(c));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        pawl_engine_config config = check_engine_config(c);
        pawl_engine *engine = no_engine;
        config.options = text(wrong[i]);
        pawl_status status = c->engine_api->open(&config, NULL, NULL, &engine, NULL);
        if (status == PAWL_OK)
            c->engine_api->close(engine);
        CHECK_THAT(c, status != PAWL_OK, "it took the options %s", wrong[i]);
        CHECK_THAT(c, engine == no_engine, "a failing open() wrote its out parameter");
    }
    return CHECK_PASS;
}

static pawl_status stop_loading(void *arg, double done)
{
    (void)arg;
    (void)done;
    return PAWL_E_CANCELLED;
}

static enum check_verdict progress(check *c)
{
    pawl_engine *engine = no_engine;
    CHECK_NEED(c, check_engine(c));
    pawl_engine_config config = check_engine_config(c);
    pawl_status status = c->engine_api->open(&config, stop_loading, NULL, &engine, NULL);
    if (status == PAWL_OK) {
        c->engine_api->close(engine);
        return check_say(c, CHECK_SKIP, "it was open before it asked");
    }
    CHECK_THAT(c, status == PAWL_E_CANCELLED, "status %d", status);
    return CHECK_PASS;
}

/* Reads the model and finds out whether it is one file of a size worth damaging. */
static enum check_verdict read_model(check *c, buf *bytes)
{
    buf_init(bytes, MAX_DAMAGED);
    CHECK_NEED(c, readers(c));
    if (file_read(c->model, bytes, NULL) || bytes->size < 16) {
        buf_clear(bytes);
        return check_say(c, CHECK_SKIP, "the model is no single file of at most %u MiB",
                         MAX_DAMAGED >> 20);
    }
    return CHECK_PASS;
}

static bool try_bytes(check *c, const char *data, size_t size)
{
    char path[64];
    int fd = memfd_create("damaged", MFD_CLOEXEC);
    bool written = fd >= 0 && write(fd, data, size) == (ssize_t)size;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (written)
        read_with_all(c, path);
    if (fd >= 0)
        close(fd);
    return written;
}

static enum check_verdict truncated(check *c)
{
    buf bytes;
    CHECK_NEED(c, read_model(c, &bytes));
    bool tried = true;
    for (size_t i = 0; i < N_CUTS && tried; i++) /* most cuts near the head, where counts are */
        tried = try_bytes(c, bytes.data, i < 24 ? i * 3 : bytes.size / N_CUTS * i);
    buf_clear(&bytes);
    return tried ? CHECK_PASS : check_say(c, CHECK_SKIP, "no memory file");
}

static enum check_verdict damaged(check *c)
{
    buf bytes;
    uint64_t random = 7;
    CHECK_NEED(c, read_model(c, &bytes));
    bool tried = true;
    size_t head = bytes.size < 8192 ? bytes.size : 8192;
    for (size_t i = 0; i < N_FLIPS && tried; i++) {
        size_t at = check_random(&random) % (i % 4 ? head : bytes.size);
        char kept = bytes.data[at];
        bytes.data[at] = (char)check_random(&random);
        tried = try_bytes(c, bytes.data, bytes.size);
        bytes.data[at] = kept;
    }
    buf_clear(&bytes);
    return tried ? CHECK_PASS : check_say(c, CHECK_SKIP, "no memory file");
}

static const check_rule rules[] = {
    {"missing", "what is no model is refused, with a reason and without an object", missing},
    {"silent", "it fails as well without an error to fill", silent},
    {"budget", "a memory budget of one byte is refused, or enough", budget},
    {"option", "unknown and malformed options are refused", option},
    {"progress", "a progress callback can stop open()", progress},
    {"truncated", "a model that ends too early does not crash it", truncated},
    {"damaged", "a model with changed bytes does not crash it", damaged},
};

const check_group check_errors_group = {"errors", rules, sizeof rules / sizeof *rules};
