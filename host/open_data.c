/*
 * host/open_data.c - the data folder, for commands that keep something. See open_data.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "open_data.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

char *open_data_folder(const char *given)
{
    const char *base = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (given)
        return strdup(given);
    if (base && base[0])
        return file_join(base, "pawl");
    return home && home[0] ? file_join(home, ".local/share/pawl") : NULL;
}
