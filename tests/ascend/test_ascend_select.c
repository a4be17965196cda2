// Tokens from the largest logits alone: the answers are those of whole rows, whatever the order of equal ones in which the device's
// operator gives them, and the call trace shows how little comes back.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ascend/internal.h"
#include "base/hash.h"
#include "engine/generation.h"
#include "tests/support/emulated.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 300, DIM = 256, N_PROMPT = 5, N_NEW = 6, MOST = 16 };

typedef struct fixture {
    temp_folder folder;
    char path[300], trace[300];
    emulated emu;
    tally_model *model;
    tally_engine *engine;
} fixture;

static fixture fixture_open(dtype type) {
    fixture f = {.folder = temp_folder_make(), .emu = emulated_open()};
    tally_error err;
    f.emu.reset(); // what a failed test left
    snprintf(f.path, sizeof f.path, "%s/model.gguf", f.folder.path);
    snprintf(f.trace, sizeof f.trace, "%s/trace", f.folder.path);
    tiny_random_gguf(f.path, type, false, 7);
    assert_int_equal(tally_model_open(&f.model, f.path, &err), 0);
    assert_int_equal(checkpoint_load_tensors(f.model->ck, false, NULL), STATUS_OK);
    return f;
}

static void load(fixture *f, const char *device) {
    tally_error err;
    tally_engine_options o = {
        .threads = 1, .context = 128, .cache_positions = 2048, .step_rows = 64, .no_mmap = true, .device = device};
    checkpoint_keep_data(f->model->ck); // tests write into it
    if (tally_engine_open(&f->engine, f->model, &o, &err)) fail_msg("%s", err.text);
}

static void unload(fixture *f) {
    tally_engine_close(f->engine);
    f->engine = NULL;
    emulated_next(&f->emu);
}

static void fixture_close(fixture *f) {
    tally_model_close(f->model);
    emulated_close(&f->emu);
    temp_folder_remove(&f->folder);
}

static uint16_t *head_row(const fixture *f, int32_t id) {
    const checkpoint_tensor *t = checkpoint_find(f->model->ck, str_from("lm_head.weight"));
    assert_non_null(t);
    return (uint16_t *)(uintptr_t)t->data + (size_t)id * DIM;
}

// ---- requests --------------------------------------------------------------------------------------------------------------

typedef struct answers {
    int n;
    int32_t id[MOST][N_NEW];
    int n_ids[MOST];
    tally_logprob first[MOST]; // of requests that ask for log-probabilities
    char error[MOST][300];
    int drafted;
} answers;

static void begin(const fixture *f, const tally_request *r, int n, tally_generation **g) {
    tally_error err;
    for (int i = 0; i < n; i++) {
        int32_t ids[N_PROMPT];
        tally_request mine = r[i];
        for (int k = 0; k < N_PROMPT; k++) {
            bool repeats = mine.speculation == TALLY_SPEC_LOOKUP; // itself, so that there is something to draft
            ids[k] = repeats ? 7 + k % 2 : (int32_t)(hash_mix((uint64_t)(100 * i + k)) % VOCAB);
        }
        mine.ids = ids, mine.n_ids = N_PROMPT, mine.max_tokens = N_NEW, mine.ignore_eos = true;
        if (tally_generate(f->engine, &mine, &g[i], &err)) fail_msg("%s", err.text);
    }
}

static void step(const fixture *f, bool *idle) {
    tally_error err;
    if (tally_engine_step(f->engine, idle, &err)) fail_msg("%s", err.text);
}

static answers ask(const fixture *f, const tally_request *r, int n) {
    answers a = {.n = n};
    tally_generation *g[MOST];
    tally_error err;
    begin(f, r, n, g);
    for (bool idle = false; !idle;) step(f, &idle);
    for (int i = 0; i < n; i++) {
        const int32_t *ids = tally_generation_ids(g[i], &a.n_ids[i]);
        memcpy(a.id[i], ids, (size_t)a.n_ids[i] * sizeof *ids);
        int n_logprobs;
        const tally_logprob *p = tally_generation_logprobs(g[i], 0, &n_logprobs);
        if (p) a.first[i] = p[0];
        tally_spec_counts counts;
        tally_generation_spec_counts(g[i], &counts);
        a.drafted += counts.drafted;
        if (tally_generation_status(g[i], &err)) snprintf(a.error[i], sizeof a.error[i], "%.299s", err.text);
        tally_generation_close(g[i]);
    }
    return a;
}

// Greedy, sampled from few, from as many as suffice just and just do not, from all; what needs the whole row.
static int kinds_of(tally_request *r) {
    static const tally_logit_bias bias = {7, 5};
    static const int top[] = {1, 2, 20, 50, 63, 64, 65, 200, 300};
    int n = 0;
    r[n++] = (tally_request){.logprobs = 0};
    for (int i = 0; i < 9; i++, n++)
        r[n] = (tally_request){.sampling = {.temperature = 2, .top_k = top[i], .seed = (uint64_t)i}};
    r[n++] = (tally_request){.sampling = {.temperature = 1.5f, .top_k = 30, .top_p = 0.8f, .min_p = 0.02f, .seed = 3}};
    r[n++] = (tally_request){.sampling = {.temperature = 1, .seed = 4}};
    r[n++] = (tally_request){.sampling = {.repeat_penalty = 1.3f, .temperature = 1, .top_k = 9, .seed = 5}};
    r[n++] = (tally_request){.sampling = {.logit_bias = &bias, .n_logit_bias = 1}};
    r[n++] = (tally_request){.logprobs = 2};
    r[n++] = (tally_request){.speculation = TALLY_SPEC_LOOKUP};
    return n;
}

static void same(const answers *a, const answers *b, const char *device) {
    for (int i = 0; i < a->n; i++) {
        if (strcmp(a->error[i], b->error[i]) != 0)
            fail_msg("%s, request %d: '%s' and '%s'", device, i, a->error[i], b->error[i]);
        if (a->n_ids[i] != b->n_ids[i] || memcmp(a->id[i], b->id[i], sizeof a->id[i]) != 0)
            fail_msg("%s: request %d has other tokens than from whole rows", device, i);
        assert_memory_equal(&a->first[i], &b->first[i], sizeof a->first[i]);
    }
}

// The answers on a device are those with off=topk.
static answers compare(fixture *f, const char *device, const tally_request *r, int n) {
    char whole[100];
    snprintf(whole, sizeof whole, "%s,off=topk", device);
    load(f, whole);
    answers want = ask(f, r, n);
    unload(f);
    load(f, device);
    answers got = ask(f, r, n);
    unload(f);
    same(&got, &want, device);
    return got;
}

static void test_answers(void **state) {
    (void)state;
    tally_request r[MOST];
    int n = kinds_of(r);
    fixture f = fixture_open(DTYPE_BF16);
    assert_true(compare(&f, "emu:910B3,tile=16", r, n).drafted > 0);
    compare(&f, "emu:910_9382,cann=8.1,tile=16,head=half", r, n); // logits of 8 bits: many are equal
    compare(&f, "emu:950PR,tile=16,exact=off", r, n);
    fixture_close(&f);
    f = fixture_open(DTYPE_F16);
    compare(&f, "emu:910A,tile=16", r, n);
    compare(&f, "emu:310P3,tile=16", r, n);
    fixture_close(&f);
}

// ---- equal logits ----------------------------------------------------------------------------------------------------------

// Heads of which `n` rows are those of the token that a greedy request chooses first: the lowest id among them is to be chosen.
static void check_ties(fixture *f, int n, const tally_request *r, int n_requests) {
    load(f, "emu:910B3,tile=16,off=topk");
    int32_t winner = ask(f, r, 1).id[0][0], lowest = 11;
    unload(f);
    uint16_t saved[VOCAB][DIM];
    memcpy(saved, head_row(f, 0), sizeof saved);
    for (int i = 0; i < n; i++) memcpy(head_row(f, lowest + 3 * i), saved[winner], sizeof *saved);
    for (int seed = 1; seed <= 2; seed++) { // of the order that the operator gives equals
        char device[100];
        snprintf(device, sizeof device, "emu:910B3,tile=16,perturb=%d", seed);
        assert_int_equal(compare(f, device, r, n_requests).id[0][0], lowest < winner ? lowest : winner);
    }
    memcpy(head_row(f, 0), saved, sizeof saved);
}

static void test_ties(void **state) {
    (void)state;
    tally_request r[MOST];
    int n = kinds_of(r);
    fixture f = fixture_open(DTYPE_BF16);
    check_ties(&f, 3, r, n);
    check_ties(&f, 90, r, n); // more than the device gives
    fixture_close(&f);
}

// ---- what is not finite ----------------------------------------------------------------------------------------------------

// A damaged row of the head: found though it is none of the largest.
static void test_not_finite(void **state) {
    (void)state;
    static const uint16_t damage[] = {0x7fc0, 0x7f80, 0xff80}; // NaN, infinities
    tally_request r[MOST];
    int n = kinds_of(r);
    fixture f = fixture_open(DTYPE_BF16);
    for (int i = 0; i < 3; i++) {
        uint16_t *at = head_row(&f, 17) + 3, good = *at;
        *at = damage[i];
        answers a = compare(&f, "emu:910B3,tile=16", r, n);
        for (int k = 0; k < n; k++) {
            if (!strstr(a.error[k], "are not finite")) fail_msg("request %d: '%s'", k, a.error[k]);
        }
        *at = good;
    }
    fixture_close(&f);
}

// ---- what comes back -------------------------------------------------------------------------------------------------------

// Bytes that a decode step of these requests brings to the host.
static int64_t decode_bytes(fixture *f, const char *device, const tally_request *r, int n) {
    tally_generation *g[MOST];
    bool idle;
    load(f, device);
    begin(f, r, n, g);
    step(f, &idle); // prompts
    step(f, &idle);
    emulated_trace(&f->emu, f->trace);
    step(f, &idle);
    char *trace = emulated_trace_read(&f->emu, f->trace);
    int64_t bytes = emulated_trace_copied(trace);
    assert_int_equal(emulated_trace_count(trace, "aclrtSynchronizeStreamWithTimeout("), 1);
    assert_int_equal(emulated_trace_count(trace, "aclrtMemcpy("), 0);
    assert_int_equal(emulated_trace_count(trace, "aclrtMalloc("), 0);
    free(trace);
    for (int i = 0; i < n; i++) {
        int n_ids;
        tally_generation_ids(g[i], &n_ids);
        assert_int_equal(n_ids, 3);
        tally_generation_close(g[i]);
    }
    unload(f);
    return bytes;
}

static void test_bytes(void **state) {
    (void)state;
    enum { N = 4 };
    fixture f = fixture_open(DTYPE_BF16);
    const char *device = "emu:910B3,tile=16", *off = "emu:910B3,tile=16,off=topk";
    const tally_request greedy[N] = {{.logprobs = 0}};
    tally_request sampled[N], one[N] = {{.logprobs = 1}};
    for (int i = 0; i < N; i++) sampled[i] = (tally_request){.sampling = {.temperature = 1, .top_k = 40}};
    int64_t row = VOCAB * 4, whole = decode_bytes(&f, off, greedy, N), best = decode_bytes(&f, device, greedy, N);
    int64_t norms = whole - N * row; // 1/rms of the tile's rows, which the check for numbers that are not finite reads
    assert_true(norms > 0 && norms < 1024);
    assert_true(best - norms <= N * (64 * (4 + 8) + 4) + 64);
    assert_true(best < N * 1024);
    assert_true(decode_bytes(&f, device, sampled, N) == best);
    assert_true(decode_bytes(&f, device, one, N) == best + row); // log-probabilities need their own row and no other
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
