// What every inclusion of tile_tmpl.h shares.
#ifndef TALLY_BACKEND_CPU_SIMD_TILE_H
#define TALLY_BACKEND_CPU_SIMD_TILE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/cpu/simd/unroll.h"

// Up to so many sums (rows times panels) the loop over k is unrolled: few rows wait for memory, and the fewer instructions a line of
// weights takes, the more lines a core keeps on their way. Where registers are few, groups of rows need it, too (avx2: 6 rows, one
// panel: 274 tokens/s of a prompt without, 345 with).
enum { TILE_FEW_SUMS = 8 };

// Where a matrix block prefetches weights: bytes ahead of those it reads, and how far that moves with each pair of k. `wraps`: what
// would lie behind the panels is taken from the start of those that come next.
typedef struct tile_ahead {
    int64_t distance, step;
    bool wraps;
} tile_ahead;

#endif
