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

// Loads of value elements for each type, and of keys.
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
V16_INLINE v16 scales_q8_0(const char *panel, int64_t d, int64_t block) {
    return v16_load_f16(panel + d * PANEL + block * (2 * PANEL));
}

#define KV(name) f32_##name
#define KV_STEP 64
#define KV_PLACE(j) ((j)*4)
#define KV_PANEL_BYTES(d) ((d) * (4 * PANEL))
#define KV_KEY(panel, j, scales) v16_load((const float *)(panel) + (j)*PANEL)
#define KV_VALUE value_f32
#include "backend/cpu/simd/attention_tmpl.h"

#define KV(name) f16_##name
#define KV_STEP 32
#define KV_PLACE(j) ((j)*2)
#define KV_PANEL_BYTES(d) ((d) * (2 * PANEL))
#define KV_KEY(panel, j, scales) v16_load_f16((panel) + (j) * (2 * PANEL))
#define KV_VALUE value_f16
#include "backend/cpu/simd/attention_tmpl.h"

#define KV(name) bf16_##name
#define KV_STEP 32
#define KV_PLACE(j) ((j)*2)
#define KV_PANEL_BYTES(d) ((d) * (2 * PANEL))
#define KV_KEY(panel, j, scales) v16_load_bf16((panel) + (j) * (2 * PANEL))
#define KV_VALUE value_bf16
#include "backend/cpu/simd/attention_tmpl.h"

#define KV(name) q8_0_##name
#define KV_STEP PANEL
#define KV_PLACE(j) ((j) / KV_Q8_BLOCK * KV_Q8_BLOCK_BYTES)
#define KV_PANEL_BYTES(d) ((d)*PANEL + (d) / KV_Q8_BLOCK * (2 * PANEL))
#define KV_SCALED KV_Q8_BLOCK
#define KV_SCALES scales_q8_0
#define KV_KEY(panel, j, scales) v16_mul(v16_load_i8((panel) + (j)*PANEL), scales)
#define KV_VALUE(row, j, live) value_q8_0(row, j)
#include "backend/cpu/simd/attention_tmpl.h"

// Stores of the 2-byte types; the others are not worth vectors. A whole panel is turned by way of the stack, so that its lines are
// written once each.
#define KV_STORES(type) \
    static void store_panel_##type(uint16_t *panel, const float *key, int64_t stride, int64_t d) { \
        FOR_VECTORS(j, live, d) { \
            float turned[PANEL][PANEL]; \
            for (int t = 0; t < KV_PANEL; t++) { \
                for (int64_t i = 0; i < live; i++) turned[i][t] = key[t * stride + j + i]; \
            } \
            for (int64_t i = 0; i < live; i++) v16_store_##type(panel + (j + i) * KV_PANEL, v16_load(turned[i])); \
        } \
    } \
    static void store_keys_##type(void *k_panel, int t, int n, const float *key, int64_t stride, int64_t d) { \
        if (n == KV_PANEL) { \
            store_panel_##type(k_panel, key, stride, d); \
            return; \
        } \
        for (int end = t + n; t < end; t++, key += stride) { \
            FOR_VECTORS(j, live, d) { \
                uint16_t column[PANEL], *to = (uint16_t *)k_panel + j * KV_PANEL + t; \
                v16_store_##type(column, load_live(key + j, live)); \
                for (int64_t i = 0; i < live; i++) to[i * KV_PANEL] = column[i]; \
            } \
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
#define KV_KERNELS(type, store_keys, store_value) \
    { type##_scores, type##_values, type##_widen_keys, type##_widen_values, store_keys, store_value }
    static const attention_kernels f32 = KV_KERNELS(f32, kv_store_keys_f32, kv_store_value_f32);
    static const attention_kernels f16 = KV_KERNELS(f16, store_keys_f16, store_value_f16);
    static const attention_kernels bf16 = KV_KERNELS(bf16, store_keys_bf16, store_value_bf16);
    static const attention_kernels q8_0 = KV_KERNELS(q8_0, kv_store_keys_q8_0, kv_store_value_q8_0);
#undef KV_KERNELS
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
    k->all_below = all_below;
    k->axpy = axpy;
    k->attention[DTYPE_F32] = &f32;
    k->attention[DTYPE_F16] = &f16;
    k->attention[DTYPE_BF16] = &bf16;
    k->attention[DTYPE_Q8_0] = &q8_0;
}
