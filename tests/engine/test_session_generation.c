// Generations that start from a session, as a chat does: a turn computes its new tokens only, and no bit of the output changes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/engine.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 300, TURNS = 20, NEW = 11, CONTEXT = 1024 };

typedef struct fixture {
    temp_folder folder;
    test_engine e, fresh; // fresh: no reuse of any kind
} fixture;

static fixture open_fixture(int cache_positions, bool no_prefix_reuse) {
    fixture f = {.folder = temp_folder_make()};
    char path[300];
    snprintf(path, sizeof path, "%s/model.gguf", f.folder.path);
    tiny_random_gguf(path, DTYPE_Q8_0, false, 3);
    tally_engine_options o = {.threads = 1,
                              .context = CONTEXT,
                              .cache_positions = cache_positions,
                              .step_rows = 40,
                              .speculation.mode = TALLY_SPEC_OFF, // rows are counted
                              .no_prefix_reuse = no_prefix_reuse};
    f.e = test_engine_open(path, &o);
    o.no_prefix_reuse = true;
    o.cache_positions = 0;
    f.fresh = test_engine_open(path, &o);
    return f;
}

static void close_fixture(fixture *f) {
    test_engine_close(&f->e);
    test_engine_close(&f->fresh);
    temp_folder_remove(&f->folder);
}

static int64_t rows_of(const tally_engine *e) {
    tally_stats s;
    tally_engine_stats(e, &s);
    return s.rows;
}

static int in_use(const tally_engine *e) {
    tally_stats s;
    tally_engine_stats(e, &s);
    return s.blocks_in_use;
}

static tally_generation *generate(tally_engine *e, const int32_t *ids, int n, bool sampled, tally_session *s) {
    tally_request r = {.ids = ids, .n_ids = n, .max_tokens = NEW, .ignore_eos = true, .session = s};
    if (sampled) r.sampling = (tally_sampling){.temperature = 1, .top_p = 0.9f, .seed = 5, .repeat_penalty = 1.1f};
    tally_error err;
    tally_generation *g;
    if (tally_generate(e, &r, &g, &err) != TALLY_OK) fail_msg("%s", err.text);
    while (!tally_generation_done(g)) assert_int_equal(tally_engine_step(e, NULL, &err), 0);
    return g;
}

static void same_ids(const tally_generation *a, const tally_generation *b, int turn) {
    int n_a, n_b;
    const int32_t *x = tally_generation_ids(a, &n_a), *y = tally_generation_ids(b, &n_b);
    assert_int_equal(n_a, NEW);
    assert_int_equal(n_b, NEW);
    if (memcmp(x, y, NEW * sizeof *x) != 0) fail_msg("turn %d: the session changed the answer", turn);
}

// A conversation: every turn's prompt is all that was said, and some new tokens.
static void conversation(bool sampled, bool no_prefix_reuse) {
    fixture f = open_fixture(CONTEXT + KV_BLOCK, no_prefix_reuse);
    int32_t ids[CONTEXT];
    int n = 0;
    tally_session *s;
    tally_error err;
    assert_int_equal(tally_session_open(&s, f.e.engine, &err), 0);
    for (int turn = 0; turn < TURNS; turn++) {
        int added = 5 + turn * 7 % 30, known = tally_session_length(s);
        for (int i = 0; i < added; i++) ids[n++] = (int32_t)(hash_mix((uint64_t)(turn * 100 + i)) % VOCAB);
        int64_t before = rows_of(f.e.engine);
        tally_generation *g = generate(f.e.engine, ids, n, sampled, s),
                         *alone = generate(f.fresh.engine, ids, n, sampled, NULL);
        same_ids(g, alone, turn);
        // the last token of the turn before was chosen but never computed; the last of this one is not computed either
        assert_int_equal(rows_of(f.e.engine) - before, added + (turn > 0) + NEW - 1);
        assert_int_equal(known, turn ? n - added : 0);
        assert_int_equal(tally_session_adopt(s, g, &err), 0);
        int n_new;
        memcpy(ids + n, tally_generation_ids(g, &n_new), NEW * sizeof *ids);
        n += NEW;
        assert_int_equal(tally_session_length(s), n);
        tally_generation_close(g);
        tally_generation_close(alone);
        assert_int_equal(in_use(f.e.engine), (n - 1 + KV_BLOCK - 1) / KV_BLOCK); // nothing is held twice
    }
    const float *logits; // the session is a session still: its logits are those of a fresh one
    assert_int_equal(tally_session_logits(s, &logits, &err), 0);
    float *all = test_eval(&f.fresh, ids, n, 16);
    assert_memory_equal(logits, all + (size_t)(n - 1) * VOCAB, VOCAB * sizeof *logits);
    free(all);
    tally_session_close(s);
    assert_int_equal(in_use(f.e.engine), 0);
    close_fixture(&f);
}

static void test_conversation_greedy(void **state) { (void)state, conversation(false, false); }
static void test_conversation_sampled(void **state) { (void)state, conversation(true, true); }

// A template that rewrites what was said: the session is cut at the first difference, wherever it stands.
static void test_rewritten_history(void **state) {
    (void)state;
    fixture f = open_fixture(CONTEXT, true);
    enum { LEN = 200 };
    int32_t base[LEN], ids[LEN];
    for (int i = 0; i < LEN; i++) base[i] = (int32_t)(hash_mix((uint64_t)i) % VOCAB);
    static const int places[] = {0, 1, 62, 63, 64, 65, 127, 128, 129, 198, 199};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        tally_session *s;
        tally_error err;
        assert_int_equal(tally_session_open(&s, f.e.engine, &err), 0);
        assert_int_equal(tally_session_sync(s, base, LEN, &err), 0);
        memcpy(ids, base, sizeof ids);
        ids[places[p]] = (ids[places[p]] + 1) % VOCAB;
        int64_t before = rows_of(f.e.engine);
        tally_generation *g = generate(f.e.engine, ids, LEN, false, s),
                         *alone = generate(f.fresh.engine, ids, LEN, false, NULL);
        same_ids(g, alone, places[p]);
        assert_int_equal(rows_of(f.e.engine) - before, LEN - places[p] + NEW - 1);
        assert_int_equal(tally_session_length(s), places[p]); // cut to what is shared
        tally_session_close(s);
        tally_generation_close(g);
        tally_generation_close(alone);
    }
    assert_int_equal(in_use(f.e.engine), 0);
    close_fixture(&f);
}

// Several samples start from one session's prompt; the session serves all of them and is not disturbed.
static void test_one_session_many_generations(void **state) {
    (void)state;
    fixture f = open_fixture(4 * CONTEXT, true);
    enum { LEN = 100, N = 5 };
    int32_t ids[LEN];
    for (int i = 0; i < LEN; i++) ids[i] = (int32_t)(hash_mix((uint64_t)(i + 7)) % VOCAB);
    tally_session *s;
    tally_error err;
    const float *logits;
    float before[VOCAB];
    assert_int_equal(tally_session_open(&s, f.e.engine, &err), 0);
    assert_int_equal(tally_session_sync(s, ids, LEN, &err), 0);
    assert_int_equal(tally_session_logits(s, &logits, &err), 0);
    memcpy(before, logits, sizeof before);
    tally_generation *g[N];
    for (int i = 0; i < N; i++) {
        tally_request r = {.ids = ids,
                           .n_ids = LEN,
                           .max_tokens = NEW,
                           .ignore_eos = true,
                           .session = s,
                           .sampling = {.temperature = 1, .seed = 3, .sample = (uint32_t)i}};
        assert_int_equal(tally_generate(f.e.engine, &r, &g[i], &err), 0);
    }
    int64_t rows = rows_of(f.e.engine);
    for (bool idle = false; !idle;) assert_int_equal(tally_engine_step(f.e.engine, &idle, &err), 0);
    assert_int_equal(rows_of(f.e.engine) - rows, N * NEW);
    for (int i = 0; i < N; i++) {
        tally_request r = {.ids = ids,
                           .n_ids = LEN,
                           .max_tokens = NEW,
                           .ignore_eos = true,
                           .sampling = {.temperature = 1, .seed = 3, .sample = (uint32_t)i}};
        tally_generation *alone;
        assert_int_equal(tally_generate(f.fresh.engine, &r, &alone, &err), 0);
        while (!tally_generation_done(alone)) assert_int_equal(tally_engine_step(f.fresh.engine, NULL, &err), 0);
        same_ids(g[i], alone, i);
        tally_generation_close(alone);
        tally_generation_close(g[i]);
    }
    assert_int_equal(tally_session_logits(s, &logits, &err), 0);
    assert_memory_equal(logits, before, sizeof before);
    tally_session_close(s);
    close_fixture(&f);
}

static void test_refusals(void **state) {
    (void)state;
    fixture f = open_fixture(256, true);
    tally_session *other;
    tally_error err;
    tally_generation *g;
    int32_t ids[300] = {0};
    assert_int_equal(tally_session_open(&other, f.fresh.engine, &err), 0);
    tally_request r = {.ids = ids, .n_ids = 3, .max_tokens = 4, .session = other, .ignore_eos = true};
    assert_int_equal(tally_generate(f.e.engine, &r, &g, &err), TALLY_BAD_ARGUMENT);
    r.session = NULL;
    assert_int_equal(tally_generate(f.e.engine, &r, &g, &err), 0);
    assert_int_equal(tally_session_adopt(other, g, &err), TALLY_BAD_ARGUMENT);
    r.n_ids = 257; // longer than the whole cache: refused while others go on
    tally_generation *none;
    assert_int_equal(tally_generate(f.e.engine, &r, &none, &err), TALLY_FULL);
    assert_null(none);
    r.n_ids = 250; // outgrows the cache: ends with what it has, and the other is not disturbed
    r.max_tokens = 50;
    tally_generation *big;
    assert_int_equal(tally_generate(f.e.engine, &r, &big, &err), 0);
    for (bool idle = false; !idle;) assert_int_equal(tally_engine_step(f.e.engine, &idle, &err), 0);
    assert_string_equal(tally_generation_finish_reason(g), "length");
    assert_string_equal(tally_generation_finish_reason(big), "error");
    assert_int_equal(tally_generation_status(big, &err), TALLY_FULL);
    tally_generation_close(big);
    tally_generation_close(g);
    tally_session_close(other);
    assert_int_equal(in_use(f.e.engine), 0);
    close_fixture(&f);
}

// With a cache of the default size an answer that goes on from a session's last block may fill the context, down to its last position.
static void test_up_to_the_context(void **state) {
    (void)state;
    fixture f = open_fixture(0, true);
    int32_t ids[CONTEXT];
    for (int i = 0; i < CONTEXT; i++) ids[i] = (int32_t)(hash_mix((uint64_t)i) % VOCAB);
    tally_session *s;
    tally_error err = {0};
    assert_int_equal(tally_session_open(&s, f.e.engine, &err), 0);
    assert_int_equal(tally_session_sync(s, ids, CONTEXT - NEW - 2, &err), 0);
    tally_generation *g = generate(f.e.engine, ids, CONTEXT - NEW, false, s);
    if (tally_generation_status(g, &err)) fail_msg("%s", err.text);
    assert_string_equal(tally_generation_finish_reason(g), "length");
    tally_generation_close(g);
    tally_session_close(s);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversation_greedy),
        cmocka_unit_test(test_conversation_sampled),
        cmocka_unit_test(test_rewritten_history),
        cmocka_unit_test(test_one_session_many_generations),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_up_to_the_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
