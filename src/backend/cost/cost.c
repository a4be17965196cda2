#include "backend/cost/cost.h"

#include <math.h>

// What the formulas see.
typedef struct counted {
    const op *o;
    const weight_set *weights;
    const cache_desc *cache;
    const cost_step *step;
    op_cost *c; // filled by `count_tensors` before a formula refines it
} counted;

typedef void count_fn(const counted *x);

// ---- sizes ---------------------------------------------------------------------------------------------------------------

static double rows_of(const counted *x, const tensor *t) {
    if (t->rows == ROWS_BATCH) return x->step->n_rows;
    if (t->rows == ROWS_OUT) return x->step->n_out;
    return (double)t->dim[0];
}

static double numbers_of(const counted *x, const tensor *t) { return rows_of(x, t) * (double)tensor_row_len(t); }

static double bytes_of(const counted *x, const tensor *t) {
    return rows_of(x, t) * (double)dtype_row_bytes(t->type, tensor_row_len(t));
}

static const weight *weight_of(const counted *x, int input) { return &x->weights->w[x->o->in[input].id]; }

static flops_kind kind_of(dtype type) {
    if (dtype_is_block(type)) return FLOPS_INT8;
    if (type == DTYPE_F16) return FLOPS_F16;
    return type == DTYPE_BF16 ? FLOPS_BF16 : FLOPS_F32;
}

int64_t cost_position_bytes(const cache_desc *cache) {
    return cache->n_kv_heads *
           (dtype_row_bytes(cache->k_type, cache->head_dim) + dtype_row_bytes(cache->v_type, cache->head_dim));
}

// Every input read once, every result written once, weights whole.
static void count_tensors(const counted *x) {
    for (int i = 0; i < x->o->n_in; i++) {
        const tensor *t = &x->o->in[i];
        if (t->where == STORAGE_WEIGHT) x->c->weight_bytes += (double)weight_file_bytes(weight_of(x, i));
        if (t->where == STORAGE_TEMP || t->where == STORAGE_INPUT) x->c->activation_bytes += bytes_of(x, t);
    }
    for (int i = 0; i < x->o->n_out; i++) x->c->activation_bytes += bytes_of(x, &x->o->out[i]);
}

// ---- formulas ------------------------------------------------------------------------------------------------------------

static void per_number(const counted *x, const tensor *t, double flops) {
    x->c->flops[FLOPS_F32] += numbers_of(x, t) * flops;
}

static void count_embed(const counted *x) { // rows are looked up, not the table
    const weight *w = weight_of(x, 0);
    x->c->weight_bytes = rows_of(x, &x->o->out[0]) * (double)dtype_row_bytes(w->part[0].type, w->k);
}

static void count_router(const counted *x) { per_number(x, &x->o->in[0], 4); } // maximum, subtract, exp, sum

static void count_rope(const counted *x) { // a pair takes four multiplications and two additions
    double heads = rows_of(x, &x->o->in[0]) * (double)x->o->in[0].dim[1];
    x->c->flops[FLOPS_F32] += heads * x->o->args.rope.dim * 3;
}

// 2 n k for each row; by parts, because a merged projection may hold several types.
static void count_products(const counted *x, const weight *w, double rows) {
    for (int i = 0; i < w->n_parts; i++) {
        flops_kind kind = w->role == WEIGHT_ROUTER ? FLOPS_F32 : kind_of(w->part[i].type);
        x->c->flops[kind] += 2 * rows * (double)w->part[i].n_rows * (double)w->k;
    }
}

static void count_gate(const counted *x) {
    if (x->o->args.linear.gated) per_number(x, &x->o->out[0], opcode_flops(OP_SWIGLU));
}

static void count_linear(const counted *x) {
    const weight *w = weight_of(x, 1);
    const double rows = rows_of(x, &x->o->in[0]);
    count_products(x, w, rows);
    if (x->o->in[2].where == STORAGE_WEIGHT) x->c->flops[FLOPS_F32] += rows * (double)w->n;
    count_gate(x);
}

// Of E experts, rows that choose k each, independently and evenly, touch E (1 - (1 - k/E)^rows); a chosen expert is read once.
static void count_expert_linear(const counted *x) {
    const weight *w = weight_of(x, 1);
    double rows = rows_of(x, &x->o->in[0]), n = (double)w->n_experts, used = (double)x->o->in[2].dim[1];
    double touched = n * (1 - pow(1 - used / n, rows));
    x->c->weight_bytes = round((double)weight_file_bytes(w) / n * touched);
    count_products(x, w, rows * used);
    count_gate(x);
}

static void count_combine(const counted *x) { per_number(x, &x->o->in[0], 2); }

static void count_gather(const counted *x) { // reads the wanted rows alone
    x->c->activation_bytes = 2 * bytes_of(x, &x->o->out[0]) + bytes_of(x, &x->o->in[1]);
}

static void count_kv_store(const counted *x) {
    x->c->cache_bytes += x->step->n_rows * (double)cost_position_bytes(x->cache);
}

// For every position a row attends to and every head: 2 d for the score, 2 d for the values, 4 for the softmax (scale, maximum,
// exp, sum). A quantised cache is multiplied as F32.
static void count_attention(const counted *x) {
    double heads = x->step->pairs * (double)x->o->in[0].dim[1], d = (double)x->o->in[0].dim[2];
    flops_kind k = kind_of(x->cache->k_type), v = kind_of(x->cache->v_type);
    x->c->flops[k == FLOPS_INT8 ? FLOPS_F32 : k] += heads * 2 * d;
    x->c->flops[v == FLOPS_INT8 ? FLOPS_F32 : v] += heads * 2 * d;
    x->c->flops[FLOPS_F32] += heads * 4;
    x->c->cache_bytes += x->step->positions * (double)cost_position_bytes(x->cache);
}

// ---- between ranks -------------------------------------------------------------------------------------------------------

static double transfer_s(const hardware *h, double calls, double bytes) {
    return calls * (h->collective_s + h->link_latency_s) + bytes / h->link_bandwidth;
}

// A sum over a reduced dimension that is split moves every rank's F32 part, and each is added in the order of the one tree of
// docs/exactness.md: either all parts go to every rank, or each rank owns an n-th of the numbers, is sent the parts of it, adds them,
// and the sums are gathered. The head's outputs are gathered.
cost_exchange cost_exchange_of(const op *o, const weight_set *weights, double rows, const hardware *h) {
    cost_exchange e = {0};
    bool products = o->code == OP_LINEAR || o->code == OP_EXPERT_LINEAR;
    if (h->n_ranks <= 1 || !products) return e;
    weight_split split = weights->w[o->in[1].id].split;
    double n = h->n_ranks, whole = rows * (double)tensor_row_len(&o->out[0]) * 4;
    if (split == SPLIT_OUT && o->layer < 0) {
        e = (cost_exchange){1, (n - 1) * whole, n * whole, transfer_s(h, 1, (n - 1) * whole)};
    } else if (split == SPLIT_REDUCED) {
        cost_exchange owned = {2, 2 * whole * (n - 1) / n, 2 * whole, transfer_s(h, 2, 2 * whole * (n - 1) / n)};
        e = (cost_exchange){1, (n - 1) * whole, n * whole, transfer_s(h, 1, (n - 1) * whole)};
        if (owned.time_s < e.time_s) e = owned;
    }
    return e;
}

static void count_exchange(const counted *x, const hardware *h) {
    cost_exchange e = cost_exchange_of(x->o, x->weights, rows_of(x, &x->o->out[0]), h);
    x->c->collectives = e.calls;
    x->c->link_bytes = e.bytes;
    x->c->link_s = e.time_s;
}

// ---- the table -----------------------------------------------------------------------------------------------------------

// Operations whose line in OPCODE_LIST says FLOPS_BY_FORMULA, or whose bytes are not those of their tensors.
static count_fn *const formulas[OP_COUNT] = {
    [OP_EMBED] = count_embed,
    [OP_LINEAR] = count_linear,
    [OP_ROPE] = count_rope,
    [OP_KV_STORE] = count_kv_store,
    [OP_ATTENTION] = count_attention,
    [OP_ROUTER_TOPK] = count_router,
    [OP_EXPERT_LINEAR] = count_expert_linear,
    [OP_EXPERT_COMBINE] = count_combine,
    [OP_GATHER_ROWS] = count_gather,
};

bool cost_knows(opcode code) {
    return (unsigned)code < OP_COUNT && (formulas[code] || opcode_flops(code) != FLOPS_BY_FORMULA);
}

cost_step cost_step_of(const step_inputs *in) {
    cost_step s = {.n_rows = in->n_rows, .n_out = in->n_out};
    const int32_t *slot = in->slot ? in->slot : in->pos;
    for (int r = 0, most = -1; r < in->n_rows; r++) { // most: where the sequence's last key lies
        s.pairs += in->pos[r] + 1.0;
        if (slot[r] > most) most = slot[r];
        bool last = r + 1 == in->n_rows || in->seq[r + 1] != in->seq[r];
        if (!last) continue;
        s.positions += most + 1.0;
        most = -1;
    }
    return s;
}

static void count_time(op_cost *c, const hardware *h) {
    double compute = 0, memory = op_cost_bytes(c) / h->bandwidth;
    for (int i = 0; i < FLOPS_KINDS; i++) compute += c->flops[i] / h->flops[i];
    c->memory_s = memory >= compute ? memory : 0;
    c->compute_s = memory >= compute ? 0 : compute;
    c->launch_s = c->launches * h->launch_s;
}

op_cost cost_of_op(const op *o, const weight_set *weights, const cache_desc *cache, const cost_step *step,
                   const hardware *h) {
    op_cost c = {.launches = 1};
    counted x = {o, weights, cache, step, &c};
    count_tensors(&x);
    if (formulas[o->code]) {
        formulas[o->code](&x);
    } else {
        per_number(&x, &o->out[0], opcode_flops(o->code));
    }
    count_exchange(&x, h);
    count_time(&c, h);
    return c;
}
