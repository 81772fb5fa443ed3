/*
 * script/docs.h - a folder of documents that scripts may read, and nothing outside of it.
 *
 * Paths are relative to the folder. The kernel keeps them below it (openat2(), RESOLVE_BENEATH),
 * whatever "..", links and renames say; a kernel without openat2() is walked name by name, and
 * "..", and links, are refused. Only regular files are read: never a pipe or a device.
 *
 * Immutable once open; everything else is called on a thread of the crew. No Lua.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_DOCS_H
#define SCRIPT_DOCS_H

#include "base/buf.h"
#include "base/digest.h"
#include "script/failure.h"

#define DOCS_MAX_PATH 1024       /* bytes of a path                          */
#define DOCS_MAX_FILES 20000     /* of one list                              */
#define DOCS_MAX_DEPTH 32        /* folders within each other                */
#define DOCS_MAX_TEXT (7u << 20) /* bytes of what is read: one text in a script */

typedef struct docs {
    int folder;    /* the descriptor of the root                    */
    bool by_names; /* there is no openat2()                         */
} docs;

pawl_status docs_open(const char *folder, docs *out, pawl_error *error);
void docs_close(docs *d);

/* Opens a regular file for reading; -1: the failure says why not. */
int docs_open_file(const docs *d, const char *path, uint64_t *size, failure *why);

typedef struct docs_entry {
    char *path;
    uint64_t size;
    int64_t mtime_s;
} docs_entry;

typedef struct docs_list {
    docs_entry *entries;
    size_t n, room;
} docs_list;

/* All regular files below a folder, "" for all, in the order of their paths. Names that begin
 * with '.' and symbolic links are left out. In names that are no UTF-8 U+FFFD stands for what
 * is not, so that they are seen and cannot be opened. */
bool docs_list_files(const docs *d, const char *folder, int stop_fd, docs_list *list, failure *why);
void docs_list_clear(docs_list *list);

/* SHA-256 of a file. */
bool docs_hash(const docs *d, const char *path, int stop_fd, char hex[DIGEST_HEX_SIZE],
               failure *why);
/* The bytes of a file, which has at most out->max. */
bool docs_read(const docs *d, const char *path, int stop_fd, buf *out, failure *why);

typedef struct docs_text_options {
    uint64_t max_bytes; /* of the file                     */
    int64_t timeout_ms; /* of a program that converts it   */
} docs_text_options;

/* The text of a PDF, HTML, Markdown or text file, as UTF-8: at most DOCS_MAX_TEXT bytes, and
 * some in it that are no spaces. (docs_text.c) */
bool docs_text(const docs *d, const char *path, const docs_text_options *options, int stop_fd,
               buf *out, failure *why);

#endif /* SCRIPT_DOCS_H */
