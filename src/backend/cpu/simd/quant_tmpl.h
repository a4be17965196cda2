// The block-quantised kernels of one instruction set: include after its int_*.h, in one file per level. The quant_format and the
// number of rows and panels are constants of each instance, so that one text serves all types.
//
// One vector lane is one output: 4 weights of k (bytes) meet 4 activations broadcast to all lanes. How they are multiplied is the
// level's choice (QUANT_DOT: dot_pairs_tmpl.h, dot_quads_tmpl.h, dot_matrix_tmpl.h); every integer is exact, so no choice changes a bit.
#include "backend/cpu/kernels.h"
#include "backend/cpu/quant_panels.h"
#include "backend/cpu/simd/unroll.h"

enum {
    UNITS = PANEL / LANES,                // vectors per panel
    GROUPS = 8,                           // of 4 k in a chunk
    TILE_ROWS = 8,                        // rows per unpacked group of weights
    DECODE_UNITS = UNITS > 2 ? UNITS : 2, // vectors of outputs at a time for one row
    PREFETCH = 2048, // bytes ahead in a panel: measured; one row from memory streams up to half faster than without
};

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
INLINE vi plane_group(const uint8_t *plane, int bits, int g, int at, vi under) {
    const int per = 8 / bits;
    const uint8_t *at_vector = plane + g / per * QUANT_VECTOR;
    if (g % per == 0) __builtin_prefetch(at_vector + PREFETCH);
    const vi v = vi_load(at_vector);
    return bits == 8 ? v : vi_and_or(shift_right(v, bits * (g % per) - at), vi_set8(((1 << bits) - 1) << at), under);
}

// One block of LANES outputs, from `lane` of its panel, and the same block of n_rows rows of activations.
typedef struct block_rows {
    const uint8_t *w;
    int lane, n_rows;
    const char *x;
    int64_t x_stride;
} block_rows;

// The 4 activations `at` bytes into a block of row r, to every lane.
INLINE vi x_group(block_rows b, int r, int64_t at) {
    int32_t four;
    memcpy(&four, b.x + r * b.x_stride + at, 4);
    return vi_set32(four);
}

#include QUANT_DOT

// The operands of one group: 4 weights of k for each output.
INLINE vi unpack_group(quant_format f, const uint8_t *chunk, int g) {
    vi code = plane_group(chunk, f.low_bits, g, 0, vi_zero());
    if (f.high_bits) code = plane_group(chunk + quant_plane_bytes(f.low_bits), f.high_bits, g, f.low_bits, code);
    return operand(f, code);
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

INLINE bool has_sums(quant_format f) { return f.n_sub && (f.min != QUANT_MIN_NONE || operand_offset(f)); }

// One chunk of 32 k: sums of products in isum, of sub-scales or minimums times sums of x in msum.
INLINE void add_chunk(quant_format f, block_rows b, int c, vi *isum, vi *msum) {
    const uint8_t *chunk = b.w + quant_codes_at(f) + c * quant_chunk_bytes(f) + 4 * b.lane;
    const int64_t q_at = (f.block == 32 ? offsetof(quant_block32, q) : offsetof(quant_block256, q)) + 32 * c;
    const chunk_scales scales = read_scales(f, b.w, b.lane, c);
    const int n = step_groups(f);
    UNROLL for (int g0 = 0; g0 < GROUPS; g0 += n) {
        vi w[GROUPS];
        UNROLL for (int g = 0; g < n; g++) w[g] = unpack_group(f, chunk, g0 + g);
        step_rows(f, b, isum, w, q_at + 4 * g0, scales.half[g0 / 4]);
    }
    if (!has_sums(f)) return;
    UNROLL for (int r = 0; r < b.n_rows; r++) {
        const quant_block256 *xb = (const quant_block256 *)(b.x + r * b.x_stride);
        int32_t two;
        memcpy(&two, xb->sum16 + 2 * c, 4);
        msum[r] = vi_add32(msum[r], vi_madd16(scales.sums, vi_set32(two)));
    }
}

// acc[r] continued over the block.
INLINE void add_block(quant_format f, block_rows b, vf *acc) {
    vi isum[TILE_ROWS], msum[TILE_ROWS];
    const int offset = operand_offset(f);
    UNROLL for (int r = 0; r < b.n_rows; r++) isum[r] = msum[r] = vi_zero();
    for (int c = 0; c < f.block / QUANT_CHUNK; c++) add_chunk(f, b, c, isum, msum);
    finish_rows(isum, b.n_rows);
    const vf d = vf_load_f16(b.w + 2 * b.lane);
    const vf m = f.min == QUANT_MIN_NONE ? d : vf_load_f16(b.w + 32 + 2 * b.lane);
    UNROLL for (int r = 0; r < b.n_rows; r++) {
        const quant_block32 *x32 = (const quant_block32 *)(b.x + r * b.x_stride);
        const vf dx = vf_set(x32->d); // d comes first in both kinds of block
        if (f.block == 32 && offset) isum[r] = vi_sub32(isum[r], vi_set32(offset * x32->sum));
        if (f.n_sub && offset) isum[r] = vi_sub32(isum[r], vi_mul32(msum[r], vi_set32(offset)));
        acc[r] = vf_fma(vf_from_vi(isum[r]), vf_mul(d, dx), acc[r]);
        if (f.min == QUANT_MIN_ADDED) acc[r] = vf_fma(m, vf_set(x32->d * (float)x32->sum), acc[r]);
        if (f.n_sub && f.min != QUANT_MIN_NONE) acc[r] = vf_fnma(vf_from_vi(msum[r]), vf_mul(m, dx), acc[r]);
    }
}

// Rows [row, row + n_rows) of the vectors [unit, unit + n_units), counted through the panels.
INLINE void tile_part(quant_format f, const matmul_tile *t, int unit, int n_units, int row, int n_rows) {
    const int64_t x_block = f.block == 32 ? sizeof(quant_block32) : sizeof(quant_block256);
    vf acc[DECODE_UNITS][TILE_ROWS];
    float *out = t->acc + row * t->acc_stride + unit * LANES;
    const char *x = (const char *)t->x + row * t->x_stride;
    UNROLL for (int u = 0; u < n_units; u++) {
        UNROLL for (int r = 0; r < n_rows; r++) acc[u][r] = vf_load(out + r * t->acc_stride + u * LANES);
    }
    for (int64_t b = t->k0 / f.block; b < t->k1 / f.block; b++) {
        UNROLL for (int u = 0; u < n_units; u++) {
            const uint8_t *panel = (const uint8_t *)t->w + (unit + u) / UNITS * t->panel_stride;
            const block_rows part = {panel + b * quant_block_bytes(f), (unit + u) % UNITS * LANES, n_rows,
                                     x + b * x_block, t->x_stride};
            add_block(f, part, acc[u]);
        }
    }
    UNROLL for (int u = 0; u < n_units; u++) {
        UNROLL for (int r = 0; r < n_rows; r++) vf_store(out + r * t->acc_stride + u * LANES, acc[u][r]);
    }
}

// One row streams several vectors of weights at once; more rows take one vector after the other, as many rows at a time as
// registers hold. The panel read again for the next vector or rows comes from the cache.
INLINE void tile(quant_format f, const matmul_tile *t) {
    const int n_units = t->n_panels * UNITS;
    int u = 0;
    if (t->n_rows == 1)
        for (; u + DECODE_UNITS <= n_units; u += DECODE_UNITS) tile_part(f, t, u, DECODE_UNITS, 0, 1);
    for (; u < n_units; u++) {
        int r = 0;
        for (; r + 8 <= t->n_rows; r += 8) tile_part(f, t, u, 1, r, 8);
        for (; r + 4 <= t->n_rows; r += 4) tile_part(f, t, u, 1, r, 4);
        for (; r + 2 <= t->n_rows; r += 2) tile_part(f, t, u, 1, r, 2);
        if (r < t->n_rows) tile_part(f, t, u, 1, r, 1);
    }
}

#define TILE(name, ...) \
    static void tile_##name(const matmul_tile *t) { tile((quant_format){__VA_ARGS__}, t); }
QUANT_FORMAT_LIST(TILE)
#undef TILE

static void quantize_row32(void *dst, const float *x, int64_t n) {
    quant_block32 *out = dst;
    for (int64_t b = 0; b < n / 32; b++, x += 32) {
        float inverse;
        out[b].d = quant_x_scale(largest_bits(x, 32), &inverse);
        out[b].sum = 0;
        if (inverse == 0) memset(out[b].q, 0, sizeof out[b].q);
        for (int i = 0; i < 32 && inverse != 0; i += 16) out[b].sum += quantize16(out[b].q + i, x + i, inverse);
    }
}

static void quantize_row256(void *dst, const float *x, int64_t n) {
    quant_block256 *out = dst;
    for (int64_t b = 0; b < n / 256; b++, x += 256) {
        float inverse;
        const float d = quant_x_scale(largest_bits(x, 256), &inverse);
        if (inverse == 0) memset(&out[b], 0, sizeof out[b]);
        out[b].d = d;
        for (int j = 0; j < 16 && inverse != 0; j++)
            out[b].sum16[j] = (int16_t)quantize16(out[b].q + 16 * j, x + 16 * j, inverse);
    }
}

static void fill_table(cpu_kernels *k) {
#define TILE(name, ...) k->tile[DTYPE_##name] = tile_##name;
    QUANT_FORMAT_LIST(TILE)
#undef TILE
    k->quantize_row32 = quantize_row32;
    k->quantize_row256 = quantize_row256;
}
