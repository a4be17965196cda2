#include "backend/cpu/cpu.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "backend/cpu/kv_store.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/pages.h"
#include "base/clock.h"
#include "base/fpenv.h"

// ---- the table: what runs an operation -----------------------------------------------------------------------------------

// An operation without its function does not link. Types that a function cannot do are cpu_supports' to refuse.
static cpu_op_fn *const cpu_ops[OP_COUNT] = {
#define CPU_OP_ROW(name, fn, flops, text) [OP_##name] = cpu_##fn,
    OPCODE_LIST(CPU_OP_ROW)
#undef CPU_OP_ROW
};

static status cpu_supports(const backend *base, const op *o, const weight_set *weights, error *err) {
    const cpu_backend *b = (const cpu_backend *)base;
    if (o->code != OP_LINEAR && o->code != OP_EXPERT_LINEAR) return STATUS_OK;
    const weight *w = &weights->w[o->in[1].id];
    for (int i = 0; i < w->n_parts; i++) {
        if (!b->k.tile[w->part[i].type]) {
            return error_set(err, STATUS_UNSUPPORTED, "the CPU backend has no %s kernel for weights of type %s (%s)",
                             opcode_name(o->code), dtype_get(w->part[i].type)->name, o->label);
        }
    }
    return STATUS_OK;
}

// ---- memory --------------------------------------------------------------------------------------------------------------

static int64_t segment_panels(int64_t n_rows) { return (n_rows + PANEL - 1) / PANEL; }

// The router is always computed in F32, whatever the file holds.
static dtype packed_type(const weight *w, int part) {
    return w->role == WEIGHT_ROUTER ? DTYPE_F32 : w->part[part].type;
}

static int64_t segment_bytes(const cpu_segment *s, int64_t n_experts) {
    return n_experts * s->n_panels * s->panel_bytes;
}

static bool keeps_rows(const cpu_backend *b, const weight *w) {
    return b->keeps_rows && (w->role == WEIGHT_LINEAR || w->role == WEIGHT_EXPERTS);
}

static const char *cpu_weight_layout(const backend *base, const weight *w) {
    if (w->role == WEIGHT_VECTOR) return "F32";
    if (w->role == WEIGHT_EMBED) return "rows of the file";
    if (keeps_rows((const cpu_backend *)base, w)) return "rows of the file, packed when used";
    return w->role == WEIGHT_ROUTER ? "panels of 16 rows, F32" : "panels of 16 rows";
}

static int64_t cpu_weight_bytes(const backend *base, const weight *w) {
    if (keeps_rows((const cpu_backend *)base, w)) return 0;
    if (w->role == WEIGHT_VECTOR) return w->n * (int64_t)sizeof(float);
    if (w->role == WEIGHT_EMBED) return 0;
    int64_t sum = 0;
    for (int i = 0; i < w->n_parts; i++) {
        sum += w->n_experts * segment_panels(w->part[i].n_rows) * pack_panel_bytes(packed_type(w, i), w->k);
    }
    return sum;
}

static int64_t key_block_bytes(const cache_desc *c) {
    return c->n_kv_heads * (KV_BLOCK / KV_PANEL) * kv_key_panel_bytes(c->k_type, c->head_dim);
}

static int64_t value_block_bytes(const cache_desc *c) {
    return c->n_kv_heads * KV_BLOCK * kv_value_row_bytes(c->v_type, c->head_dim);
}

static int64_t cpu_block_bytes(const backend *base, const cache_desc *c) {
    (void)base;
    return c->n_layers * (key_block_bytes(c) + value_block_bytes(c));
}

// ---- weights -------------------------------------------------------------------------------------------------------------

typedef struct pack_job {
    const weight *w;
    const weight_part *part;
    cpu_segment *s;
} pack_job;

void cpu_pack_panel(const cpu_segment *s, int64_t k, const void *const *rows, int64_t index, void *panel) {
    int64_t row = index % s->n_panels * PANEL, row_bytes = dtype_row_bytes(s->type, k);
    int n_rows = (int)(s->n_rows - row < PANEL ? s->n_rows - row : PANEL);
    pack_panel(s->type, panel, (const char *)rows[index / s->n_panels] + row * row_bytes, row_bytes, n_rows, k);
}

static void pack_task(void *ctx, int task, int thread) {
    (void)thread;
    const pack_job *j = ctx;
    cpu_pack_panel(j->s, j->w->k, j->part->data, task, j->s->panels + task * j->s->panel_bytes);
}

// A vector, or a router's matrix, as F32.
static status part_to_f32(const weight_part *p, int64_t n, float *dst, const weight *w, error *err) {
    const dtype_info *info = dtype_get(p->type);
    if (n % info->block_elems != 0) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s of layer %d has %lld numbers of type %s, which come in blocks of %d", w->label, w->layer,
                         (long long)n, info->name, info->block_elems);
    }
    info->to_f32(dst, p->data[0], n);
    return STATUS_OK;
}

static status upload_vector(cpu_weight *dst, const weight *w, error *err) {
    dst->vector = malloc((size_t)w->n * sizeof(float));
    if (!dst->vector) return error_no_memory(err, (unsigned long long)w->n * sizeof(float));
    int64_t at = 0;
    for (int i = 0; i < w->n_parts; i++) {
        TRY(part_to_f32(&w->part[i], w->part[i].n_rows, dst->vector + at, w, err));
        at += w->part[i].n_rows;
    }
    return STATUS_OK;
}

// Packed weights lie behind one another in one block, which big pages fill but for its end.
static status reserve_panels(cpu_backend *b, const weight_set *weights, error *err) {
    for (int i = 0; i < weights->n; i++) {
        const weight *w = &weights->w[i];
        if (!w->absorbed && w->role != WEIGHT_VECTOR) b->panels_bytes += cpu_weight_bytes(&b->base, w);
    }
    b->panels = pages_alloc(b->panels_bytes);
    return b->panels ? STATUS_OK : error_no_memory(err, (unsigned long long)b->panels_bytes);
}

static status upload_segment(cpu_backend *b, const weight *w, int i, cpu_segment *s, error *err) {
    s->panels = b->panels + b->panels_used;
    b->panels_used += segment_bytes(s, w->n_experts);
    assert(b->panels_used <= b->panels_bytes); // absorbed weights are not uploaded
    weight_part part = w->part[i];
    float *f32 = NULL;
    const void *f32_data[1];
    if (part.type != s->type) {
        f32 = malloc((size_t)(part.n_rows * w->k) * sizeof *f32);
        if (!f32) return error_no_memory(err, (unsigned long long)(part.n_rows * w->k) * sizeof *f32);
        status st = part_to_f32(&part, part.n_rows * w->k, f32, w, err);
        if (st) return free(f32), st;
        f32_data[0] = f32;
        part = (weight_part){.type = s->type, .n_rows = part.n_rows, .data = f32_data};
    }
    pack_job job = {w, &part, s};
    int64_t tasks = w->n_experts * s->n_panels;
    if (tasks <= INT_MAX) pool_for(b->threads, (int)tasks, pack_task, &job);
    free(f32);
    if (tasks > INT_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "%s of layer %d has %lld panels, more than %d", w->label, w->layer,
                         (long long)tasks, INT_MAX);
    return STATUS_OK;
}

static status cpu_weight_upload(backend *base, const weight_set *weights, int id, error *err) {
    cpu_backend *b = (cpu_backend *)base;
    if (!b->weights) {
        b->weights = calloc((size_t)weights->n, sizeof *b->weights);
        if (!b->weights) return error_no_memory(err, (unsigned long long)weights->n * sizeof *b->weights);
        b->n_weights = weights->n;
        TRY(reserve_panels(b, weights, err));
    }
    const weight *w = &weights->w[id];
    cpu_weight *dst = &b->weights[id];
    dst->k = w->k;
    if (w->role == WEIGHT_VECTOR) return upload_vector(dst, w, err);
    if (w->role == WEIGHT_EMBED) {
        dst->rows = w->part[0].data[0];
        dst->rows_type = w->part[0].type;
        return STATUS_OK;
    }
    int64_t first = 0;
    if (keeps_rows(b, w)) dst->rows = w->part[0].data[0], dst->rows_type = w->part[0].type; // a tied head's
    for (int i = 0; i < w->n_parts; i++) {
        cpu_segment *s = &dst->segment[i];
        *s = (cpu_segment){.type = packed_type(w, i),
                           .first = first,
                           .n_rows = w->part[i].n_rows,
                           .n_panels = segment_panels(w->part[i].n_rows),
                           .panel_bytes = pack_panel_bytes(packed_type(w, i), w->k)};
        dst->n_segments = i + 1;
        if (keeps_rows(b, w)) {
            s->rows = w->part[i].data;
        } else {
            TRY(upload_segment(b, w, i, s, err));
        }
        first += s->n_rows;
    }
    return STATUS_OK;
}

// ---- a step's memory -----------------------------------------------------------------------------------------------------

static scratch_sizes scratch_of(const cpu_backend *b, const op_list *g, const step_limits *limits) {
    scratch_sizes s = {0};
    for (int i = 0; i < g->n_ops; i++) {
        const op *o = &g->ops[i];
        if (o->code != OP_LINEAR && o->code != OP_EXPERT_LINEAR) continue;
        const weight *w = &g->weights->w[o->in[1].id];
        int64_t x_rows = limits->max_rows * (o->in[0].n_dims == 3 ? o->in[0].dim[1] : 1);
        for (int p = 0; p < w->n_parts; p++) {
            x_format format = b->k.x_format[packed_type(w, p)];
            int64_t bytes = x_rows * x_row_stride(format, w->k);
            if (format != X_F32 && bytes > s.x[format]) s.x[format] = bytes;
            int64_t panels = keeps_rows(b, w) ? TASK_PANELS * pack_panel_bytes(packed_type(w, p), w->k) : 0;
            if (panels > s.panels) s.panels = panels;
        }
        if (o->code != OP_EXPERT_LINEAR) continue;
        int64_t entries = limits->max_rows * o->in[2].dim[1], need = entries + 2 * w->n_experts + 1;
        if (need > s.experts) s.experts = need;
    }
    int64_t matmul = cpu_matmul_thread_bytes(b, g) + s.panels, attention = cpu_attention_thread_bytes(g);
    s.thread = matmul > attention ? matmul : attention;
    s.queries = cpu_attention_queries(g);
    s.split = cpu_attention_split_bytes(g, pool_n_threads(b->threads));
    return s;
}

static int64_t cpu_scratch_bytes(const backend *base, const op_list *g, const step_limits *limits) {
    const cpu_backend *b = (const cpu_backend *)base;
    scratch_sizes s = scratch_of(b, g, limits);
    int64_t x = 0;
    for (int f = 0; f < X_FORMAT_COUNT; f++) x += s.x[f];
    return x + (s.thread + (int64_t)sizeof(task_stretch)) * pool_n_threads(b->threads) + s.split +
           s.experts * (int64_t)sizeof(int32_t) +
           limits->max_rows * (int64_t)(sizeof(int16_t) + sizeof(char *) + 2 * sizeof(int32_t));
}

static status cpu_prepare(backend *base, const op_list *g, int64_t workspace_bytes, const cache_desc *desc,
                          const step_limits *limits, error *err) {
    cpu_backend *b = (cpu_backend *)base;
    b->list = g;
    b->cache = *desc;
    b->limits = *limits;
    b->workspace_bytes = workspace_bytes;
    b->key_block_bytes = key_block_bytes(desc);
    b->value_block_bytes = value_block_bytes(desc);
    b->sizes = scratch_of(b, g, limits);
    const scratch_sizes *s = &b->sizes;
    b->thread_bytes = s->thread;
    size_t rows = (size_t)limits->max_rows;
    b->workspace = pages_alloc(workspace_bytes);
    b->thread_scratch = pages_alloc(s->thread * pool_n_threads(b->threads));
    b->split = pages_alloc(s->split);
    b->stretches = aligned_alloc(64, (size_t)pool_n_threads(b->threads) * sizeof *b->stretches);
    bool all = b->split && b->stretches;
    for (int f = 0; f < X_FORMAT_COUNT; f++) {
        b->x_packed[f] = pages_alloc(s->x[f]);
        all = all && b->x_packed[f];
    }
    b->expert_rows = malloc((size_t)s->experts * sizeof(int32_t) + 1);
    b->tile_first = malloc((rows + 1) * sizeof *b->tile_first);
    b->tile_tree = malloc(rows * sizeof *b->tile_tree);
    b->fault = malloc(rows * sizeof *b->fault);
    b->fault_label = malloc(rows * sizeof *b->fault_label);
    int64_t kv_bytes = cpu_block_bytes(base, desc) * limits->n_blocks;
    b->kv = pages_alloc(kv_bytes);
    all = all && b->tile_first && b->tile_tree && b->fault && b->fault_label;
    if (b->workspace && b->thread_scratch && all && b->expert_rows && b->kv) return STATUS_OK;
    return error_set(err, STATUS_NO_MEMORY,
                     "out of memory: %lld bytes of cache and %lld of workspace do not fit; lower -c or -b",
                     (long long)kv_bytes, (long long)(workspace_bytes + cpu_scratch_bytes(base, g, limits)));
}

static void cpu_destroy(backend *base) {
    cpu_backend *b = (cpu_backend *)base;
    for (int i = 0; i < b->n_weights; i++) free(b->weights[i].vector);
    free(b->weights);
    pages_free(b->panels, b->panels_bytes);
    pages_free(b->workspace, b->workspace_bytes);
    pages_free(b->thread_scratch, b->sizes.thread * pool_n_threads(b->threads));
    pages_free(b->split, b->sizes.split);
    for (int f = 0; f < X_FORMAT_COUNT; f++) pages_free(b->x_packed[f], b->sizes.x[f]);
    free(b->expert_rows);
    free(b->stretches);
    free(b->tile_first);
    free(b->tile_tree);
    free(b->fault);
    free(b->fault_label);
    pages_free(b->kv, cpu_block_bytes(base, &b->cache) * b->limits.n_blocks);
    free(b);
}

// ---- running -------------------------------------------------------------------------------------------------------------

enum { SHARE_FROM = 1 << 15 }; // numbers touched below which waking threads costs more than it gives

void cpu_for(cpu_backend *b, int n, int64_t work, pool_fn *fn, void *ctx) {
    if (work >= SHARE_FROM) {
        pool_for(b->threads, n, fn, ctx);
    } else {
        for (int i = 0; i < n; i++) fn(ctx, i, 0); // cpu_run has entered the floating-point environment
    }
}

typedef struct row_blocks {
    pool_fn *fn;
    void *ctx;
    int n, per_block;
} row_blocks;

static void run_block(void *ctx, int i, int thread) {
    const row_blocks *j = ctx;
    int end = (i + 1) * j->per_block < j->n ? (i + 1) * j->per_block : j->n;
    for (int r = i * j->per_block; r < end; r++) j->fn(j->ctx, r, thread);
}

void cpu_for_rows(cpu_backend *b, int n, int64_t numbers, pool_fn *fn, void *ctx) {
    enum { BLOCK = 1 << 13 }; // numbers: what a thread asks for at a time
    row_blocks j = {fn, ctx, n, numbers < BLOCK ? (int)(BLOCK / numbers) : 1};
    cpu_for(b, (n + j.per_block - 1) / j.per_block, n * numbers, run_block, &j);
}

// The operation that made what `reader` found not to be finite. Sums are traced to their newest summand: the residual stream was
// checked by the norm before.
static const op *culprit(const cpu_backend *b, const op *reader, const tensor *t) {
    for (const op *o = reader; o >= b->list->ops; o--) {
        for (int i = 0; i < o->n_out && o->code != OP_ROPE; i++) { // a rotation in place makes nothing new
            if (o->out[i].where != t->where || o->out[i].id != t->id) continue;
            bool sum = o->code == OP_ADD || (o->code == OP_ADD_RMS_NORM && i == 1);
            if (!sum && o->code != OP_GATHER_ROWS) return o;
            t = &o->in[sum];
            break;
        }
    }
    return reader;
}

void cpu_mark_fault(cpu_backend *b, const op *o, const tensor *t, int row) {
    if (t->rows == ROWS_OUT) row = b->in->out_row[row];
    if (b->fault[row] != STEP_OK) return;
    o = culprit(b, o, t);
    b->fault[row] = (int16_t)o->layer;
    b->fault_label[row] = o->label;
}

static void check_logits_row(void *ctx, int r, int thread) {
    (void)thread;
    cpu_backend *b = ctx;
    const tensor *t = &b->list->logits;
    const float *x = cpu_row(b, t, r);
    if (!b->k.all_below(x, t->dim[1], INFINITY)) cpu_mark_fault(b, &b->list->ops[b->list->n_ops - 1], t, r);
}

static void run_observed(cpu_backend *b) {
    const run_observer *watch = b->observer;
    uint64_t first = clock_now_ns(), begin = first;
    for (int i = 0; i < b->list->n_ops; i++) {
        cpu_ops[b->list->ops[i].code](b, &b->list->ops[i]);
        uint64_t end = clock_now_ns();
        watch->op(watch->user, i, begin, end);
        begin = clock_now_ns();
    }
    watch->step(watch->user, b->in, first, begin);
}

static status cpu_run(backend *base, const step_inputs *in, step_result *out, error *err) {
    cpu_backend *b = (cpu_backend *)base;
    if (in->n_rows > b->limits.max_rows || in->n_out > b->limits.max_out) {
        return error_set(err, STATUS_INTERNAL, "a step of %d rows (%d wanted) exceeds the plan of %d (%d)", in->n_rows,
                         in->n_out, b->limits.max_rows, b->limits.max_out);
    }
    fpenv_state saved = fpenv_enter();
    b->in = in;
    for (int r = 0; r < in->n_rows; r++) b->fault[r] = STEP_OK, b->fault_label[r] = NULL;
    if (b->observer) {
        run_observed(b);
    } else {
        for (int i = 0; i < b->list->n_ops; i++) cpu_ops[b->list->ops[i].code](b, &b->list->ops[i]);
    }
    cpu_for(b, in->n_out, in->n_out * b->list->logits.dim[1], check_logits_row, b);
    fpenv_leave(saved);
    *out = (step_result){
        .logits = in->n_out ? cpu_row(b, &b->list->logits, 0) : NULL, .fault = b->fault, .fault_label = b->fault_label};
    return STATUS_OK;
}

static void cpu_observe(backend *base, const run_observer *observer) { ((cpu_backend *)base)->observer = observer; }

// ---- cache blocks --------------------------------------------------------------------------------------------------------

// Part i of a block: keys, then values, of one layer after the other.
static unsigned char *block_part(const cpu_backend *b, int block, int i, int64_t *bytes) {
    *bytes = i % 2 ? b->value_block_bytes : b->key_block_bytes;
    return i % 2 ? cpu_value_block(b, i / 2, block, 0) : cpu_key_block(b, i / 2, block, 0);
}

static void cpu_block_read(const backend *base, int block, void *dst) {
    const cpu_backend *b = (const cpu_backend *)base;
    unsigned char *at = dst;
    for (int i = 0; i < 2 * b->cache.n_layers; i++) {
        int64_t bytes;
        const unsigned char *part = block_part(b, block, i, &bytes);
        memcpy(at, part, (size_t)bytes);
        at += bytes;
    }
}

static void cpu_block_write(backend *base, int block, const void *src) {
    cpu_backend *b = (cpu_backend *)base;
    const unsigned char *at = src;
    for (int i = 0; i < 2 * b->cache.n_layers; i++) {
        int64_t bytes;
        unsigned char *part = block_part(b, block, i, &bytes);
        memcpy(part, at, (size_t)bytes);
        at += bytes;
    }
}

static void cpu_block_copy(backend *base, int to, int from) {
    cpu_backend *b = (cpu_backend *)base;
    for (int i = 0; i < 2 * b->cache.n_layers; i++) {
        int64_t bytes;
        unsigned char *dst = block_part(b, to, i, &bytes);
        memcpy(dst, block_part(b, from, i, &bytes), (size_t)bytes);
    }
}

static void cpu_position_copy(backend *base, const int to[2], const int from[2]) {
    cpu_backend *b = (cpu_backend *)base;
    if (to[0] == from[0] && to[1] == from[1]) return;
    int64_t d = b->cache.head_dim, panel = kv_key_panel_bytes(b->cache.k_type, d),
            row = kv_value_row_bytes(b->cache.v_type, d);
    for (int layer = 0; layer < b->cache.n_layers; layer++) {
        for (int h = 0; h < b->cache.n_kv_heads; h++) {
            unsigned char *key = cpu_key_block(b, layer, to[0], h) + to[1] / KV_PANEL * panel;
            const unsigned char *from_key = cpu_key_block(b, layer, from[0], h) + from[1] / KV_PANEL * panel;
            kv_copy_key(b->cache.k_type, key, to[1] % KV_PANEL, from_key, from[1] % KV_PANEL, d);
            memcpy(cpu_value_block(b, layer, to[0], h) + to[1] * row,
                   cpu_value_block(b, layer, from[0], h) + from[1] * row, (size_t)row);
        }
    }
}

static void cpu_block_poison(backend *base, int block, int first_pos) {
    cpu_backend *b = (cpu_backend *)base;
    int64_t d = b->cache.head_dim;
    float *nan = malloc((size_t)d * sizeof *nan);
    assert(nan); // for tests: poisoning nothing would show nothing
    for (int64_t i = 0; i < d; i++) nan[i] = NAN;
    for (int layer = 0; layer < b->cache.n_layers; layer++) {
        for (int h = 0; h < b->cache.n_kv_heads; h++) {
            for (int pos = first_pos; pos < KV_BLOCK; pos++) {
                unsigned char *panel =
                    cpu_key_block(b, layer, block, h) + pos / KV_PANEL * kv_key_panel_bytes(b->cache.k_type, d);
                b->k.attention[b->cache.k_type]->store_keys(panel, pos % KV_PANEL, 1, nan, d, d);
                unsigned char *row = cpu_value_block(b, layer, block, h) + pos * kv_value_row_bytes(b->cache.v_type, d);
                b->k.attention[b->cache.v_type]->store_value(row, nan, d);
            }
        }
    }
    free(nan);
}

static const backend_vtable cpu_vtable = {
    .name = "cpu",
    .destroy = cpu_destroy,
    .supports = cpu_supports,
    .weight_bytes = cpu_weight_bytes,
    .weight_layout = cpu_weight_layout,
    .block_bytes = cpu_block_bytes,
    .scratch_bytes = cpu_scratch_bytes,
    .weight_upload = cpu_weight_upload,
    .prepare = cpu_prepare,
    .run = cpu_run,
    .block_read = cpu_block_read,
    .block_write = cpu_block_write,
    .block_copy = cpu_block_copy,
    .position_copy = cpu_position_copy,
    .block_poison = cpu_block_poison,
    .observe = cpu_observe,
};

status cpu_backend_create(backend **out, pool *threads, cpu_level level, error *err) {
    *out = NULL;
    cpu_backend *b = calloc(1, sizeof *b);
    if (!b) return error_no_memory(err, sizeof *b);
    b->base.vt = &cpu_vtable;
    b->threads = threads;
    cpu_kernels_init(&b->k, level);
    b->fetches_near = cpu_fetches_near();
    if (cpu_reads_one_stream()) b->k.block_panels = 1;
    *out = &b->base;
    return STATUS_OK;
}

void cpu_backend_keep_rows(backend *b) { ((cpu_backend *)b)->keeps_rows = true; }
