"""The clients people use, against a real model and against one that calls tools by script.

Each script of clients/ runs as it is; what it says about each of its cases is the
result. Not run here are the cases below, each for its reason.

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import os
import pathlib
import re
import subprocess
import sys

from common import CACHE, SLOWNESS, Server, Skip, case, case_timeout, need, need_smollm2, run_against

HERE = pathlib.Path(__file__).parent
FORCED = "forces a tool call, which takes output constrained by a grammar"
FORMAT = "wants JSON by a schema, which takes output constrained by a grammar"
NO_KEY = "needs a server with keys"
SKIPPED = {
    "sdk_responses.py": {"stream_tool_call": FORCED, "tool_round_trip_with_previous_id": FORCED},
    "sdk_responses_ws.py": {},
    "raw_ws.py": {"no_key_is_401": NO_KEY},
    "sdk_chat.py": {"chat_tools_named_choice": FORCED, "chat_tools_required_stream": FORCED, "chat_json_schema": FORMAT},
    "sdk_errors.py": {"unauthorized": NO_KEY},
    "agents_sdk.py": {},
    "dify_provider.py": {"structured_output": FORMAT},
}

server = Server({"smollm2": need_smollm2()})

CALL = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'


def caller():
    """A server whose model calls the tools of agents_sdk.py and dify_provider.py without being forced to."""
    return Server({"caller": {"context": 8192, "replies": [
        {"when": "code-4711", "text": "The code is code-4711."},
        {"when": "code of Paris", "text": CALL % ("lookup_code", '{"city": "Paris", "day": 3}')},
        {"when": "Repeat it", "text": "code-4711"},
        {"when": "Weather in Oslo", "text": CALL % ("get_weather", '{"city": "Oslo", "unit": "c", "days": 2}')},
        {"text": "Hello!"},
    ]}})


def run(script, target=server, python=sys.executable, **settings):
    skipped = SKIPPED[script]
    for name, why in skipped.items():
        print(f"SKIP {script} {name}: {why}")
    environment = {**os.environ, "BASE_URL": target.base_url, "API_KEY": "any", "MODEL": "smollm2",
                   "ONLY": "", "SKIP": ",".join(skipped), "CASE_TIMEOUT": str(55 * SLOWNESS), **settings}
    got = subprocess.run([python, HERE / "clients" / script], env=environment, capture_output=True, text=True)
    print("".join(f"    {line}\n" for line in got.stdout.splitlines()), end="")
    failed = re.findall(r"^FAIL (.*)$", got.stdout, re.M)
    need(not failed, f"{script}: {'; '.join(failed)}"[:300])
    need(got.returncode == 0, f"{script} ended with {got.returncode}: {got.stderr[-300:]}")


def dify_python():
    """The interpreter of the environment that tests/run.sh makes for Dify's code."""
    digest = hashlib.sha256((HERE.parent / "requirements-dify.txt").read_bytes()).hexdigest()
    environment = CACHE / f"venv-{digest[:12]}"
    if not (environment / "complete").exists():
        raise Skip("the packages of tests/requirements-dify.txt are missing; tests/run.sh installs them")
    return environment / "bin" / "python"


@case
def sdk_over_http():
    run("sdk_responses.py")


@case
def sdk_over_websocket():
    run("sdk_responses_ws.py")


@case
def websockets_library():
    run("raw_ws.py")


@case
def sdk_chat_completions():
    run("sdk_chat.py")


@case
def sdk_error_classes():
    run("sdk_errors.py")


@case
def agents():
    with caller() as target:
        run("agents_sdk.py", target, MODEL="caller", TOOL_CHOICE="auto", MEANING="1")


@case
def dify():
    python = dify_python()
    with caller() as target:
        run("dify_provider.py", target, python, MODEL="caller", TOOL_CHOICE="auto")


@case
def dify_with_a_real_model():
    SKIPPED["dify_provider.py"]["tool_call_stream_and_plain"] = FORCED
    run("dify_provider.py", python=dify_python())


if __name__ == "__main__":
    case_timeout(300)
    run_against(server)
