// Qwen3, dense: as llama.c, with an RMSNorm over each head of q and k before rotation. docs/models/qwen3.md.
#include "model/family.h"

static const weight_rule rules[] = {ATTENTION_WEIGHTS, QK_NORM_WEIGHTS, MLP_WEIGHTS};

static tensor layer(const forward *f, tensor x) {
    x = block_attention(f, x);
    return block_mlp(f, x);
}

const family family_qwen3 = {"qwen3", rules, sizeof rules / sizeof *rules, layer};
