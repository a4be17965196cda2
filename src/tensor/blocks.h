// Layouts of GGUF's block formats: what one block holds, byte for byte.
//
// Little-endian; the structs are packed, so a block may stand at any address. `d` and `m` are half-precision bits
// (f16_to_f32). Values of a block are numbered in the order of the row. Facts: docs/formats.md; the test compares every
// layout with the `gguf` package.
#ifndef TALLY_TENSOR_BLOCKS_H
#define TALLY_TENSOR_BLOCKS_H

#include <assert.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tally reads its block formats in place and needs a little-endian machine"
#endif

#define BLOCK_STRUCT typedef struct __attribute__((packed))

// value = d * q[i]
BLOCK_STRUCT block_q8_0 {
    uint16_t d;
    int8_t q[32];
}
block_q8_0;

// 4-bit codes of 32 values: the low nibble of q[j] is value j, the high nibble value j + 16.
// value = d * (code - 8)
BLOCK_STRUCT block_q4_0 {
    uint16_t d;
    uint8_t q[16];
}
block_q4_0;

// value = d * code + m
BLOCK_STRUCT block_q4_1 {
    uint16_t d, m;
    uint8_t q[16];
}
block_q4_1;

// Bit i of `high` (a 32-bit little-endian number) is the fifth bit of code i. value = d * (code - 16)
BLOCK_STRUCT block_q5_0 {
    uint16_t d;
    uint8_t high[4];
    uint8_t q[16];
}
block_q5_0;

// value = d * code + m
BLOCK_STRUCT block_q5_1 {
    uint16_t d, m;
    uint8_t high[4];
    uint8_t q[16];
}
block_q5_1;

// value = d * iq4_table[code]
BLOCK_STRUCT block_iq4_nl {
    uint16_t d;
    uint8_t q[16];
}
block_iq4_nl;

// 16 sub-blocks of 16: scale[s] = 4-bit scale | 4-bit minimum << 4. Each 32 bytes of q hold 128 values: bits 2k, 2k+1 of
// byte j are the code of value 32k + j. value = (d * scale) * code - (m * minimum)
BLOCK_STRUCT block_q2_k {
    uint8_t scale[16];
    uint8_t q[64];
    uint16_t d, m;
}
block_q2_k;

// Codes' low two bits as in Q2_K; bit k of high[j] is the third bit of value 32k + j, k = 0..7. 16 six-bit scales, biased
// by 32: scale s takes its low four bits from nibble s / 8 of scale[s % 8], its high two from bits 2 * (s / 4) and up of
// scale[8 + s % 4]. value = (d * (scale - 32)) * (code - 4), code in 0..7
BLOCK_STRUCT block_q3_k {
    uint8_t high[32];
    uint8_t q[64];
    uint8_t scale[12];
    uint16_t d;
}
block_q3_k;

// 8 sub-blocks of 32 with six-bit scales and minimums (blocks_scale_min). Each 32 bytes of q hold 64 values: low nibbles
// the first 32, high nibbles the next. value = (d * scale) * code - (m * minimum)
BLOCK_STRUCT block_q4_k {
    uint16_t d, m;
    uint8_t scale[12];
    uint8_t q[128];
}
block_q4_k;

// As Q4_K; bit k of high[j] is the fifth bit of value 32k + j.
BLOCK_STRUCT block_q5_k {
    uint16_t d, m;
    uint8_t scale[12];
    uint8_t high[32];
    uint8_t q[128];
}
block_q5_k;

// Each half of 128 values has 64 bytes of low (low nibbles values 0..63, high nibbles 64..127) and 32 bytes of high (bits
// 2k, 2k+1 of byte j: upper bits of value 32k + j). 16 sub-blocks of 16. value = (d * scale) * (code - 32)
BLOCK_STRUCT block_q6_k {
    uint8_t low[128];
    uint8_t high[64];
    int8_t scale[16];
    uint16_t d;
}
block_q6_k;

// 8 sub-blocks of 32, codes within one as in IQ4_NL. Six-bit scale s: low four bits from nibble s % 2 of scale_low[s / 2],
// high two from bits 2s, 2s + 1 of scale_high. value = (d * (scale - 32)) * iq4_table[code]
BLOCK_STRUCT block_iq4_xs {
    uint16_t d;
    uint16_t scale_high;
    uint8_t scale_low[4];
    uint8_t q[128];
}
block_iq4_xs;

#undef BLOCK_STRUCT

static_assert(sizeof(block_q8_0) == 34, "Q8_0");
static_assert(sizeof(block_q4_0) == 18, "Q4_0");
static_assert(sizeof(block_q4_1) == 20, "Q4_1");
static_assert(sizeof(block_q5_0) == 22, "Q5_0");
static_assert(sizeof(block_q5_1) == 24, "Q5_1");
static_assert(sizeof(block_iq4_nl) == 18, "IQ4_NL");
static_assert(sizeof(block_q2_k) == 84, "Q2_K");
static_assert(sizeof(block_q3_k) == 110, "Q3_K");
static_assert(sizeof(block_q4_k) == 144, "Q4_K");
static_assert(sizeof(block_q5_k) == 176, "Q5_K");
static_assert(sizeof(block_q6_k) == 210, "Q6_K");
static_assert(sizeof(block_iq4_xs) == 136, "IQ4_XS");

// The sixteen levels of the IQ4 types.
static const int8_t iq4_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Q4_K, Q5_K: six-bit scale and minimum of sub-block s, 0..7, out of the twelve packed bytes. Sub-blocks 0..3 have the low
// six bits of bytes s and s + 4; sub-blocks 4..7 have a nibble each of byte s + 4 and the two bits left over in bytes s - 4
// and s.
static inline void blocks_scale_min(const uint8_t packed[12], int s, int *scale, int *min) {
    if (s < 4) {
        *scale = packed[s] & 63;
        *min = packed[s + 4] & 63;
    } else {
        *scale = (packed[s + 4] & 15) | (packed[s - 4] >> 6) << 4;
        *min = packed[s + 4] >> 4 | (packed[s] >> 6) << 4;
    }
}

// Q3_K: scale s, 0..15, its bias of 32 taken off.
static inline int blocks_q3_k_scale(const uint8_t packed[12], int s) {
    int low = packed[s % 8] >> (s / 8 * 4) & 15;
    int high = packed[8 + s % 4] >> (s / 4 * 2) & 3;
    return (low | high << 4) - 32;
}

// IQ4_XS: scale s, 0..7, its bias of 32 taken off.
static inline int blocks_iq4_xs_scale(const block_iq4_xs *b, int s) {
    int low = b->scale_low[s / 2] >> (s % 2 * 4) & 15;
    int high = b->scale_high >> (s * 2) & 3;
    return (low | high << 4) - 32;
}

#endif
