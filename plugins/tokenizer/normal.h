/*
 * tokenizer/normal.h - Unicode normalisation form C, for families that need it.
 *
 * Pure functions: any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TOKENIZER_NORMAL_H
#define TOKENIZER_NORMAL_H

#include "tokenizer/classes.h"

/* *normal: the text in NFC, to be given to free(), or NULL where the text is in NFC
 * as it is. Bytes that are not UTF-8 stay as they are. */
pawl_status normal_nfc(const struct classes *classes, const uint8_t *text, size_t size,
                       uint8_t **normal, size_t *normal_size, pawl_error *error);

#endif /* TOKENIZER_NORMAL_H */
