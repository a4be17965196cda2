// What the files of the CPU backend share: its state, and one function per operation.
#ifndef TALLY_BACKEND_CPU_CPU_INTERNAL_H
#define TALLY_BACKEND_CPU_CPU_INTERNAL_H

#include <stdatomic.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels.h"

// The rows of a weight that share a type, in panels: panel p of expert e is at panels + (e * n_panels + p) * panel_bytes. Without
// repacking they stay in the file, and a task packs the panels it needs.
typedef struct cpu_segment {
    dtype type;
    int64_t first, n_rows; // outputs [first, first + n_rows) of the weight
    int64_t n_panels, panel_bytes;
    unsigned char *panels;   // of the backend's block; NULL: not packed
    const void *const *rows; // borrowed; if not packed: rows of each expert
} cpu_segment;

typedef struct cpu_weight {
    int n_segments;
    cpu_segment segment[WEIGHT_MAX_PARTS];
    float *vector;    // owned; WEIGHT_VECTOR
    const void *rows; // borrowed; WEIGHT_EMBED, and what is not packed: the file's own rows
    dtype rows_type;
    int64_t k;
} cpu_weight;

enum {
    ROW_TILE = 64,           // rows of x that stay in the cache while panels stream past
    TASK_PANELS = 8,         // panels of one task, at most
    FEW_ROWS = ROW_TILE / 4, // fewer rows wait for memory at the start of every task, whose panels may be more:
    FEW_ROWS_PANELS = 4 * TASK_PANELS,
    PIECE_LEVELS = 5,        // depth of the stack that adds 16 pieces in a binary tree
    SPLIT_UNITS = 4,         // units of attention per thread that need no splitting
    SPLIT_SLOTS = 8,         // tasks of split attention per thread in one window, at most
    ATTENTION_QUERIES = 128, // queries (rows x heads of one kv head) of one attention task, or one row's
};

// What prepare allocates beside workspace and cache, counted in one place so that plan and allocation agree.
typedef struct scratch_sizes {
    int64_t x[X_FORMAT_COUNT]; // activation rows of the projection that has most, by format (X_F32: 0)
    int64_t thread;            // bytes per thread
    int64_t panels;            // of them, at the end, for the panels of a task that packs
    int64_t experts;           // int32 entries for MoE grouping
    int64_t queries, split;    // of an attention task at most; bytes for pieces that wait to be merged
} scratch_sizes;

// The tasks of a projection that one thread begins with, [next, end). A line of the cache each.
typedef struct task_stretch {
    _Alignas(64) atomic_int next;
    int end;
} task_stretch;

typedef struct cpu_backend {
    backend base;
    pool *threads; // borrowed
    cpu_kernels k;
    bool keeps_rows;   // weights are not packed when they are loaded
    bool fetches_near; // cpu_fetches_near
    int n_weights;
    cpu_weight *weights;               // owned, by number in the weight set
    unsigned char *panels;             // owned; the packed weights
    int64_t panels_bytes, panels_used; // of it

    // from prepare on
    const op_list *list;
    cache_desc cache;
    step_limits limits;
    scratch_sizes sizes;
    int64_t workspace_bytes;
    unsigned char *workspace;                // owned; temporaries of the list
    unsigned char *x_packed[X_FORMAT_COUNT]; // owned; activation rows by format; X_F32 rows lie in the workspace
    unsigned char *thread_scratch;           // owned; thread_bytes for each thread
    int64_t thread_bytes;
    int32_t *tile_first; // owned [max_rows + 1]; attention: first row of each tile
    int32_t *
        tile_tree; // owned [max_rows]: the sequence's first row whose path does not lie in the cache by position, no later
                   // than this tile's; -1: there is none
    int32_t *expert_rows;    // owned; MoE grouping: first row of each expert, experts that have rows, rows by expert
    task_stretch *stretches; // owned [threads]
    float *split;            // owned; attention: pieces that wait to be merged
    unsigned char *kv;       // owned; [layer][k, v] planes of n_blocks
    int64_t key_block_bytes, value_block_bytes; // of one layer
    int16_t *fault;                             // owned [max_rows]
    const char **fault_label;                   // owned [max_rows]
    const step_inputs *in;                      // of the running step
    const run_observer *observer;               // borrowed; NULL: none
} cpu_backend;

typedef void cpu_op_fn(cpu_backend *b, const op *o);
// One per line of OPCODE_LIST. Matrices are in cpu_matmul.c, the cache in cpu_kv.c, attention in cpu_attention.c, the rest in cpu_rows.c.
#define CPU_OP_DECLARE(name, fn, flops, text) cpu_op_fn cpu_##fn;
OPCODE_LIST(CPU_OP_DECLARE)
#undef CPU_OP_DECLARE

// Rows of a tensor in this step, and the address of row r.
static inline int cpu_rows(const cpu_backend *b, const tensor *t) {
    return t->rows == ROWS_BATCH ? b->in->n_rows : t->rows == ROWS_OUT ? b->in->n_out : (int)t->dim[0];
}
static inline float *cpu_row(const cpu_backend *b, const tensor *t, int64_t r) {
    return (float *)(void *)(b->workspace + b->list->temps[t->id].offset) + t->offset + r * t->stride[0];
}

// Where a row is kept, and the row before it on its path (-1: the path begins with it).
static inline int cpu_slot(const step_inputs *in, int r) { return in->slot ? in->slot[r] : in->pos[r]; }
static inline int cpu_parent(const step_inputs *in, int r) {
    if (in->parent) return in->parent[r];
    return r > 0 && in->seq[r - 1] == in->seq[r] ? r - 1 : -1;
}

// The operation `o` found row `row` of t not to be finite: the first to find so names the row's fault, by the operation that made
// t. Rows of ROWS_OUT are translated.
void cpu_mark_fault(cpu_backend *b, const op *o, const tensor *t, int row);

// What the rows of an operation are computed with.
typedef struct row_job {
    cpu_backend *b;
    const op *o;
} row_job;

// Runs fn over n tasks, on the caller alone when the work (in numbers touched) is too small to share.
void cpu_for(cpu_backend *b, int n, int64_t work, pool_fn *fn, void *ctx);
// The same for n rows that touch so many numbers each: short neighbours are one task.
void cpu_for_rows(cpu_backend *b, int n, int64_t numbers, pool_fn *fn, void *ctx);

// Packs one panel of an expert (or of the only matrix) out of the file's rows, whose type is the segment's.
void cpu_pack_panel(const cpu_segment *s, int64_t k, const void *const *rows, int64_t index, void *panel);

int64_t cpu_matmul_thread_bytes(const cpu_backend *b, const op_list *g); // scratch per thread, panels not counted
int64_t cpu_attention_thread_bytes(const op_list *g);
int64_t cpu_attention_split_bytes(const op_list *g, int n_threads);
int cpu_attention_queries(const op_list *g); // of one task, at most

// Cache addressing: the start of a block's keys or values of one layer and head.
unsigned char *cpu_key_block(const cpu_backend *b, int layer, int block, int head);
unsigned char *cpu_value_block(const cpu_backend *b, int layer, int block, int head);

#endif
