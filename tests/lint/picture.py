#!/usr/bin/env python3
"""The picture of the rooms in host/README.md agrees with the code: picture.py ROOT

Each line "ROOM -> ROOM..." of the README's first block must name exactly the rooms
that the files of ROOM include, no more and no fewer.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z]+)/', re.M)


def drawn(readme):
    """What the README says: {room: rooms it includes}."""
    block = readme.split("```")[1]
    edges = {}
    for line in block.splitlines():
        if "->" in line:
            left, right = line.split("->")
            rooms = set() if "(" in right else set(right.split())
            for room in left.replace(",", " ").split():
                edges[room.rstrip("*").rstrip("_") or room] = rooms
    return edges


def files_of(root, room):
    if room == "store":
        return root.glob("store/*.[ch]")
    if (root / "host" / room).is_dir():
        return root.glob(f"host/{room}/*.[ch]")
    return root.glob(f"host/{room}*.[ch]")


def included(root, room):
    found = set()
    for file in files_of(root, room):
        found |= set(INCLUDE.findall(file.read_text(errors="replace")))
    return found - {room, "pawl"}


def main():
    root = pathlib.Path(sys.argv[1])
    edges = drawn((root / "host/README.md").read_text())
    rooms = {p.name for p in (root / "host").iterdir() if p.is_dir() and p.name != "include"} | {"store"}
    wrong = [f"host/README.md does not draw the room {room}" for room in sorted(rooms - edges.keys())]
    top = [room for room in edges if room not in rooms]  # main, cmd_*, model_*
    real = {room: included(root, room) for room in edges if room in rooms}
    for room, found in real.items():
        if found != edges[room]:
            wrong.append(f"{room}: drawn {sorted(edges[room])}, included {sorted(found)}")
    commands = set().union(*(included(root, room) for room in top)) if top else set()
    if top and commands - edges[top[0]]:
        wrong.append(f"commands include {sorted(commands - edges[top[0]])}, which is not drawn")
    print("\n".join(wrong) or "the picture agrees")
    return 1 if wrong or not edges else 0


if __name__ == "__main__":
    sys.exit(main())
