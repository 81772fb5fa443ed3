"""ctx.docs: lists, texts of every kind, and documents that attack.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import shutil
import tempfile
import time

from common import SANITIZER, SLOWNESS, Skip, case, equal, main, need
from documents import bomb_pdf, damaged_pdf, pdf_of, scanned_pdf
from pipelines import Run


class Docs:
    """A folder of documents, in a folder of its own; beside it lies "secret"."""

    def __init__(self, **files):
        self._folder = tempfile.TemporaryDirectory(prefix="pawl-e2e-")
        self.outside = pathlib.Path(self._folder.name)
        self.folder = self.outside / "docs"
        self.folder.mkdir()
        (self.outside / "secret").write_text("secret")
        for name, content in files.items():
            self.write(name, content)

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def run(self, source, *args, **more):
        return Run(source, "--docs", self.folder, *args, model=None, **more)

    def texts(self, *paths, options="{}"):
        """The text of each path, or the code of its error."""
        return self.run("local out = {} for i, path in ipairs(h.parse(input.paths)) do "
                        f"local text, err = ctx.docs:text(path, {options}) out[i] = text or err.code .. '!' .. err.message end "
                        "return h.array(out)", "-p", "paths=" + __import__("json").dumps(paths)).is_done()


def need_pdftotext():
    if not shutil.which("pdftotext"):
        raise Skip("pdftotext is not there (poppler-utils)")


@case
def a_folder_is_listed():
    with Docs(**{"b.txt": "bb", "a.md": "a", "sub/c.txt": "ccc", ".hidden": "x", "d.bin": "d"}) as docs:
        (docs.folder / "link.txt").symlink_to("b.txt")
        os.utime(docs.folder / "sub/c.txt", (1000, 1000))
        docs.run("""
            local function names(options)
              local out = {}
              for i, doc in ipairs(ctx.docs:list("", options)) do out[i] = doc.path end
              return table.concat(out, " ")
            end
            local all = ctx.docs:list()
            assert(#all == 4 and all[4].size == 3 and all[4].mtime == 1000)
            assert(all[1].sha256 == "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb")
            for _, wrong in ipairs { { sort = "x" }, { match = 5 }, { match = "[" }, { mach = "x" } } do
              assert(not pcall(ctx.docs.list, ctx.docs, "", wrong))
            end
            assert(not pcall(ctx.docs.list, "sub"))
            local none, err = ctx.docs:list("nowhere")
            return { names(), names { match = "%.txt$" }, names { match = { "%.md$", "%.bin$" } }, names { sort = "size" },
                     names { sort = "mtime", match = "txt" }, #ctx.docs:list("sub"), err.code }
        """).is_done(["a.md b.txt d.bin sub/c.txt", "b.txt sub/c.txt", "a.md d.bin", "a.md d.bin b.txt sub/c.txt",
                      "sub/c.txt b.txt", 1, "not_found"])


@case
def texts_of_every_kind():
    need_pdftotext()
    with Docs(**{"a.txt": "\ufeffPlain \u20ac\n", "a.md": "# Head\n", "a.html": "<p>Hi &amp; bye<script>x</script>",
                 "page": "<!DOCTYPE html><b>page</b>", "a.pdf": pdf_of("First page.", "Second (page)."),
                 "no-ending": pdf_of("No ending.")}) as docs:
        plain, head, page, other, pdf, bare = docs.texts("a.txt", "a.md", "a.html", "page", "a.pdf", "no-ending")
        equal((plain, head, page, other), ("Plain \u20ac\n", "# Head\n", "Hi & bye\n", "page\n"), "texts")
        need("First page.\n\n" in pdf and "Second (page)." in pdf and "\f" not in pdf, repr(pdf))
        need(bare.startswith("No ending."), bare)
        docs.run("return { ctx.docs:read('a.md'), #ctx.docs:read('a.pdf', { max_mb = 0.5 }) > 500 }").is_done(["# Head\n", True])


@case
def what_cannot_be_read_says_why():
    need_pdftotext()
    with Docs(**{"latin.txt": "gr\u00fcn".encode("latin-1"), "utf16.txt": "x".encode("utf-16"), "nul.md": b"a\0b",
                 "empty.txt": " \n", "scan.pdf": scanned_pdf(), "cut.pdf": damaged_pdf(), "no.pdf": "words",
                 "empty.pdf": b"", "bare.html": "<script>x</script>", "big.txt": "x" * 3000000}) as docs:
        got = docs.texts("latin.txt", "utf16.txt", "nul.md", "empty.txt", "scan.pdf", "cut.pdf", "no.pdf", "empty.pdf",
                         "bare.html", "big.txt", options="{ max_mb = 2 }")
        for text, code, why in zip(got, ["encoding", "encoding", "encoding", "no_text", "no_text", "damaged", "damaged",
                                         "damaged", "no_text", "too_large"],
                                   ["byte 3", "UTF-16", "NUL", "no text", "text layer", "damaged PDF: Syntax", "is no PDF",
                                    "is no PDF", "no text", "2.9 MiB, more than 2.0"]):
            need(text.startswith(code + "!") and why in text, f"{code}, {why}: {text}")


@case
def no_path_leaves_the_folder():
    with Docs(**{"a.txt": "a", "sub/b.txt": "b"}) as docs:
        (docs.folder / "out").symlink_to("../secret")
        (docs.folder / "up").symlink_to("..")
        (docs.folder / "abs").symlink_to(docs.outside / "secret")
        os.mkfifo(docs.folder / "pipe")
        got = docs.texts("../secret", "sub/../../secret", str(docs.outside / "secret"), "out", "up/secret", "abs",
                         "/etc/passwd", "pipe", "sub", "x" * 100000, "sub/../a.txt")
        equal([text.split("!")[0] for text in got], ["denied"] * 7 + ["not_a_file"] * 2 + ["not_found", "a"], "codes")
        docs.run("ctx.docs:text('a\\0b')").failed("script", "NUL")
        docs.run("ctx.docs:read('a.txt', { max_mb = 1000 })").failed("script", "max_mb")
        Run("ctx.docs:list()", model=None).failed("script", "start with --docs DIR")
        missing = Run("return 1", "--docs", docs.folder / "none", model=None)
        equal(missing.status, 1, "status")
        need("folder of documents" in missing.log, missing.log)


@case
def a_document_that_attacks():
    need_pdftotext()
    with Docs(**{"bomb.pdf": bomb_pdf(200), "ok.txt": "fine"}) as docs:
        need((docs.folder / "bomb.pdf").stat().st_size < 500000, "a small file")
        began = time.monotonic()
        bomb, late, fine = docs.texts("bomb.pdf", "ok.txt", "ok.txt")[:1] + docs.texts("bomb.pdf", "ok.txt", options="{ timeout_ms = 50 }")
        need(bomb.startswith("too_large!"), bomb[:200])
        need(late.startswith("timeout!"), late[:200])
        equal(fine, "fine", "the next document")
        need(time.monotonic() - began < 100 * SLOWNESS, "it ended")


@case
def many_at_once():
    need_pdftotext()
    with Docs(**{f"{i:03}.pdf": pdf_of(f"Document {i}.") for i in range(60)}) as docs:
        docs.run("""
            local list = ctx.docs:list("")
            local texts = ctx:map(list, function(doc) return ctx.docs:text(doc.path) end, { parallel = 40 })
            for i, text in ipairs(texts) do assert(text:find("Document " .. i - 1 .. ".", 1, true), text) end
            return #texts
        """).is_done(60)


@case
def a_task_that_is_cancelled_gives_its_place_back():
    need_pdftotext()
    with Docs(**{"bomb.pdf": bomb_pdf(200), "ok.txt": "fine"}) as docs:
        docs.run("""
            for round = 1, 5 do
              local tasks = {}
              for i = 1, 8 do tasks[i] = ctx:spawn(function() return ctx.docs:text("bomb.pdf") end) end
              ctx:sleep(20)
              for _, task in ipairs(tasks) do task:cancel() end
            end
            return ctx.docs:text("ok.txt")
        """).is_done("fine")
        if not SANITIZER:
            docs.run("ctx:emit('begun') ctx:map({1,2,3,4}, function() return ctx.docs:text('bomb.pdf') end)",
                     kill_after=0.05).failed("cancelled")


if __name__ == "__main__":
    main()
