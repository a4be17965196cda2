// What `make install` leaves, and examples/complete.c built against it by pkg-config (mk/examples.mk), shared and static.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/cli.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

static const char *build(void) {
    const char *b = getenv("BUILD");
    return b ? b : "build/release";
}

// Runs a line of shell that names a program of the build folder first; standard error is read with standard output.
static int run(const char *program, const char *args, char *out, size_t size) {
    char line[1024];
    snprintf(line, sizeof line, "%s/%s %s 2>&1", build(), program, args);
    FILE *f = popen(line, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, size - 1, f);
    out[n] = 0;
    int rc = pclose(f);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

static void copy(const temp_folder *folder, const char *name) {
    char path[256], data[1 << 18];
    snprintf(path, sizeof path, "tests/golden/tokenizers/smollm2/%s", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(data, 1, sizeof data, f);
    assert_true(feof(f));
    fclose(f);
    temp_folder_write(folder, name, data, n);
}

static const char *const programs[] = {"examples/complete-shared", "examples/complete-static"};

// Both give what the program gives.
static void test_example(void **state) {
    (void)state;
    temp_folder folder = temp_folder_make();
    tiny_model m = tiny_model_read("llama-gqa4");
    tiny_model_write_folder(&m, folder.path, DTYPE_F32, 1);
    copy(&folder, "tokenizer.json");
    copy(&folder, "tokenizer_config.json");
    cli_result want;
    CLI(&want, "run", "-m", folder.path, "-p", "zqx", "-n", "12");
    cli_assert_done(&want);
    assert_true(strlen(want.out) > 1);
    for (int i = 0; i < 2; i++) {
        char args[300], out[8192];
        snprintf(args, sizeof args, "%s zqx 12", folder.path);
        int rc = run(programs[i], args, out, sizeof out);
        if (rc != 0) fail_msg("%s: exit code %d: %s", programs[i], rc, out);
        assert_string_equal(out, want.out);
    }
    tiny_model_free(&m);
    temp_folder_remove(&folder);
}

static void test_example_failures(void **state) {
    (void)state;
    char out[8192];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run(programs[i], "no/such/model.gguf hello", out, sizeof out), 1);
        cli_assert_contains(out, "complete: ");
        cli_assert_contains(out, "no/such/model.gguf");
        assert_int_equal(run(programs[i], "tests/golden/tokenizers/smollm2 hello", out, sizeof out), 1); // no weights
        assert_int_equal(run(programs[i], "", out, sizeof out), 2);
    }
}

static void test_installed(void **state) {
    (void)state;
    static const char *const files[] = {"bin/tally",
                                        "include/tally.h",
                                        "lib/libtally.a",
                                        "lib/libtally.so.0",
                                        "lib/libtally.so",
                                        ("lib/libtally.so." TALLY_VERSION),
                                        "lib/pkgconfig/tally.pc"};
    char path[300], out[256];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/stage/usr/%s", build(), files[i]);
        if (access(path, R_OK) != 0) fail_msg("%s is not there", path);
    }
    assert_int_equal(run("stage/usr/bin/tally", "--version", out, sizeof out), 0);
    assert_string_equal(out, "tally " TALLY_VERSION "\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_example_failures),
        cmocka_unit_test(test_installed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
