-- haiku.lua: a haiku for each subject, and the one that the model likes best
--
--   build/pawl run examples/pipelines/haiku.lua --model PATH --param subjects=rain,moss,rust
--
-- SPDX-License-Identifier: Apache-2.0

local h = require "pawl"

local function split(text)
  local parts = {}
  for part in text:gmatch("[^,]+") do parts[#parts + 1] = part end
  return parts
end

return h.pipeline {
  name = "haiku",
  params = { type = "object", additionalProperties = false,
             properties = { subjects = { type = "string", minLength = 1, maxLength = 1000 } } },
  limits = { wall_s = 600, tokens = 50000 },

  run = function(ctx, input)
    local subjects = split(input.subjects or "rain,moss,rust")
    local poet = ctx:session() -- one beginning for all; a fork costs nothing
    poet:add { role = "system", content = "You write haiku: three short lines. Only the poem, no words around it." }

    local done = 0
    local poems, err = ctx:map(subjects, function(subject)
      local poem, failure = ctx:step("haiku:" .. subject, function()
        local s = poet:fork()
        s:add { role = "user", content = "A haiku about " .. subject .. "." }
        local reply, failure = s:generate { max_tokens = 40, temperature = 0.8, seed = 1 }
        if not reply then return nil, failure end
        ctx:emit("haiku", { subject = subject, text = reply.text, tokens = reply.usage.output_tokens })
        return reply.text
      end)
      if not poem then return nil, failure end
      done = done + 1
      ctx:progress(done, #subjects, subject)
      return poem
    end, { parallel = 3 })
    if not poems then return nil, err end

    local list, numbers = {}, {}
    for i, poem in ipairs(poems) do
      list[i] = i .. ".\n" .. poem
      numbers[i] = tostring(i)
    end
    local judge = ctx:session()
    judge:add { role = "system", content = "You judge poems. Answer with one number." }
    judge:add { role = "user", content = "Which haiku is best?\n\n" .. table.concat(list, "\n\n") }
    local choice, scores = judge:select { choices = numbers }
    if not choice then return nil, scores end
    return { best = subjects[tonumber(choice)], scores = scores }
  end,
}
