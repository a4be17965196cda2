// The tally program on tiny models: what it prints, against the golden values of transformers and of Hugging Face tokenizers.
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/cli.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

#define TOKENIZER "tests/golden/tokenizers/smollm2"

typedef struct fixture {
    temp_folder folder;
    tiny_model model;
    char ids[4096]; // the prompt as --ids takes it
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->folder = temp_folder_make();
    f->model = tiny_model_read("llama-gqa4");
    tiny_model_write_folder(&f->model, f->folder.path, DTYPE_F32, 1);
    size_t at = 0;
    for (int i = 0; i < f->model.n_ids; i++) {
        at += (size_t)snprintf(f->ids + at, sizeof f->ids - at, "%s%d", i ? "," : "", (int)f->model.ids[i]);
    }
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    temp_folder_remove(&f->folder);
    tiny_model_free(&f->model);
    free(f);
    return 0;
}

static json_t *parse(const cli_result *r) {
    cli_assert_done(r);
    json_t *root = json_loads(r->out, JSON_ALLOW_NUL, NULL);
    if (!root) fail_msg("not JSON: %s", r->out);
    return root;
}

enum { N_NEW = 8 };

static void test_run_json(void **state) {
    fixture *f = *state;
    cli_result r;
    CLI(&r, "run", "-m", f->folder.path, "--ids", f->ids, "-n", "8", "--json", "--seed", "7", "--logprobs", "2",
        "--ignore-eos");
    json_t *root = parse(&r);
    json_t *prompt = json_object_get(root, "prompt_ids"), *ids = json_object_get(root, "ids");
    assert_int_equal(json_array_size(prompt), f->model.n_ids);
    for (int i = 0; i < f->model.n_ids; i++) {
        assert_int_equal(json_integer_value(json_array_get(prompt, (size_t)i)), f->model.ids[i]);
    }
    assert_int_equal(json_array_size(ids), N_NEW);
    json_t *logprobs = json_object_get(root, "logprobs");
    assert_int_equal(json_array_size(logprobs), N_NEW);
    for (size_t i = 0; i < N_NEW; i++) {
        assert_int_equal(json_integer_value(json_array_get(ids, i)), f->model.greedy[i]);
        json_t *top = json_object_get(json_array_get(logprobs, i), "top");
        assert_int_equal(json_array_size(top), 2);
        assert_int_equal(json_integer_value(json_object_get(json_array_get(top, 0), "id")), f->model.greedy[i]);
        double gap = json_real_value(json_object_get(json_array_get(top, 0), "logprob")) -
                     json_real_value(json_object_get(json_array_get(top, 1), "logprob"));
        assert_true(fabs(gap - (double)f->model.gap[i]) < 1e-3);
    }
    assert_true(json_is_null(json_object_get(root, "text"))); // no tokenizer
    assert_string_equal(json_string_value(json_object_get(root, "finish_reason")), "length");
    assert_int_equal(json_integer_value(json_object_get(root, "seed")), 7);
    json_t *timings = json_object_get(root, "timings");
    assert_true(json_is_real(json_object_get(timings, "load_ms")) &&
                json_is_real(json_object_get(timings, "prompt_ms")) &&
                json_is_real(json_object_get(timings, "decode_ms")));
    json_decref(root);
}

static void test_run_streams_ids(void **state) {
    fixture *f = *state;
    cli_result r;
    CLI(&r, "run", "-m", f->folder.path, "--ids", f->ids, "-n", "3", "--ignore-eos");
    cli_assert_done(&r);
    char expected[64];
    snprintf(expected, sizeof expected, "%d,%d,%d\n", (int)f->model.greedy[0], (int)f->model.greedy[1],
             (int)f->model.greedy[2]);
    assert_string_equal(r.out, expected);
    cli_assert_contains(r.err, "tokens/s");
}

static void test_run_forbids_and_samples(void **state) {
    fixture *f = *state;
    char bias[32];
    snprintf(bias, sizeof bias, "%d-inf", (int)f->model.greedy[0]);
    cli_result r, again;
    CLI(&r, "run", "-m", f->folder.path, "--ids", f->ids, "-n", "1", "--ignore-eos", "--logit-bias", bias);
    cli_assert_done(&r);
    assert_int_not_equal(atoi(r.out), f->model.greedy[0]);
    CLI(&r, "run", "-m", f->folder.path, "--ids", f->ids, "-n", "16", "--ignore-eos", "--temp", "2", "--seed", "11");
    CLI(&again, "run", "-m", f->folder.path, "--ids", f->ids, "-n", "16", "--ignore-eos", "--temp", "2", "--seed", "11",
        "-b", "3");
    cli_assert_done(&r);
    cli_assert_contains(r.err, "; seed 11\n");
    assert_string_equal(r.out, again.out);
    CLI(&again, "run", "-m", f->folder.path, "--ids", f->ids, "-n", "16", "--ignore-eos", "--temp", "2", "--seed",
        "12");
    assert_string_not_equal(r.out, again.out);
}

static void test_text_needs_a_tokenizer(void **state) {
    fixture *f = *state;
    cli_result r;
    CLI(&r, "run", "-m", f->folder.path, "-p", "hello", "-n", "1");
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "token");
}

static float *read_logits(const char *path, size_t n) {
    float *x = malloc((n + 1) * sizeof *x);
    FILE *file = fopen(path, "rb");
    assert_non_null(x);
    assert_non_null(file);
    assert_int_equal(fread(x, sizeof *x, n + 1, file), n);
    fclose(file);
    return x;
}

static void test_eval_logits(void **state) {
    fixture *f = *state;
    char whole[300], chunked[300];
    snprintf(whole, sizeof whole, "%s", temp_folder_path(&f->folder, "whole.f32"));
    snprintf(chunked, sizeof chunked, "%s", temp_folder_path(&f->folder, "chunked.f32"));
    cli_result r;
    CLI(&r, "eval", "-m", f->folder.path, "--ids", f->ids, "--logits", whole);
    cli_assert_done(&r);
    CLI(&r, "eval", "-m", f->folder.path, "--ids", f->ids, "--logits", chunked, "--chunk", "3");
    cli_assert_done(&r);
    size_t n = (size_t)f->model.n_ids * (size_t)f->model.n_vocab;
    float *a = read_logits(whole, n), *b = read_logits(chunked, n);
    assert_memory_equal(a, b, n * sizeof *a);
    free(b);
    CLI(&r, "eval", "-m", f->folder.path, "--ids", f->ids, "--logits", chunked, "--chunk",
        "1000"); // more than there are
    cli_assert_done(&r);
    b = read_logits(chunked, n);
    assert_memory_equal(a, b, n * sizeof *a);
    for (size_t i = 0; i < n; i++) assert_true(fabsf(a[i] - f->model.logits[i]) < 2e-3f);
    free(a);
    free(b);
}

// The sum of -log p(next) over the tokens of a window, from its logits as eval --logits writes them.
static double window_nll(const char *model, const int32_t *ids, int n, int n_vocab, const temp_folder *folder) {
    char list[600] = "", path[300];
    size_t at = 0;
    for (int i = 0; i < n; i++) at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", i ? "," : "", (int)ids[i]);
    snprintf(path, sizeof path, "%s", temp_folder_path(folder, "window.f32"));
    cli_result r;
    CLI(&r, "eval", "-m", model, "--ids", list, "--logits", path, "-t", "1");
    cli_assert_done(&r);
    float *x = read_logits(path, (size_t)n * (size_t)n_vocab);
    double nll = 0;
    for (int i = 0; i + 1 < n; i++) {
        const float *row = x + (size_t)i * (size_t)n_vocab;
        double sum = 0;
        for (int v = 0; v < n_vocab; v++) sum += exp((double)row[v]);
        nll += log(sum) - row[ids[i + 1]];
    }
    free(x);
    return nll;
}

// Windows of the context's length, each from nothing; every token but a window's first counts.
static void test_eval_perplexity(void **state) {
    fixture *f = *state;
    enum { WINDOW = 64, N = 150 };
    char model[300], text[300], letters[N + 1];
    int32_t ids[2 * N];
    snprintf(model, sizeof model, "%s", temp_folder_path(&f->folder, "text.gguf"));
    tiny_text_gguf(model, DTYPE_Q8_0, 3, "{{ messages }}");
    for (int i = 0; i < N; i++) letters[i] = (char)('a' + i * i % 26);
    letters[N] = 0;
    temp_folder_write_text(&f->folder, "text.txt", letters);
    snprintf(text, sizeof text, "%s", temp_folder_path(&f->folder, "text.txt"));
    cli_result r;
    CLI_IN(&r, letters, "tokenize", "-m", model);
    json_t *list = parse(&r);
    int n = (int)json_array_size(list), n_windows = 0, n_scored = 0;
    assert_true(n > 2 * WINDOW && n <= 2 * N);
    for (int i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    json_decref(list);
    CLI(&r, "inspect", model, "--json");
    list = parse(&r);
    int n_vocab = (int)json_integer_value(json_object_get(json_object_get(list, "config"), "n_vocab"));
    json_decref(list);
    double nll = 0;
    for (int at = 0; at < n; at += WINDOW, n_windows++) {
        int len = n - at < WINDOW ? n - at : WINDOW;
        nll += window_nll(model, ids + at, len, n_vocab, &f->folder);
        n_scored += len - 1;
    }
    CLI(&r, "eval", "-m", model, "--perplexity", text, "-c", "64", "--json", "-t", "1");
    json_t *root = parse(&r);
    assert_int_equal(json_integer_value(json_object_get(root, "n_ids")), n);
    assert_int_equal(json_integer_value(json_object_get(root, "n_windows")), n_windows);
    assert_int_equal(json_integer_value(json_object_get(root, "n_scored")), n_scored);
    double p = json_real_value(json_object_get(root, "perplexity"));
    if (!(fabs(p / exp(nll / n_scored) - 1) < 1e-6)) fail_msg("%.9g, expected %.9g", p, exp(nll / n_scored));
    json_decref(root);
}

// org/name in the Hugging Face cache, by each of the variables that say where it is.
static void test_hub(void **state) {
    fixture *f = *state;
    static const char *const folders[][2] = {
        {"HF_HUB_CACHE", "hub/models--org--name/snapshots/1234abcd"},
        {"HF_HOME", "hub/models--org--name/snapshots/1234abcd"},
        {"HOME", ".cache/huggingface/hub/models--org--name/snapshots/1234abcd"},
    };
    static const char *const variables[] = {"HF_HUB_CACHE", "HF_HOME", "HOME"};
    char *before[3];
    for (int i = 0; i < 3; i++) before[i] = getenv(variables[i]) ? strdup(getenv(variables[i])) : NULL;
    for (int i = 0; i < 3; i++) {
        temp_folder t = temp_folder_make();
        char path[400];
        snprintf(path, sizeof path, "%s/README.md", folders[i][1]); // makes the folders on the way
        temp_folder_write_text(&t, path, "");
        snprintf(path, sizeof path, "%s/%s", t.path, folders[i][1]);
        tiny_model_write_folder(&f->model, path, DTYPE_F32, 1);
        for (int j = 0; j < 3; j++) unsetenv(variables[j]);
        snprintf(path, sizeof path, "%s%s", t.path, i == 0 ? "/hub" : "");
        setenv(folders[i][0], path, 1);
        cli_result r;
        CLI(&r, "run", "-m", "org/name", "--ids", f->ids, "-n", "1", "-t", "1");
        int code = r.exit_code;
        CLI(&r, "run", "-m", "org/other", "--ids", f->ids, "-n", "1", "-t", "1");
        for (int j = 0; j < 3; j++) before[j] ? setenv(variables[j], before[j], 1) : unsetenv(variables[j]);
        if (code) fail_msg("%s does not count", folders[i][0]);
        assert_int_equal(r.exit_code, 1);
        cli_assert_contains(r.err, "org/other");
        temp_folder_remove(&t);
    }
    for (int i = 0; i < 3; i++) free(before[i]);
}

static void test_eval_kl(void **state) {
    fixture *f = *state;
    cli_result r;
    CLI(&r, "eval", "-m", f->folder.path, "--ids", f->ids, "--kl", "tests/golden/models/llama-gqa4/logits.f32",
        "--json");
    json_t *root = parse(&r);
    assert_true(fabs(json_real_value(json_object_get(root, "mean_kl"))) < 1e-6);
    assert_true(json_real_value(json_object_get(root, "same_top")) == 1.0);
    double p = json_real_value(json_object_get(root, "perplexity"));
    assert_true(p > 1 && fabs(p / json_real_value(json_object_get(root, "reference_perplexity")) - 1) < 1e-4);
    json_decref(root);
    CLI(&r, "eval", "-m", f->folder.path, "--ids", "1,2", "--kl", "tests/golden/models/llama-gqa4/logits.f32");
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "bytes");
}

// A folder without config.json is there for its tokenizer: what is wrong with that is said.
static void test_tokenizer_folder_failure(void **state) {
    (void)state;
    temp_folder t = temp_folder_make();
    cli_result r;
    temp_folder_write_text(&t, "tokenizer.json", "{\"model\": {\"type\": \"Unigram\"}}");
    CLI_IN(&r, "x", "tokenize", "-m", t.path);
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "Unigram");
    temp_folder_remove(&t);
}

static void test_eval_failures(void **state) {
    fixture *f = *state;
    char path[300];
    snprintf(path, sizeof path, "%s", temp_folder_path(&f->folder, "partial.f32"));
    cli_result r;
    CLI(&r, "eval", "-m", f->folder.path, "--ids", "1,2,999999", "--logits", path);
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "999999");
    assert_int_not_equal(access(path, F_OK), 0);
    CLI(&r, "eval", "-m", f->folder.path, "--ids", f->ids, "-c", "4", "--logits", path);
    assert_int_equal(r.exit_code, 1);
    assert_int_not_equal(access(path, F_OK), 0);
    if (access("/dev/full", W_OK) != 0) return;
    CLI(&r, "eval", "-m", f->folder.path, "--ids", f->ids, "--logits", "/dev/full");
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "/dev/full");
    assert_int_equal(access("/dev/full", F_OK), 0); // only files are removed
}

static void test_inspect(void **state) {
    fixture *f = *state;
    cli_result r;
    CLI(&r, "inspect", f->folder.path, "--json", "-c", "64");
    json_t *root = parse(&r);
    assert_int_equal(json_array_size(json_object_get(root, "tensors")), f->model.n_tensors);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "config"), "n_vocab")), f->model.n_vocab);
    assert_true(json_integer_value(json_object_get(json_object_get(root, "memory"), "context")) >= 64);
    json_decref(root);
    CLI(&r, "inspect", f->folder.path);
    cli_assert_done(&r);
    cli_assert_contains(r.out, "model.embed_tokens.weight");
    cli_assert_contains(r.out, "workspace");
}

static void test_tokenize(void **state) {
    (void)state;
    cli_result r;
    CLI_IN(&r, "[\"Hello  world\\n\", \"\", \"a\\u0000b 12345\", \"<|im_end|>\"]", "tokenize", "-m", TOKENIZER,
           "--batch");
    json_t *lists = parse(&r);
    assert_int_equal(json_array_size(lists), 4);
    assert_int_equal(json_array_size(json_array_get(lists, 1)), 0);
    assert_int_equal(json_array_size(json_array_get(lists, 3)), 1); // a special token
    json_decref(lists);
    cli_result back;
    CLI_IN(&back, r.out, "detokenize", "-m", TOKENIZER, "--batch");
    json_t *texts = parse(&back);
    assert_string_equal(json_string_value(json_array_get(texts, 0)), "Hello  world\n");
    assert_int_equal(json_string_length(json_array_get(texts, 2)), 9);
    assert_memory_equal(json_string_value(json_array_get(texts, 2)), "a\0b 12345", 9);
    json_decref(texts);
    CLI_IN(&r, "<|im_end|>", "tokenize", "-m", TOKENIZER, "--no-parse-special");
    json_t *plain = parse(&r);
    assert_true(json_array_size(plain) > 1);
    json_decref(plain);
    CLI_IN(&r, "{}", "tokenize", "-m", TOKENIZER, "--batch");
    assert_int_equal(r.exit_code, 1);
    CLI_IN(&r, "[1, -2]", "detokenize", "-m", TOKENIZER);
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "entry 1");
}

static void test_chat(void **state) {
    fixture *f = *state;
    temp_folder_write_text(&f->folder, "t.jinja",
                           "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
                           "{% if add_generation_prompt %}>{{ mood }}{% endif %}");
    char path[300];
    snprintf(path, sizeof path, "%s", temp_folder_path(&f->folder, "t.jinja"));
    static const char messages[] = "[{\"role\": \"user\", \"content\": \"Hi {{ x }}\"}]";
    cli_result r;
    CLI_IN(&r, messages, "tokenize", "-m", TOKENIZER, "--chat", "--text", "--chat-template-file", path,
           "--template-kwargs", "{\"mood\": \"glad\"}");
    cli_assert_done(&r);
    assert_string_equal(r.out, "[user] Hi {{ x }}\n>glad");
    CLI_IN(&r, messages, "tokenize", "-m", TOKENIZER, "--chat", "--text", "--chat-template-file", path,
           "--no-generation-prompt");
    cli_assert_done(&r);
    assert_string_equal(r.out, "[user] Hi {{ x }}\n");
    CLI_IN(&r, messages, "tokenize", "-m", TOKENIZER, "--chat", "--chat-template-file", path);
    json_t *ids = parse(&r);
    assert_true(json_array_size(ids) > 4);
    json_decref(ids);
    CLI_IN(&r, "nonsense", "tokenize", "-m", TOKENIZER, "--chat", "--chat-template-file", path);
    assert_int_equal(r.exit_code, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_json),
        cmocka_unit_test(test_run_streams_ids),
        cmocka_unit_test(test_run_forbids_and_samples),
        cmocka_unit_test(test_text_needs_a_tokenizer),
        cmocka_unit_test(test_eval_logits),
        cmocka_unit_test(test_eval_kl),
        cmocka_unit_test(test_eval_perplexity),
        cmocka_unit_test(test_hub),
        cmocka_unit_test(test_eval_failures),
        cmocka_unit_test(test_tokenizer_folder_failure),
        cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_tokenize),
        cmocka_unit_test(test_chat),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
