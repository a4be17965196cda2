// Parity with transformers in BF16 (ascend_parity.h), and which operators a step calls on each chip with each library.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ascend_parity.h"
#include "tests/support/emulated.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

// A row for every place: BF16 on A2 and A3 with each library, all variants; compositions, exact=off and the other chips on a part of them.
#define PLACE(name, device, every) \
    static void name(void **state) { (void)state, check_parity(&(parity_place){device, DTYPE_BF16, every}); }
PLACE(test_a2, "emu:910B3", 1)
PLACE(test_a2_85, "emu:910B3,cann=8.5,poison=edges", 1)
PLACE(test_a2_81, "emu:910B3,cann=8.1,poison=edges", 1)
PLACE(test_a3, "emu:910_9382,poison=edges", 1)
PLACE(test_a3_85, "emu:910_9382,cann=8.5,poison=edges", 1)
PLACE(test_a3_81, "emu:910_9382,cann=8.1,poison=edges", 1)
PLACE(test_a2_composed, "emu:910B3,off=all,poison=edges", 3)
PLACE(test_a2_inexact, "emu:910B3,exact=off,poison=edges", 2)
PLACE(test_950, "emu:950PR,poison=edges", 3)
PLACE(test_950_composed, "emu:950PR,off=attention,poison=edges", 7)

// ---- which operators ran -------------------------------------------------------------------------------------------------------

static bool ran(const char *trace, const char *name) {
    char want[100];
    snprintf(want, sizeof want, "%s(phase 2,", name);
    return emulated_trace_count(trace, want) > 0;
}

// What a step of a model with heads of 64 or 128, for which every fused operator is legal, launches.
static void check_operators(const char *device, bool moe, int head, const char *const *want,
                            const char *const *not_want) {
    temp_folder t = temp_folder_make();
    emulated emu = emulated_open();
    emu.reset();
    char path[300], file[300];
    snprintf(path, sizeof path, "%s/model.gguf", t.path);
    snprintf(file, sizeof file, "%s/trace", t.path);
    tiny_random_gguf_heads(path, DTYPE_F16, moe, head, 7);
    tally_engine_options o = {.threads = 1, .context = 64, .step_rows = 16, .logit_rows = 16, .device = device};
    test_engine e = test_engine_open(path, &o);
    const int32_t ids[3] = {5, 6, 7};
    emulated_trace(&emu, file);
    free(test_eval(&e, ids, 3, 3));
    char *text = emulated_trace_read(&emu, file);
    test_engine_close(&e);
    emulated_next(&emu);
    for (; *want; want++) {
        if (!ran(text, *want)) fail_msg("%s: %s did not run", device, *want);
    }
    for (; *not_want; not_want++) {
        if (ran(text, *not_want)) fail_msg("%s: %s ran", device, *not_want);
    }
    free(text);
    emulated_close(&emu);
    temp_folder_remove(&t);
}

static void test_operators(void **state) {
    (void)state;
    enum { OF_MIXTURES = 4, OLD_OF_MIXTURES = 1 }; // come first; the others are those of dense models, too
    static const char *const newest[] = {"aclnnMoeGatingTopKSoftmaxV2",
                                         "aclnnMoeInitRoutingV2",
                                         "aclnnGroupedMatmulV5",
                                         "aclnnMoeFinalizeRoutingV2",
                                         "aclnnFusedInferAttentionScoreV4",
                                         "aclnnApplyRotaryPosEmbV2",
                                         "aclnnAddRmsNorm",
                                         "aclnnSwiGlu",
                                         "aclnnScatterPaKvCache",
                                         NULL};
    static const char *const oldest[] = {"aclnnGroupedMatmulV4",
                                         "aclnnFusedInferAttentionScoreV3",
                                         "aclnnApplyRotaryPosEmb",
                                         "aclnnInplaceIndexCopy",
                                         "aclnnAddRmsNorm",
                                         "aclnnSwiGlu",
                                         NULL};
    static const char *const composed[] = {"aclnnSoftmax", "aclnnMatmul", "aclnnSilu",         "aclnnTopk",
                                           "aclnnSub",     "aclnnSWhere", "aclnnIndexPutImpl", NULL};
    static const char *const chips[] = {"910B3", "910_9382"};
    static const char *const versions[] = {"9.1", "8.5", "8.1"};
    for (int i = 0; i < 12; i++) {
        char device[64];
        snprintf(device, sizeof device, "emu:%s,tile=16,cann=%s", chips[i / 6], versions[i % 3]);
        int head = i / 3 % 2 ? 128 : 64;
        bool old = i % 3 == 2;
        check_operators(device, true, head, old ? oldest : newest, composed);
        check_operators(device, false, head, old ? oldest + OLD_OF_MIXTURES : newest + OF_MIXTURES, composed);
    }
    check_operators("emu:910B3,tile=16,off=all", true, 64,
                    (const char *const[]){"aclnnSoftmax", "aclnnMatmul", "aclnnSilu", "aclnnTopk", "aclnnSub", NULL},
                    newest);
    for (int head = 64; head <= 128; head += 64)
        check_operators(
            "emu:910A,tile=16", true, head,
            (const char *const[]){"aclnnSoftmax", "aclnnIndexPutImpl", "aclnnApplyRotaryPosEmb", "aclnnSWhere", NULL},
            newest);
    // 310P: routing and grouped products without the gate; 950: attention of its own, from 9.1 on
    static const char *const gate[] = {"aclnnMoeGatingTopKSoftmaxV2", "aclnnSWhere", NULL},
                             *const attention[] = {"aclnnFusedInferAttentionScoreV5", NULL},
                             *const parts[] = {"aclnnSoftmax", "aclnnMatmul", NULL};
    check_operators("emu:310P3,tile=16", true, 64,
                    (const char *const[]){"aclnnMoeInitRoutingV2", "aclnnGroupedMatmulV5", "aclnnMoeFinalizeRoutingV2",
                                          "aclnnTopk", NULL},
                    gate);
    check_operators("emu:950PR,tile=16", true, 64, attention, parts);
    check_operators("emu:950PR,tile=16,off=attention", true, 64, parts, attention);
    check_operators("emu:950DT,tile=16,cann=8.5", true, 64, parts, attention);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a2),           cmocka_unit_test(test_a2_85),      cmocka_unit_test(test_a2_81),
        cmocka_unit_test(test_a3),           cmocka_unit_test(test_a3_85),      cmocka_unit_test(test_a3_81),
        cmocka_unit_test(test_a2_composed),  cmocka_unit_test(test_a2_inexact), cmocka_unit_test(test_950),
        cmocka_unit_test(test_950_composed), cmocka_unit_test(test_operators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
