#include "model/model.h"

#include "model/bind.h"
#include "model/family.h"
#include "op/passes.h"

const family *family_get(model_family id) {
    switch (id) {
    case FAMILY_LLAMA: return &family_llama;
    case FAMILY_QWEN2: return &family_qwen2;
    case FAMILY_QWEN3: return &family_qwen3;
    case FAMILY_QWEN3_MOE: return &family_qwen3_moe;
    }
    return NULL;
}

// ids -> embedding -> layers -> norm of the wanted rows -> logits.
static void write_forward(model *m, const family *f, const layer_weights *top, const layer_weights *layers,
                          bool last_rows) {
    op_list *g = &m->list;
    const model_config *c = &m->config;
    float scale = c->rope.scaling == ROPE_YARN ? (float)c->rope.attention_factor : 1.0f;
    forward fw = {.g = g, .config = c, .n_pieces = m->n_pieces, .last_rows = last_rows};
    tensor x = op_embed(g, top->id[W_EMBED]);
    fw.rope_table = op_rope_table(g, top->id[W_INV_FREQ], scale);
    for (int layer = 0; layer < c->n_layers; layer++) {
        g->layer = layer;
        fw.w = &layers[layer];
        x = f->layer(&fw, x);
    }
    g->layer = -1;
    if (x.rows != ROWS_OUT) x = op_gather_out_rows(g, x);
    x = op_rms_norm(g, x, top->id[W_FINAL_NORM], c->rms_eps);
    g->logits = op_linear(g, x, top->id[W_HEAD], -1, 1);
}

status model_build(model *m, const model_config *config, const checkpoint *ck, dtype plan_type, unsigned passes,
                   error *err) {
    *m = (model){.config = *config};
    arena_init(&m->memory);
    m->weights.memory = &m->memory;
    const family *f = family_get(config->family);
    bound_weights bound;
    status s = bind_weights(m, f, ck, plan_type, &bound, err);
    if (s) return ck ? error_prefix(err, s, "%s", checkpoint_path(ck)) : s;
    m->n_pieces = bind_pieces(m);
    op_list_init(&m->list, &m->memory, &m->weights, err);
    write_forward(m, f, &bound.top, bound.layers, passes & PASS_LAST_ROWS);
    TRY(passes_run(&m->list, passes));
    m->cache = (cache_desc){.n_layers = config->n_layers,
                            .n_kv_heads = config->n_kv_heads,
                            .head_dim = config->head_dim,
                            .k_type = DTYPE_F16,
                            .v_type = DTYPE_F16};
    for (int i = 0; i < m->weights.n; i++) {
        const weight *w = &m->weights.w[i];
        if (!w->absorbed && i != bound.top.id[W_INV_FREQ]) m->n_params += w->n_experts * w->n * w->k;
    }
    return STATUS_OK;
}

void model_deinit(model *m) {
    arena_deinit(&m->memory);
    *m = (model){0};
}

bool model_is_f32(const model *m) {
    for (int i = 0; i < m->weights.n; i++) {
        const weight *w = &m->weights.w[i];
        if (w->role != WEIGHT_LINEAR && w->role != WEIGHT_EXPERTS) continue;
        for (int p = 0; p < w->n_parts; p++) {
            if (w->part[p].type != DTYPE_F32) return false;
        }
    }
    return true;
}

dtype model_layer_type(const model *m) {
    for (int i = 0; i < m->weights.n; i++) {
        const weight *w = &m->weights.w[i];
        if (w->layer >= 0 && (w->role == WEIGHT_LINEAR || w->role == WEIGHT_EXPERTS)) return w->part[0].type;
    }
    return DTYPE_BF16;
}
