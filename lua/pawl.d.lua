---@meta
-- lua/pawl.d.lua - what a pipeline can call, for lua-language-server and for people.
--
-- A test holds the names here against those that host/script registers.
--
-- Two kinds of failure. What a script must expect returns nil and an error table; what is
-- a mistake in the script (a misspelt option, a wrong type) raises. A budget that is
-- spent, and Ctrl-C, end the script: no pcall sees them.
--
-- SPDX-License-Identifier: Apache-2.0

---@class pawl.Error
---@field code string       what happened: see the function that returned it
---@field message string    the same for people
---@field retryable boolean whether trying again may help

---@class pawl
---@field api integer                  version of this interface: 1
---@field params table<string, string> what --param K=V gave; texts
---@field json pawl.json
pawl = {}

---@class pawl.SessionOptions
---@field model? string  the NAME of --model NAME=PATH; without it the first one
---@field system? string the first message, of the role system

---A new conversation. Turns are kept in it, and a turn costs its new tokens only.
---Raises: no model is served, or none has this name; unknown options.
---@param options? pawl.SessionOptions
---@return pawl.Session
function pawl.session(options) end

---@class pawl.Message
---@field role "user"|"system"|"developer"|"assistant"|"tool"
---@field content string
---@field call_id? string of the role tool: the id of the call that this answers

---@class pawl.Tool
---@field name string
---@field description? string
---@field parameters? table JSON Schema

---@class pawl.GenerateOptions
---@field text? string               a message of the user, before the reply
---@field max_tokens? integer
---@field temperature? number        0 to 2; 0 is greedy; without it 1
---@field top_p? number
---@field top_k? integer
---@field min_p? number
---@field repetition_penalty? number
---@field presence_penalty? number
---@field frequency_penalty? number
---@field seed? integer
---@field stop? string|string[]      at most 16 texts of at most 256 bytes
---@field timeout_ms? integer        then the turn is cancelled: code "timeout"
---@field tools? pawl.Tool[]
---@field tool_choice? "auto"|"none"
---@field priority? "interactive"|"batch" batch takes what interactive turns leave; without it interactive
---@field reasoning_effort? "none"|"minimal"|"low"|"medium"|"high"|"xhigh"|"max"

---@class pawl.Usage
---@field input_tokens integer
---@field cached_tokens integer of the input: state that was already there
---@field output_tokens integer
---@field reasoning_tokens integer

---@class pawl.Call
---@field id string             goes into the answer's call_id
---@field name string
---@field arguments? any        decoded; nil where the model wrote no JSON
---@field arguments_json string as the model wrote them
---@field parse_error? string   why arguments is nil

---@class pawl.Reply
---@field text string
---@field finish "stop"|"length"|"tool_calls"
---@field usage pawl.Usage
---@field reasoning? string
---@field calls? pawl.Call[]

---@class pawl.Session
local session = {}

---Adds a message, for the next turn. Returns the session.
---Raises: unknown members or roles, broken UTF-8; while a turn runs.
---@param message pawl.Message
---@return pawl.Session
function session:add(message) end

---The model's answer to what was added and to the text. Waits; other tasks go on.
---Errors: "too_long" (does not fit the context), "invalid_input", "unsupported",
---"busy" (retryable: the queue is full), "timeout" (retryable), "engine" (retryable),
---"cancelled", "stopping", "internal". After an error the session is as before the call.
---Raises: unknown options, nothing to answer, a turn runs already, within table.sort,
---string.gsub or a metamethod.
---@param text_or_options? string|pawl.GenerateOptions
---@return pawl.Reply? reply
---@return pawl.Error? err
function session:generate(text_or_options) end

---A second conversation with the same past. Costs nothing: both go on from one state.
---Raises: while a turn runs.
---@return pawl.Session
function session:fork() end

---@class pawl.MapOptions
---@field parallel? integer            tasks at once, 1 to 64; without it 4
---@field on_error? "stop"|"collect"   without it "stop"

---Calls fn(item, index) for each item, several at a time; results in order, false where fn
---returned nothing. Where fn returns nil and an error: "stop" cancels the rest and returns
---nil and that error; "collect" goes on and returns the errors by index as second value.
---An error that fn raises is raised here, after the rest was cancelled.
---Raises: unknown options, more than 256 tasks at once.
---@generic T, R
---@param list T[]
---@param fn fun(item: T, index: integer): R?, pawl.Error?
---@param options? pawl.MapOptions
---@return R[]? results
---@return pawl.Error|table<integer, pawl.Error>|nil err
function pawl.map(list, fn, options) end

---Writes a result: one JSON value, one line. What the script returns is emitted last.
---Raises: what has no JSON form.
---@param value any
function pawl.emit(value) end

---How far the script is; shown on a terminal.
---@param done number
---@param total? number
---@param note? string at most 200 bytes
function pawl.progress(done, total, note) end

---A line for the log; values as tostring gives them. print(…) is pawl.log("info", …).
---@param level "debug"|"info"|"warn"|"error"
---@param ... any
function pawl.log(level, ...) end

---@class pawl.json
---@field null userdata stands for null: a table cannot hold nil
pawl.json = {}

---JSON text of a value. Members are sorted by name. A table is an array if it has elements
---and nothing else, or is marked; {} is an object.
---Raises: functions, NaN, holes, mixed keys, tables within themselves or 64 levels deep.
---@param value any
---@return string
function pawl.json.encode(value) end

---The value of a JSON text. Errors: "json", with the place.
---@param text string
---@return any value
---@return pawl.Error? err
function pawl.json.decode(text) end

---Marks a table as an array, so that an empty one is [].
---@param list? table
---@return table
function pawl.json.array(list) end
