#!/usr/bin/env python3
"""A conversation that outlives its server.

    crash_and_resume.py --model NAME -- SERVER-COMMAND...

Starts the server (its command must hold --listen 127.0.0.1:0 and a --data folder),
takes a first turn over a WebSocket, kills the server with SIGKILL, starts it again
on the same folder, and takes a second turn that names the first by
previous_response_id and sends nothing but the new question. Prints both turns and
how many input tokens the second one did not have to compute again. The exit status
is 0 only if everything that can be known without judging the reply held.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import subprocess
import sys
import tempfile
import threading
import time

from chat_ws import WebSocket, WebSocketError, describe, print_text, turn

READY = "listening on http://"
START_TIMEOUT = 120  # seconds
SAVED_WITHIN = 1  # seconds: a turn is on disk when its last event comes, its attention state a moment later
FIRST = "What is gravity? Answer in two sentences."
SECOND = "Say that again in one short sentence."


class Server:
    """A running server process; `url` is where its WebSocket is. It logs into `log`."""

    def __init__(self, command, log):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        watchdog = threading.Timer(START_TIMEOUT, self.process.kill)
        watchdog.start()
        try:
            self.url = self._wait_until_ready()
        except BaseException:
            self.kill()
            raise
        finally:
            watchdog.cancel()

    def _wait_until_ready(self):
        for line in self.process.stdout:
            if line.startswith(READY):
                return "ws://" + line[len(READY):].strip() + "/responses"
        raise RuntimeError(f"the server ended before it listened, with status {self.process.wait()}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        self.process.terminate()
        status = self.process.wait(timeout=30)
        self.process.stdout.close()
        return status


def ask(server, question, **request):
    print(f"\nuser:      {question}\nassistant: ", end="", flush=True)
    with WebSocket(server.url) as ws:
        response = turn(ws, print_text, input=question, temperature=0, max_output_tokens=64, **request)
    print(f"\n           {describe(response)}")
    return response


def faults(first, second, end_status):
    """What did not hold, in words."""
    if second["previous_response_id"] != first["id"]:
        yield f"the second turn's parent is {second['previous_response_id']}, not {first['id']}"
    if second["usage"]["input_tokens"] <= first["usage"]["input_tokens"]:
        yield "the first turn is not part of the second one's prompt"
    for name, response in (("first", first), ("second", second)):
        if response["status"] not in ("completed", "incomplete"):
            yield f"the {name} turn ended as {response['status']}"
        if not response["output"]:
            yield f"the {name} turn has no reply"
    if end_status != 0:
        yield f"the server ended with status {end_status} after SIGTERM"


def converse(command, model, log):
    print("--- starting the server ---", flush=True)
    server = Server(command, log)
    try:
        first = ask(server, FIRST, model=model)
        time.sleep(SAVED_WITHIN)
        print("\n--- kill -9, and a new server on the same data folder ---", flush=True)
        server.kill()
        server = Server(command, log)
        second = ask(server, SECOND, model=model, previous_response_id=first["id"])
        end_status = server.stop()
    finally:
        if server.process.poll() is None:
            server.kill()
    usage = second["usage"]
    print(f"\nreused {usage['input_tokens_details']['cached_tokens']} of {usage['input_tokens']} input tokens"
          " from attention state that was on disk")
    return list(faults(first, second, end_status))


def main():
    parser = argparse.ArgumentParser(description="A conversation that outlives its server.")
    parser.add_argument("--model", required=True)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    with tempfile.TemporaryFile("w+") as log:
        try:
            wrong = converse(args.command, args.model, log)
        except (OSError, WebSocketError, RuntimeError, subprocess.TimeoutExpired) as error:
            wrong = [str(error)]
        if wrong:
            log.seek(0)
            print("The servers' log:\n" + log.read(), file=sys.stderr)
        for fault in wrong:
            print(f"FAULT: {fault}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
