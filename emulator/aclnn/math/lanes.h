// The inner loops, compiled once per instruction set (lanes_*.c) from lanes_tmpl.h. All give the same bits: no fused
// multiply-add, and EM_LANES running sums whatever the width of the registers.
#ifndef EMULATOR_ACLNN_MATH_LANES_H
#define EMULATOR_ACLNN_MATH_LANES_H

#include "emulator/aclnn/math/order.h"

struct em_lanes {
    void (*dots)(const struct em_order *o, const struct em_dots *d);
    void (*axpy)(float *y, float f, const float *x, int64_t n);
    void (*blend)(float *y, const float *w, const struct em_rows *x);
    void (*widen_bf16)(float *dst, const uint16_t *src, int64_t n);
    void (*widen_f16)(float *dst, const uint16_t *src, int64_t n);
    void (*narrow_bf16)(uint16_t *dst, const float *src, int64_t n);
    void (*narrow_f16)(uint16_t *dst, const float *src, int64_t n);
};

extern const struct em_lanes em_lanes_base, em_lanes_avx2, em_lanes_avx512;
const struct em_lanes *em_lanes(void);

#endif
