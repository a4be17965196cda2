// Prefix reuse: a sequence that starts like one computed before takes its blocks, and no bit of its logits changes. The first
// difference stands at every block border and beside it.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/engine.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 300, LEN = 300 };

typedef struct pair { // the same model with and without reuse
    temp_folder folder;
    test_engine with, without;
} pair;

static pair pair_open(int cache_positions) {
    pair p = {.folder = temp_folder_make()};
    char path[300];
    snprintf(path, sizeof path, "%s/model.gguf", p.folder.path);
    tiny_random_gguf(path, DTYPE_Q5_0, false, 3);
    tally_engine_options o = {
        .threads = 2, .context = 512, .cache_positions = cache_positions, .step_rows = 40, .logit_rows = 16};
    p.with = test_engine_open(path, &o);
    o.no_prefix_reuse = true;
    p.without = test_engine_open(path, &o);
    return p;
}

static void pair_close(pair *p) {
    test_engine_close(&p->with);
    test_engine_close(&p->without);
    temp_folder_remove(&p->folder);
}

static void make_ids(int32_t *ids, int n, uint64_t seed) {
    for (int i = 0; i < n; i++) ids[i] = (int32_t)(hash_mix(seed * 1000 + (uint64_t)i) % VOCAB);
}

// Logits behind ids[0 .. n), from a fresh session.
static float *last_logits(const test_engine *e, const int32_t *ids, int n) {
    tally_error err;
    tally_session *s;
    const float *logits;
    float *copy = malloc(VOCAB * sizeof *copy);
    assert_non_null(copy);
    assert_int_equal(tally_session_open(&s, e->engine, &err), 0);
    assert_int_equal(tally_session_sync(s, ids, n, &err), 0);
    assert_int_equal(tally_session_logits(s, &logits, &err), 0);
    memcpy(copy, logits, VOCAB * sizeof *copy);
    tally_session_close(s);
    return copy;
}

static void same_logits(const pair *p, const int32_t *ids, int n, int number) {
    float *a = last_logits(&p->with, ids, n), *b = last_logits(&p->without, ids, n);
    if (memcmp(a, b, VOCAB * sizeof *a) != 0) fail_msg("case %d: reuse of a prefix changed the logits", number);
    free(a);
    free(b);
}

static void test_every_border(void **state) {
    (void)state;
    pair p = pair_open(8192);
    int32_t base[LEN];
    make_ids(base, LEN, 1);
    same_logits(&p, base, LEN, -1);
    for (int border = 0; border <= 256; border += KV_BLOCK) {
        for (int at = border - 1; at <= border + 1; at++) {
            if (at < 0) continue;
            int32_t ids[LEN];
            memcpy(ids, base, sizeof ids);
            ids[at] = (ids[at] + 1) % VOCAB;
            tally_stats before, after;
            tally_engine_stats(p.with.engine, &before);
            same_logits(&p, ids, LEN, at);
            tally_engine_stats(p.with.engine, &after);
            assert_int_equal(after.reused_positions - before.reused_positions,
                             at / KV_BLOCK * KV_BLOCK); // whole blocks before it
        }
    }
    for (int n = 1; n <= LEN; n += 21)
        same_logits(&p, base, n, n); // shorter than what is known: the last token is computed
    pair_close(&p);
}

// A cache that holds four sequences' worth of blocks: the index gives up what is oldest, and answers stay the same.
static void test_eviction(void **state) {
    (void)state;
    pair p = pair_open(1024);
    for (int round = 0; round < 40; round++) {
        int32_t ids[LEN];
        make_ids(ids, LEN, (uint64_t)(round % 2));
        make_ids(ids + 200, LEN - 200, (uint64_t)(100 + round));
        same_logits(&p, ids, LEN, round);
        tally_stats s;
        tally_engine_stats(p.with.engine, &s);
        assert_int_equal(s.blocks_in_use, 0); // sessions are closed: only the index holds blocks
        assert_true(s.blocks_kept <= s.blocks);
    }
    tally_stats s;
    tally_engine_stats(p.with.engine, &s);
    assert_true(s.reused_positions > 0);
    prefix_index_clear(&p.with.engine->prefixes);
    assert_int_equal(p.with.engine->blocks.n_free, p.with.engine->blocks.n_blocks);
    pair_close(&p);
}

// Many requests with a common beginning, together, greedy and sampled, also where the cache is too small for all of them.
static void requests(int cache_positions, bool sampled) {
    enum { N = 9, NEW = 40 };
    pair p = pair_open(cache_positions);
    int32_t ids[N][LEN];
    int n_ids[N];
    tally_generation *g[N];
    tally_error err;
    for (int i = 0; i < N; i++) {
        n_ids[i] = 70 + 13 * i;
        make_ids(ids[i], LEN, 5);
        make_ids(ids[i] + 65 + i % 3 * 64 % n_ids[i], 30, (uint64_t)i);
        tally_request r = {.ids = ids[i], .n_ids = n_ids[i], .max_tokens = NEW, .ignore_eos = true};
        if (sampled)
            r.sampling = (tally_sampling){
                .temperature = 1, .top_p = 0.9f, .seed = 11, .sample = (uint32_t)i, .repeat_penalty = 1.1f};
        assert_int_equal(tally_generate(p.with.engine, &r, &g[i], &err), 0);
    }
    for (bool idle = false; !idle;) assert_int_equal(tally_engine_step(p.with.engine, &idle, &err), 0);
    for (int i = 0; i < N; i++) { // each alone, without reuse
        tally_request r = {.ids = ids[i], .n_ids = n_ids[i], .max_tokens = NEW, .ignore_eos = true};
        if (sampled)
            r.sampling = (tally_sampling){
                .temperature = 1, .top_p = 0.9f, .seed = 11, .sample = (uint32_t)i, .repeat_penalty = 1.1f};
        tally_generation *alone;
        assert_int_equal(tally_generate(p.without.engine, &r, &alone, &err), 0);
        while (!tally_generation_done(alone)) assert_int_equal(tally_engine_step(p.without.engine, NULL, &err), 0);
        int n_a, n_b;
        const int32_t *a = tally_generation_ids(g[i], &n_a), *b = tally_generation_ids(alone, &n_b);
        assert_int_equal(n_a, NEW);
        assert_int_equal(n_b, NEW);
        if (memcmp(a, b, NEW * sizeof *a) != 0) fail_msg("request %d: together and alone differ", i);
        tally_generation_close(alone);
        tally_generation_close(g[i]);
    }
    tally_stats s;
    tally_engine_stats(p.with.engine, &s);
    assert_int_equal(s.blocks_in_use, 0);
    if (cache_positions < 600) assert_true(s.preemptions > 0);
    pair_close(&p);
}

static void test_requests_greedy(void **state) { (void)state, requests(4096, false); }
static void test_requests_sampled(void **state) { (void)state, requests(4096, true); }
static void test_requests_preempted(void **state) { (void)state, requests(512, false), requests(512, true); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_border),       cmocka_unit_test(test_eviction),
        cmocka_unit_test(test_requests_greedy),    cmocka_unit_test(test_requests_sampled),
        cmocka_unit_test(test_requests_preempted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
