// Generations with text: stop ids, stop strings, lengths, whole characters, log-probabilities. The model says what the test wrote
// down (script_model.h), so every place where something may end is reached on purpose.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/generation.h"
#include "tests/support/eval.h"
#include "tests/support/script_model.h"
#include "tests/support/temp_folder.h"
#include "text/utf8.h"

typedef struct script {
    temp_folder folder;
    test_engine e;
    int32_t ids[SCRIPT_VOCAB];
    int n;
} script;

static script script_open(const char *const *pieces, int n) {
    script s = {.folder = temp_folder_make(), .n = n};
    char path[300];
    snprintf(path, sizeof path, "%s/script.gguf", s.folder.path);
    script_model_write(path, pieces, n, s.ids);
    s.e = test_engine_open(path, &(tally_engine_options){.threads = 1, .context = 256});
    assert_true(tally_model_has_tokenizer(s.e.model));
    return s;
}

static void script_close(script *s) {
    assert_int_equal(test_blocks_in_use(s->e.engine), 0);
    test_engine_close(&s->e);
    temp_folder_remove(&s->folder);
}

#define SCRIPT(...) \
    script_open((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

// What a request must give. NULL text: not looked at.
typedef struct expected {
    int n_ids;
    const char *text, *reason;
} expected;

static void check_progress(const tally_generation *g, char *shown, size_t *n_shown) {
    size_t len;
    const char *text = tally_generation_text(g, &len);
    assert_true(len >= *n_shown && len < 4096);
    assert_memory_equal(text, shown, *n_shown);                 // grows only
    assert_int_equal(utf8_valid_prefix((str){text, len}), len); // no half character
    memcpy(shown, text, len);
    *n_shown = len;
}

static void run(const script *s, tally_request r, expected want) {
    static const int32_t start[] = {SCRIPT_START};
    if (!r.ids) r.ids = start, r.n_ids = 1;
    tally_error err = {0};
    tally_generation *g;
    if (tally_generate(s->e.engine, &r, &g, &err)) fail_msg("%s", err.text);
    static char shown[4096];
    size_t n_shown = 0, len;
    for (int i = 0; !tally_generation_done(g); i++) {
        assert_null(tally_generation_finish_reason(g));
        assert_true(i < 1000);
        assert_int_equal(tally_engine_step(s->e.engine, NULL, &err), 0);
        check_progress(g, shown, &n_shown);
    }
    int n;
    const int32_t *ids = tally_generation_ids(g, &n);
    assert_int_equal(tally_generation_status(g, &err), 0);
    assert_string_equal(tally_generation_finish_reason(g), want.reason);
    assert_int_equal(n, want.n_ids);
    for (int i = 0; i < n && i < s->n && r.ids == start; i++) assert_int_equal(ids[i], s->ids[i]);
    const char *text = tally_generation_text(g, &len);
    if (want.text) {
        assert_string_equal(text, want.text);
        assert_int_equal(len, strlen(want.text));
    }
    tally_generation_close(g);
    assert_int_equal(test_blocks_in_use(s->e.engine), 0);
}

// ---- stop ids ------------------------------------------------------------------------------------------------------------

static const char *const LETTERS[] = {"a", "bc", "d", "efg", "h"};

static void test_eos_at_every_place(void **state) {
    (void)state;
    static const char *const stops[] = {"<eos>", "<eot>"};
    for (int which = 0; which < 2; which++) {
        for (int at = 0; at <= 5; at++) {
            const char *pieces[7], *want = (const char *const[]){"", "a", "abc", "abcd", "abcdefg", "abcdefgh"}[at];
            int n = 0;
            for (int i = 0; i <= 5; i++) {
                if (i == at) pieces[n++] = stops[which];
                if (i < 5) pieces[n++] = LETTERS[i];
            }
            script s = script_open(pieces, n);
            run(&s, (tally_request){.max_tokens = 20}, (expected){at, want, "stop"});
            run(&s, (tally_request){.max_tokens = -1}, (expected){at, want, "stop"});
            run(&s, (tally_request){.max_tokens = at + 1},
                (expected){at, want, "stop"}); // the stop is the last token allowed
            if (at > 0) run(&s, (tally_request){.max_tokens = at}, (expected){at, want, "length"});
            run(&s, (tally_request){.max_tokens = 6, .ignore_eos = true}, (expected){6, "abcdefgh", "length"});
            script_close(&s);
        }
    }
}

// Stop ids of a Hugging Face folder: two in generation_config.json and one in config.json are tested with the readers; here that a
// special token that is no stop id goes on, and shows no text.
static void test_special_tokens_have_no_text(void **state) {
    (void)state;
    script s = SCRIPT("a", "<control>", "b", "<unnamed>", "c", "<eos>");
    run(&s, (tally_request){.max_tokens = 20}, (expected){5, "abc", "stop"});
    run(&s, (tally_request){.max_tokens = 9, .ignore_eos = true}, (expected){9, "abczzz", "length"});
    script_close(&s);
}

// ---- stop strings --------------------------------------------------------------------------------------------------------

static void stop(const script *s, const char *a, const char *b, expected want) {
    const char *stops[] = {a, b};
    run(s, (tally_request){.max_tokens = 8, .stops = stops, .n_stops = b ? 2 : 1}, want);
}

static void test_stop_strings(void **state) {
    (void)state;
    script s = SCRIPT("he", "llo", " wo", "rld", "!", "abab", "q", "<eos>");
    stop(&s, "llo", NULL, (expected){2, "he", "stop"});                   // one whole token
    stop(&s, "l", NULL, (expected){2, "he", "stop"});                     // inside one token
    stop(&s, "he", NULL, (expected){1, "", "stop"});                      // at the very start
    stop(&s, "hello", NULL, (expected){2, "", "stop"});                   // over a border
    stop(&s, "o w", NULL, (expected){3, "hell", "stop"});                 // from inside one token into the next
    stop(&s, "ello world", NULL, (expected){4, "h", "stop"});             // over several
    stop(&s, "ld!", NULL, (expected){5, "hello wor", "stop"});            // the last byte of it is a token of its own
    stop(&s, "bab", NULL, (expected){6, "hello world!a", "stop"});        // the first of two places
    stop(&s, "q", NULL, (expected){7, "hello world!abab", "stop"});       // just before EOS
    stop(&s, "world?", NULL, (expected){7, "hello world!ababq", "stop"}); // never completed: nothing is lost
    stop(&s, "ababqx", NULL, (expected){7, "hello world!ababq", "stop"}); // held back until EOS, then shown
    stop(&s, "lo", "world", (expected){2, "hel", "stop"});                // the one that comes first
    stop(&s, "world", "lo", (expected){2, "hel", "stop"});
    stop(&s, "llo w", "ello", (expected){2, "h", "stop"});         // the one that is complete first
    stop(&s, "ab", "abab", (expected){6, "hello world!", "stop"}); // one a prefix of the other
    stop(&s, "ba", "abab", (expected){6, "hello world!", "stop"}); // both complete in one token: the earlier place
    run(&s, (tally_request){.max_tokens = 2, .stops = (const char *const[]){"llo w"}, .n_stops = 1},
        (expected){2, "hello", "length"}); // cut short
    run(&s, (tally_request){.max_tokens = 2, .stops = (const char *const[]){"llo"}, .n_stops = 1},
        (expected){2, "he", "stop"}); // in the last token
    script_close(&s);
}

// "ab" inside "abc": with tokens a, b, c the shorter is complete first; text that could become either is held back.
static void test_overlapping_stops(void **state) {
    (void)state;
    script s = SCRIPT("x", "a", "b", "c", "<eos>");
    stop(&s, "abc", "ab", (expected){3, "x", "stop"});
    stop(&s, "abc", "abd", (expected){4, "x", "stop"});
    stop(&s, "abd", "bce", (expected){4, "xabc", "stop"});
    stop(&s, "xabcd", "bc", (expected){4, "xa", "stop"}); // inside what the longer one holds back
    script_close(&s);
    s = SCRIPT("aa", "aaa", "b", "<eos>"); // a prefix that starts again inside itself
    stop(&s, "aab", NULL, (expected){3, "aaa", "stop"});
    stop(&s, "aaaaab", NULL, (expected){3, "", "stop"});
    stop(&s, "aaaaaab", NULL, (expected){3, "aaaaab", "stop"});
    script_close(&s);
}

static void test_stop_of_several_bytes(void **state) {
    (void)state;
    script s = SCRIPT("x", "\xe2", "\x82", "\xac", "y", "<eos>"); // the euro sign byte by byte
    stop(&s, "\xe2\x82\xac", NULL, (expected){4, "x", "stop"});
    stop(&s, "\xe2\x82\xacy", NULL, (expected){5, "x", "stop"});
    stop(&s, "\xe2\x82\xacz", NULL, (expected){5, "x\xe2\x82\xacy", "stop"});
    script_close(&s);
}

// ---- characters ----------------------------------------------------------------------------------------------------------

static void test_whole_characters(void **state) {
    (void)state;
    static const char *const characters[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (int c = 0; c < 3; c++) {
        size_t len = strlen(characters[c]);
        char byte[4][2] = {
            {characters[c][0]}, {characters[c][1]}, {characters[c][2]}, {len > 3 ? characters[c][3] : 0}};
        const char *pieces[6] = {"a"};
        int n = 1;
        for (size_t i = 0; i < len; i++) pieces[n++] = byte[i];
        char whole[16];
        snprintf(whole, sizeof whole, "a%s", characters[c]);
        for (int then_eos = 0; then_eos < 2; then_eos++) { // in the middle of the text, and as its very last token
            pieces[n] = then_eos ? "<eos>" : "b";
            script s = script_open(pieces, n + 1);
            run(&s, (tally_request){.max_tokens = n}, (expected){n, whole, "length"});
            if (then_eos) run(&s, (tally_request){.max_tokens = 50}, (expected){n, whole, "stop"});
            for (int cut = 2; cut < n; cut++) { // ends inside the character: the rest will never come
                run(&s, (tally_request){.max_tokens = cut}, (expected){cut, "a\xef\xbf\xbd", "length"});
            }
            script_close(&s);
        }
    }
}

static void test_broken_characters(void **state) {
    (void)state;
    script s = SCRIPT("\xe2\x82", "a", "\xff", "b\xc3", "\xa9z", "<eos>");
    run(&s, (tally_request){.max_tokens = 50},
        (expected){5,
                   "\xef\xbf\xbd"
                   "a\xef\xbf\xbd"
                   "b\xc3\xa9z",
                   "stop"});
    script_close(&s);
}

// ---- lengths -------------------------------------------------------------------------------------------------------------

static void test_max_tokens(void **state) {
    (void)state;
    script s = SCRIPT("a", "b", "c");
    run(&s, (tally_request){.max_tokens = 0}, (expected){0, "", "length"});
    run(&s, (tally_request){.max_tokens = 1}, (expected){1, "a", "length"});
    run(&s, (tally_request){.max_tokens = 5}, (expected){5, "abczz", "length"});
    run(&s, (tally_request){.max_tokens = -1}, (expected){255, NULL, "length"}); // until the context is full
    run(&s, (tally_request){.max_tokens = 100000}, (expected){255, NULL, "length"});
    script_close(&s);
}

static void refused(const script *s, tally_request r, tally_status code, const char *const *parts) {
    tally_error err = {0};
    tally_generation *g = (tally_generation *)(uintptr_t)1;
    assert_int_equal(tally_generate(s->e.engine, &r, &g, &err), code);
    assert_null(g);
    for (; *parts; parts++) {
        if (!strstr(err.text, *parts)) fail_msg("'%s' should contain '%s'", err.text, *parts);
    }
    bool idle;
    assert_int_equal(tally_engine_step(s->e.engine, &idle, &err), 0);
    assert_true(idle);
}
#define PARTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_prompt_lengths(void **state) {
    (void)state;
    script s = SCRIPT("a", "<eos>");
    static int32_t ids[2560];
    for (int i = 0; i < 2560; i++) ids[i] = 'q';
    ids[254] = SCRIPT_START;
    run(&s, (tally_request){.ids = ids, .n_ids = 255, .max_tokens = -1}, (expected){1, "a", "length"});
    run(&s, (tally_request){.ids = ids, .n_ids = 256, .max_tokens = -1}, (expected){0, "", "length"});
    run(&s, (tally_request){.ids = ids, .n_ids = 256, .max_tokens = 5}, (expected){0, "", "length"});
    run(&s, (tally_request){.ids = ids + 200, .n_ids = 55, .max_tokens = -1}, (expected){1, "a", "stop"});
    refused(&s, (tally_request){.ids = ids, .n_ids = 257, .max_tokens = 5}, TALLY_FULL, PARTS("257", "256", "-c"));
    refused(&s, (tally_request){.ids = ids, .n_ids = 2560, .max_tokens = 5}, TALLY_FULL, PARTS("2560", "256", "-c"));
    run(&s, (tally_request){.max_tokens = 20}, (expected){1, "a", "stop"}); // the engine is as good as new
    script_close(&s);
}

static void test_bad_requests(void **state) {
    (void)state;
    script s = SCRIPT("a", "<eos>");
    static const int32_t good[] = {'q', 'r', 's'}, high[] = {'q', 320, 's'}, low[] = {'q', 'r', -1};
    refused(&s, (tally_request){.ids = good, .n_ids = 0}, TALLY_BAD_ARGUMENT, PARTS("prompt is empty"));
    refused(&s, (tally_request){.ids = NULL, .n_ids = 0}, TALLY_BAD_ARGUMENT, PARTS("prompt is empty"));
    refused(&s, (tally_request){.ids = high, .n_ids = 3}, TALLY_BAD_ARGUMENT,
            PARTS("token 320", "position 1", "0 to 319"));
    refused(&s, (tally_request){.ids = low, .n_ids = 3}, TALLY_BAD_ARGUMENT,
            PARTS("token -1", "position 2", "0 to 319"));
    refused(&s, (tally_request){.ids = good, .n_ids = 3, .logprobs = -1}, TALLY_BAD_ARGUMENT, PARTS("logprobs", "-1"));
    refused(&s, (tally_request){.ids = good, .n_ids = 3, .stops = (const char *const[]){"x", ""}, .n_stops = 2},
            TALLY_BAD_ARGUMENT, PARTS("stop string 2", "empty"));
    refused(&s, (tally_request){.ids = good, .n_ids = 3, .sampling.top_p = 7}, TALLY_BAD_ARGUMENT, PARTS("top_p", "7"));
    script_close(&s);
}

// ---- log-probabilities ---------------------------------------------------------------------------------------------------

static void test_logprobs(void **state) {
    (void)state;
    script s = SCRIPT("a", "b", "c", "<eos>");
    static const int32_t start[] = {SCRIPT_START};
    static const int asked[] = {0, 1, 3, 400};
    for (size_t i = 0; i < 4; i++) {
        tally_error err;
        tally_generation *g;
        tally_session *session;
        tally_request r = {.ids = start, .n_ids = 1, .max_tokens = 9, .logprobs = asked[i]};
        assert_int_equal(tally_generate(s.e.engine, &r, &g, &err), 0);
        while (!tally_generation_done(g)) assert_int_equal(tally_engine_step(s.e.engine, NULL, &err), 0);
        assert_int_equal(tally_session_open(&session, s.e.engine, &err), 0);
        for (int t = 0; t < 3; t++) {
            int n, want = asked[i] > SCRIPT_VOCAB ? SCRIPT_VOCAB : asked[i];
            const tally_logprob *p = tally_generation_logprobs(g, t, &n);
            if (want == 0) {
                assert_null(p);
                continue;
            }
            assert_int_equal(n, 1 + want);
            assert_int_equal(p[0].id, s.ids[t]);
            int32_t prefix[] = {SCRIPT_START, s.ids[0], s.ids[1]};
            const float *logits;
            assert_int_equal(tally_session_sync(session, prefix, t + 1, &err), 0);
            assert_int_equal(tally_session_logits(session, &logits, &err), 0);
            double sum = 0;
            for (int v = 0; v < SCRIPT_VOCAB; v++) sum += exp((double)logits[v]);
            for (int k = 0; k < n; k++) {
                assert_true(fabs((double)p[k].logprob - ((double)logits[p[k].id] - log(sum))) < 1e-5);
                if (k > 1)
                    assert_true(p[k].logprob < p[k - 1].logprob ||
                                (p[k].logprob == p[k - 1].logprob && p[k].id > p[k - 1].id));
            }
        }
        int n;
        assert_null(tally_generation_logprobs(g, 3, &n)); // the stop id is no token of the answer
        assert_null(tally_generation_logprobs(g, -1, &n));
        tally_session_close(session);
        tally_generation_close(g);
    }
    script_close(&s);
}

// Penalties, bias and the copy of the bias list in real requests. Logits of this model: 17.9 for the successor, 0 for all others.
static void sampled_ids(const script *s, int32_t prompt, tally_sampling sampling, const int32_t want[3]) {
    tally_error err;
    tally_generation *g;
    tally_logit_bias bias = {0};
    if (sampling.n_logit_bias) bias = sampling.logit_bias[0], sampling.logit_bias = &bias;
    tally_request r = {.ids = &prompt, .n_ids = 1, .max_tokens = 3, .sampling = sampling};
    assert_int_equal(tally_generate(s->e.engine, &r, &g, &err), 0);
    bias.id = want[0]; // must not matter any more
    while (!tally_generation_done(g)) assert_int_equal(tally_engine_step(s->e.engine, NULL, &err), 0);
    int n;
    const int32_t *ids = tally_generation_ids(g, &n);
    assert_int_equal(n, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(ids[i], want[i]);
    tally_generation_close(g);
}

static void test_samplers_in_a_request(void **state) {
    (void)state;
    script s = SCRIPT("a", "b", "<eos>");
    const tally_logit_bias no_b = {'b', -INFINITY}, no_eos = {SCRIPT_EOS, -INFINITY};
    sampled_ids(&s, SCRIPT_START, (tally_sampling){.logit_bias = &no_eos, .n_logit_bias = 1}, (int32_t[]){'a', 'b', 0});
    sampled_ids(&s, SCRIPT_START, (tally_sampling){.logit_bias = &no_b, .n_logit_bias = 1}, (int32_t[]){'a', 0, 'z'});
    sampled_ids(&s, 'z', (tally_sampling){0}, (int32_t[]){'z', 'z', 'z'});
    sampled_ids(&s, 'z', (tally_sampling){.presence_penalty = 20}, (int32_t[]){'z', 0, 1}); // the prompt does not count
    sampled_ids(&s, 'z', (tally_sampling){.frequency_penalty = 10}, (int32_t[]){'z', 'z', 0});
    sampled_ids(&s, 'z', (tally_sampling){.repeat_penalty = 1e30f, .presence_penalty = 1}, (int32_t[]){'z', 0, 1});
    script_close(&s);
}

// Text that may still become a stop string is none when an error ends the request.
static void test_error_while_text_is_held_back(void **state) {
    (void)state;
    script s = SCRIPT("a", "b", "c", "<eos>");
    static const int32_t ids[] = {SCRIPT_START};
    tally_error err;
    tally_generation *g;
    tally_request r = {.ids = ids, .n_ids = 1, .max_tokens = 9, .stops = (const char *const[]){"bx"}, .n_stops = 1};
    assert_int_equal(tally_generate(s.e.engine, &r, &g, &err), 0);
    size_t len;
    for (int n = 0; n < 2; tally_generation_ids(g, &n)) assert_int_equal(tally_engine_step(s.e.engine, NULL, &err), 0);
    error why;
    error_set(&why, STATUS_FULL, "an error");
    generation_fail(g, &why);
    assert_string_equal(tally_generation_text(g, &len), "a");
    assert_int_equal(len, 1);
    tally_generation_close(g);
    script_close(&s);
}

static void test_timings(void **state) {
    (void)state;
    script s = SCRIPT("a", "b", "<eos>");
    static const int32_t ids[] = {'q', 'q', SCRIPT_START};
    tally_error err;
    tally_generation *g;
    tally_request r = {.ids = ids, .n_ids = 3, .max_tokens = 9};
    assert_int_equal(tally_generate(s.e.engine, &r, &g, &err), 0);
    while (!tally_generation_done(g)) assert_int_equal(tally_engine_step(s.e.engine, NULL, &err), 0);
    tally_timings t;
    tally_generation_timings(g, &t);
    assert_int_equal(t.n_prompt, 3);
    assert_int_equal(t.n_decode, 2); // "b" and the stop id
    assert_true(t.prompt_ms > 0 && t.decode_ms > 0);
    tally_generation_close(g);
    for (r.max_tokens = 0; r.max_tokens <= 2; r.max_tokens++) {
        assert_int_equal(tally_generate(s.e.engine, &r, &g, &err), 0);
        tally_generation_timings(g, &t);
        assert_int_equal(t.n_decode, 0);
        while (!tally_generation_done(g)) assert_int_equal(tally_engine_step(s.e.engine, NULL, &err), 0);
        tally_generation_timings(g, &t);
        assert_int_equal(t.n_decode, r.max_tokens == 2);
        assert_true((t.decode_ms > 0) == (r.max_tokens == 2));
        tally_generation_close(g);
    }
    script_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eos_at_every_place),
        cmocka_unit_test(test_special_tokens_have_no_text),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_overlapping_stops),
        cmocka_unit_test(test_stop_of_several_bytes),
        cmocka_unit_test(test_whole_characters),
        cmocka_unit_test(test_broken_characters),
        cmocka_unit_test(test_max_tokens),
        cmocka_unit_test(test_prompt_lengths),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_samplers_in_a_request),
        cmocka_unit_test(test_error_while_text_is_held_back),
        cmocka_unit_test(test_timings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
