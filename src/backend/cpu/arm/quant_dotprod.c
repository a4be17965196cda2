#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "backend/cpu/simd/int_dotprod.h"

#define QUANT_DOT "backend/cpu/simd/dot_quads_tmpl.h"
#include "backend/cpu/simd/quant_tmpl.h"

void kernels_quant_dotprod(cpu_kernels *k) { fill_table(k); }
