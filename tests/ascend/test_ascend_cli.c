// The program and NPUs: what tally devices says where none is installed, and the commands on the emulator without any environment.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/ascend/ascend.h"
#include "base/cpuinfo.h"
#include "tests/support/cli.h"
#include "tests/support/emulated.h"
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
    cli_assert_contains(r->out, "|  |  |  | OK |"); // no limits: those of the processor are not the NPU's
    CLI(r, "bench", "-m", path, "--device", device, "-p", "8", "-n", "0", "-r", "1", "--trace", "-o", "json");
    cli_assert_done(r);
    a = json_loads(r->out, 0, &at);
    const json_t *row = json_array_get(a, 0), *trace = json_object_get(row, "trace");
    assert_true(json_is_null(json_object_get(row, "roofline")) &&
                json_is_null(json_object_get(row, "bandwidth_share")));
    assert_true(json_is_null(json_object_get(json_object_get(trace, "all"), "least_s")));
    assert_true(json_number_value(json_object_get(json_object_get(trace, "all"), "seconds")) > 0);
    json_decref(a);
    CLI(r, "run", "-m", path, "--device", "emu:910B9", "-p", "abc");
    assert_int_equal(r->exit_code, 1);
    cli_assert_contains(r->err, "910B9");
    CLI(r, "run", "-m", path, "--exact", "off", "-p", "abc");
    cli_assert_contains(r->err, "--exact is for NPUs");
    free(r);
    free(again);
    temp_folder_remove(&t);
}

static status create(backend **b, const char *device, error *err) {
    return ascend_backend_create(b, &(ascend_options){.device = device, .natural = DTYPE_F16}, err);
}

// The emulator's libraries have the names of CANN's: a process that has them loaded must not take them for an NPU's.
static void test_npu_beside_emulator(void **state) {
    (void)state;
    emulated emu = emulated_open();
    emu.reset();
    for (int i = 0; i < 2; i++) {
        backend *first, *second;
        error err;
        assert_int_equal(create(&first, "emu:910B3,cann=8.5", &err), STATUS_OK);
        assert_int_equal(create(&second, "ascend:0", &err), STATUS_UNSUPPORTED);
        cli_assert_contains(err.text, "runs on the emulator (emu:)");
        assert_int_equal(create(&second, "emu:910B3,cann=8.5", &err), STATUS_OK); // one more of the same goes on
        second->vt->destroy(second);
        first->vt->destroy(first);
        emulated_next(&emu);
    }
    emulated_close(&emu);
}

// Put in front by LD_LIBRARY_PATH, the emulator is an NPU like any.
static void test_emulator_as_npu(void **state) {
    (void)state;
    temp_folder t = temp_folder_make();
    char path[300], self[PATH_MAX], folder[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    *strrchr(self, '/') = 0;
    snprintf(folder, sizeof folder, "%s/../../emulator/8.5", self); // build/release/tests/ascend
    snprintf(path, sizeof path, "%s/model.gguf", t.path);
    tiny_random_gguf(path, DTYPE_F16, false, 7);
    const char *before = getenv("LD_LIBRARY_PATH");
    char *old = before ? strdup(before) : NULL;
    if (old) snprintf(folder + strlen(folder), sizeof folder - strlen(folder), ":%s", old);
    setenv("LD_LIBRARY_PATH", folder, 1);
    setenv("TALLY_EMU", "910A", 1);
    cli_result *r = malloc(sizeof *r);
    assert_non_null(r);
    CLI(r, "run", "-m", path, "--device", "ascend:0,tile=16", "--ids", "1,2,3", "-n", "2", "-c", "64", "-v");
    unsetenv("TALLY_EMU");
    old ? setenv("LD_LIBRARY_PATH", old, 1) : unsetenv("LD_LIBRARY_PATH");
    cli_assert_done(r);
    cli_assert_contains(r->err, "no step is replayed: the chip has no graph capture"); // and what it cannot do is said
    free(old);
    free(r);
    temp_folder_remove(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_npu_beside_emulator),
        cmocka_unit_test(test_emulator_as_npu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
