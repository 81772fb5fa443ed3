/*
 * failing_io.h - a disk that fails when it is told to.
 *
 * A program that links failing_io.c has its own pwrite(), fsync() and
 * fdatasync(): the dynamic linker gives them to the libraries too, so SQLite's own
 * calls pass through here. Nothing else is touched.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FAILING_IO_H
#define FAILING_IO_H

#include <stdbool.h>
#include <stdint.h>

enum failing_io_kind {
    FAILING_IO_WRITE, /* pwrite: half of the bytes are written  */
    FAILING_IO_FLUSH  /* fsync and fdatasync                    */
};

/* The n-th call of that kind from now fails with that errno; with `stays`, all later
 * ones do too. */
void failing_io_arm(enum failing_io_kind kind, int n, int error, bool stays);
/* Writes that end beyond this offset of any file fail with ENOSPC. */
void failing_io_fill(int64_t offset);
/* Everything works again. Returns how many calls have failed since it was armed. */
int failing_io_disarm(void);

#endif /* FAILING_IO_H */
