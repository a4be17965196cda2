// The backend's table of functions: what is supported, memory, and the step.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ascend/internal.h"
#include "base/clock.h"

static ascend_op_fn *const op_table[OP_COUNT] = {
#define ASCEND_OP_ROW(name, fn, flops, text) [OP_##name] = ascend_##fn,
    OPCODE_LIST(ASCEND_OP_ROW)
#undef ASCEND_OP_ROW
};

// ---- views -----------------------------------------------------------------------------------------------------------------

ascend_view ascend_rows_view(const ascend_backend *b, const tensor *t, int tile) {
    ascend_view v = {
        .data = (char *)b->temps + b->list->temps[t->id].offset, .type = b->temp_type[t->id], .rank = t->n_dims};
    for (int i = 0; i < t->n_dims; i++) v.dim[i] = t->dim[i], v.stride[i] = t->stride[i];
    v.dim[0] = t->rows == ROWS_OUT ? b->rows.out_tile : b->rows.tile;
    v.offset = t->offset + tile * v.dim[0] * t->stride[0];
    return v;
}

ascend_view ascend_weight_view(const ascend_backend *b, const tensor *w) {
    const ascend_weight *o = &b->weights[w->id];
    ascend_view v = VIEW(o->data, o->type, w->dim[0], w->n_dims > 1 ? w->dim[1] : 0, w->n_dims > 2 ? w->dim[2] : 0);
    v.nz = o->nz;
    return v;
}

ascend_view ascend_turned(ascend_view v) {
    ascend_view r = v;
    r.dim[v.rank - 2] = v.dim[v.rank - 1], r.dim[v.rank - 1] = v.dim[v.rank - 2];
    r.stride[v.rank - 2] = v.stride[v.rank - 1], r.stride[v.rank - 1] = v.stride[v.rank - 2];
    return r;
}

ascend_view ascend_flat(ascend_view v) {
    if (v.rank == 3) v.dim[1] *= v.dim[2], v.stride[1] = v.stride[2], v.rank = 2;
    return v;
}

ascend_view ascend_input_view(const ascend_backend *b, int at, int n) {
    ascend_view v = VIEW(b->inputs, ACL_INT32, n);
    v.offset = at;
    return v;
}

void *ascend_logits(const ascend_backend *b) { return (char *)b->temps + b->list->temps[b->list->logits.id].offset; }

aclDataType ascend_logits_type(const ascend_backend *b) { return b->temp_type[b->list->logits.id]; }

int ascend_tiles(const ascend_backend *b, const tensor *t) {
    return t->rows == ROWS_OUT ? b->rows.n_out_tiles : b->rows.n_tiles;
}

// ---- what is supported -----------------------------------------------------------------------------------------------------

// Types only; whether chip and library take the operators with these shapes is asked of them in prepare, before anything runs.
static status ascend_supports(const backend *base, const op *o, const weight_set *weights, error *err) {
    const ascend_backend *b = (const ascend_backend *)base;
    char text[128];
    TRY(ascend_pieces_supported(b, o, err));
    if ((o->code == OP_LINEAR || o->code == OP_EXPERT_LINEAR) && o->args.linear.gated)
        return error_set(
            err, STATUS_UNSUPPORTED,
            "%s of layer %d holds gate and up in one product, which %s has no operator for; leave out PASS_FUSE_SWIGLU",
            o->label, o->layer, ascend_device_text(&b->device, text));
    for (int i = 0; i < o->n_in; i++) {
        if (o->in[i].where != STORAGE_WEIGHT) continue;
        const weight *w = &weights->w[o->in[i].id];
        for (int p = 0; p < w->n_parts; p++) {
            if (dtype_get(w->part[p].type)->to_f32) continue;
            return error_set(err, STATUS_UNSUPPORTED,
                             "%s of layer %d is of type %s, which %s cannot have converted to %s", w->label, w->layer,
                             dtype_get(w->part[p].type)->name, ascend_device_text(&b->device, text),
                             dtype_get(b->type)->name);
        }
    }
    return STATUS_OK;
}

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// ---- sizes -----------------------------------------------------------------------------------------------------------------

// What grows with the context beside the cache: rotation tables, and without the fused operator keys, values, scores and weights of a
// sequence. As long as the context is not decided it is the model's.
static int64_t context_bytes(const ascend_backend *b, const op *attention, const step_limits *l) {
    int64_t positions = ascend_pad(l->max_context ? l->max_context : l->model_context, KV_BLOCK),
            head_dim = attention->args.attention.head_dim,
            key_row = attention->args.attention.n_kv_heads * head_dim * 2;
    int64_t bytes = 2 * positions * head_dim * 2;
    if (!ascend_attention_fused(b, attention))
        bytes += 2 * positions * key_row + 2 * attention->in[0].dim[1] * ATTENTION_ROWS * positions * 2;
    return bytes;
}

static int64_t ascend_scratch_bytes(const backend *base, const op_list *g, const step_limits *l) {
    const ascend_backend *b = (const ascend_backend *)base;
    int64_t norms = 0, row = 0, behind = 0, extra = 0, context = 0;
    for (int i = 0; i < g->n_ops; i++) {
        const op *o = &g->ops[i];
        norms += o->code == OP_RMS_NORM || o->code == OP_ADD_RMS_NORM;
        int64_t key_row = (int64_t)o->args.attention.n_kv_heads * o->args.attention.head_dim * 2;
        if (o->code == OP_ATTENTION) behind = max64(behind, (ascend_seen_blocks(l) - l->n_blocks) * KV_BLOCK * key_row);
        if (o->code != OP_ATTENTION) continue;
        row = max64(row, tensor_row_len(&o->in[0]));
        extra += 2 * EXTRA_BLOCKS * KV_BLOCK * key_row;
        context = max64(context, context_bytes(b, o, l));
    }
    int64_t tiles = b->spec.tile < l->max_rows ? b->spec.tile : l->max_rows;
    return 2 * tiles * ATTENTION_ROWS * row * 2 + norms * ascend_pad(l->max_rows, b->spec.tile) * 4 + behind + extra +
           context + ascend_select_bytes(l->max_out) + ascend_pieces_bytes(b, g) + (64 << 20);
}

static int64_t ascend_memory_available(const backend *base) {
    const ascend_backend *b = (const ascend_backend *)base;
    size_t left = 0, total = 0;
    error err;
    bool known =
        !ascend_device_enter(&b->device, &err) && b->device.lib.aclrtGetMemInfo(ACL_HBM_MEM, &left, &total) == 0;
    return known ? (int64_t)left : INT64_MAX; // the allocations will tell
}

// ---- prepare ---------------------------------------------------------------------------------------------------------------

// Temporaries are in the activations' type, except what the router makes.
static status choose_types(ascend_backend *b, error *err) {
    const op_list *g = b->list;
    b->temp_type = calloc((size_t)g->n_temps + 1, sizeof *b->temp_type);
    b->norm_slot = calloc((size_t)g->n_ops + 1, sizeof *b->norm_slot);
    if (!b->temp_type || !b->norm_slot)
        return error_no_memory(err, (unsigned long long)g->n_temps * sizeof *b->temp_type);
    for (int i = 0; i < g->n_temps; i++) b->temp_type[i] = g->temps[i].type == DTYPE_I32 ? ACL_INT32 : ascend_act(b);
    for (int i = 0; i < g->n_ops; i++) {
        const op *o = &g->ops[i];
        bool norm = (o->code == OP_RMS_NORM || o->code == OP_ADD_RMS_NORM) && o->in[0].n_dims == 2;
        b->norm_slot[i] = norm ? b->n_norms++ : -1;
        if (o->code == OP_LINEAR) {
            const ascend_weight *w = &b->weights[o->in[1].id];
            if (w->type == ACL_FLOAT) b->temp_type[o->out[0].id] = ACL_FLOAT;
        }
        if (o->code == OP_ROUTER_TOPK) b->temp_type[o->out[1].id] = b->temp_type[o->in[0].id];
    }
    return STATUS_OK;
}

typedef struct scratch_need { // the largest of each over the list's operations
    int64_t rope, router, sorted, entries, experts, head_rows;
} scratch_need;

static scratch_need measure_scratch(const ascend_backend *b) {
    scratch_need n = {0};
    for (int i = 0; i < b->list->n_ops; i++) {
        const op *o = &b->list->ops[i];
        const tensor *x = &o->in[0];
        if (o->code == OP_ROPE) n.rope = max64(n.rope, tensor_row_len(x));
        if (o->code == OP_LINEAR && b->weights[o->in[1].id].type == ACL_FLOAT) n.router = max64(n.router, x->dim[1]);
        if (o->n_in > 0 && x->n_dims == 3) n.head_rows = max64(n.head_rows, x->dim[1]);
        if (o->code != OP_EXPERT_LINEAR) continue;
        n.sorted = max64(n.sorted, o->in[2].dim[1] * x->dim[x->n_dims - 1]);
        n.entries = max64(n.entries, o->in[2].dim[1]);
        n.experts = max64(n.experts, o->in[1].dim[0]);
    }
    return n;
}

static status alloc_scratch(ascend_backend *b, error *err) {
    ascend_device *d = &b->device;
    ascend_scratch *s = &b->scratch;
    scratch_need n = measure_scratch(b);
    int64_t tile = ascend_most_tile(b), rows = ascend_pad(b->limits.max_rows, b->spec.tile);
    for (int i = 0; i < 3 && n.rope; i++)
        TRY(ascend_device_alloc(d, tile * n.rope * 2, "rotated heads", &s->rope[i], err));
    if (n.router) TRY(ascend_device_alloc(d, tile * n.router * 4, "the router's rows", &s->router, err));
    if (n.head_rows) TRY(ascend_device_alloc(d, tile * n.head_rows * 4, "head norms", &s->head_rstd, err));
    TRY(ascend_device_alloc(d, b->n_norms * rows * 4 + 32, "norms", &s->rstd, err));
    if (!n.entries) return STATUS_OK;
    TRY(ascend_device_alloc(d, tile * n.sorted * 2, "rows by expert", &s->experts, err));
    TRY(ascend_device_alloc(d, tile * n.entries * 4, "experts of rows", &s->expert_ids, err));
    TRY(ascend_device_alloc(d, rows * n.entries * 4, "places of rows", &s->expert_row, err));
    TRY(ascend_device_alloc(d, rows / b->spec.tile * n.experts * 4, "rows of each expert", &s->expert_count, err));
    TRY(ascend_device_alloc(d, rows / b->spec.tile * n.experts * 8, "rows of each expert", &s->expert_count64, err));
    return ascend_device_alloc(d, tile * n.entries * 4, "experts' factors", &s->expert_p, err);
}

static status alloc_cache(ascend_backend *b, error *err) {
    b->n_blocks = b->limits.n_blocks + EXTRA_BLOCKS;
    b->layer_bytes = (int64_t)b->n_blocks * KV_BLOCK * b->cache.n_kv_heads * b->cache.head_dim * 2;
    b->n_seen_blocks = ascend_seen_blocks(&b->limits);
    int64_t behind = b->layer_bytes / b->n_blocks * (b->n_seen_blocks - b->n_blocks);
    int64_t bytes = 2 * b->cache.n_layers * b->layer_bytes + behind;
    TRY(ascend_device_alloc(&b->device, bytes, "the cache", &b->kv, err));
    for (int part = 0; part < 2 * b->cache.n_layers; part++) { // finite from the start (cache.c)
        void *at = ascend_cache_of(b, part / 2, part % 2);
        size_t n = (size_t)b->layer_bytes;
        TRY(ascend_check(&b->device, b->device.lib.aclrtMemset(at, n, 0, n), "aclrtMemset", err));
    }
    return STATUS_OK;
}

static status alloc_host(ascend_backend *b, error *err) {
    const ascend_library *lib = &b->device.lib;
    size_t rows = (size_t)ascend_pad(b->limits.max_rows, b->spec.tile), vocab = (size_t)b->list->logits.dim[1];
    size_t logits = (size_t)b->limits.max_out * vocab, each = ascend_logits_type(b) == ACL_FLOAT ? 4 : 2;
    void *host;
    TRY(ascend_check(&b->device, lib->aclrtMallocHost(&host, logits * each + 32), "aclrtMallocHost", err));
    b->host_logits = host;
    TRY(ascend_check(&b->device, lib->aclrtMallocHost(&host, (size_t)b->n_norms * rows * 4 + 32), "aclrtMallocHost",
                     err));
    b->host_rstd = host;
    b->logits = malloc(logits * sizeof *b->logits + 1);
    b->fault = malloc(rows * sizeof *b->fault);
    b->fault_op = malloc(rows * sizeof *b->fault_op);
    b->banned = calloc(rows, sizeof *b->banned);
    b->banned_by = malloc(rows * sizeof *b->banned_by);
    b->fault_label = malloc(rows * sizeof *b->fault_label);
    bool faults = b->fault && b->fault_op && b->banned && b->banned_by && b->fault_label;
    return b->logits && faults ? STATUS_OK : error_no_memory(err, logits * sizeof *b->logits);
}

status ascend_run_list(ascend_backend *b, error *err) {
    const op_list *g = b->list;
    for (int i = 0; i < g->n_ops; i++) {
        int skip = 0;
        b->call.o = &g->ops[i];
        TRY(op_table[g->ops[i].code](b, &g->ops[i], &skip, err));
        i += skip;
    }
    b->call.o = NULL;
    return STATUS_OK;
}

// The same, waiting for each operation: what one takes alone, the waiting included. One that was done with another took no time.
static status run_observed(ascend_backend *b, error *err) {
    const op_list *g = b->list;
    for (int i = 0, skip = 0; i < g->n_ops; i++) {
        uint64_t begin = clock_now_ns(), end = begin;
        if (skip > 0) {
            skip--;
        } else {
            b->call.o = &g->ops[i];
            TRY(op_table[g->ops[i].code](b, &g->ops[i], &skip, err));
            TRY(ascend_device_sync(&b->device, err));
            end = clock_now_ns();
        }
        b->observer->op(b->observer->user, i, begin, end);
    }
    b->call.o = NULL;
    return STATUS_OK;
}

static const char *ascend_remark(const backend *base) {
    const ascend_graphs *g = &((const ascend_backend *)base)->graphs;
    return g->remark[0] ? g->remark : NULL;
}

static const char *ascend_warning(const backend *base) {
    const ascend_graphs *g = &((const ascend_backend *)base)->graphs;
    return g->given_up.code ? g->given_up.text : NULL;
}

static void ascend_observe(backend *base, const run_observer *observer) {
    ((ascend_backend *)base)->observer = observer;
}

// One row at a position: every operation, or attention alone.
static status dry_row(ascend_backend *b, const int32_t *table, int32_t pos, const op *only, error *err) {
    const int32_t token = 0, seq = 0, out_row = 0;
    step_inputs in = {.n_rows = 1,
                      .n_out = 1,
                      .n_seqs = 1,
                      .token = &token,
                      .pos = &pos,
                      .seq = &seq,
                      .block_table = &table,
                      .out_row = &out_row};
    int skip;
    ascend_rows_fill(b, &in);
    b->call.o = only;
    return only ? ascend_attention(b, only, &skip, err) : ascend_run_list(b, err);
}

// Phase 1 of everything a step calls: what chip or library refuse is an error now, and the workspace suffices for any. Shapes depend
// on the block of a row's position alone, and only attention's on that. step_calls: how often one row's step calls an operator.
static status dry_run(ascend_backend *b, int64_t *step_calls, error *err) {
    int blocks = (b->limits.max_context + KV_BLOCK - 1) / KV_BLOCK;
    int32_t *table = calloc((size_t)blocks, sizeof *table);
    if (!table) return error_no_memory(err, (unsigned long long)blocks * sizeof *table);
    const op *attention = NULL;
    for (int i = 0; i < b->list->n_ops && !attention; i++) {
        if (b->list->ops[i].code == OP_ATTENTION) attention = &b->list->ops[i];
    }
    b->call.dry = true;
    status s = dry_row(b, table, b->limits.max_context - 1, NULL, err);
    *step_calls = b->call.calls;
    for (int i = 0; i < blocks && attention && !s; i++) s = dry_row(b, table, i * KV_BLOCK, attention, err);
    b->call.o = NULL;
    *step_calls -= b->call.calls;
    for (int n = 1; n <= b->limits.max_out && b->selection.top && !s;
         n += b->limits.max_out - 1 ? b->limits.max_out - 1 : 1)
        s = ascend_select_launch(b, n, err);
    *step_calls += b->call.calls;
    b->call.dry = false;
    free(table);
    if (s) return s;
    // Copies of rows in other numbers than one were not asked about; twice the largest is beyond what they take.
    uint64_t bytes = 2 * b->call.largest_workspace + 32;
    s = ascend_device_alloc(&b->device, (int64_t)bytes, "the operators' workspace", &b->call.workspace, err);
    if (!s) b->call.workspace_bytes = bytes;
    return s;
}

// As many as a step of one tile calls operators, three times over and once more for every further tile, so that the shapes that take
// turns find their own.
static status keep_executors(ascend_backend *b, int64_t step_calls, error *err) {
    enum { MOST = 16384 };
    const ascend_library *lib = &b->device.lib;
    if (!ascend_fuses(b, ASCEND_FUSED_EXECUTORS) || !lib->aclSetAclOpExecutorRepeatable) return STATUS_OK;
    int64_t n = step_calls * (2 + ascend_pad(b->limits.max_rows, b->spec.tile) / b->spec.tile);
    return ascend_executors_init(&b->call.executors, lib, n < MOST ? (int)n : MOST, err);
}

static status ascend_prepare(backend *base, const op_list *g, int64_t workspace_bytes, const cache_desc *desc,
                             const step_limits *limits, error *err) {
    ascend_backend *b = (ascend_backend *)base;
    b->list = g, b->cache = *desc, b->limits = *limits;
    TRY(ascend_device_enter(&b->device, err));
    TRY(ascend_weights_prepare(b, err));
    TRY(choose_types(b, err));
    TRY(ascend_device_alloc(&b->device, workspace_bytes, "the step's temporaries", &b->temps, err));
    TRY(ascend_rows_alloc(b, err));
    TRY(alloc_scratch(b, err));
    TRY(ascend_pieces_prepare(b, err));
    TRY(ascend_moe_prepare(b, err));
    TRY(ascend_attention_prepare(b, err));
    TRY(ascend_rope_prepare(b, g->weights, err));
    TRY(alloc_host(b, err));
    TRY(ascend_select_prepare(b, err));
    TRY(alloc_cache(b, err));
    TRY(ascend_graph_prepare(b, err));
    int64_t step_calls = 0;
    TRY(dry_run(b, &step_calls, err));
    return keep_executors(b, step_calls, err);
}

static void ascend_destroy(backend *base) {
    ascend_backend *b = (ascend_backend *)base;
    const ascend_library *lib = &b->device.lib;
    error err;
    ascend_device_enter(&b->device, &err);
    ascend_device_stop(&b->device);
    ascend_graph_free(b);
    ascend_executors_free(&b->call.executors);
    ascend_rows_free(b);
    ascend_select_free(b);
    if (b->host_logits) lib->aclrtFreeHost(b->host_logits);
    if (b->host_rstd) lib->aclrtFreeHost(b->host_rstd);
    ascend_device_close(&b->device);
    free(b->weights);
    free(b->temp_type);
    free(b->norm_slot);
    free(b->logits);
    free(b->fault);
    free(b->fault_op);
    free(b->banned);
    free(b->banned_by);
    free(b->fault_label);
    free(b);
}

// ---- the step --------------------------------------------------------------------------------------------------------------

static status copy_async(ascend_backend *b, void *dst, const void *src, size_t n, aclrtMemcpyKind kind, error *err) {
    if (n == 0) return STATUS_OK;
    return ascend_check(&b->device, b->device.lib.aclrtMemcpyAsync(dst, n, src, n, kind, b->device.stream),
                        "aclrtMemcpyAsync", err);
}

// Everything goes into the stream, then it is waited for once (twice where the largest logits left a doubt).
status ascend_run_step(ascend_backend *b, const step_inputs *in, error *err) {
    const ascend_rows *r = &b->rows;
    ascend_rows_fill(b, in);
    size_t norms = (size_t)b->n_norms * (size_t)(r->n_tiles * r->tile);
    TRY(copy_async(b, b->inputs, r->host, (size_t)r->n_ints * sizeof *r->host, ACL_MEMCPY_HOST_TO_DEVICE, err));
    uint64_t begin = clock_now_ns();
    TRY(b->observer ? run_observed(b, err) : ascend_graph_run(b, err));
    if (b->observer) b->observer->step(b->observer->user, in, begin, clock_now_ns());
    TRY(copy_async(b, b->host_rstd, b->scratch.rstd, norms * 4, ACL_MEMCPY_DEVICE_TO_HOST, err));
    TRY(ascend_select_begin(b, in, err));
    TRY(ascend_device_sync(&b->device, err));
    return ascend_select_end(b, in, err);
}

// Nothing of a step that failed may still run when the caller goes on, and what it wrote into the cache may be anything.
static void after_failure(ascend_backend *b, const step_inputs *in) {
    error again;
    if (ascend_device_sync(&b->device, &again) &&
        ascend_device_sync(&b->device, &again)) { // the first tells what failed
        if (!b->broken.code) b->broken = again;
        return;
    }
    for (int r = 0; r < in->n_rows; r++) b->fault[r] = STEP_FAULT_OUTSIDE;
    ascend_cache_clear_rows(b, in); // a failure makes the device a broken one
}

static status ascend_run(backend *base, const step_inputs *in, step_result *out, error *err) {
    ascend_backend *b = (ascend_backend *)base;
    if (b->broken.code) return error_set(err, b->broken.code, "the device failed before: %s", b->broken.text);
    if (in->n_rows > b->limits.max_rows || in->n_out > b->limits.max_out)
        return error_set(err, STATUS_INTERNAL, "a step of %d rows (%d wanted) exceeds the plan of %d (%d)", in->n_rows,
                         in->n_out, b->limits.max_rows, b->limits.max_out);
    TRY(ascend_device_enter(&b->device, err));
    memset(b->banned, 0, (size_t)in->n_rows * sizeof *b->banned);
    status s = ascend_run_step(b, in, err);
    if (!s) s = ascend_settle_faults(b, in, err);
    if (s) {
        after_failure(b, in);
        return s;
    }
    *out = (step_result){.logits = in->n_out ? b->logits : NULL,
                         .best = b->selection.on ? b->selection.best : NULL,
                         .fault = b->fault,
                         .fault_label = b->fault_label};
    return STATUS_OK;
}

// ---- creating --------------------------------------------------------------------------------------------------------------

static const backend_vtable ascend_vtable = {
    .name = "ascend",
    .destroy = ascend_destroy,
    .supports = ascend_supports,
    .weight_bytes = ascend_weight_bytes,
    .weight_layout = ascend_weight_layout,
    .block_bytes = ascend_block_bytes,
    .scratch_bytes = ascend_scratch_bytes,
    .memory_available = ascend_memory_available,
    .weight_upload = ascend_weight_upload,
    .prepare = ascend_prepare,
    .run = ascend_run,
    .block_read = ascend_block_read,
    .block_write = ascend_block_write,
    .block_copy = ascend_block_copy,
    .position_copy = ascend_position_copy,
    .block_poison = ascend_block_poison,
    .observe = ascend_observe,
    .remark = ascend_remark,
    .warning = ascend_warning,
};

// The type asked for, else that of the file's weights; nothing is converted unasked.
static status choose_type(ascend_backend *b, const ascend_options *o, error *err) {
    char text[128];
    dtype t = o->natural;
    if (o->type && (!dtype_from_name(str_from(o->type), &t) || (t != DTYPE_F16 && t != DTYPE_BF16)))
        return error_set(err, STATUS_BAD_ARGUMENT, "--dtype %s: weights are converted to f16 or bf16", o->type);
    if (t != DTYPE_F16 && t != DTYPE_BF16)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s computes with weights of F16 or BF16, not %s; convert them at load: --dtype %s",
                         ascend_device_text(&b->device, text), dtype_get(t)->name,
                         ascend_family_has_bf16(b->device.family) ? "bf16" : "f16");
    if (t == DTYPE_BF16 && !ascend_family_has_bf16(b->device.family))
        return error_set(err, STATUS_UNSUPPORTED, "%s has no BF16; convert the weights at load: --dtype f16",
                         ascend_device_text(&b->device, text));
    b->type = t;
    b->base.only_cache_type = &b->type;
    return STATUS_OK;
}

bool ascend_is_device(const char *device) {
    return strncmp(device, "ascend:", 7) == 0 || strncmp(device, "emu:", 4) == 0;
}

status ascend_backend_create(backend **out, const ascend_options *o, error *err) {
    *out = NULL;
    ascend_backend *b = calloc(1, sizeof *b);
    if (!b) return error_no_memory(err, sizeof *b);
    b->base.vt = &ascend_vtable;
    status s = ascend_spec_parse(o->device, &b->spec, err);
    if (!s) s = ascend_spec_set(&b->spec, "exact", o->exact, err);
    if (!s) s = ascend_spec_set(&b->spec, "graph", o->graph, err);
    if (!s) s = ascend_device_open(&b->device, &b->spec, err);
    if (s) {
        free(b);
        return s;
    }
    b->call.device = &b->device;
    b->base.row_tile = b->spec.tile;
    s = choose_type(b, o, err);
    if (s) {
        ascend_destroy(&b->base);
        return s;
    }
    *out = &b->base;
    return STATUS_OK;
}
