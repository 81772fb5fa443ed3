"""A server that has nothing to do takes nothing: its threads sleep.

The processor time of all threads (/proc/PID/task/*/schedstat) and how often they woke,
over some seconds after a request and with a socket open. Wanted is less than 0.5 % of
a core; 5 % is judged. PAWL_IDLE_SECONDS: how long it is watched.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import re
import time

from common import SANITIZER, SMOLLM2, Server, Skip, ask, case, case_timeout, main, need, text_of

SECONDS = int(os.environ.get("PAWL_IDLE_SECONDS", "5"))
MOST = 0.05

case_timeout(60 + 2 * SECONDS)


def used(server):
    """Seconds on a processor and wake-ups of all threads so far."""
    seconds, wakes = 0.0, 0
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        seconds += int((task / "schedstat").read_text().split()[0]) / 1e9
        wakes += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.M)[1])
    return seconds, wakes


def expect_rest(server, what):
    time.sleep(1)  # what the last request still writes
    before, woke, began = *used(server), time.monotonic()
    time.sleep(SECONDS)
    after, wakes = used(server)
    took = time.monotonic() - began
    share = (after - before) / took
    print(f"    {what}: {100 * share:.3f} % of a core, {(wakes - woke) / took:.1f} wake-ups a second over {took:.0f} s")
    need(share < MOST, f"{what} takes {100 * share:.1f} % of a core")


@case
def a_script_that_has_been_read_rests():
    with Server({"replay": {"replies": [{"text": "Yes."}]}}) as server:
        with server.connect() as ws:
            ask(ws, model="replay", input="Are you there?")
            expect_rest(server, "an idle server")


@case
def a_real_model_rests_between_requests():
    if not SMOLLM2.exists():
        raise Skip(f"{SMOLLM2} is missing; tests/run.sh fetches it")
    if SANITIZER:
        raise Skip("the real model takes too long under a sanitizer")
    with Server({"smollm2": SMOLLM2}) as server:
        expect_rest(server, "a model that has just been loaded")
        with server.connect() as ws:
            reply = ask(ws, model="smollm2", input="What is gravity?", temperature=0, max_output_tokens=16)
            need(text_of(reply), "it said nothing")
            expect_rest(server, "a model between two requests")


if __name__ == "__main__":
    main()
