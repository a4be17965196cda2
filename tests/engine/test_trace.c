// Tracing: what is counted is what was done, and no logit changes because somebody watches.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/engine.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { LEN = 50, VOCAB = 300, CHUNK = 20 };

static test_engine open_tiny(dtype type, bool moe, int threads) {
    temp_folder folder = temp_folder_make();
    char path[300];
    snprintf(path, sizeof path, "%s/model.gguf", folder.path);
    tiny_random_gguf(path, type, moe, 3);
    tally_engine_options o = {.threads = threads, .context = 128, .step_rows = CHUNK, .logit_rows = CHUNK};
    test_engine e = test_engine_open(path, &o);
    temp_folder_remove(&folder);
    return e;
}

static void make_ids(int32_t ids[LEN]) {
    for (int i = 0; i < LEN; i++) ids[i] = (int32_t)(hash_mix((uint64_t)i) % VOCAB);
}

static void start(const test_engine *e) {
    tally_error err;
    if (tally_engine_trace_start(e->engine, &err) != TALLY_OK) fail_msg("%s", err.text);
}

// Runs LEN rows in three steps and returns their logits.
static float *traced_eval(const test_engine *e, const int32_t *ids, tally_trace *t) {
    start(e);
    float *logits = test_eval(e, ids, LEN, CHUNK);
    tally_engine_trace_stop(e->engine, t);
    return logits;
}

static void check_times(const tally_trace *t, int threads) {
    double sum = 0, loops = 0;
    for (int i = 0; i < t->n_ops; i++) {
        const tally_op_trace *o = &t->ops[i];
        assert_int_equal(o->calls, 3);
        assert_true(o->op && o->label && o->seconds > 0 && o->loop_s <= o->seconds);
        assert_true(o->wake_s >= 0 && o->wait_s >= 0 && o->wake_s + o->wait_s <= o->loop_s * threads * 1.000001);
        sum += o->seconds;
        loops += (double)o->loops;
    }
    assert_true(sum <= t->seconds && sum > 0);
    assert_int_equal(loops > 0, threads > 1);
}

static void test_same_logits(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        test_engine e = open_tiny(DTYPE_Q4_K, true, threads);
        int32_t ids[LEN];
        make_ids(ids);
        float *plain = test_eval(&e, ids, LEN, CHUNK);
        tally_trace t;
        float *traced = traced_eval(&e, ids, &t);
        assert_memory_equal(plain, traced, (size_t)LEN * VOCAB * sizeof *plain);
        assert_int_equal(t.steps, 3);
        assert_int_equal(t.rows, LEN);
        check_times(&t, threads);
        free(plain);
        free(traced);
        test_engine_close(&e);
    }
}

static double multiply_adds(const tally_engine *e, int experts_used) {
    double sum = 0;
    for (int i = 0; i < e->plan.model.weights.n; i++) {
        const weight *w = &e->plan.model.weights.w[i];
        if (w->absorbed || w->role == WEIGHT_VECTOR || w->role == WEIGHT_EMBED || w->role == WEIGHT_ROUTER) continue;
        sum += (double)w->n * (double)w->k * (w->role == WEIGHT_EXPERTS ? experts_used : 1);
    }
    return sum;
}

// Bytes and operations of single rows are those that the model's shapes say.
static void test_counts(void **state) {
    (void)state;
    static const struct {
        dtype type;
        bool moe;
    } cases[] = {{DTYPE_Q8_0, false}, {DTYPE_BF16, false}, {DTYPE_Q4_K, true}, {DTYPE_F32, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        test_engine e = open_tiny(cases[c].type, cases[c].moe, 2);
        int32_t ids[LEN];
        make_ids(ids);
        tally_session *s;
        tally_error err;
        assert_int_equal(tally_session_open(&s, e.engine, &err), 0);
        assert_int_equal(tally_session_sync(s, ids, 30, &err), 0);
        start(&e);
        assert_int_equal(tally_session_sync(s, ids, 31, &err), 0);
        tally_trace t;
        tally_engine_trace_stop(e.engine, &t);
        assert_int_equal(t.steps, 1);
        double weights = 0, cache = 0, f32 = 0, bf16 = 0, q8 = 0;
        for (int i = 0; i < t.n_ops; i++) {
            const tally_op_trace *o = &t.ops[i];
            weights += strcmp(o->op, "EMBED") == 0 ? 0 : o->weight_bytes;
            cache += o->cache_bytes;
            f32 += o->f32, bf16 += o->bf16, q8 += o->q8;
        }
        double all = (double)tally_engine_step_bytes(e.engine, 1, 0),
               with_past = (double)tally_engine_step_bytes(e.engine, 1, 31);
        if (weights < all * 0.999 || weights > all * 1.001) fail_msg("case %zu: %.0f bytes, not %.0f", c, weights, all);
        assert_true(cache == with_past - all);
        double products = 2 * multiply_adds(e.engine, 3);
        bool is_f32 = cases[c].type == DTYPE_F32, is_bf16 = cases[c].type == DTYPE_BF16;
        if (is_f32) assert_true(f32 > products && f32 < 1.5 * products && bf16 == 0 && q8 == 0);
        if (is_bf16) assert_true(bf16 == products && f32 < 0.5 * products && q8 == 0);
        if (!is_f32 && !is_bf16) assert_true(q8 == products && f32 < 0.5 * products && bf16 == 0);
        tally_session_close(s);
        test_engine_close(&e);
    }
}

static void test_start_and_stop(void **state) {
    (void)state;
    test_engine e = open_tiny(DTYPE_Q8_0, false, 2);
    int32_t ids[LEN];
    make_ids(ids);
    tally_trace t = {.steps = 1};
    tally_engine_trace_stop(e.engine, &t); // without a start
    assert_true(t.steps == 0 && t.n_ops == 0 && !t.ops);
    free(traced_eval(&e, ids, &t));
    free(test_eval(&e, ids, LEN, CHUNK)); // not counted
    tally_engine_trace_stop(e.engine, &t);
    assert_int_equal(t.steps, 3);
    assert_int_equal(t.ops[0].calls, 3);
    start(&e); // from zero
    start(&e);
    tally_engine_trace_stop(e.engine, &t);
    assert_true(t.steps == 0 && t.seconds == 0 && t.ops[0].calls == 0 && t.ops[0].weight_bytes == 0);
    start(&e); // closing the engine ends it
    test_engine_close(&e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_logits),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_start_and_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
