-- tool_loop.lua: answers a question, letting the model call tools until it stops
--
--   build/pawl run examples/pipelines/tool_loop.lua --model PATH --param question="What is 7 * 6?"
--
-- With tools of the host's, which a file describes (README.md has its form), beside the calculator:
--
--   build/pawl run … --tools tools.json --param tools=clock,search
--
-- The session that it returns can be given to the next run (--param session=resp_…), or to
-- the API as previous_response_id.
--
-- SPDX-License-Identifier: Apache-2.0

local h = require "pawl"

local operations = {
  add = function(a, b) return a + b end,
  subtract = function(a, b) return a - b end,
  multiply = function(a, b) return a * b end,
  divide = function(a, b) return a / b end,
}

local calculator = {
  name = "calculator",
  description = "Calculates with two numbers.",
  parameters = { type = "object", required = { "operation", "a", "b" },
                 properties = { operation = { type = "string", enum = { "add", "subtract", "multiply", "divide" } },
                                a = { type = "number" }, b = { type = "number" } } },
  run = function(args)
    if args.operation == "divide" and args.b == 0 then
      return nil, { code = "zero", message = "division by zero", retryable = false }
    end
    return { result = operations[args.operation](args.a, args.b) }
  end,
}

return h.pipeline {
  name   = "tool_loop",
  params = { type = "object", required = { "question" },
             properties = { question = { type = "string", maxLength = 20000 },
                            session  = { type = "string" },
                            tools    = { type = "string", description = "names of --tools FILE, with commas" } } },
  limits = { wall_s = 180, tokens = 24000, tool_calls = 16, mem_mb = 32 },

  run = function(ctx, input)
    local chat  = ctx:session(input.session)      -- resumes one that is stored
    local names = { calculator }
    for name in (input.tools or ""):gmatch("[^, ]+") do names[#names + 1] = name end
    local tools = ctx:tools(names)
    if chat:empty() then
      chat:add { role = "system", content = "Use tools for facts. Answer briefly." }
    end
    chat:add { role = "user", content = input.question }

    local seen = {}                               -- stops a model that repeats itself
    for round = 1, 8 do
      local reply, err = ctx:retry({ tries = 3, backoff_ms = 200 }, function()
        return chat:generate { tools = tools, tool_choice = "auto", max_tokens = 800,
                               stream = true, priority = "interactive" }
      end)
      if not reply then return nil, err end
      if reply.finish == "length" and #reply.tool_calls > 0 then
        chat:rollback(reply.mark)                 -- a cut-off call never enters history
        chat:add { role = "user", content = "Your last tool call was cut off. Make it shorter." }
      elseif #reply.tool_calls == 0 then
        return { answer = reply.text, rounds = round, session = chat.id }
      else
        local results = ctx:map(reply.tool_calls, function(call)
          local sig = call.name .. "\0" .. call.arguments_json
          seen[sig] = (seen[sig] or 0) + 1
          if seen[sig] > 2 then
            return { call = call, body = { error = "same call repeated; answer with what you have" } }
          end
          if not call.arguments then              -- JSON the model got wrong
            return { call = call, body = { error = "arguments are not valid JSON: " .. call.parse_error } }
          end
          local out, terr = ctx:step("tool:" .. call.id, function()
            return ctx:tool(call.name, call.arguments, { timeout_ms = 15000 })
          end)
          return { call = call, body = out or { error = terr.message, retryable = terr.retryable } }
        end, { parallel = 4 })
        for _, r in ipairs(results) do            -- every call gets exactly one answer, in order
          chat:add { role = "tool", tool_call_id = r.call.id,
                     content = ctx:clip(h.json(r.body), { max_tokens = 1500 }) }
        end
        ctx:progress(round, 8, #results .. " tool result(s)")
      end
    end
    local last = chat:generate { tools = {}, max_tokens = 600, stream = true }
    return { answer = last and last.text or "", rounds = 8, stopped = "round_limit", session = chat.id }
  end,
}
