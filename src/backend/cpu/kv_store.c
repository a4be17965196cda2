#include "backend/cpu/kv_store.h"

#include <string.h>

#include "backend/cpu/kernels.h"

void kv_store_key_f32(void *k_panel, int t, const float *key, int64_t d) {
    for (int64_t j = 0; j < d; j++) ((float *)k_panel)[j * KV_PANEL + t] = key[j];
}
void kv_store_key_f16(void *k_panel, int t, const float *key, int64_t d) {
    for (int64_t j = 0; j < d; j++) ((uint16_t *)k_panel)[j * KV_PANEL + t] = f16_from_f32(key[j]);
}
void kv_store_key_bf16(void *k_panel, int t, const float *key, int64_t d) {
    for (int64_t j = 0; j < d; j++) ((uint16_t *)k_panel)[j * KV_PANEL + t] = bf16_from_f32(key[j]);
}
void kv_store_key_q8_0(void *k_panel, int t, const float *key, int64_t d) {
    char *q = k_panel, *scales = q + d * KV_PANEL;
    for (int64_t b = 0; b < d / KV_Q8_BLOCK; b++) {
        char block[KV_Q8_BLOCK_BYTES];
        dtype_get(DTYPE_Q8_0)->from_f32(block, key + b * KV_Q8_BLOCK, KV_Q8_BLOCK);
        memcpy(scales + (b * KV_PANEL + t) * 2, block, 2);
        for (int i = 0; i < KV_Q8_BLOCK; i++) q[(b * KV_Q8_BLOCK + i) * KV_PANEL + t] = block[2 + i];
    }
}

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

int64_t kv_key_panel_bytes(dtype type, int64_t d) { return KV_PANEL * dtype_row_bytes(type, d); }
int64_t kv_value_row_bytes(dtype type, int64_t d) { return dtype_row_bytes(type, d); }
