"""A real model end to end: what it answers, how soon, in how much memory.

Times are printed and not judged, but for the bounds that hold on a slow machine too.

SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

import exposition
from common import (
    PAWL, ROOT, SANITIZER, SLOWNESS, Server, Skip, ask, case, case_timeout, equal, main, need, need_smollm2, send, receive,
    receive_lanes, check_stream, text_of)

MODEL = need_smollm2()
FILE_SIZE = MODEL.stat().st_size
MIB = 1 << 20
KV_SMALL = "24"  # MB, of which scratch takes a part


def serve(*args):
    return Server({"smollm2": MODEL}, *args)


def talk(server, text, **request):
    return server.create(model="smollm2", input=text, temperature=0, **{"max_output_tokens": 32, **request})


@case
def it_answers_soon_and_sensibly():
    MODEL.read_bytes()  # a warm page cache
    began = time.monotonic()
    with serve() as server:
        ready = time.monotonic() - began
        reply = talk(server, "What is the capital of France? Answer in one word.", max_output_tokens=8)
        took = time.monotonic() - began
        print(f"    ready after {ready:.2f} s, answered after {took:.2f} s: {text_of(reply)!r}")
        need("Paris" in text_of(reply), f"reply {text_of(reply)!r}")
        need(took < 10 * SLOWNESS, f"the first answer came after {took:.1f} s")


@case
def greedy_text_does_not_depend_on_the_way():
    question = "Name three colours of the rainbow."
    with serve() as server:
        alone = text_of(talk(server, question, store=False))
        with server.connect() as ws:
            streamed = text_of(ask(ws, model="smollm2", input=question, temperature=0, max_output_tokens=32))
            for lane in "abcd":
                send(ws, model="smollm2", stream_id=lane, input=question, temperature=0, max_output_tokens=32, store=False)
            got = receive_lanes(ws, "abcd")
    for lane in "abcd":
        equal(text_of(check_stream(got[lane], lane=lane)), alone, f"text of lane {lane} in a batch")
    equal(streamed, alone, "text over the socket")
    with serve("--threads", "1") as server:
        equal(text_of(talk(server, question)), alone, "text on one thread")


@case
def preempted_turns_go_on_exactly():
    """Memory for some ten pages of 64 tokens: turns are interrupted, computed again, and sampled as before."""
    def request(n):
        return {"model": "smollm2", "prompt": f"Chapter {n}. It was a dark night, and " * 12, "max_tokens": 200, "seed": n,
                "temperature": 1, "ignore_eos": True, "priority": "batch" if n == 1 else "interactive"}

    def ask_for(server, n, into):
        into[n] = server.http("POST", "/v1/completions", request(n)).json()["choices"][0]["text"]

    alone, together = {}, {}
    with serve("--kv-mb", KV_SMALL) as server:
        for n in range(3):
            ask_for(server, n, alone)
    with serve("--kv-mb", KV_SMALL) as server:
        threads = [threading.Thread(target=ask_for, args=(server, n, together)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        got = exposition.parse(server.http("GET", "/metrics").body)
        model = (("model", "smollm2"),)
        preemptions = got["pawl_num_preemptions_total", model]
        print(f"    {preemptions:.0f} preemptions with {got['pawl_kv_cache_pages', model]:.0f} pages")
        need(preemptions > 0, "memory was not short")
    for n in range(3):
        equal(together.get(n), alone[n], f"text of turn {n}")


@case
def a_resumed_conversation_goes_on_exactly():
    turns = ["What is gravity? Answer in two sentences.", "Say that again in one short sentence.", "Who discovered it?"]

    def converse(server, between):
        texts, parent = [], None
        for turn in turns:
            reply = talk(server, turn, previous_response_id=parent)
            texts.append(text_of(reply))
            parent = reply["id"]
            between(server)
        return texts, reply["usage"]

    def crash(server):
        server.kill()
        server.start()

    with serve() as server:
        unbroken, warm = converse(server, lambda s: None)
    with serve() as server:
        broken, cold = converse(server, crash)
    print(f"    cached input tokens of the last turn: {warm['input_tokens_details']['cached_tokens']} of "
          f"{warm['input_tokens']} without a crash, {cold['input_tokens_details']['cached_tokens']} after one")
    equal(broken, unbroken, "texts of the conversation with a crash after every turn")
    need("gravity" in unbroken[1].lower(), f"the first turn is lost: {unbroken[1]!r}")


@case
def memory_stays_within_its_budget():
    if SANITIZER:
        raise Skip("a sanitizer's memory is not ours")
    budget = 128
    with serve("--kv-mb", str(budget)) as server:
        (peak,) = server.memory("VmHWM")
        print(f"    loading peaked at {peak / MIB:.0f} MiB, file {FILE_SIZE / MIB:.0f} MiB")
        need(peak <= 2 * FILE_SIZE + 64 * MIB, f"loading peaked at {peak / MIB:.0f} MiB")
        for n in range(100):
            talk(server, f"Request number {n}: say something about the number {n}.", max_output_tokens=4)
        pss, peak = server.memory("Pss", "VmHWM")
        print(f"    after 100 requests: Pss {pss / MIB:.0f} MiB, peak Rss {peak / MIB:.0f} MiB")
        need(pss <= FILE_SIZE + (budget + 64) * MIB, f"Pss {pss / MIB:.0f} MiB after 100 requests")


@case
def keys_and_values_are_kept_as_the_configuration_says():
    pages = {}
    with tempfile.TemporaryDirectory(prefix="pawl-kv-") as folder:
        for kv in ("f32", "f16", "bf16", "q8"):
            file = pathlib.Path(folder) / f"{kv}.json"
            file.write_text(json.dumps({"models": [{"name": "smollm2", "path": str(MODEL), "kv_mb": 256,
                                                    "options": {"kv_type": kv}}]}))
            with Server({}, "--config", file) as server:
                reply = talk(server, "What is the capital of France? Answer in one word.", max_output_tokens=8)
                need("Paris" in text_of(reply), f"reply with {kv}: {text_of(reply)!r}")
                pages[kv] = int(re.search(rf"(\d+) pages of 64 tokens in {kv}\b", server.log())[1])
        print(f"    pages in 256 MiB: {pages}")
        need(pages["f32"] * 2 <= pages["f16"] == pages["bf16"] < pages["q8"] * 0.6, f"pages {pages}")
        file.write_text(json.dumps({"models": [{"name": "smollm2", "path": str(MODEL), "options": {"kv_type": "q4"}}]}))
        said = subprocess.run([PAWL, "serve", "--listen", "127.0.0.1:0", "--data", f"{folder}/data", "--config", file],
                              capture_output=True, text=True, timeout=60 * SLOWNESS)
        need(said.returncode == 1 and "one of: f16, bf16, q8, f32" in said.stderr, f"q4 gives {said}")


@case
def requests_leave_nothing_behind():
    if SANITIZER:
        raise Skip("a sanitizer's memory is not ours")
    with serve("--kv-mb", "64") as server:
        for n in range(100):  # until the cache of live sequences is full
            talk(server, "Say yes.", max_output_tokens=4, store=False)
        (before,) = server.memory("Pss_Anon")
        for n in range(100):
            talk(server, "Say yes.", max_output_tokens=4, store=False)
        (after,) = server.memory("Pss_Anon")
        print(f"    anonymous memory: {before / MIB:.1f} MiB, 100 requests later {after / MIB:.1f} MiB")
        need(after - before < 2 * MIB, f"{(after - before) / 100 / 1024:.1f} KiB stay behind with each request")


@case
def the_quickstart_conversation():
    with serve() as server:
        server.stop()
        command = [*(str(a) for a in server.command), "--kv-min-tokens", "16"]
        got = subprocess.run([sys.executable, ROOT / "examples" / "clients" / "crash_and_resume.py", "--model", "smollm2",
                              "--", *command], capture_output=True, text=True)
        print("".join(f"    {line}\n" for line in got.stdout.splitlines()), end="")
        equal(got.returncode, 0, f"exit status ({got.stderr[-200:]})")
        need("\nreused " in got.stdout and "\nreused 0 " not in got.stdout, "no token was reused after the crash")
        need(got.stdout.lower().count("gravity") > 2, "the second turn does not speak of the first one's subject")
        server.start()


@case
def inspect_tells_what_it_is():
    got = subprocess.run([PAWL, "model", "inspect", MODEL], capture_output=True, text=True, timeout=60)
    equal(got.returncode, 0, f"exit status ({got.stderr[-200:]})")
    for word in ("llama", "8192", "gguf"):
        need(word in got.stdout.lower(), f"{word!r} is not in {got.stdout[:300]!r}")


if __name__ == "__main__":
    case_timeout(180)
    main()
