// Speculation on the emulated NPU, perturbation on: with drafts of any quality, as chains and as trees, tokens, logits and cache are
// plain decoding's, bit for bit.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "tests/support/emulated.h"
#include "tests/support/spec_check.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 300, N_PROMPT = 40, N_NEW = 24 };

static void check(const char *device, dtype type, bool moe, spec_propose *const *all, int n) {
    temp_folder folder = temp_folder_make();
    emulated emu = emulated_open();
    emu.reset(); // what a failed test left
    char path[300];
    snprintf(path, sizeof path, "%s/model.gguf", folder.path);
    tiny_random_gguf(path, type, moe, 5);
    tally_engine_options o = {.threads = 1, .context = 128, .step_rows = 64, .device = device};
    spec_pair p = spec_pair_open(path, &o);
    int32_t ids[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++) ids[i] = (int32_t)(hash_mix(3000 + (uint64_t)i) % VOCAB);
    tally_request r = {.ids = ids, .n_ids = N_PROMPT, .max_tokens = N_NEW, .ignore_eos = true};
    for (int i = 0; i < n; i++) {
        spec_run run = {.propose = all[i], .seed = (uint64_t)i};
        spec_must_equal(&p, &run, &r);
    }
    spec_pair_close(&p);
    emulated_next(&emu);
    emulated_close(&emu);
    temp_folder_remove(&folder);
}

static void test_dense(void **state) {
    (void)state;
    static spec_propose *const all[] = {spec_perfect, spec_wrong, spec_right_first, spec_random, spec_tree};
    check("emu:910B3,tile=32", DTYPE_BF16, false, all, 5);
}

static void test_moe(void **state) {
    (void)state;
    static spec_propose *const all[] = {spec_wrong_first, spec_tree};
    check("emu:910_9382,cann=8.5,tile=32", DTYPE_F16, true, all, 2);
}

static void test_910a(void **state) {
    (void)state;
    static spec_propose *const all[] = {spec_random, spec_tree};
    check("emu:910A,tile=16", DTYPE_F16, false, all, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_moe),
        cmocka_unit_test(test_910a),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
