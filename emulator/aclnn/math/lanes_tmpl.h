// Included by each lanes_*.c with LANES_TILE (1: few registers), LANES_BYTES (of a register) and
// LANES_TABLE defined.
#include "emulator/aclnn/math/half.h"
#include "emulator/aclnn/math/lanes.h"

#include <string.h>

// EM_LANES running sums, in pieces the processor has registers for.
enum { PIECE = LANES_BYTES / 4, PIECES = EM_LANES / PIECE };
typedef float piece __attribute__((vector_size(LANES_BYTES), aligned(4)));
typedef float eight __attribute__((vector_size(32), aligned(4)));
typedef struct {
    piece p[PIECES];
} lanes;
#define UNROLL _Pragma("GCC unroll 16")

// The running sums to eight, in one of four ways.
static inline __attribute__((always_inline)) void to_eight(unsigned tree, const lanes *sum, eight *q) {
    eight p[EM_LANES / 8];
    memcpy(p, sum, sizeof p);
    switch (tree & 3) {
    case 0: *q = (p[0] + p[1]) + (p[2] + p[3]); break;
    case 1: *q = ((p[0] + p[1]) + p[2]) + p[3]; break;
    case 2: *q = (p[0] + p[2]) + (p[1] + p[3]); break;
    default: *q = p[0] + (p[1] + (p[2] + p[3]));
    }
}

// Eight times eight to eight numbers, in one of four ways; s[l] holds sum l of each of them.
static inline __attribute__((always_inline)) void to_one(unsigned tree, const eight *s, eight *r) {
    switch (tree >> 2 & 3) {
    case 0: *r = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])); break;
    case 1: *r = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7])); break;
    case 2: *r = ((((((s[0] + s[1]) + s[2]) + s[3]) + s[4]) + s[5]) + s[6]) + s[7]; break;
    default: *r = ((((((s[7] + s[6]) + s[5]) + s[4]) + s[3]) + s[2]) + s[1]) + s[0];
    }
}

// Finished running sums on their way to their places, eight at a time.
struct queue {
    eight q[8];
    float *to[8];
    int n;
};

static void flush(struct queue *k, unsigned tree) {
    float t[8][8], out[8];
    eight s[8], r;
    for (int i = 0; i < 8; i++)
        for (int l = 0; l < 8; l++) t[l][i] = k->q[i][l];
    memcpy(s, t, sizeof s);
    to_one(tree, s, &r);
    memcpy(out, &r, sizeof out);
    for (int i = 0; i < k->n; i++) *k->to[i] = out[i];
    k->n = 0;
}

struct tile {
    const float *a, *b;
    int64_t lda, ldb;
};

static inline __attribute__((always_inline)) void multiply(int rows, int columns, const struct tile *t, int64_t i,
                                                           lanes *part) {
    UNROLL for (int x = 0; x < columns; x++) {
        UNROLL for (int p = 0; p < PIECES; p++) {
            piece y = *(const piece *)(const void *)(t->b + x * t->ldb + i + p * PIECE);
            UNROLL for (int r = 0; r < rows; r++) part[r * columns + x].p[p] +=
                *(const piece *)(const void *)(t->a + r * t->lda + i + p * PIECE) * y;
        }
    }
}

// The sums over `len` terms of rows x columns products, chunk by chunk.
static inline __attribute__((always_inline)) void stretch(int rows, int columns, int64_t chunk, const struct tile *t,
                                                          int64_t at, int64_t len, lanes *sum) {
    if (!chunk) chunk = len;
    for (int64_t c = at; c < at + len; c += chunk) {
        lanes part[8];
        UNROLL for (int k = 0; k < rows * columns; k++) part[k] = (lanes){{{0}}};
        int64_t i = c, end = c + chunk < at + len ? c + chunk : at + len;
        for (; i + EM_LANES <= end; i += EM_LANES) multiply(rows, columns, t, i, part);
        if (i < end) { // what is left of the last lanes, with zeros behind
            float a[4 * EM_LANES] = {0}, b[4 * EM_LANES] = {0};
            for (int r = 0; r < rows; r++)
                memcpy(a + r * EM_LANES, t->a + r * t->lda + i, (size_t)(end - i) * sizeof *a);
            for (int x = 0; x < columns; x++)
                memcpy(b + x * EM_LANES, t->b + x * t->ldb + i, (size_t)(end - i) * sizeof *b);
            const struct tile rest = {a, b, EM_LANES, EM_LANES};
            multiply(rows, columns, &rest, 0, part);
        }
        UNROLL for (int k = 0; k < rows * columns; k++) UNROLL for (int p = 0; p < PIECES; p++) sum[k].p[p] +=
            part[k].p[p];
    }
}

static inline __attribute__((always_inline)) void one_tile(int rows, int columns, const struct em_order *o,
                                                           const struct em_dots *d, int64_t i, int64_t j,
                                                           struct queue *k) {
    lanes sum[8];
    UNROLL for (int z = 0; z < rows * columns; z++) sum[z] = (lanes){{{0}}};
    const struct tile t = {d->a + i * d->lda, d->b + j * d->ldb, d->lda, d->ldb};
    int64_t start = o->chunk ? (int64_t)((uint32_t)o->turn % (uint32_t)(d->n / EM_LANES + 1)) * EM_LANES : 0;
    if (o->backwards) stretch(rows, columns, o->chunk, &t, 0, start, sum);
    stretch(rows, columns, o->chunk, &t, start, d->n - start, sum);
    if (!o->backwards) stretch(rows, columns, o->chunk, &t, 0, start, sum);
    for (int r = 0; r < rows; r++)
        for (int x = 0; x < columns; x++) {
            to_eight(o->tree, &sum[r * columns + x], &k->q[k->n]);
            k->to[k->n++] = d->c + (i + r) * d->ldc + j + x;
        }
    if (k->n == 8) flush(k, o->tree);
}

static void dots(const struct em_order *o, const struct em_dots *d) {
    struct queue k = {.n = 0};
    int64_t i = 0, j = 0;
#if LANES_TILE > 1
    for (; i + 4 <= d->m; i += 4) // four rows by two columns
        for (j = 0; j + 2 <= d->columns; j += 2) one_tile(4, 2, o, d, i, j, &k);
    if (d->columns % 2)
        for (int64_t x = 0; x + 4 <= i; x += 4) one_tile(4, 1, o, d, x, d->columns - 1, &k);
    if (k.n) flush(&k, o->tree);
    for (; i < d->m; i++) {
        for (j = 0; j + 4 <= d->columns; j += 4) one_tile(1, 4, o, d, i, j, &k);
        if (k.n) flush(&k, o->tree);
        for (; j < d->columns; j++) one_tile(1, 1, o, d, i, j, &k);
        if (k.n) flush(&k, o->tree);
    }
#else
    for (; i < d->m; i++)
        for (j = 0; j < d->columns; j++) one_tile(1, 1, o, d, i, j, &k);
#endif
    if (k.n) flush(&k, o->tree);
}

static void axpy(float *restrict y, float f, const float *restrict x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += f * x[i];
}

// y += sum over k of w[k] * row k of x, each element's terms one after another.
static void blend(float *restrict y, const float *restrict w, const struct em_rows *x) {
    int64_t j = 0;
    for (; j + EM_LANES <= x->n; j += EM_LANES) {
        lanes acc;
        memcpy(&acc, y + j, sizeof acc);
        for (int64_t k = 0; k < x->count; k++)
            UNROLL for (int p = 0; p < PIECES; p++) acc.p[p] +=
                w[k] * *(const piece *)(const void *)(x->p + k * x->ld + j + p * PIECE);
        memcpy(y + j, &acc, sizeof acc);
    }
    for (; j < x->n; j++)
        for (int64_t k = 0; k < x->count; k++) y[j] += w[k] * x->p[k * x->ld + j];
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
                                     .blend = blend,
                                     .widen_bf16 = widen_bf16,
                                     .widen_f16 = widen_f16,
                                     .narrow_bf16 = narrow_bf16,
                                     .narrow_f16 = narrow_f16};
