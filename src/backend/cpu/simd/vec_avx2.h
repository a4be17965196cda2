// v16 on AVX2, FMA and F16C: two registers of 8 lanes. The names are explained in vec_avx512.h.
#ifndef TALLY_BACKEND_CPU_SIMD_VEC_AVX2_H
#define TALLY_BACKEND_CPU_SIMD_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define V16_INLINE static inline __attribute__((always_inline, unused))

typedef struct v16 {
    __m256 lo, hi; // lanes 0-7, 8-15
} v16;
typedef v16 v16_mask; // all bits of a lane set or clear

// Both halves of an operation of two operands.
#define V16_EACH2(f, a, b) ((v16){f((a).lo, (b).lo), f((a).hi, (b).hi)})

V16_INLINE v16_mask v16_first(int64_t n) {
    __m256i limit = _mm256_set1_epi32((int)n);
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return (v16){_mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, lane)),
                 _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, _mm256_add_epi32(lane, _mm256_set1_epi32(8))))};
}

V16_INLINE v16 v16_zero(void) { return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
V16_INLINE v16 v16_set(float a) { return (v16){_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
V16_INLINE v16 v16_load(const float *p) { return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
V16_INLINE v16 v16_load_part(const float *p, int64_t n) {
    v16_mask m = v16_first(n);
    return (v16){_mm256_maskload_ps(p, _mm256_castps_si256(m.lo)),
                 n > 8 ? _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.hi)) : _mm256_setzero_ps()};
}
V16_INLINE void v16_store(float *p, v16 a) {
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
V16_INLINE void v16_store_part(float *p, v16 a, int64_t n) {
    v16_mask m = v16_first(n);
    _mm256_maskstore_ps(p, _mm256_castps_si256(m.lo), a.lo);
    if (n > 8) _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.hi), a.hi);
}

V16_INLINE v16 v16_load_f16(const void *p) {
    const __m128i *h = p;
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}
V16_INLINE __m256 v16_from_bf16(__m128i b) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(b), 16));
}
V16_INLINE v16 v16_load_bf16(const void *p) {
    const __m128i *b = p;
    return (v16){v16_from_bf16(_mm_loadu_si128(b)), v16_from_bf16(_mm_loadu_si128(b + 1))};
}
// AVX2 has no masked loads of 16-bit numbers.
V16_INLINE v16 v16_load_f16_part(const void *p, int64_t n) {
    uint16_t copy[16] = {0};
    memcpy(copy, p, (size_t)n * 2);
    return v16_load_f16(copy);
}
V16_INLINE v16 v16_load_bf16_part(const void *p, int64_t n) {
    uint16_t copy[16] = {0};
    memcpy(copy, p, (size_t)n * 2);
    return v16_load_bf16(copy);
}
V16_INLINE void v16_store_f16(void *p, v16 a) {
    __m128i *h = p;
    _mm_storeu_si128(h, _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(h + 1, _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
V16_INLINE __m256i v16_bf16_half(__m256 a) {
    __m256i u = _mm256_castps_si256(a), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000)); // NaN must not round to infinity
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
}
V16_INLINE void v16_store_bf16(void *p, v16 a) {
    __m256i packed = _mm256_packus_epi32(v16_bf16_half(a.lo), v16_bf16_half(a.hi)); // lo 0-3, hi 0-3 | lo 4-7, hi 4-7
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(packed, 0xd8));
}
V16_INLINE float v16_f16_to_f32(uint16_t h) { return _cvtsh_ss(h); }
V16_INLINE v16 v16_load_i8(const void *p) {
    __m128i q = _mm_loadu_si128(p);
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)),
                 _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8)))};
}
V16_INLINE v16 v16_load_bf16_even(const void *p) {
    const __m256i *b = p;
    return (v16){_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(b), 16)),
                 _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(b + 1), 16))};
}
V16_INLINE v16 v16_load_bf16_odd(const void *p) {
    __asm__("" : "+r"(p)); // load again rather than spill what v16_load_bf16_even loaded: registers are scarce here
    const __m256i *b = p;
    __m256i upper = _mm256_set1_epi32((int)0xffff0000u);
    return (v16){_mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(b), upper)),
                 _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(b + 1), upper))};
}

V16_INLINE v16 v16_add(v16 a, v16 b) { return V16_EACH2(_mm256_add_ps, a, b); }
V16_INLINE v16 v16_sub(v16 a, v16 b) { return V16_EACH2(_mm256_sub_ps, a, b); }
V16_INLINE v16 v16_mul(v16 a, v16 b) { return V16_EACH2(_mm256_mul_ps, a, b); }
V16_INLINE v16 v16_div(v16 a, v16 b) { return V16_EACH2(_mm256_div_ps, a, b); }
V16_INLINE v16 v16_fma(v16 a, v16 b, v16 c) {
    return (v16){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
V16_INLINE v16 v16_negate(v16 a) { return V16_EACH2(_mm256_xor_ps, a, v16_set(-0.0f)); }
V16_INLINE v16 v16_larger(v16 a, v16 b) { return V16_EACH2(_mm256_max_ps, a, b); }

V16_INLINE v16_mask v16_less(v16 a, v16 b) {
    return (v16){_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
V16_INLINE v16_mask v16_is_nan(v16 a) {
    return (v16){_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q), _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q)};
}
V16_INLINE v16 v16_select(v16_mask m, v16 yes, v16 no) {
    return (v16){_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
}
V16_INLINE v16 v16_select_first(int64_t n, v16 yes, v16 no) { return v16_select(v16_first(n), yes, no); }

V16_INLINE __m256 v16_add_exponent_half(__m256 a, __m256 b) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_slli_epi32(_mm256_castps_si256(b), 23)));
}
V16_INLINE v16 v16_add_exponent(v16 a, v16 b) { return V16_EACH2(v16_add_exponent_half, a, b); }

// vec_avx512.h: p * 2^n, 0 where x is below `least`.
V16_INLINE v16 v16_exp_end(v16 p, v16 n, v16 t, v16 x, v16 least) {
    (void)n;
    v16 y = v16_select(v16_less(x, least), v16_zero(), v16_add_exponent(p, t));
    return v16_select(v16_is_nan(x), x, y);
}

V16_INLINE float v16_sum(v16 a) {
    __m256 h = _mm256_add_ps(a.lo, a.hi);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
V16_INLINE float v16_largest(v16 a) {
    __m256 h = _mm256_max_ps(a.lo, a.hi);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

// The even (or odd) numbers of 16 in two registers, in order.
V16_INLINE __m256 v16_every_second(__m256 a, __m256 b, int odd) {
    __m256 mixed = odd ? _mm256_shuffle_ps(a, b, 0xdd) : _mm256_shuffle_ps(a, b, 0x88); // a0 a2 b0 b2 | a4 a6 b4 b6
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xd8));
}
V16_INLINE void v16_split_pairs(v16 lo, v16 hi, v16 *first, v16 *second) {
    *first = (v16){v16_every_second(lo.lo, lo.hi, 0), v16_every_second(hi.lo, hi.hi, 0)};
    *second = (v16){v16_every_second(lo.lo, lo.hi, 1), v16_every_second(hi.lo, hi.hi, 1)};
}
V16_INLINE v16 v16_join_pairs_half(__m256 first, __m256 second) {
    __m256 low = _mm256_unpacklo_ps(first, second), high = _mm256_unpackhi_ps(first, second);
    return (v16){_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
}
V16_INLINE void v16_join_pairs(v16 first, v16 second, v16 *lo, v16 *hi) {
    *lo = v16_join_pairs_half(first.lo, second.lo);
    *hi = v16_join_pairs_half(first.hi, second.hi);
}

#endif
