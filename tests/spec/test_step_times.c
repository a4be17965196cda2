// T(m) learnt from noisy steps.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "spec/step_times.h"

#include "tests/spec/simulated_machine.h"

static void assert_ascending(const step_times *t) {
    for (int m = 1; m <= STEP_TIMES_MAX + 40; m++) {
        assert_true(isfinite(step_times_of(t, m)) && step_times_of(t, m) > 0);
        assert_true(m == 1 || step_times_of(t, m) >= step_times_of(t, m - 1));
    }
}

static void assert_near(double got, double want, double tolerance) {
    if (!(fabs(got / want - 1) <= tolerance))
        fail_msg("%g where %g is expected within %g %%", got, want, 100 * tolerance);
}

static void test_times_estimate(void **state) {
    (void)state;
    step_times t;
    step_times_init(&t, NULL, 0);
    for (int m = 1; m <= 100; m++) assert_near(step_times_of(&t, m), 1 + 0.1 * (m - 1), 1e-6);
    step_times_init(&t, (double[]){2, 3, 5}, 3); // only ratios count; the last slope goes on
    assert_near(step_times_of(&t, 1), 1, 1e-9);
    assert_near(step_times_of(&t, 2), 1.5, 1e-9);
    assert_near(step_times_of(&t, 3), 2.5, 1e-9);
    assert_near(step_times_of(&t, 10), 9.5, 1e-9);
    assert_true(step_times_stale(&t, 1));
    step_times_init(&t, (double[]){1, 3, 2, NAN, -1, 0}, 6); // nonsense is made a table
    assert_ascending(&t);
    for (int i = 0; i < 3; i++) step_times_seen(&t, 1, 0.05);
    step_times_seen(&t, 0, 1);
    step_times_seen(&t, 1, -1);
    step_times_seen(&t, 1, NAN);
    step_times_seen(&t, 1, INFINITY);
    assert_near(step_times_of(&t, 1), 0.05, 0.01);
    assert_false(step_times_stale(&t, 1));
}

// Some sizes are seen, all are known: the measured ones well, those between and beyond roughly, from an estimate that is far off.
static void test_times_learn(void **state) {
    (void)state;
    for (int i = 0; i < N_MACHINES; i++) {
        const machine *m = &machines[i];
        bool loaded = m->outliers > 0;
        step_times t;
        step_times_init(&t, NULL, 0);
        dice d = {(uint64_t)i};
        for (int step = 0; step < 300; step++) {
            int rows = step < 3 || step % 3 == 0 ? 1 : step % 2 ? 5 : 9;
            step_times_seen(&t, rows, measured(m, 0.03 * m->cost(rows), &d));
            assert_ascending(&t);
        }
        for (int rows = 1; rows <= 9; rows += 4)
            assert_near(step_times_of(&t, rows) / step_times_of(&t, 1), m->cost(rows), loaded ? 0.15 : 0.05);
        assert_near(step_times_of(&t, 7) / step_times_of(&t, 1), m->cost(7), loaded ? 0.3 : 0.2);
        assert_near(step_times_of(&t, 3) / step_times_of(&t, 1), m->cost(3), 0.4);
        assert_near(step_times_of(&t, 16) / step_times_of(&t, 1), m->cost(16), 0.45);
    }
}

static void test_times_drift(void **state) {
    (void)state;
    step_times t;
    step_times_init(&t, NULL, 0);
    for (int i = 0; i < 40; i++) step_times_seen(&t, i % 4 ? 1 : 6, 0.01 * (i % 4 ? 1 : 2));
    double ratio = step_times_of(&t, 6) / step_times_of(&t, 1);
    assert_near(ratio, 2, 0.05);
    for (int i = 0; i < 5; i++) {
        step_times_seen(&t, 1, i == 2 ? 0.1 : 0.01); // an accident
        assert_near(step_times_of(&t, 1), 0.01, 0.1);
    }
    for (int i = 0; i < 100; i++) step_times_seen(&t, 6, 0.02 * (1 + i * 0.01)); // the context grows, no plain step
    assert_near(step_times_of(&t, 1), 0.02, 0.1);
    assert_near(step_times_of(&t, 6) / step_times_of(&t, 1), 2, 0.1);
    assert_true(step_times_stale(&t, 1));                      // but it should be looked at
    for (int i = 0; i < 4; i++) step_times_seen(&t, 1, 0.005); // another request, with little context
    assert_near(step_times_of(&t, 1), 0.005, 0.15);
    assert_near(step_times_of(&t, 6), 0.01, 0.25);
    for (int i = 0; i < 6; i++) step_times_seen(&t, 1, 0.015); // and one with much
    assert_near(step_times_of(&t, 1), 0.015, 0.15);
    for (int i = 0; i < 3000; i++) { // anything at all
        dice d = {(uint64_t)i * 7};
        step_times_seen(&t, 1 + (int)(roll(&d) * 90), exp(20 * roll(&d) - 10));
        if (i % 50 == 0) assert_ascending(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_estimate),
        cmocka_unit_test(test_times_learn),
        cmocka_unit_test(test_times_drift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
