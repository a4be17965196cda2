// Included by each lanes_*.c with LANES_ROWS and LANES_TABLE defined.
#include "emulator/aclnn/math/lanes.h"

#include <string.h>

#ifndef LANES_ROWS
#define LANES_ROWS 1
#endif

typedef float lanes __attribute__((vector_size(4 * EM_LANES), aligned(4)));

static inline __attribute__((always_inline)) void dot_rows(int rows, const float *a, int64_t lda, const float *b, int64_t n,
                                                           float *out) {
    lanes acc[LANES_ROWS] = {{0}};
    int64_t i = 0;
    for (; i + EM_LANES <= n; i += EM_LANES) {
        lanes y = *(const lanes *)(const void *)(b + i);
        for (int r = 0; r < rows; r++) acc[r] += *(const lanes *)(const void *)(a + r * lda + i) * y;
    }
    for (int r = 0; r < rows; r++) memcpy(out + r * EM_LANES, &acc[r], sizeof acc[r]);
    for (int r = 0; r < rows; r++)
        for (int64_t l = 0; i + l < n; l++) out[r * EM_LANES + l] += a[r * lda + i + l] * b[i + l];
}

static void dot1(const float *a, int64_t lda, const float *b, int64_t n, float *out) { dot_rows(1, a, lda, b, n, out); }
static void dots(const float *a, int64_t lda, const float *b, int64_t n, float *out) {
    dot_rows(LANES_ROWS, a, lda, b, n, out);
}

static void axpy(float *y, float f, const float *x, int64_t n) {
    int64_t i = 0;
    for (; i + EM_LANES <= n; i += EM_LANES) *(lanes *)(void *)(y + i) += f * *(const lanes *)(const void *)(x + i);
    for (; i < n; i++) y[i] += f * x[i];
}

const struct em_lanes LANES_TABLE = {.rows = LANES_ROWS, .dot1 = dot1, .dots = dots, .axpy = axpy};
