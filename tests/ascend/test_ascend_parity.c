// Parity with transformers on the emulated NPU: golden variants of tests/golden/models in BF16 and FP16, on every chip and library
// version that the backend serves.
//
// The bound is 3 times what transformers itself is off by in that type. For F16, of which the goldens hold no run of transformers, an
// eighth of BF16's error is taken (3 bits more of mantissa), with the same factor. Greedy ids equal the reference's wherever its gap
// between the two best logits exceeds the bound.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/emulated.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

typedef struct place {
    const char *device;
    dtype type;
    int every; // of the variants, so that the whole stays short
    bool moe;  // whether the chip serves mixtures
} place;

static double largest(const float *row, int n) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fabs(row[i]) > most ? fabs(row[i]) : most;
    return most;
}

static int argmax(const float *row, int n) {
    int best = 0;
    for (int i = 1; i < n; i++) best = row[i] > row[best] ? i : best;
    return best;
}

static double row_error(const float *a, const float *b, int n) {
    double worst = 0, scale = largest(b, n);
    for (int i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]) / scale;
        if (!(d <= worst)) worst = d; // NaN counts as worst
    }
    return worst;
}

static void check_rows(const tiny_model *m, const float *logits, double bound, const char *what, double *worst) {
    for (int r = 0; r < m->n_ids; r++) {
        size_t at = (size_t)r * (size_t)m->n_vocab;
        double error = row_error(logits + at, m->logits + at, m->n_vocab);
        if (!(error <= bound))
            fail_msg("%s %s: the logits of row %d are off by %g of the row's largest, allowed %g", m->name, what, r,
                     error, bound);
        if (error > *worst) *worst = error;
    }
}

static void check_variant(const tiny_model *m, const place *p, const emulated *emu, double *worst) {
    int n = m->n_ids + m->n_greedy;
    temp_folder t = temp_folder_make();
    char folder[300];
    snprintf(folder, sizeof folder, "%s/model", t.path);
    tiny_model_write_folder(m, folder, p->type, 1);
    tally_engine_options o = {.threads = 1, .logit_rows = 64, .step_rows = 64, .context = n, .device = p->device};
    test_engine e = test_engine_open(folder, &o);
    int32_t *all = malloc((size_t)n * sizeof *all);
    assert_non_null(all);
    memcpy(all, m->ids, (size_t)m->n_ids * sizeof *all);
    memcpy(all + m->n_ids, m->greedy, (size_t)m->n_greedy * sizeof *all);
    float *logits = test_eval(&e, all, n, 64);
    double bound = 3 * m->bf16_max / (p->type == DTYPE_F16 ? 8 : 1);
    check_rows(m, logits, bound, p->device, worst);
    for (int i = 0; i < m->n_greedy; i++) {
        const float *row = logits + (size_t)(m->n_ids - 1 + i) * (size_t)m->n_vocab;
        if (m->gap[i] > 2 * bound * largest(row, m->n_vocab) && argmax(row, m->n_vocab) != m->greedy[i])
            fail_msg("%s %s: greedy token %d is %d, transformers chose %d with a gap of %g", m->name, p->device, i,
                     argmax(row, m->n_vocab), m->greedy[i], (double)m->gap[i]);
    }
    free(logits);
    free(all);
    test_engine_close(&e);
    emulated_next(emu);
    temp_folder_remove(&t);
}

static void check_place(const place *p) {
    emulated emu = emulated_open();
    emu.reset(); // what a failed test left
    int n_variants, n = 0;
    char **names = tiny_model_variants(&n_variants);
    double worst = 0;
    for (int i = 0; i < n_variants; i++) {
        bool moe = strncmp(names[i], "qwen3moe", 8) == 0;
        if (i % p->every == 0 && (!moe || p->moe)) {
            tiny_model m = tiny_model_read(names[i]);
            check_variant(&m, p, &emu, &worst);
            tiny_model_free(&m);
            n++;
        }
        free(names[i]);
    }
    free(names);
    assert_true(n > 0);
    print_message("%s %s: %d models, worst error %.3g of a row's largest logit\n", p->device, dtype_get(p->type)->name,
                  n, worst);
    emulated_close(&emu);
}

static void test_a2(void **state) { (void)state, check_place(&(place){"emu:910B3", DTYPE_BF16, 1, true}); }
static void test_a2_f16(void **state) { (void)state, check_place(&(place){"emu:910B3", DTYPE_F16, 3, true}); }
static void test_a2_composed(void **state) {
    (void)state, check_place(&(place){"emu:910B3,off=all", DTYPE_BF16, 3, true});
}
static void test_a2_81(void **state) { (void)state, check_place(&(place){"emu:910B3,cann=8.1", DTYPE_BF16, 3, true}); }
static void test_a2_inexact(void **state) {
    (void)state, check_place(&(place){"emu:910B3,exact=off", DTYPE_BF16, 2, true});
}
static void test_310p(void **state) { (void)state, check_place(&(place){"emu:310P3", DTYPE_F16, 7, true}); }
static void test_950(void **state) { (void)state, check_place(&(place){"emu:950PR", DTYPE_BF16, 3, true}); }
static void test_950_composed(void **state) {
    (void)state, check_place(&(place){"emu:950PR,off=attention", DTYPE_BF16, 7, true});
}
static void test_a3_85(void **state) {
    (void)state, check_place(&(place){"emu:910_9382,cann=8.5", DTYPE_F16, 3, true});
}
static void test_910a(void **state) { (void)state, check_place(&(place){"emu:910A", DTYPE_F16, 3, true}); }

// ---- which operators ran -------------------------------------------------------------------------------------------------------

static bool ran(const char *trace, const char *name) {
    char want[100];
    snprintf(want, sizeof want, "%s(phase 2,", name); // launched, not only asked about at load
    return strstr(trace, want) != NULL;
}

// The emulator's trace of a mixture with heads of 64, for which every fused operator is legal.
static void check_operators(const char *device, const char *const *want, const char *const *not_want) {
    temp_folder t = temp_folder_make();
    emulated emu = emulated_open();
    emu.reset();
    char path[300], with_trace[500], file[300];
    snprintf(path, sizeof path, "%s/model.gguf", t.path);
    snprintf(file, sizeof file, "%s/trace", t.path);
    snprintf(with_trace, sizeof with_trace, "%s,trace=%s", device, file);
    tiny_random_gguf(path, DTYPE_F16, true, 7);
    tally_engine_options o = {.threads = 1, .context = 64, .step_rows = 16, .logit_rows = 16, .device = with_trace};
    test_engine e = test_engine_open(path, &o);
    const int32_t ids[3] = {5, 6, 7};
    free(test_eval(&e, ids, 3, 3));
    test_engine_close(&e);
    emulated_next(&emu);
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    enum { MOST = 1 << 22 };
    char *text = malloc(MOST);
    assert_non_null(text);
    text[fread(text, 1, MOST - 1, in)] = 0;
    fclose(in);
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
    static const char *const newest[] = {"aclnnFusedInferAttentionScoreV4",
                                         "aclnnApplyRotaryPosEmbV2",
                                         "aclnnAddRmsNorm",
                                         "aclnnSwiGlu",
                                         "aclnnScatterPaKvCache",
                                         "aclnnMoeGatingTopKSoftmaxV2",
                                         "aclnnMoeInitRoutingV2",
                                         "aclnnGroupedMatmulV5",
                                         "aclnnMoeFinalizeRoutingV2",
                                         NULL};
    static const char *const oldest[] = {"aclnnFusedInferAttentionScoreV3",
                                         "aclnnApplyRotaryPosEmb",
                                         "aclnnInplaceIndexCopy",
                                         "aclnnGroupedMatmulV4",
                                         "aclnnAddRmsNorm",
                                         "aclnnSwiGlu",
                                         NULL};
    static const char *const composed[] = {"aclnnSoftmax", "aclnnMatmul", "aclnnSilu",         "aclnnTopk",
                                           "aclnnSub",     "aclnnSWhere", "aclnnIndexPutImpl", NULL};
    check_operators("emu:910B3,tile=16", newest, composed);
    check_operators("emu:910_9382,tile=16,cann=8.1", oldest, composed);
    check_operators("emu:910B3,tile=16,off=all",
                    (const char *const[]){"aclnnSoftmax", "aclnnMatmul", "aclnnSilu", "aclnnTopk", "aclnnSub", NULL},
                    newest);
    check_operators(
        "emu:910A,tile=16",
        (const char *const[]){"aclnnSoftmax", "aclnnIndexPutImpl", "aclnnApplyRotaryPosEmb", "aclnnSWhere", NULL},
        newest);
    // 310P: routing and grouped products without the gate; 950: attention of its own, from 9.1 on
    static const char *const gate[] = {"aclnnMoeGatingTopKSoftmaxV2", "aclnnSWhere", NULL},
                             *const attention[] = {"aclnnFusedInferAttentionScoreV5", NULL},
                             *const parts[] = {"aclnnSoftmax", "aclnnMatmul", NULL};
    check_operators("emu:310P3,tile=16",
                    (const char *const[]){"aclnnMoeInitRoutingV2", "aclnnGroupedMatmulV5", "aclnnMoeFinalizeRoutingV2",
                                          "aclnnTopk", NULL},
                    gate);
    check_operators("emu:950PR,tile=16", attention, parts);
    check_operators("emu:950PR,tile=16,off=attention", parts, attention);
    check_operators("emu:950DT,tile=16,cann=8.5", parts, attention);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a2),    cmocka_unit_test(test_a2_f16),       cmocka_unit_test(test_a2_composed),
        cmocka_unit_test(test_a2_81), cmocka_unit_test(test_a2_inexact),   cmocka_unit_test(test_operators),
        cmocka_unit_test(test_310p),  cmocka_unit_test(test_950),          cmocka_unit_test(test_a3_85),
        cmocka_unit_test(test_910a),  cmocka_unit_test(test_950_composed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
