// Elementwise operators: a table of one formula in double per operator; types, strides, broadcasting; what is refused.
#include "tests/emulator/ops_support.h"

#include <math.h>
#include <string.h>

static const aclDataType types[3] = {ACL_FLOAT16, ACL_BF16, ACL_FLOAT};
static const double f32 = 0x1p-22;

typedef aclnnStatus unary_size(const aclTensor *, aclTensor *, uint64_t *, aclOpExecutor **);
typedef aclnnStatus unary_in_place(aclTensor *, uint64_t *, aclOpExecutor **);
typedef aclnnStatus run_it(void *, uint64_t, aclOpExecutor *, aclrtStream);

static double d_neg(double x) { return -x; }
static double d_rsqrt(double x) { return 1 / sqrt(x); }
static double d_reciprocal(double x) { return 1 / x; }
static double d_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double d_silu(double x) { return x / (1 + exp(-x)); }
static double d_relu(double x) { return x > 0 ? x : 0; }
static double d_gelu(double x) { return x * 0.5 * erfc(-x / sqrt(2)); }
static double d_gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)));
}
static double d_hardsigmoid(double x) { return fmin(fmax(x / 6 + 0.5, 0), 1); }
static double d_hardswish(double x) { return x * d_hardsigmoid(x); }
static double d_sign(double x) { return (x > 0) - (x < 0); }

#define U(name, f, positive) \
    { #name, (unary_size *)name##GetWorkspaceSize, name, f, positive }
static const struct {
    const char *name;
    unary_size *size;
    run_it *run;
    double (*f)(double);
    bool positive;
} unary[] = {U(aclnnAbs, fabs, false),
             U(aclnnNeg, d_neg, false),
             U(aclnnExp, exp, false),
             U(aclnnLog, log, true),
             U(aclnnSqrt, sqrt, true),
             U(aclnnRsqrt, d_rsqrt, true),
             U(aclnnReciprocal, d_reciprocal, true),
             U(aclnnSin, sin, false),
             U(aclnnCos, cos, false),
             U(aclnnTanh, tanh, false),
             U(aclnnSigmoid, d_sigmoid, false),
             U(aclnnSilu, d_silu, false),
             U(aclnnRelu, d_relu, false),
             U(aclnnGelu, d_gelu, false),
             U(aclnnSign, d_sign, false),
             U(aclnnHardsigmoid, d_hardsigmoid, false),
             U(aclnnHardswish, d_hardswish, false)};

static void one_operand(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    for (size_t u = 0; u < sizeof unary / sizeof *unary; u++)
        for (int t = 0; t < 3; t++) {
            struct tensor *x = t_strided(types[t], 4, DIMS(3, 5, 7), (const int64_t[]){80, 7, 1}, 4),
                          *y = t_strided(types[t], 0, DIMS(3, 5, 7), (const int64_t[]){70, 14, 2}, 0);
            for (int64_t i = 0; unary[u].positive && i < x->n; i++)
                x->v[i] = fabs(x->v[i]) + t_round(types[t], 0.25), x->v[i] = t_round(types[t], x->v[i]);
            t_write(x);
            aclnnStatus rc = unary[u].size(x->acl, y->acl, &ops_ws, &ops_executor);
            assert_int_equal(ops_finish(unary[u].name, rc, unary[u].run), 0);
            t_read(y);
            for (int64_t i = 0; i < x->n; i++) {
                double want = unary[u].f(x->v[i]);
                t_near(y, i, want, 4 * f32 * fmax(1, fabs(want)));
            }
            // a whole tensor of another shape is refused
            struct tensor *odd = t_filled(types[t], 0, DIMS(3, 35));
            assert_true(ops_refused(unary[u].name, unary[u].size(x->acl, odd->acl, &ops_ws, &ops_executor), 161002));
            assert_true(ops_refused(unary[u].name, unary[u].size(NULL, odd->acl, &ops_ws, &ops_executor), 161001));
            t_free_all();
        }
    struct tensor *x = t_random(ACL_FLOAT, 2, DIMS(5, 5)), *i = t_random(ACL_INT32, 9, DIMS(5, 5)),
                  *o = t_filled(ACL_INT32, 0, DIMS(5, 5));
    double v[25];
#define IN_PLACE(op, f) \
    memcpy(v, x->v, sizeof v); \
    RUN(op, x->acl); \
    t_read(x); \
    for (int k = 0; k < 25; k++) t_near(x, k, f(v[k]), 4 * f32 * fmax(1, fabs(f(v[k]))))
    IN_PLACE(aclnnInplaceNeg, d_neg);
    IN_PLACE(aclnnInplaceSin, sin);
    IN_PLACE(aclnnInplaceCos, cos);
    IN_PLACE(aclnnInplaceExp, exp);
    for (int k = 0; k < 25; k++) i->v[k] -= 4;
    t_write(i);
    RUN(aclnnAbs, i->acl, o->acl);
    t_read(o);
    for (int k = 0; k < 25; k++) assert_true(o->v[k] == fabs(i->v[k]));
    REFUSE(161002, aclnnExp, i->acl, o->acl);
    REFUSE(161002, aclnnAbs, x->acl, o->acl);
    ops_end();
}

static void with_parameters(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    aclScalar *a = t_scalar(0.5), *b = t_scalar(1.5), *c = t_scalar(2), *low = t_scalar(-1);
    for (int t = 0; t < 3; t++) {
        struct tensor *x = t_random(types[t], 4, DIMS(60)), *y = t_filled(types[t], 0, DIMS(60));
#define EACH(want) \
    t_read(y); \
    for (int i = 0; i < 60; i++) { \
        double v = x->v[i], w = want; \
        t_near(y, i, w, 4 * f32 * fmax(1, fabs(w))); \
    }
        RUN(aclnnLeakyRelu, x->acl, a, y->acl);
        EACH(v > 0 ? v : 0.5 * v);
        RUN(aclnnElu, x->acl, a, b, c, y->acl);
        EACH((v > 0 ? v : 0.5 * expm1(2 * v)) * 1.5);
        RUN(aclnnSoftplus, x->acl, c, b, y->acl);
        EACH(2 * v > 1.5 ? v : log1p(exp(2 * v)) / 2);
        RUN(aclnnSwish, x->acl, b, y->acl);
        EACH(v / (1 + exp(-1.5 * v)));
        RUN(aclnnGeluV2, x->acl, 1, y->acl);
        EACH(d_gelu_tanh(v));
        RUN(aclnnClamp, x->acl, low, b, y->acl);
        EACH(fmin(fmax(v, -1), 1.5));
        RUN(aclnnClampMin, x->acl, a, y->acl);
        EACH(fmax(v, 0.5));
        memcpy(y->v, x->v, 60 * sizeof *x->v), t_write(y);
        RUN(aclnnInplaceClampMax, y->acl, a);
        EACH(fmin(v, 0.5));
        memcpy(y->v, x->v, 60 * sizeof *x->v), t_write(y);
        RUN(aclnnInplaceThreshold, y->acl, a, b);
        EACH(v > 0.5 ? v : 1.5);
        t_free_all();
    }
    struct tensor *x = t_random(ACL_FLOAT, 4, DIMS(6)), *y = t_filled(ACL_FLOAT, 0, DIMS(6));
    REFUSE(161002, aclnnClamp, x->acl, NULL, NULL, y->acl);
    REFUSE(161001, aclnnLeakyRelu, x->acl, NULL, y->acl);
    REFUSE(161002, aclnnGeluV2, x->acl, 2, y->acl);
    aclDestroyScalar(a), aclDestroyScalar(b), aclDestroyScalar(c), aclDestroyScalar(low);
    ops_end();
}

// ---- two operands ------------------------------------------------------------------------------------------------------

static void two_operands(void **state) {
    (void)state;
    ops_begin("910B3,cann=9.1");
    aclScalar *half = t_scalar(0.5), *one = t_scalar(1);
    for (int t = 0; t < 3; t++)
        for (int u = 0; u < 3; u++) { // mixed types are promoted: two half types, or with F32, to F32
            aclDataType type = t == u ? types[t] : ACL_FLOAT;
            struct tensor *x = t_strided(types[t], 2, DIMS(4, 3, 5), (const int64_t[]){40, 5, 1}, 3),
                          *y = t_random(types[u], 2, DIMS(3, 1)), *z = t_filled(type, 0, DIMS(4, 3, 5));
            for (int64_t i = 0; i < 3; i++) y->v[i] = t_round(types[u], fabs(y->v[i]) + 0.5);
            t_write(y);
#define PAIRS(want) \
    t_read(z); \
    for (int i = 0; i < 60; i++) { \
        double v = x->v[i], w = y->v[i / 5 % 3], r = want; \
        t_near(z, i, r, f32 *(fabs(v) + fabs(w) + fabs(r))); \
    }
            RUN(aclnnAdd, x->acl, y->acl, half, z->acl);
            PAIRS(v + 0.5 * w);
            RUN(aclnnSub, x->acl, y->acl, half, z->acl);
            PAIRS(v - 0.5 * w);
            RUN(aclnnMul, x->acl, y->acl, z->acl);
            PAIRS(v * w);
            RUN(aclnnDiv, x->acl, y->acl, z->acl);
            PAIRS(v / w);
            RUN(aclnnMul, y->acl, x->acl, z->acl); // the small one first
            PAIRS(v * w);
            t_free_all();
        }
    struct tensor *x = t_random(ACL_BF16, 2, DIMS(4, 5)), *y = t_random(ACL_BF16, 1, DIMS(5)),
                  *z = t_filled(ACL_BF16, 0, DIMS(4, 5));
    double v[20];
#define REF(op, want, ...) \
    memcpy(v, x->v, sizeof v); \
    RUN(op, x->acl, __VA_ARGS__); \
    t_read(x); \
    for (int i = 0; i < 20; i++) t_near(x, i, want, 1e-6)
    REF(aclnnInplaceAdd, v[i] + 0.5 * y->v[i % 5], y->acl, half);
    REF(aclnnInplaceSub, v[i] - y->v[i % 5], y->acl, one);
    REF(aclnnInplaceMul, v[i] * y->v[i % 5], y->acl);
    REF(aclnnInplaceAdds, v[i] + 0.25, half, half);
    REF(aclnnInplaceSubs, v[i] - 0.5, half, one);
    REF(aclnnInplaceMuls, v[i] * 0.5, half);
    REF(aclnnInplaceDivs, v[i] / 0.5, half);
    for (int i = 0; i < 5; i++) y->v[i] = i % 2 ? 2 : 0.5;
    t_write(y);
    REF(aclnnInplaceDiv, v[i] / y->v[i % 5], y->acl);
    for (int i = 0; i < 20; i++) x->v[i] = t_round(ACL_BF16, fabs(x->v[i]) + 0.1);
    t_write(x);
    REF(aclnnInplacePowTensorTensor, pow(v[i], y->v[i % 5]), y->acl);
    RUN(aclnnAdds, x->acl, half, one, z->acl);
    t_read(z);
    for (int i = 0; i < 20; i++) t_near(z, i, x->v[i] + 0.5, 1e-6);
    RUN(aclnnSubs, x->acl, half, one, z->acl);
    RUN(aclnnMuls, x->acl, half, z->acl);
    RUN(aclnnDivs, x->acl, half, z->acl);
    t_read(z);
    for (int i = 0; i < 20; i++) t_near(z, i, x->v[i] * 2, 1e-6);
    RUN(aclnnPowScalarTensor, half, x->acl, z->acl);
    t_read(z);
    for (int i = 0; i < 20; i++) t_near(z, i, pow(0.5, x->v[i]), 1e-6);
    struct tensor *flag = t_filled(ACL_BOOL, 0, DIMS(4, 5)), *same = t_filled(ACL_BF16, 0, DIMS(4, 5));
    RUN(aclnnGtScalar, x->acl, half, flag->acl);
    t_read(flag);
    for (int i = 0; i < 20; i++) assert_true(flag->v[i] == (x->v[i] > 0.5));
    memcpy(same->v, x->v, sizeof v), same->v[7] += 1, t_write(same);
    RUN(aclnnEqTensor, x->acl, same->acl, flag->acl);
    t_read(flag);
    for (int i = 0; i < 20; i++) assert_true(flag->v[i] == (i != 7));
    RUN(aclnnSWhere, flag->acl, x->acl, z->acl, same->acl);
    t_read(same);
    for (int i = 0; i < 20; i++) assert_true(same->v[i] == (i == 7 ? z : x)->v[i]);
    RUN(aclnnInplaceMaskedFillScalar, same->acl, flag->acl, half);
    t_read(same);
    for (int i = 0; i < 20; i++) assert_true(same->v[i] == (i == 7 ? z->v[i] : 0.5));
    struct tensor *i1 = t_random(ACL_INT32, 100, DIMS(4, 5)), *i2 = t_random(ACL_INT64, 100, DIMS(5)),
                  *io = t_filled(ACL_INT64, 0, DIMS(4, 5)), *fo = t_filled(ACL_FLOAT, 0, DIMS(4, 5));
    RUN(aclnnMul, i1->acl, i2->acl, io->acl);
    t_read(io);
    for (int i = 0; i < 20; i++) assert_true(io->v[i] == i1->v[i] * i2->v[i % 5]);
    i2->v[0] = i2->v[1] = i2->v[2] = i2->v[3] = i2->v[4] = 7, t_write(i2);
    RUN(aclnnDiv, i1->acl, i2->acl, fo->acl); // true division
    t_read(fo);
    for (int i = 0; i < 20; i++) t_near(fo, i, i1->v[i] / 7, 1e-6);
    struct tensor *six = t_random(ACL_BF16, 1, DIMS(6));
    REFUSE(161002, aclnnMul, x->acl, six->acl, z->acl);
    REFUSE(161002, aclnnMul, x->acl, y->acl, io->acl);
    REFUSE(161002, aclnnMul, x->acl, y->acl, y->acl);
    REFUSE(161001, aclnnAdd, x->acl, y->acl, NULL, z->acl);
    REFUSE(161002, aclnnInplaceMul, y->acl, x->acl);
    aclDestroyScalar(half), aclDestroyScalar(one);
    ops_end();
}

static void cast_and_copy(void **state) {
    enum { N = 16 };
    (void)state;
    static const double v[N] = {0,          -0.75,          2.5,         300.7,      -300.2,      1e5,
                                -1e5,       65504,          65520,       3e-8,       1 + 0x1p-11, 1 + 3 * 0x1p-11,
                                1 + 0x1p-8, 1 + 3 * 0x1p-8, 5 * 0x1p-25, 3 * 0x1p-25}; // ties, too
    static const aclDataType all[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_INT8,
                                      ACL_UINT8, ACL_INT32,   ACL_INT64, ACL_BOOL};
    ops_begin("910B3,cann=9.1");
    for (int t = 0; t < 8; t++) {
        struct tensor *x = t_given(ACL_FLOAT, v, DIMS(N)), *y = t_filled(all[t], 0, DIMS(N));
        RUN(aclnnCast, x->acl, all[t], y->acl);
        t_read(y);
        for (int i = 0; i < N; i++) {
            double w = x->v[i],
                   low = all[t] == ACL_INT8    ? -128
                         : all[t] == ACL_UINT8 ? 0
                                               : -2e9,
                   high = all[t] == ACL_INT8    ? 127
                          : all[t] == ACL_UINT8 ? 255
                                                : 2e9;
            double want = t < 3 ? t_round(all[t], w) : all[t] == ACL_BOOL ? w != 0 : fmin(fmax(trunc(w), low), high);
            if (y->v[i] != want) fail_msg("cast %g to type %d: %g, not %g", w, (int)all[t], y->v[i], want);
        }
        struct tensor *back = t_filled(ACL_FLOAT, 0, DIMS(N));
        RUN(aclnnCast, y->acl, ACL_FLOAT, back->acl);
        t_read(back);
        for (int i = 0; i < N; i++) assert_true(back->v[i] == y->v[i]);
        REFUSE(161002, aclnnCast, x->acl, all[(t + 1) % 8], y->acl);
    }
    // transposing, converting, broadcasting copies
    struct tensor *src = t_turned(ACL_BF16, 1, DIMS(3, 7)),
                  *dst = t_strided(ACL_FLOAT, 1, DIMS(2, 3, 7), (const int64_t[]){60, 14, 2}, 1);
    RUN(aclnnInplaceCopy, dst->acl, src->acl);
    t_read(dst);
    for (int i = 0; i < 42; i++) assert_true(dst->v[i] == src->v[i % 21]);
    REFUSE(161002, aclnnInplaceCopy, src->acl, dst->acl);
    ops_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_operand),
        cmocka_unit_test(with_parameters),
        cmocka_unit_test(two_operands),
        cmocka_unit_test(cast_and_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
