// The order of sums: equal signatures give equal bits, whatever else is in the call; other signatures, other seeds often do not;
// with perturbation off the order is one.
#include "tests/emulator/ops_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { K = 576, N = 48 };
static double row_x[K], weight[K * N];

static void data(void) {
    for (int i = 0; i < K; i++) row_x[i] = t_round(ACL_FLOAT, 2 * ops_random() - 1);
    for (int i = 0; i < K * N; i++) weight[i] = t_round(ACL_FLOAT, 2 * ops_random() - 1);
}

// Row `at` of x among `m` is row_x, the others are random.
static struct tensor *rows(int64_t m, int64_t at, int64_t n) {
    struct tensor *x = t_random(ACL_FLOAT, 1, DIMS(m, n));
    memcpy(x->v + at * n, row_x, (size_t)n * sizeof *row_x);
    t_write(x);
    return x;
}

typedef int64_t operator(int64_t m, int64_t at, double *out); // out: the numbers of that row; their count

static int64_t product(int64_t m, int64_t at, double *out) {
    struct tensor *x = rows(m, at, K), *w = t_given(ACL_FLOAT, weight, DIMS(K, N)),
                  *y = t_filled(ACL_FLOAT, 0, DIMS(m, N));
    RUN(aclnnMatmul, x->acl, w->acl, y->acl, 0);
    t_read(y);
    memcpy(out, y->v + at * N, N * sizeof *out);
    return N;
}
static int64_t grouped(int64_t m, int64_t at, double *out) {
    struct tensor *x = rows(m, at, K), *w = t_given(ACL_FLOAT, weight, DIMS(1, K, N)),
                  *y = t_filled(ACL_FLOAT, 0, DIMS(m, N)), *l = t_filled(ACL_INT64, (double)m, DIMS(1));
    aclTensorList *xs = t_list(1, &x), *ws = t_list(1, &w), *ys = t_list(1, &y);
    RUN(aclnnGroupedMatmulV4, xs, ws, NULL, NULL, NULL, NULL, NULL, NULL, l->acl, NULL, NULL, NULL, 2, 0, 1, 0, ys,
        NULL, NULL);
    t_read(y);
    memcpy(out, y->v + at * N, N * sizeof *out);
    aclDestroyTensorList(xs), aclDestroyTensorList(ws), aclDestroyTensorList(ys);
    return N;
}
static int64_t norm(int64_t m, int64_t at, double *out) {
    struct tensor *x = rows(m, at, K), *g = t_filled(ACL_FLOAT, 1, DIMS(K)), *y = t_filled(ACL_FLOAT, 0, DIMS(m, K)),
                  *r = t_filled(ACL_FLOAT, 0, DIMS(m, 1));
    RUN(aclnnRmsNorm, x->acl, g->acl, 1e-5, y->acl, r->acl);
    t_read(y);
    memcpy(out, y->v + at * K, K * sizeof *out);
    return K;
}
static int64_t softmax(int64_t m, int64_t at, double *out) {
    struct tensor *x = rows(m, at, K), *y = t_filled(ACL_FLOAT, 0, DIMS(m, K));
    RUN(aclnnSoftmax, x->acl, -1, y->acl);
    t_read(y);
    memcpy(out, y->v + at * K, K * sizeof *out);
    return K;
}
static int64_t sum(int64_t m, int64_t at, double *out) {
    struct tensor *x = rows(m, at, K), *y = t_filled(ACL_FLOAT, 0, DIMS(m));
    aclIntArray *dim = t_ints(1, (const int64_t[]){1});
    RUN(aclnnReduceSum, x->acl, dim, false, ACL_FLOAT, y->acl);
    aclDestroyIntArray(dim);
    t_read(y);
    out[0] = y->v[at];
    return 1;
}
static int64_t attention(int64_t m, int64_t at,
                         double *out) { // a batch of m, one row each; the logarithm of the sum is F32
    enum { S = 300 };
    struct tensor *q = t_random(ACL_FLOAT16, 1, DIMS(m, 1, 4, 64)), *k = t_random(ACL_FLOAT16, 1, DIMS(m, S, 4, 64)),
                  *v = t_random(ACL_FLOAT16, 1, DIMS(m, S, 4, 64)), *o = t_filled(ACL_FLOAT16, 0, DIMS(m, 1, 4, 64)),
                  *l = t_filled(ACL_FLOAT, 0, DIMS(m, 4, 1, 1));
    for (int i = 0; i < 256; i++) q->v[at * 256 + i] = t_round(ACL_FLOAT16, weight[i]);
    for (int i = 0; i < S * 256; i++)
        k->v[at * S * 256 + i] = t_round(ACL_FLOAT16, weight[i % (K * N)]),
                            v->v[at * S * 256 + i] = t_round(ACL_FLOAT16, weight[(i + 77) % (K * N)]);
    t_write(q), t_write(k), t_write(v);
    aclTensorList *ks = t_list(1, &k), *vs = t_list(1, &v);
    RUN(aclnnFusedInferAttentionScoreV2, q->acl, ks, vs, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 4, 0.125, 0, 0, (char *)"BSND", 4, 0, 0, 0, 0,
        true, 0, 0, o->acl, l->acl);
    t_read(o), t_read(l);
    memcpy(out, o->v + at * 256, 256 * sizeof *out), memcpy(out + 256, l->v + at * 4, 4 * sizeof *out);
    aclDestroyTensorList(ks), aclDestroyTensorList(vs);
    return 260;
}

static const struct {
    const char *name;
    operator* f;
} operators[] = {{"product", product}, {"grouped", grouped}, {"norm", norm},
                 {"softmax", softmax}, {"sum", sum},         {"attention", attention}};
enum { OPERATORS = sizeof operators / sizeof *operators, ROWS = 8 };

static void begin(const char *settings) {
    ops_begin(settings);
    assert_int_equal(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), 0);
    data();
}

static void equal_signatures(void **state) {
    (void)state;
    begin("910B3,cann=9.1");
    for (int o = 0; o < OPERATORS; o++)
        for (int64_t m = 1; m <= ROWS; m += 3) {
            double a[K], b[K];
            int64_t n = operators[o].f(m, 0, a);
            operators[o].f(m, m - 1, b); // elsewhere in the batch, among other rows
            if (memcmp(a, b, (size_t)n * sizeof *a))
                fail_msg("%s of %lld rows: two results", operators[o].name, (long long)m);
            t_free_all();
        }
    ops_end();
}

// How many of the row counts give bits that the row alone does not.
static int changes(int o, double *first) {
    int count = 0;
    for (int64_t m = 1; m <= ROWS; m++) {
        double a[K];
        int64_t n = operators[o].f(m, 0, m == 1 ? first : a);
        if (m > 1) count += memcmp(a, first, (size_t)n * sizeof *a) != 0;
        t_free_all();
    }
    return count;
}

static void other_signatures(void **state) {
    (void)state;
    double on[OPERATORS][K], off[K], seed[K];
    begin("910B3,cann=9.1");
    for (int o = 0; o < OPERATORS; o++) {
        int n = changes(o, on[o]);
        if (n < ROWS / 2) fail_msg("%s: only %d of %d row counts change the bits", operators[o].name, n, ROWS - 1);
    }
    ops_end();
    begin("910B3,cann=9.1,perturb=12345");
    int differ = 0;
    for (int o = 0; o < OPERATORS; o++) {
        int64_t n = operators[o].f(1, 0, seed);
        differ += memcmp(seed, on[o], (size_t)n * sizeof *seed) != 0;
        t_free_all();
    }
    assert_true(differ >= OPERATORS / 2);
    ops_end();
    begin("910B3,cann=9.1,perturb=off");
    for (int o = 0; o < OPERATORS; o++) assert_int_equal(changes(o, off), 0);
    ops_end();
}

// Products on A2 and A3 are not said to be deterministic unless that is asked for; on other chips they are.
static void without_determinism(void **state) {
    (void)state;
    static const char *const chips[2] = {"910B3,cann=9.1", "950PR,cann=9.1"};
    for (int c = 0; c < 2; c++) {
        double a[K], b[K];
        int differ = 0;
        ops_begin(chips[c]);
        data();
        product(3, 0, a);
        for (int i = 0; i < 8; i++) {
            product(3, 0, b);
            differ += memcmp(a, b, N * sizeof *a) != 0;
        }
        assert_true(c ? differ == 0 : differ >= 4);
        norm(3, 0, a), norm(3, 0, b);
        assert_memory_equal(a, b, sizeof a);
        ops_end();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_signatures), cmocka_unit_test(other_signatures),
                                       cmocka_unit_test(without_determinism)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
