/*
 * chat/chat.h - the plugin's pawl.chat/1 table.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHAT_CHAT_H
#define CHAT_CHAT_H

#include <pawl/plugin.h>

extern const pawl_chat_api chat_api;

#endif /* CHAT_CHAT_H */
