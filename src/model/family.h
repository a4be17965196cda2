// What a model family declares: a table of its weights, and how one layer is computed.
//
// A family is a file (llama.c, qwen3.c, ...) with two things: rows of `weight_rule`, and a function that writes a layer as
// mathematics. bind.c does the finding, checking, and error text for all of them; blocks.c holds the parts that families share.
#ifndef TALLY_MODEL_FAMILY_H
#define TALLY_MODEL_FAMILY_H

#include "model/model.h"

typedef enum weight_field {
    // once per model
    W_EMBED,
    W_FINAL_NORM,
    W_HEAD,
    W_INV_FREQ,
    // once per layer
    W_ATTN_NORM,
    W_Q,
    W_K,
    W_V,
    W_O,
    W_Q_BIAS,
    W_K_BIAS,
    W_V_BIAS,
    W_O_BIAS,
    W_Q_NORM,
    W_K_NORM,
    W_FFN_NORM,
    W_GATE,
    W_UP,
    W_DOWN,
    W_GATE_BIAS,
    W_UP_BIAS,
    W_DOWN_BIAS,
    W_ROUTER,
    W_EXPERT_GATE,
    W_EXPERT_UP,
    W_EXPERT_DOWN,
    W_FIELD_COUNT
} weight_field;

// A size in terms of the configuration.
typedef enum weight_dim {
    DIM_ONE,
    DIM_HIDDEN,
    DIM_Q,
    DIM_KV,
    DIM_HEAD,
    DIM_FFN,
    DIM_EXPERTS,
    DIM_EXPERT_FFN,
    DIM_VOCAB,
    DIM_HEAD_ROWS
} weight_dim;

// In which layers, or models, the weight exists.
typedef enum weight_when { ALWAYS, IF_QKV_BIAS, IF_OUT_BIAS, IF_DENSE, IF_DENSE_BIAS, IF_MOE } weight_when;

typedef struct weight_rule {
    weight_field field;
    const char *label;   // in messages, tables and traces
    const char *pattern; // tensor name; %d is the layer
    const char *expert;  // WEIGHT_EXPERTS: the name of one expert (%d layer, %d expert); `pattern` is the packed form
    weight_role role;
    weight_split split;
    weight_dim n, k;
    weight_when when;
} weight_rule;

// One layer's numbers in the weight set; -1 where the layer has none.
typedef struct layer_weights {
    int id[W_FIELD_COUNT];
} layer_weights;

// What a layer function needs beside its weights.
typedef struct forward {
    op_list *g;
    const model_config *config;
    const layer_weights *w; // of the layer at hand
    int n_pieces;
    bool last_rows; // PASS_LAST_ROWS
    tensor rope_table;
} forward;

typedef struct family {
    const char *name;
    const weight_rule *rules;
    int n_rules;
    tensor (*layer)(const forward *f,
                    tensor x); // x: [rows, hidden] -> the same, or in the last layer [out rows, hidden]
} family;

extern const family family_llama, family_qwen2, family_qwen3, family_qwen3_moe;
const family *family_get(model_family id);

// Blocks (blocks.c). All take and give [rows, hidden]; the residual sum is part of the block.
tensor block_attention(const forward *f, tensor x);
tensor block_mlp(const forward *f, tensor x);
tensor block_moe(const forward *f, tensor x);

// Rows of the weight tables that several families share.
// clang-format off
#define ATTENTION_WEIGHTS                                                                                              \
    {W_ATTN_NORM, "attn_norm", "model.layers.%d.input_layernorm.weight", 0, WEIGHT_VECTOR, SPLIT_NONE, DIM_HIDDEN, DIM_ONE, ALWAYS},      \
    {W_Q, "attn_q", "model.layers.%d.self_attn.q_proj.weight", 0, WEIGHT_LINEAR, SPLIT_OUT, DIM_Q, DIM_HIDDEN, ALWAYS},                   \
    {W_K, "attn_k", "model.layers.%d.self_attn.k_proj.weight", 0, WEIGHT_LINEAR, SPLIT_OUT, DIM_KV, DIM_HIDDEN, ALWAYS},                  \
    {W_V, "attn_v", "model.layers.%d.self_attn.v_proj.weight", 0, WEIGHT_LINEAR, SPLIT_OUT, DIM_KV, DIM_HIDDEN, ALWAYS},                  \
    {W_O, "attn_o", "model.layers.%d.self_attn.o_proj.weight", 0, WEIGHT_LINEAR, SPLIT_REDUCED, DIM_HIDDEN, DIM_Q, ALWAYS},               \
    {W_Q_BIAS, "attn_q_bias", "model.layers.%d.self_attn.q_proj.bias", 0, WEIGHT_VECTOR, SPLIT_OUT, DIM_Q, DIM_ONE, IF_QKV_BIAS},         \
    {W_K_BIAS, "attn_k_bias", "model.layers.%d.self_attn.k_proj.bias", 0, WEIGHT_VECTOR, SPLIT_OUT, DIM_KV, DIM_ONE, IF_QKV_BIAS},        \
    {W_V_BIAS, "attn_v_bias", "model.layers.%d.self_attn.v_proj.bias", 0, WEIGHT_VECTOR, SPLIT_OUT, DIM_KV, DIM_ONE, IF_QKV_BIAS},        \
    {W_O_BIAS, "attn_o_bias", "model.layers.%d.self_attn.o_proj.bias", 0, WEIGHT_VECTOR, SPLIT_NONE, DIM_HIDDEN, DIM_ONE, IF_OUT_BIAS}

#define QK_NORM_WEIGHTS                                                                                                \
    {W_Q_NORM, "attn_q_norm", "model.layers.%d.self_attn.q_norm.weight", 0, WEIGHT_VECTOR, SPLIT_NONE, DIM_HEAD, DIM_ONE, ALWAYS},        \
    {W_K_NORM, "attn_k_norm", "model.layers.%d.self_attn.k_norm.weight", 0, WEIGHT_VECTOR, SPLIT_NONE, DIM_HEAD, DIM_ONE, ALWAYS}

#define MLP_WEIGHTS                                                                                                    \
    {W_FFN_NORM, "ffn_norm", "model.layers.%d.post_attention_layernorm.weight", 0, WEIGHT_VECTOR, SPLIT_NONE, DIM_HIDDEN, DIM_ONE, ALWAYS}, \
    {W_GATE, "ffn_gate", "model.layers.%d.mlp.gate_proj.weight", 0, WEIGHT_LINEAR, SPLIT_OUT, DIM_FFN, DIM_HIDDEN, IF_DENSE},             \
    {W_UP, "ffn_up", "model.layers.%d.mlp.up_proj.weight", 0, WEIGHT_LINEAR, SPLIT_OUT, DIM_FFN, DIM_HIDDEN, IF_DENSE},                   \
    {W_DOWN, "ffn_down", "model.layers.%d.mlp.down_proj.weight", 0, WEIGHT_LINEAR, SPLIT_REDUCED, DIM_HIDDEN, DIM_FFN, IF_DENSE},         \
    {W_GATE_BIAS, "ffn_gate_bias", "model.layers.%d.mlp.gate_proj.bias", 0, WEIGHT_VECTOR, SPLIT_OUT, DIM_FFN, DIM_ONE, IF_DENSE_BIAS},   \
    {W_UP_BIAS, "ffn_up_bias", "model.layers.%d.mlp.up_proj.bias", 0, WEIGHT_VECTOR, SPLIT_OUT, DIM_FFN, DIM_ONE, IF_DENSE_BIAS},         \
    {W_DOWN_BIAS, "ffn_down_bias", "model.layers.%d.mlp.down_proj.bias", 0, WEIGHT_VECTOR, SPLIT_NONE, DIM_HIDDEN, DIM_ONE, IF_DENSE_BIAS}

#define MOE_WEIGHTS                                                                                                    \
    {W_ROUTER, "ffn_router", "model.layers.%d.mlp.gate.weight", 0, WEIGHT_ROUTER, SPLIT_NONE, DIM_EXPERTS, DIM_HIDDEN, IF_MOE},           \
    {W_EXPERT_GATE, "ffn_gate_exps", "model.layers.%d.mlp.experts.gate_proj.weight", "model.layers.%d.mlp.experts.%d.gate_proj.weight",   \
     WEIGHT_EXPERTS, SPLIT_OUT, DIM_EXPERT_FFN, DIM_HIDDEN, IF_MOE},                                                                      \
    {W_EXPERT_UP, "ffn_up_exps", "model.layers.%d.mlp.experts.up_proj.weight", "model.layers.%d.mlp.experts.%d.up_proj.weight",           \
     WEIGHT_EXPERTS, SPLIT_OUT, DIM_EXPERT_FFN, DIM_HIDDEN, IF_MOE},                                                                      \
    {W_EXPERT_DOWN, "ffn_down_exps", "model.layers.%d.mlp.experts.down_proj.weight", "model.layers.%d.mlp.experts.%d.down_proj.weight",   \
     WEIGHT_EXPERTS, SPLIT_REDUCED, DIM_HIDDEN, DIM_EXPERT_FFN, IF_MOE}

// clang-format on

#endif
