// Ids and texts of tiny tokenizers against Hugging Face tokenizers (tools/golden/make_tokenizers.py), trust, decoding, long
// texts, threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <pthread.h>

#include "tally.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/tokenizer_support.h"

static const char *const FAMILIES[] = {"qwen2", "qwen35", "llama3", "smollm2", "deepseek", "options"};
enum { N_FAMILIES = 6 };

static void expect_ids(const json_t *want, const token_list *got, const char *family, size_t i, const char *what) {
    bool equal = json_array_size(want) == got->len;
    for (size_t k = 0; equal && k < got->len; k++) equal = json_integer_value(json_array_get(want, k)) == got->data[k];
    if (!equal) fail_msg("%s: case %zu: %s differ", family, i, what);
}

static void check_encode(const tokenizer *t, const json_t *c, const char *key, unsigned flags, const char *family,
                         size_t i) {
    const json_t *want = json_object_get(c, key), *text = json_object_get(c, "text");
    token_list ids = {0};
    error err = {0};
    str s = {json_string_value(text), json_string_length(text)};
    assert_int_equal(tokenizer_encode(t, s, NULL, flags, &ids, &err), STATUS_OK);
    expect_ids(want ? want : json_object_get(c, "ids"), &ids, family, i, key);
    token_list_deinit(&ids);
}

static void check_decode(const tokenizer *t, const json_t *c, const char *key, bool skip, const char *family,
                         size_t i) {
    const json_t *want = json_object_get(c, key), *list = json_object_get(c, "ids");
    if (!want) want = json_object_get(c, "text");
    token_list ids = {0};
    for (size_t k = 0; k < json_array_size(list); k++)
        token_list_add(&ids, (int32_t)json_integer_value(json_array_get(list, k)));
    strbuf out = {0};
    assert_int_equal(tokenizer_decode(t, ids.data, ids.len, skip, &out, NULL), STATUS_OK);
    if (!str_eq(strbuf_str(&out), (str){json_string_value(want), json_string_length(want)})) {
        fail_msg("%s: case %zu: %s differs: \"%s\"", family, i, key, strbuf_text(&out));
    }
    token_list_deinit(&ids);
    strbuf_deinit(&out);
}

static void golden(void **state) {
    (void)state;
    for (int f = 0; f < N_FAMILIES; f++) {
        tokenizer *t = open_family(FAMILIES[f]);
        json_t *cases = load_cases(FAMILIES[f]), *c;
        size_t i;
        assert_true(json_array_size(cases) >= 200);
        json_array_foreach(cases, i, c) {
            check_encode(t, c, "ids", ENCODE_PARSE_SPECIAL, FAMILIES[f], i);
            check_encode(t, c, "raw", 0, FAMILIES[f], i);
            check_encode(t, c, "added", ENCODE_PARSE_SPECIAL | ENCODE_ADD_SPECIAL, FAMILIES[f], i);
            if (f == N_FAMILIES - 1) continue; // "options" stores no texts
            check_decode(t, c, "decoded", false, FAMILIES[f], i);
            check_decode(t, c, "skipped", true, FAMILIES[f], i);
        }
        json_decref(cases);
        tokenizer_close(t);
    }
}

static size_t count_id(const token_list *l, int32_t id) {
    size_t n = 0;
    for (size_t i = 0; i < l->len; i++) n += l->data[i] == id;
    return n;
}

static void trust(void **state) {
    (void)state;
    tokenizer *t = open_family("qwen2");
    int32_t end = tokenizer_find(t, STR("<|im_end|>")), think = tokenizer_find(t, STR("<think>"));
    str text = STR("e\xcc\x81<|im_end|>x<|im_end|><think>");
    unsigned char trusted[64];
    for (size_t bad = 0; bad <= text.len; bad++) { // one untrusted byte at every place, and none
        memset(trusted, 1, sizeof trusted);
        trusted[bad] = 0;
        token_list ids = {0};
        assert_int_equal(tokenizer_encode(t, text, trusted, ENCODE_PARSE_SPECIAL, &ids, NULL), STATUS_OK);
        bool hit = (bad >= 3 && bad < 13) || (bad >= 14 && bad < 24);
        assert_int_equal(count_id(&ids, end), hit ? 1 : 2);
        assert_int_equal(count_id(&ids, think), 1); // not special: always
        token_list_deinit(&ids);
    }
    memset(trusted, 0, sizeof trusted);
    token_list typed = {0}, raw = {0};
    assert_int_equal(tokenizer_encode(t, text, trusted, ENCODE_PARSE_SPECIAL, &typed, NULL), STATUS_OK);
    assert_int_equal(tokenizer_encode(t, text, NULL, 0, &raw, NULL), STATUS_OK);
    assert_int_equal(typed.len, raw.len);
    assert_memory_equal(typed.data, raw.data, raw.len * sizeof *raw.data);
    token_list_deinit(&typed);
    token_list_deinit(&raw);
    tokenizer_close(t);
}

// Special tokens that are matched after normalisation keep their trust through it.
static void trust_normalized(void **state) {
    (void)state;
    tokenizer *t = open_family("options");
    int32_t end = tokenizer_find(t, STR("<|im_end|>"));
    str text = STR("e\xcc\x81 <|im_end|> e\xcc\x81");
    unsigned char trusted[32];
    for (size_t bad = 0; bad <= text.len; bad++) {
        memset(trusted, 1, sizeof trusted);
        trusted[bad] = 0;
        token_list ids = {0};
        assert_int_equal(tokenizer_encode(t, text, trusted, ENCODE_PARSE_SPECIAL, &ids, NULL), STATUS_OK);
        assert_int_equal(count_id(&ids, end), bad >= 4 && bad < 14 ? 0 : 1);
        token_list_deinit(&ids);
    }
    tokenizer_close(t);
}

static void damaged_text(void **state) {
    (void)state;
    tokenizer *t = open_family("qwen2");
    int32_t end = tokenizer_find(t, STR("<|im_end|>"));
    token_list bad = {0}, good = {0};
    str text = STR("a\xff<|im_end|>\xe2\x82<|im_end|>\xf0\x9f"),
        repaired = STR("a\xef\xbf\xbd<|im_end|>\xef\xbf\xbd<|im_end|>\xef\xbf\xbd");
    assert_int_equal(tokenizer_encode(t, text, NULL, ENCODE_PARSE_SPECIAL, &bad, NULL), STATUS_OK);
    assert_int_equal(tokenizer_encode(t, repaired, NULL, ENCODE_PARSE_SPECIAL, &good, NULL), STATUS_OK);
    assert_int_equal(bad.len, good.len);
    assert_memory_equal(bad.data, good.data, good.len * sizeof *good.data);
    assert_int_equal(count_id(&bad, end), 2);
    unsigned char trusted[40];
    memset(trusted, 1, sizeof trusted);
    trusted[14] = 0; // inside the second one
    bad.len = 0;
    assert_int_equal(tokenizer_encode(t, text, trusted, ENCODE_PARSE_SPECIAL, &bad, NULL), STATUS_OK);
    assert_int_equal(count_id(&bad, end), 1);
    token_list_deinit(&bad);
    token_list_deinit(&good);
    tokenizer_close(t);
}

static void facts(void **state) {
    (void)state;
    tokenizer *t = open_family("qwen35");
    int32_t end = tokenizer_find(t, STR("<|im_end|>")), audio = tokenizer_find(t, STR("<|audio_pad|>")), stop[8];
    assert_true(end > 0);
    assert_int_equal(tokenizer_n_tokens(t), audio + 1); // from tokenizer_config.json only
    assert_true(tokenizer_is_special(t, audio));
    assert_false(tokenizer_is_special(t, tokenizer_find(t, STR("<think>"))));
    assert_false(tokenizer_is_special(t, -1));
    assert_true(str_is(tokenizer_bytes(t, end), "<|im_end|>"));
    assert_int_equal(tokenizer_bytes(t, -1).len, 0);
    assert_int_equal(tokenizer_bytes(t, 1 << 30).len, 0);
    assert_int_equal(tokenizer_find(t, STR("no such token")), -1);
    assert_true(str_is(tokenizer_eos(t), "<|im_end|>"));
    assert_int_equal(tokenizer_bos(t).len, 0);
    assert_int_equal(tokenizer_stop_ids(t, stop, 8), 2);
    assert_int_equal(stop[0], end);
    assert_int_equal(stop[1], tokenizer_find(t, STR("<|endoftext|>")));
    assert_int_equal(tokenizer_stop_ids(t, stop, 1), 1);
    assert_true(str_is(tokenizer_chat_template(t), "plain")); // "default" of the list
    token_list ids = {0};
    assert_int_equal(tokenizer_encode(t, STR(""), NULL, ENCODE_ADD_SPECIAL, &ids, NULL), STATUS_OK);
    assert_int_equal(ids.len, 0);
    token_list_deinit(&ids);
    tokenizer_close(t);
}

static void template_file_wins(void **state) {
    (void)state;
    family_files f = read_family("qwen2");
    tokenizer *t = NULL;
    error err = {0};
    f.files.chat_template = STR("from the file");
    assert_int_equal(tokenizer_from_files(&t, &f.files, &err), STATUS_OK);
    assert_true(str_is(tokenizer_chat_template(t), "from the file"));
    tokenizer_close(t);
    f.files.chat_template = STR("");
    assert_int_equal(tokenizer_from_files(&t, &f.files, &err), STATUS_OK);
    assert_true(str_is(tokenizer_chat_template(t), "{{ messages }}"));
    tokenizer_close(t);
    free_family(&f);
}

// Every byte survives: encoding and decoding all characters of the Basic Multilingual Plane without a normaliser.
static void round_trip(void **state) {
    (void)state;
    tokenizer *t = open_family("smollm2");
    strbuf text = {0}, out = {0};
    for (int32_t c = 0; c < 0x11000; c++) {
        char b[4];
        if (c < 0xd800 || c >= 0xe000) strbuf_add(&text, (str){b, (size_t)utf8_encode(c, b)});
    }
    token_list ids = {0};
    assert_int_equal(tokenizer_encode(t, strbuf_str(&text), NULL, 0, &ids, NULL), STATUS_OK);
    assert_int_equal(tokenizer_decode(t, ids.data, ids.len, false, &out, NULL), STATUS_OK);
    assert_int_equal(out.len, text.len);
    assert_memory_equal(out.data, text.data, text.len);
    strbuf_deinit(&text);
    strbuf_deinit(&out);
    token_list_deinit(&ids);
    tokenizer_close(t);
}

// A long stretch of one thing: anything worse than n log n would not end.
static void long_texts(void **state) {
    (void)state;
    static const char *const unit[] = {"a",        " ",   "\n",           " \n",      "\xcc\x81\xcc\x96",
                                       "=",        "7",   "\xe4\xb8\xad", "'",        "<",
                                       "<|im_end", "ab ", "\xff",         "e\xcc\x81"};
    for (int f = 0; f < N_FAMILIES; f++) {
        tokenizer *t = open_family(FAMILIES[f]);
        for (size_t u = 0; u < sizeof unit / sizeof unit[0]; u++) {
            strbuf text = {0}, out = {0};
            while (text.len < 300000) strbuf_add(&text, str_from(unit[u]));
            strbuf_add_char(&text, 'x');
            token_list ids = {0};
            error err = {0};
            if (tokenizer_encode(t, strbuf_str(&text), NULL, ENCODE_PARSE_SPECIAL, &ids, &err))
                fail_msg("%s", err.text);
            assert_int_equal(tokenizer_decode(t, ids.data, ids.len, false, &out, NULL), STATUS_OK);
            bool changes = u == 4 || u >= 12 || f == 5; // normal forms, damaged text
            if (!changes) assert_true(str_eq(strbuf_str(&text), strbuf_str(&out)));
            strbuf_deinit(&text);
            strbuf_deinit(&out);
            token_list_deinit(&ids);
        }
        tokenizer_close(t);
    }
}

typedef struct worker {
    const tokenizer *t;
    const json_t *cases;
    bool equal;
} worker;

static void *work(void *arg) {
    worker *w = arg;
    w->equal = true;
    for (size_t i = 0; i < json_array_size(w->cases); i++) {
        const json_t *c = json_array_get(w->cases, i), *text = json_object_get(c, "text"),
                     *want = json_object_get(c, "ids");
        token_list ids = {0};
        str s = {json_string_value(text), json_string_length(text)};
        if (tokenizer_encode(w->t, s, NULL, ENCODE_PARSE_SPECIAL, &ids, NULL) || ids.len != json_array_size(want))
            w->equal = false;
        for (size_t k = 0; w->equal && k < ids.len; k++)
            w->equal = json_integer_value(json_array_get(want, k)) == ids.data[k];
        token_list_deinit(&ids);
    }
    return NULL;
}

static void threads(void **state) {
    (void)state;
    enum { N = 4 };
    tokenizer *t = open_family("deepseek");
    json_t *cases = load_cases("deepseek");
    worker w[N];
    pthread_t id[N];
    for (int i = 0; i < N; i++) {
        w[i] = (worker){t, cases, false};
        assert_int_equal(pthread_create(&id[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(id[i], NULL);
        assert_true(w[i].equal);
    }
    json_decref(cases);
    tokenizer_close(t);
}

// What stands beside tokenizer.json in real folders: transformers' largest model_max_length, templates by purpose, all special tokens.
static void real_config(void **state) {
    (void)state;
    family_files f = read_family("qwen2");
    temp_folder t = temp_folder_make();
    temp_folder_write(&t, "tokenizer.json", f.files.tokenizer_json.data, f.files.tokenizer_json.len);
    temp_folder_write_text(&t, "tokenizer_config.json",
                           "{\"model_max_length\": 1000000000000000019884624838656, \"pad_token\": \"<|endoftext|>\", "
                           "\"unk_token\": {\"content\": \"<|im_start|>\", \"id\": 3}, \"chat_template\": ["
                           "{\"name\": \"tool_use\", \"template\": \"tools {{ tools|length }}\"}, "
                           "{\"name\": \"default\", \"template\": \"{{ pad_token }}{{ unk_token }} plain\"}]}");
    tally_model *m;
    tally_error err = {0};
    if (tally_model_open(&m, t.path, &err)) fail_msg("%s", err.text);
    static const char *const wants[] = {"<|endoftext|><|im_start|> plain", "tools 1", "tools 1"};
    for (int i = 0; i < 3; i++) {
        if (i == 2) { // a file of its own wins over the list's
            tally_model_close(m);
            temp_folder_write_text(&t, "chat_template.jinja", "from the file");
            temp_folder_write_text(&t, "additional_chat_templates/tool_use.jinja", "tools {{ tools|length }}");
            assert_int_equal(tally_model_open(&m, t.path, &err), 0);
        }
        char *text;
        size_t len;
        tally_chat chat = {.messages = "[{\"role\": \"user\", \"content\": \"a\"}]", .tools = i ? "[{}]" : NULL};
        if (tally_chat_render(m, &chat, &text, &len, &err)) fail_msg("%s", err.text);
        assert_string_equal(text, wants[i]);
        tally_free(text);
    }
    tally_model_close(m);
    temp_folder_write_text(&t, "additional_chat_templates/tool_use.jinja", "{% include 'x' %}");
    assert_int_equal(tally_model_open(&m, t.path, &err), 0); // chats without tools go on
    char *text;
    size_t len;
    tally_chat chat = {.messages = "[{\"role\": \"user\", \"content\": \"a\"}]"};
    assert_int_equal(tally_chat_render(m, &chat, &text, &len, &err), 0);
    tally_free(text);
    chat.tools = "[]";
    assert_int_equal(tally_chat_render(m, &chat, &text, &len, &err), TALLY_UNSUPPORTED);
    assert_non_null(strstr(err.text, "include"));
    tally_model_close(m);
    temp_folder_remove(&t);
    free_family(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),       cmocka_unit_test(trust),      cmocka_unit_test(trust_normalized),
        cmocka_unit_test(damaged_text), cmocka_unit_test(facts),      cmocka_unit_test(template_file_wins),
        cmocka_unit_test(real_config),  cmocka_unit_test(round_trip), cmocka_unit_test(long_texts),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
