// Chat templates of real models against transformers: every template under tests/golden/templates (or the folder given as an
// argument) on every conversation; and where the bytes of a prompt came from.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <dirent.h>

#include "text/chat.h"

static str json_str(const json_t *j) {
    return j && json_is_string(j) ? (str){json_string_value(j), json_string_length(j)} : (str){0};
}

static json_t *load_json(const char *path) {
    json_error_t e;
    json_t *j = json_load_file(path, JSON_ALLOW_NUL, &e);
    if (!j) fail_msg("%s: line %d: %s", path, e.line, e.text);
    return j;
}

static void load_text(const char *path, strbuf *out) {
    char buf[4096];
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s cannot be read", path);
    for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0;) strbuf_add(out, (str){buf, n});
    fclose(f);
}

static bool case_ok(const json_t *want, status st, const chat_prompt *p, const error *err) {
    str out = json_str(json_object_get(want, "out")), raised = json_str(json_object_get(want, "raised"));
    if (json_object_get(want, "out")) {
        return st == STATUS_OK && str_eq(strbuf_str(&p->text), out) && p->trusted.len == p->text.len;
    }
    if (!raised.data) return st != STATUS_OK && st != STATUS_INTERNAL;
    return st == STATUS_BAD_ARGUMENT && str_find(str_from(err->text), raised, 0) >= 0;
}

static size_t run_template(const char *root, const char *name, const json_t *conversations) {
    char path[1024];
    strbuf source = {0};
    snprintf(path, sizeof path, "%s/%s/template.jinja", root, name);
    load_text(path, &source);
    snprintf(path, sizeof path, "%s/%s/expected.json", root, name);
    json_t *expected = load_json(path), *want;
    chat_template *t;
    error err = {0};
    size_t i, failed = 0;
    status opened = chat_template_open(&t, strbuf_str(&source), &err);
    json_array_foreach(json_object_get(expected, "cases"), i, want) {
        const json_t *c = json_array_get(conversations, i), *gen = json_object_get(c, "gen");
        chat_prompt p = {0};
        chat_input in = {
            .messages = json_object_get(c, "messages"),
            .tools = json_object_get(c, "tools"),
            .kwargs = json_object_get(c, "kwargs"),
            .bos_token = json_str(json_object_get(expected, "bos_token")),
            .eos_token = json_str(json_object_get(expected, "eos_token")),
            .add_generation_prompt = !gen || json_is_true(gen),
        };
        status st = opened == STATUS_OK ? chat_render(t, &in, &p, &err) : opened;
        if (!case_ok(want, st, &p, &err)) {
            failed++;
            json_t *w = json_object_get(want, "out");
            if (!w) w = json_object_get(want, "raised");
            if (!w) w = json_object_get(want, "error");
            fprintf(stderr, "%s, %s:\n--- want\n%s\n--- got\n%s\n---\n", name,
                    json_string_value(json_object_get(want, "case")), json_string_value(w),
                    st == STATUS_OK ? strbuf_text(&p.text) : err.text);
        }
        chat_prompt_deinit(&p);
    }
    chat_template_close(t);
    json_decref(expected);
    strbuf_deinit(&source);
    return failed;
}

static void test_templates(void **state) {
    const char *root = *state;
    char path[1024];
    snprintf(path, sizeof path, "%s/conversations.json", root);
    json_t *conversations = load_json(path);
    struct dirent **names;
    int n = scandir(root, &names, NULL, alphasort);
    size_t failed = 0, templates = 0;
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s/expected.json", root, names[i]->d_name);
        FILE *f = names[i]->d_name[0] == '.' ? NULL : fopen(path, "rb");
        if (f) {
            fclose(f);
            failed += run_template(root, names[i]->d_name, conversations);
            templates++;
        }
        free(names[i]);
    }
    free(names);
    json_decref(conversations);
    assert_true(templates >= 10);
    assert_int_equal(failed, 0);
}

int main(int argc, char **argv) {
    char folder[] = "tests/golden/templates";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_templates, argc > 1 ? argv[1] : folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
