// Norms, softmax, gated activations, rotary embedding against loops in double.
#include "tests/emulator/ops_support.h"

#include <math.h>
#include <string.h>

static const aclDataType types[3] = {ACL_FLOAT16, ACL_BF16, ACL_FLOAT};
static const double f32 = 0x1p-23;

static void check_rms(const struct tensor *y, const struct tensor *rstd, const double *x, const struct tensor *g,
                      double eps) {
    int64_t n = g->n, rows = y->n / n;
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += x[r * n + i] * x[r * n + i];
        double inv = 1 / sqrt(sum / (double)n + eps);
        if (rstd) t_near(rstd, r, inv, inv * (double)(n + 8) * f32);
        for (int64_t i = 0; i < n; i++) {
            double want = x[r * n + i] * inv * g->v[i];
            t_near(y, r * n + i, want, fabs(want) * (double)(n + 8) * f32);
        }
    }
}

static void rms_norm(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 576}, {5, 33}, {7, 1}, {3, 1024}};
    ops_begin("910B3,cann=9.1");
    for (int t = 0; t < 3; t++)
        for (int s = 0; s < 4; s++)
            for (int wide = 0; wide < 2; wide++) { // gamma in x's type and in F32
                int64_t rows = shapes[s][0], n = shapes[s][1];
                struct tensor *x = t_random(types[t], 3, DIMS(rows, n)),
                              *g = t_random(wide ? ACL_FLOAT : types[t], 2, DIMS(n));
                struct tensor *y = t_filled(types[t], 0, DIMS(rows, n)), *rstd = t_filled(ACL_FLOAT, 0, DIMS(rows, 1));
                RUN(aclnnRmsNorm, x->acl, g->acl, 1e-5, y->acl, rstd->acl);
                t_read(y), t_read(rstd);
                check_rms(y, rstd, x->v, g, 1e-5);
                t_free_all();
            }
    // heads of a merged projection: strided rows, two trailing dimensions in gamma
    struct tensor *x = t_strided(ACL_BF16, 1, DIMS(4, 3, 16), (const int64_t[]){100, 16, 1}, 5),
                  *g = t_random(ACL_BF16, 1, DIMS(16));
    struct tensor *y = t_filled(ACL_BF16, 0, DIMS(4, 3, 16)), *rstd = t_filled(ACL_FLOAT, 0, DIMS(4, 3, 1)),
                  *g2 = t_random(ACL_BF16, 1, DIMS(3, 16));
    RUN(aclnnRmsNorm, x->acl, g->acl, 1e-6, y->acl, rstd->acl);
    t_read(y), t_read(rstd);
    check_rms(y, rstd, x->v, g, 1e-6);
    struct tensor *r2 = t_filled(ACL_FLOAT, 0, DIMS(4, 1, 1));
    RUN(aclnnRmsNorm, x->acl, g2->acl, 1e-6, y->acl, r2->acl);
    t_read(y), t_read(r2);
    check_rms(y, r2, x->v, g2, 1e-6);
    ops_end();
}

static void rms_norm_refused(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct tensor *x = t_random(ACL_FLOAT16, 1, DIMS(4, 32)), *g = t_random(ACL_FLOAT16, 1, DIMS(32)),
                  *y = t_filled(ACL_FLOAT16, 0, DIMS(4, 32));
    struct tensor *rstd = t_filled(ACL_FLOAT, 0, DIMS(4, 1)), *small = t_filled(ACL_FLOAT, 0, DIMS(3, 1)),
                  *empty = t_filled(ACL_FLOAT, 0, DIMS(0));
    struct tensor *half = t_filled(ACL_FLOAT16, 0, DIMS(4, 1)), *g31 = t_random(ACL_FLOAT16, 1, DIMS(31)),
                  *y3 = t_filled(ACL_FLOAT16, 0, DIMS(3, 32));
    struct tensor *gb = t_random(ACL_BF16, 1, DIMS(32)), *yf = t_filled(ACL_FLOAT, 0, DIMS(4, 32)),
                  *xi = t_random(ACL_INT32, 3, DIMS(4, 32));
    REFUSE(161001, aclnnRmsNorm, x->acl, g->acl, 1e-5, y->acl, NULL);
    REFUSE(161001, aclnnRmsNorm, NULL, g->acl, 1e-5, y->acl, rstd->acl);
    REFUSE(161002, aclnnRmsNorm, x->acl, g->acl, 1e-5, y->acl, small->acl);
    REFUSE(161002, aclnnRmsNorm, x->acl, g->acl, 1e-5, y->acl, empty->acl);
    REFUSE(161002, aclnnRmsNorm, x->acl, g->acl, 1e-5, y->acl, half->acl);
    REFUSE(161002, aclnnRmsNorm, x->acl, g31->acl, 1e-5, y->acl, rstd->acl);
    REFUSE(161002, aclnnRmsNorm, x->acl, gb->acl, 1e-5, y->acl, rstd->acl);
    REFUSE(161002, aclnnRmsNorm, x->acl, g->acl, 1e-5, y3->acl, rstd->acl);
    REFUSE(161002, aclnnRmsNorm, x->acl, g->acl, 1e-5, yf->acl, rstd->acl);
    REFUSE(161002, aclnnRmsNorm, xi->acl, g->acl, 1e-5, y->acl, rstd->acl);
    // of x's rank, one in place of what is normalised
    struct tensor *flat = t_filled(ACL_FLOAT, 0, DIMS(4)), *turned = t_filled(ACL_FLOAT, 0, DIMS(1, 4)),
                  *many = t_filled(ACL_FLOAT, 0, DIMS(4, 2)), *g1 = t_random(ACL_FLOAT16, 1, DIMS(1, 32)),
                  *z0 = t_filled(ACL_FLOAT16, 0, DIMS(4, 32));
    REFUSE(161002, aclnnRmsNorm, x->acl, g->acl, 1e-5, y->acl, flat->acl);
    REFUSE(161002, aclnnRmsNorm, x->acl, g->acl, 1e-5, y->acl, turned->acl);
    REFUSE(161002, aclnnRmsNorm, x->acl, g->acl, 1e-5, y->acl, many->acl);
    REFUSE(161002, aclnnAddRmsNorm, x->acl, x->acl, g->acl, 1e-5, y->acl, flat->acl, z0->acl);
    REFUSE(161002, aclnnRmsNorm, x->acl, g1->acl, 1e-5, y->acl, rstd->acl); // that is AddRmsNorm's
    ops_end();
    ops_begin("910B3,cann=9.1,strict=off"); // enough numbers will do
    x = t_random(ACL_FLOAT16, 1, DIMS(4, 32)), g = t_random(ACL_FLOAT16, 1, DIMS(32)),
    y = t_filled(ACL_FLOAT16, 0, DIMS(4, 32)), flat = t_filled(ACL_FLOAT, 0, DIMS(4)),
    small = t_filled(ACL_FLOAT, 0, DIMS(3));
    RUN(aclnnRmsNorm, x->acl, g->acl, 1e-5, y->acl, flat->acl);
    t_read(y), t_read(flat);
    check_rms(y, flat, x->v, g, 1e-5);
    REFUSE(161002, aclnnRmsNorm, x->acl, g->acl, 1e-5, y->acl, small->acl);
    ops_end();
    ops_begin("910A,cann=9.1"); // no F32 gamma for FP16 there
    x = t_random(ACL_FLOAT16, 1, DIMS(4, 32)), g = t_random(ACL_FLOAT, 1, DIMS(32)),
    y = t_filled(ACL_FLOAT16, 0, DIMS(4, 32));
    rstd = t_filled(ACL_FLOAT, 0, DIMS(4, 1));
    REFUSE(161002, aclnnRmsNorm, x->acl, g->acl, 1e-5, y->acl, rstd->acl);
    struct tensor *z = t_filled(ACL_FLOAT16, 0, DIMS(4, 32));
    REFUSE(561003, aclnnAddRmsNorm, x->acl, x->acl, g->acl, 1e-5, y->acl, rstd->acl, z->acl);
    ops_end();
}

static void add_rms_norm(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    for (int t = 0; t < 3; t++) {
        int64_t n = 77;
        struct tensor *a = t_random(types[t], 1, DIMS(3, n)), *b = t_random(types[t], 1, DIMS(3, n)),
                      *g = t_random(types[t], 1, DIMS(n));
        struct tensor *y = t_filled(types[t], 0, DIMS(3, n)), *r = t_filled(ACL_FLOAT, 0, DIMS(3, 1)),
                      *s = t_filled(types[t], 0, DIMS(3, n));
        RUN(aclnnAddRmsNorm, a->acl, b->acl, g->acl, 1e-5, y->acl, r->acl, s->acl);
        t_read(y), t_read(r), t_read(s);
        for (int64_t i = 0; i < s->n; i++) t_near(s, i, a->v[i] + b->v[i], 1e-7);
        check_rms(y, r, s->v, g, 1e-5); // the sum is normalised as it was rounded
        double sum[231];
        memcpy(sum, s->v, sizeof sum);
        RUN(aclnnInplaceAddRmsNorm, a->acl, b->acl, g->acl, 1e-5, r->acl);
        t_read(a), t_read(b);
        for (int64_t i = 0; i < s->n; i++) assert_true(b->v[i] == sum[i]);
        t_read(r);
        check_rms(a, r, sum, g, 1e-5);
    }
    struct tensor *x = t_random(ACL_BF16, 1, DIMS(2, 32)), *g = t_random(ACL_BF16, 1, DIMS(32)),
                  *y = t_filled(ACL_BF16, 0, DIMS(2, 32)), *r = t_filled(ACL_FLOAT, 0, DIMS(2, 1)),
                  *gf = t_random(ACL_FLOAT, 1, DIMS(32)), *g1 = t_random(ACL_BF16, 1, DIMS(1, 32));
    REFUSE(161001, aclnnAddRmsNorm, x->acl, x->acl, g->acl, 1e-5, y->acl, r->acl, NULL);
    REFUSE(161002, aclnnAddRmsNorm, x->acl, x->acl, g->acl, 1e-5, y->acl, NULL, NULL);
    REFUSE(161002, aclnnAddRmsNorm, x->acl, x->acl, gf->acl, 1e-5, y->acl, r->acl, y->acl);
    RUN(aclnnAddRmsNorm, x->acl, x->acl, g1->acl, 1e-5, y->acl, NULL, NULL); // allowed for a gamma of [1, H]
    struct tensor *x3 = t_random(ACL_BF16, 1, DIMS(1, 3, 32)), *g3 = t_random(ACL_BF16, 1, DIMS(1, 1, 32)),
                  *y3 = t_filled(ACL_BF16, 0, DIMS(1, 3, 32)), *s3 = t_filled(ACL_BF16, 0, DIMS(1, 3, 32)),
                  *r3 = t_filled(ACL_FLOAT, 0, DIMS(1, 3, 1));
    RUN(aclnnAddRmsNorm, x3->acl, x3->acl, g3->acl, 1e-5, y3->acl, r3->acl, s3->acl);
    t_read(y3), t_read(r3), t_read(s3);
    check_rms(y3, r3, s3->v, g3, 1e-5);
    ops_end();
}

static void layer_and_group_norm(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct tensor *x = t_random(ACL_FLOAT, 2, DIMS(3, 4, 10)), *g = t_random(ACL_FLOAT, 1, DIMS(10)),
                  *b = t_random(ACL_FLOAT, 1, DIMS(10));
    struct tensor *y = t_filled(ACL_FLOAT, 0, DIMS(3, 4, 10)), *m = t_filled(ACL_FLOAT, 0, DIMS(3, 4, 1)),
                  *r = t_filled(ACL_FLOAT, 0, DIMS(3, 4, 1));
    aclIntArray *shape = t_ints(1, (const int64_t[]){10}), *wrong = t_ints(1, (const int64_t[]){9});
    RUN(aclnnLayerNorm, x->acl, shape, g->acl, b->acl, 1e-5, y->acl, m->acl, r->acl);
    t_read(y), t_read(m), t_read(r);
    struct tensor *gg = t_random(ACL_FLOAT, 1, DIMS(4)), *gb = t_random(ACL_FLOAT, 1, DIMS(4)),
                  *z = t_filled(ACL_FLOAT, 0, DIMS(3, 4, 10));
    struct tensor *gm = t_filled(ACL_FLOAT, 0, DIMS(3, 2)), *gr = t_filled(ACL_FLOAT, 0, DIMS(3, 2));
    RUN(aclnnGroupNorm, x->acl, gg->acl, gb->acl, 3, 4, 10, 2, 1e-5, z->acl, gm->acl, gr->acl);
    t_read(z), t_read(gm), t_read(gr);
    for (int kind = 0; kind < 2; kind++) {
        int64_t n = kind ? 20 : 10;
        for (int64_t row = 0; row < 120 / n; row++) {
            double mean = 0, var = 0;
            for (int64_t i = 0; i < n; i++) mean += x->v[row * n + i] / (double)n;
            for (int64_t i = 0; i < n; i++) var += pow(x->v[row * n + i] - mean, 2) / (double)n;
            double inv = 1 / sqrt(var + 1e-5);
            t_near(kind ? gm : m, row, mean, 1e-6), t_near(kind ? gr : r, row, inv, 1e-5);
            for (int64_t i = 0; i < n; i++) {
                int64_t c = kind ? (row * n + i) / 10 % 4 : i;
                t_near(kind ? z : y, row * n + i,
                       (x->v[row * n + i] - mean) * inv * (kind ? gg : g)->v[c] + (kind ? gb : b)->v[c], 1e-5);
            }
        }
    }
    REFUSE(161002, aclnnLayerNorm, x->acl, wrong, g->acl, b->acl, 1e-5, y->acl, m->acl, r->acl);
    REFUSE(161002, aclnnGroupNorm, x->acl, gg->acl, gb->acl, 3, 4, 10, 3, 1e-5, z->acl, gm->acl, gr->acl);
    aclDestroyIntArray(shape), aclDestroyIntArray(wrong);
    ops_end();
}

static void softmax(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    for (int t = 0; t < 3; t++)
        for (int dim = 0; dim < 3; dim++) {
            struct tensor *x = t_strided(types[t], 8, DIMS(3, 5, 40), (const int64_t[]){300, 50, 1}, 2),
                          *y = t_filled(types[t], 0, DIMS(3, 5, 40));
            struct tensor *l = t_filled(types[t], 0, DIMS(3, 5, 40));
            RUN(aclnnSoftmax, x->acl, dim - 3, y->acl);
            RUN(aclnnLogSoftmax, x->acl, dim, l->acl);
            t_read(y), t_read(l);
            int64_t step = dim == 0 ? 200 : dim == 1 ? 40 : 1, n = x->dim[dim];
            for (int64_t i = 0; i < x->n; i++) {
                int64_t first = i - i / step % n * step;
                double top = -INFINITY, sum = 0;
                for (int64_t j = 0; j < n; j++) top = fmax(top, x->v[first + j * step]);
                for (int64_t j = 0; j < n; j++) sum += exp(x->v[first + j * step] - top);
                double want = exp(x->v[i] - top) / sum;
                t_near(y, i, want, want * 60 * f32), t_near(l, i, log(want), 1e-5);
            }
            t_free_all();
        }
    struct tensor *x = t_random(ACL_FLOAT16, 1, DIMS(3, 5)), *y = t_filled(ACL_FLOAT16, 0, DIMS(3, 4)),
                  *z = t_filled(ACL_FLOAT16, 0, DIMS(3, 5)), *i = t_random(ACL_INT32, 5, DIMS(3, 5));
    REFUSE(161002, aclnnSoftmax, x->acl, 2, z->acl);
    REFUSE(161002, aclnnSoftmax, x->acl, -1, y->acl);
    REFUSE(161002, aclnnSoftmax, i->acl, -1, z->acl);
    struct tensor *wide = t_filled(ACL_FLOAT, 0, DIMS(3, 5));
    REFUSE(161002, aclnnSoftmax, x->acl, -1, wide->acl);
    REFUSE(161002, aclnnSoftmax, wide->acl, -1, z->acl);
    REFUSE(161002, aclnnLogSoftmax, x->acl, -1, wide->acl);
    ops_end();
    ops_begin("910B3,cann=9.1,strict=off"); // as products of half types
    x = t_filled(ACL_FLOAT16, 1, DIMS(3, 5)), wide = t_filled(ACL_FLOAT, 0, DIMS(3, 5)),
    z = t_filled(ACL_FLOAT16, 0, DIMS(3, 5));
    RUN(aclnnSoftmax, x->acl, -1, wide->acl);
    t_read(wide);
    for (int k = 0; k < 15; k++) t_near(wide, k, 0.2, 1e-6);
    REFUSE(161002, aclnnSoftmax, wide->acl, -1, z->acl);
    ops_end();
}

static void gates(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    for (int t = 0; t < 3; t++)
        for (int dim = 0; dim < 2; dim++) {
            struct tensor *x = t_random(types[t], 4, DIMS(6, 34)),
                          *y = dim ? t_filled(types[t], 0, DIMS(6, 17)) : t_filled(types[t], 0, DIMS(3, 34));
            struct tensor *z = dim ? t_filled(types[t], 0, DIMS(6, 17)) : t_filled(types[t], 0, DIMS(3, 34));
            struct tensor *a = dim ? t_filled(types[t], 0, DIMS(6, 17)) : t_filled(types[t], 0, DIMS(3, 34));
            RUN(aclnnSwiGlu, x->acl, dim, y->acl);
            RUN(aclnnGeGluV3, x->acl, dim, 0, false, z->acl, a->acl);
            t_read(y), t_read(z), t_read(a);
            for (int64_t i = 0; i < y->n; i++) {
                int64_t first = dim ? i / 17 * 34 + i % 17 : i, second = first + (dim ? 17 : 3 * 34);
                double u = x->v[first], w = x->v[second], want = u / (1 + exp(-u)) * w,
                       gelu = 0.5 * w * (1 + erf(w / sqrt(2)));
                t_near(y, i, want, fabs(want) * 8 * f32);
                t_near(a, i, gelu, 1e-6), t_near(z, i, gelu * u, 4e-6);
            }
            t_free_all();
        }
    struct tensor *x = t_random(ACL_BF16, 1, DIMS(4, 34)), *y = t_filled(ACL_BF16, 0, DIMS(4, 17)),
                  *w = t_filled(ACL_BF16, 0, DIMS(4, 16)),
                  *s = t_strided(ACL_BF16, 1, DIMS(4, 34), (const int64_t[]){40, 1}, 0);
    REFUSE(161002, aclnnSwiGlu, x->acl, -1, w->acl);
    REFUSE(161002, aclnnSwiGlu, s->acl, -1, y->acl);
    REFUSE(161002, aclnnSwiGlu, x->acl, 3, y->acl);
    ops_end();
    ops_begin("910A,cann=9.1");
    x = t_random(ACL_FLOAT16, 1, DIMS(4, 34)), y = t_filled(ACL_FLOAT16, 0, DIMS(4, 17));
    REFUSE(561003, aclnnSwiGlu, x->acl, -1, y->acl);
    ops_end();
}

// ---- rotary ----------------------------------------------------------------------------------------------------------

static void check_half(const struct tensor *got, const double *x, const struct tensor *c, const struct tensor *s,
                       int64_t heads) {
    int64_t d = got->dim[got->rank - 1];
    for (int64_t i = 0; i < got->n; i++) {
        int64_t row = i / d / heads, e = i % d, other = e < d / 2 ? i + d / 2 : i - d / 2;
        double a = x[i] * c->v[row * d + e], b = (e < d / 2 ? -x[other] : x[other]) * s->v[row * d + e];
        t_near(got, i, a + b, (fabs(a) + fabs(b)) * 4 * f32);
    }
}

static void rotary_pair(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    for (int t = 0; t < 3; t++)
        for (int layout = 1; layout <= 4; layout += 3) {
            int64_t d = t ? 64 : 128;
            const int64_t *q4 = (const int64_t[]){2, 3, 9, d}, *k4 = (const int64_t[]){2, 3, 3, d},
                          *c4 = (const int64_t[]){2, 3, 1, d};
            int rank = layout == 1 ? 4 : 3, skip = 4 - rank; // TND: 3 rows
            struct tensor *q = t_random(types[t], 1, rank, q4 + skip), *k = t_random(types[t], 1, rank, k4 + skip);
            struct tensor *c = t_random(types[t], 1, rank, c4 + skip), *s = t_random(types[t], 1, rank, c4 + skip);
            double qv[6 * 9 * 128], kv[6 * 3 * 128];
            memcpy(qv, q->v, (size_t)q->n * sizeof *qv), memcpy(kv, k->v, (size_t)k->n * sizeof *kv);
            if (t)
                RUN(aclnnApplyRotaryPosEmbV2, q->acl, k->acl, c->acl, s->acl, layout, (char *)"half");
            else
                RUN(aclnnApplyRotaryPosEmb, q->acl, k->acl, c->acl, s->acl, layout);
            t_read(q), t_read(k);
            check_half(q, qv, c, s, 9), check_half(k, kv, c, s, 3);
            t_free_all();
        }
    struct tensor *q = t_random(ACL_BF16, 1, DIMS(3, 9, 64)), *k = t_random(ACL_BF16, 1, DIMS(3, 3, 64)),
                  *c = t_random(ACL_BF16, 1, DIMS(3, 1, 64));
    struct tensor *c2 = t_random(ACL_BF16, 1, DIMS(2, 1, 64)), *cf = t_random(ACL_FLOAT, 1, DIMS(3, 1, 64)),
                  *ch = t_random(ACL_BF16, 1, DIMS(3, 1, 32));
    struct tensor *q96 = t_random(ACL_BF16, 1, DIMS(3, 9, 96)), *k96 = t_random(ACL_BF16, 1, DIMS(3, 3, 96)),
                  *c96 = t_random(ACL_BF16, 1, DIMS(3, 1, 96));
    struct tensor *view = t_strided(ACL_BF16, 1, DIMS(3, 9, 64), (const int64_t[]){960, 64, 1}, 0);
    REFUSE(561002, aclnnApplyRotaryPosEmbV2, q->acl, k->acl, c->acl, c->acl, 0, (char *)"half");
    REFUSE(561002, aclnnApplyRotaryPosEmbV2, q->acl, k->acl, c->acl, c->acl, 3, (char *)"half");
    REFUSE(561002, aclnnApplyRotaryPosEmbV2, q->acl, k->acl, c->acl, c->acl, 4, (char *)"interleave");
    REFUSE(561002, aclnnApplyRotaryPosEmbV2, q->acl, k->acl, c2->acl, c2->acl, 4, (char *)"half");
    REFUSE(561002, aclnnApplyRotaryPosEmbV2, q->acl, k->acl, ch->acl, ch->acl, 4, (char *)"half");
    REFUSE(561002, aclnnApplyRotaryPosEmbV2, q96->acl, k96->acl, c96->acl, c96->acl, 4, (char *)"half");
    REFUSE(161002, aclnnApplyRotaryPosEmbV2, q->acl, k->acl, cf->acl, cf->acl, 4, (char *)"half");
    REFUSE(161002, aclnnApplyRotaryPosEmbV2, view->acl, k->acl, c->acl, c->acl, 4, (char *)"half");
    REFUSE(161001, aclnnApplyRotaryPosEmbV2, q->acl, NULL, c->acl, c->acl, 4, (char *)"half");
    struct tensor *many = t_random(ACL_BF16, 1, DIMS(3, 250, 64));
    REFUSE(561002, aclnnApplyRotaryPosEmbV2, many->acl, k->acl, c->acl, c->acl, 4, (char *)"half");
    ops_end();
}

static void rotary_one(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    for (int t = 0; t < 3; t++)
        for (int mode = 0; mode < 2; mode++) {
            struct tensor *x = t_random(types[t], 1, DIMS(2, 5, 3, 16)), *c = t_random(types[t], 1, DIMS(1, 5, 1, 16)),
                          *s = t_random(types[t], 1, DIMS(1, 5, 1, 16)), *y = t_filled(types[t], 0, DIMS(2, 5, 3, 16));
            RUN(aclnnRotaryPositionEmbedding, x->acl, c->acl, s->acl, mode, y->acl);
            t_read(y);
            for (int64_t i = 0; i < x->n; i++) {
                int64_t e = i % 16, row = i / 48 % 5, other = mode ? i ^ 1 : e < 8 ? i + 8 : i - 8;
                double minus = mode ? (e % 2 ? 1 : -1) : e < 8 ? -1 : 1;
                t_near(y, i, x->v[i] * c->v[row * 16 + e] + minus * x->v[other] * s->v[row * 16 + e], 4 * f32);
            }
            t_free_all();
        }
    struct tensor *x = t_random(ACL_BF16, 1, DIMS(2, 5, 3, 16)), *c = t_random(ACL_BF16, 1, DIMS(1, 5, 1, 16)),
                  *y = t_filled(ACL_BF16, 0, DIMS(2, 5, 3, 16)), *half = t_random(ACL_BF16, 1, DIMS(1, 5, 1, 8)),
                  *c4 = t_random(ACL_BF16, 1, DIMS(1, 4, 1, 16));
    REFUSE(161002, aclnnRotaryPositionEmbedding, x->acl, c->acl, c->acl, 2, y->acl);
    REFUSE(161002, aclnnRotaryPositionEmbedding, x->acl, half->acl, half->acl, 0, y->acl);
    REFUSE(161002, aclnnRotaryPositionEmbedding, x->acl, c4->acl, c4->acl, 0, y->acl);
    // BNSD in half mode with many heads for few rows
    struct tensor *b = t_random(ACL_BF16, 1, DIMS(1, 40, 4, 32)), *bc = t_random(ACL_BF16, 1, DIMS(1, 1, 4, 32)),
                  *by = t_filled(ACL_BF16, 0, DIMS(1, 40, 4, 32));
    REFUSE(561002, aclnnRotaryPositionEmbedding, b->acl, bc->acl, bc->acl, 0, by->acl);
    ops_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rms_norm),     cmocka_unit_test(rms_norm_refused),
        cmocka_unit_test(add_rms_norm), cmocka_unit_test(layer_and_group_norm),
        cmocka_unit_test(softmax),      cmocka_unit_test(gates),
        cmocka_unit_test(rotary_pair),  cmocka_unit_test(rotary_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
