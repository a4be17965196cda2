#include "op/op.h"

#include <string.h>

const char *opcode_name(opcode code) {
    static const char *const names[] = {
#define OPCODE_NAME(name, fn, flops, text) #name,
        OPCODE_LIST(OPCODE_NAME)
#undef OPCODE_NAME
    };
    return (unsigned)code < OP_COUNT ? names[code] : "?";
}

int opcode_flops(opcode code) {
    static const int flops[] = {
#define OPCODE_FLOPS(name, fn, per_number, text) per_number,
        OPCODE_LIST(OPCODE_FLOPS)
#undef OPCODE_FLOPS
    };
    return flops[code];
}

void op_list_init(op_list *g, arena *memory, weight_set *weights, error *err) {
    *g = (op_list){.memory = memory, .weights = weights, .layer = -1, .err = err};
}

static void list_no_memory(op_list *g) {
    if (!g->failed) g->failed = error_set(g->err, STATUS_NO_MEMORY, "out of memory while building the operation list");
}

// Doubles an array that lives in the arena; the old copy stays there until the arena goes.
static void *grow(op_list *g, void *old, int n, int *cap, size_t size) {
    if (n < *cap) return old;
    int bigger = *cap ? *cap * 2 : 256;
    void *p = arena_calloc(g->memory, (size_t)bigger, size);
    if (!p) return list_no_memory(g), NULL;
    if (n) memcpy(p, old, (size_t)n * size);
    *cap = bigger;
    return p;
}

static tensor new_temp(op_list *g, dtype type, rows_kind rows, int64_t width) {
    if (g->failed) return (tensor){0};
    op_temp *temps = grow(g, g->temps, g->n_temps, &g->cap_temps, sizeof *temps);
    if (!temps) return (tensor){0};
    g->temps = temps;
    temps[g->n_temps] = (op_temp){.type = type, .rows = rows, .width = width, .first = -1, .last = -1};
    return (tensor){.type = type,
                    .where = STORAGE_TEMP,
                    .id = g->n_temps++,
                    .rows = rows,
                    .n_dims = 2,
                    .dim = {0, width},
                    .stride = {width, 1}};
}

static tensor weight_tensor(const op_list *g, int id) {
    if (id < 0 || id >= g->weights->n) return (tensor){0};
    const weight *w = &g->weights->w[id];
    tensor t = {.type = w->part[0].type, .where = STORAGE_WEIGHT, .id = id, .rows = ROWS_FIXED};
    if (w->role == WEIGHT_VECTOR) {
        t.n_dims = 1, t.dim[0] = w->n, t.stride[0] = 1;
    } else if (w->role == WEIGHT_EXPERTS) {
        t.n_dims = 3, t.dim[0] = w->n_experts, t.dim[1] = w->n, t.dim[2] = w->k;
    } else {
        t.n_dims = 2, t.dim[0] = w->n, t.dim[1] = w->k;
    }
    return t;
}

static tensor input_tensor(step_input which, rows_kind rows) {
    return (tensor){
        .type = DTYPE_I32, .where = STORAGE_INPUT, .id = (int32_t)which, .rows = rows, .n_dims = 1, .stride = {1}};
}

// Checks a finished record and appends it.
static void append(op_list *g, op o) {
    if (g->failed) return;
    o.layer = g->layer;
    if (!o.label) o.label = opcode_name(o.code);
    status s = op_check(&o, g->weights, g->err);
    if (s) {
        g->failed = s;
        return;
    }
    op *ops = grow(g, g->ops, g->n_ops, &g->cap_ops, sizeof *ops);
    if (!ops) return;
    g->ops = ops;
    ops[g->n_ops++] = o;
}

static const char *weight_label(const op_list *g, int id) {
    return id >= 0 && id < g->weights->n ? g->weights->w[id].label : "?";
}

tensor tensor_columns(tensor t, int64_t first, int64_t n) {
    t.offset += first;
    t.dim[1] = n;
    return t;
}

tensor tensor_heads(tensor t, int64_t n_heads, int64_t head_dim) {
    t.n_dims = 3;
    t.dim[1] = n_heads, t.dim[2] = head_dim;
    t.stride[1] = head_dim, t.stride[2] = 1;
    return t;
}

// ---- rules and builders: each operation's rule stands above its builder ------------------------------------------------------

// Rules are small: what must be equal is compared, and the message says label, rule and both numbers.
static status fail(const op *o, error *err, const char *rule, int64_t found, int64_t expected) {
    return error_set(err, STATUS_INTERNAL, "operation %s (%s) of layer %d: %s is %lld, expected %lld", o->label,
                     opcode_name(o->code), o->layer, rule, (long long)found, (long long)expected);
}

#define EXPECT(rule, found, expected) \
    do { \
        int64_t f_ = (found), e_ = (expected); \
        if (f_ != e_) return fail(o, err, rule, f_, e_); \
    } while (0)

static status check_same_row(const op *o, const tensor *a, const tensor *b, error *err) {
    EXPECT("kind of rows", (int64_t)b->rows, (int64_t)a->rows);
    EXPECT("numbers of a row", tensor_row_len(b), tensor_row_len(a));
    return STATUS_OK;
}

tensor op_embed(op_list *g, int table) {
    tensor w = weight_tensor(g, table);
    tensor out = new_temp(g, DTYPE_F32, ROWS_BATCH, w.dim[1]);
    append(g, (op){.code = OP_EMBED,
                   .label = weight_label(g, table),
                   .n_in = 2,
                   .n_out = 1,
                   .in = {w, input_tensor(INPUT_TOKEN, ROWS_BATCH)},
                   .out = {out}});
    return out;
}

tensor op_add(op_list *g, tensor a, tensor b) {
    tensor out = new_temp(g, DTYPE_F32, a.rows, tensor_row_len(&a));
    append(g, (op){.code = OP_ADD, .n_in = 2, .n_out = 1, .in = {a, b}, .out = {out}});
    return out;
}

static status check_norm(const op *o, error *err) {
    const tensor *x = &o->in[0], *w = &o->in[o->n_in - 1];
    EXPECT("length of the norm's weight", w->dim[0], x->dim[x->n_dims - 1]);
    return check_same_row(o, x, &o->out[0], err);
}

tensor op_rms_norm(op_list *g, tensor x, int w, float eps) {
    tensor out = new_temp(g, DTYPE_F32, x.rows, tensor_row_len(&x));
    if (x.n_dims == 3) out = tensor_heads(out, x.dim[1], x.dim[2]);
    append(g, (op){.code = OP_RMS_NORM,
                   .label = weight_label(g, w),
                   .n_in = 2,
                   .n_out = 1,
                   .in = {x, weight_tensor(g, w)},
                   .out = {out},
                   .args.norm = {eps}});
    return out;
}

static status check_linear(const op *o, const weight_set *weights, error *err) {
    const tensor *x = &o->in[0], *w = &o->in[1], *bias = &o->in[2];
    EXPECT("storage of the weight", w->where, STORAGE_WEIGHT);
    const weight *entry = &weights->w[w->id];
    EXPECT("inputs of the weight", entry->k, x->dim[1]);
    EXPECT("outputs of the weight", entry->n, o->out[0].dim[1] * (o->args.linear.gated ? 2 : 1));
    if (bias->where != STORAGE_NONE) EXPECT("length of the bias", bias->dim[0], entry->n);
    EXPECT("remainder of inputs over pieces", entry->k % o->args.linear.pieces, 0);
    return STATUS_OK;
}

tensor op_linear(op_list *g, tensor x, int w, int bias, int pieces) {
    tensor wt = weight_tensor(g, w);
    tensor out = new_temp(g, DTYPE_F32, x.rows, wt.dim[0]);
    append(g, (op){.code = OP_LINEAR,
                   .label = weight_label(g, w),
                   .n_in = 3,
                   .n_out = 1,
                   .in = {x, wt, weight_tensor(g, bias)},
                   .out = {out},
                   .args.linear = {.pieces = pieces}});
    return out;
}

tensor op_rope_table(op_list *g, int inv_freq, float scale) {
    tensor w = weight_tensor(g, inv_freq);
    tensor out = new_temp(g, DTYPE_F32, ROWS_BATCH, 2 * w.dim[0]);
    append(g, (op){.code = OP_ROPE_TABLE,
                   .n_in = 2,
                   .n_out = 1,
                   .in = {w, input_tensor(INPUT_POS, ROWS_BATCH)},
                   .out = {out},
                   .args.rope = {.dim = (int)(2 * w.dim[0]), .scale = scale}});
    return out;
}

static status check_rope(const op *o, error *err) {
    const tensor *x = &o->in[0];
    EXPECT("dimensions of x", x->n_dims, 3);
    EXPECT("rotated numbers beyond the head", o->args.rope.dim > x->dim[2], 0);
    EXPECT("parity of the rotated numbers", o->args.rope.dim % 2, 0);
    EXPECT("length of the table's row", o->in[1].dim[1], o->args.rope.dim);
    return STATUS_OK;
}

tensor op_rope(op_list *g, tensor x, tensor table, bool interleaved) {
    append(g, (op){.code = OP_ROPE,
                   .n_in = 2,
                   .n_out = 1,
                   .in = {x, table},
                   .out = {x},
                   .args.rope = {.dim = (int)table.dim[1], .interleaved = interleaved}});
    return x;
}

void op_kv_store(op_list *g, tensor k, tensor v) {
    append(g, (op){.code = OP_KV_STORE,
                   .n_in = 2,
                   .n_out = 0,
                   .in = {k, v},
                   .args.attention = {.n_kv_heads = (int)k.dim[1], .head_dim = (int)k.dim[2]}});
}

static status check_attention(const op *o, error *err) {
    const tensor *q = &o->in[0];
    EXPECT("dimensions of q", q->n_dims, 3);
    EXPECT("remainder of heads over kv heads", q->dim[1] % o->args.attention.n_kv_heads, 0);
    EXPECT("numbers of the result's row", o->out[0].dim[1], q->dim[1] * q->dim[2]);
    return STATUS_OK;
}

tensor op_attention(op_list *g, tensor q, int n_kv_heads, float scale) {
    tensor out = new_temp(g, DTYPE_F32, q.rows, tensor_row_len(&q));
    append(g, (op){.code = OP_ATTENTION,
                   .n_in = 1,
                   .n_out = 1,
                   .in = {q},
                   .out = {out},
                   .args.attention = {n_kv_heads, (int)q.dim[2], scale}});
    return out;
}

tensor op_swiglu(op_list *g, tensor gate, tensor up) {
    tensor out = new_temp(g, DTYPE_F32, gate.rows, tensor_row_len(&gate));
    if (gate.n_dims == 3) out = tensor_heads(out, gate.dim[1], gate.dim[2]);
    append(g, (op){.code = OP_SWIGLU, .n_in = 2, .n_out = 1, .in = {gate, up}, .out = {out}});
    return out;
}

static status check_router(const op *o, error *err) {
    EXPECT("experts fewer than chosen", o->in[0].dim[1] < o->args.router.n_used, 0);
    EXPECT("slots of ids", o->out[0].dim[1], o->args.router.n_used);
    EXPECT("slots of probabilities", o->out[1].dim[1], o->args.router.n_used);
    return STATUS_OK;
}

void op_router_topk(op_list *g, tensor logits, int n_used, bool normalize, tensor *ids, tensor *p) {
    *ids = new_temp(g, DTYPE_I32, logits.rows, n_used);
    *p = new_temp(g, DTYPE_F32, logits.rows, n_used);
    append(g, (op){.code = OP_ROUTER_TOPK,
                   .n_in = 1,
                   .n_out = 2,
                   .in = {logits},
                   .out = {*ids, *p},
                   .args.router = {n_used, normalize}});
}

static status check_expert_linear(const op *o, const weight_set *weights, error *err) {
    const tensor *x = &o->in[0], *w = &o->in[1], *ids = &o->in[2];
    EXPECT("storage of the weight", w->where, STORAGE_WEIGHT);
    const weight *entry = &weights->w[w->id];
    EXPECT("role of the weight", entry->role, WEIGHT_EXPERTS);
    EXPECT("inputs of the experts", entry->k, x->dim[x->n_dims - 1]);
    if (x->n_dims == 3) EXPECT("slots of x", x->dim[1], ids->dim[1]);
    EXPECT("slots of the result", o->out[0].dim[1], ids->dim[1]);
    EXPECT("outputs of the experts", entry->n, o->out[0].dim[2] * (o->args.linear.gated ? 2 : 1));
    EXPECT("remainder of inputs over pieces", entry->k % o->args.linear.pieces, 0);
    return STATUS_OK;
}

tensor op_expert_linear(op_list *g, tensor x, tensor ids, int w, int pieces) {
    tensor wt = weight_tensor(g, w);
    tensor out = new_temp(g, DTYPE_F32, x.rows, ids.dim[1] * wt.dim[1]);
    out = tensor_heads(out, ids.dim[1], wt.dim[1]);
    append(g, (op){.code = OP_EXPERT_LINEAR,
                   .label = weight_label(g, w),
                   .n_in = 3,
                   .n_out = 1,
                   .in = {x, wt, ids},
                   .out = {out},
                   .args.linear = {.pieces = pieces}});
    return out;
}

tensor op_expert_combine(op_list *g, tensor x, tensor p) {
    tensor out = new_temp(g, DTYPE_F32, x.rows, x.dim[2]);
    append(g, (op){.code = OP_EXPERT_COMBINE, .n_in = 2, .n_out = 1, .in = {x, p}, .out = {out}});
    return out;
}

tensor op_gather_out_rows(op_list *g, tensor x) {
    tensor out = new_temp(g, DTYPE_F32, ROWS_OUT, x.dim[1]);
    append(g, (op){.code = OP_GATHER_ROWS,
                   .n_in = 2,
                   .n_out = 1,
                   .in = {x, input_tensor(INPUT_OUT_ROW, ROWS_OUT)},
                   .out = {out}});
    return out;
}

status op_check(const op *o, const weight_set *weights, error *err) {
    for (int i = 0; i < o->n_in; i++) {
        bool optional = o->code == OP_LINEAR && i == 2;
        if (o->in[i].where == STORAGE_NONE && !optional)
            return fail(o, err, "storage of an input", STORAGE_NONE, STORAGE_TEMP);
    }
    switch (o->code) {
    case OP_EMBED: EXPECT("numbers of a row", o->out[0].dim[1], o->in[0].dim[1]); return STATUS_OK;
    case OP_ADD:
        TRY(check_same_row(o, &o->in[0], &o->in[1], err));
        return check_same_row(o, &o->in[0], &o->out[0], err);
    case OP_RMS_NORM:
    case OP_ADD_RMS_NORM: return check_norm(o, err);
    case OP_LINEAR: return check_linear(o, weights, err);
    case OP_ROPE_TABLE: EXPECT("length of the table's row", o->out[0].dim[1], 2 * o->in[0].dim[0]); return STATUS_OK;
    case OP_ROPE: return check_rope(o, err);
    case OP_KV_STORE:
        EXPECT("dimensions of k", o->in[0].n_dims, 3);
        return check_same_row(o, &o->in[0], &o->in[1], err);
    case OP_ATTENTION: return check_attention(o, err);
    case OP_SWIGLU:
        TRY(check_same_row(o, &o->in[0], &o->in[1], err));
        return check_same_row(o, &o->in[0], &o->out[0], err);
    case OP_ROUTER_TOPK: return check_router(o, err);
    case OP_EXPERT_LINEAR: return check_expert_linear(o, weights, err);
    case OP_EXPERT_COMBINE:
        EXPECT("slots of p", o->in[1].dim[1], o->in[0].dim[1]);
        EXPECT("numbers of the result's row", o->out[0].dim[1], o->in[0].dim[2]);
        return STATUS_OK;
    case OP_GATHER_ROWS: EXPECT("numbers of a row", o->out[0].dim[1], o->in[0].dim[1]); return STATUS_OK;
    case OP_COUNT: break;
    }
    return fail(o, err, "opcode", o->code, OP_COUNT - 1);
}
