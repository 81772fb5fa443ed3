---@meta
-- lua/pawl.d.lua - what a pipeline can call, for lua-language-server and for people.
--
-- A test holds the names here against those that are there.
--
-- Two kinds of failure. What a script must expect returns nil and an error table; what is a
-- mistake in the script (a misspelt option, a wrong type) raises. A limit that is reached,
-- and a cancelled run, end the script: no pcall sees them. What "waits" lets other tasks go
-- on, and raises within table.sort's and string.gsub's functions and metamethods, where
-- nothing can wait.
--
-- SPDX-License-Identifier: Apache-2.0

---@class pawl.Error
---@field code string       what happened: see the function that returned it
---@field message string    the same for people
---@field retryable boolean whether trying again may help

-- ------------------------------------------------------------ local h = require "pawl"

---@class pawl.H
---@field api integer   version of this interface: 1
---@field null userdata stands for JSON's null: a table cannot hold nil
local h = {}

---@class pawl.Limits
---@field wall_s? number       seconds, waiting included
---@field tokens? integer      of all turns, in and out
---@field calls? integer       turns
---@field tool_calls? integer
---@field mem_mb? number       without it 64
---@field instructions? integer of the Lua machine; C functions count by their work

---@class pawl.Pipeline
---@field name string          1 to 64 letters, digits, "_" or "-"
---@field description? string
---@field params? table        JSON Schema of the input, checked before a run exists; without it
---any members, from --param as texts
---@field limits? pawl.Limits  each holds for one start of a run; the host may have stricter ones
---@field run fun(ctx: pawl.Ctx, input: table): any?, pawl.Error? a value is the run's result;
---nil and an error end it as failed

---Declares the pipeline; a file returns what this returns.
---Schema keywords: type, enum, const, properties, required, additionalProperties, items,
---min/maxItems, min/maxLength, minimum, maximum, exclusiveMinimum/Maximum; title, description,
---default, examples are for people. Others are refused by name.
---Raises: unknown members, limits or keywords; a second pipeline in one file.
---@param pipeline pawl.Pipeline
---@return pawl.Pipeline
function h.pipeline(pipeline) end

---@class pawl.Case
---@field name? string
---@field params? table  the input
---@field replies? table[] of the model, in order; the first that fits is given:
---{ when = TEXT or {TEXT, …}, text = TEXT, delay_ms =, fail_at =, fail_status = }, where `when`
---is looked for in the user's latest message and what follows it; without it it always fits
---@field model? table   further members of the replay model, as { context = 1000 }
---@field docs? table<string, string> texts by path, for ctx.docs
---@field tools? table[] the host's tools, as in the file of --tools
---@field seconds? number most time; without it 60
---@field result? any    what it must return: members that are not named here may be there
---@field emits? table[] {type=, data=} that must be emitted, in any order; others may be
---@field error? string  what must be in the message of the error it fails with
---@field calls? integer how many turns it must make
---@field check? fun(outcome: table) raises where { result, error = {code, message}, emits, calls,
---tokens } is not as it should be

---Tests for `pawl test`: NAME_test.lua returns them, and they test NAME.lua, or the file
---`pipeline` beside it.
---@param cases pawl.Case[]
---@return pawl.Pipeline
function h.tests(cases) end

---JSON text of a value. Members are sorted by name. A table is an array if it has elements
---and nothing else, or is marked; {} is an object.
---Raises: functions, NaN, holes, mixed keys, tables within themselves or 64 levels deep.
---@param value any
---@return string
function h.json(value) end

---The value of a JSON text. Errors: "json", with the place.
---@param text string
---@return any value
---@return pawl.Error? err
function h.parse(text) end

---Marks a table as an array, so that an empty one is [].
---@param list? table
---@return table
function h.array(list) end

-- ------------------------------------------------------------ ctx: sessions

---@class pawl.Ctx
---@field docs pawl.Docs the folder of documents that the host lets scripts read
local ctx = {}

---@class pawl.SessionOptions
---@field model? string the NAME of --model NAME=PATH; without it the first one

---A conversation: a new one, or the stored one that had this id. Its turns are stored where
---there is a data folder; those of a fork are not. With an id it waits.
---Raises: no model is served, or none has this name; no session of this id is stored.
---@param id? string
---@param options? pawl.SessionOptions
---@return pawl.Session
function ctx:session(id, options) end

---@class pawl.Session
---@field id string? resumes it, over restarts too: as ctx:session(id), and as the API's
---previous_response_id; nil before its first turn and where nothing is stored
local session = {}

---@class pawl.Message
---@field role "user"|"system"|"developer"|"assistant"|"tool"
---@field content string
---@field tool_call_id? string of the role tool: the id of the call that this answers

---Adds a message, for the next turn. Returns the session.
---Raises: unknown members or roles, broken UTF-8; while a turn runs.
---@param message pawl.Message
---@return pawl.Session
function session:add(message) end

---Whether nothing was added yet.
---@return boolean
function session:empty() end

---How many tokens the conversation has, what was added since the last turn included. Waits.
---Errors: "unsupported" (no chat dialect), "invalid_input". Raises: while a turn runs.
---@return integer? n
---@return pawl.Error? err
function session:tokens() end

---The present place, for rollback. Raises: while a turn runs.
---@return pawl.Mark
function session:mark() end

---Goes back to a place: messages and turns after it are forgotten.
---Raises: a mark of another conversation, or of messages that are gone; while a turn runs.
---@param mark pawl.Mark
function session:rollback(mark) end

---A second conversation with the same past. Costs nothing: both go on from one state.
---Raises: while a turn runs.
---@return pawl.Session
function session:fork() end

---Lets go of what the session holds, now rather than some time later. It cannot be used then.
function session:drop() end

---@class pawl.GenerateOptions
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
---@field stream? boolean            what comes is told as events "run.text"
---@field priority? "interactive"|"batch" batch takes what interactive turns leave; without it interactive
---@field cache? boolean             false: its state is not kept for a turn that follows
---@field timeout_ms? integer        then the turn is cancelled: code "timeout"
---@field tools? pawl.ToolDeclaration[]
---@field tool_choice? "auto"|"none" forced calls are refused
---@field reasoning_effort? "none"|"minimal"|"low"|"medium"|"high"|"xhigh"|"max"

---@class pawl.Usage
---@field input_tokens integer
---@field cached_tokens integer of the input: state that was already there
---@field output_tokens integer
---@field reasoning_tokens integer

---@class pawl.Call
---@field id string             goes into the answer's tool_call_id
---@field name string
---@field arguments? any        decoded; nil where the model wrote no JSON
---@field arguments_json string as the model wrote them
---@field parse_error? string   why arguments is nil

---@class pawl.Reply
---@field text string
---@field reasoning? string
---@field tool_calls pawl.Call[] may be empty
---@field finish "stop"|"length"|"tool_calls"
---@field usage pawl.Usage
---@field mark pawl.Mark the place before the turn: rollback(mark) takes the reply back

---The model's answer to what was added. Waits. A turn counts in the limits "calls" and
---"tokens".
---Errors: "too_long" (does not fit the context), "invalid_input", "unsupported",
---"busy" (retryable: the queue is full), "timeout" (retryable), "engine" (retryable),
---"cancelled", "stopping", "internal". After an error the session is as before the call.
---Raises: unknown options; schema, grammar and regex, which are not supported; nothing to
---answer; a turn runs already.
---@param options? pawl.GenerateOptions
---@return pawl.Reply? reply
---@return pawl.Error? err
function session:generate(options) end

---@class pawl.SelectOptions
---@field choices string[]               1 to 64 texts of at most 4096 bytes
---@field normalise? "tokens"|"none"     without it "tokens"

---Which of these the model would say next. Each is scored by the log-probabilities of its
---tokens and of the token that ends a reply, as the model gives them before any temperature:
---with "none" their sum, so that exp(score) is how likely this reply is; with "tokens" their
---mean, which does not prefer short ones. The best, of equals the first, becomes the
---assistant's message. Each choice counts as a turn. Waits. Errors as of generate.
---@param options pawl.SelectOptions
---@return string? choice
---@return number[]|pawl.Error scores in the order of the choices
function session:select(options) end

-- ------------------------------------------------------------ ctx: tasks

---@class pawl.Task
local task = {}

---Waits until it has ended. Returns what its function returned, raises what it raised.
---Errors: "cancelled".
---@return any ...
function task:wait() end

---Ends it and what it spawned, now; its variables are not closed.
---Raises: a task cannot cancel itself, or one that it was spawned by.
function task:cancel() end

---Runs fn(...) beside the others. It ends at the latest with the task that spawned it.
---Raises: more than 256 tasks at once.
---@param fn function
---@param ... any
---@return pawl.Task
function ctx:spawn(fn, ...) end

---Waits until one of the tasks has ended; the others go on. Its index, then what it returned.
---Raises what it raised; a list of 1 to 256 tasks.
---@param tasks pawl.Task[]
---@return integer index
---@return any ...
function ctx:any(tasks) end

---@class pawl.MapOptions
---@field parallel? integer            tasks at once, 1 to 64; without it 4
---@field on_error? "stop"|"collect"   without it "stop"

---Calls fn(item, index) for each item, several at a time, and waits for all; results in order,
---false where fn returned nothing. Where fn returns nil and an error: "stop" cancels the rest
---and returns nil and that error; "collect" goes on and returns the errors by index as second
---value. An error that fn raises is raised here, after the rest was cancelled.
---Raises: unknown options, more than 256 tasks at once.
---@generic T, R
---@param list T[]
---@param fn fun(item: T, index: integer): R?, pawl.Error?
---@param options? pawl.MapOptions
---@return R[]? results
---@return pawl.Error|table<integer, pawl.Error>|nil err
function ctx:map(list, fn, options) end

-- ------------------------------------------------------------ ctx: what lasts

---Calls fn once in the life of a run: what it returns is on the disk, as JSON, before step
---returns, and a run that is resumed gets it again without a call. Returns it as JSON has it,
---the first time too; null is nil. The same key in two tasks: the second waits for the first.
---Where fn returns nil and an error, or raises, nothing is kept and that is passed on. Steps
---may be within each other, 32 deep. What fn emits is kept with its result, or not at all.
---Errors: fn's; "store" (retryable): the disk failed.
---Raises: keys that have not 1 to 512 bytes, or control characters; results over 2 MiB or
---without JSON form; more than 100,000 steps or 256 MiB in one run; a step within itself.
---@param key string
---@param fn fun(): any?, pawl.Error?
---@return any value
---@return pawl.Error? err
function ctx:step(key, fn) end

---@class pawl.InterruptOptions
---@field prompt string what is asked
---@field schema? table JSON Schema of the answer, as for params

---The answer to a question that somebody outside is asked. Once all tasks wait for answers
---the run is parked: it holds nothing but its row until it is resumed with one, however much
---later, in whatever process; what came before is replayed, steps are not repeated.
---Raises: nothing is kept of this run (--ephemeral).
---@param options pawl.InterruptOptions
---@return any answer
function ctx:interrupt(options) end

---Milliseconds since 1970. Kept: a resumed run gets it again.
---@return integer
function ctx:now() end

---A number from 0, below 1. A resumed run gets it again at the same place (math.random not).
---@return number
function ctx:random() end

---Waits. Kept: a resumed run sleeps what is left.
---@param ms number
function ctx:sleep(ms) end

---@class pawl.RetryOptions
---@field tries? integer      without it 3
---@field backoff_ms? integer before the second try, then twice as long each time; 200
---@field jitter? number      0 to 1: how much of a pause may be left out by chance; 0.5

---Calls fn(try) until it returns something else than nil and a retryable error, or has been
---called so often. Waits in between. Returns what the last call returned.
---@param options pawl.RetryOptions
---@param fn fun(try: integer): any?, pawl.Error?
---@return any value
---@return pawl.Error? err
function ctx:retry(options, fn) end

-- ------------------------------------------------------------ ctx: tools

---@class pawl.ToolDeclaration
---@field name string
---@field description? string
---@field parameters? table JSON Schema

---@class pawl.Tool : pawl.ToolDeclaration
---@field run fun(args: any): any?, pawl.Error?

---Makes tools known to ctx:tool, and returns their declarations for generate. A table is a
---function of the script's, a text the name of a tool in the host's file (--tools).
---Raises: unknown members or schema keywords; another function of the same name; a name that
---the host's file lacks.
---@param list (pawl.Tool|string)[]
---@return pawl.ToolDeclaration[]
function ctx:tools(list) end

---@class pawl.ToolOptions
---@field timeout_ms? integer then the tool's task is cancelled: code "timeout"

---Calls a tool with arguments that are held against its parameters. Waits. Counts in the
---limit "tool_calls".
---Errors: "unknown_tool", "invalid_arguments", "timeout" (retryable), "tool" (it raised, or
---returned nothing), and what the tool returned as an error. Of the host's tools, which give
---what JSON they answer with, or a text:
---a request: "http" (another status than 2xx; retryable: 408, 425, 429, 5xx), "network"
---(retryable), "redirect" and "denied" (to where it may not go);
---a command: "tool" (it ended with a status; retryable: 75), "killed", "not_started";
---both: "timeout" (retryable), "too_large", "encoding" (no UTF-8), "busy" (retryable).
---@param name string
---@param args any
---@param options? pawl.ToolOptions
---@return any value
---@return pawl.Error? err
function ctx:tool(name, args, options) end

-- ------------------------------------------------------------ ctx.docs

---@class pawl.Docs
local docs = {}

---@class pawl.Doc
---@field path string    below the folder; for read and text
---@field size integer
---@field mtime integer  seconds since 1970
---@field sha256? string of the content; nil: it cannot be read, text says why

---@class pawl.ListOptions
---@field match? string|string[]        patterns of Lua; a path that one of them finds is listed
---@field sort? "name"|"size"|"mtime"   without it "name"

---All files below a folder, at most 20,000. Names that begin with "." and links are left out.
---Waits. Not kept: a resumed run sees what is there then.
---Errors: "not_found", "denied", "too_many", "busy" (retryable), "io".
---Raises: no documents are granted (pawl run --docs DIR).
---@param folder? string without it all
---@param options? pawl.ListOptions
---@return pawl.Doc[]? files
---@return pawl.Error? err
function docs:list(folder, options) end

---@class pawl.ReadOptions
---@field max_mb? number at most 7; without it 1

---The bytes of a file. Waits. Errors: "not_found", "denied" (the path leaves the folder, or
---may not be read), "not_a_file", "too_large", "busy" (retryable), "io".
---@param path string
---@param options? pawl.ReadOptions
---@return string? bytes
---@return pawl.Error? err
function docs:read(path, options) end

---@class pawl.TextOptions
---@field max_mb? number      of the file, at most 1024; without it 64
---@field timeout_ms? integer of converting a PDF; without it 60000

---The text of a PDF (by pdftotext, in a limited process), an HTML page, or of any other file
---as it is: UTF-8, not empty, at most 7 MiB. Waits.
---Errors: those of read, and "no_text" (a scanned PDF, an empty file), "damaged", "encrypted",
---"encoding" (no UTF-8), "timeout" (retryable), "no_converter" (pdftotext is not installed).
---@param path string
---@param options? pawl.TextOptions
---@return string? text
---@return pawl.Error? err
function docs:text(path, options) end

-- ------------------------------------------------------------ ctx: texts

---How many tokens the model's tokenizer makes of a text. Exact. One of more than 32 KiB waits.
---@param text string
---@param model? string
---@return integer
function ctx:tokens(text, model) end

---How many tokens the model's context has.
---@param model? string
---@return integer
function ctx:window(model) end

---@class pawl.ChunkOptions
---@field max_tokens integer
---@field overlap? integer tokens of a piece that the next begins with, at most half of them
---@field split? "paragraph"|"sentence"|"line" without it "paragraph"
---@field model? string

---Cuts a text into pieces of at most so many tokens each. A piece ends behind a break of this
---kind, or where its second half has none, behind a finer one; at last between characters.
---Without overlap the pieces joined are the text.
---@param text string
---@param options pawl.ChunkOptions
---@return string[]
function ctx:chunk(text, options) end

---@class pawl.ClipOptions
---@field max_tokens integer
---@field model? string

---The beginning of a text that has at most so many tokens, and whether something was cut off.
---@param text string
---@param options pawl.ClipOptions
---@return string
---@return boolean cut
function ctx:clip(text, options) end

-- ------------------------------------------------------------ ctx: what it says

---Tells an event: one JSON value. Waits while too many are on their way to the disk.
---Raises: types that are not 1 to 64 letters, digits, "_" or "-"; what has no JSON form or
---over 256 KiB; more than 1000 events in one step.
---@param type string
---@param data any
function ctx:emit(type, data) end

---How far the run is.
---@param done number
---@param total? number
---@param note? string at most 200 bytes
function ctx:progress(done, total, note) end

---A line for the run's log. print(…) is ctx:log("info", …) of its arguments.
---Raises: a line over 64 KiB.
---@param level "debug"|"info"|"warn"|"error"
---@param message any as tostring gives it
---@param fields? table for machines
function ctx:log(level, message, fields) end

---@class pawl.Budget
---@field wall_s? number      what is left; nil: there is no limit
---@field tokens? integer
---@field calls? integer
---@field tool_calls? integer
---@field instructions? integer
---@field mem_mb number

---What is left of the limits.
---@return pawl.Budget
function ctx:budget() end
