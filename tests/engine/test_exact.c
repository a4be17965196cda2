// The exactness contract (docs/exactness.md), bitwise, on tiny random models of every weight type, dense and MoE.
//
// One reference per model: every position computed alone, one thread, the unfused list. Everything that exists to go faster has to
// give the same bits: widths 1..17 and larger chunks, at every past length where tiles, blocks and pieces end; two threads; fused
// lists; every kernel level; sequences side by side in one step; rewinding and growing again; snapshots and forks.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/engine.h"
#include "tests/support/eval.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { N_IDS = 1100, VOCAB = 300, SHORT = 200 };

typedef struct fixture {
    temp_folder folder;
    char path[300];
    int32_t ids[N_IDS];
    float *reference; // [n][VOCAB]
    int n;
} fixture;

static void make_ids(int32_t *ids, int n, uint64_t seed) {
    for (int i = 0; i < n; i++) ids[i] = (int32_t)(hash_mix(seed + (uint64_t)i) % VOCAB);
}

static tally_engine_options options(int threads, const char *level, bool fuse) {
    return (tally_engine_options){.threads = threads,
                                  .cpu_level = level,
                                  .no_fuse = !fuse,
                                  .context = 2048,
                                  .cache_positions = 8192,
                                  .no_prefix_reuse = true,
                                  .step_rows = 128,
                                  .logit_rows = 128};
}

static fixture fixture_make(dtype type, bool moe, int n, const tally_engine_options *o) {
    fixture f = {.folder = temp_folder_make(), .n = n};
    snprintf(f.path, sizeof f.path, "%s/model.gguf", f.folder.path);
    tiny_random_gguf(f.path, type, moe, 7);
    make_ids(f.ids, N_IDS, 1);
    test_engine e = test_engine_open(f.path, o);
    f.reference = test_eval(&e, f.ids, n, 1);
    test_engine_close(&e);
    return f;
}

static void fixture_free(fixture *f) {
    free(f->reference);
    temp_folder_remove(&f->folder);
}

static void same_rows(const fixture *f, const float *logits, int first, int n, const char *what, int number) {
    for (int i = 0; i < n; i++) {
        if (memcmp(logits + (size_t)i * VOCAB, f->reference + (size_t)(first + i) * VOCAB, VOCAB * sizeof *logits) !=
            0) {
            fail_msg("%s %d: the logits of position %d differ from those of a single step", what, number, first + i);
        }
    }
}

static void eval_in_chunks(const fixture *f, const tally_engine_options *o, int n, const int *chunks, int n_chunks,
                           const char *what) {
    test_engine e = test_engine_open(f->path, o);
    for (int c = 0; c < n_chunks; c++) {
        float *logits = test_eval(&e, f->ids, n, chunks[c]);
        same_rows(f, logits, 0, n, what, chunks[c]);
        free(logits);
    }
    test_engine_close(&e);
}

// ---- test 2: row equality ------------------------------------------------------------------------------------------------

static void check_type(dtype type, bool moe) {
    tally_engine_options plain = options(1, NULL, false), two = options(2, NULL, true), one = options(1, NULL, true);
    fixture f = fixture_make(type, moe, SHORT, &plain);
    static const int some[] = {7, 17, 128, 1, 2, 3, 16, 31, 32, 33, 65};
    const int n = SANITIZED ? 3 : sizeof some / sizeof *some;
    eval_in_chunks(&f, &one, SHORT, some, n, dtype_get(type)->name);
    eval_in_chunks(&f, &two, SHORT, some, n, "two threads, chunk");
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        if (!cpu_level_available((cpu_level)level) || !cpu_level_is_common((cpu_level)level)) continue;
        tally_engine_options o = options(2, cpu_level_name((cpu_level)level), true);
        eval_in_chunks(&f, &o, level == CPU_LEVEL_SCALAR ? 40 : SHORT, (int[]){5, 64},
                       level == CPU_LEVEL_SCALAR ? 1 : 2, cpu_level_name((cpu_level)level));
    }
    fixture_free(&f);
}

static void test_every_type_dense(void **state) {
    (void)state;
    for (int t = 0; t < DTYPE_COUNT; t += THREADS_WATCHED ? 5 : 1) {
        if (t != DTYPE_I32) check_type((dtype)t, false);
    }
}

static void test_every_type_moe(void **state) {
    (void)state;
    for (int t = 0; t < DTYPE_COUNT; t += THREADS_WATCHED ? 5 : 1) {
        if (t != DTYPE_I32) check_type((dtype)t, true);
    }
}

// A level with an order sheet of its own for BF16 weights has other bits, but the same ones for every chunk and thread.
static void test_levels_of_their_own(void **state) {
    (void)state;
    int ran = 0;
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        if (cpu_level_is_common((cpu_level)level) || !cpu_level_available((cpu_level)level)) continue;
        ran++;
        for (int moe = 0; moe < 2; moe++) {
            const char *name = cpu_level_name((cpu_level)level);
            tally_engine_options o = options(1, name, false), other = options(2, name, true);
            fixture f = fixture_make(DTYPE_BF16, moe, SHORT, &o), common = f;
            eval_in_chunks(&f, &other, SHORT, (int[]){1, 2, 3, 7, 16, 17, 33, 128}, 8, name);
            o = options(2, NULL, true);
            test_engine e = test_engine_open(f.path, &o);
            common.reference = test_eval(&e, f.ids, SHORT, 64);
            test_engine_close(&e);
            double most = 0, size = 0;
            for (int i = 0; i < SHORT * VOCAB; i++) {
                most = fmax(most, fabs((double)f.reference[i] - (double)common.reference[i]));
                size = fmax(size, fabs((double)f.reference[i]));
            }
            print_message("%s: logits differ from the common ones by %.2g of the largest\n", name, most / size);
            assert_true(most > 0 && (moe || most < 0.05 * size)); // a router may turn to other experts
            free(common.reference);
            fixture_free(&f);
        }
    }
    if (!ran) skip();
}

// Every width 1..17 at past lengths on and beside the borders of panels (16), blocks (64) and pieces (256).
static void widths_at_depths(dtype type, dtype cache) {
    static const int depths[] = {0,   1,   15,  16,  17,  63,  64,  65,   127,  128,
                                 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025};
    tally_engine_options o = options(1, NULL, false);
    o.cache_k = o.cache_v = dtype_get(cache)->name;
    const int n_depths = THREADS_WATCHED ? 9 : sizeof depths / sizeof *depths;
    fixture f = fixture_make(type, false, THREADS_WATCHED ? SHORT : N_IDS, &o);
    o = options(2, NULL, true);
    o.cache_k = o.cache_v = dtype_get(cache)->name;
    test_engine e = test_engine_open(f.path, &o);
    tally_error err;
    tally_session *s;
    assert_int_equal(tally_session_open(&s, e.engine, &err), 0);
    for (int d = 0; d < n_depths; d++) {
        for (int width = 1; width <= 17; width += SANITIZED ? 8 : 1) {
            assert_int_equal(tally_session_sync(s, f.ids, depths[d], &err), 0);
            float *logits = malloc((size_t)(depths[d] + width) * VOCAB * sizeof *logits);
            assert_non_null(logits);
            assert_int_equal(tally_session_length(s), depths[d]);
            assert_int_equal(tally_session_eval(s, f.ids + depths[d], width, width, test_collect, logits, &err), 0);
            same_rows(&f, logits + (size_t)depths[d] * VOCAB, depths[d], width, "width", width);
            free(logits);
        }
    }
    tally_session_close(s);
    test_engine_close(&e);
    fixture_free(&f);
}

static void test_widths_f32(void **state) { (void)state, widths_at_depths(DTYPE_F32, DTYPE_F32); }
static void test_widths_bf16(void **state) { (void)state, widths_at_depths(DTYPE_BF16, DTYPE_BF16); }
static void test_widths_q4_k(void **state) { (void)state, widths_at_depths(DTYPE_Q4_K, DTYPE_F16); }
static void test_widths_q8_0(void **state) { (void)state, widths_at_depths(DTYPE_Q8_0, DTYPE_Q8_0); }

// ---- test 3: causality ---------------------------------------------------------------------------------------------------

// A changed token leaves the rows before it as they were and changes its own. In a float model it changes every row behind it too
// (int8 activations may round a faint influence away).
static void check_causality(dtype type, bool moe) {
    tally_engine_options o = options(2, NULL, true);
    fixture f = fixture_make(type, moe, SHORT, &o);
    test_engine e = test_engine_open(f.path, &o);
    for (int j = 0; j < SHORT; j += 37) {
        int32_t ids[SHORT];
        memcpy(ids, f.ids, sizeof ids);
        ids[j] = (ids[j] + 1) % VOCAB;
        float *logits = test_eval(&e, ids, SHORT, 17);
        same_rows(&f, logits, 0, j, "rows before the changed token", j);
        int last = type == DTYPE_F32 ? SHORT : j + 1;
        for (int r = j; r < last; r++) {
            if (memcmp(logits + (size_t)r * VOCAB, f.reference + (size_t)r * VOCAB, VOCAB * sizeof *logits) == 0) {
                fail_msg("changing token %d leaves row %d as it was", j, r);
            }
        }
        free(logits);
    }
    test_engine_close(&e);
    fixture_free(&f);
}

static void test_causality(void **state) {
    (void)state;
    check_causality(DTYPE_F32, false);
    check_causality(DTYPE_Q5_K, true);
}

// ---- tests 4 and 5: the cache's bytes ------------------------------------------------------------------------------------

// All blocks of a sequence, positions beyond its length poisoned, so that only what counts is compared.
static unsigned char *cache_bytes(tally_engine *e, sequence *s, size_t *n) {
    const backend_vtable *vt = e->plan.device->vt;
    int64_t block = vt->block_bytes(e->plan.device, &e->plan.model.cache);
    *n = (size_t)(block * s->cache.n_blocks);
    unsigned char *bytes = malloc(*n + 1);
    assert_non_null(bytes);
    for (int i = 0; i < s->cache.n_blocks; i++) {
        if (s->cache.length < (i + 1) * KV_BLOCK)
            vt->block_poison(e->plan.device, s->cache.block[i], s->cache.length - i * KV_BLOCK);
        vt->block_read(e->plan.device, s->cache.block[i], bytes + block * i);
    }
    return bytes;
}

static void grow(tally_engine *e, sequence *s, const int32_t *ids, int n, int chunk) {
    error err;
    assert_int_equal(sequence_append(e, s, ids, n, &err), STATUS_OK);
    while (s->cache.length < s->n_tokens) {
        int rows = s->n_tokens - s->cache.length < chunk ? s->n_tokens - s->cache.length : chunk;
        assert_true(block_table_reserve(&s->cache, rows));
        step_part part = {.seq = s, .n_rows = rows, .last_logits = true};
        part_result r;
        assert_int_equal(engine_run_parts(e, &part, 1, &r, &err), STATUS_OK);
        assert_int_equal(r.fault.code, STATUS_OK);
    }
}

static void same_cache(tally_engine *e, sequence *a, sequence *b, const char *what) {
    size_t n_a, n_b;
    unsigned char *x = cache_bytes(e, a, &n_a), *y = cache_bytes(e, b, &n_b);
    assert_int_equal(n_a, n_b);
    if (memcmp(x, y, n_a) != 0) fail_msg("%s: cached keys and values differ at length %d", what, a->cache.length);
    free(x);
    free(y);
}

static void test_rewind(void **state) {
    (void)state;
    tally_engine_options o = options(2, NULL, true);
    fixture f = fixture_make(DTYPE_BF16, false, 1, &o);
    test_engine t = test_engine_open(f.path, &o);
    tally_engine *e = t.engine;
    error err;
    int32_t wrong[17];
    make_ids(wrong, 17, 99);
    sequence s, fresh;
    assert_int_equal(sequence_init(&s, e, &err), STATUS_OK);
    grow(e, &s, f.ids, 50, 17);
    for (int cycle = 0; cycle < 60;
         cycle++) { // drafts of 0..16 tokens of which 0..all are kept, then the true next token
        int drafted = cycle % 17, kept = drafted ? (int)(hash_mix((uint64_t)cycle) % (uint64_t)(drafted + 1)) : 0,
            at = s.n_tokens;
        int32_t guess[18];
        for (int i = 0; i < drafted; i++) guess[i] = i < kept ? f.ids[at + i] : wrong[i];
        guess[drafted] = f.ids[at];
        if (drafted) grow(e, &s, guess, drafted, drafted);
        s.n_tokens = at + kept;
        block_table_truncate(&s.cache, at + kept);
        if (s.cache.n_blocks && s.cache.length % KV_BLOCK) { // what was rejected must not matter
            e->plan.device->vt->block_poison(e->plan.device, s.cache.block[s.cache.n_blocks - 1],
                                             s.cache.length % KV_BLOCK);
        }
        grow(e, &s, f.ids + s.n_tokens, 1, 1);
        assert_int_equal(sequence_init(&fresh, e, &err), STATUS_OK);
        grow(e, &fresh, f.ids, s.n_tokens, 128);
        same_cache(e, &s, &fresh, "after a rewind");
        sequence_deinit(&fresh);
    }
    sequence_deinit(&s);
    assert_int_equal(e->blocks.n_free, e->blocks.n_blocks);
    test_engine_close(&t);
    fixture_free(&f);
}

// ---- several sequences in one step ---------------------------------------------------------------------------------------

static void test_side_by_side(void **state) {
    (void)state;
    tally_engine_options o = options(2, NULL, true);
    fixture f = fixture_make(DTYPE_Q6_K, true, SHORT, &o);
    test_engine t = test_engine_open(f.path, &o);
    tally_engine *e = t.engine;
    enum { SEQS = 4 };
    static const int lengths[SEQS] = {150, 3, 77, 64}, rows[SEQS] = {17, 1, 30, 5};
    sequence s[SEQS];
    error err;
    for (int i = 0; i < SEQS; i++) {
        assert_int_equal(sequence_init(&s[i], e, &err), STATUS_OK);
        assert_int_equal(sequence_append(e, &s[i], f.ids, lengths[i], &err), STATUS_OK);
    }
    for (bool more = true; more;) {
        step_part parts[SEQS];
        int owner[SEQS], n = 0;
        for (int i = 0; i < SEQS; i++) {
            int left = s[i].n_tokens - s[i].cache.length;
            if (left == 0) continue;
            parts[n] = (step_part){.seq = &s[i], .n_rows = left < rows[i] ? left : rows[i], .all_logits = true};
            assert_true(block_table_reserve(&s[i].cache, parts[n].n_rows));
            owner[n++] = i;
        }
        more = n > 0;
        if (!more) break;
        part_result results[SEQS];
        assert_int_equal(engine_run_parts(e, parts, n, results, &err), STATUS_OK);
        for (int p = 0; p < n; p++)
            same_rows(&f, results[p].logits, s[owner[p]].cache.length - parts[p].n_rows, parts[p].n_rows, "sequence",
                      owner[p]);
    }
    for (int i = 0; i < SEQS; i++) sequence_deinit(&s[i]);
    test_engine_close(&t);
    fixture_free(&f);
}

// ---- snapshots and forks -------------------------------------------------------------------------------------------------

static void test_snapshot_and_fork(void **state) {
    (void)state;
    tally_engine_options o = options(2, NULL, true);
    fixture f = fixture_make(DTYPE_Q4_0, false, SHORT, &o);
    test_engine t = test_engine_open(f.path, &o);
    tally_error err;
    static const int lengths[] = {1, 63, 64, 65, 150};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int n = lengths[i];
        tally_session *a, *b, *c;
        void *bytes;
        size_t size;
        const float *logits;
        assert_int_equal(tally_session_open(&a, t.engine, &err), 0);
        assert_int_equal(tally_session_sync(a, f.ids, n, &err), 0);
        assert_int_equal(tally_session_save(a, &bytes, &size, &err), 0);
        assert_int_equal(tally_session_fork(&b, a, &err), 0);
        int32_t other = (f.ids[n] + 1) % VOCAB; // the first goes another way; the shared past must not notice
        float *sink = malloc((size_t)(n + 1) * VOCAB * sizeof *sink);
        assert_non_null(sink);
        assert_int_equal(tally_session_eval(a, &other, 1, 1, test_collect, sink, &err), 0);
        assert_int_equal(tally_session_sync(b, f.ids, n + 1, &err), 0);
        assert_int_equal(tally_session_logits(b, &logits, &err), 0);
        same_rows(&f, logits, n, 1, "a fork at length", n);
        assert_int_equal(tally_session_open(&c, t.engine, &err), 0);
        assert_int_equal(tally_session_restore(c, bytes, size, &err), 0);
        assert_int_equal(tally_session_length(c), n);
        assert_int_equal(tally_session_sync(c, f.ids, n + 1, &err), 0);
        assert_int_equal(tally_session_logits(c, &logits, &err), 0);
        same_rows(&f, logits, n, 1, "a restored snapshot of length", n);
        assert_int_not_equal(tally_session_restore(c, bytes, size - 1, &err), 0);
        tally_session_close(a);
        tally_session_close(b);
        tally_session_close(c);
        free(sink);
        tally_free(bytes);
    }
    assert_int_equal(t.engine->blocks.n_free, t.engine->blocks.n_blocks);
    test_engine_close(&t);
    fixture_free(&f);
}

// The caller's rounding changes nothing, be it set before the model is opened or for the steps alone.
static void test_rounding_of_the_caller(void **state) {
    (void)state;
    tally_engine_options o = options(2, NULL, true);
    static const int modes[] = {FE_TOWARDZERO, FE_UPWARD};
    for (int m = 0; m < 2; m++) {
        fixture f = fixture_make(DTYPE_Q4_K, true, SHORT, &o);
        assert_int_equal(fesetround(modes[m]), 0);
        test_engine e = test_engine_open(f.path, &o);
        float *logits = test_eval(&e, f.ids, SHORT, 7);
        test_engine_close(&e);
        assert_int_equal(fegetround(), modes[m]);
        fesetround(FE_TONEAREST);
        same_rows(&f, logits, 0, SHORT, "rounding", modes[m]);
        free(logits);
        fixture_free(&f);
    }
}

static void test_snapshot_of_another_file(void **state) {
    (void)state;
    tally_engine_options o = options(2, NULL, true);
    fixture f = fixture_make(DTYPE_Q4_0, false, SHORT, &o);
    test_engine t = test_engine_open(f.path, &o);
    tally_error err;
    tally_session *a;
    void *bytes;
    size_t size;
    assert_int_equal(tally_session_open(&a, t.engine, &err), 0);
    assert_int_equal(tally_session_sync(a, f.ids, SHORT - 1, &err), 0);
    assert_int_equal(tally_session_save(a, &bytes, &size, &err), 0);
    tally_session_close(a);
    test_engine_close(&t);
    for (int seed = 7; seed <= 8; seed++) { // the same weights under another name, then others of the same shapes
        char path[600];
        snprintf(path, sizeof path, "%s/moved-%d.gguf", f.folder.path, seed);
        tiny_random_gguf(path, DTYPE_Q4_0, false, (uint64_t)seed);
        t = test_engine_open(path, &o);
        const float *logits;
        assert_int_equal(tally_session_open(&a, t.engine, &err), 0);
        tally_status st = tally_session_restore(a, bytes, size, &err);
        if (seed == 7) {
            assert_int_equal(st, 0);
            assert_int_equal(tally_session_sync(a, f.ids, SHORT, &err), 0);
            assert_int_equal(tally_session_logits(a, &logits, &err), 0);
            same_rows(&f, logits, SHORT - 1, 1, "a snapshot under another name", seed);
        } else {
            assert_int_equal(st, TALLY_BAD_ARGUMENT);
            assert_non_null(strstr(err.text, "another model"));
        }
        tally_session_close(a);
        test_engine_close(&t);
    }
    tally_free(bytes);
    fixture_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_dense),
        cmocka_unit_test(test_every_type_moe),
        cmocka_unit_test(test_levels_of_their_own),
        cmocka_unit_test(test_widths_f32),
        cmocka_unit_test(test_widths_bf16),
        cmocka_unit_test(test_widths_q4_k),
        cmocka_unit_test(test_widths_q8_0),
        cmocka_unit_test(test_causality),
        cmocka_unit_test(test_rewind),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_snapshot_and_fork),
        cmocka_unit_test(test_snapshot_of_another_file),
        cmocka_unit_test(test_rounding_of_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
