#include "model/family.h"

// h = norm(x); q, k, v = W h + b; q, k normed per head (Qwen3), rotated; x + W_o attention(q, cache). Nobody reads the rows behind the
// last layer's attention but those whose logits are wanted: with last_rows they alone go on.
tensor block_attention(const forward *f, tensor x) {
    op_list *g = f->g;
    const model_config *c = f->config;
    const int *w = f->w->id;
    tensor h = op_rms_norm(g, x, w[W_ATTN_NORM], c->rms_eps);
    tensor q = op_linear(g, h, w[W_Q], w[W_Q_BIAS], 1);
    tensor k = op_linear(g, h, w[W_K], w[W_K_BIAS], 1);
    tensor v = op_linear(g, h, w[W_V], w[W_V_BIAS], 1);
    q = tensor_heads(q, c->n_heads, c->head_dim);
    k = tensor_heads(k, c->n_kv_heads, c->head_dim);
    v = tensor_heads(v, c->n_kv_heads, c->head_dim);
    if (c->qk_norm) {
        q = op_rms_norm(g, q, w[W_Q_NORM], c->rms_eps);
        k = op_rms_norm(g, k, w[W_K_NORM], c->rms_eps);
    }
    q = op_rope(g, q, f->rope_table, c->rope.interleaved);
    k = op_rope(g, k, f->rope_table, c->rope.interleaved);
    op_kv_store(g, k, v);
    float scale = 1.0f / __builtin_sqrtf((float)c->head_dim);
    tensor a = op_attention(g, q, c->n_kv_heads, scale);
    if (f->last_rows && g->layer == c->n_layers - 1) x = op_gather_out_rows(g, x), a = op_gather_out_rows(g, a);
    return op_add(g, x, op_linear(g, a, w[W_O], w[W_O_BIAS], f->n_pieces));
}

// x + W_down (silu(W_gate h) * (W_up h)), h = norm(x).
tensor block_mlp(const forward *f, tensor x) {
    op_list *g = f->g;
    const int *w = f->w->id;
    tensor h = op_rms_norm(g, x, w[W_FFN_NORM], f->config->rms_eps);
    tensor gate = op_linear(g, h, w[W_GATE], w[W_GATE_BIAS], 1);
    tensor up = op_linear(g, h, w[W_UP], w[W_UP_BIAS], 1);
    tensor a = op_swiglu(g, gate, up);
    return op_add(g, x, op_linear(g, a, w[W_DOWN], w[W_DOWN_BIAS], f->n_pieces));
}

// x + sum over the chosen experts e of p_e * W_down_e (silu(W_gate_e h) * (W_up_e h)), h = norm(x).
// p = softmax over all experts' logits, of which the largest n_experts_used count, divided by their sum if norm_topk_prob.
tensor block_moe(const forward *f, tensor x) {
    op_list *g = f->g;
    const model_config *c = f->config;
    const int *w = f->w->id;
    tensor h = op_rms_norm(g, x, w[W_FFN_NORM], c->rms_eps);
    tensor ids, p;
    op_router_topk(g, op_linear(g, h, w[W_ROUTER], -1, 1), c->n_experts_used, c->norm_topk_prob, &ids, &p);
    tensor gate = op_expert_linear(g, h, ids, w[W_EXPERT_GATE], 1);
    tensor up = op_expert_linear(g, h, ids, w[W_EXPERT_UP], 1);
    tensor a = op_swiglu(g, gate, up);
    tensor o = op_expert_linear(g, a, ids, w[W_EXPERT_DOWN], f->n_pieces);
    return op_add(g, x, op_expert_combine(g, o, p));
}
