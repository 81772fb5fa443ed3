"""pawl serve --config: several models, --check-config and --print-config, what wins.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import pathlib
import re
import subprocess
import tempfile

from common import HERMES, PAWL, ROOT, TEST_PLUGINS, Server, case, equal, main, need, text_of

REPLAY = {"replay": 1, "chat_template": HERMES}


def pawl(*arguments, status=0, **env):
    got = subprocess.run([PAWL, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=60,
                         env={**os.environ, **env})
    equal(got.returncode, status, f"exit status of {arguments} ({got.stderr[-300:]!r})")
    return got


class Folder:
    """A folder with a configuration and its models."""

    def __enter__(self):
        self.held = tempfile.TemporaryDirectory(prefix="pawl-config-")
        self.path = pathlib.Path(self.held.name)
        for name in ("one", "two"):
            (self.path / f"{name}.replay.json").write_text(json.dumps({**REPLAY, "replies": [{"text": f"I am {name}."}]}))
        return self

    def __exit__(self, *_):
        self.held.cleanup()

    def write(self, text):
        file = self.path / "pawl.json"
        file.write_text(text)
        return file


def without_comments(text):
    return json.loads(re.sub(r",(\s*[\]}])", r"\1", re.sub(r"^\s*//.*$|, // .*$", lambda m: "," if m[0][0] == "," else "", text, flags=re.M)))


class Configured(Server):
    """A server whose models are in a file."""

    def __init__(self, file, *args, **rest):
        super().__init__({}, "--config", file, *args, **rest)


@case
def several_models_each_on_its_own():
    with Folder() as folder:
        file = folder.write("""{
            // relative to this file
            "sequences": 5, "context": 512,
            "models": [
                {"name": "a", "path": "one.replay.json", "context": 300, "kv_mb": 64, "sequences": 3},
                {"path": "two.replay.json", "engine": "dev.pawl.test.replay", "dialect": "hermes",
                 "options": {"delay_ms": 1}}, /* last */
            ],
        }""")
        with Configured(file) as server:
            listed = {m["id"]: m["max_model_len"] for m in server.http("GET", "/v1/models").json()["data"]}
            equal(listed, {"a": 300, "two": 512}, "models and their contexts")
            equal(text_of(server.create(model="a", input="who")), "I am one.", "the first")
            equal(text_of(server.create(model="two", input="who")), "I am two.", "the second")
            loaded = [line for line in map(json.loads, server.log().splitlines()) if line["component"] == "model"]
            equal([(m["model"], m["engine"], m["dialect"], m["context"], m["sequences"]) for m in loaded],
                  [("a", "dev.pawl.test.replay", "hermes", 300, 3), ("two", "dev.pawl.test.replay", "hermes", 512, 5)], "lines")
            equal(loaded[0]["kv_mb"], 64, "budget")
            ready = server.http("GET", "/metrics").body.decode()
            need('pawl_model_ready{model="a"} 1' in ready and 'pawl_model_ready{model="two"} 1' in ready, "readiness of both")


@case
def flags_win_over_the_environment_over_the_file():
    with Folder() as folder:
        file = folder.write('{"threads": 1, "queue": 10, "context": 100, "api_key": "sk-in-the-file",\n'
                            '"models": [{"path": "one.replay.json"}]}')
        got = pawl("--config", file, "--print-config", "--threads", "3", PAWL_THREADS="2", PAWL_QUEUE="20", PAWL_LISTEN="127.0.0.1:0")
        text = got.stdout
        for line in ('"threads": 3, // --threads', '"queue": 20, // PAWL_QUEUE', f'"context": 100, // {file}:1',
                     '"sequences": 16, // default', f'"path": "{folder.path}/one.replay.json", // {file}:2',
                     f'"api_key": "********", // {file}:1'):
            need(line in text, f"{line} is not in {text}")
        need("sk-in" not in text + got.stderr, "a secret is shown")
        again = folder.path / "again.json"
        again.write_text(text)
        equal(without_comments(pawl("--config", again, "--print-config").stdout), without_comments(text), "read again")
        equal(pawl("--config", file, "--check-config").stdout, "", "a good one")
        equal(pawl("--check-config", PAWL_CONFIG=str(file)).stdout, "", "the file by the environment")


@case
def all_errors_with_their_places():
    with Folder() as folder:
        file = folder.write('{\n"thread": 1,\n"log_level": "loud",\n"models": [\n'
                            '{"name": "a", "path": "one.replay.json"},\n{"name": "a", "path": "absent.gguf"}]}')
        said = pawl("--config", file, "--check-config", "--sequences", "0", status=1, PAWL_QUEUE="x").stderr
        for line in (f'{file}:2: thread: there is no such setting; did you mean "threads"?', f"{file}:3: log_level: loud: one of",
                     "--sequences: 0: a whole number from 1", "PAWL_QUEUE: x: a whole number",
                     f"{file}:6: models[1]: {folder.path}/absent.gguf: No such file", f'{file}:6: models[1]: another model is named "a"',
                     "6 errors in the settings"):
            need(line in said, f"{line!r} is not in {said}")
        equal(pawl("--config", file, "--sequences", "0", status=2, PAWL_QUEUE="x").stderr, said, "when it should serve")
        pawl("--config", folder.path / "absent.json", "--check-config", status=1)
        pawl("--config", folder.path, "--check-config", status=1)
        broken = pawl("--config", folder.write('{\n\n"a" 1}'), "--check-config", status=1).stderr
        need(f"{file}:3: a : is expected" in broken, f"said {broken}")
        need("--listen: " in pawl("--check-config", "--listen", "nowhere", "--model", file, status=1).stderr, "address")


@case
def what_only_loading_shows():
    with Folder() as folder:
        common = ["--data", folder.path / "data", "--plugin-dir", TEST_PLUGINS, "--listen", "127.0.0.1:0"]
        one = folder.path / "one.replay.json"
        for more, said in ((["--model", one, "--engine", "dev.nobody"], "no usable engine plugin dev.nobody"),
                           (["--model", one, "--dialect", "klingon"], "no plugin has the chat dialect klingon"),
                           (["--model", one, "--model", one], "two models are named one")):
            need(said in pawl(*common, *more, status=1).stderr, f"{more}: {said}")


@case
def a_secret_is_asked_for():
    with Folder() as folder:
        secret = folder.path / "key"
        secret.write_text("sk-secret\n")
        secret.chmod(0o600)
        with Server({"replay": {"replies": [{"text": "Yes."}]}}, "--api-key-file", str(secret)) as server:
            equal(server.http("GET", "/v1/models").status, 401, "without a key")
            equal(server.http("GET", "/v1/models", Authorization="Bearer sk-secret").status, 200, "with it")
            for path in ("/livez", "/readyz", "/health"):
                equal(server.http("GET", path).status, 200, f"{path} needs none")
            equal(server.http("GET", "/metrics").status, 401, "/metrics without a key")
            need("sk-secret" not in server.log(), "the secret is in the log")


@case
def the_example_is_good_but_for_its_model():
    example = ROOT / "examples" / "deploy" / "pawl.json"
    said = pawl("--config", example, "--check-config", status=1).stderr
    equal(len(said.splitlines()), 2, f"errors of the example: {said}")
    need("models[0]: /var/lib/pawl/models/" in said, f"errors of the example: {said}")


@case
def help_names_every_setting():
    said = pawl("--help").stdout
    schema = json.loads((ROOT / "schemas" / "config.schema.json").read_text())["properties"]
    flags = {"plugin_dirs": "plugin-dir", "models": "model", "allow_hosts": "allow-host", "allow_origins": "allow-origin",
             "api_keys_file": "api-key-file"}
    for name in schema:
        flag = flags.get(name, name.replace("_", "-"))
        need(f"--{flag}" in said or name in ("api_key", "api_key_file"), f"--{flag} is not in the help")
    need("--api-key=" not in said, "a secret on the command line")


if __name__ == "__main__":
    main()
