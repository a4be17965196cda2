// The float kernels for AArch64: 32 registers of 4 lanes, four of them for a v16.
#include "backend/cpu/simd/vec_neon.h"

// Up to 24 accumulator registers, 4 weights and an activation.
#define TILE_SHAPES(X) X(1, 4) X(2, 2) X(3, 1) X(4, 1) X(5, 1) X(6, 1)
enum {
    TILE_MAX_ROWS = 6,
    TILE_MAX_PANELS = 4,
    TILE_GROUP_ROWS = 6,
    TILE_GROUP_PANELS = 1,
    TILE_GROUP_K = 256,
    TILE_AHEAD = 4096
};

#define KV_SHAPES(X) X(1, 4) X(2, 2) X(3, 2) X(4, 1) X(5, 1) X(6, 1)
enum { KV_MAX_QUERIES = 6, KV_MAX_VECTORS = 4, KV_MANY_QUERIES = 6 };

#include "backend/cpu/simd/float_tmpl.h"

void kernels_float_neon(cpu_kernels *k) { fill_table(k); }
