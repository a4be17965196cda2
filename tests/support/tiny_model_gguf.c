// GGUF files of tiny models: the golden variants translated as converters do it, and random models of one block type.
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "file/hf.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"
#include "text/byte_map.h"
#include "text/utf8.h"

static uint32_t gguf_type_id(dtype type) {
    static const uint32_t ids[DTYPE_COUNT] = {
        [DTYPE_F32] = 0,   [DTYPE_F16] = 1,   [DTYPE_BF16] = 30, [DTYPE_Q8_0] = 8,    [DTYPE_Q4_0] = 2,
        [DTYPE_Q4_1] = 3,  [DTYPE_Q5_0] = 6,  [DTYPE_Q5_1] = 7,  [DTYPE_IQ4_NL] = 20, [DTYPE_Q2_K] = 10,
        [DTYPE_Q3_K] = 11, [DTYPE_Q4_K] = 12, [DTYPE_Q5_K] = 13, [DTYPE_Q6_K] = 14,   [DTYPE_IQ4_XS] = 23,
    };
    return ids[type];
}

static void add_tensor(gguf_writer *w, const char *name, dtype type, int n_dims, const int64_t *dim, const void *data,
                       size_t bytes) {
    uint64_t reversed[4];
    for (int i = 0; i < n_dims; i++) reversed[i] = (uint64_t)dim[n_dims - 1 - i];
    gguf_writer_tensor(w, name, gguf_type_id(type), n_dims, reversed, data, bytes);
}

static void key_u32(gguf_writer *w, const char *arch, const char *key, int v) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s", arch, key);
    gguf_writer_u32(w, name, (uint32_t)v);
}

static void key_f32(gguf_writer *w, const char *arch, const char *key, double v) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s", arch, key);
    gguf_writer_f32(w, name, (float)v);
}

static void write_keys(gguf_writer *w, const char *arch, const model_config *c) {
    gguf_writer_str(w, "general.architecture", arch);
    key_u32(w, arch, "block_count", c->n_layers);
    key_u32(w, arch, "context_length", c->context_length);
    key_u32(w, arch, "embedding_length", c->dim);
    key_u32(w, arch, "feed_forward_length", c->ffn_dim);
    key_u32(w, arch, "attention.head_count", c->n_heads);
    key_u32(w, arch, "attention.head_count_kv", c->n_kv_heads);
    key_u32(w, arch, "attention.key_length", c->head_dim);
    key_u32(w, arch, "attention.value_length", c->head_dim);
    key_f32(w, arch, "attention.layer_norm_rms_epsilon", c->rms_eps);
    key_u32(w, arch, "rope.dimension_count", c->rope.dim);
    key_f32(w, arch, "rope.freq_base", c->rope.theta);
    if (c->n_experts) {
        key_u32(w, arch, "expert_count", c->n_experts);
        key_u32(w, arch, "expert_used_count", c->n_experts_used);
        key_u32(w, arch, "expert_feed_forward_length", c->expert_ffn_dim);
    }
    char name[96];
    snprintf(name, sizeof name, "%s.rope.scaling.type", arch);
    if (c->rope.scaling == ROPE_LINEAR) gguf_writer_str(w, name, "linear");
    if (c->rope.scaling == ROPE_YARN) gguf_writer_str(w, name, "yarn");
    if (c->rope.scaling == ROPE_LINEAR || c->rope.scaling == ROPE_YARN)
        key_f32(w, arch, "rope.scaling.factor", c->rope.factor);
    if (c->rope.scaling == ROPE_YARN)
        key_u32(w, arch, "rope.scaling.original_context_length", (int)c->rope.original_context);
}

// Llama 3's scaling travels as divisors per frequency.
static void write_rope_freqs(gguf_writer *w, const rope_config *r) {
    if (r->scaling != ROPE_LLAMA3) return;
    float divisor[512];
    for (int i = 0; i < r->dim / 2; i++) {
        double freq = pow(r->theta, -2.0 * i / r->dim), wave = 2 * M_PI / freq, scaled = freq;
        double low = r->original_context / r->low_freq_factor, high = r->original_context / r->high_freq_factor;
        if (wave > low) {
            scaled = freq / r->factor;
        } else if (wave >= high) {
            double s = (r->original_context / wave - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
            scaled = (1 - s) * freq / r->factor + s * freq;
        }
        divisor[i] = (float)(freq / scaled);
    }
    add_tensor(w, "rope_freqs.weight", DTYPE_F32, 1, (int64_t[]){r->dim / 2}, divisor,
               (size_t)r->dim / 2 * sizeof *divisor);
}

static bool expressible(const model_config *c) {
    if (c->attn_out_bias || c->mlp_bias || (c->qkv_bias && c->family != FAMILY_QWEN2)) return false;
    if (c->n_experts && !c->norm_topk_prob) return false;
    for (int i = 0; i < c->n_layers && c->n_experts; i++) {
        if (!c->layer_is_moe[i]) return false;
    }
    const rope_config *r = &c->rope;
    if (r->scaling == ROPE_LLAMA3 && c->family != FAMILY_LLAMA) return false;
    if (r->scaling != ROPE_YARN) return true;
    return r->truncate && r->beta_fast == 32 && r->beta_slow == 1 &&
           fabs(r->attention_factor - (0.1 * log(r->factor) + 1)) < 1e-9;
}

static void gguf_name(char *buf, size_t size, const char *hf) {
    static const char *const pairs[][2] = {
        {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
        {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
        {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
        {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
        {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
        {"mlp.down_proj", "ffn_down"},       {"mlp.gate.", "ffn_gate_inp."},
    };
    int layer, n;
    if (sscanf(hf, "model.layers.%d.%n", &layer, &n) != 1) {
        const char *top = strstr(hf, "embed")     ? "token_embd.weight"
                          : strstr(hf, "lm_head") ? "output.weight"
                                                  : "output_norm.weight";
        snprintf(buf, size, "%s", top);
        return;
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t len = strlen(pairs[i][0]);
        if (strncmp(hf + n, pairs[i][0], len) != 0) continue;
        snprintf(buf, size, "blk.%d.%s%s", layer, pairs[i][1], hf + n + len);
        return;
    }
    assert(!"a tensor without a GGUF name");
}

// Rows of each head from halves [2][d/2] to pairs [d/2][2].
static void permute(float *v, int64_t rows, int64_t k, int64_t d) {
    float *copy = malloc((size_t)(rows * k) * sizeof *copy);
    assert(copy);
    memcpy(copy, v, (size_t)(rows * k) * sizeof *copy);
    for (int64_t r = 0; r < rows; r++) {
        int64_t head = r / d, i = r % d, from = head * d + i % 2 * (d / 2) + i / 2;
        memcpy(v + r * k, copy + from * k, (size_t)k * sizeof *v);
    }
    free(copy);
}

static void add_values(gguf_writer *w, const char *name, dtype type, int n_dims, const int64_t *dim, const float *v) {
    int64_t n = 1;
    for (int i = 0; i < n_dims; i++) n *= dim[i];
    bool vector = n_dims == 1 || strstr(name, "ffn_gate_inp"); // converters keep these in F32
    if (vector) type = DTYPE_F32;
    size_t bytes = (size_t)dtype_row_bytes(type, n);
    void *data = malloc(bytes);
    assert(data);
    dtype_get(type)->from_f32(data, v, n);
    add_tensor(w, name, type, n_dims, dim, data, bytes);
    free(data);
}

// The experts of one projection of one layer, packed [n_experts, n, k].
static void add_experts(gguf_writer *w, const tiny_model *m, const model_config *c, int layer, const char *which,
                        dtype type) {
    int64_t n = strcmp(which, "down") == 0 ? c->dim : c->expert_ffn_dim,
            k = strcmp(which, "down") == 0 ? c->expert_ffn_dim : c->dim;
    float *all = malloc((size_t)(c->n_experts * n * k) * sizeof *all);
    assert(all);
    for (int e = 0; e < c->n_experts; e++) {
        char name[128];
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%d.%s_proj.weight", layer, e, which);
        int i = 0;
        while (i < m->n_tensors && strcmp(m->tensors[i].name, name) != 0) i++;
        assert(i < m->n_tensors);
        float *v = tiny_tensor_values(m, &m->tensors[i]);
        memcpy(all + e * n * k, v, (size_t)(n * k) * sizeof *v);
        free(v);
    }
    char name[64];
    snprintf(name, sizeof name, "blk.%d.ffn_%s_exps.weight", layer, which);
    add_values(w, name, type, 3, (int64_t[]){c->n_experts, n, k}, all);
    free(all);
}

bool tiny_model_write_gguf(const tiny_model *m, const char *path, dtype type) {
    char *text = json_dumps(m->config, 0);
    hf_text config_text = {.path = m->name, .data = text, .len = strlen(text)};
    static const char *const arch_names[] = {
        [FAMILY_LLAMA] = "llama", [FAMILY_QWEN2] = "qwen2", [FAMILY_QWEN3] = "qwen3", [FAMILY_QWEN3_MOE] = "qwen3moe"};
    model_config *c = malloc(sizeof *c);
    assert(c);
    status s = hf_read_config(c, &config_text, NULL, NULL);
    assert(s == STATUS_OK);
    (void)s;
    free(text);
    bool ok = expressible(c);
    gguf_writer w;
    gguf_writer_init(&w);
    if (ok) {
        write_keys(&w, arch_names[c->family], c);
        write_rope_freqs(&w, &c->rope);
        for (int i = 0; i < m->n_tensors; i++) {
            const tiny_tensor *t = &m->tensors[i];
            if (strstr(t->name, ".experts.")) continue;
            float *v = tiny_tensor_values(m, t);
            bool permuted =
                c->family == FAMILY_LLAMA && (strstr(t->name, "q_proj.weight") || strstr(t->name, "k_proj.weight"));
            if (permuted) permute(v, t->dim[0], t->dim[1], c->head_dim);
            char name[128];
            gguf_name(name, sizeof name, t->name);
            add_values(&w, name, type, t->n_dims, t->dim, v);
            free(v);
        }
        for (int layer = 0; layer < c->n_layers && c->n_experts; layer++) {
            add_experts(&w, m, c, layer, "gate", type);
            add_experts(&w, m, c, layer, "up", type);
            add_experts(&w, m, c, layer, "down", type);
        }
        ok = gguf_writer_save(&w, path);
        assert(ok);
    }
    gguf_writer_deinit(&w);
    free(c);
    return ok;
}

// ---- random models -------------------------------------------------------------------------------------------------------

// Where a block keeps its f16 scales, so that random bytes become weights of a sane size.
static int scale_offsets(dtype type, int out[2]) {
    switch (type) {
    case DTYPE_Q2_K: out[0] = 80, out[1] = 82; return 2;
    case DTYPE_Q3_K: out[0] = 108; return 1;
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
    case DTYPE_Q4_1:
    case DTYPE_Q5_1: out[0] = 0, out[1] = 2; return 2;
    case DTYPE_Q6_K: out[0] = 208; return 1;
    default: out[0] = 0; return 1;
    }
}

static float scale_of(dtype type) { // makes weights of about 0.06
    switch (type) {
    case DTYPE_Q4_0: return 0.012f;
    case DTYPE_Q4_1: return 0.012f;
    case DTYPE_Q5_0: return 0.006f;
    case DTYPE_Q5_1: return 0.006f;
    case DTYPE_Q2_K: return 0.004f;
    case DTYPE_Q3_K: return 0.001f;
    case DTYPE_Q4_K: return 0.0004f;
    case DTYPE_Q5_K: return 0.0002f;
    case DTYPE_Q6_K: return 0.00005f;
    case DTYPE_IQ4_XS: return 0.00005f;
    default: return 0.0008f; // Q8_0, IQ4_NL
    }
}

static void random_bytes(unsigned char *data, size_t n, dtype type, uint64_t seed) {
    if (!dtype_is_block(type)) {
        int64_t count = (int64_t)n / dtype_get(type)->block_bytes;
        float *v = malloc((size_t)count * sizeof *v);
        assert(v);
        for (int64_t i = 0; i < count; i++)
            v[i] = ((float)(hash_mix(seed + (uint64_t)i) >> 40) / 16777216.0f - 0.5f) * 0.25f;
        dtype_get(type)->from_f32(data, v, count);
        free(v);
        return;
    }
    for (size_t i = 0; i < n; i++) data[i] = (unsigned char)(hash_mix(seed + i) >> 56);
    int at[2], n_scales = scale_offsets(type, at), block = dtype_get(type)->block_bytes;
    for (size_t b = 0; b + (size_t)block <= n; b += (size_t)block) {
        for (int s = 0; s < n_scales; s++) {
            float scale = scale_of(type) * (0.75f + (float)(data[b] & 15) / 32.0f);
            bool negative_min = s == 1 && (type == DTYPE_Q4_1 || type == DTYPE_Q5_1); // w = d q + m: centre it
            uint16_t h = f16_from_f32(negative_min ? -scale * (type == DTYPE_Q4_1 ? 7.5f : 15.5f)
                                      : s == 1     ? scale * 0.5f
                                                   : scale);
            memcpy(data + b + (size_t)at[s], &h, sizeof h);
        }
    }
}

static void add_random(gguf_writer *w, const char *name, dtype type, int n_dims, const int64_t *dim, uint64_t seed) {
    int64_t n = 1;
    for (int i = 0; i < n_dims; i++) n *= dim[i];
    size_t bytes = (size_t)dtype_row_bytes(type, n);
    unsigned char *data = malloc(bytes);
    assert(data);
    random_bytes(data, bytes, type, hash_mix(seed ^ hash_bytes(name, strlen(name))));
    if (n_dims == 1 && type == DTYPE_F32) { // norm weights around one
        for (int64_t i = 0; i < n; i++) ((float *)(void *)data)[i] += 1.0f;
    }
    add_tensor(w, name, type, n_dims, dim, data, bytes);
    free(data);
}

// Bytes, one merge, four tokens of a chat, and fillers up to the vocabulary.
static void write_tokenizer(gguf_writer *w, const char *chat_template) {
    enum { VOCAB = 300 };
    char text[VOCAB][16];
    const char *tokens[VOCAB];
    int32_t types[VOCAB];
    static const char *const extra[] = {"<|im_start|>", "<|im_end|>", "<think>", "</think>", "th"};
    for (int i = 0; i < VOCAB; i++) {
        if (i < 256) {
            int n = utf8_encode(byte_map_character((unsigned char)i), text[i]);
            text[i][n] = 0;
        } else if (i < 261) {
            snprintf(text[i], sizeof text[i], "%s", extra[i - 256]);
        } else {
            snprintf(text[i], sizeof text[i], "<filler %d>", i);
        }
        tokens[i] = text[i];
        types[i] = i == 256 || i == 257 ? 3 : i == 258 || i == 259 ? 4 : i > 260 ? 5 : 1;
    }
    static const char *const merges[] = {"t h"};
    gguf_writer_str(w, "tokenizer.ggml.model", "gpt2");
    gguf_writer_str(w, "tokenizer.ggml.pre", "qwen2");
    gguf_writer_str_array(w, "tokenizer.ggml.tokens", tokens, VOCAB);
    gguf_writer_i32_array(w, "tokenizer.ggml.token_type", types, VOCAB);
    gguf_writer_str_array(w, "tokenizer.ggml.merges", merges, 1);
    gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 257);
    gguf_writer_str(w, "tokenizer.chat_template", chat_template);
}

enum { RANDOM_HEAD = 64 };

typedef struct random_kind {
    dtype type, ends; // of the layers; of embedding and head
    bool moe;
    int head;
} random_kind;

static void random_gguf(const char *path, random_kind kind, uint64_t seed, const char *chat_template) {
    const dtype type = kind.type;
    const bool moe = kind.moe;
    const int head = kind.head;
    enum {
        DIM = 256,
        HEADS = 8,
        KV_HEADS = 2,
        FFN = 512,
        VOCAB = 300,
        EXPERTS = 8,
        USED = 3,
        EXPERT_FFN = 256,
        LAYERS = 2
    };
    const model_config c = {.n_layers = LAYERS,
                            .context_length = 4096,
                            .dim = DIM,
                            .ffn_dim = FFN,
                            .n_heads = HEADS,
                            .n_kv_heads = KV_HEADS,
                            .head_dim = head,
                            .rms_eps = 1e-6f,
                            .rope = {.dim = head, .theta = 10000},
                            .n_experts = moe ? EXPERTS : 0,
                            .n_experts_used = USED,
                            .expert_ffn_dim = EXPERT_FFN};
    gguf_writer w;
    gguf_writer_init(&w);
    write_keys(&w, moe ? "qwen3moe" : "qwen3", &c);
    if (chat_template) write_tokenizer(&w, chat_template);
    add_random(&w, "token_embd.weight", kind.ends, 2, (int64_t[]){VOCAB, DIM}, seed);
    add_random(&w, "output_norm.weight", DTYPE_F32, 1, (int64_t[]){DIM}, seed);
    add_random(&w, "output.weight", kind.ends, 2, (int64_t[]){VOCAB, DIM}, seed);
    const struct {
        const char *name;
        int64_t n, k, experts;
    } parts[] = {
        {"attn_norm", DIM, 0, 0},
        {"ffn_norm", DIM, 0, 0},
        {"attn_q_norm", head, 0, 0},
        {"attn_k_norm", head, 0, 0},
        {"attn_q", HEADS * head, DIM, 0},
        {"attn_k", KV_HEADS * head, DIM, 0},
        {"attn_v", KV_HEADS * head, DIM, 0},
        {"attn_output", DIM, HEADS * head, 0},
        {"ffn_gate", FFN, DIM, 0},
        {"ffn_up", FFN, DIM, 0},
        {"ffn_down", DIM, FFN, 0},
        {"ffn_gate_inp", EXPERTS, DIM, 1},
        {"ffn_gate_exps", EXPERT_FFN, DIM, EXPERTS},
        {"ffn_up_exps", EXPERT_FFN, DIM, EXPERTS},
        {"ffn_down_exps", DIM, EXPERT_FFN, EXPERTS},
    };
    for (int layer = 0; layer < LAYERS; layer++) {
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            bool expert_part = parts[i].experts > 0,
                 dense_ffn = strncmp(parts[i].name, "ffn_", 4) == 0 && !expert_part && parts[i].k;
            if ((expert_part && !moe) || (dense_ffn && moe)) continue;
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, parts[i].name);
            bool f32 = parts[i].k == 0 || parts[i].experts == 1;
            int64_t dim[3] = {parts[i].n, parts[i].k}, packed[3] = {parts[i].experts, parts[i].n, parts[i].k};
            add_random(&w, name, f32 ? DTYPE_F32 : type,
                       parts[i].k == 0        ? 1
                       : parts[i].experts > 1 ? 3
                                              : 2,
                       parts[i].experts > 1 ? packed : dim, seed + (uint64_t)layer);
        }
    }
    bool saved = gguf_writer_save(&w, path);
    assert(saved);
    (void)saved;
    gguf_writer_deinit(&w);
}

void tiny_random_gguf(const char *path, dtype type, bool moe, uint64_t seed) {
    random_gguf(path, (random_kind){type, type, moe, RANDOM_HEAD}, seed, NULL);
}

void tiny_random_gguf_heads(const char *path, dtype type, bool moe, int head_dim, uint64_t seed) {
    random_gguf(path, (random_kind){type, type, moe, head_dim}, seed, NULL);
}

void tiny_random_gguf_ends(const char *path, dtype type, dtype ends, uint64_t seed) {
    random_gguf(path, (random_kind){type, ends, false, RANDOM_HEAD}, seed, NULL);
}

void tiny_text_gguf(const char *path, dtype type, uint64_t seed, const char *chat_template) {
    random_gguf(path, (random_kind){type, type, false, RANDOM_HEAD}, seed, chat_template);
}
