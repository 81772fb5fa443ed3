"""The clients people use, against a real model: openai, websockets, raw HTTP.

Each script of clients/ runs as it is; what it says about each of its cases is the
result. Not run here are the cases below, each for its reason.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import re
import subprocess
import sys

from common import SLOWNESS, Server, case, case_timeout, need, need_smollm2, run_against

FORCED = "forces a tool call, which takes output constrained by a grammar"
NO_KEY = "needs a server with keys"
SKIPPED = {
    "sdk_responses.py": {"stream_tool_call": FORCED, "tool_round_trip_with_previous_id": FORCED},
    "sdk_responses_ws.py": {},
    "raw_ws.py": {"no_key_is_401": NO_KEY},
}

server = Server({"smollm2": need_smollm2()})


def run(script):
    skipped = SKIPPED[script]
    for name, why in skipped.items():
        print(f"SKIP {script} {name}: {why}")
    environment = {**os.environ, "BASE_URL": server.base_url, "API_KEY": "any", "MODEL": "smollm2",
                   "SKIP": ",".join(skipped), "CASE_TIMEOUT": str(55 * SLOWNESS)}
    got = subprocess.run([sys.executable, pathlib.Path(__file__).parent / "clients" / script], env=environment,
                         capture_output=True, text=True)
    print("".join(f"    {line}\n" for line in got.stdout.splitlines()), end="")
    failed = re.findall(r"^FAIL (.*)$", got.stdout, re.M)
    need(not failed, f"{script}: {'; '.join(failed)}"[:300])
    need(got.returncode == 0, f"{script} ended with {got.returncode}: {got.stderr[-300:]}")


@case
def sdk_over_http():
    run("sdk_responses.py")


@case
def sdk_over_websocket():
    run("sdk_responses_ws.py")


@case
def websockets_library():
    run("raw_ws.py")


if __name__ == "__main__":
    case_timeout(300)
    run_against(server)
