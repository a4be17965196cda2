// Products with weights. A weight is kept as in the file, [outputs, inputs] (in pieces: pieces.h), and used as a transposed view.
#include "backend/ascend/internal.h"

enum { KEEP_TYPE = 0 }; // cubeMathType

static status product(ascend_call *c, const ascend_view v[3], error *err) {
    ASCEND_CALL(c, aclnnMm, ascend_tensor(c, &v[0]), ascend_tensor(c, &v[1]), ascend_tensor(c, &v[2]), KEEP_TYPE);
    return STATUS_OK;
}

static status product_with_bias(ascend_call *c, const ascend_view v[3], const ascend_view *bias, error *err) {
    ASCEND_CALL(c, aclnnAddmm, ascend_tensor(c, bias), ascend_tensor(c, &v[0]), ascend_tensor(c, &v[1]),
                ascend_scalar(c, 1), ascend_scalar(c, 1), ascend_tensor(c, &v[2]), KEEP_TYPE);
    return STATUS_OK;
}

status ascend_cast(ascend_call *c, const ascend_view *from, const ascend_view *to, error *err) {
    ASCEND_CALL(c, aclnnCast, ascend_tensor(c, from), to->type, ascend_tensor(c, to));
    return STATUS_OK;
}

static status add_bias(ascend_call *c, const ascend_view *y, const ascend_view *bias, error *err) {
    ASCEND_CALL(c, aclnnInplaceAdd, ascend_tensor(c, y), ascend_tensor(c, bias), ascend_scalar(c, 1));
    return STATUS_OK;
}

static status linear_tile(ascend_backend *b, const op *o, int t, error *err) {
    ascend_view v[3] = {ascend_rows_view(b, &o->in[0], t), ascend_turned(ascend_weight_view(b, &o->in[1])),
                        ascend_rows_view(b, &o->out[0], t)};
    if (v[1].type != v[0].type) { // a router, or the head, in F32
        ascend_view wide = VIEW(b->scratch.router, v[1].type, v[0].dim[0], v[0].dim[1]);
        TRY(ascend_cast(&b->call, &v[0], &wide, err));
        v[0] = wide;
    }
    if (o->in[2].where == STORAGE_NONE) return product(&b->call, v, err);
    ascend_view bias = ascend_weight_view(b, &o->in[2]);
    if (ascend_fuses(b, ASCEND_FUSED_BIAS)) return product_with_bias(&b->call, v, &bias, err);
    TRY(product(&b->call, v, err));
    return add_bias(&b->call, &v[2], &bias, err);
}

static status linear_pieces(ascend_backend *b, const op *o, int t, error *err) {
    ascend_view x = ascend_rows_view(b, &o->in[0], t), y = ascend_rows_view(b, &o->out[0], t), bias = {0};
    ascend_pieces p;
    TRY(ascend_pieces_begin(b, o, &x, &p, err));
    for (int i = 0; i < p.n; i++) {
        const ascend_view v[3] = {ascend_piece(p.x, i), ascend_turned(ascend_piece_of_weight(b, &o->in[1], i)),
                                  ascend_piece_part(&p, i)};
        TRY(product(&b->call, v, err));
    }
    bool biased = o->in[2].where != STORAGE_NONE;
    if (biased) bias = ascend_weight_view(b, &o->in[2]);
    return ascend_pieces_end(b, &p, biased ? &bias : NULL, &y, err);
}

status ascend_linear(ascend_backend *b, const op *o, int *skip, error *err) {
    (void)skip;
    bool whole = ascend_pieces_of(b, o) == 1;
    for (int t = 0; t < ascend_tiles(b, &o->out[0]); t++)
        TRY(whole ? linear_tile(b, o, t, err) : linear_pieces(b, o, t, err));
    return STATUS_OK;
}
