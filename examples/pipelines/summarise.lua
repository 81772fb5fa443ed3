-- summarise.lua: map-reduce summaries of documents that do not fit the model's window
--
--   build/pawl run examples/pipelines/summarise.lua --model PATH --params-json docs.json
--
-- where docs.json is {"docs":[{"name":…,"text":…},…]}. A run that is killed goes on with
-- pawl run --resume RUN; what was summarised is not summarised again.
--
-- SPDX-License-Identifier: Apache-2.0

local h = require "pawl"

local function summarise(base, text, words)
  local s = base:fork()                            -- shares the instruction's state
  s:add { role = "user", content = "<doc>\n" .. text .. "\n</doc>\nSummarise in at most " .. words .. " words." }
  local r, err = s:generate { max_tokens = words * 2, temperature = 0, priority = "batch" }
  s:drop()
  if not r then return nil, err end
  if r.finish == "length" then return r.text .. " [cut]" end
  return r.text
end

local function reduce(ctx, base, parts, words, room)
  while #parts > 1 do                              -- tree reduction inside the token window
    local groups, group, used = {}, {}, 0
    for _, p in ipairs(parts) do
      local n = ctx:tokens(p)
      if #group > 0 and used + n > room then groups[#groups + 1] = group; group, used = {}, 0 end
      group[#group + 1], used = p, used + n
    end
    groups[#groups + 1] = group
    if #groups == #parts then                      -- nothing fits together: shorten instead of looping
      for i, p in ipairs(parts) do parts[i] = ctx:clip(p, { max_tokens = room // 2 }) end
    end
    local summaries, err = ctx:map(groups, function(g)
      if #g == 1 then return g[1] end
      return summarise(base, table.concat(g, "\n\n"), words)
    end, { parallel = 4, on_error = "stop" })
    if not summaries then return nil, err end
    parts = summaries
  end
  return parts[1] or ""
end

return h.pipeline {
  name   = "summarise",
  params = { type = "object", required = { "docs" },
             properties = {
               docs = { type = "array", maxItems = 10000, items = {
                 type = "object", required = { "name", "text" },
                 properties = { name = { type = "string", maxLength = 200 }, text = { type = "string" } } } },
               words = { type = "integer", minimum = 20, maximum = 400 } } },
  limits = { wall_s = 6 * 3600, tokens = 4e6, mem_mb = 64 },

  run = function(ctx, input)
    local words = input.words or 120
    local base  = ctx:session()
    base:add { role = "system", content = "You summarise documents. State only what the text says." }
    local room  = ctx:window() - base:tokens() - words * 2 - 64
    local done, failed = 0, {}

    local rows = ctx:map(input.docs, function(doc, i)
      local row, err = ctx:step("doc:" .. i .. ":" .. doc.name, function()
        if not doc.text:find("%S") then return { name = doc.name, error = "no text" } end
        local parts = {}
        for k, piece in ipairs(ctx:chunk(doc.text, { max_tokens = room, split = "paragraph" })) do
          local sum, serr = ctx:step("doc:" .. i .. "#" .. k, function() return summarise(base, piece, words) end)
          if not sum then return nil, serr end
          parts[k] = sum
        end
        local summary, rerr = reduce(ctx, base, parts, words, room)
        if not summary then return nil, rerr end
        local row = { name = doc.name, summary = summary }
        ctx:emit("document", row)                  -- kept with the step: told once
        return row
      end)
      row = row or { name = doc.name, error = err.message }
      done = done + 1
      if row.error then failed[#failed + 1] = row end
      ctx:progress(done, #input.docs, doc.name)
      return row
    end, { parallel = 4, on_error = "collect" })

    local lines = {}
    for _, r in ipairs(rows) do if r.summary then lines[#lines + 1] = r.name .. ": " .. r.summary end end
    local overview, err = ctx:step("overview", function() return reduce(ctx, base, lines, words * 2, room) end)
    if not overview then return nil, err end
    return { documents = #input.docs, summarised = done - #failed, failed = h.array(failed), overview = overview }
  end,
}
