#include "tests/support/parity.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>

static double largest(const float *row, int n) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fabs(row[i]) > most ? fabs(row[i]) : most;
    return most;
}

int parity_argmax(const float *row, int n) {
    int best = 0;
    for (int i = 1; i < n; i++) best = row[i] > row[best] ? i : best;
    return best;
}

double parity_row_error(const float *a, const float *b, int n) {
    double worst = 0, scale = largest(b, n);
    for (int i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]) / scale;
        if (isnan(d)) return d;
        if (d > worst) worst = d;
    }
    return worst;
}

void parity_check_greedy(const tiny_model *m, const float *logits, double tolerance, const char *what) {
    for (int i = 0; i < m->n_greedy; i++) {
        const float *row = logits + (size_t)(m->n_ids - 1 + i) * (size_t)m->n_vocab;
        int chosen = parity_argmax(row, m->n_vocab);
        if (m->gap[i] > 2 * tolerance * largest(row, m->n_vocab) && chosen != m->greedy[i])
            fail_msg("%s %s: greedy token %d is %d, transformers chose %d with a gap of %g", m->name, what, i, chosen,
                     m->greedy[i], (double)m->gap[i]);
    }
}
