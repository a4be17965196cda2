// The public API in one call each, for tests that compare whole models.
#ifndef TALLY_TESTS_EVAL_H
#define TALLY_TESTS_EVAL_H

#include "tally.h"

typedef struct test_engine {
    tally_model *model;
    tally_engine *engine;
} test_engine;

// Opens a model and loads it; a failure ends the test with its message. NULL options: 1 thread, 64 rows of logits.
test_engine test_engine_open(const char *path, const tally_engine_options *options);
void test_engine_close(test_engine *e);

// Cache blocks that sequences hold now (those kept for reuse do not count).
int test_blocks_in_use(const tally_engine *e);

// A tally_logits_fn: stores the logits of position p at row p of the float array that `user` is.
tally_status test_collect(void *user, int position, const float *logits, int n_vocab);

// Logits [n][n_vocab] of ids computed in chunks of `chunk` rows by a fresh session; owned by the caller.
float *test_eval(const test_engine *e, const int32_t *ids, int n, int chunk);

// Greedy ids behind the prompt; owned by the caller. *n_out: how many.
int32_t *test_greedy(const test_engine *e, const int32_t *ids, int n, int max_tokens, int *n_out);

#endif
