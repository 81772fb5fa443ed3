"""Load as many clients make it, and what is to be true of the server during and after it.

The clients that do as they like run in a process of their own (crowd), so that those whose tokens are
timed (Steady, in the caller's process) do not wait for them.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import multiprocessing
import pathlib
import random
import re
import subprocess
import threading
import time

import exposition
from common import ENDS, PAWL, SLOWNESS, WebSocketError, need, receive_lanes, send
from conversations import settled  # noqa: F401 - for those who look at what is left

MODEL = (("model", "m"),)
SOCKETS, LANES = 3, 4
PLACES = 80  # more small prompts than live sequences are kept with 16 that run
OPTIONS = ("--context", "8192", "--sequences", "16", "--kv-mb", "768", "--kv-memory-mb", "64", "--kv-disk-mb", "256",
           "--queue", "512", "--queue-per-key", "256", "--detach-seconds", "2")
WORDS = ("time way year work government day man world life part house course case system place end group company party "
         "information school fact money point example state business night area water thing family head hand order").split()


def add_key(server, name, scope="inference"):
    got = subprocess.run([PAWL, "key", "add", "--name", name, "--scope", scope, "--data", server.data],
                         capture_output=True, text=True, timeout=60, check=True)
    return {"Authorization": f"Bearer {got.stdout.strip()}"}


def scrape(server, headers):
    return exposition.parse(server.http("GET", "/metrics", **headers).body)


def until(what, condition, seconds=30):
    end = time.monotonic() + seconds * SLOWNESS
    while not condition():
        need(time.monotonic() < end, what)
        time.sleep(0.1)


def random_tokens(rng, n):
    return [rng.randrange(1000, 30000) for _ in range(n)]


# ----------------------------------------------------------- one request, as a stream


class Stream:
    """A streamed POST: lines of events until its end, or until it is dropped."""

    def __init__(self, server, path, headers, **body):
        self.connection = http.client.HTTPConnection(server.host, int(server.port), timeout=60 * SLOWNESS)
        self.connection.request("POST", path, json.dumps({"model": "m", "stream": True, **body}),
                                {"Content-Type": "application/json", **headers})
        self.reply = self.connection.getresponse()
        if self.reply.status != 200:
            raise AssertionError(f"{path} answered {self.reply.status}: {self.reply.read(300)!r}")

    def events(self):
        """Each event as bytes; an error among them, or no end, is a failure."""
        last = b""
        for line in self.reply:
            if line.startswith(b"data: "):
                last = line[6:].strip()
                need(b'"error":{' not in last and b'"type":"error"' not in last, f"an error in a stream: {last[:300]!r}")
                yield last
        need(last == b"[DONE]" or b'"type":"response.completed"' in last or b'"type":"response.incomplete"' in last
             or b'"status":"cancelled"' in last, f"a stream ended with {last[:300]!r}")

    def drop(self):
        """Goes away without a word, with a reset for what still comes."""
        self.reply.close()
        self.connection.close()


# ------------------------------------------------------------ clients that do as they like


def one_request(server, rng, headers, counts, over):
    """A random request over HTTP, read to its end, left in the middle (also when it is over), or cancelled."""
    text = " ".join(rng.choices(WORDS, k=int(rng.choice((10, 40, 400)) * rng.uniform(0.5, 1.5))))
    limit, what = rng.randint(16, 160), rng.random()
    common = {"priority": rng.choice(("interactive", "batch")), "seed": rng.randrange(1 << 30), "ignore_eos": True}
    if rng.random() < 0.5:
        stored = what > 0.9
        stream = Stream(server, "/v1/responses", headers, input=text, max_output_tokens=limit, store=stored or rng.random() < 0.3,
                        background=stored, **common)
    else:
        stored = False
        stream = Stream(server, "/v1/chat/completions", headers, messages=[{"role": "user", "content": text}],
                        max_tokens=limit, n=rng.choice((1, 1, 1, 2)), **common)
    after = rng.randint(1, 40) if what < 0.2 or stored else None
    for n, event in enumerate(stream.events()):
        if n == 0 and stored:
            name = json.loads(event)["response"]["id"]
        if n == after or over.is_set():
            if not stored or n != after:
                counts["disconnects"] += 1
                break
            status = server.http("POST", f"/v1/responses/{name}/cancel", timeout=300, **headers).status
            need(status == 200, f"a cancel answered {status}")
            counts["cancels"] += 1
    else:
        counts["whole"] += 1
    stream.drop()


def one_socket(server, rng, headers, counts, over):
    """A socket with turns on all lanes at once; some are cancelled, and at times it is dropped."""
    with server.connect(**headers) as ws:
        for _ in range(rng.randint(1, 3)):
            if over.is_set():
                return
            lanes = [f"l{n}" for n in range(LANES)]
            for lane in lanes:
                send(ws, model="m", stream_id=lane, input=" ".join(rng.choices(WORDS, k=rng.randint(5, 60))), ignore_eos=True,
                     max_output_tokens=rng.randint(16, 100), store=False, priority=rng.choice(("interactive", "batch")))
            if rng.random() < 0.5:
                time.sleep(rng.random())
                ws.send(json.dumps({"type": "response.cancel", "stream_id": rng.choice(lanes)}))
                counts["cancels"] += 1
            if rng.random() < 0.15:
                ws.abort()
                counts["disconnects"] += 1
                return
            got = receive_lanes(ws, lanes)
            for event in (e for e in got["all"] if e["type"] in ENDS):
                need(event["type"] in ("response.completed", "response.incomplete") or
                     event.get("response", {}).get("status") == "cancelled", f"a lane ended with {json.dumps(event)[:300]}")
                counts["lanes"] += 1


def live(n, server, keys, seed, over, counts, errors):
    """One client's life: one thing after another until it is over."""
    rng = random.Random(seed * 1000 + n)
    act = one_socket if n < SOCKETS else one_request
    while not over.is_set() and not errors:
        try:
            act(server, rng, keys[n % len(keys)], counts, over)
        except (AssertionError, OSError, http.client.HTTPException, WebSocketError, ValueError) as fault:
            errors.append(f"client {n}: {type(fault).__name__}: {fault}")


def no_counts():
    return {"whole": 0, "lanes": 0, "cancels": 0, "disconnects": 0}


def crowd_main(server, clients, keys, seed, over, result):
    each, errors = [no_counts() for _ in range(clients)], []
    threads = [threading.Thread(target=live, args=(n, server, keys, seed, over, each[n], errors)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result.put(({name: sum(c[name] for c in each) for name in no_counts()}, errors))


class Crowd:
    """Random clients, as long as the with statement lasts; then counts and errors are known."""

    def __init__(self, server, clients, keys, seed):
        context = multiprocessing.get_context("fork")
        self.over, self.result = context.Event(), context.Queue()
        self.process = context.Process(target=crowd_main, args=(server, clients, keys, seed, self.over, self.result))
        self.counts, self.errors = {}, []

    def __enter__(self):
        self.process.start()
        return self

    def __exit__(self, kind, *_):
        self.over.set()
        self.counts, self.errors = self.result.get(timeout=60 * SLOWNESS)
        self.process.join()


# ------------------------------------------------------- clients that are timed


class Steady:
    """Clients that all want the same all the time; when their tokens came, by client and request."""

    def __init__(self, server, clients, headers):
        self.server, self.headers, self.over = server, headers, threading.Event()
        self.times, self.errors = [[[]] for _ in range(clients)], []
        self.threads = [threading.Thread(target=self._run, args=(n,)) for n in range(clients)]

    def _run(self, n):
        rng, times = random.Random(n), self.times[n]
        while not self.over.is_set() and not self.errors:
            try:
                stream = Stream(self.server, "/v1/completions", self.headers, prompt=random_tokens(rng, 32), max_tokens=256,
                                ignore_eos=True, seed=n)
                for _ in stream.events():
                    times[-1].append(time.monotonic())
                    if self.over.is_set():
                        break
                stream.drop()
                times.append([])
            except (AssertionError, OSError, http.client.HTTPException) as fault:
                self.errors.append(f"steady client {n}: {type(fault).__name__}: {fault}")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def totals(self):
        return [sum(map(len, client)) for client in self.times]

    def gaps(self, begin, end):
        """Between two tokens of one reply, those that overlap the time given."""
        return [b - a for client in self.times for reply in client for a, b in zip(reply, reply[1:]) if b > begin and a < end]


# --------------------------------------------------------------- what is left


def memory_outside_pool(server):
    """Private bytes of all mappings but the large reserved ones (attention state, its scratch)."""
    total = size = 0
    for line in pathlib.Path(f"/proc/{server.process.pid}/smaps").read_text().splitlines():
        if (m := re.match(r"(Size|Anonymous):\s+(\d+) kB", line)):
            if m[1] == "Size":
                size = int(m[2])
            elif size < 128 << 10:
                total += int(m[2]) << 10
    return total


class Left:
    """Pages, sequences, slots, descriptors, threads and memory, when nobody wants anything. So that idle
    sequences can be compared, each place is filled with a prompt of one page first."""

    def __init__(self, server, user, ops, seed):
        self.server, self.user, self.ops = server, user, ops
        until("turns are still open", lambda: self._quiet(scrape(server, ops)))
        rng = random.Random(seed)
        for _ in range(PLACES):
            reply = server.http("POST", "/v1/completions", {"model": "m", "prompt": random_tokens(rng, 20), "max_tokens": 2,
                                                            "ignore_eos": True}, **user)
            need(reply.status == 200, f"a small prompt is answered with {reply.status}")
        settled_at = self.exact()
        for _ in range(100):  # connections and helpers that are on their way out
            time.sleep(0.1)
            before, settled_at = settled_at, self.exact()
            if before == settled_at:
                break
        self.counts, self.memory = settled_at, memory_outside_pool(server)

    @staticmethod
    def _quiet(now):
        return not any(now[name] for name in (
            ("pawl_num_requests_running", MODEL), ("pawl_num_requests_waiting", MODEL), ("pawl_ws_connections", ()),
            ("pawl_ws_lanes_running", ()), ("pawl_responses_detached", ()), ("pawl_event_logs_running", ()),
            ("pawl_live_sequences", (*MODEL, ("state", "busy")))))

    def exact(self):
        now = scrape(self.server, self.ops)
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        return {"free pages": now["pawl_kv_cache_pages_free", MODEL],
                "idle sequences": now["pawl_live_sequences", (*MODEL, ("state", "idle"))],
                "busy sequences": now["pawl_live_sequences", (*MODEL, ("state", "busy"))],
                "requests": now["pawl_num_requests_running", MODEL] + now["pawl_num_requests_waiting", MODEL],
                "connections": now["pawl_connections", ()],
                "descriptors": self.server.descriptors(),
                "threads": int(re.search(r"^Threads:\s+(\d+)", status, re.M)[1])}

    def same(self, before):
        need(self.counts == before.counts, f"before: {before.counts}, afterwards: {self.counts}")
