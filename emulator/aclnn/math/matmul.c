// Matrix products. Columns of b are widened in panels, so that each is read once whatever its layout; rows of a that are
// bit for bit equal are multiplied once. The latter is sound because an order depends on the signature only, and it makes
// rows that merely fill a tile nearly free.
#include "emulator/aclnn/math/math.h"
#include "emulator/aclnn/op.h"

#include <stdlib.h>
#include <string.h>

enum { PANEL = 32 };

// Four chains side by side: one would wait for its own products.
static uint64_t hash_row(const float *x, int64_t n) {
    uint64_t h[4] = {1, 2, 3, 4}, u[4];
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(u, x + i, sizeof u);
        for (int l = 0; l < 4; l++) h[l] = (h[l] ^ u[l]) * 0xff51afd7ed558ccdu, h[l] ^= h[l] >> 31;
    }
    for (; i < n; i++) {
        uint32_t w;
        memcpy(&w, x + i, sizeof w);
        h[i & 3] = (h[i & 3] ^ w) * 0xff51afd7ed558ccdu, h[i & 3] ^= h[i & 3] >> 31;
    }
    return h[0] ^ h[1] * 3 ^ h[2] * 5 ^ h[3] * 7;
}

static void lower(enum em_precision p, float *x, int64_t n) {
    if (p == EM_AS_F16)
        for (int64_t i = 0; i < n; i++) x[i] = em_from_f16(em_to_f16(x[i]));
    if (p != EM_HF32) return;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, x + i, sizeof u);
        if ((u & 0x7f800000) == 0x7f800000) continue;
        u = (u + 0x7ff + (u >> 12 & 1)) & ~(uint32_t)0xfff;
        memcpy(x + i, &u, sizeof u);
    }
}

// Row or column `i` of a matrix, `n` elements along dimension `dim`.
static void load_line(const struct em_view *v, int dim, int64_t i, float *dst, int64_t n) {
    int64_t size = (int64_t)em_dtype_size(v->dtype);
    if (!v->nz) {
        em_load_f32(v->dtype, v->p + i * v->stride[1 - dim] * size, v->stride[dim], dst, n);
        return;
    }
    int64_t c0 = 32 / size;
    bool across = dim != (int)v->nz_turned; // along a stored row: c0 elements side by side; down a column: all c0 apart
    for (int64_t k = 0; k < n;) {
        int64_t at[2] = {dim ? i : k, dim ? k : i}, len = across ? c0 : n;
        if (len > n - k) len = n - k;
        em_load_f32(v->dtype, v->p + em_offset(v, at) * size, across ? 1 : c0, dst + k, len);
        k += len;
    }
}

// Stored rows [from, from + count) of a FRACTAL_NZ matrix of c0 = 16, each k elements, one after another. In memory the 16 elements of
// neighbouring rows are neighbours.
static void load_stored_rows(const struct em_view *v, int64_t from, int64_t count, float *dst, int64_t k) {
    enum { C0 = 16, ROWS = 64 };
    float piece[C0 * ROWS];
    int64_t rows = (v->dim[1] + 15) / 16 * 16;
    for (int64_t at = 0; at < k; at += C0) {
        int64_t len = k - at < C0 ? k - at : C0;
        const char *p = v->p + (at * rows + from * C0) * 2;
        for (int64_t j = 0; j < count; j += ROWS) {
            int64_t n = count - j < ROWS ? count - j : ROWS;
            em_load_f32(v->dtype, p + j * C0 * 2, 1, piece, n * C0);
            for (int64_t i = 0; i < n; i++) {
                float *to = dst + (j + i) * k + at, *line = piece + i * C0;
                if (len == C0) {
                    memcpy(to, line, C0 * sizeof *to); // of a known size: no call
                } else {
                    memcpy(to, line, (size_t)len * sizeof *to);
                }
            }
        }
    }
}

// Columns [from, from + count) of b, each k elements, one after another.
static void load_panel(const struct em_matmul *m, int64_t from, int64_t count, float *dst, float *row) {
    int64_t k = m->b.dim[0];
    if (m->b.nz_turned && em_dtype_size(m->b.dtype) == 2) {
        load_stored_rows(&m->b, from, count, dst, k);
    } else if (m->b.nz || m->b.stride[1] != 1 || m->b.stride[0] == 1) {
        for (int64_t j = 0; j < count; j++) load_line(&m->b, 0, from + j, dst + j * k, k);
    } else {
        int64_t size = (int64_t)em_dtype_size(m->b.dtype);
        for (int64_t i = 0; i < k; i++) {
            em_load_f32(m->b.dtype, m->b.p + (i * m->b.stride[0] + from) * size, 1, row, count);
            for (int64_t j = 0; j < count; j++) dst[j * k + i] = row[j];
        }
    }
    if (m->b.dtype == EM_F32) lower(m->precision, dst, count * k);
}

struct rows {
    float *a;       // distinct rows, one after another
    int64_t *same;  // for each row, which of them it is
    int64_t *first; // and for each of them, the first row that it is
    int64_t count;
};

static void load_rows(const struct em_matmul *m, struct rows *r, uint64_t *hash) {
    int64_t k = m->a.dim[1];
    for (int64_t i = 0; i < m->a.dim[0]; i++) {
        float *row = r->a + r->count * k;
        load_line(&m->a, 1, i, row, k);
        if (m->a.dtype == EM_F32) lower(m->precision, row, k);
        uint64_t h = hash_row(row, k);
        int64_t j = 0;
        while (j < r->count && (hash[j] != h || memcmp(r->a + j * k, row, (size_t)k * sizeof *row))) j++;
        r->same[i] = j;
        if (j == r->count) {
            r->first[j] = i;
            hash[r->count++] = h;
        }
    }
}

static void store_panel(const struct em_matmul *m, const struct rows *r, const float *c, int64_t from, int64_t count) {
    int64_t size = (int64_t)em_dtype_size(m->out.dtype);
    float line[PANEL], extra[PANEL];
    char *to = m->out.p + from * m->out.stride[1] * size;
    for (int64_t i = 0; i < m->out.dim[0]; i++) {
        int64_t which = r->same[i], first = r->first[which];
        char *dst = to + i * m->out.stride[0] * size;
        const float *src = c + which * PANEL;
        if (first != i && !m->add && m->out.stride[1] == 1) {
            memcpy(dst, to + first * m->out.stride[0] * size, (size_t)(count * size));
            continue;
        }
        for (int64_t j = 0; j < count; j++) line[j] = m->alpha * src[j];
        if (m->add) {
            int64_t s = (int64_t)em_dtype_size(m->add->dtype);
            em_load_f32(m->add->dtype, m->add->p + (i * m->add->stride[0] + from * m->add->stride[1]) * s,
                        m->add->stride[1], extra, count);
            for (int64_t j = 0; j < count; j++) line[j] += m->beta * extra[j];
        }
        if (m->bias) {
            int64_t s = (int64_t)em_dtype_size(m->bias->dtype), step = m->bias->stride[m->bias->rank - 1];
            em_load_f32(m->bias->dtype, m->bias->p + from * step * s, step, extra, count);
            for (int64_t j = 0; j < count; j++) line[j] += extra[j];
        }
        em_store_f32(m->out.dtype, dst, m->out.stride[1], line, count);
    }
}

struct job {
    const struct em_matmul *m;
    struct rows r;
    float *panel, *c; // of each thread
};

static void one_panel(void *ctx, int i, int thread) {
    struct job *j = ctx;
    const struct em_matmul *m = j->m;
    int64_t k = m->a.dim[1], n = m->b.dim[1], from = (int64_t)i * PANEL, count = n - from < PANEL ? n - from : PANEL;
    float row[PANEL], *panel = j->panel + thread * (PANEL * k + 1), *c = j->c + thread * m->a.dim[0] * PANEL;
    load_panel(m, from, count, panel, row);
    em_dot_all(&m->order, &(struct em_dots){.a = j->r.a,
                                            .b = panel,
                                            .c = c,
                                            .m = j->r.count,
                                            .columns = count,
                                            .n = k,
                                            .lda = k,
                                            .ldb = k,
                                            .ldc = PANEL});
    store_panel(m, &j->r, c, from, count);
}

int em_matmul(const struct em_matmul *m) {
    int64_t rows = m->a.dim[0], k = m->a.dim[1], n = m->b.dim[1];
    if (!rows || !n) return EM_OK;
    bool small = rows * k * n < 1 << 18; // waking threads would take longer
    size_t threads = small ? 1 : (size_t)emu_n_threads();
    struct job j = {
        .m = m,
        .r = {.a = malloc((size_t)(rows * k + 1) * sizeof(float)), .same = malloc((size_t)rows * 2 * sizeof(int64_t))},
        .panel = malloc(threads * (size_t)(PANEL * k + 1) * sizeof(float)),
        .c = malloc(threads * (size_t)rows * PANEL * sizeof(float))};
    uint64_t *hash = malloc((size_t)rows * sizeof *hash);
    int rc = j.r.a && j.r.same && hash && j.panel && j.c ? EM_OK : EM_NO_MEMORY;
    if (rc == EM_OK) {
        j.r.first = j.r.same + rows;
        load_rows(m, &j.r, hash);
        int panels = (int)((n + PANEL - 1) / PANEL);
        if (!small) emu_parallel(panels, one_panel, &j);
        for (int i = 0; small && i < panels; i++) one_panel(&j, i, 0);
    }
    free(j.r.a), free(j.r.same), free(hash), free(j.panel), free(j.c);
    return rc;
}
