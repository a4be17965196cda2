#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "backend/cpu/simd/int_i8mm.h"

#define QUANT_DOT "backend/cpu/simd/dot_matrix_tmpl.h"
#include "backend/cpu/simd/quant_tmpl.h"

void kernels_quant_i8mm(cpu_kernels *k) { fill_table(k); }
