// Many generations at once: each gives what it gives alone, greedy and sampled, whatever the chunks, the neighbours, and how often its
// cache was taken away; what cannot fit fails by itself; everything is given back.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/generation.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 300, MAX_PROMPT = 400, MAX_NEW = 200, MAX_REQUESTS = 8 };

typedef struct order { // what is asked
    int n_prompt, n_new;
    float temperature;
    uint64_t seed;
} order;

typedef struct answer {
    int32_t ids[MAX_NEW];
    tally_logprob logprobs[MAX_NEW][3];
    int n;
} answer;

static char path[300];
static temp_folder folder;
static int32_t prompt_ids[MAX_REQUESTS][MAX_PROMPT];

static int setup(void **state) {
    (void)state;
    folder = temp_folder_make();
    snprintf(path, sizeof path, "%s/model.gguf", folder.path);
    tiny_random_gguf(path, DTYPE_Q8_0, true, 5);
    for (int i = 0; i < MAX_REQUESTS; i++) {
        for (int j = 0; j < MAX_PROMPT; j++) prompt_ids[i][j] = (int32_t)(hash_mix((uint64_t)(i * 1000 + j)) % VOCAB);
    }
    return 0;
}

static int teardown(void **state) {
    (void)state;
    temp_folder_remove(&folder);
    return 0;
}

static tally_generation *start(tally_engine *e, const order *o, int which) {
    tally_error err;
    tally_generation *g;
    tally_request r = {.ids = prompt_ids[which],
                       .n_ids = o->n_prompt,
                       .max_tokens = o->n_new,
                       .logprobs = 2,
                       .ignore_eos = true,
                       .sampling = {.temperature = o->temperature,
                                    .top_p = o->temperature > 0 ? 0.95f : 0,
                                    .seed = o->seed,
                                    .frequency_penalty = o->temperature > 0 ? 0.3f : 0}};
    if (tally_generate(e, &r, &g, &err)) fail_msg("%s", err.text);
    return g;
}

static answer read_answer(const tally_generation *g) {
    answer a = {0};
    const int32_t *ids = tally_generation_ids(g, &a.n);
    assert_true(a.n <= MAX_NEW);
    memcpy(a.ids, ids, (size_t)a.n * sizeof *ids);
    for (int i = 0; i < a.n; i++) {
        int n;
        const tally_logprob *p = tally_generation_logprobs(g, i, &n);
        assert_int_equal(n, 3);
        memcpy(a.logprobs[i], p, sizeof a.logprobs[i]);
    }
    return a;
}

static void same_answer(const answer *want, const answer *got, int which) {
    assert_int_equal(got->n, want->n);
    for (int i = 0; i < want->n; i++) {
        if (memcmp(got->logprobs[i], want->logprobs[i], sizeof want->logprobs[i]) != 0 || got->ids[i] != want->ids[i]) {
            fail_msg("request %d, token %d: %d (%.9g) beside others, %d (%.9g) alone", which, i, got->ids[i],
                     (double)got->logprobs[i][0].logprob, want->ids[i], (double)want->logprobs[i][0].logprob);
        }
    }
}

static void alone(const order *o, int n, answer *out) {
    test_engine t = test_engine_open(path, &(tally_engine_options){.threads = 1, .context = 1024, .no_fuse = true});
    for (int i = 0; i < n; i++) {
        tally_error err;
        tally_generation *g = start(t.engine, &o[i], i);
        while (!tally_generation_done(g)) assert_int_equal(tally_engine_step(t.engine, NULL, &err), 0);
        assert_string_equal(tally_generation_finish_reason(g), "length");
        out[i] = read_answer(g);
        assert_int_equal(out[i].n, o[i].n_new);
        tally_generation_close(g);
    }
    test_engine_close(&t);
}

// Steps until idle. Returns how often a live generation lost cache it had.
static int run_all(tally_engine *e, tally_generation **g, int n) {
    int lost = 0, cached[MAX_REQUESTS] = {0};
    bool idle = false;
    for (int step = 0; !idle; step++) {
        tally_error err;
        if (step > 5000) fail_msg("no end after %d steps", step);
        if (tally_engine_step(e, &idle, &err)) fail_msg("%s", err.text);
        for (int i = 0; i < n; i++) {
            int now = g[i]->seq.cache.length;
            lost += !g[i]->finish && now < cached[i];
            cached[i] = now;
        }
    }
    return lost;
}

static const order MIXED[] = {{1, 20, 0, 0},      {64, 30, 0.8f, 1}, {5, 50, 1.2f, 2}, {129, 10, 0, 0},
                              {200, 40, 0.7f, 3}, {63, 1, 0, 0},     {33, 25, 2.0f, 4}};
enum { N_MIXED = sizeof MIXED / sizeof *MIXED };

static void test_together_as_alone(void **state) {
    (void)state;
    static answer want[N_MIXED];
    alone(MIXED, N_MIXED, want);
    static const tally_engine_options cases[] = {
        {.threads = 2, .context = 1024, .cache_positions = 4096, .step_rows = 512},
        {.threads = 1, .context = 1024, .cache_positions = 4096, .step_rows = 16},
        {.threads = 2, .context = 1024, .cache_positions = 4096, .step_rows = 3}, // fewer rows than requests
        {.threads = 1,
         .context = 1024,
         .cache_positions = 4096,
         .step_rows = 64,
         .logit_rows = 2}, // fewer logits than requests
        {.threads = 1, .context = 1024, .cache_positions = 4096, .step_rows = 1},
        {.threads = 2, .context = 1024, .cache_positions = 4096, .step_rows = 64, .chunk_rows = 9},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        test_engine t = test_engine_open(path, &cases[c]);
        tally_generation *g[N_MIXED];
        for (int i = 0; i < N_MIXED; i++) g[i] = start(t.engine, &MIXED[i], i);
        assert_int_equal(run_all(t.engine, g, N_MIXED), 0);
        for (int i = 0; i < N_MIXED; i++) {
            answer got = read_answer(g[i]);
            same_answer(&want[i], &got, i);
            tally_generation_close(g[i]);
        }
        assert_int_equal(test_blocks_in_use(t.engine), 0);
        test_engine_close(&t);
    }
}

// Requests that come while others are half done, and some that are closed half done.
static void test_coming_and_going(void **state) {
    (void)state;
    static answer want[N_MIXED];
    alone(MIXED, N_MIXED, want);
    test_engine t = test_engine_open(
        path, &(tally_engine_options){.threads = 1, .context = 1024, .cache_positions = 4096, .step_rows = 32});
    tally_generation *g[N_MIXED] = {0}, *gone = NULL;
    tally_error err;
    for (int i = 0; i < N_MIXED; i++) {
        g[i] = start(t.engine, &MIXED[i], i);
        if (i == 2) gone = start(t.engine, &MIXED[4], 7);
        for (int step = 0; step < 4; step++) assert_int_equal(tally_engine_step(t.engine, NULL, &err), 0);
        if (i == 4) {
            assert_false(tally_generation_done(gone));
            assert_true(gone->seq.cache.n_blocks > 0);
            int before = test_blocks_in_use(t.engine), held = gone->seq.cache.n_blocks;
            tally_generation_close(gone);
            assert_int_equal(test_blocks_in_use(t.engine), before - held);
        }
    }
    run_all(t.engine, g, N_MIXED);
    for (int i = 0; i < N_MIXED; i++) {
        answer got = read_answer(g[i]);
        same_answer(&want[i], &got, i);
        tally_generation_close(g[i]);
    }
    assert_int_equal(test_blocks_in_use(t.engine), 0);
    test_engine_close(&t);
}

static const order TIGHT[] = {{60, 70, 0, 0}, {70, 60, 0.9f, 1}, {50, 100, 0, 0}, {130, 20, 1.1f, 2}};
enum { N_TIGHT = sizeof TIGHT / sizeof *TIGHT };

// A cache of fewer positions than the requests need together: the youngest gives way and is computed again.
static void test_preemption(void **state) {
    (void)state;
    static answer want[N_TIGHT];
    alone(TIGHT, N_TIGHT, want);
    static const int cache[] = {192, 256, 320, 512}, rows[] = {512, 48, 7};
    int lost = 0;
    for (int c = 0; c < 4; c++) {
        for (int r = 0; r < 3; r++) {
            test_engine t = test_engine_open(
                path, &(tally_engine_options){
                          .threads = 1, .context = 192, .cache_positions = cache[c], .step_rows = rows[r]});
            tally_generation *g[N_TIGHT];
            for (int i = 0; i < N_TIGHT; i++) g[i] = start(t.engine, &TIGHT[i], i);
            lost += run_all(t.engine, g, N_TIGHT);
            for (int i = 0; i < N_TIGHT; i++) {
                tally_error err = {0};
                if (tally_generation_status(g[i], &err)) fail_msg("request %d: %s", i, err.text);
                answer got = read_answer(g[i]);
                same_answer(&want[i], &got, i);
                tally_generation_close(g[i]);
            }
            assert_int_equal(test_blocks_in_use(t.engine), 0);
            test_engine_close(&t);
        }
    }
    assert_true(lost > 3); // otherwise this test shows nothing
}

// Steps of one row, or of one row with logits: who is next in turn gets it, also while one that lost its cache cannot get in.
static void test_preemption_in_single_rows(void **state) {
    (void)state;
    static const order pair[] = {{60, 60, 0, 0}, {10, 60, 0.9f, 1}};
    static answer want[2];
    alone(pair, 2, want);
    for (int c = 0; c < 3; c++) {
        tally_engine_options o = {.threads = 1, .context = 128, .cache_positions = 128};
        if (c < 2) o.step_rows = c + 1;
        if (c == 2) o.logit_rows = 1;
        test_engine t = test_engine_open(path, &o);
        tally_generation *g[2] = {start(t.engine, &pair[0], 0), start(t.engine, &pair[1], 1)};
        assert_true(run_all(t.engine, g, 2) > 0);
        for (int i = 0; i < 2; i++) {
            tally_error err = {0};
            if (tally_generation_status(g[i], &err)) fail_msg("case %d, request %d: %s", c, i, err.text);
            answer got = read_answer(g[i]);
            same_answer(&want[i], &got, i);
            tally_generation_close(g[i]);
        }
        test_engine_close(&t);
    }
}

// What a session holds, nobody gets: an older request that waits for it takes nothing from a younger one in vain.
static void test_nothing_taken_in_vain(void **state) {
    (void)state;
    static const order pair[] = {{350, 4, 0, 0}, {100, 90, 0, 0}};
    static answer want[2];
    alone(pair, 2, want);
    test_engine t = test_engine_open(
        path, &(tally_engine_options){.threads = 1, .context = 512, .cache_positions = 640, .step_rows = 512});
    tally_session *s;
    tally_error err;
    assert_int_equal(tally_session_open(&s, t.engine, &err), 0);
    assert_int_equal(tally_session_sync(s, prompt_ids[2], 320, &err), 0); // 5 of 10 blocks; the first request needs 6
    tally_generation *g[2] = {start(t.engine, &pair[0], 0), start(t.engine, &pair[1], 1)};
    run_all(t.engine, g, 2);
    tally_stats stats;
    tally_engine_stats(t.engine, &stats);
    assert_int_equal(stats.preemptions, 0);
    answer got = read_answer(g[1]);
    same_answer(&want[1], &got, 1);
    assert_int_equal(tally_generation_status(g[0], &err), TALLY_FULL);
    assert_non_null(strstr(err.text, "sessions hold the others"));
    tally_generation_close(g[0]);
    tally_generation_close(g[1]);
    tally_session_close(s);
    assert_int_equal(test_blocks_in_use(t.engine), 0);
    test_engine_close(&t);
}

static void fails_alone(int at, const order *too_large, int64_t cache_positions, int step_rows, const answer *want) {
    test_engine t = test_engine_open(
        path, &(tally_engine_options){
                  .threads = 1, .context = 1024, .cache_positions = cache_positions, .step_rows = step_rows});
    tally_generation *g[4];
    for (int i = 0, other = 0; i < 4; i++)
        g[i] = i == at ? start(t.engine, too_large, 7) : start(t.engine, &MIXED[other * 2], other * 2),
        other += i != at;
    run_all(t.engine, g, 4);
    for (int i = 0, other = 0; i < 4; i++) {
        tally_error err = {0};
        if (i == at) {
            assert_string_equal(tally_generation_finish_reason(g[i]), "error");
            assert_int_equal(tally_generation_status(g[i], &err), TALLY_FULL);
            char number[32];
            snprintf(number, sizeof number, "%d positions", (int)cache_positions);
            if (!strstr(err.text, number)) fail_msg("'%s' should name %s", err.text, number);
        } else {
            if (tally_generation_status(g[i], &err)) fail_msg("a request that fits: %s", err.text);
            answer got = read_answer(g[i]);
            same_answer(&want[other * 2], &got, i);
            other++;
        }
        tally_generation_close(g[i]);
    }
    assert_int_equal(test_blocks_in_use(t.engine), 0);
    test_engine_close(&t);
}

// MIXED 0, 2 and 4 need 21, 55 and 240 positions.
static void test_larger_than_the_cache(void **state) {
    (void)state;
    static answer want[N_MIXED];
    alone(MIXED, N_MIXED, want);
    test_engine t = // a prompt that can never fit is refused at once
        test_engine_open(path, &(tally_engine_options){.threads = 1, .context = 1024, .cache_positions = 256});
    tally_generation *g;
    tally_error err;
    tally_request big = {.ids = prompt_ids[0], .n_ids = 257, .max_tokens = 5};
    assert_int_equal(tally_generate(t.engine, &big, &g, &err), TALLY_FULL);
    assert_null(g);
    assert_non_null(strstr(err.text, "257 tokens"));
    assert_non_null(strstr(err.text, "256 positions"));
    test_engine_close(&t);
    const order growing = {250, 150, 0, 0}; // one that grows beyond the cache fails when it gets there
    for (int at = 0; at < 4; at++) {
        fails_alone(at, &growing, 256, 512, want);
        fails_alone(at, &growing, 256, 33, want);
    }
}

// The choice of the next token is the argmax of what a session computes.
static void test_greedy_is_argmax(void **state) {
    (void)state;
    test_engine t =
        test_engine_open(path, &(tally_engine_options){.threads = 1, .context = 1024, .cache_positions = 2048});
    int n;
    int32_t *ids = test_greedy(&t, prompt_ids[3], 40, 50, &n), all[90];
    assert_int_equal(n, 50);
    memcpy(all, prompt_ids[3], 40 * sizeof *all);
    tally_session *s;
    tally_error err;
    assert_int_equal(tally_session_open(&s, t.engine, &err), 0);
    for (int i = 0; i < 50; i++) {
        const float *logits;
        assert_int_equal(tally_session_sync(s, all, 40 + i, &err), 0);
        assert_int_equal(tally_session_logits(s, &logits, &err), 0);
        int best = 0;
        for (int v = 1; v < VOCAB; v++) best = logits[v] > logits[best] ? v : best;
        assert_int_equal(ids[i], best);
        all[40 + i] = best;
    }
    tally_session_close(s);
    free(ids);
    test_engine_close(&t);
}

// A session holds blocks that nobody may take; a generation that needs them ends with an error, and goes on once they are free.
static void test_session_beside_generations(void **state) {
    (void)state;
    test_engine t =
        test_engine_open(path, &(tally_engine_options){.threads = 1, .context = 256, .cache_positions = 256});
    tally_session *s;
    tally_error err;
    assert_int_equal(tally_session_open(&s, t.engine, &err), 0);
    assert_int_equal(tally_session_sync(s, prompt_ids[0], 150, &err), 0);
    order o = {100, 4, 0, 0};
    tally_generation *g = start(t.engine, &o, 1);
    run_all(t.engine, &g, 1);
    assert_int_equal(tally_generation_status(g, &err), TALLY_FULL);
    tally_generation_close(g);
    assert_int_equal(tally_session_sync(s, prompt_ids[0], 257, &err), TALLY_FULL);
    assert_non_null(strstr(err.text, "256"));
    assert_int_equal(tally_session_sync(s, prompt_ids[0], -1, &err), TALLY_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "-1"));
    assert_int_equal(tally_session_sync(s, prompt_ids[0], 150, &err), 0);
    assert_int_equal(tally_session_eval(s, prompt_ids[0], -2, 1, test_collect, NULL, &err), TALLY_BAD_ARGUMENT);
    assert_int_equal(tally_session_length(s), 150);
    tally_session *other;
    assert_int_equal(tally_session_open(&other, t.engine, &err), 0);
    assert_int_equal(tally_session_sync(other, prompt_ids[1], 100, &err), TALLY_FULL);
    assert_int_equal(tally_session_length(other), 0);
    tally_session_close(s);
    assert_int_equal(tally_session_sync(other, prompt_ids[1], 100, &err), 0);
    tally_session_close(other);
    g = start(t.engine, &o, 1);
    run_all(t.engine, &g, 1);
    assert_string_equal(tally_generation_finish_reason(g), "length");
    tally_generation_close(g);
    assert_int_equal(test_blocks_in_use(t.engine), 0);
    test_engine_close(&t);
}

// Options that make no sense are refused with their numbers.
static void test_bad_options(void **state) {
    (void)state;
    static const struct {
        tally_engine_options o;
        const char *part[2];
    } cases[] = {
        {{.context = -1}, {"context", "-1"}},
        {{.context = 5000}, {"5000", "4096"}},
        {{.threads = -2}, {"threads", "-2"}},
        {{.step_rows = -3}, {"rows", "-3"}},
        {{.logit_rows = -4}, {"rows", "-4"}},
        {{.cache_positions = -5}, {"cache", "-5"}},
        {{.cache_positions = INT64_MAX}, {"cache", "9223372036854775807"}},
        {{.cpu_level = "mmx"}, {"mmx", "level"}},
        {{.cache_k = "q4_0"}, {"-ctk", "q4_0"}},
        {{.cache_v = "f64"}, {"-ctv", "f64"}},
    };
    tally_model *m;
    tally_error err;
    assert_int_equal(tally_model_open(&m, path, &err), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tally_engine *e = NULL;
        tally_engine_options o = cases[i].o;
        if (!o.threads) o.threads = 1;
        if (tally_engine_open(&e, m, &o, &err) == 0) fail_msg("case %zu was accepted", i);
        assert_null(e);
        for (int p = 0; p < 2; p++) {
            if (!strstr(err.text, cases[i].part[p])) fail_msg("'%s' should contain '%s'", err.text, cases[i].part[p]);
        }
    }
    tally_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together_as_alone),
        cmocka_unit_test(test_coming_and_going),
        cmocka_unit_test(test_preemption),
        cmocka_unit_test(test_larger_than_the_cache),
        cmocka_unit_test(test_greedy_is_argmax),
        cmocka_unit_test(test_session_beside_generations),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_preemption_in_single_rows),
        cmocka_unit_test(test_nothing_taken_in_vain),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
