// What every inclusion of tile_tmpl.h shares.
#ifndef TALLY_BACKEND_CPU_SIMD_TILE_H
#define TALLY_BACKEND_CPU_SIMD_TILE_H

#include <stdint.h>

// Unrolls the loop that follows; its bounds must be constants.
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

// Where a matrix block prefetches weights: bytes ahead of those it reads, and how far that moves with each pair of k.
typedef struct tile_ahead {
    int64_t distance, step;
} tile_ahead;

#endif
