// The template language against jinja2: every small template of tests/golden/templates/language.json gives what transformers'
// environment gives, or fails where that fails. Then what is refused, and the limits.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "text/chat.h"

// Renders `source` with the variables `vars`; the caller deinits *out.
static status render(str source, const json_t *vars, chat_prompt *out, error *err) {
    chat_template *t;
    json_t *messages = json_pack("[{s:s}]", "role", "user");
    status st = chat_template_open(&t, source, err);
    chat_input in = {.messages = messages, .kwargs = vars};
    if (st == STATUS_OK) st = chat_render(t, &in, out, err);
    chat_template_close(t);
    json_decref(messages);
    return st;
}

// Constructs jinja2 has and tally refuses; a case that fails with this status is right if its template is in the list.
static bool may_refuse(const char *t) {
    static const char *const parts[] = {"{% include",    "{% extends",    "{% import",        "{% block",
                                        "recursive",     "{% autoescape", "cycler",           ".zfill",
                                        "|wordcount",    "|xmlattr",      "|groupby",         "{{ raise_exception }}",
                                        "attr('upper')", "nofilter",      "2 ** 3 ** 2 ** 9", NULL};
    for (size_t i = 0; parts[i]; i++) {
        if (strstr(t, parts[i])) return true;
    }
    return false;
}

static void test_language(void **state) {
    (void)state;
    json_error_t e;
    json_t *all = json_load_file("tests/golden/templates/language.json", JSON_ALLOW_NUL, &e), *row;
    if (!all) fail_msg("language.json: %s", e.text);
    const json_t *vars = json_object_get(all, "vars");
    size_t i, failed = 0;
    json_array_foreach(json_object_get(all, "cases"), i, row) {
        const json_t *source = json_object_get(row, "template"), *want = json_object_get(row, "out");
        chat_prompt p = {0};
        error err = {0};
        status st = render((str){json_string_value(source), json_string_length(source)}, vars, &p, &err);
        bool ok = want ? st == STATUS_OK &&
                             str_eq(strbuf_str(&p.text), (str){json_string_value(want), json_string_length(want)})
                       : st != STATUS_OK;
        if (st == STATUS_UNSUPPORTED && may_refuse(json_string_value(source))) ok = true;
        if (st == STATUS_INTERNAL || (st == STATUS_OK && p.text.len != p.trusted.len)) ok = false;
        if (!ok) {
            failed++;
            fprintf(stderr, "template: %s\n  want: %s\n  got:  %s\n", json_string_value(source),
                    want ? json_string_value(want) : json_string_value(json_object_get(row, "error")),
                    st == STATUS_OK ? strbuf_text(&p.text) : err.text);
        }
        chat_prompt_deinit(&p);
    }
    json_decref(all);
    assert_int_equal(failed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_language),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
