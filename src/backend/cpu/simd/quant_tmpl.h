// The block-quantised kernels of one instruction set: include after its int_*.h, in one file per level. The quant_format and the
// number of rows and panels are constants of each instance, so that one text serves all types.
//
// One vector lane is one output: 4 weights of k (bytes) meet 4 activations broadcast to all lanes. How they are multiplied is the
// level's choice (QUANT_DOT: dot_pairs_tmpl.h, dot_quads_tmpl.h, dot_matrix_tmpl.h); every integer is exact, so no choice changes a bit.
#include "backend/cpu/kernels.h"
#include "backend/cpu/quant_panels.h"
#include "backend/cpu/simd/quant_unpack_tmpl.h"
#include "backend/cpu/simd/unroll.h"

// acc plus the sums of pairs of products of 16-bit lanes.
#ifndef VI_MADD16_ADD
#define VI_MADD16_ADD(acc, a, b) vi_add32(acc, vi_madd16(a, b))
#define VI_MADD16_IS_FAST false
#endif

// Vectors of outputs that so many rows compute at a time where they pass the weights alone. All of a panel's are read from memory
// once, and its latency is hidden behind more arithmetic.
#ifndef UNITS_ALONE
#define UNITS_ALONE(n_rows) DECODE_UNITS
#endif

enum {
    UNITS = PANEL / LANES, // vectors per panel
    GROUPS = 8,            // of 4 k in a chunk
    TILE_ROWS = 8,         // rows per unpacked group of weights, at most
    FEW_GROUPS = 3,
    FEW_K = 256,   // k that few groups of rows pass before the next ones: memory is what they wait for
    MANY_K = 4096, // of more groups: starting is what costs
    DECODE_UNITS = UNITS > 2 ? UNITS : 2, // vectors of outputs at a time, at most
    PREFETCH = 8192, // bytes ahead of the weights being read, of all units, on into the panels that come next: measured
};

// One block of LANES outputs, from `lane` of its panel, and the same block of n_rows rows of activations.
typedef struct block_rows {
    const uint8_t *w;
    int64_t ahead; // from the weights being read to those being prefetched, in bytes
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

// One step of a block: the groups from g0 on of a chunk, whose activations begin x_at bytes into the block of x, and the scale of
// their sub-block: each output's in both halves of its lane.
typedef struct dot_step {
    const uint8_t *chunk;
    int g0;
    int64_t x_at;
    vi scale;
} dot_step;

#include QUANT_DOT

INLINE bool has_sums(quant_format f) { return f.n_sub && (f.min != QUANT_MIN_NONE || operand_offset(f)); }

// One chunk of 32 k: sums of products in isum, of sub-scales or minimums times sums of x in msum.
INLINE void add_chunk(quant_format f, block_rows b, int c, vi *isum, vi *msum) {
    const uint8_t *chunk = b.w + quant_codes_at(f) + c * quant_chunk_bytes(f) + 4 * b.lane;
    const int64_t q_at = (f.block == 32 ? offsetof(quant_block32, q) : offsetof(quant_block256, q)) + 32 * c;
    const chunk_scales scales = read_scales(f, b.w, b.lane, c);
    const int n = step_groups(f);
    UNROLL for (int g0 = 0; g0 < GROUPS; g0 += n) {
        step_rows(f, b, isum, (dot_step){chunk, g0, q_at + 4 * g0, scales.half[g0 / 4]});
    }
    if (!has_sums(f)) return;
    UNROLL for (int r = 0; r < b.n_rows; r++) {
        const quant_block256 *xb = (const quant_block256 *)(b.x + r * b.x_stride);
        int32_t two;
        memcpy(&two, xb->sum16 + 2 * c, 4);
        msum[r] = VI_MADD16_ADD(msum[r], scales.sums, vi_set32(two));
    }
}

// acc[r] continued over the block.
INLINE void add_block(quant_format f, block_rows b, vf *acc) {
    vi isum[TILE_ROWS], msum[TILE_ROWS];
    for (int i = 0; i < quant_codes_at(f) && b.lane == 0; i += 64) __builtin_prefetch(b.w + b.ahead + i);
    const int offset = operand_offset(f);
    UNROLL for (int r = 0; r < b.n_rows; r++) {
        const quant_block32 *x32 = (const quant_block32 *)(b.x + r * b.x_stride);
        isum[r] = STARTS_BELOW && f.block == 32 && offset ? vi_set32(-offset * x32->sum) : vi_zero();
        msum[r] = vi_zero();
    }
    for (int c = 0; c < f.block / QUANT_CHUNK; c++) add_chunk(f, b, c, isum, msum);
    finish_rows(isum, b.n_rows);
    const vf d = vf_load_f16(b.w + 2 * b.lane);
    const vf m = f.min == QUANT_MIN_NONE ? d : vf_load_f16(b.w + 32 + 2 * b.lane);
    UNROLL for (int r = 0; r < b.n_rows; r++) {
        const quant_block32 *x32 = (const quant_block32 *)(b.x + r * b.x_stride);
        const vf dx = vf_set(x32->d); // d comes first in both kinds of block
        if (!STARTS_BELOW && f.block == 32 && offset) isum[r] = vi_sub32(isum[r], vi_set32(offset * x32->sum));
        if (f.n_sub && offset) isum[r] = vi_sub32(isum[r], vi_mul32(msum[r], vi_set32(offset)));
        acc[r] = vf_fma(vf_from_vi(isum[r]), vf_mul(d, dx), acc[r]);
        if (f.min == QUANT_MIN_ADDED) acc[r] = vf_fma(m, vf_set(x32->d * (float)x32->sum), acc[r]);
        if (f.n_sub && f.min != QUANT_MIN_NONE) acc[r] = vf_fnma(vf_from_vi(msum[r]), vf_mul(m, dx), acc[r]);
    }
}

// Where a group of rows stands among `n_groups` that pass the same weights, and how far behind these lie the ones that come next:
// each group prefetches every n_groups-th block of them. A group alone prefetches a little ahead of itself (next is not used).
typedef struct row_group {
    int row, n_rows, index, n_groups;
    int64_t next;
} row_group;

// The group's n_rows rows (a constant) of the vectors [unit, unit + n_units), counted through the panels.
INLINE void tile_part(quant_format f, const matmul_tile *t, int unit, int n_units, int n_rows, row_group g) {
    const int64_t x_block = f.block == 32 ? sizeof(quant_block32) : sizeof(quant_block256);
    vf acc[DECODE_UNITS][TILE_ROWS];
    float *out = t->acc + g.row * t->acc_stride + unit * LANES;
    const char *x = (const char *)t->x + g.row * t->x_stride;
    UNROLL for (int u = 0; u < n_units; u++) {
        UNROLL for (int r = 0; r < n_rows; r++) acc[u][r] = vf_load(out + r * t->acc_stride + u * LANES);
    }
    const int64_t bytes = quant_block_bytes(f), first = t->k0 / f.block, end = t->k1 / f.block;
    const int64_t blocks = PREFETCH / n_units / bytes, far = blocks < end - first ? blocks : end - first;
    const int64_t wrapped = ((unit + n_units) / UNITS - unit / UNITS) * t->panel_stride - (end - first - far) * bytes;
    int turn = g.index;
    for (int64_t b = first; b < end; b++) {
        const int64_t alone = b + far < end ? far * bytes : wrapped;
        const int64_t ahead = g.n_groups == 1 ? alone : turn == 0 ? g.next : 0;
        turn = turn == 0 ? g.n_groups - 1 : turn - 1;
        UNROLL for (int u = 0; u < n_units; u++) {
            const uint8_t *panel = (const uint8_t *)t->w + (unit + u) / UNITS * t->panel_stride;
            const int lane = (unit + u) % UNITS * LANES;
            const uint8_t *w = panel + b * bytes;
            add_block(f, (block_rows){w, ahead, lane, n_rows, x + b * x_block, t->x_stride}, acc[u]);
        }
    }
    UNROLL for (int u = 0; u < n_units; u++) {
        UNROLL for (int r = 0; r < n_rows; r++) vf_store(out + r * t->acc_stride + u * LANES, acc[u][r]);
    }
}

// The group's n_rows rows (a constant) of the vectors [unit, unit_end).
INLINE void strip_rows(quant_format f, const matmul_tile *t, int unit, int unit_end, int n_rows, row_group g) {
    const int n = UNITS_ALONE(n_rows);
    for (; n > 1 && g.n_groups == 1 && unit + n <= unit_end; unit += n) tile_part(f, t, unit, n, n_rows, g);
    for (; unit < unit_end; unit++) tile_part(f, t, unit, 1, n_rows, g);
}

INLINE void strip(quant_format f, const matmul_tile *t, int unit, int unit_end, row_group g) {
    switch (g.n_rows) {
    case 1: strip_rows(f, t, unit, unit_end, 1, g); break;
    case 2: strip_rows(f, t, unit, unit_end, 2, g); break;
    case 3: strip_rows(f, t, unit, unit_end, 3, g); break;
    case 4: strip_rows(f, t, unit, unit_end, 4, g); break;
    case 5: strip_rows(f, t, unit, unit_end, 5, g); break;
    case 6: strip_rows(f, t, unit, unit_end, 6, g); break;
    case 7: strip_rows(f, t, unit, unit_end, 7, g); break;
    case 8: strip_rows(f, t, unit, unit_end, 8, g); break;
    }
}
_Static_assert(TILE_ROWS == 8, "strip has a case for each");

// Up to TILE_ROWS rows stream the weights past all of k. More rows are dealt into groups of nearly equal size that pass one piece of
// a panel after the other, so that it is read from memory once.
INLINE void tile(quant_format f, const matmul_tile *t) {
    const int n_groups = (t->n_rows + TILE_ROWS - 1) / TILE_ROWS, n_units = t->n_panels * UNITS;
    const int units = n_groups == 1 ? n_units : UNITS;
    const int64_t piece_k = n_groups == 1 ? t->k1 - t->k0 : n_groups <= FEW_GROUPS ? FEW_K : MANY_K;
    matmul_tile piece = *t;
    for (int unit = 0; unit < n_units; unit += units) {
        for (int64_t k = t->k0; k < t->k1; k = piece.k1) {
            piece.k0 = k;
            piece.k1 = k + piece_k >= t->k1 ? t->k1 : k + piece_k;
            const int64_t bytes = quant_block_bytes(f), at = (k - t->k0) / f.block * bytes;
            const int64_t next = piece.k1 < t->k1 ? piece_k / f.block * bytes : t->panel_stride - at;
            for (int g = 0; g < n_groups; g++) {
                const int row = t->n_rows * g / n_groups, row_end = t->n_rows * (g + 1) / n_groups;
                strip(f, &piece, unit, unit + units, (row_group){row, row_end - row, g, n_groups, next});
            }
        }
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
