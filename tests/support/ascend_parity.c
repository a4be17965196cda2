#include "tests/support/ascend_parity.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/emulated.h"
#include "tests/support/eval.h"
#include "tests/support/parity.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

static void check_rows(const tiny_model *m, const float *logits, double bound, const char *what, double *worst) {
    for (int r = 0; r < m->n_ids; r++) {
        size_t at = (size_t)r * (size_t)m->n_vocab;
        double error = parity_row_error(logits + at, m->logits + at, m->n_vocab);
        if (!(error <= bound))
            fail_msg("%s %s: the logits of row %d are off by %g of the row's largest, allowed %g", m->name, what, r,
                     error, bound);
        if (error / bound * 3 > *worst) *worst = error / bound * 3;
    }
}

static void check_variant(const tiny_model *m, const parity_place *p, const emulated *emu, double *worst) {
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
    double bound = 3 * (p->type == DTYPE_F16 ? m->f16_max : m->bf16_max);
    check_rows(m, logits, bound, p->device, worst);
    parity_check_greedy(m, logits, bound, p->device);
    free(logits);
    free(all);
    test_engine_close(&e);
    emulated_next(emu);
    temp_folder_remove(&t);
}

void check_parity(const parity_place *p) {
    emulated emu = emulated_open();
    emu.reset(); // what a failed test left
    int n_variants, n = 0;
    char **names = tiny_model_variants(&n_variants);
    double worst = 0;
    for (int i = 0; i < n_variants; i++) {
        if (i % p->every == 0) {
            tiny_model m = tiny_model_read(names[i]);
            check_variant(&m, p, &emu, &worst);
            tiny_model_free(&m);
            n++;
        }
        free(names[i]);
    }
    free(names);
    assert_true(n > 0);
    print_message("%s %s: %d models, at worst %.2f times the error of transformers\n", p->device,
                  dtype_get(p->type)->name, n, worst);
    emulated_close(&emu);
}
