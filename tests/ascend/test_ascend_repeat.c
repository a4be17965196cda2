// Executors that are used again: a step of shapes seen before asks no operator's phase 1, by the call trace, and gives the bits that it
// gives without.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ascend/internal.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "tests/support/emulated.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 300, N_IDS = 80, LAYERS = 2 };

typedef struct fixture {
    temp_folder folder;
    char path[300], trace[300];
    int32_t ids[N_IDS];
    emulated emu;
    test_engine t;
    tally_session *s;
} fixture;

static void open_engine(fixture *f, const char *device) {
    tally_error err;
    tally_engine_options o = {
        .threads = 1, .context = 128, .step_rows = 32, .logit_rows = 32, .no_prefix_reuse = true, .device = device};
    f->t = test_engine_open(f->path, &o);
    if (tally_session_open(&f->s, f->t.engine, &err)) fail_msg("%s", err.text);
}

static fixture fixture_open(const char *device, dtype type, bool moe) {
    fixture f = {.folder = temp_folder_make(), .emu = emulated_open()};
    f.emu.reset(); // what a failed test left
    snprintf(f.path, sizeof f.path, "%s/model.gguf", f.folder.path);
    snprintf(f.trace, sizeof f.trace, "%s/trace", f.folder.path);
    tiny_random_gguf(f.path, type, moe, 7);
    for (int i = 0; i < N_IDS; i++) f.ids[i] = (int32_t)(hash_mix(1 + (uint64_t)i) % VOCAB);
    open_engine(&f, device);
    return f;
}

static void close_engine(fixture *f) {
    assert_true(((const ascend_backend *)f->t.engine->plan.device)->call.growths == 0);
    tally_session_close(f->s);
    test_engine_close(&f->t);
    emulated_next(&f->emu);
}

static void fixture_close(fixture *f) {
    close_engine(f);
    emulated_close(&f->emu);
    temp_folder_remove(&f->folder);
}

static ascend_executors *kept(const fixture *f) {
    return &((ascend_backend *)f->t.engine->plan.device)->call.executors;
}

// The next n tokens in one step; the logits of each.
static void eval(fixture *f, int at, int n, float *logits) {
    tally_error err;
    if (tally_session_sync(f->s, f->ids, at, &err) ||
        tally_session_eval(f->s, f->ids + at, n, n, test_collect, logits, &err))
        fail_msg("%s", err.text);
}

// How often such a step asks a phase 1; one line of the trace each, in *trace if that is not NULL.
static int phases_of(fixture *f, int at, int n, float *logits, char **trace) {
    emulated_trace(&f->emu, f->trace);
    eval(f, at, n, logits);
    char *text = emulated_trace_read(&f->emu, f->trace);
    int phases = emulated_trace_count(text, "(phase 1)"), made = emulated_trace_count(text, "aclCreateTensor(");
    assert_int_equal(phases == 0, made == 0); // descriptors are kept with the executors
    assert_true(emulated_trace_count(text, "(phase 2,") > 10 * LAYERS);
    if (trace) {
        *trace = text;
    } else {
        free(text);
    }
    return phases;
}

static void check_repeats(const char *device, dtype type, bool moe) {
    char off[120];
    snprintf(off, sizeof off, "%s,off=executors", device);
    float *want = malloc(N_IDS * VOCAB * sizeof *want), *got = malloc(N_IDS * VOCAB * sizeof *got);
    assert_true(want && got);
    fixture f = fixture_open(off, type, moe);
    int all = phases_of(&f, 0, 1, want, NULL);
    for (int i = 1; i < 5; i++) assert_int_equal(phases_of(&f, i, 1, want, NULL), all);
    eval(&f, 5, 32, want);
    eval(&f, 37, 32, want);
    eval(&f, 69, 1, want);
    close_engine(&f);
    open_engine(&f, device);
    assert_int_equal(phases_of(&f, 0, 1, got, NULL), all);
    for (int i = 1; i < 5; i++) assert_int_equal(phases_of(&f, i, 1, got, NULL), 0);
    eval(&f, 5, 32, got); // two tiles
    assert_int_equal(phases_of(&f, 5, 32, got, NULL), 0);
    eval(&f, 37, 32, got); // into the next block of the cache
    char *trace;
    int next = phases_of(&f, 69, 1, got, &trace);
    // A row of another block: attention is another, what surrounds it is not.
    assert_int_equal(next, LAYERS);
    assert_int_equal(emulated_trace_count(trace, "(phase 1)"),
                     emulated_trace_count(trace, "AttentionScoreV4(phase 1)"));
    free(trace);
    assert_memory_equal(got, want, 70 * VOCAB * sizeof *got);
    assert_true(kept(&f)->found > 0 && kept(&f)->n < kept(&f)->cap);
    free(want);
    free(got);
    fixture_close(&f);
}

static void test_dense(void **state) {
    (void)state, check_repeats("emu:910B3,tile=16,graph=off,pieces=off", DTYPE_BF16, false);
}
static void test_moe(void **state) {
    (void)state, check_repeats("emu:910_9382,cann=8.5,tile=16,graph=off,pieces=off", DTYPE_F16, true);
}

// Where attention is composed, two calls a layer write into strides and are asked each time.
static void test_composed(void **state) {
    (void)state;
    float *want = malloc(N_IDS * VOCAB * sizeof *want), *got = malloc(N_IDS * VOCAB * sizeof *got);
    assert_true(want && got);
    fixture f = fixture_open("emu:910A,tile=16,pieces=off,off=executors", DTYPE_F16, false);
    int all = phases_of(&f, 0, 1, want, NULL);
    for (int i = 1; i < 4; i++) eval(&f, i, 1, want);
    close_engine(&f);
    open_engine(&f, "emu:910A,tile=16,pieces=off");
    assert_int_equal(phases_of(&f, 0, 1, got, NULL), all);
    for (int i = 1; i < 4; i++) assert_int_equal(phases_of(&f, i, 1, got, NULL), 2 * LAYERS);
    assert_memory_equal(got, want, 4 * VOCAB * sizeof *got);
    free(want);
    free(got);
    fixture_close(&f);
}

// A replayed step asks none either; the step that is captured uses what the one before it left.
static void test_capture(void **state) {
    (void)state;
    float logits[3 * VOCAB];
    char *trace;
    fixture f = fixture_open("emu:910B3,tile=16,pieces=off", DTYPE_BF16, false);
    assert_true(phases_of(&f, 0, 1, logits, NULL) > 0);
    assert_int_equal(phases_of(&f, 1, 1, logits, &trace), 0);
    assert_int_equal(emulated_trace_count(trace, "aclmdlRICaptureEnd("), 1);
    free(trace);
    fixture_close(&f);
}

// What docs/ascend.md and docs/plan.md say a step calls.
static void check_calls(const char *device, bool moe, int layer, int outside) {
    float logits[VOCAB];
    fixture f = fixture_open(device, DTYPE_BF16, moe);
    emulated_trace(&f.emu, f.trace);
    eval(&f, 0, 1, logits);
    char *text = emulated_trace_read(&f.emu, f.trace);
    assert_int_equal(emulated_trace_count(text, "(phase 2,"), layer * LAYERS + outside);
    // q, k and v are one product, as are gate and up
    assert_int_equal(emulated_trace_count(text, "aclnnMm(phase 2,"), (moe ? 3 : 4) * LAYERS + 1);
    free(text);
    fixture_close(&f);
}

static void test_calls(void **state) {
    (void)state;
    check_calls("emu:910B3,tile=16,pieces=off", false, 14, 8);
    check_calls("emu:910_9382,cann=8.5,tile=16,pieces=off", true, 21, 8);
}

// Room for fewer than a step needs: the oldest gives way, and what is kept stays right.
static void test_eviction(void **state) {
    (void)state;
    float *want = malloc(N_IDS * VOCAB * sizeof *want), *got = malloc(N_IDS * VOCAB * sizeof *got);
    assert_true(want && got);
    fixture f = fixture_open("emu:910B3,tile=16,graph=off,pieces=off", DTYPE_BF16, false);
    for (int i = 0; i < 6; i++) eval(&f, i, 1, want);
    close_engine(&f);
    for (int cap = 1; cap < 40; cap = cap * 3 + 1) {
        open_engine(&f, "emu:910B3,tile=16,graph=off,pieces=off");
        kept(&f)->cap = cap;
        for (int i = 0; i < 6; i++) eval(&f, i, 1, got);
        assert_int_equal(kept(&f)->n, cap);
        assert_memory_equal(got, want, 6 * VOCAB * sizeof *got);
        close_engine(&f);
    }
    open_engine(&f, "emu:910B3,tile=16,graph=off,pieces=off"); // one that fails is not used again
    for (int i = 0; i < 3; i++) eval(&f, i, 1, got);
    int n = kept(&f)->n;
    tally_error err;
    assert_int_equal(f.emu.configure("fail_launch=9"), 0);
    assert_true(tally_session_sync(f.s, f.ids, 4, &err) != 0);
    assert_int_equal(kept(&f)->n, n - 1);
    for (int i = 3; i < 6; i++) eval(&f, i, 1, got);
    assert_int_equal(kept(&f)->n, n);
    assert_memory_equal(got, want, 6 * VOCAB * sizeof *got);
    free(want);
    free(got);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),   cmocka_unit_test(test_moe),   cmocka_unit_test(test_composed),
        cmocka_unit_test(test_capture), cmocka_unit_test(test_calls), cmocka_unit_test(test_eviction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
