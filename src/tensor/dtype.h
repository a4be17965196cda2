// The number formats tally reads, stores and computes with: one row per type.
//
// A type is a block of `block_elems` numbers in `block_bytes` bytes (1 number for plain types). The block formats are those of
// GGUF; their layouts are in blocks.h. The converters here are scalar and are the reference that kernels are tested against.
#ifndef TALLY_TENSOR_DTYPE_H
#define TALLY_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

// name, numbers per block, bytes per block
#define DTYPE_LIST(X) \
    X(F32, 1, 4) \
    X(F16, 1, 2) \
    X(BF16, 1, 2) \
    X(I32, 1, 4) \
    X(Q8_0, 32, 34) \
    X(Q4_0, 32, 18) \
    X(Q4_1, 32, 20) \
    X(Q5_0, 32, 22) \
    X(Q5_1, 32, 24) \
    X(IQ4_NL, 32, 18) \
    X(Q2_K, 256, 84) \
    X(Q3_K, 256, 110) \
    X(Q4_K, 256, 144) \
    X(Q5_K, 256, 176) \
    X(Q6_K, 256, 210) \
    X(IQ4_XS, 256, 136)

typedef enum dtype {
#define DTYPE_ENUM(name, elems, bytes) DTYPE_##name,
    DTYPE_LIST(DTYPE_ENUM)
#undef DTYPE_ENUM
        DTYPE_COUNT
} dtype;

typedef struct dtype_info {
    const char *name;
    int block_elems, block_bytes;
    // n numbers (a multiple of block_elems) from src to f32; NULL for I32
    void (*to_f32)(float *dst, const void *src, int64_t n);
    // n numbers from f32 to dst; NULL where tally never writes the type (all but F32, F16, BF16, Q8_0)
    void (*from_f32)(void *dst, const float *src, int64_t n);
} dtype_info;

const dtype_info *dtype_get(dtype type);
bool dtype_from_name(str name, dtype *out); // the names of the list, any case
static inline bool dtype_is_block(dtype type) { return dtype_get(type)->block_elems > 1; }
// Bytes of a row of n numbers; n must be a multiple of block_elems.
static inline int64_t dtype_row_bytes(dtype type, int64_t n) {
    const dtype_info *info = dtype_get(type);
    return n / info->block_elems * info->block_bytes;
}

// IEEE 754 half and bfloat16, round to nearest even. NaN stays NaN, infinities and subnormals are kept.
float f16_to_f32(uint16_t h);
uint16_t f16_from_f32(float f);
static inline float bf16_to_f32(uint16_t b) {
    uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
uint16_t bf16_from_f32(float f);

#endif
