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
    int64_t chunk;           // terms that are summed on their own before they are added; 0: all
    uint64_t turn;           // which chunk comes first (modulo their number)
    bool backwards;          // the chunks in descending order
    uint8_t lane[EM_LANES];  // the order in which partial sums are added
};

// `seed` 0 gives the canonical order; any other number an order of its own (the runtime hashes the signature into it).
struct em_order em_order(uint64_t seed);

// Adds the lanes of one accumulator in the order's order.
float em_sum_lanes(const struct em_order *o, const float *lane);
// Sum of x[i] * y[i], and of x[i]; F32 throughout, no fused multiply-add, the same bits on every processor.
float em_dot(const struct em_order *o, const float *x, const float *y, int64_t n);
float em_sum(const struct em_order *o, const float *x, int64_t n);
// y += f * x
void em_axpy(float *y, float f, const float *x, int64_t n);
// c[i * ldc] = dot(a + i * lda, b) for i < m.
struct em_dots {
    const float *a, *b;
    float *c;
    int64_t m, n, lda, ldc;
};
void em_dot_rows(const struct em_order *o, const struct em_dots *d);

#endif
