-- haiku.lua: a haiku for each subject, and the one that the model likes best
--
--   build/pawl run examples/pipelines/haiku.lua --model PATH --param subjects=rain,moss,rust
--
-- SPDX-License-Identifier: Apache-2.0

local subjects = {}
for subject in (pawl.params.subjects or "rain,moss,rust"):gmatch("[^,]+") do
  subjects[#subjects + 1] = subject
end

-- One beginning for all; a fork costs nothing.
local poet = pawl.session { system = "You write haiku: three short lines. Only the poem, no words around it." }

local done = 0
local poems, err = pawl.map(subjects, function(subject)
  local reply, failure = poet:fork():generate {
    text = "A haiku about " .. subject .. ".",
    max_tokens = 40,
    temperature = 0.8,
    seed = 1,
  }
  if not reply then return nil, failure end
  done = done + 1
  pawl.progress(done, #subjects, subject)
  pawl.emit { subject = subject, haiku = reply.text, tokens = reply.usage }
  return reply.text
end, { parallel = 3 })
if not poems then return nil, err end

local list = {}
for i, poem in ipairs(poems) do list[i] = i .. ".\n" .. poem end
local judge = pawl.session { system = "You judge poems. Answer with one number." }
local verdict, failure = judge:generate {
  text = "Which haiku is best?\n\n" .. table.concat(list, "\n\n"),
  max_tokens = 8,
  temperature = 0,
}
if not verdict then return nil, failure end

local number = tonumber(verdict.text:match("%d+"))
return { best = subjects[number] or pawl.json.null, verdict = verdict.text }
