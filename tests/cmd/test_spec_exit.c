// The exit code of `tally bench --spec-suite`: the whole program, main included, with an engine whose verification goes wrong on purpose.
// The linker puts __wrap_tally_engine_open in the place of tally_engine_open.
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

#include "engine/generation.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

int tally_main(int argc, char **argv); // the program's main (mk/fuzz.mk)

// ---- a planted fault -----------------------------------------------------------------------------------------------------

static bool faulty;

// The choice behind a row is made by the logits of the row behind it.
static int32_t choose_shifted(void *ctx, int row, bool *stop) {
    const verify_step *v = ctx;
    return verify_step_choose(ctx, row < v->g->spec.draft.n ? row + 1 : row, stop);
}

tally_status __real_tally_engine_open(tally_engine **out, const tally_model *m, const tally_engine_options *o,
                                      tally_error *err);
tally_status __wrap_tally_engine_open(tally_engine **out, const tally_model *m, const tally_engine_options *o,
                                      tally_error *err);

tally_status __wrap_tally_engine_open(tally_engine **out, const tally_model *m, const tally_engine_options *o,
                                      tally_error *err) {
    tally_status s = __real_tally_engine_open(out, m, o, err);
    if (!s && faulty) (*out)->spec.choose = choose_shifted;
    return s;
}

// ---- the program ---------------------------------------------------------------------------------------------------------

typedef struct fixture {
    temp_folder folder;
    char model[300], set[300];
} fixture;

typedef struct outcome {
    int exit_code;
    char text[16384]; // both streams
} outcome;

static outcome run(const fixture *f, bool wrong, const char *format) {
    faulty = wrong;
    FILE *out = tmpfile();
    assert_non_null(out);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char *argv[] = {"tally",
                        "bench",
                        "-m",
                        (char *)(uintptr_t)f->model,
                        "--spec-suite",
                        "--spec-prompts",
                        (char *)(uintptr_t)f->set,
                        "--spec",
                        "lookup",
                        "--lookup-min",
                        "1",
                        "-n",
                        "24",
                        "-r",
                        "0",
                        "-t",
                        "1",
                        "-o",
                        (char *)(uintptr_t)format,
                        NULL};
        dup2(fileno(out), STDOUT_FILENO);
        dup2(fileno(out), STDERR_FILENO);
        int rc = tally_main((int)(sizeof argv / sizeof *argv) - 1, argv);
        fflush(NULL);
        _exit(rc);
    }
    int how;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how));
    outcome o = {.exit_code = WEXITSTATUS(how)};
    rewind(out);
    o.text[fread(o.text, 1, sizeof o.text - 1, out)] = 0;
    fclose(out);
    return o;
}

static void test_exit_code(void **state) {
    const fixture *f = *state;
    static const char *const formats[] = {"md", "json"};
    for (int i = 0; i < 2; i++) {
        outcome sound = run(f, false, formats[i]);
        if (sound.exit_code != 0) fail_msg("ends with %d: %s", sound.exit_code, sound.text);
        assert_null(strstr(sound.text, "differ from"));
        outcome wrong = run(f, true, formats[i]);
        if (wrong.exit_code != 1) fail_msg("ends with %d: %s", wrong.exit_code, wrong.text);
        assert_non_null(strstr(wrong.text, "answers differ from plain decoding"));
        assert_non_null(strstr(wrong.text, "differs with --spec lookup"));
        if (i == 1) assert_non_null(strstr(wrong.text, "\"equals_plain\": false"));
        if (i == 1) assert_null(strstr(sound.text, "\"equals_plain\": false"));
    }
}

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->folder = temp_folder_make();
    snprintf(f->model, sizeof f->model, "%s/text.gguf", f->folder.path);
    snprintf(f->set, sizeof f->set, "%s/set.txt", f->folder.path);
    tiny_text_gguf(f->model, DTYPE_Q8_0, 3, "{{ messages }}");
    temp_folder_write_text(&f->folder, "set.txt",
                           "For tests.\n=== copy/abc\nabcdefgh abcdefgh abcdefgh abc\n=== plain/word\nxyzzy\n");
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    temp_folder_remove(&f->folder);
    free(f);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exit_code)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
