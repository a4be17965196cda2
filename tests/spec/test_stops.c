// Stops inside a run of accepted drafts: stop ids, stop strings, max_tokens and the context's end at every place of it. The drafter is
// right about everything, also behind the stop; the output ends where plain decoding ends, for the same reason, with the same text and the
// same cache.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/script_model.h"
#include "tests/support/spec_check.h"
#include "tests/support/temp_folder.h"

enum { K = 8, CONTEXT = 128 };

static temp_folder folder;

// The script goes on behind a stop: with ignore_eos plain decoding says it all, and so does the drafter.
static spec_plain *whole; // as the drafter knows it

static bool propose_all(spec_run *run, const spec_plain *t, int at, int max, draft *out) {
    (void)run, (void)t;
    *out = (draft){0};
    for (; out->n < max && at + out->n < whole->n_prompt + whole->n; out->n++)
        out->token[out->n] = whole->token[at + out->n], out->parent[out->n] = (int8_t)(out->n - 1);
    return true;
}

static spec_pair open_script(const char *const *pieces, int n) {
    const char *path = temp_folder_path(&folder, "script.gguf");
    script_model_write(path, pieces, n, NULL);
    return spec_pair_open(path, &(tally_engine_options){.threads = 1, .context = CONTEXT});
}

static const int32_t START[] = {'q', SCRIPT_START};

// Runs the request with the drafter that does not stop, and expects `reason` and n ids. Returns drafts accepted.
static int must_stop(const spec_pair *p, tally_request r, const char *reason, int n) {
    if (!r.ids) r.ids = START, r.n_ids = 2;
    tally_request all = r;
    all.ignore_eos = true, all.n_stops = 0, all.max_tokens = 40;
    whole = spec_plain_run(p, &all);
    spec_plain *plain = spec_plain_run(p, &r);
    assert_string_equal(plain->reason, reason);
    assert_int_equal(plain->n, n);
    int accepted = 0;
    for (int k = 1; k <= K; k += k == 1 ? 1 : 3) {
        spec_run run = {.propose = propose_all, .k = k};
        const char *what = spec_differs(p, &run, &r, &plain, 1);
        if (what) fail_msg("%s at %d, %d drafts: %s", reason, n, k, what);
        accepted += run.counts.accepted;
    }
    spec_plain_free(plain);
    spec_plain_free(whole);
    return accepted;
}

static const char *const LETTERS[] = {"a", "bc", "d", "efg", "h", "ij", "k", "lm", "n", "op"};
enum { N_LETTERS = 10 };

static void test_stop_ids(void **state) {
    (void)state;
    static const char *const stops[] = {"<eos>", "<eot>"};
    int accepted = 0;
    for (int at = 0; at <= N_LETTERS; at++) {
        const char *pieces[N_LETTERS + 1];
        int n = 0;
        for (int i = 0; i <= N_LETTERS; i++) {
            if (i == at) pieces[n++] = stops[at % 2];
            if (i < N_LETTERS) pieces[n++] = LETTERS[i];
        }
        spec_pair p = open_script(pieces, n);
        accepted += must_stop(&p, (tally_request){.max_tokens = 30}, "stop", at);
        accepted += must_stop(&p, (tally_request){.max_tokens = at + 1}, "stop", at); // the last token allowed
        accepted += must_stop(&p, (tally_request){.max_tokens = 30, .ignore_eos = true}, "length", 30);
        spec_pair_close(&p);
    }
    assert_true(accepted > 100);
}

static void test_stop_strings(void **state) {
    (void)state;
    static const struct {
        const char *stop;
        int n;
    } cases[] = {{"a", 1},   {"b", 2},  {"cd", 3}, {"abcdefg", 4}, {"h", 5},
                 {"hij", 6}, {"lm", 8}, {"m", 8},  {"gh", 5},      {"p", 10}};
    spec_pair p = open_script(LETTERS, N_LETTERS);
    int accepted = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tally_request r = {.max_tokens = 25, .stops = &cases[i].stop, .n_stops = 1};
        accepted += must_stop(&p, r, "stop", cases[i].n);
    }
    const char *two[] = {"never", "fgh"};
    accepted += must_stop(&p, (tally_request){.max_tokens = 25, .stops = two, .n_stops = 2}, "stop", 5);
    assert_true(accepted > 30);
    spec_pair_close(&p);
}

static void test_lengths(void **state) {
    (void)state;
    spec_pair p = open_script(LETTERS, N_LETTERS);
    for (int n = 1; n <= 2 * K + 2; n++) must_stop(&p, (tally_request){.max_tokens = n}, "length", n);
    static int32_t ids[CONTEXT];
    for (int i = 0; i < CONTEXT; i++) ids[i] = 'q';
    for (int room = 0; room <= K + 2; room++) { // the context ends in the middle of a draft
        tally_request r = {.ids = ids, .n_ids = CONTEXT - room, .max_tokens = -1};
        spec_plain *plain = spec_plain_run(&p, &r);
        assert_int_equal(plain->n, room);
        whole = plain;
        spec_run run = {.propose = spec_perfect, .k = 16};
        const char *what = spec_differs(&p, &run, &r, &plain, 1);
        if (what) fail_msg("%d positions left: %s", room, what);
        assert_int_equal(run.counts.drafted, room > 1 ? room - 1 : 0); // what can never be emitted is not computed
        spec_plain_free(plain);
    }
    spec_pair_close(&p);
}

// A forbidden stop id, penalties that end a run: the sampler of row i has seen the drafts before it.
static void test_samplers(void **state) {
    (void)state;
    static const char *const pieces[] = {"a", "b", "<eos>", "c", "d"};
    spec_pair p = open_script(pieces, 5);
    const tally_logit_bias no_eos = {SCRIPT_EOS, -1e30f}, no_b = {'b', -1e30f};
    tally_request r = {.ids = START, .n_ids = 2, .max_tokens = 20};
    spec_run run = {.propose = spec_perfect, .k = 6};
    r.sampling = (tally_sampling){.logit_bias = &no_eos, .n_logit_bias = 1};
    spec_must_equal(&p, &run, &r);
    r.sampling = (tally_sampling){.logit_bias = &no_b, .n_logit_bias = 1};
    spec_must_equal(&p, &run, &r);
    r.sampling = (tally_sampling){.presence_penalty = 20};
    spec_must_equal(&p, &run, &r);
    r.sampling = (tally_sampling){.frequency_penalty = 5, .temperature = 2, .seed = 9};
    spec_must_equal(&p, &run, &r);
    spec_pair_close(&p);
}

static int setup(void **state) { return (void)state, folder = temp_folder_make(), 0; }
static int teardown(void **state) { return (void)state, temp_folder_remove(&folder), 0; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_ids),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_samplers),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
