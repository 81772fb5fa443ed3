-- summarise_folder_test.lua: `build/pawl test examples/pipelines`
--
-- SPDX-License-Identifier: Apache-2.0

local h = require "pawl"

local summaries = {
  { when = { "Bread", "flour" }, text = "On bread." },
  { when = "Cats", text = "On cats." },
  { when = { "a.md: On bread.", "b.html: On cats." }, text = "On bread and cats." },
  { when = "Sentence", text = "A part." },
  { when = "A part.", text = "The whole." },
  { when = "breaks", text = "abc", fail_at = 2, fail_status = "format" },
}

return h.tests {
  { name = "documents of several kinds are summarised, then their summaries",
    docs = { ["a.md"] = "# Bread\nIt is made of flour.", ["sub/b.html"] = "<p>Cats &amp; mice", ["c.bin"] = "no document",
             ["b.html"] = "<title>Cats</title>" },
    replies = summaries,
    params = { words = 20 },
    emits = { { type = "document", data = { path = "a.md", summary = "On bread." } },
              { type = "document", data = { path = "sub/b.html", summary = "On cats." } } },
    result = { documents = 3, summarised = 3, failed = {}, overview = "On bread and cats." },
    calls = 4 },

  { name = "what cannot be read is reported, and costs nothing",
    docs = { ["empty.txt"] = " \n", ["no.pdf"] = "no PDF", ["a.md"] = "Bread is flour." },
    replies = summaries,
    emits = { { type = "failed", data = { path = "empty.txt", error = { code = "no_text" } } },
              { type = "failed", data = { path = "no.pdf", error = { code = "damaged" } } } },
    check = function(outcome)
      local codes = {}
      for _, row in ipairs(outcome.result.failed) do codes[row.path] = row.code end
      assert(codes["empty.txt"] == "no_text" and codes["no.pdf"] == "damaged", h.json(codes))
      assert(outcome.result.summarised == 1 and outcome.calls == 1, h.json(outcome.result))
    end },

  { name = "a long document is cut, and its parts' summaries are summarised",
    docs = { ["long.txt"] = ("Sentence by sentence it grows. "):rep(150) },
    model = { context = 2500 },
    replies = summaries,
    params = { words = 20, overview = false },
    result = { documents = 1, summarised = 1 },
    check = function(outcome)
      assert(outcome.calls > 2, outcome.calls)
      assert(outcome.emits[1].data.summary == "The whole.", outcome.emits[1].data.summary)
    end },

  { name = "a document whose turn fails does not stop the others",
    docs = { ["bad.txt"] = "This one breaks.", ["a.md"] = "Bread is flour." },
    replies = summaries,
    result = { documents = 2, summarised = 1 },
    check = function(outcome) assert(outcome.result.failed[1].path == "bad.txt") end },

  { name = "a folder that is not there",
    docs = { ["a.md"] = "x" },
    params = { folder = "nowhere" },
    error = "there is no such file" },
}
