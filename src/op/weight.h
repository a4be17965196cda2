// Weights as operation lists see them: numbered entries with a shape, a role, and the pieces of files they are made of.
//
// A weight set is filled by the model (names, shapes, sources), changed by passes (a merged projection is a new entry made of the
// parts of the old ones), and read by the backend, which packs and keeps them on its device. The set owns its arrays; the file
// bytes are borrowed from the checkpoint.
#ifndef TALLY_OP_WEIGHT_H
#define TALLY_OP_WEIGHT_H

#include "base/arena.h"
#include "base/status.h"
#include "tensor/dtype.h"

typedef enum weight_role {
    WEIGHT_LINEAR,  // [n, k], any type
    WEIGHT_EXPERTS, // [n_experts, n, k], any type
    WEIGHT_ROUTER,  // [n, k], always computed in F32
    WEIGHT_VECTOR,  // [n], F32 on the device: norms, biases, frequency tables
    WEIGHT_EMBED,   // [n, k], only looked up by row
} weight_role;

// How a weight is cut over ranks: not at all, by outputs (rows), or along the reduced dimension.
typedef enum weight_split { SPLIT_NONE, SPLIT_OUT, SPLIT_REDUCED } weight_split;

typedef struct weight_part { // consecutive rows that come from one tensor of one type
    dtype type;
    int64_t n_rows;
    const void *const *data; // [n_experts or 1]: row-major rows of this part; NULL when only planning
} weight_part;

enum { WEIGHT_MAX_PARTS = 3 };

typedef struct weight {
    const char *label; // "attn_q", "token_embd"
    int layer;         // -1: none
    weight_role role;
    weight_split split;
    int64_t n_experts; // 1 unless WEIGHT_EXPERTS
    int64_t n, k;      // outputs, inputs; vectors have k = 1
    int n_parts;
    weight_part part[WEIGHT_MAX_PARTS];
    bool absorbed; // merged into another entry; not uploaded
} weight;

typedef struct weight_set {
    arena *memory; // borrowed
    weight *w;
    int n, cap;
} weight_set;

// Adds an entry and returns its number, or -1 when memory runs out.
int weight_add(weight_set *set, const weight *w);

// Bytes in the files: the sum over parts.
int64_t weight_file_bytes(const weight *w);

#endif
