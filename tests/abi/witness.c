/*
 * tests/abi/witness.c - shows abidw every type of the ABI.
 *
 * The tables travel as const void *, so a compiler's debug information of a plugin
 * does not tie them to any exported symbol. One exported function for each public
 * struct and enum does. Compiled as each released minor sees the header
 * (-DPAWL_ABI_MINOR=N). A new public type gets a line here.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <pawl/plugin.h>

#define WITNESS(type)                                                                              \
    PAWL_EXPORT const void *witness_##type(const type *value);                                     \
    const void *witness_##type(const type *value)                                                  \
    {                                                                                              \
        return value;                                                                              \
    }
#define WITNESS_ENUM(type)                                                                         \
    PAWL_EXPORT int witness_##type(enum type value);                                               \
    int witness_##type(enum type value)                                                            \
    {                                                                                              \
        return (int)value;                                                                         \
    }

WITNESS(pawl_bytes)
WITNESS(pawl_sink)
WITNESS(pawl_source)
WITNESS(pawl_error)
WITNESS(pawl_host)
WITNESS(pawl_plugin)
WITNESS(pawl_engine_config)
WITNESS(pawl_engine_info)
WITNESS(pawl_sampling)
WITNESS(pawl_slot)
WITNESS(pawl_engine_api)
WITNESS(pawl_segment)
WITNESS(pawl_tokenizer_info)
WITNESS(pawl_tokenizer_api)
WITNESS(pawl_chat_event)
WITNESS(pawl_chat_emit)
WITNESS(pawl_chat_api)
WITNESS_ENUM(pawl_status_code)
WITNESS_ENUM(pawl_log_level)
WITNESS_ENUM(pawl_metric_type)
WITNESS_ENUM(pawl_plugin_flag)
WITNESS_ENUM(pawl_engine_feature)
WITNESS_ENUM(pawl_slot_flag)
WITNESS_ENUM(pawl_state_part)
WITNESS_ENUM(pawl_segment_kind)
WITNESS_ENUM(pawl_token_flag)
WITNESS_ENUM(pawl_chat_event_type)

PAWL_EXPORT const pawl_plugin *pawl_plugin_entry_v1(void)
{
    return NULL;
}
