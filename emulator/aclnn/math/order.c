#include "emulator/aclnn/math/order.h"
#include "emulator/aclnn/math/lanes.h"

#include <string.h>

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

struct em_order em_order(uint64_t seed) {
    struct em_order o = {0};
    for (int i = 0; i < EM_LANES; i++) o.lane[i] = (uint8_t)i;
    if (!seed) return o;
    static const int16_t chunks[8] = {32, 64, 96, 128, 160, 192, 256, 384};
    uint64_t r = mix(seed);
    o.chunk = chunks[r & 7];
    o.backwards = r >> 3 & 1;
    o.turn = r >> 8 & 0xff;
    for (int i = EM_LANES - 1; i > 0; i--) {
        r = mix(r);
        int j = (int)(r % (uint64_t)(i + 1));
        uint8_t t = o.lane[i];
        o.lane[i] = o.lane[j];
        o.lane[j] = t;
    }
    return o;
}

float em_sum_lanes(const struct em_order *o, const float *lane) {
    float s[EM_LANES];
    for (int i = 0; i < EM_LANES; i++) s[i] = lane[o->lane[i]];
    for (int step = EM_LANES / 2; step; step /= 2)
        for (int i = 0; i < step; i++) s[i] += s[i + step];
    return s[0];
}

// Calls for each chunk in the order's order with where it starts and its length.
struct walk {
    int64_t n, chunk, count, i;
};
static struct walk walk(const struct em_order *o, int64_t n) {
    struct walk w = {.n = n, .chunk = o->chunk ? o->chunk : n};
    w.count = n ? (n + w.chunk - 1) / w.chunk : 0;
    return w;
}
static bool next(const struct em_order *o, struct walk *w, int64_t *from, int64_t *len) {
    if (w->i == w->count) return false;
    int64_t c = (int64_t)((o->turn + (uint64_t)w->i) % (uint64_t)w->count);
    if (o->backwards) c = w->count - 1 - c;
    *from = c * w->chunk;
    *len = w->n - *from < w->chunk ? w->n - *from : w->chunk;
    w->i++;
    return true;
}

void em_dot_rows(const struct em_order *o, const struct em_dots *d) {
    const struct em_lanes *k = em_lanes();
    float part[EM_LANES_ROWS][EM_LANES], sum[EM_LANES_ROWS][EM_LANES];
    for (int64_t i = 0; i < d->m;) {
        int64_t rows = d->m - i < k->rows ? 1 : k->rows, from, len;
        memset(sum, 0, sizeof sum);
        for (struct walk w = walk(o, d->n); next(o, &w, &from, &len);) {
            const float *a = d->a + i * d->lda + from;
            (rows == 1 ? k->dot1 : k->dots)(a, d->lda, d->b + from, len, &part[0][0]);
            for (int64_t r = 0; r < rows; r++)
                for (int l = 0; l < EM_LANES; l++) sum[r][l] += part[r][l];
        }
        for (int64_t r = 0; r < rows; r++) d->c[(i + r) * d->ldc] = em_sum_lanes(o, sum[r]);
        i += rows;
    }
}

float em_dot(const struct em_order *o, const float *x, const float *y, int64_t n) {
    float r;
    em_dot_rows(o, &(struct em_dots){.a = x, .b = y, .c = &r, .m = 1, .n = n});
    return r;
}

float em_sum(const struct em_order *o, const float *x, int64_t n) {
    float sum[EM_LANES] = {0};
    int64_t from, len;
    for (struct walk w = walk(o, n); next(o, &w, &from, &len);) {
        float part[EM_LANES] = {0};
        int64_t i = 0;
        for (; i + EM_LANES <= len; i += EM_LANES)
            for (int l = 0; l < EM_LANES; l++) part[l] += x[from + i + l];
        for (int l = 0; i + l < len; l++) part[l] += x[from + i + l];
        for (int l = 0; l < EM_LANES; l++) sum[l] += part[l];
    }
    return em_sum_lanes(o, sum);
}

void em_axpy(float *y, float f, const float *x, int64_t n) { em_lanes()->axpy(y, f, x, n); }
