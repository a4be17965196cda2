// Storing positions in the key and value cache: attention_kernels.store_keys and store_value as scalar
// code; vector levels replace some. And moving what is stored.
#ifndef TALLY_BACKEND_CPU_KV_STORE_H
#define TALLY_BACKEND_CPU_KV_STORE_H

#include <stdint.h>

#include "tensor/dtype.h"

// A Q8_0 row: blocks of an f16 scale and 32 bytes.
enum { KV_Q8_BLOCK = 32, KV_Q8_BLOCK_BYTES = 34 };

void kv_store_keys_f32(void *k_panel, int t, int n, const float *key, int64_t stride, int64_t d);
void kv_store_keys_f16(void *k_panel, int t, int n, const float *key, int64_t stride, int64_t d);
void kv_store_keys_bf16(void *k_panel, int t, int n, const float *key, int64_t stride, int64_t d);
void kv_store_keys_q8_0(void *k_panel, int t, int n, const float *key, int64_t stride, int64_t d);
void kv_store_value_f32(void *v_row, const float *value, int64_t d);
void kv_store_value_f16(void *v_row, const float *value, int64_t d);
void kv_store_value_bf16(void *v_row, const float *value, int64_t d);
void kv_store_value_q8_0(void *v_row, const float *value, int64_t d);

// Column `from_t` of a key panel becomes column `to_t` of another, or of the same.
void kv_copy_key(dtype type, void *to_panel, int to_t, const void *from_panel, int from_t, int64_t d);

#endif
