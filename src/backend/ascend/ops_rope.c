// Rotary embedding. Cosines and sines of every position lie on the device; a step picks its rows. A table row has a number for each of
// the rotated ones: both halves the same, or (interleaved) pairs of the same.
#include <stdlib.h>

#include "backend/ascend/internal.h"
#include "base/elementary.h"

// ---- the tables ------------------------------------------------------------------------------------------------------------

typedef struct table_rows { // rows being made
    const float *freq;
    float scale;
    int n; // frequencies
    bool interleaved, sine;
} table_rows;

static void make_row(const table_rows *t, int pos, float *row) {
    for (int i = 0; i < t->n; i++) {
        float s, c;
        elementary_sincos((float)pos * t->freq[i], &s, &c);
        float v = (t->sine ? s : c) * t->scale;
        row[t->interleaved ? 2 * i : i] = v;
        row[t->interleaved ? 2 * i + 1 : t->n + i] = v;
    }
}

static status make_table(ascend_backend *b, const table_rows *t, void **out, error *err) {
    int dim = 2 * t->n, rows = b->limits.max_context;
    size_t row_bytes = (size_t)dtype_row_bytes(b->type, dim);
    TRY(ascend_device_alloc(&b->device, (int64_t)row_bytes * rows, "the rotation table", out, err));
    float *f32 = malloc((size_t)dim * sizeof *f32);
    char *half = malloc(row_bytes * (size_t)rows);
    status s = f32 && half ? STATUS_OK : error_no_memory(err, row_bytes * (size_t)rows);
    for (int pos = 0; !s && pos < rows; pos++) {
        make_row(t, pos, f32);
        dtype_get(b->type)->from_f32(half + (size_t)pos * row_bytes, f32, dim);
    }
    if (!s) s = ascend_device_upload(&b->device, *out, half, row_bytes * (size_t)rows, err);
    free(f32);
    free(half);
    return s;
}

status ascend_rope_prepare(ascend_backend *b, const weight_set *weights, error *err) {
    const op *table = NULL, *rope = NULL;
    for (int i = 0; i < b->list->n_ops; i++) {
        const op *o = &b->list->ops[i];
        if (o->code == OP_ROPE_TABLE) table = o;
        if (o->code == OP_ROPE) rope = o;
    }
    if (!table || !rope) return STATUS_OK;
    const weight *w = &weights->w[table->in[0].id];
    float *freq = malloc((size_t)w->n * sizeof *freq);
    if (!freq) return error_no_memory(err, (unsigned long long)w->n * sizeof *freq);
    dtype_get(w->part[0].type)->to_f32(freq, w->part[0].data[0], w->n);
    b->rope_interleaved = rope->args.rope.interleaved;
    b->rope_dim = 2 * (int)w->n;
    table_rows t = {freq, table->args.rope.scale, (int)w->n, b->rope_interleaved, false};
    status s = make_table(b, &t, &b->cos, err);
    t.sine = true;
    if (!s) s = make_table(b, &t, &b->sin, err);
    free(freq);
    return s;
}

// The step's rows of the table: cosines of all rows, then sines.
static ascend_view table_view(const ascend_backend *b, const tensor *table, int t, bool sine) {
    int64_t rows = (int64_t)b->rows.n_tiles * b->rows.tile, dim = b->rope_dim;
    ascend_view v = VIEW((char *)b->temps + b->list->temps[table->id].offset, ascend_act(b), b->rows.tile, dim);
    v.offset = ((sine ? rows : 0) + (int64_t)t * b->rows.tile) * dim;
    return v;
}

status ascend_rope_table(ascend_backend *b, const op *o, int *skip, error *err) {
    (void)skip;
    for (int t = 0; t < b->rows.n_tiles; t++) {
        for (int sine = 0; sine < 2; sine++) {
            ascend_view all = VIEW(sine ? b->sin : b->cos, ascend_act(b), b->limits.max_context, b->rope_dim),
                        pos = ascend_input_view(b, b->rows.pos + t * b->rows.tile, b->rows.tile),
                        to = table_view(b, &o->out[0], t, sine);
            TRY(ascend_select(&b->call, &all, &pos, &to, err));
        }
    }
    return STATUS_OK;
}

// ---- rotating --------------------------------------------------------------------------------------------------------------

static bool dense(const tensor *x) { return x->stride[1] == x->dim[2] && x->stride[0] == x->dim[1] * x->dim[2]; }

// The operator for q and k takes heads of 64 and 128, whole, by halves.
static bool takes_pair(const ascend_backend *b, const op *q) {
    const op *k = q + 1;
    if (k >= b->list->ops + b->list->n_ops || k->code != OP_ROPE || k->layer != q->layer || k->in[1].id != q->in[1].id)
        return false;
    int64_t d = q->in[0].dim[2];
    if (!ascend_fuses(b, ASCEND_FUSED_ROPE) || q->args.rope.interleaved || q->args.rope.dim != d ||
        (d != 64 && d != 128))
        return false;
    return dense(&q->in[0]) && dense(&k->in[0]) &&
           (ASCEND_HAS(&b->call, aclnnApplyRotaryPosEmbV2) || ASCEND_HAS(&b->call, aclnnApplyRotaryPosEmb));
}

static ascend_view as_bsnd(ascend_view v) { // [rows, heads, d] -> [1, rows, heads, d]
    ascend_view r = v;
    r.rank = 4, r.dim[0] = 1, r.stride[0] = v.dim[0] * v.stride[0];
    for (int i = 0; i < 3; i++) r.dim[i + 1] = v.dim[i], r.stride[i + 1] = v.stride[i];
    return r;
}

static ascend_view with_head(ascend_view v) { // [rows, d] -> [rows, 1, d]
    v.rank = 3, v.dim[2] = v.dim[1], v.stride[2] = v.stride[1];
    v.dim[1] = 1, v.stride[1] = v.dim[2];
    return v;
}

static status rotate_pair(ascend_backend *b, const op *o, int t, error *err) {
    enum { BSND = 1 };
    ascend_call *c = &b->call;
    ascend_view q = as_bsnd(ascend_rows_view(b, &o[0].in[0], t)), k = as_bsnd(ascend_rows_view(b, &o[1].in[0], t)),
                cos = as_bsnd(with_head(table_view(b, &o->in[1], t, false))),
                sin = as_bsnd(with_head(table_view(b, &o->in[1], t, true)));
    if (ASCEND_HAS(c, aclnnApplyRotaryPosEmbV2)) {
        char mode[] = "half";
        ASCEND_CALL(c, aclnnApplyRotaryPosEmbV2, ascend_tensor(c, &q), ascend_tensor(c, &k), ascend_tensor(c, &cos),
                    ascend_tensor(c, &sin), BSND, mode);
    } else {
        ASCEND_CALL(c, aclnnApplyRotaryPosEmb, ascend_tensor(c, &q), ascend_tensor(c, &k), ascend_tensor(c, &cos),
                    ascend_tensor(c, &sin), BSND);
    }
    return STATUS_OK;
}

// y = the operator for one tensor, then copied back.
static status rotate_one(ascend_backend *b, const ascend_view v[3], int mode, error *err) {
    ascend_call *c = &b->call;
    ascend_view y = VIEW(b->scratch.rope[0], v[0].type, v[0].dim[0], v[0].dim[1], v[0].dim[2]);
    ASCEND_CALL(c, aclnnRotaryPositionEmbedding, ascend_tensor(c, &v[0]), ascend_tensor(c, &v[1]),
                ascend_tensor(c, &v[2]), mode, ascend_tensor(c, &y));
    ASCEND_CALL_ONCE(c, aclnnInplaceCopy, ascend_tensor(c, &v[0]), ascend_tensor(c, &y));
    return STATUS_OK;
}

// Every second of the pairs' numbers (interleaved), or one half.
static ascend_view half_of(ascend_view v, int dim, bool second, bool interleaved) {
    v.dim[2] = dim / 2;
    if (second) v.offset += interleaved ? v.stride[2] : v.stride[2] * (dim / 2);
    if (interleaved) v.stride[2] *= 2;
    return v;
}

// x1' = x1 cos - x2 sin, x2' = x2 cos + x1 sin.
static status rotate_by_parts(ascend_backend *b, const ascend_view v[3], int dim, bool interleaved, error *err) {
    ascend_call *c = &b->call;
    ascend_view x1 = half_of(v[0], dim, false, interleaved), x2 = half_of(v[0], dim, true, interleaved),
                cos = half_of(v[1], dim, false, interleaved), sin = half_of(v[2], dim, false, interleaved);
    ascend_view p = VIEW(b->scratch.rope[0], x1.type, x1.dim[0], x1.dim[1], x1.dim[2]), q = p, first = p;
    q.data = b->scratch.rope[1], first.data = b->scratch.rope[2];
    ASCEND_CALL(c, aclnnMul, ascend_tensor(c, &x1), ascend_tensor(c, &cos), ascend_tensor(c, &p));
    ASCEND_CALL(c, aclnnMul, ascend_tensor(c, &x2), ascend_tensor(c, &sin), ascend_tensor(c, &q));
    ASCEND_CALL(c, aclnnSub, ascend_tensor(c, &p), ascend_tensor(c, &q), ascend_scalar(c, 1), ascend_tensor(c, &first));
    ASCEND_CALL(c, aclnnMul, ascend_tensor(c, &x2), ascend_tensor(c, &cos), ascend_tensor(c, &p));
    ASCEND_CALL(c, aclnnMul, ascend_tensor(c, &x1), ascend_tensor(c, &sin), ascend_tensor(c, &q));
    ASCEND_CALL_ONCE(c, aclnnAdd, ascend_tensor(c, &p), ascend_tensor(c, &q), ascend_scalar(c, 1),
                     ascend_tensor(c, &x2));
    ASCEND_CALL_ONCE(c, aclnnInplaceCopy, ascend_tensor(c, &x1), ascend_tensor(c, &first));
    return STATUS_OK;
}

status ascend_rope(ascend_backend *b, const op *o, int *skip, error *err) {
    const tensor *x = &o->in[0];
    bool pair = takes_pair(b, o), interleaved = o->args.rope.interleaved;
    bool one = ascend_fuses(b, ASCEND_FUSED_ROPE) && ASCEND_HAS(&b->call, aclnnRotaryPositionEmbedding) && dense(x) &&
               o->args.rope.dim == x->dim[2] && x->dim[2] < 896 &&
               !(interleaved && b->device.family == ASCEND_310P); // which knows halves only
    if (pair) *skip = 1;
    for (int t = 0; t < ascend_tiles(b, x); t++) {
        if (pair) {
            TRY(rotate_pair(b, o, t, err));
            continue;
        }
        const ascend_view v[3] = {ascend_rows_view(b, x, t), with_head(table_view(b, &o->in[1], t, false)),
                                  with_head(table_view(b, &o->in[1], t, true))};
        TRY(one ? rotate_one(b, v, interleaved, err) : rotate_by_parts(b, v, o->args.rope.dim, interleaved, err));
    }
    return STATUS_OK;
}
