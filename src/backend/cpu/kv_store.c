#include "backend/cpu/kv_store.h"

#include <string.h>

#include "backend/cpu/kernels.h"

static void store_key_f32(void *k_panel, int t, const float *key, int64_t d) {
    for (int64_t j = 0; j < d; j++) ((float *)k_panel)[j * KV_PANEL + t] = key[j];
}
static void store_key_f16(void *k_panel, int t, const float *key, int64_t d) {
    for (int64_t j = 0; j < d; j++) ((uint16_t *)k_panel)[j * KV_PANEL + t] = f16_from_f32(key[j]);
}
static void store_key_bf16(void *k_panel, int t, const float *key, int64_t d) {
    for (int64_t j = 0; j < d; j++) ((uint16_t *)k_panel)[j * KV_PANEL + t] = bf16_from_f32(key[j]);
}
static void store_key_q8_0(void *k_panel, int t, const float *key, int64_t d) {
    char *q = k_panel, *scales = q + d * KV_PANEL;
    for (int64_t b = 0; b < d / KV_Q8_BLOCK; b++) {
        char block[KV_Q8_BLOCK_BYTES];
        dtype_get(DTYPE_Q8_0)->from_f32(block, key + b * KV_Q8_BLOCK, KV_Q8_BLOCK);
        memcpy(scales + (b * KV_PANEL + t) * 2, block, 2);
        for (int i = 0; i < KV_Q8_BLOCK; i++) q[(b * KV_Q8_BLOCK + i) * KV_PANEL + t] = block[2 + i];
    }
}

#define STORE_KEYS(type) \
    void kv_store_keys_##type(void *k_panel, int t, int n, const float *key, int64_t stride, int64_t d) { \
        for (int i = 0; i < n; i++) store_key_##type(k_panel, t + i, key + i * stride, d); \
    }
STORE_KEYS(f32)
STORE_KEYS(f16)
STORE_KEYS(bf16)
STORE_KEYS(q8_0)

void kv_store_value_f32(void *v_row, const float *value, int64_t d) { memcpy(v_row, value, (size_t)d * 4); }
void kv_store_value_f16(void *v_row, const float *value, int64_t d) {
    for (int64_t j = 0; j < d; j++) ((uint16_t *)v_row)[j] = f16_from_f32(value[j]);
}
void kv_store_value_bf16(void *v_row, const float *value, int64_t d) {
    for (int64_t j = 0; j < d; j++) ((uint16_t *)v_row)[j] = bf16_from_f32(value[j]);
}
void kv_store_value_q8_0(void *v_row, const float *value, int64_t d) {
    dtype_get(DTYPE_Q8_0)->from_f32(v_row, value, d);
}

static void copy_column8(uint8_t *to, const uint8_t *from, int64_t n) {
    for (int64_t j = 0; j < n; j++) to[j * KV_PANEL] = from[j * KV_PANEL];
}
static void copy_column16(uint16_t *to, const uint16_t *from, int64_t n) {
    for (int64_t j = 0; j < n; j++) to[j * KV_PANEL] = from[j * KV_PANEL];
}
static void copy_column32(uint32_t *to, const uint32_t *from, int64_t n) {
    for (int64_t j = 0; j < n; j++) to[j * KV_PANEL] = from[j * KV_PANEL];
}

void kv_copy_key(dtype type, void *to_panel, int to_t, const void *from_panel, int from_t, int64_t d) {
    if (type == DTYPE_F32) {
        copy_column32((uint32_t *)to_panel + to_t, (const uint32_t *)from_panel + from_t, d);
    } else if (type == DTYPE_Q8_0) {
        uint8_t *q = to_panel;
        const uint8_t *from_q = from_panel;
        copy_column8(q + to_t, from_q + from_t, d);
        uint16_t *scales = (uint16_t *)(void *)(q + d * KV_PANEL);
        const uint16_t *from_scales = (const uint16_t *)(const void *)(from_q + d * KV_PANEL);
        copy_column16(scales + to_t, from_scales + from_t, d / KV_Q8_BLOCK);
    } else { // F16, BF16
        copy_column16((uint16_t *)to_panel + to_t, (const uint16_t *)from_panel + from_t, d);
    }
}

int64_t kv_key_panel_bytes(dtype type, int64_t d) { return KV_PANEL * dtype_row_bytes(type, d); }
int64_t kv_value_row_bytes(dtype type, int64_t d) { return dtype_row_bytes(type, d); }
