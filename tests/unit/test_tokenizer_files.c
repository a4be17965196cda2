// Damaged and unsupported tokenizer.json and tokenizer_config.json: one sentence that names the field, never a crash.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/unit/tokenizer_support.h"

static status open_texts(str json, str config, error *err) {
    tokenizer *t = NULL;
    *err = (error){0};
    status st = tokenizer_from_files(&t, &(tokenizer_files){.tokenizer_json = json, .tokenizer_config = config}, err);
    assert_true((st == STATUS_OK) == (t != NULL));
    if (st != STATUS_OK) assert_true(strlen(err->text) > 10);
    tokenizer_close(t);
    return st;
}

static status open_json(const json_t *root, const json_t *config, error *err) {
    char *a = json_dumps(root, JSON_COMPACT), *b = config ? json_dumps(config, JSON_COMPACT) : NULL;
    status st = open_texts(str_from(a), b ? str_from(b) : STR(""), err);
    free(a);
    free(b);
    return st;
}

static json_t *parse(const char *text) {
    json_error_t why;
    json_t *v = json_loads(text, JSON_DECODE_ANY, &why);
    if (!v) fail_msg("%s: %s", text, why.text);
    return v;
}

// A small valid file, to be changed in one place.
static json_t *valid(void) {
    return parse(
        "{\"added_tokens\":[{\"id\":4,\"content\":\"<e>\",\"special\":true}],\"normalizer\":{\"type\":\"NFC\"},"
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
        "\"\\\\s+|\\\\p{L}+\"},"
        "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":"
        "false}]},"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<e>\",\"type_id\":"
        "0}},"
        "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"<e>\":{\"id\":\"<e>\",\"ids\":[4]}}},"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"c\":3},"
        "\"merges\":[\"a b\"]}}");
}

// `path`: keys and indices with dots between. A NULL value removes.
static void set_path(json_t *root, const char *path, json_t *value) {
    char copy[128];
    snprintf(copy, sizeof copy, "%s", path);
    json_t *at = root;
    for (char *key = copy, *dot; key; key = dot) {
        dot = strchr(key, '.');
        if (dot) *dot++ = 0;
        if (dot) {
            at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key)) : json_object_get(at, key);
            assert_non_null(at);
        } else if (json_is_array(at)) {
            json_array_set_new(at, (size_t)atoi(key), value);
        } else if (value) {
            json_object_set_new(at, key, value);
        } else {
            json_object_del(at, key);
        }
    }
}

typedef struct bad_file {
    const char *path, *value; // value NULL: removed
    status st;
    const char *says;
} bad_file;

static const bad_file BAD[] = {
    {"model", NULL, STATUS_BAD_FILE, "model (an object)"},
    {"model", "[]", STATUS_BAD_FILE, "model must be an object, but it is an array"},
    {"model.type", "\"Unigram\"", STATUS_UNSUPPORTED, "model.type is \"Unigram\""},
    {"model.type", "\"WordPiece\"", STATUS_UNSUPPORTED, "WordPiece"},
    {"model.type", "7", STATUS_BAD_FILE, "model.type must be a string, but it is an integer"},
    {"model.byte_fallback", "true", STATUS_UNSUPPORTED, "SentencePiece"},
    {"model.byte_fallback", "1", STATUS_BAD_FILE, "model.byte_fallback must be true or false"},
    {"model.dropout", "0.1", STATUS_UNSUPPORTED, "model.dropout"},
    {"model.end_of_word_suffix", "\"</w>\"", STATUS_UNSUPPORTED, "end_of_word_suffix"},
    {"model.continuing_subword_prefix", "\"##\"", STATUS_UNSUPPORTED, "continuing_subword_prefix"},
    {"model.unk_token", "\"<unk>\"", STATUS_BAD_FILE, "unk_token \"<unk>\" is not in the vocabulary"},
    {"model.vocab", NULL, STATUS_BAD_FILE, "model.vocab"},
    {"model.vocab", "[]", STATUS_BAD_FILE, "model.vocab must be an object"},
    {"model.vocab.a", "\"0\"", STATUS_BAD_FILE, "entry 0 of model.vocab must be"},
    {"model.vocab.a", "-1", STATUS_BAD_FILE, "has id -1"},
    {"model.vocab.a", "9000000000", STATUS_BAD_FILE, "has id 9000000000"},
    {"model.vocab.ab", NULL, STATUS_BAD_FILE, "needs the token \"ab\""},
    {"model.merges", NULL, STATUS_BAD_FILE, "model.merges"},
    {"model.merges", "{}", STATUS_BAD_FILE, "model.merges must be an array"},
    {"model.merges.0", "\"ab\"", STATUS_BAD_FILE, "entry 0 of model.merges must be"},
    {"model.merges.0", "\"a b c\"", STATUS_BAD_FILE, "entry 0 of model.merges must be"},
    {"model.merges.0", "[\"a\"]", STATUS_BAD_FILE, "entry 0 of model.merges must be"},
    {"model.merges.0", "[\"a\",1]", STATUS_BAD_FILE, "entry 0 of model.merges must be"},
    {"model.vocab.b", "1.5", STATUS_BAD_FILE, "entry 1 of model.vocab must be"},
    {"model.vocab.b", "[]", STATUS_BAD_FILE, "entry 1 of model.vocab must be"},
    {"model.merges.0", "\"a x\"", STATUS_BAD_FILE, "needs the token \"x\""},
    {"normalizer.type", "\"Lowercase\"", STATUS_UNSUPPORTED, "normalizer is of type Lowercase"},
    {"normalizer.type", NULL, STATUS_BAD_FILE, "normalizer.type is missing"},
    {"normalizer", "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\"}]}", STATUS_UNSUPPORTED,
     "normalizer.normalizers[0] is of type Prepend"},
    {"pre_tokenizer", NULL, STATUS_UNSUPPORTED, "no pre_tokenizer"},
    {"pre_tokenizer.type", "\"Metaspace\"", STATUS_UNSUPPORTED, "type Metaspace"},
    {"pre_tokenizer.pretokenizers", "[]", STATUS_UNSUPPORTED, "no ByteLevel"},
    {"pre_tokenizer.pretokenizers.1.type", "\"Whitespace\"", STATUS_UNSUPPORTED,
     "pretokenizers[1] is of type Whitespace"},
    {"pre_tokenizer.pretokenizers.0.behavior", "\"Odd\"", STATUS_BAD_FILE, "behavior is \"Odd\""},
    {"pre_tokenizer.pretokenizers.0.pattern", NULL, STATUS_BAD_FILE, "pattern is missing"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"(a\"", STATUS_BAD_FILE, "regular expression \"(a\" is wrong"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"a\\\\\"", STATUS_BAD_FILE, "backslash"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"\\\\h+\"", STATUS_UNSUPPORTED, "uses \\h"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"[a&&[b]]\"", STATUS_UNSUPPORTED, "&&"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"[a[b]]\"", STATUS_UNSUPPORTED, "a class inside a class"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"(?R)\"", STATUS_UNSUPPORTED, "a special group"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"(*UTF)a\"", STATUS_UNSUPPORTED, "uses (*"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"a{,3}\"", STATUS_UNSUPPORTED, "{,n}"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"\\\\p{N}{1,3}+\"", STATUS_UNSUPPORTED, "{n,m}+"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"a{3}?\"", STATUS_UNSUPPORTED, "{n}?"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"[\\\\s-x]\"", STATUS_UNSUPPORTED, "- behind \\s"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"[!-\\\\s]\"", STATUS_UNSUPPORTED, "- before \\s"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"[\\\\S]\"", STATUS_UNSUPPORTED, "\\S inside"},
    {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"\\\\1\"", STATUS_UNSUPPORTED, "uses \\1"},
    {"pre_tokenizer.pretokenizers.0.type", "\"ByteLevel\"", STATUS_UNSUPPORTED, "behind ByteLevel"},
    {"post_processor.type", "\"RobertaProcessing\"", STATUS_UNSUPPORTED, "RobertaProcessing"},
    {"post_processor.special_tokens", NULL, STATUS_BAD_FILE, "special_tokens"},
    {"post_processor.special_tokens.<e>.ids.0", "99", STATUS_BAD_FILE, "adds token 99"},
    {"post_processor.special_tokens.<e>.ids.0", "null", STATUS_BAD_FILE, "must be an integer"},
    {"post_processor.single", "[]", STATUS_BAD_FILE, "no Sequence"},
    {"post_processor.single.1", "3", STATUS_BAD_FILE, "single[1]"},
    {"decoder", NULL, STATUS_UNSUPPORTED, "no decoder"},
    {"decoder.type", "\"WordPiece\"", STATUS_UNSUPPORTED, "decoder is of type WordPiece"},
    {"added_tokens", "{}", STATUS_BAD_FILE, "added_tokens must be an array"},
    {"added_tokens.0", "null", STATUS_BAD_FILE, "added_tokens[0] must be an object"},
    {"added_tokens.0.content", "1", STATUS_BAD_FILE, "added_tokens[0].content must be a string"},
    {"added_tokens.0.id", "\"4\"", STATUS_BAD_FILE, "added_tokens[0].id must be an integer"},
    {"added_tokens.0.id", "-2", STATUS_BAD_FILE, "added_tokens[0].id is -2"},
    {"added_tokens.0.special", "0", STATUS_BAD_FILE, "added_tokens[0].special"},
};

static void bad_fields(void **state) {
    (void)state;
    error err;
    json_t *good = valid();
    if (open_json(good, NULL, &err)) fail_msg("%s", err.text);
    json_decref(good);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        json_t *root = valid();
        set_path(root, BAD[i].path, BAD[i].value ? parse(BAD[i].value) : NULL);
        status st = open_json(root, NULL, &err);
        if (st != BAD[i].st || !strstr(err.text, BAD[i].says))
            fail_msg("%s = %s: status %d, \"%s\"", BAD[i].path, BAD[i].value, st, err.text);
        json_decref(root);
    }
}

static void bad_config(void **state) {
    (void)state;
    static const bad_file bad[] = {
        {"", "[]", STATUS_BAD_FILE, "tokenizer_config.json must be an object"},
        {"", "{", STATUS_BAD_FILE, "tokenizer_config.json is not valid JSON: line 1"},
        {"", "{\"bos_token\":3}", STATUS_BAD_FILE, "tokenizer_config.json.bos_token must be a string"},
        {"", "{\"eos_token\":{\"content\":1}}", STATUS_BAD_FILE, "content must be a string"},
        {"", "{\"add_bos_token\":\"yes\"}", STATUS_BAD_FILE, "add_bos_token must be true or false"},
        {"", "{\"add_bos_token\":true,\"bos_token\":\"<x>\"}", STATUS_BAD_FILE,
         "bos_token \"<x>\" is not in the vocabulary"},
        {"", "{\"added_tokens_decoder\":[]}", STATUS_BAD_FILE, "added_tokens_decoder must be an object"},
        {"", "{\"added_tokens_decoder\":{\"x\":{\"content\":\"<y>\"}}}", STATUS_BAD_FILE, "the key must be an id"},
        {"", "{\"added_tokens_decoder\":{\"99999999999\":{\"content\":\"<y>\"}}}", STATUS_BAD_FILE, "99999999999"},
        {"", "{\"chat_template\":7}", STATUS_BAD_FILE, "chat_template must be a string"},
        {"", "{\"chat_template\":[7]}", STATUS_BAD_FILE, "chat_template[0] must be an object"},
    };
    json_t *root = valid();
    char *json = json_dumps(root, 0);
    error err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        status st = open_texts(str_from(json), str_from(bad[i].value), &err);
        if (st != bad[i].st || !strstr(err.text, bad[i].says))
            fail_msg("%s: status %d, \"%s\"", bad[i].value, st, err.text);
    }
    assert_int_equal(open_texts(STR(""), STR(""), &err), STATUS_BAD_FILE);
    free(json);
    json_decref(root);
}

// Where the translation matters: matches as Oniguruma finds them.
static void regex_meaning(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *text;
        size_t start, end; // start == end: no match
    } want[] = {
        {"\\s", "a\xe1\xa0\x8e", 0, 0}, // U+180E
        {"\\S+", "\xe1\xa0\x8e", 0, 3},
        {"[^\\s\\p{L}]+", "a\xe1\xa0\x8e!", 1, 5},
        {"\\s", "a\xc2\x85", 1, 3},
        {"b$", "ab\ncd", 1, 2},
        {"^c", "ab\ncd", 3, 4},
        {"a.", "a\nab", 2, 4},
        {".", "\r", 0, 1},
        {"(?i:'s)", "x'\xc5\xbf", 1, 4}, // U+017F, the long s
        {"\\p{N}{1,3}", "ab1234", 2, 5},
        {"[]x]+", "a]x", 1, 3},
        {"[^]]", "]a", 1, 2},
    };
    regex_scratch scratch = {0};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        regex *re;
        error err = {0};
        regex_span span = {0};
        if (regex_open(&re, str_from(want[i].pattern), false, &err)) fail_msg("%s: %s", want[i].pattern, err.text);
        assert_int_equal(regex_find(re, &scratch, str_from(want[i].text), 0, &span, &err), STATUS_OK);
        if (span.found != (want[i].end > want[i].start) ||
            (span.found && (span.start != want[i].start || span.end != want[i].end))) {
            fail_msg("%s: found %d, %zu to %zu", want[i].pattern, span.found, span.start, span.end);
        }
        regex_close(re);
    }
    // A pattern that takes forever is an error, not a hang.
    regex *re;
    error err = {0};
    strbuf text = {0};
    for (int i = 0; i < 3000; i++) strbuf_add_char(&text, 'a');
    regex_span span;
    assert_int_equal(regex_open(&re, STR("(a+)+$|(a|a)*b"), false, &err), STATUS_OK);
    strbuf_add_char(&text, '!');
    assert_int_equal(regex_find(re, &scratch, strbuf_str(&text), 0, &span, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "gave up"));
    regex_close(re);
    strbuf_deinit(&text);
    regex_scratch_deinit(&scratch);
}

// Puts every kind of value at every place of a real file, except among the entries of the vocabulary and the merges.
static void replace_everywhere(json_t *root, json_t *config, json_t *at, int depth, size_t *n_opened) {
    static const char *const values[] = {"null",         "true", "-1",   "1e300", "\"\"",
                                         "\"Sequence\"", "[]",   "[[]]", "{}",    "{\"type\":\"Sequence\"}"};
    size_t n = json_is_array(at) ? json_array_size(at) : json_object_size(at);
    if (depth > 0 && n > 100) n = 2;
    void *iter = json_is_object(at) ? json_object_iter(at) : NULL;
    for (size_t i = 0; i < n; i++) {
        json_t *child = json_is_array(at) ? json_array_get(at, i) : json_object_iter_value(iter);
        json_incref(child);
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            error err;
            json_t *value = parse(values[v]);
            if (json_is_array(at))
                json_array_set_new(at, i, value);
            else
                json_object_iter_set_new(at, iter, value);
            open_json(root, config, &err);
            ++*n_opened;
        }
        if (json_is_array(at))
            json_array_set(at, i, child);
        else
            json_object_iter_set(at, iter, child);
        replace_everywhere(root, config, child, depth + 1, n_opened);
        json_decref(child);
        if (iter) iter = json_object_iter_next(at, iter);
    }
}

static void wrong_kinds(void **state) {
    (void)state;
    size_t n = 0;
    json_t
        *root = valid(),
        *config = parse(
            "{\"bos_token\":{\"content\":\"<e>\"},\"eos_token\":\"c\",\"add_bos_token\":true,\"added_tokens_decoder\":"
            "{\"5\":{\"content\":\"<f>\",\"special\":true}},\"chat_template\":[{\"name\":\"default\",\"template\":"
            "\"x\"}]}");
    replace_everywhere(root, config, root, 0, &n);
    replace_everywhere(root, config, config, 0, &n);
    assert_true(n > 500);
    json_decref(root);
    json_decref(config);
}

static void cut_anywhere(void **state) {
    (void)state;
    family_files f = read_family("deepseek");
    error err;
    size_t len = f.files.tokenizer_json.len;
    for (size_t n = 0; n + 2 < len; n += n < 200 || n + 200 > len ? 1 : 997) {
        assert_int_equal(open_texts((str){f.files.tokenizer_json.data, n}, f.files.tokenizer_config, &err),
                         STATUS_BAD_FILE);
    }
    free_family(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_fields),  cmocka_unit_test(bad_config),   cmocka_unit_test(regex_meaning),
        cmocka_unit_test(wrong_kinds), cmocka_unit_test(cut_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
