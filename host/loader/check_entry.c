/*
 * loader/check_entry.c - groups "entry" and "host": the tables, and life in a host
 * that offers little.
 *
 * Group "host" initialises the plugin several times; since that is allowed once per
 * process and copy, each time a fresh copy of the library is loaded.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_rules.h"

#include <string.h>

/* ---- entry ---- */

static enum check_verdict load(check *c)
{
    return check_load(c);
}

static enum check_verdict table(check *c)
{
    CHECK_NEED(c, check_load(c));
    const pawl_plugin *p = c->loaded.plugin;
    CHECK_THAT(c, p->struct_size % 8 == 0, "struct_size is %u", p->struct_size);
    CHECK_THAT(c, p->flags <= PAWL_PLUGIN_UNLOADABLE, "unknown flags %llx",
               (unsigned long long)p->flags);
    CHECK_THAT(c, strlen(p->id) < 128 && strlen(p->version) < 65, "id or version are too long");
    return CHECK_PASS;
}

static bool offers(void *arg, const char *id)
{
    check *c = arg;
    if (c->loaded.plugin->get_interface(id))
        return true;
    check_say(c, CHECK_FAIL, "the manifest lists %s, the entry does not offer it", id);
    return false;
}

static enum check_verdict compare(check *c, const manifest *m)
{
    static const char *const known[] = {PAWL_ENGINE, PAWL_TOKENIZER, PAWL_CHAT};
    const pawl_plugin *p = c->loaded.plugin;
    CHECK_THAT(c, strcmp(m->id, p->id) == 0, "id: manifest %s, entry %.128s", m->id, p->id);
    CHECK_THAT(c, strcmp(m->version, p->version) == 0, "version: manifest %s, entry %.64s",
               m->version, p->version);
    CHECK_THAT(c, m->abi_minor == p->abi_minor, "ABI minor: manifest %u, entry %u", m->abi_minor,
               p->abi_minor);
    if (!manifest_each_interface(m->interfaces, offers, c))
        return CHECK_FAIL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK_THAT(c, !p->get_interface(known[i]) || manifest_lists(m->interfaces, known[i]),
                   "the entry offers %s, the manifest does not list it", known[i]);
    return CHECK_PASS;
}

static enum check_verdict manifest_agrees(check *c)
{
    manifest m;
    CHECK_NEED(c, check_load(c));
    if (!c->manifest_path[0] || manifest_read(c->manifest_path, &m, NULL))
        return check_say(c, CHECK_SKIP, "there is no valid manifest");
    enum check_verdict verdict = compare(c, &m);
    manifest_clear(&m);
    return verdict;
}

static enum check_verdict probe(check *c)
{
    pawl_error why = {.struct_size = sizeof why};
    CHECK_NEED(c, check_load(c));
    int32_t first = c->loaded.plugin->probe(&why);
    CHECK_THAT(c, first > 0 || (why.message[0] && memchr(why.message, 0, sizeof why.message)),
               "it says no and not why");
    CHECK_THAT(c, c->loaded.plugin->probe(NULL) == first,
               "without an error to fill it answers "
               "something else");
    return first > 0 ? check_say(c, CHECK_PASS, "score %d", first)
                     : check_say(c, CHECK_PASS, "it cannot run here: %s", why.message);
}

static enum check_verdict stable(check *c)
{
    static const char *const known[] = {PAWL_ENGINE, PAWL_TOKENIZER, PAWL_CHAT};
    CHECK_NEED(c, check_load(c));
    int offered = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char copy[64]; /* the id's text counts, not its address */
        snprintf(copy, sizeof copy, "%s", known[i]);
        const void *first = c->loaded.plugin->get_interface(known[i]);
        offered += first != NULL;
        CHECK_THAT(c,
                   c->loaded.plugin->get_interface(copy) == first &&
                       c->loaded.plugin->get_interface(known[i]) == first,
                   "%s is another table each time", known[i]);
    }
    return check_say(c, CHECK_PASS, "%d of Pawl's own", offered);
}

static enum check_verdict unknown(check *c)
{
    static const char *const strange[] = {"",
                                          "pawl",
                                          "pawl.engine",
                                          "pawl.engine/",
                                          "pawl.engine/2",
                                          "pawl.engine/10",
                                          "pawl.tokenizer/2",
                                          "pawl.tokenizer/",
                                          "pawl.chat/2",
                                          "pawl.chat/11",
                                          "pawl.cha",
                                          "PAWL.ENGINE/1",
                                          "nobody.knows.this/1"};
    CHECK_NEED(c, check_load(c));
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        CHECK_THAT(c, !c->loaded.plugin->get_interface(strange[i]), "it offers \"%s\"", strange[i]);
    return CHECK_PASS;
}

#define MEMBER(type, name)                                                                         \
    {                                                                                              \
#name, offsetof(type, name)                                                                \
    }

typedef struct member {
    const char *name;
    size_t offset;
} member;

/* Every listed member lies inside the table and is set. */
static enum check_verdict members(check *c, const char *id, const member *list, size_t n)
{
    const char *base = c->loaded.plugin->get_interface(id);
    uint32_t size;
    if (!base)
        return CHECK_PASS;
    memcpy(&size, base, sizeof size);
    for (size_t i = 0; i < n; i++) {
        void (*function)(void) = NULL;
        bool inside = size >= list[i].offset + sizeof function;
        if (inside)
            memcpy(&function, base + list[i].offset, sizeof function);
        CHECK_THAT(c, function, "%s: %s is %s", id, list[i].name,
                   inside ? "NULL" : "beyond struct_size");
    }
    return CHECK_PASS;
}

static enum check_verdict complete(check *c)
{
    static const member engine[] = {
        MEMBER(pawl_engine_api, inspect),       MEMBER(pawl_engine_api, open),
        MEMBER(pawl_engine_api, close),         MEMBER(pawl_engine_api, info),
        MEMBER(pawl_engine_api, capacity),      MEMBER(pawl_engine_api, reserve),
        MEMBER(pawl_engine_api, sequence_open), MEMBER(pawl_engine_api, sequence_close),
        MEMBER(pawl_engine_api, submit),        MEMBER(pawl_engine_api, wait),
        MEMBER(pawl_engine_api, cancel),        MEMBER(pawl_engine_api, length),
        MEMBER(pawl_engine_api, truncate),      MEMBER(pawl_engine_api, fork)};
    static const member tokenizer[] = {
        MEMBER(pawl_tokenizer_api, open),       MEMBER(pawl_tokenizer_api, close),
        MEMBER(pawl_tokenizer_api, info),       MEMBER(pawl_tokenizer_api, encode),
        MEMBER(pawl_tokenizer_api, piece),      MEMBER(pawl_tokenizer_api, token),
        MEMBER(pawl_tokenizer_api, token_flags)};
    static const member chat[] = {
        MEMBER(pawl_chat_api, dialects),     MEMBER(pawl_chat_api, open),
        MEMBER(pawl_chat_api, close),        MEMBER(pawl_chat_api, dialect),
        MEMBER(pawl_chat_api, render),       MEMBER(pawl_chat_api, parser_open),
        MEMBER(pawl_chat_api, parser_close), MEMBER(pawl_chat_api, feed),
        MEMBER(pawl_chat_api, finish)};
    CHECK_NEED(c, check_load(c));
    CHECK_NEED(c, members(c, PAWL_ENGINE, engine, sizeof engine / sizeof *engine));
    CHECK_NEED(c, members(c, PAWL_TOKENIZER, tokenizer, sizeof tokenizer / sizeof *tokenizer));
    return members(c, PAWL_CHAT, chat, sizeof chat / sizeof *chat);
}

/* The entry answers alike in a second copy: it depends on nothing but its code. */
static enum check_verdict pure(check *c)
{
    library again;
    pawl_error why = {.struct_size = sizeof why};
    CHECK_NEED(c, check_load(c));
    CHECK_THAT(c, library_open(c->library_path, &again, &why) == PAWL_OK, "%s", why.message);
    const pawl_plugin *a = c->loaded.plugin, *b = again.plugin;
    bool same = strcmp(a->id, b->id) == 0 && strcmp(a->version, b->version) == 0 &&
                a->struct_size == b->struct_size && a->flags == b->flags;
    library_close(&again);
    CHECK_THAT(c, same, "a second copy gives another table");
    return CHECK_PASS;
}

static const check_rule entry_rules[] = {
    {"load", "it loads with RTLD_NOW and its entry gives a table", load},
    {"table", "the table's numbers and texts make sense", table},
    {"pure", "the entry gives the same table every time", pure},
    {"manifest", "the table says what the manifest says", manifest_agrees},
    {"probe", "probe() answers before init(), with and without an error to fill", probe},
    {"stable", "get_interface() gives one table for each id", stable},
    {"unknown", "get_interface() gives NULL for unknown ids and revisions", unknown},
    {"complete", "required members of each table are set", complete},
};

const check_group check_entry_group = {"entry", entry_rules,
                                       sizeof entry_rules / sizeof *entry_rules};

/* ---- host ---- */

static const void *no_interface(const pawl_host *host, const char *id)
{
    (void)host;
    (void)id;
    return NULL;
}

static void drop_line(const pawl_host *host, int32_t level, const char *component, pawl_bytes line)
{
    (void)host;
    (void)level;
    (void)component;
    (void)line;
}

/* Inits and shuts down one fresh copy with this host. */
static enum check_verdict live_with(check *c, const pawl_host *host)
{
    library l;
    pawl_error why = {.struct_size = sizeof why};
    CHECK_THAT(c, library_open(c->library_path, &l, &why) == PAWL_OK, "%s", why.message);
    if (l.plugin->probe(&why) <= 0) {
        library_close(&l);
        return check_say(c, CHECK_SKIP, "it cannot run on this machine: %s", why.message);
    }
    pawl_status status = l.plugin->init(host, &why);
    if (!status)
        l.plugin->shutdown();
    library_close(&l);
    CHECK_THAT(c, status == PAWL_OK, "init failed: %s", why.message);
    return CHECK_PASS;
}

static pawl_host bare_host(void)
{
    return (pawl_host){.struct_size = sizeof(pawl_host),
                       .version = "0.0.0",
                       .get_interface = no_interface,
                       .log = drop_line};
}

static enum check_verdict bare(check *c)
{
    pawl_host host = bare_host();
    return live_with(c, &host);
}

static enum check_verdict longer(check *c)
{
    struct {
        pawl_host host;
        void *later[4];
    } wide = {.host = bare_host()};
    memset(wide.later, 0xa5, sizeof wide.later);
    wide.host.struct_size = sizeof wide;
    wide.host.abi_minor = PAWL_ABI_MINOR + 7;
    return live_with(c, &wide.host);
}

static const check_rule host_rules[] = {
    {"bare", "it starts in a host without metrics and optional interfaces", bare},
    {"longer", "it starts in a host of a later minor, with a longer table", longer},
};

const check_group check_host_group = {"host", host_rules, sizeof host_rules / sizeof *host_rules};
