// Indexing, sorting, reducing.
#include "emulator/aclnn/math/math.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static char *element_at(const struct em_view *v, const int64_t *at) {
    return v->p + em_offset(v, at) * (int64_t)em_dtype_size(v->dtype);
}

int em_gather(const struct em_view *x, int dim, const struct em_view *index, const struct em_view *out) {
    // runs over the dimensions behind `dim` at once where they are dense in both
    int64_t size = (int64_t)em_dtype_size(x->dtype), inner = 1;
    int behind = x->rank - 1 - dim, front = out->rank - behind;
    for (int d = x->rank - 1, o = out->rank - 1; d > dim; d--, o--) {
        if (x->stride[d] != inner || out->stride[o] != inner) {
            inner = 0;
            break;
        }
        inner *= x->dim[d];
    }
    int64_t n = em_count(out), run = inner ? inner : 1;
    for (int64_t i = 0; i < n; i += run) {
        int64_t at[EM_RANK], from[EM_RANK] = {0}, k = 0;
        em_unravel(i, out->rank, out->dim, at);
        for (int d = dim; d < front; d++) k = k * out->dim[d] + at[d];
        int64_t j = em_index(index, k);
        if (j < 0) j += x->dim[dim]; // UNVERIFIED: counted from the end
        if (j < 0 || j >= x->dim[dim]) return EM_OUT_OF_RANGE;
        memcpy(from, at, (size_t)dim * sizeof *from);
        from[dim] = j;
        for (int d = 0; d < behind; d++) from[dim + 1 + d] = at[front + d];
        memcpy(element_at(out, at), element_at(x, from), (size_t)(run * size));
    }
    return EM_OK;
}

// Whether each index is one of `size` places (counted from the end where negative), and none is named twice.
static int check_places(const struct em_view *index, int64_t size) {
    unsigned char *seen = calloc((size_t)size + 1, 1);
    int rc = seen ? EM_OK : EM_NO_MEMORY;
    for (int64_t i = 0; i < em_count(index) && rc == EM_OK; i++) {
        int64_t at = em_index(index, i);
        if (at < 0) at += size;
        rc = at < 0 || at >= size ? EM_OUT_OF_RANGE : seen[at] ? EM_DUPLICATE : EM_OK;
        if (rc == EM_OK) seen[at] = 1;
    }
    free(seen);
    return rc;
}

int em_scatter(const struct em_view *dst, int dim, const struct em_view *index, const struct em_view *src) {
    int64_t size = (int64_t)em_dtype_size(dst->dtype), inner = 1;
    int rc = check_places(index, dst->rank ? dst->dim[dim] : 1);
    if (rc) return rc;
    for (int d = src->rank - 1; d > dim; d--) {
        if (src->stride[d] != inner || dst->stride[d] != inner || src->dim[d] != dst->dim[d]) {
            inner = 0;
            break;
        }
        inner *= src->dim[d];
    }
    int64_t n = em_count(src), run = inner ? inner : 1;
    for (int64_t i = 0; i < n; i += run) {
        int64_t at[EM_RANK];
        em_unravel(i, src->rank, src->dim, at);
        const char *from = element_at(src, at);
        at[dim] = em_index(index, at[dim]);
        if (at[dim] < 0) at[dim] += dst->dim[dim];
        memcpy(element_at(dst, at), from, (size_t)(run * size));
    }
    return EM_OK;
}

static int64_t line_offset(const struct em_view *v, int dim, int64_t i) {
    int64_t off = 0;
    for (int d = v->rank - 1; d >= 0; d--) {
        if (d == dim) continue;
        off += i % v->dim[d] * v->stride[d];
        i /= v->dim[d];
    }
    return off * (int64_t)em_dtype_size(v->dtype);
}

struct item {
    double key;
    int64_t whole, index; // whole numbers are compared exactly
    uint64_t tie;         // decides between equal ones, before the index does
};

// NaN is the greatest.
static int by_value(const struct item *a, const struct item *b) {
    bool na = isnan(a->key), nb = isnan(b->key);
    if (na != nb) return na - nb;
    if (!na && a->key != b->key) return a->key < b->key ? -1 : 1;
    return a->whole < b->whole ? -1 : a->whole > b->whole;
}
static int by_place(const struct item *a, const struct item *b) { // the order is total
    if (a->tie != b->tie) return a->tie < b->tie ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}
static int ascending(const void *a, const void *b) {
    int c = by_value(a, b);
    return c ? c : by_place(a, b);
}
static int descending(const void *a, const void *b) {
    int c = by_value(b, a);
    return c ? c : by_place(a, b);
}

// The first k to the front, in order.
static void sort_items(struct item *item, int64_t n, int64_t k, bool down) {
    int (*order)(const void *, const void *) = down ? descending : ascending;
    if (k > n / 8) {
        qsort(item, (size_t)n, sizeof *item, order);
        return;
    }
    for (int64_t i = 0, have = 0; i < n; i++) { // few of many: kept in order while they are met
        struct item x = item[i];
        if (have == k && (k == 0 || order(&x, &item[k - 1]) > 0)) continue;
        int64_t at = have < k ? have++ : k - 1;
        for (; at > 0 && order(&x, &item[at - 1]) < 0; at--) item[at] = item[at - 1];
        item[at] = x;
    }
}

int em_sort(const struct em_sort *s) {
    const struct em_view *x = s->x;
    int64_t n = x->rank ? x->dim[s->dim] : 1, lines = n ? em_count(x) / n : 0, size = (int64_t)em_dtype_size(x->dtype);
    int64_t step = x->rank ? x->stride[s->dim] : 1;
    struct item *item = malloc((size_t)(n + 1) * sizeof *item);
    if (!item) return EM_NO_MEMORY;
    for (int64_t l = 0; l < lines; l++) {
        char *src = x->p + line_offset(x, s->dim, l);
        for (int64_t i = 0; i < n; i++) {
            item[i].index = i;
            item[i].whole = 0;
            item[i].tie = s->ties ? hash_mix(s->ties ^ (uint64_t)i) : 0;
            em_load_f64(x->dtype, src + i * step * size, 1, &item[i].key, 1);
            if (em_is_int(x->dtype)) em_load_i64(x->dtype, src + i * step * size, 1, &item[i].whole, 1);
        }
        sort_items(item, n, s->k, s->descending);
        for (int64_t i = 0; i < s->k; i++) {
            const struct em_view *v = s->values;
            if (v) {
                char *dst = v->p + line_offset(v, s->dim, l) +
                            (v->rank ? i * v->stride[s->dim] * (int64_t)em_dtype_size(v->dtype) : 0);
                if (em_is_int(x->dtype))
                    em_store_i64(v->dtype, dst, 1, &item[i].whole, 1);
                else
                    em_store_f64(v->dtype, dst, 1, &item[i].key, 1);
            }
            v = s->indices;
            if (v)
                em_store_i64(v->dtype,
                             v->p + line_offset(v, s->dim, l) +
                                 (v->rank ? i * v->stride[s->dim] * (int64_t)em_dtype_size(v->dtype) : 0),
                             1, &item[i].index, 1);
        }
    }
    free(item);
    return EM_OK;
}

int em_arg_max(const struct em_view *x, int dim, const struct em_view *out, const struct em_view *values) {
    int64_t n = x->dim[dim], lines = n ? em_count(x) / n : 0, size = (int64_t)em_dtype_size(x->dtype);
    for (int64_t l = 0; l < lines; l++) {
        const char *src = x->p + line_offset(x, dim, l);
        int64_t best = 0;
        double top = 0;
        for (int64_t from = 0; from < n; from += EM_PIECE) {
            double v[EM_PIECE];
            int64_t len = n - from < EM_PIECE ? n - from : EM_PIECE;
            em_load_f64(x->dtype, src + from * x->stride[dim] * size, x->stride[dim], v, len);
            for (int64_t i = 0; i < len; i++)
                if (!(from + i) || (!isnan(top) && (v[i] > top || isnan(v[i])))) best = from + i, top = v[i];
        }
        em_store_i64(out->dtype, out->p + line_offset(out, dim, l), 1, &best, 1);
        if (values) em_store_f64(values->dtype, values->p + line_offset(values, dim, l), 1, &top, 1);
    }
    return EM_OK;
}

static void gather_line(const struct em_view *x, const struct em_view *out, const int64_t *base, double *d, float *f) {
    int64_t at[EM_RANK], dims[EM_RANK], n = 1, size = (int64_t)em_dtype_size(x->dtype);
    for (int i = 0; i < x->rank; i++) {
        dims[i] = out->dim[i] == 1 ? x->dim[i] : 1;
        n *= dims[i];
    }
    int64_t inner = x->rank ? dims[x->rank - 1] : 1, step = x->rank ? x->stride[x->rank - 1] : 1;
    for (int64_t i = 0; i < n; i += inner) {
        em_unravel(i, x->rank, dims, at);
        for (int k = 0; k < x->rank; k++) at[k] += base[k];
        if (d)
            em_load_f64(x->dtype, x->p + em_offset(x, at) * size, step, d + i, inner);
        else
            em_load_f32(x->dtype, x->p + em_offset(x, at) * size, step, f + i, inner);
    }
}

static double reduce_f64(enum em_reduce op, const double *d, int64_t n, double p) {
    double r = op == EM_REDUCE_MAX && n ? d[0] : 0;
    for (int64_t i = 0; i < n; i++) {
        if (op == EM_REDUCE_MAX)
            r = d[i] > r || isnan(d[i]) ? d[i] : r;
        else if (op == EM_REDUCE_NORM)
            r += pow(fabs(d[i]), p);
        else
            r += d[i];
    }
    return op == EM_REDUCE_MEAN ? r / (double)n : op == EM_REDUCE_NORM ? pow(r, 1 / p) : r;
}

static double reduce_f32(enum em_reduce op, float *f, int64_t n, double p, const struct em_order *o) {
    if (op == EM_REDUCE_MAX || (op == EM_REDUCE_NORM && isinf(p))) {
        float r = 0;
        for (int64_t i = 0; i < n; i++) {
            float v = op == EM_REDUCE_NORM ? fabsf(f[i]) : f[i];
            if (!i || v > r || isnan(v)) r = v;
        }
        return (double)r;
    }
    if (op == EM_REDUCE_NORM && p == 2) return (double)sqrtf(em_dot(o, f, f, n));
    if (op == EM_REDUCE_NORM)
        for (int64_t i = 0; i < n; i++) f[i] = powf(fabsf(f[i]), (float)p);
    float sum = em_sum(o, f, n);
    return (double)(op == EM_REDUCE_MEAN ? sum / (float)n : op == EM_REDUCE_NORM ? powf(sum, 1 / (float)p) : sum);
}

int em_reduce(enum em_reduce op, const struct em_view *x, const struct em_view *out, double p,
              const struct em_order *o) {
    int64_t n = em_count(out) ? em_count(x) / em_count(out) : 0, size = (int64_t)em_dtype_size(out->dtype);
    bool wide = x->dtype == EM_F64 || em_is_int(x->dtype);
    double *d = malloc((size_t)(n + 1) * sizeof *d);
    if (!d) return EM_NO_MEMORY;
    for (int64_t i = 0; i < em_count(out); i++) {
        int64_t at[EM_RANK];
        em_unravel(i, out->rank, out->dim, at);
        gather_line(x, out, at, wide ? d : NULL, (float *)(void *)d);
        double r = wide ? reduce_f64(op, d, n, p) : reduce_f32(op, (float *)(void *)d, n, p, o);
        em_store_f64(out->dtype, out->p + em_offset(out, at) * size, 1, &r, 1);
    }
    free(d);
    return EM_OK;
}

int em_cumsum(const struct em_view *x, int dim, const struct em_view *out) {
    int64_t n = x->dim[dim], lines = n ? em_count(x) / n : 0, size = (int64_t)em_dtype_size(x->dtype),
            to = (int64_t)em_dtype_size(out->dtype);
    for (int64_t l = 0; l < lines; l++) {
        char *src = x->p + line_offset(x, dim, l), *dst = out->p + line_offset(out, dim, l);
        float sum = 0;
        int64_t whole = 0;
        for (int64_t i = 0; i < n; i++) {
            if (em_is_int(x->dtype)) {
                int64_t v;
                em_load_i64(x->dtype, src + i * x->stride[dim] * size, 1, &v, 1);
                whole += v;
                em_store_i64(out->dtype, dst + i * out->stride[dim] * to, 1, &whole, 1);
                continue;
            }
            float v;
            em_load_f32(x->dtype, src + i * x->stride[dim] * size, 1, &v, 1);
            sum += v;
            em_store_f32(out->dtype, dst + i * out->stride[dim] * to, 1, &sum, 1);
        }
    }
    return EM_OK;
}
