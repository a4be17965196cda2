// The exactness contract (docs/exactness.md) on the emulated NPU with perturbation on: there the order of every sum depends on the
// whole shape an operator is called with, so equal bits mean that equal rows met equal shapes.
//
// One reference per model, every position computed alone. Chunks, widths at the borders of tiles and blocks, sequences side by side,
// trees kept anywhere, rewinding, snapshots and forks have to give the same bits.
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

// Products of 16 rows instead of 64 where it does not matter: the emulator multiplies the rows that pad, too.
enum { N_IDS = 200, VOCAB = 300, SOME = 72 };

typedef struct fixture {
    temp_folder folder;
    char path[300];
    int32_t ids[N_IDS];
    float *reference; // [n][VOCAB]
    tally_engine_options o;
    emulated emu;
    test_engine t;
} fixture;

static fixture fixture_open(const char *device, dtype type, bool moe, int n) {
    fixture f = {.folder = temp_folder_make(), .emu = emulated_open()};
    f.emu.reset(); // what a failed test left
    snprintf(f.path, sizeof f.path, "%s/model.gguf", f.folder.path);
    tiny_random_gguf(f.path, type, moe, 7);
    for (int i = 0; i < N_IDS; i++) f.ids[i] = (int32_t)(hash_mix(1 + (uint64_t)i) % VOCAB);
    f.o = (tally_engine_options){.threads = 1,
                                 .context = 512,
                                 .cache_positions = 2048,
                                 .no_prefix_reuse = true,
                                 .step_rows = 128,
                                 .logit_rows = 128,
                                 .device = device};
    f.t = test_engine_open(f.path, &f.o);
    f.reference = test_eval(&f.t, f.ids, n, 1);
    return f;
}

static void fixture_close(fixture *f) {
    assert_true(((const ascend_backend *)f->t.engine->plan.device)->call.growths == 0); // a step allocates nothing
    assert_int_equal(f->t.engine->blocks.n_free, f->t.engine->blocks.n_blocks);
    test_engine_close(&f->t);
    emulated_next(&f->emu);
    emulated_close(&f->emu);
    free(f->reference);
    temp_folder_remove(&f->folder);
}

static void same_rows(const fixture *f, const float *logits, int first, int n, const char *what, int number) {
    for (int i = 0; i < n; i++) {
        if (memcmp(logits + (size_t)i * VOCAB, f->reference + (size_t)(first + i) * VOCAB, VOCAB * sizeof *logits) != 0)
            fail_msg("%s: %s %d: the logits of position %d differ from those of a single step", f->o.device, what,
                     number, first + i);
    }
}

// ---- chunks and widths -----------------------------------------------------------------------------------------------------

static void check_some_chunks(const char *device, dtype type, bool moe, const int *chunks, int n) {
    int rows = chunks[n - 1];
    fixture f = fixture_open(device, type, moe, rows);
    for (int c = 0; c < n; c++) {
        float *logits = test_eval(&f.t, f.ids, rows, chunks[c]);
        same_rows(&f, logits, 0, rows, "chunk", chunks[c]);
        free(logits);
    }
    fixture_close(&f);
}

static void check_chunks(const char *device, dtype type, bool moe) {
    check_some_chunks(device, type, moe, (const int[]){3, 17, 65, SOME}, 4);
}

static void test_chunks_dense(void **state) { (void)state, check_chunks("emu:910B3", DTYPE_BF16, false); }
static void test_chunks_moe(void **state) { (void)state, check_chunks("emu:910B3,seed=3,tile=16", DTYPE_BF16, true); }
static void test_chunks_f16(void **state) {
    (void)state, check_chunks("emu:910_9382,cann=8.5,tile=32", DTYPE_F16, true);
}
static void test_chunks_composed(void **state) {
    (void)state, check_chunks("emu:910B3,off=all,cann=8.1,tile=16", DTYPE_BF16, false);
}
static void test_chunks_950(void **state) {
    (void)state, check_some_chunks("emu:950DT,tile=16", DTYPE_BF16, true, (const int[]){23, SOME}, 2);
}
static void test_chunks_310p(void **state) {
    (void)state, check_some_chunks("emu:310P3,tile=16", DTYPE_F16, true, (const int[]){5, 40}, 2);
}
static void test_chunks_910a_moe(void **state) {
    (void)state, check_some_chunks("emu:910A,tile=16", DTYPE_F16, true, (const int[]){5, 20}, 2);
}
static void test_chunks_910a(void **state) { (void)state, check_chunks("emu:910A,tile=16", DTYPE_F16, false); }

// Verify steps: every width at the borders of blocks and product tiles.
static void test_widths(void **state) {
    (void)state;
    static const int depths[] = {0, 1, 50, 63, 64, 65};
    fixture f = fixture_open("emu:910B3,tile=16", DTYPE_BF16, false, 82);
    tally_error err;
    tally_session *s;
    assert_int_equal(tally_session_open(&s, f.t.engine, &err), 0);
    float *logits = malloc((size_t)N_IDS * VOCAB * sizeof *logits);
    assert_non_null(logits);
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
        for (int width = 1 + (int)d % 2; width <= 17; width += 2) {
            assert_int_equal(tally_session_sync(s, f.ids, depths[d], &err), 0);
            assert_int_equal(tally_session_eval(s, f.ids + depths[d], width, width, test_collect, logits, &err), 0);
            same_rows(&f, logits + (size_t)depths[d] * VOCAB, depths[d], width, "width", width);
        }
    }
    free(logits);
    tally_session_close(s);
    fixture_close(&f);
}

// What this file proves is worth something only if shapes do reach the bits: another tile gives others.
static void test_shapes_matter(void **state) {
    (void)state;
    fixture f = fixture_open("emu:910B3", DTYPE_BF16, false, 20);
    test_engine_close(&f.t);
    f.emu.reset();
    f.o.device = "emu:910B3,tile=16";
    f.t = test_engine_open(f.path, &f.o);
    float *logits = test_eval(&f.t, f.ids, 20, 5);
    assert_true(memcmp(logits, f.reference, (size_t)20 * VOCAB * sizeof *logits) != 0);
    free(logits);
    fixture_close(&f);
}

// ---- replayed graphs, orders of streams, sizes of the cache --------------------------------------------------------------------

static void reopen(fixture *f, const char *device) {
    test_engine_close(&f->t);
    emulated_next(&f->emu);
    f->o.device = device;
    f->t = test_engine_open(f->path, &f->o);
}

static void check_replay(const char *eager, const char *replayed, bool moe) {
    enum { STEPS = 8 };
    fixture f = fixture_open(eager, DTYPE_BF16, moe, STEPS);
    const ascend_backend *b = (const ascend_backend *)f.t.engine->plan.device;
    assert_true(b->graphs.replays == 0);
    for (int seed = 1; seed <= 20; seed += moe ? 7 : 1) {
        char device[100];
        snprintf(device, sizeof device, "%s,seed=%d", replayed, seed);
        reopen(&f, device);
        float *logits = test_eval(&f.t, f.ids, STEPS, 1);
        b = (const ascend_backend *)f.t.engine->plan.device;
        assert_true(b->graphs.replays == STEPS - 1);
        same_rows(&f, logits, 0, STEPS, "replay, seed", seed);
        float *chunk = test_eval(&f.t, f.ids, STEPS, STEPS); // replayed once more, with other rows
        assert_memory_equal(chunk, logits, STEPS * VOCAB * sizeof *chunk);
        free(chunk);
        free(logits);
        f.o.device = NULL;
    }
    fixture_close(&f);
}

static void test_replay(void **state) {
    (void)state, check_replay("emu:910B3,tile=16,graph=off", "emu:910B3,tile=16,graph=on", false);
}
static void test_replay_moe(void **state) {
    (void)state, check_replay("emu:910_9382,tile=16,graph=off", "emu:910_9382,tile=16,graph=on", true);
}

// Chunks of several product tiles: of the prompts that begin with the same blocks the second is captured, later ones are replayed, be
// their rows as many or not.
static void check_replayed_chunks(const char *eager, const char *replayed, bool moe, size_t n_chunks) {
    static const int chunks[] = {40, 47, 72, 17, 65}; // of 16 rows a tile: 40 and 47 make the same three, then others
    fixture f = fixture_open(eager, DTYPE_BF16, moe, SOME);
    reopen(&f, replayed);
    const ascend_graphs *g = &((const ascend_backend *)f.t.engine->plan.device)->graphs;
    assert_true(g->on && !g->remark[0]);
    int64_t steps = g->steps;
    for (size_t c = 0; c < n_chunks; c++) {
        for (int i = 0; i < 3; i++) {
            int64_t before = g->replays, n = (SOME + chunks[c] - 1) / chunks[c];
            float *logits = test_eval(&f.t, f.ids, SOME, chunks[c]);
            same_rows(&f, logits, 0, SOME, i ? "replayed chunk" : "first chunk", chunks[c]);
            free(logits);
            steps += n;
            assert_true(g->steps == steps);
            if (i) assert_true(g->replays - before == n);
            if (chunks[c] == 47) assert_true(g->replays > before); // its first chunk is known from 40
        }
    }
    fixture_close(&f);
}

static void test_replayed_chunks(void **state) {
    (void)state;
    check_replayed_chunks("emu:910B3,tile=16,graph=off", "emu:910B3,tile=16,graph=on", false, 5);
    check_replayed_chunks("emu:950PR,tile=16,graph=off", "emu:950PR,tile=16,graph=on,seed=9", true, 1);
}

// More tiles than a graph holds run operator by operator, and the device says so.
static void test_too_many_tiles(void **state) {
    (void)state;
    fixture f = fixture_open("emu:910B3,tile=16", DTYPE_BF16, false, 3);
    f.o.step_rows = f.o.logit_rows = 160;
    reopen(&f, "emu:910B3,tile=16");
    assert_string_equal(tally_engine_remark(f.t.engine),
                        "steps of more than 128 rows are not replayed: a graph would hold more than 8 tiles");
    const ascend_graphs *g = &((const ascend_backend *)f.t.engine->plan.device)->graphs;
    for (int i = 0; i < 3; i++) {
        float *logits = test_eval(&f.t, f.ids, 144, 144);
        same_rows(&f, logits, 0, 3, "a step of rows", 144);
        free(logits);
    }
    assert_true(g->steps == 3 && g->replays == 0);
    f.o.type = "f16";
    reopen(&f, "emu:910A,tile=16");
    assert_string_equal(tally_engine_remark(f.t.engine), "no step is replayed: the chip has no graph capture");
    fixture_close(&f);
}

// How large the cache is reaches no sum.
static void test_cache_sizes(void **state) {
    (void)state;
    fixture f = fixture_open("emu:910B3,tile=16", DTYPE_BF16, false, 10);
    for (int context = 64; context <= 256; context *= 2) {
        f.o.context = context, f.o.cache_positions = context * (context > 64 ? 3 : 1);
        reopen(&f, "emu:910B3,tile=16");
        float *logits = test_eval(&f.t, f.ids, 10, 4);
        same_rows(&f, logits, 0, 10, "a context of", context);
        free(logits);
    }
    fixture_close(&f);
}

// ---- several sequences in one step -------------------------------------------------------------------------------------------

static void test_side_by_side(void **state) {
    (void)state;
    fixture f = fixture_open("emu:910B3,tile=16", DTYPE_BF16, true, 90);
    tally_engine *e = f.t.engine;
    enum { SEQS = 4 };
    static const int lengths[SEQS] = {90, 3, 77, 64}, rows[SEQS] = {17, 1, 70, 5};
    sequence s[SEQS];
    error err;
    for (int i = 0; i < SEQS; i++) {
        assert_int_equal(sequence_init(&s[i], e, &err), STATUS_OK);
        assert_int_equal(sequence_append(e, &s[i], f.ids, lengths[i], &err), STATUS_OK);
    }
    for (int n = 1; n > 0;) {
        step_part parts[SEQS];
        int owner[SEQS];
        n = 0;
        for (int i = 0; i < SEQS; i++) {
            int left = s[i].n_tokens - s[i].cache.length;
            if (left == 0) continue;
            parts[n] = (step_part){.seq = &s[i], .n_rows = left < rows[i] ? left : rows[i], .all_logits = true};
            assert_true(block_table_reserve(&s[i].cache, parts[n].n_rows));
            owner[n++] = i;
        }
        part_result results[SEQS];
        if (n) assert_int_equal(engine_run_parts(e, parts, n, results, &err), STATUS_OK);
        for (int p = 0; p < n; p++)
            same_rows(&f, results[p].logits, s[owner[p]].cache.length - parts[p].n_rows, parts[p].n_rows, "sequence",
                      owner[p]);
    }
    for (int i = 0; i < SEQS; i++) sequence_deinit(&s[i]);
    fixture_close(&f);
}

// Two sequences as parts of one step, three times over; true: all but the first were replayed.
static bool replays_mix(fixture *f, int first, int second) {
    const ascend_graphs *g = &((const ascend_backend *)f->t.engine->plan.device)->graphs;
    const int rows[2] = {first, second};
    int64_t before = g->replays;
    for (int k = 0; k < 3; k++) {
        sequence s[2];
        step_part parts[2];
        part_result results[2];
        error err;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(sequence_init(&s[i], f->t.engine, &err), STATUS_OK);
            assert_int_equal(sequence_append(f->t.engine, &s[i], f->ids, rows[i], &err), STATUS_OK);
            assert_true(block_table_reserve(&s[i].cache, rows[i]));
            parts[i] = (step_part){.seq = &s[i], .n_rows = rows[i], .all_logits = true};
        }
        assert_int_equal(engine_run_parts(f->t.engine, parts, 2, results, &err), STATUS_OK);
        for (int i = 0; i < 2; i++) {
            same_rows(f, results[i].logits, 0, rows[i], "sequence of a mix", i);
            sequence_deinit(&s[i]);
        }
    }
    return g->replays - before == 2;
}

// Steps of as many tiles and blocks may still share the rows out differently: three calls of attention are two and one here, or one and two.
static void test_replayed_mixes(void **state) {
    (void)state;
    fixture f = fixture_open("emu:910B3,tile=16,graph=on", DTYPE_BF16, false, 20);
    assert_true(replays_mix(&f, 10, 10));
    assert_true(replays_mix(&f, 20, 10));
    assert_true(replays_mix(&f, 16, 16)); // one and one
    fixture_close(&f);
}

// ---- trees -------------------------------------------------------------------------------------------------------------------

enum { MOST = 17, SPREAD = 40, TREE_BLOCKS = 8, REF_FROM = 5 };

typedef struct tree {
    int n;
    int32_t token[MOST], pos[MOST], slot[MOST], parent[MOST], seq[MOST], out[MOST];
} tree;

static int pick(uint64_t *random, int n) { return (int)(hash_mix((*random)++) % (uint64_t)n); }

// Rows kept in any order at the positions behind the sequence; some begin paths of their own, also before its end.
static tree make_tree(uint64_t *random, int length) {
    tree t = {.n = 1 + pick(random, MOST)};
    int slots[SPREAD], chain = pick(random, 4), roots = pick(random, 3);
    bool in_order = pick(random, 3) == 0;
    for (int i = 0; i < SPREAD; i++) slots[i] = length + i;
    for (int i = 0; i < SPREAD && !in_order; i++) {
        int other = i + pick(random, SPREAD - i), s = slots[i];
        slots[i] = slots[other], slots[other] = s;
    }
    for (int r = 0; r < t.n; r++) {
        t.token[r] = pick(random, VOCAB), t.slot[r] = slots[r], t.out[r] = r;
        bool root = r == 0 || (roots == 2 && pick(random, 4) == 0);
        t.parent[r] = root ? -1 : pick(random, 4) < chain ? r - 1 : pick(random, r);
        int back = r && roots == 2 ? pick(random, 30) : 0;
        t.pos[r] = t.parent[r] >= 0 ? t.pos[t.parent[r]] + 1 : back > length ? 0 : length - back;
    }
    return t;
}

static const float *run(fixture *f, const step_inputs *in) {
    step_result r;
    error err;
    backend *device = f->t.engine->plan.device;
    if (device->vt->run(device, in, &r, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < in->n_rows; i++) assert_int_equal(r.fault[i], STEP_OK);
    return r.logits;
}

static const float *run_plain(fixture *f, const int32_t *table, const int32_t *token, int pos, int n) {
    int32_t position[128], seq[128] = {0}, out[128];
    for (int i = 0; i < n; i++) position[i] = pos + i, out[i] = i;
    return run(f, &(step_inputs){.n_rows = n,
                                 .n_out = n,
                                 .n_seqs = 1,
                                 .token = token,
                                 .pos = position,
                                 .seq = seq,
                                 .block_table = &table,
                                 .out_row = out});
}

static void poison_from(fixture *f, const int32_t *table, int length) {
    backend *device = f->t.engine->plan.device;
    for (int b = length / KV_BLOCK; b <= (length + SPREAD) / KV_BLOCK; b++)
        device->vt->block_poison(device, table[b], b == length / KV_BLOCK ? length % KV_BLOCK : 0);
}

// Row r's path as a plain sequence of its own behind the same past.
static const float *run_path(fixture *f, const int32_t *table, const tree *t, int r, int *n) {
    int32_t ref[TREE_BLOCKS], token[MOST];
    int row[MOST], first;
    *n = 0;
    for (int a = r; a >= 0; a = t->parent[a]) row[(*n)++] = a;
    for (int i = 0; i < *n; i++) token[i] = t->token[row[*n - 1 - i]];
    first = t->pos[row[*n - 1]];
    memcpy(ref, table, sizeof ref);
    backend *device = f->t.engine->plan.device;
    for (int b = first / KV_BLOCK, own = REF_FROM; b <= (first + SPREAD) / KV_BLOCK; b++, own++) {
        device->vt->block_copy(device, own, table[b]);
        ref[b] = own;
    }
    poison_from(f, ref, first);
    return run_plain(f, ref, token, first, *n);
}

static void check_tree(fixture *f, const int32_t *table, int length, uint64_t *random) {
    tree t = make_tree(random, length);
    poison_from(f, table, length);
    const float *out = run(f, &(step_inputs){.n_rows = t.n,
                                             .n_out = t.n,
                                             .n_seqs = 1,
                                             .token = t.token,
                                             .pos = t.pos,
                                             .seq = t.seq,
                                             .slot = t.slot,
                                             .parent = t.parent,
                                             .block_table = &table,
                                             .out_row = t.out});
    float *logits = malloc((size_t)t.n * VOCAB * sizeof *logits);
    assert_non_null(logits);
    memcpy(logits, out, (size_t)t.n * VOCAB * sizeof *logits);
    for (int r = t.n - 1; r >= 0; r -= 3) {
        int n;
        const float *plain = run_path(f, table, &t, r, &n);
        if (memcmp(plain + (size_t)(n - 1) * VOCAB, logits + (size_t)r * VOCAB, VOCAB * sizeof *plain) != 0)
            fail_msg(
                "%s: row %d (position %d, slot %d, path of %d) of %d behind %d positions differs from its path alone",
                f->o.device, r, t.pos[r], t.slot[r], n, t.n, length);
    }
    free(logits);
    poison_from(f, table, length);
}

static void check_trees(const char *device, dtype type, bool moe) {
    static const int past[] = {0, 40, 63, 64, 100};
    fixture f = fixture_open(device, type, moe, 1);
    const int32_t table[TREE_BLOCKS] = {2, 0, 3, 1};
    uint64_t random = hash_mix((uint64_t)type + moe);
    for (size_t i = 0; i < sizeof past / sizeof *past; i++) {
        if (past[i]) run_plain(&f, table, f.ids, 0, past[i]);
        for (int k = 0; k < 3; k++) check_tree(&f, table, past[i], &random);
    }
    fixture_close(&f);
}

static void test_trees(void **state) { (void)state, check_trees("emu:910B3,tile=16", DTYPE_BF16, false); }
static void test_trees_moe(void **state) { (void)state, check_trees("emu:910_9382,tile=16", DTYPE_F16, true); }
static void test_trees_composed(void **state) { (void)state, check_trees("emu:910A,tile=16", DTYPE_F16, false); }

// ---- snapshots and forks -----------------------------------------------------------------------------------------------------

static void test_snapshot_and_fork(void **state) {
    (void)state;
    fixture f = fixture_open("emu:910B3,tile=16", DTYPE_BF16, false, 72);
    tally_error err;
    static const int lengths[] = {1, 64, 71};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int n = lengths[i];
        tally_session *a, *b, *c;
        void *bytes;
        size_t size;
        const float *logits;
        assert_int_equal(tally_session_open(&a, f.t.engine, &err), 0);
        assert_int_equal(tally_session_sync(a, f.ids, n, &err), 0);
        assert_int_equal(tally_session_save(a, &bytes, &size, &err), 0);
        assert_int_equal(tally_session_fork(&b, a, &err), 0);
        int32_t other = (f.ids[n] + 1) % VOCAB; // the first goes another way; the shared past must not notice
        int32_t ids[N_IDS];
        memcpy(ids, f.ids, sizeof ids);
        ids[n] = other;
        assert_int_equal(tally_session_sync(a, ids, n + 1, &err), 0);
        assert_int_equal(tally_session_sync(b, f.ids, n + 1, &err), 0);
        assert_int_equal(tally_session_logits(b, &logits, &err), 0);
        same_rows(&f, logits, n, 1, "a fork at length", n);
        assert_int_equal(tally_session_open(&c, f.t.engine, &err), 0);
        assert_int_equal(tally_session_restore(c, bytes, size, &err), 0);
        assert_int_equal(tally_session_sync(c, f.ids, n + 1, &err), 0);
        assert_int_equal(tally_session_logits(c, &logits, &err), 0);
        same_rows(&f, logits, n, 1, "a restored snapshot of length", n);
        tally_session_close(a);
        tally_session_close(b);
        tally_session_close(c);
        tally_engine_options on_cpu = {.threads = 1, .context = 128, .cache_k = "bf16", .cache_v = "bf16"};
        test_engine cpu = test_engine_open(f.path, &on_cpu); // whose blocks have the same size, and another layout
        assert_int_equal(tally_session_open(&a, cpu.engine, &err), 0);
        assert_int_equal(tally_session_restore(a, bytes, size, &err), TALLY_BAD_ARGUMENT);
        assert_non_null(strstr(err.text, "on another device"));
        tally_session_close(a);
        test_engine_close(&cpu);
        tally_free(bytes);
    }
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_dense),
        cmocka_unit_test(test_chunks_moe),
        cmocka_unit_test(test_chunks_f16),
        cmocka_unit_test(test_chunks_composed),
        cmocka_unit_test(test_chunks_950),
        cmocka_unit_test(test_chunks_310p),
        cmocka_unit_test(test_chunks_910a),
        cmocka_unit_test(test_chunks_910a_moe),
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_replay_moe),
        cmocka_unit_test(test_replayed_chunks),
        cmocka_unit_test(test_too_many_tiles),
        cmocka_unit_test(test_replayed_mixes),
        cmocka_unit_test(test_cache_sizes),
        cmocka_unit_test(test_shapes_matter),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_trees),
        cmocka_unit_test(test_trees_moe),
        cmocka_unit_test(test_trees_composed),
        cmocka_unit_test(test_snapshot_and_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
