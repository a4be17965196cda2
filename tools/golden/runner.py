"""transformers on a seeded checkpoint: load a folder's config with its weights, logits, greedy continuation."""
import contextlib
import json
import logging
import os
import shutil
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging as hf_logging

torch.set_num_threads(1)
hf_logging.set_verbosity_error()
hf_logging.disable_progress_bar()
logging.getLogger("transformers").setLevel(logging.ERROR)


@contextlib.contextmanager
def checkpoint_folder(config, tensors):
    """A Hugging Face folder with this config (dict) and these tensors (float32 arrays), while in use."""
    folder = tempfile.mkdtemp(prefix="golden-")
    try:
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(config, f)
        save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
        yield folder
    finally:
        shutil.rmtree(folder)


def load(folder, dtype=torch.float32):
    """from_pretrained, so that what transformers keeps in float32 in a bfloat16 model stays so."""
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager", output_loading_info=True)
    bad = {k: v for k, v in info.items() if v}
    if bad:
        raise RuntimeError(f"checkpoint and model differ: {bad}")
    return model.eval()


@torch.no_grad()
def logits(model, ids):
    """[n, vocab] as float64 (exact for every type)"""
    return model(torch.tensor([ids]), use_cache=False).logits[0].double().numpy()


@torch.no_grad()
def greedy(model, ids, n):
    """n greedy ids with the KV cache and the gap between the two best logits at each step."""
    out, gaps = [], []
    step = model(torch.tensor([ids]), use_cache=True)
    for _ in range(n):
        row = step.logits[0, -1].numpy()
        token = int(row.argmax())                   # numpy takes the lowest id of equal maxima, as the engine does
        best = np.sort(row)[-2:]
        out.append(token)
        gaps.append(float(best[1] - best[0]))
        step = model(torch.tensor([[token]]), cache=step.past_key_values, use_cache=True)
    return out, gaps


def row_errors(got, want):
    """Per row: max |got - want| / max |want|"""
    return np.abs(got - want).max(axis=-1) / np.abs(want).max(axis=-1)


class Watch:
    """Router margins and attention peaks of a float32 forward, by hooks."""

    def __init__(self, model):
        self.model, self.margins, self.chosen, self.hooks = model, [], [], []
        for name, module in model.named_modules():
            if name.endswith("mlp.gate"):
                self.hooks.append(module.register_forward_hook(self._router))

    def _router(self, module, args, _out):
        x = args[0].reshape(-1, args[0].shape[-1])
        score = torch.nn.functional.linear(x, module.weight).double()
        top = score.sort(dim=-1, descending=True)
        k = self.model.config.num_experts_per_tok
        self.margins.append(((top.values[:, k - 1] - top.values[:, k]) / score.std()).numpy())
        self.chosen.append(top.indices[:, :k].sort(dim=-1).values.numpy())

    def stop(self):
        for h in self.hooks:
            h.remove()

    def margin(self, first, last):
        """Smallest distance of the last chosen from the first rejected expert, in deviations of router logits."""
        return min((float(m[first:last].min()) for m in self.margins), default=float("inf"))
