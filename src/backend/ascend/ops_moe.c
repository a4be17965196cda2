// Mixture of experts. Rows are sorted by expert before the first product of a layer and brought back by the sum over slots, so between
// the two a temporary [rows, slots, n] holds its rows in the experts' order. Without the operators for that: ops_moe_composed.c.
#include "backend/ascend/internal.h"

static int64_t n_experts(const ascend_backend *b, const op *o) { return ascend_weight_view(b, &o->in[1]).dim[0]; }

static status gate(ascend_backend *b, const op *o, int t, error *err) {
    ascend_call *c = &b->call;
    int tile = b->rows.tile;
    ascend_view x = ascend_rows_view(b, &o->in[0], t), ids = ascend_rows_view(b, &o->out[0], t),
                p = ascend_rows_view(b, &o->out[1], t), own = VIEW(b->scratch.expert_ids, ACL_INT32, tile, ids.dim[1]),
                row = ascend_input_view(b, b->rows.expert_row + t * tile, tile);
    ASCEND_CALL(c, aclnnMoeGatingTopKSoftmaxV2, ascend_tensor(c, &x), NULL, o->args.router.n_used,
                o->args.router.normalize, false, ascend_tensor(c, &p), ascend_tensor(c, &own), NULL);
    return ascend_select(c, &own, &row, &ids, err); // rows that pad read no expert of their own
}

status ascend_router_topk(ascend_backend *b, const op *o, int *skip, error *err) {
    (void)skip;
    for (int t = 0; t < ascend_tiles(b, &o->in[0]); t++)
        TRY(b->gate_fused ? gate(b, o, t, err) : ascend_gate_composed(b, o, t, err));
    return STATUS_OK;
}

static ascend_view slice(void *data, aclDataType type, int t, int64_t n) { // n numbers of product tile t
    ascend_view v = VIEW(data, type, n);
    v.offset = t * n;
    return v;
}

// Rows and their slots by expert, and how many each expert got.
static status sort_rows(ascend_backend *b, const op *o, int t, const ascend_view *sorted, error *err) {
    enum { COUNTS = 2, DROPLESS = 0 };
    ascend_call *c = &b->call;
    ascend_view x = ascend_rows_view(b, &o->in[0], t), ids = ascend_rows_view(b, &o->in[2], t);
    int64_t experts = n_experts(b, o), entries = ids.dim[0] * ids.dim[1];
    ascend_view row = slice(b->scratch.expert_row, ACL_INT32, t, entries),
                count = slice(b->scratch.expert_count, ACL_INT32, t, experts),
                count64 = slice(b->scratch.expert_count64, ACL_INT64, t, experts);
    ASCEND_CALL(c, aclnnMoeInitRoutingV2, ascend_tensor(c, &x), ascend_tensor(c, &ids), entries, 0, experts, DROPLESS,
                COUNTS, false, ascend_tensor(c, sorted), ascend_tensor(c, &row), ascend_tensor(c, &count), NULL);
    ASCEND_CALL(c, aclnnCast, ascend_tensor(c, &count), ACL_INT64, ascend_tensor(c, &count64));
    return STATUS_OK;
}

// v: rows by expert, [experts, outputs, inputs], results.
static status grouped(ascend_backend *b, int t, const ascend_view v[3], error *err) {
    enum { ONE_OUTPUT = 2, BY_ROWS = 0, COUNTS = 1, NO_ACTIVATION = 0 };
    ascend_call *c = &b->call;
    ascend_view w = ascend_turned(v[1]), count = slice(b->scratch.expert_count64, ACL_INT64, t, w.dim[0]);
#define INPUTS \
    ascend_list(c, &v[0]), ascend_list(c, &w), NULL, NULL, NULL, NULL, NULL, NULL, ascend_tensor(c, &count), NULL, \
        NULL, NULL
    if (ASCEND_HAS(c, aclnnGroupedMatmulV5)) {
        ASCEND_CALL(c, aclnnGroupedMatmulV5, INPUTS, ONE_OUTPUT, BY_ROWS, COUNTS, NO_ACTIVATION, NULL,
                    ascend_list(c, &v[2]), NULL, NULL);
    } else {
        ASCEND_CALL(c, aclnnGroupedMatmulV4, INPUTS, ONE_OUTPUT, BY_ROWS, COUNTS, NO_ACTIVATION, ascend_list(c, &v[2]),
                    NULL, NULL);
    }
#undef INPUTS
    return STATUS_OK;
}

// [rows, slots, n] of a tile as the rows they are.
static ascend_view entries_of(ascend_view v) {
    ascend_view r = v;
    r.rank = 2;
    r.dim[0] = v.dim[0] * v.dim[1], r.stride[0] = v.stride[1];
    r.dim[1] = v.dim[2], r.stride[1] = v.stride[2];
    return r;
}

static status grouped_pieces(ascend_backend *b, const op *o, int t, const ascend_view v[2], error *err) {
    ascend_pieces p;
    TRY(ascend_pieces_begin(b, o, &v[0], &p, err));
    for (int i = 0; i < p.n; i++) {
        const ascend_view one[3] = {ascend_piece(p.x, i), ascend_piece_of_weight(b, &o->in[1], i),
                                    ascend_piece_part(&p, i)};
        TRY(grouped(b, t, one, err));
    }
    return ascend_pieces_end(b, &p, NULL, &v[1], err);
}

status ascend_expert_linear(ascend_backend *b, const op *o, int *skip, error *err) {
    (void)skip;
    const tensor *x = &o->in[0];
    for (int t = 0; t < ascend_tiles(b, &o->out[0]); t++) {
        if (!b->experts_fused) {
            TRY(ascend_experts_composed(b, o, t, err));
            continue;
        }
        ascend_view out = entries_of(ascend_rows_view(b, &o->out[0], t));
        ascend_view in = x->n_dims == 3 ? entries_of(ascend_rows_view(b, x, t))
                                        : VIEW(b->scratch.experts, out.type, out.dim[0], x->dim[1]);
        bool sorts = x->n_dims == 2 && (o == b->list->ops || o[-1].code != OP_EXPERT_LINEAR || o[-1].in[0].id != x->id);
        if (x->n_dims == 2 && (sorts || b->rows.n_tiles > 1)) TRY(sort_rows(b, o, t, &in, err));
        const ascend_view v[3] = {in, ascend_weight_view(b, &o->in[1]), out}, ends[2] = {in, out};
        TRY(ascend_pieces_of(b, o) == 1 ? grouped(b, t, v, err) : grouped_pieces(b, o, t, ends, err));
    }
    return STATUS_OK;
}

static status combine(ascend_backend *b, const op *o, int t, error *err) {
    enum { BY_ROWS_DROPLESS = 2 };
    ascend_call *c = &b->call;
    ascend_view x = entries_of(ascend_rows_view(b, &o->in[0], t)), p = ascend_rows_view(b, &o->in[1], t),
                out = ascend_rows_view(b, &o->out[0], t), row = slice(b->scratch.expert_row, ACL_INT32, t, x.dim[0]);
    if (x.type == ACL_FLOAT16) { // factors of the experts' own type, except beside BF16
        ascend_view half = VIEW(b->scratch.expert_p, x.type, p.dim[0], p.dim[1]);
        ASCEND_CALL(c, aclnnCast, ascend_tensor(c, &p), half.type, ascend_tensor(c, &half));
        p = half;
    }
    ASCEND_CALL(c, aclnnMoeFinalizeRoutingV2, ascend_tensor(c, &x), ascend_tensor(c, &row), NULL, NULL, NULL,
                ascend_tensor(c, &p), NULL, BY_ROWS_DROPLESS, ascend_tensor(c, &out));
    return STATUS_OK;
}

status ascend_expert_combine(ascend_backend *b, const op *o, int *skip, error *err) {
    (void)skip;
    for (int t = 0; t < ascend_tiles(b, &o->out[0]); t++)
        TRY(b->experts_fused ? combine(b, o, t, err) : ascend_combine_composed(b, o, t, err));
    return STATUS_OK;
}
