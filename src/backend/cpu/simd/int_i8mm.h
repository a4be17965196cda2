// Integer vectors for quant_tmpl.h on AArch64 with the int8 matrix instructions.
#ifndef TALLY_BACKEND_CPU_SIMD_INT_I8MM_H
#define TALLY_BACKEND_CPU_SIMD_INT_I8MM_H

#include "backend/cpu/simd/int_dotprod.h"

// Two rows of 8 signed bytes in each operand: lane 2 i + j gets sum + row i of w times row j of x.
INLINE vi vi_matrix(vi sum, vi w, vi x) { return vmmlaq_s32(sum, as8(w), as8(x)); }

INLINE vi vi_eights(const void *a, const void *b) { return from8(vcombine_s8(vld1_s8(a), vld1_s8(b))); }
INLINE vi vi_zip_low(vi a, vi b) { return vzip1q_s32(a, b); }
INLINE vi vi_zip_high(vi a, vi b) { return vzip2q_s32(a, b); }
INLINE vi vi_even(vi a, vi b) { return vuzp1q_s32(a, b); }
INLINE vi vi_odd(vi a, vi b) { return vuzp2q_s32(a, b); }

#endif
