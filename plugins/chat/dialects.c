/*
 * chat/dialects.c - the tables of all dialects.
 *
 * The texts are facts about models: each is what the model's own chat template
 * prints (SmolLM2, Qwen2.5, Qwen3) or what its card says it was trained on
 * (the function calling prompt of SmolLM2).
 *
 * Constant data, shared by all threads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat/dialect.h"

#include <string.h>

#define IM_START "<|im_start|>"
#define IM_END "<|im_end|>"

#define CHATML_TURNS                                                                               \
    .turn_begin = IM_START, .role_end = "\n", .turn_end = IM_END "\n", .names_roles = true

/* ----------------------------------------------------------------- styles -- */

static const struct prompt_style chatml_style = {CHATML_TURNS, .refuses_tools = true};

static const struct prompt_style plain_style = {.turn_join = "\n", .refuses_tools = true};

#define SMOLLM2_SYSTEM "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

/* As the template has it: whoever sends tools writes them into the system prompt. */
static const struct prompt_style smollm2_style = {
    CHATML_TURNS,
    .default_system = SMOLLM2_SYSTEM,
    .default_tools_system = SMOLLM2_SYSTEM,
    .refuses_parts = true,
};

static const struct prompt_style smollm2_tools_style = {
    CHATML_TURNS,
    .default_system = SMOLLM2_SYSTEM,
    .tools_join = "\n\n",
    .tools_begin =
        "You are an expert in composing functions. You are given a question and a set of possible "
        "functions. \nBased on the question, you will need to make one or more function/tool calls "
        "to achieve the purpose. \nIf none of the functions can be used, point it out and refuse "
        "to answer. \nIf the given question lacks the parameters required by the function, also "
        "point it out.\n\nYou have access to the following tools:\n<tools>[",
    .tool_join = ", ",
    .tools_end =
        "]</tools>\n\nThe output MUST strictly adhere to the following format, and NO other text "
        "MUST be included.\nThe example format is as follows. Please make sure the parameter type "
        "is correct. If no function call is needed, please make the tool calls an empty list "
        "'[]'.\n<tool_call>[\n{\"name\": \"func_name1\", \"arguments\": {\"argument1\": "
        "\"value1\", \"argument2\": \"value2\"}},\n... (more tool calls as "
        "required)\n]</tool_call>",
    .calls_join = "\n",
    .calls_begin = "<tool_call>[",
    .call_begin = "{\"name\": \"",
    .call_arguments = "\", \"arguments\": ",
    .call_end = "}",
    .call_join = ", ",
    .calls_end = "]</tool_call>",
    .string_arguments = true,
};

#define HERMES_TOOLS                                                                               \
    .tools_begin = "# Tools\n\nYou may call one or more functions to assist with the user "        \
                   "query.\n\nYou are provided with function signatures within <tools></tools> "   \
                   "XML tags:\n<tools>",                                                           \
    .tool_begin = "\n",                                                                            \
    .tools_end = "\n</tools>\n\nFor each function call, return a json object with function name "  \
                 "and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"           \
                 "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>",   \
    .tools_join = "\n\n", .calls_join = "\n", .calls_begin = "",                                   \
    .call_begin = "<tool_call>\n{\"name\": \"",                                                    \
    .call_arguments = "\", \"arguments\": ", .call_end = "}\n</tool_call>", .call_join = "\n",     \
    .results_role = "user", .result_begin = "<tool_response>\n",                                   \
    .result_end = "\n</tool_response>", .result_join = "\n"

#define QWEN25_SYSTEM "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."

static const struct prompt_style hermes_style = {
    CHATML_TURNS,
    HERMES_TOOLS,
    .default_system = QWEN25_SYSTEM,
    .default_tools_system = QWEN25_SYSTEM,
    .refuses_parts = true,
};

static const struct prompt_style qwen3_style = {
    CHATML_TURNS,
    HERMES_TOOLS,
    .string_arguments = true,
    .thought_begin = "<think>\n",
    .thought_end = "\n</think>\n\n",
    .no_thought = "<think>\n\n</think>\n\n",
    .refuses_parts = true,
};

/* ------------------------------------------------------------------ rules -- */

#define CALL_RULES                                                                                 \
    {REPLY_START, "<tool_call>", REPLY_CALL, true},                                                \
        {REPLY_ANSWER_START, "<tool_call>", REPLY_CALL, true},                                     \
        {REPLY_ANSWER, "<tool_call>", REPLY_CALL, true},                                           \
        {REPLY_AFTER_CALL, "<tool_call>", REPLY_CALL, true},                                       \
        {REPLY_CALL_CLOSE, "<tool_call>", REPLY_CALL, true},                                       \
        {REPLY_CALL_CLOSE, "</tool_call>", REPLY_AFTER_CALL, true},                                \
        {REPLY_CALL_JUNK, "</tool_call>", REPLY_AFTER_CALL, true},                                 \
    {                                                                                              \
        REPLY_CALL_BAD, "</tool_call>", REPLY_AFTER_CALL, true                                     \
    }

static const struct reply_rule no_rules[] = {{REPLY_START, NULL, REPLY_START, false}};

static const struct reply_rule smollm2_rules[] = {
    CALL_RULES,
    {REPLY_START, NULL, REPLY_START, false},
};

static const struct reply_rule hermes_rules[] = {
    {REPLY_START, "<think>", REPLY_THOUGHT_START, false},
    {REPLY_THOUGHT_START, "<think>", REPLY_THOUGHT_START, false},
    {REPLY_THOUGHT_START, "</think>", REPLY_ANSWER_START, false},
    {REPLY_THOUGHT, "</think>", REPLY_ANSWER_START, false},
    CALL_RULES,
    {REPLY_START, NULL, REPLY_START, false},
};

/* --------------------------------------------------------------- the rows -- */

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *const chatml_stop[] = {IM_END, "<|endoftext|>", NULL};
static const char *const plain_stop[] = {"<|endoftext|>", NULL};

const struct dialect chat_dialects[] = {
    {
        .name = "smollm2-tools",
        .needs = LIST(IM_START, "named SmolLM,"),
        .lacks = LIST("tool", "<think>"),
        .stop = chatml_stop,
        .style = &smollm2_tools_style,
        .rules = smollm2_rules,
        .converter = &convert_json,
    },
    {
        .name = "smollm2",
        .stop = chatml_stop,
        .style = &smollm2_style,
        .rules = smollm2_rules,
        .converter = &convert_json,
    },
    {
        .name = "hermes",
        .needs = LIST(IM_START, QWEN25_SYSTEM, "<tool_call>\\n{\\\"name\\\""),
        .lacks = LIST("<think>", "<function="),
        .family = "qwen2",
        .stop = chatml_stop,
        .style = &hermes_style,
        .rules = hermes_rules,
        .converter = &convert_json,
    },
    {
        .name = "qwen3",
        .needs = LIST(IM_START, "<tool_call>\\n{\\\"name\\\"", "last_query_index",
                      "enable_thinking is false"),
        .lacks = LIST("<function=", "You are a ", "You are Qwen"),
        .family = "qwen3",
        .stop = chatml_stop,
        .style = &qwen3_style,
        .rules = hermes_rules,
        .converter = &convert_json,
    },
    {
        .name = "chatml",
        .needs = LIST(IM_START, IM_END),
        .lacks = LIST("tool", "think", "You are", "<|start_header_id|>"),
        .stop = chatml_stop,
        .style = &chatml_style,
        .rules = no_rules,
    },
    {
        .name = "plain",
        .stop = plain_stop,
        .style = &plain_style,
        .rules = no_rules,
    },
};

const unsigned chat_n_dialects = sizeof chat_dialects / sizeof *chat_dialects;

/* ----------------------------------------------------------------- choice -- */

static bool contains(pawl_bytes text, const char *needle)
{
    return memmem(text.data, (size_t)text.size, needle, strlen(needle)) != NULL;
}

static bool equal(pawl_bytes text, const char *string)
{
    return string && text.size == strlen(string) && memcmp(text.data, string, text.size) == 0;
}

const struct dialect *dialect_named(pawl_bytes name)
{
    for (unsigned i = 0; i < chat_n_dialects; i++)
        if (equal(name, chat_dialects[i].name))
            return &chat_dialects[i];
    return NULL;
}

static bool recognises(const struct dialect *dialect, pawl_bytes text)
{
    if (!dialect->needs)
        return false;
    for (const char *const *word = dialect->needs; *word; word++)
        if (!contains(text, *word))
            return false;
    for (const char *const *word = dialect->lacks; word && *word; word++)
        if (contains(text, *word))
            return false;
    return true;
}

const struct dialect *dialect_of_template(pawl_bytes text)
{
    for (unsigned i = 0; i < chat_n_dialects; i++)
        if (recognises(&chat_dialects[i], text))
            return &chat_dialects[i];
    return NULL;
}

const struct dialect *dialect_of_family(pawl_bytes family)
{
    for (unsigned i = 0; i < chat_n_dialects; i++)
        if (equal(family, chat_dialects[i].family))
            return &chat_dialects[i];
    return NULL;
}
