// Reading a packed block (quant_panels.h) into vectors: codes and sub-scales. Include after the level's int_*.h.
#include <assert.h>

#include "backend/cpu/quant_panels.h"

// 16-bit lanes shifted right by n, or left by -n; n is a constant of the instance.
INLINE vi shift_right(vi v, int n) {
    switch (n) {
    case 0: return v;
    case -4: return VI_SLL16(v, 4);
    case -3: return VI_SLL16(v, 3);
    case -2: return VI_SLL16(v, 2);
    case -1: return VI_SLL16(v, 1);
    case 1: return VI_SRL16(v, 1);
    case 2: return VI_SRL16(v, 2);
    case 3: return VI_SRL16(v, 3);
    case 4: return VI_SRL16(v, 4);
    case 5: return VI_SRL16(v, 5);
    case 6: return VI_SRL16(v, 6);
    default: assert(!"no plane needs this shift"); return v;
    }
}

// Bits of group g of a plane, moved to bit `at` of their bytes, over the bits in `under`.
INLINE vi plane_group(const uint8_t *plane, const uint8_t *next, int bits, int g, int at, vi under) {
    const int per = 8 / bits;
    const uint8_t *at_vector = plane + g / per * QUANT_VECTOR;
    if (g % per == 0) __builtin_prefetch(next + g / per * QUANT_VECTOR);
    const vi v = vi_load(at_vector);
    return bits == 8 ? v : vi_and_or(shift_right(v, bits * (g % per) - at), vi_set8(((1 << bits) - 1) << at), under);
}

// The codes of one group of a chunk: 4 of k for each output.
INLINE vi unpack_group(quant_format f, const uint8_t *chunk, const uint8_t *next, int g) {
    const vi code = plane_group(chunk, next, f.low_bits, g, 0, vi_zero());
    if (!f.high_bits) return code;
    const int high_at = quant_plane_bytes(f.low_bits);
    return plane_group(chunk + high_at, next + high_at, f.high_bits, g, f.low_bits, code);
}

// Sub-scales of one chunk as pairs: of its first and second half, and what the sums of x are multiplied with: the minimums, or
// for types with an offset the scales again.
typedef struct chunk_scales {
    vi half[2], sums;
} chunk_scales;

INLINE chunk_scales read_scales(quant_format f, const uint8_t *block, int lane, int c) {
    chunk_scales out = {{vi_set16(1), vi_set16(1)}, vi_zero()};
    const int at = 16 * c + lane;
    if (f.n_sub == 8) {
        out.half[0] = out.half[1] = vi_twice(block + quant_scales_at(f) + at);
        out.sums = f.min == QUANT_MIN_BYTES ? vi_twice(block + quant_mins_at(f) + at) : out.half[0];
    } else if (f.n_sub == 16) {
        const uint8_t *p = block + quant_scales_at(f) + 16 * c + at;
        const vi a = vi_twice(p), b = vi_twice(p + 16), nibble = vi_set16(15);
        const bool nibbles = f.min == QUANT_MIN_NIBBLES;
        out.half[0] = nibbles ? vi_and(a, nibble) : a;
        out.half[1] = nibbles ? vi_and(b, nibble) : b;
        out.sums = vi_halves(a, b);
        if (nibbles) out.sums = vi_and(VI_SRL16(out.sums, 4), nibble);
    }
    return out;
}
