/*
 * loader/check_elf.c - the few facts of a shared object that the kit judges.
 *
 *   file header -> program headers: PT_GNU_STACK (flags), PT_DYNAMIC (DT_SONAME,
 *                  DT_TEXTREL, DT_FLAGS, DT_INIT_ARRAYSZ, DT_NEEDED)
 *               -> section headers: SHT_DYNSYM and its string table
 *
 * The file is read whole and looked at through at(), which gives NULL for whatever
 * does not lie inside it. Sanitizers export symbols of their own from everything
 * they build; those names are passed over.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_rules.h"

#include "base/buf.h"
#include "base/file.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LIBRARY (1u << 30)

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_NONE
#endif

static const void *at(const buf *file, uint64_t offset, uint64_t size)
{
    return offset <= file->size && size <= file->size - offset ? file->data + offset : NULL;
}

/* The same for a table of ELF64 records, which are aligned to 8. */
static const void *table_at(const buf *file, uint64_t offset, uint64_t size)
{
    return offset % 8 == 0 ? at(file, offset, size) : NULL;
}

/* A NUL-terminated string inside a table that lies inside the file, or NULL. */
static const char *string_at(const buf *file, uint64_t table, uint64_t size, uint64_t index)
{
    const char *text = index < size ? at(file, table + index, size - index) : NULL;
    return text && memchr(text, '\0', (size_t)(size - index)) ? text : NULL;
}

static void add_word(char *list, size_t size, const char *word)
{
    size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%.100s", used ? " " : "", word);
}

static pawl_status check_header(const buf *file, const Elf64_Ehdr **out, pawl_error *error)
{
    const Elf64_Ehdr *head = at(file, 0, sizeof *head);
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return pawl_fail(error, PAWL_E_FORMAT, "it is no ELF file");
    if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB ||
        head->e_type != ET_DYN)
        return pawl_fail(error, PAWL_E_FORMAT, "it is no 64-bit little-endian shared object");
    if (OWN_MACHINE != EM_NONE && head->e_machine != OWN_MACHINE)
        return pawl_fail(error, PAWL_E_FORMAT, "it is for machine %u, this one is %u",
                         head->e_machine, OWN_MACHINE);
    if (head->e_phentsize != sizeof(Elf64_Phdr) || head->e_shentsize != sizeof(Elf64_Shdr))
        return pawl_fail(error, PAWL_E_FORMAT, "its headers have other sizes than ELF64 has");
    *out = head;
    return PAWL_OK;
}

/* The offset in the file of an address, through the loadable segments. */
static bool offset_of(const Elf64_Phdr *segments, size_t n, uint64_t address, uint64_t *offset)
{
    for (size_t i = 0; i < n; i++) {
        const Elf64_Phdr *s = &segments[i];
        if (s->p_type == PT_LOAD && address >= s->p_vaddr && address - s->p_vaddr < s->p_filesz) {
            *offset = s->p_offset + (address - s->p_vaddr);
            return true;
        }
    }
    return false;
}

static pawl_status read_dynamic(const buf *file, const Elf64_Phdr *segments, size_t n,
                                const Elf64_Phdr *dynamic, check_elf *out, pawl_error *error)
{
    const Elf64_Dyn *entries = table_at(file, dynamic->p_offset, dynamic->p_filesz);
    size_t count = (size_t)(dynamic->p_filesz / sizeof *entries);
    uint64_t strings = 0, strings_size = 0;
    if (!entries)
        return pawl_fail(error, PAWL_E_FORMAT, "its dynamic section lies outside the file");
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        uint64_t value = entries[i].d_un.d_val;
        switch (entries[i].d_tag) {
        case DT_SONAME:
            out->soname = true;
            break;
        case DT_TEXTREL:
            out->text_relocations = true;
            break;
        case DT_FLAGS:
            out->text_relocations = out->text_relocations || (value & DF_TEXTREL);
            break;
        case DT_INIT_ARRAYSZ:
            out->constructors = value / sizeof(void *);
            break;
        case DT_STRSZ:
            strings_size = value;
            break;
        case DT_STRTAB:
            if (!offset_of(segments, n, value, &strings))
                return pawl_fail(error, PAWL_E_FORMAT, "its string table lies outside the file");
            break;
        default:
            break;
        }
    }
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        const char *name = entries[i].d_tag == DT_NEEDED
                               ? string_at(file, strings, strings_size, entries[i].d_un.d_val)
                               : NULL;
        if (name)
            add_word(out->needed, sizeof out->needed, name);
    }
    return PAWL_OK;
}

static pawl_status read_segments(const buf *file, const Elf64_Ehdr *head, check_elf *out,
                                 pawl_error *error)
{
    size_t n = head->e_phnum;
    const Elf64_Phdr *segments = table_at(file, head->e_phoff, n * sizeof *segments);
    const Elf64_Phdr *dynamic = NULL;
    out->executable_stack = true;
    for (size_t i = 0; segments && i < n; i++) {
        if (segments[i].p_type == PT_GNU_STACK)
            out->executable_stack = (segments[i].p_flags & PF_X) != 0;
        if (segments[i].p_type == PT_DYNAMIC)
            dynamic = &segments[i];
    }
    if (!dynamic)
        return pawl_fail(error, PAWL_E_FORMAT, "it has no dynamic section");
    return read_dynamic(file, segments, n, dynamic, out, error);
}

static bool is_tools_own(const char *name)
{
    static const char *const prefixes[] = {
        "__asan", "__lsan", "__ubsan",     "__tsan", "__odr_asan", "__sanitizer",  "___asan",
        "_init",  "_fini",  "__bss_start", "_edata", "_end",       "__start_asan", "__stop_asan"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static pawl_status read_symbols(const buf *file, const Elf64_Ehdr *head, check_elf *out,
                                pawl_error *error)
{
    size_t n = head->e_shnum;
    const Elf64_Shdr *sections = table_at(file, head->e_shoff, n * sizeof *sections);
    const Elf64_Shdr *table = NULL;
    for (size_t i = 0; sections && i < n; i++)
        if (sections[i].sh_type == SHT_DYNSYM)
            table = &sections[i];
    if (!table || table->sh_link >= n)
        return pawl_fail(error, PAWL_E_FORMAT, "it has no table of dynamic symbols");
    const Elf64_Shdr *names = &sections[table->sh_link];
    const Elf64_Sym *symbols = table_at(file, table->sh_offset, table->sh_size);
    if (!symbols || !at(file, names->sh_offset, names->sh_size))
        return pawl_fail(error, PAWL_E_FORMAT, "its symbols lie outside the file");
    for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++) {
        const Elf64_Sym *s = &symbols[i];
        unsigned binding = ELF64_ST_BIND(s->st_info), seen = ELF64_ST_VISIBILITY(s->st_other);
        const char *name = string_at(file, names->sh_offset, names->sh_size, s->st_name);
        if (s->st_shndx == SHN_UNDEF || binding == STB_LOCAL || !name || !*name ||
            (seen != STV_DEFAULT && seen != STV_PROTECTED) || is_tools_own(name))
            continue;
        out->n_exported++;
        add_word(out->exported, sizeof out->exported, name);
    }
    return PAWL_OK;
}

pawl_status check_read_elf(const char *path, check_elf *out, pawl_error *error)
{
    buf file;
    const Elf64_Ehdr *head = NULL;
    check_elf facts = {.n_exported = 0};
    buf_init(&file, MAX_LIBRARY);
    pawl_status status = file_read(path, &file, error);
    if (!status)
        status = check_header(&file, &head, error);
    if (!status)
        status = read_segments(&file, head, &facts, error);
    if (!status)
        status = read_symbols(&file, head, &facts, error);
    buf_clear(&file);
    if (!status)
        *out = facts;
    return status;
}
