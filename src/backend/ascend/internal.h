// What the files of this folder share: the backend's state, and the functions that run operations.
#ifndef TALLY_BACKEND_ASCEND_INTERNAL_H
#define TALLY_BACKEND_ASCEND_INTERNAL_H

#include "backend/ascend/ascend.h"
#include "backend/ascend/call.h"
#include "backend/ascend/pieces.h"

enum {
    ATTENTION_ROWS = KV_BLOCK,     // queries of one attention call: the positions of one cache block
    PATH_BLOCKS = 2,               // cache blocks that a path of a tree is laid out in: drafts are at most 16 deep
    EXTRA_BLOCKS = 1 + PATH_BLOCKS // behind the engine's: where padding rows are kept, then the path's
};

typedef struct ascend_weight {
    void *data; // on the device; NULL: not uploaded
    aclDataType type;
    bool nz;    // stored as FRACTAL_NZ
    int pieces; // more than 1: laid out for sums in so many pieces (pieces.h)
} ascend_weight;

// The queries of one sequence at the positions of one cache block, as far as they are rows of one product tile.
typedef struct ascend_attention_tile {
    int block; // positions [64 * block, 64 * block + 64); its keys are those of blocks 0 .. block
    int table; // where the numbers of those blocks begin in the step's inputs
    int source; // where the kept rows of a path begin there, for the last PATH_BLOCKS or fewer blocks; -1: none, all lie in place
    int n_path_blocks;
} ascend_attention_tile;

// A step's rows, laid out for operators of a fixed number of rows. Numbers are places in the step's inputs (int32).
typedef struct ascend_rows {
    int n_rows, n_tiles, n_out, n_out_tiles;
    int tile, out_tile; // rows of a product: fixed, or (exact=off) those of the step
    // exact=off: all sequences in one call of attention
    bool direct;
    int n_seqs, table, table_width; // [n_seqs][table_width] blocks
    int64_t *q_end, *kv_len;        // [n_seqs] rows up to the end of each sequence's; its keys
    int token, pos, slot;           // [n_tiles * tile] each
    int out_row;                    // [n_out_tiles * tile]
    int expert_row; // [n_tiles * tile]: the row of its product tile whose experts a row takes: its own; rows that pad take row 0's
    int query; // [attention tiles][64]: which row of its product tile; 0 where there is none
    int pick;  // [n_tiles * tile]: where a row's result is among those of its product tile's attention tiles
    int n_ints, cap_ints;
    int32_t *host;                    // pinned [cap_ints]
    ascend_attention_tile *attention; // [n_attention], those of one product tile together
    int n_attention, cap_attention;
    int *first_attention; // [n_tiles + 1]
    int32_t *group;       // [max_rows] scratch: the attention tile of each row
} ascend_rows;

typedef struct ascend_scratch { // device memory of the operators' compositions
    void *queries, *results;    // [tile attention tiles * 64, heads * head_dim]
    void *keys, *values;        // [max_context, kv heads * head_dim], composed attention only
    void *scores, *weights;     // [heads, 64, max_context], composed attention only
    void *mask;                 // fused: [2048, 2048]; composed: [64, max_context + 64], 1 where a key is not seen
    int64_t mask_columns;
    void *rope[3];        // [tile, heads, head_dim]
    void *router;         // [tile, dim] F32
    void *expert_ids;     // [tile, used] I32
    void *experts;        // [tile * used, dim]
    void *expert_row;     // [tiles][tile * used] I32: where a (row, slot) went
    void *expert_count;   // [tiles][experts] I32
    void *expert_count64; // [tiles][experts] I64
    void *expert_p;       // [tile, used] in the activations' type
    // mixtures without the operators for them only
    void *expert_product;          // [tile * used, widest]
    void *topk_value, *topk_index; // [tile, used] in the router's type, I64
    void *expert_number;           // [experts] I32: 0, 1, 2 ...
    void *expert_chosen;           // [tile * used] BOOL
    void *expert_hit;              // [tile * used, experts] BOOL: the entry chose the expert
    void *expert_hit_half;         // the same in F16
    void *expert_hits;             // [experts] F16
    void *expert_list;             // [tiles][experts] I32: those chosen most often first
    void *expert_weight;           // one expert's
    void *head_rstd;               // [tile * heads] F32
    void *rstd;                    // [norms][rows] F32: what the finite check reads
} ascend_scratch;

// Captured steps (graph.c).
enum {
    GRAPH_SLOTS = 32,
    GRAPH_MAX_TILES = 8, // of products
    GRAPH_FEW = 8,       // sequences of a step; each moves to its next block at a step of its own
    GRAPH_MAX_ATTENTION = GRAPH_FEW + 2 * (GRAPH_MAX_TILES - 1)
};
typedef struct ascend_graph_key {
    int32_t n_tiles, n_out_tiles, n_attention, n_rows; // n_rows: those that gather experts
    int32_t first_attention[GRAPH_MAX_TILES];
    int32_t attention[GRAPH_MAX_ATTENTION][2]; // block, blocks of its path
} ascend_graph_key;
typedef struct ascend_graph {
    ascend_graph_key key;
    int64_t seen, used; // how often a step had this key; the step that used it last
    aclmdlRI model;     // NULL: not captured
} ascend_graph;
typedef struct ascend_graphs {
    bool on;
    const char *why_not;   // of auto where it is not on
    char remark[160];      // what runs operator by operator, and why; "": nothing
    error given_up;        // the refusal after which nothing was captured or replayed any more
    const void *workspace; // that the captured ones hold
    ascend_graph slot[GRAPH_SLOTS];
    int64_t steps, replays;
} ascend_graphs;

// The largest logits of the step's wanted rows (select.c).
typedef struct ascend_selection {
    int top;             // of each row; 0: rows always come back whole
    bool on;             // in this step
    bool *whole;         // [max_out] rows of logits that came back
    void *device, *host; // host: pinned
    int32_t *id;         // [max_out][64]
    float *logit;
    row_best *best; // [max_out]
} ascend_selection;

typedef struct ascend_backend {
    backend base;
    ascend_spec spec;
    ascend_device device;
    ascend_call call;
    dtype type;             // of weights, activations and cache
    ascend_weight *weights; // [n_weights]
    int n_weights;
    // since prepare
    const op_list *list;
    cache_desc cache;
    step_limits limits;
    int n_blocks; // with the extra ones
    bool attention_fused, gate_fused, experts_fused;
    int64_t n_experts, n_used; // of the mixtures; 0: none
    int n_seen_blocks;      // that attention is told of: more, so that the number does not depend on the cache's size
    int64_t layer_bytes;    // keys, or values, of one layer
    void *kv;               // [layers][keys, values][n_blocks][64][kv heads * head_dim]
    void *temps;            // the planned workspace
    aclDataType *temp_type; // [temporaries]
    int *norm_slot;         // [operations]: which line of rstd; -1: none
    int n_norms;
    void *cos, *sin; // [max_context, rope_dim], of every position
    int rope_dim;
    bool rope_interleaved;
    void *inputs; // the step's integers on the device
    ascend_rows rows;
    ascend_scratch scratch;
    ascend_pieces_scratch pieces;
    void *host_logits; // pinned, [max_out][n_vocab] in the type of the list's result
    float *host_rstd;  // pinned, [norms][rows]
    float *logits;
    int16_t *fault;
    const char **fault_label;
    int *fault_op; // [rows] the operation that found the row not finite
    bool *
        banned; // [rows] rows whose numbers are not finite by themselves: their keys and values are kept from the cache
    int *banned_by; // [rows] the operation that found it
    ascend_graphs graphs;
    ascend_selection selection;
    const run_observer *observer; // borrowed; NULL: none
    error broken;                 // code STATUS_OK, or the first failure since which the device is not to be trusted
} ascend_backend;

static inline aclDataType ascend_type_of(dtype t) {
    return t == DTYPE_F32 ? ACL_FLOAT : t == DTYPE_F16 ? ACL_FLOAT16 : t == DTYPE_BF16 ? ACL_BF16 : ACL_INT32;
}
static inline aclDataType ascend_act(const ascend_backend *b) { return ascend_type_of(b->type); }
static inline bool ascend_fuses(const ascend_backend *b, ascend_fused f) { return !(b->spec.off & 1u << f); }
static inline int ascend_most_tile(const ascend_backend *b) { // of any step
    int rows = (b->limits.max_rows + b->spec.tile - 1) / b->spec.tile * b->spec.tile;
    return b->spec.exact ? b->spec.tile : rows;
}
static inline int ascend_pad(int n, int to) { return (n + to - 1) / to * to; }

// ---- views -----------------------------------------------------------------------------------------------------------------

// The rows of product tile `tile` of a temporary: [tile, ...] as the record says.
ascend_view ascend_rows_view(const ascend_backend *b, const tensor *t, int tile);
ascend_view ascend_weight_view(const ascend_backend *b, const tensor *w); // [n, k], [experts, n, k] or [n]
ascend_view ascend_turned(ascend_view v);                                 // the last two dimensions swapped
ascend_view ascend_flat(ascend_view v); // [rows, a, b] dense in its rows -> [rows, a * b]
ascend_view ascend_input_view(const ascend_backend *b, int at, int n); // n integers of the step's inputs
void *ascend_logits(const ascend_backend *b);                          // the list's result, [wanted rows, n_vocab]
aclDataType ascend_logits_type(const ascend_backend *b);
int ascend_tiles(const ascend_backend *b, const tensor *t); // product tiles of the step

// ---- the step's rows (rows.c) ------------------------------------------------------------------------------------------------

status ascend_rows_alloc(ascend_backend *b, error *err);
void ascend_rows_free(ascend_backend *b);
void ascend_rows_fill(ascend_backend *b, const step_inputs *in);

// ---- the cache (cache.c) ---------------------------------------------------------------------------------------------------

int ascend_seen_blocks(const step_limits *l);
int64_t ascend_block_bytes(const backend *base, const cache_desc *desc);
void *ascend_cache_of(const ascend_backend *b, int layer, bool values);
status ascend_cache_clear_rows(ascend_backend *b, const step_inputs *in); // of rows with a fault
void ascend_block_read(const backend *base, int block, void *dst);
void ascend_block_write(backend *base, int block, const void *src);
void ascend_block_copy(backend *base, int to, int from);
void ascend_position_copy(backend *base, const int to[2], const int from[2]);
void ascend_block_poison(backend *base, int block, int first_pos);

// ---- weights (weights.c) -----------------------------------------------------------------------------------------------------

int64_t ascend_weight_bytes(const backend *base, const weight *w);
status ascend_weight_upload(backend *base, const weight_set *weights, int id, error *err);
const char *ascend_weight_layout(const backend *base, const weight *w);
aclDataType ascend_weight_type(const ascend_backend *b, const weight *w); // on the device
status ascend_weights_prepare(ascend_backend *b,
                              error *err); // the list is known: weights that serve so become FRACTAL_NZ

// ---- rows that are not finite (faults.c) -------------------------------------------------------------------------------------

status ascend_run_step(ascend_backend *b, const step_inputs *in, error *err);
status ascend_settle_faults(ascend_backend *b, const step_inputs *in, error *err); // after a step has run

// ---- the largest logits (select.c) -------------------------------------------------------------------------------------------

int64_t ascend_select_bytes(int max_out); // on the device
status ascend_select_prepare(ascend_backend *b, error *err);
void ascend_select_free(ascend_backend *b);
status ascend_select_launch(ascend_backend *b, int n, error *err); // of the first n wanted rows
// Behind a step's operators: what brings back rows, or the largest of them; after the wait: what is still missing, and both in F32.
status ascend_select_begin(ascend_backend *b, const step_inputs *in, error *err);
status ascend_select_end(ascend_backend *b, const step_inputs *in, error *err);

// ---- running the list --------------------------------------------------------------------------------------------------------

status ascend_run_list(ascend_backend *b, error *err);      // operator by operator, into the stream
status ascend_graph_prepare(ascend_backend *b, error *err); // graph.c
void ascend_graph_free(ascend_backend *b);
status ascend_graph_run(ascend_backend *b, error *err); // the list, by a captured graph where there is one

// ---- operations (ops_*.c): `*skip` operations behind o were done with it -------------------------------------------------------

typedef status ascend_op_fn(ascend_backend *b, const op *o, int *skip, error *err);
#define ASCEND_OP_DECLARE(name, fn, flops, text) ascend_op_fn ascend_##fn;
OPCODE_LIST(ASCEND_OP_DECLARE)
#undef ASCEND_OP_DECLARE

status ascend_select(ascend_call *c, const ascend_view *from, const ascend_view *index, const ascend_view *to,
                     error *err);
status ascend_cast(ascend_call *c, const ascend_view *from, const ascend_view *to, error *err);
status ascend_rms(ascend_backend *b, const ascend_view v[3], const ascend_view *rstd, float eps, error *err);
bool ascend_attention_fused(const ascend_backend *b, const op *o);
status ascend_attention_prepare(ascend_backend *b, error *err);
// Mixtures without the operators for them (ops_moe_composed.c).
status ascend_moe_prepare(ascend_backend *b, error *err);
int ascend_gathering_rows(
    const ascend_backend *b); // of the step's last tile, where they decide which experts are computed; else 0
status ascend_gate_composed(ascend_backend *b, const op *o, int t, error *err);
status ascend_experts_composed(ascend_backend *b, const op *o, int t, error *err);
status ascend_combine_composed(ascend_backend *b, const op *o, int t, error *err);

status ascend_rope_prepare(ascend_backend *b, const weight_set *weights, error *err);

#endif
