// RMSNorm, LayerNorm, GroupNorm, softmax, gated activations, rotary embedding.
#include "emulator/aclnn/math/math.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A view as `rows` x `n` with the trailing dimensions from `axis` on taken together; they must be dense among themselves, or
// one dimension. Otherwise elements are fetched one by one.
static void load_tail(const struct em_view *v, int axis, int64_t row, float *dst, int64_t n) {
    int64_t at[EM_RANK] = {0}, size = (int64_t)em_dtype_size(v->dtype);
    em_unravel(row, axis, v->dim, at);
    int64_t last = v->rank ? v->dim[v->rank - 1] : 1, step = v->rank ? v->stride[v->rank - 1] : 1;
    for (int64_t i = 0; i < n; i += last) {
        em_unravel(i / last, v->rank - 1 - axis, v->dim + axis, at + axis);
        at[v->rank - 1] = 0;
        em_load_f32(v->dtype, v->p + em_offset(v, at) * size, step, dst + i, last);
    }
}

static void store_tail(const struct em_view *v, int axis, int64_t row, const float *src, int64_t n) {
    int64_t at[EM_RANK] = {0}, size = (int64_t)em_dtype_size(v->dtype);
    em_unravel(row, axis, v->dim, at);
    int64_t last = v->rank ? v->dim[v->rank - 1] : 1, step = v->rank ? v->stride[v->rank - 1] : 1;
    for (int64_t i = 0; i < n; i += last) {
        em_unravel(i / last, v->rank - 1 - axis, v->dim + axis, at + axis);
        at[v->rank - 1] = 0;
        em_store_f32(v->dtype, v->p + em_offset(v, at) * size, step, src + i, last);
    }
}

// To the precision of a type and back.
static void round_to(int dtype, float *x, int64_t n) {
    if (dtype == EM_BF16)
        for (int64_t i = 0; i < n; i++) x[i] = em_from_bf16(em_to_bf16(x[i]));
    if (dtype == EM_F16)
        for (int64_t i = 0; i < n; i++) x[i] = em_from_f16(em_to_f16(x[i]));
}

static float element(const struct em_view *v, int64_t i) {
    float f = 0;
    int64_t at[EM_RANK];
    em_unravel(i, v->rank, v->dim, at);
    em_load_f32(v->dtype, v->p + em_offset(v, at) * (int64_t)em_dtype_size(v->dtype), 1, &f, 1);
    return f;
}

static void set_element(const struct em_view *v, int64_t i, float f) {
    int64_t at[EM_RANK];
    em_unravel(i, v->rank, v->dim, at);
    em_store_f32(v->dtype, v->p + em_offset(v, at) * (int64_t)em_dtype_size(v->dtype), 1, &f, 1);
}

int em_rms_norm(const struct em_rms_norm *m) {
    int axis = m->x1->rank - m->gamma->rank;
    int64_t n = em_count(m->gamma), rows = 1;
    // a gamma of [1, H] covers the last dimension as [H] does
    while (axis + 1 < m->x1->rank && m->gamma->dim[axis - (m->x1->rank - m->gamma->rank)] == 1) axis++;
    for (int i = 0; i < axis; i++) rows *= m->x1->dim[i];
    if (!n || !rows) return EM_OK;
    float *x = malloc((size_t)n * 3 * sizeof *x), *g = x ? x + n : NULL, *other = x ? g + n : NULL;
    if (!x) return EM_NO_MEMORY;
    load_tail(m->gamma, 0, 0, g, n);
    for (int64_t r = 0; r < rows; r++) {
        load_tail(m->x1, axis, r, x, n);
        if (m->x2) {
            load_tail(m->x2, axis, r, other, n);
            for (int64_t i = 0; i < n; i++) x[i] += other[i];
            round_to(m->x1->dtype, x, n);
            if (m->x_out) store_tail(m->x_out, axis, r, x, n);
        }
        float rstd = 1.0f / sqrtf(em_dot(&m->order, x, x, n) / (float)n + (float)m->eps);
        for (int64_t i = 0; i < n; i++) x[i] = x[i] * rstd * g[i];
        store_tail(m->y, axis, r, x, n);
        if (m->rstd) set_element(m->rstd, r, rstd);
    }
    free(x);
    return EM_OK;
}

int em_norm(const struct em_norm *m) {
    float *x = malloc((size_t)(m->n + 1) * sizeof *x);
    if (!x) return EM_NO_MEMORY;
    for (int64_t r = 0; r < m->rows; r++) {
        for (int64_t i = 0; i < m->n; i++) x[i] = element(m->x, r * m->n + i);
        float mean = em_sum(&m->order, x, m->n) / (float)m->n;
        for (int64_t i = 0; i < m->n; i++) x[i] -= mean;
        float rstd = 1.0f / sqrtf(em_dot(&m->order, x, x, m->n) / (float)m->n + (float)m->eps);
        for (int64_t i = 0; i < m->n; i++) {
            int64_t c = (r * (m->n / m->inner) + i / m->inner) % m->channels;
            float y = x[i] * rstd;
            if (m->gamma) y *= element(m->gamma, c);
            if (m->beta) y += element(m->beta, c);
            set_element(m->y, r * m->n + i, y);
        }
        if (m->mean) set_element(m->mean, r, mean);
        if (m->rstd) set_element(m->rstd, r, rstd);
    }
    free(x);
    return EM_OK;
}

// Address of line `i` along dimension `dim`, lines counted row-major over the others.
static char *line_at(const struct em_view *v, int dim, int64_t i) {
    int64_t off = 0;
    for (int d = v->rank - 1; d >= 0; d--) {
        if (d == dim) continue;
        off += i % v->dim[d] * v->stride[d];
        i /= v->dim[d];
    }
    return v->p + off * (int64_t)em_dtype_size(v->dtype);
}

int em_softmax(const struct em_view *x, int dim, const struct em_view *out, bool log, const struct em_order *o) {
    int64_t n = x->dim[dim], lines = n ? em_count(x) / n : 0;
    float *v = malloc((size_t)(n + 1) * 2 * sizeof *v), *e = v ? v + n + 1 : NULL;
    if (!v) return EM_NO_MEMORY;
    for (int64_t i = 0; i < lines; i++) {
        em_load_f32(x->dtype, line_at(x, dim, i), x->stride[dim], v, n);
        float top = -INFINITY;
        for (int64_t j = 0; j < n; j++) top = v[j] > top ? v[j] : top;
        for (int64_t j = 0; j < n; j++) e[j] = expf(v[j] - top);
        float sum = em_sum(o, e, n);
        for (int64_t j = 0; j < n; j++) v[j] = log ? v[j] - top - logf(sum) : e[j] / sum;
        em_store_f32(out->dtype, line_at(out, dim, i), out->stride[dim], v, n);
    }
    free(v);
    return EM_OK;
}

static float act(int kind, float x) {
    switch (kind) {
    case 1: return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case 2: return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    default: return x / (1.0f + expf(-x));
    }
}

int em_glu(const struct em_glu *g) {
    int64_t half = g->out->dim[g->dim], size = (int64_t)em_dtype_size(g->x->dtype), count = em_count(g->out);
    struct em_view first = *g->x;
    first.dim[g->dim] = half;
    struct em_view second = first;
    second.p += half * g->x->stride[g->dim] * size;
    const struct em_view *gate = g->gate_right ? &second : &first, *lin = g->gate_right ? &first : &second;
    int last = g->out->rank - 1;
    int64_t n = g->out->dim[last];
    float *a = malloc((size_t)(n + 1) * 2 * sizeof *a), *b = a ? a + n + 1 : NULL;
    if (!a) return EM_NO_MEMORY;
    for (int64_t r = 0; n && r < count / n; r++) {
        em_load_f32(gate->dtype, em_row(gate, r), gate->stride[last], a, n);
        em_load_f32(lin->dtype, em_row(lin, r), lin->stride[last], b, n);
        for (int64_t i = 0; i < n; i++) a[i] = act(g->act, a[i]);
        if (g->act_out) em_store_f32(g->act_out->dtype, em_row(g->act_out, r), g->act_out->stride[last], a, n);
        for (int64_t i = 0; i < n; i++) a[i] *= b[i];
        em_store_f32(g->out->dtype, em_row(g->out, r), g->out->stride[last], a, n);
    }
    free(a);
    return EM_OK;
}

// Where the partner of element i lies and the sign it comes with.
static int64_t partner(enum em_rotary mode, int64_t i, int64_t d, float *sign) {
    int64_t h = d / 2, q = d / 4;
    switch (mode) {
    case EM_ROTARY_INTERLEAVE: *sign = i % 2 ? 1.0f : -1.0f; return i ^ 1;
    case EM_ROTARY_QUARTER: { // quarters [a b c d] turn as the pairs (a, b) and (c, d)
        bool odd = i / q % 2;
        *sign = odd ? 1.0f : -1.0f;
        return odd ? i - q : i + q;
    }
    default: *sign = i < h ? -1.0f : 1.0f; return i < h ? i + h : i - h;
    }
}

int em_rotary(const struct em_view *x, const struct em_view *cos, const struct em_view *sin, enum em_rotary mode,
              const struct em_view *out) {
    int last = x->rank - 1;
    int64_t d = x->dim[last], rot = cos->dim[last], rows = em_rows(x), dims[EM_RANK];
    struct em_view c, s;
    memcpy(dims, x->dim, sizeof dims);
    dims[last] = rot;
    if (!em_broadcast(cos, x->rank, dims, &c) || !em_broadcast(sin, x->rank, dims, &s)) return EM_OUT_OF_RANGE;
    float *buf = malloc((size_t)d * 4 * sizeof *buf), *y = buf ? buf + d : NULL, *cv = buf ? y + d : NULL,
          *sv = buf ? cv + d : NULL;
    if (!buf) return EM_NO_MEMORY;
    for (int64_t r = 0; r < rows; r++) {
        em_load_f32(x->dtype, em_row(x, r), x->stride[last], buf, d);
        em_load_f32(c.dtype, em_row(&c, r), c.stride[last], cv, rot);
        em_load_f32(s.dtype, em_row(&s, r), s.stride[last], sv, rot);
        if (mode == EM_ROTARY_INTERLEAVE_HALF) { // the pairs (2i, 2i+1) are first sorted into halves, and stay there
            memcpy(y, buf, (size_t)rot * sizeof *y);
            for (int64_t i = 0; i < rot; i++) buf[i % 2 * (rot / 2) + i / 2] = y[i];
        }
        memcpy(y, buf, (size_t)d * sizeof *y);
        for (int64_t i = 0; i < rot; i++) {
            float sign;
            int64_t j = partner(mode, i, rot, &sign);
            y[i] = buf[i] * cv[i] + sign * buf[j] * sv[i];
        }
        em_store_f32(out->dtype, em_row(out, r), out->stride[last], y, d);
    }
    free(buf);
    return EM_OK;
}
