#!/usr/bin/env python3
"""Makes tests/golden/tokenizers/utf8.json: what Python's bytes.decode("utf-8", "replace") makes of damaged UTF-8.

bytes: the alphabet; length4: for each first byte the FNV-1a hash of the decoded text (as UTF-8, a zero byte behind each) of all
sequences first + three bytes of the alphabet, in order; cases: [hex, text] to look at.
"""
import itertools
import json
import pathlib
import random

ALPHABET = [0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1,
            0xf3, 0xf4, 0xf5, 0xff]


def decode(data):
    return bytes(data).decode("utf-8", "replace")


def fnv1a(chunks):
    h = 0xcbf29ce484222325
    for chunk in chunks:
        for b in chunk:
            h = (h ^ b) * 0x100000001b3 & 0xffffffffffffffff
    return h


rng = random.Random(20261129)
cases = [[0xe2, 0x82, 0xac], [0xe2, 0x82], [0xf0, 0x9f, 0x98, 0x80], [0xf0, 0x9f, 0x98], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80]]
cases += [[rng.choice(ALPHABET) for _ in range(rng.randint(5, 12))] for _ in range(200)]
out = {
    "bytes": ALPHABET,
    "length4": {f"{first:02x}": f"{fnv1a(decode((first, *rest)).encode() + bytes(1) for rest in itertools.product(ALPHABET, repeat=3)):016x}"
                for first in ALPHABET},
    "cases": [[bytes(c).hex(), decode(c)] for c in cases],
}
path = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/tokenizers/utf8.json"
path.write_text(json.dumps(out, separators=(",", ":")) + "\n")
