// With and without drafts: the same ids, the same logits behind each, the same cache. Prompt lookup as users have it, for every number of
// drafts and length of n-gram, on texts that repeat and texts that do not; several requests together; every mode.
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

enum { VOCAB = 300, MAX_PROMPT = 200, NEW = 512, N_PROMPTS = 8 };

static temp_folder folder;
static int32_t prompt[N_PROMPTS][MAX_PROMPT];
static int n_prompt[N_PROMPTS];

static void say(int which, const char *text) {
    n_prompt[which] = (int)strlen(text);
    for (int i = 0; i < n_prompt[which]; i++) prompt[which][i] = (unsigned char)text[i];
}

// Prompts of K, K + 1 and K + 2 tokens are made where K is known.
static int setup(void **state) {
    (void)state;
    folder = temp_folder_make();
    say(0, "to be, or not to be, to be, or not to be, to be, or not to be, to be,");
    say(1, "Paris: France\nRome: Italy\nMadrid: Spain\nLisbon: Portugal\nVienna: Austria\nBern:");
    say(2, "int sum(const int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }\nint "
           "max(const int *a, int n) {");
    for (int i = 0; i < 150; i++) prompt[3][i] = i * 2 % 191; // no two tokens follow each other twice
    n_prompt[3] = 150;
    say(4, "x"); // shorter than any n-gram
    say(5, "servingservingservingservingservingservingservingservingservingservingservingservingserving");
    for (int i = 0; i < 70; i++) prompt[6][i] = (int32_t)(hash_mix((uint64_t)i) % 3);
    n_prompt[6] = 70;
    return 0;
}

static int teardown(void **state) { return (void)state, temp_folder_remove(&folder), 0; }

static tally_request request_of(int which, int max_tokens, bool sampled) {
    tally_request r = {.ids = prompt[which], .n_ids = n_prompt[which], .max_tokens = max_tokens, .ignore_eos = true};
    if (sampled)
        r.sampling = (tally_sampling){.temperature = 0.8f,
                                      .top_p = 0.9f,
                                      .repeat_penalty = 1.02f,
                                      .frequency_penalty = 0.01f,
                                      .seed = (uint64_t)which,
                                      .sample = 2};
    return r;
}

static void run_one(const spec_pair *p, spec_run *run, const tally_request *r, const char *what) {
    spec_plain *plain = spec_plain_run(p, r);
    const char *difference = spec_differs(p, run, r, &plain, 1);
    if (difference)
        fail_msg("%s, %d drafts, n-gram %d: %s", what, run->k, p->spec.engine->speculation.lookup_min, difference);
    spec_plain_free(plain);
}

// Golden models are a tenth of the size of the random ones; here they get more context.
static void write_golden(const char *variant, dtype type, const char *path) {
    tiny_model m = tiny_model_read(variant);
    json_object_set_new(m.config, "max_position_embeddings", json_integer(2048));
    assert_true(tiny_model_write_gguf(&m, path, type));
    tiny_model_free(&m);
}

// Every K and n-gram; each pair with two prompts, so that over the three types each meets most of them.
static void every_k(const char *variant, dtype type, int salt) {
    static const int ks[] = {1, 2, 3, 5, 10, 16};
    const char *path = temp_folder_path(&folder, "model.gguf");
    write_golden(variant, type, path);
    spec_pair p = spec_pair_open(path, &(tally_engine_options){.threads = 1, .context = 1024, .step_rows = 64});
    int accepted = 0;
    for (int i = 0; i < 18; i += SANITIZED ? 5 : 1) {
        int k = ks[i / 3], n = 1 + i % 3;
        p.spec.engine->speculation.lookup_min = p.spec.engine->speculation.lookup_max = n;
        for (int j = 0; j < 2; j++) {
            int which = (i + salt + j * 4) % N_PROMPTS;
            if (which == 7) { // as long as the drafts, or one or two more
                n_prompt[7] = k + i % 3;
                for (int t = 0; t < n_prompt[7]; t++) prompt[7][t] = 40 + t % 2;
            }
            tally_request r = request_of(which, j ? NEW / 3 : NEW, j == 1);
            spec_run run = {.k = k, .no_cache_check = i % 6 != 0};
            run_one(&p, &run, &r, dtype_get(type)->name);
            accepted += run.counts.accepted;
        }
    }
    assert_true(accepted > (SANITIZED ? 100 : 1000)); // otherwise this test shows nothing
    print_message("# %s: %d drafts accepted\n", dtype_get(type)->name, accepted);
    spec_pair_close(&p);
}

static void test_f32(void **state) { (void)state, every_k("llama-gqa4", DTYPE_F32, 0); }
static void test_bf16_moe(void **state) { (void)state, every_k("qwen3moe-e8k2-norm", DTYPE_BF16, 3); }
static void test_q8_0(void **state) { (void)state, every_k("llama-gqa4", DTYPE_Q8_0, 5); }

// Every mode, with and without a corpus; greedy and sampled.
static void test_modes(void **state) {
    (void)state;
    const char *path = temp_folder_path(&folder, "model.gguf");
    tiny_random_gguf(path, DTYPE_Q6_K, true, 9);
    for (int corpus = 0; corpus <= 1000; corpus += 1000) {
        spec_pair p = spec_pair_open(
            path, &(tally_engine_options){.threads = 1, .context = 512, .step_rows = 64, .speculation.corpus = corpus});
        static const tally_spec_mode modes[] = {TALLY_SPEC_AUTO, TALLY_SPEC_LOOKUP, TALLY_SPEC_TREE, TALLY_SPEC_OFF};
        for (int m = 0; m < 4; m++) {
            for (int which = 0; which < 7; which += 2) {
                tally_request r = request_of(which, 100, which % 4 == 2);
                spec_run run = {.mode = modes[m]};
                run_one(&p, &run, &r, "modes");
                if (modes[m] == TALLY_SPEC_OFF) assert_int_equal(run.counts.drafted, 0);
                bool always = modes[m] == TALLY_SPEC_LOOKUP || modes[m] == TALLY_SPEC_TREE;
                if (always && which == 0) assert_true(run.counts.accepted > 0);
            }
        }
        spec_pair_close(&p);
    }
}

// ---- together ----------------------------------------------------------------------------------------------------------------

typedef struct batch {
    const char *name;
    tally_engine_options o;
    spec_propose *propose;
    tally_spec_mode mode;
} batch;

static const batch BATCHES[] = {
    {"all", {.threads = 2, .context = 512, .cache_positions = 4096}, spec_random, 0},
    {"trees", {.threads = 1, .context = 512, .cache_positions = 4096, .logit_rows = 40}, spec_tree, TALLY_SPEC_TREE},
    {"few rows", {.threads = 1, .context = 512, .cache_positions = 4096, .step_rows = 9}, spec_in_turn, 0},
    {"fewer rows than requests",
     {.threads = 1, .context = 512, .cache_positions = 4096, .step_rows = 3},
     spec_perfect,
     0},
    {"one row", {.threads = 1, .context = 512, .cache_positions = 4096, .step_rows = 1}, spec_perfect, 0},
    {"few logits", {.threads = 1, .context = 512, .cache_positions = 4096, .logit_rows = 7}, spec_hostile, 0},
    {"small chunks", {.threads = 1, .context = 512, .cache_positions = 4096, .chunk_rows = 5}, spec_random, 0},
    {"preempted", {.threads = 1, .context = 256, .cache_positions = 320}, spec_random, 0},
    {"preempted, no reuse",
     {.threads = 1, .context = 256, .cache_positions = 384, .no_prefix_reuse = true},
     spec_hostile,
     0},
    {"auto", {.threads = 1, .context = 512, .cache_positions = 4096}, NULL, TALLY_SPEC_AUTO},
    {"auto, corpus",
     {.threads = 2, .context = 512, .cache_positions = 4096, .speculation.corpus = 500},
     NULL,
     TALLY_SPEC_AUTO},
    {"lookup trees, preempted", {.threads = 1, .context = 256, .cache_positions = 320}, NULL, TALLY_SPEC_TREE},
};

static void test_together(void **state) {
    (void)state;
    const char *path = temp_folder_path(&folder, "model.gguf");
    tiny_random_gguf(path, DTYPE_Q8_0, true, 5);
    enum { N = 6 };
    int64_t preemptions = 0;
    for (size_t b = 0; b < sizeof BATCHES / sizeof *BATCHES; b++) {
        spec_pair p = spec_pair_open(path, &BATCHES[b].o);
        tally_request r[N];
        spec_plain *plain[N];
        for (int i = 0; i < N; i++) r[i] = request_of(i, 40 + 17 * i % 60, i % 2), plain[i] = spec_plain_run(&p, &r[i]);
        spec_run run = {.propose = BATCHES[b].propose,
                        .mode = BATCHES[b].mode,
                        .seed = b,
                        .drops_cache = true,
                        .no_cache_check = b > 7};
        const char *what = spec_differs(&p, &run, r, plain, N);
        if (what) fail_msg("%s: %s", BATCHES[b].name, what);
        tally_stats s;
        tally_engine_stats(p.spec.engine, &s);
        preemptions += s.preemptions;
        if (BATCHES[b].o.cache_positions > 1000) assert_int_equal(s.preemptions, 0);
        bool rows = BATCHES[b].o.step_rows != 1 && BATCHES[b].o.step_rows != 3;
        if (rows && BATCHES[b].mode != TALLY_SPEC_AUTO) assert_true(run.counts.accepted > 0); // auto goes by the clock
        for (int i = 0; i < N; i++) spec_plain_free(plain[i]);
        spec_pair_close(&p);
    }
    assert_true(preemptions > 3);
}

// Blocks for what the requests need and not one more: drafts take none of them, so that nobody loses its cache.
static void test_no_block_to_spare(void **state) {
    (void)state;
    const char *path = temp_folder_path(&folder, "model.gguf");
    tiny_random_gguf(path, DTYPE_F32, false, 5);
    enum { N = 3 };
    spec_pair p = spec_pair_open(
        path, &(tally_engine_options){
                  .threads = 1, .context = 256, .cache_positions = N * 2 * KV_BLOCK, .no_prefix_reuse = true});
    tally_request r[N];
    spec_plain *plain[N];
    for (int i = 0; i < N; i++) { // each ends as its second block is full
        r[i] = request_of(0, 2 * KV_BLOCK - n_prompt[0] + 1, i > 0);
        r[i].sampling.seed = (uint64_t)i;
        plain[i] = spec_plain_run(&p, &r[i]);
    }
    spec_propose *const drafters[] = {spec_wrong, spec_perfect, spec_tree};
    for (int d = 0; d < 3; d++) {
        spec_run run = {.propose = drafters[d], .drops_cache = true, .no_cache_check = true};
        const char *what = spec_differs(&p, &run, r, plain, N);
        if (what) fail_msg("%s", what);
        tally_stats s;
        tally_engine_stats(p.spec.engine, &s);
        assert_int_equal(s.preemptions, 0);
        assert_true(run.counts.drafted > 100);
    }
    for (int i = 0; i < N; i++) spec_plain_free(plain[i]);
    spec_pair_close(&p);
}

// Drafts of one request do not make another wait: each is served in every step that it would be served in without them.
static void test_fairness(void **state) {
    (void)state;
    const char *path = temp_folder_path(&folder, "model.gguf");
    tiny_random_gguf(path, DTYPE_F32, false, 5);
    enum { N = 5 };
    spec_pair p = spec_pair_open(
        path, &(tally_engine_options){
                  .threads = 1, .context = 256, .cache_positions = 4096, .step_rows = 8, .logit_rows = 8});
    tally_request r[N];
    spec_plain *plain[N];
    for (int i = 0; i < N; i++)
        r[i] = request_of(4, 60, i > 0), r[i].sampling.seed = (uint64_t)i, plain[i] = spec_plain_run(&p, &r[i]);
    spec_run run = {.propose = spec_wrong, .no_cache_check = true, .drops_cache = true};
    const char *what = spec_differs(&p, &run, r, plain, N);
    if (what) fail_msg("%s", what);
    tally_stats s;
    tally_engine_stats(p.spec.engine, &s);
    assert_int_equal(s.worst_wait, 0);
    assert_int_equal(s.steps, 60); // a token each a step, though every draft was wrong
    assert_int_equal(run.counts.drafted > 0, 1);
    for (int i = 0; i < N; i++) spec_plain_free(plain[i]);
    spec_pair_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),      cmocka_unit_test(test_bf16_moe), cmocka_unit_test(test_q8_0),
        cmocka_unit_test(test_modes),    cmocka_unit_test(test_together), cmocka_unit_test(test_no_block_to_spare),
        cmocka_unit_test(test_fairness),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
