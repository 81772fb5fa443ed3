#!/usr/bin/env python3
"""Writes utf8_cases.h: byte strings and what Python's "replace" decoder makes of them.

    python3 make_utf8_cases.py > utf8_cases.h

SPDX-License-Identifier: Apache-2.0
"""
import random

CASES = [
    b"", b"plain", b"\x00\x7f", "äöü €uro 漢字 😀 \u07ff\u0800\uffff\U00010000\U0010ffff".encode(),
    b"\x80", b"\xbf\x80", b"a\x80b", b"\xc0\x80", b"\xc1\xbf", b"\xc2", b"\xc2a", b"\xc2\xc2\xa9",
    b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xe0\xa0", b"\xe0\xa0a", b"\xe0\xa0\x80",
    b"\xe2\x82", b"\xe2\x82a", b"\xe2a", b"\xe2\xe2\x82\xac", b"\xe2\x82\xe2\x82\xac",
    b"\xed\x9f\xbf", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80", b"\xee\x80\x80",
    b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xf0\x90\x80\x80", b"\xf0\x9f", b"\xf0\x9f\x98",
    b"\xf0\x9f\x98a", b"\xf0\x9fa\x98", b"\xf0\x9f\x98\xf0\x9f\x98\x80", b"\xf0\x9f\x98\x80\x80",
    b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80",
    b"\xfc\x84\x80\x80\x80\x80", b"\xfe", b"\xff\xff", b"x\xffy\xfez", b"\xef\xbb\xbfbom", b"\xef\xbf\xbd",
    b"\xf1\x80\x80\xe1\x80\xc2b\x80c\x80\xbfd", b"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41",
]
random.seed(7)
ALPHABET = b"a\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff"
CASES += [bytes(random.choice(ALPHABET) for _ in range(random.randint(3, 14))) for _ in range(120)]


def quoted(data: bytes) -> str:
    return '"' + "".join(f"\\x{b:02x}" for b in data) + '"'


print("/*")
print(" * utf8_cases.h - bytes and what Python's bytes.decode(\"utf-8\", \"replace\") makes of")
print(" * them, encoded again. Written by make_utf8_cases.py.")
print(" *")
print(" * SPDX-License-Identifier: Apache-2.0")
print(" */")
print("/* clang-format off */")
print("static const struct {")
print("    const char *in;")
print("    size_t in_size;")
print("    const char *out;")
print("    size_t out_size;")
print("} utf8_cases[] = {")
for case in CASES:
    out = case.decode("utf-8", "replace").encode()
    print(f"    {{{quoted(case)}, {len(case)},\n     {quoted(out)}, {len(out)}}},")
print("};")
print("/* clang-format on */")
