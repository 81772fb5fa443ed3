"""A small random llama as a GGUF file: fast, and different tokens for different histories.

Its words are bytes and three control tokens. Only printable ASCII can come out, so that
what it says is text which is rendered as it was said, and it never ends by itself. The
weights are random: a wrong key or value in its state shows within a few tokens.

    python3 tests/e2e/tiny_model.py FILE [SEED]

SPDX-License-Identifier: Apache-2.0
"""
import array
import pathlib
import random
import struct
import sys

U32, F32, STRING, ARRAY = 4, 6, 8, 9
I32 = 5
HIDDEN, HEADS, KV_HEADS, HEAD, WIDTH, LAYERS = 64, 4, 2, 16, 128, 3
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def letters():
    """How byte-level vocabularies write the 256 bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = iter(range(256, 512))
    return [chr(b) if b in shown else chr(next(hidden)) for b in range(256)]


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key, kind, data):
    return text(key) + struct.pack("<I", kind) + data


def texts(values):
    return struct.pack("<IQ", STRING, len(values)) + b"".join(map(text, values))


def metadata(words, template, context):
    types = [1] * 256 + [3] * len(CONTROLS)
    numbers = {"block_count": LAYERS, "embedding_length": HIDDEN, "context_length": context,
               "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
               "attention.key_length": HEAD, "attention.value_length": HEAD, "feed_forward_length": WIDTH}
    return [
        pair("general.architecture", STRING, text("llama")),
        pair("general.name", STRING, text("Tiny")),
        *(pair(f"llama.{key}", U32, struct.pack("<I", value)) for key, value in numbers.items()),
        pair("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)),
        pair("llama.rope.freq_base", F32, struct.pack("<f", 10000.0)),
        pair("tokenizer.ggml.model", STRING, text("gpt2")),
        pair("tokenizer.ggml.pre", STRING, text("smollm")),
        pair("tokenizer.ggml.tokens", ARRAY, texts(words)),
        pair("tokenizer.ggml.token_type", ARRAY, struct.pack(f"<IQ{len(types)}i", I32, len(types), *types)),
        pair("tokenizer.ggml.merges", ARRAY, texts([])),
        pair("tokenizer.ggml.eos_token_id", U32, struct.pack("<I", 258)),
        pair("tokenizer.chat_template", STRING, text(template)),
    ]


def tensors(words, seed):
    rng = random.Random(seed)

    def matrix(columns, rows, scale):
        return (columns, rows), array.array("f", (rng.gauss(0, scale) for _ in range(columns * rows)))

    def ones(columns):
        return (columns,), array.array("f", [1.0] * columns)

    vocab = len(words)
    yield "token_embd.weight", matrix(HIDDEN, vocab, 1.0)
    yield "output_norm.weight", ones(HIDDEN)
    shape, output = matrix(HIDDEN, vocab, 0.5)
    for token in range(vocab):
        if not 32 <= token < 127 or chr(token) in "<|>":
            output[token * HIDDEN:(token + 1) * HIDDEN] = array.array("f", [0.0] * HIDDEN)
    yield "output.weight", (shape, output)
    for i in range(LAYERS):
        yield f"blk.{i}.attn_norm.weight", ones(HIDDEN)
        yield f"blk.{i}.attn_q.weight", matrix(HIDDEN, HEADS * HEAD, 0.25)
        yield f"blk.{i}.attn_k.weight", matrix(HIDDEN, KV_HEADS * HEAD, 0.25)
        yield f"blk.{i}.attn_v.weight", matrix(HIDDEN, KV_HEADS * HEAD, 0.4)
        yield f"blk.{i}.attn_output.weight", matrix(HEADS * HEAD, HIDDEN, 0.4)
        yield f"blk.{i}.ffn_norm.weight", ones(HIDDEN)
        yield f"blk.{i}.ffn_gate.weight", matrix(HIDDEN, WIDTH, 0.15)
        yield f"blk.{i}.ffn_up.weight", matrix(HIDDEN, WIDTH, 0.15)
        yield f"blk.{i}.ffn_down.weight", matrix(WIDTH, HIDDEN, 0.15)


def write(path, template, seed=1, context=8192):
    """Writes the file; template: what the model says its chat template is."""
    words = letters() + CONTROLS
    pairs = metadata(words, template, context)
    index, data = [], bytearray()
    for name, (shape, values) in tensors(words, seed):
        index.append(text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) +
                     struct.pack("<IQ", 0, len(data)))
        data += values.tobytes()
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(index), len(pairs)) + b"".join(pairs) + b"".join(index)
    pathlib.Path(path).write_bytes(head + bytes(-len(head) % 32) + bytes(data))
    return pathlib.Path(path)


if __name__ == "__main__":
    from common import HERMES
    write(sys.argv[1], HERMES, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
