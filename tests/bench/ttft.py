"""How much sooner a resumed conversation answers: time to the first token with 16 new tokens after
a prefix of 2k and of 6k, from nothing, from host memory, and from disk after kill -9.

    PAWL_BUILD_DIR=build python3 tests/bench/ttft.py [--model FILE] [--lengths 2048,6144] [--rounds 3]

Every figure is the best of the rounds. "disk" was started anew; "disk (cold pages)" has besides
had the database's pages dropped from the system's cache. The ratio is to "cold".

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from common import SMOLLM2, Server  # noqa: E402
from conversations import settled  # noqa: E402

NEW = 16


def first_token(server, tokens):
    """Seconds until the first token of a reply, and how many tokens had state."""
    body = {"model": "m", "prompt": tokens, "max_tokens": 1, "temperature": 0, "stream": True,
            "stream_options": {"include_usage": True}}
    connection = http.client.HTTPConnection(server.host, server.port, timeout=600)
    began, took, usage = time.monotonic(), None, None
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    for line in connection.getresponse():
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if any(choice["text"] or choice["finish_reason"] for choice in event["choices"]):
            took = took or time.monotonic() - began
        usage = event.get("usage") or usage
    connection.close()
    return took, usage["prompt_tokens_details"]["cached_tokens"]


def drop_pages(server):
    for file in server.data.glob("kv.db*"):
        fd = os.open(file, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def one_round(args, length, rng, best):
    def note(name, took, cached):
        if cached and cached < length:
            print(f"    only {cached} of {length} tokens had state ({name})")
        best[name] = min(best.get(name, 1e9), took)

    prompt = [rng.randrange(1000, 30000) for _ in range(length)]
    again = [*prompt, *(rng.randrange(1000, 30000) for _ in range(NEW))]
    options = ["--sequences", "1", "--threads", str(args.threads)]
    with Server({"m": args.model}, *options, "--kv-disk-mb", "0", "--kv-memory-mb", "0") as server:
        first_token(server, [5] * 40)
        note("cold", *first_token(server, again))
        note("live", *first_token(server, [*again[:-1], 7]))
    with Server({"m": args.model}, *options) as server:
        first_token(server, prompt)
        for k in range(8):  # others take the engine's sequences
            first_token(server, [rng.randrange(1000, 30000) for _ in range(300)])
        note("memory", *first_token(server, again))
        settled(server)
        for name, before in (("disk", None), ("disk (cold pages)", drop_pages)):
            server.kill()
            if before:
                before(server)
            server.start()
            first_token(server, [5] * 40)
            note(name, *first_token(server, [*again[:-1], rng.randrange(1000, 30000)]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=SMOLLM2)
    parser.add_argument("--lengths", default="2048,6144")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    for length in map(int, args.lengths.split(",")):
        best = {}
        for round_ in range(args.rounds):
            one_round(args, length, random.Random(length * 100 + round_), best)
        rate = (length + NEW) / best["cold"]
        print(f"{length} tokens and {NEW} new: cold {best['cold']:.3f} s ({rate:.0f} tokens/s prefill); " + "; ".join(
            f"{name} {took * 1000:.0f} ms = 1/{best['cold'] / took:.1f}" for name, took in best.items() if name != "cold"))


if __name__ == "__main__":
    main()
