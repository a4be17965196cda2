// Weights left in the file: every type, experts and tied heads, give the logits of packed ones, and the plan says what is kept how.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/hash.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { LEN = 24, VOCAB = 300 };

static const dtype types[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16, DTYPE_Q8_0,   DTYPE_Q4_0,
                              DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q2_K,   DTYPE_Q3_K,
                              DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_IQ4_NL, DTYPE_IQ4_XS};

static tally_engine_options options(int threads, bool no_repack, bool no_mmap) {
    return (tally_engine_options){
        .threads = threads, .context = 64, .logit_rows = LEN, .no_repack = no_repack, .no_mmap = no_mmap};
}

static float *logits_of(const char *path, const tally_engine_options *o, tally_memory *memory) {
    int32_t ids[LEN];
    for (int i = 0; i < LEN; i++) ids[i] = (int32_t)(hash_mix((uint64_t)i) % VOCAB);
    test_engine e = test_engine_open(path, o);
    tally_engine_memory(e.engine, memory);
    float *all = test_eval(&e, ids, LEN, LEN), *one = test_eval(&e, ids, LEN, 1);
    assert_memory_equal(all, one, LEN * VOCAB * sizeof *all);
    free(one);
    test_engine_close(&e);
    return all;
}

static void compare(const char *path, dtype type, bool moe) {
    tally_memory packed, kept;
    tally_engine_options o = options(2, false, false);
    float *expected = logits_of(path, &o, &packed);
    for (int threads = 1; threads <= 3; threads += 2) {
        o = options(threads, true, threads == 3);
        float *logits = logits_of(path, &o, &kept);
        if (memcmp(expected, logits, LEN * VOCAB * sizeof *logits) != 0)
            fail_msg("%s, %s, %d threads: other logits", dtype_get(type)->name, moe ? "experts" : "dense", threads);
        if (kept.weights * 10 > packed.weights)
            fail_msg("%s: %lld bytes of weights of %lld", dtype_get(type)->name, (long long)kept.weights,
                     (long long)packed.weights);
        free(logits);
    }
    free(expected);
}

static void test_same_logits(void **state) {
    (void)state;
    temp_folder folder = temp_folder_make();
    char path[300];
    snprintf(path, sizeof path, "%s/model.gguf", folder.path);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        bool moe = i % 2 == 0;
        tiny_random_gguf(path, types[i], moe, i);
        compare(path, types[i], moe);
    }
    temp_folder_remove(&folder);
}

// Odd sizes, and heads that are the embedding.
static void test_golden_models(void **state) {
    (void)state;
    temp_folder folder = temp_folder_make();
    int n;
    char **names = tiny_model_variants(&n);
    for (int i = 0; i < n; i++) {
        tiny_model m = tiny_model_read(names[i]);
        tiny_model_write_folder(&m, folder.path, DTYPE_BF16, 2);
        float *expected = NULL;
        for (int keep = 0; keep < 2; keep++) {
            tally_engine_options o = {.threads = 2, .logit_rows = m.n_ids, .no_repack = keep};
            test_engine e = test_engine_open(folder.path, &o);
            float *logits = test_eval(&e, m.ids, m.n_ids, m.n_ids);
            test_engine_close(&e);
            size_t bytes = (size_t)m.n_ids * (size_t)m.n_vocab * sizeof *logits;
            if (keep && memcmp(expected, logits, bytes) != 0) fail_msg("%s: other logits", names[i]);
            free(expected);
            expected = logits;
        }
        free(expected);
        tiny_model_free(&m);
        free(names[i]);
    }
    free(names);
    temp_folder_remove(&folder);
}

static json_t *layouts_of(const char *path, bool no_repack) {
    tally_model *m;
    tally_error err;
    char *text;
    assert_int_equal(tally_model_open(&m, path, &err), 0);
    tally_engine_options o = options(1, no_repack, false);
    assert_int_equal(tally_inspect(m, &o, &text, &err), 0);
    tally_model_close(m);
    json_t *root = json_loads(text, 0, NULL), *list = json_incref(json_object_get(root, "layouts"));
    tally_free(text);
    json_int_t sum = 0, weights = json_integer_value(json_object_get(json_object_get(root, "memory"), "weights"));
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_integer_value(json_object_get(json_array_get(list, i), "bytes"));
    assert_int_equal(sum, weights);
    json_decref(root);
    return list;
}

static void has_layout(const json_t *list, const char *type, const char *layout) {
    size_t i;
    json_t *o;
    json_array_foreach(list, i, o) {
        if (strcmp(json_string_value(json_object_get(o, "type")), type) == 0 &&
            strcmp(json_string_value(json_object_get(o, "layout")), layout) == 0)
            return;
    }
    fail_msg("no weights of type %s are kept as %s", type, layout);
}

static void test_inspection(void **state) {
    (void)state;
    temp_folder folder = temp_folder_make();
    char path[300];
    snprintf(path, sizeof path, "%s/model.gguf", folder.path);
    tiny_random_gguf(path, DTYPE_Q5_K, true, 1);
    json_t *packed = layouts_of(path, false), *kept = layouts_of(path, true);
    has_layout(packed, "Q5_K", "panels of 16 rows");
    has_layout(kept, "Q5_K", "rows of the file, packed when used");
    has_layout(packed, "F32", "F32");
    has_layout(kept, "F32", "F32");
    json_decref(packed);
    json_decref(kept);
    temp_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_logits),
        cmocka_unit_test(test_golden_models),
        cmocka_unit_test(test_inspection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
