#include "tests/support/bf16_dot.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "tensor/dtype.h"

static float flush(float f) { return fabsf(f) < FLT_MIN ? copysignf(0, f) : f; }

static float fma_flushed(uint16_t w, uint16_t x, float acc) {
    return flush(fmaf(flush(bf16_to_f32(w)), flush(bf16_to_f32(x)), flush(acc)));
}

float bf16_dot_vdpbf16ps(float acc, const uint16_t w[2], const uint16_t x[2]) {
    return fma_flushed(w[0], x[0], fma_flushed(w[1], x[1], acc));
}

// The sum of a double and what its rounding lost, rounded to odd as a float. 53 bits rounded to odd round correctly once more.
static float to_odd(double sum, double lost) {
    if (!isfinite(sum)) return (float)sum;
    uint64_t bits;
    memcpy(&bits, &sum, 8);
    if (lost != 0 && bits % 2 == 0) sum = nextafter(sum, lost > 0 ? INFINITY : -INFINITY);
    if (fabs(sum) < FLT_MIN) return copysignf(0, (float)sum);
    if (fabs(sum) >= 0x1p128) return copysignf(INFINITY, (float)sum);
    memcpy(&bits, &sum, 8);
    const uint64_t below = (UINT64_C(1) << 29) - 1; // of a double's significand, what a float has not
    const bool inexact = bits & below;
    bits &= ~below;
    if (inexact) bits |= below + 1;
    memcpy(&sum, &bits, 8);
    return (float)sum;
}

static float add_to_odd(float a, float b) {
    const double x = (double)flush(a), y = (double)flush(b), sum = x + y, part = sum - x;
    return to_odd(sum, (x - (sum - part)) + (y - part));
}

static float multiply_to_odd(uint16_t w, uint16_t x) { // 8 bits by 8 bits: exact in a double
    return to_odd((double)flush(bf16_to_f32(w)) * (double)flush(bf16_to_f32(x)), 0);
}

float bf16_dot_bfdot(float acc, const uint16_t w[2], const uint16_t x[2]) {
    return add_to_odd(acc, add_to_odd(multiply_to_odd(w[0], x[0]), multiply_to_odd(w[1], x[1])));
}
