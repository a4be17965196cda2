#include "emulator/aclnn/math/order.h"

#include "emulator/aclnn/math/lanes.h"

static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

struct em_order em_order(uint64_t seed) {
    struct em_order o = {0};
    if (!seed) return o;
    static const int16_t chunks[8] = {64, 96, 128, 160, 192, 256, 384, 512};
    uint64_t r = mix(seed);
    o.chunk = chunks[r & 7];
    o.backwards = r >> 3 & 1;
    o.tree = r >> 4 & 15;
    o.turn = r >> 24;
    return o;
}

void em_dot_all(const struct em_order *o, const struct em_dots *d) { em_lanes()->dots(o, d); }

// Terms x[i], or x[i] * y[i]. A perturbed order takes them one after another on one running sum, from anywhere, in either
// direction: on many lanes a sum rounds so well that orders would hardly differ in a number that is rounded once more.
static float plain_sum(const struct em_order *o, const float *x, const float *y, int64_t n) {
    float sum[EM_LANES] = {0};
    int64_t lanes = o->chunk ? 1 : EM_LANES, start = n ? (int64_t)(o->turn % (uint64_t)n) : 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = start + i < n ? start + i : start + i - n;
        if (o->backwards) at = n - 1 - at;
        sum[i % lanes] += y ? x[at] * y[at] : x[at];
    }
    for (int64_t step = lanes / 2; step; step /= 2)
        for (int64_t l = 0; l < step; l++) sum[l] += sum[l + step];
    return sum[0];
}

float em_dot(const struct em_order *o, const float *x, const float *y, int64_t n) { return plain_sum(o, x, y, n); }
float em_sum(const struct em_order *o, const float *x, int64_t n) { return plain_sum(o, x, NULL, n); }

void em_blend(float *y, const float *w, const struct em_rows *x) { em_lanes()->blend(y, w, x); }
void em_axpy(float *y, float f, const float *x, int64_t n) { em_lanes()->axpy(y, f, x, n); }
