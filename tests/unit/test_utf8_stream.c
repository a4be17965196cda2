// Damaged UTF-8 against Python's decoder, and streams cut at every byte.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <jansson.h>

#include "text/utf8.h"
#include "text/utf8_stream.h"

static json_t *golden(void) {
    json_error_t why;
    json_t *g = json_load_file("tests/golden/tokenizers/utf8.json", JSON_ALLOW_NUL, &why);
    if (!g) fail_msg("utf8.json: %s", why.text);
    return g;
}

static void decode(str bytes, strbuf *out) {
    utf8_stream s = {0};
    strbuf_clear(out);
    utf8_stream_push(&s, bytes, out);
    utf8_stream_finish(&s, out);
}

// The same bytes in two pushes cut at `cut`; nothing shown may change later, and at most 3 bytes wait.
static void decode_cut(str bytes, size_t cut, strbuf *out) {
    utf8_stream s = {0};
    strbuf_clear(out);
    utf8_stream_push(&s, (str){bytes.data, cut}, out);
    assert_in_range(s.n_held, 0, 3);
    assert_true(out->len == 0 || utf8_valid_prefix(strbuf_str(out)) == out->len);
    utf8_stream_push(&s, (str){bytes.data + cut, bytes.len - cut}, out);
    utf8_stream_finish(&s, out);
}

static void decode_bytewise(str bytes, strbuf *out) {
    utf8_stream s = {0};
    strbuf_clear(out);
    for (size_t i = 0; i < bytes.len; i++) utf8_stream_push(&s, (str){bytes.data + i, 1}, out);
    utf8_stream_finish(&s, out);
}

static void check_cuts(str bytes, const strbuf *whole, strbuf *scratch) {
    for (size_t cut = 0; cut <= bytes.len; cut++) {
        decode_cut(bytes, cut, scratch);
        assert_true(str_eq(strbuf_str(whole), strbuf_str(scratch)));
    }
    decode_bytewise(bytes, scratch);
    assert_true(str_eq(strbuf_str(whole), strbuf_str(scratch)));
}

static void python_cases(void **state) {
    (void)state;
    json_t *g = golden(), *c;
    size_t i;
    strbuf out = {0}, scratch = {0};
    json_array_foreach(json_object_get(g, "cases"), i, c) {
        const char *hex = json_string_value(json_array_get(c, 0));
        const json_t *text = json_array_get(c, 1);
        char bytes[64];
        size_t n = strlen(hex) / 2;
        for (size_t k = 0; k < n; k++) {
            unsigned value;
            assert_int_equal(sscanf(hex + 2 * k, "%2x", &value), 1);
            bytes[k] = (char)value;
        }
        decode((str){bytes, n}, &out);
        assert_int_equal(out.len, json_string_length(text));
        assert_memory_equal(out.data, json_string_value(text), out.len);
        check_cuts((str){bytes, n}, &out, &scratch);
    }
    strbuf_deinit(&out);
    strbuf_deinit(&scratch);
    json_decref(g);
}

static uint64_t fnv1a(uint64_t h, const char *p, size_t n) {
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * 0x100000001b3u;
    return h;
}

static void all_of_length_4(void **state) {
    (void)state;
    json_t *g = golden();
    char alphabet[32];
    size_t n = json_array_size(json_object_get(g, "bytes"));
    assert_in_range(n, 1, sizeof alphabet);
    for (size_t i = 0; i < n; i++)
        alphabet[i] = (char)json_integer_value(json_array_get(json_object_get(g, "bytes"), i));
    strbuf out = {0}, scratch = {0};
    for (size_t first = 0; first < n; first++) {
        uint64_t h = 0xcbf29ce484222325u;
        for (size_t k = 0; k < n * n * n; k++) {
            char b[4] = {alphabet[first], alphabet[k / n / n], alphabet[k / n % n], alphabet[k % n]};
            decode((str){b, 4}, &out);
            h = fnv1a(h, out.data, out.len + 1); // with the terminating zero
            if (k % 7 == 0) check_cuts((str){b, 4}, &out, &scratch);
        }
        char key[3], hash[17];
        snprintf(key, sizeof key, "%02x", (unsigned char)alphabet[first]);
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)h);
        assert_string_equal(hash, json_string_value(json_object_get(json_object_get(g, "length4"), key)));
    }
    strbuf_deinit(&out);
    strbuf_deinit(&scratch);
    json_decref(g);
}

static void every_character(void **state) {
    (void)state;
    strbuf out = {0};
    for (int32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        char b[4];
        int n = utf8_encode(c, b), m;
        assert_int_equal(utf8_decode(b, &m), c);
        assert_int_equal(n, m);
        decode((str){b, (size_t)n}, &out);
        assert_true(str_eq(strbuf_str(&out), (str){b, (size_t)n}));
        assert_int_equal(utf8_valid_prefix((str){b, (size_t)n}), n);
    }
    strbuf_deinit(&out);
}

static void held_back(void **state) {
    (void)state;
    utf8_stream s = {0};
    strbuf out = {0};
    utf8_stream_push(&s, STR("a\xf0\x9f\x98"), &out);
    assert_string_equal(strbuf_text(&out), "a");
    utf8_stream_push(&s, STR(""), &out);
    assert_string_equal(strbuf_text(&out), "a");
    utf8_stream_push(&s, STR("\x80!"), &out);
    assert_string_equal(strbuf_text(&out), "a\xf0\x9f\x98\x80!");
    utf8_stream_push(&s, STR("\xe2\x82"), &out);
    utf8_stream_finish(&s, &out); // the last token ended inside a character
    utf8_stream_finish(&s, &out);
    assert_string_equal(strbuf_text(&out), "a\xf0\x9f\x98\x80!\xef\xbf\xbd");
    strbuf_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_cases),
        cmocka_unit_test(all_of_length_4),
        cmocka_unit_test(every_character),
        cmocka_unit_test(held_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
