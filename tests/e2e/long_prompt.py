"""How long streams wait while a long prompt comes in: figures for tests/RECORDS.md.

    PAWL_BUILD_DIR=build python3 tests/e2e/long_prompt.py [STREAMS [WORDS]]

No test: times depend on the machine. Streams of the small model run alone for a while,
then a prompt of so many words is added; the gaps between two tokens of a stream are
compared before and while it is computed.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import statistics
import sys
import threading
import time

from common import Server, need_smollm2

STREAMS, WORDS = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((1, 4), (2, 3000)))
PATH = "/v1/completions"


def stream(server, n, times, over):
    """Notes when tokens come, until the event is set."""
    connection = http.client.HTTPConnection(server.host, int(server.port), timeout=600)
    body = {"model": "smollm2", "prompt": f"Story {n}: once", "max_tokens": 7000, "stream": True, "ignore_eos": True, "seed": n}
    connection.request("POST", PATH, json.dumps(body), {"Content-Type": "application/json"})
    for line in connection.getresponse():
        if over.is_set():
            break
        if line.startswith(b"data: {"):
            times.append(time.monotonic())
    connection.close()


def describe(gaps):
    return f"median {statistics.median(gaps) * 1000:.0f} ms, longest {max(gaps) * 1000:.0f} ms of {len(gaps)}"


def measure():
    with Server({"smollm2": need_smollm2()}, "--kv-mb", "2048", "--context", "8192") as server:
        over, times = threading.Event(), [[] for _ in range(STREAMS)]
        threads = [threading.Thread(target=stream, args=(server, n, times[n], over)) for n in range(STREAMS)]
        for thread in threads:
            thread.start()
        time.sleep(5)
        begin = time.monotonic()
        server.http("POST", PATH, {"model": "smollm2", "prompt": "word " * WORDS, "max_tokens": 1}, timeout=600)
        end = time.monotonic()
        over.set()
        for thread in threads:
            thread.join()
    gaps = [(at, after - at) for t in times for at, after in zip(t, t[1:])]
    print(f"{STREAMS} streams alone: {describe([gap for at, gap in gaps if at + gap < begin])}")
    print(f"beside a prompt of {WORDS} words: {describe([gap for at, gap in gaps if at + gap >= begin and at < end])}")
    print(f"its first token came after {end - begin:.1f} s")


if __name__ == "__main__":
    measure()
