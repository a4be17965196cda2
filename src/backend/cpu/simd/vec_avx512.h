// v16: the 16 lanes of a panel as one AVX-512 register. The other vec_*.h offer the same names, so that the bodies in this
// folder (*_tmpl.h) exist once. "part" functions touch the first n elements only (0 <= n <= 16); other lanes load as zero.
#ifndef TALLY_BACKEND_CPU_SIMD_VEC_AVX512_H
#define TALLY_BACKEND_CPU_SIMD_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define V16_INLINE static inline __attribute__((always_inline, unused))

typedef __m512 v16;
typedef __mmask16 v16_mask;

V16_INLINE v16_mask v16_first(int64_t n) { return (v16_mask)((1u << n) - 1); }

V16_INLINE v16 v16_zero(void) { return _mm512_setzero_ps(); }
V16_INLINE v16 v16_set(float a) { return _mm512_set1_ps(a); }
V16_INLINE v16 v16_load(const float *p) { return _mm512_loadu_ps(p); }
V16_INLINE v16 v16_load_part(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(v16_first(n), p); }
V16_INLINE void v16_store(float *p, v16 a) { _mm512_storeu_ps(p, a); }
V16_INLINE void v16_store_part(float *p, v16 a, int64_t n) { _mm512_mask_storeu_ps(p, v16_first(n), a); }

V16_INLINE v16 v16_from_f16(__m256i h) { return _mm512_cvtph_ps(h); }
V16_INLINE v16 v16_from_bf16(__m256i b) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16)); }
V16_INLINE v16 v16_load_f16(const void *p) { return v16_from_f16(_mm256_loadu_si256((const __m256i *)p)); }
V16_INLINE v16 v16_load_bf16(const void *p) { return v16_from_bf16(_mm256_loadu_si256((const __m256i *)p)); }
V16_INLINE v16 v16_load_f16_part(const void *p, int64_t n) {
    return v16_from_f16(_mm256_maskz_loadu_epi16(v16_first(n), p));
}
V16_INLINE v16 v16_load_bf16_part(const void *p, int64_t n) {
    return v16_from_bf16(_mm256_maskz_loadu_epi16(v16_first(n), p));
}
// Rounded to nearest even.
V16_INLINE void v16_store_f16(void *p, v16 a) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
V16_INLINE void v16_store_bf16(void *p, v16 a) {
    __m512i u = _mm512_castps_si512(a), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000)); // NaN must not round to infinity
    __m512i result = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), rounded, quiet);
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(result, 16)));
}
V16_INLINE float v16_f16_to_f32(uint16_t h) { return _cvtsh_ss(h); }
V16_INLINE v16 v16_load_i8(const void *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
// The first and the second numbers of 16 pairs of bfloat16.
V16_INLINE v16 v16_load_bf16_even(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
V16_INLINE v16 v16_load_bf16_odd(const void *p) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32((int)0xffff0000u)));
}

V16_INLINE v16 v16_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
V16_INLINE v16 v16_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
V16_INLINE v16 v16_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
V16_INLINE v16 v16_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
V16_INLINE v16 v16_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
V16_INLINE v16 v16_negate(v16 a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
V16_INLINE v16 v16_larger(v16 a, v16 b) { return _mm512_max_ps(a, b); } // a > b ? a : b, also for NaN and zeros

V16_INLINE v16_mask v16_less(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
V16_INLINE v16_mask v16_is_nan(v16 a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
V16_INLINE v16 v16_select(v16_mask m, v16 yes, v16 no) { return _mm512_mask_blend_ps(m, no, yes); }
V16_INLINE v16 v16_select_first(int64_t n, v16 yes, v16 no) { return v16_select(v16_first(n), yes, no); }

// The bits of a plus those of b shifted left by 23: multiplies a by two to the integer in the low bits of b.
V16_INLINE v16 v16_add_exponent(v16 a, v16 b) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_slli_epi32(_mm512_castps_si512(b), 23)));
}

// p * 2^n, 0 where x is below `least`. n is an integer, also in the low bits of t; the product is a normal number where x is not below.
V16_INLINE v16 v16_exp_end(v16 p, v16 n, v16 t, v16 x, v16 least) {
#if defined(TALLY_ALL_X86_LEVELS) // SIMDe has no vscalefps
    (void)n;
    v16 y = v16_select(v16_less(x, least), v16_zero(), v16_add_exponent(p, t));
    return v16_select(v16_is_nan(x), x, y);
#else
    (void)t;
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, least, _CMP_NLT_UQ), p, n);
#endif
}

// The trees of the row reductions: halves of 8, 4, 2, 1.
V16_INLINE float v16_sum(v16 a) {
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
V16_INLINE float v16_largest(v16 a) {
    __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

// 16 pairs in memory order (lo, hi) to their first and second members, and back.
V16_INLINE void v16_split_pairs(v16 lo, v16 hi, v16 *first, v16 *second) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *first = _mm512_permutex2var_ps(lo, even, hi);
    *second = _mm512_permutex2var_ps(lo, _mm512_add_epi32(even, _mm512_set1_epi32(1)), hi);
}
V16_INLINE void v16_join_pairs(v16 first, v16 second, v16 *lo, v16 *hi) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    *lo = _mm512_permutex2var_ps(first, low, second);
    *hi = _mm512_permutex2var_ps(first, _mm512_add_epi32(low, _mm512_set1_epi32(8)), second);
}

#endif
