#include "backend/ascend/pieces.h"

#include "backend/ascend/internal.h"

bool ascend_pieces_wanted(const ascend_backend *b, const op *o) {
    return (o->code == OP_LINEAR || o->code == OP_EXPERT_LINEAR) && o->args.linear.pieces > 1 && b->spec.exact &&
           b->spec.pieces;
}

status ascend_pieces_supported(const ascend_backend *b, const op *o, error *err) {
    int n = ascend_pieces_wanted(b, o) ? o->args.linear.pieces : 1;
    if ((n & (n - 1)) == 0) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "%s of layer %d is summed in %d pieces, which is no power of two; take pieces=off", o->label,
                     o->layer, n);
}

int ascend_pieces_of(const ascend_backend *b, const op *o) {
    int n = b->weights[o->in[1].id].pieces;
    return n > 1 ? n : 1;
}

// ---- views -----------------------------------------------------------------------------------------------------------------

ascend_view ascend_piece(ascend_view all, int i) {
    ascend_view v = {.data = all.data,
                     .type = all.type,
                     .rank = 2,
                     .dim = {all.dim[1], all.dim[2]},
                     .stride = {all.stride[1], all.stride[2]},
                     .offset = all.offset + i * all.stride[0]};
    return v;
}

// Products lie in the order of their numbers' bits reversed. So the right neighbours of all pairs lie behind the left ones, sums of two as
// of four, and each level of the tree is one sum of two dense halves.
ascend_view ascend_piece_part(const ascend_pieces *p, int i) {
    int at = 0;
    for (int bit = 1, turned = p->n / 2; bit < p->n; bit *= 2, turned /= 2) at += i & bit ? turned : 0;
    return ascend_piece(p->part, at);
}

ascend_view ascend_piece_of_weight(const ascend_backend *b, const tensor *w, int i) {
    tensor part = *w;
    int64_t numbers = part.dim[part.n_dims - 1] /= b->weights[w->id].pieces;
    for (int d = 0; d < part.n_dims - 1; d++) numbers *= part.dim[d];
    ascend_view v = ascend_weight_view(b, &part);
    v.offset = i * numbers;
    return v;
}

// ---- memory ----------------------------------------------------------------------------------------------------------------

typedef struct pieces_need {
    int64_t x, part, weight; // numbers
} pieces_need;

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static pieces_need measure(const ascend_backend *b, const op_list *g) {
    pieces_need n = {0};
    for (int i = 0; i < g->n_ops; i++) {
        const op *o = &g->ops[i];
        if (!ascend_pieces_wanted(b, o)) continue;
        const tensor *w = &o->in[1], *y = &o->out[0];
        int64_t k = w->dim[w->n_dims - 1], numbers = k, slots = y->n_dims == 3 ? y->dim[1] : 1;
        for (int d = 0; d < w->n_dims - 1; d++) numbers *= w->dim[d];
        n.x = larger(n.x, b->spec.tile * slots * k);
        n.part = larger(n.part, b->spec.tile * tensor_row_len(y) * o->args.linear.pieces);
        n.weight = larger(n.weight, numbers);
    }
    return n;
}

int64_t ascend_pieces_bytes(const ascend_backend *b, const op_list *g) {
    pieces_need n = measure(b, g);
    return n.x * 2 + n.part * 6 + n.weight * 2;
}

// [outputs][inputs] -> [pieces][outputs][inputs / pieces], experts one behind the other.
static status lay_out_weight(ascend_backend *b, const tensor *w, int n, error *err) {
    ascend_call *c = &b->call;
    ascend_weight *of = &b->weights[w->id];
    int64_t k = w->dim[w->n_dims - 1], rows = 1;
    for (int d = 0; d < w->n_dims - 1; d++) rows *= w->dim[d];
    ascend_view from = VIEW(of->data, of->type, n, rows, k / n), to = from;
    from.stride[0] = k / n, from.stride[1] = k;
    TRY(ascend_device_alloc(&b->device, rows * k * 2, "a weight in pieces", &to.data, err));
    ASCEND_CALL_ONCE(c, aclnnInplaceCopy, ascend_tensor(c, &to), ascend_tensor(c, &from));
    TRY(ascend_device_sync(&b->device, err));
    ascend_device_free(&b->device, of->data);
    of->data = to.data, of->pieces = n;
    return STATUS_OK;
}

static status lay_out_weights(ascend_backend *b, error *err) {
    for (int i = 0; i < b->list->n_ops; i++) {
        const op *o = &b->list->ops[i];
        const ascend_weight *w = &b->weights[o->in[1].id];
        if (!ascend_pieces_wanted(b, o) || w->pieces || w->type != ascend_act(b))
            continue; // a head in F32 is nowhere split so
        b->call.o = o;
        TRY(lay_out_weight(b, &o->in[1], o->args.linear.pieces, err));
    }
    b->call.o = NULL;
    return STATUS_OK;
}

status ascend_pieces_prepare(ascend_backend *b, error *err) {
    pieces_need n = measure(b, b->list);
    ascend_device *d = &b->device;
    if (!n.x) return STATUS_OK;
    TRY(ascend_device_alloc(d, n.x * 2, "inputs in pieces", &b->pieces.x, err));
    TRY(ascend_device_alloc(d, n.part * 2, "products of pieces", &b->pieces.part, err));
    TRY(ascend_device_alloc(d, n.part * 4, "sums of pieces", &b->pieces.sum, err));
    TRY(lay_out_weights(b, err));
    // What the copies took to work in is not what a step takes.
    if (b->call.workspace) ascend_device_free(d, b->call.workspace);
    b->call.workspace = NULL;
    b->call.workspace_bytes = b->call.largest_workspace = 0;
    b->call.growths = 0;
    return STATUS_OK;
}

// ---- the sum ---------------------------------------------------------------------------------------------------------------

status ascend_pieces_begin(ascend_backend *b, const op *o, const ascend_view *x, ascend_pieces *p, error *err) {
    ascend_call *c = &b->call;
    int n = ascend_pieces_of(b, o);
    int64_t rows = x->dim[0], k = x->dim[1], outputs = o->out[0].dim[o->out[0].n_dims - 1];
    *p = (ascend_pieces){.n = n,
                         .x = VIEW(b->pieces.x, x->type, n, rows, k / n),
                         .part = VIEW(b->pieces.part, x->type, n, rows, outputs)};
    ascend_view from = *x;
    from.rank = 3;
    from.dim[0] = n, from.dim[1] = rows, from.dim[2] = k / n;
    from.stride[0] = k / n * x->stride[1], from.stride[1] = x->stride[0], from.stride[2] = x->stride[1];
    ASCEND_CALL_ONCE(c, aclnnInplaceCopy, ascend_tensor(c, &p->x), ascend_tensor(c, &from));
    return STATUS_OK;
}

status ascend_pieces_end(ascend_backend *b, const ascend_pieces *p, const ascend_view *bias, const ascend_view *y,
                         error *err) {
    ascend_call *c = &b->call;
    ascend_view all = p->part;
    all.data = b->pieces.sum, all.type = ACL_FLOAT;
    TRY(ascend_cast(c, &p->part, &all, err));
    for (int half = p->n / 2; half > 0; half /= 2) {
        ascend_view left = all;
        left.dim[0] = half;
        ascend_view right = left;
        right.offset += half * all.stride[0];
        ASCEND_CALL(c, aclnnInplaceAdd, ascend_tensor(c, &left), ascend_tensor(c, &right), ascend_scalar(c, 1));
    }
    ascend_view sum = ascend_piece(all, 0);
    if (bias) ASCEND_CALL(c, aclnnInplaceAdd, ascend_tensor(c, &sum), ascend_tensor(c, bias), ascend_scalar(c, 1));
    return ascend_cast(c, &sum, y, err);
}
