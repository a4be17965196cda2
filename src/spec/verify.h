// The accept walk: which drafts of a verify step become output. Pure: all it knows of the model is the choice function.
#ifndef TALLY_SPEC_VERIFY_H
#define TALLY_SPEC_VERIFY_H

#include <stdbool.h>

#include "spec/draft.h"

// What the target chooses behind a row: row 0 is the last committed token's, row 1 + i draft node i's. Called in the order of the
// walk, once per row on the path, so that the caller's sampler has seen exactly the tokens before it. *stop ends the walk behind this token.
typedef int32_t verify_choose(void *ctx, int row, bool *stop);

typedef struct verify_result {
    int n_emitted;          // tokens chosen, at least 1
    int n_accepted;         // of them drafts that the step had computed: n_emitted - 1
    int8_t path[DRAFT_MAX]; // the accepted nodes, from the root down [n_accepted]
} verify_result;

// Emits the choice of row 0, and as long as the choice is a draft below the path so far, that draft's own choice. Rows off the path are
// never asked. emitted = accepted + 1, whatever the drafts are.
verify_result verify_walk(const draft *d, verify_choose *choose, void *ctx);

#endif
