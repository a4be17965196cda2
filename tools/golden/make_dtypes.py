#!/usr/bin/env python3
"""Golden values of the number formats, from the `gguf` package: tests/golden/dtypes/NAME.bin.

A file is n blocks of random bytes (scales are random halves of ordinary size, with a zero, a subnormal and a negative one
among them) followed by what the package's dequantize makes of them, as float32 little-endian.
"""
import pathlib

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/dtypes"
# where the halves of a block are, in bytes
HALVES = {
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "IQ4_NL": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0],
}


def main():
    rng = np.random.default_rng(20261129)
    OUT.mkdir(parents=True, exist_ok=True)
    for name, halves in HALVES.items():
        elems, size = GGML_QUANT_SIZES[T[name]]
        n = 12 if elems == 32 else 5
        blocks = rng.integers(0, 256, size=(n, size), dtype=np.uint8)
        for at in halves:
            scale = (rng.standard_normal(n) * 0.05).astype(np.float16)
            scale[0], scale[1], scale[2] = 0, np.float16(3e-6), -abs(scale[2])
            blocks[:, at:at + 2] = scale.view(np.uint8).reshape(n, 2)
        values = dequantize(blocks, T[name]).astype("<f4")
        assert values.size == n * elems
        (OUT / f"{name}.bin").write_bytes(blocks.tobytes() + values.tobytes())


main()
