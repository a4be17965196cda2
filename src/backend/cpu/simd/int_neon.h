// Integer vectors for quant_tmpl.h on AArch64 Advanced SIMD: 4 outputs, one per 32-bit lane.
#ifndef TALLY_BACKEND_CPU_SIMD_INT_NEON_H
#define TALLY_BACKEND_CPU_SIMD_INT_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 4 };
#define UNITS_ALONE(n_rows) ((n_rows) == 1 ? DECODE_UNITS : 1) // more has not been measured on such a processor
typedef int32x4_t vi;
typedef float32x4_t vf;

#define INLINE static inline __attribute__((always_inline, unused))

// The same bits as lanes of other sizes.
INLINE int8x16_t as8(vi v) { return vreinterpretq_s8_s32(v); }
INLINE int16x8_t as16(vi v) { return vreinterpretq_s16_s32(v); }
INLINE vi from8(int8x16_t v) { return vreinterpretq_s32_s8(v); }
INLINE vi from16(int16x8_t v) { return vreinterpretq_s32_s16(v); }

INLINE vi vi_load(const void *p) { return from8(vld1q_s8(p)); }
INLINE vi vi_zero(void) { return vdupq_n_s32(0); }
INLINE vi vi_set32(int v) { return vdupq_n_s32(v); }
INLINE vi vi_set16(int v) { return from16(vdupq_n_s16((int16_t)v)); }
INLINE vi vi_set8(int v) { return from8(vdupq_n_s8((int8_t)v)); }
INLINE vi vi_and(vi a, vi b) { return vandq_s32(a, b); }
INLINE vi vi_xor(vi a, vi b) { return veorq_s32(a, b); }
INLINE vi vi_and_or(vi a, vi mask, vi c) { return vorrq_s32(vandq_s32(a, mask), c); } // (a & mask) | c
INLINE vi vi_add16(vi a, vi b) { return from16(vaddq_s16(as16(a), as16(b))); }
INLINE vi vi_add32(vi a, vi b) { return vaddq_s32(a, b); }
INLINE vi vi_sub32(vi a, vi b) { return vsubq_s32(a, b); }
INLINE vi vi_mul32(vi a, vi b) { return vmulq_s32(a, b); }
// Products are signed here, and codes below 128, so that both kinds of weights are one.
INLINE vi vi_pairs_signed(vi w, vi x) {
    const int8x16_t a = as8(w), b = as8(x);
    return from16(vpaddq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(b)), vmull_high_s8(a, b)));
}
INLINE vi vi_pairs(vi w, vi x) { return vi_pairs_signed(w, x); }
INLINE vi vi_madd16(vi a, vi b) {
    return vpaddq_s32(vmull_s16(vget_low_s16(as16(a)), vget_low_s16(as16(b))), vmull_high_s16(as16(a), as16(b)));
}
INLINE vi vi_lookup(const int8_t table[16], vi index) {
    return from8(vqtbl1q_s8(vld1q_s8(table), vreinterpretq_u8_s32(index)));
}
#define VI_SRL16(v, n) vreinterpretq_s32_u16(vshrq_n_u16(vreinterpretq_u16_s32(v), n))
#define VI_SLL16(v, n) vreinterpretq_s32_u16(vshlq_n_u16(vreinterpretq_u16_s32(v), n))
#define VI_SRA32(v, n) vshrq_n_s32(v, n)

// Signed byte j of p twice, as the two 16-bit halves of lane j.
INLINE vi vi_twice(const void *p) {
    uint32_t four;
    memcpy(&four, p, 4);
    const int8x8_t bytes = vreinterpret_s8_u32(vdup_n_u32(four));
    return from16(vmovl_s8(vzip1_s8(bytes, bytes)));
}
// Low halves of a, high halves of b.
INLINE vi vi_halves(vi a, vi b) { return vbslq_s32(vdupq_n_u32(0xffff), a, b); }

INLINE vf vf_load(const float *p) { return vld1q_f32(p); }
INLINE void vf_store(float *p, vf v) { vst1q_f32(p, v); }
INLINE vf vf_load_f16(const void *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
INLINE vf vf_set(float v) { return vdupq_n_f32(v); }
INLINE vf vf_from_vi(vi v) { return vcvtq_f32_s32(v); }
INLINE vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
INLINE vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
INLINE vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }

// The largest magnitude of n numbers (a multiple of 16) as bits.
INLINE uint32_t largest_bits(const float *x, int n) {
    uint32x4_t largest = vdupq_n_u32(0);
    for (int i = 0; i < n; i += 4) {
        const uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + i));
        largest = vmaxq_u32(largest, vandq_u32(bits, vdupq_n_u32(0x7fffffff)));
    }
    return vmaxvq_u32(largest);
}

// q = round(x * inverse), 16 numbers; returns their sum.
INLINE int32_t quantize16(int8_t *q, const float *x, float inverse) {
    int32x4_t v[4];
    for (int i = 0; i < 4; i++) v[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inverse));
    const int16x8_t low = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
    vst1q_s8(q, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    return vaddvq_s32(vaddq_s32(vaddq_s32(v[0], v[1]), vaddq_s32(v[2], v[3])));
}

#endif
