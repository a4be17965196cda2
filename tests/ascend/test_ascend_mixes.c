// Attention's blocks on the emulated NPU: rows at and beside the borders of 64, 256, 512 and 1,024 positions, in widths from 1 to
// 17, behind a past that was computed in chunks of any size, in steps with other sequences of other lengths, give the bits that each
// position gives alone. Order of sums perturbed, by 20 orders of the device's work.
//
// An attention call sees the 64 positions of one cache block and the blocks up to it (docs/ascend.md), so these are all the borders
// there are: of a block, of several blocks, and of the product tile, wherever a chunk ends.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ascend/internal.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "tests/support/emulated.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 300, MOST_IDS = 1056, WIDTHS = 17, STEP = 128, PARTS = 5, FIRST = 82, AROUND = 19 };

// Lengths of the past; the windows with a reference are [0, FIRST) and AROUND positions from each of the first of three.
static const int pasts[] = {0, 1, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025};
enum { N_PASTS = sizeof pasts / sizeof *pasts };

typedef struct mixes {
    temp_folder folder;
    char path[300];
    int32_t ids[MOST_IDS];
    bool known[MOST_IDS];
    float *reference; // [MOST_IDS][VOCAB]
    emulated emu;
    test_engine t;
    int most; // positions that this test goes to
    char device[100];
    uint64_t random;
} mixes;

static int pick(mixes *m, int n) { return (int)(hash_mix(m->random++) % (uint64_t)n); }

static void open_engine(mixes *m, bool graphs) {
    const tally_engine_options o = {.threads = 1,
                                    .context = MOST_IDS,
                                    .cache_positions = 4096,
                                    .no_prefix_reuse = true,
                                    .step_rows = STEP,
                                    .logit_rows = STEP,
                                    .graph = graphs ? NULL : "off",
                                    .device = m->device};
    m->t = test_engine_open(m->path, &o);
}

static void close_engine(mixes *m) {
    assert_true(((const ascend_backend *)m->t.engine->plan.device)->call.growths == 0);
    assert_int_equal(m->t.engine->blocks.n_free, m->t.engine->blocks.n_blocks);
    test_engine_close(&m->t);
    emulated_next(&m->emu);
}

// ---- sequences ---------------------------------------------------------------------------------------------------------------

static sequence make_sequence(mixes *m, const sequence *past, int length, int n_ids) {
    sequence s;
    error err;
    assert_int_equal(sequence_init(&s, m->t.engine, &err), STATUS_OK);
    assert_int_equal(sequence_append(m->t.engine, &s, m->ids, n_ids, &err), STATUS_OK);
    if (past) block_table_fork(&s.cache, &past->cache);
    block_table_truncate(&s.cache, length);
    return s;
}

// A step with n rows of each part; rows whose reference is known have to equal it.
static void run_step(mixes *m, step_part *parts, int n_parts, const char *what) {
    part_result results[PARTS];
    int from[PARTS];
    error err;
    for (int i = 0; i < n_parts; i++) {
        from[i] = parts[i].seq->cache.length;
        assert_true(block_table_reserve(&parts[i].seq->cache, parts[i].n_rows));
    }
    if (engine_run_parts(m->t.engine, parts, n_parts, results, &err)) fail_msg("%s: %s", m->device, err.text);
    for (int i = 0; i < n_parts; i++) {
        for (int r = 0; r < parts[i].n_rows; r++) {
            size_t at = (size_t)(from[i] + r) * VOCAB;
            const float *row = results[i].logits + (size_t)r * VOCAB;
            if (!m->known[from[i] + r]) continue;
            if (memcmp(row, m->reference + at, VOCAB * sizeof *row) != 0)
                fail_msg("%s, %s: position %d, row %d of %d behind %d positions, part %d of %d, differs from a step of "
                         "its own",
                         m->device, what, from[i] + r, r, parts[i].n_rows, from[i], i, n_parts);
        }
    }
}

static void advance(mixes *m, sequence *s, int to, int chunk) {
    while (s->cache.length < to) {
        int left = to - s->cache.length, n = left < chunk ? left : chunk;
        char what[40];
        snprintf(what, sizeof what, "chunks of %d", chunk);
        run_step(m, &(step_part){.seq = s, .n_rows = n, .all_logits = true}, 1, what);
    }
}

// ---- the reference -------------------------------------------------------------------------------------------------------------

static void alone(mixes *m, sequence *s) {
    part_result result;
    error err;
    step_part part = {.seq = s, .n_rows = 1, .all_logits = true};
    int pos = s->cache.length;
    assert_true(block_table_reserve(&s->cache, 1));
    if (engine_run_parts(m->t.engine, &part, 1, &result, &err)) fail_msg("%s: %s", m->device, err.text);
    memcpy(m->reference + (size_t)pos * VOCAB, result.logits, VOCAB * sizeof *m->reference);
    m->known[pos] = true;
}

static void make_reference(mixes *m) {
    open_engine(m, false);
    sequence s = make_sequence(m, NULL, 0, MOST_IDS);
    while (s.cache.length < FIRST) alone(m, &s);
    for (int from = 255; from < m->most; from = from * 2 + 1) {
        advance(m, &s, from, KV_BLOCK);
        while (s.cache.length < from + AROUND) alone(m, &s);
    }
    sequence_deinit(&s);
    close_engine(m);
}

static mixes mixes_open(const char *device, dtype type, bool moe, int most) {
    mixes m = {.folder = temp_folder_make(), .emu = emulated_open(), .most = most};
    m.emu.reset(); // what a failed test left
    snprintf(m.path, sizeof m.path, "%s/model.gguf", m.folder.path);
    snprintf(m.device, sizeof m.device, "%s", device);
    tiny_random_gguf_heads(m.path, type, moe, 16, 7);
    for (int i = 0; i < MOST_IDS; i++) m.ids[i] = (int32_t)(hash_mix(77 + (uint64_t)i) % VOCAB);
    m.reference = malloc((size_t)MOST_IDS * VOCAB * sizeof *m.reference);
    assert_non_null(m.reference);
    make_reference(&m);
    return m;
}

static void mixes_close(mixes *m) {
    emulated_close(&m->emu);
    free(m->reference);
    temp_folder_remove(&m->folder);
}

// ---- steps of several sequences --------------------------------------------------------------------------------------------------

// A past and a width: every one is wanted once, in whatever company.
typedef struct combo {
    int length, width;
} combo;

// Pasts [first, last) of the table, each in every step-th width, but the next past in the widths behind those: `step` neighbours have them
// all. By n_seeds orders of the device's work.
typedef struct share {
    int first, last, step, n_seeds;
} share;

// Those of seed number k, in any order.
static int shuffle(mixes *m, const share *of, int k, combo *out) {
    int n = 0, seen = 0;
    for (int i = 0; i < (of->last - of->first) * WIDTHS; i++) {
        int width = 1 + i % WIDTHS;
        if ((width + i / WIDTHS) % of->step || seen++ % of->n_seeds != k) continue;
        int at = pick(m, n + 1);
        if (at < n) out[n] = out[at];
        n++;
        out[at] = (combo){pasts[of->first + i / WIDTHS], width};
    }
    return n;
}

// Some of them in one step, perhaps beside the first chunk of a prompt.
static void check_step(mixes *m, const sequence *past, const combo *all, int n) {
    sequence s[PARTS];
    step_part parts[PARTS];
    for (int i = 0; i < n; i++) {
        s[i] = make_sequence(m, all[i].length ? past : NULL, all[i].length, all[i].length + all[i].width);
        parts[i] = (step_part){.seq = &s[i], .n_rows = all[i].width, .all_logits = true};
    }
    if (n < PARTS && pick(m, 4) == 0) {
        int rows = 18 + pick(m, 20);
        s[n] = make_sequence(m, NULL, 0, rows);
        parts[n] = (step_part){.seq = &s[n], .n_rows = rows, .all_logits = true};
        n++;
    }
    run_step(m, parts, n, "a mix");
    for (int i = 0; i < n; i++) sequence_deinit(&s[i]);
}

static void check_seed(mixes *m, const share *of, int k, int seed, const char *device) {
    static const int chunks[] = {7, 128, 37, 64, 50, 100, 17, 63, 127, 65, 33, 48, 111, 13, 96, 67, 80, 31, 120, 77};
    combo all[N_PASTS * WIDTHS];
    snprintf(m->device, sizeof m->device, "%s,seed=%d", device, seed);
    m->random = (uint64_t)seed * 1000;
    open_engine(m, seed % 2);
    int last = pasts[of->last - 1], chunk = chunks[seed % 20], n = shuffle(m, of, k, all);
    sequence past = make_sequence(m, NULL, 0, MOST_IDS);
    advance(m, &past, last, last > 300 && chunk < 30 ? chunk + 30 : chunk);
    for (int at = 0, some; at < n; at += some) {
        some = 1 + pick(m, PARTS);
        if (some > n - at) some = n - at;
        check_step(m, &past, all + at, some);
    }
    sequence_deinit(&past);
    close_engine(m);
}

static void check(const char *device, dtype type, bool moe, const share *shares, int n) {
    mixes m = mixes_open(device, type, moe, pasts[shares[n - 1].last - 1]);
    for (int i = 0, seed = 1; i < n; i++) {
        for (int k = 0; k < shares[i].n_seeds; k++) check_seed(&m, &shares[i], k, seed++, device);
    }
    mixes_close(&m);
}

static void test_dense(void **state) {
    (void)state;
    static const share all[] = {{0, 5, 1, 14}, {5, 8, 1, 3}, {8, 11, 3, 2}, {11, 14, 3, 1}};
    check("emu:910B3", DTYPE_BF16, false, all, 4);
}

static void test_other_sums(void **state) {
    (void)state;
    static const share some[] = {{2, 8, 5, 2}};
    check("emu:910_9382,tile=32,cann=8.5,perturb=5", DTYPE_F16, false, some, 1);
}

static void test_moe(void **state) {
    (void)state;
    static const share some[] = {{0, 5, 4, 2}};
    check("emu:910B3,tile=16,perturb=3", DTYPE_BF16, true, some, 1);
}

static void test_950(void **state) {
    (void)state;
    static const share some[] = {{2, 8, 6, 1}};
    check("emu:950PR,tile=32", DTYPE_BF16, false, some, 1);
}

static void test_composed(void **state) {
    (void)state;
    static const share some[] = {{0, 5, 3, 2}};
    check("emu:910A,tile=32", DTYPE_F16, false, some, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense), cmocka_unit_test(test_other_sums), cmocka_unit_test(test_moe),
        cmocka_unit_test(test_950),   cmocka_unit_test(test_composed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
