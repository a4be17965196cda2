#!/usr/bin/env python3
"""Float32 logits of a llama or qwen2 GGUF file, from dequantised weights, by plain numpy.

    reference_logits.py MODEL.gguf OUT.f32 <IDS      IDS: JSON array of token ids

Shares nothing with tally: the gguf package reads and dequantises, the forward pass is the published formula, whole sequence at
once. Writes float32 little-endian [n, vocab]. Used by scripts/test-real.sh. Needs numpy and gguf.
"""
import json
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize


def field(reader, key, default=None):
    f = reader.fields.get(key)
    return default if f is None else f.contents()


class Model:
    def __init__(self, path):
        self.reader = GGUFReader(path)
        self.tensors = {t.name: t for t in self.reader.tensors}
        self.arch = field(self.reader, "general.architecture")
        if self.arch not in ("llama", "qwen2"):
            sys.exit(f"{path}: architecture {self.arch} is not one of llama, qwen2")
        if any("rope.scaling" in k for k in self.reader.fields) or "rope_freqs.weight" in self.tensors:
            sys.exit(f"{path}: rope scaling is not done here")

    def key(self, name, default=None):
        return field(self.reader, f"{self.arch}.{name}", default)

    def weight(self, name):
        t = self.tensors.get(name)
        return None if t is None else dequantize(t.data, t.tensor_type).astype(np.float32)


def rms_norm(x, w, eps):
    return x / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=-1, keepdims=True) + eps).astype(np.float32) * w


def rotate(x, theta, interleaved):
    """x: [n, heads, dim]. llama files keep their q and k rows permuted, so that pairs are neighbours."""
    n, _, dim = x.shape
    inv = theta ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)
    angle = np.arange(n, dtype=np.float64)[:, None] * inv
    cos, sin = np.cos(angle)[:, None, :].astype(np.float32), np.sin(angle)[:, None, :].astype(np.float32)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., : dim // 2], x[..., dim // 2 :])
    ra, rb = a * cos - b * sin, a * sin + b * cos
    return np.stack([ra, rb], -1).reshape(x.shape) if interleaved else np.concatenate([ra, rb], -1)


def attention(m, i, x, heads, kv_heads, theta):
    n = x.shape[0]

    def project(name, n_heads):
        y = x @ m.weight(f"blk.{i}.attn_{name}.weight").T
        bias = m.weight(f"blk.{i}.attn_{name}.bias")
        return (y if bias is None else y + bias).reshape(n, n_heads, -1)

    interleaved = m.arch == "llama"
    q = rotate(project("q", heads), theta, interleaved)
    k = rotate(project("k", kv_heads), theta, interleaved)
    v = project("v", kv_heads)
    out = np.empty_like(q)
    mask = np.triu(np.full((n, n), -np.inf, np.float32), 1)
    for h in range(heads):
        g = h * kv_heads // heads
        s = q[:, h] @ k[:, g].T / np.float32(np.sqrt(q.shape[-1])) + mask
        p = np.exp(s - s.max(-1, keepdims=True))
        out[:, h] = (p / p.sum(-1, keepdims=True)) @ v[:, g]
    return out.reshape(n, -1) @ m.weight(f"blk.{i}.attn_output.weight").T


def mlp(m, i, x):
    gate = x @ m.weight(f"blk.{i}.ffn_gate.weight").T
    up = x @ m.weight(f"blk.{i}.ffn_up.weight").T
    return (gate / (1 + np.exp(-gate)) * up) @ m.weight(f"blk.{i}.ffn_down.weight").T


def main():
    path, out = sys.argv[1:]
    ids = np.array(json.load(sys.stdin))
    m = Model(path)
    heads, kv_heads = int(m.key("attention.head_count")), int(m.key("attention.head_count_kv"))
    eps, theta = float(m.key("attention.layer_norm_rms_epsilon")), float(m.key("rope.freq_base", 10000.0))
    embedding = m.weight("token_embd.weight")
    x = embedding[ids]
    for i in range(int(m.key("block_count"))):
        x = x + attention(m, i, rms_norm(x, m.weight(f"blk.{i}.attn_norm.weight"), eps), heads, kv_heads, theta)
        x = x + mlp(m, i, rms_norm(x, m.weight(f"blk.{i}.ffn_norm.weight"), eps))
    x = rms_norm(x, m.weight("output_norm.weight"), eps)
    head = m.weight("output.weight")
    logits = x @ (embedding if head is None else head).T
    logits.astype("<f4").tofile(out)


if __name__ == "__main__":
    main()
