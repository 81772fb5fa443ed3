/*
 * store/items.h - what the JSON of a row must be, for those who check rows.
 *
 * The store itself does not look inside; who checks a file or reads one from elsewhere
 * does, so that what a server finds later is what a server writes. Pure; [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_ITEMS_H
#define STORE_ITEMS_H

#include "base/json.h"

bool items_status_ok(const char *status); /* one that a finished response has */
bool items_object_ok(const char *text);   /* a JSON object                    */
bool items_list_ok(const char *text);     /* an array of items                */
/* The same for what is parsed already: objects that have a type and an id. */
bool items_are_ok(const cJSON *list);

#endif /* STORE_ITEMS_H */
