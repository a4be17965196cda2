// Runs the tally program of the configuration under test, for tests of its command line. Failures to start end the test.
#ifndef TALLY_TESTS_CLI_H
#define TALLY_TESTS_CLI_H

#include <stdio.h>

typedef struct cli_result {
    int exit_code;   // -1: ended by a signal
    char out[65536]; // standard output, terminated
    char err[8192];  // standard error, terminated
} cli_result;

// A NULL-terminated list of arguments; `input` on standard input; standard output goes to `out`, which is closed.
void cli_run_to(cli_result *r, const char *const *args, const char *input, FILE *out);

#define CLI_IN(r, input, ...) cli_run_to(r, (const char *const[]){__VA_ARGS__, NULL}, input, tmpfile())
#define CLI(r, ...) CLI_IN(r, "", __VA_ARGS__)

void cli_assert_contains(const char *text, const char *part);
// Standard output of a run that must end with 0.
void cli_assert_done(const cli_result *r);

#endif
