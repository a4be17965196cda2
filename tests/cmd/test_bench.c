// tally bench: what it prints on a tiny model, and the label of repetition.
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "cmd/repetition.h"
#include "tests/support/cli.h"
#include "tests/support/json_fields.h"
#include "tests/support/temp_folder.h"
#include "tests/support/sanitized.h"
#include "tests/support/tiny_model.h"

typedef struct fixture {
    temp_folder folder;
    char text_model[300], bare_model[300];
    char measured[300]; // with 1 and 2 threads, once for all tests
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->folder = temp_folder_make();
    snprintf(f->text_model, sizeof f->text_model, "%s/text.gguf", f->folder.path);
    snprintf(f->bare_model, sizeof f->bare_model, "%s/bare.gguf", f->folder.path);
    tiny_text_gguf(f->text_model, DTYPE_Q8_0, 3, "{{ messages }}");
    tiny_random_gguf(f->bare_model, DTYPE_Q4_K, true, 4);
    cli_result r;
    CLI(&r, "bench", "--machine", "-t", "1,2", "-o", "json");
    cli_assert_done(&r);
    snprintf(f->measured, sizeof f->measured, "%s", temp_folder_path(&f->folder, "machine.json"));
    temp_folder_write_text(&f->folder, "machine.json", r.out);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    temp_folder_remove(&f->folder);
    free(f);
    return 0;
}

static void check_row(const json_t *row, int n_samples) {
    double avg = json_real_field(row, "avg_ts"), sum = 0;
    assert_true(avg > 0 && json_real_field(row, "stddev_ts") >= 0);
    assert_true(json_real_field(row, "read_bytes_per_s") > (SANITIZED ? 0 : 1e8) &&
                json_real_field(row, "bandwidth_share") > 0);
    const json_t *samples = json_object_get(row, "samples_ts");
    assert_int_equal(json_array_size(samples), n_samples);
    assert_int_equal(json_array_size(json_object_get(row, "samples_ns")), n_samples);
    for (int i = 0; i < n_samples; i++) sum += json_real_value(json_array_get(samples, (size_t)i));
    assert_true(sum / n_samples > avg * 0.999 && sum / n_samples < avg * 1.001);
    assert_string_equal(json_string_value(json_object_get(row, "ids")), "OK");
    assert_true(json_is_string(json_object_get(row, "build_commit")) &&
                json_is_string(json_object_get(row, "cpu_info")));
    assert_int_equal(json_is_string(json_object_get(row, "repetition")), json_int_field(row, "n_gen") > 0);
}

static void check_json(const fixture *f, const char *model, const char *threads) {
    cli_result r;
    CLI(&r, "bench", "-m", model, "-p", "20,70", "-n", "30", "-r", "2", "-t", threads, "-d", "0,65", "--parallel",
        "1,3", "-o", "json", "-b", "33", "-ub", "20", "--measured", f->measured);
    cli_assert_done(&r);
    assert_string_equal(r.err, ""); // no progress but on a terminal
    json_t *rows = json_loads(r.out, 0, NULL);
    if (!json_is_array(rows)) fail_msg("no JSON array: %s", r.out);
    assert_int_equal(json_array_size(rows), (strchr(threads, ',') ? 2 : 1) * 2 * 2 * 3);
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        check_row(row, 2);
        static const int prompts[] = {20, 70, 0};
        assert_int_equal(json_int_field(row, "n_prompt"), prompts[i % 3]);
        assert_int_equal(json_int_field(row, "n_gen"), i % 3 == 2 ? 30 : 0);
        assert_int_equal(json_int_field(row, "n_parallel"), i / 3 % 2 ? 3 : 1);
        assert_int_equal(json_int_field(row, "n_depth"), i / 6 % 2 ? 65 : 0);
        assert_int_equal(json_int_field(row, "n_threads"), i / 12 ? 2 : 1);
        assert_int_equal(json_int_field(row, "n_batch"), 33);
        assert_int_equal(json_int_field(row, "n_ubatch"), 20);
    }
    json_decref(rows);
}

static void test_json(void **state) {
    const fixture *f = *state;
    check_json(f, f->text_model, "1,2");
}

static void test_json_without_tokenizer(void **state) {
    const fixture *f = *state;
    check_json(f, f->bare_model, "1");
}

static void test_table(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI(&r, "bench", "-m", f->text_model, "-p", "8", "-n", "4", "-r", "1", "-d", "9", "-t", "1");
    cli_assert_done(&r);
    cli_assert_contains(r.out, "| pp8 @ d9 | 1 | 1 |");
    cli_assert_contains(r.out, "| tg4 @ d9 | 1 | 1 |");
    CLI(&r, "bench", "-m", f->text_model, "-p", "0", "-n", "4", "-r", "1", "-t", "1", "--measured", f->measured);
    cli_assert_done(&r);
    assert_null(strstr(r.out, "pp"));
}

static const json_t *traced_row(json_t *rows, size_t i, const char *op) {
    const json_t *trace = json_object_get(json_array_get(rows, i), "trace"), *ops = json_object_get(trace, "ops");
    size_t at;
    json_t *o;
    json_array_foreach(ops, at, o) {
        if (strcmp(json_string_value(json_object_get(o, "op")), op) == 0) return o;
    }
    fail_msg("row %zu has no operation %s", i, op);
    return NULL;
}

static void check_trace(const json_t *row, int steps, int rows) {
    const json_t *trace = json_object_get(row, "trace"), *roofline = json_object_get(row, "roofline"), *o;
    assert_int_equal(json_int_field(trace, "steps"), steps);
    assert_int_equal(json_int_field(trace, "rows"), rows);
    double all = json_real_field(json_object_get(trace, "all"), "seconds"), sum = 0, bytes = 0;
    size_t i;
    json_array_foreach(json_object_get(trace, "ops"), i, o) {
        sum += json_real_field(o, "seconds");
        bytes += json_real_field(o, "weight_bytes") + json_real_field(o, "cache_bytes");
        assert_int_equal(json_int_field(o, "calls") % steps, 0);
    }
    assert_true(sum > all * 0.999 && sum < all * 1.001 && all < json_real_field(trace, "seconds"));
    // the roofline follows from what was counted
    const json_t *ceilings = json_object_get(trace, "ceilings"), *work = json_object_get(trace, "all");
    double memory = bytes / json_real_field(ceilings, "read_bytes_per_s");
    double compute = json_real_field(work, "f32_ops") / json_real_field(ceilings, "f32_ops_per_s") +
                     json_real_field(work, "q8_ops") / json_real_field(ceilings, "q8_ops_per_s");
    double best = rows / (memory > compute ? memory : compute), said = json_real_field(roofline, "best_ts");
    assert_true(said > best * 0.999 && said < best * 1.001);
    assert_string_equal(json_string_value(json_object_get(roofline, "bound")), memory > compute ? "memory" : "compute");
    double reached = json_real_field(row, "avg_ts") / best, told = json_real_field(roofline, "reached");
    assert_true(told > reached * 0.999 && told < reached * 1.001);
}

static void test_trace(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI(&r, "bench", "-m", f->text_model, "-p", "70", "-n", "5", "-r", "1", "-t", "1", "-d", "9", "-b", "40", "-o",
        "json", "--trace", "--measured", f->measured);
    cli_assert_done(&r);
    json_t *rows = json_loads(r.out, 0, NULL);
    assert_int_equal(json_array_size(rows), 2);
    check_trace(json_array_get(rows, 0), 2, 70); // 40 and 30 rows
    check_trace(json_array_get(rows, 1), 5, 5);
    assert_int_equal(json_int_field(traced_row(rows, 0, "ATTENTION"), "calls"), 2 * 2); // layers, steps
    assert_int_equal(json_int_field(traced_row(rows, 1, "ATTENTION"), "calls"), 2 * 5);
    assert_true(json_real_field(traced_row(rows, 1, "LINEAR"), "q8_ops") > 0);
    // positions 10 .. 14 of 2 layers, 2 heads of 64 in keys and in values of 2 bytes
    assert_true(json_real_field(traced_row(rows, 1, "ATTENTION"), "cache_bytes") ==
                (10 + 11 + 12 + 13 + 14) * 2.0 * 2 * 64 * 2 * 2);
    json_decref(rows);
    CLI(&r, "bench", "-m", f->text_model, "-p", "0", "-n", "5", "-r", "1", "-t", "2", "--trace", "--per-op",
        "--measured", f->measured);
    cli_assert_done(&r);
    cli_assert_contains(r.out, "| LINEAR attn_o | 2 |");
    cli_assert_contains(r.out, "| ROPE | ");
    cli_assert_contains(r.out, "| outside of operations | ");
}

static void test_refusals(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI(&r, "bench", "-m", f->text_model, "-p", "8,x");
    assert_int_equal(r.exit_code, 2);
    cli_assert_contains(r.err, "8,x");
    CLI(&r, "bench", "-m", f->text_model, "-p", "8,");
    assert_int_equal(r.exit_code, 2);
    CLI(&r, "bench", "-m", f->text_model, "-t", "0");
    assert_int_equal(r.exit_code, 2);
    CLI(&r, "bench", "-m", f->text_model, "-p", "0", "-n", "0");
    assert_int_equal(r.exit_code, 2);
    CLI(&r, "bench", "-m", f->text_model, "-d", "5000");
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "4096");
    CLI(&r, "bench", "-m", f->text_model, "--per-op");
    assert_int_equal(r.exit_code, 2);
    cli_assert_contains(r.err, "--trace");
    CLI(&r, "bench", "-p", "5000");
    assert_int_equal(r.exit_code, 2);
    CLI(&r, "bench", "--machine", "-t", "1", "-m", f->text_model);
    assert_int_equal(r.exit_code, 2);
    cli_assert_contains(r.err, "-m, --model says nothing with --machine, which takes -t, -o only");
    if (access("/dev/full", W_OK) != 0) return;
    const char *const args[] = {"bench", "-m", f->text_model, "-p", "4",          "-n",        "0",
                                "-r",    "1",  "-t",          "1",  "--measured", f->measured, NULL};
    cli_run_to(&r, args, "", fopen("/dev/full", "w"));
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "cannot write to standard output");
}

static void check_machine(const json_t *m, int n_threads) {
    const json_t *levels = json_object_get(m, "levels");
    assert_int_equal(json_int_field(m, "n_threads"), n_threads);
    double bandwidth = json_real_field(m, "read_bytes_per_s");
    assert_true(bandwidth > 1e8 && bandwidth < 1e13);
    assert_true(json_array_size(levels) >= 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(levels, 0), "level")), "scalar");
    size_t i;
    json_t *level;
    json_array_foreach(levels, i, level) {
        static const char *const kinds[] = {"f32_mul_add_per_s", "bf16_mul_add_per_s", "q8_mul_add_per_s"};
        for (int k = 0; k < 3; k++) assert_true(json_real_field(level, kinds[k]) > 1e6);
    }
}

static void test_machine(void **state) {
    const fixture *f = *state;
    json_t *list = json_load_file(f->measured, 0, NULL);
    assert_int_equal(json_array_size(list), 2);
    for (int i = 0; i < 2; i++) check_machine(json_array_get(list, (size_t)i), i + 1);

    // Speeds are reported beside what the file says, if it is about this machine and these threads.
    const char *path = temp_folder_path(&f->folder, "changed.json");
    json_object_set_new(json_array_get(list, 0), "read_bytes_per_s", json_real(1e6));
    assert_int_equal(json_dump_file(list, path, 0), 0);
    cli_result r;
    CLI(&r, "bench", "-m", f->text_model, "-p", "0", "-n", "4", "-r", "1", "-t", "1", "-o", "json", "--measured", path);
    cli_assert_done(&r);
    json_t *rows = json_loads(r.out, 0, NULL);
    const json_t *row = json_array_get(rows, 0);
    assert_true(json_real_field(row, "read_bytes_per_s") == 1e6);
    json_decref(rows);
    CLI(&r, "bench", "-m", f->text_model, "-t", "3", "--measured", path);
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "with 3 threads");
    json_object_set_new(json_array_get(list, 0), "cpu_info", json_string("another"));
    assert_int_equal(json_dump_file(list, path, 0), 0);
    CLI(&r, "bench", "-m", f->text_model, "-t", "1", "--measured", path);
    assert_int_equal(r.exit_code, 1);
    temp_folder_write_text(&f->folder, "changed.json", "no JSON");
    CLI(&r, "bench", "-m", f->text_model, "-t", "1", "--measured", path);
    assert_int_equal(r.exit_code, 1);
    json_decref(list);
}

// ---- repetition ------------------------------------------------------------------------------------------------------------

static void label_is(const int32_t *ids, int n, const char *expected) {
    char label[REPETITION_LABEL_MAX];
    repetition_label(ids, n, label);
    assert_string_equal(label, expected);
}

static void test_repetition(void **state) {
    (void)state;
    int32_t ids[300];
    for (int i = 0; i < 300; i++) ids[i] = i;
    label_is(ids, 0, "OK");
    label_is(ids, 1, "OK");
    label_is(ids, 300, "OK");
    for (int period = 1; period <= 60; period++) { // a beginning of its own, then a loop to the end
        for (int i = 100; i < 300; i++) ids[i] = 1000 + i % period;
        char expected[REPETITION_LABEL_MAX];
        snprintf(expected, sizeof expected, "LOOP_%d", period);
        label_is(ids, 300, expected);
        int long_enough = period * 3 < 24 ? 24 : period * 3;
        label_is(ids, 100 + long_enough, expected);
        char label[REPETITION_LABEL_MAX];
        repetition_label(ids, 100 + long_enough - 1, label);
        assert_true(strncmp(label, "LOOP", 4) != 0);
        ids[299] = 5; // broken at the very end
        repetition_label(ids, 300, label);
        assert_true(strncmp(label, "LOOP", 4) != 0);
    }
    for (int i = 0; i < 300; i++) ids[i] = (int32_t)(hash_mix((uint64_t)i) % 9);
    label_is(ids, 300, "LOW_DIVERSITY");
    label_is(ids, 40, "LOW_DIVERSITY");
    label_is(ids, 31, "OK"); // too few to tell
    for (int i = 0; i < 300; i++) ids[i] = (int32_t)(hash_mix((uint64_t)i) % 60);
    label_is(ids, 300, "OK");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),       cmocka_unit_test(test_json_without_tokenizer),
        cmocka_unit_test(test_table),      cmocka_unit_test(test_trace),
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_machine),
        cmocka_unit_test(test_repetition),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
