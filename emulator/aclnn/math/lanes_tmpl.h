// Included by each lanes_*.c with LANES_ROWS and LANES_TABLE defined.
#include "emulator/aclnn/math/half.h"
#include "emulator/aclnn/math/lanes.h"

#include <string.h>

typedef float lanes __attribute__((vector_size(4 * EM_LANES), aligned(4)));
typedef float eight __attribute__((vector_size(32), aligned(4)));

// One number of the running sums, in one of sixteen trees.
static inline float join(unsigned tree, const lanes *sum) {
    eight p[EM_LANES / 8], q;
    float s[8];
    memcpy(p, sum, sizeof p);
    switch (tree & 3) {
    case 0: q = (p[0] + p[1]) + (p[2] + p[3]); break;
    case 1: q = ((p[0] + p[1]) + p[2]) + p[3]; break;
    case 2: q = (p[0] + p[2]) + (p[1] + p[3]); break;
    default: q = p[0] + (p[1] + (p[2] + p[3])); break;
    }
    memcpy(s, &q, sizeof s);
    switch (tree >> 2 & 3) {
    case 0: return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
    case 1: return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    case 2: return ((((((s[0] + s[1]) + s[2]) + s[3]) + s[4]) + s[5]) + s[6]) + s[7];
    default: return ((((((s[7] + s[6]) + s[5]) + s[4]) + s[3]) + s[2]) + s[1]) + s[0];
    }
}

// The sums over terms [from, from + len), chunk by chunk.
static inline __attribute__((always_inline)) void stretch(int rows, const struct em_order *o, const float *a,
                                                          int64_t lda, const float *b, int64_t len, lanes *sum) {
    int64_t chunk = o->chunk ? o->chunk : len;
    for (int64_t c = 0; c < len; c += chunk) {
        lanes part[LANES_ROWS] = {{0}};
        int64_t i = c, end = c + chunk < len ? c + chunk : len;
        for (; i + EM_LANES <= end; i += EM_LANES) {
            lanes y = *(const lanes *)(const void *)(b + i);
            for (int r = 0; r < rows; r++) part[r] += *(const lanes *)(const void *)(a + r * lda + i) * y;
        }
        if (i < end) { // what is left of the last lanes, with zeros behind
            lanes x = {0}, y = {0};
            memcpy(&y, b + i, (size_t)(end - i) * sizeof *b);
            for (int r = 0; r < rows; r++) {
                memcpy(&x, a + r * lda + i, (size_t)(end - i) * sizeof *a);
                part[r] += x * y;
            }
        }
        for (int r = 0; r < rows; r++) sum[r] += part[r];
    }
}

static inline __attribute__((always_inline)) void dot_rows(int rows, const struct em_order *o, const struct em_dots *d,
                                                           int64_t i) {
    lanes sum[LANES_ROWS] = {{0}};
    const float *a = d->a + i * d->lda;
    int64_t start = o->chunk ? (int64_t)(o->turn % (uint64_t)(d->n / EM_LANES + 1)) * EM_LANES : 0;
    if (o->backwards) stretch(rows, o, a, d->lda, d->b, start, sum);
    stretch(rows, o, a + start, d->lda, d->b + start, d->n - start, sum);
    if (!o->backwards) stretch(rows, o, a, d->lda, d->b, start, sum);
    for (int r = 0; r < rows; r++) d->c[(i + r) * d->ldc] = join(o->tree, &sum[r]);
}

static void dots(const struct em_order *o, const struct em_dots *d) {
    int64_t i = 0;
    for (; i + LANES_ROWS <= d->m; i += LANES_ROWS) dot_rows(LANES_ROWS, o, d, i);
    for (; i < d->m; i++) dot_rows(1, o, d, i);
}

static void axpy(float *y, float f, const float *x, int64_t n) {
    int64_t i = 0;
    for (; i + EM_LANES <= n; i += EM_LANES) *(lanes *)(void *)(y + i) += f * *(const lanes *)(const void *)(x + i);
    for (; i < n; i++) y[i] += f * x[i];
}

static void widen_bf16(float *restrict dst, const uint16_t *restrict src, int64_t n) {
    for (int64_t i = 0; i < n; i++) dst[i] = from_bf16(src[i]);
}
static void widen_f16(float *restrict dst, const uint16_t *restrict src, int64_t n) {
    for (int64_t i = 0; i < n; i++) dst[i] = from_f16(src[i]);
}
static void narrow_bf16(uint16_t *restrict dst, const float *restrict src, int64_t n) {
    for (int64_t i = 0; i < n; i++) dst[i] = to_bf16(src[i]);
}
static void narrow_f16(uint16_t *restrict dst, const float *restrict src, int64_t n) {
    for (int64_t i = 0; i < n; i++) dst[i] = to_f16(src[i]);
}

const struct em_lanes LANES_TABLE = {.dots = dots,
                                     .axpy = axpy,
                                     .widen_bf16 = widen_bf16,
                                     .widen_f16 = widen_f16,
                                     .narrow_bf16 = narrow_bf16,
                                     .narrow_f16 = narrow_f16};
