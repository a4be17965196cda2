// Parity with transformers: every golden variant of tests/golden/models, as safetensors (F32, BF16, F16; one file and sharded) and,
// where the format can say it, as GGUF.
//
// F32: every logit within 2e-4 of the row's largest magnitude. BF16 and F16: the weights are the same numbers, so what differs is
// the cache's rounding; the bound is 1.5 times what transformers is off by in BF16 itself. Greedy ids over 64 tokens equal the
// reference's wherever its gap between the two best logits exceeds that error.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/eval.h"
#include "tests/support/parity.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

// The largest error of any row.
static double rows_error(const float *a, const float *b, int n_rows, int n) {
    double worst = 0;
    for (int r = 0; r < n_rows; r++) {
        double error = parity_row_error(a + (size_t)r * (size_t)n, b + (size_t)r * (size_t)n, n);
        if (isnan(error)) return error;
        if (error > worst) worst = error;
    }
    return worst;
}

// Greedy continuation: equal up to the first near-tie of the reference; teacher-forced beyond, so that all 64 are compared.
static void check_greedy(const tiny_model *m, const test_engine *e, double tolerance, const char *what) {
    int n = m->n_ids + m->n_greedy;
    int32_t *all = malloc((size_t)n * sizeof *all);
    assert_non_null(all);
    memcpy(all, m->ids, (size_t)m->n_ids * sizeof *all);
    memcpy(all + m->n_ids, m->greedy, (size_t)m->n_greedy * sizeof *all);
    float *logits = test_eval(e, all, n, 16);
    parity_check_greedy(m, logits, tolerance, what);
    int n_out;
    int32_t *ids = test_greedy(e, m->ids, m->n_ids, m->n_greedy, &n_out);
    assert_int_equal(n_out, m->n_greedy);
    for (int i = 0; i < n_out && ids[i] == all[m->n_ids + i]; i++) {
        const float *row = logits + (size_t)(m->n_ids - 1 + i) * (size_t)m->n_vocab;
        assert_int_equal(ids[i], parity_argmax(row, m->n_vocab)); // generating is the same arithmetic as evaluating
    }
    free(ids);
    free(logits);
    free(all);
}

static void check_model(const tiny_model *m, const char *path, double tolerance, const char *what, double *worst) {
    test_engine e = test_engine_open(path, NULL);
    float *logits = test_eval(&e, m->ids, m->n_ids, 7);
    double error = rows_error(logits, m->logits, m->n_ids, m->n_vocab);
    if (!(error <= tolerance))
        fail_msg("%s %s: logits are off by %g of the row's largest, allowed %g", m->name, what, error, tolerance);
    if (error > *worst) *worst = error;
    free(logits);
    check_greedy(m, &e, tolerance, what);
    test_engine_close(&e);
}

typedef void variant_fn(const tiny_model *m, const temp_folder *t, double *worst, int *n);

static void for_variants(variant_fn *fn, const char *what) {
    int n_variants, n = 0;
    char **names = tiny_model_variants(&n_variants);
    double worst = 0;
    assert_true(n_variants > 40);
    for (int i = 0; i < n_variants; i++) {
        tiny_model m = tiny_model_read(names[i]);
        temp_folder t = temp_folder_make();
        fn(&m, &t, &worst, &n);
        temp_folder_remove(&t);
        tiny_model_free(&m);
        free(names[i]);
    }
    free(names);
    assert_true(n > 0);
    print_message("%s: %d models, worst error %.3g of a row's largest logit\n", what, n, worst);
}

static void f32_folder(const tiny_model *m, const temp_folder *t, double *worst, int *n) {
    char folder[300];
    snprintf(folder, sizeof folder, "%s/model", t->path);
    tiny_model_write_folder(m, folder, DTYPE_F32, *n % 3 == 0 ? 3 : 1);
    check_model(m, folder, 2e-4, "F32", worst);
    ++*n;
}

static void half_folder(const tiny_model *m, const temp_folder *t, dtype type, double *worst, int *n) {
    char folder[300];
    snprintf(folder, sizeof folder, "%s/model", t->path);
    tiny_model_write_folder(m, folder, type, 1);
    check_model(m, folder, 1.5 * m->bf16_max, dtype_get(type)->name, worst);
    ++*n;
}

static void bf16_folder(const tiny_model *m, const temp_folder *t, double *worst, int *n) {
    half_folder(m, t, DTYPE_BF16, worst, n);
}
static void f16_folder(const tiny_model *m, const temp_folder *t, double *worst, int *n) {
    half_folder(m, t, DTYPE_F16, worst, n);
}

static void gguf_file(const tiny_model *m, const temp_folder *t, double *worst, int *n) {
    char path[300];
    snprintf(path, sizeof path, "%s/model.gguf", t->path);
    if (!tiny_model_write_gguf(m, path, DTYPE_F32)) return;
    check_model(m, path, 2e-4, "GGUF F32", worst);
    ++*n;
}

static void test_f32(void **state) { (void)state, for_variants(f32_folder, "safetensors F32"); }
static void test_bf16(void **state) { (void)state, for_variants(bf16_folder, "safetensors BF16"); }
static void test_f16(void **state) { (void)state, for_variants(f16_folder, "safetensors F16"); }
static void test_gguf(void **state) { (void)state, for_variants(gguf_file, "GGUF F32"); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_f16),
        cmocka_unit_test(test_gguf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
