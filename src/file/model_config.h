// The neutral model configuration: what config.json or GGUF keys say, in one spelling, checked.
//
// Filled by hf_config.c or gguf_config.c; read by src/model. A field that changes the mathematics and has no place here is
// refused by name while reading, never ignored. Counts are positive and consistent once a reader has returned STATUS_OK:
// the readers check ranges (n_heads % n_kv_heads == 0, n_experts_used <= n_experts, ...) and name field and numbers.
#ifndef TALLY_FILE_MODEL_CONFIG_H
#define TALLY_FILE_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum { MAX_LAYERS = 1024, MAX_STOP_IDS = 32 };

typedef enum model_family { FAMILY_LLAMA, FAMILY_QWEN2, FAMILY_QWEN3, FAMILY_QWEN3_MOE } model_family;

typedef enum rope_scaling { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN } rope_scaling;

typedef struct rope_config {
    rope_scaling scaling;
    double theta;                             // base of the frequencies
    double factor;                            // linear, llama3, yarn; 1 otherwise
    double low_freq_factor, high_freq_factor; // llama3
    double original_context;                  // llama3, yarn: positions the model was trained for, before scaling
    double beta_fast, beta_slow;              // yarn
    double attention_factor; // yarn: cos and sin are multiplied by it (already resolved from mscale etc.)
    bool truncate;           // yarn: round the correction range to whole dimensions
    int dim;                 // rotated dimensions of a head (even, <= head_dim)
    bool interleaved;        // pairs are (2i, 2i+1) instead of (i, i + dim/2): GGUF files of llama
} rope_config;

typedef struct sampling_defaults { // from generation_config.json; has_* false where the file is silent
    bool has_temperature, has_top_k, has_top_p, has_min_p, has_repetition_penalty, do_sample;
    float temperature, top_p, min_p, repetition_penalty;
    int top_k;
} sampling_defaults;

typedef struct model_config {
    model_family family;
    char arch[32]; // as the file spells it: "qwen3_moe", "qwen3moe", ...
    int n_vocab;   // rows of the embedding, padding included
    int head_rows; // rows of the head that one of several ranks holds; 0: all (model/rank.h)
    int dim;       // width of the residual stream
    int n_layers;
    int n_heads, n_kv_heads;
    int head_dim;
    int ffn_dim; // dense MLP; 0 when every layer is MoE and the file is silent
    float rms_eps;
    bool qkv_bias, attn_out_bias, mlp_bias;
    bool qk_norm;
    bool tied_head;       // config's claim; a file that holds an output matrix wins if the claim is absent
    bool tied_head_given; // the claim was in the file
    int context_length;   // positions the model was made for
    rope_config rope;
    int n_experts, n_experts_used, expert_ffn_dim; // 0 for dense models
    bool norm_topk_prob;
    bool layer_is_moe[MAX_LAYERS];
    int n_stop_ids; // union of config, generation_config (the tokenizer's own are added later)
    int32_t stop_ids[MAX_STOP_IDS];
    int32_t bos_id; // -1: none
    sampling_defaults sampling;
} model_config;

#endif
