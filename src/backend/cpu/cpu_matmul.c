// Projections: dense and by expert. This file decides which rows and panels are computed together, and by whom; the order of every
// sum is the tile kernel's (kernels.h), plus one binary tree over the pieces of a split dimension. Neither depends on the number
// of rows or threads.
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "backend/cpu/pack.h"

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Scratch of one thread: the stack of piece sums, then gathered activation rows.
static int64_t acc_bytes(void) {
    return (int64_t)PIECE_LEVELS * ROW_TILE * TASK_PANELS * PANEL * (int64_t)sizeof(float);
}

int64_t cpu_matmul_thread_bytes(const cpu_backend *b, const op_list *g) {
    int64_t row = 0;
    for (int i = 0; i < g->n_ops; i++) {
        if (g->ops[i].code != OP_EXPERT_LINEAR) continue;
        const weight *w = &g->weights->w[g->ops[i].in[1].id];
        for (int p = 0; p < w->n_parts; p++) {
            int64_t bytes = x_row_bytes(b->k.x_format[w->part[p].type], w->k);
            if (bytes > row) row = bytes;
        }
    }
    return round_up(acc_bytes() + ROW_TILE * round_up(row, 64), 64);
}

// The rows of one operand: `n` rows, `stride` bytes apart.
typedef struct x_rows {
    const unsigned char *data;
    int64_t stride;
} x_rows;

typedef struct quantize_job {
    cpu_backend *b;
    const tensor *x;
    x_format format;
    int64_t per_row; // slots of a row
    int64_t k;
} convert_job;

static void convert_one(void *ctx, int i, int thread) {
    (void)thread;
    const convert_job *j = ctx;
    const float *x = cpu_row(j->b, j->x, i / j->per_row) + (j->per_row > 1 ? i % j->per_row * j->x->stride[1] : 0);
    unsigned char *dst = j->b->x_packed[j->format] + i * j->b->sizes.x_row[j->format];
    const cpu_kernels *k = &j->b->k;
    (j->format == X_BLOCK32    ? k->quantize_row32
     : j->format == X_BLOCK256 ? k->quantize_row256
                               : k->round_row_bf16)(dst, x, j->k);
}

// Makes the rows of x available in a format: row (r, slot) is number r * per_row + slot.
static x_rows prepare_x(cpu_backend *b, const tensor *x, x_format format) {
    int64_t k = x->dim[x->n_dims - 1], per_row = x->n_dims == 3 ? x->dim[1] : 1;
    if (format == X_F32) {
        int64_t stride = x->n_dims == 3 ? x->stride[1] : x->stride[0];
        return (x_rows){(const unsigned char *)cpu_row(b, x, 0), stride * (int64_t)sizeof(float)};
    }
    int n = cpu_rows(b, x) * (int)per_row;
    convert_job job = {b, x, format, per_row, k};
    cpu_for(b, n, n * k * 2, convert_one, &job);
    return (x_rows){b->x_packed[format], b->sizes.x_row[format]};
}

// acc = the sums of a tile over all of k: `pieces` equal parts, each by the kernel from zero, added in a binary tree. The
// tile's acc is a stack of PIECE_LEVELS buffers whose first gets the result: piece i is pushed, then as many pairs are added as
// i + 1 has trailing zero bits.
static void tile_sum(const cpu_backend *b, dtype type, const matmul_tile *tile, int64_t k, int pieces) {
    int64_t size = (int64_t)ROW_TILE * TASK_PANELS * PANEL, used = tile->n_rows * tile->acc_stride;
    float *acc = tile->acc;
    int depth = 0;
    for (int i = 0; i < pieces; i++) {
        matmul_tile t = *tile;
        t.acc = acc + depth * size;
        memset(t.acc, 0, (size_t)used * sizeof(float));
        t.k0 = k / pieces * i;
        t.k1 = k / pieces * (i + 1);
        b->k.tile[type](&t);
        depth++;
        for (int done = i + 1; done % 2 == 0; done /= 2) {
            depth--;
            b->k.add(acc + (depth - 1) * size, acc + (depth - 1) * size, acc + depth * size, used);
        }
    }
}

static float *thread_acc(const cpu_backend *b, int thread) {
    return (float *)(void *)(b->thread_scratch + thread * b->thread_bytes);
}

// Panels [index, index + n) of one expert (counted through all experts), n <= TASK_PANELS: where they were packed, or packed now into
// the thread's scratch.
static const unsigned char *panels_at(const cpu_backend *b, const cpu_weight *w, const cpu_segment *s, int64_t index,
                                      int n, int thread) {
    if (s->panels) return s->panels + index * s->panel_bytes;
    unsigned char *dst = b->thread_scratch + (thread + 1) * b->thread_bytes - b->sizes.panels;
    for (int i = 0; i < n; i++) cpu_pack_panel(s, w->k, s->rows, index + i, dst + i * s->panel_bytes);
    return dst;
}

typedef struct linear_job {
    cpu_backend *b;
    const op *o;
    const cpu_weight *w;
    const float *bias;
    x_rows x[X_FORMAT_COUNT];
    int n_rows, panels_per_task;
    int first_task[WEIGHT_MAX_PARTS + 1]; // tasks of segment s: [first_task[s], first_task[s + 1])
} linear_job;

// Writes the first n columns of a tile's sums to rows row0.. of the result, behind column `first`; adds the bias if there is one.
static void store_columns(const linear_job *j, const matmul_tile *t, int row0, int64_t first, int64_t n) {
    for (int r = 0; r < t->n_rows; r++) {
        float *y = cpu_row(j->b, &j->o->out[0], row0 + r) + first;
        if (j->bias) {
            j->b->k.add(y, t->acc + r * t->acc_stride, j->bias + first, n);
        } else {
            memcpy(y, t->acc + r * t->acc_stride, (size_t)n * sizeof *y);
        }
    }
}

static void linear_task(const linear_job *j, int task, int thread) {
    int si = 0;
    while (task >= j->first_task[si + 1]) si++;
    const cpu_segment *s = &j->w->segment[si];
    int64_t panel = (int64_t)(task - j->first_task[si]) * j->panels_per_task;
    int n_panels = (int)(s->n_panels - panel < j->panels_per_task ? s->n_panels - panel : j->panels_per_task);
    int64_t n = n_panels * PANEL;
    if (panel * PANEL + n > s->n_rows) n = s->n_rows - panel * PANEL;
    const x_rows *x = &j->x[j->b->k.x_format[s->type]];
    float *acc = thread_acc(j->b, thread);
    const unsigned char *w = panels_at(j->b, j->w, s, panel, n_panels, thread);
    for (int row = 0; row < j->n_rows; row += ROW_TILE) {
        int n_rows = j->n_rows - row < ROW_TILE ? j->n_rows - row : ROW_TILE;
        matmul_tile t = {.acc = acc,
                         .acc_stride = n_panels * PANEL,
                         .w = w,
                         .panel_stride = s->panel_bytes,
                         .x = x->data + row * x->stride,
                         .x_stride = x->stride,
                         .n_rows = n_rows,
                         .n_panels = n_panels};
        tile_sum(j->b, s->type, &t, j->w->k, j->o->args.linear.pieces);
        store_columns(j, &t, row, s->first + panel * PANEL, n);
    }
}

// Stretch i, then what is left of the others. A thread reads one stretch of weights from its beginning on, so that what is fetched
// ahead of a task is what the thread's next task reads.
static void linear_stretches(void *ctx, int i, int thread) {
    const linear_job *j = ctx;
    int n = pool_n_threads(j->b->threads), task;
    for (int s = 0; s < n; s++) {
        task_stretch *from = &j->b->stretches[(i + s) % n];
        while ((task = atomic_fetch_add_explicit(&from->next, 1, memory_order_relaxed)) < from->end) {
            linear_task(j, task, thread);
        }
    }
}

// Panels per task: enough tasks that threads end together, few enough that a task streams a while and, of many rows, that they are
// not read too often.
static int choose_panels(const cpu_backend *b, int64_t total, int n_rows) {
    int64_t per_task = total / (pool_n_threads(b->threads) * (n_rows < ROW_TILE / 4 ? 8 : 4));
    return per_task >= TASK_PANELS ? TASK_PANELS : per_task >= 4 ? 4 : per_task >= 2 ? 2 : 1;
}

void cpu_linear(cpu_backend *b, const op *o) {
    const cpu_weight *w = &b->weights[o->in[1].id];
    linear_job j = {.b = b, .o = o, .w = w, .n_rows = cpu_rows(b, &o->in[0])};
    if (j.n_rows == 0) return;
    if (o->in[2].where != STORAGE_NONE) j.bias = b->weights[o->in[2].id].vector;
    int64_t total = 0;
    for (int s = 0; s < w->n_segments; s++) {
        x_format f = b->k.x_format[w->segment[s].type];
        if (!j.x[f].data) j.x[f] = prepare_x(b, &o->in[0], f);
        total += w->segment[s].n_panels;
    }
    j.panels_per_task = choose_panels(b, total, j.n_rows);
    for (int s = 0; s < w->n_segments; s++) {
        j.first_task[s + 1] =
            j.first_task[s] + (int)((w->segment[s].n_panels + j.panels_per_task - 1) / j.panels_per_task);
    }
    const int64_t n = pool_n_threads(b->threads), tasks = j.first_task[w->n_segments];
    for (int64_t i = 0; i < n; i++) {
        atomic_store_explicit(&b->stretches[i].next, (int)(tasks * i / n), memory_order_relaxed);
        b->stretches[i].end = (int)(tasks * (i + 1) / n);
    }
    cpu_for(b, (int)n, total * PANEL * w->k * j.n_rows, linear_stretches, &j);
}

// ---- experts -------------------------------------------------------------------------------------------------------------

typedef struct expert_job {
    linear_job linear;
    const int32_t *order; // entries (row * used + slot), sorted by expert, in row order inside one
    const int32_t *first; // [n_experts + 1]
    int used;
    bool x_has_slots;
    int64_t panels; // of one expert, all segments
    int tasks_per_expert;
} expert_job;

static int64_t x_index(const expert_job *j, int32_t entry) { return j->x_has_slots ? entry : entry / j->used; }

// The rows of an expert's entries [at, at + n): in place for one row, else copied behind the thread's sums.
static x_rows expert_x(const expert_job *j, const x_rows *x, int64_t bytes, int at, int n, int thread) {
    if (n == 1) return (x_rows){x->data + x_index(j, j->order[at]) * x->stride, x->stride};
    unsigned char *dst = (unsigned char *)thread_acc(j->linear.b, thread) + acc_bytes();
    for (int i = 0; i < n; i++)
        memcpy(dst + i * bytes, x->data + x_index(j, j->order[at + i]) * x->stride, (size_t)bytes);
    return (x_rows){dst, bytes};
}

static void expert_segment(const expert_job *j, const cpu_segment *s, int expert, int64_t panel, int thread) {
    const linear_job *l = &j->linear;
    int n_panels = (int)(s->n_panels - panel < l->panels_per_task ? s->n_panels - panel : l->panels_per_task);
    int64_t n = n_panels * PANEL;
    if (panel * PANEL + n > s->n_rows) n = s->n_rows - panel * PANEL;
    const unsigned char *w = panels_at(l->b, l->w, s, expert * s->n_panels + panel, n_panels, thread);
    x_format format = l->b->k.x_format[s->type];
    int64_t bytes = x_row_bytes(format, l->w->k);
    float *acc = thread_acc(l->b, thread);
    const tensor *out = &l->o->out[0];
    for (int at = j->first[expert]; at < j->first[expert + 1]; at += ROW_TILE) {
        int n_rows = j->first[expert + 1] - at < ROW_TILE ? j->first[expert + 1] - at : ROW_TILE;
        x_rows x = expert_x(j, &l->x[format], bytes, at, n_rows, thread);
        matmul_tile t = {.acc = acc,
                         .acc_stride = n_panels * PANEL,
                         .w = w,
                         .panel_stride = s->panel_bytes,
                         .x = x.data,
                         .x_stride = x.stride,
                         .n_rows = n_rows,
                         .n_panels = n_panels};
        tile_sum(l->b, s->type, &t, l->w->k, l->o->args.linear.pieces);
        for (int i = 0; i < n_rows; i++) {
            int32_t entry = j->order[at + i];
            float *y =
                cpu_row(l->b, out, entry / j->used) + entry % j->used * out->stride[1] + s->first + panel * PANEL;
            memcpy(y, acc + i * t.acc_stride, (size_t)n * sizeof *y);
        }
    }
}

static void expert_task(void *ctx, int task, int thread) {
    const expert_job *j = ctx;
    int expert = task / j->tasks_per_expert, within = task % j->tasks_per_expert;
    if (j->first[expert] == j->first[expert + 1]) return;
    int si = 0;
    while (within >= j->linear.first_task[si + 1]) si++;
    int64_t panel = (int64_t)(within - j->linear.first_task[si]) * j->linear.panels_per_task;
    expert_segment(j, &j->linear.w->segment[si], expert, panel, thread);
}

// A stable counting sort of (row, slot) by expert.
static void group_by_expert(cpu_backend *b, const tensor *ids, int n_experts, expert_job *j) {
    int n_rows = cpu_rows(b, ids), used = j->used;
    int32_t *first = b->expert_rows, *order = first + n_experts + 1;
    memset(first, 0, (size_t)(n_experts + 1) * sizeof *first);
    for (int r = 0; r < n_rows; r++) {
        const int32_t *id = (const int32_t *)(const void *)cpu_row(b, ids, r);
        for (int s = 0; s < used; s++) first[id[s] + 1]++;
    }
    for (int e = 0; e < n_experts; e++) first[e + 1] += first[e];
    for (int r = 0; r < n_rows; r++) {
        const int32_t *id = (const int32_t *)(const void *)cpu_row(b, ids, r);
        for (int s = 0; s < used; s++) order[first[id[s]]++] = r * used + s;
    }
    memmove(first + 1, first, (size_t)n_experts * sizeof *first); // each start has moved to its end
    first[0] = 0;
    j->order = order, j->first = first;
}

void cpu_expert_linear(cpu_backend *b, const op *o) {
    const cpu_weight *w = &b->weights[o->in[1].id];
    int n_experts = (int)o->in[1].dim[0];
    expert_job j = {.linear = {.b = b, .o = o, .w = w, .n_rows = cpu_rows(b, &o->in[0])},
                    .used = (int)o->in[2].dim[1],
                    .x_has_slots = o->in[0].n_dims == 3};
    group_by_expert(b, &o->in[2], n_experts, &j);
    int64_t entries = (int64_t)j.linear.n_rows * j.used;
    for (int s = 0; s < w->n_segments; s++) {
        x_format f = b->k.x_format[w->segment[s].type];
        if (!j.linear.x[f].data) j.linear.x[f] = prepare_x(b, &o->in[0], f);
        j.panels += w->segment[s].n_panels;
    }
    j.linear.panels_per_task = choose_panels(b, j.panels * (entries < n_experts ? entries : n_experts), ROW_TILE);
    for (int s = 0; s < w->n_segments; s++) {
        int64_t tasks = (w->segment[s].n_panels + j.linear.panels_per_task - 1) / j.linear.panels_per_task;
        j.linear.first_task[s + 1] = j.linear.first_task[s] + (int)tasks;
    }
    j.tasks_per_expert = j.linear.first_task[w->n_segments];
    cpu_for(b, n_experts * j.tasks_per_expert, j.panels * PANEL * w->k * entries, expert_task, &j);
}
