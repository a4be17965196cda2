#!/usr/bin/env python3
"""Compare logits of `tally eval` with transformers on the spot.

    check_logits.py MODEL LOGITS [--ids 1,2,3]

MODEL is a Hugging Face folder, or a folder of tests/golden/models (its weights are then made from tensors.txt).
LOGITS is float32 little-endian [n, vocab]. Without --ids the folder's ids.txt is taken.
"""
import argparse
import json
import os
import sys

import numpy as np

import runner
import torch
import weights


def models(folder):
    """(model in float32, model in bfloat16)"""
    manifest = os.path.join(folder, "tensors.txt")
    if not os.path.exists(manifest) or os.path.exists(os.path.join(folder, "model.safetensors")):
        return runner.load(folder), runner.load(folder, torch.bfloat16)
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    with runner.checkpoint_folder(config, weights.checkpoint(*weights.read_manifest(manifest))) as made:
        return runner.load(made), runner.load(made, torch.bfloat16)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("model")
    p.add_argument("logits")
    p.add_argument("--ids", help="comma separated")
    p.add_argument("--tolerance", type=float, default=2e-4, help="of a row's largest magnitude (default %(default)s)")
    a = p.parse_args()
    if a.ids:
        ids = [int(x) for x in a.ids.split(",")]
    else:
        with open(os.path.join(a.model, "ids.txt")) as f:
            ids = [int(x) for x in f.read().split()]
    full, half = models(a.model)
    want = runner.logits(full, ids)
    got = np.fromfile(a.logits, dtype="<f4").astype(np.float64)
    if got.size != want.size:
        sys.exit(f"{a.logits} holds {got.size} values, expected {len(ids)} x {want.shape[1]} = {want.size}")
    error = runner.row_errors(got.reshape(want.shape), want)
    bf16 = runner.row_errors(runner.logits(half, ids), want)
    same = (got.reshape(want.shape).argmax(axis=-1) == want.argmax(axis=-1)).sum()
    print(f"rows {len(ids)}, error max {error.max():.2e} at row {error.argmax()}, mean {error.mean():.2e}, "
          f"same best token {same}; transformers in bfloat16: max {bf16.max():.2e}, mean {bf16.mean():.2e}")
    bad = np.flatnonzero(~(error <= a.tolerance))
    if bad.size:
        sys.exit(f"{bad.size} rows exceed {a.tolerance:g}, the first is row {bad[0]}: {error[bad[0]]:.2e}")


if __name__ == "__main__":
    main()
