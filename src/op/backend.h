// What a device must offer to run operation lists.
//
// A backend object belongs to one engine and is used by the engine's thread only. Order of calls: supports (every record) ->
// sizes for the memory plan -> weight_upload (every live weight) -> prepare -> run, run, run ... -> destroy. Between prepare and
// destroy nothing allocates (but block_poison, which is for tests).
#ifndef TALLY_OP_BACKEND_H
#define TALLY_OP_BACKEND_H

#include "op/op.h"

enum { KV_BLOCK = 64 }; // positions per cache block

// The cache as the model describes it: per layer, the heads whose keys and values every position keeps.
typedef struct cache_desc {
    int n_layers;
    int n_kv_heads, head_dim;
    dtype k_type, v_type;
} cache_desc;

typedef struct step_limits {
    int max_rows, max_out; // per step
    int n_blocks;          // cache blocks
    int max_context;       // positions of the longest sequence
    int model_context;     // positions the model was made for, whatever the options say; 0: not known
} step_limits;

// One step. Rows of one sequence stand one behind the other, in ascending position; or, with `parent`, as a tree (docs/exactness.md).
//
// A row sees the cache of its sequence up to the position before its path begins, then its ancestors in this step, then itself; to the
// sums, keys and values of an ancestor lie at its position, wherever they are kept. Without trees parent is NULL, and a row's
// ancestors are the rows of its sequence before it.
typedef struct step_inputs {
    int n_rows, n_out, n_seqs;
    const int32_t *token;  // [n_rows]
    const int32_t *pos;    // [n_rows]
    const int32_t *seq;    // [n_rows] -> 0 .. n_seqs-1, ascending
    const int32_t *slot;   // [n_rows] where in its sequence's cache the row is kept; NULL: at pos
    const int32_t *parent; // [n_rows] the row before r on its path (an earlier row), -1: the cache; NULL: no trees
    const int32_t *const *block_table; // [n_seqs]: block of position p is block_table[s][p / KV_BLOCK]
    const int32_t *out_row;            // [n_out] ascending
    const int32_t
        *best; // [n_out] how many of the row's largest logits suffice, 0: all are wanted; NULL: all of every row
} step_inputs;

// The largest logits of a row, as many as sufficed: logit descending, id ascending among equals.
typedef struct row_best {
    int n;
    const int32_t *id;
    const float *logit;
} row_best;

// The result of a step; owned by the backend, valid until the next run.
typedef struct step_result {
    const float *logits;  // [n_out][n_vocab]
    const row_best *best; // [n_out] n > 0: these, and the row of logits holds nothing; NULL: every row is there
    const int16_t *fault; // [n_rows] STEP_OK, or the layer in which the row's numbers stopped being finite
    const char *const *fault_label; // [n_rows] the operation that made them
} step_result;
enum { STEP_OK = -2, STEP_FAULT_OUTSIDE = -1 }; // -1: before or after the layers

// Someone who wants to know when each operation of a step ran; called on the engine's thread. Times as clock_now_ns.
typedef struct run_observer {
    void *user;
    void (*op)(void *user, int op, uint64_t begin_ns, uint64_t end_ns); // operation number `op` of the list has run
    void (*step)(void *user, const step_inputs *in, uint64_t begin_ns, uint64_t end_ns); // all of them have
} run_observer;

typedef struct backend backend;

typedef struct backend_vtable {
    const char *name;
    void (*destroy)(backend *b);
    // STATUS_UNSUPPORTED names operation and type.
    status (*supports)(const backend *b, const op *o, const weight_set *weights, error *err);
    int64_t (*weight_bytes)(const backend *b, const weight *w);       // on the device; 0 where the file's pages serve
    const char *(*weight_layout)(const backend *b, const weight *w);  // how it is kept, in words; NULL: as in the file
    int64_t (*block_bytes)(const backend *b, const cache_desc *desc); // one cache block, all layers
    int64_t (*scratch_bytes)(const backend *b, const op_list *g,
                             const step_limits *limits); // beside the planned workspace
    int64_t (*memory_available)(const backend *b); // where weights, cache and workspace go; NULL: the host's memory
    status (*weight_upload)(backend *b, const weight_set *weights, int id, error *err);
    // Makes workspace, scratch and cache. The list and its weights stay the caller's and must outlive the backend.
    status (*prepare)(backend *b, const op_list *g, int64_t workspace_bytes, const cache_desc *desc,
                      const step_limits *limits, error *err);
    status (*run)(backend *b, const step_inputs *in, step_result *out, error *err);
    // Cache blocks as bytes (block_bytes each), for snapshots and copy on write.
    void (*block_read)(const backend *b, int block, void *dst);
    void (*block_write)(backend *b, int block, const void *src);
    void (*block_copy)(backend *b, int to, int from);
    // One position of all layers, from[0] = block, from[1] = position in it (an accepted row of a tree moves to its place).
    void (*position_copy)(backend *b, const int to[2], const int from[2]);
    void (*block_poison)(backend *b, int block, int first_pos); // tests: NaN at positions >= first_pos of the block
    // Borrows the observer until the next call; NULL: none. A backend that times nothing leaves the entry NULL.
    void (*observe)(backend *b, const run_observer *observer);
    // What it does otherwise than it might, and why, in one sentence; NULL: nothing. The entry may be NULL.
    const char *(*remark)(const backend *b);
    // What it has given up since it was prepared, and why, in one sentence; NULL: nothing. The entry may be NULL.
    const char *(*warning)(const backend *b);
} backend_vtable;

struct backend {
    const backend_vtable *vt;
    int row_tile;                 // the workspace is planned for a multiple of this many rows; 0: for any number
    const dtype *only_cache_type; // of keys and values; NULL: the engine's choice
};

#endif
