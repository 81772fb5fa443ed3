-- lua/documents.lua - ctx.docs: the folder of documents that a host lets scripts read.
--
-- Compiled into the program like pawl.lua, and run after it.
--
-- SPDX-License-Identifier: Apache-2.0

local core, ctx = ...
local error, ipairs, type = error, ipairs, type
local find, format = string.find, string.format
local floor, min, sort = math.floor, math.min, table.sort
local check_type, check_options, whole = core.checks.type, core.checks.options, core.checks.whole
local on_crew = core.on_crew

local docs = {}
ctx.docs = docs

local function check_docs(self, name)
  if self ~= docs then error("call it with a colon: ctx.docs:" .. name .. "(…)", 3) end
end

local function check_match(match)
  if type(match) == "string" then match = { match } end
  check_type(match, "table", "'match'")
  for _, pattern in ipairs(match) do
    check_type(pattern, "string", "a pattern of 'match'")
    find("", pattern) -- raises for one that is none
  end
  return match
end

local function matches(path, patterns)
  for _, pattern in ipairs(patterns) do
    if find(path, pattern) then return true end
  end
  return false
end

local orders = {
  name = false, -- as they come
  size = function(a, b) return a.size < b.size or a.size == b.size and a.path < b.path end,
  mtime = function(a, b) return a.mtime < b.mtime or a.mtime == b.mtime and a.path < b.path end,
}

-- Adds the digests, some files at a time.
local function add_digests(files)
  for first = 1, #files, 64 do
    local paths = {}
    for i = first, min(first + 63, #files) do paths[#paths + 1] = files[i].path end
    local digests, err = on_crew(core.docs_hash, paths)
    if not digests then return nil, err end
    for i, digest in ipairs(digests) do files[first + i - 1].sha256 = digest or nil end
  end
  return files
end

local list_options = { match = true, sort = true }

function docs.list(self, folder, options)
  check_docs(self, "list")
  if folder == nil then folder = "" end
  check_type(folder, "string", "a folder's path")
  options = check_options(options, list_options, "list")
  local order = orders[options.sort or "name"]
  if order == nil then error("'sort' is \"name\", \"size\" or \"mtime\"", 2) end
  local patterns = options.match ~= nil and check_match(options.match)
  local all, err = on_crew(core.docs_list, folder)
  if not all then return nil, err end
  local files = {}
  for _, file in ipairs(all) do
    if not patterns or matches(file.path, patterns) then files[#files + 1] = file end
  end
  if order then sort(files, order) end
  return add_digests(files)
end

local read_options = { max_mb = true }
local text_options = { max_mb = true, timeout_ms = true }

local function bytes_of(options, default, most)
  local mb = options.max_mb or default
  if type(mb) ~= "number" or not (mb > 0 and mb <= most) then
    error(format("'max_mb' is a number above 0, at most %d", most), 3)
  end
  return floor(mb * (1 << 20)) // 1 | 0
end

function docs.read(self, path, options)
  check_docs(self, "read")
  check_type(path, "string", "a path")
  options = check_options(options, read_options, "read")
  return on_crew(core.docs_read, path, bytes_of(options, 1, 7))
end

function docs.text(self, path, options)
  check_docs(self, "text")
  check_type(path, "string", "a path")
  options = check_options(options, text_options, "text")
  local timeout_ms = whole(options.timeout_ms, "timeout_ms", 1, 3600000, 60000)
  return on_crew(core.docs_text, path, bytes_of(options, 64, 1024), timeout_ms)
end
