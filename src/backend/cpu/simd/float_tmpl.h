// The float half of a vector level: includes every body for every type and fills the table. Included once, after the level's
// vec_*.h and its shapes (TILE_*, KV_*).
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/kv_store.h"

#include "backend/cpu/simd/rows_tmpl.h"
#include "backend/cpu/simd/tile.h"

#define TILE(name) f32_##name
#define TILE_EVEN(w) v16_load((const float *)(w))
#define TILE_ODD(w) v16_load((const float *)(w) + PANEL)
#define TILE_PAIR_BYTES 128
#include "backend/cpu/simd/tile_tmpl.h"

#define TILE(name) f16_##name
#define TILE_EVEN(w) v16_load_f16(w)
#define TILE_ODD(w) v16_load_f16((w) + 2 * PANEL)
#define TILE_PAIR_BYTES 64
#include "backend/cpu/simd/tile_tmpl.h"

#define TILE(name) bf16_##name
#define TILE_EVEN(w) v16_load_bf16_even(w)
#define TILE_ODD(w) v16_load_bf16_odd(w)
#define TILE_PAIR_BYTES 64
#include "backend/cpu/simd/tile_tmpl.h"

// The arguments of the attention kernels (kernels.h), and loads of value elements for each type.
typedef struct kv_scores {
    float *s;
    const float *q;
    const char *panel;
    int64_t s_stride, q_stride, d;
    float scale;
} kv_scores;
typedef struct kv_values {
    float *o;
    const float *p;
    const char *v;
    int64_t o_stride, p_stride, v_stride, d;
    int n_t;
} kv_values;

V16_INLINE v16 value_f32(const char *row, int64_t j, int64_t live) { return load_live((const float *)row + j, live); }
V16_INLINE v16 value_f16(const char *row, int64_t j, int64_t live) {
    return live == PANEL ? v16_load_f16(row + 2 * j) : v16_load_f16_part(row + 2 * j, live);
}
V16_INLINE v16 value_bf16(const char *row, int64_t j, int64_t live) {
    return live == PANEL ? v16_load_bf16(row + 2 * j) : v16_load_bf16_part(row + 2 * j, live);
}
// Blocks of 32: an f16 scale, then the bytes. d is a multiple of 32, so there is no tail.
V16_INLINE v16 value_q8_0(const char *row, int64_t j) {
    const char *block = row + j / KV_Q8_BLOCK * KV_Q8_BLOCK_BYTES;
    uint16_t scale_bits;
    memcpy(&scale_bits, block, 2);
    return v16_mul(v16_load_i8(block + 2 + j % KV_Q8_BLOCK), v16_set(v16_f16_to_f32(scale_bits)));
}
V16_INLINE v16 key_q8_0(const char *panel, int64_t d, int64_t j) {
    return v16_mul(v16_load_i8(panel + j * PANEL), v16_load_f16(panel + d * PANEL + j / KV_Q8_BLOCK * (2 * PANEL)));
}

#define KV(name) f32_##name
#define KV_KEY(panel, d, j) v16_load((const float *)(panel) + (j)*PANEL)
#define KV_VALUE value_f32
#include "backend/cpu/simd/attention_tmpl.h"

#define KV(name) f16_##name
#define KV_KEY(panel, d, j) v16_load_f16((panel) + (j) * (2 * PANEL))
#define KV_VALUE value_f16
#include "backend/cpu/simd/attention_tmpl.h"

#define KV(name) bf16_##name
#define KV_KEY(panel, d, j) v16_load_bf16((panel) + (j) * (2 * PANEL))
#define KV_VALUE value_bf16
#include "backend/cpu/simd/attention_tmpl.h"

#define KV(name) q8_0_##name
#define KV_KEY key_q8_0
#define KV_VALUE(row, j, live) value_q8_0(row, j)
#include "backend/cpu/simd/attention_tmpl.h"

// Stores of the 2-byte types; the others are not worth vectors.
#define KV_STORES(type) \
    static void store_key_##type(void *k_panel, int t, const float *key, int64_t d) { \
        FOR_VECTORS(j, live, d) { \
            uint16_t column[PANEL], *to = (uint16_t *)k_panel + j * KV_PANEL + t; \
            v16_store_##type(column, load_live(key + j, live)); \
            for (int64_t i = 0; i < live; i++) to[i * KV_PANEL] = column[i]; \
        } \
    } \
    static void store_value_##type(void *v_row, const float *value, int64_t d) { \
        FOR_VECTORS(j, live, d) { \
            uint16_t row[PANEL]; \
            v16_store_##type(row, load_live(value + j, live)); \
            memcpy((uint16_t *)v_row + j, row, (size_t)live * 2); \
        } \
    }
KV_STORES(f16)
KV_STORES(bf16)

static void round_row_bf16(void *dst, const float *x, int64_t n) {
    store_value_bf16(dst, x, n);
    if (n % 2) ((uint16_t *)dst)[n] = 0;
}

static void fill_table(cpu_kernels *k) {
    static const attention_kernels f32 = {f32_scores, f32_values, kv_store_key_f32, kv_store_value_f32};
    static const attention_kernels f16 = {f16_scores, f16_values, store_key_f16, store_value_f16};
    static const attention_kernels bf16 = {bf16_scores, bf16_values, store_key_bf16, store_value_bf16};
    static const attention_kernels q8_0 = {q8_0_scores, q8_0_values, kv_store_key_q8_0, kv_store_value_q8_0};
    k->tile[DTYPE_F32] = f32_tile;
    k->tile[DTYPE_F16] = f16_tile;
    k->tile[DTYPE_BF16] = bf16_tile;
    k->round_row_bf16 = round_row_bf16;
    k->rms_norm = rms_norm;
    k->add = add;
    k->swiglu = swiglu;
    k->rope = rope;
    k->softmax = softmax;
    k->scale = scale;
    k->attention_merge = attention_merge;
    k->axpy = axpy;
    k->attention[DTYPE_F32] = &f32;
    k->attention[DTYPE_F16] = &f16;
    k->attention[DTYPE_BF16] = &bf16;
    k->attention[DTYPE_Q8_0] = &q8_0;
}
