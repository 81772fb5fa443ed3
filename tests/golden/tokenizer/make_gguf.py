#!/usr/bin/env python3
"""Writes the vocabulary of a byte-level BPE tokenizer.json(.gz) as a GGUF file
that holds metadata only: make_gguf.py IN OUT PRE

PRE is the name of the pre-tokenizer ("gpt-2"), which tokenizer.json spells as a
pipeline of regular expressions. Special added tokens become control tokens, other
added tokens user-defined ones. Needs nothing but Python 3.

SPDX-License-Identifier: Apache-2.0
"""
import gzip
import json
import os
import struct
import sys

U32, I32, BOOL, STRING, ARRAY = 4, 5, 7, 8, 9
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5


def string(text):
    data = text if isinstance(text, bytes) else text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def strings(items):
    return struct.pack("<IQ", STRING, len(items)) + b"".join(map(string, items))


def vocabulary(document):
    """Token texts and types by id; ids that nobody uses get a filler."""
    vocab = document["model"]["vocab"]
    added = {t["id"]: t for t in document["added_tokens"]}
    count = max([*vocab.values(), *added]) + 1
    texts = [f"[UNUSED{i}]" for i in range(count)]
    types = [UNUSED] * count
    for text, i in vocab.items():
        texts[i], types[i] = text, NORMAL
    for i, token in added.items():
        texts[i] = token["content"]
        types[i] = CONTROL if token["special"] else USER_DEFINED
    return texts, types


def pairs_of(document, pre):
    texts, types = vocabulary(document)
    merges = [m if isinstance(m, str) else " ".join(m) for m in document["model"]["merges"]]
    return [
        ("general.architecture", STRING, string("none")),
        ("tokenizer.ggml.model", STRING, string("gpt2")),
        ("tokenizer.ggml.pre", STRING, string(pre)),
        ("tokenizer.ggml.tokens", ARRAY, strings(texts)),
        ("tokenizer.ggml.token_type", ARRAY,
         struct.pack(f"<IQ{len(types)}i", I32, len(types), *types)),
        ("tokenizer.ggml.merges", ARRAY, strings(merges)),
        ("tokenizer.ggml.add_bos_token", BOOL, b"\0"),
    ]


def main(source, target, pre):
    opened = gzip.open if source.endswith(".gz") else open
    with opened(source, "rt", encoding="utf-8") as file:
        pairs = pairs_of(json.load(file), pre)
    with open(target + ".part", "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)))
        for key, kind, value in pairs:
            file.write(string(key) + struct.pack("<I", kind) + value)
    os.replace(target + ".part", target)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
