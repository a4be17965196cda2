// The float kernels for AVX-512 F, BW, DQ and VL: 32 registers of 16 lanes.
#include "backend/cpu/simd/vec_avx512.h"

// Up to 24 accumulators, 4 weights and an activation; tasks have powers of two of panels. Few rows wait for memory: two panels with
// 3 KiB of each on the way are read fastest (Zen 5; four panels want 2 KiB).
#define TILE_SHAPES(X) \
    X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 4) X(6, 4) X(7, 2) X(8, 2) X(9, 2) X(10, 2) X(11, 2) X(12, 2)
enum {
    TILE_MAX_ROWS = 12,
    TILE_MAX_PANELS = 4,
    TILE_GROUP_ROWS = 12,
    TILE_GROUP_PANELS = 2,
    TILE_GROUP_K = 256,
    TILE_AHEAD = 3072
};

#define KV_SHAPES(X) X(1, 8) X(2, 8) X(3, 4) X(4, 4) X(5, 4) X(6, 4) X(7, 2) X(8, 2)
enum { KV_MAX_QUERIES = 8, KV_MAX_VECTORS = 8, KV_MANY_QUERIES = 6 };

#include "backend/cpu/simd/float_tmpl.h"

void kernels_float_avx512(cpu_kernels *k) { fill_table(k); }
