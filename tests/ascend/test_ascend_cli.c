// The program and NPUs: what tally devices says where none is installed, and the commands on the emulator without any environment.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpuinfo.h"
#include "tests/support/cli.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

static void test_devices(void **state) {
    (void)state;
    cli_result *r = malloc(sizeof *r);
    assert_non_null(r);
    CLI(r, "devices", "--json");
    cli_assert_done(r);
    json_error_t at;
    json_t *root = json_loads(r->out, 0, &at), *npu = json_object_get(root, "ascend");
    assert_non_null(npu);
    const json_t *cpu = json_object_get(root, "cpu");
    assert_int_equal(json_array_size(json_object_get(cpu, "levels")), CPU_LEVEL_COUNT);
    // the one that runs unless another is asked for, which need not be the last one there is
    assert_string_equal(json_string_value(json_object_get(cpu, "level")), cpu_level_name(cpu_level_best()));
    if (json_array_size(json_object_get(npu, "devices")) == 0) { // a machine without NPUs says what it lacks
        assert_true(json_array_size(json_object_get(npu, "libraries")) > 0);
        assert_true(json_is_string(json_object_get(npu, "error")));
    }
    json_decref(root);
    CLI(r, "devices");
    cli_assert_done(r);
    char level[64];
    snprintf(level, sizeof level, "kernel level %s ", cpu_level_name(cpu_level_best()));
    cli_assert_contains(r->out, level);
    cli_assert_contains(r->out, "ascend");
    free(r);
}

static void test_commands(void **state) {
    (void)state;
    temp_folder t = temp_folder_make();
    const char *device = "emu:910B3,tile=16";
    char path[300], logits[300];
    snprintf(path, sizeof path, "%s/model.gguf", t.path);
    snprintf(logits, sizeof logits, "%s/logits", t.path);
    tiny_text_gguf(path, DTYPE_F16, 7, "{% for m in messages %}{{ m.content }}{% endfor %}");
    cli_result *r = malloc(sizeof *r), *again = malloc(sizeof *again);
    assert_true(r && again);
    CLI(r, "run", "-m", path, "--device", device, "-p", "abc", "-n", "5", "-c", "64", "--json", "--ignore-eos");
    cli_assert_done(r);
    CLI(again, "run", "-m", path, "--device", device, "--graph", "off", "-p", "abc", "-n", "5", "-c", "64", "--json",
        "--ignore-eos", "-b", "2");
    cli_assert_done(again);
    json_error_t at;
    json_t *a = json_loads(r->out, 0, &at), *b = json_loads(again->out, 0, &at);
    assert_int_equal(json_array_size(json_object_get(a, "ids")), 5);
    assert_true(json_equal(json_object_get(a, "ids"), json_object_get(b, "ids")));
    json_decref(a);
    json_decref(b);
    CLI(r, "eval", "-m", path, "--device", device, "--ids", "1,2,3", "--logits", logits);
    cli_assert_done(r);
    CLI_IN(r, "hi\n", "chat", "-m", path, "--device", device, "-n", "2", "-c", "64");
    cli_assert_done(r);
    CLI(r, "bench", "-m", path, "--device", device, "-p", "8", "-n", "4", "-r", "1");
    cli_assert_done(r);
    cli_assert_contains(r->out, "| OK |");
    CLI(r, "run", "-m", path, "--device", "emu:910B9", "-p", "abc");
    assert_int_equal(r->exit_code, 1);
    cli_assert_contains(r->err, "910B9");
    CLI(r, "run", "-m", path, "--exact", "off", "-p", "abc");
    cli_assert_contains(r->err, "--exact is for NPUs");
    free(r);
    free(again);
    temp_folder_remove(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
