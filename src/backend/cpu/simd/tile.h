// What every inclusion of tile_tmpl.h shares.
#ifndef TALLY_BACKEND_CPU_SIMD_TILE_H
#define TALLY_BACKEND_CPU_SIMD_TILE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/cpu/simd/unroll.h"

// Where a matrix block prefetches weights: bytes ahead of those it reads, and how far that moves with each pair of k. `wraps`: what
// would lie behind the panels is taken from the start of those that come next.
typedef struct tile_ahead {
    int64_t distance, step;
    bool wraps;
} tile_ahead;

#endif
