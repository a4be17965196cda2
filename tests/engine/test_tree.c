// Rows of a tree (op/backend.h, docs/exactness.md), bitwise, on tiny random models: whatever a step's rows look like and wherever they
// are kept, a row's logits are those of its path computed as a plain sequence. Memory that no row may see holds NaN all the time.
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
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum {
    VOCAB = 300,
    N_IDS = 1100,
    MOST = 17,    // rows of a tree
    SPREAD = 40,  // slots of a tree lie in so many positions behind the sequence
    BLOCKS = 32,  // of the cache: those of the sequence, then
    REF_FROM = 26 // those of plain sequences
};

static const int past[] = {0, 1, 15, 16, 63, 64, 65, 250, 255, 256, 257, 1023};

typedef struct config {
    dtype type;
    bool moe;
    const char *k, *v; // cache types
    int head_dim, threads;
    const char *level; // NULL: the best
    int trees;         // per past length
} config;

typedef struct fixture {
    const config *c;
    temp_folder folder;
    test_engine t;
    backend *device;
    int32_t ids[N_IDS];
    int32_t table[BLOCKS], ref_table[BLOCKS];
    int length; // positions of ids in the sequence's cache
    uint64_t random;
    unsigned char *bytes, *ref_bytes; // one block each
} fixture;

typedef struct tree {
    int n;
    int32_t token[MOST], pos[MOST], slot[MOST], parent[MOST], seq[MOST], out[MOST];
} tree;

static int pick(fixture *f, int n) { return (int)(hash_mix(f->random++) % (uint64_t)n); }

static fixture *fixture_open(const config *c) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->c = c;
    f->folder = temp_folder_make();
    f->random = hash_mix((uint64_t)c->type * 1000 + (uint64_t)c->head_dim);
    const char *path = temp_folder_path(&f->folder, "model.gguf");
    tiny_random_gguf_heads(path, c->type, c->moe, c->head_dim, 7);
    tally_engine_options o = {.threads = c->threads,
                              .cpu_level = c->level,
                              .cache_k = c->k,
                              .cache_v = c->v,
                              .context = BLOCKS * KV_BLOCK,
                              .step_rows = 128,
                              .logit_rows = 64};
    f->t = test_engine_open(path, &o);
    f->device = f->t.engine->plan.device;
    for (int i = 0; i < N_IDS; i++) f->ids[i] = pick(f, VOCAB);
    for (int i = 0; i < BLOCKS; i++) f->table[i] = i < REF_FROM ? (i * 7 + 3) % REF_FROM : i;
    size_t block = (size_t)f->device->vt->block_bytes(f->device, &f->t.engine->plan.model.cache);
    f->bytes = malloc(block);
    f->ref_bytes = malloc(block);
    assert_true(f->bytes && f->ref_bytes);
    for (int i = 0; i < BLOCKS; i++) f->device->vt->block_poison(f->device, i, 0);
    return f;
}

static void fixture_close(fixture *f) {
    test_engine_close(&f->t);
    temp_folder_remove(&f->folder);
    free(f->bytes);
    free(f->ref_bytes);
    free(f);
}

static const float *run(fixture *f, const step_inputs *in) {
    step_result r;
    error err;
    if (f->device->vt->run(f->device, in, &r, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < in->n_rows; i++) assert_int_equal(r.fault[i], STEP_OK);
    return r.logits;
}

// Positions >= length of a table's blocks, up to the last that a tree may use.
static void poison_from(fixture *f, const int32_t *table, int length) {
    for (int b = length / KV_BLOCK; b <= (length + SPREAD) / KV_BLOCK; b++)
        f->device->vt->block_poison(f->device, table[b], b == length / KV_BLOCK ? length % KV_BLOCK : 0);
}

// n tokens as a plain sequence behind the positions before pos; logits of all if n <= 64, else of none.
static const float *run_plain(fixture *f, const int32_t *table, const int32_t *token, int pos, int n) {
    int32_t position[128], seq[128] = {0}, out[128];
    for (int i = 0; i < n; i++) position[i] = pos + i, out[i] = i;
    step_inputs in = {.n_rows = n,
                      .n_out = n <= 64 ? n : 0,
                      .n_seqs = 1,
                      .token = token,
                      .pos = position,
                      .seq = seq,
                      .block_table = &table,
                      .out_row = out};
    return run(f, &in);
}

static void grow(fixture *f, int length) {
    while (f->length < length) {
        int n = length - f->length < 128 ? length - f->length : 128;
        run_plain(f, f->table, f->ids + f->length, f->length, n);
        f->length += n;
    }
}

// Random shapes: each kind of choice more likely in some trees than in others. The first row is the sequence's next; others may
// begin paths of their own, also ones that branch off before the end of the cache.
static tree make_tree(fixture *f) {
    tree t = {.n = 1 + pick(f, MOST)};
    int chain = pick(f, 4), roots = pick(f, 3), spread = pick(f, 2) ? SPREAD : t.n;
    bool in_order = pick(f, 3) == 0;
    int slots[SPREAD];
    for (int i = 0; i < spread; i++) slots[i] = f->length + i;
    for (int i = 0; i < spread && !in_order; i++) {
        int other = i + pick(f, spread - i), s = slots[i];
        slots[i] = slots[other];
        slots[other] = s;
    }
    for (int r = 0; r < t.n; r++) {
        t.token[r] = pick(f, VOCAB);
        t.slot[r] = slots[r];
        t.out[r] = r;
        t.parent[r] = r == 0 || (roots == 2 && pick(f, 4) == 0) ? -1 : pick(f, 4) < chain ? r - 1 : pick(f, r);
        int back = r && roots == 2 ? pick(f, 30) : 0;
        t.pos[r] = t.parent[r] >= 0 ? t.pos[t.parent[r]] + 1 : back > f->length ? 0 : f->length - back;
    }
    return t;
}

static float *run_tree(fixture *f, const tree *t) {
    const int32_t *table = f->table;
    step_inputs in = {.n_rows = t->n,
                      .n_out = t->n,
                      .n_seqs = 1,
                      .token = t->token,
                      .pos = t->pos,
                      .seq = t->seq,
                      .slot = t->slot,
                      .parent = t->parent,
                      .block_table = &table,
                      .out_row = t->out};
    poison_from(f, f->table, f->length);
    float *logits = malloc((size_t)t->n * VOCAB * sizeof *logits);
    assert_non_null(logits);
    memcpy(logits, run(f, &in), (size_t)t->n * VOCAB * sizeof *logits);
    return logits;
}

// The rows from the top of r's path to r; returns their number.
static int path_of(const tree *t, int r, int *row) {
    int n = 0;
    for (int a = r; a >= 0; a = t->parent[a]) n++;
    for (int i = n; i > 0; r = t->parent[r]) row[--i] = r;
    return n;
}

// A plain sequence of its own: the cache before the path of r, then the path. Returns the logits of the path's rows.
static const float *run_path(fixture *f, const tree *t, const int *row, int n) {
    int32_t token[MOST];
    int pos = t->pos[row[0]], first = pos / KV_BLOCK, own = REF_FROM;
    memcpy(f->ref_table, f->table, sizeof f->ref_table);
    for (int b = first; b <= (pos + SPREAD) / KV_BLOCK; b++) {
        f->device->vt->block_copy(f->device, own, f->table[b]);
        f->ref_table[b] = own++;
    }
    assert_true(own <= BLOCKS);
    poison_from(f, f->ref_table, pos);
    for (int i = 0; i < n; i++) token[i] = t->token[row[i]];
    return run_plain(f, f->ref_table, token, pos, n);
}

static bool same(const float *a, const float *b) { return memcmp(a, b, VOCAB * sizeof *a) == 0; }

static void check_rows(fixture *f, const tree *t, const float *logits) {
    bool seen[MOST] = {false}; // compared already, as a part of a longer path
    for (int r = t->n - 1; r >= 0; r--) {
        if (seen[r]) continue;
        int row[MOST], n = path_of(t, r, row);
        const float *plain = run_path(f, t, row, n);
        for (int i = 0; i < n; i++) {
            if (!same(logits + row[i] * VOCAB, plain + i * VOCAB)) {
                fail_msg(
                    "%s, cache %s %s, head %d: row %d (position %d, slot %d, path of %d) of %d behind %d positions "
                    "differs from its path alone",
                    dtype_get(f->c->type)->name, f->c->k, f->c->v, f->c->head_dim, row[i], t->pos[row[i]],
                    t->slot[row[i]], i + 1, t->n, f->length);
            }
            seen[row[i]] = true;
        }
    }
}

// Another token in row j: rows that do not descend from it keep their bits, and j does not.
static void check_causality(fixture *f, const tree *t, const float *logits) {
    int j = pick(f, t->n);
    tree other = *t;
    other.token[j] = (t->token[j] + 1 + pick(f, VOCAB - 1)) % VOCAB;
    float *changed = run_tree(f, &other);
    for (int r = 0; r < t->n; r++) {
        int row[MOST], n = path_of(t, r, row);
        bool below = false;
        for (int i = 0; i < n; i++) below |= row[i] == j;
        bool equal = same(logits + r * VOCAB, changed + r * VOCAB);
        if (!below && !equal)
            fail_msg("changing row %d of %d reaches row %d, which does not descend from it", j, t->n, r);
        if (r == j && equal) fail_msg("changing row %d of %d leaves its own logits", j, t->n);
    }
    free(changed);
}

// A path that is accepted and moved to its place leaves the bytes that computing it plainly leaves.
static void check_move(fixture *f, const tree *t) {
    int row[MOST] = {0}, r = pick(f, t->n), n = path_of(t, r, row);
    if (t->pos[row[0]] != f->length) return; // what branches off within the cache cannot be accepted
    free(run_tree(f, t));
    int32_t slot[MOST];
    for (int i = 0; i < n; i++) slot[i] = t->slot[row[i]];
    for (int i = 0; i < n; i++) { // by way of a free position: slots in any order may lie where others have to go
        int spare = f->length + SPREAD, at = f->length + i, *const from = &slot[i];
        const int to_spare[2] = {f->table[spare / KV_BLOCK], spare % KV_BLOCK},
                  place[2] = {f->table[at / KV_BLOCK], at % KV_BLOCK},
                  old[2] = {f->table[*from / KV_BLOCK], *from % KV_BLOCK};
        if (*from == at) continue;
        f->device->vt->position_copy(f->device, to_spare, place);
        f->device->vt->position_copy(f->device, place, old);
        f->device->vt->position_copy(f->device, old, to_spare);
        for (int k = i + 1; k < n; k++) {
            if (slot[k] == at) slot[k] = *from;
        }
    }
    poison_from(f, f->table, f->length + n);
    run_path(f, t, row, n);
    poison_from(f, f->ref_table, f->length + n);
    for (int b = 0; b <= (f->length + n) / KV_BLOCK; b++) {
        f->device->vt->block_read(f->device, f->table[b], f->bytes);
        f->device->vt->block_read(f->device, f->ref_table[b], f->ref_bytes);
        size_t bytes = (size_t)f->device->vt->block_bytes(f->device, &f->t.engine->plan.model.cache);
        if (memcmp(f->bytes, f->ref_bytes, bytes) != 0)
            fail_msg("a path of %d rows moved behind %d positions: block %d differs", n, f->length, b);
    }
}

static void check_config(const config *c) {
    fixture *f = fixture_open(c);
    int skipped = !c->level ? 0 : SANITIZED ? 5 : strcmp(c->level, "scalar") == 0; // the longest, where they take long
    for (size_t i = 0; i < sizeof past / sizeof *past - (size_t)skipped; i++) {
        grow(f, past[i]);
        for (int k = 0; k < (SANITIZED ? 1 : c->trees); k++) {
            tree t = make_tree(f);
            float *logits = run_tree(f, &t);
            check_rows(f, &t, logits);
            check_causality(f, &t, logits);
            check_move(f, &t);
            free(logits);
            poison_from(f, f->table, f->length); // the sequence goes on as if nothing had been
        }
    }
    fixture_close(f);
}

static void test_dense(void **state) {
    (void)state;
    static const config list[] = {
        {DTYPE_F32, false, "f32", "f32", 32, 1, NULL, 2},     {DTYPE_F32, false, "f16", "f32", 40, 2, NULL, 2},
        {DTYPE_BF16, false, "bf16", "bf16", 128, 2, NULL, 2}, {DTYPE_Q8_0, false, "q8_0", "q8_0", 128, 3, NULL, 2},
        {DTYPE_Q4_K, false, "q8_0", "f16", 32, 1, NULL, 2},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check_config(&list[i]);
}

static void test_moe(void **state) {
    (void)state;
    static const config list[] = {
        {DTYPE_F32, true, "f32", "bf16", 64, 2, NULL, 2},
        {DTYPE_BF16, true, "f16", "f16", 40, 1, NULL, 2},
        {DTYPE_Q6_K, true, "f16", "q8_0", 32, 3, NULL, 2},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check_config(&list[i]);
}

static void test_levels(void **state) {
    (void)state;
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        if (!cpu_level_available((cpu_level)level)) continue;
        const char *name = cpu_level_name((cpu_level)level);
        check_config(&(config){DTYPE_BF16, false, "f16", "q8_0", 32, 1, name, 1});
    }
}

// ---- beside others -------------------------------------------------------------------------------------------------------

// A prompt's chunk, a tree and a decode step together; also with the tree in the middle of the rows and no slots for the others.
static void test_side_by_side(void **state) {
    (void)state;
    const config c = {DTYPE_F32, false, "f16", "f16", 64, 2, NULL, 0};
    fixture *f = fixture_open(&c);
    enum { CHUNK = 30, PAST = 77 };
    grow(f, PAST);
    for (int round = 0; round < 20; round++) {
        tree t = make_tree(f);
        float *alone = run_tree(f, &t);
        int32_t prompt_table[] = {REF_FROM}, step_table[] = {REF_FROM + 1, REF_FROM + 2};
        for (int b = REF_FROM; b < BLOCKS; b++) f->device->vt->block_poison(f->device, b, 0);
        run_plain(f, step_table, f->ids, 0, 64);
        float plain[CHUNK + 1][VOCAB];
        memcpy(plain[CHUNK], run_plain(f, step_table, f->ids + 64, 64, 1), sizeof plain[0]);
        memcpy(plain, run_plain(f, prompt_table, f->ids, 0, CHUNK), CHUNK * sizeof plain[0]);
        f->device->vt->block_poison(f->device, REF_FROM, 0);
        f->device->vt->block_poison(f->device, REF_FROM + 2, 0);
        poison_from(f, f->table, f->length);

        const int32_t *tables[] = {prompt_table, f->table, step_table};
        int32_t token[64], pos[64], seq[64], slot[64], parent[64], out[64];
        int n = CHUNK + t.n + 1;
        for (int r = 0; r < n; r++) {
            int i = r - CHUNK;
            bool in_tree = i >= 0 && i < t.n;
            seq[r] = r < CHUNK ? 0 : in_tree ? 1 : 2;
            token[r] = in_tree ? t.token[i] : r < CHUNK ? f->ids[r] : f->ids[64];
            slot[r] = pos[r] = in_tree ? t.pos[i] : r < CHUNK ? r : 64;
            if (in_tree) slot[r] = t.slot[i];
            parent[r] = r < CHUNK ? r - 1 : in_tree && t.parent[i] >= 0 ? t.parent[i] + CHUNK : -1;
            out[r] = r;
        }
        step_inputs in = {.n_rows = n,
                          .n_out = n,
                          .n_seqs = 3,
                          .token = token,
                          .pos = pos,
                          .seq = seq,
                          .slot = slot,
                          .parent = parent,
                          .block_table = tables,
                          .out_row = out};
        const float *logits = run(f, &in);
        assert_memory_equal(logits, plain, CHUNK * sizeof plain[0]);
        assert_memory_equal(logits + CHUNK * VOCAB, alone, (size_t)t.n * VOCAB * sizeof *alone);
        assert_memory_equal(logits + (n - 1) * VOCAB, plain[CHUNK], sizeof plain[0]);
        free(alone);
    }
    fixture_close(f);
}

// A chain kept elsewhere than by position, without parents: rows of a sequence continue each other. Once in descending slots, once in
// ascending ones, so that neighbours on the path lie in two blocks.
static void test_chain_at_slots(void **state) {
    (void)state;
    const config c = {DTYPE_F32, false, "f32", "f32", 64, 1, NULL, 0};
    fixture *f = fixture_open(&c);
    for (int round = 0; round < 6; round++) {
        static const int lengths[] = {0, 58, 123, 250, 251, 252};
        grow(f, lengths[round]);
        int row[MOST];
        tree t = {.n = MOST};
        for (int r = 0; r < MOST; r++) {
            t.token[r] = pick(f, VOCAB), t.pos[r] = f->length + r;
            t.slot[r] = round % 2 ? f->length + 3 + r : f->length + 3 + (MOST - 1 - r) * 2;
            t.out[r] = row[r] = r;
        }
        const int32_t *table = f->table;
        step_inputs in = {.n_rows = MOST,
                          .n_out = MOST,
                          .n_seqs = 1,
                          .token = t.token,
                          .pos = t.pos,
                          .seq = t.seq,
                          .slot = t.slot,
                          .block_table = &table,
                          .out_row = t.out};
        float plain[MOST][VOCAB];
        memcpy(plain, run_path(f, &t, row, MOST), sizeof plain);
        poison_from(f, f->table, f->length);
        assert_memory_equal(run(f, &in), plain, sizeof plain);
        poison_from(f, f->table, f->length);
    }
    fixture_close(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),          cmocka_unit_test(test_moe),
        cmocka_unit_test(test_levels),         cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_chain_at_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
