// Integer vectors for quant_tmpl.h on AArch64 with the dot product instructions.
#ifndef TALLY_BACKEND_CPU_SIMD_INT_DOTPROD_H
#define TALLY_BACKEND_CPU_SIMD_INT_DOTPROD_H

#include "backend/cpu/simd/int_neon.h"

enum { SIGNED_BIAS = 0 };

// sum + 4 products of signed bytes; codes are below 128.
INLINE vi vi_dot(vi sum, vi w, vi x) { return vdotq_s32(sum, as8(w), as8(x)); }

#endif
