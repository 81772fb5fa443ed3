-- lua/pawl.lua - the part of a pipeline's library that is written in Lua.
--
-- Compiled into the program and run once in each state, before the script, with the
-- functions of host/script that scripts do not see (core), and the tables ctx and h. It runs
-- under the script's budgets like the script itself. What it uses of Lua's libraries it
-- keeps in locals, since a script may replace what it finds in its tables. What a script
-- may call, and with what, is described in pawl.d.lua.
--
-- SPDX-License-Identifier: Apache-2.0

local core, ctx, h = ...
local error, ipairs, next, pcall, rawlen, tostring, type = error, ipairs, next, pcall, rawlen, tostring, type
local byte, find, format, sub = string.byte, string.find, string.format, string.sub
local chance, floor, max, min, remove = math.random, math.floor, math.max, math.min, table.remove

-- ------------------------------------------------------------ checking

-- Level 3 is the script's line that called the function which checks.
local function check_self(self, name)
  if self ~= ctx then error("call it with a colon: ctx:" .. name .. "(…)", 3) end
end

local function check_type(value, wanted, what)
  if type(value) ~= wanted then
    error(what .. " is a " .. wanted .. ", not a " .. type(value), 3)
  end
end

local function check_options(options, known, what)
  if options == nil then return {} end
  check_type(options, "table", "the options of " .. what)
  for name in next, options do
    if not known[name] then error("unknown option '" .. tostring(name) .. "' of " .. what, 3) end
  end
  return options
end

local function whole(value, name, least, most, default)
  if value == nil and default ~= nil then return default end
  local number = type(value) == "number" and value == floor(value) and value // 1 | 0
  if not number or number < least or number > most then
    error(format("'%s' is a whole number from %d to %d", name, least, most), 3)
  end
  return number
end

core.checks = { type = check_type, options = check_options, whole = whole } -- for documents.lua

-- What fn gives, once the threads that it needs have room for it.
function core.on_crew(fn, ...)
  while true do
    local value, err = fn(...)
    if value ~= core.busy then return value, err end
    core.pause(10)
  end
end

local function failure(code, message, retryable)
  return nil, { code = code, message = message, retryable = retryable or false }
end

-- ------------------------------------------------------------ tasks

local too_many = "more than 256 tasks at once; use ctx:map, or a smaller 'parallel' in maps that call maps"

function ctx.spawn(self, fn, ...)
  check_self(self, "spawn")
  check_type(fn, "function", "what is spawned")
  return core.spawn(fn, ...) or error(too_many, 2)
end

local task = core.task_methods

function task.wait(self)
  core.join { self }
  return core.result(self)
end

function task.cancel(self)
  core.cancel(self)
end

function ctx.any(self, tasks)
  check_self(self, "any")
  check_type(tasks, "table", "the list of tasks")
  local i = core.join(tasks)
  return i, core.result(tasks[i])
end

local map_options = { parallel = true, on_error = true }

local function cancel_all(running)
  for _, member in ipairs(running) do core.cancel(member.task) end
end

-- Starts members while there is room; returns the number of the next one.
local function feed(running, place, list, fn, i, n, parallel)
  while i <= n and #running < parallel do
    local started = core.member(place, i, fn, list[i], i)
    if not started and #running == 0 then error(too_many, 4) end
    if not started then break end -- others have all slots: when a member ends there is one
    running[#running + 1] = { task = started, index = i }
    i = i + 1
  end
  return i
end

-- Takes out the first member that has ended.
local function take_ended(running)
  local tasks = {}
  for i, member in ipairs(running) do tasks[i] = member.task end
  return remove(running, (core.join(tasks)))
end

local function map(list, fn, parallel, collect)
  local place, n, i = core.place(), rawlen(list), 1
  local running, results, errors = {}, {}, {}
  i = feed(running, place, list, fn, i, n, parallel)
  while #running > 0 do
    local member = take_ended(running)
    local ok, value, err = pcall(core.result, member.task)
    if not ok then
      cancel_all(running)
      error(value, 0)
    end
    local failed = value == nil and err ~= nil
    if failed and not collect then
      cancel_all(running)
      return nil, err
    end
    if failed then errors[member.index] = err end
    if value == nil then value = false end
    results[member.index] = value
    i = feed(running, place, list, fn, i, n, parallel)
  end
  return results, next(errors) ~= nil and errors or nil
end

function ctx.map(self, list, fn, options)
  check_self(self, "map")
  check_type(list, "table", "the list of map")
  check_type(fn, "function", "what map calls")
  options = check_options(options, map_options, "map")
  local parallel = whole(options.parallel, "parallel", 1, 64, 4)
  local on_error = options.on_error or "stop"
  if on_error ~= "stop" and on_error ~= "collect" then
    error("'on_error' is \"stop\" or \"collect\"", 2)
  end
  return map(list, fn, parallel, on_error == "collect")
end

-- ------------------------------------------------------------ time

function ctx.now(self)
  check_self(self, "now")
  local key = core.key("now")
  local noted, value = core.noted(key)
  if noted then return value end
  value = core.wall()
  while not core.note(key, value) do core.pause(10) end
  return value
end

local longest_ms = 366 * 24 * 3600 * 1000

-- What is kept is when it ends, so that a replay sleeps what is left.
function ctx.sleep(self, ms)
  check_self(self, "sleep")
  if type(ms) ~= "number" or not (ms >= 0 and ms <= longest_ms) then
    error("a sleep is a number of milliseconds from 0 to a year", 2)
  end
  local key = core.key("sleep")
  local noted, until_ms = core.noted(key)
  if not noted then
    until_ms = core.wall() + floor(ms) // 1 | 0
    while not core.note(key, until_ms) do core.pause(10) end
  end
  core.pause(max(0, min(until_ms - core.wall(), longest_ms)))
end

local retry_options = { tries = true, backoff_ms = true, jitter = true }

function ctx.retry(self, options, fn)
  check_self(self, "retry")
  options = check_options(options, retry_options, "retry")
  check_type(fn, "function", "what retry calls")
  local tries = whole(options.tries, "tries", 1, 100, 3)
  local pause = whole(options.backoff_ms, "backoff_ms", 0, 3600000, 200)
  local jitter = options.jitter or 0.5
  if type(jitter) ~= "number" or not (jitter >= 0 and jitter <= 1) then
    error("'jitter' is a number from 0 to 1", 2)
  end
  for try = 1, tries do
    local value, err = fn(try)
    local again = value == nil and type(err) == "table" and err.retryable
    if not again or try == tries then return value, err end
    core.pause(floor(pause * (1 - jitter * chance()))) -- no place in the run: a replay may need fewer tries
    pause = min(pause * 2, 3600000)
  end
end

-- ------------------------------------------------------------ steps

-- Calls fn as the step that this task has begun.
local function do_step(key, fn)
  local ok, value, err = pcall(fn)
  if not ok then
    core.step_leave(key)
    error(value, 0)
  end
  if value == nil and err ~= nil then
    core.step_leave(key)
    return nil, err
  end
  local state, kept
  repeat
    ok, state, kept = pcall(core.step_keep, key, value)
    if ok and state == "busy" then core.pause(20) end
  until not ok or state ~= "busy"
  core.step_leave(key)
  if not ok then error(state, 0) end
  if state ~= "kept" then return nil, kept end
  if kept == h.null then return nil end -- what it will be in a replay
  return kept
end

function ctx.step(self, key, fn)
  check_self(self, "step")
  check_type(key, "string", "a step's key")
  check_type(fn, "function", "what a step does")
  if find(key, "%c") then error("a step's key has no control characters", 2) end
  while true do
    local state, value = core.step_begin(key)
    if state == "found" then
      if value == h.null then return nil end
      return value
    end
    if state == "mine" then return do_step(key, fn) end
    core.step_wait(key)
  end
end

local interrupt_options = { prompt = true, schema = true }

function ctx.interrupt(self, options)
  check_self(self, "interrupt")
  options = check_options(options, interrupt_options, "interrupt")
  check_type(options.prompt, "string", "the 'prompt' of interrupt")
  if options.schema ~= nil then
    check_type(options.schema, "table", "the 'schema' of interrupt")
    local wrong = core.check_schema(options.schema)
    if wrong then error(wrong, 2) end
  end
  local key = core.key("ask")
  local noted, answer = core.noted(key)
  if noted then return answer end
  core.park(key, options.prompt, options.schema)
end

function ctx.emit(self, event, data)
  check_self(self, "emit")
  check_type(event, "string", "the type of an event")
  if data == nil then data = h.null end
  while not core.emit(event, data) do core.pause(20) end
end

-- ------------------------------------------------------------ sessions

local session_options = { model = true }

function ctx.session(self, id, options)
  check_self(self, "session")
  options = check_options(options, session_options, "session")
  return core.session(id, options.model)
end

local select_options = { choices = true, normalise = true }

local function score_all(session, choices)
  local sums, counts = {}, {}
  sums[1], counts[1] = core.score(session, choices[1]) -- the others share its prompt's state
  if not sums[1] then return nil, counts[1] end
  local rest = {}
  for i = 2, #choices do rest[i - 1] = i end
  local done, err = map(rest, function(i)
    sums[i], counts[i] = core.score(session, choices[i], true) -- nobody goes on from there
    if not sums[i] then return nil, counts[i] end
    return true
  end, 8, false)
  if not done then return nil, err end
  return sums, counts
end

function core.session_methods.select(self, options)
  options = check_options(options, select_options, "select")
  local choices, normalise = options.choices, options.normalise or "tokens"
  check_type(choices, "table", "the 'choices' of select")
  if #choices < 1 or #choices > 64 then error("'choices' is a list of 1 to 64 texts", 2) end
  if normalise ~= "tokens" and normalise ~= "none" then
    error("'normalise' is \"tokens\" or \"none\"", 2)
  end
  for _, choice in ipairs(choices) do check_type(choice, "string", "a choice") end
  local sums, counts = score_all(self, choices)
  if not sums then return nil, counts end
  local best, scores = 1, {}
  for i = 1, #choices do
    scores[i] = normalise == "tokens" and sums[i] / counts[i] or sums[i]
    if scores[i] > scores[best] then best = i end
  end
  self:add { role = "assistant", content = choices[best] }
  return choices[best], scores
end

-- ------------------------------------------------------------ tools

local tools = {} -- name → {run, parameters}
local tool_members = { name = true, description = true, parameters = true, run = true }

local host_tools = {} -- name → what core.host_tool gave, with a function that calls it

local function host_tool(name)
  local tool = host_tools[name] or core.host_tool(name)
  if not tool then
    error("no tool is named '" .. name .. "' here; start with --tools FILE, where it is described", 3)
  end
  tool.run = tool.run or function(args, timeout_ms) return core.on_crew(core.call_host_tool, name, args, timeout_ms) end
  host_tools[name] = tool
  return tool
end

function ctx.tools(self, list)
  check_self(self, "tools")
  check_type(list, "table", "the list of tools")
  local declared = {}
  for i, tool in ipairs(list) do
    if type(tool) == "string" then tool = host_tool(tool) end
    check_options(tool, tool_members, "a tool")
    check_type(tool.name, "string", "a tool's 'name'")
    check_type(tool.run, "function", "a tool's 'run'")
    if tool.parameters ~= nil then
      check_type(tool.parameters, "table", "a tool's 'parameters'")
      local wrong = core.check_schema(tool.parameters)
      if wrong then error("tool '" .. tool.name .. "': " .. wrong, 2) end
    end
    local known = tools[tool.name]
    if known and known.run ~= tool.run then
      error("a tool named '" .. tool.name .. "' exists already; make tools once, not in each task", 2)
    end
    tools[tool.name] = { run = tool.run, parameters = tool.parameters }
    declared[i] = { name = tool.name, description = tool.description, parameters = tool.parameters }
  end
  return declared
end

local tool_options = { timeout_ms = true }

-- What the tool returned, or an error that says why it did not.
local function run_tool(tool, args, timeout_ms)
  local call = core.spawn(tool.run, args, timeout_ms) or error(too_many, 3)
  if not core.join({ call }, timeout_ms) then
    core.cancel(call)
    return failure("timeout", format("the tool took longer than its %d ms", timeout_ms), true)
  end
  local ok, value, err = pcall(core.result, call)
  if not ok then
    local message = type(value) == "table" and value.message or value
    return failure("tool", type(message) == "string" and message or "the tool failed")
  end
  if value == nil and err == nil then return failure("tool", "the tool returned nothing") end
  return value, err
end

function ctx.tool(self, name, args, options)
  check_self(self, "tool")
  check_type(name, "string", "a tool's name")
  options = check_options(options, tool_options, "tool")
  local timeout_ms = whole(options.timeout_ms, "timeout_ms", 0, longest_ms, 0)
  core.count_tool_call()
  local tool = tools[name]
  if not tool then return failure("unknown_tool", "there is no tool named '" .. name .. "'") end
  if args == nil then args = {} end
  local wrong = tool.parameters and core.check(tool.parameters, args)
  if wrong then return failure("invalid_arguments", "the arguments are wrong: " .. wrong) end
  return run_tool(tool, args, timeout_ms)
end

-- ------------------------------------------------------------ texts

-- The last byte of a whole character at or before n.
local function edge(text, n)
  while n > 0 and n < #text and byte(text, n + 1) & 0xC0 == 0x80 do n = n - 1 end
  return min(n, #text)
end

-- How many bytes of the text, at a character's edge, have at most so many tokens, and how
-- many they have.
local function prefix(text, most, model)
  local count, n = core.measure(text, most, model)
  if count <= most then return #text, count end
  n = edge(text, n)
  count = core.measure(sub(text, 1, n), most, model)
  while n > 0 and count > most do -- a word that is cut may have more tokens than its part had
    n = edge(text, n - max(1, count - most))
    count = core.measure(sub(text, 1, n), most, model)
  end
  return n, count
end

-- The same of the text from a byte on, without a look at all that follows.
local function prefix_from(text, from, most, model)
  local room = most * 8 + 64
  while true do
    local window = sub(text, from, edge(text, min(from + room - 1, #text)))
    local n, count = prefix(window, most, model)
    if n < #window or from + #window > #text then return n, count end
    room = room * 4
  end
end

function ctx.tokens(self, text, model)
  check_self(self, "tokens")
  check_type(text, "string", "the text")
  return (core.measure(text, 0, model))
end

local clip_options = { max_tokens = true, model = true }

function ctx.clip(self, text, options)
  check_self(self, "clip")
  check_type(text, "string", "the text")
  options = check_options(options, clip_options, "clip")
  local most = whole(options.max_tokens, "max_tokens", 1, 1 << 30)
  local n = prefix_from(text, 1, most, options.model)
  return sub(text, 1, n), n < #text
end

-- Patterns behind which a text may be cut, the finer ones later.
local breaks = {
  paragraph = { "\n[ \t\r]*\n%s*" },
  line = { "\n%s*" },
  sentence = { "[.!?][\"')%]]*%s+", "\u{3002}", "\u{FF01}", "\u{FF1F}" },
  word = { "%s+" },
}
local finer = { "paragraph", "line", "sentence", "word" }

-- The last place at or before n, above least, behind one of the patterns; nil: none.
local function last_break(text, patterns, least, n)
  local best
  for _, pattern in ipairs(patterns) do
    local from = least
    while true do
      local _, last = find(text, pattern, from)
      if not last or last > n then break end
      if last > least then best = max(best or 0, last) end
      from = last + 1
    end
  end
  return best
end

-- Where a piece of at most n bytes should end: behind a break of the kind that was asked
-- for, or of the coarsest finer one that lies in its second half, else at n.
local function cut(piece, n, split)
  local wanted = false
  for _, kind in ipairs(finer) do
    wanted = wanted or kind == split
    local at = wanted and last_break(piece, breaks[kind], max(1, n // 2), n)
    if at then return at end
  end
  return n
end

-- How many bytes at the end of a piece have about so many tokens; from a word's beginning.
local function tail(piece, tokens, count, model)
  if tokens == 0 then return 0 end
  local _, n = core.measure(piece, max(0, count - tokens), model)
  n = edge(piece, n)
  local at = find(piece, "%s", n + 1)
  return #piece - (at and at < #piece and at or n)
end

local chunk_options = { max_tokens = true, overlap = true, split = true, model = true }

function ctx.chunk(self, text, options)
  check_self(self, "chunk")
  check_type(text, "string", "the text")
  options = check_options(options, chunk_options, "chunk")
  local most = whole(options.max_tokens, "max_tokens", 1, 1 << 30)
  local overlap = whole(options.overlap, "overlap", 0, most // 2, 0)
  local split = options.split or "paragraph"
  if not breaks[split] or split == "word" then
    error("'split' is \"paragraph\", \"sentence\" or \"line\"", 2)
  end
  local model, pieces, from = options.model, {}, 1
  while from <= #text do
    local n, count = prefix_from(text, from, most, model)
    if n == 0 then error("'max_tokens' is less than one character has", 2) end
    if from + n <= #text then
      local whole_piece = sub(text, from, from + n - 1)
      n = cut(whole_piece, n, split)
      if n < #whole_piece then count = core.measure(sub(whole_piece, 1, n), most, model) end
    end
    local piece = sub(text, from, from + n - 1)
    pieces[#pieces + 1] = piece
    from = from + n
    if from <= #text then from = from - min(tail(piece, overlap, count, model), n - 1) end
  end
  return pieces
end

-- ------------------------------------------------------------ tests

-- A pipeline that gives its cases, and then judges what became of one.
function h.tests(cases)
  check_type(cases, "table", "the list of cases")
  return h.pipeline { name = "tests", run = function(_, input)
    if input.case then
      local ok, why = pcall(cases[input.case].check, input.outcome)
      return { failed = not ok and tostring(why) or nil }
    end
    local list = {}
    for i, case in ipairs(cases) do
      list[i] = {}
      for name, value in next, case do list[i][name] = type(value) == "function" and true or value end
    end
    return { pipeline = cases.pipeline, cases = h.array(list) }
  end }
end
