#include "tensor/convert.h"

#include <assert.h>
#include <float.h>
#include <string.h>

#include "tensor/blocks.h"
#include "tensor/dtype.h"

static float f32_from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static uint32_t f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

float f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31) { // infinity, or NaN made quiet as the processors do
        return f32_from_bits(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0));
    }
    if (exponent == 0) { // zero or subnormal: fraction * 2^-24, exact in f32
        float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t f16_from_f32(float f) {
    uint32_t u = f32_bits(f);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    u &= 0x7fffffff;
    if (u > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
    if (u >= 0x47800000) return sign | 0x7c00; // 2^16 and above; 65520..65535 get there by rounding below
    if (u < 0x38800000) {                      // below 2^-14: a multiple of 2^-24
        if (u < 0x33000000) return sign;       // below 2^-25
        uint32_t fraction = (u & 0x7fffff) | 0x800000;
        uint32_t shift = 126 - (u >> 23); // 14..24: value = fraction * 2^(exponent - 150) = q * 2^-24
        uint32_t q = fraction >> shift, rest = fraction & ((1u << shift) - 1), half = 1u << (shift - 1);
        q += rest > half || (rest == half && (q & 1));
        return (uint16_t)(sign | q);
    }
    u -= 112u << 23;
    u += 0xfff + (u >> 13 & 1); // nearest even on the 13 bits that go; a carry moves into the exponent rightly
    return (uint16_t)(sign | u >> 13);
}

uint16_t bf16_from_f32(float f) {
    uint32_t u = f32_bits(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

CONVERT_TO(F32) { memmove(dst, src, (size_t)n * sizeof *dst); }
CONVERT_FROM(F32) { memmove(dst, src, (size_t)n * sizeof *src); }

// Tensors in safetensors files start at any byte, so 16-bit numbers are read and written with memcpy.
CONVERT_TO(F16) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, (const char *)src + 2 * i, 2);
        dst[i] = f16_to_f32(h);
    }
}

CONVERT_FROM(F16) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = f16_from_f32(src[i]);
        memcpy((char *)dst + 2 * i, &h, 2);
    }
}

CONVERT_TO(BF16) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t b;
        memcpy(&b, (const char *)src + 2 * i, 2);
        dst[i] = bf16_to_f32(b);
    }
}

CONVERT_FROM(BF16) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t b = bf16_from_f32(src[i]);
        memcpy((char *)dst + 2 * i, &b, 2);
    }
}

CONVERT_TO(Q8_0) {
    assert(n % 32 == 0);
    const block_q8_0 *b = src;
    for (; n > 0; n -= 32, b++) {
        float d = f16_to_f32(b->d);
        for (int i = 0; i < 32; i++) *dst++ = (float)b->q[i] * d;
    }
}

// Adding and taking off 1.5 * 2^23 leaves a number below 2^22 rounded to an integer, ties to even.
static float round_even(float x) {
    float shifted = x + 12582912.0f;
    return shifted - 12582912.0f;
}

CONVERT_FROM(Q8_0) {
    assert(n % 32 == 0);
    block_q8_0 *b = dst;
    for (; n > 0; n -= 32, src += 32, b++) {
        float largest = 0;
        uint32_t top =
            0; // largest bit pattern without the sign: shows infinities and NaN, which comparisons would miss
        for (int i = 0; i < 32; i++) {
            uint32_t bits = f32_bits(src[i]) & 0x7fffffff;
            if (bits > top) top = bits;
        }
        if (top >= 0x7f800000) {
            *b = (block_q8_0){.d = 0x7e00};
            continue;
        }
        largest = f32_from_bits(top);
        float d = largest / 127.0f;
        float inverse = d >= FLT_MIN ? 1.0f / d : 0.0f;
        b->d = f16_from_f32(d);
        for (int i = 0; i < 32; i++) b->q[i] = (int8_t)round_even(src[i] * inverse);
    }
}

CONVERT_TO(Q4_0) {
    assert(n % 32 == 0);
    const block_q4_0 *b = src;
    for (; n > 0; n -= 32, dst += 32, b++) {
        float d = f16_to_f32(b->d);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)((b->q[j] & 15) - 8);
            dst[j + 16] = d * (float)((b->q[j] >> 4) - 8);
        }
    }
}

CONVERT_TO(Q4_1) {
    assert(n % 32 == 0);
    const block_q4_1 *b = src;
    for (; n > 0; n -= 32, dst += 32, b++) {
        float d = f16_to_f32(b->d), m = f16_to_f32(b->m);
        for (int j = 0; j < 16; j++) {
            dst[j] = d * (float)(b->q[j] & 15) + m;
            dst[j + 16] = d * (float)(b->q[j] >> 4) + m;
        }
    }
}

// Code i of 32 five-bit codes.
static int code5(const uint8_t q[16], const uint8_t high[4], int i) {
    int low = i < 16 ? q[i] & 15 : q[i - 16] >> 4;
    return low | (high[i / 8] >> i % 8 & 1) << 4;
}

CONVERT_TO(Q5_0) {
    assert(n % 32 == 0);
    const block_q5_0 *b = src;
    for (; n > 0; n -= 32, b++) {
        float d = f16_to_f32(b->d);
        for (int i = 0; i < 32; i++) *dst++ = d * (float)(code5(b->q, b->high, i) - 16);
    }
}

CONVERT_TO(Q5_1) {
    assert(n % 32 == 0);
    const block_q5_1 *b = src;
    for (; n > 0; n -= 32, b++) {
        float d = f16_to_f32(b->d), m = f16_to_f32(b->m);
        for (int i = 0; i < 32; i++) *dst++ = d * (float)code5(b->q, b->high, i) + m;
    }
}

// 32 four-bit codes through the table, times d.
static void iq4_values(float *dst, const uint8_t q[16], float d) {
    for (int j = 0; j < 16; j++) {
        dst[j] = d * (float)iq4_table[q[j] & 15];
        dst[j + 16] = d * (float)iq4_table[q[j] >> 4];
    }
}

CONVERT_TO(IQ4_NL) {
    assert(n % 32 == 0);
    const block_iq4_nl *b = src;
    for (; n > 0; n -= 32, dst += 32, b++) iq4_values(dst, b->q, f16_to_f32(b->d));
}

CONVERT_TO(IQ4_XS) {
    assert(n % 256 == 0);
    const block_iq4_xs *b = src;
    for (; n > 0; n -= 256, b++) {
        float d = f16_to_f32(b->d);
        for (int s = 0; s < 8; s++, dst += 32) iq4_values(dst, b->q + 16 * s, d * (float)blocks_iq4_xs_scale(b, s));
    }
}

// Two-bit code of value i of 256 (Q2_K and Q3_K).
static int code2(const uint8_t q[64], int i) { return q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3; }

CONVERT_TO(Q2_K) {
    assert(n % 256 == 0);
    const block_q2_k *b = src;
    for (; n > 0; n -= 256, b++) {
        float d = f16_to_f32(b->d), m = f16_to_f32(b->m);
        for (int i = 0; i < 256; i++) {
            float scale = d * (float)(b->scale[i / 16] & 15), min = m * (float)(b->scale[i / 16] >> 4);
            *dst++ = scale * (float)code2(b->q, i) - min;
        }
    }
}

CONVERT_TO(Q3_K) {
    assert(n % 256 == 0);
    const block_q3_k *b = src;
    for (; n > 0; n -= 256, b++) {
        float d = f16_to_f32(b->d);
        for (int i = 0; i < 256; i++) {
            float scale = d * (float)blocks_q3_k_scale(b->scale, i / 16);
            int code = code2(b->q, i) | (b->high[i % 32] >> i / 32 & 1) << 2;
            *dst++ = scale * (float)(code - 4);
        }
    }
}

// Four-bit code of value i of 256 (Q4_K, and the low bits of Q5_K).
static int code4(const uint8_t q[128], int i) { return q[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15; }

CONVERT_TO(Q4_K) {
    assert(n % 256 == 0);
    const block_q4_k *b = src;
    for (; n > 0; n -= 256, b++) {
        float d = f16_to_f32(b->d), m = f16_to_f32(b->m);
        for (int s = 0; s < 8; s++) {
            int scale, min;
            blocks_scale_min(b->scale, s, &scale, &min);
            float ds = d * (float)scale, ms = m * (float)min;
            for (int i = 32 * s; i < 32 * s + 32; i++) *dst++ = ds * (float)code4(b->q, i) - ms;
        }
    }
}

CONVERT_TO(Q5_K) {
    assert(n % 256 == 0);
    const block_q5_k *b = src;
    for (; n > 0; n -= 256, b++) {
        float d = f16_to_f32(b->d), m = f16_to_f32(b->m);
        for (int s = 0; s < 8; s++) {
            int scale, min;
            blocks_scale_min(b->scale, s, &scale, &min);
            float ds = d * (float)scale, ms = m * (float)min;
            for (int j = 0; j < 32; j++) {
                int code = code4(b->q, 32 * s + j) | (b->high[j] >> s & 1) << 4;
                *dst++ = ds * (float)code - ms;
            }
        }
    }
}

CONVERT_TO(Q6_K) {
    assert(n % 256 == 0);
    const block_q6_k *b = src;
    for (; n > 0; n -= 256, b++) {
        float d = f16_to_f32(b->d);
        for (int i = 0; i < 256; i++) {
            int half = i / 128, k = i % 128;
            int low = b->low[64 * half + k % 64] >> (k / 64 * 4) & 15;
            int high = b->high[32 * half + k % 32] >> (k / 32 * 2) & 3;
            *dst++ = (d * (float)b->scale[i / 16]) * (float)((low | high << 4) - 32);
        }
    }
}
