// Projections: dense and by expert. This file decides which rows and panels are computed together, and by whom; the order of every
// sum is the tile kernel's (kernels.h), plus one binary tree over the pieces of a split dimension. Neither depends on the number
// of rows or threads.
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "backend/cpu/pack.h"

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

enum {
    TILE_SUMS = ROW_TILE * TASK_PANELS * PANEL, // of one tile, at most
    BLOCK_ROWS = 8,                             // few rows of a block type
    FLOAT_ROWS = 4,                             // and of a float type
    PAIR = 2,                                   // panels that few rows take at a time else
};
_Static_assert(FEW_ROWS *FEW_ROWS_PANELS <= ROW_TILE * TASK_PANELS, "the sums of few rows fit");

// Scratch of one thread: the stack of piece sums, then gathered activation rows.
static int64_t acc_bytes(void) { return PIECE_LEVELS * TILE_SUMS * (int64_t)sizeof(float); }

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

// The rows of one operand, `stride` bytes apart.
typedef struct x_rows {
    const unsigned char *data;
    int64_t stride;
} x_rows;

typedef struct convert_job {
    cpu_backend *b;
    const tensor *x;
    x_format format;
    int64_t per_row; // slots of a row
    int64_t k, stride;
} convert_job;

static void convert_one(void *ctx, int i, int thread) {
    (void)thread;
    const convert_job *j = ctx;
    const float *x = cpu_row(j->b, j->x, i / j->per_row) + (j->per_row > 1 ? i % j->per_row * j->x->stride[1] : 0);
    unsigned char *dst = j->b->x_packed[j->format] + i * j->stride;
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
    convert_job job = {b, x, format, per_row, k, x_row_stride(format, k)};
    cpu_for_rows(b, cpu_rows(b, x) * (int)per_row, k * 2, convert_one, &job);
    return (x_rows){b->x_packed[format], job.stride};
}

// acc = the sums of a tile over all of k: `pieces` equal parts, each by the kernel from zero, added in a binary tree. The
// tile's acc is a stack of PIECE_LEVELS buffers whose first gets the result: piece i is pushed, then as many pairs are added as
// i + 1 has trailing zero bits.
static void tile_sum(const cpu_backend *b, dtype type, const matmul_tile *tile, int pieces) {
    // Rows that follow each other are cleared and added as one.
    const int64_t row = tile->n_panels * PANEL, piece_k = tile->k / pieces;
    const int n_runs = row == tile->acc_stride ? 1 : tile->n_rows;
    const int64_t run = n_runs == 1 ? row * tile->n_rows : row;
    int depth = 0;
    for (int i = 0; i < pieces; i++) {
        matmul_tile t = *tile;
        t.acc = tile->acc + depth * TILE_SUMS;
        for (int r = 0; r < n_runs; r++) memset(t.acc + r * t.acc_stride, 0, (size_t)run * sizeof(float));
        t.k0 = piece_k * i;
        t.k1 = piece_k * (i + 1);
        b->k.tile[type](&t);
        depth++;
        for (int done = i + 1; done % 2 == 0; done /= 2) {
            depth--;
            for (int r = 0; r < n_runs; r++) {
                float *sum = tile->acc + (depth - 1) * TILE_SUMS + r * t.acc_stride;
                b->k.add(sum, sum, sum + TILE_SUMS, run);
            }
        }
    }
}

static float *thread_acc(const cpu_backend *b, int thread) {
    return (float *)(void *)(b->thread_scratch + thread * b->thread_bytes);
}

typedef struct linear_job {
    cpu_backend *b;
    const op *o;
    const cpu_weight *w;
    const float *bias;
    bool gated; // a task computes the same panels of both segments, gate and up
    x_rows x[X_FORMAT_COUNT];
    bool dense; // which few rows read as one stream; experts gained nothing from that
    int n_rows, panels_per_task;
    int first_task[WEIGHT_MAX_PARTS + 1]; // tasks of segment s: [first_task[s], first_task[s + 1])
} linear_job;

static x_format format_of(const linear_job *j, const cpu_segment *s) { return j->b->k.x_format[s->type]; }

// Makes the formats that the weight's segments want of x; returns the panels of one expert.
static int64_t start_job(linear_job *j) {
    const cpu_weight *w = j->w;
    j->gated = j->o->args.linear.gated;
    int64_t total = 0;
    for (int s = 0; s < w->n_segments; s++) {
        x_format f = format_of(j, &w->segment[s]);
        if (!j->x[f].data) j->x[f] = prepare_x(j->b, &j->o->in[0], f);
        total += w->segment[s].n_panels;
    }
    return total;
}

// Deals the panels of each segment into tasks; returns how many tasks there are.
static int deal_tasks(linear_job *j, int panels) {
    j->panels_per_task = j->gated && panels > 1 ? panels / 2 : panels;
    const int n_segments = j->gated ? 1 : j->w->n_segments;
    for (int s = 0; s < n_segments; s++) {
        int64_t tasks = (j->w->segment[s].n_panels + j->panels_per_task - 1) / j->panels_per_task;
        j->first_task[s + 1] = j->first_task[s] + (int)tasks;
    }
    return j->first_task[n_segments];
}

// Panels [index, index + n) of one expert (counted through all experts): where they were packed, or packed now into the thread's
// scratch, whose first `taken` bytes are in use.
static const unsigned char *panels_at(const linear_job *j, const cpu_segment *s, int64_t index, int n, int thread,
                                      int64_t taken) {
    const cpu_backend *b = j->b;
    if (s->panels) return s->panels + index * s->panel_bytes;
    unsigned char *dst = b->thread_scratch + (thread + 1) * b->thread_bytes - b->sizes.panels + taken;
    for (int i = 0; i < n; i++) cpu_pack_panel(s, j->w->k, s->rows, index + i, dst + i * s->panel_bytes);
    return dst;
}

// What a task computes: panels of one segment and, if gated, of the next one, for one expert (0 where there are none).
typedef struct task_panels {
    const cpu_segment *s;
    int64_t panel; // the first, of the segment
    int n_panels;
    int64_t first, n;          // their outputs, of the weight
    const unsigned char *w[2]; // where they are; [1]: of the next segment
} task_panels;

static task_panels panels_of(const linear_job *j, int expert, int task, int thread) {
    task_panels p = {.s = j->w->segment};
    int si = 0;
    while (task >= j->first_task[si + 1]) si++;
    p.s += si;
    p.panel = (int64_t)(task - j->first_task[si]) * j->panels_per_task;
    p.n_panels = (int)(p.s->n_panels - p.panel < j->panels_per_task ? p.s->n_panels - p.panel : j->panels_per_task);
    p.first = p.s->first + p.panel * PANEL;
    p.n = p.n_panels * PANEL;
    if (p.panel * PANEL + p.n > p.s->n_rows) p.n = p.s->n_rows - p.panel * PANEL;
    int64_t taken = 0;
    for (int i = 0; i <= j->gated; i++) {
        const cpu_segment *s = p.s + i;
        p.w[i] = panels_at(j, s, expert * s->n_panels + p.panel, p.n_panels, thread, taken);
        taken += p.n_panels * s->panel_bytes;
    }
    return p;
}

// Of how many panels all pieces of k come before the next panels: as many as kernels take at a time, so that few rows read the weights
// in the memory's order.
static int panels_together(const linear_job *j, dtype type, int n_rows, int n_panels) {
    if (dtype_is_block(type)) return n_rows > BLOCK_ROWS ? n_panels : j->dense ? j->b->k.block_panels : PAIR;
    return n_rows <= FLOAT_ROWS ? PAIR : n_panels;
}

// The sums of a task's panels, of segment p->s + which, for rows of x. What is gated has one piece: up's sums take the second place of
// the stack.
static void sum_panels(const linear_job *j, const task_panels *p, int which, x_rows x, int n_rows, float *acc) {
    const cpu_segment *s = p->s + which;
    const int pieces = j->o->args.linear.pieces;
    const int together = pieces > 1 ? panels_together(j, s->type, n_rows, p->n_panels) : p->n_panels;
    for (int panel = 0; panel < p->n_panels; panel += together) {
        const int left = p->n_panels - panel;
        const matmul_tile t = {.acc = acc + which * TILE_SUMS + panel * PANEL,
                               .acc_stride = p->n_panels * PANEL,
                               .w = p->w[which] + panel * s->panel_bytes,
                               .panel_stride = s->panel_bytes,
                               .x = x.data,
                               .x_stride = x.stride,
                               .k = j->w->k,
                               .n_rows = n_rows,
                               .n_panels = left < together ? left : together,
                               .one_by_one = j->dense && j->b->k.block_panels == 1};
        tile_sum(j->b, s->type, &t, pieces);
    }
}

// Writes row `row` of the sums to y, a row of the result, with the bias if there is one; gated: silu(gate) * up.
static void store_row(const linear_job *j, const task_panels *p, float *acc, int row, float *y) {
    const cpu_kernels *k = &j->b->k;
    float *sums = acc + row * p->n_panels * PANEL, *up = sums + TILE_SUMS;
    if (j->gated) {
        if (j->bias) {
            k->add(sums, sums, j->bias + p->first, p->n);
            k->add(up, up, j->bias + p->s[1].first + p->first, p->n);
        }
        k->swiglu(y + p->first, sums, up, p->n);
    } else if (j->bias) {
        k->add(y + p->first, sums, j->bias + p->first, p->n);
    } else {
        memcpy(y + p->first, sums, (size_t)p->n * sizeof *y);
    }
}

static void linear_task(const void *job, int task, int thread) {
    const linear_job *j = job;
    const task_panels p = panels_of(j, 0, task, thread);
    float *acc = thread_acc(j->b, thread);
    for (int row = 0; row < j->n_rows; row += ROW_TILE) {
        int n_rows = j->n_rows - row < ROW_TILE ? j->n_rows - row : ROW_TILE;
        for (int i = 0; i <= j->gated; i++) {
            x_rows x = j->x[format_of(j, p.s + i)];
            x.data += row * x.stride;
            sum_panels(j, &p, i, x, n_rows, acc);
        }
        for (int r = 0; r < n_rows; r++) store_row(j, &p, acc, r, cpu_row(j->b, &j->o->out[0], row + r));
    }
}

// ---- who computes what -----------------------------------------------------------------------------------------------------

typedef void task_fn(const void *job, int task, int thread);

typedef struct stretch_job {
    cpu_backend *b;
    task_fn *run;
    const void *job;
} stretch_job;

// Stretch i, then what is left of the others. A thread reads one stretch of weights from its beginning on, so that what is fetched
// ahead of a task is what the thread's next task reads.
static void run_stretches(void *ctx, int i, int thread) {
    const stretch_job *j = ctx;
    int n = pool_n_threads(j->b->threads), task;
    for (int s = 0; s < n; s++) {
        task_stretch *from = &j->b->stretches[(i + s) % n];
        while ((task = atomic_fetch_add_explicit(&from->next, 1, memory_order_relaxed)) < from->end) {
            j->run(j->job, task, thread);
        }
    }
}

// Runs all tasks; `work` as of cpu_for.
static void run_tasks(cpu_backend *b, int64_t tasks, int64_t work, task_fn *run, const void *job) {
    const int64_t n = pool_n_threads(b->threads);
    for (int64_t i = 0; i < n; i++) {
        atomic_store_explicit(&b->stretches[i].next, (int)(tasks * i / n), memory_order_relaxed);
        b->stretches[i].end = (int)(tasks * (i + 1) / n);
    }
    stretch_job j = {b, run, job};
    cpu_for(b, (int)n, work, run_stretches, &j);
}

// Panels per task, a power of two: enough tasks that threads end together; few enough that a task streams a while and, of many rows,
// that they are not read too often. n_rows: of one expert, on the average, or of all.
static int choose_panels(const linear_job *j, int64_t total, int n_rows) {
    const bool few = n_rows < FEW_ROWS, packed = j->w->segment[0].panels;
    const int most = few && packed && j->dense ? FEW_ROWS_PANELS : TASK_PANELS;
    const int64_t per_task = total / (pool_n_threads(j->b->threads) * (few ? 8 : 4));
    int panels = 1;
    while (panels < most && 2 * panels <= per_task) panels *= 2;
    return panels;
}

void cpu_linear(cpu_backend *b, const op *o) {
    const cpu_weight *w = &b->weights[o->in[1].id];
    linear_job j = {.b = b, .o = o, .w = w, .dense = true, .n_rows = cpu_rows(b, &o->in[0])};
    if (j.n_rows == 0) return;
    if (o->in[2].where != STORAGE_NONE) j.bias = b->weights[o->in[2].id].vector;
    const int64_t total = start_job(&j), tasks = deal_tasks(&j, choose_panels(&j, total, j.n_rows));
    run_tasks(b, tasks, total * PANEL * w->k * j.n_rows, linear_task, &j);
}

// ---- experts -------------------------------------------------------------------------------------------------------------

typedef struct expert_job {
    linear_job linear;
    const int32_t *order;   // entries (row * used + slot), sorted by expert, in row order inside one
    const int32_t *first;   // [n_experts + 1]
    const int32_t *touched; // [n_touched] experts that have rows
    int n_touched, used;
    bool x_has_slots;
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

static void expert_task(const void *job, int task, int thread) {
    const expert_job *j = job;
    const linear_job *l = &j->linear;
    const int expert = j->touched[task / j->tasks_per_expert];
    const task_panels p = panels_of(l, expert, task % j->tasks_per_expert, thread);
    float *acc = thread_acc(l->b, thread);
    const tensor *out = &l->o->out[0];
    for (int at = j->first[expert]; at < j->first[expert + 1]; at += ROW_TILE) {
        int n_rows = j->first[expert + 1] - at < ROW_TILE ? j->first[expert + 1] - at : ROW_TILE;
        x_rows x = {0};
        for (int i = 0; i <= l->gated; i++) {
            x_format format = format_of(l, p.s + i);
            bool there = i == 1 && format == format_of(l, p.s);
            if (!there) x = expert_x(j, &l->x[format], x_row_bytes(format, l->w->k), at, n_rows, thread);
            sum_panels(l, &p, i, x, n_rows, acc);
        }
        for (int r = 0; r < n_rows; r++) {
            int32_t entry = j->order[at + r];
            float *y = cpu_row(l->b, out, entry / j->used) + entry % j->used * out->stride[1];
            store_row(l, &p, acc, r, y);
        }
    }
}

// A stable counting sort of (row, slot) by expert.
static void group_by_expert(cpu_backend *b, const tensor *ids, int n_experts, expert_job *j) {
    int n_rows = cpu_rows(b, ids), used = j->used;
    int32_t *first = b->expert_rows, *touched = first + n_experts + 1, *order = touched + n_experts;
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
    for (int e = 0; e < n_experts; e++) {
        if (first[e] < first[e + 1]) touched[j->n_touched++] = e;
    }
    j->order = order, j->first = first, j->touched = touched;
}

void cpu_expert_linear(cpu_backend *b, const op *o) {
    const cpu_weight *w = &b->weights[o->in[1].id];
    int n_experts = (int)o->in[1].dim[0];
    expert_job j = {.linear = {.b = b, .o = o, .w = w, .n_rows = cpu_rows(b, &o->in[0])},
                    .used = (int)o->in[2].dim[1],
                    .x_has_slots = o->in[0].n_dims == 3};
    group_by_expert(b, &o->in[2], n_experts, &j);
    int64_t entries = (int64_t)j.linear.n_rows * j.used;
    const int64_t panels = start_job(&j.linear);
    int rows = j.n_touched ? (int)(entries / j.n_touched) : 0;
    j.tasks_per_expert = deal_tasks(&j.linear, choose_panels(&j.linear, panels * j.n_touched, rows));
    run_tasks(b, (int64_t)j.n_touched * j.tasks_per_expert, panels * PANEL * w->k * entries, expert_task, &j);
}
