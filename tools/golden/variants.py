"""The variants: one tiny model per feature that changes the mathematics or the spelling of config.json.

Each has: the class's own configuration arguments; how many input ids; what the stored config.json spells
differently from what transformers writes; and, where a feature could be ignored unnoticed, a `contrast`: the
arguments of the same model without it, whose logits must differ clearly.
"""
from dataclasses import dataclass, field

from seeds import SEEDS
from transformers import LlamaConfig, Qwen2Config, Qwen3Config, Qwen3MoeConfig


@dataclass
class Variant:
    name: str
    config: object                   # configuration class
    args: dict
    n_ids: int = 40
    edit: object = None              # function that edits the stored config.json's dict
    edit_loads: bool = True          # transformers itself reads the edited file
    contrast: dict = field(default_factory=dict)
    generation: dict = field(default_factory=dict)
    seed: int = 1


VARIANTS = []


def add(name, config, n_ids=40, edit=None, edit_loads=True, contrast=None, generation=None, **args):
    VARIANTS.append(Variant(name, config, args, n_ids, edit, edit_loads, contrast or {}, generation or {},
                            SEEDS.get(name, 1)))


# ---- spellings of config.json ----------------------------------------------------------------------------

def old_spelling(d):
    """Files from before transformers 5: rope_theta at the top, rope_scaling with `type`, torch_dtype."""
    rope = d.pop("rope_parameters")
    d["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    d["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    d["torch_dtype"] = d.pop("dtype")
    d["transformers_version"] = "4.44.0"


def old_rope_type(d):
    """As Llama-3.x files have it: rope_theta at the top, rope_scaling with `rope_type`."""
    old_spelling(d)
    if d["rope_scaling"]:
        d["rope_scaling"]["rope_type"] = d["rope_scaling"].pop("type")


def both_types(d):
    """As transformers 4.4x saved files it had read with `type`."""
    old_spelling(d)
    d["rope_scaling"]["rope_type"] = d["rope_scaling"]["type"]


def null_scaling(d):
    old_spelling(d)
    d["head_dim"] = None


def both_spellings(d):
    """A non-null rope_scaling replaces rope_parameters as a whole."""
    rope = d["rope_parameters"]
    d["rope_scaling"] = {k: v for k, v in rope.items()}
    d["rope_parameters"] = {"rope_type": "default", "rope_theta": 123.0}


def no_theta(d):
    del d["rope_parameters"]


def no_original(d):
    """yarn without its original length falls back to max_position_embeddings."""
    del d["rope_parameters"]["original_max_position_embeddings"]


def no_kv_heads(d):
    del d["num_key_value_heads"]
    del d["head_dim"]


def drop(*names):
    def edit(d):
        for n in names:
            d.pop(n, None)
    return edit


def rename(old, new):
    def edit(d):
        assert (old in d) != (new in d)
        if old in d:
            d[new] = d.pop(old)
    return edit


def chain(*edits):
    def edit(d):
        for e in edits:
            e(d)
    return edit


THETA = {"rope_type": "default", "rope_theta": 10000.0}
THETA_1M = {"rope_type": "default", "rope_theta": 1000000.0}


def linear(factor, theta=10000.0):
    return {"rope_type": "linear", "rope_theta": theta, "factor": factor}


def llama3(theta=500000.0, factor=8.0):
    return {"rope_type": "llama3", "rope_theta": theta, "factor": factor, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 32}


def yarn(theta=1000000.0, factor=4.0, original=32, **more):
    return {"rope_type": "yarn", "rope_theta": theta, "factor": factor,
            "original_max_position_embeddings": original, **more}


def yarn_wide(**more):
    """yarn whose ramp spans many frequencies even at these lengths."""
    return yarn(theta=10000.0, beta_fast=4.0, beta_slow=0.125, **more)


# ---- llama -----------------------------------------------------------------------------------------------

def llama(name, rope=THETA, **kw):
    base = dict(vocab_size=192, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=4, max_position_embeddings=256, rms_norm_eps=1e-5, rope_parameters=rope)
    add(name, LlamaConfig, **{**base, **kw})


llama("llama-mha")
llama("llama-mha-tied", tie_word_embeddings=True, num_hidden_layers=3)
llama("llama-old-spelling", edit=null_scaling)
llama("llama-no-kv-heads", edit=no_kv_heads)
llama("llama-gqa4", num_attention_heads=8, num_key_value_heads=2, num_hidden_layers=3)
llama("llama-gqa7", hidden_size=112, num_attention_heads=14, num_key_value_heads=2, intermediate_size=152,
      vocab_size=199)
llama("llama-mqa", num_key_value_heads=1)
llama("llama-head20", num_attention_heads=4, num_key_value_heads=2, head_dim=20, intermediate_size=72, vocab_size=173)
llama("llama-head24", hidden_size=48, num_attention_heads=6, num_key_value_heads=3, head_dim=24, intermediate_size=136,
      tie_word_embeddings=True, num_hidden_layers=3)
llama("llama-eps", rms_norm_eps=0.05, contrast={"rms_norm_eps": 1e-6})
llama("llama-attention-bias", num_key_value_heads=2, attention_bias=True)
llama("llama-mlp-bias", num_key_value_heads=2, mlp_bias=True)
llama("llama-no-theta", edit=no_theta)
llama("llama-linear", rope=linear(4.0), n_ids=72, num_key_value_heads=2, contrast={"rope_parameters": THETA})
llama("llama-linear-old", rope=linear(2.5, 1000.0), n_ids=72, edit=old_spelling,
      contrast={"rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}})
llama("llama-llama3", rope=llama3(), n_ids=72, num_key_value_heads=1, tie_word_embeddings=True, num_hidden_layers=3,
      head_dim=32, edit=old_rope_type, contrast={"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
      eos_token_id=[2, 3], generation={"eos_token_id": [2, 3], "bos_token_id": 1, "temperature": 0.6, "top_p": 0.9,
                                       "do_sample": True})
llama("llama-llama3-theta10k", rope=llama3(10000.0, 32.0), n_ids=72, num_key_value_heads=2, head_dim=24,
      contrast={"rope_parameters": THETA})
llama("llama-yarn", rope=yarn(theta=10000.0), n_ids=72, num_key_value_heads=2, contrast={"rope_parameters": THETA})

# ---- qwen2 -----------------------------------------------------------------------------------------------

def qwen2(name, rope=THETA_1M, **kw):
    base = dict(vocab_size=192, hidden_size=64, intermediate_size=104, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=256, rms_norm_eps=1e-6, rope_parameters=rope,
                bos_token_id=1, eos_token_id=2)
    add(name, Qwen2Config, **{**base, **kw})


qwen2("qwen2-untied")
qwen2("qwen2-tied", tie_word_embeddings=True, num_hidden_layers=3, edit=old_spelling,
      generation={"eos_token_id": [2, 1], "bos_token_id": 1, "pad_token_id": 1, "do_sample": True, "temperature": 0.7,
                  "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.1})
qwen2("qwen2-gqa7", hidden_size=112, num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True,
      intermediate_size=152, num_hidden_layers=3)
qwen2("qwen2-mha", num_key_value_heads=4)
qwen2("qwen2-head24", head_dim=24)
qwen2("qwen2-yarn", rope=yarn(), n_ids=72, contrast={"rope_parameters": THETA_1M}, edit=old_spelling)
qwen2("qwen2-yarn-wide", rope=yarn_wide(), n_ids=72, contrast={"rope_parameters": THETA}, tie_word_embeddings=True,
      num_hidden_layers=3, hidden_size=128, num_attention_heads=4)
qwen2("qwen2-r1-distill", rope=THETA, num_attention_heads=6, num_key_value_heads=1, hidden_size=96,
      max_position_embeddings=512, bos_token_id=3, eos_token_id=3, edit=chain(old_spelling, drop("layer_types")),
      generation={"bos_token_id": 4, "eos_token_id": [3, 5], "do_sample": True, "temperature": 0.6, "top_p": 0.95})

# ---- qwen3 -----------------------------------------------------------------------------------------------

def qwen3(name, rope=THETA_1M, **kw):
    base = dict(vocab_size=192, hidden_size=64, intermediate_size=104, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=1, head_dim=32, max_position_embeddings=256, rms_norm_eps=1e-6,
                rope_parameters=rope, bos_token_id=1, eos_token_id=2)
    add(name, Qwen3Config, **{**base, **kw})


qwen3("qwen3-gqa4")
qwen3("qwen3-tied", tie_word_embeddings=True, num_key_value_heads=2, num_hidden_layers=3, edit=old_spelling)
qwen3("qwen3-mha-untied-noflag", num_key_value_heads=4, edit=drop("tie_word_embeddings"))
qwen3("qwen3-gqa7", num_attention_heads=7, hidden_size=56, num_key_value_heads=1, head_dim=20, intermediate_size=88,
      vocab_size=199)
qwen3("qwen3-head128", num_attention_heads=2, num_key_value_heads=1, hidden_size=48, head_dim=128)
qwen3("qwen3-attention-bias", attention_bias=True, num_key_value_heads=2)
qwen3("qwen3-linear", rope=linear(3.0), n_ids=72, contrast={"rope_parameters": THETA}, edit=old_rope_type)
qwen3("qwen3-llama3", rope=llama3(10000.0), n_ids=72, contrast={"rope_parameters": THETA})
qwen3("qwen3-yarn", rope=yarn(), n_ids=72, contrast={"rope_parameters": THETA_1M}, max_position_embeddings=160,
      edit=both_types)
qwen3("qwen3-yarn-both-spellings", rope=yarn_wide(), n_ids=72, contrast={"rope_parameters": THETA},
      edit=both_spellings)
qwen3("qwen3-yarn-attention-factor", rope=yarn_wide(attention_factor=1.5), n_ids=72,
      contrast={"rope_parameters": yarn_wide()})
qwen3("qwen3-yarn-no-truncate", rope=yarn_wide(truncate=False), n_ids=72, contrast={"rope_parameters": yarn_wide()})
qwen3("qwen3-yarn-mscale", rope=yarn_wide(mscale=2.0, mscale_all_dim=0.5), n_ids=72,
      contrast={"rope_parameters": yarn_wide()})
qwen3("qwen3-yarn-no-original", rope=yarn_wide(original=160), n_ids=72, max_position_embeddings=160, edit=no_original,
      contrast={"rope_parameters": yarn_wide(original=32)})

# ---- qwen3_moe -------------------------------------------------------------------------------------------

def moe(name, rope=THETA_1M, **kw):
    base = dict(vocab_size=192, hidden_size=64, intermediate_size=104, moe_intermediate_size=40, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=1, head_dim=32, max_position_embeddings=256,
                rms_norm_eps=1e-6, rope_parameters=rope, num_experts=8, num_experts_per_tok=2, norm_topk_prob=True,
                decoder_sparse_step=1, mlp_only_layers=[], bos_token_id=1, eos_token_id=2)
    # Few ids: every token and layer is one more chance of a near tie between experts.
    add(name, Qwen3MoeConfig, **{**base, "n_ids": 24, **kw})


moe("qwen3moe-e8k2-norm", contrast={"norm_topk_prob": False})
moe("qwen3moe-e8k2-nonorm", norm_topk_prob=False, contrast={"norm_topk_prob": True}, edit=old_spelling)
moe("qwen3moe-e8k2-norm-absent", norm_topk_prob=False, contrast={"norm_topk_prob": True}, edit=drop("norm_topk_prob"))
moe("qwen3moe-e16k4-norm", num_experts=16, num_experts_per_tok=4, num_key_value_heads=2,
    contrast={"norm_topk_prob": False})
moe("qwen3moe-e16k4-nonorm", num_experts=16, num_experts_per_tok=4, norm_topk_prob=False, moe_intermediate_size=32,
    contrast={"norm_topk_prob": True})
moe("qwen3moe-e8k1", num_experts_per_tok=1, norm_topk_prob=False, contrast={"norm_topk_prob": True})
moe("qwen3moe-sparse-step2", num_hidden_layers=4, decoder_sparse_step=2)
moe("qwen3moe-mlp-only", num_hidden_layers=3, mlp_only_layers=[1], tie_word_embeddings=True,
    edit=chain(old_spelling, rename("num_local_experts", "num_experts")))
moe("qwen3moe-num-experts", edit=rename("num_local_experts", "num_experts"))
moe("qwen3moe-num-local-experts", edit=rename("num_experts", "num_local_experts"), norm_topk_prob=False)
moe("qwen3moe-yarn-bias", rope=yarn_wide(), n_ids=48, mlp_only_layers=[0], attention_bias=True, num_key_value_heads=2,
    contrast={"rope_parameters": THETA})
