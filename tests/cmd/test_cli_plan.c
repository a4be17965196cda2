// tally plan from outside: the tables, JSON, a configuration named three ways, and the sentences for wrong usage.
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/cli.h"
#include "tests/support/temp_folder.h"

#define DEVICE "docs/devices/generic-laptop.json"

typedef struct fixture {
    temp_folder folder;
    char config[400];
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->folder = temp_folder_make();
    temp_folder_write_text(
        &f->folder, "config.json",
        "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 2048, \"moe_intermediate_size\": 768, "
        "\"intermediate_size\": 6144, \"num_hidden_layers\": 48, \"num_attention_heads\": 32, "
        "\"num_key_value_heads\": 4, \"head_dim\": 128, \"vocab_size\": 151936, \"num_experts\": 128, "
        "\"num_experts_per_tok\": 8, \"norm_topk_prob\": true, \"max_position_embeddings\": 40960, "
        "\"rms_norm_eps\": 1e-6, \"rope_theta\": 1e6, \"tie_word_embeddings\": false, "
        "\"torch_dtype\": \"bfloat16\"}");
    snprintf(f->config, sizeof f->config, "%s", temp_folder_path(&f->folder, "config.json"));
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    temp_folder_remove(&f->folder);
    free(f);
    return 0;
}

static void test_table(void **state) {
    fixture *f = *state;
    cli_result r;
    CLI(&r, "plan", f->config, "--device", DEVICE, "-c", "8192", "--batch", "4");
    cli_assert_done(&r);
    static const char *const parts[] = {
        "30.532 B parameters, 3.353 B active",
        "BF16 assumed",
        "generic laptop",
        "4 x 8192 positions of 96.0 KiB",
        "does not fit",
        "prefill: 512 rows of one sequence",
        "decode: the last of 8192 positions, 4 sequences",
        "EXPERT_LINEAR ffn_gate_exps+ffn_up_exps",
        "moe layer",
        "outside of the layers",
        "tokens/s",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) cli_assert_contains(r.out, parts[i]);
    assert_null(strstr(r.out, "47.EXPERT_COMBINE"));
    assert_string_equal(r.err, "");
}

static void test_per_op(void **state) {
    fixture *f = *state;
    cli_result r;
    CLI(&r, "plan", "-m", f->folder.path, "--device", DEVICE, "--per-op", "-p", "16", "--type", "q4_k");
    cli_assert_done(&r);
    cli_assert_contains(r.out, "Q4_K assumed");
    cli_assert_contains(r.out, "0.LINEAR attn_q+attn_k+attn_v"); // the end is longer than what is kept here
}

static void test_json(void **state) {
    fixture *f = *state;
    cli_result r;
    CLI(&r, "plan", f->folder.path, "--device", DEVICE, "--json", "-c", "0");
    cli_assert_done(&r);
    cli_assert_contains(r.out, "\"context\": 40960,");
    cli_assert_contains(r.out, "\"kv_bytes_per_position\": 98304,");
    cli_assert_contains(r.out, "\"tokens_per_s\": ");
}

// Qwen3-235B-A22B, which one device cannot hold, as one rank of 16.
static void test_ranks(void **state) {
    (void)state;
    temp_folder folder = temp_folder_make();
    temp_folder_write_text(
        &folder, "config.json",
        "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 4096, \"moe_intermediate_size\": 1536, "
        "\"intermediate_size\": 12288, \"num_hidden_layers\": 94, \"num_attention_heads\": 64, "
        "\"num_key_value_heads\": 4, \"head_dim\": 128, \"vocab_size\": 151936, \"num_experts\": 128, "
        "\"num_experts_per_tok\": 8, \"norm_topk_prob\": true, \"max_position_embeddings\": 40960, "
        "\"rms_norm_eps\": 1e-6, \"rope_theta\": 1e6, \"tie_word_embeddings\": false, "
        "\"torch_dtype\": \"bfloat16\"}");
    cli_result r;
    CLI(&r, "plan", folder.path, "--device", "ascend-a3", "--tp", "16");
    cli_assert_done(&r);
    static const char *const parts[] = {
        "ranks      16; one holds 4 query heads, 1 key/value heads (each on 4 ranks), 96 columns of each of 128 "
        "experts",
        "9496 rows of the head, the whole embedding",
        "sums in 16 pieces: bit-equal to one rank",
        "experts                         28387.0", // 94 * 128 * 3 * 96 * 4096 * 2 bytes
        "(weights 30795.3, cache 197.1, workspace 218.4)",
        "(of 68719.5)",
        "between ranks: 189 collectives, 208.483 MB to each",
        "a prediction of the cost model, never measured: no NPU was at hand",
        "UNVERIFIED",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) cli_assert_contains(r.out, parts[i]);
    CLI(&r, "plan", folder.path, "--device", "ascend-a3", "--tp", "48");
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "48 ranks cannot share the model's 64 query heads");
    temp_folder_remove(&folder);
}

static void usage(const char *part, const char *const *args) {
    cli_result r;
    cli_run_to(&r, args, "", tmpfile());
    assert_int_equal(r.exit_code, 2);
    assert_string_equal(r.out, "");
    cli_assert_contains(r.err, part);
}

#define USAGE(part, ...) usage(part, (const char *const[]){__VA_ARGS__, NULL})

static void test_wrong_usage(void **state) {
    fixture *f = *state;
    USAGE("--device FILE", "plan", f->config);
    USAGE("--tp", "plan", f->config, "--device", DEVICE, "--tp", "0");
    USAGE("tally plan MODEL", "plan", "--device", DEVICE);
    USAGE("takes one model", "plan", "a", "b");
    USAGE("--batch", "plan", f->config, "--device", DEVICE, "--batch", "0");
    USAGE("--n-prompt", "plan", f->config, "--device", DEVICE, "--n-promt", "3");
    USAGE("-ctk", "plan", f->config, "--device", DEVICE, "-ctk", "q4_0");
    USAGE("no option --temp", "plan", f->config, "--temp", "1");
    cli_result r;
    CLI(&r, "plan", f->config, "--device", f->config);
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "the device's name");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table), cmocka_unit_test(test_per_op),      cmocka_unit_test(test_json),
        cmocka_unit_test(test_ranks), cmocka_unit_test(test_wrong_usage),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
