#!/usr/bin/env python3
"""Write the golden values of the tiny models to tests/golden/models/ (see README.md there).

    make_models.py [--out DIR] [NAME ...]     write all variants, or those named
    make_models.py --find-seeds [NAME ...]    print the seeds to put into seeds.py

Every variant is checked before it is written; a check that fails stops the run.
"""
import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass

import numpy as np

import reference
import runner
import torch
import weights
from safetensors import safe_open
from transformers import AutoModelForCausalLM
from variants import VARIANTS

N_GREEDY = 64
HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.normpath(os.path.join(HERE, "..", "..", "tests", "golden", "models"))

RULE_NAMES = ["model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "model.norm.weight"]


@dataclass
class Shape:
    """What save_pretrained writes for a variant, whatever its weights."""
    text: str                        # config.json
    config: dict                     # the same, parsed
    generation: str                  # generation_config.json
    tensors: dict


def saved_form(v):
    """Save a model of the variant and read back config, generation config and the header of the weights."""
    config = v.config(**v.args)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for k, value in v.generation.items():
        setattr(model.generation_config, k, value)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with open(os.path.join(folder, "config.json")) as f:
            text = f.read()
        with open(os.path.join(folder, "generation_config.json")) as f:
            generation = f.read()
        tensors = {}
        with safe_open(os.path.join(folder, "model.safetensors"), "np") as f:
            for name in sorted(f.keys()):
                shape = tuple(f.get_slice(name).get_shape())
                offset, scale = weights.rule_of(name, shape, config.tie_word_embeddings)
                tensors[name] = (offset, scale, shape)
    return Shape(text, json.loads(text), generation, tensors)


def contrast_config(v):
    c = v.config(**{**v.args, **v.contrast})
    c.architectures = [v.config.__name__.replace("Config", "ForCausalLM")]
    return json.loads(c.to_json_string(use_diff=False))


def stop_ids(form):
    ids = set()
    for d in (form.config, json.loads(form.generation)):
        e = d.get("eos_token_id")
        ids |= set(e if isinstance(e, list) else [] if e is None else [e])
    return ids


def stuck(ids):
    """Few different ids, a long run of one id, or a short cycle at the end."""
    if len(set(ids)) < 16:
        return True
    if any(len(set(ids[i:i + 8])) == 1 for i in range(len(ids) - 7)):
        return True
    tail = ids[-24:]
    return any(tail[p:] == tail[:-p] for p in range(1, 9))


def faults(form, r):
    """Why this seed is no good; empty if it is."""
    bad = []
    if set(r["greedy"]) & stop_ids(form):
        bad.append("greedy output holds a stop id")
    if stuck(r["greedy"]):
        bad.append("greedy output is stuck")
    if r["gap"] < 1e-3:
        bad.append(f"near tie between tokens: {r['gap']:.1e} of the row's largest logit")
    if r["margin"] < expert_margin(form) or r["margin_greedy"] < expert_margin(form) / 2:
        bad.append(f"near tie between experts: {r['margin']:.1e} {r['margin_greedy']:.1e}")
    return bad


def expert_margin(form):
    """Least distance of the last chosen from the first rejected expert for the input, in deviations of router
    logits; half of it for the greedy ids. The more places, the nearer some pair comes."""
    return 0.02 if form.config.get("num_experts_per_tok", 0) <= 2 else 0.01


def run_float32(v, form, seed, early=False):
    """logits, greedy ids and the conditions of `faults`; with `early` None if the input alone rules the seed out"""
    vocab, n = form.config["vocab_size"], v.n_ids
    ids = weights.token_ids(seed, n, vocab)
    tensors = weights.checkpoint(seed, form.tensors)
    with runner.checkpoint_folder(form.config, tensors) as folder:
        model = runner.load(folder)
    watch = runner.Watch(model)
    f32 = runner.logits(model, ids)
    watch.stop()
    if early and watch.margin(0, n) < expert_margin(form):
        return None
    out, gaps = runner.greedy(model, ids, N_GREEDY)
    watch = runner.Watch(model)
    whole = runner.logits(model, ids + out)
    watch.stop()
    rows = np.abs(whole[n - 1:-1]).max(axis=-1)
    return {"ids": ids, "tensors": tensors, "greedy": out, "gaps": gaps, "model": model,
            "logits": f32, "whole": whole, "gap": float((np.array(gaps) / rows).min()),
            "margin": watch.margin(0, n), "margin_greedy": watch.margin(n, n + N_GREEDY)}


def attention_peak(r):
    """Mean of the largest attention probability per row, rows from 16 on."""
    with torch.no_grad():
        a = r["model"](torch.tensor([r["ids"]]), output_attentions=True, use_cache=False).attentions
    return float(np.mean([x[0, :, 16:].max(dim=-1).values.mean().item() for x in a]))


def find_seed(v, limit=3000):
    form = saved_form(v)
    for seed in range(1, limit + 1):
        r = run_float32(v, form, seed, early=True)
        if r and not faults(form, r):
            return seed
    raise SystemExit(f"{v.name}: none of {limit} seeds will do")


def require(ok, v, what):
    if not ok:
        raise SystemExit(f"{v.name}: {what}")


def half_errors(folder, dtype, r):
    """Row errors of transformers' own run in a half type, for the input and for input and greedy ids."""
    half = runner.load(folder, dtype)
    return (runner.row_errors(runner.logits(half, r["ids"]), r["logits"]),
            runner.row_errors(runner.logits(half, r["ids"] + r["greedy"]), r["whole"]))


def golden(v, out):
    form = saved_form(v)
    r = run_float32(v, form, v.seed)
    ids, whole_ids, f32 = r["ids"], r["ids"] + r["greedy"], r["logits"]
    require(not faults(form, r), v, "; ".join(faults(form, r)))
    require(len(whole_ids) <= form.config["max_position_embeddings"], v, "runs past its context")

    # The weights survive each checkpoint type unchanged.
    for name, t in r["tensors"].items():
        t = torch.from_numpy(t)
        for dtype in (torch.bfloat16, torch.float16):
            require(torch.equal(t.to(dtype).float(), t), v, f"{name} is not exact in {dtype}")

    with runner.checkpoint_folder(form.config, r["tensors"]) as folder:
        bf16, bf16_whole = half_errors(folder, torch.bfloat16, r)
        f16, f16_whole = half_errors(folder, torch.float16, r)
        f64 = runner.row_errors(runner.logits(runner.load(folder, torch.float64), ids), f32).max()

    stored = json.loads(json.dumps(form.config))
    if v.edit:
        v.edit(stored)
        if v.edit_loads:
            with runner.checkpoint_folder(stored, r["tensors"]) as folder:
                same = runner.logits(runner.load(folder), ids)
            require(np.array_equal(same, f32), v, "the edited config.json means something else to transformers")
    second = runner.row_errors(reference.forward(stored, r["tensors"], np.array(ids)), f32).max()
    require(max(f64, second) < 2e-5, v, f"float32 is off: {f64:.1e} {second:.1e}")

    contrast = float("nan")
    if v.contrast:
        with runner.checkpoint_folder(contrast_config(v), r["tensors"]) as folder:
            contrast = runner.row_errors(runner.logits(runner.load(folder), ids), f32).max()
        require(contrast > 0.01, v, f"the feature hardly shows: {contrast:.1e}")
    spread = float(f32.std(axis=-1).mean())
    peak = attention_peak(r)
    require(spread > 0.2 and 0.05 < peak < 0.9, v, f"degenerate: logits deviate {spread:.2g}, attention {peak:.2g}")

    folder = os.path.join(out, v.name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        f.write(json.dumps(stored, indent=2, sort_keys=True) + "\n" if v.edit else form.text)
    with open(os.path.join(folder, "generation_config.json"), "w") as f:
        f.write(form.generation)
    weights.write_manifest(os.path.join(folder, "tensors.txt"), v.seed, form.tensors)
    with open(os.path.join(folder, "ids.txt"), "w") as f:
        f.write(" ".join(map(str, ids)) + "\n")
    f32.astype("<f4").tofile(os.path.join(folder, "logits.f32"))
    with open(os.path.join(folder, "greedy.txt"), "w") as f:
        for token, gap in zip(r["greedy"], r["gaps"]):
            f.write(f"{token} {gap:.9g}\n")
    for name, errors in (("bf16.txt", (bf16, bf16_whole)), ("f16.txt", (f16, f16_whole))):
        with open(os.path.join(folder, name), "w") as f:
            f.writelines(f"{e.max():.9g} {e.mean():.9g}\n" for e in errors)

    gap = np.array(r["gaps"]) / np.abs(r["whole"][len(ids) - 1:-1]).max(axis=-1)
    print(f"{v.name:30s} seed {v.seed:4d} n {len(ids):2d} f64 {f64:.0e} numpy {second:.0e} bf16 {bf16.max():.1e} "
          f"{bf16.mean():.1e} whole {bf16_whole.max():.1e} f16 {f16.max():.1e} whole {f16_whole.max():.1e} | spread {spread:.2f} peak {peak:.2f} "
          f"distinct {len(set(r['greedy'])):2d} gap {r['gap']:.0e} over bf16 {int((gap > bf16_whole.max()).sum()):2d} "
          f"margin {r['margin']:.0e} {r['margin_greedy']:.0e} contrast {contrast:.0e}", flush=True)


def write_rule_vectors(path):
    """Known values of the weight rule for the unit test of its C twin."""
    with open(path, "w") as f:
        f.write("# name seed key q[0..7]\n")
        for name in RULE_NAMES:
            for seed in (1, 2):
                q = " ".join(str(x) for x in weights.quants(name, seed, 8))
                f.write(f"{name} {seed} {weights.key(name, seed):016x} {q}\n")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--out", default=OUT)
    p.add_argument("--find-seeds", action="store_true")
    a = p.parse_args()
    unknown = set(a.names) - {v.name for v in VARIANTS}
    if unknown:
        sys.exit(f"no such variant: {' '.join(sorted(unknown))}")
    chosen = [v for v in VARIANTS if not a.names or v.name in a.names]
    for v in chosen:
        if a.find_seeds:
            print(f'    "{v.name}": {find_seed(v)},', flush=True)
        else:
            golden(v, a.out)
    if not a.find_seeds:
        with open(os.path.join(a.out, "index.txt"), "w") as f:
            f.writelines(v.name + "\n" for v in VARIANTS)
        write_rule_vectors(os.path.join(a.out, "rule.txt"))


if __name__ == "__main__":
    main()
