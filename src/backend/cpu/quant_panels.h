// Block-quantised weights on the CPU: the packed layout, the quantised activations, and the order sheets of their product.
//
// ORDER SHEET. x is quantised row by row in blocks of the weight's block length (quant_block32, quant_block256), each with a scale
// dx of its own. Per output, blocks ascending, starting from acc as found:
//   blocks of 32   isum = sum of w[i] * xq[i], an exact int32
//                  acc = fma((float)isum, d * dx, acc)
//                  Q4_1, Q5_1 (w = d q + m): then acc = fma(m, dx * (float)sum, acc), sum = sum of xq[i]
//   blocks of 256  isum = sum over sub-blocks j of scale[j] * (sum over i in j of w[i] * xq[i]), an exact int32
//                  acc = fma((float)isum, d * dx, acc)
//                  Q2_K, Q4_K, Q5_K (w = d scale q - dmin min): then acc = fma((float)msum, -(dmin * dx), acc),
//                  msum = sum over sub-blocks of min[j] * (sum over i in j of xq[i]), an exact int32
// Integer weights w[i] by type (code = the bits stored): Q8_0 the signed byte; Q4_1, Q5_1, Q2_K, Q4_K, Q5_K the code; Q4_0 code - 8;
// Q5_0 code - 16; Q3_K code - 4; Q6_K code - 32; IQ4_NL, IQ4_XS iq4_table[code]. d, m, dmin are f16 widened exactly.
// (float)isum rounds to nearest even; |isum| < 2^28. fma and * round once each. Which NaN a NaN result is, is unspecified.
//
// PANEL LAYOUT. A panel holds 16 outputs; its blocks follow each other along k, padded at the end only. One block:
//   f16 d[16];  f16 m[16] where the type has a minimum;
//   blocks of 256: int8 scale[n_sub][16];  uint8 min[n_sub][16] (Q2_K: one byte, scale | min << 4, as in the file);
//   chunks of 32 k, each: the low bits of its codes, then the high bits. A plane of b bits is vectors of 64 bytes; a chunk is 8
//   groups of 4 k; group g lies in vector g / (8 / b) at bit b * (g % (8 / b)) of byte 4 * output + k % 4.
// So one vector load, shift and mask gives 4 k of 16 outputs, one output per 32-bit lane.
#ifndef TALLY_BACKEND_CPU_QUANT_PANELS_H
#define TALLY_BACKEND_CPU_QUANT_PANELS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tensor/blocks.h"
#include "tensor/dtype.h"

// Quantised activations. 4-byte loads of q at multiples of 4 are aligned; nothing needs more.
typedef struct quant_block32 {
    float d;      // absmax / 127; 0 if absmax < 2^-119; NaN if a number of the block is not finite
    int32_t sum;  // of q
    int8_t q[32]; // -127..127
} quant_block32;

typedef struct quant_block256 {
    float d;
    int16_t sum16[16]; // sums of 16 q each
    int8_t q[256];
} quant_block256;

_Static_assert(sizeof(quant_block32) == 40 && sizeof(quant_block256) == 292, "rows of blocks have no holes");

// The scale of a block of x from the bits of its largest magnitude (as integers, magnitudes order like the numbers, and infinities
// and NaNs are the largest), and the factor x is multiplied with before rounding; a factor of 0 means q = 0. Blocks below 2^-119
// count as zeros, so that 127 / absmax is finite.
static inline float quant_x_scale(uint32_t largest, float *inverse) {
    float absmax;
    memcpy(&absmax, &largest, 4);
    *inverse = 0;
    if (largest >= 0x7f800000) return NAN;
    if (largest < 0x04000000) return 0;
    *inverse = 127 / absmax;
    return absmax / 127;
}

typedef enum quant_min {
    QUANT_MIN_NONE,
    QUANT_MIN_ADDED,   // m, added (Q4_1, Q5_1)
    QUANT_MIN_BYTES,   // dmin * min[j], subtracted
    QUANT_MIN_NIBBLES, // the same, scale and min in one byte
} quant_min;

// What packing and kernels need to know of a type. A constant of this struct is the parameter of the kernel templates.
typedef struct quant_format {
    int block;               // 32 or 256
    int low_bits, high_bits; // of a code: two planes
    int offset;              // w = code - offset
    int n_sub;               // sub-blocks with integer scales: 0, 8 or 16
    quant_min min;
    bool is_signed; // w is a signed byte (Q8_0 and the tables)
    bool is_table;  // w = iq4_table[code]
} quant_format;

// type: block, low, high, offset, n_sub, min, signed, table
#define QUANT_FORMAT_LIST(X) \
    X(Q8_0, 32, 8, 0, 0, 0, QUANT_MIN_NONE, true, false) \
    X(Q4_0, 32, 4, 0, 8, 0, QUANT_MIN_NONE, false, false) \
    X(Q4_1, 32, 4, 0, 0, 0, QUANT_MIN_ADDED, false, false) \
    X(Q5_0, 32, 4, 1, 16, 0, QUANT_MIN_NONE, false, false) \
    X(Q5_1, 32, 4, 1, 0, 0, QUANT_MIN_ADDED, false, false) \
    X(IQ4_NL, 32, 4, 0, 0, 0, QUANT_MIN_NONE, true, true) \
    X(Q2_K, 256, 2, 0, 0, 16, QUANT_MIN_NIBBLES, false, false) \
    X(Q3_K, 256, 2, 1, 4, 16, QUANT_MIN_NONE, false, false) \
    X(Q4_K, 256, 4, 0, 0, 8, QUANT_MIN_BYTES, false, false) \
    X(Q5_K, 256, 4, 1, 0, 8, QUANT_MIN_BYTES, false, false) \
    X(Q6_K, 256, 4, 2, 32, 16, QUANT_MIN_NONE, false, false) \
    X(IQ4_XS, 256, 4, 0, 0, 8, QUANT_MIN_NONE, true, true)

enum { QUANT_CHUNK = 32, QUANT_VECTOR = 64 }; // numbers of k in a chunk; bytes of one vector of a plane

// Byte offsets inside one packed block.
static inline int quant_scales_at(quant_format f) { return f.min == QUANT_MIN_NONE ? 32 : 64; }
static inline int quant_mins_at(quant_format f) { return quant_scales_at(f) + 16 * f.n_sub; }
static inline int quant_codes_at(quant_format f) {
    return quant_mins_at(f) + (f.min == QUANT_MIN_BYTES ? 16 * f.n_sub : 0);
}
static inline int quant_plane_bytes(int bits) {
    return bits * QUANT_VECTOR;
} // of one chunk: 8 groups at 8 / bits per vector
static inline int quant_chunk_bytes(quant_format f) { return quant_plane_bytes(f.low_bits + f.high_bits); }
static inline int quant_block_bytes(quant_format f) {
    return quant_codes_at(f) + f.block / QUANT_CHUNK * quant_chunk_bytes(f);
}

// The integers of one block of one output.
typedef struct quant_levels {
    uint16_t d, m;     // f16 bits; m is 0 for types without
    int8_t scale[16];  // per sub-block; types without sub-blocks: unused
    uint8_t min[16];   // per sub-block, 0 for types without
    uint8_t code[256]; // as stored
} quant_levels;

// type must be a block type.
quant_format quant_format_of(dtype type);
// The integers of output j (0..15) of a packed block, and the integer weight of a code.
void quant_read_levels(quant_format f, quant_levels *out, const void *block, int j);
static inline int quant_weight(quant_format f, uint8_t code) {
    if (f.is_table) return iq4_table[code];
    return f.is_signed ? (int8_t)code : code - f.offset;
}

#endif
