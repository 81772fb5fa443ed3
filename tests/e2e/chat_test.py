"""pawl chat: scripted through a pipe, at a terminal, stopped, killed, gone on with.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import pty
import select
import signal
import sqlite3
import subprocess
import tempfile
import time

from common import HERMES, PAWL, SLOWNESS, TEST_PLUGINS, Server, case, equal, main, need

SCRIPT = {"replay": 1, "context": 8192, "chat_template": HERMES, "replies": [
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"when": "think", "text": "<think>\nHm, hm.\n</think>\n\nDone."},
    {"when": "fail", "text": "abc", "fail_at": 2},
    {"when": "steer", "text": "a\x1b[2Jb"},
    {"text": "Yes, and a few words more."},
]}
YES = "Yes, and a few words more.\n"


class Chat:
    """A folder with a model, and calls of pawl chat on it."""

    def __init__(self, **more):
        self._folder = tempfile.TemporaryDirectory(prefix="pawl-chat-")
        self.folder = pathlib.Path(self._folder.name)
        self.model = self.folder / "m.replay.json"
        self.model.write_text(json.dumps({**SCRIPT, **more}))
        self.data = self.folder / "data"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def command(self, *arguments, session=None):
        kept = ["--session", session, "--data", self.data] if session else []
        return [PAWL, "chat", "--model", self.model, "--plugin-dir", TEST_PLUGINS, *kept, *arguments]

    def say(self, text, *arguments, session=None, expect=0):
        got = subprocess.run(self.command(*arguments, session=session), input=text.encode(), capture_output=True,
                             timeout=60 * SLOWNESS)
        equal(got.returncode, expect, f"status ({got.stderr[-400:]!r})")
        return got.stdout.decode(), got.stderr.decode()

    def start(self, session):
        return subprocess.Popen(self.command(session=session), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def rows(self, sql):
        with sqlite3.connect(self.data / "pawl.db") as db:
            return db.execute(sql).fetchall()


def said(process, text):
    """Reads standard output until the text has come."""
    seen = b""
    while text not in seen:
        more = os.read(process.stdout.fileno(), 4096)
        need(more, f"{text!r} did not come: {seen!r}")
        seen += more
    return seen


@case
def lines_and_blocks_are_messages():
    with Chat() as chat:
        out, notes = chat.say('One.\n\n  \nTwo \\\nlines.\n"""\n/exit\nin a block\n"""\n//slash\nno newline', session="s")
        equal(out, YES * 5, "replies")
        need("the session s begins" in notes, notes)
        inputs = [json.loads(row[0])[0]["content"][0]["text"] for row in
                  chat.rows("SELECT input FROM response ORDER BY created_ms, rowid")]
        equal(inputs, ["One.", "Two \nlines.", "/exit\nin a block", "/slash", "no newline"], "messages")


@case
def a_session_goes_on():
    with Chat() as chat:
        chat.say("One.\n", session="s")
        out, notes = chat.say("Two.\n/exit\nnever read\n", session="s")
        equal(out, YES, "replies after a restart")
        need("goes on after 2 items" in notes, notes)
        (head,), = chat.rows("SELECT head FROM conversation WHERE title = 's'")
        chain = chat.rows(f"SELECT id, parent FROM response WHERE id = '{head}'")
        need(chain[0][1], "the second turn follows the first")
        tokens = dict(chat.rows("SELECT id, tokens FROM response"))
        need(tokens[head].startswith(tokens[chain[0][1]]), "the first turn's tokens, as they were generated")
        by_id = chat.rows("SELECT id FROM conversation")[0][0]
        need("goes on after 4 items" in chat.say("", session=by_id)[1], "by its id")


@case
def killed_at_any_moment():
    with Chat() as chat:
        told = 0
        for n in range(5):
            process = chat.start("s")
            for _ in range(n + 1):
                process.stdin.write(f"Turn {n}.\n".encode())
                process.stdin.flush()
                said(process, b"more.\n")
                told += 1
            process.stdin.write(b"endless\n" if n % 2 else b"One more.\n")
            process.stdin.flush()
            time.sleep(0.01 * n)
            process.kill()
            process.communicate()
        notes = chat.say("", session="s")[1]
        items = int(notes.split("goes on after ")[1].split()[0])
        need(2 * told <= items <= 2 * (told + 3), f"{items} items after {told} turns")
        need("endless" not in str(chat.rows("SELECT input FROM response")), "a turn that did not end")


@case
def the_commands():
    with Chat() as chat:
        out, notes = chat.say("One.\nTwo.\n/fork other\nThree.\n/undo\n/undo\n/sessions\n/new third\n/sessions\n", session="s")
        equal(out, YES * 3, "replies")
        for text in ("taken back: Three.", "taken back: Two.", "from here on in the session other", "a new session: third"):
            need(text in notes, f"{text} in {notes}")
        listed = [line for line in notes.splitlines() if line[:4] in ("* 20", "  20")]
        equal([line.split()[-1] for line in listed], ["other", "s", "third", "other", "s"], "sessions")
        need(listed[0].startswith("*") and listed[2].startswith("*"), f"the one that is open: {listed}")
        for session, items in (("s", 4), ("other", 2), ("third", 0)):
            notes = chat.say("", session=session)[1]
            need(("begins" if not items else f"after {items} items") in notes, f"{session}: {notes}")
        for command in ("/fork s", "/fork", "/nonsense", "/new s"):
            chat.say(command + "\n", session="other", expect=0 if command == "/fork" else 1)
        chat.say("/undo\n", session="third", expect=1)
        need("/undo" in chat.say("/help\n", session="s")[1], "the help")


@case
def undo_goes_on_from_the_tokens_before():
    with Chat() as chat:
        chat.say("One.\nTwo.\n/undo\nThree.\n", session="s")
        rows = chat.rows("SELECT id, parent, input, tokens FROM response ORDER BY created_ms, rowid")
        equal([r[1] for r in rows], [None, rows[0][0], rows[0][0]], "parents")
        need(rows[2][3].startswith(rows[0][3]), "tokens of the first turn")
        need("Two." not in chat.say("", session="s")[1], "what was taken back")


@case
def ctrl_c_stops_a_reply_which_stays():
    with Chat() as chat:
        process = chat.start("s")
        process.stdin.write(b"endless\n")
        process.stdin.flush()
        said(process, b"0123")
        process.send_signal(signal.SIGINT)
        process.stdin.write(b"Go on.\n")
        process.stdin.close()
        out, notes = process.stdout.read(), process.stderr.read()
        equal(process.wait(60), 0, f"status ({notes[-300:]!r})")
        need(out.decode().endswith("\n" + YES) and b"[stopped]" in notes, f"{out[-80:]!r} {notes!r}")
        one, two = chat.rows("SELECT status, tokens, result FROM response ORDER BY created_ms, rowid")
        equal((one[0], two[0]), ("incomplete", "completed"), "status")
        equal(json.loads(one[2])["incomplete_details"], {"reason": "stopped"}, "details")
        need(two[1].startswith(one[1]), "the next turn goes on from what was said")


@case
def ctrl_c_before_a_word_drops_the_turn():
    with Chat(prefill_delay_ms_per_token=1) as chat:
        process = chat.start("s")
        need(b"begins" in process.stderr.readline(), "the greeting")
        process.stdin.write(b"word " * 800 + b"\n")  # several steps before the first token
        process.stdin.close()
        while process.poll() is None:  # at the prompt it does nothing, in the turn it counts
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        equal((process.returncode, process.stdout.read().strip()), (0, b""), "status and replies")
        need(b"before a word was said" in process.stderr.read(), "what is said of it")
        need("begins" in chat.say("", session="s")[1], "the session is empty")


@case
def sigterm_ends_in_order():
    with Chat() as chat:
        process = chat.start("s")
        process.stdin.write(b"endless\n")
        process.stdin.flush()
        said(process, b"0123")
        process.terminate()
        process.communicate(timeout=60)
        equal(process.returncode, 0, "status")
        need("after 2 items" in chat.say("", session="s")[1], "what was said until then")


@case
def without_a_session_nothing_is_kept():
    with Chat() as chat:
        out, notes = chat.say("One.\nthink\n/undo\n/undo\n/new\nTwo.\n")
        equal(out, YES + "Done.\n" + YES, "replies, without thoughts")
        need("nothing of this is kept" in notes and "taken back: think" in notes, notes)
        for command in ("/undo", "/fork x", "/sessions", "/new x"):
            chat.say(command + "\n", expect=1)
        need(not chat.data.exists(), "a data folder")


@case
def what_fails_is_said():
    with Chat() as chat:
        out, notes = chat.say("fail\nOne.\n", session="s", expect=1)
        need(out.endswith(YES) and "engine" in notes.lower() or "fail" in notes.lower(), f"{out!r} {notes!r}")
        need("after 2 items" in chat.say("", session="s")[1], "the failed turn is not in the session")
        equal(chat.say("a\x00b\n\xff\n", session="s", expect=1)[0], YES, "replies to what is no text")
        equal(chat.say("steer\n")[0], "a?[2Jb\n", "a reply with control characters")
        for wrong in ([], ["--model", chat.model, "--model", chat.model], ["--model", chat.model, "--data", "x"],
                      ["--model", chat.model, "--temperature", "x"]):
            equal(subprocess.run([PAWL, "chat", *wrong], capture_output=True, timeout=60).returncode, 2, f"status of {wrong}")


@case
def a_folder_that_a_server_holds():
    with Chat() as chat, Server({"replay": SCRIPT}) as server:
        chat.data = server.data
        notes = chat.say("One.\n", session="s", expect=1)[1]
        need(str(server.process.pid) in notes and str(server.data) in notes, notes)
        equal(chat.say("One.\n")[0], YES, "without a session it can be talked to")


@case
def a_server_sees_the_same_conversations():
    with Chat() as chat, Server({"replay": SCRIPT}) as server:
        server.stop()
        chat.data = server.data
        chat.say("One.\n", session="s")
        server.start()
        made, = server.http("GET", "/v1/conversations").json()["data"]
        equal(made["metadata"], {"title": "s"}, "metadata")
        two = server.create(input="Two.", conversation=made["id"])
        need(two["usage"]["input_tokens"] > 60, "its history")
        head = server.http("GET", f"/v1/conversations/{made['id']}/items?order=asc").json()["data"]
        equal(len(head), 4, "items")
        server.stop()
        need("after 4 items" in chat.say("", session="s")[1], "back in the terminal")
        server.start()


@case
def at_a_terminal():
    with Chat() as chat:
        pid, fd = pty.fork()
        if pid == 0:
            os.execv(PAWL, [str(a) for a in chat.command(session="s")])
        seen = b""

        def wait_for(text):
            nonlocal seen
            deadline = time.monotonic() + 60 * SLOWNESS
            while text not in seen:
                need(select.select([fd], [], [], max(0, deadline - time.monotonic()))[0], f"{text!r} did not come: {seen!r}")
                seen += os.read(fd, 4096)
            seen = seen[seen.index(text) + len(text):]

        wait_for(b"> ")
        os.write(fd, b"think\n")
        wait_for(b"\x1b[2mHm, hm.")
        wait_for(b"\x1b[0m")
        wait_for(b"Done.")
        wait_for(b"> ")
        os.write(fd, b"endless\n")
        wait_for(b"01234")
        os.write(fd, b"\x03")  # Ctrl-C
        wait_for(b"[stopped]")
        wait_for(b"> ")
        os.write(fd, b"\x03")
        wait_for(b"/exit or Ctrl-D ends")
        os.write(fd, b"\x04")  # Ctrl-D
        equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "status")
        os.close(fd)


if __name__ == "__main__":
    main()
