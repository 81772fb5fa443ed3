"""Random conversations, played on a server that may be killed at any event.

A conversation is planned from a seed alone: what is said, how replies are sampled, where it
forks, what tools answered. Played twice it must bring the same texts, wherever its state comes
from: a live sequence, memory, disk, or nowhere.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import http.client
import json
import random
import sqlite3
import time

import exposition
from common import SLOWNESS, equal, need, text_of

WORDS = ("the of and to in is was for on are with as his they at be this from have or by one had not but what all were "
         "when we there can an your which their said if do will each about how up out them then she many some so these "
         "would other into has more her two like him see time could no make than first been its who now people").split()


def prose(rng, n_words):
    return " ".join(rng.choice(WORDS) for _ in range(n_words)) + "."


def call_items(rng, n):
    """What a client says of tools that it ran: calls and their outputs."""
    items = []
    for k in range(rng.randint(1, 2)):
        name = f"call_{n}_{k}"
        items.append({"type": "function_call", "call_id": name, "name": rng.choice(("lookup", "add")),
                      "arguments": json.dumps({"q": prose(rng, 3), "n": rng.randint(0, 99)})})
        items.append({"type": "function_call_output", "call_id": name, "output": prose(rng, rng.randint(2, 40))})
    return items


def plan(seed, most_turns=12, words=300, output=40):
    """The requests of a conversation, each with the index of the one that it follows."""
    rng = random.Random(seed)
    turns = []
    for n in range(rng.randint(2, most_turns)):
        items = call_items(rng, n) if n and rng.random() < 0.3 else []
        items.append({"role": "user", "content": prose(rng, rng.randint(40, words) if n == 0 else rng.randint(1, words // 4))})
        sampling = {"temperature": 0} if rng.random() < 0.5 else {
            "temperature": 1.0, "top_k": 30, "seed": rng.randint(0, 1 << 40)}
        follows = None if n == 0 else n - 1 if rng.random() < 0.85 else rng.randrange(n)
        turns.append((follows, {"input": items, "max_output_tokens": rng.randint(1, output), **sampling}))
    return turns


def events(server, request):
    """The events of a streaming request, as they come."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=120 * SLOWNESS)
    try:
        connection.request("POST", "/v1/responses", json.dumps({**request, "stream": True}),
                           {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            raise AssertionError(f"status {reply.status}: {reply.read()[:300]!r}")
        for line in reply:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
    finally:
        connection.close()


class Killed(Exception):
    """The server was killed while it answered."""


def answer(server, request, kill_at=None):
    """The final response object. kill_at: the server is killed when that many events came."""
    last = None
    for n, last in enumerate(events(server, request), 1):
        if n == kill_at:
            server.kill()
            raise Killed
    need(last and last["type"] in ("response.completed", "response.incomplete"),
         f"the last event is {json.dumps(last)[:300]}")
    return last["response"]


def cached(response):
    return response["usage"]["input_tokens_details"]["cached_tokens"]


def play(server, turns, model, before=None, kill_at=None, **extra):
    """Plays all turns; their responses. before(n): called before the n-th. kill_at(n): at which event
    of the n-th the server is killed, or None; then it is started again and the turn repeated."""
    got = []
    for n, (follows, request) in enumerate(turns):
        request = {"model": model, **request, **extra}
        if follows is not None:
            request["previous_response_id"] = got[follows]["id"]
        if before:
            before(n)
        try:
            response = answer(server, request, kill_at and kill_at(n))
        except Killed:
            server.start()
            response = answer(server, request)
        got.append(response)
    return got


def told(responses):
    """What must not depend on where state came from."""
    return [(r["status"], text_of(r), r["usage"]["input_tokens"], r["usage"]["output_tokens"]) for r in responses]


def same(got, want, what):
    for n, (one, other) in enumerate(zip(told(got), told(want))):
        equal(one, other, f"turn {n} of {what}")
    equal(len(got), len(want), f"turns of {what}")


def measured(server, name, **labels):
    """The sum of a metric's series that have these labels."""
    got = exposition.parse(server.http("GET", "/metrics").body)
    return sum(value for (each, pairs), value in got.items() if each == name and set(labels.items()) <= set(pairs))


def settled(server, seconds=20):
    """Waits until everything that can be saved is on disk."""
    end, before = time.monotonic() + seconds * SLOWNESS, None
    while True:
        now = [measured(server, name) for name in (
            "pawl_prefix_cache_queue_bytes", "pawl_prefix_saves_total", "pawl_prefix_cache_writes_total")]
        if now == before and not now[0]:
            return
        need(time.monotonic() < end, f"state is still on its way after {seconds} s: {now}")
        before = now
        time.sleep(0.15 * SLOWNESS)


def rows_of(folder):
    """How many chunks kv.db holds; no server runs on the folder."""
    with contextlib.closing(sqlite3.connect(folder / "kv.db")) as db:
        return db.execute("SELECT count(*) FROM chunk").fetchone()[0]


def spoil(folder, rng, share=0.3):
    """Deletes or damages some rows of kv.db, of which no server knows; how many."""
    ways = ["DELETE FROM chunk WHERE id = ?", "DELETE FROM piece WHERE id = ?",
            "UPDATE chunk SET tokens = zeroblob(length(tokens)) WHERE id = ?",
            "UPDATE chunk SET tokens = x'00' WHERE id = ?", "UPDATE chunk SET begin = begin + 1 WHERE id = ?",
            "UPDATE chunk SET part = 3 - part WHERE id = ?", "UPDATE chunk SET sum = sum + 1 WHERE id = ?",
            "UPDATE chunk SET size = size - 1 WHERE id = ?", "UPDATE chunk SET parent = zeroblob(32) WHERE id = ?",
            "UPDATE piece SET data = zeroblob(length(data)) WHERE id = ?",
            "UPDATE piece SET data = substr(data, 1, length(data) / 2) WHERE id = ?",
            "UPDATE piece SET data = data || x'00' WHERE id = ?"]
    with contextlib.closing(sqlite3.connect(folder / "kv.db")) as db, db:
        ids = [row[0] for row in db.execute("SELECT id FROM chunk")]
        chosen = [each for each in ids if rng.random() < share]
        for each in chosen:
            way = rng.randrange(len(ways) + 2)
            if way < len(ways):
                db.execute(ways[way], (each,))
                continue
            data = bytearray((db.execute("SELECT data FROM piece WHERE id = ?", (each,)).fetchone() or [b"x"])[0])
            data[rng.randrange(len(data)) if way == len(ways) else -1] ^= 1 << rng.randrange(8)  # one bit
            db.execute("UPDATE piece SET data = ? WHERE id = ?", (bytes(data), each))
    return len(chosen)
