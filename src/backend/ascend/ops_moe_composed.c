// Mixtures of experts where the chip has no operators for routing: every expert computes every row, and each (row, slot) takes the
// result of the expert it chose. The results are those of the chosen experts alone, bit for bit; the work is that of all experts.
#include <stdlib.h>

#include "backend/ascend/internal.h"

bool ascend_moe_fused(const ascend_backend *b) {
    const ascend_library *lib = &b->device.lib;
    return ascend_fuses(b, ASCEND_FUSED_MOE) && lib->aclnnMoeGatingTopKSoftmaxV2 && lib->aclnnMoeInitRoutingV2 &&
           lib->aclnnMoeFinalizeRoutingV2 && (lib->aclnnGroupedMatmulV5 || lib->aclnnGroupedMatmulV4);
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

status ascend_moe_prepare(ascend_backend *b, error *err) {
    int64_t experts = 0, used = 0, width = 0;
    for (int i = 0; i < b->list->n_ops; i++) {
        const op *o = &b->list->ops[i];
        if (o->code != OP_EXPERT_LINEAR) continue;
        if (o->in[1].dim[0] > experts) experts = o->in[1].dim[0];
        if (o->out[0].dim[1] > used) used = o->out[0].dim[1];
        if (o->out[0].dim[2] > width) width = o->out[0].dim[2];
    }
    if (!experts || ascend_moe_fused(b)) return STATUS_OK;
    ascend_device *d = &b->device;
    ascend_scratch *s = &b->scratch;
    int64_t entries = ascend_most_tile(b) * used;
    if (width < 2 * experts) width = 2 * experts; // probabilities of all experts, in F32 perhaps
    TRY(upload_numbers(b, experts, err));
    TRY(ascend_device_alloc(d, entries, "chosen experts", &s->expert_chosen, err));
    TRY(ascend_device_alloc(d, entries * width * 2, "an expert's results", &s->expert_product, err));
    TRY(ascend_device_alloc(d, entries * 4, "probabilities", &s->topk_value, err));
    return ascend_device_alloc(d, entries * 8, "chosen experts", &s->topk_index, err);
}

// Softmax over all experts, the largest n_used, divided by their sum if the model asks for it.
status ascend_gate_composed(ascend_backend *b, const op *o, int t, error *err) {
    ascend_call *c = &b->call;
    ascend_view x = ascend_rows_view(b, &o->in[0], t), ids = ascend_rows_view(b, &o->out[0], t),
                p = ascend_rows_view(b, &o->out[1], t);
    int64_t tile = b->rows.tile, used = o->args.router.n_used, over_slots = 1;
    ascend_view all = VIEW(b->scratch.expert_product, x.type, tile, x.dim[1]),
                value = VIEW(b->scratch.topk_value, x.type, tile, used),
                index = VIEW(b->scratch.topk_index, ACL_INT64, tile, used),
                sum = VIEW(b->scratch.expert_p, x.type, tile, 1);
    ASCEND_CALL(c, aclnnSoftmax, ascend_tensor(c, &x), -1, ascend_tensor(c, &all));
    ASCEND_CALL(c, aclnnTopk, ascend_tensor(c, &all), used, 1, true, true,
                ascend_tensor(c, o->args.router.normalize ? &value : &p), ascend_tensor(c, &index));
    ASCEND_CALL(c, aclnnCast, ascend_tensor(c, &index), ACL_INT32, ascend_tensor(c, &ids));
    if (!o->args.router.normalize) return STATUS_OK;
    ASCEND_CALL(c, aclnnReduceSum, ascend_tensor(c, &value), ascend_ints(c, &over_slots, 1), true, x.type,
                ascend_tensor(c, &sum));
    ASCEND_CALL(c, aclnnDiv, ascend_tensor(c, &value), ascend_tensor(c, &sum), ascend_tensor(c, &p));
    return STATUS_OK;
}

// Expert e's rows of x, [rows, k] for every row or [rows * used, k] for every slot, and out = what the slots that chose e take.
static status one_expert(ascend_backend *b, const op *o, int t, int64_t e, error *err) {
    ascend_call *c = &b->call;
    ascend_view x = ascend_rows_view(b, &o->in[0], t), ids = ascend_rows_view(b, &o->in[2], t),
                out = ascend_rows_view(b, &o->out[0], t), w = ascend_turned(ascend_weight_view(b, &o->in[1]));
    int64_t tile = b->rows.tile, used = ids.dim[1], n = out.dim[2], slots = x.rank == 3 ? used : 1;
    if (x.rank == 3) x.dim[0] *= used, x.stride[0] = x.stride[1], x.dim[1] = x.dim[2], x.stride[1] = 1, x.rank = 2;
    ascend_view one = {
        .data = w.data, .type = w.type, .rank = 2, .dim = {w.dim[1], w.dim[2]}, .stride = {w.stride[1], w.stride[2]}};
    one.offset = e * w.stride[0];
    ascend_view y = VIEW(b->scratch.expert_product, out.type, tile * slots, n),
                taken = VIEW(b->scratch.expert_product, out.type, tile, slots, n),
                number = VIEW(b->scratch.expert_number, ACL_INT32, 1),
                chosen = VIEW(b->scratch.expert_chosen, ACL_BOOL, tile, used),
                mask = VIEW(b->scratch.expert_chosen, ACL_BOOL, tile, used, 1);
    number.offset = e;
    ASCEND_CALL(c, aclnnMm, ascend_tensor(c, &x), ascend_tensor(c, &one), ascend_tensor(c, &y), 0);
    ASCEND_CALL(c, aclnnEqTensor, ascend_tensor(c, &ids), ascend_tensor(c, &number), ascend_tensor(c, &chosen));
    ASCEND_CALL(c, aclnnSWhere, ascend_tensor(c, &mask), ascend_tensor(c, &taken), ascend_tensor(c, &out),
                ascend_tensor(c, &out));
    return STATUS_OK;
}

status ascend_experts_composed(ascend_backend *b, const op *o, int t, error *err) {
    int64_t experts = o->in[1].dim[0];
    for (int64_t e = 0; e < experts; e++) TRY(one_expert(b, o, t, e, err));
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
