// Whether generated tokens repeat themselves: what a benchmark of speed must say beside its numbers.
#ifndef TALLY_CMD_REPETITION_H
#define TALLY_CMD_REPETITION_H

#include <stdint.h>

enum { REPETITION_LABEL_MAX = 24 };

// Writes the label of ids[0 .. n):
//   LOOP_p         the end repeats with period p (the smallest), at least three times and over at least 24 tokens
//   LOW_DIVERSITY  of the last 128 (at least 32) fewer than a quarter are different tokens
//   OK             neither
void repetition_label(const int32_t *ids, int n, char label[REPETITION_LABEL_MAX]);

#endif
