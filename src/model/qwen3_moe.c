// Qwen3-MoE: qwen3.c's attention; a layer's feed-forward is a router over experts, or dense where the configuration says so
// (decoder_sparse_step, mlp_only_layers). docs/models/qwen3_moe.md.
#include "model/family.h"

static const weight_rule rules[] = {ATTENTION_WEIGHTS, QK_NORM_WEIGHTS, MLP_WEIGHTS, MOE_WEIGHTS};

static tensor layer(const forward *f, tensor x) {
    x = block_attention(f, x);
    return f->config->layer_is_moe[f->g->layer] ? block_moe(f, x) : block_mlp(f, x);
}

const family family_qwen3_moe = {"qwen3_moe", rules, sizeof rules / sizeof *rules, layer};
