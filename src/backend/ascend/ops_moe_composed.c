// Mixtures of experts where the chip lacks the operators for them. The gate may be composed alone (310P), or the experts too (910A).
//
// Experts composed: an expert's product is of all rows of the tile, one shape for every expert, and each (row, slot) takes the result of
// the expert it chose. So it does not matter to a row which other experts are computed, and a step computes those that its rows can
// have chosen, without asking the device which: the r rows that are none to pad a tile touch at most r * used experts. The device lists
// the experts by how often they were chosen; the first r * used of the list are gathered, one after the other, and multiplied.
// Gathering copies a weight, which reads and writes it before it is read: from a third of the experts on, all are multiplied in place.
#include <stdlib.h>

#include "backend/ascend/internal.h"

enum { GATHER_COST = 3 }; // times a weight is moved that is copied first

// ---- what is used, and its memory --------------------------------------------------------------------------------------------

typedef struct moe_need { // the largest of each over the list's operations
    int64_t experts, used, width, weight;
    bool whole_rows; // inputs that 310P can sort: of 32 numbers
} moe_need;

static moe_need measure(const ascend_backend *b) {
    moe_need n = {.whole_rows = true};
    for (int i = 0; i < b->list->n_ops; i++) {
        const op *o = &b->list->ops[i];
        if (o->code != OP_EXPERT_LINEAR) continue;
        const tensor *w = &o->in[1], *y = &o->out[0];
        if (w->dim[0] > n.experts) n.experts = w->dim[0];
        if (w->dim[1] * w->dim[2] > n.weight) n.weight = w->dim[1] * w->dim[2];
        if (y->dim[1] > n.used) n.used = y->dim[1];
        if (y->dim[2] > n.width) n.width = y->dim[2];
        if (o->in[0].n_dims == 2 && w->dim[2] % 32) n.whole_rows = false;
    }
    return n;
}

static void choose(ascend_backend *b, const moe_need *n) {
    const ascend_library *lib = &b->device.lib;
    b->n_experts = n->experts, b->n_used = n->used;
    bool on = ascend_fuses(b, ASCEND_FUSED_MOE);
    b->gate_fused = on && lib->aclnnMoeGatingTopKSoftmaxV2;
    b->experts_fused = on && lib->aclnnMoeInitRoutingV2 && lib->aclnnMoeFinalizeRoutingV2 &&
                       (lib->aclnnGroupedMatmulV5 || lib->aclnnGroupedMatmulV4) &&
                       (n->whole_rows || b->device.family != ASCEND_310P);
}

static status upload_numbers(ascend_backend *b, int64_t n, error *err) {
    int32_t *number = malloc((size_t)n * sizeof *number);
    if (!number) return error_no_memory(err, (unsigned long long)n * sizeof *number);
    for (int64_t i = 0; i < n; i++) number[i] = (int32_t)i;
    status s = ascend_device_alloc(&b->device, n * 4, "numbers of experts", &b->scratch.expert_number, err);
    if (!s) s = ascend_device_upload(&b->device, b->scratch.expert_number, number, (size_t)n * 4, err);
    free(number);
    return s;
}

static status alloc_experts(ascend_backend *b, const moe_need *n, error *err) {
    ascend_device *d = &b->device;
    ascend_scratch *s = &b->scratch;
    int64_t entries = ascend_most_tile(b) * n->used,
            tiles = (ascend_pad(b->limits.max_rows, b->spec.tile)) / b->spec.tile;
    TRY(upload_numbers(b, n->experts, err));
    TRY(ascend_device_alloc(d, entries, "chosen experts", &s->expert_chosen, err));
    TRY(ascend_device_alloc(d, entries * n->experts, "which experts were chosen", &s->expert_hit, err));
    TRY(ascend_device_alloc(d, entries * n->experts * 2, "which experts were chosen", &s->expert_hit_half, err));
    TRY(ascend_device_alloc(d, n->experts * 2, "rows of each expert", &s->expert_hits, err));
    TRY(ascend_device_alloc(d, tiles * n->experts * 4, "chosen experts", &s->expert_list, err));
    return ascend_device_alloc(d, n->weight * 2, "an expert", &s->expert_weight, err);
}

status ascend_moe_prepare(ascend_backend *b, error *err) {
    moe_need n = measure(b);
    choose(b, &n);
    if (!n.experts || (b->gate_fused && b->experts_fused)) return STATUS_OK;
    ascend_device *d = &b->device;
    ascend_scratch *s = &b->scratch;
    int64_t entries = ascend_most_tile(b) * n.used, width = n.width;
    if (width < 2 * n.experts) width = 2 * n.experts; // probabilities of all experts, in F32 perhaps
    TRY(ascend_device_alloc(d, entries * width * 2, "an expert's results", &s->expert_product, err));
    TRY(ascend_device_alloc(d, entries * 4, "probabilities", &s->topk_value, err));
    TRY(ascend_device_alloc(d, entries * 8, "chosen experts", &s->topk_index, err));
    return b->experts_fused ? STATUS_OK : alloc_experts(b, &n, err);
}

// ---- the gate ----------------------------------------------------------------------------------------------------------------

// Experts that the rows of a product tile may have chosen.
static int64_t most_chosen(const ascend_backend *b, int t, int64_t used, int64_t experts) {
    int64_t rows = b->rows.n_rows - (int64_t)t * b->rows.tile;
    if (rows > b->rows.tile) rows = b->rows.tile;
    return rows * used < experts ? rows * used : experts;
}

static bool gathers(int64_t chosen, int64_t experts) { return GATHER_COST * chosen <= experts; }

int ascend_gathering_rows(const ascend_backend *b) {
    int last = b->rows.n_rows - (b->rows.n_tiles - 1) * b->rows.tile;
    bool some = b->n_experts && !b->experts_fused && gathers((int64_t)last * b->n_used, b->n_experts);
    return some ? last : 0;
}

static ascend_view list_of(const ascend_backend *b, int t, int64_t n, int64_t experts) { // of a product tile
    ascend_view v = VIEW(b->scratch.expert_list, ACL_INT32, n);
    v.offset = t * experts;
    return v;
}

// The numbers of the n experts that were chosen most often: all that were chosen at all, where no more than n can be.
static status list_experts(ascend_backend *b, const ascend_view *ids, int t, int64_t n, error *err) {
    ascend_call *c = &b->call;
    int64_t entries = ids->dim[0] * ids->dim[1], over_entries = 0, experts = b->n_experts;
    ascend_view id = VIEW(ids->data, ACL_INT32, entries, 1),
                number = VIEW(b->scratch.expert_number, ACL_INT32, 1, experts),
                hit = VIEW(b->scratch.expert_hit, ACL_BOOL, entries, experts),
                half = VIEW(b->scratch.expert_hit_half, ACL_FLOAT16, entries, experts),
                hits = VIEW(b->scratch.expert_hits, ACL_FLOAT16, 1, experts),
                most = VIEW(b->scratch.topk_value, ACL_FLOAT16, 1, n),
                index = VIEW(b->scratch.topk_index, ACL_INT64, 1, n), list = list_of(b, t, n, experts),
                index_line = VIEW(b->scratch.topk_index, ACL_INT64, n);
    id.offset = ids->offset;
    ASCEND_CALL(c, aclnnEqTensor, ascend_tensor(c, &id), ascend_tensor(c, &number), ascend_tensor(c, &hit));
    TRY(ascend_cast(c, &hit, &half, err));
    ASCEND_CALL(c, aclnnReduceSum, ascend_tensor(c, &half), ascend_ints(c, &over_entries, 1), true, ACL_FLOAT16,
                ascend_tensor(c, &hits));
    ASCEND_CALL(c, aclnnTopk, ascend_tensor(c, &hits), n, 1, true, true, ascend_tensor(c, &most),
                ascend_tensor(c, &index));
    return ascend_cast(c, &index_line, &list, err);
}

// Probabilities of the chosen, divided by their sum.
static status normalize(ascend_call *c, const ascend_view *value, const ascend_view *sum, const ascend_view *p,
                        error *err) {
    int64_t over_slots = 1;
    ASCEND_CALL(c, aclnnReduceSum, ascend_tensor(c, value), ascend_ints(c, &over_slots, 1), true, value->type,
                ascend_tensor(c, sum));
    ASCEND_CALL(c, aclnnDiv, ascend_tensor(c, value), ascend_tensor(c, sum), ascend_tensor(c, p));
    return STATUS_OK;
}

// Softmax over all experts, the largest n_used, divided by their sum if the model asks for it.
status ascend_gate_composed(ascend_backend *b, const op *o, int t, error *err) {
    ascend_call *c = &b->call;
    ascend_view x = ascend_rows_view(b, &o->in[0], t), ids = ascend_rows_view(b, &o->out[0], t),
                p = ascend_rows_view(b, &o->out[1], t);
    int64_t tile = b->rows.tile, used = o->args.router.n_used, experts = x.dim[1];
    ascend_view all = VIEW(b->scratch.expert_product, x.type, tile, experts),
                value = VIEW(b->scratch.topk_value, x.type, tile, used),
                index = VIEW(b->scratch.topk_index, ACL_INT64, tile, used),
                sum = VIEW(b->scratch.expert_p, x.type, tile, 1),
                own = VIEW(b->scratch.expert_ids, ACL_INT32, tile, used),
                row = ascend_input_view(b, b->rows.expert_row + t * (int)tile, (int)tile);
    bool divides = o->args.router.normalize;
    ASCEND_CALL(c, aclnnSoftmax, ascend_tensor(c, &x), -1, ascend_tensor(c, &all));
    ASCEND_CALL(c, aclnnTopk, ascend_tensor(c, &all), used, 1, true, true, ascend_tensor(c, divides ? &value : &p),
                ascend_tensor(c, &index));
    if (divides) TRY(normalize(c, &value, &sum, &p, err));
    TRY(ascend_cast(c, &index, &own, err));
    TRY(ascend_select(c, &own, &row, &ids, err)); // rows that pad choose no expert of their own
    int64_t chosen = most_chosen(b, t, used, experts);
    if (b->experts_fused || !gathers(chosen, experts)) return STATUS_OK;
    return list_experts(b, &ids, t, chosen, err);
}

// ---- products by expert ------------------------------------------------------------------------------------------------------

typedef struct products { // of one operation and tile
    ascend_view x;        // [rows, k] for every row or [rows * used, k] for every slot
    ascend_pieces pieces; // n = 1: of x as it is
    bool gathered;        // the weight lies where it was copied to
} products;

// Piece i of expert e's weight, [n, k / pieces].
static ascend_view weight_of(const ascend_backend *b, const op *o, const products *p, int64_t e, int i) {
    const tensor *w = &o->in[1];
    int64_t k = w->dim[2] / p->pieces.n;
    if (p->gathered) {
        ascend_view v = VIEW(b->scratch.expert_weight, ascend_act(b), w->dim[1], k);
        v.offset = i * w->dim[1] * k;
        return v;
    }
    return ascend_piece(p->pieces.n == 1 ? ascend_weight_view(b, w) : ascend_piece_of_weight(b, w, i), (int)e);
}

static status gather_weight(ascend_backend *b, const op *o, const products *p, const ascend_view *number, error *err) {
    ascend_call *c = &b->call;
    const tensor *w = &o->in[1];
    int64_t n = p->pieces.n, numbers = w->dim[1] * w->dim[2] / n;
    ascend_view all = VIEW(b->weights[w->id].data, ascend_act(b), n, w->dim[0], numbers),
                one = VIEW(b->scratch.expert_weight, ascend_act(b), n, 1, numbers);
    ASCEND_CALL(c, aclnnIndexSelect, ascend_tensor(c, &all), 1, ascend_tensor(c, number), ascend_tensor(c, &one));
    return STATUS_OK;
}

static status product(ascend_call *c, const ascend_view *x, const ascend_view *w, const ascend_view *y, error *err) {
    ascend_view turned = ascend_turned(*w);
    ASCEND_CALL(c, aclnnMm, ascend_tensor(c, x), ascend_tensor(c, &turned), ascend_tensor(c, y), 0);
    return STATUS_OK;
}

static status product_of(ascend_backend *b, const op *o, const products *p, int64_t e, const ascend_view *y,
                         error *err) {
    if (p->pieces.n == 1) {
        ascend_view w = weight_of(b, o, p, e, 0);
        return product(&b->call, &p->x, &w, y, err);
    }
    for (int i = 0; i < p->pieces.n; i++) {
        ascend_view x = ascend_piece(p->pieces.x, i), part = ascend_piece_part(&p->pieces, i),
                    w = weight_of(b, o, p, e, i);
        TRY(product(&b->call, &x, &w, &part, err));
    }
    return ascend_pieces_end(b, &p->pieces, NULL, y, err);
}

// An expert's results for all rows, and out = what the slots that chose it take. e: its number, or its place in the tile's list.
static status one_expert(ascend_backend *b, const op *o, int t, const products *p, int64_t e, error *err) {
    ascend_call *c = &b->call;
    ascend_view ids = ascend_rows_view(b, &o->in[2], t), out = ascend_rows_view(b, &o->out[0], t);
    int64_t tile = b->rows.tile, used = ids.dim[1], n = out.dim[2], slots = p->x.dim[0] / tile;
    ascend_view y = VIEW(b->scratch.expert_product, out.type, tile * slots, n),
                taken = VIEW(b->scratch.expert_product, out.type, tile, slots, n),
                number = p->gathered ? list_of(b, t, 1, o->in[1].dim[0]) : VIEW(b->scratch.expert_number, ACL_INT32, 1),
                chosen = VIEW(b->scratch.expert_chosen, ACL_BOOL, tile, used),
                mask = VIEW(b->scratch.expert_chosen, ACL_BOOL, tile, used, 1);
    number.offset += e;
    if (p->gathered) TRY(gather_weight(b, o, p, &number, err));
    TRY(product_of(b, o, p, e, &y, err));
    ASCEND_CALL(c, aclnnEqTensor, ascend_tensor(c, &ids), ascend_tensor(c, &number), ascend_tensor(c, &chosen));
    ASCEND_CALL(c, aclnnSWhere, ascend_tensor(c, &mask), ascend_tensor(c, &taken), ascend_tensor(c, &out),
                ascend_tensor(c, &out));
    return STATUS_OK;
}

status ascend_experts_composed(ascend_backend *b, const op *o, int t, error *err) {
    int64_t experts = o->in[1].dim[0], chosen = most_chosen(b, t, o->in[2].dim[1], experts);
    products p = {.x = ascend_rows_view(b, &o->in[0], t), .pieces = {.n = 1}, .gathered = gathers(chosen, experts)};
    if (p.x.rank == 3) { // a row for every slot
        p.x.dim[0] *= p.x.dim[1], p.x.stride[0] = p.x.stride[1];
        p.x.dim[1] = p.x.dim[2], p.x.stride[1] = 1, p.x.rank = 2;
    }
    if (ascend_pieces_of(b, o) > 1) TRY(ascend_pieces_begin(b, o, &p.x, &p.pieces, err));
    for (int64_t e = 0; e < (p.gathered ? chosen : experts); e++) TRY(one_expert(b, o, t, &p, e, err));
    return STATUS_OK;
}

// The sum over slots of p * x.
status ascend_combine_composed(ascend_backend *b, const op *o, int t, error *err) {
    ascend_call *c = &b->call;
    ascend_view x = ascend_rows_view(b, &o->in[0], t), p = ascend_rows_view(b, &o->in[1], t),
                out = ascend_rows_view(b, &o->out[0], t), half = VIEW(b->scratch.expert_p, x.type, p.dim[0], p.dim[1]),
                factor = VIEW(b->scratch.expert_p, x.type, p.dim[0], p.dim[1], 1),
                product = VIEW(b->scratch.expert_product, x.type, x.dim[0], x.dim[1], x.dim[2]);
    int64_t over_slots = 1;
    ASCEND_CALL(c, aclnnCast, ascend_tensor(c, &p), x.type, ascend_tensor(c, &half));
    ASCEND_CALL(c, aclnnMul, ascend_tensor(c, &x), ascend_tensor(c, &factor), ascend_tensor(c, &product));
    ASCEND_CALL(c, aclnnReduceSum, ascend_tensor(c, &product), ascend_ints(c, &over_slots, 1), false, x.type,
                ascend_tensor(c, &out));
    return STATUS_OK;
}
