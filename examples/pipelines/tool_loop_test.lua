-- tool_loop_test.lua: `build/pawl test examples/pipelines`
--
-- SPDX-License-Identifier: Apache-2.0

local h = require "pawl"

local function call(name, arguments)
  return '<tool_call>\n{"name": "' .. name .. '", "arguments": ' .. arguments .. '}\n</tool_call>'
end

local multiply = call("calculator", '{"operation": "multiply", "a": 7, "b": 6}')

return h.tests {
  { name = "a tool is called and its result is read",
    params = { question = "What is 7 * 6?" },
    replies = { { when = '"result":42', text = "It is 42." }, { when = "7 * 6", text = multiply } },
    result = { answer = "It is 42.", rounds = 2 },
    calls = 2 },

  { name = "an error of a tool is an answer, too",
    params = { question = "What is 1 / 0?" },
    replies = { { when = "division by zero", text = "That cannot be." },
                { when = "1 / 0", text = call("calculator", '{"operation": "divide", "a": 1, "b": 0}') } },
    result = { answer = "That cannot be.", rounds = 2 } },

  { name = "wrong arguments are told to the model",
    params = { question = "Use it." },
    replies = { { when = "the arguments are wrong", text = "I see." }, { when = "Use it", text = call("calculator", '{"a": 1}') } },
    result = { answer = "I see." } },

  { name = "a model that repeats itself is stopped",
    params = { question = "Again." },
    replies = { { when = "same call repeated", text = "Enough." }, { text = multiply } },
    check = function(outcome)
      assert(outcome.result.answer == "Enough." and outcome.calls == 4, h.json(outcome.result))
    end },

  { name = "tools of the host's",
    params = { question = "Shout hello.", tools = "shout" },
    tools = { { name = "shout", description = "Makes a text loud.", command = { "tr", "a-z", "A-Z" },
                parameters = { type = "object", properties = { text = { type = "string" } } } } },
    replies = { { when = '"TEXT":"HELLO"', text = "HELLO it is." }, { when = "Shout", text = call("shout", '{"text": "hello"}') } },
    result = { answer = "HELLO it is.", rounds = 2 } },

  { name = "a tool that nobody has",
    params = { question = "x", tools = "nothing" },
    error = "no tool is named 'nothing'" },
}
