"""The short form of tests/bench/soak.py: no errors and nothing left behind; one prompt of many is held once.

SPDX-License-Identifier: Apache-2.0
"""
import time

from common import Server, case, case_timeout, equal, main, need, need_smollm2
from soaking import MODEL, OPTIONS, WORDS, Crowd, Left, Steady, Stream, add_key, scrape

SMOLLM2 = need_smollm2()
SYSTEM = " ".join(WORDS[n % len(WORDS)] for n in range(2000))  # a token each


@case
def many_clients_leave_nothing_behind():
    with Server({"m": SMOLLM2}, *OPTIONS, "--log-level", "warn") as server:
        keys, ops = [add_key(server, name) for name in ("ann", "bob")], add_key(server, "ops", "metrics")
        before = Left(server, keys[0], ops, 1)
        with Crowd(server, 8, keys, 1) as crowd, Steady(server, 2, keys[0]) as steady:
            time.sleep(5)
        equal(crowd.errors + steady.errors, [], "errors of clients")
        Left(server, keys[0], ops, 2).same(before)


def held_beside(server, n):
    """Pages that are held while a request for n choices runs."""
    body = {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Tell a story."}],
            "max_tokens": 64, "ignore_eos": True, "n": n}
    stream, most, running = Stream(server, "/v1/chat/completions", {}, **body), 0, 0
    for _ in stream.events():
        now = scrape(server, {})
        most = max(most, now["pawl_kv_cache_pages", MODEL] - now["pawl_kv_cache_pages_free", MODEL])
        running = max(running, now["pawl_num_requests_running", MODEL])
    return most, running


@case
def choices_hold_their_prompt_once():
    with Server({"m": SMOLLM2}, *OPTIONS) as server:
        most, running = held_beside(server, 8)
        print(f"    {most:.0f} pages of 64 tokens with {running:.0f} running")
        need(most < 2 * len(SYSTEM.split()) / 64, f"{most} pages")
        need(running > 1, "they did not run together")


if __name__ == "__main__":
    case_timeout(180)
    main()
