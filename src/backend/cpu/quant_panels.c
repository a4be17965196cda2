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

static uint16_t read16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static void read_scales(quant_levels *out, const uint8_t *block, int at, scale_code how) {
    const uint8_t *s = block + at;
    for (int j = 0; j < 16; j++) {
        int scale = 0, min = 0;
        switch (how) {
        case SCALES_NONE: return;
        case SCALES_BYTES: scale = (int8_t)s[j]; break;
        case SCALES_NIBBLES: scale = s[j] & 15, min = s[j] >> 4; break;
        case SCALES_Q3_K: scale = blocks_q3_k_scale(s, j); break;
        case SCALES_Q4_K:
            if (j < 8) blocks_scale_min(s, j, &scale, &min);
            break;
        case SCALES_IQ4_XS:
            if (j < 8) scale = blocks_iq4_xs_scale((const block_iq4_xs *)block, j);
            break;
        }
        out->scale[j] = (int8_t)scale;
        out->min[j] = (uint8_t)min;
    }
}

// Bytes are handled 8 or 4 at a time as one integer; a field never leaves its byte, so shifts carry nothing across.
static const uint64_t each_byte = 0x0101010101010101u;

// code[i] |= (bits of a file plane) << at, n codes
static void read_file_plane(uint8_t *code, int n, const uint8_t *plane, int bits, int run, int at) {
    const int per = 8 / bits;
    const uint64_t mask = each_byte * ((1u << bits) - 1);
    for (int i = 0; i < n; i += 8) {
        uint64_t field, codes;
        if (run == 1) { // one byte holds the bits of 8 codes: bit b to byte b
            field = ((plane[i / 8] * each_byte & 0x8040201008040201u) + each_byte * 0x7f) >> 7 & each_byte;
        } else {
            memcpy(&field, plane + i / (run * per) * run + i % run, 8);
            field = field >> (i / run % per * bits) & mask;
        }
        memcpy(&codes, code + i, 8);
        codes |= field << at;
        memcpy(code + i, &codes, 8);
    }
}

static void read_source(quant_format f, const source_layout *s, quant_levels *out, const uint8_t *block) {
    memset(out, 0, sizeof *out);
    out->d = read16(block + s->d_at);
    if (f.min != QUANT_MIN_NONE) out->m = read16(block + s->m_at);
    read_scales(out, block, s->scales_at, s->scales);
    read_file_plane(out->code, f.block, block + s->low_at, f.low_bits, s->low_run, 0);
    if (f.high_bits) read_file_plane(out->code, f.block, block + s->high_at, f.high_bits, s->high_run, f.low_bits);
}

// One chunk of output j, in a packed plane: its field is bits [at, at + bits) of the codes.
static void write_plane(uint8_t *plane, int j, const uint8_t *code, int bits, int at) {
    const uint32_t mask = (uint32_t)each_byte * ((1u << bits) - 1);
    for (int v = 0; v < bits; v++) {
        uint32_t word = 0;
        for (int shift = 0; shift < 8; shift += bits, code += 4) {
            uint32_t four;
            memcpy(&four, code, 4);
            word |= (four >> at & mask) << shift;
        }
        memcpy(plane + v * QUANT_VECTOR + 4 * j, &word, 4);
    }
}

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

static void write_levels(quant_format f, uint8_t *block, int j, const quant_levels *v) {
    memcpy(block + 2 * j, &v->d, 2);
    if (f.min != QUANT_MIN_NONE) memcpy(block + 32 + 2 * j, &v->m, 2);
    for (int s = 0; s < f.n_sub; s++) {
        const uint8_t scale = (uint8_t)v->scale[s];
        block[quant_scales_at(f) + 16 * s + j] = f.min == QUANT_MIN_NIBBLES ? (uint8_t)(scale | v->min[s] << 4) : scale;
        if (f.min == QUANT_MIN_BYTES) block[quant_mins_at(f) + 16 * s + j] = v->min[s];
    }
    uint8_t *low = block + quant_codes_at(f);
    for (int c = 0; c < f.block; c += QUANT_CHUNK, low += quant_chunk_bytes(f)) {
        write_plane(low, j, v->code + c, f.low_bits, 0);
        if (f.high_bits) write_plane(low + quant_plane_bytes(f.low_bits), j, v->code + c, f.high_bits, f.low_bits);
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

int64_t quant_panel_bytes(dtype type, int64_t k) {
    const quant_format f = quant_format_of(type);
    assert(k >= 0 && k % f.block == 0);
    return (k / f.block * quant_block_bytes(f) + 63) / 64 * 64;
}

static const source_layout *source_layout_of(dtype type) {
    static const source_layout table[DTYPE_COUNT] = {
#define SOURCE_ROW(name, ...) [DTYPE_##name] = {__VA_ARGS__},
        SOURCE_LIST(SOURCE_ROW)
#undef SOURCE_ROW
    };
    return &table[type];
}

void quant_pack_panel(dtype type, void *panel, const void *rows, int64_t row_bytes, int n_rows, int64_t k) {
    assert(n_rows >= 0 && n_rows <= PANEL);
    const quant_format f = quant_format_of(type);
    const int file_bytes = dtype_get(type)->block_bytes;
    memset(panel, 0, (size_t)quant_panel_bytes(type, k));
    for (int64_t b = 0; b < k / f.block; b++)
        for (int j = 0; j < n_rows; j++) {
            quant_levels levels;
            read_source(f, source_layout_of(type), &levels, (const uint8_t *)rows + j * row_bytes + b * file_bytes);
            write_levels(f, (uint8_t *)panel + b * quant_block_bytes(f), j, &levels);
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
