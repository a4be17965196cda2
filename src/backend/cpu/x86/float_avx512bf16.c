// The BF16 matrix tile by vdpbf16ps, which multiplies pairs. The order sheet is its own (docs/exactness.md): x is rounded to BF16, of
// each pair the second product is added first, subnormal numbers count as zeros.
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd/tile.h"
#include "backend/cpu/simd/vec_avx512.h"

// Up to 24 accumulators, 4 weights and an activation; few rows as avx512 does it.
#define TILE_SHAPES(X) \
    X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 4) X(6, 4) X(7, 3) X(8, 3) X(9, 2) X(10, 2) X(11, 2) X(12, 2)
enum {
    TILE_MAX_ROWS = 12,
    TILE_MAX_PANELS = 4,
    TILE_GROUP_ROWS = 6,
    TILE_GROUP_PANELS = 4,
    TILE_GROUP_K = 512,
    TILE_AHEAD = 3072
};

V16_INLINE v16 add_pairs(v16 acc, v16 w, const char *x) {
    int32_t pair;
    memcpy(&pair, x, 4);
    return _mm512_dpbf16_ps(acc, (__m512bh)_mm512_castps_si512(w), (__m512bh)_mm512_set1_epi32(pair));
}

#define TILE(name) bf16_dot_##name
#define TILE_DOT add_pairs
#define TILE_PAIR_BYTES 64
#include "backend/cpu/simd/tile_tmpl.h"

void kernels_float_avx512bf16(cpu_kernels *k) {
    k->tile[DTYPE_BF16] = bf16_dot_tile;
    k->x_format[DTYPE_BF16] = X_BF16;
}
