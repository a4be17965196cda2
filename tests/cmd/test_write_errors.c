// A full disk: whatever a command writes, it says so in one sentence, ends with 1, and leaves no part of a file.
//
// Standard output and special files are /dev/full. A file of a name is cut by RLIMIT_FSIZE, which, with SIGXFSZ ignored, makes
// write() fail in the middle of it as a full disk does.
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/cli.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { ROOM = 2048 }; // bytes a file may have; less than the logits of three positions

static const char TEMPLATE[] = "{% for m in messages %}{{ m.content }}{% endfor %}";
static const char DEVICE[] = "docs/devices/generic-laptop.json";

typedef struct fixture {
    temp_folder folder;
    char model[300], requests[300], file[300], text[300];
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->folder = temp_folder_make();
    snprintf(f->model, sizeof f->model, "%s/tiny.gguf", f->folder.path);
    snprintf(f->requests, sizeof f->requests, "%s/requests.jsonl", f->folder.path);
    snprintf(f->file, sizeof f->file, "%s/out", f->folder.path);
    snprintf(f->text, sizeof f->text, "%s/text", f->folder.path);
    tiny_text_gguf(f->model, DTYPE_Q8_0, 3, TEMPLATE);
    temp_folder_write_text(&f->folder, "requests.jsonl", "{\"prompt\":\"a\",\"n\":2}\n{\"prompt\":\"b\",\"n\":2}\n");
    temp_folder_write_text(&f->folder, "text", "some text to measure");
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    temp_folder_remove(&f->folder);
    free(f);
    return 0;
}

// Exactly one sentence of the program's own.
static void assert_one_error(const cli_result *r, const char *part, const char *what) {
    int n = 0;
    for (const char *at = r->err; (at = strstr(at, "tally: ")); at++) n++;
    if (r->exit_code != 1 || n != 1 || !strstr(r->err, part)) {
        fail_msg("%s: exit code %d, %d sentences: %s", what, r->exit_code, n, r->err);
    }
}

static void full_output(const char *input, const char *const *args) {
    cli_result r;
    char what[256] = "";
    for (int i = 0; args[i]; i++) snprintf(what + strlen(what), sizeof what - strlen(what), "%s ", args[i]);
    FILE *full = fopen("/dev/full", "w+");
    assert_non_null(full);
    cli_run_to(&r, args, input, full);
    assert_one_error(&r, "standard output", what);
    assert_non_null(strstr(r.err, "No space left"));
}
#define FULL(input, ...) full_output(input, (const char *const[]){__VA_ARGS__, NULL})

static void test_standard_output(void **state) {
    const fixture *f = *state;
    if (access("/dev/full", W_OK) != 0) skip();
    FULL("", "--version");
    FULL("", "help");
    FULL("", "help", "run");
    FULL("", "run", "-m", f->model, "-p", "a", "-n", "3", "-t", "1");
    FULL("", "run", "-m", f->model, "-p", "a", "-n", "3", "-t", "1", "--json");
    FULL("", "run", "-m", f->model, "--requests", f->requests, "-t", "1", "--parallel", "2");
    FULL("a\nb\n", "chat", "-m", f->model, "-n", "3", "-t", "1");
    FULL("", "eval", "-m", f->model, "--perplexity", f->text, "-t", "1");
    FULL("", "eval", "-m", f->model, "--perplexity", f->text, "-t", "1", "--json");
    FULL("some text", "tokenize", "-m", f->model);
    FULL("[97, 98]", "detokenize", "-m", f->model);
    FULL("", "inspect", f->model);
    FULL("", "inspect", f->model, "--json");
    FULL("", "plan", f->model, "--device", DEVICE);
    FULL("", "plan", f->model, "--device", DEVICE, "--json");
    FULL("", "bench", "-m", f->model, "-p", "4", "-n", "2", "-r", "1", "-t", "1", "-o", "json");
}

static rlim_t limit_files(rlim_t bytes) { // what it was
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    return before;
}

static int files_in(const fixture *f) {
    char command[400];
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", f->folder.path);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    int n = -1;
    assert_int_equal(fscanf(p, "%d", &n), 1);
    pclose(p);
    return n;
}

// What `chat` saves is tested in test_chat.c.
static void test_files(void **state) {
    const fixture *f = *state;
    cli_result r;
    int before = files_in(f);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    rlim_t limit = limit_files(ROOM);
    CLI(&r, "eval", "-m", f->model, "--ids", "1,2,3,4", "--logits", f->file, "-t", "1");
    limit_files(limit);
    assert_one_error(&r, f->file, "eval --logits");
    assert_int_equal(files_in(f), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standard_output),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
