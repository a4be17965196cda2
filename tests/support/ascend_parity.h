// Parity of the Ascend backend with transformers on the emulated NPU, for all golden variants of tests/golden/models.
//
// The bound is 3 times what transformers itself is off by in that type (bf16.txt, f16.txt of a variant). Greedy ids equal the reference's
// wherever its gap between the two best logits exceeds the bound.
#ifndef TALLY_TESTS_ASCEND_PARITY_H
#define TALLY_TESTS_ASCEND_PARITY_H

#include "tensor/dtype.h"

typedef struct parity_place {
    const char *device;
    dtype type;
    int every; // of the variants: 1 for all
} parity_place;

void check_parity(const parity_place *p); // a difference ends the test

#endif
