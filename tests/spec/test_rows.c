// The rows of a verify step: each sees the committed text, the drafts before it on its path and itself, and nothing else; each is rotated
// at its own position; each has the logits that it has alone. And mistakes in exactly that, made on purpose in the kernels or the
// arrays of a step, are caught.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "base/hash.h"
#include "tests/support/spec_check.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 300, K = 7, ROWS = K + 1, N_PROMPT = 100 };

static temp_folder folder;
static char text[400]; // the difference found

static const char *differs(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static const char *differs(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return text;
}

// ---- a step of drafts ----------------------------------------------------------------------------------------------------

typedef struct fixture {
    test_engine t;
    int32_t ids[N_PROMPT];
    float rows[ROWS][VOCAB], other[ROWS][VOCAB];
} fixture;

static void open_sequence(fixture *f, sequence *s, const int32_t *ids, int n) {
    error err;
    assert_int_equal(sequence_init(s, f->t.engine, &err), STATUS_OK);
    assert_int_equal(sequence_append(f->t.engine, s, ids, n, &err), STATUS_OK);
}

static void run_rows(fixture *f, sequence *s, int n, const draft *d, part_result *r) {
    error err;
    step_part part = {.seq = s, .n_rows = n, .last_logits = true, .draft = d};
    assert_true(block_table_reserve(&s->cache, n + (d ? d->n : 0)));
    assert_int_equal(engine_run_parts(f->t.engine, &part, 1, r, &err), STATUS_OK);
}

// Logits of the last token and of the drafts behind it, all in one step.
static void block_rows(fixture *f, const int32_t *ids, const draft *d, float out[ROWS][VOCAB]) {
    sequence s;
    part_result r;
    open_sequence(f, &s, ids, N_PROMPT);
    run_rows(f, &s, N_PROMPT - 1, NULL, &r);
    run_rows(f, &s, 1, d, &r);
    memcpy(out, r.logits, (size_t)(1 + d->n) * sizeof out[0]);
    sequence_deinit(&s);
}

// The same one by one: each draft behind its own path, as plain text.
static void single_rows(fixture *f, const int32_t *ids, const draft *d, float out[ROWS][VOCAB]) {
    for (int row = 0; row <= d->n; row++) {
        int32_t path[N_PROMPT + DRAFT_MAX];
        int depth = draft_depth(d, row - 1);
        memcpy(path, ids, N_PROMPT * sizeof *ids);
        for (int at = row - 1, i = depth; at >= 0; at = d->parent[at]) path[N_PROMPT + --i] = d->token[at];
        sequence s;
        part_result r;
        open_sequence(f, &s, path, N_PROMPT + depth);
        run_rows(f, &s, N_PROMPT - 1, NULL, &r);
        for (int i = 0; i <= depth; i++) run_rows(f, &s, 1, NULL, &r);
        memcpy(out[row], r.logits, sizeof out[row]);
        sequence_deinit(&s);
    }
}

static draft chain_of(int n) {
    draft d = {.n = n};
    for (int i = 0; i < n; i++) d.token[i] = (11 + 37 * i) % VOCAB, d.parent[i] = (int8_t)(i - 1);
    return d;
}

static bool same(const float *a, const float *b) { return memcmp(a, b, VOCAB * sizeof *a) == 0; }

static bool below(const draft *d, int node, int above) {
    while (node >= 0 && node != above) node = d->parent[node];
    return node == above;
}

// ---- the checks ------------------------------------------------------------------------------------------------------------

// Row i of the block is row i alone.
static const char *rows_differ(fixture *f, const draft *d) {
    single_rows(f, f->ids, d, f->other);
    block_rows(f, f->ids, d, f->rows);
    for (int row = 0; row <= d->n; row++) {
        if (!same(f->rows[row], f->other[row])) return differs("row %d of %d is not what it is alone", row, d->n + 1);
    }
    return NULL;
}

// Another draft j changes its own row and those below it, and no others; another past token changes all.
static const char *causality_differs(fixture *f, const draft *d) {
    block_rows(f, f->ids, d, f->rows);
    for (int j = 0; j < d->n; j++) {
        draft changed = *d;
        changed.token[j] = (d->token[j] + 1) % VOCAB;
        block_rows(f, f->ids, &changed, f->other);
        for (int row = 0; row <= d->n; row++) {
            bool should_change = row > 0 && below(d, row - 1, j);
            if (same(f->rows[row], f->other[row]) == should_change)
                return differs("another draft %d %s row %d", j, should_change ? "does not change" : "changes", row);
        }
    }
    for (int at = 0; at < N_PROMPT; at += 33) {
        int32_t changed[N_PROMPT];
        memcpy(changed, f->ids, sizeof changed);
        changed[at] = (changed[at] + 1) % VOCAB;
        block_rows(f, changed, d, f->other);
        for (int row = 0; row <= d->n; row++) {
            if (same(f->rows[row], f->other[row]))
                return differs("another token at %d does not change row %d", at, row);
        }
    }
    return NULL;
}

static void read_blocks(tally_engine *e, const block_table *t, int from, unsigned char *out) {
    const backend_vtable *vt = e->plan.device->vt;
    size_t bytes = (size_t)vt->block_bytes(e->plan.device, &e->plan.model.cache);
    for (int b = 0; b < t->n_blocks; b++) {
        if (b == t->n_blocks - 1 && from % KV_BLOCK) vt->block_poison(e->plan.device, t->block[b], from % KV_BLOCK);
        vt->block_read(e->plan.device, t->block[b], out + (size_t)b * bytes);
    }
}

// Rotated keys (and values) that a block of drafts leaves behind are those of single steps, also in cycles behind cycles with none,
// some and all accepted.
static const char *positions_differ(fixture *f) {
    tally_engine *e = f->t.engine;
    size_t bytes = (size_t)e->plan.device->vt->block_bytes(e->plan.device, &e->plan.model.cache) * 4;
    unsigned char *a = malloc(bytes), *b = malloc(bytes);
    assert_true(a && b);
    sequence s, single;
    part_result r;
    open_sequence(f, &s, f->ids, N_PROMPT - 40);
    open_sequence(f, &single, f->ids, N_PROMPT - 40);
    run_rows(f, &s, N_PROMPT - 41, NULL, &r);
    run_rows(f, &single, N_PROMPT - 41, NULL, &r);
    static const int accepted[] = {0, 3, K, 0, 0, K, 1, 2, 5, 0};
    const char *what = NULL;
    for (int cycle = 0; cycle < 10 && !what; cycle++) {
        draft d = chain_of(K);
        int8_t path[K];
        for (int i = 0; i < accepted[cycle]; i++) d.token[i] = f->ids[s.n_tokens + i], path[i] = (int8_t)i;
        run_rows(f, &s, 1, &d, &r);
        for (int i = 0; i < accepted[cycle]; i++) s.token[s.n_tokens++] = d.token[i];
        engine_commit_drafts(e, &s, path, accepted[cycle]);
        for (int i = 0; i <= accepted[cycle]; i++) {
            if (i > 0) single.token[single.n_tokens++] = d.token[i - 1];
            run_rows(f, &single, 1, NULL, &r);
        }
        assert_int_equal(s.cache.length, single.cache.length);
        memset(a, 0, bytes), memset(b, 0, bytes);
        read_blocks(e, &s.cache, s.cache.length, a);
        read_blocks(e, &single.cache, s.cache.length, b);
        if (memcmp(a, b, bytes) != 0)
            what =
                differs("cycle %d, %d accepted: keys or values are not those of single steps", cycle, accepted[cycle]);
        s.token[s.n_tokens] = single.token[s.n_tokens] = f->ids[s.n_tokens];
        single.n_tokens = ++s.n_tokens;
    }
    sequence_deinit(&s);
    sequence_deinit(&single);
    free(a);
    free(b);
    return what;
}

// ---- sound -----------------------------------------------------------------------------------------------------------------

static fixture *open_fixture(dtype type, bool moe, int threads) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    const char *path = temp_folder_path(&folder, "model.gguf");
    tiny_random_gguf(path, type, moe, 6);
    f->t = test_engine_open(path, &(tally_engine_options){.threads = threads,
                                                          .context = 256,
                                                          .cache_positions = 1024,
                                                          .step_rows = 128,
                                                          .no_prefix_reuse = true,
                                                          .logit_rows = 20});
    for (int i = 0; i < N_PROMPT; i++) f->ids[i] = (int32_t)(hash_mix((uint64_t)i + 9) % VOCAB);
    return f;
}

static void close_fixture(fixture *f) {
    assert_int_equal(test_blocks_in_use(f->t.engine), 0);
    test_engine_close(&f->t);
    free(f);
}

static const draft TREE = {7, {3, 4, 5, 6, 7, 8, 9}, {-1, -1, 0, 0, 1, 4, 2}, 0};

static void must_be_sound(dtype type, bool moe, int threads) {
    fixture *f = open_fixture(type, moe, threads);
    draft d = chain_of(K);
    const char *what = rows_differ(f, &d);
    if (!what) what = rows_differ(f, &TREE);
    if (!what) what = causality_differs(f, &d);
    if (!what) what = causality_differs(f, &TREE);
    if (!what) what = positions_differ(f);
    if (what) fail_msg("%s: %s", dtype_get(type)->name, what);
    close_fixture(f);
}

static void test_f32(void **state) { (void)state, must_be_sound(DTYPE_F32, false, 2); }
static void test_bf16_moe(void **state) { (void)state, must_be_sound(DTYPE_BF16, true, 1); }
static void test_q8_moe(void **state) { (void)state, must_be_sound(DTYPE_Q8_0, true, 2); }
static void test_q4k(void **state) { (void)state, must_be_sound(DTYPE_Q4_K, false, 1); }

// ---- mistakes --------------------------------------------------------------------------------------------------------------

// Between the engine and its backend: what the arrays of a verify step, or the kernels while it runs, do wrong.
static struct {
    const backend_vtable *sound;
    backend_vtable faulty;
    cpu_kernels kernels; // the backend's own
    attention_kernels attention;
    bool verifying; // the step that runs has drafts
    int base;       // position of its first row
    const float *first_cs;
    int32_t parent[ROWS]; // of the cycle before
    int n_parent;
} wrong;

static status run_noting(backend *b, const step_inputs *in, step_result *out, error *err) {
    wrong.verifying = in->n_rows > 1 && in->n_out == in->n_rows;
    wrong.base = in->pos[0];
    status s = wrong.sound->run(b, in, out, err);
    wrong.verifying = false;
    return s;
}

static float see_only_the_block(float *s, int64_t n, float *l) {
    for (int64_t i = 0; wrong.verifying && i < wrong.base && i < n - 1; i++) s[i] = -INFINITY;
    return wrong.kernels.softmax(s, n, l);
}

static float see_all_but_itself(float *s, int64_t n, float *l) {
    if (wrong.verifying && n > 1) s[n - 1] = -INFINITY;
    return wrong.kernels.softmax(s, n, l);
}

static float see_the_next(float *s, int64_t n, float *l) {
    bool leak = wrong.verifying && n < wrong.base + K && n % KV_PANEL != 0; // the last row has no next
    return wrong.kernels.softmax(s, leak ? n + 1 : n, l);
}

static void weigh_the_next(const kv_values *a) {
    int32_t n_t[128];
    kv_values leaking = *a;
    for (int i = 0; i < a->n_q; i++) {
        int at = a->n_t[i] % KV_PANEL;
        n_t[i] = a->n_t[i] + (wrong.verifying && at > 0 && at < (wrong.base + K) % KV_PANEL);
    }
    leaking.n_t = n_t;
    wrong.attention.values(&leaking);
}

static void rotate_all_as_the_first(float *x, const float *cs, int64_t rot, bool interleaved) {
    if (!wrong.verifying) wrong.first_cs = wrong.first_cs && wrong.first_cs < cs ? wrong.first_cs : cs;
    wrong.kernels.rope(x, wrong.verifying ? wrong.first_cs : cs, rot, interleaved);
}

static void rotate_as_the_one_before(float *x, const float *cs, int64_t rot, bool interleaved) {
    if (!wrong.verifying) wrong.first_cs = wrong.first_cs && wrong.first_cs < cs ? wrong.first_cs : cs;
    bool later = wrong.verifying && cs > wrong.first_cs;
    wrong.kernels.rope(x, later ? cs - rot : cs, rot, interleaved);
}

// The tree of the cycle before.
static status run_stale_tree(backend *b, const step_inputs *in, step_result *out, error *err) {
    step_inputs stale = *in;
    bool tree = in->parent && in->n_rows == ROWS;
    int32_t before[ROWS];
    memcpy(before, wrong.parent, sizeof before);
    if (tree) memcpy(wrong.parent, in->parent, sizeof wrong.parent);
    if (tree && wrong.n_parent == ROWS) stale.parent = before;
    wrong.n_parent = tree ? ROWS : wrong.n_parent;
    return wrong.sound->run(b, &stale, out, err);
}

// The mask as if it were a chain, whatever the tree.
static status run_as_chain(backend *b, const step_inputs *in, step_result *out, error *err) {
    step_inputs chain = *in;
    int32_t parent[128];
    for (int r = 0; r < in->n_rows; r++) parent[r] = r - 1;
    if (in->parent) chain.parent = parent;
    return wrong.sound->run(b, &chain, out, err);
}

static cpu_backend *interpose(fixture *f, status (*run)(backend *, const step_inputs *, step_result *, error *)) {
    cpu_backend *b = (cpu_backend *)f->t.engine->plan.device;
    memset(&wrong, 0, sizeof wrong);
    wrong.sound = b->base.vt;
    wrong.faulty = *b->base.vt;
    wrong.faulty.run = run;
    wrong.kernels = b->k;
    wrong.attention = *b->k.attention[b->cache.k_type];
    b->base.vt = &wrong.faulty;
    return b;
}

static void withdraw(cpu_backend *b) {
    b->base.vt = wrong.sound;
    b->k = wrong.kernels;
}

static void must_find(const char *what, const char *fault, const char *says) {
    if (!what) fail_msg("\"%s\" is not caught", fault);
    if (!strstr(what, says)) fail_msg("\"%s\" is caught by another check: %s", fault, what);
    print_message("# %s: %s\n", fault, what);
}

static void test_masks(void **state) {
    (void)state;
    fixture *f = open_fixture(DTYPE_F32, false, 1);
    draft d = chain_of(K);
    assert_null(causality_differs(f, &d));
    cpu_backend *b = interpose(f, run_noting);
    b->k.softmax = see_only_the_block;
    must_find(causality_differs(f, &d), "mask ignores the past", "another token at 0 does not change");
    must_find(rows_differ(f, &d), "mask ignores the past", "row 0 of");
    b->k.softmax = see_all_but_itself;
    must_find(rows_differ(f, &d), "mask hides the row itself", "row 0 of");
    attention_kernels leaking = wrong.attention;
    leaking.values = weigh_the_next;
    b->k.softmax = see_the_next;
    b->k.attention[b->cache.v_type] = &leaking;
    must_find(causality_differs(f, &d), "mask leaks the next draft", "another draft 0 changes row 0");
    withdraw(b);
    assert_null(causality_differs(f, &d));
    assert_null(rows_differ(f, &d));
    close_fixture(f);
}

static void test_rotations(void **state) {
    (void)state;
    fixture *f = open_fixture(DTYPE_F32, false, 1);
    assert_null(positions_differ(f));
    cpu_backend *b = interpose(f, run_noting);
    b->k.rope = rotate_all_as_the_first;
    must_find(positions_differ(f), "rotation at one position for all rows", "cycle 1, 3 accepted");
    b->k.rope = rotate_as_the_one_before;
    must_find(positions_differ(f), "rotation off by one", "cycle 1, 3 accepted");
    withdraw(b);
    assert_null(positions_differ(f));
    close_fixture(f);
}

static void test_trees(void **state) {
    (void)state;
    fixture *f = open_fixture(DTYPE_BF16, false, 1);
    draft other = TREE;
    other.parent[5] = 3, other.parent[6] = 4; // other paths, the same depths
    assert_null(rows_differ(f, &TREE));
    cpu_backend *b = interpose(f, run_stale_tree);
    assert_null(rows_differ(f, &TREE)); // the first cycle has none before it, the second tree is the first's
    must_find(rows_differ(f, &other), "stale mask of the cycle before", "of 8 is not what it is alone");
    withdraw(b);
    b = interpose(f, run_as_chain);
    must_find(causality_differs(f, &TREE), "siblings see each other", "changes row");
    withdraw(b);
    assert_null(rows_differ(f, &other));
    close_fixture(f);
}

static int setup(void **state) { return (void)state, folder = temp_folder_make(), 0; }
static int teardown(void **state) { return (void)state, temp_folder_remove(&folder), 0; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),   cmocka_unit_test(test_bf16_moe), cmocka_unit_test(test_q8_moe),
        cmocka_unit_test(test_q4k),   cmocka_unit_test(test_masks),    cmocka_unit_test(test_rotations),
        cmocka_unit_test(test_trees),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
