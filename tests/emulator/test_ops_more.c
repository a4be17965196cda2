// Windows, quantised weights, triangular systems, cross entropy.
#include "tests/emulator/ops_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void pooling(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct tensor *x = t_random(ACL_FLOAT, 1, DIMS(2, 3, 7, 9)), *a = t_filled(ACL_FLOAT, 0, DIMS(2, 3, 4, 5)),
                  *m = t_filled(ACL_FLOAT, 0, DIMS(2, 3, 3, 4)), *c = t_filled(ACL_FLOAT, 0, DIMS(2, 18, 20));
    aclIntArray *k = t_ints(2, (const int64_t[]){3, 2}), *s = t_ints(2, (const int64_t[]){2, 2}),
                *p = t_ints(2, (const int64_t[]){1, 1}), *none = t_ints(4, (const int64_t[]){0, 0, 0, 0}),
                *one = t_ints(2, (const int64_t[]){1, 1}), *some = t_ints(4, (const int64_t[]){1, 0, 0, 0});
    for (int padded = 0; padded < 2; padded++) {
        RUN(aclnnAvgPool2d, x->acl, k, s, p, false, padded, 0, 0, a->acl);
        t_read(a);
        for (int i = 0; i < a->n; i++) {
            double sum = 0, inside = 0;
            for (int y = 0; y < 3; y++)
                for (int z = 0; z < 2; z++) {
                    int r = i / 5 % 4 * 2 - 1 + y, q = i % 5 * 2 - 1 + z;
                    if (r < 0 || r >= 7 || q < 0 || q >= 9) continue;
                    sum += x->v[i / 20 * 63 + r * 9 + q], inside++;
                }
            t_near(a, i, sum / (padded ? 6 : inside), 1e-6);
        }
    }
    RUN(aclnnMaxPool, x->acl, k, s, 0, none, one, 0, m->acl);
    RUN(aclnnIm2col, x->acl, k, one, p, s, c->acl);
    t_read(m), t_read(c);
    for (int i = 0; i < m->n; i++) {
        double top = -9;
        for (int y = 0; y < 3; y++)
            for (int z = 0; z < 2; z++) top = fmax(top, x->v[i / 12 * 63 + (i / 4 % 3 * 2 + y) * 9 + i % 4 * 2 + z]);
        assert_true(m->v[i] == top);
    }
    for (int i = 0; i < c->n; i++) {
        int ch = i / 20 % 18 / 6, tap = i / 20 % 6, r = i % 20 / 5 * 2 - 1 + tap / 2, q = i % 5 * 2 - 1 + tap % 2;
        assert_true(c->v[i] == (r < 0 || r >= 7 || q < 0 || q >= 9 ? 0 : x->v[((i / 360) * 3 + ch) * 63 + r * 9 + q]));
    }
    REFUSE(161002, aclnnMaxPool, x->acl, k, s, 0, some, one, 0, m->acl);
    REFUSE(161002, aclnnAvgPool2d, x->acl, k, s, p, true, true, 0, 0, a->acl);
    REFUSE(161002, aclnnAvgPool2d, x->acl, k, s, p, false, true, 0, 0, m->acl);
    REFUSE(161002, aclnnIm2col, x->acl, k, one, p, s, m->acl);
    aclIntArray *all[] = {k, s, p, none, one, some};
    for (int i = 0; i < 6; i++) aclDestroyIntArray(all[i]);
    ops_end();
}

static void convolution(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    aclIntArray *s = t_ints(2, (const int64_t[]){2, 1}), *p = t_ints(2, (const int64_t[]){1, 0}),
                *d = t_ints(2, (const int64_t[]){1, 2}), *s1 = t_ints(1, (const int64_t[]){2}),
                *p1 = t_ints(1, (const int64_t[]){1}), *d1 = t_ints(1, (const int64_t[]){1}),
                *o1 = t_ints(1, (const int64_t[]){0});
    struct tensor *x = t_random(ACL_FLOAT, 1, DIMS(2, 4, 7, 9)), *w = t_random(ACL_FLOAT, 1, DIMS(6, 2, 3, 3)),
                  *b = t_random(ACL_FLOAT, 1, DIMS(6)), *o = t_filled(ACL_FLOAT, 0, DIMS(2, 6, 4, 5));
    RUN(aclnnConvolution, x->acl, w->acl, b->acl, s, p, d, false, p, 2, o->acl, 0);
    t_read(o);
    for (int i = 0; i < o->n; i++) {
        int n = i / 120, c = i / 20 % 6, r = i / 5 % 4, q = i % 5;
        double sum = b->v[c];
        for (int j = 0; j < 2; j++)
            for (int y = 0; y < 3; y++)
                for (int z = 0; z < 3; z++) {
                    int row = r * 2 - 1 + y, col = q + 2 * z;
                    if (row < 0 || row >= 7) continue;
                    sum += x->v[((n * 4 + c / 3 * 2 + j) * 7 + row) * 9 + col] * w->v[((c * 2 + j) * 3 + y) * 3 + z];
                }
        t_near(o, i, sum, 1e-5);
    }
    REFUSE(161002, aclnnConvolution, x->acl, w->acl, b->acl, s, p, d, false, p, 3, o->acl, 0);
    REFUSE(161002, aclnnConvolution, x->acl, w->acl, b->acl, s1, p, d, false, p, 2, o->acl, 0);
    // transposed, along a line: scatter
    struct tensor *l = t_random(ACL_FLOAT, 1, DIMS(1, 3, 6)), *lw = t_random(ACL_FLOAT, 1, DIMS(3, 2, 4)),
                  *lo = t_filled(ACL_FLOAT, 0, DIMS(1, 2, 12));
    RUN(aclnnConvolution, l->acl, lw->acl, NULL, s1, p1, d1, true, o1, 1, lo->acl, 0);
    double want[24] = {0};
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 6; i++)
            for (int out = 0; out < 2; out++)
                for (int k = 0; k < 4; k++) {
                    int at = i * 2 + k - 1;
                    if (at >= 0 && at < 12) want[out * 12 + at] += l->v[c * 6 + i] * lw->v[(c * 2 + out) * 4 + k];
                }
    t_read(lo);
    for (int i = 0; i < 24; i++) t_near(lo, i, want[i], 1e-5);
    aclIntArray *all[] = {s, p, d, s1, p1, d1, o1};
    for (int i = 0; i < 7; i++) aclDestroyIntArray(all[i]);
    ops_end();
}

static void quantised(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    enum { M = 3, K = 96, N = 10, G = 32 };
    struct tensor *x = t_random(ACL_FLOAT16, 1, DIMS(M, K)), *w8 = t_filled(ACL_INT8, 0, DIMS(N, K)),
                  *y = t_filled(ACL_FLOAT16, 0, DIMS(M, N));
    struct tensor *s = t_random(ACL_FLOAT16, 0.1, DIMS(K / G, N)), *z = t_random(ACL_FLOAT16, 2, DIMS(K / G, N)),
                  *one = t_random(ACL_FLOAT16, 0.1, DIMS(N)), *bytes = t_filled(ACL_INT8, 0, DIMS(N, K / 2)),
                  *sf = t_random(ACL_FLOAT, 1, DIMS(N)), *b = t_random(ACL_FLOAT16, 1, DIMS(N));
    double w4[N * K];
    for (int i = 0; i < N * K; i++) w8->v[i] = floor(ops_random() * 255) - 127, w4[i] = floor(ops_random() * 16) - 8;
    for (int i = 0; i < N * K / 2; i++) { // the low nibble is the first
        int byte = ((int)w4[2 * i] & 15) | ((int)w4[2 * i + 1] & 15) << 4;
        bytes->v[i] = byte > 127 ? byte - 256 : byte;
    }
    t_write(w8), t_write(bytes);
    aclTensor *t8 = aclCreateTensor((const int64_t[]){K, N}, 2, ACL_INT8, (const int64_t[]){1, K}, 0, ACL_FORMAT_ND,
                                    &w8->storage, 1, w8->device);
    const int64_t nibbles = N * K;
    aclTensor *t4 = aclCreateTensor((const int64_t[]){K, N}, 2, ACL_INT4, (const int64_t[]){1, K}, 0, ACL_FORMAT_ND,
                                    &nibbles, 1, bytes->device);
    for (int four = 0; four < 2; four++)
        for (int grouped = 0; grouped < 2; grouped++) {
            RUN(aclnnWeightQuantBatchMatmulV2, x->acl, four ? t4 : t8, grouped ? s->acl : one->acl,
                grouped ? z->acl : NULL, NULL, NULL, b->acl, grouped ? G : 0, y->acl);
            t_read(y);
            for (int i = 0; i < M * N; i++) {
                int n = i % N;
                double sum = b->v[n], size = 0;
                for (int k = 0; k < K; k++) {
                    double q = four ? w4[n * K + k] : w8->v[n * K + k];
                    q = t_round(ACL_FLOAT16, grouped ? (q + z->v[k / G * N + n]) * s->v[k / G * N + n] : q * one->v[n]);
                    sum += q * x->v[i / N * K + k], size += fabs(q * x->v[i / N * K + k]);
                }
                t_near(y, i, sum, size * 0x1p-11 * 0.02 + size * 0x1p-17);
            }
        }
    REFUSE(161002, aclnnWeightQuantBatchMatmulV2, x->acl, t8, s->acl, NULL, NULL, NULL, NULL, 31, y->acl);
    REFUSE(161002, aclnnWeightQuantBatchMatmulV2, x->acl, t8, s->acl, NULL, NULL, NULL, NULL, 0, y->acl);
    REFUSE(161002, aclnnWeightQuantBatchMatmulV2, x->acl, t8, sf->acl, NULL, NULL, NULL, NULL, 0, y->acl);
    REFUSE(161002, aclnnWeightQuantBatchMatmulV2, x->acl, t8, one->acl, NULL, one->acl, NULL, NULL, 0, y->acl);
    REFUSE(161002, aclnnWeightQuantBatchMatmulV2, x->acl, w8->acl, one->acl, NULL, NULL, NULL, NULL, 0, y->acl);
    aclDestroyTensor(t8), aclDestroyTensor(t4);
    ops_end();
}

static void systems(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    for (int kind = 0; kind < 8; kind++) {
        bool upper = kind & 1, turned = kind >> 1 & 1, unit = kind >> 2 & 1;
        struct tensor *a = t_random(ACL_FLOAT, 0.5, DIMS(2, 5, 5)), *b = t_random(ACL_FLOAT, 1, DIMS(2, 5, 3)),
                      *x = t_filled(ACL_FLOAT, 0, DIMS(2, 5, 3)), *m = t_filled(ACL_FLOAT, 0, DIMS(2, 5, 5));
        for (int i = 0; i < 10; i++) a->v[i / 5 * 25 + i % 5 * 6] = 3 + i;
        t_write(a);
        RUN(aclnnTriangularSolve, b->acl, a->acl, upper, turned, unit, x->acl, m->acl);
        t_read(x), t_read(m);
        for (int i = 0; i < 30; i++) { // A x = b again
            int g = i / 15, r = i / 3 % 5, c = i % 3;
            double sum = 0;
            for (int k = 0; k < 5; k++) {
                int row = turned ? k : r, col = turned ? r : k;
                double v = row == col && unit                  ? 1
                           : (upper ? col >= row : col <= row) ? a->v[g * 25 + row * 5 + col]
                                                               : 0;
                sum += v * x->v[g * 15 + k * 3 + c];
            }
            assert_true(fabs(sum - b->v[i]) < 1e-4);
        }
        for (int i = 0; i < 50; i++)
            assert_true(m->v[i] == ((upper ? i % 5 >= i / 5 % 5 : i % 5 <= i / 5 % 5) ? a->v[i] : 0));
        REFUSE(161002, aclnnTriangularSolve, b->acl, b->acl, upper, turned, unit, x->acl, b->acl);
        t_free_all();
    }
    ops_end();
}

static void cross_entropy(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct tensor *x = t_random(ACL_FLOAT, 3, DIMS(4, 30)), *l = t_random(ACL_FLOAT, 1, DIMS(4, 30)),
                  *loss = t_filled(ACL_FLOAT, 0, DIMS(4)), *back = t_filled(ACL_FLOAT, 0, DIMS(4, 30));
    RUN(aclnnSoftmaxCrossEntropyWithLogits, x->acl, l->acl, loss->acl, back->acl);
    t_read(loss), t_read(back);
    for (int r = 0; r < 4; r++) {
        double sum = 0, want = 0;
        for (int i = 0; i < 30; i++) sum += exp(x->v[r * 30 + i]);
        for (int i = 0; i < 30; i++) {
            want -= l->v[r * 30 + i] * (x->v[r * 30 + i] - log(sum));
            t_near(back, r * 30 + i, exp(x->v[r * 30 + i]) / sum - l->v[r * 30 + i], 1e-6);
        }
        t_near(loss, r, want, 1e-4);
    }
    REFUSE(161002, aclnnSoftmaxCrossEntropyWithLogits, x->acl, l->acl, back->acl, back->acl);
    ops_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pooling), cmocka_unit_test(convolution),
                                       cmocka_unit_test(quantised), cmocka_unit_test(systems),
                                       cmocka_unit_test(cross_entropy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
