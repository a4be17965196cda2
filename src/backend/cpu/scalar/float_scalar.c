// The normative text of the float kernels: what every other level must equal bit for bit. Written to be read.
//
// Only numbers are normative: where a result is NaN, its sign and payload are whatever the processor gives.
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/kv_store.h"
#include "base/elementary.h"

// Element i of an array of a plain type, as f32.
typedef float load_fn(const void *src, int64_t i);

static float load_f32(const void *src, int64_t i) { return ((const float *)src)[i]; }
static float load_f16(const void *src, int64_t i) { return f16_to_f32(((const uint16_t *)src)[i]); }
static float load_bf16(const void *src, int64_t i) { return bf16_to_f32(((const uint16_t *)src)[i]); }

// ---- matrix tiles: acc = fma(w, x, acc), k ascending ----

// Where weight (k, j) of a panel is stored.
typedef int64_t place_fn(int64_t k, int j);

static int64_t place_plain(int64_t k, int j) { return k * PANEL + j; }
static int64_t place_pairs(int64_t k, int j) { return k / 2 * (2 * PANEL) + 2 * j + k % 2; }

static void tile_any(const matmul_tile *t, load_fn *load, place_fn *place) {
    for (int r = 0; r < t->n_rows; r++) {
        const float *x = (const float *)((const char *)t->x + r * t->x_stride);
        for (int p = 0; p < t->n_panels; p++) {
            const char *w = (const char *)t->w + p * t->panel_stride;
            float *acc = t->acc + r * t->acc_stride + PANEL * p;
            for (int64_t k = t->k0; k < t->k1; k++) {
                for (int j = 0; j < PANEL; j++) acc[j] = fmaf(load(w, place(k, j)), x[k], acc[j]);
            }
        }
    }
}

static void tile_f32(const matmul_tile *t) { tile_any(t, load_f32, place_plain); }
static void tile_f16(const matmul_tile *t) { tile_any(t, load_f16, place_plain); }
static void tile_bf16(const matmul_tile *t) { tile_any(t, load_bf16, place_pairs); }

static void round_row_bf16(void *dst, const float *x, int64_t n) {
    uint16_t *to = dst;
    for (int64_t i = 0; i < n; i++) to[i] = bf16_from_f32(x[i]);
    if (n % 2) to[n] = 0;
}

// ---- row operations ----

// The sum of the 16 virtual lanes: halves of 8, 4, 2, 1. Overwrites lane[].
static float lanes_sum(float *lane) {
    for (int half = PANEL / 2; half >= 1; half /= 2) {
        for (int j = 0; j < half; j++) lane[j] = lane[j] + lane[j + half];
    }
    return lane[0];
}

// The larger one, b where they are equal or a is NaN.
static float larger(float a, float b) { return a > b ? a : b; }

static bool rms_norm(float *y, const float *x, const float *w, int64_t n, float eps) {
    float lane[PANEL] = {0};
    for (int64_t i = 0; i < n; i++) lane[i % PANEL] = fmaf(x[i], x[i], lane[i % PANEL]);
    float r = 1.0f / sqrtf(lanes_sum(lane) / (float)n + eps);
    if (!(r > 0 && r < INFINITY)) return false;
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] * r) * w[i];
    return true;
}

static void add(float *y, const float *a, const float *b, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

static void swiglu(float *y, const float *g, const float *u, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = (g[i] / (1.0f + elementary_exp(-g[i]))) * u[i];
}

static void rope(float *x, const float *cs, int64_t rot, bool interleaved) {
    int64_t half = rot / 2;
    for (int64_t i = 0; i < half; i++) {
        float *a = interleaved ? &x[2 * i] : &x[i];
        float *b = interleaved ? &x[2 * i + 1] : &x[i + half];
        float c = cs[i], s = cs[half + i], old_a = *a, old_b = *b;
        *a = fmaf(old_a, c, -(old_b * s));
        *b = fmaf(old_b, c, old_a * s);
    }
}

static float softmax(float *s, int64_t n, float *l) {
    float most[PANEL], lane[PANEL] = {0};
    for (int j = 0; j < PANEL; j++) most[j] = -INFINITY;
    for (int64_t i = 0; i < n; i++) most[i % PANEL] = larger(s[i], most[i % PANEL]);
    for (int half = PANEL / 2; half >= 1; half /= 2) {
        for (int j = 0; j < half; j++) most[j] = larger(most[j], most[j + half]);
    }
    for (int64_t i = 0; i < n; i++) {
        s[i] = elementary_exp(s[i] - most[0]);
        lane[i % PANEL] = lane[i % PANEL] + s[i];
    }
    *l = lanes_sum(lane);
    return most[0];
}

static void scale(float *y, float a, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = y[i] * a;
}

static void attention_merge(float *o, float *m, float *l, const float *o2, float m2, float l2, int64_t d) {
    float most = larger(m2, *m);
    float a = elementary_exp(*m - most), b = elementary_exp(m2 - most);
    *m = most;
    *l = fmaf(*l, a, l2 * b);
    for (int64_t j = 0; j < d; j++) o[j] = fmaf(o[j], a, o2[j] * b);
}

static bool all_below(const float *x, int64_t n, float limit) {
    for (int64_t i = 0; i < n; i++) {
        if (!(fabsf(x[i]) < limit)) return false;
    }
    return true;
}

static void axpy(float *y, float p, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(p, x[i], y[i]);
}

// ---- attention ----

// Key (j, t) of a panel, as f32.
typedef float load_key_fn(const void *panel, int64_t d, int64_t j, int t);

static float key_f32(const void *panel, int64_t d, int64_t j, int t) { return (void)d, load_f32(panel, j * PANEL + t); }
static float key_f16(const void *panel, int64_t d, int64_t j, int t) { return (void)d, load_f16(panel, j * PANEL + t); }
static float key_bf16(const void *panel, int64_t d, int64_t j, int t) {
    return (void)d, load_bf16(panel, j * PANEL + t);
}
static float key_q8_0(const void *panel, int64_t d, int64_t j, int t) {
    const int8_t *q = panel;
    return (float)q[j * PANEL + t] * load_f16(q + d * PANEL, j / KV_Q8_BLOCK * PANEL + t);
}

static void scores_any(const kv_scores *a, int64_t panel_bytes, load_key_fn *load) {
    for (int i = 0; i < a->n_q; i++) {
        const float *q = a->q + i * a->q_stride;
        for (int t = 0; t < a->n_t[i]; t++) {
            const char *panel = (const char *)a->k + t / KV_PANEL * panel_bytes;
            float sum = 0;
            for (int64_t j = 0; j < a->d; j++) sum = fmaf(q[j], load(panel, a->d, j, t % KV_PANEL), sum);
            a->s[i * a->s_stride + t] = sum * a->scale;
        }
    }
}

static void widen_keys_any(float *dst, const void *k, int64_t n, int64_t d, int64_t panel_bytes, load_key_fn *load) {
    for (int64_t i = 0; i < n; i++) {
        const char *panel = (const char *)k + i / (d * KV_PANEL) * panel_bytes;
        dst[i] = load(panel, d, i / KV_PANEL % d, (int)(i % KV_PANEL));
    }
}

static float load_q8_0(const void *src, int64_t i) {
    const char *block = (const char *)src + i / KV_Q8_BLOCK * KV_Q8_BLOCK_BYTES;
    uint16_t block_scale;
    memcpy(&block_scale, block, 2);
    return (float)(int8_t)block[2 + i % KV_Q8_BLOCK] * f16_to_f32(block_scale);
}

static void values_any(const kv_values *a, load_fn *load) {
    for (int i = 0; i < a->n_q; i++) {
        float *o = a->o + i * a->o_stride;
        for (int t = 0; t < a->n_t[i]; t++) {
            const char *row = (const char *)a->v + t * a->v_stride;
            float weight = a->p[i * a->p_stride + t];
            for (int64_t j = 0; j < a->d; j++) o[j] = fmaf(weight, load(row, j), o[j]);
        }
    }
}

// The kernels of each type, in the form the table wants.
#define ATTENTION_KERNELS(type, TYPE) \
    static void scores_##type(const kv_scores *a) { scores_any(a, kv_key_panel_bytes(TYPE, a->d), key_##type); } \
    static void values_##type(const kv_values *a) { values_any(a, load_##type); } \
    static void widen_keys_##type(float *dst, const void *k, int n_panels, int64_t d) { \
        widen_keys_any(dst, k, n_panels *d *KV_PANEL, d, kv_key_panel_bytes(TYPE, d), key_##type); \
    } \
    static void widen_values_##type(float *dst, int64_t stride, const void *v, int64_t v_stride, int n_t, int64_t d) { \
        for (int64_t i = 0; i < n_t * d; i++) \
            dst[i / d * stride + i % d] = load_##type((const char *)v + i / d * v_stride, i % d); \
    } \
    static const attention_kernels attention_##type = {scores_##type,        values_##type, \
                                                       widen_keys_##type,    widen_values_##type, \
                                                       kv_store_keys_##type, kv_store_value_##type};
ATTENTION_KERNELS(f32, DTYPE_F32)
ATTENTION_KERNELS(f16, DTYPE_F16)
ATTENTION_KERNELS(bf16, DTYPE_BF16)
ATTENTION_KERNELS(q8_0, DTYPE_Q8_0)

void kernels_float_scalar(cpu_kernels *k) {
    k->tile[DTYPE_F32] = tile_f32;
    k->tile[DTYPE_F16] = tile_f16;
    k->tile[DTYPE_BF16] = tile_bf16;
    k->x_format[DTYPE_F32] = k->x_format[DTYPE_F16] = k->x_format[DTYPE_BF16] = X_F32;
    k->round_row_bf16 = round_row_bf16;
    k->rms_norm = rms_norm;
    k->add = add;
    k->swiglu = swiglu;
    k->rope = rope;
    k->softmax = softmax;
    k->scale = scale;
    k->attention_merge = attention_merge;
    k->all_below = all_below;
    k->axpy = axpy;
    k->attention[DTYPE_F32] = &attention_f32;
    k->attention[DTYPE_F16] = &attention_f16;
    k->attention[DTYPE_BF16] = &attention_bf16;
    k->attention[DTYPE_Q8_0] = &attention_q8_0;
}
