/*
 * tests/plugins/liar/liar.h - the replay plugin, with one promise broken.
 *
 * PAWL_TEST_LIE names the lie; check_lies.sh lists them all with the rule of the
 * conformance kit that must name each. Not set: its entry has another id than its
 * manifest.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LIAR_H
#define LIAR_H

#include "replay/replay.h"

bool lie(const char *name); /* is it the one to tell? */

extern const pawl_engine_api liar_engine;
extern const pawl_engine_api liar_engine_with_a_hole;
extern const pawl_tokenizer_api liar_tokenizer;
extern const pawl_chat_api liar_chat;

#endif /* LIAR_H */
