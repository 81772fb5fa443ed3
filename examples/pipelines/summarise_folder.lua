-- summarise_folder.lua: a summary of every document below a folder, and one of them all
--
--   build/pawl run examples/pipelines/summarise_folder.lua --model PATH --docs DIR > summaries.jsonl
--
-- PDF, HTML, Markdown and text. Each document's summary is a line {"type":"document",…} as soon
-- as it is there, each that could not be read a line "failed" with the reason; the last line is
-- the report. A run that is killed goes on with `pawl run --resume RUN`: no generation is made
-- twice, no document told twice. Files that came or changed since are taken too; those that
-- failed are tried again with `--resume RUN --param retry_failed=true`. Give --model and --docs
-- again each time.
--
-- SPDX-License-Identifier: Apache-2.0

local h = require "pawl"

-- A key for a text: 64 bits of FNV-1a.
local function fingerprint(text)
  local n = 0xcbf29ce484222325
  for i = 1, #text do n = (n ~ text:byte(i)) * 0x100000001b3 end
  return ("%016x"):format(n)
end

local function summarise(base, text, words)
  local s = base:fork() -- shares the instruction's state
  s:add { role = "user", content = "<doc>\n" .. text .. "\n</doc>\nSummarise in at most " .. words .. " words." }
  local r, err = s:generate { max_tokens = words * 2, temperature = 0, priority = "batch", cache = false }
  s:drop()
  if not r then return nil, err end
  if r.finish == "length" then return r.text .. " [cut]" end
  return r.text
end

-- Parts that fit the window together, in order.
local function group(ctx, parts, room)
  local groups, used = {}, room
  for _, part in ipairs(parts) do
    local n = ctx:tokens(part) + 2
    if used + n > room then
      groups[#groups + 1] = {}
      used = 0
    end
    table.insert(groups[#groups], part)
    used = used + n
  end
  return groups
end

-- One summary of many texts: of groups of them, then of those, until one is left.
local function reduce(ctx, base, parts, words, room)
  while #parts > 1 do
    local groups = group(ctx, parts, room)
    if #groups == #parts then -- no two fit together: shorter ones do
      for i, part in ipairs(parts) do parts[i] = ctx:clip(part, { max_tokens = room // 2 - 2 }) end
      groups = group(ctx, parts, room)
    end
    local summaries, err = ctx:map(groups, function(members)
      if #members == 1 then return members[1] end
      local text = table.concat(members, "\n\n")
      return ctx:step("reduce:" .. words .. ":" .. fingerprint(text), function() return summarise(base, text, words) end)
    end, { parallel = 4 })
    if not summaries then return nil, err end
    parts = summaries
  end
  return parts[1] or ""
end

-- The summary of one document: of its pieces, where it does not fit the window.
local function read_document(ctx, base, doc, words, room)
  local text, err = ctx:retry({ tries = 3, backoff_ms = 500 }, function()
    return ctx.docs:text(doc.path, { max_mb = 64, timeout_ms = 60000 })
  end)
  if not text then return nil, err end
  local pieces = ctx:chunk(text, { max_tokens = room, split = "paragraph" })
  local parts, failure = ctx:map(pieces, function(piece, i)
    return ctx:step(doc.sha256 .. "#" .. i .. ":" .. words, function()
      ctx:log("debug", "summarises", { path = doc.path, piece = i })
      return ctx:retry({ tries = 3, backoff_ms = 1000 }, function() return summarise(base, piece, words) end)
    end)
  end, { parallel = 4 })
  if not parts then return nil, failure end
  return reduce(ctx, base, parts, words, room)
end

-- What became of a document. A failure is kept like a summary, so that a run that goes on repeats
-- nothing; with retry_failed the first attempt that was not made yet is made.
local function document(ctx, base, doc, input, words, room)
  local row
  for attempt = 1, 100 do
    local fresh = false
    local key = "doc:" .. fingerprint(doc.path) .. ":" .. (doc.sha256 or "?") .. ":" .. words .. ":" .. attempt
    row = ctx:step(key, function()
      fresh = true
      local summary, err = read_document(ctx, base, doc, words, room)
      local made = { path = doc.path, summary = summary }
      if not summary then made.error = { code = err.code, message = err.message } end
      ctx:emit(summary and "document" or "failed", made) -- kept with the step: told once
      return made
    end)
    if not (row and row.error and input.retry_failed) or fresh then break end
  end
  return row or { path = doc.path, error = { code = "store", message = "its summary could not be kept" } }
end

return h.pipeline {
  name        = "summarise_folder",
  description = "Summarises every document below the folder that is given with --docs.",
  params = { type = "object", additionalProperties = false,
             properties = {
               folder       = { type = "string", description = "below --docs; without it all of that" },
               words        = { type = "integer", minimum = 20, maximum = 400, description = "of a summary; 100" },
               parallel     = { type = "integer", minimum = 1, maximum = 32, description = "documents at once; 8" },
               overview     = { type = "boolean", description = "whether to summarise the summaries, too; true" },
               retry_failed = { type = "boolean", description = "with --resume: try those again that failed" } } },
  limits = { wall_s = 7 * 24 * 3600, tokens = 1e9, mem_mb = 256 },

  run = function(ctx, input)
    local words = input.words or 100
    local base  = ctx:session()
    base:add { role = "system", content = "You summarise documents. State only what the text says." }
    local room  = ctx:window() - base:tokens() - words * 2 - 64
    if room < 200 then return nil, { message = "the model's context is too small for summaries of so many words" } end

    local docs, err = ctx.docs:list(input.folder, { sort = "name",
      match = { "%.[pP][dD][fF]$", "%.[hH][tT][mM][lL]?$", "%.md$", "%.markdown$", "%.txt$" } })
    if not docs then return nil, err end
    ctx:log("info", #docs .. " documents")

    local done = 0
    local rows = ctx:map(docs, function(doc)
      local row = document(ctx, base, doc, input, words, room)
      done = done + 1
      ctx:progress(done, #docs, #doc.path <= 100 and doc.path or "")
      return row
    end, { parallel = input.parallel or 8 })

    local lines, failed = {}, {}
    for _, row in ipairs(rows) do
      if row.summary then
        lines[#lines + 1] = row.path .. ": " .. row.summary
      else
        failed[#failed + 1] = { path = row.path, code = row.error.code, reason = row.error.message }
      end
    end
    local report = { documents = #docs, summarised = #lines, failed = h.array(failed) }
    for i, row in ipairs(failed) do
      if i > 20 then ctx:log("warn", "and " .. #failed - 20 .. " more") break end
      ctx:log("warn", "failed: " .. row.reason)
    end
    if #lines > 0 and input.overview ~= false then
      report.overview, err = reduce(ctx, base, lines, words, room)
      if not report.overview then return nil, err end
    end
    return report
  end,
}
