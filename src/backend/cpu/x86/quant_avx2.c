#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "backend/cpu/simd/int_avx2.h"

#define QUANT_DOT "backend/cpu/simd/dot_pairs_tmpl.h"
#include "backend/cpu/simd/quant_tmpl.h"

void kernels_quant_avx2(cpu_kernels *k) { fill_table(k); }
