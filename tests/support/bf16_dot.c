#include "tests/support/bf16_dot.h"

#include <float.h>
#include <math.h>

#include "tensor/dtype.h"

static float flush(float f) { return fabsf(f) < FLT_MIN ? copysignf(0, f) : f; }

static float fma_flushed(uint16_t w, uint16_t x, float acc) {
    return flush(fmaf(flush(bf16_to_f32(w)), flush(bf16_to_f32(x)), flush(acc)));
}

float bf16_dot_vdpbf16ps(float acc, const uint16_t w[2], const uint16_t x[2]) {
    return fma_flushed(w[0], x[0], fma_flushed(w[1], x[1], acc));
}
