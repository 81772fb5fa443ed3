"""Many clients for some minutes: no errors, nothing left behind, equal shares, and no long gaps.

    PAWL_BUILD_DIR=build python3 tests/bench/soak.py [--minutes 5] [--clients 64] [--seed 1] [--record]

An eighth of the clients are equal and always running; their tokens are timed. The others do as they
like: both dialects, two keys, both priorities, prompts and replies of random lengths, disconnects,
cancels, three WebSockets of four lanes each. In the middle, for two fifths of the
time, prompts of 6,000 tokens arrive, one after another.

Errors, things left behind and a client with less than half of the mean rate end it with status 1.
The gaps are told and not judged, since other programs on the machine make them too. --record adds
a line to tests/RECORDS.md.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import datetime
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from common import ROOT, SMOLLM2, Server  # noqa: E402
from soaking import MODEL, OPTIONS, Crowd, Left, Steady, add_key, random_tokens, scrape  # noqa: E402

LONG, MIB = 6000, 1 << 20


def long_prompts(server, headers, rng, seconds):
    """One after another, for so long; how many came to their end. The last one is given up."""
    n, end = 0, time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0.1:
        body = {"model": "m", "prompt": random_tokens(rng, LONG), "max_tokens": 1, "priority": "interactive"}
        try:
            reply = server.http("POST", "/v1/completions", body, timeout=left, **headers)
        except TimeoutError:
            break
        if reply.status != 200:
            raise AssertionError(f"a long prompt is answered with {reply.status}: {reply.body[:200]!r}")
        n += 1
    return n


def soak(server, args, keys, ops, got):
    """Leaves in got what was seen while the load was on."""
    rng, began = random.Random(args.seed), time.monotonic()
    n_steady = max(args.clients // 8, 2)
    with Crowd(server, args.clients - n_steady, keys, args.seed) as crowd, Steady(server, n_steady, keys[0]) as steady:
        time.sleep(args.minutes * 60 * 0.4)
        before, begin = scrape(server, ops), time.monotonic()
        got["prompts"] = long_prompts(server, keys[1], rng, args.minutes * 60 * 0.4)
        after, end = scrape(server, ops), time.monotonic()
        time.sleep(max(0, began + args.minutes * 60 - time.monotonic()))
        got["totals"], got["gaps"] = steady.totals(), steady.gaps(begin, end)
        got["seconds"], got["load"] = time.monotonic() - began, os.getloadavg()[1]
    got["steps"] = [after[f"pawl_iteration_seconds_{x}", MODEL] - before[f"pawl_iteration_seconds_{x}", MODEL] for x in ("sum", "count")]
    got["preempted"] = scrape(server, ops)["pawl_num_preemptions_total", MODEL]
    got["long"], got["counts"], got["errors"] = end - begin, crowd.counts, crowd.errors + steady.errors


def figure_of(got, args, before, after):
    gaps, c = sorted(got["gaps"]), got["counts"]
    median, p99 = statistics.median(gaps), gaps[int(len(gaps) * 0.99)]
    share = min(got["totals"]) * len(got["totals"]) / sum(got["totals"])
    return share, (
        f"soak: {args.clients} clients, {got['seconds']:.0f} s, {c['whole']} replies to their end, {c['lanes']} turns on lanes, "
        f"{c['disconnects']} disconnects, {c['cancels']} cancels, {got['preempted']:.0f} preemptions, {len(got['errors'])} errors; "
        f"left behind: nothing (pages, sequences, connections, descriptors, {after.counts['threads']} threads), memory "
        f"{before.memory / MIB:.0f} -> {after.memory / MIB:.0f} MiB outside the pool, with 64 for saved state; "
        f"the slowest of {len(got['totals'])} equal clients got {share:.2f} of the mean; "
        f"beside prompts of {LONG} tokens ({got['long']:.0f} s, {got['prompts']} came to their end) {len(gaps)} gaps: median {median * 1000:.0f} ms, "
        f"p99 {p99 * 1000:.0f}, longest {gaps[-1] * 1000:.0f} = {gaps[-1] / median:.1f} medians, "
        f"{sum(g > 3 * median for g in gaps)} over 3; mean step {got['steps'][0] / max(got['steps'][1], 1) * 1000:.0f} ms; "
        f"load average {got['load']:.0f}")


def record(figure, args):
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    command = f"python3 tests/bench/soak.py --minutes {args.minutes:g} --clients {args.clients} --seed {args.seed}"
    with open(ROOT / "tests/RECORDS.md", "a") as file:
        file.write(f"| {datetime.date.today()} | {figure} | `{command}` | AMD EPYC, 2 cores, shared | {commit} |\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default=SMOLLM2)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    got = {}
    with Server({"m": args.model}, *OPTIONS, "--log-level", "warn") as server:
        keys, ops = [add_key(server, name) for name in ("ann", "bob")], add_key(server, "ops", "metrics")
        before = Left(server, keys[0], ops, 1)
        soak(server, args, keys, ops, got)
        for error in got["errors"][:10]:
            print(error)
        after = Left(server, keys[0], ops, 2)
        after.same(before)
        share, figure = figure_of(got, args, before, after)
        print(figure)
        if got["errors"] or share < 0.5 or after.memory - before.memory > 160 * MIB:
            raise AssertionError("errors, shares or memory are not as they should be")
    if args.record:
        record(figure, args)


if __name__ == "__main__":
    main()
