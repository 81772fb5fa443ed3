/*
 * tests/fuzz/kv_row_fuzz.c - kv.db as somebody else might leave it: rows and bytes.
 *
 * The first byte says how the file of three chunks is altered:
 *     even   the rest is a list of changes, 4 bytes each: offset (3, little-endian) and what
 *            is XORed there; an offset beyond the end cuts the file off at its half
 *     odd    a column of a row is set: table and column, row, type, then the value
 *
 * Whatever comes out: no crash, no read that ends well with wrong bytes, and after a repair a
 * check finds nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/log.h"
#include "store/kv.h"
#include "store/kv_check.h"

enum { CHUNKS = 3, TOKENS = 4, MAX_FILE = 1 << 20 };
static const uint64_t sizes[CHUNKS] = {100, 20000, 40000};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
    char folder[40], path[60];
    uint8_t good[MAX_FILE];
    size_t size;
} file; /* the file as it was written, made by the first input */

static void require(bool condition)
{
    if (!condition)
        abort();
}

static kv_key key_of(uint32_t i)
{
    kv_key key;
    memset(&key, (int)(i + 1), sizeof key);
    return key;
}

static uint8_t byte_of(uint32_t i, uint64_t at)
{
    return (uint8_t)(i * 77 + at * 13 + (at >> 8));
}

static kv *open_kv(void)
{
    kv_config config = {.folder = file.folder, .disk_bytes = 8u << 20};
    kv *k = NULL;
    return kv_open(&config, &k, NULL) == PAWL_OK ? k : NULL;
}

static void put(kv *k, uint32_t i, uint64_t size)
{
    int32_t tokens[TOKENS] = {(int32_t)i, 1, 2, 3};
    uint8_t *payload = malloc(size);
    require(payload != NULL);
    for (uint64_t at = 0; at < size; at++)
        payload[at] = byte_of(i, at);
    kv_chunk chunk = {.key = key_of(i),
                      .tenant = "t",
                      .begin = (uint64_t)i * TOKENS,
                      .tokens = tokens,
                      .n_tokens = TOKENS,
                      .part = 1,
                      .payload = payload,
                      .size = size};
    if (i > 0)
        chunk.parent = key_of(i - 1);
    kv_put(k, &chunk);
}

static void make_good(void)
{
    struct stat st;
    log_set_level(PAWL_LOG_ERROR + 1);
    strcpy(file.folder, "/dev/shm/pawl-kv-fuzz-XXXXXX");
    if (!mkdtemp(file.folder)) {
        strcpy(file.folder, "/tmp/pawl-kv-fuzz-XXXXXX");
        require(mkdtemp(file.folder) != NULL);
    }
    strcat(strcpy(file.path, file.folder), "/kv.db");
    kv *k = open_kv();
    require(k != NULL);
    for (uint32_t i = 0; i < CHUNKS; i++)
        put(k, i, sizes[i]);
    kv_close(k);
    int fd = open(file.path, O_RDONLY);
    require(fstat(fd, &st) == 0 && st.st_size < MAX_FILE);
    file.size = (size_t)st.st_size;
    require(read(fd, file.good, file.size) == st.st_size);
    close(fd);
}

static void write_file(const uint8_t *bytes, size_t size)
{
    int fd = open(file.path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    require(write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

static void alter_bytes(const uint8_t *data, size_t size)
{
    static uint8_t bytes[MAX_FILE];
    size_t end = file.size;
    memcpy(bytes, file.good, file.size);
    for (; size >= 4; data += 4, size -= 4) {
        size_t at = data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16;
        if (at < file.size)
            bytes[at] ^= data[3];
        else
            end /= 2;
    }
    write_file(bytes, end);
}

static void alter_row(const uint8_t *data, size_t size)
{
    static const char *const updates[] = {"UPDATE chunk SET id = ?1 WHERE id = ?2",
                                          "UPDATE chunk SET key = ?1 WHERE id = ?2",
                                          "UPDATE chunk SET parent = ?1 WHERE id = ?2",
                                          "UPDATE chunk SET tenant = ?1 WHERE id = ?2",
                                          "UPDATE chunk SET begin = ?1 WHERE id = ?2",
                                          "UPDATE chunk SET part = ?1 WHERE id = ?2",
                                          "UPDATE chunk SET tokens = ?1 WHERE id = ?2",
                                          "UPDATE chunk SET size = ?1 WHERE id = ?2",
                                          "UPDATE chunk SET sum = ?1 WHERE id = ?2",
                                          "UPDATE piece SET id = ?1 WHERE id = ?2 * 4096",
                                          "UPDATE piece SET data = ?1 WHERE id = ?2 * 4096",
                                          "UPDATE used SET hits = ?1 WHERE id = ?2",
                                          "UPDATE used SET heat = ?1 WHERE id = ?2",
                                          "UPDATE used SET at = ?1 WHERE id = ?2"};
    sqlite3 *db;
    sqlite3_stmt *s = NULL;
    int64_t number = 0;
    if (size < 3)
        return;
    size_t n = size - 3 < sizeof number ? size - 3 : sizeof number;
    if (n > 0)
        memcpy(&number, data + 3, n);
    require(sqlite3_open(file.path, &db) == SQLITE_OK);
    sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    sqlite3_prepare_v2(db, updates[data[0] % (sizeof updates / sizeof updates[0])], -1, &s, NULL);
    if (data[2] % 3 == 0)
        sqlite3_bind_int64(s, 1, number);
    else if (data[2] % 3 == 1)
        sqlite3_bind_blob(s, 1, data + 3, (int)(size - 3), SQLITE_STATIC);
    else
        sqlite3_bind_text(s, 1, (const char *)data + 3, (int)(size - 3), SQLITE_STATIC);
    sqlite3_bind_int(s, 2, data[1] % 4);
    sqlite3_step(s); /* what the table does not take stays out */
    sqlite3_finalize(s);
    sqlite3_close(db);
}

static void read_one(kv *k, uint32_t i)
{
    int32_t tokens[TOKENS] = {(int32_t)i, 1, 2, 3};
    static uint8_t data[50000];
    kv_reader *reader;
    pawl_source source;
    uint64_t got = 0, at = 0;
    kv_key key = key_of(i);
    if (kv_read(k, &key, tokens, TOKENS, &reader, &source) != PAWL_OK)
        return;
    pawl_status status = PAWL_OK;
    do {
        status = source.read(source.context, data + at, 9000, &got);
        at += status ? 0 : got;
    } while (!status && got > 0 && at <= 40000);
    for (uint64_t b = 0; !status && b < at; b++)
        require(data[b] == byte_of(i, b));
    require(status || at == sizes[i]);
    kv_read_end(reader, !status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kv_check_report report;
    if (file.size == 0)
        make_good();
    if (size == 0)
        return 0;
    for (int repair_first = 0; repair_first < 2; repair_first++) {
        write_file(file.good, file.size);
        if (data[0] % 2)
            alter_row(data + 1, size - 1);
        else
            alter_bytes(data + 1, size - 1);
        if (repair_first && kv_check(file.folder, true, NULL, NULL, &report, NULL) == PAWL_OK) {
            require(kv_check(file.folder, false, NULL, NULL, &report, NULL) == PAWL_OK);
            require(kv_check_is_clean(&report));
        }
        kv *k = open_kv();
        for (uint32_t i = 0; k && i < CHUNKS; i++)
            read_one(k, i);
        kv_close(k);
        unlink(file.path);
    }
    return 0;
}
