#include "tests/support/eval.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void must(tally_status s, const tally_error *err) {
    if (s) fail_msg("%s", err->text);
}

test_engine test_engine_open(const char *path, const tally_engine_options *options) {
    static const tally_engine_options defaults = {.threads = 1, .logit_rows = 64};
    tally_error err;
    test_engine e;
    must(tally_model_open(&e.model, path, &err), &err);
    must(tally_engine_open(&e.engine, e.model, options ? options : &defaults, &err), &err);
    return e;
}

void test_engine_close(test_engine *e) {
    tally_engine_close(e->engine);
    tally_model_close(e->model);
}

int test_blocks_in_use(const tally_engine *e) {
    tally_stats stats;
    tally_engine_stats(e, &stats);
    return stats.blocks_in_use;
}

tally_status test_collect(void *user, int position, const float *logits, int n_vocab) {
    memcpy((float *)user + (size_t)position * (size_t)n_vocab, logits, (size_t)n_vocab * sizeof *logits);
    return TALLY_OK;
}

float *test_eval(const test_engine *e, const int32_t *ids, int n, int chunk) {
    tally_error err;
    tally_session *s;
    float *logits = malloc((size_t)n * (size_t)tally_model_n_vocab(e->model) * sizeof *logits);
    assert_non_null(logits);
    must(tally_session_open(&s, e->engine, &err), &err);
    must(tally_session_eval(s, ids, n, chunk, test_collect, logits, &err), &err);
    tally_session_close(s);
    return logits;
}

int32_t *test_greedy(const test_engine *e, const int32_t *ids, int n, int max_tokens, int *n_out) {
    tally_error err;
    tally_generation *g;
    tally_request r = {.ids = ids, .n_ids = n, .max_tokens = max_tokens, .ignore_eos = true};
    must(tally_generate(e->engine, &r, &g, &err), &err);
    while (!tally_generation_done(g)) must(tally_engine_step(e->engine, NULL, &err), &err);
    must(tally_generation_status(g, &err), &err);
    const int32_t *out = tally_generation_ids(g, n_out);
    int32_t *copy = malloc((size_t)(*n_out + 1) * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, out, (size_t)*n_out * sizeof *copy);
    tally_generation_close(g);
    return copy;
}
