// Row operations on v16; the scalar text is scalar/float_scalar.c. Included once by a level's float file after its vec_*.h.
// Every loop runs over whole vectors and then once, if needed, over the tail with part loads.
#include <math.h>
#include <stdbool.h>

#include "base/elementary.h"
#include "base/elementary_exp.h"

// for (i, live, n): element index and number of live lanes, 16 but for the tail
#define FOR_VECTORS(i, live, n) for (int64_t i = 0, live; (live = (n)-i < PANEL ? (n)-i : PANEL) > 0; i += PANEL)
V16_INLINE v16 load_live(const float *p, int64_t live) { return live == PANEL ? v16_load(p) : v16_load_part(p, live); }
V16_INLINE void store_live(float *p, v16 a, int64_t live) {
    if (live == PANEL) {
        v16_store(p, a);
    } else {
        v16_store_part(p, a, live);
    }
}

// elementary_exp, lane by lane, of numbers up to EXP_MAX, or NaN.
V16_INLINE v16 v16_exp_below_max(v16 x) {
    v16 t = v16_fma(x, v16_set(EXP_LOG2E), v16_set(EXP_ROUND));
    v16 n = v16_sub(t, v16_set(EXP_ROUND));
    v16 r = v16_fma(n, v16_set(-EXP_LN2_HI), x);
    r = v16_fma(n, v16_set(-EXP_LN2_LO), r);
    v16 p = v16_fma(v16_set(EXP_C6), r, v16_set(EXP_C5));
    p = v16_fma(p, r, v16_set(EXP_C4));
    p = v16_fma(p, r, v16_set(EXP_C3));
    p = v16_fma(p, r, v16_set(EXP_C2));
    p = v16_fma(p, r, v16_set(1.0f));
    p = v16_fma(p, r, v16_set(1.0f));
    return v16_exp_end(p, n, t, x, v16_set(EXP_MIN));
}

V16_INLINE v16 v16_exp(v16 x) {
    return v16_select(v16_less(v16_set(EXP_MAX), x), v16_set(INFINITY), v16_exp_below_max(x));
}

static bool rms_norm(float *y, const float *x, const float *w, int64_t n, float eps) {
    v16 squares = v16_zero();
    FOR_VECTORS(i, live, n) {
        v16 a = load_live(x + i, live);
        squares = v16_fma(a, a, squares);
    }
    float r = 1.0f / sqrtf(v16_sum(squares) / (float)n + eps);
    if (!(r > 0 && r < INFINITY)) return false;
    FOR_VECTORS(i, live, n) {
        store_live(y + i, v16_mul(v16_mul(load_live(x + i, live), v16_set(r)), load_live(w + i, live)), live);
    }
    return true;
}

static void add(float *y, const float *a, const float *b, int64_t n) {
    FOR_VECTORS(i, live, n) store_live(y + i, v16_add(load_live(a + i, live), load_live(b + i, live)), live);
}

static void swiglu(float *y, const float *g, const float *u, int64_t n) {
    FOR_VECTORS(i, live, n) {
        v16 gate = load_live(g + i, live);
        v16 silu = v16_div(gate, v16_add(v16_set(1.0f), v16_exp(v16_negate(gate))));
        store_live(y + i, v16_mul(silu, load_live(u + i, live)), live);
    }
}

V16_INLINE void rotate(v16 *a, v16 *b, v16 c, v16 s) {
    v16 old_a = *a, old_b = *b;
    *a = v16_fma(old_a, c, v16_negate(v16_mul(old_b, s)));
    *b = v16_fma(old_b, c, v16_mul(old_a, s));
}

static void rope_halves(float *x, const float *cs, int64_t half) {
    FOR_VECTORS(i, live, half) {
        v16 a = load_live(x + i, live), b = load_live(x + half + i, live);
        rotate(&a, &b, load_live(cs + i, live), load_live(cs + half + i, live));
        store_live(x + i, a, live);
        store_live(x + half + i, b, live);
    }
}

static void rope_pairs(float *x, const float *cs, int64_t half) {
    FOR_VECTORS(i, live, half) {
        float *at = x + 2 * i;
        int64_t live_lo = 2 * live < PANEL ? 2 * live : PANEL, live_hi = 2 * live - live_lo;
        v16 lo = load_live(at, live_lo), hi = load_live(at + live_lo, live_hi), a, b;
        v16_split_pairs(lo, hi, &a, &b);
        rotate(&a, &b, load_live(cs + i, live), load_live(cs + half + i, live));
        v16_join_pairs(a, b, &lo, &hi);
        store_live(at, lo, live_lo);
        store_live(at + live_lo, hi, live_hi);
    }
}

static void rope(float *x, const float *cs, int64_t rot, bool interleaved) {
    if (interleaved) {
        rope_pairs(x, cs, rot / 2);
    } else {
        rope_halves(x, cs, rot / 2);
    }
}

static float softmax(float *s, int64_t n, float *l) {
    int64_t whole = n - n % PANEL, rest = n % PANEL;
    v16 lowest = v16_set(-INFINITY), most = lowest, sum = v16_zero();
    for (int64_t i = 0; i < whole; i += PANEL) most = v16_larger(v16_load(s + i), most);
    if (rest) most = v16_larger(v16_select_first(rest, v16_load_part(s + whole, rest), lowest), most);
    float m = v16_largest(most);
    for (int64_t i = 0; i < whole; i += PANEL) {
        v16 p = v16_exp_below_max(v16_sub(v16_load(s + i), v16_set(m)));
        v16_store(s + i, p);
        sum = v16_add(sum, p);
    }
    if (rest) {
        v16 p = v16_exp_below_max(v16_sub(v16_load_part(s + whole, rest), v16_set(m)));
        v16_store_part(s + whole, p, rest);
        sum = v16_add(sum, v16_select_first(rest, p, v16_zero()));
    }
    *l = v16_sum(sum);
    return m;
}

static void scale(float *y, float a, int64_t n) {
    FOR_VECTORS(i, live, n) store_live(y + i, v16_mul(load_live(y + i, live), v16_set(a)), live);
}

static void attention_merge(float *o, float *m, float *l, const float *o2, float m2, float l2, int64_t d) {
    float most = m2 > *m ? m2 : *m;
    float e[PANEL]; // both at once, by vectors: calls of fmaf take longer than the sums below
    v16_store(e, v16_exp_below_max(v16_select_first(1, v16_set(*m - most), v16_set(m2 - most))));
    const float a = e[0], b = e[1];
    *m = most;
    *l = fmaf(*l, a, l2 * b);
    FOR_VECTORS(i, live, d) {
        v16 other = v16_mul(load_live(o2 + i, live), v16_set(b));
        store_live(o + i, v16_fma(load_live(o + i, live), v16_set(a), other), live);
    }
}

static bool all_below(const float *x, int64_t n, float limit) {
    const v16 high = v16_set(limit), low = v16_set(-limit), one = v16_set(1.0f);
    v16 bad = v16_zero();
    FOR_VECTORS(i, live, n) { // a tail's other lanes are 0, which is below any limit there is
        v16 a = load_live(x + i, live);
        bad = v16_select(v16_less(a, high), bad, one);
        bad = v16_select(v16_less(low, a), bad, one);
    }
    return v16_largest(bad) == 0;
}

static void axpy(float *y, float p, const float *x, int64_t n) {
    FOR_VECTORS(i, live, n) {
        store_live(y + i, v16_fma(v16_set(p), load_live(x + i, live), load_live(y + i, live)), live);
    }
}
