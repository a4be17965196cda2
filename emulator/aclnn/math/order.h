// The order of a sum, drawn from an operator's signature.
//
// The vendor's kernels choose tilings and splits by shape: a row's bits depend on the whole shape, and on nothing else as
// long as the shape is equal. An order here does the same: equal signatures give equal orders, and unequal ones nearly
// always give orders that round differently. The canonical order (perturbation off) is one pass, lanes added as a tree.
#ifndef EMULATOR_ACLNN_MATH_ORDER_H
#define EMULATOR_ACLNN_MATH_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EM_LANES = 32 };

struct em_order {
    int64_t chunk;  // terms that are summed on their own before they are added; 0: all, in the canonical order
    uint64_t turn;  // where the sum starts
    bool backwards; // what lies before the start comes first
    uint8_t tree;   // how the running sums are joined, 0 to 15
};

// `seed` 0 gives the canonical order; any other number an order of its own (the runtime hashes the signature into it).
struct em_order em_order(uint64_t seed);

// Sum of x[i] * y[i], and of x[i]; F32 throughout, no fused multiply-add, the same bits on every processor.
float em_dot(const struct em_order *o, const float *x, const float *y, int64_t n);
float em_sum(const struct em_order *o, const float *x, int64_t n);
// y += sum over k of w[k] * row k of x, in that order: `count` rows of n elements.
struct em_rows {
    const float *p;
    int64_t count, n, ld;
};
void em_blend(float *y, const float *w, const struct em_rows *x);
// y += f * x
void em_axpy(float *y, float f, const float *x, int64_t n);
// c[i * ldc + j] = dot of row i of a with row j of b, n terms, for i < m and j < columns.
struct em_dots {
    const float *a, *b;
    float *c;
    int64_t m, columns, n, lda, ldb, ldc;
};
void em_dot_all(const struct em_order *o, const struct em_dots *d);

#endif
