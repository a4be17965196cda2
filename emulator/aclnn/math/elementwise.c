// Elementwise arithmetic, filling, copying.
#include "emulator/aclnn/math/math.h"

#include <math.h>
#include <string.h>

// Merges neighbouring dimensions that every view steps through evenly, so that the innermost loop is long.
static void collapse(struct em_view *const *v, int n) {
    for (int d = v[0]->rank - 2; d >= 0; d--) {
        bool even = true;
        for (int i = 0; i < n; i++) even = even && v[i]->stride[d] == v[i]->stride[d + 1] * v[i]->dim[d + 1];
        if (!even) continue;
        for (int i = 0; i < n; i++) {
            v[i]->dim[d] *= v[i]->dim[d + 1];
            v[i]->stride[d] = v[i]->stride[d + 1];
            for (int e = d + 1; e + 1 < v[i]->rank; e++) {
                v[i]->dim[e] = v[i]->dim[e + 1];
                v[i]->stride[e] = v[i]->stride[e + 1];
            }
            v[i]->rank--;
        }
    }
    for (int i = 0; i < n && v[0]->rank == 0; i++) { // a scalar is one row of one
        if (i + 1 < n) continue;
        for (int j = 0; j < n; j++) v[j]->rank = 1, v[j]->dim[0] = 1, v[j]->stride[0] = 1;
    }
}

// A walk over rows cut into pieces.
struct pieces {
    struct em_view *const *v;
    int64_t row, at, n;
};
static struct pieces pieces(struct em_view *const *v, int n) {
    collapse(v, n);
    return (struct pieces){.v = v, .row = -1};
}
static bool next_piece(struct pieces *p, int n, char **at) {
    const struct em_view *first = p->v[0];
    int64_t len = first->dim[first->rank - 1];
    if (p->row < 0 || p->at + p->n >= len) {
        p->row++;
        p->at = 0;
        if (!len || p->row >= em_rows(first)) return false;
    } else
        p->at += p->n;
    p->n = len - p->at < EM_PIECE ? len - p->at : EM_PIECE;
    for (int i = 0; i < n; i++)
        at[i] = em_row(p->v[i], p->row) +
                p->at * p->v[i]->stride[p->v[i]->rank - 1] * (int64_t)em_dtype_size(p->v[i]->dtype);
    return true;
}
static int64_t step(const struct em_view *v) { return v->stride[v->rank - 1]; }

// ---- one operand -----------------------------------------------------------------------------------------------------

#define MAP(expression) \
    for (int64_t i = 0; i < n; i++) { \
        float v = x[i]; \
        x[i] = expression; \
    } \
    break

static void map_more(enum em_unary op, const float *par, float *x, int64_t n) {
    switch (op) {
    case EM_LEAKY_RELU: MAP(v > 0 ? v : v * par[0]);
    case EM_ELU: MAP((v > 0 ? v : par[0] * expm1f(v * par[2])) * par[1]);
    case EM_SOFTPLUS: MAP(v * par[0] > par[1] ? v : log1pf(expf(par[0] * v)) / par[0]);
    case EM_CLAMP: MAP(v < par[0] ? par[0] : v > par[1] ? par[1] : v);
    case EM_THRESHOLD: MAP(v > par[0] ? v : par[1]);
    case EM_SWISH: MAP(v / (1.0f + expf(-par[0] * v)));
    case EM_HARDSIGMOID: MAP(v <= -3 ? 0 : v >= 3 ? 1 : v / 6.0f + 0.5f);
    case EM_HARDSWISH: MAP(v <= -3 ? 0 : v >= 3 ? v : v * (v + 3.0f) / 6.0f);
    case EM_GELU: MAP(0.5f * v * (1.0f + erff(v * 0.70710678f)));
    case EM_GELU_TANH: MAP(0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v))));
    default: break;
    }
}

static void map(enum em_unary op, const float *par, float *x, int64_t n) {
    switch (op) {
    case EM_ABS: MAP(fabsf(v));
    case EM_NEG: MAP(-v);
    case EM_EXP: MAP(expf(v));
    case EM_LOG: MAP(logf(v));
    case EM_SQRT: MAP(sqrtf(v));
    case EM_RSQRT: MAP(1.0f / sqrtf(v));
    case EM_RECIPROCAL: MAP(1.0f / v);
    case EM_SIN: MAP(sinf(v));
    case EM_COS: MAP(cosf(v));
    case EM_TANH: MAP(tanhf(v));
    case EM_SIGMOID: MAP(1.0f / (1.0f + expf(-v)));
    case EM_SILU: MAP(v / (1.0f + expf(-v)));
    case EM_RELU: MAP(v > 0 ? v : 0);
    case EM_SIGN: MAP(v > 0 ? 1 : v < 0 ? -1 : 0);
    case EM_NOT: MAP(v == 0);
    case EM_FLOOR: MAP(floorf(v));
    case EM_CEIL: MAP(ceilf(v));
    case EM_COPY: break;
    default: map_more(op, par, x, n);
    }
}

// Whole numbers stay whole where the function does; false: computes in F32.
static bool map_int(enum em_unary op, const double *par, int64_t *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t v = x[i];
        switch (op) {
        case EM_ABS: x[i] = v < 0 ? -v : v; break;
        case EM_NEG: x[i] = -v; break;
        case EM_RELU: x[i] = v > 0 ? v : 0; break;
        case EM_SIGN: x[i] = (v > 0) - (v < 0); break;
        case EM_NOT: x[i] = !v; break;
        case EM_COPY: break;
        case EM_CLAMP: x[i] = (double)v < par[0] ? (int64_t)par[0] : (double)v > par[1] ? (int64_t)par[1] : v; break;
        case EM_THRESHOLD: x[i] = (double)v > par[0] ? v : (int64_t)par[1]; break;
        default: return false;
        }
    }
    return true;
}

int em_unary(enum em_unary op, const struct em_view *x, const double par[3], const struct em_view *out) {
    struct em_view in = *x, to = *out, *v[2] = {&to, &in};
    if (!em_broadcast(x, out->rank, out->dim, &in)) return EM_OUT_OF_RANGE;
    float fp[3] = {par ? (float)par[0] : 0, par ? (float)par[1] : 0, par ? (float)par[2] : 0}, f[EM_PIECE];
    double none[3] = {0}, d[EM_PIECE];
    int64_t w[EM_PIECE];
    char *at[2];
    for (struct pieces p = pieces(v, 2); next_piece(&p, 2, at);) {
        if (em_is_int(in.dtype)) {
            em_load_i64(in.dtype, at[1], step(&in), w, p.n);
            if (map_int(op, par ? par : none, w, p.n)) {
                em_store_i64(to.dtype, at[0], step(&to), w, p.n);
                continue;
            }
        }
        if (in.dtype == EM_F64 && (op == EM_COPY || op == EM_NEG)) {
            em_load_f64(in.dtype, at[1], step(&in), d, p.n);
            for (int64_t i = 0; i < p.n && op == EM_NEG; i++) d[i] = -d[i];
            em_store_f64(to.dtype, at[0], step(&to), d, p.n);
            continue;
        }
        em_load_f32(in.dtype, at[1], step(&in), f, p.n);
        map(op, fp, f, p.n);
        em_store_f32(to.dtype, at[0], step(&to), f, p.n);
    }
    return EM_OK;
}

int em_copy(const struct em_view *src, const struct em_view *dst) { return em_unary(EM_COPY, src, NULL, dst); }

// ---- two operands ----------------------------------------------------------------------------------------------------

int em_promote(int a, int b) {
    if (a == b) return a;
    bool fa = em_is_float(a), fb = em_is_float(b);
    if (fa && fb) {
        if (a == EM_F64 || b == EM_F64) return EM_F64;
        return EM_F32; // F32 with a half type, or the two half types
    }
    if (fa || fb) return fa ? a : b;
    if (a == EM_BOOL) return b;
    if (b == EM_BOOL) return a;
    size_t sa = em_dtype_size(a), sb = em_dtype_size(b);
    if (sa != sb) return sa > sb ? a : b;
    return sa == 1 ? EM_I16 : sa == 2 ? EM_I32 : EM_I64; // signed with unsigned of one size
}

#define ZIP(expression) \
    for (int64_t i = 0; i < n; i++) { \
        __typeof__(*x) a = x[i], b = y[i]; \
        x[i] = expression; \
    } \
    break
#define COMPARES \
    case EM_ADD: ZIP(a + b); \
    case EM_SUB: ZIP(a - b); \
    case EM_MUL: ZIP(a *b); \
    case EM_MAX: ZIP(a > b ? a : b); \
    case EM_MIN: ZIP(a < b ? a : b); \
    case EM_EQ: ZIP(a == b); \
    case EM_NE: ZIP(a != b); \
    case EM_GT: ZIP(a > b); \
    case EM_GE: ZIP(a >= b); \
    case EM_LT: ZIP(a < b); \
    case EM_LE: ZIP(a <= b)

static void zip_f32(enum em_binary op, float *x, const float *y, int64_t n) {
    switch (op) {
        COMPARES;
    case EM_DIV: ZIP(a / b);
    case EM_POW: ZIP(powf(a, b));
    }
}
static void zip_f64(enum em_binary op, double *x, const double *y, int64_t n) {
    switch (op) {
        COMPARES;
    case EM_DIV: ZIP(a / b);
    case EM_POW: ZIP(pow(a, b));
    }
}
static int64_t power(int64_t a, int64_t b) {
    uint64_t r = 1, f = (uint64_t)a;
    for (; b > 0; b >>= 1, f *= f)
        if (b & 1) r *= f;
    return (int64_t)r;
}
static void zip_i64(enum em_binary op, int64_t *x, const int64_t *y, int64_t n) {
    switch (op) {
        COMPARES;
    case EM_DIV: ZIP(b ? a / b : 0); // not reached: a quotient of whole numbers is computed in F32
    case EM_POW: ZIP(power(a, b));
    }
}

int em_binary(enum em_binary op, const struct em_view *a, const struct em_view *b, double f,
              const struct em_view *out) {
    struct em_view x, y, to = *out, *v[3] = {&to, &x, &y};
    if (!em_broadcast(a, out->rank, out->dim, &x) || !em_broadcast(b, out->rank, out->dim, &y)) return EM_OUT_OF_RANGE;
    int type = em_promote(a->dtype, b->dtype);
    bool whole = em_is_int(type) && op != EM_DIV;
    union {
        float f[2][EM_PIECE];
        double d[2][EM_PIECE];
        int64_t w[2][EM_PIECE];
    } u;
    char *at[3];
    for (struct pieces p = pieces(v, 3); next_piece(&p, 3, at);) {
        if (whole) {
            em_load_i64(x.dtype, at[1], step(&x), u.w[0], p.n), em_load_i64(y.dtype, at[2], step(&y), u.w[1], p.n);
            for (int64_t i = 0; f != 1 && i < p.n; i++) u.w[1][i] = (int64_t)(f * (double)u.w[1][i]);
            zip_i64(op, u.w[0], u.w[1], p.n);
            em_store_i64(to.dtype, at[0], step(&to), u.w[0], p.n);
        } else if (type == EM_F64) {
            em_load_f64(x.dtype, at[1], step(&x), u.d[0], p.n), em_load_f64(y.dtype, at[2], step(&y), u.d[1], p.n);
            for (int64_t i = 0; f != 1 && i < p.n; i++) u.d[1][i] *= f;
            zip_f64(op, u.d[0], u.d[1], p.n);
            em_store_f64(to.dtype, at[0], step(&to), u.d[0], p.n);
        } else {
            em_load_f32(x.dtype, at[1], step(&x), u.f[0], p.n), em_load_f32(y.dtype, at[2], step(&y), u.f[1], p.n);
            for (int64_t i = 0; f != 1 && i < p.n; i++) u.f[1][i] *= (float)f;
            zip_f32(op, u.f[0], u.f[1], p.n);
            em_store_f32(to.dtype, at[0], step(&to), u.f[0], p.n);
        }
    }
    return EM_OK;
}

// ---- filling ---------------------------------------------------------------------------------------------------------

int em_fill(const struct em_view *dst, double value) {
    struct em_view src = {.dtype = EM_F64, .p = (char *)&value};
    return em_unary(EM_COPY, &src, NULL, dst);
}

int em_arange(const struct em_view *out, double start, double by) {
    for (int64_t i = 0; i < em_count(out); i++) {
        double v = start + (double)i * by;
        int64_t at[EM_RANK];
        em_unravel(i, out->rank, out->dim, at);
        em_store_f64(out->dtype, out->p + em_offset(out, at) * (int64_t)em_dtype_size(out->dtype), 1, &v, 1);
    }
    return EM_OK;
}

int em_triangle(const struct em_view *x, int64_t diagonal, bool upper, const struct em_view *out) {
    int last = x->rank - 1;
    int64_t n = x->dim[last], rows = em_rows(x), h = x->dim[last - 1], size = (int64_t)em_dtype_size(x->dtype);
    for (int64_t r = 0; r < rows; r++) {
        char *src = em_row(x, r), *dst = em_row(out, r);
        for (int64_t c = 0; c < n; c++) {
            bool keep = upper ? c - r % h >= diagonal : c - r % h <= diagonal;
            if (keep)
                memmove(dst + c * out->stride[last] * size, src + c * x->stride[last] * size, (size_t)size);
            else
                memset(dst + c * out->stride[last] * size, 0, (size_t)size);
        }
    }
    return EM_OK;
}

int em_where(const struct em_view *cond, const struct em_view *a, const struct em_view *b, const struct em_view *out) {
    struct em_view c, x, y, to = *out, *v[4] = {&to, &c, &x, &y};
    if (!em_broadcast(cond, out->rank, out->dim, &c) || !em_broadcast(a, out->rank, out->dim, &x) ||
        !em_broadcast(b, out->rank, out->dim, &y))
        return EM_OUT_OF_RANGE;
    double dx[EM_PIECE], dy[EM_PIECE];
    int64_t w[EM_PIECE];
    char *at[4];
    for (struct pieces p = pieces(v, 4); next_piece(&p, 4, at);) {
        em_load_i64(c.dtype, at[1], step(&c), w, p.n);
        em_load_f64(x.dtype, at[2], step(&x), dx, p.n), em_load_f64(y.dtype, at[3], step(&y), dy, p.n);
        for (int64_t i = 0; i < p.n; i++) dx[i] = w[i] ? dx[i] : dy[i];
        em_store_f64(to.dtype, at[0], step(&to), dx, p.n);
    }
    return EM_OK;
}

int em_masked_fill(const struct em_view *dst, const struct em_view *mask, double value) {
    struct em_view src = {.dtype = EM_F64, .p = (char *)&value};
    return em_where(mask, &src, dst, dst);
}
