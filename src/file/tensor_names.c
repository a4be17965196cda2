// From GGUF's tensor names to those of Hugging Face checkpoints. Facts: docs/formats.md.
#include "file/gguf_internal.h"
#include "file/hf.h"

typedef struct name_pair {
    const char *gguf, *hf;
} name_pair;

static const name_pair whole_names[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
    {"rope_freqs.weight", "rope_freqs.weight"},
};

// Behind "blk.N." and "model.layers.N."
static const name_pair layer_names[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_output.bias", "self_attn.o_proj.bias"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate.bias", "mlp.gate_proj.bias"},
    {"ffn_up.bias", "mlp.up_proj.bias"},
    {"ffn_down.bias", "mlp.down_proj.bias"},
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"ffn_gate_exps.weight", "mlp.experts.gate_proj.weight"},
    {"ffn_up_exps.weight", "mlp.experts.up_proj.weight"},
    {"ffn_down_exps.weight", "mlp.experts.down_proj.weight"},
};

// "PREFIX N.rest": N without leading zeros, below MAX_LAYERS.
static bool split_layer(str name, str prefix, int *layer, str *rest) {
    if (!str_starts(name, prefix)) return false;
    size_t start = prefix.len, i = start, n = 0;
    for (; i < name.len && name.data[i] >= '0' && name.data[i] <= '9' && n < MAX_LAYERS; i++) {
        n = n * 10 + (size_t)(name.data[i] - '0');
    }
    if (i == start || n >= MAX_LAYERS || i >= name.len || name.data[i] != '.') return false;
    if (name.data[start] == '0' && i > start + 1) return false;
    *layer = (int)n;
    *rest = (str){name.data + i + 1, name.len - i - 1};
    return true;
}

bool tensor_name_from_gguf(arena *a, str name, str *out, bool *known) {
    *known = true;
    for (size_t i = 0; i < sizeof whole_names / sizeof *whole_names; i++) {
        if (str_is(name, whole_names[i].gguf)) {
            *out = str_from(whole_names[i].hf);
            return true;
        }
    }
    int layer;
    str rest;
    if (split_layer(name, STR("blk."), &layer, &rest)) {
        for (size_t i = 0; i < sizeof layer_names / sizeof *layer_names; i++) {
            if (!str_is(rest, layer_names[i].gguf)) continue;
            char *text = arena_printf(a, "model.layers.%d.%s", layer, layer_names[i].hf);
            if (!text) return false;
            *out = str_from(text);
            return true;
        }
    }
    *known = false;
    *out = name;
    return true;
}

bool hf_tensor_is_weight(const char *name) {
    str whole = str_from(name), rest;
    for (size_t i = 0; i < sizeof whole_names / sizeof *whole_names; i++) {
        if (str_is(whole, whole_names[i].hf)) return true;
    }
    int layer;
    if (!split_layer(whole, STR("model.layers."), &layer, &rest)) return false;
    if (str_starts(rest, STR("mlp.experts."))) return true; // one by one or packed
    for (size_t i = 0; i < sizeof layer_names / sizeof *layer_names; i++) {
        if (str_is(rest, layer_names[i].hf)) return true;
    }
    return false;
}
