/*
 * host/open_grants.h - the options that say what pipelines may reach: --docs and --tools.
 *
 * The argp parser is a child of the command's own, like that of open_models.h:
 * state->child_inputs[1] = &grants. [main]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_OPEN_GRANTS_H
#define HOST_OPEN_GRANTS_H

#include "script/grants.h"

#include <argp.h>

typedef struct open_grants {
    const char *docs_folder; /* or NULL */
    const char *tools_file;  /* or NULL */
    docs docs;
    tools *tools;
    script_grants grants; /* what runs get, once opened */
} open_grants;

extern const struct argp open_grants_argp;

pawl_status open_grants_open(open_grants *o, pawl_error *error);
/* After the last run. One that was not opened is closed, too. */
void open_grants_close(open_grants *o);

#endif /* HOST_OPEN_GRANTS_H */
