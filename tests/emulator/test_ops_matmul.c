// Matrix products of the emulator against a loop in double, with the bound of an F32 sum and one rounding.
#include "tests/emulator/ops_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// out = beta * add + alpha * a @ b over (broadcast) batches; bound: (k + 40) half steps of F32 on the absolute sum.
static void check(struct tensor *out, const struct tensor *a, const struct tensor *b, double alpha, double beta,
                  const double *add) {
    int64_t m = a->dim[a->rank - 2], k = a->dim[a->rank - 1], n = b->dim[b->rank - 1], batches = out->n / (m * n);
    t_read(out);
    for (int64_t x = 0; x < batches; x++) {
        int64_t xa = x % (a->n / (m * k)), xb = x % (b->n / (k * n));
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0, size = 0;
                for (int64_t l = 0; l < k; l++) {
                    double p = a->v[(xa * m + i) * k + l] * b->v[(xb * k + l) * n + j];
                    sum += p, size += fabs(p);
                }
                int64_t at = (x * m + i) * n + j;
                double want = alpha * sum + (add ? beta * add[at] : 0);
                t_near(out, at, want, (double)(k + 40) * 0x1p-24 * (fabs(alpha) * size + fabs(want)));
            }
    }
}

// Makes the first and the last row alike, and all of the middle ones alike.
static void repeat_rows(struct tensor *a) {
    int64_t k = a->dim[1];
    for (int64_t i = 2; i < a->dim[0]; i++)
        memcpy(a->v + i * k, a->v + (i + 1 == a->dim[0] ? 0 : k), (size_t)k * sizeof *a->v);
    t_write(a);
}

static const aclDataType types[3] = {ACL_FLOAT16, ACL_BF16, ACL_FLOAT};

static void products(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 64, 33}, {3, 576, 65}, {17, 100, 7}, {64, 96, 40}, {2, 1, 3}, {5, 1030, 1}};
    ops_begin("910B3,cann=9.1");
    for (int t = 0; t < 3; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int turned = 0; turned < 2; turned++) {
                int64_t m = shapes[s][0], k = shapes[s][1], n = shapes[s][2];
                struct tensor *a = t_random(types[t], 1, DIMS(m, k));
                struct tensor *b = turned ? t_turned(types[t], 1, DIMS(k, n)) : t_random(types[t], 1, DIMS(k, n));
                struct tensor *out = t_filled(types[t], 0, DIMS(m, n));
                if (s % 2) repeat_rows(a);
                RUN(aclnnMm, a->acl, b->acl, out->acl, 0);
                check(out, a, b, 1, 0, NULL);
                RUN(aclnnMatmul, a->acl, b->acl, out->acl, 0);
                check(out, a, b, 1, 0, NULL);
                t_free_all();
            }
    ops_end();
}

static void strides_and_batches(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    // rows of a wider matrix, at an offset; a turned; the result in every second column
    struct tensor *a = t_strided(ACL_BF16, 1, DIMS(5, 48), (const int64_t[]){100, 1}, 7);
    struct tensor *b = t_strided(ACL_BF16, 1, DIMS(48, 9), (const int64_t[]){20, 2}, 3);
    struct tensor *out = t_strided(ACL_BF16, 0, DIMS(5, 9), (const int64_t[]){18, 2}, 0);
    RUN(aclnnMatmul, a->acl, b->acl, out->acl, 0);
    check(out, a, b, 1, 0, NULL);
    struct tensor *c = t_turned(ACL_BF16, 1, DIMS(48, 5)),
                  *d = t_strided(ACL_BF16, 1, DIMS(5, 48), (const int64_t[]){1, 5}, 0);
    struct tensor *e = t_filled(ACL_BF16, 0, DIMS(5, 5));
    RUN(aclnnMatmul, d->acl, c->acl, e->acl, 0);
    check(e, d, c, 1, 0, NULL);
    struct tensor *p = t_random(ACL_FLOAT16, 1, DIMS(4, 3, 32)), *q = t_turned(ACL_FLOAT16, 1, DIMS(4, 32, 6));
    struct tensor *r = t_filled(ACL_FLOAT16, 0, DIMS(4, 3, 6)), *one = t_random(ACL_FLOAT16, 1, DIMS(1, 32, 6));
    RUN(aclnnBatchMatMul, p->acl, q->acl, r->acl, 0);
    check(r, p, q, 1, 0, NULL);
    RUN(aclnnBatchMatMul, p->acl, one->acl, r->acl, 0);
    check(r, p, one, 1, 0, NULL);
    struct tensor *two = t_random(ACL_FLOAT16, 1, DIMS(32, 6)); // 3-D times 2-D
    RUN(aclnnMatmul, p->acl, two->acl, r->acl, 0);
    check(r, p, two, 1, 0, NULL);
    struct tensor *mv = t_filled(ACL_FLOAT16, 0, DIMS(5)), *ma = t_turned(ACL_FLOAT16, 1, DIMS(5, 32)),
                  *vec = t_random(ACL_FLOAT16, 1, DIMS(32));
    RUN(aclnnMv, ma->acl, vec->acl, mv->acl, 1);
    t_read(mv);
    for (int i = 0; i < 5; i++) {
        double sum = 0;
        for (int l = 0; l < 32; l++) sum += ma->v[i * 32 + l] * vec->v[l];
        t_near(mv, i, sum, 1e-4);
    }
    struct tensor *v = t_random(ACL_FLOAT16, 1, DIMS(6)), *w = t_filled(ACL_FLOAT16, 0, DIMS(4, 3));
    RUN(aclnnMatmul, r->acl, v->acl, w->acl, 0);
    t_read(w), t_read(r);
    for (int i = 0; i < 12; i++) {
        double sum = 0;
        for (int l = 0; l < 6; l++) sum += r->v[i * 6 + l] * v->v[l];
        t_near(w, i, sum, 1e-4);
    }
    ops_end();
}

static void with_addend(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    aclScalar *alpha = t_scalar(0.5), *beta = t_scalar(2), *none = t_scalar(0);
    for (int t = 0; t < 3; t++) {
        struct tensor *a = t_random(types[t], 1, DIMS(6, 50)), *b = t_turned(types[t], 1, DIMS(50, 11));
        repeat_rows(a);
        struct tensor *row = t_random(types[t], 1, DIMS(11)), *out = t_filled(types[t], 0, DIMS(6, 11));
        double add[66];
        for (int i = 0; i < 66; i++) add[i] = row->v[i % 11];
        RUN(aclnnAddmm, row->acl, a->acl, b->acl, beta, alpha, out->acl, 0);
        check(out, a, b, 0.5, 2, add);
        for (int i = 0; i < 66; i++) add[i] = out->v[i] = 1.0 / (i + 1);
        for (int i = 0; i < 66; i++) add[i] = out->v[i] = t_round(types[t], add[i]);
        t_write(out);
        RUN(aclnnInplaceAddmm, out->acl, a->acl, b->acl, beta, alpha, 0);
        check(out, a, b, 0.5, 2, add);
        for (int i = 0; i < 66; i++) out->v[i] = NAN; // a beta of 0 does not look
        t_write(out);
        RUN(aclnnInplaceAddmm, out->acl, a->acl, b->acl, none, alpha, 0);
        check(out, a, b, 0.5, 0, NULL);
    }
    aclDestroyScalar(alpha), aclDestroyScalar(beta), aclDestroyScalar(none);
    ops_end();
}

// The weight of a linear layer (n, k), converted in place, multiplied as its transposed view: what ggml does.
static void nz_in_place(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    for (int t = 0; t < 2; t++) {
        int64_t n = 40, k = 50;
        uint64_t elements = 0;
        aclIntArray *shape = t_ints(2, (const int64_t[]){n, k});
        assert_int_equal(aclnnCalculateMatmulWeightSizeV2(shape, types[t], &elements), 0);
        assert_int_equal(elements, 48 * 64);
        assert_int_equal(aclnnCalculateMatmulWeightSizeV2(shape, ACL_FLOAT, &elements), 161002);
        assert_int_equal(aclnnCalculateMatmulWeightSize(NULL, &elements), 161001);
        aclDestroyIntArray(shape);
        struct tensor *w =
            t_random(types[t], 1, DIMS(48, 64)); // room for the padding; the matrix itself is dense at its start
        struct tensor *a = t_random(types[t], 1, DIMS(3, k)), *out = t_filled(types[t], 0, DIMS(3, n));
        aclTensor *dense =
            aclCreateTensor((const int64_t[]){n, k}, 2, types[t], NULL, 0, ACL_FORMAT_ND, &w->storage, 1, w->device);
        aclTensor *nz = aclCreateTensor((const int64_t[]){k, n}, 2, types[t], (const int64_t[]){1, k}, 0,
                                        ACL_FORMAT_FRACTAL_NZ, &w->storage, 1, w->device);
        RUN(aclnnTransMatmulWeight, dense);
        struct tensor b = {.dtype = types[t], .rank = 2, .dim = {k, n}, .n = k * n};
        b.v = malloc((size_t)b.n * sizeof *b.v);
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < n; j++) b.v[i * n + j] = w->v[j * k + i];
        RUN(aclnnMm, a->acl, nz, out->acl, 0);
        check(out, a, &b, 1, 0, NULL);
        double *first = malloc(sizeof *first * (size_t)w->n);
        memcpy(first, w->v, sizeof *first * (size_t)w->n);
        t_read(w); // element (r, c) at [c / 16][r / 16][r % 16][c % 16], zeros behind
        for (int64_t r = 0; r < 48; r++)
            for (int64_t c = 0; c < 64; c++)
                assert_true(w->v[((c / 16 * 3 + r / 16) * 16 + r % 16) * 16 + c % 16] ==
                            (r < n && c < k ? first[r * k + c] : 0));
        free(b.v), free(first);
        aclDestroyTensor(dense), aclDestroyTensor(nz);
    }
    ops_end();
}

// The padding is written and read, too: it must be there, and nobody else may use it meanwhile.
static void nz_padding(void **state) {
    (void)state;
    enum { N = 40, K = 50, ALL = 48 * 64 };
    const int64_t all[1] = {ALL}, dense[1] = {N * K}, wide[2] = {64, 1};
    ops_begin("910B3,cann=9.1");
    struct tensor *tight = t_random(ACL_BF16, 1, DIMS(N, K)), *w = t_filled(ACL_BF16, 0, DIMS(ALL)),
                  *strided = t_strided(ACL_BF16, 1, DIMS(N, K), wide, 0), *a = t_random(ACL_BF16, 1, DIMS(3, K)),
                  *out = t_filled(ACL_BF16, 0, DIMS(3, N)), *row = t_filled(ACL_BF16, 0, DIMS(N));
    assert_int_equal(RUN_CODE(aclnnTransMatmulWeight, tight->acl), 507055);
    assert_string_equal(tally_emu_last_rule(), "out_of_bounds");
    REFUSE(161002, aclnnTransMatmulWeight, strided->acl);
    aclTensor *matrix =
        aclCreateTensor((const int64_t[]){N, K}, 2, ACL_BF16, NULL, 0, ACL_FORMAT_ND, dense, 1, w->device);
    assert_int_equal(aclnnTransMatmulWeightGetWorkspaceSize(matrix, &ops_ws, &ops_executor), 0);
    void *ws;
    assert_int_equal(aclrtMalloc(&ws, ops_ws, ACL_MEM_MALLOC_HUGE_FIRST), 0);
    assert_int_equal(aclnnTransMatmulWeight(ws, ops_ws, ops_executor, ops_stream), 0);
    assert_int_equal(aclrtMemset(w->device + ALL * 2 - 32, 32, 0, 32), 507055);
    assert_string_equal(tally_emu_last_rule(), "host_race");
    assert_int_equal(aclrtSynchronizeStream(ops_stream), 0);
    assert_int_equal(aclrtFree(ws), 0);
    aclTensor *nz[2];
    for (int i = 0; i < 2; i++)
        nz[i] = aclCreateTensor((const int64_t[]){K, N}, 2, ACL_BF16, (const int64_t[]){1, K}, 0, ACL_FORMAT_FRACTAL_NZ,
                                i ? all : dense, 1, w->device);
    REFUSE(161002, aclnnMm, a->acl, nz[0], out->acl, 0);
    RUN(aclnnMm, a->acl, nz[1], out->acl, 0);
    aclScalar *one = t_scalar(1);
    REFUSE(161002, aclnnAddmm, row->acl, a->acl, nz[1], one, one, out->acl, 0);
    REFUSE(161002, aclnnInplaceAddmm, out->acl, a->acl, nz[1], one, one, 0);
    aclDestroyScalar(one);
    aclDestroyTensor(matrix), aclDestroyTensor(nz[0]), aclDestroyTensor(nz[1]);
    ops_end();
    ops_begin("910B3,cann=9.1,strict=off"); // a storage shape without the padding passes, memory without it does not
    w = t_filled(ACL_BF16, 0, DIMS(ALL)), tight = t_filled(ACL_BF16, 0, DIMS(N, K)),
    a = t_random(ACL_BF16, 1, DIMS(3, K)), out = t_filled(ACL_BF16, 0, DIMS(3, N));
    for (int i = 0; i < 2; i++)
        nz[i] = aclCreateTensor((const int64_t[]){K, N}, 2, ACL_BF16, (const int64_t[]){1, K}, 0, ACL_FORMAT_FRACTAL_NZ,
                                dense, 1, i ? w->device : tight->device);
    assert_int_equal(RUN_CODE(aclnnMm, a->acl, nz[0], out->acl, 0), 507055);
    RUN(aclnnMm, a->acl, nz[1], out->acl, 0);
    aclDestroyTensor(nz[0]), aclDestroyTensor(nz[1]);
    ops_end();
}

static void nz_by_cast(void **state) {
    (void)state;
    ops_begin("910_9382,cann=9.1");
    int64_t k = 33, n = 48;
    struct tensor *w = t_random(ACL_BF16, 1, DIMS(k, n)), *a = t_random(ACL_BF16, 1, DIMS(4, k)),
                  *out = t_filled(ACL_BF16, 0, DIMS(4, n));
    int64_t *shape = NULL;
    uint64_t rank = 0;
    int format = 0;
    assert_int_equal(
        aclnnNpuFormatCastCalculateSizeAndFormat(w->acl, ACL_FORMAT_FRACTAL_NZ, -1, &shape, &rank, &format), 0);
    assert_int_equal(rank, 4);
    assert_int_equal(format, 29);
    assert_true(shape[0] == 3 && shape[1] == 3 && shape[2] == 16 && shape[3] == 16);
    struct tensor *room = t_filled(ACL_BF16, 9, DIMS(3, 3, 16, 16));
    aclTensor *nz = aclCreateTensor(w->dim, 2, ACL_BF16, NULL, 0, ACL_FORMAT_FRACTAL_NZ, shape, rank, room->device);
    RUN(aclnnNpuFormatCast, w->acl, nz);
    RUN(aclnnMatmulWeightNz, a->acl, nz, out->acl, 0);
    check(out, a, w, 1, 0, NULL);
    // and a batch of them
    struct tensor *wb = t_random(ACL_BF16, 1, DIMS(2, k, n)), *rb = t_filled(ACL_BF16, 9, DIMS(2, 3, 3, 16, 16)),
                  *ab = t_random(ACL_BF16, 1, DIMS(2, 4, k)), *ob = t_filled(ACL_BF16, 0, DIMS(2, 4, n));
    aclTensor *nzb = aclCreateTensor(wb->dim, 3, ACL_BF16, NULL, 0, ACL_FORMAT_FRACTAL_NZ, rb->dim, 5, rb->device);
    RUN(aclnnNpuFormatCast, wb->acl, nzb);
    RUN(aclnnBatchMatMulWeightNz, ab->acl, nzb, ob->acl, 0);
    check(ob, ab, wb, 1, 0, NULL);
    aclDestroyTensor(nzb);
    struct tensor *back = t_filled(ACL_BF16, 0, DIMS(k, n));
    RUN(aclnnNpuFormatCast, nz, back->acl);
    t_read(back);
    for (int64_t i = 0; i < back->n; i++) assert_true(back->v[i] == w->v[i]);
    REFUSE(161002, aclnnMatmulWeightNz, a->acl, w->acl, out->acl, 0);
    REFUSE(161002, aclnnNpuFormatCast, w->acl, back->acl);
    aclTensor *flat =
        aclCreateTensor(w->dim, 2, ACL_BF16, NULL, 0, ACL_FORMAT_FRACTAL_NZ, &w->storage, 1, room->device);
    REFUSE(161002, aclnnNpuFormatCast, w->acl, flat); // of 33 rows, which are padded to 48
    aclDestroyTensor(flat);
    free(shape);
    aclDestroyTensor(nz);
    // the wrong storage shape
    nz = aclCreateTensor(w->dim, 2, ACL_BF16, NULL, 0, ACL_FORMAT_FRACTAL_NZ, (const int64_t[]){3, 2, 16, 16}, 4,
                         room->device);
    REFUSE(161002, aclnnMm, a->acl, nz, out->acl, 0);
    aclDestroyTensor(nz);
    ops_end();
}

static void precision(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct tensor *a = t_filled(ACL_FLOAT, 1 + 0x1p-13, DIMS(1, 1)), *b = t_filled(ACL_FLOAT, 1, DIMS(1, 1)),
                  *out = t_filled(ACL_FLOAT, 0, DIMS(1, 1));
    static const double want[4] = {1 + 0x1p-13, 1, 1, 1}; // keep, HF32, FP16, HF32: all but the first drop the 13th bit
    for (int8_t cube = 0; cube < 4; cube++) {
        RUN(aclnnMm, a->acl, b->acl, out->acl, cube);
        t_read(out);
        assert_true(out->v[0] == want[cube]);
    }
    // half inputs overflow at the output only: 300 * 300 fits F32
    struct tensor *x = t_filled(ACL_FLOAT16, 300, DIMS(1, 2)),
                  *y = t_given(ACL_FLOAT16, (const double[]){300, -300}, DIMS(2, 1)),
                  *z = t_filled(ACL_FLOAT16, 1, DIMS(1, 1));
    RUN(aclnnMm, x->acl, y->acl, z->acl, 0);
    t_read(z);
    assert_true(z->v[0] == 0);
    struct tensor *big = t_filled(ACL_FLOAT16, 300, DIMS(2, 1));
    RUN(aclnnMm, x->acl, big->acl, z->acl, 0);
    t_read(z);
    assert_true(isinf(z->v[0]));
    ops_end();
}

static void refused(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    struct tensor *a = t_random(ACL_FLOAT16, 1, DIMS(2, 16)), *b = t_random(ACL_FLOAT16, 1, DIMS(16, 3)),
                  *out = t_filled(ACL_FLOAT16, 0, DIMS(2, 3));
    struct tensor *bf = t_random(ACL_BF16, 1, DIMS(16, 3)), *f = t_random(ACL_FLOAT, 1, DIMS(16, 3)),
                  *fo = t_filled(ACL_FLOAT, 0, DIMS(2, 3));
    struct tensor *i = t_random(ACL_INT32, 9, DIMS(16, 3)), *b3 = t_random(ACL_FLOAT16, 1, DIMS(1, 16, 3)),
                  *odd = t_random(ACL_FLOAT16, 1, DIMS(15, 3));
    struct tensor *wide = t_filled(ACL_FLOAT16, 0, DIMS(2, 4));
    REFUSE(161001, aclnnMm, NULL, b->acl, out->acl, 0);
    REFUSE(161001, aclnnMm, a->acl, NULL, out->acl, 0);
    REFUSE(161001, aclnnMm, a->acl, b->acl, NULL, 0);
    REFUSE(161002, aclnnMm, a->acl, bf->acl, out->acl, 0);
    REFUSE(161002, aclnnMm, a->acl, i->acl, out->acl, 0);
    REFUSE(161002, aclnnMm, a->acl, b3->acl, out->acl, 0);
    REFUSE(161002, aclnnMm, a->acl, odd->acl, out->acl, 0);
    REFUSE(161002, aclnnMm, a->acl, b->acl, wide->acl, 0);
    REFUSE(161002, aclnnMm, a->acl, b->acl, fo->acl, 0);
    REFUSE(161002, aclnnMm, a->acl, b->acl, out->acl, 9);
    REFUSE(161002, aclnnBatchMatMul, a->acl, b->acl, out->acl, 0);
    RUN(aclnnMm, a->acl, f->acl, fo->acl, 0); // FP16 with FP32 is promoted
    ops_end();
    ops_begin("910B3,cann=9.1,strict=off"); // a wide result of half types, as ggml wants it
    a = t_random(ACL_FLOAT16, 1, DIMS(2, 16)), b = t_random(ACL_FLOAT16, 1, DIMS(16, 3)),
    out = t_filled(ACL_FLOAT, 0, DIMS(2, 3));
    RUN(aclnnMm, a->acl, b->acl, out->acl, 0);
    check(out, a, b, 1, 0, NULL);
    ops_end();
    ops_begin("910A,cann=9.1");
    a = t_random(ACL_FLOAT, 1, DIMS(2, 16)), b = t_random(ACL_FLOAT, 1, DIMS(16, 3)),
    out = t_filled(ACL_FLOAT, 0, DIMS(2, 3));
    REFUSE(161002, aclnnMm, a->acl, b->acl, out->acl, 0);
    REFUSE(161002, aclnnMm, a->acl, b->acl, out->acl, 3);
    RUN(aclnnMm, a->acl, b->acl, out->acl, 1);
    struct tensor *h = t_random(ACL_BF16, 1, DIMS(2, 16)), *hb = t_random(ACL_BF16, 1, DIMS(16, 3)),
                  *ho = t_filled(ACL_BF16, 0, DIMS(2, 3));
    REFUSE(161002, aclnnMm, h->acl, hb->acl, ho->acl, 0);
    struct tensor *w = t_random(ACL_FLOAT16, 1, DIMS(16, 16));
    REFUSE(561003, aclnnTransMatmulWeight, w->acl);
    ops_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),    cmocka_unit_test(strides_and_batches),
        cmocka_unit_test(with_addend), cmocka_unit_test(nz_in_place),
        cmocka_unit_test(nz_padding),  cmocka_unit_test(nz_by_cast),
        cmocka_unit_test(precision),   cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
