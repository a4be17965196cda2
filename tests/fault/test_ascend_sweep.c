// Every failure of an NPU, one by one, under a dense model (ascend_sweep.h).
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "tests/fault/ascend_sweep.h"

static void test_load(void **state) { (void)state, sweep_load(false); }
static void test_steps(void **state) { (void)state, sweep_steps(false, "off"); }
// A refused capture costs no step.
static void test_steps_graph(void **state) { (void)state, sweep_steps(false, "auto"); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_load), cmocka_unit_test(test_steps),
                                       cmocka_unit_test(test_steps_graph)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
