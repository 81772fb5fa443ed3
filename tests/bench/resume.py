"""Exactness of resumed conversations: random ones, killed with -9 at random events, compared with a
server that was never interrupted.

    PAWL_BUILD_DIR=build python3 tests/bench/resume.py [--conversations 100] [--seed 1] [--model FILE]
        [--record]

Each conversation is played three times: uninterrupted; with a kill -9 at a random event of about
every second turn; and once more with the same, while rows of kv.db are deleted or damaged between
the runs of the server. Texts, token counts and statuses must be equal. --record adds a line to
tests/RECORDS.md.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import datetime
import pathlib
import random
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from common import HERMES, ROOT, Server  # noqa: E402
from conversations import cached, plan, play, same, spoil  # noqa: E402
import tiny_model  # noqa: E402

SMALL = ("--kv-min-tokens", "64")


class Tally:
    def __init__(self):
        self.turns = self.kills = self.rows = self.cached = self.tokens = 0


def interrupted(server, turns, rng, tally, damage):
    """Plays a conversation with kills; the server is started again each time."""
    def kill_at(n):
        return rng.randint(1, 30) if rng.random() < 0.5 else None

    started = server.start

    def start(*args):
        tally.kills += 1
        if damage:
            tally.rows += spoil(server.data, rng)
        return started(*args)

    server.start = start
    try:
        got = play(server, turns, "m", kill_at=kill_at)
    finally:
        server.start = started
    tally.turns += len(got)
    tally.cached += sum(map(cached, got))
    tally.tokens += sum(r["usage"]["input_tokens"] for r in got)
    return got


def campaign(model, conversations, seed, tally, **shape):
    with Server({"m": model}, *SMALL) as plain, Server({"m": model}, *SMALL, "--sequences", "2") as cut, \
            Server({"m": model}, *SMALL, "--kv-memory-mb", "0") as damaged:
        for n in range(conversations):
            turns = plan(seed + n, **shape)
            rng = random.Random(seed + n)
            want = play(plain, turns, "m")
            same(interrupted(cut, turns, rng, tally, False), want, f"conversation {seed + n}, killed")
            same(interrupted(damaged, turns, rng, tally, True), want, f"conversation {seed + n}, killed and damaged")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--conversations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", help="a GGUF file; default: a small random llama")
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    tally, began = Tally(), time.monotonic()
    model = args.model or tiny_model.write("/tmp/pawl-resume.gguf", HERMES)
    campaign(model, args.conversations, args.seed, tally)
    name = pathlib.Path(model).name if args.model else "a small random llama"
    figure = (f"resume: {args.conversations} conversations ({name}), {tally.turns} turns with {tally.kills} kill -9 and "
              f"{tally.rows} rows deleted or damaged, all equal to the uninterrupted ones; "
              f"{100 * tally.cached // max(tally.tokens, 1)} % of input tokens were cached; "
              f"{time.monotonic() - began:.0f} s")
    print(figure)
    if args.record:
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        command = f"python3 tests/bench/resume.py --conversations {args.conversations} --seed {args.seed}"
        with open(ROOT / "tests/RECORDS.md", "a") as file:
            file.write(f"| {datetime.date.today()} | {figure} | `{command}` | 2 cores | {commit} |\n")


if __name__ == "__main__":
    main()
