#!/usr/bin/env python3
"""The lint can fail: a tree with each offence is reported, one without is not.

SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess
import sys
import tempfile

HOUSE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "house.py")
HEAD = "/*\n * What it is for.\n *\n * SPDX-License-Identifier: Apache-2.0\n */\n"
FORMAT = "BasedOnStyle: LLVM\nIndentWidth: 4\nBreakBeforeBraces: Linux\n"

GOOD = {
    ".clang-format": FORMAT,
    "host/base/README.md": "base\n",
    "host/base/buf.h": HEAD + "#include <cjson/cJSON.h>\n",
    "host/base/buf.c": HEAD + '#include "base/buf.h"\n#include <stdlib.h>\n',
    "host/base/digest.c": HEAD + "#include <openssl/evp.h>\n",
    "host/README.md": "host\n",
    "host/commands.h": HEAD,
    "host/main.c": HEAD + '#include "commands.h"\n#include "store/store.h"\n'
                   'const char *url = "http://x"; /* and // here */\n',
    "store/README.md": "store\n",
    "store/db.c": HEAD + '#include "store/db.h"\n#include "base/buf.h"\n#include "schema_sql.h"\n'
                  "#include <sqlite3.h>\n",
    "plugins/README.md": "plugins\n",
    "plugins/cpu/README.md": "cpu\n",
    "plugins/cpu/a.c": HEAD + '#include "cpu/a.h"\n#include "formats/gguf.h"\n'
                       '#include "kernels/kernels.h"\n#include <pawl/plugin_util.h>\n',
    "kernels/README.md": "kernels\n",
    "kernels/cpu/k.c": HEAD + '#include "kernels/kernels.h"\n#include <immintrin.h>\n',
    "tests/t.c": HEAD + '#include "store/db.h"\n#include <sqlite3.h>\n',
    "build/x.c": "// built\n",
    "other-build/CMakeCache.txt": "",
    "other-build/x.c": "// built\n",
    "tests/a.py": "# SPDX-License-Identifier: Apache-2.0\n",
    "host/base/long.c": HEAD + "static int f(void)\n{\n" + "    f();\n" * 67 + "}\n"
                        "static int table[] = {\n" + "    1,\n" * 90 + "};\n",
}

BAD = [  # path, its text, where it must be reported and a part of what is said
    ("host/base/up.c", HEAD + '#include "../run/turn.h"\n', 6, "leaves its folder"),
    ("host/base/up.c", HEAD + '#include "run/turn.h"\n', 6, "may not be included"),
    ("host/base/up.c", HEAD + '#include "nothing.h"\n', 6, "may not be included"),
    ("host/run/a.c", HEAD + '#include "api/api.h"\n', 6, "may not be included"),
    ("host/api/a.c", HEAD + '#  include "store/store.h"\n', 6, "may not be included"),
    ("host/loader/a.c", HEAD + '#include "run/turn.h"\n', 6, "may not be included"),
    ("store/a.c", HEAD + '#include "run/turn.h"\n', 6, "may not be included"),
    ("plugins/cpu/b.c", HEAD + '#include "base/buf.h"\n', 6, "may not be included"),
    ("plugins/cpu/b.c", HEAD + '#include "chat/x.h"\n', 6, "may not be included"),
    ("plugins/cpu/b.c", HEAD + '#include "kernels/panel.h"\n', 6, "may not be included"),
    ("kernels/cpu/b.c", HEAD + '#include "cpu/x.h"\n', 6, "may not be included"),
    ("kernels/b.c", HEAD + "#include <pawl/plugin.h>\n", 6, "belongs to"),
    ("kernels/b.c", HEAD + "#include <cjson/cJSON.h>\n", 6, "belongs to"),
    ("store/a.c", HEAD + "#include <cjson/cJSON.h>\n", 6, "belongs to"),
    ("host/run/a.c", HEAD + "#include <sqlite3.h>\n", 6, "belongs to"),
    ("host/api/a.c", HEAD + "#include <libwebsockets.h>\n", 6, "belongs to"),
    ("host/run/a.c", HEAD + "#include <dlfcn.h>\n", 6, "belongs to"),
    ("host/base/a.c", HEAD + "#include <openssl/evp.h>\n", 6, "belongs to"),
    ("host/run/a.c", HEAD + "#include <utf8proc.h>\n", 6, "belongs to"),
    ("host/run/a.c", HEAD + "#include <lua.h>\n", 6, "belongs to"),
    ("plugins/cpu/b.c", HEAD + "#include <cuda_runtime.h>\n", 6, "belongs to"),
    ("host/run/a.c", HEAD + "#include <pawl/plugin_util.h>\n", 6, "belongs to"),
    ("host/base/a.c", HEAD + "int x;\n" * 596, 601, "a file of 601 lines"),
    ("host/base/a.c", HEAD + "\nint f(int a,\n      int b)\n{\n" + "    f();\n" * 67 + "}\n", 7,
     "a function of 71 lines"),
    ("host/base/a.c", HEAD + "/* TO" "DO: more */\n", 6, "unfinished"),
    ("tests/a.py", "# SPDX-License-Identifier: Apache-2.0\n# FIX" "ME\n", 2, "unfinished"),
    ("host/base/a.c", HEAD + "int x; // why\n", 6, "// comment"),
    ("host/base/a.c", "int x;\n", 1, "SPDX"),
    ("host/base/a.c", "/* SPDX-License-Identifier: MIT */\n", 1, "SPDX"),
    ("tests/b.py", "print()\n", 1, "SPDX"),
    ("host/net/a.c", HEAD, 1, "no README"),
    ("store/README.md", "line\n" * 111, 1, "README of 111 lines"),
]


def write(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def run(files, *arguments):
    with tempfile.TemporaryDirectory() as root:
        write(root, files)
        done = subprocess.run([sys.executable, HOUSE, *arguments, root], capture_output=True,
                              text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    failures = 0
    code, said = run(GOOD)
    if code != 0:
        print(f"the good tree is refused:\n{said}")
        failures += 1
    for path, text, line, what in BAD:
        code, said = run({**GOOD, path: text})
        wanted = f"{'host/net' if 'README' in what and path.endswith('.c') else path}:{line}: "
        if code != 1 or not any(s.startswith(wanted) and what in s for s in said.split("\n")):
            print(f"not reported: {wanted}{what}\n{said}")
            failures += 1
    code, said = run({".clang-format": FORMAT, "a.c": "int  x ;\n"}, "--format")
    if code != 77 and (code != 1 or "a.c:1: clang-format" not in said):
        print(f"--format does not report:\n{said}")
        failures += 1
    code, said = run({".clang-format": FORMAT, "a.c": "int x;\n"}, "--format")
    if code not in (0, 77):
        print(f"--format refuses:\n{said}")
        failures += 1
    print(f"{len(BAD) + 3 - failures} of {len(BAD) + 3} cases are as they should be")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
