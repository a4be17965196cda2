"""A second opinion: the forward pass of llama, qwen2, qwen3 and qwen3_moe in float64, with numpy alone.

It reads a stored config.json in every spelling, as the engine must, and shares no code with transformers. So a
golden that agrees with it is neither an accident of float32 nor of one library's reading of the file.
"""
import math

import numpy as np


def rope_of(c):
    """(rope dictionary, theta) of a config.json in the new or the old spelling."""
    rope = dict(c.get("rope_scaling") or c.get("rope_parameters") or {})
    rope.setdefault("rope_type", rope.get("type", "default"))
    return rope, rope.get("rope_theta", c.get("rope_theta", 10000.0))


def inverse_frequencies(c, dim):
    """(inv_freq [dim/2], factor on cos and sin)"""
    rope, theta = rope_of(c)
    kind, i = rope["rope_type"], np.arange(dim // 2)
    base = theta ** (-2.0 * i / dim)
    if kind == "default":
        return base, 1.0
    factor = rope.get("factor")
    if kind == "linear":
        return base / factor, 1.0
    original = rope.get("original_max_position_embeddings", c["max_position_embeddings"])
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        wave = 2 * math.pi / base
        s = (original / wave - low) / (high - low)
        mixed = (1 - s) * base / factor + s * base
        return np.where(wave > original / low, base / factor, np.where(wave < original / high, base, mixed)), 1.0
    assert kind == "yarn", kind
    if factor is None:
        factor = c["max_position_embeddings"] / original

    def corr(turns):
        return dim * math.log(original / (2 * math.pi * turns)) / (2 * math.log(theta))

    low, high = corr(rope.get("beta_fast") or 32), corr(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp = np.clip((i - low) / (high - low), 0, 1)

    def m(scale=1.0):
        return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0

    scale = rope.get("attention_factor")
    if scale is None:
        ms, ma = rope.get("mscale"), rope.get("mscale_all_dim")
        scale = m(ms) / m(ma) if ms and ma else m()
    return ramp * base / factor + (1 - ramp) * base, scale


def norm(x, w, eps):
    return w * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def forward(c, tensors, ids):
    """config.json as a dict, {name: array}, ids -> logits [n, vocab] in float64"""
    w = {k: v.astype(np.float64) for k, v in tensors.items()}
    eps, n, heads = c["rms_norm_eps"], len(ids), c["num_attention_heads"]
    kv_heads = c.get("num_key_value_heads") or heads
    dim = c.get("head_dim") or c["hidden_size"] // heads
    inv_freq, scale = inverse_frequencies(c, dim)
    angle = np.arange(n)[:, None] * inv_freq[None, :]
    cos, sin = np.cos(angle) * scale, np.sin(angle) * scale
    mask = np.triu(np.full((n, n), -np.inf), 1)

    def linear(x, name):
        y = x @ w[name + ".weight"].T
        return y + w[name + ".bias"] if name + ".bias" in w else y

    def rotate(x):                                                    # [heads, n, dim]
        a, b = x[..., :dim // 2], x[..., dim // 2:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def split(x):
        return x.reshape(n, -1, dim).transpose(1, 0, 2)

    def mlp(x, p):
        return linear(silu(linear(x, p + "gate_proj")) * linear(x, p + "up_proj"), p + "down_proj")

    def moe(x, p):
        prob, top = softmax(linear(x, p + "gate")), c["num_experts_per_tok"]
        y = np.zeros_like(x)
        for t in range(n):
            chosen = np.argsort(-prob[t], kind="stable")[:top]
            weight = prob[t, chosen]
            if c.get("norm_topk_prob", False):
                weight = weight / weight.sum()
            for e, pe in zip(chosen, weight):
                y[t] += pe * mlp(x[t], f"{p}experts.{e}.")
        return y

    x = w["model.embed_tokens.weight"][ids]
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        h = norm(x, w[p + "input_layernorm.weight"], eps)
        q, k, v = (split(linear(h, p + f"self_attn.{s}_proj")) for s in "qkv")
        if p + "self_attn.q_norm.weight" in w:
            q = norm(q, w[p + "self_attn.q_norm.weight"], eps)
            k = norm(k, w[p + "self_attn.k_norm.weight"], eps)
        q, k = rotate(q), np.repeat(rotate(k), heads // kv_heads, axis=0)
        v = np.repeat(v, heads // kv_heads, axis=0)
        a = softmax(q @ k.transpose(0, 2, 1) * dim ** -0.5 + mask) @ v
        x = x + linear(a.transpose(1, 0, 2).reshape(n, heads * dim), p + "self_attn.o_proj")
        h = norm(x, w[p + "post_attention_layernorm.weight"], eps)
        sparse = (c["model_type"] == "qwen3_moe" and layer not in (c.get("mlp_only_layers") or [])
                  and (layer + 1) % c.get("decoder_sparse_step", 1) == 0)
        x = x + (moe if sparse else mlp)(h, p + "mlp.")
    head = "lm_head.weight" if "lm_head.weight" in w else "model.embed_tokens.weight"
    return norm(x, w["model.norm.weight"], eps) @ w[head].T
