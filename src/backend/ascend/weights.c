// Weights on the device: one type for all but routers and the head; rows of merged projections one behind the other, experts stacked.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ascend/internal.h"

// Routers and the head compute in F32: half a logit's rounding decides between experts, and between tokens. 910A and 310P refuse
// products of F32 (cubeMathType 0); there both are of the activations' type.
aclDataType ascend_weight_type(const ascend_backend *b, const weight *w) {
    bool wide = b->device.family != ASCEND_910A && b->device.family != ASCEND_310P;
    bool head = w->role == WEIGHT_LINEAR && w->layer < 0 && b->spec.wide_head;
    return wide && (head || w->role == WEIGHT_ROUTER) ? ACL_FLOAT : ascend_act(b);
}

static int64_t numbers(const weight *w) { return w->n_experts * w->n * w->k; }
static dtype host_type(aclDataType t) { return t == ACL_FLOAT ? DTYPE_F32 : t == ACL_BF16 ? DTYPE_BF16 : DTYPE_F16; }

// Projections of the layers may become FRACTAL_NZ on A2 and A3. Not what is in F32, nor the experts', whose grouped product takes them
// as they are, nor a head that may be the embedding as well, nor what ranks share the inputs of: a piece is one product for any number
// of ranks.
static bool may_be_nz(const ascend_backend *b, const weight *w) {
    bool chip = b->device.family == ASCEND_A2 || b->device.family == ASCEND_A3;
    bool in_pieces = w->split == SPLIT_REDUCED && b->spec.exact && b->spec.pieces;
    return chip && !in_pieces && ascend_fuses(b, ASCEND_FUSED_NZ) && b->device.lib.aclnnTransMatmulWeight && w->n > 1 &&
           w->k > 1 && w->role == WEIGHT_LINEAR && w->layer >= 0 && ascend_weight_type(b, w) != ACL_FLOAT;
}

const char *ascend_weight_layout(const backend *base, const weight *w) {
    return may_be_nz((const ascend_backend *)base, w) ? "FRACTAL_NZ" : "as in the file";
}

// NZ pads both dimensions to 16.
int64_t ascend_weight_bytes(const backend *base, const weight *w) {
    const ascend_backend *b = (const ascend_backend *)base;
    int64_t n = numbers(w);
    if (may_be_nz(b, w)) n = (w->n + NZ_UNIT - 1) / NZ_UNIT * NZ_UNIT * ((w->k + NZ_UNIT - 1) / NZ_UNIT * NZ_UNIT);
    return dtype_row_bytes(host_type(ascend_weight_type(b, w)), n);
}

// Numbers that are finite in the file and not on the device would make every row that meets them infinite.
static bool overflows(const float *from, const void *to, dtype type, int64_t n) {
    const uint16_t *half = to;
    for (int64_t i = 0; type == DTYPE_F16 && i < n; i++) {
        if ((half[i] & 0x7c00) == 0x7c00 && isfinite(from[i])) return true;
    }
    return false;
}

typedef struct piece { // n numbers of one type in the file, to a place on the device
    const weight *w;
    const void *src;
    dtype from, to;
    int64_t n, row; // row: numbers that belong together (blocks do not cross rows)
    char *dst;
} piece;

static status convert_piece(const ascend_backend *b, const piece *p, error *err) {
    enum { CHUNK = 1 << 20 };
    const dtype_info *from = dtype_get(p->from), *to = dtype_get(p->to);
    int64_t rows = p->row < CHUNK ? CHUNK / p->row : 1, chunk = rows * p->row;
    if (chunk > p->n) chunk = p->n;
    float *f32 = malloc((size_t)chunk * sizeof *f32);
    char *out = malloc((size_t)dtype_row_bytes(p->to, chunk));
    status s = f32 && out ? STATUS_OK : error_no_memory(err, (unsigned long long)chunk * 6);
    for (int64_t at = 0; !s && at < p->n; at += chunk) {
        int64_t n = p->n - at < chunk ? p->n - at : chunk;
        from->to_f32(f32, (const char *)p->src + dtype_row_bytes(p->from, at), n);
        to->from_f32(out, f32, n);
        if (overflows(f32, out, p->to, n)) {
            s = error_set(err, STATUS_UNSUPPORTED,
                          "%s of layer %d has numbers beyond 65504, the largest of F16; use a chip with BF16",
                          p->w->label, p->w->layer);
        }
        if (!s)
            s = ascend_device_upload(&b->device, p->dst + dtype_row_bytes(p->to, at), out,
                                     (size_t)dtype_row_bytes(p->to, n), err);
    }
    free(f32);
    free(out);
    return s;
}

static status upload_piece(const ascend_backend *b, const piece *p, error *err) {
    if (p->from == p->to)
        return ascend_device_upload(&b->device, p->dst, p->src, (size_t)dtype_row_bytes(p->to, p->n), err);
    const dtype_info *from = dtype_get(p->from);
    if (!from->to_f32 || p->row % from->block_elems)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s of layer %d has rows of %lld numbers of type %s, which cannot be converted", p->w->label,
                         p->w->layer, (long long)p->row, from->name);
    return convert_piece(b, p, err);
}

// A tied head and the embedding are one matrix.
static void *shared_with(const ascend_backend *b, const weight_set *weights, int id, aclDataType type) {
    const weight *w = &weights->w[id];
    for (int i = 0; i < b->n_weights; i++) {
        const weight *o = &weights->w[i];
        if (!b->weights[i].data || b->weights[i].type != type || o->n_parts != 1 || w->n_parts != 1) continue;
        bool same = o->part[0].data && w->part[0].data && o->part[0].data[0] == w->part[0].data[0];
        if (same && o->n_experts == 1 && w->n_experts == 1 && o->n == w->n && o->k == w->k) return b->weights[i].data;
    }
    return NULL;
}

static status upload_all(const ascend_backend *b, const weight *w, const ascend_weight *dst, error *err) {
    dtype to = host_type(dst->type);
    for (int64_t x = 0; x < w->n_experts; x++) {
        int64_t at = x * w->n * w->k;
        for (int i = 0; i < w->n_parts; i++) {
            int64_t n = w->part[i].n_rows * w->k, row = w->role == WEIGHT_VECTOR ? w->part[i].n_rows : w->k;
            piece p = {w, w->part[i].data[x], w->part[i].type, to, n, row, (char *)dst->data + dtype_row_bytes(to, at)};
            TRY(upload_piece(b, &p, err));
            at += n;
        }
    }
    return STATUS_OK;
}

status ascend_weight_upload(backend *base, const weight_set *weights, int id, error *err) {
    ascend_backend *b = (ascend_backend *)base;
    TRY(ascend_device_enter(&b->device, err));
    if (!b->weights) {
        b->weights = calloc((size_t)weights->n, sizeof *b->weights);
        if (!b->weights) return error_no_memory(err, (unsigned long long)weights->n * sizeof *b->weights);
        b->n_weights = weights->n;
    }
    const weight *w = &weights->w[id];
    ascend_weight *dst = &b->weights[id];
    aclDataType type = ascend_weight_type(b, w);
    void *same = shared_with(b, weights, id, type);
    if (same) {
        *dst = (ascend_weight){.data = same, .type = type};
        return STATUS_OK;
    }
    void *data;
    TRY(ascend_device_alloc(&b->device, ascend_weight_bytes(base, w), w->label, &data, err));
    *dst = (ascend_weight){.data = data, .type = type};
    return upload_all(b, w, dst, err);
}

// ---- FRACTAL_NZ ------------------------------------------------------------------------------------------------------------

static status convert(ascend_backend *b, const weight *w, ascend_weight *on_device, error *err) {
    ascend_call *c = &b->call;
    ascend_view v = VIEW(on_device->data, on_device->type, w->n, w->k);
    ASCEND_CALL(c, aclnnTransMatmulWeight, ascend_tensor(c, &v));
    on_device->nz = true;
    return STATUS_OK;
}

// No document says that Addmm takes such a weight, so one with a bias stays as it is; so does one that is laid out in pieces.
static bool serves(const ascend_backend *b, const op *o) {
    return o->code == OP_LINEAR && o->in[2].where == STORAGE_NONE && !ascend_pieces_wanted(b, o);
}

static bool serves_always(const ascend_backend *b, int id) {
    const op_list *g = b->list;
    bool any = false;
    for (int i = 0; i < g->n_ops; i++) {
        for (int j = 0; j < g->ops[i].n_in; j++) {
            const tensor *t = &g->ops[i].in[j];
            if (t->where != STORAGE_WEIGHT || t->id != id) continue;
            if (j != 1 || !serves(b, &g->ops[i])) return false;
            any = true;
        }
    }
    return any;
}

// In place. The conversion's workspace is as large as the largest weight, and is given back.
status ascend_weights_prepare(ascend_backend *b, error *err) {
    ascend_call *c = &b->call;
    for (int i = 0; i < b->n_weights; i++) {
        const weight *w = &b->list->weights->w[i];
        if (b->weights[i].data && may_be_nz(b, w) && serves_always(b, i)) TRY(convert(b, w, &b->weights[i], err));
    }
    if (!c->workspace) return STATUS_OK;
    TRY(ascend_device_sync(&b->device, err));
    ascend_device_free(&b->device, c->workspace);
    c->workspace = NULL;
    c->workspace_bytes = c->largest_workspace = 0;
    c->calls = c->growths = 0;
    return STATUS_OK;
}
