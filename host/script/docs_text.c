/*
 * script/docs_text.c - the text of a document. See docs.h.
 *
 *   PDF             pdftotext (Debian: poppler-utils) in a limited child process; page breaks
 *                   become empty lines
 *   HTML            html.h
 *   anything else   as it is, if it is UTF-8
 *
 * What a file is, its first bytes say; its name only where they do not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/docs.h"

#include "base/utf8.h"
#include "script/child.h"
#include "script/html.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define HEAD_BYTES 1024 /* in which a PDF says that it is one */
#define PDF_MEMORY (1024ull << 20)

static const char *const environment[] = {("PATH=" CHILD_PATH), "LANG=C.UTF-8", "HOME=/", NULL};

/* ------------------------------------------------------------- what it is */

static bool ends_with(const char *path, const char *ending)
{
    size_t size = strlen(path), n = strlen(ending);
    return size >= n && strcasecmp(path + size - n, ending) == 0;
}

static bool is_pdf(const char *head, size_t size)
{
    return memmem(head, size, "%PDF-", 5) != NULL;
}

static bool is_html(const char *path, const char *head, size_t size)
{
    static const char *const begins[] = {"<!doctype html", "<html"};
    size_t skip = size >= 3 && memcmp(head, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (skip < size && strchr(" \t\r\n", head[skip]) && head[skip])
        skip++;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        if (size - skip >= strlen(begins[i]) &&
            strncasecmp(head + skip, begins[i], strlen(begins[i])) == 0)
            return true;
    return ends_with(path, ".html") || ends_with(path, ".htm") || ends_with(path, ".xhtml");
}

/* ------------------------------------------------------------- texts */

/* Takes off a byte order mark; false: it is no UTF-8 text. */
static bool check_text(const char *path, buf *text, failure *why)
{
    const unsigned char *data = (const unsigned char *)buf_text(text);
    if (text->size >= 2 &&
        ((data[0] == 0xFF && data[1] == 0xFE) || (data[0] == 0xFE && data[1] == 0xFF)))
        return failure_set(why, "encoding", false, "%.200s: is UTF-16; UTF-8 is wanted", path);
    if (text->size >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0) {
        memmove(text->data, text->data + 3, text->size - 3 + 1);
        text->size -= 3;
    }
    size_t valid = utf8_valid_prefix(text->data, text->size);
    if (valid == text->size && !(text->size && memchr(text->data, 0, text->size)))
        return true;
    if (text->size && memchr(text->data, 0, text->size))
        return failure_set(why, "encoding", false, "%.200s: is no text, but has NUL bytes", path);
    return failure_set(why, "encoding", false,
                       "%.200s: is not in UTF-8 (byte %zu); other encodings are not read", path,
                       valid + 1);
}

static bool has_words(const buf *text)
{
    const unsigned char *data = (const unsigned char *)buf_text(text);
    for (size_t i = 0; i < text->size; i++)
        if (data[i] > ' ' && data[i] != 0x7f)
            return true;
    return false;
}

static bool read_plain(const docs *d, const char *path, bool html, uint64_t max_bytes, int stop_fd,
                       buf *out, failure *why)
{
    buf file;
    uint64_t most = html ? 4ull * DOCS_MAX_TEXT : DOCS_MAX_TEXT; /* of a page most is markup */
    buf_init(&file, (size_t)(max_bytes < most ? max_bytes : most));
    bool good = docs_read(d, path, stop_fd, &file, why) && check_text(path, &file, why);
    if (good && html) {
        good = html_to_text(buf_text(&file), file.size, out) ||
               failure_set(why, "too_large", false, "%.200s: its text has more than %d MiB", path,
                           (int)(DOCS_MAX_TEXT >> 20));
    } else if (good) {
        *out = file;
        buf_init(&file, 0);
    }
    buf_clear(&file);
    if (good && !has_words(out))
        good = failure_set(why, "no_text", false, "%.200s: has no text in it", path);
    return good;
}

/* ------------------------------------------------------------- PDF */

static bool explain_pdf(const char *path, const child_result *result, failure *why)
{
    switch (result->end) {
    case CHILD_ABSENT:
        return failure_set(why, "no_converter", false,
                           "%.200s: reading PDF needs the program pdftotext (Debian: apt-get "
                           "install poppler-utils)",
                           path);
    case CHILD_TIMEOUT:
        return failure_set(why, "timeout", true, "%.200s: pdftotext: %s", path, result->why);
    case CHILD_TOO_LARGE:
        return failure_set(why, "too_large", false, "%.200s: its text has more than %d MiB", path,
                           (int)(DOCS_MAX_TEXT >> 20));
    case CHILD_STOPPED:
        return failure_set(why, "cancelled", false, "it was cancelled");
    case CHILD_NOT_STARTED:
        return failure_set(why, "busy", true, "pdftotext could not be started: %s", result->why);
    case CHILD_KILLED:
        return failure_set(why, "damaged", false, "%.200s: pdftotext failed on it: %s", path,
                           result->why);
    default:
        if (strstr(result->why, "password"))
            return failure_set(why, "encrypted", false, "%.200s: needs a password", path);
        return failure_set(why, "damaged", false, "%.200s: is a damaged PDF: %s", path,
                           result->why);
    }
}

/* Moves what pdftotext wrote into out. */
static bool take_pages(const char *path, child_result *result, buf *out, failure *why)
{
    buf *pages = &result->output;
    for (size_t i = 0; i < pages->size; i++)
        if (pages->data[i] == '\f' || pages->data[i] == '\0')
            pages->data[i] = '\n';
    if (!has_words(pages))
        return failure_set(why, "no_text", false, "%.200s: has no text layer (a scanned document?)",
                           path);
    if (utf8_valid_prefix(pages->data, pages->size) != pages->size)
        return failure_set(why, "damaged", false, "%.200s: pdftotext wrote no UTF-8", path);
    *out = *pages;
    buf_init(pages, 0);
    return true;
}

static bool read_pdf(const char *path, int fd, const docs_text_options *options, int stop_fd,
                     buf *out, failure *why)
{
    static const char *const argv[] = {"pdftotext", "-enc", "UTF-8", "-", "-", NULL};
    child_spec spec = {.argv = argv,
                       .env = environment,
                       .in = fd,
                       .stop_fd = stop_fd,
                       .limits = {.wall_ms = options->timeout_ms,
                                  .cpu_s = (uint64_t)options->timeout_ms / 1000 + 1,
                                  .memory = PDF_MEMORY,
                                  .files = 32,
                                  .processes = 1,
                                  .output = DOCS_MAX_TEXT}};
    child_result result;
    child_run(&spec, &result);
    bool good = result.end == CHILD_DONE ? take_pages(path, &result, out, why)
                                         : explain_pdf(path, &result, why);
    child_result_clear(&result);
    return good;
}

/* ------------------------------------------------------------- all of it */

bool docs_text(const docs *d, const char *path, const docs_text_options *options, int stop_fd,
               buf *out, failure *why)
{
    char head[HEAD_BYTES];
    uint64_t size;
    int fd = docs_open_file(d, path, &size, why);
    if (fd < 0)
        return false;
    ssize_t n = pread(fd, head, sizeof head, 0);
    bool good;
    if (n < 0)
        good = failure_set(why, "io", false, "%.200s: %s", path, strerror(errno));
    else if (size > options->max_bytes)
        good = failure_set(why, "too_large", false, "%.200s: %.1f MiB, more than %.1f", path,
                           (double)size / (1 << 20), (double)options->max_bytes / (1 << 20));
    else if (is_pdf(head, (size_t)n))
        good = read_pdf(path, fd, options, stop_fd, out, why);
    else if (ends_with(path, ".pdf"))
        good = failure_set(why, "damaged", false, "%.200s: is no PDF, it begins otherwise", path);
    else
        good = read_plain(d, path, is_html(path, head, (size_t)n), options->max_bytes, stop_fd, out,
                          why);
    close(fd);
    return good;
}
