#!/usr/bin/env python3
"""Make a Hugging Face folder with real weights out of a folder of tests/golden/models.

    write_checkpoint.py tests/golden/models/NAME OUT [--dtype f32|bf16|f16]
"""
import argparse
import os
import shutil

import torch
import weights
from safetensors.torch import save_file

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("variant")
    p.add_argument("out")
    p.add_argument("--dtype", choices=DTYPES, default="f32")
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    for name in ("config.json", "generation_config.json", "ids.txt"):
        shutil.copy(os.path.join(a.variant, name), a.out)
    arrays = weights.checkpoint(*weights.read_manifest(os.path.join(a.variant, "tensors.txt")))
    tensors = {k: torch.from_numpy(v).to(DTYPES[a.dtype]) for k, v in arrays.items()}
    save_file(tensors, os.path.join(a.out, "model.safetensors"), {"format": "pt"})


if __name__ == "__main__":
    main()
