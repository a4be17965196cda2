// Tokenizers through checkpoint.h: from GGUF files (the ids must be those of the tokenizer.json they were made from) and from a
// folder that holds only tokenizer files.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <unistd.h>

#include "file/checkpoint.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/tokenizer_support.h"

static status open_path(const char *path, tokenizer **t, error *err) {
    checkpoint *ck = NULL;
    *t = NULL;
    if (checkpoint_open(&ck, path, NULL, 0, err)) fail_msg("%s: %s", path, err->text);
    status st = tokenizer_open(t, ck, err);
    checkpoint_close(ck); // the tokenizer must not need it any more
    return st;
}

static void expect_case(const tokenizer *t, const json_t *c, const char *key, unsigned flags, const char *family,
                        size_t i) {
    const json_t *text = json_object_get(c, "text"), *want = json_object_get(c, key);
    if (!want) want = json_object_get(c, "ids");
    token_list ids = {0};
    str s = {json_string_value(text), json_string_length(text)};
    assert_int_equal(tokenizer_encode(t, s, NULL, flags, &ids, NULL), STATUS_OK);
    bool equal = ids.len == json_array_size(want);
    for (size_t k = 0; equal && k < ids.len; k++) equal = ids.data[k] == json_integer_value(json_array_get(want, k));
    if (!equal) fail_msg("%s: case %zu: %s differ", family, i, key);
    token_list_deinit(&ids);
}

static void same_as_json(void **state) {
    (void)state;
    static const char *const family[] = {"qwen2", "qwen35", "llama3", "smollm2", "deepseek"};
    for (int f = 0; f < 5; f++) {
        char path[256];
        error err = {0};
        tokenizer *t, *same = open_family(family[f]);
        snprintf(path, sizeof path, "tests/golden/tokenizers/%s/tokenizer.gguf", family[f]);
        if (open_path(path, &t, &err)) fail_msg("%s: %s", path, err.text);
        json_t *cases = load_cases(family[f]), *c;
        size_t i;
        json_array_foreach(cases, i, c) {
            expect_case(t, c, "ids", ENCODE_PARSE_SPECIAL, family[f], i);
            expect_case(t, c, "raw", 0, family[f], i);
            expect_case(t, c, "added", ENCODE_PARSE_SPECIAL | ENCODE_ADD_SPECIAL, family[f], i);
        }
        json_decref(cases);
        int n = tokenizer_n_tokens(same), stop[2][8];
        assert_int_equal(tokenizer_n_tokens(t), n); // the unused entries behind do not count
        for (int32_t id = 0; id < n; id++) {
            assert_true(str_eq(tokenizer_bytes(t, id), tokenizer_bytes(same, id)));
            assert_int_equal(tokenizer_is_special(t, id), tokenizer_is_special(same, id));
        }
        assert_int_equal(tokenizer_bytes(t, n).len, 0);
        assert_true(str_eq(tokenizer_eos(t), tokenizer_eos(same)));
        assert_true(str_eq(tokenizer_bos(t), tokenizer_bos(same)));
        n = tokenizer_stop_ids(same, stop[0], 8);
        assert_int_equal(tokenizer_stop_ids(t, stop[1], 8), n);
        assert_memory_equal(stop[0], stop[1], (size_t)n * sizeof(int));
        if (f == 0) assert_true(str_is(tokenizer_chat_template(t), "{{ messages }}"));
        tokenizer_close(t);
        tokenizer_close(same);
    }
}

// Opens the qwen2 file with the first `from` replaced by `to`, of equal length.
static status open_changed(const char *from, const char *to, error *err) {
    size_t len;
    char *data = read_whole("qwen2", "tokenizer.gguf", &len);
    ptrdiff_t at = str_find((str){data, len}, str_from(from), 0);
    assert_true(at >= 0);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(data + at, to, strlen(to));
    temp_folder folder = temp_folder_make();
    temp_folder_write(&folder, "model.gguf", data, len);
    free(data);
    tokenizer *t;
    status st = open_path(temp_folder_path(&folder, "model.gguf"), &t, err);
    temp_folder_remove(&folder);
    assert_true((t != NULL) == (st == STATUS_OK));
    tokenizer_close(t);
    return st;
}

static void refused(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
        status st;
        const char *says;
    } bad[] = {
        {"tokenizer.ggml.pre", "tokenizer.ggml.prx", STATUS_UNSUPPORTED, "tokenizer.ggml.pre is missing"},
        {"qwen2\x15", "qwen9\x15", STATUS_UNSUPPORTED, "tokenizer.ggml.pre is \"qwen9\""},
        {"gpt2", "bert", STATUS_UNSUPPORTED, "tokenizer.ggml.model is \"bert\""},
        {"tokenizer.ggml.model", "tokenizer.ggml.mxdel", STATUS_NOT_FOUND, "no tokenizer"},
        {"tokenizer.ggml.tokens", "tokenizer.ggml.toxens", STATUS_BAD_FILE, "tokenizer.ggml.tokens is missing"},
        {"tokenizer.ggml.merges", "tokenizer.ggml.mexges", STATUS_BAD_FILE, "tokenizer.ggml.merges is missing"},
        {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.eot_token_idx", STATUS_OK, ""},
        {"tokenizer.ggml.eos_token_id\x04", "tokenizer.ggml.eos_token_id\x05", STATUS_OK, ""}, // as i32
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        error err = {0};
        status st = open_changed(bad[i].from, bad[i].to, &err);
        if (st != bad[i].st || !strstr(err.text, bad[i].says))
            fail_msg("%s: status %d, \"%s\"", bad[i].to, st, err.text);
    }
}

static void folder(void **state) {
    (void)state;
    tokenizer *t;
    error err = {0};
    if (open_path("tests/golden/tokenizers/qwen2", &t, &err)) fail_msg("%s", err.text);
    token_list ids = {0};
    assert_int_equal(tokenizer_encode(t, STR("a<think>b"), NULL, 0, &ids, NULL), STATUS_OK);
    assert_int_equal(ids.len, 3);
    token_list_deinit(&ids);
    tokenizer_close(t);
}

static void folder_without(void **state) {
    (void)state;
    temp_folder folder = temp_folder_make();
    temp_folder_write_text(&folder, "config.json", "{}");
    tokenizer *t;
    error err = {0};
    assert_int_equal(open_path(folder.path, &t, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "no tokenizer.json"));
    temp_folder_write_text(&folder, "tokenizer.model", "x");
    assert_int_equal(open_path(folder.path, &t, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "SentencePiece"));
    temp_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_json),
        cmocka_unit_test(refused),
        cmocka_unit_test(folder),
        cmocka_unit_test(folder_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
