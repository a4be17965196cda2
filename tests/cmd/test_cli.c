// The tally program from outside: exit codes, help, and the sentences for wrong usage. Needs no model.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/cli.h"

// Exit code 2, nothing on standard output, and one line on standard error that holds every given part.
static void assert_usage(const cli_result *r, const char *part) {
    if (r->exit_code != 2) fail_msg("exit code %d, not 2; stderr: %s", r->exit_code, r->err);
    assert_string_equal(r->out, "");
    assert_int_equal(strncmp(r->err, "tally: ", 7), 0);
    const char *newline = strchr(r->err, '\n');
    assert_non_null(newline);
    assert_string_equal(newline, "\n");
    cli_assert_contains(r->err, part);
}

static void test_version(void **state) {
    (void)state;
    cli_result r;
    CLI(&r, "--version");
    assert_int_equal(r.exit_code, 0);
    assert_string_equal(r.out, "tally " TALLY_VERSION "\n");
}

static void test_help_of_every_command(void **state) {
    (void)state;
    static const char *const names[] = {"run", "eval", "tokenize", "detokenize", "inspect", "plan", "chat", "bench"};
    cli_result overview, r, dashed;
    CLI(&overview, "help");
    assert_int_equal(overview.exit_code, 0);
    cli_assert_contains(overview.out, "Exit codes: 0 done");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cli_assert_contains(overview.out, names[i]);
        CLI(&r, "help", names[i]);
        assert_int_equal(r.exit_code, 0);
        cli_assert_contains(r.out, "usage: tally ");
        cli_assert_contains(r.out, "--model MODEL");
        cli_assert_contains(r.out, "Exit codes: 0 done");
        cli_assert_contains(r.out, "help env");
        CLI(&dashed, names[i], "--help");
        assert_int_equal(dashed.exit_code, 0);
        assert_string_equal(r.out, dashed.out);
    }
}

static void test_other_help(void **state) {
    (void)state;
    cli_result r;
    CLI(&r, "help", "cpu");
    assert_int_equal(r.exit_code, 0);
    cli_assert_contains(r.out, "scalar     available");
    CLI(&r, "help", "env");
    assert_int_equal(r.exit_code, 0);
    cli_assert_contains(r.out,
                        "HF_HUB_CACHE               the Hugging Face cache"); // columns as wide as the longest name
    cli_assert_contains(r.out, "ASCEND_RT_VISIBLE_DEVICES  ");
    CLI(&r, "help", "devices");
    assert_int_equal(r.exit_code, 0);
    cli_assert_contains(r.out, "usage: tally devices");
}

static void test_help_lists_documented_flags(void **state) {
    (void)state;
    static const char *const flags[] = {
        "-m,",
        "-p,",
        "-f,",
        "-n,",
        "-c,",
        "-t,",
        "-b,",
        "-ub,",
        "--temp",
        "--top-k",
        "--top-p",
        "--min-p",
        "--seed",
        "-ctk,",
        "-ctv,",
        "-sys,",
        "--cpu",
        "--chat",
        "--ignore-eos",
        "--logit-bias",
        "--no-mmap",
        "--ids",
        "--json",
        "--stop",
        "--logprobs",
        "--no-parse-special",
        "--repeat-penalty",
    };
    cli_result r;
    CLI(&r, "help", "run");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) cli_assert_contains(r.out, flags[i]);
}

static void test_unknown_words(void **state) {
    (void)state;
    cli_result r;
    CLI(&r, "tokenise");
    assert_usage(&r, "did you mean 'tokenize'");
    CLI(&r, "frobnicate");
    assert_usage(&r, "'frobnicate'");
    CLI(&r, "help", "evil");
    assert_usage(&r, "did you mean 'eval'");
    CLI(&r, "run", "-m", "x", "--tmp", "1");
    assert_usage(&r, "did you mean --temp?");
    CLI(&r, "tokenize", "-m", "x", "--temp", "1"); // an option of another command
    assert_usage(&r, "--temp");
    CLI(&r, "run", "-m", "x", "hello");
    assert_usage(&r, "'hello'");
    assert_usage(&r, "text with -p or -f");
    CLI(&r, "tokenize", "-m", "x", "hello");
    assert_usage(&r, "echo -n TEXT | tally tokenize -m MODEL");
    CLI(&r, "chat", "-m", "x", "hello");
    assert_usage(&r, "give the model with -m\n");
    CLI(&r, "devices", "x");
    assert_usage(&r, "options only");
}

static void test_no_arguments(void **state) {
    (void)state;
    cli_result r;
    cli_run_to(&r, (const char *const[]){NULL}, "", tmpfile());
    assert_int_equal(r.exit_code, 2);
    cli_assert_contains(r.err, "usage: tally COMMAND");
}

static void test_numbers(void **state) {
    (void)state;
    static const char *const bad[][3] = {
        {"--temp", "warm", "from 0 to 1000, not 'warm'"},
        {"--temp", "nan", "'nan'"},
        {"--temp", "-0.1", "'-0.1'"},
        {"--top-p", "1.01", "from 0 to 1"},
        {"--top-k", "2.5", "'2.5'"},
        {"-n", "-2", "from -1 to 2147483647"},
        {"-n", "99999999999", "'99999999999'"},
        {"-t", "0", "from 1 to 1024"},
        {"--seed", "9223372036854775808", "'9223372036854775808'"},
        {"-n", "", "''"},
        {"-ctk", "f8", "f32|f16|bf16|q8_0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cli_result r;
        CLI(&r, "run", "-m", "x", "-p", "y", bad[i][0], bad[i][1]);
        assert_usage(&r, bad[i][0]);
        assert_usage(&r, bad[i][2]);
    }
}

static void test_missing_and_contradicting(void **state) {
    (void)state;
    cli_result r;
    CLI(&r, "run", "-p", "x");
    assert_usage(&r, "-m MODEL");
    CLI(&r, "run", "-m", "x");
    assert_usage(&r, "no prompt");
    CLI(&r, "run", "-m", "x", "-p", "a", "--ids", "1");
    assert_usage(&r, "given twice");
    CLI(&r, "run", "-m");
    assert_usage(&r, "-m needs a value");
    CLI(&r, "run", "-m", "x", "-p", "a", "-sys", "b");
    assert_usage(&r, "add --chat");
    CLI(&r, "run", "-m", "x", "--chat", "--ids", "1");
    assert_usage(&r, "--chat");
    CLI(&r, "run", "-m", "x", "-p", "a", "--logprobs", "2");
    assert_usage(&r, "--json");
    CLI(&r, "run", "-m", "x", "-p", "a", "--json=yes");
    assert_usage(&r, "takes no value");
    CLI(&r, "run", "-m", "x", "-p", "a", "--logit-bias", "12");
    assert_usage(&r, "'12'");
    CLI(&r, "eval", "-m", "x", "--ids", "1");
    assert_usage(&r, "--logits");
    CLI(&r, "chat", "-m", "x", "--stop", "");
    assert_usage(&r, "--stop needs a text");
    CLI(&r, "bench", "-m", "x", "--spec-suite", "--trace");
    assert_usage(&r, "leave out --trace");
    CLI(&r, "eval", "-m", "x");
    assert_usage(&r, "--perplexity FILE");
    CLI(&r, "run", "-m", "x", "-p", "a", "-np", "2");
    assert_usage(&r, "--parallel says nothing without --requests; add it");
    CLI(&r, "bench", "-m", "x", "--seed", "2");
    assert_usage(&r, "--seed says nothing without --spec-suite; add it");
    CLI(&r, "bench", "-m", "x", "--verify-rows", "1,2", "--spec", "lookup");
    assert_usage(&r, "leave out --spec");
    CLI(&r, "bench", "-m", "x", "--device", "emu:910B3", "--measured", "x");
    assert_usage(&r, "leave it out with --device emu:910B3");
    CLI(&r, "inspect", "a", "b");
    assert_usage(&r, "'a' and 'b'");
}

static void test_missing_model(void **state) {
    (void)state;
    cli_result r;
    CLI(&r, "run", "-m", "/nonexistent/model.gguf", "-p", "x");
    assert_int_equal(r.exit_code, 1);
    assert_string_equal(r.out, "");
    cli_assert_contains(r.err, "/nonexistent/model.gguf");
}

static void test_full_disk(void **state) {
    (void)state;
    cli_result r;
    FILE *full = fopen("/dev/full", "w+");
    if (!full) skip();
    cli_run_to(&r, (const char *const[]){"help", NULL}, "", full);
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "standard output");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version),       cmocka_unit_test(test_help_of_every_command),
        cmocka_unit_test(test_other_help),    cmocka_unit_test(test_help_lists_documented_flags),
        cmocka_unit_test(test_unknown_words), cmocka_unit_test(test_no_arguments),
        cmocka_unit_test(test_numbers),       cmocka_unit_test(test_missing_and_contradicting),
        cmocka_unit_test(test_missing_model), cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
