// Stands in for the compiler's immintrin.h in `make check-simde`: the x86 kernels compiled over SIMDe, so that every level is tested
// on processors that lack it. Tests only. What SIMDe (0.7.4) does not have, or rounds otherwise than hardware, is written out here.
#ifndef TALLY_TESTS_SIMDE_IMMINTRIN_H
#define TALLY_TESTS_SIMDE_IMMINTRIN_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tensor/dtype.h"
#include "tests/support/bf16_dot.h"

#define EMULATED static inline __attribute__((unused))

// Lanes as an array and back.
#define LANES_OF(type, name, v) \
    type name[sizeof(v) / sizeof(type)]; \
    memcpy(name, &(v), sizeof(v))
#define EACH_LANE(name) for (size_t i = 0; i < sizeof(name) / sizeof(name)[0]; i++)
#define FROM_LANES(vector, name) \
    vector result; \
    memcpy(&result, name, sizeof result); \
    return result

// SIMDe multiplies, rounds and adds where the build's baseline has no FMA.
#define EMULATED_FMA(name, vector, sign) \
    EMULATED vector name(vector a, vector b, vector c) { \
        LANES_OF(float, x, a); \
        LANES_OF(float, y, b); \
        LANES_OF(float, z, c); \
        EACH_LANE(z) z[i] = fmaf(sign x[i], y[i], z[i]); \
        FROM_LANES(vector, z); \
    }
EMULATED_FMA(emulated_fmadd_256, simde__m256, +)
EMULATED_FMA(emulated_fnmadd_256, simde__m256, -)
EMULATED_FMA(emulated_fmadd_512, simde__m512, +)
EMULATED_FMA(emulated_fnmadd_512, simde__m512, -)
#undef _mm256_fmadd_ps
#undef _mm256_fnmadd_ps
#undef _mm512_fmadd_ps
#undef _mm512_fnmadd_ps
#define _mm256_fmadd_ps emulated_fmadd_256
#define _mm256_fnmadd_ps emulated_fnmadd_256
#define _mm512_fmadd_ps emulated_fmadd_512
#define _mm512_fnmadd_ps emulated_fnmadd_512

// Conversions between lanes of two types: dst[i] = `expression` of src[i].
#define EMULATED_CONVERT(name, to_vector, to, from_vector, from, expression) \
    EMULATED to_vector emulated##name(from_vector v) { \
        LANES_OF(from, src, v); \
        to dst[sizeof(to_vector) / sizeof(to)]; \
        EACH_LANE(dst) dst[i] = (to)(expression); \
        FROM_LANES(to_vector, dst); \
    }
EMULATED_CONVERT(_mm512_cvtepi32_epi16, simde__m256i, uint16_t, simde__m512i, uint32_t, src[i])
EMULATED_CONVERT(_mm512_cvtepi32_epi8, simde__m128i, uint8_t, simde__m512i, uint32_t, src[i])
EMULATED_CONVERT(_mm512_cvtepi32_ps, simde__m512, float, simde__m512i, int32_t, src[i])
EMULATED_CONVERT(_mm512_cvtepi8_epi32, simde__m512i, int32_t, simde__m128i, int8_t, src[i])
EMULATED_CONVERT(_mm512_cvtepu16_epi32, simde__m512i, uint32_t, simde__m256i, uint16_t, src[i])
EMULATED_CONVERT(_mm512_cvtph_ps, simde__m512, float, simde__m256i, uint16_t, f16_to_f32(src[i]))
EMULATED_CONVERT(_mm512_cvtps_epi32, simde__m512i, int32_t, simde__m512, float, lrintf(src[i]))
EMULATED_CONVERT(_mm512_to_f16, simde__m256i, uint16_t, simde__m512, float, f16_from_f32(src[i]))
EMULATED_CONVERT(_mm256_cvtph_ps, simde__m256, float, simde__m128i, uint16_t, f16_to_f32(src[i]))
EMULATED_CONVERT(_mm256_cvtps_epi32, simde__m256i, int32_t, simde__m256, float, lrintf(src[i]))
EMULATED_CONVERT(_mm256_to_f16, simde__m128i, uint16_t, simde__m256, float, f16_from_f32(src[i]))
#undef _mm512_cvtepi32_epi16
#undef _mm512_cvtepi32_epi8
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtph_ps
#undef _mm512_cvtps_epi32
#undef _mm512_cvtps_ph
#undef _mm256_cvtph_ps
#undef _mm256_cvtps_epi32
#undef _mm256_cvtps_ph
#undef _cvtsh_ss
#define _mm512_cvtepi32_epi16 emulated_mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi8 emulated_mm512_cvtepi32_epi8
#define _mm512_cvtepi32_ps emulated_mm512_cvtepi32_ps
#define _mm512_cvtepi8_epi32 emulated_mm512_cvtepi8_epi32
#define _mm512_cvtepu16_epi32 emulated_mm512_cvtepu16_epi32
#define _mm512_cvtph_ps emulated_mm512_cvtph_ps
#define _mm512_cvtps_epi32 emulated_mm512_cvtps_epi32
#define _mm512_cvtps_ph(v, rounding) emulated_mm512_to_f16(v) // the rounding asked for is always nearest even
#define _mm256_cvtph_ps emulated_mm256_cvtph_ps
#define _mm256_cvtps_epi32 emulated_mm256_cvtps_epi32
#define _mm256_cvtps_ph(v, rounding) emulated_mm256_to_f16(v)
#define _cvtsh_ss f16_to_f32

// Masked loads and stores touch only what the mask names.
EMULATED simde__m512 emulated_maskz_loadu_ps(uint16_t mask, const void *p) {
    float lane[16] = {0};
    EACH_LANE(lane) if (mask >> i & 1) memcpy(&lane[i], (const float *)p + i, 4);
    FROM_LANES(simde__m512, lane);
}
EMULATED void emulated_mask_storeu_ps(void *p, uint16_t mask, simde__m512 v) {
    LANES_OF(float, lane, v);
    EACH_LANE(lane) if (mask >> i & 1) memcpy((float *)p + i, &lane[i], 4);
}
EMULATED simde__m256i emulated_maskz_loadu_epi16(uint16_t mask, const void *p) {
    uint16_t lane[16] = {0};
    EACH_LANE(lane) if (mask >> i & 1) memcpy(&lane[i], (const uint16_t *)p + i, 2);
    FROM_LANES(simde__m256i, lane);
}
EMULATED simde__m256 emulated_maskload_ps(const float *p, simde__m256i mask) {
    LANES_OF(int32_t, wanted, mask);
    float lane[8] = {0};
    EACH_LANE(lane) if (wanted[i] < 0) memcpy(&lane[i], p + i, 4);
    FROM_LANES(simde__m256, lane);
}
EMULATED void emulated_maskstore_ps(float *p, simde__m256i mask, simde__m256 v) {
    LANES_OF(int32_t, wanted, mask);
    LANES_OF(float, lane, v);
    EACH_LANE(lane) if (wanted[i] < 0) memcpy(p + i, &lane[i], 4);
}
#undef _mm256_maskload_ps
#undef _mm256_maskstore_ps
#define _mm256_maskload_ps emulated_maskload_ps
#define _mm256_maskstore_ps emulated_maskstore_ps
#undef _mm512_maskz_loadu_ps
#undef _mm512_mask_storeu_ps
#undef _mm256_maskz_loadu_epi16
#define _mm512_maskz_loadu_ps emulated_maskz_loadu_ps
#define _mm512_mask_storeu_ps emulated_mask_storeu_ps
#define _mm256_maskz_loadu_epi16 emulated_maskz_loadu_epi16

EMULATED simde__m512i emulated_srai_epi32(simde__m512i v, int n) {
    LANES_OF(int32_t, lane, v);
    EACH_LANE(lane) lane[i] >>= n;
    FROM_LANES(simde__m512i, lane);
}
EMULATED simde__m256 emulated_extractf32x8(simde__m512 v, int half) {
    simde__m256 out;
    memcpy(&out, (const char *)&v + half * 32, 32);
    return out;
}
EMULATED int32_t emulated_reduce_add_epi32(simde__m512i v) {
    LANES_OF(int32_t, lane, v);
    int32_t sum = 0;
    EACH_LANE(lane) sum += lane[i];
    return sum;
}
EMULATED uint32_t emulated_reduce_max_epu32(simde__m512i v) {
    LANES_OF(uint32_t, lane, v);
    uint32_t most = 0;
    EACH_LANE(lane) most = lane[i] > most ? lane[i] : most;
    return most;
}
#undef _mm512_srai_epi32
#undef _mm512_extractf32x8_ps
#undef _mm512_reduce_add_epi32
#undef _mm512_reduce_max_epu32
#define _mm512_srai_epi32 emulated_srai_epi32
#define _mm512_extractf32x8_ps emulated_extractf32x8
#define _mm512_reduce_add_epi32 emulated_reduce_add_epi32
#define _mm512_reduce_max_epu32 emulated_reduce_max_epu32

// SIMDe's madd_epi16 takes the operands of the masked form.
EMULATED simde__m512i emulated_madd_epi16(simde__m512i a, simde__m512i b) {
    LANES_OF(int16_t, x, a);
    LANES_OF(int16_t, y, b);
    int32_t lane[16];
    EACH_LANE(lane) lane[i] = x[2 * i] * y[2 * i] + x[2 * i + 1] * y[2 * i + 1];
    FROM_LANES(simde__m512i, lane);
}
#undef _mm512_madd_epi16
#define _mm512_madd_epi16 emulated_madd_epi16

#ifndef __mmask16
#define __mmask16 simde__mmask16
#endif

// SIMDe adds the products in another order and rounds between. This is the instruction as bf16_dot.h has it.
#undef __m512bh
#define __m512bh simde__m512i
EMULATED simde__m512 emulated_dpbf16_ps(simde__m512 acc, simde__m512i a, simde__m512i b) {
    LANES_OF(float, sum, acc);
    LANES_OF(uint16_t, w, a);
    LANES_OF(uint16_t, x, b);
    EACH_LANE(sum) sum[i] = bf16_dot_vdpbf16ps(sum[i], &w[2 * i], &x[2 * i]);
    FROM_LANES(simde__m512, sum);
}
#undef _mm512_dpbf16_ps
#define _mm512_dpbf16_ps emulated_dpbf16_ps

// AMX: eight tiles of up to 16 rows of 64 bytes.
typedef struct emulated_tile {
    uint8_t row[16][64];
    int n_rows, n_bytes;
} emulated_tile;
static _Thread_local emulated_tile emulated_tiles[8];

EMULATED void _tile_loadconfig(const void *config) {
    const uint8_t *c = config;
    memset(emulated_tiles, 0, sizeof emulated_tiles);
    for (int i = 0; i < 8; i++) {
        emulated_tiles[i].n_rows = c[48 + i];
        emulated_tiles[i].n_bytes = c[16 + 2 * i];
    }
}
EMULATED void _tile_release(void) { memset(emulated_tiles, 0, sizeof emulated_tiles); }
EMULATED void _tile_zero(int t) { memset(emulated_tiles[t].row, 0, sizeof emulated_tiles[t].row); }
EMULATED void _tile_loadd(int t, const void *base, int64_t stride) {
    emulated_tile *tile = &emulated_tiles[t];
    _tile_zero(t);
    for (int r = 0; r < tile->n_rows; r++) memcpy(tile->row[r], (const char *)base + r * stride, (size_t)tile->n_bytes);
}
EMULATED void _tile_stored(int t, void *base, int64_t stride) {
    const emulated_tile *tile = &emulated_tiles[t];
    for (int r = 0; r < tile->n_rows; r++) memcpy((char *)base + r * stride, tile->row[r], (size_t)tile->n_bytes);
}
// sum[m][n] += a[m][4 k + i] * b[k][4 n + i], a signed.
EMULATED void emulated_tile_dot(int sum, int a, int b, bool b_signed) {
    for (int m = 0; m < emulated_tiles[sum].n_rows; m++) {
        for (int n = 0; n < emulated_tiles[sum].n_bytes / 4; n++) {
            int32_t s;
            memcpy(&s, emulated_tiles[sum].row[m] + 4 * n, 4);
            for (int k = 0; k < emulated_tiles[a].n_bytes; k++) {
                uint8_t w = emulated_tiles[b].row[k / 4][4 * n + k % 4];
                s += (int8_t)emulated_tiles[a].row[m][k] * (b_signed ? (int8_t)w : w);
            }
            memcpy(emulated_tiles[sum].row[m] + 4 * n, &s, 4);
        }
    }
}
EMULATED void _tile_dpbssd(int sum, int a, int b) { emulated_tile_dot(sum, a, b, true); }
EMULATED void _tile_dpbsud(int sum, int a, int b) { emulated_tile_dot(sum, a, b, false); }

#endif
