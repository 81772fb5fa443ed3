/*
 * script/grants.h - what a host lets a run reach beyond models and the run's own journal.
 *
 * Nothing of it is there unless whoever starts the host names it: `pawl run --docs DIR
 * --tools FILE`. One for any number of runs; outlives them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_GRANTS_H
#define SCRIPT_GRANTS_H

#include "script/docs.h"
#include "script/crew.h"
#include "script/script.h"
#include "script/tools.h"

struct script_grants {
    crew *crew;         /* who does the work                      */
    const docs *docs;   /* ctx.docs; NULL: there are no documents */
    const tools *tools; /* names for ctx:tools; NULL: there are none */
};

#endif /* SCRIPT_GRANTS_H */
