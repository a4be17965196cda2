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

// Vectors of outputs whose sums grow together, so that they share what is read of x and hide each other's latency (1: one after the
// other, where registers are few).
#ifndef UNITS_TOGETHER
#define UNITS_TOGETHER 1
#endif

// Vectors of outputs that so many rows compute at a time where they pass the weights alone. All of a panel's are read from memory
// once, and its latency is hidden behind more arithmetic.
#ifndef UNITS_ALONE
#define UNITS_ALONE(n_rows) (UNITS > UNITS_TOGETHER ? UNITS : UNITS_TOGETHER)
#endif

enum {
    UNITS = PANEL / LANES, // vectors per panel
    GROUPS = 8,            // of 4 k in a chunk
    TILE_ROWS = 8,         // rows per unpacked group of weights, at most
    FEW_GROUPS = 3,
    // Few groups of rows pass so many bytes before the next ones: memory is what they wait for, and what was fetched has to stay in the
    // first cache. More groups pass so many k: starting is what costs.
    FEW_BYTES = 4608,
    MANY_K = 4096,
    DECODE_UNITS = UNITS > 2 ? UNITS : 2, // vectors of outputs at a time, at most
    PREFETCH = 8192, // bytes ahead of the weights being read, of all units, on into the panels that come next: measured
};

// A block of some vectors of outputs, and the same block of n_rows rows of activations.
typedef struct block_rows {
    const uint8_t *w[DECODE_UNITS];    // the block in each vector's panel
    const uint8_t *next[DECODE_UNITS]; // what is fetched from memory meanwhile, as many bytes
    int lane[DECODE_UNITS];            // the first of its lanes in the panel
    int n_units, n_rows;
    const char *x;
    int64_t x_stride;
} block_rows;

// The 4 activations `at` bytes into a block of row r, to every lane.
INLINE vi x_group(const block_rows *b, int r, int64_t at) {
    int32_t four;
    memcpy(&four, b->x + r * b->x_stride + at, 4);
    return vi_set32(four);
}

// One step of a block: the groups from g0 on of the chunk that begins `at` bytes into the block, whose activations begin x_at bytes into the
// block of x, and the scale of their sub-block: each output's in both halves of its lane.
typedef struct dot_step {
    int64_t at;
    int g0;
    int64_t x_at;
    vi scale[DECODE_UNITS];
} dot_step;

// Group g of the step, of the vector u.
INLINE vi unpack_step_group(quant_format f, const block_rows *b, const dot_step *step, int u, int g) {
    const int64_t at = step->at + 4 * b->lane[u];
    return unpack_group(f, b->w[u] + at, b->next[u] + at, step->g0 + g);
}

#include QUANT_DOT

INLINE bool has_sums(quant_format f) { return f.n_sub && (f.min != QUANT_MIN_NONE || operand_offset(f)); }

// isum[u][r] += the products of one chunk of 32 k.
INLINE void add_products(quant_format f, const block_rows *b, int c, vi (*isum)[TILE_ROWS]) {
    const int64_t q_at = (f.block == 32 ? offsetof(quant_block32, q) : offsetof(quant_block256, q)) + 32 * c;
    const int n = step_groups(f);
    chunk_scales scales[DECODE_UNITS];
    UNROLL for (int u = 0; u < b->n_units; u++) scales[u] = read_scales(f, b->w[u], b->lane[u], c);
    UNROLL for (int g0 = 0; g0 < GROUPS; g0 += n) {
        dot_step step = {.at = quant_codes_at(f) + c * quant_chunk_bytes(f), .g0 = g0, .x_at = q_at + 4 * g0};
        UNROLL for (int u = 0; u < b->n_units; u++) step.scale[u] = scales[u].half[g0 / 4];
        step_rows(f, b, isum, &step);
    }
}

// msum[r] += sub-scales or minimums of one chunk, times sums of x.
INLINE void add_sums(quant_format f, const block_rows *b, int u, int c, vi *msum) {
    const vi sums = read_scales(f, b->w[u], b->lane[u], c).sums;
    UNROLL for (int r = 0; r < b->n_rows; r++) {
        const quant_block256 *xb = (const quant_block256 *)(b->x + r * b->x_stride);
        int32_t two;
        memcpy(&two, xb->sum16 + 2 * c, 4);
        msum[r] = VI_MADD16_ADD(msum[r], sums, vi_set32(two));
    }
}

// acc[u][r] continued over the block.
INLINE void add_block(quant_format f, const block_rows *b, vf (*acc)[TILE_ROWS]) {
    vi isum[DECODE_UNITS][TILE_ROWS];
    UNROLL for (int u = 0; u < b->n_units; u++) {
        for (int i = 0; i < quant_codes_at(f) && b->lane[u] == 0; i += 64) __builtin_prefetch(b->next[u] + i);
    }
    const int offset = operand_offset(f);
    UNROLL for (int r = 0; r < b->n_rows; r++) {
        const quant_block32 *x32 = (const quant_block32 *)(b->x + r * b->x_stride);
        const bool below = STARTS_BELOW && f.block == 32 && offset;
        const vi first = below ? vi_mul32(vi_set32(x32->sum), vi_set32(-offset)) : vi_zero();
        UNROLL for (int u = 0; u < b->n_units; u++) isum[u][r] = first;
    }
    for (int c = 0; c < f.block / QUANT_CHUNK; c++) add_products(f, b, c, isum);
    UNROLL for (int u = 0; u < b->n_units; u++) {
        finish_rows(isum[u], b->n_rows);
        vi msum[TILE_ROWS]; // apart from the products: both together take more registers than there are
        UNROLL for (int r = 0; r < b->n_rows; r++) msum[r] = vi_zero();
        for (int c = 0; c < f.block / QUANT_CHUNK && has_sums(f); c++) add_sums(f, b, u, c, msum);
        const vf d = vf_load_f16(b->w[u] + 2 * b->lane[u]);
        const vf m = f.min == QUANT_MIN_NONE ? d : vf_load_f16(b->w[u] + 32 + 2 * b->lane[u]);
        UNROLL for (int r = 0; r < b->n_rows; r++) {
            const quant_block32 *x32 = (const quant_block32 *)(b->x + r * b->x_stride);
            const vf dx = vf_set(x32->d); // d comes first in both kinds of block
            vi sum = isum[u][r];
            if (!STARTS_BELOW && f.block == 32 && offset) sum = vi_sub32(sum, vi_set32(offset * x32->sum));
            if (f.n_sub && offset) sum = vi_sub32(sum, vi_mul32(msum[r], vi_set32(offset)));
            acc[u][r] = vf_fma(vf_from_vi(sum), vf_mul(d, dx), acc[u][r]);
            if (f.min == QUANT_MIN_ADDED) acc[u][r] = vf_fma(m, vf_set(x32->d * (float)x32->sum), acc[u][r]);
            if (f.n_sub && f.min != QUANT_MIN_NONE) acc[u][r] = vf_fnma(vf_from_vi(msum[r]), vf_mul(m, dx), acc[u][r]);
        }
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
    const int64_t all = t->k / f.block, blocks = PREFETCH / n_units / bytes, far = blocks < all ? blocks : all;
    const int64_t wrapped = ((unit + n_units) / UNITS - unit / UNITS) * t->panel_stride - (all - far) * bytes;
    int turn = g.index;
    for (int64_t b = first; b < end; b++) {
        const int64_t alone = b + far < all ? far * bytes : wrapped;
        const int64_t ahead = g.n_groups == 1 ? alone : turn == 0 ? g.next : 0;
        turn = turn == 0 ? g.n_groups - 1 : turn - 1;
        UNROLL for (int u = 0; u < n_units; u += UNITS_TOGETHER) {
            block_rows block = {.n_units = n_units - u < UNITS_TOGETHER ? n_units - u : UNITS_TOGETHER,
                                .n_rows = n_rows};
            block.x = x + b * x_block, block.x_stride = t->x_stride;
            UNROLL for (int i = 0; i < block.n_units; i++) {
                block.w[i] = (const uint8_t *)t->w + (unit + u + i) / UNITS * t->panel_stride + b * bytes;
                block.next[i] = block.w[i] + ahead;
                block.lane[i] = (unit + u + i) % UNITS * LANES;
            }
            add_block(f, &block, acc + u);
        }
    }
    UNROLL for (int u = 0; u < n_units; u++) {
        UNROLL for (int r = 0; r < n_rows; r++) vf_store(out + r * t->acc_stride + u * LANES, acc[u][r]);
    }
}

// The group's n_rows rows (a constant) of the vectors [unit, unit_end).
INLINE void strip_rows(quant_format f, const matmul_tile *t, int unit, int unit_end, int n_rows, row_group g) {
    const int n = g.n_groups == 1 ? UNITS_ALONE(n_rows) : UNITS_TOGETHER;
    const bool side_by_side = n <= UNITS || g.n_groups > 1 || !t->one_by_one;
    for (; n > 1 && side_by_side && unit + n <= unit_end; unit += n) tile_part(f, t, unit, n, n_rows, g);
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
    const int units = n_groups == 1 ? n_units : UNITS > UNITS_TOGETHER ? UNITS : UNITS_TOGETHER;
    const int64_t bytes = quant_block_bytes(f), few = FEW_BYTES / (units / UNITS * bytes) * f.block;
    const int64_t piece_k = n_groups == 1 ? t->k1 - t->k0 : n_groups > FEW_GROUPS ? MANY_K : few > 0 ? few : f.block;
    matmul_tile piece = *t;
    for (int unit = 0; unit < n_units; unit += units) {
        const int unit_end = unit + units < n_units ? unit + units : n_units;
        for (int64_t k = t->k0; k < t->k1; k = piece.k1) {
            piece.k0 = k;
            piece.k1 = k + piece_k >= t->k1 ? t->k1 : k + piece_k;
            const int64_t at = (k - t->k0) / f.block * bytes;
            const int64_t next = piece.k1 < t->k1 ? piece_k / f.block * bytes : units / UNITS * t->panel_stride - at;
            for (int g = 0; g < n_groups; g++) {
                const int row = t->n_rows * g / n_groups, row_end = t->n_rows * (g + 1) / n_groups;
                strip(f, &piece, unit, unit_end, (row_group){row, row_end - row, g, n_groups, next});
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
    k->block_panels = UNITS_TOGETHER > UNITS ? UNITS_TOGETHER / UNITS : 1;
    k->quantize_row32 = quantize_row32;
    k->quantize_row256 = quantize_row256;
}
