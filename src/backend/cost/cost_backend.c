// The vtable over cost.c: the order of calls and the checks are those of every backend, the numbers are zeros.
#include <stdlib.h>
#include <string.h>

#include "backend/cost/cost.h"
#include "backend/cost/hardware.h"
#include "backend/cost/named_devices.h"

typedef struct cost_backend {
    backend base;
    hardware hardware;
    const op_list *list; // borrowed
    cache_desc cache;
    step_limits limits;
    op_cost *op;   // owned [list->n_ops]
    float *logits; // owned [max_out][n_vocab], zeros
    int16_t *fault;
    const char **fault_label; // owned [max_rows] each
    step_cost last;
} cost_backend;

static void cost_destroy(backend *base) {
    cost_backend *b = (cost_backend *)base;
    free(b->op);
    free(b->logits);
    free(b->fault);
    free(b->fault_label);
    free(b);
}

static status cost_supports(const backend *base, const op *o, const weight_set *weights, error *err) {
    (void)base;
    (void)weights;
    if (cost_knows(o->code)) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED, "the cost backend has no formula for operation %d (%s)", (int)o->code,
                     o->label);
}

static int64_t cost_weight_bytes(const backend *base, const weight *w) {
    (void)base;
    return weight_file_bytes(w);
}

static int64_t cost_block_bytes(const backend *base, const cache_desc *c) {
    (void)base;
    return KV_BLOCK * c->n_layers * cost_position_bytes(c);
}

// The largest of the buffers that parts from other ranks arrive in.
static int64_t cost_scratch_bytes(const backend *base, const op_list *g, const step_limits *limits) {
    const cost_backend *b = (const cost_backend *)base;
    double most = 0;
    for (int i = 0; i < g->n_ops; i++) {
        const op *o = &g->ops[i];
        double rows = o->out[0].rows == ROWS_OUT ? limits->max_out : limits->max_rows;
        double bytes = cost_exchange_of(o, g->weights, rows, &b->hardware).buffer_bytes;
        if (bytes > most) most = bytes;
    }
    return (int64_t)most;
}

static status cost_weight_upload(backend *base, const weight_set *weights, int id, error *err) {
    (void)base;
    (void)weights;
    (void)id;
    (void)err;
    return STATUS_OK; // shape and type are all there is to keep
}

static status cost_prepare(backend *base, const op_list *g, int64_t workspace_bytes, const cache_desc *desc,
                           const step_limits *limits, error *err) {
    (void)workspace_bytes;
    cost_backend *b = (cost_backend *)base;
    b->list = g;
    b->cache = *desc;
    b->limits = *limits;
    size_t rows = (size_t)limits->max_rows, out = (size_t)limits->max_out, vocab = (size_t)g->logits.dim[1];
    b->op = calloc((size_t)g->n_ops + 1, sizeof *b->op);
    b->logits = calloc(out * vocab + 1, sizeof *b->logits); // untouched, so address space more than memory
    b->fault = malloc(rows * sizeof *b->fault + 1);
    b->fault_label = calloc(rows + 1, sizeof *b->fault_label);
    if (!b->op || !b->logits || !b->fault || !b->fault_label) {
        return error_set(err, STATUS_NO_MEMORY,
                         "out of memory for the logits of %d rows and the costs of %d operations", limits->max_out,
                         g->n_ops);
    }
    for (size_t r = 0; r < rows; r++) b->fault[r] = STEP_OK;
    return STATUS_OK;
}

static status cost_run(backend *base, const step_inputs *in, step_result *out, error *err) {
    cost_backend *b = (cost_backend *)base;
    if (in->n_rows > b->limits.max_rows || in->n_out > b->limits.max_out) {
        return error_set(err, STATUS_INTERNAL, "a step of %d rows (%d wanted) exceeds the plan of %d (%d)", in->n_rows,
                         in->n_out, b->limits.max_rows, b->limits.max_out);
    }
    cost_step step = cost_step_of(in);
    b->last = (step_cost){.n_ops = b->list->n_ops, .op = b->op};
    for (int i = 0; i < b->list->n_ops; i++) {
        b->op[i] = cost_of_op(&b->list->ops[i], b->list->weights, &b->cache, &step, &b->hardware);
        op_cost_add(&b->last.total, &b->op[i]);
    }
    *out = (step_result){.logits = in->n_out ? b->logits : NULL, .fault = b->fault, .fault_label = b->fault_label};
    return STATUS_OK;
}

// The cache holds nothing, so its blocks are zeros wherever they come from.
static void cost_block_read(const backend *base, int block, void *dst) {
    (void)block;
    memset(dst, 0, (size_t)cost_block_bytes(base, &((const cost_backend *)base)->cache));
}

static void cost_block_write(backend *base, int block, const void *src) {
    (void)base;
    (void)block;
    (void)src;
}

static void cost_block_copy(backend *base, int to, int from) {
    (void)base;
    (void)to;
    (void)from;
}

static void cost_position_copy(backend *base, const int to[2], const int from[2]) {
    (void)base;
    (void)to;
    (void)from;
}

static void cost_block_poison(backend *base, int block, int first_pos) {
    (void)base;
    (void)block;
    (void)first_pos;
}

static const backend_vtable cost_vtable = {
    .name = "cost",
    .destroy = cost_destroy,
    .supports = cost_supports,
    .weight_bytes = cost_weight_bytes,
    .block_bytes = cost_block_bytes,
    .scratch_bytes = cost_scratch_bytes,
    .weight_upload = cost_weight_upload,
    .prepare = cost_prepare,
    .run = cost_run,
    .block_read = cost_block_read,
    .block_write = cost_block_write,
    .block_copy = cost_block_copy,
    .position_copy = cost_position_copy,
    .block_poison = cost_block_poison,
};

static status describe(hardware *h, const char *device, int n_ranks, error *err) {
    const char *text = named_device(device);
    if (text) {
        TRY(hardware_parse(h, text, strlen(text), device, err));
        h->passes = NAMED_DEVICE_PASSES;
    } else {
        status s = hardware_read(h, device, err);
        if (s == STATUS_NOT_FOUND) {
            return error_set(err, s, "there is no device and no file named %s; the devices are %s", device,
                             NAMED_DEVICES_TEXT);
        }
        if (s) return s;
    }
    h->n_ranks = n_ranks;
    if (n_ranks <= 1 || h->link_bandwidth > 0) return STATUS_OK;
    return error_set(err, STATUS_BAD_ARGUMENT,
                     "%s describes no ranks_link, without which %d ranks cannot be planned; docs/plan.md shows one",
                     device, n_ranks);
}

status cost_backend_create(backend **out, const char *device, int n_ranks, error *err) {
    *out = NULL;
    cost_backend *b = calloc(1, sizeof *b);
    if (!b) return error_no_memory(err, sizeof *b);
    b->base.vt = &cost_vtable;
    status s = describe(&b->hardware, device, n_ranks, err);
    if (s) {
        free(b);
        return s;
    }
    *out = &b->base;
    return STATUS_OK;
}

const hardware *cost_backend_hardware(const backend *b) { return &((const cost_backend *)b)->hardware; }
const step_cost *cost_backend_last(const backend *b) { return &((const cost_backend *)b)->last; }
