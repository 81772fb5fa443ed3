/*
 * loader/check_file.c - group "file": the library and its manifest, unopened.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_rules.h"
#include "loader/search.h"

#include "base/digest.h"

#include <string.h>

static enum check_verdict read_elf(check *c, check_elf *out)
{
    pawl_error why = {.struct_size = sizeof why};
    if (check_read_elf(c->library_path, out, &why))
        return check_say(c, CHECK_FAIL, "%s", why.message);
    return CHECK_PASS;
}

static enum check_verdict elf(check *c)
{
    check_elf facts;
    return read_elf(c, &facts);
}

static enum check_verdict export(check *c) {
    check_elf facts; CHECK_NEED(c, read_elf(c, &facts));
    CHECK_THAT(c, facts.n_exported == 1 && strcmp(facts.exported, "pawl_plugin_entry_v1") == 0,
               "it exports %zu: %.200s", facts.n_exported, facts.exported);
    return CHECK_PASS;
}

static enum check_verdict soname(check *c)
{
    check_elf facts;
    CHECK_NEED(c, read_elf(c, &facts));
    CHECK_THAT(c, !facts.soname,
               "it has a DT_SONAME, by which glibc may take one generation for "
               "another");
    return CHECK_PASS;
}

static enum check_verdict textrel(check *c)
{
    check_elf facts;
    CHECK_NEED(c, read_elf(c, &facts));
    CHECK_THAT(c, !facts.text_relocations, "build it with -fPIC");
    return CHECK_PASS;
}

static enum check_verdict stack(check *c)
{
    check_elf facts;
    CHECK_NEED(c, read_elf(c, &facts));
    CHECK_THAT(c, !facts.executable_stack, "link it with -Wl,-z,noexecstack");
    return CHECK_PASS;
}

static enum check_verdict needed(check *c)
{
    check_elf facts;
    CHECK_NEED(c, read_elf(c, &facts));
    return check_say(c, CHECK_PASS, "%s", facts.needed[0] ? facts.needed : "none");
}

static enum check_verdict constructors(check *c)
{
    check_elf facts;
    CHECK_NEED(c, read_elf(c, &facts));
    return check_say(c, CHECK_PASS, "%llu in its INIT_ARRAY (a plain C library has 1)",
                     (unsigned long long)facts.constructors);
}

static enum check_verdict trust(check *c)
{
    pawl_error why = {.struct_size = sizeof why};
    CHECK_THAT(c, search_trust(c->library_path, false, &why) == PAWL_OK, "%s", why.message);
    CHECK_THAT(c, !c->manifest_path[0] || search_trust(c->manifest_path, false, &why) == PAWL_OK,
               "%s", why.message);
    return CHECK_PASS;
}

static enum check_verdict read_manifest(check *c, manifest *out)
{
    pawl_error why = {.struct_size = sizeof why};
    if (!c->manifest_path[0])
        return check_say(c, CHECK_FAIL, "there is no NAME.plugin.json beside NAME.so");
    if (manifest_read(c->manifest_path, out, &why))
        return check_say(c, CHECK_FAIL, "%s", why.message);
    return CHECK_PASS;
}

static enum check_verdict manifest_valid(check *c)
{
    manifest m;
    CHECK_NEED(c, read_manifest(c, &m));
    const char *own = strrchr(c->library_path, '/');
    bool same = own && strcmp(m.library, own + 1) == 0;
    enum check_verdict verdict = CHECK_PASS;
    if (!same)
        verdict = check_say(c, CHECK_FAIL, "its \"library\" is %.100s", m.library);
    else if (m.abi_major != PAWL_ABI_MAJOR)
        verdict = check_say(c, CHECK_FAIL, "it is for ABI %u, this host speaks ABI %d", m.abi_major,
                            PAWL_ABI_MAJOR);
    manifest_clear(&m);
    return verdict;
}

static enum check_verdict digest(check *c)
{
    manifest m;
    char hex[DIGEST_HEX_SIZE];
    pawl_error why = {.struct_size = sizeof why};
    CHECK_NEED(c, read_manifest(c, &m));
    enum check_verdict verdict = CHECK_PASS;
    if (!m.sha256)
        verdict = check_say(c, CHECK_SKIP, "the manifest gives none");
    else if (digest_file(c->library_path, hex, &why))
        verdict = check_say(c, CHECK_FAIL, "%s", why.message);
    else if (strcmp(hex, m.sha256) != 0)
        verdict = check_say(c, CHECK_FAIL, "the file has %s", hex);
    manifest_clear(&m);
    return verdict;
}

static const check_rule rules[] = {
    {"elf", "it is a shared object for this machine", elf},
    {"export", "exactly one symbol is exported, pawl_plugin_entry_v1", export},
    {"soname", "it has no SONAME", soname},
    {"textrel", "it has no text relocations", textrel},
    {"stack", "it does not ask for an executable stack", stack},
    {"needed", "libraries it needs", needed},
    {"constructors", "constructors that run when it is loaded", constructors},
    {"trust", "only root and we can write it", trust},
    {"manifest", "its manifest is valid and names it", manifest_valid},
    {"digest", "its SHA-256 is the manifest's", digest},
};

const check_group check_file_group = {"file", rules, sizeof rules / sizeof *rules};
