// Drafters that are wrong in every way there is, on models of every kind: the output, the logits behind it and the cache are plain
// decoding's, and as many drafts are accepted as are right.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "tests/support/sanitized.h"
#include "tests/support/spec_check.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 300 };

static temp_folder folder;
static char dense_f32[300], moe_q8[300], dense_q4k[300], moe_bf16[300];

static int setup(void **state) {
    (void)state;
    folder = temp_folder_make();
    const struct {
        char *path;
        const char *name;
        dtype type;
        bool moe;
    } models[] = {{dense_f32, "a.gguf", DTYPE_F32, false},
                  {moe_q8, "b.gguf", DTYPE_Q8_0, true},
                  {dense_q4k, "c.gguf", DTYPE_Q4_K, false},
                  {moe_bf16, "d.gguf", DTYPE_BF16, true}};
    for (int i = 0; i < 4; i++) {
        snprintf(models[i].path, 300, "%s/%s", folder.path, models[i].name);
        tiny_random_gguf(models[i].path, models[i].type, models[i].moe, 5);
    }
    return 0;
}

static int teardown(void **state) {
    (void)state;
    temp_folder_remove(&folder);
    return 0;
}

static void make_ids(int32_t *ids, int n, uint64_t seed) {
    for (int i = 0; i < n; i++) ids[i] = (int32_t)(hash_mix(seed * 1000 + (uint64_t)i) % VOCAB);
}

static const tally_sampling GREEDY = {0}, SAMPLED = {.temperature = 0.9f,
                                                     .top_p = 0.95f,
                                                     .top_k = 40,
                                                     .repeat_penalty = 1.1f,
                                                     .presence_penalty = 0.2f,
                                                     .frequency_penalty = 0.1f,
                                                     .seed = 4};

static tally_request request_of(const int32_t *ids, int n, int max_tokens, bool sampled) {
    return (tally_request){
        .ids = ids, .n_ids = n, .max_tokens = max_tokens, .ignore_eos = true, .sampling = sampled ? SAMPLED : GREEDY};
}

static tally_engine_options options(int threads) {
    return (tally_engine_options){.threads = threads, .context = 512, .step_rows = 64};
}

static spec_propose *const ALL[] = {
    spec_perfect, spec_wrong,    spec_wrong_first, spec_right_first, spec_repeat_last, spec_hostile, spec_stop_ids,
    spec_random,  spec_rejected, spec_in_turn,     spec_placeholder, spec_tree,        spec_failing};
enum { N_ALL = sizeof ALL / sizeof *ALL };

static void all_drafters(const char *path, int threads, bool sampled, int n_new) {
    tally_engine_options o = options(threads);
    spec_pair p = spec_pair_open(path, &o);
    int32_t ids[40];
    make_ids(ids, 40, 3);
    tally_request r = request_of(ids, 40, SANITIZED ? 40 : n_new, sampled);
    spec_plain *plain = spec_plain_run(&p, &r);
    for (int d = 0; d < N_ALL; d++) {
        static const int ks[] = {1, 4, 16, 7};
        spec_run run = {.propose = ALL[d], .k = ALL[d] == spec_tree ? 16 : ks[d % 4], .seed = (uint64_t)d};
        const char *what = spec_differs(&p, &run, &r, &plain, 1);
        if (what) fail_msg("drafter %d: %s", d, what);
        assert_true(run.counts.drafted > 0 && run.counts.verify_steps > 0);
        if (ALL[d] == spec_wrong || ALL[d] == spec_wrong_first) assert_int_equal(run.counts.accepted, 0);
        if (ALL[d] == spec_perfect) assert_int_equal(run.counts.accepted, run.counts.drafted);
        if (ALL[d] == spec_right_first) assert_int_equal(run.counts.accepted, run.counts.verify_steps);
        if (ALL[d] == spec_tree) assert_true(run.counts.accepted > 0);
        if (ALL[d] == spec_in_turn) assert_true(run.counts.accepted > run.counts.verify_steps);
    }
    spec_plain_free(plain);
    spec_pair_close(&p);
}

static void test_f32_greedy(void **state) { (void)state, all_drafters(dense_f32, 1, false, 130); }
static void test_q8_moe_sampled(void **state) { (void)state, all_drafters(moe_q8, 1, true, 130); }
static void test_q4k_threads(void **state) { (void)state, all_drafters(dense_q4k, 2, false, 60); }
static void test_bf16_moe_sampled(void **state) { (void)state, all_drafters(moe_bf16, 2, true, 60); }

// ---- what broke others -----------------------------------------------------------------------------------------------------

static void must_equal(const spec_pair *p, spec_propose *d, int k, const tally_request *r) {
    spec_run run = {.propose = d, .k = k};
    spec_must_equal(p, &run, r);
}

// Prompts as long as the drafts, or one or two tokens longer; a prompt of one token; answers of 1, 2, K, K + 1 tokens.
static void test_lengths(void **state) {
    (void)state;
    tally_engine_options o = options(1);
    spec_pair p = spec_pair_open(dense_f32, &o);
    int32_t ids[32];
    make_ids(ids, 32, 8);
    for (int k = 1; k <= 8; k += k < 4 ? 1 : 4) {
        for (int n = k; n <= k + 2; n++) {
            static const int plus[] = {-1, 1, 2}; // and K, K + 1 below
            for (int m = 0; m < 5; m++) {
                int max_tokens = m < 3 ? (plus[m] < 0 ? 20 : plus[m]) : k + m - 3;
                tally_request r = request_of(ids, n, max_tokens, m == 0);
                must_equal(&p, spec_perfect, k, &r);
                must_equal(&p, spec_in_turn, k, &r);
                must_equal(&p, NULL, k, &r);
            }
        }
    }
    spec_pair_close(&p);
}

// The context ends: drafts stop before it, the answer where plain decoding stops.
static void test_context(void **state) {
    (void)state;
    tally_engine_options o = options(1);
    for (o.context = 100; o.context <= 130; o.context += 7) {
        spec_pair p = spec_pair_open(dense_f32, &o);
        int32_t ids[100];
        make_ids(ids, 100, 9);
        for (int n = 60; n <= 100; n += 20) {
            tally_request r = request_of(ids, n, -1, false);
            must_equal(&p, spec_perfect, 16, &r);
            must_equal(&p, spec_wrong, 16, &r);
            must_equal(&p, spec_hostile, 16, &r);
        }
        spec_pair_close(&p);
    }
}

// A text without a separator, as long as many blocks; 50 and more cycles with nothing accepted; 300 tokens.
static void test_long(void **state) {
    (void)state;
    tally_engine_options o = options(1);
    spec_pair p = spec_pair_open(moe_q8, &o);
    int32_t ids[48 * 7];
    for (int i = 0; i < 48 * 7; i++) ids[i] = "serving"[i % 7];
    tally_request r = request_of(ids, 48 * 7, 32, false);
    must_equal(&p, NULL, 4, &r);
    must_equal(&p, spec_perfect, 4, &r);
    must_equal(&p, spec_perfect, 8, &r);
    int32_t ones[] = {1, 1, 1};
    r = request_of(ones, 3, 300, false);
    spec_run run = {.propose = spec_wrong_first, .k = 2};
    spec_must_equal(&p, &run, &r);
    assert_int_equal(run.counts.accepted, 0);
    assert_true(run.counts.verify_steps > 50);
    must_equal(&p, spec_in_turn, 5, &r);
    spec_pair_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_greedy),  cmocka_unit_test(test_q8_moe_sampled),
        cmocka_unit_test(test_q4k_threads), cmocka_unit_test(test_bf16_moe_sampled),
        cmocka_unit_test(test_lengths),     cmocka_unit_test(test_context),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
