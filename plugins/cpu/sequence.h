/*
 * cpu/sequence.h - what submit and state need of sequences beside the ABI's calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CPU_SEQUENCE_H
#define CPU_SEQUENCE_H

#include "cpu/engine.h"

/* Makes room for n_tokens more: ids, and pages that nobody else can see. The
 * length stays. PAWL_E_LIMIT, PAWL_E_MEMORY: the sequence is as before. */
pawl_status sequence_prepare(pawl_sequence *s, uint64_t n_tokens, pawl_error *error);

/* Gives back the pages beyond the first `keep`. */
void sequence_trim(pawl_sequence *sequence, uint32_t keep);

#endif /* CPU_SEQUENCE_H */
