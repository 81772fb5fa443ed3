/*
 * power_cut.h - a disk whose power goes, under SQLite.
 *
 * A file system (sqlite3_vfs) between SQLite and the real one. It remembers for each file
 * what has been flushed and, one by one, what was written since. When the power goes,
 * every later call fails; power_cut_restore() then leaves in each file what a disk might:
 * all that was flushed, and of the rest any part, in any order of 512-byte sectors.
 *
 *     power_cut_install();                      once
 *     power_cut_arm(n);                         the n-th write or flush is the last
 *     ... the program under test, until it has closed its connections ...
 *     power_cut_restore(&seed);                 the next morning
 *
 * What it does not play: directory entries that are lost (a new file is there once it was
 * flushed), and flushes that lie.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef POWER_CUT_H
#define POWER_CUT_H

#include <stdbool.h>

void power_cut_install(void);
/* From now on, n more writes and flushes; 0: the power stays. */
void power_cut_arm(int n);
bool power_cut_happened(void);
/* Puts the files into the state after a cut, whether or not it happened, and forgets them. No
 * connection may be open. Returns how many writes had not been flushed. */
int power_cut_restore(unsigned *seed);

#endif /* POWER_CUT_H */
