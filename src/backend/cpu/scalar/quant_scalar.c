// The normative text of the block-quantised kernels (order sheet: quant_panels.h). Written to be read; every other level gives
// these bits.
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/quant_panels.h"

static uint32_t largest_bits(const float *x, int n) {
    uint32_t largest = 0;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        bits &= 0x7fffffff;
        if (bits > largest) largest = bits;
    }
    return largest;
}

static int32_t quantize_run(int8_t *q, const float *x, int n, float inverse) {
    int32_t sum = 0;
    for (int i = 0; i < n; i++) {
        q[i] = inverse == 0 ? 0 : (int8_t)lrintf(x[i] * inverse); // lrintf: nearest even, the mode kernels run in
        sum += q[i];
    }
    return sum;
}

static void quantize_row32(void *dst, const float *x, int64_t n) {
    quant_block32 *out = dst;
    for (int64_t b = 0; b < n / 32; b++, x += 32) {
        float inverse;
        out[b].d = quant_x_scale(largest_bits(x, 32), &inverse);
        out[b].sum = quantize_run(out[b].q, x, 32, inverse);
    }
}

static void quantize_row256(void *dst, const float *x, int64_t n) {
    quant_block256 *out = dst;
    for (int64_t b = 0; b < n / 256; b++, x += 256) {
        float inverse;
        out[b].d = quant_x_scale(largest_bits(x, 256), &inverse);
        for (int j = 0; j < 16; j++)
            out[b].sum16[j] = (int16_t)quantize_run(out[b].q + 16 * j, x + 16 * j, 16, inverse);
    }
}

static int32_t dot(quant_format f, const uint8_t *code, const int8_t *xq, int n) {
    int32_t sum = 0;
    for (int i = 0; i < n; i++) sum += quant_weight(f, code[i]) * xq[i];
    return sum;
}

static float block32(quant_format f, const quant_levels *w, const quant_block32 *x, float acc) {
    const int32_t isum = dot(f, w->code, x->q, 32);
    acc = fmaf((float)isum, f16_to_f32(w->d) * x->d, acc);
    if (f.min != QUANT_MIN_NONE) acc = fmaf(f16_to_f32(w->m), x->d * (float)x->sum, acc);
    return acc;
}

static float block256(quant_format f, const quant_levels *w, const quant_block256 *x, float acc) {
    const int length = 256 / f.n_sub; // of a sub-block: 16 or 32
    int32_t isum = 0, msum = 0;
    for (int j = 0; j < f.n_sub; j++) {
        isum += w->scale[j] * dot(f, w->code + j * length, x->q + j * length, length);
        for (int h = 0; h < length / 16; h++) msum += w->min[j] * x->sum16[j * length / 16 + h];
    }
    acc = fmaf((float)isum, f16_to_f32(w->d) * x->d, acc);
    if (f.min != QUANT_MIN_NONE) acc = fmaf((float)msum, -(f16_to_f32(w->m) * x->d), acc);
    return acc;
}

static void tile(const matmul_tile *t, quant_format f) {
    const int64_t x_block = f.block == 32 ? sizeof(quant_block32) : sizeof(quant_block256);
    for (int p = 0; p < t->n_panels; p++)
        for (int64_t b = t->k0 / f.block; b < t->k1 / f.block; b++)
            for (int j = 0; j < PANEL; j++) {
                quant_levels w;
                quant_read_levels(f, &w, (const char *)t->w + p * t->panel_stride + b * quant_block_bytes(f), j);
                for (int r = 0; r < t->n_rows; r++) {
                    const void *x = (const char *)t->x + r * t->x_stride + b * x_block;
                    float *acc = &t->acc[r * t->acc_stride + PANEL * p + j];
                    *acc = f.block == 32 ? block32(f, &w, x, *acc) : block256(f, &w, x, *acc);
                }
            }
}

#define TILE(name, ...) \
    static void tile_##name(const matmul_tile *t) { tile(t, (quant_format){__VA_ARGS__}); }
QUANT_FORMAT_LIST(TILE)
#undef TILE

void kernels_quant_scalar(cpu_kernels *k) {
#define TILE(name, block, ...) \
    k->tile[DTYPE_##name] = tile_##name; \
    k->x_format[DTYPE_##name] = (block) == 32 ? X_BLOCK32 : X_BLOCK256;
    QUANT_FORMAT_LIST(TILE)
#undef TILE
    k->block_panels = 1;
    k->quantize_row32 = quantize_row32;
    k->quantize_row256 = quantize_row256;
}
