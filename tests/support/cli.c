#include "tests/support/cli.h"

#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

extern char **environ;

static void read_back(FILE *f, char *text, size_t size) {
    rewind(f);
    size_t n = fread(text, 1, size - 1, f);
    text[n] = 0;
    fclose(f);
}

// Runs the program of the configuration under test with a NULL-terminated list of arguments and `input` on standard input.
void cli_run_to(cli_result *r, const char *const *args, const char *input, FILE *out) {
    const char *build = getenv("BUILD");
    char path[512];
    snprintf(path, sizeof path, "%s/tally", build ? build : "build/release");
    char *argv[32] = {path};
    for (int i = 0; args[i]; i++) {
        assert_true(i < 30);
        argv[i + 1] = (char *)(uintptr_t)args[i];
    }
    FILE *in = tmpfile(), *err = tmpfile();
    assert_non_null(in);
    assert_non_null(out);
    assert_non_null(err);
    fputs(input, in);
    rewind(in);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(in), 0);
    posix_spawn_file_actions_adddup2(&actions, fileno(out), 1);
    posix_spawn_file_actions_adddup2(&actions, fileno(err), 2);
    pid_t pid;
    int failed = posix_spawn(&pid, path, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed) fail_msg("%s does not start: %s", path, strerror(failed));
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    r->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    fclose(in);
    read_back(out, r->out, sizeof r->out);
    read_back(err, r->err, sizeof r->err);
}

void cli_assert_contains(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("'%s' is not in:\n%s", part, text);
}

void cli_assert_done(const cli_result *r) {
    if (r->exit_code != 0) fail_msg("exit code %d; stderr: %s", r->exit_code, r->err);
}
