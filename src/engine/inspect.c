// tally_inspect: everything known of a model before its weights are loaded, as JSON.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/engine.h"

static const char *scaling_name(rope_scaling s) {
    static const char *const names[] = {
        [ROPE_DEFAULT] = "default", [ROPE_LINEAR] = "linear", [ROPE_LLAMA3] = "llama3", [ROPE_YARN] = "yarn"};
    return names[s];
}

static json_t *rope_json(const rope_config *r) {
    json_t *o = json_pack("{s:s, s:f, s:i, s:s}", "scaling", scaling_name(r->scaling), "theta", r->theta, "dim", r->dim,
                          "pairs", r->interleaved ? "interleaved" : "halves");
    if (r->scaling != ROPE_DEFAULT) json_object_set_new(o, "factor", json_real(r->factor));
    if (r->scaling == ROPE_LLAMA3 || r->scaling == ROPE_YARN)
        json_object_set_new(o, "original_context", json_real(r->original_context));
    if (r->scaling == ROPE_YARN) json_object_set_new(o, "attention_factor", json_real(r->attention_factor));
    return o;
}

static json_t *config_json(const model_config *c) {
    int n_moe = 0;
    for (int i = 0; i < c->n_layers; i++) n_moe += c->layer_is_moe[i];
    json_t *o = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:i}", "arch", c->arch, "n_vocab", c->n_vocab,
                          "dim", c->dim, "n_layers", c->n_layers, "n_heads", c->n_heads, "n_kv_heads", c->n_kv_heads,
                          "head_dim", c->head_dim, "ffn_dim", c->ffn_dim, "rms_eps", (double)c->rms_eps,
                          "context_length", c->context_length);
    json_object_set_new(o, "qkv_bias", json_boolean(c->qkv_bias));
    json_object_set_new(o, "qk_norm", json_boolean(c->qk_norm));
    json_object_set_new(o, "tied_head", json_boolean(c->tied_head));
    json_object_set_new(o, "rope", rope_json(&c->rope));
    if (n_moe) {
        json_object_set_new(o, "moe",
                            json_pack("{s:i, s:i, s:i, s:i, s:b}", "n_layers", n_moe, "n_experts", c->n_experts,
                                      "n_experts_used", c->n_experts_used, "expert_ffn_dim", c->expert_ffn_dim,
                                      "norm_topk_prob", (int)c->norm_topk_prob));
    }
    return o;
}

static json_t *tensors_json(const checkpoint *ck) {
    json_t *list = json_array();
    for (int i = 0; i < checkpoint_n_tensors(ck); i++) {
        const checkpoint_tensor *t = checkpoint_tensor_at(ck, i);
        json_t *shape = json_array();
        for (int d = 0; d < t->n_dims; d++) json_array_append_new(shape, json_integer(t->dim[d]));
        json_array_append_new(list,
                              json_pack("{s:s%, s:s, s:o, s:I}", "name", t->name.data, t->name.len, "type",
                                        dtype_get(t->type)->name, "shape", shape, "bytes", (json_int_t)t->n_bytes));
    }
    return list;
}

static json_t *stop_ids_json(const tally_model *m) {
    json_t *list = json_array();
    for (int i = 0; i < m->config.n_stop_ids; i++) {
        json_t *o = json_pack("{s:i}", "id", m->config.stop_ids[i]);
        str text = m->tok ? tokenizer_bytes(m->tok, m->config.stop_ids[i]) : (str){0};
        if (text.len) json_object_set_new(o, "text", json_stringn(text.data, text.len));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *memory_json(const engine_plan *p) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:i, s:I, s:s, s:s}", "weights", (json_int_t)p->memory.weights, "cache",
                     (json_int_t)p->memory.cache, "workspace", (json_int_t)p->memory.workspace, "drafting",
                     (json_int_t)p->memory.drafting, "available", (json_int_t)p->memory.available, "context",
                     p->limits.max_context, "bytes_per_position",
                     (json_int_t)(p->device->vt->block_bytes(p->device, &p->model.cache) / KV_BLOCK), "cache_k",
                     dtype_get(p->model.cache.k_type)->name, "cache_v", dtype_get(p->model.cache.v_type)->name);
}

// Weights of one type that are kept in one way.
typedef struct layout_sum {
    dtype type;
    const char *layout;
    int64_t n, file_bytes, bytes;
} layout_sum;

static layout_sum *sum_of(layout_sum *sums, int *n, dtype type, const char *layout) {
    for (int i = 0; i < *n; i++) {
        if (sums[i].type == type && strcmp(sums[i].layout, layout) == 0) return &sums[i];
    }
    sums[*n] = (layout_sum){.type = type, .layout = layout};
    return &sums[(*n)++];
}

// A merged weight may hold several types: its parts are counted as weights of their own.
static json_t *layouts_json(const engine_plan *p) {
    enum { MOST = 4 * DTYPE_COUNT }; // no backend keeps a type in more ways
    layout_sum sums[MOST];
    int n = 0;
    for (int i = 0; i < p->model.weights.n; i++) {
        const weight *w = &p->model.weights.w[i];
        for (int part = 0; part < w->n_parts && !w->absorbed && n < MOST; part++) {
            weight one = *w;
            one.part[0] = w->part[part], one.n_parts = 1, one.n = w->part[part].n_rows;
            const backend_vtable *vt = p->device->vt;
            layout_sum *s = sum_of(sums, &n, one.part[0].type,
                                   vt->weight_layout ? vt->weight_layout(p->device, &one) : "as in the file");
            s->n++;
            s->file_bytes += weight_file_bytes(&one);
            s->bytes += vt->weight_bytes(p->device, &one);
        }
    }
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:I}", "type", dtype_get(sums[i].type)->name,
                                              "layout", sums[i].layout, "n", (json_int_t)sums[i].n, "file_bytes",
                                              (json_int_t)sums[i].file_bytes, "bytes", (json_int_t)sums[i].bytes));
    }
    return list;
}

static status build(const tally_model *m, const engine_plan *p, char **out, error *err) {
    json_t *o = json_pack("{s:o, s:s, s:I, s:i}", "path", json_text(checkpoint_path(m->ck)), "format",
                          checkpoint_gguf(m->ck) ? "gguf" : "safetensors", "n_params", (json_int_t)p->model.n_params,
                          "tp_exact_pieces", p->model.n_pieces);
    json_object_set_new(o, "config", config_json(&p->model.config));
    json_object_set_new(o, "stop_ids", stop_ids_json(m));
    json_object_set_new(o, "tokenizer", m->tok ? json_integer(tokenizer_n_tokens(m->tok)) : json_null());
    json_object_set_new(o, "chat_template", json_boolean(m->chat != NULL));
    json_object_set_new(o, "memory", memory_json(p));
    json_object_set_new(o, "layouts", layouts_json(p));
    json_object_set_new(o, "tensors", tensors_json(m->ck));
    *out = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    json_decref(o);
    return *out ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "out of memory while describing the model");
}

tally_status tally_inspect(const tally_model *m, const tally_engine_options *options, char **json,
                           tally_error *user_err) {
    static const tally_engine_options defaults = {0};
    engine_plan p;
    status s = engine_plan_init(&p, m, options ? options : &defaults, (error *)user_err);
    if (!s) s = build(m, &p, json, (error *)user_err);
    engine_plan_deinit(&p);
    return (tally_status)s;
}
