// run --requests: many at once equal each alone, whatever the cache holds; and what a file may hold that is wrong.
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/str.h"
#include "tests/support/child.h"
#include "tests/support/cli.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

static const char TEMPLATE[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

enum { MIXED = 26, PREFIX = 1000 };

typedef struct fixture {
    temp_folder folder;
    char model[300], file[300], out[300];
    json_t *mixed; // requests of every kind
    json_t *alone; // their answers, each by a program of its own
} fixture;

static void random_text(char *text, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++) text[i] = "abcdefghijklmnop qrstuvwxyz"[hash_mix(seed * 7919 + i) % 27];
    text[n] = 0;
}

// Short and long, greedy and sampled, with and without a common beginning of a thousand tokens.
static json_t *make_request(int i) {
    char text[PREFIX + 128] = "";
    if (i % 4 == 1) random_text(text, PREFIX, 1);
    random_text(text + strlen(text), 1 + (size_t)i * 37 % 90, (uint64_t)i + 100);
    json_t *r = i % 5 == 4 ? json_pack("{s:[{s:s,s:s}]}", "messages", "role", "user", "content", text)
                           : json_pack("{s:s}", "prompt", text);
    json_object_set_new(r, "n", json_integer(i == 7 ? 0 : 1 + i * 11 % 40));
    json_object_set_new(r, "ignore_eos", json_boolean(i % 3 != 0));
    if (i % 2) {
        json_object_set_new(r, "temp", json_real(0.5 + i * 0.05));
        json_object_set_new(r, "seed", json_integer(i / 4));
        json_object_set_new(r, "top_p", json_real(0.9));
    }
    if (i % 6 == 1) json_object_set_new(r, "repeat_penalty", json_real(1.2));
    if (i % 6 == 2) json_object_set_new(r, "frequency_penalty", json_real(0.5));
    if (i % 6 == 3) json_object_set_new(r, "logit_bias", json_pack("{s:f,s:s}", "17", 2.5, "30", "-inf"));
    if (i % 8 == 5) json_object_set_new(r, "top_k", json_integer(5));
    if (i % 8 == 6) json_object_set_new(r, "logprobs", json_integer(2));
    if (i % 7 == 3) json_object_set_new(r, "stop", json_pack("[s,s]", "q", "xyz"));
    return r;
}

static void write_requests(const fixture *f, const json_t *list) {
    FILE *out = fopen(f->file, "w");
    assert_non_null(out);
    size_t i;
    json_t *r;
    json_array_foreach(list, i, r) {
        json_dumpf(r, out, JSON_COMPACT);
        fputc('\n', out);
    }
    fclose(out);
}

// Seeds that were not asked for and times differ from run to run, and with the times what drafts were worth trying.
static void strip(json_t *answer) {
    static const char *const counts[] = {"drafted", "accepted", "emitted", "verify_steps", "shadow_checks"};
    for (int i = 0; i < 5; i++) json_object_del(answer, counts[i]);
    json_object_del(answer, "timings");
    json_object_del(answer, "seed");
}

static json_t *read_answers(const char *path) {
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    json_t *list = json_array(), *answer;
    json_error_t err;
    while ((answer = json_loadf(in, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &err))) {
        strip(answer);
        json_array_append_new(list, answer);
    }
    fclose(in);
    return list;
}

// Answers of a run with further arguments (NULL-terminated, at most 12).
static json_t *run(const fixture *f, cli_result *r, const char *const *more) {
    const char *args[24] = {"run", "-m", f->model, "--requests", f->file, "-t", "1"};
    int n = 7;
    for (; *more; more++) args[n++] = *more;
    FILE *out = fopen(f->out, "w+");
    assert_non_null(out);
    cli_run_to(r, args, "", out);
    return read_answers(f->out);
}
#define RUN(f, r, ...) run(f, r, (const char *const[]){__VA_ARGS__, NULL})

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->folder = temp_folder_make();
    snprintf(f->model, sizeof f->model, "%s/tiny.gguf", f->folder.path);
    snprintf(f->file, sizeof f->file, "%s/requests.jsonl", f->folder.path);
    snprintf(f->out, sizeof f->out, "%s/answers.jsonl", f->folder.path);
    tiny_text_gguf(f->model, DTYPE_Q8_0, 3, TEMPLATE);
    f->mixed = json_array();
    f->alone = json_array();
    for (int i = 0; i < MIXED; i++) {
        json_t *r = make_request(i), *one = json_array();
        json_array_append(one, r);
        json_array_append_new(f->mixed, r);
        write_requests(f, one);
        cli_result result;
        json_t *answer = RUN(f, &result, "--parallel", "1");
        cli_assert_done(&result);
        assert_int_equal(json_array_size(answer), 1);
        json_array_append(f->alone, json_array_get(answer, 0));
        json_decref(answer);
        json_decref(one);
    }
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    temp_folder_remove(&f->folder);
    json_decref(f->mixed);
    json_decref(f->alone);
    free(f);
    return 0;
}

static void same_answers(const fixture *f, const json_t *answers, const char *what) {
    assert_int_equal(json_array_size(answers), MIXED);
    for (size_t i = 0; i < MIXED; i++) {
        if (json_equal(json_array_get(answers, i), json_array_get(f->alone, i))) continue;
        char *a = json_dumps(json_array_get(answers, i), 0), *b = json_dumps(json_array_get(f->alone, i), 0);
        fail_msg("%s: request %zu: together\n%s\nalone\n%s", what, i, a, b);
    }
}

static long number_behind(const char *text, const char *label) {
    const char *at = strstr(text, label);
    if (!at) fail_msg("'%s' is not in %s", label, text);
    return at ? strtol(at + strlen(label), NULL, 10) : -1;
}

static void test_together_equals_alone(void **state) {
    const fixture *f = *state;
    static const char *const parallel[] = {"1", "2", "3", "8", "32"};
    write_requests(f, f->mixed);
    for (size_t i = 0; i < sizeof parallel / sizeof *parallel; i++) {
        cli_result r;
        json_t *answers = RUN(f, &r, "--parallel", parallel[i]);
        cli_assert_done(&r);
        same_answers(f, answers, parallel[i]);
        json_decref(answers);
        if (i > 0) assert_true(number_behind(r.err, "reused positions: ") >= 960);
        if (i != 1 && i != 4) continue;
        answers = RUN(f, &r, "--parallel", parallel[i], "--no-prefix-reuse", "-ub", "33");
        cli_assert_done(&r);
        same_answers(f, answers, "without reuse");
        assert_int_equal(number_behind(r.err, "reused positions: "), 0);
        assert_int_equal(number_behind(r.err, "blocks in use: "), 0);
        json_decref(answers);
    }
}

static void test_preempted_equals_alone(void **state) {
    const fixture *f = *state;
    write_requests(f, f->mixed);
    static const char *const more[] = {NULL, "--no-prefix-reuse"};
    for (int i = 0; i < 2; i++) {
        cli_result r;
        json_t *answers = RUN(f, &r, "--parallel", "32", "--cache-positions", "1280", more[i]);
        cli_assert_done(&r);
        same_answers(f, answers, "small cache");
        json_decref(answers);
        assert_true(number_behind(r.err, "preemptions: ") > 0);
        assert_int_equal(number_behind(r.err, "blocks in use: "), 0);
    }
}

// The same request through the options of run.
static void test_equals_run(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI(&r, "run", "-m", f->model, "-p", "hello there", "-n", "20", "--temp", "0.8", "--top-p", "0.9", "--top-k", "40",
        "--min-p", "0.01", "--seed", "5", "--ignore-eos", "--json", "--logit-bias", "30-inf", "--repeat-penalty",
        "1.1");
    cli_assert_done(&r);
    json_t *one = json_loads(r.out, JSON_ALLOW_NUL, NULL);
    assert_non_null(one);
    assert_int_equal(json_integer_value(json_object_get(one, "seed")), 5);
    strip(one);
    temp_folder_write_text(
        &f->folder, "requests.jsonl",
        "{\"prompt\": \"hello there\", \"n\": 20, \"temp\": 0.8, \"top_p\": 0.9, \"top_k\": 40, \"min_p\": "
        "0.01, \"seed\": 5, \"ignore_eos\": true, \"logit_bias\": {\"30\": \"-inf\"}, "
        "\"repeat_penalty\": 1.1}\n{\"prompt\": \"hello there\"}");
    json_t *answers = RUN(f, &r, "--parallel", "2", "-n", "20", "--temp", "0.8", "--top-p", "0.9", "--top-k", "40",
                          "--min-p", "0.01", "--seed", "5", "--ignore-eos");
    cli_assert_done(&r);
    assert_int_equal(json_array_size(answers), 2);
    assert_true(json_equal(json_array_get(answers, 0), one));
    assert_false(json_equal(json_array_get(answers, 1), one)); // options are the defaults; the bias was the line's own
    assert_int_equal(json_array_size(json_object_get(json_array_get(answers, 1), "ids")), 20);
    json_decref(answers);
    json_decref(one);
}

// Two thousand through a cache that holds a tenth of them.
static void test_two_thousand(void **state) {
    const fixture *f = *state;
    enum { N = 2000 };
    FILE *out = fopen(f->file, "w");
    assert_non_null(out);
    size_t total = 0;
    for (int i = 0; i < N; i++) {
        char text[128];
        size_t n_prompt = 1 + hash_mix((uint64_t)i) % (i % 50 ? 40 : 120);
        random_text(text, n_prompt, (uint64_t)i);
        int n = 1 + (int)(hash_mix((uint64_t)i + 5000) % 6);
        total += n_prompt + (size_t)n;
        fprintf(out, "{\"prompt\":\"%s\",\"n\":%d,\"ignore_eos\":true}\n", text, n);
    }
    fclose(out);
    assert_true(total > 40000);
    cli_result r;
    json_t *answers =
        RUN(f, &r, "--parallel", "2000", "--cache-positions", "12800"); // 200 blocks; each takes one or more
    cli_assert_done(&r);
    assert_int_equal(json_array_size(answers), N);
    for (int i = 0; i < N; i++) {
        int n = 1 + (int)(hash_mix((uint64_t)i + 5000) % 6);
        assert_int_equal(json_array_size(json_object_get(json_array_get(answers, (size_t)i), "ids")), n);
    }
    json_decref(answers);
    assert_int_equal(number_behind(r.err, "blocks in use: "), 0);
    assert_int_equal(number_behind(r.err, "requests: "), N);
    long wait = number_behind(r.err, "worst wait: "), steps = number_behind(r.err, "steps: ");
    print_message("# 2000 requests: %s", r.err);
    assert_true(wait >= 0 && wait < steps);
}

// ---- files -----------------------------------------------------------------------------------------------------------------

static const char *error_of(const json_t *answers, size_t i) {
    const char *text = json_string_value(json_object_get(json_array_get(answers, i), "error"));
    if (!text) fail_msg("answer %zu is no error", i);
    return text ? text : "";
}

static void test_bad_lines(void **state) {
    const fixture *f = *state;
    static const struct {
        const char *line, *message; // NULL: a good one
    } cases[] = {
        {"{\"prompt\": \"a\", \"n\": 1}", NULL},
        {"{\"prompt\": \"a\", \"tempp\": 1}", "did you mean \"temp\"?"},
        {"{\"prompt\": \"a\", \"temperature\": 1}", "did you mean \"temp\"?"},
        {"{\"prompt\": \"a\", \"max_tokens\": 1}", "did you mean \"n\"?"},
        {"{\"prompt\": \"a\", \"response_format\": 1}", "'tally help run' lists them"},
        {"{\"prompt\": \"a\", \"n\": \"4\"}", "n is a string, expected an integer"},
        {"{\"prompt\": \"a\", \"n\": -2}", "n is -2"},
        {"{\"prompt\": \"a\", \"top_p\": 1.5}", "top_p is 1.5"},
        {"{\"prompt\": 4}", "prompt is an integer"},
        {"{\"ids\": [1, \"2\"]}", "entry 1 of ids"},
        {"{\"ids\": [1, 300], \"n\": 1}", "300"},
        {"{\"ids\": []}", "empty"},
        {"{\"prompt\": \"\"}", "empty"},
        {"{\"messages\": []}", "messages is empty"},
        {"{\"messages\": {}}", "messages is an object"},
        {"{}", "holds none"},
        {"{\"prompt\": \"a\", \"ids\": [1]}", "holds several"},
        {"[1]", "expected an object"},
        {"nonsense", "not valid JSON"},
        {"{\"prompt\": \"a\", \"prompt\": \"b\"}", "JSON"},
        {"{\"prompt\": \"\xff\"}", "JSON"},
        {"{\"prompt\": \"a\", \"stop\": \"\"}", "stop"},
        {"{\"prompt\": \"a\", \"stop\": [1]}", "stop"},
        {"{\"prompt\": \"a\", \"logit_bias\": {\"x\": 1}}", "logit_bias"},
        {"{\"prompt\": \"a\", \"logit_bias\": {\"999\": 1}}", "999"},
        {"{\"prompt\": \"a\", \"seed\": -2}", "seed"},
        {"{\"prompt\": \"a\", \"ignore_eos\": 1}", "ignore_eos"},
        {"{\"prompt\": \"a\", \"tools\": 1, \"messages\": null, \"n\": 0}", NULL},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": 1}", "tools"},
        {"{\"prompt\": \"a\", \"stop\": \"q\\u0000\"}", "no \\u0000"},
        {"{\"prompt\": \"a\", \"spec\": \"off\\u0000\"}", "spec is a string with \\u0000"},
        {"{\"prompt\": \"b\", \"n\": 2}", NULL},
        {"{\"prompt\": \"a\\u0000b\", \"n\": 2}", NULL},
    };
    enum { N = sizeof cases / sizeof *cases };
    FILE *out = fopen(f->file, "w");
    assert_non_null(out);
    for (int i = 0; i < N; i++)
        fprintf(out, "%s%s", cases[i].line, i + 1 == N ? "" : i % 2 ? "\r\n" : "\n\n"); // no end
    fclose(out);
    cli_result r;
    json_t *answers = RUN(f, &r, "--parallel", "4");
    assert_int_equal(r.exit_code, 1);
    assert_int_equal(json_array_size(answers), N);
    for (size_t i = 0; i < N; i++) {
        size_t line = 1 + i + (i + 1) / 2;
        if (!cases[i].message) {
            assert_non_null(json_object_get(json_array_get(answers, i), "ids"));
            continue;
        }
        char start[32];
        snprintf(start, sizeof start, "line %zu: ", line);
        const char *text = error_of(answers, i);
        if (strncmp(text, start, strlen(start)) != 0) fail_msg("'%s' does not begin with '%s'", text, start);
        cli_assert_contains(text, cases[i].message);
        assert_int_equal(json_integer_value(json_object_get(json_array_get(answers, i), "line")), line);
    }
    size_t one = json_array_size(json_object_get(json_array_get(answers, 0), "prompt_ids"));
    assert_int_equal(json_array_size(json_object_get(json_array_get(answers, N - 1), "prompt_ids")),
                     one + 2); // a, 0, b
    json_decref(answers);
}

static void test_too_long_among_others(void **state) {
    const fixture *f = *state;
    char text[700];
    random_text(text, 600, 1);
    FILE *out = fopen(f->file, "w");
    assert_non_null(out);
    fprintf(out,
            "{\"prompt\":\"abc\",\"n\":30,\"ignore_eos\":true}\n{\"prompt\":\"%s\",\"n\":1}\n"
            "{\"prompt\":\"%.250s\",\"n\":30,\"ignore_eos\":true}\n{\"prompt\":\"abc\",\"n\":30,\"ignore_eos\":true}\n",
            text, text);
    fclose(out);
    cli_result r;
    json_t *answers = RUN(f, &r, "--parallel", "4", "--cache-positions", "256");
    assert_int_equal(r.exit_code, 1);
    assert_int_equal(json_array_size(json_object_get(json_array_get(answers, 0), "ids")), 30);
    cli_assert_contains(error_of(answers, 1), "256");
    cli_assert_contains(error_of(answers, 2), "256"); // outgrows the cache
    assert_true(json_equal(json_array_get(answers, 3), json_array_get(answers, 0)));
    json_decref(answers);
}

static void test_line_of_10_mb(void **state) {
    const fixture *f = *state;
    enum { SIZE = 10 << 20 };
    FILE *out = fopen(f->file, "w");
    assert_non_null(out);
    fputs("{\"prompt\": \"", out);
    for (int i = 0; i < SIZE / 8; i++) fputs("abcdefg ", out);
    fputs("\", \"n\": 1}\n{\"prompt\": \"a\", \"n\": 1}\n{\"ids\": [1", out);
    for (int i = 0; i < SIZE / 2; i++) fputs(" ", out);
    fputs("], \"n\": 1}", out);
    fclose(out);
    cli_result r;
    json_t *answers = RUN(f, &r, "--parallel", "2");
    assert_int_equal(r.exit_code, 1);
    assert_int_equal(json_array_size(answers), 3);
    cli_assert_contains(error_of(answers, 0), "tokens");
    assert_int_equal(json_array_size(json_object_get(json_array_get(answers, 2), "ids")), 1);
    json_decref(answers);
}

static void test_empty_file(void **state) {
    const fixture *f = *state;
    temp_folder_write_text(&f->folder, "requests.jsonl", "\n\r\n  \n");
    cli_result r;
    json_t *answers = RUN(f, &r, "--parallel", "2");
    cli_assert_done(&r);
    assert_int_equal(json_array_size(answers), 0);
    json_decref(answers);
    CLI(&r, "run", "-m", f->model, "--requests", "/nowhere/file");
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "/nowhere/file");
    CLI(&r, "run", "-m", f->model, "--requests", f->file, "-p", "x");
    assert_int_equal(r.exit_code, 2);
}

static void test_write_errors(void **state) {
    const fixture *f = *state;
    write_requests(f, f->mixed);
    cli_result r;
    if (access("/dev/full", W_OK) == 0) {
        const char *const args[] = {"run", "-m", f->model, "--requests", f->file, NULL};
        cli_run_to(&r, args, "", fopen("/dev/full", "w"));
        assert_int_equal(r.exit_code, 1);
        cli_assert_contains(r.err, "cannot write to standard output");
        assert_null(strchr(strchr(r.err, '\n') + 1, '\n')); // one line
    }
    child c;
    CHILD(&c, false, "run", "-m", f->model, "--requests", f->file, "--parallel", "2");
    close(c.out);
    c.out = c.in;
    child_write_end(&c);
    c.out = open("/dev/null", 0);
    assert_int_equal(child_end(&c), 1);
    child_free(&c);
}

// Over a pipe, with -c, answers come while the pipe stays open; without, when it ends.
static void test_pipes(void **state) {
    const fixture *f = *state;
    child c;
    CHILD(&c, false, "run", "-m", f->model, "--requests", "-", "-c", "256", "--parallel", "2");
    child_write(&c, "{\"prompt\": \"a\", \"n\": 3, \"ignore_eos\": true}\n");
    child_expect(&c, "\"length\"");
    child_write(&c, "{\"prompt\": \"b\", \"n\": 0}\n{\"prompt\": \"c\",");
    child_expect(&c, "\"length\"");
    child_write(&c, "\"n\": 0}");
    child_write_end(&c);
    child_expect(&c, "\"length\"");
    assert_int_equal(child_end(&c), 0);
    child_free(&c);
    CHILD(&c, false, "run", "-m", f->model, "--requests", "-");
    child_write(&c, "{\"prompt\": \"a\", \"n\": 3, \"ignore_eos\": true}\n");
    child_write_end(&c);
    child_expect(&c, "\"length\"");
    assert_int_equal(child_end(&c), 0);
    child_free(&c);
}

static void test_interrupt(void **state) {
    const fixture *f = *state;
    child c;
    CHILD(&c, false, "run", "-m", f->model, "--requests", "-", "-c", "4096", "--parallel", "2");
    child_write(&c, "{\"prompt\": \"a\", \"n\": 3, \"ignore_eos\": true}\n{\"prompt\": \"a\", \"n\": 4000, "
                    "\"ignore_eos\": true}\n{\"prompt\": \"a\", \"n\": 4000, \"ignore_eos\": true}\n");
    child_expect(&c, "}\n");
    kill(c.pid, SIGINT);
    assert_int_equal(child_end(&c), 130);
    assert_int_equal(c.read[c.n_read - 1], '\n'); // whole lines only
    int n = 0;
    for (size_t at = 0; at + 1 < (size_t)c.n_read; n++) { // what was finished, and what was not as far as it got
        json_error_t e;
        json_t *one = json_loads(c.read + at, JSON_DISABLE_EOF_CHECK, &e);
        assert_non_null(one);
        assert_string_equal(json_string_value(json_object_get(one, "finish_reason")), n ? "interrupted" : "length");
        assert_true(json_array_size(json_object_get(one, "ids")) < 4000);
        json_decref(one);
        at += (size_t)e.position;
    }
    assert_true(n == 2 || n == 3); // the third line may not have been read yet
    child_free(&c);
    int code = 0;
    for (int ms = 200; code != 130 && ms <= 5000;
         ms *= 5) { // while it copies a pipe, which a slow machine begins later
        CHILD(&c, false, "run", "-m", f->model, "--requests", "-");
        child_write(&c, "{\"prompt\": \"a\", \"n\": 1}\n");
        usleep((unsigned)ms * 1000);
        kill(c.pid, SIGINT);
        code = child_end(&c);
        child_free(&c);
    }
    assert_int_equal(code, 130);
    CHILD(&c, false, "run", "-m", f->model, "--requests", "-", "-c", "4096"); // while it waits for a line
    child_write(&c, "{\"prompt\": \"a\", \"n\": 1, \"ignore_eos\": true}\n");
    child_expect(&c, "}\n");
    kill(c.pid, SIGINT);
    assert_int_equal(child_end(&c), 130);
    child_free(&c);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together_equals_alone),
        cmocka_unit_test(test_preempted_equals_alone),
        cmocka_unit_test(test_equals_run),
        cmocka_unit_test(test_two_thousand),
        cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_too_long_among_others),
        cmocka_unit_test(test_line_of_10_mb),
        cmocka_unit_test(test_empty_file),
        cmocka_unit_test(test_write_errors),
        cmocka_unit_test(test_pipes),
        cmocka_unit_test(test_interrupt),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
