// GGUF keys and tensors -> the neutral configuration.
//
// A hyperparameter ("ARCH.something") that is not in the tables below is refused unless its value is neutral, because every
// such key of llama.cpp's changes the mathematics of some model. What the keys do not say (biases, mixture of experts per
// layer, tied head) is read off the tensors; a tensor that has no place in these families is refused too.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "file/check.h"
#include "file/config_check.h"
#include "file/gguf_internal.h"

typedef struct reader {
    const gguf *g;
    const char *path, *arch;
    model_config *c;
    error *err;
    char key[128]; // of full_key
} reader;

static const struct {
    const char *arch;
    model_family family;
} families[] = {
    {"llama", FAMILY_LLAMA},
    {"qwen2", FAMILY_QWEN2},
    {"qwen3", FAMILY_QWEN3},
    {"qwen3moe", FAMILY_QWEN3_MOE},
};

static const char *full_key(reader *r, const char *rest) {
    snprintf(r->key, sizeof r->key, "%s.%s", r->arch, rest);
    return r->key;
}

static status missing(reader *r, const char *rest) {
    return error_set(r->err, STATUS_BAD_FILE, "%s: key %s.%s is missing", r->path, r->arch, rest);
}

// An integer of 1..max, or an array (one number per layer) whose elements are all the same such integer.
static status get_count(reader *r, const char *rest, int max, int *out, bool *found) {
    const char *key = full_key(r, rest);
    int64_t value = 0;
    const gguf_value *v = gguf_find_value(&r->g->parts[0], key);
    if (v && v->type == GGUF_ARRAY) {
        *found = true;
        if (v->n < 1 || v->elem == GGUF_STRING || gguf_value_types[v->elem].size < 4 || v->elem == GGUF_F32) {
            return error_set(r->err, STATUS_BAD_FILE, "%s: key %s is an array of %" PRId64 " %s, expected integers",
                             r->path, key, v->n, gguf_value_types[v->elem].name);
        }
        value = gguf_array_int(r->g, key, 0);
        for (int64_t i = 1; i < v->n; i++) {
            int64_t other = gguf_array_int(r->g, key, i);
            if (other == value) continue;
            return error_set(r->err, STATUS_UNSUPPORTED,
                             "%s: key %s differs between layers (%" PRId64 ", then %" PRId64 " at layer %" PRId64
                             "), which tally does not support",
                             r->path, key, value, other, i);
        }
    } else {
        TRY(gguf_get_int(r->g, key, &value, found, r->err));
    }
    if (!*found) return STATUS_OK;
    if (value < 1 || value > max) {
        return error_set(r->err, STATUS_BAD_FILE, "%s: key %s is %" PRId64 ", expected 1 to %d", r->path, key, value,
                         max);
    }
    *out = (int)value;
    return STATUS_OK;
}

static status need_count(reader *r, const char *rest, int max, int *out) {
    bool found;
    TRY(get_count(r, rest, max, out, &found));
    return found ? STATUS_OK : missing(r, rest);
}

static status get_number(reader *r, const char *rest, double *out, bool *found) {
    return gguf_get_float(r->g, full_key(r, rest), out, found, r->err);
}

// Keys that are read below, and those that do not touch the forward pass.
static bool key_is_known(str rest) {
    static const char *const known[] = {
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "vocab_size",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "attention.layer_norm_rms_epsilon",
        "attention.sliding_window",
        "attention.scale",
        "attention.causal",
        "rope.freq_base",
        "rope.dimension_count",
        "rope.scale_linear",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scaling.original_context_length",
        "rope.scaling.attn_factor",
        "rope.scaling.finetuned",
        "rope.scaling.yarn_ext_factor",
        "rope.scaling.yarn_attn_factor",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
        "expert_count",
        "expert_used_count",
        "expert_feed_forward_length",
        "expert_weights_norm",
        "expert_gating_func",
        "leading_dense_block_count",
        "tensor_data_layout",
        "pooling_type",
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (str_is(rest, known[i])) return true;
    }
    return false;
}

// A value that leaves the forward pass as it is: 0, false, an empty text or array; 1 for a scale.
static bool value_is_neutral(const gguf *g, const gguf_value *v, const char *key) {
    if (v->type == GGUF_STRING) return v->len == 0;
    if (v->type == GGUF_ARRAY) {
        for (int64_t i = 0; i < v->n; i++) {
            if (v->elem == GGUF_STRING || gguf_array_float(g, key, i) != 0) return false;
        }
        return true;
    }
    if (v->type == GGUF_BOOL) return *v->data == 0;
    double x = 0;
    bool found;
    if (gguf_get_float(g, key, &x, &found, NULL) != STATUS_OK) return false;
    return x == 0 || (x == 1 && str_ends(v->key, STR("_scale")));
}

static status refuse_unknown_keys(reader *r) {
    const gguf_part *part = &r->g->parts[0];
    size_t n = strlen(r->arch);
    for (size_t i = 0; i < part->n_values; i++) {
        const gguf_value *v = &part->values[i];
        if (!str_starts(v->key, str_from(r->arch)) || v->key.len <= n || v->key.data[n] != '.') continue;
        str rest = {v->key.data + n + 1, v->key.len - n - 1};
        char key[128];
        if (key_is_known(rest)) continue;
        snprintf(key, sizeof key, "%.*s", STR_ARG(v->key));
        if (strlen(key) == v->key.len && value_is_neutral(r->g, v, key)) continue;
        return error_set(r->err, STATUS_UNSUPPORTED, "%s: key %s asks for something that tally does not do", r->path,
                         show_name(v->key).text);
    }
    return STATUS_OK;
}

// Refuses a known key unless it has the one value that tally implements.
static status expect_number(reader *r, const char *rest, double only) {
    double x = only;
    bool found;
    TRY(get_number(r, rest, &x, &found));
    if (fabs(x - only) <= 1e-6 * fabs(only) || (found && x == 0)) return STATUS_OK;
    return error_set(r->err, STATUS_UNSUPPORTED, "%s: key %s is %g, tally supports only %g", r->path, full_key(r, rest),
                     x, only);
}

static status refuse_variants(reader *r) {
    TRY(refuse_unknown_keys(r));
    TRY(expect_number(r, "attention.scale", 1 / sqrt(r->c->head_dim)));
    TRY(expect_number(r, "expert_gating_func", 1)); // softmax
    bool causal = true, found;
    TRY(gguf_get_bool(r->g, full_key(r, "attention.causal"), &causal, &found, r->err));
    if (!causal) {
        return error_set(r->err, STATUS_UNSUPPORTED, "%s: key %s is false; tally runs causal models only", r->path,
                         r->key);
    }
    int64_t window = 0;
    TRY(gguf_get_int(r->g, full_key(r, "attention.sliding_window"), &window, &found, r->err));
    if (window > 0 && window < r->c->context_length) {
        return error_set(r->err, STATUS_UNSUPPORTED, "%s: key %s is %" PRId64 "; tally does not do sliding windows",
                         r->path, r->key, window);
    }
    return STATUS_OK;
}

static status read_sizes(reader *r) {
    model_config *c = r->c;
    bool found;
    TRY(need_count(r, "block_count", MAX_LAYERS, &c->n_layers));
    TRY(need_count(r, "embedding_length", MAX_WIDTH, &c->dim));
    TRY(need_count(r, "context_length", INT32_MAX, &c->context_length));
    TRY(need_count(r, "attention.head_count", MAX_HEADS, &c->n_heads));
    c->n_kv_heads = c->n_heads;
    TRY(get_count(r, "attention.head_count_kv", MAX_HEADS, &c->n_kv_heads, &found));
    TRY(get_count(r, "attention.key_length", MAX_WIDTH, &c->head_dim, &found));
    if (!found) {
        if (c->dim % c->n_heads) {
            return error_set(r->err, STATUS_BAD_FILE,
                             "%s: %s.embedding_length %d is no multiple of %s.attention.head_count %d and "
                             "there is no attention.key_length",
                             r->path, r->arch, c->dim, r->arch, c->n_heads);
        }
        c->head_dim = c->dim / c->n_heads;
    }
    int value_length = c->head_dim;
    TRY(get_count(r, "attention.value_length", MAX_WIDTH, &value_length, &found));
    if (value_length != c->head_dim) {
        return error_set(r->err, STATUS_UNSUPPORTED,
                         "%s: keys of %d and values of %d dimensions; tally needs them equal", r->path, c->head_dim,
                         value_length);
    }
    TRY(get_count(r, "feed_forward_length", MAX_WIDTH, &c->ffn_dim, &found));
    double eps = 0;
    TRY(get_number(r, "attention.layer_norm_rms_epsilon", &eps, &found));
    if (!found) return missing(r, "attention.layer_norm_rms_epsilon");
    c->rms_eps = (float)eps;
    return STATUS_OK;
}

static status read_experts(reader *r) {
    model_config *c = r->c;
    if (c->family != FAMILY_QWEN3_MOE) {
        int64_t n = 0;
        bool found;
        TRY(gguf_get_int(r->g, full_key(r, "expert_count"), &n, &found, r->err));
        if (n != 0) {
            return error_set(r->err, STATUS_UNSUPPORTED,
                             "%s: key %s is %" PRId64 "; tally does not do experts in architecture %s", r->path, r->key,
                             n, r->arch);
        }
        return STATUS_OK;
    }
    TRY(need_count(r, "expert_count", MAX_EXPERTS, &c->n_experts));
    TRY(need_count(r, "expert_used_count", MAX_EXPERTS, &c->n_experts_used));
    TRY(need_count(r, "expert_feed_forward_length", MAX_WIDTH, &c->expert_ffn_dim));
    // llama.cpp always normalises in this architecture; files have no key for it.
    bool found;
    c->norm_topk_prob = true;
    return gguf_get_bool(r->g, full_key(r, "expert_weights_norm"), &c->norm_topk_prob, &found, r->err);
}

static status read_yarn(reader *r) {
    rope_config *rope = &r->c->rope;
    bool found, original;
    double attn_factor = 1, ext_factor = 1; // yarn_attn_factor is llama.cpp's for grok alone
    rope->original_context = r->c->context_length;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    rope->truncate = true;
    TRY(get_number(r, "rope.scaling.original_context_length", &rope->original_context, &original));
    if (original) config_yarn_context(r->c);
    TRY(get_number(r, "rope.scaling.yarn_beta_fast", &rope->beta_fast, &found));
    TRY(get_number(r, "rope.scaling.yarn_beta_slow", &rope->beta_slow, &found));
    TRY(get_number(r, "rope.scaling.attn_factor", &attn_factor, &found));
    TRY(get_number(r, "rope.scaling.yarn_ext_factor", &ext_factor, &found));
    if (ext_factor != 1) {
        return error_set(r->err, STATUS_UNSUPPORTED, "%s: key %s is %g, tally supports only 1", r->path, r->key,
                         ext_factor);
    }
    rope->attention_factor = attn_factor * config_yarn_attention_factor(rope->factor, 1);
    return STATUS_OK;
}

static status read_rope_scaling(reader *r) {
    rope_config *rope = &r->c->rope;
    str type = STR("none");
    bool has_type, has_factor;
    TRY(gguf_get_str(r->g, full_key(r, "rope.scaling.type"), &type, &has_type, r->err));
    TRY(get_number(r, "rope.scaling.factor", &rope->factor, &has_factor));
    if (!has_factor) TRY(get_number(r, "rope.scale_linear", &rope->factor, &has_factor)); // an older spelling
    if (rope->factor == 0) rope->factor = 1;
    if (!has_type && has_factor && rope->factor != 1) type = STR("linear"); // llama.cpp's default
    if (str_is(type, "none")) {
        rope->factor = 1;
    } else if (str_is(type, "linear")) {
        rope->scaling = rope->factor == 1 ? ROPE_DEFAULT : ROPE_LINEAR;
    } else if (str_is(type, "yarn")) {
        rope->scaling = ROPE_YARN;
        if (!has_factor) return missing(r, "rope.scaling.factor");
        return read_yarn(r);
    } else {
        return error_set(r->err, STATUS_UNSUPPORTED, "%s: key %s is \"%s\"; tally knows none, linear and yarn", r->path,
                         full_key(r, "rope.scaling.type"), show_name(type).text);
    }
    return expect_number(r, "rope.scaling.attn_factor", 1); // llama.cpp multiplies by it without yarn, too
}

static status read_rope(reader *r) {
    model_config *c = r->c;
    rope_config *rope = &c->rope;
    *rope = (rope_config){.factor = 1, .attention_factor = 1, .dim = c->head_dim, .truncate = true};
    rope->interleaved = c->family == FAMILY_LLAMA;
    bool found;
    TRY(get_number(r, "rope.freq_base", &rope->theta, &found));
    if (!found && c->family != FAMILY_LLAMA) return missing(r, "rope.freq_base");
    if (!found) rope->theta = 10000;
    TRY(get_count(r, "rope.dimension_count", MAX_WIDTH, &rope->dim, &found));
    TRY(read_rope_scaling(r));
    // Divisors of the frequencies (llama 3.x), one per pair; the model applies them.
    const gguf_tensor *t = gguf_find_tensor(r->g, "rope_freqs.weight");
    if (!t) return STATUS_OK;
    if (!t->supported || t->type != DTYPE_F32 || t->n_dims != 1 || t->dim[0] != rope->dim / 2) {
        return error_set(r->err, STATUS_BAD_FILE, "%s: tensor rope_freqs.weight must be F32 of %d numbers", r->path,
                         rope->dim / 2);
    }
    if (rope->scaling == ROPE_YARN) {
        return error_set(r->err, STATUS_UNSUPPORTED, "%s: yarn rope scaling together with a tensor rope_freqs.weight",
                         r->path);
    }
    return STATUS_OK;
}

// "blk.N." of a translated name -> N, else -1.
static int layer_of(str gguf_name) {
    int n = -1;
    char head[16];
    snprintf(head, sizeof head, "%.*s", (int)(gguf_name.len < 15 ? gguf_name.len : 15), gguf_name.data);
    return sscanf(head, "blk.%d.", &n) == 1 ? n : -1;
}

// One tensor: refuses it when these families have no place for it, else notes what it tells about the model.
static status note_tensor(reader *r, arena *a, const gguf_tensor *t) {
    model_config *c = r->c;
    bool known;
    str hf;
    if (!tensor_name_from_gguf(a, t->name, &hf, &known)) return error_no_memory(r->err, 64);
    int layer = layer_of(t->name);
    bool q_norm = str_ends(hf, STR(".q_norm.weight")) || str_ends(hf, STR(".k_norm.weight"));
    bool expert = str_find(hf, STR(".mlp.experts."), 0) >= 0 || str_ends(hf, STR(".mlp.gate.weight"));
    if (!known || (q_norm && !c->qk_norm) || (expert && c->family != FAMILY_QWEN3_MOE)) {
        return error_set(r->err, STATUS_UNSUPPORTED, "%s: tensor %s has no place in architecture %s as tally knows it",
                         r->path, show_name(t->name).text, r->arch);
    }
    if (layer >= c->n_layers) {
        return error_set(r->err, STATUS_BAD_FILE, "%s: tensor %s, but %s.block_count is %d", r->path,
                         show_name(t->name).text, r->arch, c->n_layers);
    }
    if (str_ends(hf, STR(".bias"))) {
        if (str_find(hf, STR(".o_proj."), 0) >= 0)
            c->attn_out_bias = true;
        else if (str_find(hf, STR(".mlp."), 0) >= 0)
            c->mlp_bias = true;
        else
            c->qkv_bias = true;
    }
    if (str_ends(hf, STR(".mlp.gate_proj.weight"))) c->layer_is_moe[layer] = false;
    if (str_is(hf, "lm_head.weight")) c->tied_head = false;
    return STATUS_OK;
}

static status read_tensors(reader *r) {
    model_config *c = r->c;
    c->tied_head = c->tied_head_given = true;
    c->qk_norm = c->family == FAMILY_QWEN3 || c->family == FAMILY_QWEN3_MOE;
    for (int i = 0; i < c->n_layers; i++) c->layer_is_moe[i] = c->n_experts > 0;
    const gguf_tensor *embedding = gguf_find_tensor(r->g, "token_embd.weight");
    if (!embedding) { return error_set(r->err, STATUS_NOT_FOUND, "%s: tensor token_embd.weight is missing", r->path); }
    if (embedding->n_dims != 2 || embedding->dim[0] != c->dim || embedding->dim[1] > INT32_MAX) {
        return error_set(r->err, STATUS_BAD_FILE,
                         "%s: tensor token_embd.weight has rows of %" PRId64 " numbers and %" PRId64
                         " rows, expected rows of %d",
                         r->path, embedding->dim[0], embedding->n_dims < 2 ? 1 : embedding->dim[1], c->dim);
    }
    c->n_vocab = (int)embedding->dim[1];
    arena a;
    arena_init(&a);
    status code = STATUS_OK;
    for (int p = 0; p < r->g->n_parts && code == STATUS_OK; p++) {
        const gguf_part *part = &r->g->parts[p];
        for (size_t i = 0; i < part->n_tensors && code == STATUS_OK; i++) {
            arena_reset(&a);
            code = note_tensor(r, &a, &part->tensors[i]);
        }
    }
    arena_deinit(&a);
    return code;
}

static status read_tokens(reader *r) {
    static const char *const stops[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id"};
    int64_t id = -1;
    bool found;
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        TRY(gguf_get_int(r->g, stops[i], &id, &found, r->err));
        if (found) TRY(config_add_stop_id(r->c, id, r->path, r->err));
    }
    id = -1;
    TRY(gguf_get_int(r->g, "tokenizer.ggml.bos_token_id", &id, &found, r->err));
    r->c->bos_id = id >= 0 && id < r->c->n_vocab ? (int32_t)id : -1;
    return STATUS_OK;
}

static status get_sampling(reader *r, const char *key, bool *has, float *out) {
    double x = 0;
    TRY(gguf_get_float(r->g, key, &x, has, r->err));
    *out = (float)x;
    return STATUS_OK;
}

static status read_sampling(reader *r) {
    sampling_defaults *s = &r->c->sampling;
    TRY(get_sampling(r, "general.sampling.temp", &s->has_temperature, &s->temperature));
    TRY(get_sampling(r, "general.sampling.top_p", &s->has_top_p, &s->top_p));
    TRY(get_sampling(r, "general.sampling.min_p", &s->has_min_p, &s->min_p));
    TRY(get_sampling(r, "general.sampling.penalty_repeat", &s->has_repetition_penalty, &s->repetition_penalty));
    int64_t k = 0;
    TRY(gguf_get_int(r->g, "general.sampling.top_k", &k, &s->has_top_k, r->err));
    s->has_top_k = s->has_top_k && k >= 0 && k <= INT32_MAX;
    s->top_k = s->has_top_k ? (int)k : 0;
    s->do_sample = s->has_temperature && s->temperature > 0;
    return STATUS_OK;
}

static status read_architecture(reader *r) {
    str arch = {0}, kind = STR("model");
    bool found;
    TRY(gguf_get_str(r->g, "general.type", &kind, &found, r->err));
    if (!str_is(kind, "model")) {
        return error_set(r->err, STATUS_UNSUPPORTED, "%s: general.type is \"%s\", expected \"model\"", r->path,
                         show_name(kind).text);
    }
    TRY(gguf_get_str(r->g, "general.architecture", &arch, &found, r->err));
    if (!found) return error_set(r->err, STATUS_BAD_FILE, "%s: key general.architecture is missing", r->path);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (!str_is(arch, families[i].arch)) continue;
        r->c->family = families[i].family;
        r->arch = families[i].arch;
        snprintf(r->c->arch, sizeof r->c->arch, "%s", r->arch);
        return STATUS_OK;
    }
    return error_set(r->err, STATUS_UNSUPPORTED,
                     "%s: architecture \"%s\" is not supported; tally runs llama, qwen2, qwen3 and "
                     "qwen3moe",
                     r->path, show_name(arch).text);
}

status gguf_read_config(const gguf *g, model_config *out, error *err) {
    *out = (model_config){0};
    reader r = {.g = g, .path = g->parts[0].path, .c = out, .err = err};
    TRY(read_architecture(&r));
    if (g->parts[0].n_tensors == 0 && g->n_parts == 1) {
        return error_set(err, STATUS_NOT_FOUND, "%s: holds no tensors, only metadata", r.path);
    }
    TRY(read_sizes(&r));
    TRY(read_experts(&r));
    TRY(refuse_variants(&r));
    TRY(read_rope(&r));
    TRY(read_tensors(&r));
    TRY(read_tokens(&r));
    TRY(read_sampling(&r));
    return config_check(out, r.path, err);
}
