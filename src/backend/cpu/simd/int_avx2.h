// Integer vectors for quant_tmpl.h on AVX2 with FMA and F16C: 8 outputs, one per 32-bit lane.
#ifndef TALLY_BACKEND_CPU_SIMD_INT_AVX2_H
#define TALLY_BACKEND_CPU_SIMD_INT_AVX2_H

#include <immintrin.h>
#include <stdint.h>

enum { LANES = 8 };
typedef __m256i vi;
typedef __m256 vf;

#define INLINE static inline __attribute__((always_inline))

INLINE vi vi_load(const void *p) { return _mm256_loadu_si256(p); }
INLINE vi vi_zero(void) { return _mm256_setzero_si256(); }
INLINE vi vi_set32(int v) { return _mm256_set1_epi32(v); }
INLINE vi vi_set16(int v) { return _mm256_set1_epi16((short)v); }
INLINE vi vi_set8(int v) { return _mm256_set1_epi8((char)v); }
INLINE vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
INLINE vi vi_and_or(vi a, vi mask, vi c) { return _mm256_or_si256(_mm256_and_si256(a, mask), c); } // (a & mask) | c
INLINE vi vi_add16(vi a, vi b) { return _mm256_add_epi16(a, b); }
INLINE vi vi_add32(vi a, vi b) { return _mm256_add_epi32(a, b); }
INLINE vi vi_sub32(vi a, vi b) { return _mm256_sub_epi32(a, b); }
INLINE vi vi_mul32(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
INLINE vi vi_madd16(vi a, vi b) { return _mm256_madd_epi16(a, b); }
INLINE vi vi_pairs(vi w, vi x) { return _mm256_maddubs_epi16(w, x); }
INLINE vi vi_pairs_signed(vi w, vi x) { // |w| times x with the sign of w
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}
INLINE vi vi_lookup(const int8_t table[16], vi index) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table)), index);
}
#define VI_SRL16(v, n) _mm256_srli_epi16(v, n)
#define VI_SLL16(v, n) _mm256_slli_epi16(v, n)

// Signed byte j of p twice, as the two 16-bit halves of lane j.
INLINE vi vi_twice(const void *p) {
    const __m128i bytes = _mm_loadl_epi64(p);
    return _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(bytes, bytes));
}
// Low halves of a, high halves of b.
INLINE vi vi_halves(vi a, vi b) { return _mm256_blend_epi16(a, b, 0xaa); }

INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
INLINE void vf_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
INLINE vf vf_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }
INLINE vf vf_set(float v) { return _mm256_set1_ps(v); }
INLINE vf vf_from_vi(vi v) { return _mm256_cvtepi32_ps(v); }
INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }

// The largest magnitude of n numbers (a multiple of 16) as bits.
INLINE uint32_t largest_bits(const float *x, int n) {
    vi largest = vi_zero();
    for (int i = 0; i < n; i += 8) largest = _mm256_max_epu32(largest, vi_and(vi_load(x + i), vi_set32(0x7fffffff)));
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

// q = round(x * inverse), 16 numbers; returns their sum.
INLINE int32_t quantize16(int8_t *q, const float *x, float inverse) {
    const vi a = _mm256_cvtps_epi32(vf_mul(vf_load(x), vf_set(inverse)));
    const vi b = _mm256_cvtps_epi32(vf_mul(vf_load(x + 8), vf_set(inverse)));
    const vi words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8); // packs works within halves
    const __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
    _mm_storeu_si128((void *)q, _mm_packs_epi16(low, high));
    const vi sums = _mm256_madd_epi16(words, vi_set16(1));
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}

#endif
