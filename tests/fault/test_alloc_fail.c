// Memory runs out: the n-th allocation fails, for every n, alone and with all that follow. Each time the call succeeds or returns one
// sentence with STATUS_NO_MEMORY, and after closing what was opened everything is freed.
//
// What fails are our own calls, not those of libraries (alloc_fail.h).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tally.h"
#include "tests/fault/alloc_fail.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

static long n_refused; // runs that ended with an error

// ---- scenarios: each opens, works, closes, and tells how it went -------------------------------------------------------------

typedef struct fixture {
    temp_folder folder;
    char gguf[300], hf[300];
    tally_model *model; // opened before anything fails
    tally_engine *engine;
} fixture;

typedef tally_status scenario(const fixture *f, tally_error *err);

static const char TEMPLATE[] =
    "{% for m in messages %}<|im_start|>{{ m.role | upper }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
static const tally_engine_options OPTIONS = {
    .threads = 1, .context = 128, .step_rows = 8, .logit_rows = 4, .speculation = {.corpus = 100, .shadow = 1}};

static tally_status open_and_close(const char *path, tally_error *err) {
    tally_model *model;
    tally_status st = tally_model_open(&model, path, err);
    if (st) return st;
    bool whole =
        tally_model_n_vocab(model) > 0 && tally_model_has_tokenizer(model) && tally_model_has_chat_template(model);
    tally_model_close(model);
    if (!whole) fail_msg("the model opened without one of its parts after %ld allocations", alloc_fail_count());
    return TALLY_OK;
}

static tally_status open_gguf(const fixture *f, tally_error *err) { return open_and_close(f->gguf, err); }
static tally_status open_folder(const fixture *f, tally_error *err) { return open_and_close(f->hf, err); }

static tally_status open_engine_of(const char *path, bool no_mmap, tally_error *err) {
    tally_model *model;
    tally_engine *engine;
    tally_status st = tally_model_open(&model, path, err);
    if (st) return st;
    tally_engine_options options = OPTIONS;
    options.no_mmap = no_mmap;
    st = tally_engine_open(&engine, model, &options, err);
    if (!st) tally_engine_close(engine);
    tally_model_close(model);
    return st;
}

static tally_status engine_gguf(const fixture *f, tally_error *err) { return open_engine_of(f->gguf, false, err); }
static tally_status engine_folder(const fixture *f, tally_error *err) { return open_engine_of(f->hf, true, err); }

static tally_status inspect(const fixture *f, tally_error *err) {
    char *json;
    tally_status st = tally_inspect(f->model, &OPTIONS, &json, err);
    if (!st) tally_free(json);
    return st;
}

static tally_status tokenize(const fixture *f, tally_error *err) {
    static const char TEXT[] = "the <|im_start|> \xc3\xa9 123\n";
    int32_t *ids;
    size_t n, len;
    char *text;
    tally_status st = tally_tokenize(f->model, TEXT, strlen(TEXT), TALLY_PARSE_SPECIAL, &ids, &n, err);
    if (st) return st;
    st = tally_detokenize(f->model, ids, n, false, &text, &len, err);
    tally_free(ids);
    if (st) return st;
    assert_string_equal(text, TEXT);
    tally_free(text);
    return TALLY_OK;
}

static tally_status chat(const fixture *f, tally_error *err) {
    static const tally_chat CHAT = {.messages = "[{\"role\":\"user\",\"content\":\"hi\"}]"};
    static const char EXPECTED[] = "<|im_start|>USER\nhi<|im_end|>\n";
    int32_t *ids;
    size_t n, len;
    char *text;
    tally_status st = tally_chat_render(f->model, &CHAT, &text, &len, err);
    if (st) return st;
    assert_string_equal(text, EXPECTED);
    tally_free(text);
    st = tally_chat_tokenize(f->model, &CHAT, &ids, &n, err);
    if (st) return st;
    assert_int_equal(ids[0], 256);
    tally_free(ids);
    return TALLY_OK;
}

// A prompt of several chunks and three tokens, with everything that takes memory: stops, biases, penalties, alternatives.
static tally_status generate_on(tally_engine *engine, tally_error *err) {
    static const int32_t IDS[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const tally_logit_bias BIAS[] = {{5, 1.0f}};
    static const char *const STOPS[] = {"never this"};
    tally_request r = {.ids = IDS,
                       .n_ids = 12,
                       .max_tokens = 3,
                       .stops = STOPS,
                       .n_stops = 1,
                       .ignore_eos = true,
                       .logprobs = 2,
                       .sampling = {.temperature = 1,
                                    .top_k = 20,
                                    .top_p = 0.9f,
                                    .repeat_penalty = 1.1f,
                                    .logit_bias = BIAS,
                                    .n_logit_bias = 1,
                                    .seed = 1}};
    tally_generation *g;
    tally_status st = tally_generate(engine, &r, &g, err);
    if (st) return st;
    for (int i = 0; i < 8 && !st && !tally_generation_done(g); i++) st = tally_engine_step(engine, NULL, err);
    if (!st) st = tally_generation_status(g, err);
    if (!st) assert_true(tally_generation_done(g));
    tally_generation_close(g);
    return st;
}

static tally_status generate(const fixture *f, tally_error *err) {
    tally_engine *engine;
    tally_status st = tally_engine_open(&engine, f->model, &OPTIONS, err);
    if (st) return st;
    st = generate_on(engine, err);
    tally_stats stats;
    tally_engine_stats(engine, &stats);
    assert_int_equal(stats.blocks_in_use, 0);
    tally_engine_close(engine);
    return st;
}

static tally_status one_row(void *user, int position, const float *logits, int n_vocab) {
    (void)position, (void)n_vocab;
    *(float *)user += logits[0];
    return TALLY_OK;
}

static tally_status use_session(tally_session *s, tally_session *other, tally_error *err) {
    static const int32_t IDS[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    float sum = 0;
    const float *logits;
    void *bytes;
    size_t n;
    tally_session *fork;
    tally_status st = tally_session_sync(s, IDS, 9, err);
    if (!st) st = tally_session_eval(s, IDS, 3, 0, one_row, &sum, err);
    if (!st) st = tally_session_logits(s, &logits, err);
    if (!st) st = tally_session_fork(&fork, s, err);
    if (st) return st;
    st = tally_session_sync(fork, IDS, 5, err);
    tally_session_close(fork);
    if (!st) st = tally_session_save(s, &bytes, &n, err);
    if (st) return st;
    st = tally_session_restore(other, bytes, n, err);
    tally_free(bytes);
    if (!st) assert_int_equal(tally_session_length(other), 12);
    return st;
}

static tally_status session(const fixture *f, tally_error *err) {
    tally_session *s, *other;
    tally_status st = tally_session_open(&s, f->engine, err);
    if (st) return st;
    st = tally_session_open(&other, f->engine, err);
    if (!st) {
        st = use_session(s, other, err);
        tally_session_close(other);
    }
    tally_session_close(s);
    return st;
}

// ---- every n ---------------------------------------------------------------------------------------------------------------

// One run in which allocation n fails. False: there were fewer.
static bool fail_once(const fixture *f, scenario *run, long n, bool and_after) {
    tally_error err = {0};
    alloc_fail_arm();
    alloc_fail_at(n, and_after);
    tally_status st = run(f, &err);
    alloc_fail_disarm();
    bool reached = alloc_fail_count() >= n;
    if (st) n_refused++;
    if (alloc_fail_live() != 0) fail_msg("allocation %ld fails: %ld blocks are not freed", n, alloc_fail_live());
    if (st && !reached) fail_msg("no allocation failed, but: %s", err.text);
    if (st && (st != TALLY_NO_MEMORY || err.code != st || !err.text[0] || strchr(err.text, '\n')))
        fail_msg("allocation %ld fails: status %d, \"%s\"", n, st, err.text);
    return reached;
}

static void every_allocation(const fixture *f, scenario *run) {
    long n = 1;
    n_refused = 0;
    while (fail_once(f, run, n, false)) n++;
    for (n = 1; fail_once(f, run, n, true); n++) {}
    assert_true(n > 1 && n_refused > n); // most failures are told; some only cost speed
    print_message("# %ld allocations, %ld errors\n", n - 1, n_refused);
}

#define TEST(name) \
    static void test_##name(void **state) { every_allocation(*state, name); }
TEST(open_gguf)
TEST(open_folder)
TEST(engine_gguf)
TEST(engine_folder)
TEST(inspect)
TEST(tokenize)
TEST(chat)
TEST(generate)

// The engine outlives the failures: what it keeps is not lost, and the next request is answered as if nothing had been.
static void test_session(void **state) {
    const fixture *f = *state;
    tally_error err = {0};
    assert_int_equal(session(f, &err), TALLY_OK); // what grows once for the engine has grown
    every_allocation(f, session);
    tally_stats stats;
    tally_engine_stats(f->engine, &stats);
    assert_int_equal(stats.blocks_in_use, 0);
    assert_int_equal(generate_on(f->engine, &err), TALLY_OK);
}

static void write_folder(const fixture *f) {
    tiny_model m = tiny_model_read("qwen3moe-e8k2-norm");
    tiny_model_write_folder(&m, f->hf, DTYPE_F32, 2);
    tiny_model_free(&m);
    static const char *const files[] = {"tokenizer.json", "tokenizer_config.json"};
    static char text[65536];
    for (int i = 0; i < 2; i++) {
        char path[128], name[64];
        snprintf(path, sizeof path, "tests/golden/tokenizers/smollm2/%s", files[i]);
        FILE *in = fopen(path, "rb");
        assert_non_null(in);
        size_t n = fread(text, 1, sizeof text, in);
        fclose(in);
        snprintf(name, sizeof name, "hf/%s", files[i]);
        temp_folder_write(&f->folder, name, text, n);
    }
    temp_folder_write_text(&f->folder, "hf/chat_template.jinja", TEMPLATE);
}

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->folder = temp_folder_make();
    snprintf(f->gguf, sizeof f->gguf, "%s/tiny.gguf", f->folder.path);
    snprintf(f->hf, sizeof f->hf, "%s/hf", f->folder.path);
    temp_folder_write_text(&f->folder, "hf/empty", "");
    tiny_text_gguf(f->gguf, DTYPE_Q8_0, 3, TEMPLATE);
    write_folder(f);
    assert_int_equal(tally_model_open(&f->model, f->gguf, NULL), TALLY_OK);
    assert_int_equal(tally_engine_open(&f->engine, f->model, &OPTIONS, NULL), TALLY_OK);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    tally_engine_close(f->engine);
    tally_model_close(f->model);
    temp_folder_remove(&f->folder);
    free(f);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_gguf), cmocka_unit_test(test_open_folder),   cmocka_unit_test(test_engine_gguf),
        cmocka_unit_test(test_inspect),   cmocka_unit_test(test_engine_folder), cmocka_unit_test(test_tokenize),
        cmocka_unit_test(test_chat),      cmocka_unit_test(test_generate),      cmocka_unit_test(test_session),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
