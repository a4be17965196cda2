// Fused attention of one batch element.
#include "emulator/aclnn/math/math.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct work {
    float *k, *v; // keys and values of one KV head, widened, position by position
    float *q, *score, *acc, *line;
    int64_t *seen; // positions that the row sees, ascending
    int64_t *odd;  // positions whose value holds an infinity or a NaN
    int64_t odd_count, d, dv;
};

static int64_t row_of(const struct em_attention *a, const struct em_view *v, int64_t pos, int64_t head, bool *bad) {
    int64_t off = head * v->stride[1];
    if (!a->blocks) return off + pos * v->stride[0];
    int64_t block = a->blocks[pos / a->block_size];
    if (block < 0 || block >= a->block_count) {
        *bad = true;
        return off;
    }
    int64_t stride = v == &a->k ? a->block_stride_k : a->block_stride_v;
    return off + block * stride + pos % a->block_size * v->stride[0];
}

// First and last position (exclusive) that row `i` may see by the sparse mode; the mask comes on top.
static void window(const struct em_attention *a, int64_t i, int64_t *from, int64_t *to) {
    int64_t shift = a->kv_len - a->q_len, lo = 0, hi = a->kv_len;
    switch (a->sparse) {
    case EM_SPARSE_LEFT_UP: hi = i + 1; break;
    case EM_SPARSE_RIGHT_DOWN: hi = i + shift + 1; break;
    case EM_SPARSE_BAND:
        lo = i + shift - a->pre;
        hi = i + shift + a->next + 1;
        break;
    case EM_SPARSE_DEFAULT:
        if (a->mask) { // without a mask the two numbers say nothing
            lo = i - a->pre;
            hi = i + a->next + 1;
        }
        break;
    default: break;
    }
    *from = lo < 0 ? 0 : lo;
    *to = hi < a->kv_len ? hi : a->kv_len;
}

static bool masked(const struct em_attention *a, int64_t i, int64_t pos) {
    if (!a->mask) return false;
    const struct em_view *m = a->mask;
    int64_t tree = a->kv_len - a->q_len;
    if (a->sparse == EM_SPARSE_TREE) { // the mask is among the rows themselves, the past is seen
        if (pos < tree) return false;
        pos -= tree;
    }
    return m->p[i * m->stride[0] + pos * m->stride[1]] != 0;
}

static int widen(const struct em_attention *a, struct work *w, int64_t head) {
    int64_t sk = (int64_t)em_dtype_size(a->k.dtype), sv = (int64_t)em_dtype_size(a->v.dtype), dk = a->k.dim[2];
    bool bad = false;
    w->odd_count = 0;
    for (int64_t pos = 0; pos < a->kv_len && !bad; pos++) {
        int64_t k = row_of(a, &a->k, pos, head, &bad), v = row_of(a, &a->v, pos, head, &bad);
        if (bad) break;
        float *dst = w->k + pos * w->d;
        em_load_f32(a->k.dtype, a->k.p + k * sk, a->k.stride[2], dst, dk);
        if (a->k2)
            em_load_f32(a->k2->dtype, a->k2->p + (pos * a->k2->stride[0] + head * a->k2->stride[1]) * sk,
                        a->k2->stride[2], dst + dk, w->d - dk);
        em_load_f32(a->v.dtype, a->v.p + v * sv, a->v.stride[2], w->v + pos * w->dv, w->dv);
        float zero = 0;
        for (int64_t j = 0; j < w->dv; j++) zero += 0.0f * w->v[pos * w->dv + j];
        if (isnan(zero)) w->odd[w->odd_count++] = pos;
    }
    return bad ? EM_OUT_OF_RANGE : EM_OK;
}

static void load_query(const struct em_attention *a, struct work *w, int64_t i, int64_t head) {
    int64_t size = (int64_t)em_dtype_size(a->q.dtype), dq = a->q.dim[2];
    em_load_f32(a->q.dtype, a->q.p + (i * a->q.stride[0] + head * a->q.stride[1]) * size, a->q.stride[2], w->q, dq);
    if (a->q2)
        em_load_f32(a->q2->dtype, a->q2->p + (i * a->q2->stride[0] + head * a->q2->stride[1]) * size, a->q2->stride[2],
                    w->q + dq, w->d - dq);
}

// Scores of the positions that are seen, with their bias; their count.
static int64_t scores(const struct em_attention *a, struct work *w, int64_t i, int64_t head) {
    int64_t from, to, n = 0;
    window(a, i, &from, &to);
    for (int64_t pos = from; pos < to; pos++)
        if (!masked(a, i, pos)) w->seen[n++] = pos;
    for (int64_t j = 0, run; j < n; j += run) { // runs of neighbours in one call
        for (run = 1; j + run < n && w->seen[j + run] == w->seen[j] + run;) run++;
        em_dot_all(&a->order, &(struct em_dots){.a = w->q,
                                                .b = w->k + w->seen[j] * w->d,
                                                .c = w->score + j,
                                                .m = 1,
                                                .columns = run,
                                                .n = w->d,
                                                .lda = w->d,
                                                .ldb = w->d,
                                                .ldc = run});
    }
    for (int64_t j = 0; j < n; j++) w->score[j] *= (float)a->scale;
    if (a->bias) {
        int64_t size = (int64_t)em_dtype_size(a->bias->dtype);
        const char *p = a->bias->p + (head * a->bias->stride[0] + i * a->bias->stride[1]) * size;
        for (int64_t j = 0; j < n; j++) {
            float b;
            em_load_f32(a->bias->dtype, p + w->seen[j] * a->bias->stride[2] * size, 1, &b, 1);
            w->score[j] += b;
        }
    }
    return n;
}

// Weighted sum of values in chunks of positions, in the order's order. A chunk is counted by position, not by what is seen,
// so that masked positions behind the last seen one change nothing.
static void weigh(const struct em_attention *a, struct work *w, int64_t n, float *sum) {
    int64_t chunk = a->order.chunk ? a->order.chunk : a->kv_len + 1, count = (a->kv_len + chunk - 1) / chunk;
    memset(w->acc, 0, (size_t)w->dv * sizeof *w->acc);
    *sum = 0;
    for (int64_t c = 0, j = 0; c < count; c++) {
        int64_t at = (int64_t)((a->order.turn + (uint64_t)c) % (uint64_t)count);
        if (a->order.backwards) at = count - 1 - at;
        for (j = 0; j < n && w->seen[j] < at * chunk;) j++;
        int64_t end = j;
        while (end < n && w->seen[end] < (at + 1) * chunk) end++;
        if (end == j) continue;
        memset(w->line, 0, (size_t)w->dv * sizeof *w->line);
        float part = 0;
        for (int64_t run; j < end; j += run) { // neighbours together
            for (run = 0; j + run < end && w->seen[j + run] == w->seen[j] + run; run++) part += w->score[j + run];
            const struct em_rows rows = {w->v + w->seen[j] * w->dv, run, w->dv, w->dv};
            em_blend(w->line, w->score + j, &rows);
        }
        *sum += part;
        em_axpy(w->acc, 1.0f, w->line, w->dv);
    }
}

// A masked position takes part with a weight of zero, and zero times a NaN is a NaN: what was never written to the cache
// must not be left in the masked part either. Causal modes leave out whole tiles of 128 behind the row (UNVERIFIED size).
static void spoil(const struct em_attention *a, struct work *w, int64_t i) {
    int64_t from, to, tile = 128;
    window(a, i, &from, &to);
    if (a->sparse < EM_SPARSE_LEFT_UP || a->sparse > EM_SPARSE_BAND) from = 0, to = a->kv_len;
    to = (to + tile - 1) / tile * tile;
    for (int64_t o = 0; o < w->odd_count; o++)
        if (w->odd[o] >= from / tile * tile && w->odd[o] < to) em_axpy(w->acc, 0.0f, w->v + w->odd[o] * w->dv, w->dv);
}

static void one_row(const struct em_attention *a, struct work *w, int64_t i, int64_t head) {
    float top = -INFINITY, sum = 0, sink = -INFINITY, lse = INFINITY;
    int64_t n = 0;
    memset(w->acc, 0, (size_t)w->dv * sizeof *w->acc);
    if (i < a->q_len && a->kv_len) {
        load_query(a, w, i, head);
        n = scores(a, w, i, head);
        if (a->sink)
            em_load_f32(a->sink->dtype, a->sink->p + head * a->sink->stride[0] * (int64_t)em_dtype_size(a->sink->dtype),
                        1, &sink, 1);
        if (!n && !a->fix_masked_rows) { // every score is the same very negative number: the mean of all values
            for (; n < a->kv_len; n++) w->seen[n] = n, w->score[n] = 0;
        }
        for (int64_t j = 0; j < n; j++) top = w->score[j] > top ? w->score[j] : top;
        if (sink > top) top = sink;
        for (int64_t j = 0; j < n; j++) w->score[j] = expf(w->score[j] - top);
        if (n) weigh(a, w, n, &sum);
        if (w->odd_count) spoil(a, w, i);
        if (a->sink && top > -INFINITY) sum += expf(sink - top);
        for (int64_t j = 0; n && j < w->dv; j++) w->acc[j] /= sum;
        if (n) lse = top + logf(sum);
    }
    em_store_f32(a->out.dtype,
                 a->out.p + (i * a->out.stride[0] + head * a->out.stride[1]) * (int64_t)em_dtype_size(a->out.dtype),
                 a->out.stride[2], w->acc, w->dv);
    if (a->lse) memcpy(a->lse->p + (head * a->lse->stride[0] + i * a->lse->stride[1]) * 4, &lse, 4);
}

int em_attention(const struct em_attention *a) {
    struct work w = {.d = a->k.dim[2] + (a->k2 ? a->k2->dim[2] : 0), .dv = a->v.dim[2]};
    size_t kv = (size_t)a->kv_len + 1;
    float *block = malloc((kv * (size_t)(w.d + w.dv) + (size_t)(w.d + 2 * w.dv) + kv) * sizeof *block);
    w.seen = malloc(2 * kv * sizeof *w.seen);
    int rc = block && w.seen ? EM_OK : EM_NO_MEMORY;
    if (rc == EM_OK) {
        w.odd = w.seen + kv;
        w.k = block, w.v = w.k + kv * (size_t)w.d, w.q = w.v + kv * (size_t)w.dv;
        w.acc = w.q + w.d, w.line = w.acc + w.dv, w.score = w.line + w.dv;
    }
    int64_t heads = a->q.dim[1], shared = heads / a->k.dim[1];
    for (int64_t head = 0; rc == EM_OK && head < heads; head++) {
        if (head % shared == 0) rc = widen(a, &w, head / shared);
        for (int64_t i = 0; rc == EM_OK && i < a->q.dim[0]; i++) one_row(a, &w, i, head);
    }
    free(block), free(w.seen);
    return rc;
}
