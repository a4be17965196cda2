// Parity with transformers in F16 (ascend_parity.h): all variants on A2, A3 and 910A with each library, a part of them on 310P.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "tests/support/ascend_parity.h"

#define PLACE(name, device, every) \
    static void name(void **state) { \
        (void)state, check_parity(&(parity_place){device ",poison=edges", DTYPE_F16, every}); \
    }
PLACE(test_a2, "emu:910B3", 1)
PLACE(test_a2_85, "emu:910B3,cann=8.5", 1)
PLACE(test_a2_81, "emu:910B3,cann=8.1", 1)
PLACE(test_a3, "emu:910_9382", 1)
PLACE(test_a3_85, "emu:910_9382,cann=8.5", 1)
PLACE(test_a3_81, "emu:910_9382,cann=8.1", 1)
PLACE(test_910a, "emu:910A", 1)
PLACE(test_910a_85, "emu:910A,cann=8.5", 1)
PLACE(test_910a_81, "emu:910A,cann=8.1", 1)
PLACE(test_310p, "emu:310P3", 7)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a2),   cmocka_unit_test(test_a2_85),   cmocka_unit_test(test_a2_81),
        cmocka_unit_test(test_a3),   cmocka_unit_test(test_a3_85),   cmocka_unit_test(test_a3_81),
        cmocka_unit_test(test_910a), cmocka_unit_test(test_910a_85), cmocka_unit_test(test_910a_81),
        cmocka_unit_test(test_310p),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
