// Gating, routing of rows to experts and back.
#include "emulator/aclnn/math/math.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Element (i, j) of a matrix, or (i) of a vector.
static char *cell(const struct em_view *v, int64_t i, int64_t j) {
    int64_t off = v->rank > 1 ? 0 : i * v->stride[0];
    if (v->rank > 1) {
        off = j * v->stride[v->rank - 1];
        for (int d = v->rank - 2; d >= 0; d--) {
            off += i % v->dim[d] * v->stride[d];
            i /= v->dim[d];
        }
    }
    return v->p + off * (int64_t)em_dtype_size(v->dtype);
}
static int64_t get_int(const struct em_view *v, int64_t i, int64_t j) {
    int64_t n = 0;
    em_load_i64(v->dtype, cell(v, i, j), 1, &n, 1);
    return n;
}
static void put_int(const struct em_view *v, int64_t i, int64_t j, int64_t n) {
    em_store_i64(v->dtype, cell(v, i, j), 1, &n, 1);
}
static float get_float(const struct em_view *v, int64_t i, int64_t j) {
    float f = 0;
    em_load_f32(v->dtype, cell(v, i, j), 1, &f, 1);
    return f;
}
static void put_float(const struct em_view *v, int64_t i, int64_t j, float f) {
    em_store_f32(v->dtype, cell(v, i, j), 1, &f, 1);
}

static void normalise(const struct em_gating *g, const float *x, float *p, int64_t n) {
    if (g->sigmoid) {
        for (int64_t e = 0; e < n; e++) p[e] = 1.0f / (1.0f + expf(-x[e]));
        return;
    }
    float top = -INFINITY;
    for (int64_t e = 0; e < n; e++) top = x[e] > top ? x[e] : top;
    for (int64_t e = 0; e < n; e++) p[e] = expf(x[e] - top);
    float sum = em_sum(&g->order, p, n);
    for (int64_t e = 0; e < n; e++) p[e] /= sum;
}

static int64_t best(const float *v, int64_t n) { // the first of the greatest
    int64_t b = -1;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(v[i]) && v[i] > -INFINITY && (b < 0 || v[i] > v[b])) b = i;
    return b < 0 ? 0 : b;
}

// Takes all but the best groups out of the choice.
static void drop_groups(const struct em_gating *g, float *choice, int64_t n, float *worth) {
    int64_t size = n / g->groups;
    for (int64_t i = 0; i < g->groups; i++) {
        const float *c = choice + i * size;
        int64_t first = best(c, size);
        worth[i] = c[first];
        float second = -INFINITY;
        for (int64_t e = 0; e < size; e++)
            if (e != first && c[e] > second) second = c[e];
        if (g->group_sum2 && size > 1) worth[i] += second;
    }
    for (int64_t kept = 0; kept < g->groups_kept; kept++) worth[best(worth, g->groups)] = -INFINITY;
    for (int64_t i = 0; i < g->groups; i++)
        for (int64_t e = 0; worth[i] > -INFINITY && e < size; e++) choice[i * size + e] = -INFINITY;
}

static void gate_row(const struct em_gating *g, int64_t t, float *p, float *choice, float *worth) {
    int64_t n = g->x->dim[g->x->rank - 1], rows = em_rows(g->x);
    em_load_f32(g->x->dtype, em_row(g->x, t), g->x->stride[g->x->rank - 1], choice, n);
    normalise(g, choice, p, n);
    memcpy(choice, p, (size_t)n * sizeof *p);
    if (g->all)
        for (int64_t e = 0; e < n; e++) put_float(g->all, t, e, p[e]);
    if (g->bias)
        for (int64_t e = 0; e < n; e++) choice[e] += get_float(g->bias, e, 0);
    if (g->groups > 1) drop_groups(g, choice, n, worth);
    bool over = g->finished && *cell(g->finished, t, 0);
    float sum = 0;
    for (int64_t j = 0; j < g->k; j++) {
        int64_t e = best(choice, n);
        choice[e] = -INFINITY;
        worth[j] = p[e];
        sum += p[e];
        put_int(g->expert, t, j, over ? n : e);
        if (g->row) put_int(g->row, t, j, t + j * rows);
    }
    for (int64_t j = 0; j < g->k; j++) {
        float y = g->renorm ? worth[j] / (sum + (float)g->eps) : worth[j];
        put_float(g->y, t, j, y * (float)g->factor);
    }
}

int em_gating(const struct em_gating *g) {
    int64_t n = g->x->dim[g->x->rank - 1], rows = em_rows(g->x);
    float *p = malloc((size_t)(3 * n + g->k + 1) * sizeof *p);
    if (!p) return EM_NO_MEMORY;
    for (int64_t t = 0; t < rows; t++) gate_row(g, t, p, p + n, p + 2 * n);
    free(p);
    return EM_OK;
}

// ---- rows to experts ---------------------------------------------------------------------------------------------------

static void copy_row(const struct em_view *dst, char *to, const struct em_view *src, int64_t row) {
    int64_t h = src->dim[src->rank - 1], size = (int64_t)em_dtype_size(src->dtype);
    for (int64_t i = 0; i < h; i++) memcpy(to + i * dst->stride[dst->rank - 1] * size, cell(src, row, i), (size_t)size);
}

static void write_counts(const struct em_init_routing *r, const int64_t *count) {
    int64_t sum = 0, used = 0;
    for (int64_t e = r->first; e < r->last; e++) {
        int64_t n = count[e], i = e - r->first;
        sum += n;
        if (r->counts && r->counts_as == 1) put_int(r->counts, i, 0, sum);
        if (r->counts && r->counts_as == 2) put_int(r->counts, i, 0, n);
        if (r->counts && r->counts_as == 3 && n) put_int(r->counts, used, 0, e), put_int(r->counts, used++, 1, n);
        if (r->before) put_int(r->before, i, 0, n);
    }
    // a pair of zeros ends a list of pairs that is shorter than the experts
    if (r->counts && r->counts_as == 3 && used < r->counts->dim[0])
        put_int(r->counts, used, 0, 0), put_int(r->counts, used, 1, 0);
}

static void place(const struct em_init_routing *r, int64_t i, int64_t slot, int64_t in_expert, int64_t e) {
    int64_t k = r->expert->dim[r->expert->rank - 1], size = (int64_t)em_dtype_size(r->expanded->dtype);
    const struct em_view *x = r->expanded;
    char *to = NULL;
    if (r->pad) {
        bool fits = in_expert < r->capacity;
        put_int(r->row_idx, i, 0, fits ? e * r->capacity + in_expert : -1);
        if (fits) to = x->p + (e * x->stride[0] + in_expert * x->stride[1]) * size;
    } else {
        if (r->scatter_index)
            put_int(r->row_idx, slot, 0, i);
        else
            put_int(r->row_idx, i, 0, slot);
        if (slot < r->active) to = x->p + slot * x->stride[0] * size;
    }
    if (!to) return;
    copy_row(x, to, r->x, i / k);
    if (r->scale && r->expanded_scale) put_float(r->expanded_scale, slot, 0, get_float(r->scale, i / k, 0));
}

int em_init_routing(const struct em_init_routing *r) {
    int64_t k = r->expert->dim[r->expert->rank - 1], n = em_count(r->expert), slot = 0;
    int64_t *count = calloc((size_t)(2 * r->experts + 2 * n + 4), sizeof *count);
    if (!count) return EM_NO_MEMORY;
    int64_t *start = count + r->experts + 1, *id = start + r->experts + 1, *sorted = id + n;
    int rc = EM_OK;
    if (r->pad) em_fill(r->expanded, 0);
    for (int64_t i = 0; i < n && rc == EM_OK; i++) {
        id[i] = get_int(r->expert, i / k, i % k);
        if (id[i] < 0 || id[i] > r->experts) // the number of experts itself marks a finished row
            rc = EM_OUT_OF_RANGE;
        else
            count[id[i]]++;
        if (!r->pad) put_int(r->row_idx, i, 0, -1);
    }
    for (int64_t e = 0; e < r->experts; e++) start[e + 1] = start[e] + count[e];
    for (int64_t i = 0; i < n && rc == EM_OK; i++) sorted[start[id[i]]++] = i; // stable; start[e] is now the end of e
    int64_t last = r->last == r->experts ? r->experts + 1 : r->last;           // finished rows lie behind all experts
    for (int64_t e = r->first; rc == EM_OK && e < last; e++) {
        for (int64_t in = 0; in < count[e]; in++)
            place(r, sorted[start[e] - count[e] + in], slot++, e == r->experts ? r->capacity : in, e);
    }
    if (rc == EM_OK) write_counts(r, count);
    free(count);
    return rc;
}

// ---- and back -------------------------------------------------------------------------------------------------------------

static int add_experts(const struct em_finalize_routing *f, int64_t r, float *acc, float *row) {
    int64_t rows = f->out->dim[0], h = f->out->dim[1], k = em_count(f->row_idx) / (rows ? rows : 1);
    bool pad = f->expanded->rank == 3;
    int64_t count = pad ? f->expanded->dim[0] * f->expanded->dim[1] : f->expanded->dim[0];
    for (int64_t n = 0; n < k; n++) {
        int64_t j = f->order.backwards ? k - 1 - n : n;
        int64_t at = get_int(f->row_idx, f->row_order ? r * k + j : j * rows + r, 0);
        if (at == -1) continue;
        if (at < 0 || at >= count) return EM_OUT_OF_RANGE;
        em_load_f32(f->expanded->dtype, em_row(f->expanded, at), f->expanded->stride[f->expanded->rank - 1], row, h);
        if (f->bias) {
            int64_t e = get_int(f->expert, r, j);
            if (e < 0 || e >= f->bias->dim[0]) return EM_OUT_OF_RANGE;
            for (int64_t i = 0; i < h; i++) row[i] += get_float(f->bias, e, i);
        }
        em_axpy(acc, f->scales ? get_float(f->scales, r, j) : 1.0f, row, h);
    }
    return EM_OK;
}

int em_finalize_routing(const struct em_finalize_routing *f) {
    int64_t rows = f->out->dim[0], h = f->out->dim[1];
    float *acc = malloc((size_t)(h + 1) * 2 * sizeof *acc), *row = acc ? acc + h + 1 : NULL;
    if (!acc) return EM_NO_MEMORY;
    int rc = EM_OK;
    for (int64_t r = 0; r < rows && rc == EM_OK; r++) {
        memset(acc, 0, (size_t)h * sizeof *acc);
        rc = add_experts(f, r, acc, row);
        const struct em_view *extra[2] = {f->x1, f->x2};
        for (int x = 0; x < 2; x++) {
            if (!extra[x]) continue;
            em_load_f32(extra[x]->dtype, em_row(extra[x], r), extra[x]->stride[1], row, h);
            for (int64_t i = 0; i < h; i++) acc[i] += row[i];
        }
        em_store_f32(f->out->dtype, em_row(f->out, r), f->out->stride[1], acc, h);
    }
    free(acc);
    return rc;
}
