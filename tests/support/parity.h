// Logits against those of transformers that golden variants hold.
#ifndef TALLY_TESTS_PARITY_H
#define TALLY_TESTS_PARITY_H

#include "tests/support/tiny_model.h"

int parity_argmax(const float *row, int n); // the lowest among equals
// The largest |a - b| of a row over max |b|; NaN counts as worst.
double parity_row_error(const float *a, const float *b, int n);
// logits [n_ids + n_greedy][n_vocab] of the ids and, behind them, of the greedy ids as input: where the reference's lead exceeds twice
// the tolerance (of the row's largest logit), its token must be chosen. Fails the test otherwise.
void parity_check_greedy(const tiny_model *m, const float *logits, double tolerance, const char *what);

#endif
