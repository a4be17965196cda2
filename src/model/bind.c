#include "model/bind.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "model/rope.h"

typedef struct binder {
    model *m;
    const checkpoint *ck; // NULL: shapes only
    dtype plan_type;
    map used; // names of tensors that found their place
    error *err;
} binder;

static int64_t dim_value(const model_config *c, weight_dim d) {
    switch (d) {
    case DIM_ONE: return 1;
    case DIM_HIDDEN: return c->dim;
    case DIM_Q: return (int64_t)c->n_heads * c->head_dim;
    case DIM_KV: return (int64_t)c->n_kv_heads * c->head_dim;
    case DIM_HEAD: return c->head_dim;
    case DIM_FFN: return c->ffn_dim;
    case DIM_EXPERTS: return c->n_experts;
    case DIM_EXPERT_FFN: return c->expert_ffn_dim;
    case DIM_VOCAB: return c->n_vocab;
    case DIM_HEAD_ROWS: return c->head_rows ? c->head_rows : c->n_vocab;
    }
    return 0;
}

static bool applies(const model_config *c, weight_when when, int layer) {
    bool moe = layer >= 0 && c->layer_is_moe[layer];
    switch (when) {
    case ALWAYS: return true;
    case IF_QKV_BIAS: return c->qkv_bias;
    case IF_OUT_BIAS: return c->attn_out_bias;
    case IF_DENSE: return !moe;
    case IF_DENSE_BIAS: return !moe && c->mlp_bias;
    case IF_MOE: return moe;
    }
    return false;
}

// "[3, 4]" into a caller's buffer.
static const char *shape_text(char *buf, size_t size, const int64_t *dim, int n) {
    size_t at = (size_t)snprintf(buf, size, "[");
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s%lld", i ? ", " : "", (long long)dim[i]);
    if (at < size) snprintf(buf + at, size - at, "]");
    return buf;
}

static status no_memory(const binder *b) {
    return error_set(b->err, STATUS_NO_MEMORY, "out of memory while binding weights");
}

// A tensor of exactly this shape; *out is NULL when it is absent and `must` is false.
static status find(binder *b, const char *name, const int64_t *dim, int n_dims, bool must,
                   const checkpoint_tensor **out) {
    const checkpoint_tensor *t = *out = checkpoint_find(b->ck, str_from(name));
    char want[96], have[96];
    shape_text(want, sizeof want, dim, n_dims);
    if (!t) {
        if (!must) return STATUS_OK;
        return error_set(b->err, STATUS_BAD_FILE,
                         "tensor '%s' (shape %s) is missing: the checkpoint is incomplete, or not a %s model", name,
                         want, b->m->config.arch);
    }
    bool same = t->n_dims == n_dims;
    for (int i = 0; same && i < n_dims; i++) same = t->dim[i] == dim[i];
    if (!same) {
        return error_set(b->err, STATUS_BAD_FILE, "tensor '%s' has shape %s, expected %s by the configuration", name,
                         shape_text(have, sizeof have, t->dim, t->n_dims), want);
    }
    if (!dtype_get(t->type)->to_f32) {
        return error_set(b->err, STATUS_UNSUPPORTED, "tensor '%s' is stored as %s, which is no weight type", name,
                         dtype_get(t->type)->name);
    }
    return map_put(&b->used, t->name, 1) ? STATUS_OK : no_memory(b);
}

static status add(binder *b, const weight *w, int *id) {
    *id = weight_add(&b->m->weights, w);
    return *id < 0 ? no_memory(b) : STATUS_OK;
}

// What converters to GGUF store where the wanted type does not fit: vectors and routers as F32; a matrix whose rows are no multiple
// of the type's block in a type of smaller blocks.
static dtype planned_type(dtype wanted, const weight *w) {
    static const dtype smaller[DTYPE_COUNT] = {
        [DTYPE_Q2_K] = DTYPE_IQ4_NL, [DTYPE_Q3_K] = DTYPE_IQ4_NL, [DTYPE_IQ4_XS] = DTYPE_IQ4_NL,
        [DTYPE_Q4_K] = DTYPE_Q5_0,   [DTYPE_Q5_K] = DTYPE_Q5_1,   [DTYPE_Q6_K] = DTYPE_Q8_0};
    if (!dtype_is_block(wanted)) return wanted;
    if (w->role == WEIGHT_VECTOR || w->role == WEIGHT_ROUTER) return DTYPE_F32;
    if (w->k % dtype_get(wanted)->block_elems == 0) return wanted;
    return w->k % 32 == 0 ? smaller[wanted] : DTYPE_F16;
}

// One part with room for n data pointers.
static status set_part(binder *b, weight *w, int64_t n_data, const void ***data) {
    *data = arena_calloc(&b->m->memory, (size_t)n_data, sizeof **data);
    if (!*data) return no_memory(b);
    w->part[w->n_parts++] = (weight_part){.type = planned_type(b->plan_type, w), .n_rows = w->n, .data = *data};
    return STATUS_OK;
}

static status bind_plain(binder *b, const weight_rule *r, const char *name, weight *w) {
    const void **data;
    TRY(set_part(b, w, 1, &data));
    if (!b->ck) return STATUS_OK;
    const checkpoint_tensor *t;
    int64_t dim[2] = {w->n, w->k};
    TRY(find(b, name, dim, r->role == WEIGHT_VECTOR ? 1 : 2, true, &t));
    data[0] = t->data;
    w->part[0].type = t->type;
    return STATUS_OK;
}

static const void *expert_data(const checkpoint_tensor *t, int64_t e, int64_t first_row) {
    int64_t row = dtype_row_bytes(t->type, t->dim[2]);
    return (const char *)t->data + (e * t->dim[1] + first_row) * row;
}

// Experts packed in one tensor: GGUF's [E, n, k], or Hugging Face's `gate_up_proj` [E, 2n, k] / `down_proj` [E, n, k].
static status bind_packed_experts(binder *b, const weight_rule *r, int layer, weight *w, const void **data,
                                  bool *done) {
    const checkpoint_tensor *t;
    char name[160];
    snprintf(name, sizeof name, r->pattern, layer);
    int64_t dim[3] = {w->n_experts, w->n, w->k};
    TRY(find(b, name, dim, 3, false, &t));
    int64_t first = 0;
    if (!t) {
        bool down = r->field == W_EXPERT_DOWN;
        snprintf(name, sizeof name, "model.layers.%d.mlp.experts.%s", layer, down ? "down_proj" : "gate_up_proj");
        if (!down) dim[1] *= 2, first = r->field == W_EXPERT_UP ? w->n : 0;
        TRY(find(b, name, dim, 3, false, &t));
    }
    *done = t != NULL;
    if (!t) return STATUS_OK;
    w->part[0].type = t->type;
    for (int64_t e = 0; e < w->n_experts; e++) data[e] = expert_data(t, e, first);
    return STATUS_OK;
}

static status bind_experts(binder *b, const weight_rule *r, int layer, weight *w) {
    const void **data;
    w->n_experts = b->m->config.n_experts;
    TRY(set_part(b, w, w->n_experts, &data));
    if (!b->ck) return STATUS_OK;
    bool done;
    TRY(bind_packed_experts(b, r, layer, w, data, &done));
    if (done) return STATUS_OK;
    for (int e = 0; e < (int)w->n_experts; e++) {
        char name[160];
        const checkpoint_tensor *t;
        int64_t dim[2] = {w->n, w->k};
        snprintf(name, sizeof name, r->expert, layer, e);
        TRY(find(b, name, dim, 2, true, &t));
        if (e == 0) w->part[0].type = t->type;
        if (t->type != w->part[0].type) {
            return error_set(
                b->err, STATUS_UNSUPPORTED,
                "tensor '%s' is %s but expert 0 of the same layer is %s: experts of one layer must share a type", name,
                dtype_get(t->type)->name, dtype_get(w->part[0].type)->name);
        }
        data[e] = t->data;
    }
    return STATUS_OK;
}

static status bind_rule(binder *b, const weight_rule *r, int layer, int *id) {
    const model_config *c = &b->m->config;
    weight w = {.label = r->label,
                .layer = layer,
                .role = r->role,
                .split = r->split,
                .n_experts = 1,
                .n = dim_value(c, r->n),
                .k = dim_value(c, r->k)};
    if (r->role == WEIGHT_EXPERTS) {
        TRY(bind_experts(b, r, layer, &w));
    } else {
        char name[160];
        snprintf(name, sizeof name, r->pattern, layer);
        TRY(bind_plain(b, r, name, &w));
    }
    return add(b, &w, id);
}

// Embedding, final norm, head. A head that is absent is the embedding; one that is present counts unless the file says "tied".
static status bind_top(binder *b, layer_weights *top) {
    static const weight_rule embed = {
        W_EMBED, "token_embd", "model.embed_tokens.weight", 0, WEIGHT_EMBED, SPLIT_NONE, DIM_VOCAB, DIM_HIDDEN, ALWAYS};
    static const weight_rule norm = {
        W_FINAL_NORM, "output_norm", "model.norm.weight", 0, WEIGHT_VECTOR, SPLIT_NONE, DIM_HIDDEN, DIM_ONE, ALWAYS};
    static const weight_rule head = {W_HEAD,    "output",      "lm_head.weight", 0,     WEIGHT_LINEAR,
                                     SPLIT_OUT, DIM_HEAD_ROWS, DIM_HIDDEN,       ALWAYS};
    model_config *c = &b->m->config;
    bool tied = c->tied_head;
    if (b->ck) {
        bool present = checkpoint_find(b->ck, str_from(head.pattern)) != NULL;
        tied = !present || (c->tied_head_given && c->tied_head);
    }
    c->tied_head = tied;
    TRY(bind_rule(b, &embed, -1, &top->id[W_EMBED]));
    TRY(bind_rule(b, &norm, -1, &top->id[W_FINAL_NORM]));
    if (!tied) return bind_rule(b, &head, -1, &top->id[W_HEAD]);
    weight *table = &b->m->weights.w[top->id[W_EMBED]];
    table->role = WEIGHT_LINEAR;
    top->id[W_HEAD] = top->id[W_EMBED];
    if (!c->head_rows) return STATUS_OK;
    weight share = *table; // rows of the table, which every rank holds whole
    share.label = head.label;
    share.split = SPLIT_OUT;
    share.n = share.part[0].n_rows = c->head_rows;
    share.absorbed = true;
    return add(b, &share, &top->id[W_HEAD]);
}

// The frequency table is a weight that the model computes; GGUF files of Llama 3 bring divisors for it.
static status bind_rope(binder *b, layer_weights *top) {
    const rope_config *rope = &b->m->config.rope;
    int n = rope->dim / 2;
    float *freq = arena_calloc(&b->m->memory, (size_t)n, sizeof *freq), *divisors = NULL;
    if (!freq) return no_memory(b);
    const checkpoint_tensor *t = b->ck ? checkpoint_find(b->ck, STR("rope_freqs.weight")) : NULL;
    if (t) {
        int64_t dim[1] = {n};
        TRY(find(b, "rope_freqs.weight", dim, 1, true, &t));
        divisors = arena_calloc(&b->m->memory, (size_t)n, sizeof *divisors);
        if (!divisors) return no_memory(b);
        dtype_get(t->type)->to_f32(divisors, t->data, n);
        for (int i = 0; i < n; i++) {
            if (!(divisors[i] > 0)) {
                return error_set(b->err, STATUS_BAD_FILE,
                                 "tensor 'rope_freqs.weight': divisor %d is %g, it must be positive", i,
                                 (double)divisors[i]);
            }
        }
    }
    rope_frequencies(rope, divisors, freq);
    weight w = {.label = "rope_freqs", .layer = -1, .role = WEIGHT_VECTOR, .n_experts = 1, .n = n, .k = 1};
    const void **data;
    TRY(set_part(b, &w, 1, &data));
    data[0] = freq;
    w.part[0].type = DTYPE_F32;
    return add(b, &w, &top->id[W_INV_FREQ]);
}

// A tensor of a layer that no rule asked for would change the mathematics if it mattered, so it is refused rather than ignored.
static status refuse_surplus(binder *b) {
    for (int i = 0; b->ck && i < checkpoint_n_tensors(b->ck); i++) {
        const checkpoint_tensor *t = checkpoint_tensor_at(b->ck, i);
        if (map_get(&b->used, t->name, NULL) || !str_starts(t->name, STR("model.layers."))) continue;
        if (str_ends(t->name, STR("rotary_emb.inv_freq"))) continue; // a buffer that old checkpoints carry; recomputed
        long layer = strtol(t->name.data + strlen("model.layers."), NULL, 10);
        if (layer >= b->m->config.n_layers) {
            return error_set(b->err, STATUS_BAD_FILE,
                             "tensor '%.*s' belongs to layer %ld, but the configuration says %d layers",
                             STR_ARG(t->name), layer, b->m->config.n_layers);
        }
        return error_set(b->err, STATUS_UNSUPPORTED, "tensor '%.*s' has no place in a %s model with this configuration",
                         STR_ARG(t->name), b->m->config.arch);
    }
    return STATUS_OK;
}

static status bind_all(binder *b, const family *f, bound_weights *out) {
    const model_config *c = &b->m->config;
    out->layers = arena_calloc(&b->m->memory, (size_t)c->n_layers, sizeof *out->layers);
    if (!out->layers) return no_memory(b);
    for (int i = 0; i < W_FIELD_COUNT; i++) out->top.id[i] = -1;
    TRY(bind_top(b, &out->top));
    TRY(bind_rope(b, &out->top));
    for (int layer = 0; layer < c->n_layers; layer++) {
        int *id = out->layers[layer].id;
        for (int i = 0; i < W_FIELD_COUNT; i++) id[i] = -1;
        for (int i = 0; i < f->n_rules; i++) {
            const weight_rule *r = &f->rules[i];
            if (applies(c, r->when, layer)) TRY(bind_rule(b, r, layer, &id[r->field]));
        }
    }
    return refuse_surplus(b);
}

status bind_weights(model *m, const family *f, const checkpoint *ck, dtype plan_type, bound_weights *out, error *err) {
    binder b = {.m = m, .ck = ck, .plan_type = plan_type, .err = err};
    status s = bind_all(&b, f, out);
    map_deinit(&b.used);
    return s;
}

int bind_pieces(const model *m) {
    int pieces = 16;
    for (int i = 0; i < m->weights.n; i++) {
        const weight *w = &m->weights.w[i];
        if (w->split != SPLIT_REDUCED) continue;
        int64_t unit = dtype_get(w->part[0].type)->block_elems;
        if (unit < 16) unit = 16; // plain types: whole vectors
        bool heads = strcmp(w->label, "attn_o") == 0;
        while (pieces > 1 && (w->k % (pieces * unit) != 0 || (heads && m->config.n_heads % pieces != 0))) pieces /= 2;
    }
    return pieces;
}
