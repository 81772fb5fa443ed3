"""pawl store: the data folder checked, counted, copied, shrunk, exported, imported; beside a
running server where that may be.

SPDX-License-Identifier: Apache-2.0
"""
import json
import shutil
import sqlite3
import subprocess

from common import PAWL, Server, case, equal, main, need

SCRIPT = {"replay": {"context": 8192, "replies": [{"text": "Yes, and a few words more."}]}}


def store(data, *arguments, expect=0, text=None):
    """Runs `pawl store`; what it says on both outputs."""
    got = subprocess.run([PAWL, "store", *arguments, "--data", data], capture_output=True, text=True, input=text, timeout=120)
    equal(got.returncode, expect, f"status of {arguments} ({got.stderr[-300:]}{got.stdout[-300:]})")
    return got.stdout, got.stderr


def talk(server, turns, **more):
    made, last = server.http("POST", "/v1/conversations", more).json()["id"], None
    for n in range(turns):
        last = server.create(input=f"Turn {n}.", conversation=made)
    return made, last


def items(server, conversation):
    return server.http("GET", f"/v1/conversations/{conversation}/items?limit=100&order=asc").json()["data"]


@case
def beside_a_server():
    with Server(SCRIPT) as server:
        made, last = talk(server, 3)
        equal(store(server.data, "check")[0].splitlines(),
              ["3 responses, 1 conversations, 0 keys: sound", "kv.db: not looked at while a server holds the folder"], "check")
        numbers = json.loads(store(server.data, "stats", "--json")[0])
        equal([numbers[k] for k in ("responses", "conversations", "removed", "keys")], [3, 1, 0, 0], "stats")
        equal([t["tenant"] for t in numbers["tenants"]], [""], "tenants")
        need("conversations  1" in store(server.data, "stats")[0], "stats for people")
        copy = server.folder / "copy.db"
        need(str(copy) in store(server.data, "backup", copy)[0], "what the backup says")
        equal(oct(copy.stat().st_mode & 0o777), "0o600", "mode of the copy")
        need("exists" in store(server.data, "backup", copy, expect=1)[1], "a copy over a copy")
        for refused in (["gc"], ["check", "--repair"], ["import", "/dev/null"]):
            says = store(server.data, *refused, expect=1)[1]
            need(str(server.process.pid) in says and str(server.data) in says, f"{refused}: {says}")
        next_one = server.create(input="It goes on.", conversation=made)
        need(next_one["usage"]["input_tokens"] > last["usage"]["input_tokens"], "the turn after all that")
        server.kill()
        shutil.copy(copy, server.data / "pawl.db")
        for rest in ("pawl.db-wal", "pawl.db-shm"):
            (server.data / rest).unlink(missing_ok=True)
        server.start()
        equal(len(items(server, made)), 6, "items in the backup")
        equal(server.http("GET", f"/v1/responses/{last['id']}").json(), last, "a response in the backup")
        server.create(input="And on.", conversation=made)


@case
def a_default_name_for_a_backup():
    with Server(SCRIPT) as server:
        talk(server, 1)
        store(server.data, "backup")
        equal(len([f for f in server.data.iterdir() if f.name.startswith("pawl.db.2")]), 1, "copies in the folder")


@case
def what_is_moved_goes_on_exactly():
    with Server(SCRIPT) as server, Server(SCRIPT) as other:
        made, last = talk(server, 3, metadata={"title": "Trip"})
        item = items(server, made)[2]["id"]
        fork = server.http("POST", "/v1/conversations", {"fork": {"conversation": made}}).json()["id"]
        server.http("DELETE", f"/v1/conversations/{fork}/items/{item}")
        unsaid = server.http("POST", f"/v1/conversations/{made}/items", {"items": [{"role": "user", "content": "Unanswered."}]})
        equal(unsaid.status, 200, "status")
        file = server.folder / "all.jsonl"
        store(server.data, "export", "--out", file)
        need(store(server.data, "export", "--out", file, expect=1)[1], "an export over an export")
        other.stop()
        need("3 responses and 2 conversations" in store(other.data, "import", file)[0], "what the import says")
        need("line 2" in store(other.data, "import", file, expect=1)[1], "the same again")
        store(other.data, "import", "-", "--new-ids", text=file.read_text())
        need(": sound" in store(other.data, "check")[0].splitlines()[0], "check")
        other.start()
        equal(len(other.http("GET", "/v1/conversations").json()["data"]), 4, "conversations")
        equal(items(other, made), items(server, made), "items")
        equal(items(other, fork), items(server, fork), "items of the edited one")
        equal(other.http("GET", f"/v1/responses/{last['id']}").json(), last, "a response")
        one, two = (s.create(input="On.", conversation=made) for s in (server, other))
        equal(one["usage"]["input_tokens"], two["usage"]["input_tokens"], "tokens of the next turn")
        tokens = [sqlite3.connect(s.data / "pawl.db").execute("SELECT tokens FROM response WHERE id = ?", (r["id"],)).fetchone()
                  for s, r in ((server, one), (other, two))]
        equal(tokens[0], tokens[1], "token ids of the next turn")


@case
def one_conversation():
    with Server(SCRIPT) as server:
        talk(server, 2)
        made, _ = talk(server, 2)
        out, says = store(server.data, "export", "--conversation", made)
        lines = [json.loads(line) for line in out.splitlines()]
        equal([line.get("type") for line in lines], [None, "response", "response", "conversation", "end"], "lines")
        need("2 responses and 1 conversations" in says, says)
        need(lines[2]["same"] > 20 and lines[2]["parent"] == lines[1]["id"], "tokens are not told twice")
        need("no stored conversation" in store(server.data, "export", "--conversation", "conv_x", expect=1)[1], "an unknown one")


@case
def damage_is_found_and_taken_out():
    with Server(SCRIPT) as server:
        made, last = talk(server, 3)
        server.stop()
        with sqlite3.connect(server.data / "pawl.db") as db:
            db.execute("UPDATE response SET output = '[' WHERE id = ?", (last["id"],))
        db.close()
        out = store(server.data, "check", expect=1)[0]
        need(f"{last['id']}: output is no" in out and "1 fault" in out, out)
        out = store(server.data, "check", "--repair")[0]
        need("1 rows taken out, 1 conversations set back" in out, out)
        need("sound" in store(server.data, "check")[0], "after the repair")
        need("rows deleted" in store(server.data, "gc")[0], "gc")
        server.start()
        equal(len(items(server, made)), 4, "items that are left")
        server.create(input="On.", conversation=made)


@case
def deletions_and_space():
    with Server(SCRIPT) as server:
        made = [server.http("POST", "/v1/conversations", {}).json()["id"] for _ in range(6)]
        for one in made:
            server.create(input="word " * 1400, conversation=one)
        for one in made:
            equal(server.http("DELETE", f"/v1/conversations/{one}").status, 200, "status")
        server.stop()
        numbers = json.loads(store(server.data, "stats", "--json")[0])
        equal((numbers["responses"], numbers["removed"]), (0, 0), "rows after the deletion")
        need(numbers["unused_bytes"] > 100000, f"unused bytes {numbers}")
        store(server.data, "gc")
        after = json.loads(store(server.data, "stats", "--json")[0])
        need(after["file_bytes"] <= numbers["file_bytes"] - numbers["unused_bytes"] + 8192, f"{numbers} {after}")
        server.start()


@case
def saved_state_is_looked_after():
    script = {"replay": {**SCRIPT["replay"], "state_chunk": 16}}
    with Server(script, "--kv-min-tokens", "16") as server:
        talk(server, 4)
        server.stop()
        said = store(server.data, "check")[0]
        need("kv.db: 0 chunks" not in said and said.strip().endswith("sound"), f"check: {said}")
        need("kv.db" in store(server.data, "stats")[0], "stats")
        kv = sqlite3.connect(server.data / "kv.db")
        kv.execute("UPDATE chunk SET sum = sum + 1 WHERE id = (SELECT max(id) FROM chunk)")
        kv.commit()
        kv.close()
        need("damaged" in store(server.data, "check", expect=1)[0], "damage in kv.db")
        need("removed" in store(server.data, "check", "--repair")[0], "repair")
        need("sound" in store(server.data, "check")[0], "after the repair")
        need("evicted" in store(server.data, "gc", "--kv-disk-mb", "0")[0], "gc")
        need(not (server.data / "kv.db").exists(), "kv.db is gone")
        need("--kv-disk-mb" in subprocess.run([PAWL, "store", "gc", "--kv-disk-mb", "-1"], capture_output=True,
                                              text=True).stderr, "a bad number")


@case
def calls_that_are_wrong():
    with Server(SCRIPT) as server:
        for wrong in ([], ["nonsense"], ["check", "x"], ["import"], ["stats", "--repair"], ["check", "--json"],
                      ["gc", "--conversation", "x"], ["export", "--new-ids"], ["backup", "a", "b"]):
            store(server.data, *wrong, expect=2)
        need("pawl.db" in store(server.folder / "none", "check", expect=1)[1], "a folder that is not there")
        need(not (server.folder / "none").exists(), "it was made")


if __name__ == "__main__":
    main()
