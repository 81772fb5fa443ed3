"""`cmake --install` gives a tree that works wherever it stands.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import subprocess
import tempfile

from common import BUILD, PAWL, ROOT, Server, case, equal, main, need, need_smollm2, text_of


@case
def an_installed_tree_serves():
    model = need_smollm2()
    with tempfile.TemporaryDirectory() as prefix:
        got = subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], capture_output=True, text=True)
        equal(got.returncode, 0, f"cmake --install ({got.stderr[-300:]})")
        tree = pathlib.Path(prefix)
        for path in ("bin/pawl", "include/pawl/plugin.h", "lib/pawl/plugins/cpu.so", "lib/pawl/plugins/cpu.plugin.json",
                     "lib/pawl/plugins/tokenizer.so", "lib/pawl/plugins/chat.so"):
            need((tree / path).exists(), f"{path} is not installed")
        replay = {path.relative_to(tree).as_posix() for path in tree.rglob("*replay*")}
        equal(replay, {"lib/pawl/test-plugins/replay.so", "lib/pawl/test-plugins/replay.plugin.json"}, "of the test plugins")
        listed = subprocess.run([tree / "bin" / "pawl", "plugin", "list"], capture_output=True, text=True, timeout=60).stdout
        need("replay" not in listed, "it is used where it was not asked for")
        tested = subprocess.run([tree / "bin" / "pawl", "test", ROOT / "examples" / "pipelines"], capture_output=True,
                                text=True, timeout=60)
        equal(tested.returncode, 0, f"pawl test ({tested.stdout[-500:]})")
        server = Server({"smollm2": model})
        server.command[0] = tree / "bin" / "pawl"
        at = server.command.index("--plugin-dir")
        del server.command[at:at + 2]  # its own are found from where the program stands
        with server:
            reply = server.create(model="smollm2", input="Say yes.", max_output_tokens=8)
            need(text_of(reply), "no text")


@case
def the_program_tells_about_itself():
    for arguments in (["--help"], ["--version"], ["serve", "--help"], ["model", "--help"]):
        got = subprocess.run([PAWL, *arguments], capture_output=True, text=True, timeout=60)
        equal(got.returncode, 0, f"exit status of {arguments} ({got.stderr[-200:]})")
        need("pawl" in got.stdout, f"{arguments} printed {got.stdout[:100]!r}")


if __name__ == "__main__":
    main()
