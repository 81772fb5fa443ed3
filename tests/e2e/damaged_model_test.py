"""Damaged model files: a message that says where, exit status 1, never a crash.

The small model's header is real; the tensors' data is a hole in a sparse file, since
nothing here gets as far as computing with it.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import struct
import subprocess
import tempfile

from common import PAWL, REPORT, SLOWNESS, case, case_timeout, equal, main, need, need_smollm2, one_of

MODEL = need_smollm2()
SIZE = MODEL.stat().st_size
FOLDER = tempfile.TemporaryDirectory(prefix="pawl-damaged-")
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Header:
    """Where things are in a GGUF header."""

    def __init__(self, data):
        self.data, self.at = data, 8
        n_tensors, n_values = self.number("<Q"), self.number("<Q")
        self.values = {}
        for _ in range(n_values):
            key = self.text()
            self.values[key] = self.at
            self.skip(self.number("<I"))
        self.tensors = []  # name, where its dimensions, type and offset are
        for _ in range(n_tensors):
            name = self.text()
            n_dims = self.number("<I")
            self.tensors.append((name, self.at, self.at + 8 * n_dims, self.at + 8 * n_dims + 4))
            self.at += 8 * n_dims + 12

    def number(self, form):
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        size = self.number("<Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def skip(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            kind, n = self.number("<I"), self.number("<Q")
            for _ in range(n):
                self.skip(kind)
        else:
            self.at += SCALARS[kind]


with open(MODEL, "rb") as file:
    START = file.read(4 << 20)
HEADER = Header(START)


def damaged(size=SIZE, patches=()):
    """A copy that is cut to size, with other bytes at some places."""
    path = pathlib.Path(FOLDER.name) / "damaged.gguf"
    data = bytearray(START[:size])
    for at, value in patches:
        data[at:at + len(value)] = value
    with open(path, "wb") as out:
        out.write(data[:size])
        os.truncate(out.fileno(), size)
    return path


def refused(path, what, words=(), inspect=True, serve=True):
    """inspect and serve refuse the file, each with a message that has the words."""
    commands = [["model", "inspect", path]] if inspect else []
    if serve:
        data = pathlib.Path(FOLDER.name) / "data"
        data.mkdir(0o700, exist_ok=True)
        commands.append(["serve", "--listen", "127.0.0.1:0", "--data", data, "--model", f"m={path}"])
    for command in commands:
        got = subprocess.run([PAWL, *command], capture_output=True, text=True, timeout=60 * SLOWNESS)
        said = f"{command[0]}, {what}: {got.stderr[-300:]}"
        need(got.returncode >= 0, f"died of signal {-got.returncode}: {said}")
        need(not REPORT.search(got.stderr), said)
        equal(got.returncode, 1, f"exit status of {said}")
        need(got.stderr.strip(), f"no message: {said}")
        for word in words:
            need(word in got.stderr, f"no {word!r} in the message of {said}")


@case
def cut_at_fifty_places():
    header = HEADER.at
    places = [0, 1, 4, 7, 8, 16, 23, 24] + [24 + (header - 24) * n // 22 for n in range(22)]
    places += [header + (SIZE - header) * n // 20 for n in range(20)]
    for n, place in enumerate(places):
        refused(damaged(place), f"cut at {place}", serve=n % 5 == 0)
    # The last byte counts; what is missing is named.
    refused(damaged(SIZE - 1), "cut by one byte")
    equal(len(places), 50, "places")


@case
def a_cut_names_the_tensor_that_is_not_all_there():
    refused(damaged(HEADER.at + (SIZE - HEADER.at) // 2), "cut in half", ["blk."])


@case
def offsets_beyond_the_end_or_crooked():
    name, _, _, offset = HEADER.tensors[7]
    for value in (SIZE, SIZE - 32, (1 << 63) - 32, (1 << 64) - 32, 1 << 40, 7):
        refused(damaged(patches=[(offset, struct.pack("<Q", value))]), f"offset {value} of {name}", [name],
                serve=value in (SIZE, 7))


@case
def dimensions_that_lie():
    name, dims, _, _ = HEADER.tensors[7]
    for value in (0, 1 << 32, (1 << 63), (1 << 64) - 1):
        refused(damaged(patches=[(dims, struct.pack("<Q", value))]), f"dimension {value} of {name}", [name], serve=False)


@case
def types_that_do_not_exist():
    name, _, kind, _ = HEADER.tensors[7]
    for value in (4, 99, (1 << 32) - 1):
        refused(damaged(patches=[(kind, struct.pack("<I", value))]), f"type {value} of {name}", [name], serve=False)


@case
def counts_and_magic_that_lie():
    for what, at, value in (("magic", 0, b"GGUX"), ("version", 4, struct.pack("<I", 99)),
                            ("tensors", 8, struct.pack("<Q", 1 << 60)), ("tensors", 8, struct.pack("<Q", (1 << 64) - 1)),
                            ("values", 16, struct.pack("<Q", 1 << 60)), ("length of a key", 24, struct.pack("<Q", (1 << 64) - 1))):
        refused(damaged(patches=[(at, value)]), what)


@case
def settings_that_make_no_sense():
    for key in ("llama.block_count", "llama.embedding_length", "llama.attention.head_count",
                "llama.attention.head_count_kv", "llama.context_length", "llama.feed_forward_length"):
        at = HEADER.values[key] + 4
        for value in (0, 1 << 31, (1 << 32) - 1, 7777):
            if (key, value) == ("llama.context_length", 7777):
                continue
            # inspect tells what the file says; what makes no sense stops who would use it.
            refused(damaged(patches=[(at, struct.pack("<I", value))]), f"{key} = {value}", ["expected"] if value != 7777 else [], inspect=False)


@case
def files_that_are_something_else():
    folder = pathlib.Path(FOLDER.name)
    (folder / "empty.gguf").touch()
    (folder / "text.gguf").write_text("This is not a model.\n" * 1000)
    (folder / "folder.gguf").mkdir()
    for name in ("empty.gguf", "text.gguf", "folder.gguf", "absent.gguf"):
        refused(folder / name, name, [name])


@case
def every_byte_of_the_start_may_be_wrong():
    for n in range(60):
        at = n * 37 % 600
        path = damaged(patches=[(at, bytes([START[at] ^ (1 << n % 8)]))])
        got = subprocess.run([PAWL, "model", "inspect", path], capture_output=True, text=True, timeout=60 * SLOWNESS)
        one_of(got.returncode, (0, 1), f"exit status with bit {n % 8} of byte {at} flipped ({got.stderr[-200:]})")


if __name__ == "__main__":
    case_timeout(300)
    main()
