// Speculation from outside: its options and their refusals, what is said of it, the prompt set, tally bench --spec-suite and
// --verify-rows, and the comparison of two answers.
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cmd/bench.h"
#include "cmd/spec_answer.h"
#include "cmd/spec_prompts.h"
#include "cmd/speculation.h"
#include "tests/support/child.h"
#include "tests/support/cli.h"
#include "tests/support/json_fields.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

typedef struct fixture {
    temp_folder folder;
    char model[300], bare_model[300], other_model[300], set[300];
} fixture;

// What the last tokens were followed by stands in these prompts, so that a lookup always finds drafts.
static const char SET[] = "For tests.\n"
                          "=== copy/abc\nabcdefgh abcdefgh abcdefgh abc\n"
                          "=== copy/lines\nfirst line\nsecond line\nfirst line\n\n"
                          "=== plain/word\nxyzzy\n"
                          "=== plain/stopped | stop: e\nthe sea the sea the\n";

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->folder = temp_folder_make();
    snprintf(f->model, sizeof f->model, "%s/text.gguf", f->folder.path);
    snprintf(f->bare_model, sizeof f->bare_model, "%s/bare.gguf", f->folder.path);
    snprintf(f->other_model, sizeof f->other_model, "%s/other", f->folder.path);
    snprintf(f->set, sizeof f->set, "%s/set.txt", f->folder.path);
    tiny_text_gguf(f->model, DTYPE_Q8_0, 3, "{{ messages }}");
    tiny_random_gguf(f->bare_model, DTYPE_Q4_K, true, 4);
    int n;
    char **variants = tiny_model_variants(&n);
    tiny_model other = tiny_model_read(variants[0]); // of another size of vocabulary
    assert_int_equal(mkdir(f->other_model, 0777), 0);
    tiny_model_write_folder(&other, f->other_model, DTYPE_F32, 1);
    tiny_model_free(&other);
    for (int i = 0; i < n; i++) free(variants[i]);
    free(variants);
    FILE *out = fopen(f->set, "w");
    assert_non_null(out);
    fputs(SET, out);
    fclose(out);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    temp_folder_remove(&f->folder);
    free(f);
    return 0;
}

// ---- options -----------------------------------------------------------------------------------------------------------------

static void refused(const cli_result *r, int code, const char *part) {
    if (r->exit_code != code) fail_msg("exit code %d, not %d; stderr: %s", r->exit_code, code, r->err);
    assert_string_equal(r->out, "");
    cli_assert_contains(r->err, part);
    assert_null(strchr(strchr(r->err, '\n') + 1, '\n')); // one sentence
}

static void test_refused_options(void **state) {
    const fixture *f = *state;
    static const struct {
        const char *args[4], *part;
    } cases[] = {
        {{"--spec", "draft"}, "-md MODEL"},
        {{"--spec", "fast"}, "off|auto|lookup|draft|tree"},
        {{"--draft-max", "17"}, "from 1 to 16"},
        {{"--draft-max", "0"}, "from 1 to 16"},
        {{"--draft", "x"}, "from 1 to 16"},
        {{"--draft-max", "3", "--draft-min", "4"}, "--draft-min 4 is above --draft-max 3"},
        {{"--lookup-min", "3", "--lookup-max", "2"}, "--lookup-min 3 is above --lookup-max 2"},
        {{"--lookup-max", "17"}, "from 1 to 16"},
        {{"--lookup-corpus", "-1"}, "from 0"},
        {{"--shadow", "-1"}, "from 0"},
    };
    static const char *const commands[] = {"run", "chat", "bench"};
    cli_result r;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t c = 0; c < 3; c++) {
            const char *args[16] = {commands[c], "-m", f->model};
            int n = 3;
            for (int k = 0; k < 4 && cases[i].args[k]; k++) args[n++] = cases[i].args[k];
            if (c == 0) args[n++] = "-p", args[n++] = "x";
            cli_run_to(&r, args, "", tmpfile());
            refused(&r, 2, cases[i].part);
        }
    }
    CLI(&r, "eval", "-m", f->model, "-p", "x", "--spec", "off");
    refused(&r, 2, "no option --spec");
}

static void test_help(void **state) {
    (void)state;
    static const char *const commands[] = {"run", "chat", "bench"};
    static const char *const flags[] = {
        "--spec MODE",  "-md, --model-draft MODEL", "--draft-max", "--draft-min", "--lookup-min",
        "--lookup-max", "--lookup-corpus",          "--shadow"};
    cli_result r;
    for (size_t c = 0; c < 3; c++) {
        CLI(&r, "help", commands[c]);
        for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) cli_assert_contains(r.out, flags[i]);
    }
    cli_assert_contains(r.out, "--spec-suite");
    cli_assert_contains(r.out, "--verify-rows");
    assert_int_equal(speculation_mode("tree"), TALLY_SPEC_TREE);
    assert_int_equal(speculation_mode("nothing"), TALLY_SPEC_DEFAULT);
    assert_int_equal(speculation_mode(NULL), TALLY_SPEC_DEFAULT);
}

static void test_refused_draft_models(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI(&r, "run", "-m", f->model, "-p", "x", "-n", "2", "-md", "/no/such/model.gguf");
    refused(&r, 1, "draft model /no/such/model.gguf:");
    CLI(&r, "run", "-m", f->model, "-p", "x", "-n", "2", "-md", f->other_model);
    refused(&r, 1, "the draft model has 192 ids and the model 300");
}

static void check_counts(const json_t *o) {
    assert_int_equal(json_int_field(o, "emitted"), json_int_field(o, "accepted") + json_int_field(o, "verify_steps"));
    assert_true(json_int_field(o, "accepted") <= json_int_field(o, "drafted") &&
                json_int_field(o, "shadow_checks") <= json_int_field(o, "verify_steps"));
}

// A model is its own best draft model.
static void test_draft_model(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI(&r, "run", "-m", f->model, "-p", "abc", "-n", "40", "--ignore-eos", "--json", "--spec", "off");
    cli_assert_done(&r);
    json_t *plain = json_parse(r.out);
    static const char *const modes[] = {"draft", "tree", "auto"};
    for (int i = 0; i < 3; i++) {
        CLI(&r, "run", "-m", f->model, "-md", f->model, "-p", "abc", "-n", "40", "--ignore-eos", "--json", "--spec",
            modes[i], "--draft-max", "4", "--shadow", "2", "-v");
        cli_assert_done(&r);
        cli_assert_contains(r.err, "draft model of ");
        json_t *o = json_parse(r.out);
        check_counts(o);
        assert_true(json_equal(json_object_get(plain, "ids"), json_object_get(o, "ids")));
        if (i == 0) {
            assert_int_equal(json_int_field(o, "accepted"), json_int_field(o, "drafted"));
            assert_true(json_int_field(o, "drafted") >= 28 && json_int_field(o, "shadow_checks") > 0);
        }
        json_decref(o);
    }
    json_decref(plain);
    CLI(&r, "bench", "-m", f->model, "-md", f->model, "--spec-suite", "--spec-prompts", f->set, "--spec", "draft", "-n",
        "24", "-r", "0", "-t", "1", "--parallel", "1,3", "--temp", "0.7");
    cli_assert_done(&r);
    cli_assert_contains(r.out, "8 of 8 answers equal plain decoding");
    cli_assert_contains(r.out, " with ");
}

// ---- what is said -------------------------------------------------------------------------------------------------------------

static void test_run_json(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI(&r, "run", "-m", f->model, "-p", "abcabcabcabc", "-n", "40", "--ignore-eos", "--json", "--spec", "off");
    cli_assert_done(&r);
    json_t *plain = json_parse(r.out);
    check_counts(plain);
    assert_int_equal(json_int_field(plain, "drafted"), 0);
    assert_null(strstr(r.err, "drafted"));
    CLI(&r, "run", "-m", f->model, "-p", "abcabcabcabc", "-n", "40", "--ignore-eos", "--json", "--spec", "lookup",
        "--shadow", "1", "--draft-max", "3", "--lookup-min", "1");
    cli_assert_done(&r);
    json_t *drafted = json_parse(r.out);
    check_counts(drafted);
    json_int_t steps = json_int_field(drafted, "verify_steps");
    assert_true(json_int_field(drafted, "drafted") > 0 && json_int_field(drafted, "drafted") <= 3 * steps);
    assert_true(json_int_field(drafted, "shadow_checks") > 0);
    char line[128];
    snprintf(line, sizeof line, "drafted %d, accepted %d (", (int)json_int_field(drafted, "drafted"),
             (int)json_int_field(drafted, "accepted"));
    cli_assert_contains(r.err, line);
    snprintf(line, sizeof line, "%%), %d verify step", (int)steps);
    cli_assert_contains(r.err, line);
    assert_true(json_equal(json_object_get(plain, "ids"), json_object_get(drafted, "ids")));
    assert_string_equal(json_text_field(plain, "repetition"), json_text_field(drafted, "repetition"));
    json_decref(plain);
    json_decref(drafted);
}

static void test_run_repetition(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI(&r, "run", "-m", f->model, "-p", "a", "-n", "30", "--ignore-eos", "--json", "-l", "97+1000");
    cli_assert_done(&r);
    json_t *o = json_parse(r.out);
    assert_string_equal(json_text_field(o, "repetition"), "LOOP_1");
    json_decref(o);
}

static void test_requests(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI_IN(&r,
           "{\"prompt\": \"abcabcabc\", \"n\": 20, \"ignore_eos\": true, \"spec\": \"lookup\"}\n"
           "{\"prompt\": \"abcabcabc\", \"n\": 20, \"ignore_eos\": true, \"spec\": \"off\"}\n"
           "{\"prompt\": \"abcabcabc\", \"n\": 20, \"spec\": \"fast\"}\n"
           "{\"prompt\": \"abcabcabc\", \"n\": 20, \"spec\": 3}\n"
           "{\"prompt\": \"abcabcabc\", \"n\": 20, \"spec\": \"draft\"}\n",
           "run", "-m", f->model, "--requests", "-", "--parallel", "2");
    assert_int_equal(r.exit_code, 1);
    char *lines[5], *at = r.out;
    for (int i = 0; i < 5; i++) {
        lines[i] = at;
        at = strchr(at, '\n');
        assert_non_null(at);
        *at++ = 0;
    }
    json_t *drafted = json_parse(lines[0]), *plain = json_parse(lines[1]);
    check_counts(drafted);
    assert_true(json_int_field(drafted, "drafted") > 0);
    assert_int_equal(json_int_field(plain, "drafted"), 0);
    assert_true(json_equal(json_object_get(plain, "ids"), json_object_get(drafted, "ids")));
    cli_assert_contains(lines[2], "line 3: spec is fast, expected");
    cli_assert_contains(lines[3], "line 4: spec is a");
    cli_assert_contains(lines[4], "-md");
    cli_assert_contains(r.err, "; drafted ");
    json_decref(drafted);
    json_decref(plain);
}

// ---- the prompt set -----------------------------------------------------------------------------------------------------------

static void test_default_set(void **state) {
    (void)state;
    spec_prompt_list l;
    assert_int_equal(spec_prompts_read("bench/prompts/spec.txt", &l), 0);
    assert_true(l.n >= 50);
    int classes = 0, stops = 0;
    for (int i = 0; i < l.n; i++) {
        const spec_prompt *p = &l.items[i];
        classes += i == 0 || strcmp(p->class_name, l.items[i - 1].class_name) != 0;
        stops += p->stop != NULL;
        if (p->len < 40 || p->len > 1500) fail_msg("%s/%s has %zu bytes", p->class_name, p->name, p->len);
        assert_null(strstr(p->text, "<|")); // no chat template's tokens
    }
    assert_true(classes >= 8 && stops >= 5);
    spec_prompts_deinit(&l);
}

static void read_text(const fixture *f, const char *text, spec_prompt_list *l, int code) {
    char path[400];
    snprintf(path, sizeof path, "%s/one.txt", f->folder.path);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    assert_int_equal(spec_prompts_read(path, l), code);
}

static void prompt_is(const spec_prompt *p, const char *class_name, const char *name, const char *stop,
                      const char *text) {
    assert_string_equal(p->class_name, class_name);
    assert_string_equal(p->name, name);
    assert_int_equal(p->stop != NULL, stop != NULL);
    if (stop) assert_string_equal(p->stop, stop);
    assert_int_equal(p->len, strlen(text));
    assert_memory_equal(p->text, text, p->len);
}

static void test_read_set(void **state) {
    const fixture *f = *state;
    spec_prompt_list l;
    read_text(f, SET, &l, 0);
    assert_int_equal(l.n, 4);
    prompt_is(&l.items[0], "copy", "abc", NULL, "abcdefgh abcdefgh abcdefgh abc");
    prompt_is(&l.items[1], "copy", "lines", NULL, "first line\nsecond line\nfirst line\n");
    prompt_is(&l.items[2], "plain", "word", NULL, "xyzzy");
    prompt_is(&l.items[3], "plain", "stopped", "e", "the sea the sea the");
    spec_prompts_deinit(&l);
    read_text(f, "=== a/b\ntext", &l, 0); // no newline at the end
    prompt_is(&l.items[0], "a", "b", NULL, "text");
    spec_prompts_deinit(&l);
    static const char *const bad[] = {"",
                                      "no header\n",
                                      "=== a\ntext\n",
                                      "=== /b\ntext\n",
                                      "=== a/\ntext\n",
                                      "=== a/b c\ntext\n",
                                      "=== a/b\n",
                                      "=== a",
                                      "=== a/b\n=== a/c\n",
                                      "=== a/b\n\n",
                                      "=== a/b | stop: \nx\n",
                                      "=== a/b\nx\n=== a/b\ny\n",
                                      "=== a/b\nx\n=== c/d\ny\n=== a/e\nz\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        read_text(f, bad[i], &l, 1);
        assert_null(l.data);
    }
}

// ---- the suite ----------------------------------------------------------------------------------------------------------------

static void check_row(const json_t *row, int i, bool timed) {
    static const char *const names[] = {"abc", "lines", "word", "stopped"};
    assert_string_equal(json_text_field(row, "class"), i % 4 < 2 ? "copy" : "plain");
    assert_string_equal(json_text_field(row, "name"), names[i % 4]);
    assert_true(json_is_true(json_object_get(row, "equals_plain")));
    assert_true(json_is_null(json_object_get(row, "difference")));
    assert_int_equal(json_int_field(row, "n_tokens"), 24);
    check_counts(row);
    assert_int_equal(json_is_real(json_object_get(row, "ratio")), timed);
    assert_int_equal(json_array_size(json_object_get(row, "ratios")), timed ? 3 : 0);
    assert_string_equal(json_text_field(row, "plain_repetition"), json_text_field(row, "drafted_repetition"));
    if (!timed) return;
    double ratio = json_real_value(json_object_get(row, "ratio"));
    int below = 0, above = 0;
    for (size_t k = 0; k < 3; k++) {
        double v = json_real_value(json_array_get(json_object_get(row, "ratios"), k));
        below += v <= ratio + 1e-5 * ratio, above += v >= ratio - 1e-5 * ratio;
    }
    assert_true(ratio > 0 && below >= 2 && above >= 2); // the median
}

static void test_suite_json(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "--spec", "lookup", "--lookup-min", "1",
        "-n", "24", "-r", "3", "-t", "1", "--parallel", "1,3", "-o", "json");
    cli_assert_done(&r);
    assert_string_equal(r.err, "");
    json_t *rows = json_parse(r.out), *row;
    CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "--spec", "lookup", "--lookup-min", "1",
        "-n", "24", "-r", "0", "-t", "2,1", "-o", "json"); // two threads are slow where others compute: untimed
    cli_assert_done(&r);
    json_t *untimed = json_parse(r.out);
    json_array_extend(rows, untimed);
    json_decref(untimed);
    assert_int_equal(json_array_size(rows), 4 * 4);
    size_t i;
    json_int_t drafted = 0;
    json_array_foreach(rows, i, row) {
        check_row(row, (int)i, i < 8);
        assert_int_equal(json_int_field(row, "n_parallel"), i / 4 == 1 ? 3 : 1);
        assert_int_equal(json_int_field(row, "n_threads"), i / 4 == 2 ? 2 : 1);
        drafted += json_int_field(row, "drafted");
        // the same text in every cell
        assert_string_equal(json_text_field(row, "ids_hash"), json_text_field(json_array_get(rows, i % 4), "ids_hash"));
    }
    assert_true(drafted > 0);
    json_decref(rows);
}

// Plain answers are computed once, kept, and compared with in other cells; a file of something else is refused.
static void test_suite_plain_file(void **state) {
    const fixture *f = *state;
    char path[400];
    snprintf(path, sizeof path, "%s/plain.json", f->folder.path);
    cli_result r;
    for (int i = 0; i < 3; i++) {
        CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "--spec", "lookup", "--lookup-min",
            "1", "-n", "24", "-r", i < 2 ? "0" : "1", "-t", "1", "--parallel", i == 1 ? "1,3" : "1", "-o", "json",
            "--spec-plain", path);
        cli_assert_done(&r);
        json_t *rows = json_parse(r.out), *row;
        size_t k;
        json_array_foreach(rows, k, row) {
            assert_true(json_is_true(json_object_get(row, "equals_plain")));
            assert_int_equal(json_int_field(row, "n_tokens"), 24);
        }
        json_decref(rows);
    }
    json_t *kept = json_load_file(path, 0, NULL), *answer;
    const char *name, *setting = json_text_field(kept, "setting");
    cli_assert_contains(setting, "24 tokens");
    assert_int_equal(json_object_size(json_object_get(kept, "answers")), 4);

    // Every part of a kept answer is compared.
    static const char *const fields[] = {"logprobs", "logits", "ids"};
    static const char *const told[] = {"log-probability 0", "last logits 0", "id 5"};
    for (int i = 0; i < 3; i++) {
        json_t *other = json_deep_copy(kept);
        json_object_foreach(json_object_get(other, "answers"), name, answer) {
            json_t *ids = json_object_get(answer, "ids");
            if (i == 2) json_array_set_new(ids, 5, json_integer(json_integer_value(json_array_get(ids, 5)) ^ 1));
            if (i < 2) json_object_set_new(answer, fields[i], json_string("0123456789abcdef"));
        }
        assert_int_equal(json_dump_file(other, path, 0), 0);
        json_decref(other);
        CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "--spec", "lookup", "-n", "24", "-r",
            "0", "-t", "1", "--spec-plain", path);
        assert_int_equal(r.exit_code, 1);
        cli_assert_contains(r.err, told[i]);
        cli_assert_contains(r.err, "4 of 4 answers differ");
    }
    // An answer that cannot be used is computed again.
    json_object_foreach(json_object_get(kept, "answers"), name, answer) {
        json_object_set_new(answer, "logits", json_string("no number"));
    }
    assert_int_equal(json_dump_file(kept, path, 0), 0);
    for (int i = 0; i < 2; i++) {
        CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "--spec", "lookup", "-n", "24", "-r",
            "0", "-t", "1", "--spec-plain", path);
        cli_assert_done(&r);
    }
    json_decref(kept);

    CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "--spec", "lookup", "-n", "25", "-r",
        "0", "-t", "1", "--spec-plain", path);
    refused(&r, 1, "name another file with --spec-plain");
    cli_assert_contains(r.err, "25 tokens");
    CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "-n", "24", "-r", "0", "--spec-plain",
        f->set);
    refused(&r, 1, "holds no plain answers of --spec-suite");
    CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "-n", "24", "-r", "0", "-t", "1",
        "--spec-plain", "/no/such/folder/plain.json");
    refused(&r, 1, "/no/such/folder/plain.json cannot be written");
}

static void test_suite_sampled_untimed(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "-n", "24", "-r", "0", "-t", "1",
        "--temp", "0.9", "--top-p", "0.95", "--seed", "5", "-o", "json", "--spec", "lookup");
    cli_assert_done(&r);
    json_t *rows = json_parse(r.out), *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        check_row(row, (int)i, false);
        assert_int_equal(json_int_field(row, "seed"), 5 + (json_int_t)i);
        assert_string_equal(json_text_field(row, "spec"), "lookup");
    }
    json_decref(rows);
}

static void test_suite_table(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "-n", "12", "-r", "1", "-t", "1",
        "--spec-stops");
    cli_assert_done(&r);
    cli_assert_contains(r.out, "--spec auto");
    cli_assert_contains(r.out, "12 tokens or until a stop");
    cli_assert_contains(r.out, "| copy | 2 | ");
    cli_assert_contains(r.out, "| plain | 2 | ");
    cli_assert_contains(r.out, "| all | 4 | ");
    cli_assert_contains(r.out, "| 4 of 4 |");
    cli_assert_contains(r.out, "| plain/stopped | ");
    cli_assert_contains(r.out, "4 of 4 answers equal plain decoding in every id, log-probability and kept logit.");
}

// At this temperature every token is as likely as any other, the end too.
static void test_suite_stops(void **state) {
    const fixture *f = *state;
    for (int stops = 0; stops < 2; stops++) {
        cli_result r;
        CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "-n", "300", "-r", "0", "-t", "1",
            "--temp", "1000", "--spec", "lookup", "--parallel", "4", "-o", "json", stops ? "--spec-stops" : "-v");
        cli_assert_done(&r);
        json_t *rows = json_parse(r.out), *row;
        size_t i;
        int ended = 0;
        json_array_foreach(rows, i, row) {
            assert_true(json_is_true(json_object_get(row, "equals_plain")));
            ended += json_int_field(row, "n_tokens") < 300;
        }
        assert_true(stops ? ended >= 2 : ended == 0);
        json_decref(rows);
    }
}

static void test_suite_refusals(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI(&r, "bench", "-m", f->model, "--spec-suite", "-p", "5");
    refused(&r, 2, "leave out -p and -d");
    CLI(&r, "bench", "-m", f->model, "--spec-suite", "-n", "5,6");
    refused(&r, 2, "one number with -n");
    CLI(&r, "bench", "-m", f->model, "--spec-suite", "--verify-rows", "1");
    refused(&r, 2, "give one");
    CLI(&r, "bench", "-m", f->model, "--spec-prompts", f->set);
    refused(&r, 2, "add it");
    CLI(&r, "bench", "-m", f->model, "-r", "0");
    refused(&r, 2, "-r 0 times nothing");
    CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", "/no/such/set");
    refused(&r, 1, "/no/such/set");
    CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "-n", "9999");
    refused(&r, 1, "copy/abc needs");
    CLI(&r, "bench", "-m", f->bare_model, "--spec-suite", "--spec-prompts", f->set);
    refused(&r, 1, "has no tokenizer");
    CLI(&r, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "--spec", "draft");
    refused(&r, 2, "-md MODEL");
}

static void test_suite_interrupt(void **state) {
    const fixture *f = *state;
    child_need_terminal();
    child c;
    CHILD(&c, true, "bench", "-m", f->model, "--spec-suite", "--spec-prompts", f->set, "-n", "4000", "-r", "100", "-t",
          "1");
    child_expect(&c, "prompt 1 of 4 (copy/abc), compared");
    kill(c.pid, SIGINT);
    child_expect(&c, "interrupted");
    assert_int_equal(child_end(&c), 130);
    child_free(&c);
}

static void test_bench_rows(void **state) {
    const fixture *f = *state;
    cli_result r;
    CLI(&r, "bench", "-m", f->model, "-p", "0", "-n", "40", "-d", "300", "-r", "1", "-t", "1", "-o", "json");
    cli_assert_done(&r);
    json_t *rows = json_parse(r.out), *row = json_array_get(rows, 0);
    assert_int_equal(json_int_field(row, "drafted"), 0); // single steps unless asked otherwise
    assert_true(json_is_real(json_object_get(row, "bandwidth_share")));
    json_decref(rows);
    CLI(&r, "bench", "-m", f->model, "-p", "0", "-n", "40", "-d", "300", "-r", "1", "-t", "1", "-o", "json", "--spec",
        "lookup", "--lookup-min", "1");
    cli_assert_done(&r);
    rows = json_parse(r.out), row = json_array_get(rows, 0);
    assert_true(json_int_field(row, "drafted") > 0);
    check_counts(row);
    assert_string_equal(json_text_field(row, "ids"), "OK");
    assert_true(json_is_null(json_object_get(row, "bandwidth_share")));
    json_decref(rows);
}

// ---- comparison ---------------------------------------------------------------------------------------------------------------

static void differs(const spec_answer *a, const spec_answer *b, const char *what, int at) {
    spec_difference d = spec_answer_compare(a, b);
    if (!what) {
        if (d.what) fail_msg("equal answers differ in %s %d", d.what, d.at);
        return;
    }
    if (!d.what) fail_msg("no difference was seen, expected %s %d", what, at);
    assert_string_equal(d.what, what);
    assert_int_equal(d.at, at);
}

static void test_comparison(void **state) {
    (void)state;
    int32_t ids[] = {5, 6, 7, 8}, other[] = {5, 6, 9, 8};
    tally_logprob p[4][3], q[4][3];
    float logits[] = {0.0f, 1.0f, 2.0f}, zero[] = {-0.0f, 1.0f, 2.0f};
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 3; j++) p[i][j] = (tally_logprob){ids[i] + j, -0.5f * (float)(i + j)};
    }
    memcpy(q, p, sizeof p);
    const spec_answer a = {
        .ids = ids, .n = 4, .logprobs = p[0], .n_logprobs = 3, .reason = "length", .logits = logits, .n_vocab = 3};
    spec_answer b = a;
    differs(&a, &b, NULL, 0);
    b.ids = other;
    differs(&a, &b, "id", 2);
    spec_difference d = spec_answer_compare(&a, &b);
    assert_int_equal(d.ids[0], 7);
    assert_int_equal(d.ids[1], 9);
    assert_true(fabs(d.gap - 0.5) < 1e-6);
    b = a, b.n = 3;
    differs(&a, &b, "length", 3);
    assert_int_equal(spec_answer_compare(&a, &b).ids[0], 8);
    assert_int_equal(spec_answer_compare(&a, &b).ids[1], -1);
    differs(&b, &a, "length", 3);
    b = a, b.reason = "stop";
    differs(&a, &b, "finish reason", 4);
    b = a, b.logprobs = q[0];
    q[3][2].logprob = nextafterf(q[3][2].logprob, 1.0f);
    differs(&a, &b, "log-probability", 3);
    b = a, b.logits = zero; // 0 and -0 are equal numbers of different bits
    differs(&a, &b, "last logits", 0);
    b.logits = NULL;
    differs(&a, &b, NULL, 0);
    b = a, b.logprobs = NULL, b.n_logprobs = 0;
    differs(&a, &b, NULL, 0);
    const spec_answer none = {.reason = "stop"};
    differs(&none, &none, NULL, 0);
    differs(&a, &none, "length", 0);
}

// ---- --verify-rows ------------------------------------------------------------------------------------------------------------

static void near(double got, double expected) {
    if (fabs(got - expected) > 1e-6) fail_msg("%.9f, expected %.9f", got, expected);
}

static void test_break_even(void **state) {
    (void)state;
    near(bench_break_even(1, 1), 0);
    near(bench_break_even(4, 0.9), 0);
    near(bench_break_even(2, 1.25), 0.25);
    near(bench_break_even(2, 2), 1);
    near(bench_break_even(3, 1.75), 0.5); // 1 + 1/2 + 1/4
    near(bench_break_even(5, 5), 1);
    assert_true(isnan(bench_break_even(3, 3.01)));
    for (int m = 2; m <= 17; m++) { // (1 - a^m) / (1 - a) = T(m) / T(1)
        double a = bench_break_even(m, 1 + 0.6 * (m - 1));
        near((1 - pow(a, m)) / (1 - a), 1 + 0.6 * (m - 1));
    }
}

static void check_verify_rows(const char *model) {
    cli_result r;
    CLI(&r, "bench", "-m", model, "--verify-rows", "1..3,17", "-d", "0,70", "-r", "2", "-t", "1", "-o", "json");
    cli_assert_done(&r);
    assert_string_equal(r.err, "");
    json_t *rows = json_parse(r.out), *row;
    assert_int_equal(json_array_size(rows), 8);
    size_t i;
    json_array_foreach(rows, i, row) {
        static const int widths[] = {1, 2, 3, 17};
        assert_int_equal(json_int_field(row, "n_rows"), widths[i % 4]);
        assert_int_equal(json_int_field(row, "n_depth"), i < 4 ? 0 : 70);
        double ratio = json_real_value(json_object_get(row, "ratio"));
        double t1 = json_real_value(json_object_get(json_array_get(rows, i / 4 * 4), "median_ms"));
        double t = json_real_value(json_object_get(row, "median_ms"));
        assert_true(t > 0 && fabs(ratio - t / t1) < 1e-3 * ratio);
        if (i % 4 == 0) {
            near(ratio, 1);
            assert_true(json_is_null(json_object_get(row, "break_even_acceptance")));
        }
    }
    json_decref(rows);
}

static void test_verify_rows(void **state) {
    const fixture *f = *state;
    check_verify_rows(f->model);
    check_verify_rows(f->bare_model);
    cli_result r;
    CLI(&r, "bench", "-m", f->model, "--verify-rows", "1,2", "-r", "1", "-t", "1,2");
    cli_assert_done(&r);
    cli_assert_contains(r.out, "| 1 | 256 | 2 | ");
    cli_assert_contains(r.out, "| 2 | 256 | 2 | ");
    CLI(&r, "bench", "-m", f->model, "--verify-rows", "2..4");
    refused(&r, 2, "needs 1 in its list");
    CLI(&r, "bench", "-m", f->model, "--verify-rows", "4..2");
    refused(&r, 2, "whole numbers from 1 to 64");
    CLI(&r, "bench", "-m", f->model, "--verify-rows", "1..64");
    refused(&r, 2, "32 numbers at most");
    CLI(&r, "bench", "-m", f->model, "--verify-rows", "1", "-n", "5");
    refused(&r, 2, "leave out -p, -n and --parallel");
    CLI(&r, "bench", "-m", f->model, "--verify-rows", "1", "-d", "4096");
    refused(&r, 1, "lower them");
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_options),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_refused_draft_models),
        cmocka_unit_test(test_draft_model),
        cmocka_unit_test(test_run_json),
        cmocka_unit_test(test_run_repetition),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_default_set),
        cmocka_unit_test(test_read_set),
        cmocka_unit_test(test_suite_json),
        cmocka_unit_test(test_suite_plain_file),
        cmocka_unit_test(test_suite_sampled_untimed),
        cmocka_unit_test(test_suite_table),
        cmocka_unit_test(test_suite_stops),
        cmocka_unit_test(test_suite_refusals),
        cmocka_unit_test(test_suite_interrupt),
        cmocka_unit_test(test_bench_rows),
        cmocka_unit_test(test_comparison),
        cmocka_unit_test(test_break_even),
        cmocka_unit_test(test_verify_rows),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
