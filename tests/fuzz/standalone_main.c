/*
 * tests/fuzz/standalone_main.c - runs a fuzz target over files, without libFuzzer.
 *
 *   NAME_fuzz PATH...      each PATH a file, or a folder of files
 *
 * So that every compiler's build, and every sanitizer's, tries the corpora: a crash
 * that was once found stays found. Each input lies in a block of its own exact size,
 * where a sanitizer sees a read past its end. One thread; owns one input at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_FILE_SIZE (64l << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (file && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    if (size < 0 || size > MAX_FILE_SIZE || fseek(file, 0, SEEK_SET)) {
        fprintf(stderr, "%s cannot be read, or has more than %ld bytes\n", path, MAX_FILE_SIZE);
        if (file)
            fclose(file);
        return -1;
    }
    uint8_t *data = malloc(size ? (size_t)size : 1);
    if (!data || fread(data, 1, (size_t)size, file) != (size_t)size) {
        fprintf(stderr, "%s cannot be read into memory\n", path);
        free(data);
        fclose(file);
        return -1;
    }
    fclose(file);
    (void)LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 1;
}

/* How many files were run, or -1. */
static int run_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return run_file(path);
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, NULL, alphasort);
    int done = n < 0 ? -1 : 0;
    if (n < 0)
        fprintf(stderr, "%s cannot be read\n", path);
    for (int i = 0; i < n; i++) {
        char name[4096];
        int length = snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        bool whole = length > 0 && (size_t)length < sizeof name;
        if (done >= 0 && entries[i]->d_name[0] != '.') {
            int got = whole ? run_path(name) : -1;
            done = got < 0 ? -1 : done + got;
        }
        free(entries[i]);
    }
    free(entries);
    return done;
}

int main(int argc, char **argv)
{
    int done = 0;
    for (int i = 1; i < argc; i++) {
        int got = run_path(argv[i]);
        if (got < 0)
            return 1;
        done += got;
    }
    printf("%d inputs\n", done);
    return done ? 0 : 1; /* an empty corpus tests nothing */
}
