"""One `pawl run` for a test, against a scripted model.

SPDX-License-Identifier: Apache-2.0
"""
import json
import pathlib
import signal
import subprocess
import tempfile
import time

from common import HERMES, PAWL, REPORT, SLOWNESS, TEST_PLUGINS, equal, need

SCRIPT = {"replies": [
    {"when": "endless", "text": "0123456789", "end": "none", "delay_ms": 5},
    {"when": "slow", "text": "late", "delay_ms": 100},
    {"when": "break", "text": "abc", "fail_at": 2, "fail_status": "device"},
    {"when": "<tool_response>", "text": "It is warm."},
    {"when": "weather", "text": "<think>\nlook\n</think>\n\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": \"Oslo\"}}\n</tool_call>"},
    {"when": "garbled", "text": "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"place\": }}\n</tool_call>"},
    {"when": "Which haiku", "text": "2, yes"},
    {"when": "haiku", "text": "five seven five"},
    {"when": "second", "text": "Second."},
    {"text": "First."},
]}


HEAD = 'local h = require "pawl" return h.pipeline { name = "test", run = function(ctx, input) '


class Run:
    """One `pawl run` of a source: the text of a pipeline's function, or with whole a file.
    `lines`: what it emitted, as [type, data]; `value`: what it returned."""

    def __init__(self, source, *args, model=SCRIPT, kill_after=None, signals=1, path=None, whole=False):
        with tempfile.TemporaryDirectory(prefix="pawl-e2e-") as folder:
            folder = pathlib.Path(folder)
            if path is None:
                path = folder / "test.lua"
                path.write_text(source if whole else HEAD + source + "\nend }")
            command = [PAWL, "run", path, "--plugin-dir", TEST_PLUGINS, *args]
            if "--data" not in args:
                command += ["--data", folder / "data"]
            if isinstance(model, dict):
                replay = folder / "replay.replay.json"
                replay.write_text(json.dumps({"replay": 1, "chat_template": HERMES, **model}))
                command += ["--model", f"replay={replay}"]
            elif model:
                command += ["--model", model]
            began = time.monotonic()
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                if kill_after is not None:
                    need(process.stdout.readline(), "the script says that it has begun")
                    time.sleep(kill_after)
                    began = time.monotonic()
                    for _ in range(signals):
                        process.send_signal(signal.SIGINT)
                out, self.log = process.communicate(timeout=60 * SLOWNESS)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
            self.seconds = time.monotonic() - began
            self.status = process.returncode
            events = [json.loads(line) for line in out.splitlines()]
            self.lines = [[e["type"], e["data"]] for e in events if not e["type"].startswith("run.")]
            self.streamed = [e["data"] for e in events if e["type"] == "run.text"]
            self.value = next((e["data"] for e in events if e["type"] == "run.done"), None)
            need(not REPORT.search(self.log), self.log[:4000])

    def is_done(self, *values):
        equal(self.status, 0, f"status ({self.log[-600:]})")
        if values:
            equal(self.value, values[0], "what it returned")
        return self.value

    def failed(self, code, *texts):
        equal(self.status, 1, f"status ({self.log[-600:]})")
        for text in (f"pawl run: {code}: ", *texts):
            need(text in self.log, f"{text!r} in {self.log[-600:]!r}")
