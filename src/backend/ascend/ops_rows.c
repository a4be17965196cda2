// Operations on rows: looking up, adding, norms, the gated activation.
#include "backend/ascend/internal.h"

// to[i] = from[index[i]], by the first dimension.
status ascend_select(ascend_call *c, const ascend_view *from, const ascend_view *index, const ascend_view *to,
                     error *err) {
    ASCEND_CALL(c, aclnnIndexSelect, ascend_tensor(c, from), 0, ascend_tensor(c, index), ascend_tensor(c, to));
    return STATUS_OK;
}

// A table that is the head as well may be in F32.
status ascend_embed(ascend_backend *b, const op *o, int *skip, error *err) {
    (void)skip;
    ascend_view table = ascend_weight_view(b, &o->in[0]);
    int tile = b->rows.tile;
    for (int t = 0; t < ascend_tiles(b, &o->out[0]); t++) {
        ascend_view ids = ascend_input_view(b, b->rows.token + t * tile, tile),
                    out = ascend_rows_view(b, &o->out[0], t),
                    wide = VIEW(b->scratch.router, table.type, tile, table.dim[1]);
        bool same = table.type == out.type;
        TRY(ascend_select(&b->call, &table, &ids, same ? &out : &wide, err));
        if (!same) TRY(ascend_cast(&b->call, &wide, &out, err));
    }
    return STATUS_OK;
}

status ascend_gather_rows(ascend_backend *b, const op *o, int *skip, error *err) {
    (void)skip;
    ascend_view all = ascend_rows_view(b, &o->in[0], 0);
    all.dim[0] = (int64_t)b->rows.n_tiles * b->rows.tile;
    for (int t = 0; t < ascend_tiles(b, &o->out[0]); t++) {
        ascend_view rows = ascend_input_view(b, b->rows.out_row + t * b->rows.out_tile, b->rows.out_tile),
                    out = ascend_rows_view(b, &o->out[0], t);
        TRY(ascend_select(&b->call, &all, &rows, &out, err));
    }
    return STATUS_OK;
}

static status add(ascend_backend *b, const ascend_view v[3], error *err) {
    ascend_call *c = &b->call;
    ASCEND_CALL(c, aclnnAdd, ascend_tensor(c, &v[0]), ascend_tensor(c, &v[1]), ascend_scalar(c, 1),
                ascend_tensor(c, &v[2]));
    return STATUS_OK;
}

status ascend_add(ascend_backend *b, const op *o, int *skip, error *err) {
    (void)skip;
    for (int t = 0; t < ascend_tiles(b, &o->out[0]); t++) {
        const ascend_view v[3] = {ascend_rows_view(b, &o->in[0], t), ascend_rows_view(b, &o->in[1], t),
                                  ascend_rows_view(b, &o->out[0], t)};
        TRY(add(b, v, err));
    }
    return STATUS_OK;
}

// v: x, gamma, y.
status ascend_rms(ascend_backend *b, const ascend_view v[3], const ascend_view *rstd, float eps, error *err) {
    ascend_call *c = &b->call;
    ASCEND_CALL(c, aclnnRmsNorm, ascend_tensor(c, &v[0]), ascend_tensor(c, &v[1]), (double)eps, ascend_tensor(c, &v[2]),
                ascend_tensor(c, rstd));
    return STATUS_OK;
}

// 1 / rms of every row: an operand of the operator, and where the step looks for rows that are not finite.
static ascend_view rstd_view(const ascend_backend *b, const op *o, const ascend_view *x, int t) {
    int line = b->norm_slot[o - b->list->ops];
    if (line < 0) { // of heads
        return x->rank == 3 ? VIEW(b->scratch.head_rstd, ACL_FLOAT, x->dim[0], x->dim[1], 1)
                            : VIEW(b->scratch.head_rstd, ACL_FLOAT, x->dim[0], 1);
    }
    int tile = o->in[0].rows == ROWS_OUT ? b->rows.out_tile : b->rows.tile;
    ascend_view v = VIEW(b->scratch.rstd, ACL_FLOAT, tile, 1);
    v.offset = (int64_t)line * b->rows.n_tiles * b->rows.tile + (int64_t)t * tile;
    return v;
}

status ascend_rms_norm(ascend_backend *b, const op *o, int *skip, error *err) {
    (void)skip;
    for (int t = 0; t < ascend_tiles(b, &o->out[0]); t++) {
        const ascend_view v[3] = {ascend_rows_view(b, &o->in[0], t), ascend_weight_view(b, &o->in[1]),
                                  ascend_rows_view(b, &o->out[0], t)};
        ascend_view rstd = rstd_view(b, o, &v[0], t);
        TRY(ascend_rms(b, v, &rstd, o->args.norm.eps, err));
    }
    return STATUS_OK;
}

static status add_rms_fused(ascend_backend *b, const op *o, int t, error *err) {
    ascend_call *c = &b->call;
    ascend_view x1 = ascend_rows_view(b, &o->in[0], t), x2 = ascend_rows_view(b, &o->in[1], t),
                gamma = ascend_weight_view(b, &o->in[2]), y = ascend_rows_view(b, &o->out[0], t),
                sum = ascend_rows_view(b, &o->out[1], t), rstd = rstd_view(b, o, &x1, t);
    ASCEND_CALL(c, aclnnAddRmsNorm, ascend_tensor(c, &x1), ascend_tensor(c, &x2), ascend_tensor(c, &gamma),
                (double)o->args.norm.eps, ascend_tensor(c, &y), ascend_tensor(c, &rstd), ascend_tensor(c, &sum));
    return STATUS_OK;
}

status ascend_add_rms_norm(ascend_backend *b, const op *o, int *skip, error *err) {
    (void)skip;
    bool fused = ascend_fuses(b, ASCEND_FUSED_ADD_NORM) && ASCEND_HAS(&b->call, aclnnAddRmsNorm) &&
                 b->device.family != ASCEND_310P; // where it leaves 1/rms out
    for (int t = 0; t < ascend_tiles(b, &o->out[0]); t++) {
        if (fused) {
            TRY(add_rms_fused(b, o, t, err));
            continue;
        }
        const ascend_view a[3] = {ascend_rows_view(b, &o->in[0], t), ascend_rows_view(b, &o->in[1], t),
                                  ascend_rows_view(b, &o->out[1], t)};
        TRY(add(b, a, err));
        const ascend_view v[3] = {a[2], ascend_weight_view(b, &o->in[2]), ascend_rows_view(b, &o->out[0], t)};
        ascend_view rstd = rstd_view(b, o, &v[0], t);
        TRY(ascend_rms(b, v, &rstd, o->args.norm.eps, err));
    }
    return STATUS_OK;
}

// ---- silu(gate) * up -------------------------------------------------------------------------------------------------------

// The rows of an expert result, (row, slot) by (row, slot), are rows like any.
static ascend_view as_rows(ascend_view v) {
    if (v.rank < 3) return v;
    v.dim[0] *= v.dim[1], v.stride[0] = v.stride[1];
    v.dim[1] = v.dim[2], v.stride[1] = v.stride[2];
    v.rank = 2;
    return v;
}

static status swiglu_fused(ascend_call *c, ascend_view gate, const ascend_view *out, error *err) {
    gate.dim[1] *= 2; // up lies behind gate
    ASCEND_CALL(c, aclnnSwiGlu, ascend_tensor(c, &gate), 1, ascend_tensor(c, out));
    return STATUS_OK;
}

static status swiglu_composed(ascend_call *c, const ascend_view *gate, const ascend_view *up, const ascend_view *out,
                              error *err) {
    ASCEND_CALL(c, aclnnSilu, ascend_tensor(c, gate), ascend_tensor(c, out));
    ASCEND_CALL(c, aclnnInplaceMul, ascend_tensor(c, out), ascend_tensor(c, up));
    return STATUS_OK;
}

status ascend_swiglu(ascend_backend *b, const op *o, int *skip, error *err) {
    (void)skip;
    const tensor *g = &o->in[0], *u = &o->in[1];
    int64_t n = g->dim[g->n_dims - 1];
    bool merged = g->id == u->id && u->offset == g->offset + n && g->stride[g->n_dims - 2] == 2 * n;
    bool fits = b->device.family != ASCEND_310P || n % 32 == 0; // halves of whole 64 bytes
    bool fused = merged && fits && ascend_fuses(b, ASCEND_FUSED_SWIGLU) && ASCEND_HAS(&b->call, aclnnSwiGlu);
    for (int t = 0; t < ascend_tiles(b, &o->out[0]); t++) {
        ascend_view gate = as_rows(ascend_rows_view(b, g, t)), up = as_rows(ascend_rows_view(b, u, t)),
                    out = as_rows(ascend_rows_view(b, &o->out[0], t));
        TRY(fused ? swiglu_fused(&b->call, gate, &out, err) : swiglu_composed(&b->call, &gate, &up, &out, err));
    }
    return STATUS_OK;
}
