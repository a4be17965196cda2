// config.json and generation_config.json -> the neutral configuration.
//
// Fields fall into three groups. Those read here are checked. Those of the table `refused` change the mathematics in ways
// that are not implemented: any value but the neutral one is refused by name. All others (bookkeeping, training, other
// frameworks' fields) are ignored, as transformers ignores what its classes do not declare; a model that needs more has
// a model_type of its own, which is refused. Defaults for absent fields are those of transformers 5, except that what has
// no sensible default (sizes, rope_theta of the qwen families) must be there.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "file/check.h"
#include "file/config_check.h"
#include "file/hf.h"

typedef struct reader {
    const json_t *root;
    const char *path;
    model_config *c;
    error *err;
} reader;

static status get_count(reader *r, const char *field, int64_t max, int *out, bool *found) {
    int64_t value = *out;
    TRY(json_get_int(r->root, r->path, field, 1, max, &value, found, r->err));
    *out = (int)value;
    return STATUS_OK;
}

static status need_count(reader *r, const char *field, int64_t max, int *out) {
    bool found;
    TRY(get_count(r, field, max, out, &found));
    return found ? STATUS_OK : error_set(r->err, STATUS_BAD_FILE, "%s: %s is missing", r->path, field);
}

static status get_flag(reader *r, const char *field, bool *out) {
    bool found;
    return json_get_bool(r->root, r->path, field, out, &found, r->err);
}

// Fields that change what a model computes. `neutral` is a number that leaves it as it is, beside null, false, 0, and empty
// texts and collections, which always do.
static const struct {
    const char *field;
    double neutral;
} refused[] = {
    {"quantization_config", 0},
    {"compression_config", 0},
    {"use_sliding_window", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"router_logit_softcapping", 0},
    {"logits_scaling", 1},
    {"logit_scale", 1},
    {"embedding_multiplier", 1},
    {"residual_multiplier", 1},
    {"attention_multiplier", 0},
    {"query_pre_attn_scalar", 0},
    {"scale_emb", 1},
    {"scale_depth", 0},
    {"dim_model_base", 0},
    {"shared_expert_intermediate_size", 0},
    {"moe_shared_expert_intermediate_size", 0},
    {"num_shared_experts", 0},
    {"n_shared_experts", 0},
    {"shared_expert_gate", 0},
    {"n_group", 1},
    {"topk_group", 1},
    {"routed_scaling_factor", 1},
    {"moe_routed_scaling_factor", 1},
    {"first_k_dense_replace", 0},
    {"moe_layer_freq", 1},
    {"interleave_moe_layer_step", 1},
    {"q_lora_rank", 0},
    {"kv_lora_rank", 0},
    {"v_head_dim", 0},
    {"qk_rope_head_dim", 0},
    {"qk_nope_head_dim", 0},
    {"full_attention_interval", 1},
    {"linear_num_key_heads", 0},
    {"linear_num_value_heads", 0},
    {"attn_output_gate", 0},
    {"no_rope_layers", 0},
    {"no_rope_layer_interval", 0},
    {"attention_chunk_size", 0},
    {"attn_temperature_tuning", 0},
    {"use_mrope", 0},
    {"mrope_section", 0},
    {"rope_interleave", 0},
    {"rope_interleaved", 0},
    {"alibi", 0},
    {"clip_qkv", 0},
    {"parallel_attn", 0},
    {"use_parallel_residual", 0},
    {"cross_attention_layers", 0},
    {"add_cross_attention", 0},
    {"is_encoder_decoder", 0},
    {"pruned_heads", 0},
    {"text_config", 0},
    {"vision_config", 0},
    {"audio_config", 0},
    {"use_bidirectional_attention", 0},
    {"mlp_type", 0},
    {"num_nextn_predict_layers", 0},
    {"rotary_pct", 1},
    {"sliding_window_pattern", 0},
};

static bool is_neutral(const json_t *v, double neutral) {
    switch (json_typeof(v)) {
    case JSON_OBJECT: return json_object_size(v) == 0;
    case JSON_ARRAY: return json_array_size(v) == 0;
    case JSON_STRING: return json_string_length(v) == 0;
    case JSON_INTEGER:
    case JSON_REAL: return json_number_value(v) == 0 || json_number_value(v) == neutral;
    case JSON_TRUE: return false;
    default: return true;
    }
}

static status refuse(reader *r, const char *field, const json_t *v) {
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
    shown_name shown = show_name(str_from(text ? text : json_kind(v)));
    free(text);
    return error_set(r->err, STATUS_UNSUPPORTED, "%s: %s is %s, which tally does not implement", r->path, field,
                     shown.text);
}

static status refuse_variants(reader *r) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const json_t *v = json_object_get(r->root, refused[i].field);
        if (v && !is_neutral(v, refused[i].neutral)) return refuse(r, refused[i].field, v);
    }
    const json_t *act = json_object_get(r->root, "hidden_act");
    const char *name = json_string_value(act);
    if (act && !json_is_null(act) && (!name || (strcmp(name, "silu") != 0 && strcmp(name, "swish") != 0))) {
        return refuse(r, "hidden_act", act);
    }
    const json_t *causal = json_object_get(r->root, "is_causal"); // embedders
    if (json_is_false(causal)) return refuse(r, "is_causal", causal);
    const json_t *scoring = json_object_get(r->root, "scoring_func");
    if (json_is_string(scoring) && strcmp(json_string_value(scoring), "softmax") != 0)
        return refuse(r, "scoring_func", scoring);
    // transformers' classes take these from the model_type alone; a file that says otherwise was made for other code.
    const json_t *norm = json_object_get(r->root, "use_qk_norm"), *bias = json_object_get(r->root, "qkv_bias");
    if (json_is_true(norm) && !r->c->qk_norm) return refuse(r, "use_qk_norm", norm);
    if (json_is_true(bias) && r->c->family != FAMILY_QWEN2) return refuse(r, "qkv_bias", bias);
    const json_t *mlp_bias = json_object_get(r->root, "mlp_bias");
    if (json_is_true(mlp_bias) && r->c->family != FAMILY_LLAMA) return refuse(r, "mlp_bias", mlp_bias);
    return STATUS_OK;
}

static status read_layer_types(reader *r) {
    const json_t *types = json_object_get(r->root, "layer_types");
    if (!types || json_is_null(types)) return STATUS_OK;
    if (!json_is_array(types) || json_array_size(types) != (size_t)r->c->n_layers) {
        return error_set(r->err, STATUS_BAD_FILE, "%s: layer_types has %zu entries, num_hidden_layers is %d", r->path,
                         json_array_size(types), r->c->n_layers);
    }
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type && strcmp(type, "full_attention") == 0) continue;
        return error_set(r->err, STATUS_UNSUPPORTED,
                         "%s: layer_types[%zu] is \"%s\", tally implements \"full_attention\"", r->path, i,
                         show_name(str_from(type ? type : "")).text);
    }
    return STATUS_OK;
}

static status read_family(reader *r) {
    static const struct {
        const char *type;
        model_family family;
    } families[] = {
        {"llama", FAMILY_LLAMA},
        {"qwen2", FAMILY_QWEN2},
        {"qwen3", FAMILY_QWEN3},
        {"qwen3_moe", FAMILY_QWEN3_MOE},
    };
    // Other heads on the same trunk: their files hold no language model head.
    static const char *const heads[] = {"Classification", "QuestionAnswering", "RewardModel", "ConditionalGeneration"};
    const char *type = NULL;
    bool found;
    TRY(json_get_text(r->root, r->path, "model_type", &type, &found, r->err));
    if (!found) return error_set(r->err, STATUS_BAD_FILE, "%s: model_type is missing", r->path);
    const char *arch = json_string_value(json_array_get(json_object_get(r->root, "architectures"), 0));
    for (size_t i = 0; arch && i < sizeof heads / sizeof *heads; i++) {
        if (!strstr(arch, heads[i])) continue;
        return error_set(r->err, STATUS_UNSUPPORTED, "%s: architectures names %s; tally runs causal language models",
                         r->path, show_name(str_from(arch)).text);
    }
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(type, families[i].type) != 0) continue;
        r->c->family = families[i].family;
        snprintf(r->c->arch, sizeof r->c->arch, "%s", type);
        return STATUS_OK;
    }
    return error_set(r->err, STATUS_UNSUPPORTED,
                     "%s: model_type \"%s\" is not supported; tally runs llama, qwen2, qwen3 and "
                     "qwen3_moe",
                     r->path, show_name(str_from(type)).text);
}

static status read_heads(reader *r) {
    model_config *c = r->c;
    bool found;
    TRY(need_count(r, "num_attention_heads", MAX_HEADS, &c->n_heads));
    c->n_kv_heads = c->n_heads; // null, and absent in old llama files
    TRY(get_count(r, "num_key_value_heads", MAX_HEADS, &c->n_kv_heads, &found));
    if (!found && c->family != FAMILY_LLAMA && !json_object_get(r->root, "num_key_value_heads")) {
        return error_set(r->err, STATUS_BAD_FILE, "%s: num_key_value_heads is missing", r->path);
    }
    TRY(get_count(r, "head_dim", MAX_WIDTH, &c->head_dim, &found));
    if (found) return STATUS_OK;
    if (c->family == FAMILY_QWEN3 && !json_object_get(r->root, "head_dim")) {
        c->head_dim = 128; // the one class whose default is a number
        return STATUS_OK;
    }
    if (c->dim % c->n_heads) {
        return error_set(r->err, STATUS_BAD_FILE,
                         "%s: hidden_size %d is no multiple of num_attention_heads %d and there is no "
                         "head_dim",
                         r->path, c->dim, c->n_heads);
    }
    c->head_dim = c->dim / c->n_heads;
    return STATUS_OK;
}

// Dual chunk attention (Qwen2.5-1M) is plain attention up to the length the model was trained with, and tally stops there.
static status read_dual_chunks(reader *r) {
    static const char field[] = "dual_chunk_attention_config";
    const json_t *v = json_object_get(r->root, field);
    if (!v || is_neutral(v, 0)) return STATUS_OK;
    int64_t n = 0;
    bool found = false;
    if (json_is_object(v))
        TRY(json_get_int(v, r->path, "original_max_position_embeddings", 1, INT32_MAX, &n, &found, r->err));
    if (!found) return refuse(r, field, v);
    if (n < r->c->context_length) r->c->context_length = (int)n;
    return STATUS_OK;
}

static status read_sizes(reader *r) {
    model_config *c = r->c;
    bool found;
    double eps = 1e-6;
    TRY(need_count(r, "num_hidden_layers", MAX_LAYERS, &c->n_layers));
    TRY(need_count(r, "hidden_size", MAX_WIDTH, &c->dim));
    TRY(need_count(r, "vocab_size", INT32_MAX, &c->n_vocab));
    TRY(get_count(r, "intermediate_size", MAX_WIDTH, &c->ffn_dim, &found));
    if (!found && c->family != FAMILY_QWEN3_MOE) {
        return error_set(r->err, STATUS_BAD_FILE, "%s: intermediate_size is missing", r->path);
    }
    c->context_length = c->family == FAMILY_LLAMA ? 2048 : 32768;
    TRY(get_count(r, "max_position_embeddings", INT32_MAX, &c->context_length, &found));
    TRY(json_get_number(r->root, r->path, "rms_norm_eps", &eps, &found, r->err));
    c->rms_eps = (float)eps;
    return read_heads(r);
}

static status read_flags(reader *r) {
    model_config *c = r->c;
    c->qk_norm = c->family == FAMILY_QWEN3 || c->family == FAMILY_QWEN3_MOE;
    if (c->family == FAMILY_QWEN2) {
        c->qkv_bias = true; // fixed in that class, which reads no attention_bias
    } else {
        TRY(get_flag(r, "attention_bias", &c->qkv_bias));
        c->attn_out_bias = c->qkv_bias;
    }
    if (c->family == FAMILY_LLAMA) TRY(get_flag(r, "mlp_bias", &c->mlp_bias));
    return json_get_bool(r->root, r->path, "tie_word_embeddings", &c->tied_head, &c->tied_head_given, r->err);
}

// A dense family's file that speaks of experts is no model of that family.
static status refuse_experts(reader *r) {
    static const char *const fields[] = {"num_experts", "num_local_experts", "n_routed_experts"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_t *v = json_object_get(r->root, fields[i]);
        if (v && !is_neutral(v, 0)) return refuse(r, fields[i], v);
    }
    return STATUS_OK;
}

// Mixture of experts: layer i has experts unless mlp_only_layers lists it or (i + 1) is no multiple of decoder_sparse_step.
static status read_experts(reader *r) {
    model_config *c = r->c;
    if (c->family != FAMILY_QWEN3_MOE) return refuse_experts(r);
    int64_t n = 0;
    bool found, local;
    int step = 1, n_local = 0;
    TRY(json_get_int(r->root, r->path, "num_experts", 0, MAX_EXPERTS, &n, &found, r->err));
    c->n_experts = (int)n;
    n = c->n_experts;
    TRY(json_get_int(r->root, r->path, "num_local_experts", 0, MAX_EXPERTS, &n, &local, r->err));
    n_local = (int)n;
    if (!found && !local) return error_set(r->err, STATUS_BAD_FILE, "%s: num_experts is missing", r->path);
    if (found && local && c->n_experts != n_local) {
        return error_set(r->err, STATUS_BAD_FILE, "%s: num_experts is %d but num_local_experts is %d", r->path,
                         c->n_experts, n_local);
    }
    c->n_experts = n_local;
    TRY(need_count(r, "num_experts_per_tok", MAX_EXPERTS, &c->n_experts_used));
    if (c->n_experts == 0) c->n_experts_used = 0; // a dense model under this name
    TRY(need_count(r, "moe_intermediate_size", MAX_WIDTH, &c->expert_ffn_dim));
    TRY(get_flag(r, "norm_topk_prob", &c->norm_topk_prob));
    TRY(get_count(r, "decoder_sparse_step", INT32_MAX, &step, &found));
    for (int i = 0; i < c->n_layers; i++) c->layer_is_moe[i] = c->n_experts > 0 && (i + 1) % step == 0;
    const json_t *dense = json_object_get(r->root, "mlp_only_layers");
    if (dense && !json_is_null(dense) && !json_is_array(dense)) {
        return error_set(r->err, STATUS_BAD_FILE, "%s: mlp_only_layers is %s, expected an array", r->path,
                         json_kind(dense));
    }
    for (size_t i = 0; i < json_array_size(dense); i++) {
        const json_t *v = json_array_get(dense, i);
        int64_t layer = json_integer_value(v);
        if (!json_is_integer(v) || layer < 0 || layer >= c->n_layers) {
            return error_set(r->err, STATUS_BAD_FILE, "%s: mlp_only_layers[%zu] is no layer of 0 to %d", r->path, i,
                             c->n_layers - 1);
        }
        c->layer_is_moe[layer] = false;
    }
    return STATUS_OK;
}

// Rotary embedding.

typedef struct rope_reader {
    reader *r;
    const json_t *fields;  // rope_scaling or rope_parameters; NULL: the file has neither
    const char *dict_name; // which of them
} rope_reader;

static status rope_number(rope_reader *p, const char *field, double *out, bool *found) {
    char where[512];
    *found = false;
    if (!p->fields) return STATUS_OK;
    snprintf(where, sizeof where, "%s: %s", p->r->path, p->dict_name);
    return json_get_number(p->fields, where, field, out, found, p->r->err);
}

static status rope_need(rope_reader *p, const char *field, double *out) {
    bool found;
    TRY(rope_number(p, field, out, &found));
    if (found) return STATUS_OK;
    return error_set(p->r->err, STATUS_BAD_FILE, "%s: %s.%s is missing", p->r->path, p->dict_name, field);
}

// The object that holds the rope settings: a non-empty rope_scaling replaces rope_parameters as a whole.
static status find_rope_fields(rope_reader *p) {
    static const char *const names[] = {"rope_scaling", "rope_parameters"};
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = json_object_get(p->r->root, names[i]);
        if (!v || json_is_null(v)) continue;
        if (!json_is_object(v)) {
            return error_set(p->r->err, STATUS_BAD_FILE, "%s: %s is %s, expected an object", p->r->path, names[i],
                             json_kind(v));
        }
        if (json_object_size(v) == 0) continue;
        const json_t *nested = json_object_get(v, "full_attention"); // one set of settings per layer type
        p->fields = json_is_object(nested) ? nested : v;
        p->dict_name = names[i];
        return STATUS_OK;
    }
    return STATUS_OK;
}

// A field of the chosen object, else of the top level.
static status rope_or_top(rope_reader *p, const char *field, double *out, bool *found) {
    TRY(rope_number(p, field, out, found));
    if (*found) return STATUS_OK;
    return json_get_number(p->r->root, p->r->path, field, out, found, p->r->err);
}

// llama3 and yarn: the top level's word counts first, as in transformers.
static status read_original_context(rope_reader *p, bool *found) {
    double *out = &p->r->c->rope.original_context;
    TRY(json_get_number(p->r->root, p->r->path, "original_max_position_embeddings", out, found, p->r->err));
    return *found ? STATUS_OK : rope_number(p, "original_max_position_embeddings", out, found);
}

static status read_llama3(rope_reader *p) {
    rope_config *rope = &p->r->c->rope;
    bool found;
    rope->scaling = ROPE_LLAMA3;
    TRY(rope_need(p, "factor", &rope->factor));
    TRY(rope_need(p, "low_freq_factor", &rope->low_freq_factor));
    TRY(rope_need(p, "high_freq_factor", &rope->high_freq_factor));
    TRY(read_original_context(p, &found));
    return found ? STATUS_OK : rope_need(p, "original_max_position_embeddings", &rope->original_context);
}

static status read_yarn(rope_reader *p) {
    rope_config *rope = &p->r->c->rope;
    double mscale = 0, mscale_all_dim = 0;
    bool found, original;
    rope->scaling = ROPE_YARN;
    rope->original_context = p->r->c->context_length;
    TRY(read_original_context(p, &original));
    TRY(rope_number(p, "factor", &rope->factor, &found));
    if (!found) rope->factor = p->r->c->context_length / rope->original_context;
    if (original && found) config_yarn_context(p->r->c);
    TRY(rope_number(p, "beta_fast", &rope->beta_fast, &found));
    TRY(rope_number(p, "beta_slow", &rope->beta_slow, &found));
    if (rope->beta_fast == 0) rope->beta_fast = 32;
    if (rope->beta_slow == 0) rope->beta_slow = 1;
    TRY(json_get_bool(p->fields, p->r->path, "truncate", &rope->truncate, &found, p->r->err));
    TRY(rope_number(p, "mscale", &mscale, &found));
    TRY(rope_number(p, "mscale_all_dim", &mscale_all_dim, &found));
    TRY(rope_number(p, "attention_factor", &rope->attention_factor, &found));
    if (found) return STATUS_OK;
    rope->attention_factor = config_yarn_attention_factor(rope->factor, 1);
    if (mscale != 0 && mscale_all_dim != 0) {
        rope->attention_factor = config_yarn_attention_factor(rope->factor, mscale) /
                                 config_yarn_attention_factor(rope->factor, mscale_all_dim);
    }
    return STATUS_OK;
}

static status read_rope_type(rope_reader *p) {
    const char *type = "default";
    bool found = false;
    if (p->fields) TRY(json_get_text(p->fields, p->r->path, "rope_type", &type, &found, p->r->err));
    if (p->fields && !found) TRY(json_get_text(p->fields, p->r->path, "type", &type, &found, p->r->err));
    if (strcmp(type, "default") == 0) return STATUS_OK;
    if (strcmp(type, "linear") == 0) {
        p->r->c->rope.scaling = ROPE_LINEAR;
        return rope_need(p, "factor", &p->r->c->rope.factor);
    }
    if (strcmp(type, "llama3") == 0) return read_llama3(p);
    if (strcmp(type, "yarn") == 0) return read_yarn(p);
    return error_set(p->r->err, STATUS_UNSUPPORTED,
                     "%s: %s.rope_type is \"%s\"; tally implements default, linear, llama3 and yarn", p->r->path,
                     p->dict_name, show_name(str_from(type)).text);
}

static status read_rope(reader *r) {
    rope_config *rope = &r->c->rope;
    rope_reader p = {.r = r};
    double partial = 1;
    bool found;
    *rope = (rope_config){.factor = 1, .attention_factor = 1, .dim = r->c->head_dim, .truncate = true};
    TRY(find_rope_fields(&p));
    TRY(rope_or_top(&p, "rope_theta", &rope->theta, &found));
    if (!found && r->c->family != FAMILY_LLAMA) {
        return error_set(r->err, STATUS_BAD_FILE,
                         "%s: rope_theta is missing (neither at the top nor in rope_parameters)", r->path);
    }
    if (!found) rope->theta = 10000;
    TRY(rope_or_top(&p, "partial_rotary_factor", &partial, &found));
    if (partial != 1) {
        return error_set(r->err, STATUS_UNSUPPORTED, "%s: partial_rotary_factor is %g, tally implements 1", r->path,
                         partial);
    }
    const json_t *sections = json_object_get(p.fields, "mrope_section");
    if (sections && !is_neutral(sections, 0)) return refuse(r, "mrope_section", sections);
    return read_rope_type(&p);
}

// Token ids and sampling.

// An id, a list of ids, or null.
static status read_stop_ids(reader *r, const json_t *root, const char *path) {
    const json_t *v = json_object_get(root, "eos_token_id");
    if (!v || json_is_null(v)) return STATUS_OK;
    bool list = json_is_array(v);
    for (size_t i = 0; i < (list ? json_array_size(v) : 1); i++) {
        const json_t *id = list ? json_array_get(v, i) : v;
        if (!json_is_integer(id)) {
            return error_set(r->err, STATUS_BAD_FILE, "%s: eos_token_id is %s, expected an integer or a list of them",
                             path, list ? "a list with something else" : json_kind(v));
        }
        TRY(config_add_stop_id(r->c, json_integer_value(id), path, r->err));
    }
    return STATUS_OK;
}

static status read_bos(reader *r, const json_t *root, const char *path) {
    int64_t id = -1;
    bool found;
    TRY(json_get_int(root, path, "bos_token_id", INT64_MIN, INT64_MAX, &id, &found, r->err));
    if (r->c->bos_id < 0 && id >= 0 && id < r->c->n_vocab) r->c->bos_id = (int32_t)id;
    return STATUS_OK;
}

static status get_float(reader *r, const hf_text *text, const json_t *root, const char *field, float *out, bool *has) {
    double x = 0;
    TRY(json_get_number(root, text->path, field, &x, has, r->err));
    *out = (float)x;
    return STATUS_OK;
}

static status read_generation(reader *r, const hf_text *text) {
    json_t *root;
    TRY(json_parse_object(&root, text->data, text->len, 0, text->path, r->err));
    sampling_defaults *s = &r->c->sampling;
    int64_t k = 0;
    bool found;
    status code = read_stop_ids(r, root, text->path);
    if (code == STATUS_OK) code = read_bos(r, root, text->path);
    if (code == STATUS_OK) code = get_float(r, text, root, "temperature", &s->temperature, &s->has_temperature);
    if (code == STATUS_OK) code = get_float(r, text, root, "top_p", &s->top_p, &s->has_top_p);
    if (code == STATUS_OK) code = get_float(r, text, root, "min_p", &s->min_p, &s->has_min_p);
    if (code == STATUS_OK) {
        code = get_float(r, text, root, "repetition_penalty", &s->repetition_penalty, &s->has_repetition_penalty);
    }
    if (code == STATUS_OK)
        code = json_get_int(root, text->path, "top_k", INT32_MIN, INT32_MAX, &k, &s->has_top_k, r->err);
    if (code == STATUS_OK) code = json_get_bool(root, text->path, "do_sample", &s->do_sample, &found, r->err);
    s->has_top_k &= k >= 0; // -1: off, as vLLM writes it
    s->top_k = (int)(k > 0 ? k : 0);
    json_decref(root);
    return code;
}

static status read_all(reader *r, const hf_text *generation) {
    TRY(read_family(r));
    TRY(read_sizes(r));
    TRY(read_flags(r));
    TRY(refuse_variants(r));
    TRY(read_layer_types(r));
    TRY(read_experts(r));
    TRY(read_rope(r));
    TRY(read_dual_chunks(r));
    TRY(read_stop_ids(r, r->root, r->path));
    TRY(read_bos(r, r->root, r->path));
    if (generation) TRY(read_generation(r, generation));
    return config_check(r->c, r->path, r->err);
}

status hf_read_config(model_config *out, const hf_text *config, const hf_text *generation, error *err) {
    *out = (model_config){.bos_id = -1};
    json_t *root;
    TRY(json_parse_object(&root, config->data, config->len, 0, config->path, err));
    reader r = {root, config->path, out, err};
    status code = read_all(&r, generation);
    json_decref(root);
    return code;
}
