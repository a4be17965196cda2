#include "op/op.h"

// The rules are small: what must be equal is compared, and the message says label, rule and both numbers.
static status fail(const op *o, error *err, const char *rule, int64_t found, int64_t expected) {
    return error_set(err, STATUS_INTERNAL, "operation %s (%s) of layer %d: %s is %lld, expected %lld", o->label,
                     opcode_name(o->code), o->layer, rule, (long long)found, (long long)expected);
}

#define EXPECT(rule, found, expected) \
    do { \
        int64_t f_ = (found), e_ = (expected); \
        if (f_ != e_) return fail(o, err, rule, f_, e_); \
    } while (0)

static status check_linear(const op *o, const weight_set *weights, error *err) {
    const tensor *x = &o->in[0], *w = &o->in[1], *bias = &o->in[2];
    EXPECT("storage of the weight", w->where, STORAGE_WEIGHT);
    const weight *entry = &weights->w[w->id];
    EXPECT("inputs of the weight", entry->k, x->dim[1]);
    EXPECT("outputs of the weight", entry->n, o->out[0].dim[1]);
    if (bias->where != STORAGE_NONE) EXPECT("length of the bias", bias->dim[0], entry->n);
    EXPECT("remainder of inputs over pieces", entry->k % o->args.linear.pieces, 0);
    return STATUS_OK;
}

static status check_expert_linear(const op *o, const weight_set *weights, error *err) {
    const tensor *x = &o->in[0], *w = &o->in[1], *ids = &o->in[2];
    EXPECT("storage of the weight", w->where, STORAGE_WEIGHT);
    const weight *entry = &weights->w[w->id];
    EXPECT("role of the weight", entry->role, WEIGHT_EXPERTS);
    EXPECT("inputs of the experts", entry->k, x->dim[x->n_dims - 1]);
    if (x->n_dims == 3) EXPECT("slots of x", x->dim[1], ids->dim[1]);
    EXPECT("slots of the result", o->out[0].dim[1], ids->dim[1]);
    EXPECT("outputs of the experts", entry->n, o->out[0].dim[2]);
    EXPECT("remainder of inputs over pieces", entry->k % o->args.linear.pieces, 0);
    return STATUS_OK;
}

static status check_attention(const op *o, error *err) {
    const tensor *q = &o->in[0];
    EXPECT("dimensions of q", q->n_dims, 3);
    EXPECT("remainder of heads over kv heads", q->dim[1] % o->args.attention.n_kv_heads, 0);
    EXPECT("numbers of the result's row", o->out[0].dim[1], q->dim[1] * q->dim[2]);
    return STATUS_OK;
}

static status check_same_row(const op *o, const tensor *a, const tensor *b, error *err) {
    EXPECT("kind of rows", (int64_t)b->rows, (int64_t)a->rows);
    EXPECT("numbers of a row", tensor_row_len(b), tensor_row_len(a));
    return STATUS_OK;
}

static status check_norm(const op *o, error *err) {
    const tensor *x = &o->in[0], *w = &o->in[o->n_in - 1];
    EXPECT("length of the norm's weight", w->dim[0], x->dim[x->n_dims - 1]);
    return check_same_row(o, x, &o->out[0], err);
}

static status check_rope(const op *o, error *err) {
    const tensor *x = &o->in[0];
    EXPECT("dimensions of x", x->n_dims, 3);
    EXPECT("rotated numbers beyond the head", o->args.rope.dim > x->dim[2], 0);
    EXPECT("parity of the rotated numbers", o->args.rope.dim % 2, 0);
    EXPECT("length of the table's row", o->in[1].dim[1], o->args.rope.dim);
    return STATUS_OK;
}

static status check_router(const op *o, error *err) {
    EXPECT("experts fewer than chosen", o->in[0].dim[1] < o->args.router.n_used, 0);
    EXPECT("slots of ids", o->out[0].dim[1], o->args.router.n_used);
    EXPECT("slots of probabilities", o->out[1].dim[1], o->args.router.n_used);
    return STATUS_OK;
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
