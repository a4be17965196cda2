// The half types, written without branches so that loops over them become vector code.
#ifndef EMULATOR_ACLNN_MATH_HALF_H
#define EMULATOR_ACLNN_MATH_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float bits_float(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline float from_bf16(uint16_t h) { return bits_float((uint32_t)h << 16); }

// To nearest even; a NaN stays one.
static inline uint16_t to_bf16(float f) {
    uint32_t u = float_bits(f), r = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : r);
}

// The exponent's bias changes by a product with 2^112, exact for the small numbers without a leading one too.
static inline float from_f16(uint16_t h) {
    uint32_t mag = h & 0x7fff, sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t u = float_bits(bits_float(mag << 13) * 0x1p112f), inf = 0x7f800000 | (mag & 0x3ff) << 13;
    return bits_float((mag >= 0x7c00 ? inf : u) | sign);
}

// To nearest even; 65520 and more become infinity; under 2^-14 the addition of 0.5 leaves whole numbers of 2^-24 in the low bits.
static inline uint16_t to_f16(float f) {
    uint32_t u = float_bits(f), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
    uint32_t normal = (mag - 0x38000000 + 0xfff + (mag >> 13 & 1)) >> 13;
    uint32_t tiny = float_bits(bits_float(mag) + 0.5f) - 0x3f000000;
    uint32_t r = mag < 0x38800000 ? tiny : normal;
    r = mag >= 0x477ff000 ? 0x7c00 : r;
    r = mag > 0x7f800000 ? 0x7e00 : r;
    return (uint16_t)(sign | r);
}

#endif
