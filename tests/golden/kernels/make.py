#!/usr/bin/env python3
"""Writes one NAME.bin for each block type: the golden values of README.md.

Needs the Python package gguf (and so numpy); the tests need neither.
SPDX-License-Identifier: Apache-2.0
"""

import os

import gguf
import numpy

WEIGHTS = 1024
# Where the F16 scales of a block stand.
SCALES = {
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "MXFP4": (),
}


def main():
    random = numpy.random.default_rng(20)
    folder = os.path.dirname(os.path.abspath(__file__))
    for name, scales in SCALES.items():
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (WEIGHTS // elements, size), dtype=numpy.uint8)
        for at in scales:  # any finite F16
            half = random.integers(0, 0x7C00, len(blocks), dtype=numpy.uint16)
            half |= random.integers(0, 2, len(blocks), dtype=numpy.uint16) << 15
            blocks[:, at : at + 2] = half.astype("<u2").view(numpy.uint8).reshape(-1, 2)
        if name == "MXFP4":  # the exponents with rules of their own come first
            blocks[:6, 0] = (0, 1, 2, 3, 127, 251)
            blocks[6:, 0] %= 252  # above, 12 times the scale is no float
        numbers = gguf.dequantize(blocks.reshape(-1), kind)
        with open(os.path.join(folder, name + ".bin"), "wb") as file:
            file.write(numbers.astype("<f4").tobytes())
            file.write(blocks.tobytes())


main()
