// A tensor is a view: a type, a shape, strides, and where the numbers live. It owns nothing and computes nothing.
//
// Activations are [rows, ...]. How many rows a step has is not known when an operation list is built, so the first dimension can
// be symbolic: ROWS_BATCH (all rows of the step) or ROWS_OUT (the rows whose logits are wanted). Everything else is fixed.
#ifndef TALLY_TENSOR_TENSOR_H
#define TALLY_TENSOR_TENSOR_H

#include "tensor/dtype.h"

typedef enum storage {
    STORAGE_NONE,   // no tensor
    STORAGE_TEMP,   // id: a temporary of the list; the plan gives it an offset in the workspace
    STORAGE_WEIGHT, // id: an entry of the weight set
    STORAGE_INPUT,  // id: a step_input (op.h)
} storage;

typedef enum rows_kind { ROWS_FIXED, ROWS_BATCH, ROWS_OUT } rows_kind;

enum { TENSOR_MAX_DIMS = 3 };

typedef struct tensor {
    dtype type;
    storage where;
    int32_t id;
    rows_kind rows;                  // meaning of dim[0]
    int32_t n_dims;                  // 1..3
    int64_t dim[TENSOR_MAX_DIMS];    // outermost first; dim[0] is 0 when symbolic
    int64_t stride[TENSOR_MAX_DIMS]; // numbers between neighbours along each dimension; the last is 1
    int64_t offset;                  // numbers from the storage's start to the first element
} tensor;

// Numbers in one row: the product of all dimensions but the first.
static inline int64_t tensor_row_len(const tensor *t) {
    int64_t n = 1;
    for (int i = 1; i < t->n_dims; i++) n *= t->dim[i];
    return n;
}

#endif
