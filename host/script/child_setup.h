/*
 * script/child_setup.h - the first moments of a child process: from clone() to execve().
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_CHILD_SETUP_H
#define SCRIPT_CHILD_SETUP_H

#include "script/child.h"

#include <sys/types.h>

/* Starts the program of a spec with these standard descriptors. path: of its file. The new
 * process is the leader of its session; 0: *failed is the errno that says why not. */
pid_t child_setup_start(const child_spec *spec, const char *path, int out, int err, int *failed);

#endif /* SCRIPT_CHILD_SETUP_H */
