// Fused attention against a loop in double: layouts, masks, pages, lengths, the reported traps, what is refused.
#include "tests/emulator/ops_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAXB = 4 };

// One problem: logical values (b, row, head, element), whatever the layout.
struct problem {
    int64_t b, rows, keys, n, nkv, d;
    int64_t q_len[MAXB], kv_len[MAXB];
    double *q, *k, *v;
    aclDataType type;
};

static double *values(int64_t n, aclDataType type) {
    double *v = malloc(sizeof *v * (size_t)(n + 1));
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++) v[i] = t_round(type, 2 * ops_random() - 1);
    return v;
}

static struct problem problem(aclDataType type, int64_t b, int64_t rows, int64_t keys, int64_t n, int64_t nkv,
                              int64_t d) {
    struct problem p = {.b = b, .rows = rows, .keys = keys, .n = n, .nkv = nkv, .d = d, .type = type};
    for (int i = 0; i < b; i++) p.q_len[i] = rows, p.kv_len[i] = keys;
    p.q = values(b * rows * n * d, type), p.k = values(b * keys * nkv * d, type),
    p.v = values(b * keys * nkv * d, type);
    return p;
}
static void drop(struct problem *p) { free(p->q), free(p->k), free(p->v); }

static int64_t place(const char *layout, int64_t rows, int64_t n, int64_t d, int64_t b, int64_t s, int64_t h,
                     int64_t e) {
    if (!strcmp(layout, "BNSD")) return ((b * n + h) * rows + s) * d + e;
    return ((b * rows + s) * n + h) * d + e; // BSH, BSND
}

// A tensor of a layout from logical values; outside of the lengths NaN, which nothing may read.
static struct tensor *lay(const struct problem *p, const char *layout, const double *from, bool query) {
    int64_t s = query ? p->rows : p->keys, n = query ? p->n : p->nkv, d = p->d;
    struct tensor *t = !strcmp(layout, "BSH")    ? t_filled(p->type, NAN, DIMS(p->b, s, n * d))
                       : !strcmp(layout, "BSND") ? t_filled(p->type, NAN, DIMS(p->b, s, n, d))
                                                 : t_filled(p->type, NAN, DIMS(p->b, n, s, d));
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < (query ? p->q_len : p->kv_len)[b]; i++)
            for (int64_t h = 0; h < n; h++)
                for (int64_t e = 0; e < d; e++)
                    t->v[place(layout, s, n, d, b, i, h, e)] = from[((b * s + i) * n + h) * d + e];
    t_write(t);
    return t;
}

typedef bool sees(const struct problem *p, int64_t b, int64_t i, int64_t pos, const void *ctx);
static bool sees_all(const struct problem *p, int64_t b, int64_t i, int64_t pos, const void *ctx) {
    (void)p, (void)b, (void)i, (void)pos, (void)ctx;
    return true;
}
static bool sees_past(const struct problem *p, int64_t b, int64_t i, int64_t pos, const void *ctx) {
    (void)ctx;
    return pos <= i + p->kv_len[b] - p->q_len[b];
}
static bool sees_left_up(const struct problem *p, int64_t b, int64_t i, int64_t pos, const void *ctx) {
    (void)p, (void)b, (void)ctx;
    return pos <= i;
}
static bool sees_unmasked(const struct problem *p, int64_t b, int64_t i, int64_t pos, const void *ctx) {
    const struct tensor *m = ctx; // (1 or B, Q, KV)
    int64_t q = m->dim[m->rank - 2], kv = m->dim[m->rank - 1];
    (void)p;
    return m->v[((m->n / (q * kv) > 1 ? b : 0) * q + i) * kv + pos] == 0;
}

// The row (b, i, h) in double; bias may be NULL: (n, rows, keys).
static void row_of(const struct problem *p, int64_t b, int64_t i, int64_t h, sees *see, const void *ctx,
                   const double *bias, double *out, double *lse) {
    double score[512], top = -INFINITY, sum = 0;
    int64_t g = h / (p->n / p->nkv);
    for (int64_t j = 0; j < p->kv_len[b]; j++) {
        double s = 0;
        for (int64_t e = 0; e < p->d; e++)
            s += p->q[((b * p->rows + i) * p->n + h) * p->d + e] * p->k[((b * p->keys + j) * p->nkv + g) * p->d + e];
        score[j] = see(p, b, i, j, ctx) ? s / sqrt((double)p->d) + (bias ? bias[(h * p->rows + i) * p->keys + j] : 0)
                                        : -INFINITY;
        top = fmax(top, score[j]);
    }
    for (int64_t e = 0; e < p->d; e++) out[e] = 0;
    for (int64_t j = 0; j < p->kv_len[b]; j++) {
        double w = exp(score[j] - top);
        if (score[j] == -INFINITY) continue;
        sum += w;
        for (int64_t e = 0; e < p->d; e++) out[e] += w * p->v[((b * p->keys + j) * p->nkv + g) * p->d + e];
    }
    for (int64_t e = 0; e < p->d; e++) out[e] /= sum;
    *lse = top + log(sum);
}

static void check(const struct problem *p, struct tensor *out, struct tensor *lse, const char *layout, sees *see,
                  const void *ctx, const double *bias) {
    double want[512], l;
    t_read(out);
    if (lse) t_read(lse);
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->n; h++)
            for (int64_t i = 0; i < p->rows; i++) {
                if (i >= p->q_len[b]) { // rows of padding come out as zero
                    for (int64_t e = 0; e < p->d; e++)
                        assert_true(out->v[place(layout, p->rows, p->n, p->d, b, i, h, e)] == 0);
                    continue;
                }
                row_of(p, b, i, h, see, ctx, bias, want, &l);
                for (int64_t e = 0; e < p->d; e++)
                    t_near(out, place(layout, p->rows, p->n, p->d, b, i, h, e), want[e], 2e-6);
                if (lse) t_near(lse, (b * p->n + h) * p->rows + i, l, 1e-5);
            }
}

static struct tensor *triangle(void) {
    struct tensor *m = t_filled(ACL_INT8, 0, DIMS(2048, 2048));
    for (int i = 0; i < 2048; i++)
        for (int j = i + 1; j < 2048; j++) m->v[i * 2048 + j] = 1;
    t_write(m);
    return m;
}

// The arguments that matter here; the rest is NULL or fixed.
struct call {
    struct tensor *q, *pse, *mask, *table, *out, *lse;
    aclTensorList *k, *v;
    aclIntArray *q_lens, *kv_lens;
    int64_t n, nkv, d, sparse, pre, next, precise, block;
    const char *layout;
};
static aclTensor *acl(const struct tensor *t) { return t ? t->acl : NULL; }
#define ARGS(c) \
    acl(c.q), c.k, c.v, acl(c.pse), acl(c.mask), c.q_lens, c.kv_lens, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        acl(c.table), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, c.n, 1 / sqrt((double)c.d), c.pre, c.next, \
        (char *)(uintptr_t)c.layout, c.nkv, c.sparse, c.precise, c.block, 0, c.lse != NULL, 0, 0, acl(c.out), \
        acl(c.lse)

static struct call call(const struct problem *p, const char *layout, struct tensor *q, struct tensor *k,
                        struct tensor *v) {
    struct call c = {
        .q = q, .n = p->n, .nkv = p->nkv, .d = p->d, .pre = 2147483647, .next = 2147483647, .layout = layout};
    if (k) c.k = t_list(1, &k), c.v = t_list(1, &v);
    return c;
}
static void lengths(struct call *c, const struct problem *p) {
    c->q_lens = t_ints((int)p->b, p->q_len), c->kv_lens = t_ints((int)p->b, p->kv_len);
}
static void close_call(struct call *c) {
    if (c->k) aclDestroyTensorList(c->k), aclDestroyTensorList(c->v);
    if (c->q_lens) aclDestroyIntArray(c->q_lens);
    if (c->kv_lens) aclDestroyIntArray(c->kv_lens);
}

static void dense(void **state) {
    (void)state;
    static const char *const layouts[3] = {"BSH", "BSND", "BNSD"};
    ops_begin("910B3,cann=9.1");
    for (int l = 0; l < 3; l++)
        for (int t = 0; t < 2; t++)
            for (int mode = 0; mode < 4; mode++) { // prefill, one row, several rows at a past, explicit mask
                struct problem p = problem(t ? ACL_BF16 : ACL_FLOAT16, 2,
                                           mode == 1   ? 1
                                           : mode == 0 ? 33
                                                       : 5,
                                           mode == 0 ? 33 : 70, 6, 2, t ? 64 : 128);
                p.kv_len[0] = mode == 0 ? 33 : 41;
                if (mode == 0) p.q_len[1] = p.kv_len[1] = 20;
                struct tensor *q = lay(&p, layouts[l], p.q, true), *k = lay(&p, layouts[l], p.k, false),
                              *v = lay(&p, layouts[l], p.v, false);
                struct call c = call(&p, layouts[l], q, k, v);
                lengths(&c, &p);
                c.out = lay(&p, layouts[l], p.q, true);
                c.lse = t_filled(ACL_FLOAT, 0, DIMS(2, 6, p.rows, 1));
                sees *see = mode == 1 ? sees_all : mode == 3 ? sees_unmasked : sees_past;
                if (mode == 0 || mode == 2) c.sparse = 3, c.mask = triangle();
                if (mode == 3) {
                    c.mask = t_random(ACL_BOOL, 2, DIMS(2, 5, 70)), c.precise = 2;
                    for (int i = 0; i < 10; i++) c.mask->v[i * 70 + i] = 0;
                    t_write(c.mask);
                }
                RUN(aclnnFusedInferAttentionScoreV2, ARGS(c));
                check(&p, c.out, c.lse, layouts[l], see, c.mask, NULL);
                close_call(&c), drop(&p), t_free_all();
            }
    ops_end();
}

// ggml's way: BNSD, an additive mask through pseShift.
static void shifted(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct problem p = problem(ACL_FLOAT16, 2, 3, 64, 4, 2, 64);
    struct tensor *q = lay(&p, "BNSD", p.q, true), *k = lay(&p, "BNSD", p.k, false), *v = lay(&p, "BNSD", p.v, false);
    struct call c = call(&p, "BNSD", q, k, v);
    c.pse = t_random(ACL_FLOAT16, 3, DIMS(1, 4, 3, 64)), c.out = lay(&p, "BNSD", p.q, true), c.precise = 2;
    RUN(aclnnFusedInferAttentionScoreV2, ARGS(c));
    check(&p, c.out, NULL, "BNSD", sees_all, NULL, c.pse->v);
    struct tensor *shared =
        t_strided(ACL_FLOAT16, 3, DIMS(1, 4, 3, 64), (const int64_t[]){192, 0, 64, 1}, 0); // one for all heads
    struct call one = c;
    one.pse = shared;
    t_read(shared);
    RUN(aclnnFusedInferAttentionScoreV2, ARGS(one));
    check(&p, one.out, NULL, "BNSD", sees_all, NULL, shared->v);
    for (int i = 0; i < 4 * 3 * 64; i++)
        if (i % 64 > i / 64 % 3) c.pse->v[i] = -INFINITY; // causal
    t_write(c.pse);
    RUN(aclnnFusedInferAttentionScoreV2, ARGS(c));
    check(&p, c.out, NULL, "BNSD", sees_left_up, NULL, c.pse->v);
    close_call(&c), drop(&p);
    ops_end();
}

// Sequences one behind the other, with and without pages.
static void ragged(void **state) {
    (void)state;
    static const int64_t q_len[4] = {1, 5, 2, 7}, kv_len[4] = {9, 5, 130, 40};
    ops_begin("910B3,cann=9.1");
    for (int paged = 0; paged < 2; paged++) { // no, (blocks, block, H)
        struct problem p = problem(ACL_BF16, 4, 7, 130, 4, 2, 64);
        int64_t q_sum[4], kv_sum[4], t = 0, total = 0, block = 16, blocks = 16 * 4;
        for (int b = 0; b < 4; b++)
            p.q_len[b] = q_len[b], p.kv_len[b] = kv_len[b], t += q_len[b], total += kv_len[b], q_sum[b] = t,
            kv_sum[b] = total;
        struct tensor *q = t_filled(p.type, 0, DIMS(t, 4, 64)), *k, *v, *table = t_random(ACL_INT32, 1, DIMS(4, 9));
        if (!paged)
            k = t_filled(p.type, 0, DIMS(total, 2, 64)), v = t_filled(p.type, 0, DIMS(total, 2, 64));
        else
            k = t_filled(p.type, NAN, DIMS(blocks, block, 128)), v = t_filled(p.type, NAN, DIMS(blocks, block, 128));
        for (int64_t b = 0; b < 4; b++) {
            for (int64_t i = 0; i < q_len[b]; i++)
                memcpy(q->v + (q_sum[b] - q_len[b] + i) * 256, p.q + (b * 7 + i) * 256, 256 * sizeof(double));
            for (int64_t i = 0; i < 9; i++) table->v[b * 9 + i] = (double)((b * 9 + i) * 5 % 64); // scattered blocks
            for (int64_t i = 0; i < kv_len[b]; i++)
                for (int64_t x = 0; x < 128; x++) {
                    int64_t id = (int64_t)table->v[b * 9 + i / block];
                    int64_t to = (paged ? id * block + i % block : kv_sum[b] - kv_len[b] + i) * 128 + x;
                    k->v[to] = p.k[(b * 130 + i) * 128 + x], v->v[to] = p.v[(b * 130 + i) * 128 + x];
                }
        }
        t_write(q), t_write(k), t_write(v), t_write(table);
        struct call c = call(&p, "TND", q, k, v);
        c.q_lens = t_ints(4, q_sum), c.kv_lens = t_ints(4, paged ? kv_len : kv_sum);
        c.mask = triangle(), c.sparse = 3, c.out = t_filled(p.type, 0, DIMS(t, 4, 64)),
        c.lse = t_filled(ACL_FLOAT, 0, DIMS(t, 4, 1));
        if (paged) c.table = table, c.block = block;
        RUN(aclnnFusedInferAttentionScoreV2, ARGS(c));
        t_read(c.out), t_read(c.lse);
        for (int64_t b = 0; b < 4; b++)
            for (int64_t i = 0; i < q_len[b]; i++)
                for (int64_t h = 0; h < 4; h++) {
                    double want[64], l;
                    int64_t at = (q_sum[b] - q_len[b] + i) * 4 + h;
                    row_of(&p, b, i, h, sees_past, NULL, NULL, want, &l);
                    for (int e = 0; e < 64; e++) t_near(c.out, at * 64 + e, want[e], 2e-6);
                    t_near(c.lse, at, l, 1e-5);
                }
        if (paged) { // a block that is not there: seen when the work runs
            table->v[1 * 9] = 64;
            t_write(table);
            assert_int_equal(RUN_CODE(aclnnFusedInferAttentionScoreV2, ARGS(c)), 507015);
        }
        close_call(&c), drop(&p);
        if (!paged) t_free_all();
    }
    t_free_all();
    tally_emu_reset();
}

// One query row for each of B sequences in pages: decode.
static void decode_paged(void **state) {
    (void)state;
    ops_begin("910_9382,cann=9.1");
    struct problem p = problem(ACL_FLOAT16, 3, 1, 256, 8, 2, 128);
    p.kv_len[0] = 1, p.kv_len[1] = 129, p.kv_len[2] = 256;
    struct tensor *q = lay(&p, "BSND", p.q, true), *k = t_filled(p.type, NAN, DIMS(6, 2, 128, 128)),
                  *v = t_filled(p.type, NAN, DIMS(6, 2, 128, 128));
    struct tensor *table = t_given(ACL_INT32, (const double[]){5, 0, 3, 1, 0, 4}, DIMS(3, 2));
    for (int64_t b = 0; b < 3; b++)
        for (int64_t i = 0; i < p.kv_len[b]; i++)
            for (int64_t h = 0; h < 2; h++)
                for (int64_t e = 0; e < 128; e++) {
                    int64_t to = (((int64_t)table->v[b * 2 + i / 128] * 2 + h) * 128 + i % 128) * 128 + e,
                            from = ((b * 256 + i) * 2 + h) * 128 + e;
                    k->v[to] = p.k[from], v->v[to] = p.v[from];
                }
    t_write(k), t_write(v);
    struct call c = call(&p, "BSND", q, k, v);
    c.kv_lens = t_ints(3, p.kv_len), c.table = table, c.block = 128, c.out = lay(&p, "BSND", p.q, true);
    RUN(aclnnFusedInferAttentionScoreV2, ARGS(c));
    check(&p, c.out, NULL, "BSND", sees_all, NULL, NULL);
    RUN(aclnnFusedInferAttentionScoreV3, acl(c.q), c.k, c.v, NULL, NULL, NULL, c.kv_lens, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, acl(table), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 8,
        1 / sqrt(128), 0, 0, (char *)"BSND", 2, 0, 0, 128, 0, false, 0, 0, acl(c.out), NULL);
    check(&p, c.out, NULL, "BSND", sees_all, NULL, NULL);
    RUN(aclnnIncreFlashAttentionV4, acl(c.q), c.k, c.v, NULL, NULL, c.kv_lens, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        acl(table), NULL, 8, 1 / sqrt(128), (char *)"BSND", 2, 128, 0, acl(c.out));
    check(&p, c.out, NULL, "BSND", sees_all, NULL, NULL);
    REFUSE(561002, aclnnIncreFlashAttentionV4, acl(c.q), c.k, c.v, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           NULL, acl(table), NULL, 8, 1 / sqrt(128), (char *)"BSND", 2, 128, 0, acl(c.out));
    close_call(&c), drop(&p);
    ops_end();
}

static void listed(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct problem p = problem(ACL_BF16, 2, 1, 48, 4, 4, 64);
    p.kv_len[0] = 17;
    struct tensor *q = lay(&p, "BSND", p.q, true), *k[2], *v[2];
    for (int b = 0; b < 2; b++) {
        k[b] = t_given(p.type, p.k + b * 48 * 256, DIMS(1, p.kv_len[b], 4, 64)),
        v[b] = t_given(p.type, p.v + b * 48 * 256, DIMS(1, p.kv_len[b], 4, 64));
    }
    struct call c = call(&p, "BSND", q, NULL, NULL);
    c.k = t_list(2, k), c.v = t_list(2, v), c.out = lay(&p, "BSND", p.q, true);
    RUN(aclnnFusedInferAttentionScoreV2, ARGS(c));
    check(&p, c.out, NULL, "BSND", sees_all, NULL, NULL);
    close_call(&c);
    // the second entries have fewer heads; one value is missing; a table beside lists
    for (int b = 0; b < 2; b++) {
        k[b] = t_random(p.type, 1, DIMS(1, 16, 4 - 2 * b, 64)), v[b] = t_random(p.type, 1, DIMS(1, 16, 4 - 2 * b, 64));
    }
    c.k = t_list(2, k), c.v = t_list(2, v);
    REFUSE(561002, aclnnFusedInferAttentionScoreV2, ARGS(c));
    close_call(&c);
    for (int b = 0; b < 2; b++) k[b] = t_random(p.type, 1, DIMS(1, 16, 4, 64)), v[b] = k[b];
    v[0] = t_random(p.type, 1, DIMS(1, 16, 4, 64));
    c.k = t_list(2, k), c.v = t_list(1, v);
    REFUSE(561002, aclnnFusedInferAttentionScoreV2, ARGS(c));
    close_call(&c);
    for (int b = 0; b < 2; b++)
        k[b] = t_random(p.type, 1, DIMS(1, 4, 16, 64)), v[b] = t_random(p.type, 1, DIMS(1, 4, 16, 64));
    c.k = t_list(2, k), c.v = t_list(2, v);
    c.table = t_filled(ACL_INT32, 0, DIMS(2, 1)), c.block = 16, c.kv_lens = t_ints(1, (const int64_t[]){16});
    REFUSE(561002, aclnnFusedInferAttentionScoreV2, ARGS(c));
    close_call(&c), drop(&p);
    ops_end();
}

// The newer lists of arguments: a sink per head takes part in the sum alone; the rope part of q and k has a tensor of its own.
static void newer(void **state) {
    (void)state;
    for (int v5 = 0; v5 < 2; v5++) {
        ops_begin(v5 ? "950PR,cann=9.1" : "910B3,cann=9.1");
        struct problem p = problem(ACL_BF16, 2, 3, 40, 4, 2, 64);
        struct tensor *q = lay(&p, "BSND", p.q, true), *k = lay(&p, "BSND", p.k, false),
                      *v = lay(&p, "BSND", p.v, false), *out = lay(&p, "BSND", p.q, true),
                      *sink = t_random(ACL_BF16, 2, DIMS(4)), *lse = t_filled(ACL_FLOAT, 0, DIMS(2, 4, 3, 1)),
                      *m = triangle();
        struct call c = call(&p, "BSND", q, k, v);
        lengths(&c, &p);
        if (v5)
            RUN(aclnnFusedInferAttentionScoreV5, acl(q), c.k, c.v, NULL, acl(m), c.q_lens, c.kv_lens, NULL, NULL, NULL,
                NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                NULL, acl(sink), NULL, NULL, 4, 0.125, 0, 0, (char *)"BSND", 2, 3, 0, 0, 0, true, 0, 0, 0, 0, acl(out),
                acl(lse));
        else
            RUN(aclnnFusedInferAttentionScoreV4, acl(q), c.k, c.v, NULL, acl(m), c.q_lens, c.kv_lens, NULL, NULL, NULL,
                NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                NULL, acl(sink), 4, 0.125, 0, 0, (char *)"BSND", 2, 3, 0, 0, 0, true, 0, 0, 0, acl(out), acl(lse));
        t_read(out), t_read(lse);
        for (int64_t b = 0; b < 2; b++)
            for (int64_t h = 0; h < 4; h++)
                for (int64_t i = 0; i < 3; i++) {
                    double want[64], l;
                    row_of(&p, b, i, h, sees_past, NULL, NULL, want, &l);
                    double share = exp(l) / (exp(l) + exp(sink->v[h]));
                    for (int e = 0; e < 64; e++)
                        t_near(out, place("BSND", 3, 4, 64, b, i, h, e), want[e] * share, 2e-6);
                    t_near(lse, (b * 4 + h) * 3 + i, log(exp(l) + exp(sink->v[h])), 1e-5);
                }
        close_call(&c), drop(&p);
        ops_end();
    }
    // V3: heads of 64 and a rope part of 16 are heads of 80
    ops_begin("910B3,cann=9.1");
    struct problem p = problem(ACL_BF16, 1, 4, 30, 2, 2, 80);
    struct tensor *q = t_filled(ACL_BF16, 0, DIMS(1, 4, 2, 64)), *qr = t_filled(ACL_BF16, 0, DIMS(1, 4, 2, 16)),
                  *k = t_filled(ACL_BF16, 0, DIMS(1, 30, 2, 64)), *kr = t_filled(ACL_BF16, 0, DIMS(1, 30, 2, 16)),
                  *v = t_filled(ACL_BF16, 0, DIMS(1, 30, 2, 64)), *out = t_filled(ACL_BF16, 0, DIMS(1, 4, 2, 64));
    for (int i = 0; i < 8 * 80; i++)
        *(i % 80 < 64 ? &q->v[i / 80 * 64 + i % 80] : &qr->v[i / 80 * 16 + i % 80 - 64]) = p.q[i];
    for (int i = 0; i < 60 * 80; i++) {
        if (i % 80 < 64)
            k->v[i / 80 * 64 + i % 80] = p.k[i], v->v[i / 80 * 64 + i % 80] = p.v[i];
        else
            kr->v[i / 80 * 16 + i % 80 - 64] = p.k[i];
    }
    t_write(q), t_write(qr), t_write(k), t_write(kr), t_write(v);
    aclTensorList *ks = t_list(1, &k), *vs = t_list(1, &v);
    RUN(aclnnFusedInferAttentionScoreV3, acl(q), ks, vs, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, acl(qr), acl(kr), NULL, 2, 1 / sqrt(80), 0, 0,
        (char *)"BSND", 2, 0, 0, 0, 0, false, 0, 0, acl(out), NULL);
    t_read(out);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t i = 0; i < 4; i++) {
            double want[80], l;
            row_of(&p, 0, i, h, sees_all, NULL, NULL, want, &l);
            for (int e = 0; e < 64; e++) t_near(out, place("BSND", 4, 2, 64, 0, i, h, e), want[e], 2e-6);
        }
    struct tensor *few = t_random(ACL_BF16, 1, DIMS(1, 29, 2, 16)); // for 30 keys
    REFUSE(161002, aclnnFusedInferAttentionScoreV3, acl(q), ks, vs, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, acl(qr), acl(few), NULL, 2,
           1 / sqrt(80), 0, 0, (char *)"BSND", 2, 0, 0, 0, 0, false, 0, 0, acl(out), NULL);
    aclDestroyTensorList(ks), aclDestroyTensorList(vs), drop(&p);
    ops_end();
}

// Drafts in a tree: each row sees the past and its own ancestors.
static bool sees_ancestors(const struct problem *p, int64_t b, int64_t i, int64_t pos, const void *ctx) {
    int64_t past = p->kv_len[b] - p->q_len[b];
    static const int parent[5] = {-1, 0, 0, 1, 2};
    (void)ctx;
    if (pos < past) return true;
    for (int at = (int)i; at >= 0; at = parent[at])
        if (at == pos - past) return true;
    return false;
}

static void trees(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct problem p = problem(ACL_BF16, 2, 5, 40, 4, 2, 64);
    p.q_len[1] = 3, p.kv_len[1] = 20;
    const int64_t q_sum[2] = {5, 8}, kv_sum[2] = {40, 60};
    struct tensor *q = t_filled(p.type, 0, DIMS(8, 4, 64)), *k = t_filled(p.type, 0, DIMS(60, 2, 64)),
                  *v = t_filled(p.type, 0, DIMS(60, 2, 64)), *m = t_filled(ACL_INT8, 0, DIMS(25 + 9));
    for (int i = 0; i < 8; i++)
        memcpy(q->v + i * 256, p.q + i * 256, 256 * sizeof *p.q); // the second sequence follows the five rows
    for (int i = 0; i < 60; i++)
        memcpy(k->v + i * 128, p.k + i * 128, 128 * sizeof *p.k),
            memcpy(v->v + i * 128, p.v + i * 128, 128 * sizeof *p.v);
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < p.q_len[b]; i++)
            for (int j = 0; j < p.q_len[b]; j++)
                m->v[b * 25 + i * p.q_len[b] + j] = !sees_ancestors(&p, b, i, p.kv_len[b] - p.q_len[b] + j, NULL);
    t_write(q), t_write(k), t_write(v), t_write(m);
    struct call c = call(&p, "TND", q, k, v);
    c.q_lens = t_ints(2, q_sum), c.kv_lens = t_ints(2, kv_sum), c.mask = m, c.sparse = 9,
    c.out = t_filled(p.type, 0, DIMS(8, 4, 64));
    RUN(aclnnFusedInferAttentionScoreV2, ARGS(c));
    t_read(c.out);
    for (int64_t b = 0; b < 2; b++)
        for (int64_t i = 0; i < p.q_len[b]; i++)
            for (int64_t h = 0; h < 4; h++) {
                double want[64], l;
                row_of(&p, b, i, h, sees_ancestors, NULL, NULL, want, &l);
                for (int e = 0; e < 64; e++) t_near(c.out, ((b * 5 + i) * 4 + h) * 64 + e, want[e], 2e-6);
            }
    close_call(&c), drop(&p);
    ops_end();
}

static void prompt(void **state) {
    (void)state;
    ops_begin("310P3,cann=9.1");
    struct problem p = problem(ACL_FLOAT16, 1, 20, 20, 4, 2, 64);
    struct tensor *q = lay(&p, "BNSD", p.q, true), *k = lay(&p, "BNSD", p.k, false), *v = lay(&p, "BNSD", p.v, false),
                  *out = lay(&p, "BNSD", p.q, true), *m = triangle();
    RUN(aclnnPromptFlashAttentionV3, acl(q), acl(k), acl(v), NULL, acl(m), NULL, NULL, NULL, NULL, NULL, NULL, NULL, 4,
        0.125, 99, 99, (char *)"BNSD", 2, 2, 0, acl(out));
    check(&p, out, NULL, "BNSD", sees_left_up, NULL, NULL);
    drop(&p);
    ops_end();
}

// What is known to go wrong on hardware goes wrong here too.
static void traps(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct problem p = problem(ACL_BF16, 1, 4, 64, 2, 1, 64);
    struct tensor *q = lay(&p, "BSND", p.q, true), *k = lay(&p, "BSND", p.k, false), *v = lay(&p, "BSND", p.v, false);
    struct call c = call(&p, "BSND", q, k, v);
    c.mask = triangle(), c.sparse = 3, c.out = lay(&p, "BSND", p.q, true);
    RUN(aclnnFusedInferAttentionScoreV2, ARGS(c)); // several rows, mode 3, no lengths of keys: the past is not seen
    check(&p, c.out, NULL, "BSND", sees_left_up, NULL, NULL);
    lengths(&c, &p);
    RUN(aclnnFusedInferAttentionScoreV2, ARGS(c));
    check(&p, c.out, NULL, "BSND", sees_past, NULL, NULL);
    // a NaN in a masked value is not masked away
    struct tensor *full = t_filled(ACL_BOOL, 0, DIMS(1, 4, 64));
    for (int i = 0; i < 4; i++) full->v[i * 64 + 63] = 1;
    v->v[63 * 64 + 3] = NAN;
    t_write(full), t_write(v);
    c.mask = full, c.sparse = 0;
    RUN(aclnnFusedInferAttentionScoreV2, ARGS(c));
    t_read(c.out);
    for (int64_t i = 0; i < c.out->n; i++) assert_int_equal(isnan(c.out->v[i]) != 0, i % 64 == 3);
    v->v[63 * 64 + 3] = 0;
    p.v[63 * 64 + 3] = 0;
    // a row with nothing to see: the mean of all values, or zero with innerPrecise 2
    for (int i = 0; i < 64; i++) full->v[2 * 64 + i] = 1;
    t_write(full), t_write(v);
    for (int fix = 0; fix < 2; fix++) {
        c.precise = 2 * fix;
        RUN(aclnnFusedInferAttentionScoreV2, ARGS(c));
        t_read(c.out);
        for (int64_t e = 0; e < 64; e++) {
            double mean = 0;
            for (int j = 0; j < 64; j++) mean += p.v[j * 64 + e] / 64;
            t_near(c.out, (2 * 2) * 64 + e, fix ? 0 : mean, 1e-6);
        }
    }
    close_call(&c);
    // TND without mask in mode 0 with several rows: uniform averages
    struct tensor *tq = t_given(p.type, p.q, DIMS(4, 2, 64)), *tk = t_given(p.type, p.k, DIMS(64, 1, 64)),
                  *tv = t_given(p.type, p.v, DIMS(64, 1, 64));
    struct call t = call(&p, "TND", tq, tk, tv);
    lengths(&t, &p);
    t.out = t_filled(p.type, 0, DIMS(4, 2, 64));
    RUN(aclnnFusedInferAttentionScoreV2, ARGS(t));
    t_read(t.out);
    for (int64_t i = 0; i < t.out->n; i++) {
        double mean = 0;
        for (int j = 0; j < 64; j++) mean += p.v[j * 64 + i % 64] / 64;
        t_near(t.out, i, mean, 1e-6);
    }
    // a compressed mask that is not the triangle
    struct tensor *wrong = t_filled(ACL_INT8, 0, DIMS(2048, 2048));
    t.mask = wrong, t.sparse = 3;
    assert_int_equal(RUN_CODE(aclnnFusedInferAttentionScoreV2, ARGS(t)), 507015);
    close_call(&t), drop(&p);
    t_free_all();
    tally_emu_reset();
}

#define BAD(code, field, value) \
    do { \
        struct call w = c; \
        w.field = value; \
        REFUSE(code, aclnnFusedInferAttentionScoreV2, ARGS(w)); \
    } while (0)

static void refused(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct problem p = problem(ACL_BF16, 2, 4, 64, 4, 2, 64);
    struct tensor *q = lay(&p, "BSND", p.q, true), *k = lay(&p, "BSND", p.k, false), *v = lay(&p, "BSND", p.v, false);
    struct call c = call(&p, "BSND", q, k, v);
    c.out = lay(&p, "BSND", p.q, true);
    aclIntArray *three = t_ints(3, (const int64_t[]){4, 4, 4}), *long1 = t_ints(1, (const int64_t[]){65});
    struct tensor *f = t_filled(ACL_FLOAT, 0, DIMS(2, 4, 4, 64)), *odd = t_filled(ACL_BF16, 0, DIMS(2, 4, 4, 32)),
                  *m3 = t_filled(ACL_INT8, 0, DIMS(1, 4, 64)), *small = t_filled(ACL_INT8, 0, DIMS(1, 3, 64)),
                  *half = t_filled(ACL_FLOAT16, 0, DIMS(1, 4, 64)), *table = t_filled(ACL_INT32, 0, DIMS(2, 1));
    struct tensor *view = t_strided(ACL_BF16, 1, DIMS(2, 4, 4, 64), (const int64_t[]){2048, 512, 64, 1}, 0);
    BAD(161001, q, NULL);
    BAD(161001, k, NULL);
    BAD(161001, out, NULL);
    BAD(161002, q, f);
    BAD(161002, q, view);
    BAD(161002, out, odd);
    BAD(161002, mask, half);
    BAD(561002, layout, "BSDN");
    BAD(561002, layout, "BNSD");
    BAD(561002, n, 3);
    BAD(561002, nkv, 3);
    BAD(561002, nkv, 0); // stands for 4
    BAD(561002, sparse, 5);
    BAD(561002, sparse, 1);
    BAD(561002, sparse, 3);
    BAD(561002, precise, 4);
    BAD(561002, mask, small);
    BAD(561002, kv_lens, long1);
    {
        struct call w = c;
        w.sparse = 3, w.mask = m3;
        REFUSE(561002, aclnnFusedInferAttentionScoreV2, ARGS(w));
        w = c, w.table = table, w.block = 64;
        REFUSE(561002, aclnnFusedInferAttentionScoreV2, ARGS(w)); // no lengths
        w.kv_lens = three, w.block = 128;
        REFUSE(561002, aclnnFusedInferAttentionScoreV2, ARGS(w)); // (2, 64, 2, 64) is no cache of two heads by 128 rows
        struct tensor *short_k = t_filled(ACL_BF16, 0, DIMS(2, 2, 64, 64)),
                      *short_v = t_filled(ACL_BF16, 0, DIMS(2, 2, 64, 64));
        w.k = t_list(1, &short_k), w.v = t_list(1, &short_v);
        REFUSE(561002, aclnnFusedInferAttentionScoreV2, ARGS(w)); // nor is (2, 2, 64, 64)
        aclDestroyTensorList(w.k), aclDestroyTensorList(w.v);
    }
    BAD(561002, q_lens, long1);
    {
        struct call w = c;
        w.mask = m3;
        RUN(aclnnFusedInferAttentionScoreV2, ARGS(w));
        w.kv_lens = three; // more than the batch is fine
        RUN(aclnnFusedInferAttentionScoreV2, ARGS(w));
    }
    close_call(&c), aclDestroyIntArray(three), aclDestroyIntArray(long1);
    // TND: cumulative lengths, head sizes, masks
    struct tensor *tq = t_given(p.type, p.q, DIMS(8, 4, 64)), *tk = t_given(p.type, p.k, DIMS(64, 2, 64)),
                  *tv = t_given(p.type, p.v, DIMS(64, 2, 64));
    c = call(&p, "TND", tq, tk, tv);
    c.out = t_filled(p.type, 0, DIMS(8, 4, 64));
    BAD(561002, sparse, 0);
    aclIntArray *fall = t_ints(2, (const int64_t[]){5, 4}), *few = t_ints(2, (const int64_t[]){3, 7}),
                *good = t_ints(2, (const int64_t[]){3, 8}), *kv = t_ints(2, (const int64_t[]){32, 64}),
                *one = t_ints(1, (const int64_t[]){64});
    c.q_lens = good, c.kv_lens = kv;
    RUN(aclnnFusedInferAttentionScoreV2, ARGS(c));
    BAD(561002, q_lens, fall);
    BAD(561002, q_lens, few);
    BAD(561002, kv_lens, one);
    BAD(561002, mask, m3);
    BAD(561002, sparse, 2);
    c.q_lens = c.kv_lens = NULL;
    aclDestroyIntArray(fall), aclDestroyIntArray(few), aclDestroyIntArray(good), aclDestroyIntArray(kv),
        aclDestroyIntArray(one);
    close_call(&c), drop(&p);
    ops_end();
    ops_begin("950PR,cann=9.1");
    p = problem(ACL_BF16, 1, 1, 16, 2, 2, 64);
    c = call(&p, "BSND", lay(&p, "BSND", p.q, true), lay(&p, "BSND", p.k, false), lay(&p, "BSND", p.v, false));
    c.out = lay(&p, "BSND", p.q, true);
    REFUSE(561003, aclnnFusedInferAttentionScoreV2, ARGS(c));
    close_call(&c), drop(&p);
    ops_end();
}

static void with_value(struct call c, struct tensor *v) { // refused
    c.v = t_list(1, &v);
    REFUSE(561002, aclnnFusedInferAttentionScoreV2, ARGS(c));
    aclDestroyTensorList(c.v);
}

// What does not fit a table, its pages, or the lengths.
static void pages_refused(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct problem p = problem(ACL_BF16, 2, 2, 32, 4, 2, 64);
    struct tensor *q = t_random(p.type, 1, DIMS(4, 4, 64)), *k = t_random(p.type, 1, DIMS(6, 16, 128)),
                  *v = t_random(p.type, 1, DIMS(6, 16, 128));
    struct call c = call(&p, "TND", q, k, v);
    aclIntArray *long0 = t_ints(2, (const int64_t[]){33, 5}), *minus = t_ints(2, (const int64_t[]){32, -1});
    c.q_lens = t_ints(2, (const int64_t[]){2, 4}), c.kv_lens = t_ints(2, (const int64_t[]){32, 5});
    c.table = t_filled(ACL_INT32, 1, DIMS(2, 2)), c.block = 16, c.out = t_filled(p.type, 0, DIMS(4, 4, 64));
    struct tensor *one_row = t_filled(ACL_INT32, 1, DIMS(1, 2)), *big_k = t_random(p.type, 1, DIMS(6, 144, 128)),
                  *big_v = t_random(p.type, 1, DIMS(6, 144, 128)), *k4 = t_random(p.type, 1, DIMS(6, 2, 16, 64)),
                  *v4 = t_random(p.type, 1, DIMS(6, 2, 16, 64)), *tree = t_filled(ACL_INT8, 0, DIMS(8)),
                  *short_tree = t_filled(ACL_INT8, 0, DIMS(7));
    c.mask = tree, c.sparse = 9;
    RUN(aclnnFusedInferAttentionScoreV2, ARGS(c));
    BAD(561002, mask, short_tree); // two rows, two rows: 4 + 4
    c.mask = triangle(), c.sparse = 3;
    RUN(aclnnFusedInferAttentionScoreV2, ARGS(c));
    BAD(561002, table, one_row);
    BAD(561002, kv_lens, long0);
    BAD(561002, kv_lens, minus);
    BAD(561002, block, 24);
    with_value(c, t_random(p.type, 1, DIMS(5, 16, 128)));
    with_value(c, t_random(p.type, 1, DIMS(6, 16, 64)));
    with_value(c, t_random(p.type, 1, DIMS(6, 16 * 128)));
    aclDestroyTensorList(c.k), aclDestroyTensorList(c.v);
    c.k = t_list(1, &big_k), c.v = t_list(1, &big_v), c.block = 144;
    REFUSE(561002, aclnnFusedInferAttentionScoreV2, ARGS(c)); // over 128 rows
    aclDestroyTensorList(c.k), aclDestroyTensorList(c.v);
    c.k = t_list(1, &k4), c.v = t_list(1, &v4), c.block = 16;
    REFUSE(561002, aclnnFusedInferAttentionScoreV2, ARGS(c)); // a layout of other forms
    close_call(&c), aclDestroyIntArray(long0), aclDestroyIntArray(minus), drop(&p);
    // Heads of no numbers, keys of less than a head.
    p = problem(ACL_BF16, 1, 4, 8, 4, 2, 64);
    c = call(&p, "BSH", t_filled(p.type, 0, DIMS(1, 4, 0)), t_random(p.type, 1, DIMS(1, 8, 128)),
             t_random(p.type, 1, DIMS(1, 8, 128)));
    c.out = t_filled(p.type, 0, DIMS(1, 4, 256));
    REFUSE(561002, aclnnFusedInferAttentionScoreV2, ARGS(c));
    close_call(&c);
    c = call(&p, "BSH", t_random(p.type, 1, DIMS(1, 4, 256)), t_random(p.type, 1, DIMS(1, 8, 32)),
             t_random(p.type, 1, DIMS(1, 8, 32)));
    c.out = t_filled(p.type, 0, DIMS(1, 4, 256));
    REFUSE(561002, aclnnFusedInferAttentionScoreV2, ARGS(c));
    close_call(&c), drop(&p);
    ops_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense),        cmocka_unit_test(shifted),       cmocka_unit_test(ragged),
        cmocka_unit_test(decode_paged), cmocka_unit_test(listed),        cmocka_unit_test(trees),
        cmocka_unit_test(newer),        cmocka_unit_test(prompt),        cmocka_unit_test(traps),
        cmocka_unit_test(refused),      cmocka_unit_test(pages_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
