#!/usr/bin/env python3
"""Holds the sources against the rules of the house and names offenders, file:line.

    house.py [ROOT]            includes, sizes, comments, licences, READMEs
    house.py --format [ROOT]   clang-format changes nothing; 77 where it is absent

What a rule means and why is in CONTRIBUTING.md and host/README.md.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import shutil
import subprocess
import sys

MAX_FILE, MAX_FUNCTION, MAX_README = 600, 70, 110
CLANG_FORMAT = "14"  # versions disagree; this is the one the sources are kept with
C_ENDINGS = (".c", ".h", ".cu", ".cuh")
SET_BY_HAND = ("host/include/pawl/plugin.h",)  # to be read by strangers, in 80 columns
CODE_ENDINGS = C_ENDINGS + (".py", ".lua", ".sh", ".sql")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')

# Folder of the includer (longest match counts) -> what its "..." includes may begin with.
# A name without a slash is a file beside the includer.
ROOMS = {
    "host/base": ["base/"],
    "host/config": ["base/", "config/"],
    "host/loader": ["base/", "loader/"],
    "host/run": ["base/", "loader/", "store/", "run/"],
    "host/api": ["base/", "run/", "api/"],
    "host/script": ["base/", "run/", "script/"],
    "host/terminal": ["base/", "run/", "terminal/"],
    "host/net": ["base/", "run/", "api/", "net/"],
    "host/include": [],
    "host": ["base/", "config/", "loader/", "run/", "api/", "net/", "script/", "terminal/", "store/"],
    "store": ["base/", "store/", "schema_sql.h"],
    "plugins/formats": ["formats/"],
    "plugins": ["formats/", "kernels/kernels.h"],  # and its own folder: rooms_of()
    "kernels": ["kernels/"],
    "examples": [],
}
# <...> includes that only some may have -> paths that may. Tests may have all.
CONFINED = [
    (r"libwebsockets\.h|lws_", ["host/net/"]),
    (r"sqlite3", ["store/"]),
    (r"dlfcn\.h", ["host/loader/"]),
    (r"openssl/", ["host/base/digest.c", "plugins/tokenizer/", "plugins/cpu/"]),
    (r"utf8proc", ["plugins/tokenizer/"]),
    (r"lua|lauxlib|lualib", ["host/script/", "plugins/chat/"]),
    (r"cuda|cublas|nccl|nvrtc", ["plugins/cuda/", "kernels/cuda/"]),
    (r"cjson/", ["host/", "plugins/"]),
    (r"pawl/plugin_util\.h", ["plugins/", "examples/"]),
    (r"pawl/", ["host/", "store/", "plugins/", "examples/"]),
]


def files_below(root):
    """All files, as paths relative to root with '/', without what is built or hidden."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "__pycache__"
                            and not os.path.exists(os.path.join(folder, f, "CMakeCache.txt"))
                            and not (folder == root and f == "build"))
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), root)


def slash_comments(text):
    """Numbers of the lines with a // outside strings and other comments."""
    pattern = r'/\*.*?\*/|(//)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return [text.count("\n", 0, m.start()) + 1 for m in re.finditer(pattern, text, re.S) if m.group(1)]


def rooms_of(path):
    best = max((r for r in ROOMS if path.startswith(r + "/")), key=len, default=None)
    if best is None:
        return None
    allowed = list(ROOMS[best])
    if best == "plugins" and path.count("/") >= 2:
        allowed.append(path.split("/")[1] + "/")
    return allowed


def check_includes(root, path, lines, say):
    allowed = rooms_of(path)
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        kind, name = match.groups()
        if ".." in name.split("/"):
            say(number, f'include "{name}" leaves its folder')
        elif kind == '"' and allowed is not None:
            beside = "/" not in name and os.path.exists(
                os.path.join(root, os.path.dirname(path), name))
            if not beside and not any(name.startswith(a) for a in allowed):
                say(number, f'"{name}" may not be included here: {" ".join(allowed) or "nothing"}')
        elif kind == "<" and not path.startswith("tests/"):
            for pattern, places in CONFINED:
                if re.match(pattern, name):
                    if not any(path.startswith(p) for p in places):
                        say(number, f"<{name}> belongs to {' '.join(places)} alone")
                    break


def check_functions(lines, say):
    """In clang-formatted C a '{' alone at column 0 opens a function and nothing else."""
    for at, line in enumerate(lines):
        if line != "{":
            continue
        first = at
        while first > 0 and lines[first - 1].strip() and not re.match(r"[}#]|.*(;|\*/)$",
                                                                       lines[first - 1]):
            first -= 1
        last = next((i for i in range(at, len(lines)) if lines[i].startswith("}")), len(lines) - 1)
        if last - first + 1 > MAX_FUNCTION:
            say(first + 1, f"a function of {last - first + 1} lines; at most {MAX_FUNCTION}")


def check_c(root, path, text, lines, say):
    check_includes(root, path, lines, say)
    check_functions(lines, say)
    for number in slash_comments(text):
        say(number, "a // comment; write /* */")
    end = text.find("*/")
    if not text.startswith("/*") or "SPDX-License-Identifier: Apache-2.0\n */" not in text[:end + 2]:
        say(1, "the head comment must end with the SPDX-License-Identifier line")


def check_readmes(paths, root, say):
    sources = [p.split("/") for p in paths if p.endswith(C_ENDINGS)]
    rooms = {p[0] for p in sources if p[0] in ("store", "kernels", "host", "plugins")}
    rooms |= {f"{p[0]}/{p[1]}" for p in sources if p[0] in ("host", "plugins") and len(p) > 2}
    for room in sorted(rooms - {"host/include"}):
        if f"{room}/README.md" not in paths:
            say(room, 1, "the folder has no README.md")
    for path in paths:
        if os.path.basename(path) == "README.md":
            with open(os.path.join(root, path), encoding="utf-8") as file:
                n = sum(1 for _ in file)
            if n > MAX_README:
                say(path, 1, f"a README of {n} lines; at most {MAX_README}")


def check_all(root):
    offences = set()
    paths = list(files_below(root))
    for path in paths:
        if not path.endswith(CODE_ENDINGS):
            continue
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            text = file.read()
        lines = text.split("\n")

        def say(number, what, path=path):
            offences.add((path, number, what))

        if len(lines) - 1 > MAX_FILE:
            say(MAX_FILE + 1, f"a file of {len(lines) - 1} lines; at most {MAX_FILE}")
        for number, line in enumerate(lines, 1):
            if UNFINISHED.search(line):
                say(number, "unfinished: " + UNFINISHED.search(line).group(0))
        if path.endswith(C_ENDINGS):
            check_c(root, path, text, lines, say)
        elif "SPDX-License-Identifier: Apache-2.0" not in text:
            say(1, "no SPDX-License-Identifier line")
    check_readmes(paths, root, lambda *offence: offences.add(offence))
    return sorted(offences)


def check_format(root):
    tool = shutil.which("clang-format-" + CLANG_FORMAT) or shutil.which("clang-format")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    if f"version {CLANG_FORMAT}." not in version:
        print(f"SKIP: clang-format {CLANG_FORMAT} is not installed ({version.strip() or 'none is'})")
        return None
    files = [p for p in files_below(root) if p.endswith(C_ENDINGS) and p not in SET_BY_HAND]
    done = subprocess.run([tool, "--dry-run", "--style=file"] + files, cwd=root, capture_output=True,
                          text=True)
    found = re.findall(r"^(.+?):(\d+):\d+: (?:warning|error): .*clang-format", done.stderr, re.M)
    first = {}
    for path, number in found:
        first.setdefault(path, int(number))
    return [(path, number, "clang-format would change it") for path, number in sorted(first.items())]


def main(arguments):
    rest = [a for a in arguments if a != "--format"]
    root = os.path.abspath(rest[0] if rest else os.path.join(os.path.dirname(__file__), "..", ".."))
    offences = check_format(root) if rest != arguments else check_all(root)
    if offences is None:
        return 77
    for path, number, what in offences:
        print(f"{path}:{number}: {what}")
    print(f"{len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
