// tally chat: over pipes, and under a pseudo terminal for keys, Ctrl-C and the look of reasoning.
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "cmd/reasoning.h"
#include "tests/support/child.h"
#include "tests/support/cli.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

static const char TEMPLATE[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// Letters only, and no end: the answers are ASCII of the length asked for.
#define LETTERS "-l", "97+40", "-l", "98+40", "-l", "99+40", "-l", "100+40", "-l", "101+40", "-l", "102+40"

typedef struct fixture {
    temp_folder folder;
    char model[300], saved[300];
} fixture;

static int set_up(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->folder = temp_folder_make();
    snprintf(f->model, sizeof f->model, "%s/tiny.gguf", f->folder.path);
    snprintf(f->saved, sizeof f->saved, "%s/saved.json", f->folder.path);
    tiny_text_gguf(f->model, DTYPE_Q8_0, 3, TEMPLATE);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    temp_folder_remove(&f->folder);
    free(f);
    return 0;
}

// ---- pipes -----------------------------------------------------------------------------------------------------------------

static json_t *saved_messages(const fixture *f) {
    json_t *list = json_load_file(f->saved, JSON_ALLOW_NUL, NULL);
    if (!list) fail_msg("%s is no JSON", f->saved);
    return list;
}

// Twenty turns: what a turn computes depends on its new text only, and its answer is that of a program that starts afresh.
static void test_twenty_turns(void **state) {
    const fixture *f = *state;
    enum { TURNS = 20, NEW = 10 };
    strbuf script = {0};
    for (int i = 0; i < TURNS; i++) strbuf_addf(&script, "message %02d\n", i);
    strbuf_addf(&script, "/save %s\n", f->saved);
    cli_result r;
    CLI_IN(&r, strbuf_text(&script), "chat", "-m", f->model, "-n", "10", "-v", "--temp", "0", "--spec", "off", LETTERS);
    strbuf_deinit(&script);
    cli_assert_done(&r);
    int rows[TURNS], n = 0;
    static const char label[] = "tokens, ";
    for (const char *at = r.err; n < TURNS && (at = strstr(at, label)); at = strchr(at, '\n')) {
        rows[n++] = atoi(at + strlen(label));
    }
    assert_int_equal(n, TURNS);
    for (int i = 2; i < TURNS; i++) assert_int_equal(rows[i], rows[1]);
    assert_true(rows[TURNS - 1] < 60);
    json_t *messages = saved_messages(f);
    assert_int_equal(json_array_size(messages), 2 * TURNS);
    json_t *last = json_deep_copy(json_object_get(json_array_get(messages, 2 * TURNS - 1), "content"));
    json_array_remove(messages, 2 * TURNS - 1);
    assert_int_equal(json_string_length(last), NEW);
    json_t *request = json_pack("{s:o, s:i}", "messages", messages, "n", NEW);
    char *line = json_dumps(request, 0);
    CLI_IN(&r, line, "run", "-m", f->model, "--requests", "-", LETTERS);
    cli_assert_done(&r);
    json_t *answer = json_loads(r.out, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(answer, "text")), json_string_value(last));
    json_decref(answer);
    json_decref(request);
    json_decref(last);
    free(line);
}

static void test_sampling_is_the_models(void **state) {
    const fixture *f = *state;
    cli_result a, b;
    static const char input[] = "hello\n";
    CLI_IN(&a, input, "chat", "-m", f->model, "-n", "12", "--seed", "4");
    CLI_IN(&b, input, "chat", "-m", f->model, "-n", "12", "--seed", "4", "--temp", "0.7", "--top-p", "0.9");
    cli_assert_done(&a);
    assert_string_equal(a.out, b.out); // the model says nothing
    CLI_IN(&b, input, "chat", "-m", f->model, "-n", "12", "--temp", "0");
    assert_string_not_equal(a.out, b.out);
}

static void test_commands(void **state) {
    const fixture *f = *state;
    char script[2048];
    snprintf(
        script, sizeof script,
        "/system be brief\nhello\n/save %s\n/clear\n/save %s.2\n/load %s\nagain\n//slash\n/save %s.3\n/hlep\n/save\n"
        "/load /nowhere\n/system\n/save %s.4\n",
        f->saved, f->saved, f->saved, f->saved, f->saved);
    cli_result r;
    CLI_IN(&r, script, "chat", "-m", f->model, "-n", "5", LETTERS);
    cli_assert_done(&r);
    cli_assert_contains(r.err, "did you mean /help");
    cli_assert_contains(r.err, "/save needs the name of a file");
    cli_assert_contains(r.err, "/nowhere");
    json_t *m = saved_messages(f);
    assert_int_equal(json_array_size(m), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(m, 0), "content")), "be brief");
    json_decref(m);
    static const int sizes[] = {1, 7, 6};
    for (int i = 0; i < 3; i++) {
        char path[320];
        snprintf(path, sizeof path, "%s.%d", f->saved, i + 2);
        m = json_load_file(path, 0, NULL);
        assert_int_equal(json_array_size(m), sizes[i]);
        if (i == 1) assert_string_equal(json_string_value(json_object_get(json_array_get(m, 5), "content")), "/slash");
        json_decref(m);
    }
}

static void test_loads_nothing_wrong(void **state) {
    const fixture *f = *state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{}", "no JSON array"},
        {"[", "is not JSON"},
        {"[{\"role\": \"user\"}]", "no text as its content"},
        {"[{\"role\": \"robot\", \"content\": \"x\"}]", "robot"},
        {"[{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"system\", \"content\": \"x\"}]", "message 2"},
        {"[4]", "role none"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        temp_folder_write_text(&f->folder, "bad.json", cases[i].text);
        char script[700];
        snprintf(script, sizeof script, "/system kept\n/load %s/bad.json\n/save %s\n", f->folder.path, f->saved);
        cli_result r;
        CLI_IN(&r, script, "chat", "-m", f->model);
        cli_assert_done(&r);
        cli_assert_contains(r.err, cases[i].message);
        json_t *m = saved_messages(f);
        assert_int_equal(json_array_size(m), 1);
        json_decref(m);
    }
}

// A file that cannot be written whole stays as it was, and nothing is left beside it.
static void test_disk_full(void **state) {
    const fixture *f = *state;
    temp_folder full = temp_folder_make();
    temp_folder_write_text(&full, "kept.json", "before");
    char script[700];
    snprintf(script, sizeof script, "/system a text\n/save %s/kept.json\n/save /dev/full\n", full.path);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    child c;
    small = (struct rlimit){.rlim_cur = 10, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN); // the child inherits it: the write fails instead
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHILD(&c, false, "chat", "-m", f->model);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    child_write(&c, script);
    child_write_end(&c);
    assert_int_equal(child_end(&c), 0);
    assert_null(strstr(c.read, "saved"));
    child_free(&c);
    FILE *in = fopen(temp_folder_path(&full, "kept.json"), "r");
    char text[32] = "";
    assert_non_null(in);
    assert_int_equal(fread(text, 1, sizeof text - 1, in), 6);
    fclose(in);
    assert_string_equal(text, "before");
    assert_int_equal(unlink(temp_folder_path(&full, "kept.json")), 0);
    assert_int_equal(rmdir(full.path), 0); // empty: no temporary file is left
}

static void test_full_context(void **state) {
    const fixture *f = *state;
    cli_result r;
    char script[700] = "";
    memset(script, 'x', 300);
    snprintf(script + 300, sizeof script - 300, "\nhi\nho\n/save %s\n", f->saved);
    CLI_IN(&r, "hi\n", "chat", "-m", f->model, "-c", "0", LETTERS);
    cli_assert_done(&r);
    cli_assert_contains(r.err, "the context of 4096 positions is full"); // and the answer is kept
    CLI_IN(&r, script, "chat", "-m", f->model, "-c", "100", LETTERS);
    assert_int_equal(r.exit_code, 1); // the last question was not answered
    cli_assert_contains(r.err, "the conversation has 3");
    cli_assert_contains(r.err, "/clear");
    cli_assert_contains(r.err, "the context of 100 positions is full"); // the answer to "hi"
    json_t *m = saved_messages(f);
    assert_int_equal(json_array_size(m), 2); // what was not answered is not kept
    json_decref(m);
}

static void test_refusals(void **state) {
    const fixture *f = *state;
    char bare[320];
    snprintf(bare, sizeof bare, "%s/bare.gguf", f->folder.path);
    tiny_random_gguf(bare, DTYPE_Q8_0, false, 3);
    cli_result r;
    CLI(&r, "chat", "-m", bare);
    assert_int_equal(r.exit_code, 1);
    cli_assert_contains(r.err, "chat template");
    CLI(&r, "chat", "-m", f->model, "-p", "x");
    assert_int_equal(r.exit_code, 2);
    CLI_IN(&r, "\xff\xfe\nhello\n", "chat", "-m", f->model, "-n", "4", LETTERS);
    cli_assert_done(&r);
    cli_assert_contains(r.err, "UTF-8");
}

// ---- terminal --------------------------------------------------------------------------------------------------------------

// The editor takes the keyboard over just behind its prompt.
static void prompt(child *c) {
    child_expect(c, "> ");
    usleep(100 * 1000);
}

static void test_terminal(void **state) {
    child_need_terminal();
    const fixture *f = *state;
    child c;
    CHILD(&c, true, "chat", "-m", f->model, "-n", "6", "-t", "1", LETTERS);
    child_expect(&c, "/help lists the commands");
    prompt(&c);
    child_write(&c, "/helx\177p\r"); // the delete key
    child_expect(&c, "sets the system message");
    prompt(&c);
#ifdef TALLY_LIBEDIT
    child_write(&c, "\020\r"); // Ctrl-P: the line before
    child_expect(&c, "sets the system message");
    prompt(&c);
    child_write(&c, "elp\001/h\005\r"); // Ctrl-A, Ctrl-E
    child_expect(&c, "sets the system message");
    prompt(&c);
#endif
    child_write(&c, "h\303\244llo\r"); // a character of two bytes
    prompt(&c);
    char script[400];
    snprintf(script, sizeof script, "/save %s\r", f->saved);
    child_write(&c, script);
    child_expect(&c, "saved 2 messages");
    prompt(&c);
    child_write(&c, "\004"); // Ctrl-D
    assert_int_equal(child_end(&c), 0);
    child_free(&c);
    json_t *m = saved_messages(f);
    assert_string_equal(json_string_value(json_object_get(json_array_get(m, 0), "content")), "h\303\244llo");
    json_decref(m);
}

static void test_interrupts(void **state) {
    child_need_terminal();
    const fixture *f = *state;
    child c;
    CHILD(&c, true, "chat", "-m", f->model, "-t", "1", "-c", "4096", LETTERS);
    prompt(&c);
    child_write(&c, "half a line\003"); // drops the line
    child_expect(&c, "again quits");
    prompt(&c);
    char script[400];
    snprintf(script, sizeof script, "hello\r");
    child_write(&c, script);
    child_expect(&c, "hello\r\n");
    child_expect_more(&c, 3);
    child_write(&c, "\003"); // stops the answer, which would take thousands of tokens
    prompt(&c);
    snprintf(script, sizeof script, "/save %s\r", f->saved);
    child_write(&c, script);
    child_expect(&c, "saved 2 messages");
    prompt(&c);
    child_write(&c, "more\r");
    child_expect(&c, "more\r\n");
    child_expect_more(&c, 3);
    child_write(&c, "\003");
    prompt(&c);
    child_write(&c, "\003"); // twice in a row
    assert_int_equal(child_end(&c), 130);
    child_free(&c);
    json_t *m = saved_messages(f);
    size_t n = json_string_length(json_object_get(json_array_get(m, 1), "content"));
    assert_true(n > 0 && n < 4000);
    json_decref(m);
}

#define THINKS "--temp", "0", "-n", "2", "-l", "258+60", "-l", "259+59", "--presence-penalty", "50"

static void test_reasoning(void **state) {
    child_need_terminal();
    const fixture *f = *state;
    child c;
    CHILD(&c, true, "chat", "-m", f->model, "-t", "1", THINKS);
    prompt(&c);
    child_write(&c, "hello\r");
    child_expect(&c, "\033[2m<think></think>\033[0m");
    prompt(&c);
    child_write(&c, "\004");
    assert_int_equal(child_end(&c), 0);
    child_free(&c);
    cli_result r;
    CLI_IN(&r, "hello\n", "chat", "-m", f->model, THINKS);
    cli_assert_done(&r);
    assert_string_equal(r.out, "<think></think>\n");
    char opened[320];
    temp_folder_write_text(&f->folder, "opened.jinja", "{{ messages[0].content }}<think>\n");
    snprintf(opened, sizeof opened, "%s/opened.jinja", f->folder.path);
    CHILD(&c, true, "chat", "-m", f->model, "-t", "1", "-n", "2", "--chat-template-file", opened, LETTERS);
    prompt(&c);
    child_write(&c, "hello\r");
    child_expect(&c, "\033[2m");
    child_expect(&c, "\033[0m");
    prompt(&c);
    child_write(&c, "\004");
    assert_int_equal(child_end(&c), 0);
    child_free(&c);
}

// Tags in pieces of every length.
static void test_tags_in_pieces(void **state) {
    (void)state;
    static const char in[] = "a<b<think>x</thin</think>y<<think>z<", out[] = "a<b\033[2m<think>x</thin</think>\033[0my<"
                                                                             "\033[2m<think>z<\033[0m";
    for (size_t piece = 1; piece <= strlen(in); piece++) {
        FILE *f = tmpfile();
        assert_non_null(f);
        reasoning r;
        reasoning_begin(&r, f, true, false);
        for (size_t at = 0; at < strlen(in); at += piece)
            reasoning_write(&r, in + at, strlen(in) - at < piece ? strlen(in) - at : piece);
        reasoning_end(&r);
        char text[128];
        rewind(f);
        text[fread(text, 1, sizeof text - 1, f)] = 0;
        fclose(f);
        assert_string_equal(text, out);
    }
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twenty_turns),   cmocka_unit_test(test_sampling_is_the_models),
        cmocka_unit_test(test_commands),       cmocka_unit_test(test_loads_nothing_wrong),
        cmocka_unit_test(test_disk_full),      cmocka_unit_test(test_full_context),
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_interrupts),     cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_tags_in_pieces),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
