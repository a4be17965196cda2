// Attention whose pieces are tasks of their own, because there are fewer heads and rows than threads keep busy: the logits are those of
// one thread, which never splits, at past lengths around every border of a piece.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 300, CONTEXT = 2600, LONGEST = 2580, MAX_ROWS = 5 };

// With 2 kv heads, 3 threads take 6 pieces to a window and 5 threads 10: some lengths end just behind one.
static const int pasts[] = {255, 256, 511, 513, 1024, 1600, 2570};

static void make_ids(int32_t *ids) {
    for (int i = 0; i < LONGEST; i++) ids[i] = (int32_t)(hash_mix((uint64_t)i) % VOCAB);
}

static void check(tally_status st, const tally_error *err) {
    if (st) fail_msg("%s", err->text);
}

// Logits of rows [past, past + rows), computed in one step behind a cache that the session holds.
static float *rows_behind(tally_session *s, const int32_t *ids, int past, int rows) {
    tally_error err;
    float *logits = malloc((size_t)LONGEST * VOCAB * sizeof *logits);
    assert_non_null(logits);
    check(tally_session_sync(s, ids, past, &err), &err);
    check(tally_session_eval(s, ids + past, rows, rows, test_collect, logits, &err), &err);
    float *wanted = malloc((size_t)rows * VOCAB * sizeof *wanted);
    assert_non_null(wanted);
    memcpy(wanted, logits + (size_t)past * VOCAB, (size_t)rows * VOCAB * sizeof *wanted);
    free(logits);
    return wanted;
}

static test_engine open_with(const char *path, int threads, const char *cache) {
    tally_engine_options o = {
        .threads = threads, .context = CONTEXT, .logit_rows = MAX_ROWS, .cache_k = cache, .cache_v = cache};
    return test_engine_open(path, &o);
}

// The sessions of one thread and of many go through the same lengths, so each fills its cache once.
static void compare(const char *path, int threads, const char *cache) {
    static const int widths[] = {1, 5};
    int32_t ids[LONGEST];
    make_ids(ids);
    test_engine one = open_with(path, 1, cache), many = open_with(path, threads, cache);
    tally_session *a, *b;
    tally_error err;
    check(tally_session_open(&a, one.engine, &err), &err);
    check(tally_session_open(&b, many.engine, &err), &err);
    for (size_t p = 0; p < sizeof pasts / sizeof *pasts; p++) {
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            float *expected = rows_behind(a, ids, pasts[p], widths[w]),
                  *found = rows_behind(b, ids, pasts[p], widths[w]);
            if (memcmp(expected, found, (size_t)widths[w] * VOCAB * sizeof *found) != 0)
                fail_msg("%d rows behind %d positions, %d threads, cache %s: other logits", widths[w], pasts[p],
                         threads, cache);
            free(expected);
            free(found);
        }
    }
    tally_session_close(a);
    tally_session_close(b);
    test_engine_close(&one);
    test_engine_close(&many);
}

static void test_same_logits(void **state) {
    (void)state;
    temp_folder folder = temp_folder_make();
    char path[300];
    snprintf(path, sizeof path, "%s/model.gguf", folder.path);
    tiny_random_gguf(path, DTYPE_Q8_0, false, 5); // 2 kv heads: 3 threads and more split
    compare(path, 3, "f16");
    compare(path, 5, "q8_0");
    temp_folder_remove(&folder);
}

// A long request beside short ones: its heads are as many as the threads, but a task each would leave most threads without work.
static void answer_together(const char *path, int threads, tally_logprob *out) {
    enum { SHORT = 10, TOKENS = 6, REQUESTS = 2 };
    int32_t ids[LONGEST];
    make_ids(ids);
    tally_engine_options o = {.threads = threads, .context = CONTEXT, .sequences = REQUESTS};
    test_engine e = test_engine_open(path, &o);
    tally_generation *g[REQUESTS];
    tally_error err;
    for (int i = 0; i < REQUESTS; i++) {
        tally_request r = {.ids = ids, .n_ids = i ? SHORT : 1200, .max_tokens = TOKENS};
        r.ignore_eos = true, r.logprobs = 1, r.speculation = TALLY_SPEC_OFF;
        check(tally_generate(e.engine, &r, &g[i], &err), &err);
    }
    for (bool idle = false; !idle;) check(tally_engine_step(e.engine, &idle, &err), &err);
    for (int i = 0; i < REQUESTS; i++) {
        for (int t = 0; t < TOKENS; t++) {
            int n;
            const tally_logprob *p = tally_generation_logprobs(g[i], t, &n);
            assert_true(p && n >= 1);
            out[i * TOKENS + t] = p[0];
        }
        tally_generation_close(g[i]);
    }
    test_engine_close(&e);
}

static void test_unequal_lengths(void **state) {
    (void)state;
    temp_folder folder = temp_folder_make();
    char path[300];
    snprintf(path, sizeof path, "%s/model.gguf", folder.path);
    tiny_random_gguf(path, DTYPE_Q8_0, false, 5);
    tally_logprob one[12], many[12];
    answer_together(path, 1, one);
    answer_together(path, 4, many); // 2 requests of 2 heads: 4 tasks
    for (int i = 0; i < 12; i++) {
        assert_int_equal(one[i].id, many[i].id);
        assert_memory_equal(&one[i].logprob, &many[i].logprob, sizeof one[i].logprob);
    }
    temp_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_logits), cmocka_unit_test(test_unequal_lengths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
