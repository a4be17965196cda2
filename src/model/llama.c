// Llama and Qwen2 (Qwen2.5, DeepSeek-R1-Distill-Qwen): grouped-query attention, SwiGLU, RMSNorm before each block.
// Qwen2 differs by biases on q, k and v, which is the configuration's to say. docs/models/llama.md, docs/models/qwen2.md.
#include "model/family.h"

static const weight_rule rules[] = {ATTENTION_WEIGHTS, MLP_WEIGHTS};

static tensor layer(const forward *f, tensor x) {
    x = block_attention(f, x);
    return block_mlp(f, x);
}

const family family_llama = {"llama", rules, sizeof rules / sizeof *rules, layer};
const family family_qwen2 = {"qwen2", rules, sizeof rules / sizeof *rules, layer};
