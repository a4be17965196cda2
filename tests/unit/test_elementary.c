// elementary.h against libm in a wider type.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/elementary.h"

static float float_of_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 16;
}

// Distance in units in the last place of `ulp_of`.
static double ulps_f32(float got, double want) {
    int exponent;
    frexp(want, &exponent);
    if (exponent < -125) exponent = -125;
    return fabs((double)got - want) / ldexp(1.0, exponent - 24);
}
static double ulps_f64(double got, long double want) {
    int exponent;
    frexpl(want, &exponent);
    if (exponent < -1021) exponent = -1021;
    return (double)(fabsl((long double)got - want) / ldexpl(1.0L, exponent - 53));
}

// Every 251st float, so all exponents and both signs.
static void exp_is_accurate(void **state) {
    (void)state;
    double worst = 0;
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 251) {
        float x = float_of_bits((uint32_t)u);
        float y = elementary_exp(x);
        if (isnan(x)) {
            assert_true(isnan(y));
            continue;
        }
        double want = exp((double)x);
        if (want < 0x1p-126) {
            assert_true(y == 0 && !signbit(y));
        } else if (want >= 0x1.ffffffp+127) {
            assert_true(isinf(y) && y > 0);
        } else {
            worst = fmax(worst, ulps_f32(y, want));
        }
    }
    print_message("exp f32: worst %.3f ulp\n", worst);
    assert_true(worst <= 2);
}

static void exp_special_values(void **state) {
    (void)state;
    assert_true(elementary_exp(0.0f) == 1.0f);
    assert_true(elementary_exp(-0.0f) == 1.0f);
    assert_true(elementary_exp(-INFINITY) == 0.0f);
    assert_true(isinf(elementary_exp(INFINITY)));
    assert_true(isnan(elementary_exp(NAN)));
    assert_true(elementary_exp(-0x1.5d589ep+6f) >= 0x1p-126f); // the smallest argument with a normal result
    assert_true(elementary_exp(-0x1.5d58a0p+6f) == 0.0f);
    assert_true(elementary_exp(-103.98f) == 0.0f);
    assert_true(isfinite(elementary_exp(0x1.62e42p+6f)));
    assert_true(isinf(elementary_exp(0x1.62e43p+6f)));
}

static void exp_double_is_accurate(void **state) {
    (void)state;
    uint64_t seed = 1;
    double worst = 0;
    for (int i = 0; i < 1000000; i++) {
        double unit = (double)next_random(&seed) / 0x1p48;
        double x = (2 * unit - 1) * (i % 3 == 0 ? 700 : i % 3 == 1 ? 20 : 1);
        worst = fmax(worst, ulps_f64(elementary_exp_double(x), expl((long double)x)));
    }
    print_message("exp f64: worst %.3f ulp\n", worst);
    assert_true(worst <= 2);
    assert_true(elementary_exp_double(0) == 1);
    assert_true(elementary_exp_double(-(double)INFINITY) == 0);
    assert_true(isinf(elementary_exp_double(710)));
    assert_true(elementary_exp_double(-746) == 0);
    assert_true(isnan(elementary_exp_double((double)NAN)));
    assert_true(isfinite(elementary_exp_double(709.78)));
    assert_true(elementary_exp_double(-740) > 0);
}

static void log_double_is_accurate(void **state) {
    (void)state;
    uint64_t seed = 2;
    double worst = 0;
    for (int i = 0; i < 1000000; i++) {
        double unit = ((double)next_random(&seed) + 1) / 0x1p48;
        int kind = i % 4;
        double x = kind == 0   ? unit
                   : kind == 1 ? 0.5 + unit
                   : kind == 2 ? 1 + (unit - 0.5) * 1e-6
                               : exp((unit - 0.5) * 1400);
        if (x == 1) continue;
        worst = fmax(worst, ulps_f64(elementary_log_double(x), logl((long double)x)));
    }
    print_message("log f64: worst %.3f ulp\n", worst);
    assert_true(worst <= 2);
    assert_true(elementary_log_double(1) == 0);
    assert_true(isinf(elementary_log_double(0)) && elementary_log_double(0) < 0);
    assert_true(isinf(elementary_log_double((double)INFINITY)));
    assert_true(isnan(elementary_log_double(-1)));
    assert_true(ulps_f64(elementary_log_double(0x1p-1074), logl(0x1p-1074L)) <= 2);
    assert_true(ulps_f64(elementary_log_double(0x1.fffffffffffffp+1023), logl(0x1.fffffffffffffp+1023L)) <= 2);
}

static void check_angle(float angle, double *worst) {
    float s, c;
    elementary_sincos(angle, &s, &c);
    long double sl = sinl((long double)angle), cl = cosl((long double)angle);
    *worst = fmax(*worst, fmax(ulps_f32(s, (double)sl), ulps_f32(c, (double)cl)));
}

static void sincos_is_accurate(void **state) {
    (void)state;
    double worst = 0;
    for (uint32_t u = 0; u <= 0x4f000000u; u += 977) { // 0 .. 2^31
        check_angle(float_of_bits(u), &worst);
        check_angle(-float_of_bits(u), &worst);
    }
    for (int i = 0; i < 200000; i++) check_angle((float)i, &worst); // positions
    // floats close to multiples of pi/2, where the reduction cancels most
    for (int64_t n = 1; n < 1000000; n++) check_angle((float)((double)n * 1.5707963267948966), &worst);
    check_angle(0x1p31f, &worst);
    print_message("sincos f32: worst %.4f ulp\n", worst);
    assert_true(worst <= 0.5001); // correctly rounded but for near ties
    float s, c;
    elementary_sincos(0.0f, &s, &c);
    assert_true(s == 0 && c == 1);
    elementary_sincos(INFINITY, &s, &c);
    assert_true(isnan(s) && isnan(c));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_accurate),        cmocka_unit_test(exp_special_values),
        cmocka_unit_test(exp_double_is_accurate), cmocka_unit_test(log_double_is_accurate),
        cmocka_unit_test(sincos_is_accurate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
