// The inner loops of sums, compiled once per instruction set (lanes_*.c) from lanes_tmpl.h; all give the same bits.
#ifndef EMULATOR_ACLNN_MATH_LANES_H
#define EMULATOR_ACLNN_MATH_LANES_H

#include "emulator/aclnn/math/order.h"

enum { EM_LANES_ROWS = 4 };

// dot(a, lda, b, n, out): out[r][l] = sum over i = l modulo EM_LANES of a[r * lda + i] * b[i], each lane ascending.
typedef void em_lanes_dot(const float *a, int64_t lda, const float *b, int64_t n, float *out);
struct em_lanes {
    int rows; // of `dots`
    em_lanes_dot *dot1, *dots;
    void (*axpy)(float *y, float f, const float *x, int64_t n);
};

extern const struct em_lanes em_lanes_base, em_lanes_avx2, em_lanes_avx512;
const struct em_lanes *em_lanes(void);

#endif
