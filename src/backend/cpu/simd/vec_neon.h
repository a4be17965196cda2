// v16 on AArch64 Advanced SIMD: four registers of 4 lanes. The names are explained in vec_avx512.h.
#ifndef TALLY_BACKEND_CPU_SIMD_VEC_NEON_H
#define TALLY_BACKEND_CPU_SIMD_VEC_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define V16_INLINE static inline __attribute__((always_inline, unused))

typedef struct v16 {
    float32x4_t q[4]; // lanes 0-3, 4-7, 8-11, 12-15
} v16;
typedef struct v16_mask { // all bits of a lane set or clear
    uint32x4_t q[4];
} v16_mask;

// All four quarters; f(i) names the result of quarter i.
#define V16_EACH(type, f) ((type){{f(0), f(1), f(2), f(3)}})

V16_INLINE v16_mask v16_first(int64_t n) {
    const uint32x4_t lane = {0, 1, 2, 3}, limit = vdupq_n_u32((uint32_t)n);
#define QUARTER(i) vcltq_u32(vaddq_u32(lane, vdupq_n_u32(4 * (i))), limit)
    return V16_EACH(v16_mask, QUARTER);
#undef QUARTER
}

V16_INLINE v16 v16_set(float a) {
#define QUARTER(i) vdupq_n_f32(a)
    return V16_EACH(v16, QUARTER);
#undef QUARTER
}
V16_INLINE v16 v16_zero(void) { return v16_set(0); }
V16_INLINE v16 v16_load(const float *p) {
#define QUARTER(i) vld1q_f32(p + 4 * (i))
    return V16_EACH(v16, QUARTER);
#undef QUARTER
}
V16_INLINE void v16_store(float *p, v16 a) {
    for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, a.q[i]);
}
V16_INLINE v16 v16_load_part(const float *p, int64_t n) {
    float copy[16] = {0};
    memcpy(copy, p, (size_t)n * 4);
    return v16_load(copy);
}
V16_INLINE void v16_store_part(float *p, v16 a, int64_t n) {
    float copy[16];
    v16_store(copy, a);
    memcpy(p, copy, (size_t)n * 4);
}

V16_INLINE v16 v16_load_f16(const void *p) {
    const uint16_t *h = p;
#define QUARTER(i) vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h + 4 * (i))))
    return V16_EACH(v16, QUARTER);
#undef QUARTER
}
V16_INLINE v16 v16_load_bf16(const void *p) {
    const uint16_t *b = p;
#define QUARTER(i) vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(b + 4 * (i)), 16))
    return V16_EACH(v16, QUARTER);
#undef QUARTER
}
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
// Rounded to nearest even.
V16_INLINE void v16_store_f16(void *p, v16 a) {
    uint16_t *h = p;
    for (int i = 0; i < 4; i++) vst1_u16(h + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.q[i])));
}
V16_INLINE void v16_store_bf16(void *p, v16 a) {
    uint16_t *b = p;
    for (int i = 0; i < 4; i++) {
        uint32x4_t u = vreinterpretq_u32_f32(a.q[i]), odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
        uint32x4_t rounded = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
        uint32x4_t quiet = vorrq_u32(u, vdupq_n_u32(0x400000)); // NaN must not round to infinity
        vst1_u16(b + 4 * i, vshrn_n_u32(vbslq_u32(vceqq_f32(a.q[i], a.q[i]), rounded, quiet), 16));
    }
}
V16_INLINE float v16_f16_to_f32(uint16_t h) {
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}
V16_INLINE v16 v16_load_i8(const void *p) {
    const int8x16_t q = vld1q_s8(p);
    const int16x8_t half[2] = {vmovl_s8(vget_low_s8(q)), vmovl_high_s8(q)};
#define QUARTER(i) vcvtq_f32_s32((i) % 2 ? vmovl_high_s16(half[(i) / 2]) : vmovl_s16(vget_low_s16(half[(i) / 2])))
    return V16_EACH(v16, QUARTER);
#undef QUARTER
}
// The first and the second numbers of 16 pairs of bfloat16.
V16_INLINE v16 v16_load_bf16_even(const void *p) {
    const uint32_t *b = p;
#define QUARTER(i) vreinterpretq_f32_u32(vshlq_n_u32(vld1q_u32(b + 4 * (i)), 16))
    return V16_EACH(v16, QUARTER);
#undef QUARTER
}
V16_INLINE v16 v16_load_bf16_odd(const void *p) {
    const uint32_t *b = p;
#define QUARTER(i) vreinterpretq_f32_u32(vandq_u32(vld1q_u32(b + 4 * (i)), vdupq_n_u32(0xffff0000u)))
    return V16_EACH(v16, QUARTER);
#undef QUARTER
}

#define V16_OPERATION2(name, f) \
    V16_INLINE v16 name(v16 a, v16 b) { \
        return (v16){{f(a.q[0], b.q[0]), f(a.q[1], b.q[1]), f(a.q[2], b.q[2]), f(a.q[3], b.q[3])}}; \
    }
V16_INLINE float32x4_t v16_larger_quarter(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
V16_INLINE float32x4_t v16_add_exponent_quarter(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a), vshlq_n_s32(vreinterpretq_s32_f32(b), 23)));
}
V16_OPERATION2(v16_add, vaddq_f32)
V16_OPERATION2(v16_sub, vsubq_f32)
V16_OPERATION2(v16_mul, vmulq_f32)
V16_OPERATION2(v16_div, vdivq_f32)
V16_OPERATION2(v16_larger, v16_larger_quarter) // a > b ? a : b, also for NaN and zeros
V16_OPERATION2(v16_add_exponent, v16_add_exponent_quarter)
V16_INLINE v16 v16_fma(v16 a, v16 b, v16 c) {
#define QUARTER(i) vfmaq_f32(c.q[i], a.q[i], b.q[i])
    return V16_EACH(v16, QUARTER);
#undef QUARTER
}
V16_INLINE v16 v16_negate(v16 a) {
#define QUARTER(i) vnegq_f32(a.q[i])
    return V16_EACH(v16, QUARTER);
#undef QUARTER
}

V16_INLINE v16_mask v16_less(v16 a, v16 b) {
#define QUARTER(i) vcltq_f32(a.q[i], b.q[i])
    return V16_EACH(v16_mask, QUARTER);
#undef QUARTER
}
V16_INLINE v16_mask v16_is_nan(v16 a) {
#define QUARTER(i) vmvnq_u32(vceqq_f32(a.q[i], a.q[i]))
    return V16_EACH(v16_mask, QUARTER);
#undef QUARTER
}
V16_INLINE v16 v16_select(v16_mask m, v16 yes, v16 no) {
#define QUARTER(i) vbslq_f32(m.q[i], yes.q[i], no.q[i])
    return V16_EACH(v16, QUARTER);
#undef QUARTER
}
V16_INLINE v16 v16_select_first(int64_t n, v16 yes, v16 no) { return v16_select(v16_first(n), yes, no); }

// vec_avx512.h: p * 2^n, 0 where x is below `least`.
V16_INLINE v16 v16_exp_end(v16 p, v16 n, v16 t, v16 x, v16 least) {
    (void)n;
    v16 y = v16_select(v16_less(x, least), v16_zero(), v16_add_exponent(p, t));
    return v16_select(v16_is_nan(x), x, y);
}

V16_INLINE float v16_sum(v16 a) {
    float32x4_t q = vaddq_f32(vaddq_f32(a.q[0], a.q[2]), vaddq_f32(a.q[1], a.q[3]));
    float32x2_t d = vadd_f32(vget_low_f32(q), vget_high_f32(q));
    return vget_lane_f32(d, 0) + vget_lane_f32(d, 1);
}
V16_INLINE float v16_largest(v16 a) {
    float32x4_t q = v16_larger_quarter(v16_larger_quarter(a.q[0], a.q[2]), v16_larger_quarter(a.q[1], a.q[3]));
    q = v16_larger_quarter(q, vextq_f32(q, q, 2));
    return vgetq_lane_f32(v16_larger_quarter(q, vextq_f32(q, q, 1)), 0);
}

V16_INLINE void v16_split_pairs(v16 lo, v16 hi, v16 *first, v16 *second) {
    *first = (v16){{vuzp1q_f32(lo.q[0], lo.q[1]), vuzp1q_f32(lo.q[2], lo.q[3]), vuzp1q_f32(hi.q[0], hi.q[1]),
                    vuzp1q_f32(hi.q[2], hi.q[3])}};
    *second = (v16){{vuzp2q_f32(lo.q[0], lo.q[1]), vuzp2q_f32(lo.q[2], lo.q[3]), vuzp2q_f32(hi.q[0], hi.q[1]),
                     vuzp2q_f32(hi.q[2], hi.q[3])}};
}
V16_INLINE void v16_join_pairs(v16 first, v16 second, v16 *lo, v16 *hi) {
    *lo = (v16){{vzip1q_f32(first.q[0], second.q[0]), vzip2q_f32(first.q[0], second.q[0]),
                 vzip1q_f32(first.q[1], second.q[1]), vzip2q_f32(first.q[1], second.q[1])}};
    *hi = (v16){{vzip1q_f32(first.q[2], second.q[2]), vzip2q_f32(first.q[2], second.q[2]),
                 vzip1q_f32(first.q[3], second.q[3]), vzip2q_f32(first.q[3], second.q[3])}};
}

#endif
