// The block-quantised tiles of many rows by AMX: tdpbssd and tdpbsud multiply up to 16 rows of activations with 64 k of a panel's 16
// outputs and add in int32. A group of 4 k in a packed panel is a row of a tile of weights as it stands. Few rows take the tile of
// the level below.
//
// Tiles load whole lines of the cache fast and rows that cross lines slowly (measured: six times), so a piece of x is first copied into
// the order of tiles; then every panel passes it.
//
// Blocks of 32: a product per block, then the block's scales as everywhere. Blocks of 256: each weight's integer times the scale of
// its sub-block has up to 14 bits. It is split into a low byte (unsigned) and a high byte (signed), which are multiplied with x
// for all of the block: isum = sum of low + 256 * sum of high, exactly the integer of the order sheet (quant_panels.h).
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd/int_avx512vnni.h"
#include "backend/cpu/simd/quant_unpack_tmpl.h"
#include "backend/cpu/simd/unroll.h"

enum {
    GROUPS = 8,                  // of 4 k in a chunk
    GROUP_ROWS = 16,             // of a tile
    X_ROWS = 64,                 // copied at a time
    PIECE_K = 256,               // likewise
    PIECE_BLOCKS = PIECE_K / 32, // of 32
    LEAST_ROWS_32 = 32,          // from which tiles are faster than the level below, blocks of 32: measured
    LEAST_ROWS_256 = 12,         // blocks of 256
    BATCH = 4,                   // products of one step
    VECTOR = QUANT_VECTOR,
    BLOCK_BYTES = GROUPS * VECTOR, // of the bytes of 32 k
};

// A piece of x: per group of 16 rows the rows of its tiles one behind the other, and what the scales need.
typedef struct amx_x {
    _Alignas(64) int8_t q[X_ROWS / GROUP_ROWS][PIECE_K * GROUP_ROWS];
    float d[X_ROWS][PIECE_BLOCKS];   // of blocks of 256: the first only
    float sum[X_ROWS][PIECE_BLOCKS]; // blocks of 32: d times the sum of q
    int16_t sum16[X_ROWS][16];       // blocks of 256
} amx_x;

// Products on their way: the tiles are told what to multiply and where to store it, then the step before is added to its sums. By
// the time that loads want a step's products they have long been stored.
typedef struct amx_step {
    const uint8_t *block; // in the panel
    float *acc;           // of the panel, for the first row of x
    int group; // of rows; blocks of 256: and the next one, unless n_groups is 1 and the sums come in two halves
    int n_groups;
    int first, n; // blocks of 32: which of the piece
    int buffer;
    bool waits; // not yet added
} amx_step;

// What a call works in: weights as bytes, and products as tiles leave them.
typedef struct amx_scratch {
    amx_x x;
    _Alignas(64) int8_t low[PIECE_BLOCKS * BLOCK_BYTES]; // blocks of 32: signed weights
    _Alignas(64) int8_t high[PIECE_BLOCKS * BLOCK_BYTES];
    vi sums[2][8]; // by buffer; per chunk: minimums, or scales of types with an offset, as pairs
    _Alignas(64) int32_t c[2][BATCH][GROUP_ROWS][PANEL];
    amx_step last;
    int n_rows, n_groups; // of the piece of x
} amx_scratch;

// What was stored at p is in memory before the instructions below read it: some compilers do not count these as accesses.
#define TILES_READ(p) __asm__ volatile("" ::"r"(p) : "memory")

// Palette 1: sums in tiles 0-3, rows of x in 4 and 5, weights in 6 and 7; k numbers in a row of x.
static void configure(int n_rows, int k) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    _Static_assert(sizeof config == 64, "the operand of ldtilecfg");
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = (uint16_t)(i == 4 || i == 5 ? k : VECTOR);
        config.rows[i] = (uint8_t)(i < 6 ? n_rows : k / 4);
    }
    TILES_READ(&config);
    _tile_loadconfig(&config);
}

// Rows of the step's group number g (0 or 1).
static int rows_of(const amx_scratch *s, const amx_step *step, int g) {
    const int left = s->n_rows - (step->group + g) * GROUP_ROWS;
    return left < GROUP_ROWS ? left : GROUP_ROWS;
}

// ---- blocks of 32 --------------------------------------------------------------------------------------------------------

INLINE void copy_x32(quant_format f, amx_x *to, const char *x, int64_t stride, int n_rows, int n) {
    for (int r = 0; r < n_rows; r++) {
        const quant_block32 *from = (const quant_block32 *)(const void *)(x + r * stride);
        int8_t *q = to->q[r / GROUP_ROWS] + r % GROUP_ROWS * 32;
        for (int i = 0; i < n; i++) {
            memcpy(q + i * 32 * GROUP_ROWS, from[i].q, 32);
            to->d[r][i] = from[i].d;
            if (f.min == QUANT_MIN_ADDED) to->sum[r][i] = from[i].d * (float)from[i].sum;
        }
    }
}

// The weights of n blocks as signed bytes.
INLINE void unpack32(quant_format f, int8_t *dst, const uint8_t *w, int n, int64_t ahead) {
    for (int b = 0; b < n; b++, w += quant_block_bytes(f), dst += BLOCK_BYTES) {
        __builtin_prefetch(w + ahead);
        UNROLL for (int g = 0; g < GROUPS; g++) {
            vi code = unpack_group(f, w + quant_codes_at(f), w + quant_codes_at(f) + ahead, g);
            if (f.is_table) code = vi_lookup(iq4_table, code);
            if (f.offset) code = _mm512_sub_epi8(code, vi_set8(f.offset));
            _mm512_store_si512(dst + g * VECTOR, code);
        }
    }
}

// Product i of a step, by way of tiles a (rows of x) and b (weights).
#define PRODUCT32(i, a, b) \
    _tile_zero(i); \
    _tile_loadd(a, x + (i)*32 * GROUP_ROWS, 32); \
    _tile_loadd(b, w + (i)*BLOCK_BYTES, VECTOR); \
    _tile_dpbssd(i, a, b); \
    _tile_stored(i, s->c[step->buffer][i], VECTOR)

INLINE void multiply32(amx_scratch *s, const amx_step *step) {
    const int8_t *x = s->x.q[step->group] + step->first * 32 * GROUP_ROWS, *w = s->low + step->first * BLOCK_BYTES;
    TILES_READ(s);
    PRODUCT32(0, 4, 6);
    if (step->n < BATCH) return;
    PRODUCT32(1, 5, 7);
    PRODUCT32(2, 4, 6);
    PRODUCT32(3, 5, 7);
}

// A step's n products (a constant) times their scales, added to the sums.
INLINE void add32(quant_format f, const matmul_tile *t, const amx_scratch *s, int n) {
    const amx_step *step = &s->last;
    vf d[BATCH], m[BATCH];
    UNROLL for (int i = 0; i < n; i++) {
        d[i] = vf_load_f16(step->block + i * quant_block_bytes(f));
        m[i] = f.min == QUANT_MIN_NONE ? d[i] : vf_load_f16(step->block + i * quant_block_bytes(f) + 32);
    }
    const int row = step->group * GROUP_ROWS, n_rows = rows_of(s, step, 0);
    for (int r = 0; r < n_rows; r++) {
        float *out = step->acc + (row + r) * t->acc_stride;
        const float *dx = s->x.d[row + r] + step->first, *sums = s->x.sum[row + r] + step->first;
        vf sum = vf_load(out);
        UNROLL for (int i = 0; i < n; i++) {
            sum = vf_fma(vf_from_vi(vi_load(s->c[step->buffer][i][r])), vf_mul(d[i], vf_set(dx[i])), sum);
            if (f.min == QUANT_MIN_ADDED) sum = vf_fma(m[i], vf_set(sums[i]), sum);
        }
        vf_store(out, sum);
    }
}

INLINE void finish32(quant_format f, const matmul_tile *t, amx_scratch *s) {
    if (!s->last.waits) return;
    if (s->last.n == BATCH) {
        add32(f, t, s, BATCH);
    } else {
        add32(f, t, s, 1);
    }
    s->last.waits = false;
}

// All groups of rows over the `n` blocks of a panel from step.block on.
INLINE void panel32(quant_format f, const matmul_tile *t, amx_scratch *s, amx_step step, int n, int64_t ahead) {
    const uint8_t *block = step.block;
    unpack32(f, s->low, block, n, ahead);
    for (step.group = 0; step.group < s->n_groups; step.group++) {
        for (step.first = 0; step.first < n; step.first += step.n) {
            step.n = n - step.first >= BATCH ? BATCH : 1;
            step.block = block + step.first * quant_block_bytes(f);
            step.buffer = !s->last.buffer;
            multiply32(s, &step);
            finish32(f, t, s);
            s->last = step;
        }
    }
}

// ---- blocks of 256 -------------------------------------------------------------------------------------------------------

static void copy_x256(amx_x *to, const char *x, int64_t stride, int n_rows) {
    for (int r = 0; r < n_rows; r++) {
        const quant_block256 *from = (const quant_block256 *)(const void *)(x + r * stride);
        int8_t *q = to->q[r / GROUP_ROWS] + r % GROUP_ROWS * 64;
        for (int i = 0; i < 4; i++) memcpy(q + i * 64 * GROUP_ROWS, from->q + 64 * i, 64);
        to->d[r][0] = from->d;
        memcpy(to->sum16[r], from->sum16, sizeof from->sum16);
    }
}

INLINE bool has_high(quant_format f) { return f.min != QUANT_MIN_NIBBLES; } // Q2_K: 3 * 15 is a byte
INLINE int bias(quant_format f) { return f.is_table ? 128 : f.offset; }     // of the unsigned weights below

// Weights times their scales, as low and high bytes.
INLINE void unpack256(quant_format f, amx_scratch *s, vi *sums, const uint8_t *block, int64_t ahead) {
    const vi even_bytes = vi_set16(0x00ff), odd_bytes = vi_set16((int16_t)0xff00);
    for (int i = 0; i < quant_codes_at(f); i += 64) __builtin_prefetch(block + ahead + i);
    for (int c = 0; c < f.block / QUANT_CHUNK; c++) {
        const chunk_scales scales = read_scales(f, block, 0, c);
        sums[c] = scales.sums;
        UNROLL for (int g = 0; g < GROUPS; g++) {
            const vi scale = scales.half[g / 4];
            const uint8_t *chunk = block + quant_codes_at(f) + c * quant_chunk_bytes(f);
            vi w = unpack_group(f, chunk, chunk + ahead, g);
            if (f.is_table) w = vi_xor(vi_lookup(iq4_table, w), vi_set8(128));
            const vi even = vi_pairs(w, vi_and(scale, even_bytes)), odd = vi_pairs(w, VI_SLL16(scale, 8));
            const int at = (c * GROUPS + g) * VECTOR;
            _mm512_store_si512(s->low + at, vi_and_or(even, even_bytes, VI_SLL16(odd, 8)));
            if (has_high(f)) _mm512_store_si512(s->high + at, vi_and_or(odd, odd_bytes, VI_SRL16(even, 8)));
        }
    }
}

// 64 k of weights to tiles 6 and 7; times the rows of one group, added to tiles `low` and `high`.
#define WEIGHTS256(q) \
    _tile_loadd(6, s->low + (q)*16 * VECTOR, VECTOR); \
    if (has_high(f)) _tile_loadd(7, s->high + (q)*16 * VECTOR, VECTOR)
#define PRODUCT256(low, high, a, x, q) \
    _tile_loadd(a, (x) + (q)*64 * GROUP_ROWS, 64); \
    _tile_dpbsud(low, a, 6); \
    if (has_high(f)) _tile_dpbssd(high, a, 7)

INLINE void multiply256(quant_format f, amx_scratch *s, const amx_step *step) {
    const int8_t *one = s->x.q[step->group], *two = one + sizeof s->x.q[0];
    TILES_READ(s);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int q = 0; q < 4 && step->n_groups == 2; q++) {
        WEIGHTS256(q);
        PRODUCT256(0, 1, 4, one, q);
        PRODUCT256(2, 3, 5, two, q);
    }
    for (int q = 0; q < 4 && step->n_groups == 1; q += 2) {
        WEIGHTS256(q);
        PRODUCT256(0, 1, 4, one, q);
        WEIGHTS256(q + 1);
        PRODUCT256(2, 3, 5, one, q + 1);
    }
    _tile_stored(0, s->c[step->buffer][0], VECTOR);
    _tile_stored(2, s->c[step->buffer][2], VECTOR);
    if (has_high(f)) {
        _tile_stored(1, s->c[step->buffer][1], VECTOR);
        _tile_stored(3, s->c[step->buffer][3], VECTOR);
    }
}

// The integer of row r out of the products from c on.
INLINE vi whole(quant_format f, int32_t c[][GROUP_ROWS][PANEL], int r) {
    const vi low = vi_load(c[0][r]);
    return has_high(f) ? vi_add32(low, _mm512_slli_epi32(vi_load(c[1][r]), 8)) : low;
}

// Adds group g of the last step to its sums; halves: its products lie in two parts.
INLINE void add256(quant_format f, const matmul_tile *t, amx_scratch *s, int g, bool halves) {
    const amx_step *step = &s->last;
    const vf d = vf_load_f16(step->block), m = f.min == QUANT_MIN_NONE ? d : vf_load_f16(step->block + 32);
    const int row = (step->group + g) * GROUP_ROWS, n_rows = rows_of(s, step, g);
    vi sums[8];
    UNROLL for (int c = 0; c < 8; c++) sums[c] = s->sums[step->first][c];
    for (int r = 0; r < n_rows; r++) {
        float *out = step->acc + (row + r) * t->acc_stride;
        vi isum = whole(f, s->c[step->buffer] + 2 * g, r), msum = vi_zero();
        if (halves) isum = vi_add32(isum, whole(f, s->c[step->buffer] + 2, r));
        UNROLL for (int c = 0; c < 8; c++) {
            int32_t two;
            memcpy(&two, s->x.sum16[row + r] + 2 * c, 4);
            msum = VI_MADD16_ADD(msum, sums[c], vi_set32(two));
        }
        const vf dx = vf_set(s->x.d[row + r][0]);
        if (bias(f)) isum = vi_sub32(isum, vi_mul32(msum, vi_set32(bias(f))));
        vf sum = vf_fma(vf_from_vi(isum), vf_mul(d, dx), vf_load(out));
        if (f.min != QUANT_MIN_NONE) sum = vf_fnma(vf_from_vi(msum), vf_mul(m, dx), sum);
        vf_store(out, sum);
    }
}

INLINE void finish256(quant_format f, const matmul_tile *t, amx_scratch *s) {
    if (!s->last.waits) return;
    if (s->last.n_groups == 2) {
        add256(f, t, s, 0, false);
        add256(f, t, s, 1, false);
    } else {
        add256(f, t, s, 0, true);
    }
    s->last.waits = false;
}

// All groups of rows over one block of a panel; `first` of its steps is which half of s->sums is theirs.
INLINE void panel256(quant_format f, const matmul_tile *t, amx_scratch *s, amx_step step, int64_t ahead) {
    step.first = !s->last.first;
    unpack256(f, s, s->sums[step.first], step.block, ahead);
    for (step.group = 0; step.group < s->n_groups; step.group += 2) {
        step.n_groups = step.group + 1 < s->n_groups ? 2 : 1;
        step.buffer = !s->last.buffer;
        multiply256(f, s, &step);
        finish256(f, t, s);
        s->last = step;
    }
}

// ---- a call --------------------------------------------------------------------------------------------------------------

INLINE void finish(quant_format f, const matmul_tile *t, amx_scratch *s) {
    if (f.block == 32) {
        finish32(f, t, s);
    } else {
        finish256(f, t, s);
    }
}

// Rows from `row` on, s->n_rows of them, over the n blocks from b on of all panels; `ahead`: where the panels go on.
INLINE void piece(quant_format f, const matmul_tile *t, amx_scratch *s, int row, int64_t b, int64_t ahead) {
    const int64_t left = t->k1 / f.block - b, most = PIECE_K / f.block, n = left < most ? left : most;
    const char *x = (const char *)t->x + row * t->x_stride;
    if (f.block == 32) {
        copy_x32(f, &s->x, x + b * (int64_t)sizeof(quant_block32), t->x_stride, s->n_rows, (int)n);
    } else {
        copy_x256(&s->x, x + b * (int64_t)sizeof(quant_block256), t->x_stride, s->n_rows);
    }
    for (int p = 0; p < t->n_panels; p++) {
        const amx_step step = {.block = (const uint8_t *)t->w + p * t->panel_stride + b * quant_block_bytes(f),
                               .acc = t->acc + row * t->acc_stride + p * PANEL,
                               .waits = true};
        if (f.block == 32) {
            panel32(f, t, s, step, (int)n, ahead);
        } else {
            panel256(f, t, s, step, ahead);
        }
    }
    finish(f, t, s);
}

INLINE void tile(quant_format f, const matmul_tile *t) {
    const int64_t first = t->k0 / f.block, end = t->k1 / f.block, most = PIECE_K / f.block,
                  bytes = quant_block_bytes(f);
    amx_scratch s;
    s.last = (amx_step){.waits = false};
    if (t->n_rows % GROUP_ROWS) memset(s.x.q, 0, sizeof s.x.q); // rows that a group lacks
    configure(t->n_rows < GROUP_ROWS ? t->n_rows : GROUP_ROWS, f.block == 32 ? 32 : 64);
    for (int row = 0; row < t->n_rows; row += X_ROWS) {
        s.n_rows = t->n_rows - row < X_ROWS ? t->n_rows - row : X_ROWS;
        s.n_groups = (s.n_rows + GROUP_ROWS - 1) / GROUP_ROWS;
        for (int64_t b = first; b < end; b += most) {
            const int64_t next_task = t->n_panels * t->panel_stride - (b - first) * bytes;
            piece(f, t, &s, row, b, b + most < end ? most * bytes : next_task);
        }
    }
    _tile_release();
}

#define TILE(name, ...) \
    static void tile_##name(const matmul_tile *t) { \
        const quant_format f = {__VA_ARGS__}; \
        if (t->n_rows < (f.block == 32 ? LEAST_ROWS_32 : LEAST_ROWS_256)) { \
            kernels_quant_avx512vnni_tile(DTYPE_##name)(t); \
        } else { \
            tile(f, t); \
        } \
    }
QUANT_FORMAT_LIST(TILE)
#undef TILE

void kernels_quant_amx(cpu_kernels *k) {
#define TILE(name, ...) k->tile[DTYPE_##name] = tile_##name;
    QUANT_FORMAT_LIST(TILE)
#undef TILE
}
