// Integer vectors for quant_tmpl.h on AVX-512 with VNNI.
#ifndef TALLY_BACKEND_CPU_SIMD_INT_AVX512VNNI_H
#define TALLY_BACKEND_CPU_SIMD_INT_AVX512VNNI_H

#include "backend/cpu/simd/int_avx512.h"

enum { SIGNED_BIAS = 128 };

// sum + 4 products of unsigned w and signed x; the form that wraps (vpdpbusds would saturate), and it never does.
INLINE vi vi_dot(vi sum, vi w, vi x) { return _mm512_dpbusd_epi32(sum, w, x); }

#define UNITS_TOGETHER 2

#define VI_MADD16_ADD(acc, a, b) _mm512_dpwssd_epi32(acc, a, b)
#define VI_MADD16_IS_FAST true

#endif
