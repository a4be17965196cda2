// Packing of block-quantised weights: file blocks to integers to panels, and back. Driven by two tables: how a file block is laid
// out (source_layout) and how a packed one is (quant_format); no code per type but the four ways sub-scales are folded in files.
#include "backend/cpu/quant_panels.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/pack.h"
#include "tensor/blocks.h"

typedef enum scale_code {
    SCALES_NONE,
    SCALES_NIBBLES, // 16 bytes, scale | min << 4
    SCALES_Q3_K,    // 12 bytes, 16 scales of 6 bits, offset 32
    SCALES_Q4_K,    // 12 bytes, 8 scales and 8 mins of 6 bits
    SCALES_BYTES,   // 16 signed bytes
    SCALES_IQ4_XS,  // u16 of high bits, 4 bytes of low nibbles, offset 32
} scale_code;

// Where a file block keeps its parts (bytes from its start). A plane of b bits stores `run` consecutive codes in consecutive bytes
// at one bit position, the next run of codes at the next position of the same bytes.
typedef struct source_layout {
    int d_at, m_at, scales_at, low_at, low_run, high_at, high_run;
    scale_code scales;
} source_layout;

#define AT(block, part) offsetof(block_##block, part)
// type: d, m, scales, low plane at, its run, high plane at, its run, scale code; what a type has not is 0
#define SOURCE_LIST(X) \
    X(Q8_0, AT(q8_0, d), 0, 0, AT(q8_0, q), 32, 0, 1, SCALES_NONE) \
    X(Q4_0, AT(q4_0, d), 0, 0, AT(q4_0, q), 16, 0, 1, SCALES_NONE) \
    X(Q4_1, AT(q4_1, d), AT(q4_1, m), 0, AT(q4_1, q), 16, 0, 1, SCALES_NONE) \
    X(Q5_0, AT(q5_0, d), 0, 0, AT(q5_0, q), 16, AT(q5_0, high), 1, SCALES_NONE) \
    X(Q5_1, AT(q5_1, d), AT(q5_1, m), 0, AT(q5_1, q), 16, AT(q5_1, high), 1, SCALES_NONE) \
    X(IQ4_NL, AT(iq4_nl, d), 0, 0, AT(iq4_nl, q), 16, 0, 1, SCALES_NONE) \
    X(Q2_K, AT(q2_k, d), AT(q2_k, m), AT(q2_k, scale), AT(q2_k, q), 32, 0, 1, SCALES_NIBBLES) \
    X(Q3_K, AT(q3_k, d), 0, AT(q3_k, scale), AT(q3_k, q), 32, AT(q3_k, high), 32, SCALES_Q3_K) \
    X(Q4_K, AT(q4_k, d), AT(q4_k, m), AT(q4_k, scale), AT(q4_k, q), 32, 0, 1, SCALES_Q4_K) \
    X(Q5_K, AT(q5_k, d), AT(q5_k, m), AT(q5_k, scale), AT(q5_k, q), 32, AT(q5_k, high), 32, SCALES_Q4_K) \
    X(Q6_K, AT(q6_k, d), 0, AT(q6_k, scale), AT(q6_k, low), 64, AT(q6_k, high), 32, SCALES_BYTES) \
    X(IQ4_XS, AT(iq4_xs, d), 0, 0, AT(iq4_xs, q), 16, 0, 1, SCALES_IQ4_XS)

quant_format quant_format_of(dtype type) {
    switch (type) {
#define FORMAT_CASE(name, ...) \
    case DTYPE_##name: return (quant_format){__VA_ARGS__};
        QUANT_FORMAT_LIST(FORMAT_CASE)
#undef FORMAT_CASE
    default: assert(!"not a block type"); return (quant_format){.block = 32, .low_bits = 8, .is_signed = true};
    }
}

// One function per type comes out of the same lines: format and layout are constants where these are inlined. Loading a model is
// packing it.
#define INLINE static inline __attribute__((always_inline))

// ---- packing -------------------------------------------------------------------------------------------------------------

// Bytes are handled 8 or 4 at a time as one integer; a field never leaves its byte, so shifts carry nothing across.
static const uint64_t each_byte = 0x0101010101010101u;

INLINE uint64_t load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

// The b-bit fields of the 32 codes from code c on, 8 to an integer.
INLINE void read_fields(uint64_t x[4], const uint8_t *plane, int c, int bits, int run) {
    const int per = 8 / bits;
    if (run == 1) { // one byte holds the bits of 8 codes: bit b to byte b
        for (int i = 0; i < 4; i++) {
            x[i] = ((plane[c / 8 + i] * each_byte & 0x8040201008040201u) + each_byte * 0x7f) >> 7 & each_byte;
        }
        return;
    }
    const uint64_t mask = each_byte * ((1u << bits) - 1);
    const uint8_t *at = plane + c / (run * per) * run + c % run;
    const int shift = c / run % per * bits, second = run == 16 ? bits : 0; // a run of 16 ends within the chunk
    x[0] = load64(at) >> shift & mask;
    x[1] = load64(at + 8) >> shift & mask;
    x[2] = load64(at + (run == 16 ? 0 : 16)) >> (shift + second) & mask;
    x[3] = load64(at + (run == 16 ? 8 : 24)) >> (shift + second) & mask;
}

INLINE void put32(uint8_t *plane, int vector, int j, uint64_t word) {
    const uint32_t w = (uint32_t)word;
    memcpy(plane + vector * QUANT_VECTOR + 4 * j, &w, 4);
}

// The same fields as output j of a packed plane: groups of 4 codes, 8 / bits groups side by side in a word.
INLINE void write_fields(uint8_t *plane, int j, const uint64_t x[4], int bits) {
    if (bits == 8) {
        for (int i = 0; i < 4; i++) put32(plane, 2 * i, j, x[i]), put32(plane, 2 * i + 1, j, x[i] >> 32);
        return;
    }
    const int up = 32 - bits; // x | x >> up: the second group behind the first
    const uint64_t a = x[0] | x[0] >> up, b = x[1] | x[1] >> up, c = x[2] | x[2] >> up, d = x[3] | x[3] >> up;
    if (bits == 4) {
        put32(plane, 0, j, a), put32(plane, 1, j, b), put32(plane, 2, j, c), put32(plane, 3, j, d);
    } else if (bits == 2) {
        put32(plane, 0, j, a | b << 4), put32(plane, 1, j, c | d << 4);
    } else {
        put32(plane, 0, j, a | b << 2 | c << 4 | d << 6);
    }
}

// The integer scale and minimum of sub-block i, as a file block has them.
INLINE void read_scale(const uint8_t *block, int at, scale_code how, int i, int *scale, int *min) {
    const uint8_t *s = block + at;
    *scale = *min = 0;
    switch (how) {
    case SCALES_NONE: break;
    case SCALES_BYTES: *scale = (int8_t)s[i]; break;
    case SCALES_NIBBLES: *scale = s[i] & 15, *min = s[i] >> 4; break;
    case SCALES_Q3_K: *scale = blocks_q3_k_scale(s, i); break;
    case SCALES_Q4_K: blocks_scale_min(s, i, scale, min); break;
    case SCALES_IQ4_XS: *scale = blocks_iq4_xs_scale((const block_iq4_xs *)block, i); break;
    }
}

INLINE void pack_scales(quant_format f, const source_layout *s, uint8_t *dst, const uint8_t *src, int j) {
    for (int i = 0; i < f.n_sub; i++) {
        int scale, min;
        read_scale(src, s->scales_at, s->scales, i, &scale, &min);
        dst[quant_scales_at(f) + 16 * i + j] = (uint8_t)(f.min == QUANT_MIN_NIBBLES ? scale | min << 4 : scale);
        if (f.min == QUANT_MIN_BYTES) dst[quant_mins_at(f) + 16 * i + j] = (uint8_t)min;
    }
}

// A file block as output j of a packed one.
INLINE void pack_block(quant_format f, const source_layout *s, uint8_t *dst, const uint8_t *src, int j) {
    memcpy(dst + 2 * j, src + s->d_at, 2);
    if (f.min != QUANT_MIN_NONE) memcpy(dst + 32 + 2 * j, src + s->m_at, 2);
    pack_scales(f, s, dst, src, j);
    uint8_t *low = dst + quant_codes_at(f);
    for (int c = 0; c < f.block; c += QUANT_CHUNK, low += quant_chunk_bytes(f)) {
        uint64_t x[4];
        read_fields(x, src + s->low_at, c, f.low_bits, s->low_run);
        write_fields(low, j, x, f.low_bits);
        if (!f.high_bits) continue;
        read_fields(x, src + s->high_at, c, f.high_bits, s->high_run);
        write_fields(low + quant_plane_bytes(f.low_bits), j, x, f.high_bits);
    }
}

typedef struct pack_source {
    const uint8_t *rows;
    int64_t row_bytes, n_blocks;
    int n_rows;
} pack_source;

INLINE void pack_blocks(quant_format f, const source_layout *s, int file_bytes, uint8_t *panel, const pack_source *p) {
    for (int64_t b = 0; b < p->n_blocks; b++, panel += quant_block_bytes(f)) {
        for (int j = 0; j < p->n_rows; j++) { pack_block(f, s, panel, p->rows + j * p->row_bytes + b * file_bytes, j); }
    }
}

#define FORMAT_CONSTANT(name, ...) static const quant_format format_##name = {__VA_ARGS__};
QUANT_FORMAT_LIST(FORMAT_CONSTANT)
#undef FORMAT_CONSTANT

#define PACK_FUNCTION(name, ...) \
    static void pack_##name(uint8_t *panel, const pack_source *p, int file_bytes) { \
        static const source_layout layout = {__VA_ARGS__}; \
        pack_blocks(format_##name, &layout, file_bytes, panel, p); \
    }
SOURCE_LIST(PACK_FUNCTION)
#undef PACK_FUNCTION

typedef void pack_fn(uint8_t *panel, const pack_source *p, int file_bytes);

static pack_fn *pack_function(dtype type) {
    static pack_fn *const table[DTYPE_COUNT] = {
#define PACK_ROW(name, ...) [DTYPE_##name] = pack_##name,
        SOURCE_LIST(PACK_ROW)
#undef PACK_ROW
    };
    return table[type];
}

int64_t quant_panel_bytes(dtype type, int64_t k) {
    const quant_format f = quant_format_of(type);
    assert(k >= 0 && k % f.block == 0);
    return (k / f.block * quant_block_bytes(f) + 63) / 64 * 64;
}

void quant_pack_panel(dtype type, void *panel, const void *rows, int64_t row_bytes, int n_rows, int64_t k) {
    assert(n_rows >= 0 && n_rows <= PANEL);
    const quant_format f = quant_format_of(type);
    const int64_t bytes = quant_panel_bytes(type, k), used = k / f.block * quant_block_bytes(f);
    memset((char *)panel + (n_rows < PANEL ? 0 : used), 0, (size_t)(n_rows < PANEL ? bytes : bytes - used));
    const pack_source source = {rows, row_bytes, k / f.block, n_rows};
    pack_function(type)(panel, &source, dtype_get(type)->block_bytes);
}

// ---- reading back --------------------------------------------------------------------------------------------------------

static void read_plane(uint8_t *code, const uint8_t *plane, int j, int bits, int at) {
    const uint32_t mask = (uint32_t)each_byte * ((1u << bits) - 1);
    for (int v = 0; v < bits; v++) {
        uint32_t word, four;
        memcpy(&word, plane + v * QUANT_VECTOR + 4 * j, 4);
        for (int shift = 0; shift < 8; shift += bits, code += 4) {
            memcpy(&four, code, 4);
            four |= (word >> shift & mask) << at;
            memcpy(code, &four, 4);
        }
    }
}

void quant_read_levels(quant_format f, quant_levels *out, const void *packed, int j) {
    const uint8_t *block = packed;
    memset(out, 0, sizeof *out);
    memcpy(&out->d, block + 2 * j, 2);
    if (f.min != QUANT_MIN_NONE) memcpy(&out->m, block + 32 + 2 * j, 2);
    for (int s = 0; s < f.n_sub; s++) {
        const uint8_t scale = block[quant_scales_at(f) + 16 * s + j];
        out->scale[s] = (int8_t)(f.min == QUANT_MIN_NIBBLES ? scale & 15 : scale);
        if (f.min == QUANT_MIN_NIBBLES) out->min[s] = scale >> 4;
        if (f.min == QUANT_MIN_BYTES) out->min[s] = block[quant_mins_at(f) + 16 * s + j];
    }
    const uint8_t *low = block + quant_codes_at(f);
    for (int c = 0; c < f.block; c += QUANT_CHUNK, low += quant_chunk_bytes(f)) {
        read_plane(out->code + c, low, j, f.low_bits, 0);
        if (f.high_bits) read_plane(out->code + c, low + quant_plane_bytes(f.low_bits), j, f.high_bits, f.low_bits);
    }
}

// The file formats' own formula, one rounding per operation as dtype's to_f32 has it.
static void levels_to_f32(quant_format f, float *dst, const quant_levels *v) {
    const float d = f16_to_f32(v->d), m = f16_to_f32(v->m);
    for (int i = 0; i < f.block; i++) {
        const float w = (float)quant_weight(f, v->code[i]);
        if (f.n_sub == 0) {
            dst[i] = f.min == QUANT_MIN_NONE ? d * w : d * w + m;
            continue;
        }
        const int j = i / (f.block / f.n_sub);
        const float scaled = d * (float)v->scale[j] * w;
        dst[i] = f.min == QUANT_MIN_NONE ? scaled : scaled - m * (float)v->min[j];
    }
}

void quant_unpack_row(dtype type, float *dst, const void *panel, int j, int64_t k) {
    const quant_format f = quant_format_of(type);
    assert(j >= 0 && j < PANEL && k % f.block == 0);
    for (int64_t b = 0; b < k / f.block; b++) {
        quant_levels levels;
        quant_read_levels(f, &levels, (const uint8_t *)panel + b * quant_block_bytes(f), j);
        levels_to_f32(f, dst + b * f.block, &levels);
    }
}
