#include "tests/support/tiny_gguf.h"

#include <stdio.h>
#include <stdlib.h>

static bool skipped(const char *name, const char *skip) { return skip && str_ends(str_from(name), str_from(skip)); }

static void key_u32(gguf_writer *w, const char *arch, const char *rest, uint32_t v, const char *skip) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", arch, rest);
    if (!skipped(key, skip)) gguf_writer_u32(w, key, v);
}

static void key_f32(gguf_writer *w, const char *arch, const char *rest, float v, const char *skip) {
    char key[128];
    snprintf(key, sizeof key, "%s.%s", arch, rest);
    if (!skipped(key, skip)) gguf_writer_f32(w, key, v);
}

void tiny_gguf_keys(gguf_writer *w, const char *arch, const char *skip) {
    if (!skipped("general.architecture", skip)) gguf_writer_str(w, "general.architecture", arch);
    gguf_writer_str(w, "general.name", "tiny");
    key_u32(w, arch, "block_count", TINY_LAYERS, skip);
    key_u32(w, arch, "context_length", 64, skip);
    key_u32(w, arch, "embedding_length", TINY_DIM, skip);
    key_u32(w, arch, "feed_forward_length", TINY_FFN, skip);
    key_u32(w, arch, "attention.head_count", 2, skip);
    key_u32(w, arch, "attention.head_count_kv", 1, skip);
    key_f32(w, arch, "attention.layer_norm_rms_epsilon", 1e-5f, skip);
    key_f32(w, arch, "rope.freq_base", 500000, skip);
    if (strcmp(arch, "qwen3moe") == 0) {
        key_u32(w, arch, "expert_count", TINY_EXPERTS, skip);
        key_u32(w, arch, "expert_used_count", 2, skip);
        key_u32(w, arch, "expert_feed_forward_length", TINY_EXPERT_FFN, skip);
    }
    if (!skipped("tokenizer.ggml.eos_token_id", skip)) gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 3);
    if (!skipped("tokenizer.ggml.tokens", skip)) {
        static const char *const tokens[TINY_VOCAB] = {"a", "b", "c", "<e>", "", "f", "gg", "h", "i", "j", "k", "l"};
        gguf_writer_str_array(w, "tokenizer.ggml.tokens", tokens, TINY_VOCAB);
    }
}

// A tensor of F32 numbers 0, 1, 2, ...; dims fastest first, 0 for "no further dimension".
static void tensor(gguf_writer *w, const char *name, uint64_t d0, uint64_t d1, uint64_t d2, const char *skip) {
    if (skipped(name, skip)) return;
    uint64_t dims[3] = {d0, d1, d2};
    int n_dims = d2 ? 3 : d1 ? 2 : 1;
    size_t n = (size_t)(d0 * (d1 ? d1 : 1) * (d2 ? d2 : 1));
    float *x = malloc(n * sizeof *x);
    if (!x) abort();
    for (size_t i = 0; i < n; i++) x[i] = (float)i;
    gguf_writer_tensor(w, name, 0, n_dims, dims, x, n * sizeof *x);
    free(x);
}

static void layer_tensor(gguf_writer *w, int layer, const char *rest, uint64_t d0, uint64_t d1, uint64_t d2,
                         const char *skip) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s", layer, rest);
    tensor(w, name, d0, d1, d2, skip);
}

void tiny_gguf_tensors(gguf_writer *w, const char *arch, const char *skip) {
    bool moe = strcmp(arch, "qwen3moe") == 0, q_norm = strncmp(arch, "qwen3", 5) == 0,
         bias = strcmp(arch, "qwen2") == 0;
    tensor(w, "token_embd.weight", TINY_DIM, TINY_VOCAB, 0, skip);
    tensor(w, "output_norm.weight", TINY_DIM, 0, 0, skip);
    tensor(w, "output.weight", TINY_DIM, TINY_VOCAB, 0, skip);
    for (int i = 0; i < TINY_LAYERS; i++) {
        layer_tensor(w, i, "attn_norm.weight", TINY_DIM, 0, 0, skip);
        layer_tensor(w, i, "attn_q.weight", TINY_DIM, 8, 0, skip);
        layer_tensor(w, i, "attn_k.weight", TINY_DIM, 4, 0, skip);
        layer_tensor(w, i, "attn_v.weight", TINY_DIM, 4, 0, skip);
        layer_tensor(w, i, "attn_output.weight", 8, TINY_DIM, 0, skip);
        layer_tensor(w, i, "ffn_norm.weight", TINY_DIM, 0, 0, skip);
        if (q_norm) layer_tensor(w, i, "attn_q_norm.weight", 4, 0, 0, skip);
        if (q_norm) layer_tensor(w, i, "attn_k_norm.weight", 4, 0, 0, skip);
        if (bias) layer_tensor(w, i, "attn_q.bias", 8, 0, 0, skip);
        if (bias) layer_tensor(w, i, "attn_k.bias", 4, 0, 0, skip);
        if (bias) layer_tensor(w, i, "attn_v.bias", 4, 0, 0, skip);
        if (moe) {
            layer_tensor(w, i, "ffn_gate_inp.weight", TINY_DIM, TINY_EXPERTS, 0, skip);
            layer_tensor(w, i, "ffn_gate_exps.weight", TINY_DIM, TINY_EXPERT_FFN, TINY_EXPERTS, skip);
            layer_tensor(w, i, "ffn_up_exps.weight", TINY_DIM, TINY_EXPERT_FFN, TINY_EXPERTS, skip);
            layer_tensor(w, i, "ffn_down_exps.weight", TINY_EXPERT_FFN, TINY_DIM, TINY_EXPERTS, skip);
        } else {
            layer_tensor(w, i, "ffn_gate.weight", TINY_DIM, TINY_FFN, 0, skip);
            layer_tensor(w, i, "ffn_up.weight", TINY_DIM, TINY_FFN, 0, skip);
            layer_tensor(w, i, "ffn_down.weight", TINY_FFN, TINY_DIM, 0, skip);
        }
    }
}
