#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "backend/cpu/simd/int_avx512vnni.h"

#define QUANT_DOT "backend/cpu/simd/dot_quads_tmpl.h"
#include "backend/cpu/simd/quant_tmpl.h"

void kernels_quant_avx512vnni(cpu_kernels *k) { fill_table(k); }

matmul_tile_fn *kernels_quant_avx512vnni_tile(dtype type) {
    static matmul_tile_fn *const table[DTYPE_COUNT] = {
#define TILE(name, ...) [DTYPE_##name] = tile_##name,
        QUANT_FORMAT_LIST(TILE)
#undef TILE
    };
    return table[type];
}
