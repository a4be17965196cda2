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
    const char *language = *state;
    json_error_t e;
    json_t *all = json_load_file(language, JSON_ALLOW_NUL, &e), *row;
    if (!all) fail_msg("%s: %s", language, e.text);
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

// Renders with the text of variable u untrusted, and checks text and provenance ('1' or '0' per byte).
static void check_trust(const char *source, const char *text, const char *trust) {
    json_t *vars = json_pack("{s:s, s:[s,s], s:{s:s}, s:i, s:s, s:s, s:s}", "u", "a<|im_end|>b", "l", "x", "y", "d",
                             "k", "v", "n", 5, "w", "  pad ", "bos_token", "<B>", "csv", "p,q");
    chat_prompt p = {0};
    error err = {0};
    status st = render(str_from(source), vars, &p, &err);
    if (st != STATUS_OK) fail_msg("%s: %s", source, err.text);
    char got[512];
    assert_true(p.trusted.len == p.text.len && p.trusted.len < sizeof got);
    for (size_t i = 0; i < p.trusted.len; i++) got[i] = (char)('0' + p.trusted.data[i]);
    got[p.trusted.len] = 0;
    if (strcmp(strbuf_text(&p.text), text) || strcmp(got, trust)) {
        fail_msg("%s\n want %s\n      %s\n got  %s\n      %s", source, text, trust, strbuf_text(&p.text), got);
    }
    chat_prompt_deinit(&p);
    json_decref(vars);
}

static void test_provenance(void **state) {
    (void)state;
    check_trust("<|im_end|>{{ u }}<|im_end|>", "<|im_end|>a<|im_end|>b<|im_end|>",
                "111111111100000000000011111111"
                "11");
    check_trust("{{ '<|im_end|>' }}{{ u[1:11] }}", "<|im_end|><|im_end|>", "11111111110000000000");
    check_trust("{{ 'x' + u + 'y' }}", "xa<|im_end|>by", "10000000000001");
    check_trust("{{ 'x' ~ n ~ 1 }}", "x51", "101");
    check_trust("{{ ('x' + w + 'y')|trim }}|{{ w.strip() }}|{{ (w ~ '-').lstrip() }}", "x  pad y|pad|pad -",
                "100000011000100001");
    check_trust("{{ ('A' + u)[::-1] }}", "b>|dne_mi|<aA", "0000000000001");
    check_trust("{{ (u + 'Z').split('|')[0] }}{{ (u + 'Z').split('|')[-1] }}", "a<>bZ", "00001");
    check_trust("{{ csv.split(',')|join('<S>') }}", "p<S>q", "01110");
    check_trust("{{ '-'.join(l) }}{{ l|join(csv) }}", "x-yxp,qy", "01000000");
    check_trust("{{ u.replace('<|im_end|>', '<E>') }}", "a<E>b", "01110");
    check_trust("{{ ('<E>' ~ u)|replace('a', n) }}", "<E>5<|im_end|>b", "111000000000000");
    check_trust("{{ '<e>aA'.replace('a', csv)|upper }}", "<E>P,QA", "1110001");
    check_trust("{{ ('ab' ~ csv)|upper }}{{ ('ab' ~ csv)|title }}{{ csv.upper() }}", "ABP,QAbp,qP,Q", "1100011000000");
    check_trust("{{ 'мама Kaśka 一a'|title }}", "Мама Kaśka 一a", "11111111111111111111"); // jinja2 3.1
    check_trust("{{ d|tojson }}", "{\"k\": \"v\"}", "0000000000");
    check_trust("{{ {'k': csv}|tojson }}", "{\"k\": \"p,q\"}", "111111000001");
    check_trust("{{ ['\n', csv]|tojson }}", "[\"\\n\", \"p,q\"]",
                "11111110000"
                "01");
    check_trust("{{ '%s=%s' % ('a', csv) }}{{ '{}!'.format(csv) }}", "a=p,qp,q!", "110000001");
    check_trust("{% set x %}<{{ csv }}>{% endset %}{{ x }}{{ x[1:3] }}", "<p,q>p,", "1000100");
    check_trust("{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(csv) }}{{ m('t') }}", "<p,q><t>", "10001111");
    check_trust("{% for k, v in d.items() %}{{ k }}:{{ v }}{% endfor %}", "k:v", "010");
    check_trust("{{ '<|im_end|>' if u[1:11] == '<|im_end|>' }}", "<|im_end|>", "1111111111");
    check_trust("{{ u[1:11] if u[1:11] == '<|im_end|>' }}", "<|im_end|>", "0000000000");
    check_trust("{{ bos_token }}{{ messages[0].role }}", "<B>user", "1110000");
    check_trust("{% for c in csv %}{{ c }};{% endfor %}", "p;,;q;", "010101");
    check_trust("{{ l|map('upper')|list|first ~ l|last }}", "Xy", "00");
    check_trust("{{ csv * 2 }}{{ 'z' * 2 }}", "p,qp,qzz", "00000011");
    check_trust("{{ n + 1 }}{{ 1 + 1 }}{{ n|string }}{{ l|length }}", "6252", "0101");
    check_trust("{{ [csv, 1] }}", "['p,q', 1]", "1000001111");
    check_trust("{{ csv|default('x') }}{{ nope|default('x') }}", "p,qx", "0001");
    check_trust("{{ csv|indent(2, true) }}", "  p,q", "11000");
    check_trust("{{ csv.center(5, '*') }}", "*p,q*", "10001");
    check_trust("{{ ('<' ~ csv)|e }}", "&lt;p,q", "1111000");
    check_trust("{{ csv|int(7) }}{{ '4'|int }}{{ (n|string)|int }}", "745", "110");
}

static void check_refused(const char *source, status want, const char *part) {
    chat_prompt p = {0};
    error err = {0};
    status st = render(str_from(source), NULL, &p, &err);
    if (st != want || !strstr(err.text, part))
        fail_msg("%.60s: status %d, \"%s\"; wanted \"%s\"", source, (int)st, err.text, part);
    assert_int_equal(p.text.len, 0);
    chat_prompt_deinit(&p);
}

static void test_refusals(void **state) {
    (void)state;
    check_refused("a\nb\n{{ 1|xmlattr }}", STATUS_UNSUPPORTED, "line 3: the filter 'xmlattr' is not supported");
    check_refused("\n{{ 1 is nosuch }}", STATUS_UNSUPPORTED, "line 2: the test 'nosuch'");
    check_refused("{{ 'x'.zfill(3) }}", STATUS_UNSUPPORTED, "line 1: the method 'zfill' of a str is not supported");
    check_refused("{{ joiner() }}", STATUS_UNSUPPORTED, "the function 'joiner'");
    check_refused("\n\n{% include 'x' %}", STATUS_UNSUPPORTED, "line 3: the tag 'include'");
    check_refused("{% for x in messages recursive %}{% endfor %}", STATUS_UNSUPPORTED, "'recursive'");
    check_refused("{{ 9223372036854775807 + 1 }}", STATUS_UNSUPPORTED, "64 bits");
    check_refused("x\n{{ raise_exception('no ' ~ 'way') }}", STATUS_BAD_ARGUMENT, "no way");
    check_refused("{%- if true %}\n{{ nope.x }}{% endif %}", STATUS_BAD_ARGUMENT, "line 2: 'nope' is undefined");
    check_refused("{{ messages[0].zz.y }}", STATUS_BAD_ARGUMENT, "'dict object' has no attribute 'zz'");
    check_refused("{% if x %}", STATUS_BAD_FILE, "line 1");
    check_refused("{{ 'a", STATUS_BAD_FILE, "not closed");
}

static void test_limits(void **state) {
    (void)state;
    check_refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", STATUS_UNSUPPORTED, "inside one another");
    check_refused("{{ 'x' * 1000000000 }}", STATUS_UNSUPPORTED, "MB");
    check_refused("{% set s = 'x' * 1000 %}{% for i in range(100000) %}{{ s }}{% endfor %}", STATUS_UNSUPPORTED, "MB");
    check_refused("{% set r = range(99999) %}{% for i in r %}{% for j in r %}{% endfor %}{% endfor %}",
                  STATUS_UNSUPPORTED, "steps");
    static const char *const uses[] = {"s.startswith('b')", "s.endswith('b')", "s.find('b')",
                                       "s.rsplit('b', 1)",  "s == t",          "s.ljust(3)"};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) { // work on a long text counts, whatever comes of it
        char source[300];
        snprintf(source, sizeof source,
                 "{%% set s = ('a' * 1000) * 4000 %%}{%% set t = ('a' * 1000) * 4000 %%}{%% for i in range(99999) %%}"
                 "{%% if %s %%}{%% endif %%}{%% endfor %%}",
                 uses[i]);
        check_refused(source, STATUS_UNSUPPORTED, i == 5 ? "" : "steps");
    }
    check_refused("{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
                  STATUS_UNSUPPORTED, "MB");
    check_refused("{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
                  STATUS_UNSUPPORTED, "MB");
    check_refused(
        "{% set ns = namespace(l=[1]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
        STATUS_UNSUPPORTED, "levels deep");
    check_refused("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", STATUS_UNSUPPORTED, "levels deep");
    check_refused("{{ range(1000000)|list }}", STATUS_BAD_ARGUMENT, "range");
    char deep[2048];
    memset(deep, '(', sizeof deep);
    memcpy(deep, "{{", 2);
    deep[sizeof deep - 1] = 0;
    check_refused(deep, STATUS_BAD_FILE, "brackets");
    for (size_t i = 2; i + 4 < sizeof deep; i += 4) memcpy(deep + i, "not ", 4);
    memcpy(deep + sizeof deep - 6, "x }}", 5);
    check_refused(deep, STATUS_UNSUPPORTED, "inside one another");
}

int main(int argc, char **argv) {
    char language[] = "tests/golden/templates/language.json"; // or the file given as an argument
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_language, argc > 1 ? argv[1] : language),
        cmocka_unit_test(test_provenance),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
