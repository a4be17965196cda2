// Operation records, lists of them, and the builders that models are written with.
//
// A list is built once, when a model is loaded. Nothing in a record changes from step to step: what does (ids, positions, block
// tables, wanted rows) is an input tensor. Builders allocate in the list's arena and check shapes (op_check); the first
// failure is kept in the list and later calls do nothing, so that a model reads as mathematics and checks once at the end.
#ifndef TALLY_OP_OP_H
#define TALLY_OP_OP_H

#include "base/arena.h"
#include "base/status.h"
#include "op/weight.h"
#include "tensor/tensor.h"

// Every operation there is, one line each: its name, the name of the function that runs it (a backend adds its prefix: cpu_add),
// its arithmetic (FLOPs per number of the first result, functions such as exp counting as one; FLOPS_BY_FORMULA: a function of
// backend/cost), what it computes. Shapes and arguments: the builders below.
#define OPCODE_LIST(X) \
    X(EMBED, embed, FLOPS_BY_FORMULA, "rows of the embedding table by token id") \
    X(ADD, add, 1, "a + b") \
    X(RMS_NORM, rms_norm, 4, "x / sqrt(mean(x^2) + eps) * w over the last dimension") \
    X(ADD_RMS_NORM, add_rms_norm, 5, "s = a + b; the norm of s; both are results") \
    X(LINEAR, linear, FLOPS_BY_FORMULA, "x W^T + bias") \
    X(ROPE_TABLE, rope_table, 2, "cosines and sines of position * frequency, one row per token") \
    X(ROPE, rope, FLOPS_BY_FORMULA, "rotates the heads of x by a table's row, in place") \
    X(KV_STORE, kv_store, FLOPS_BY_FORMULA, "writes keys and values of the step's rows into the cache") \
    X(ATTENTION, attention, FLOPS_BY_FORMULA, \
      "softmax(q k^T * scale) v over the row's sequence up to its own position") \
    X(SWIGLU, swiglu, 5, "silu(gate) * up") \
    X(ROUTER_TOPK, router_topk, FLOPS_BY_FORMULA, \
      "softmax over all experts, the k largest (ties: lowest id), normalised if asked") \
    X(EXPERT_LINEAR, expert_linear, FLOPS_BY_FORMULA, "x W_e^T for every chosen expert e of every row") \
    X(EXPERT_COMBINE, expert_combine, FLOPS_BY_FORMULA, "sum over slots of p * x, in slot order") \
    X(GATHER_ROWS, gather_rows, FLOPS_BY_FORMULA, "the rows whose logits are wanted")
enum { FLOPS_BY_FORMULA = -1 };

typedef enum opcode {
#define OPCODE_ENUM(name, fn, flops, text) OP_##name,
    OPCODE_LIST(OPCODE_ENUM)
#undef OPCODE_ENUM
        OP_COUNT
} opcode;

// What a step brings along; tensor.id of STORAGE_INPUT. All I32.
typedef enum step_input {
    INPUT_TOKEN,   // [rows] token ids
    INPUT_POS,     // [rows] positions in the row's sequence
    INPUT_OUT_ROW, // [out rows] which rows' logits are wanted
} step_input;

enum { OP_MAX_IN = 4, OP_MAX_OUT = 2 };

typedef union op_args {
    struct {
        float eps;
    } norm;
    struct {
        int pieces; // the reduced dimension is summed in this many equal pieces, added in a binary tree
        bool gated; // the weight's two halves are gate and up, and the result is silu(gate) * up (passes.h)
    } linear;
    struct {
        int dim;
        bool interleaved;
        float scale;
    } rope; // dim: rotated numbers of a head; scale: of cos and sin
    struct {
        int n_kv_heads, head_dim;
        float scale;
    } attention; // also of KV_STORE
    struct {
        int n_used;
        bool normalize;
    } router;
} op_args;

typedef struct op {
    opcode code;
    int layer;         // -1: outside the layers
    const char *label; // the weight's, or the opcode's name
    int n_in, n_out;
    tensor in[OP_MAX_IN], out[OP_MAX_OUT]; // an absent optional input has STORAGE_NONE
    op_args args;
} op;

typedef struct op_temp { // a temporary: `width` numbers for each of its rows
    dtype type;
    rows_kind rows;
    int64_t width;
    int first, last; // operations that write it first and use it last; filled by the plan
    int64_t offset;  // bytes in the workspace; filled by the plan
} op_temp;

typedef struct op_list {
    arena *memory; // borrowed
    weight_set *weights;
    op *ops;
    int n_ops, cap_ops;
    op_temp *temps;
    int n_temps, cap_temps;
    int layer;     // builders stamp it on their records
    tensor logits; // the list's result, [out rows, n_vocab] F32
    status failed;
    error *err; // borrowed; written by the first failure
} op_list;

void op_list_init(op_list *g, arena *memory, weight_set *weights, error *err);
const char *opcode_name(opcode code);
int opcode_flops(opcode code); // per number of the first result, or FLOPS_BY_FORMULA

// Views. A column view keeps the rows; heads splits the last dimension [.., n * d] into [.., n, d].
tensor tensor_columns(tensor t, int64_t first, int64_t n);
tensor tensor_heads(tensor t, int64_t n_heads, int64_t head_dim);

// Builders. w arguments are numbers of the weight set; -1 means absent where `bias` allows it. Results are F32 unless said.
tensor op_embed(op_list *g, int table);                                 // [rows, k]
tensor op_add(op_list *g, tensor a, tensor b);                          // as a
tensor op_rms_norm(op_list *g, tensor x, int w, float eps);             // as x, over the last dimension
tensor op_linear(op_list *g, tensor x, int w, int bias, int pieces);    // [rows, k] -> [rows, n]
tensor op_rope_table(op_list *g, int inv_freq, float scale);            // [rows, 2 * n]: cosines, then sines
tensor op_rope(op_list *g, tensor x, tensor table, bool interleaved);   // [rows, heads, d], in place
void op_kv_store(op_list *g, tensor k, tensor v);                       // [rows, kv heads, d] each
tensor op_attention(op_list *g, tensor q, int n_kv_heads, float scale); // [rows, heads, d] -> [rows, heads * d]
tensor op_swiglu(op_list *g, tensor gate, tensor up);                   // as gate
tensor op_expert_combine(op_list *g, tensor x, tensor p);               // [rows, used, n] -> [rows, n]
tensor op_gather_out_rows(op_list *g, tensor x);                        // [rows, n] -> [out rows, n]
// [rows, k] or [rows, used, k] -> [rows, used, n]
tensor op_expert_linear(op_list *g, tensor x, tensor ids, int w, int pieces);
// [rows, experts] -> ids [rows, n_used] I32 and probabilities [rows, n_used] F32
void op_router_topk(op_list *g, tensor logits, int n_used, bool normalize, tensor *ids, tensor *p);

// Shape and type rules of one record, the same for every backend: STATUS_INTERNAL with label, expected and found.
status op_check(const op *o, const weight_set *weights, error *err);

#endif
