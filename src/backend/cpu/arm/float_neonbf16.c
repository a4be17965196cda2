// The BF16 matrix tile by bfdot, which multiplies pairs. The order sheet is its own (docs/exactness.md): x is rounded to BF16, the two
// products of a pair are added first, sums are rounded to odd, subnormal numbers count as zeros.
#include <stdbool.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd/tile.h"
#include "backend/cpu/simd/vec_neon.h"

// Up to 24 accumulator registers; a weight and an activation.
#define TILE_SHAPES(X) X(1, 4) X(2, 2) X(3, 2) X(4, 1) X(5, 1) X(6, 1)
enum {
    TILE_MAX_ROWS = 6,
    TILE_MAX_PANELS = 4,
    TILE_GROUP_ROWS = 6,
    TILE_GROUP_PANELS = 1,
    TILE_GROUP_K = 512,
    TILE_AHEAD = 4096
};

V16_INLINE v16 add_pairs(v16 acc, v16 w, const char *x) {
    uint32_t pair;
    memcpy(&pair, x, 4);
    const bfloat16x8_t pairs = vreinterpretq_bf16_u32(vdupq_n_u32(pair));
    for (int i = 0; i < 4; i++) acc.q[i] = vbfdotq_f32(acc.q[i], vreinterpretq_bf16_f32(w.q[i]), pairs);
    return acc;
}

#define TILE(name) bf16_dot_##name
#define TILE_DOT add_pairs
#define TILE_PAIR_BYTES 64
#include "backend/cpu/simd/tile_tmpl.h"

void kernels_float_neonbf16(cpu_kernels *k) {
    k->tile[DTYPE_BF16] = bf16_dot_tile;
    k->x_format[DTYPE_BF16] = X_BF16;
}
