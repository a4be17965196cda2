// Integer vectors for quant_tmpl.h on AVX-512 F, BW, DQ, VL: 16 outputs, one per 32-bit lane.
#ifndef TALLY_BACKEND_CPU_SIMD_INT_AVX512_H
#define TALLY_BACKEND_CPU_SIMD_INT_AVX512_H

#include <immintrin.h>
#include <stdint.h>

enum { LANES = 16 };
typedef __m512i vi;
typedef __m512 vf;

#define INLINE static inline __attribute__((always_inline))

INLINE vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
INLINE vi vi_zero(void) { return _mm512_setzero_si512(); }
INLINE vi vi_set32(int v) { return _mm512_set1_epi32(v); }
INLINE vi vi_set16(int v) { return _mm512_set1_epi16((short)v); }
INLINE vi vi_set8(int v) { return _mm512_set1_epi8((char)v); }
INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
INLINE vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
INLINE vi vi_and_or(vi a, vi mask, vi c) { return _mm512_ternarylogic_epi32(a, mask, c, 0xea); } // (a & mask) | c
INLINE vi vi_add16(vi a, vi b) { return _mm512_add_epi16(a, b); }
INLINE vi vi_add32(vi a, vi b) { return _mm512_add_epi32(a, b); }
INLINE vi vi_sub32(vi a, vi b) { return _mm512_sub_epi32(a, b); }
INLINE vi vi_mul32(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
INLINE vi vi_madd16(vi a, vi b) { return _mm512_madd_epi16(a, b); }
INLINE vi vi_pairs(vi w, vi x) { return _mm512_maddubs_epi16(w, x); }
INLINE vi vi_pairs_signed(vi w, vi x) { // |w| times x where w >= 0, -x where w < 0
    const vi flipped = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
    return _mm512_maddubs_epi16(_mm512_abs_epi8(w), flipped);
}
INLINE vi vi_lookup(const int8_t table[16], vi index) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table)), index);
}
#define VI_SRL16(v, n) _mm512_srli_epi16(v, n)
#define VI_SLL16(v, n) _mm512_slli_epi16(v, n)
#define VI_SRA32(v, n) _mm512_srai_epi32(v, n)

// Signed byte j of p twice, as the two 16-bit halves of lane j.
INLINE vi vi_twice(const void *p) {
    const vi twice = vi_set32(0x01000100);
    const vi at =
        _mm512_add_epi32(_mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c)), twice);
    return _mm512_shuffle_epi8(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)), at);
}
// Low halves of a, high halves of b.
INLINE vi vi_halves(vi a, vi b) { return _mm512_mask_mov_epi16(a, 0xaaaaaaaa, b); }

INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void vf_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
INLINE vf vf_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
INLINE vf vf_set(float v) { return _mm512_set1_ps(v); }
INLINE vf vf_from_vi(vi v) { return _mm512_cvtepi32_ps(v); }
INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }

// The largest magnitude of n numbers (a multiple of 16) as bits.
INLINE uint32_t largest_bits(const float *x, int n) {
    vi largest = vi_zero();
    for (int i = 0; i < n; i += 16) largest = _mm512_max_epu32(largest, vi_and(vi_load(x + i), vi_set32(0x7fffffff)));
    return _mm512_reduce_max_epu32(largest);
}

// q = round(x * inverse), 16 numbers; returns their sum.
INLINE int32_t quantize16(int8_t *q, const float *x, float inverse) {
    const vi v = _mm512_cvtps_epi32(vf_mul(vf_load(x), vf_set(inverse)));
    _mm_storeu_si128((void *)q, _mm512_cvtepi32_epi8(v));
    return _mm512_reduce_add_epi32(v);
}

#endif
