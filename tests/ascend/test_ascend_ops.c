// Operations of the Ascend backend from lists written by hand: sums in pieces against the tree of their pieces, mixtures whose tokens
// choose their experts by what stands in the table.
//
// A token's row begins, in each of its pieces, with a one at the number of its first expert and a half at that of its second. The
// router reads them.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ascend/internal.h"
#include "base/hash.h"
#include "op/plan.h"
#include "tests/support/emulated.h"
#include "tests/support/temp_folder.h"

enum { TOKENS = 48, INPUTS = 512, OUTPUTS = 80, EXPERTS = 16, MOST_ROWS = 40 };

typedef struct numbers { // in the type of the test, whole and cut into pieces
    dtype type;
    float *table, *weight, *bias; // [TOKENS][INPUTS], [EXPERTS][OUTPUTS][INPUTS], [OUTPUTS]
} numbers;

typedef struct bench {
    emulated emu;
    arena memory;
    weight_set weights;
    op_list g;
    backend *device;
    error err;
    dtype type;
    void *owned[8];
    int n_owned;
} bench;

// ---- numbers -----------------------------------------------------------------------------------------------------------------

static int expert_of(int token) { return token * 5 % EXPERTS; } // EXPERTS - 1 has tokens, too

static void round_all(dtype type, float *v, size_t n) {
    uint16_t half;
    for (size_t i = 0; i < n; i++) {
        dtype_get(type)->from_f32(&half, &v[i], 1);
        dtype_get(type)->to_f32(&v[i], &half, 1);
    }
}

static float *random_numbers(dtype type, size_t n, uint64_t seed) {
    float *v = malloc(n * sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++) v[i] = (float)(hash_mix(seed * 1000003 + i) >> 40) / 8388608.0f - 1.0f;
    round_all(type, v, n);
    return v;
}

// Pieces 1 and 2 become large and cancel, the others small: sums in F32 are exact otherwise, and every tree would do.
static void cancel_pieces(numbers *n, int pieces) {
    int k = INPUTS / pieces;
    for (int t = 0; t < TOKENS; t++)
        memcpy(n->table + t * INPUTS + 2 * k, n->table + t * INPUTS + k, (size_t)k * sizeof *n->table);
    for (int r = 0; r < EXPERTS * OUTPUTS; r++) {
        float *row = n->weight + (size_t)r * INPUTS;
        for (int i = 0; i < INPUTS; i++) row[i] *= i / k == 1 ? 4096.0f : 0x1p-6f;
        for (int i = 0; i < k; i++) row[2 * k + i] = -row[k + i];
    }
}

static numbers numbers_make(dtype type, int pieces) {
    numbers n = {.type = type,
                 .table = random_numbers(type, (size_t)TOKENS * INPUTS, 1),
                 .weight = random_numbers(type, (size_t)EXPERTS * OUTPUTS * INPUTS, 2),
                 .bias = random_numbers(type, OUTPUTS, 3)};
    for (int t = 0; t < TOKENS; t++) {
        for (int i = 0; i < pieces; i++) {
            float *row = n.table + t * INPUTS + i * (INPUTS / pieces);
            for (int e = 0; e < EXPERTS; e++)
                row[e] = e == expert_of(t) ? 1.0f : e == (expert_of(t) + 3) % EXPERTS ? 0.5f : 0.0f;
        }
    }
    if (pieces > 2) cancel_pieces(&n, pieces);
    return n;
}

static void numbers_free(numbers *n) {
    free(n->table);
    free(n->weight);
    free(n->bias);
}

// Columns [from, from + k) of rows of INPUTS.
static float *cut(const float *all, size_t rows, int from, int k) {
    float *v = malloc(rows * (size_t)k * sizeof *v);
    assert_non_null(v);
    for (size_t r = 0; r < rows; r++) memcpy(v + r * (size_t)k, all + r * INPUTS + from, (size_t)k * sizeof *v);
    return v;
}

// ---- a list and the device that runs it ----------------------------------------------------------------------------------------

static int add_weight(bench *b, weight_role role, int64_t n_experts, int64_t n, int64_t k, const float *v) {
    size_t all = (size_t)(n_experts * n * k);
    void *data = malloc(all * 2);
    const void **at = arena_alloc(&b->memory, (size_t)n_experts * sizeof *at);
    assert_true(data && at && b->n_owned < 8);
    dtype_get(b->type)->from_f32(data, v, (int64_t)all);
    b->owned[b->n_owned++] = data;
    for (int64_t e = 0; e < n_experts; e++) at[e] = (const char *)data + e * n * k * 2;
    weight w = {.label = "w",
                .layer = 0,
                .role = role,
                .split = role == WEIGHT_LINEAR || role == WEIGHT_EXPERTS ? SPLIT_REDUCED : SPLIT_NONE,
                .n_experts = n_experts,
                .n = n,
                .k = k,
                .n_parts = 1,
                .part = {{.type = b->type, .n_rows = n, .data = at}}};
    int id = weight_add(&b->weights, &w);
    assert_true(id >= 0);
    return id;
}

static void bench_init(bench *b, const char *device, dtype type) {
    *b = (bench){.emu = emulated_open(), .type = type};
    b->emu.reset(); // what a failed test left
    arena_init(&b->memory);
    b->weights.memory = &b->memory;
    op_list_init(&b->g, &b->memory, &b->weights, &b->err);
    b->g.layer = 0;
    if (ascend_backend_create(&b->device, &(ascend_options){.device = device, .natural = type}, &b->err))
        fail_msg("%s: %s", device, b->err.text);
}

static void bench_start(bench *b, tensor result) {
    b->g.logits = op_gather_out_rows(&b->g, result);
    if (b->g.failed) fail_msg("%s", b->err.text);
    int64_t bytes;
    step_limits limits = {.max_rows = MOST_ROWS, .max_out = MOST_ROWS, .n_blocks = 1, .max_context = 64};
    cache_desc cache = {.n_layers = 1, .n_kv_heads = 1, .head_dim = 16, .k_type = b->type, .v_type = b->type};
    int tile = b->device->row_tile, rows = (MOST_ROWS + tile - 1) / tile * tile;
    const backend_vtable *vt = b->device->vt;
    assert_int_equal(plan_memory(&b->g, rows, rows, &bytes, &b->err), STATUS_OK);
    for (int i = 0; i < b->g.n_ops; i++)
        assert_int_equal(vt->supports(b->device, &b->g.ops[i], &b->weights, &b->err), STATUS_OK);
    for (int i = 0; i < b->weights.n; i++)
        assert_int_equal(vt->weight_upload(b->device, &b->weights, i, &b->err), STATUS_OK);
    if (vt->prepare(b->device, &b->g, bytes, &cache, &limits, &b->err)) fail_msg("%s", b->err.text);
}

// Rows [n][OUTPUTS] of the given tokens; owned by the caller.
static float *bench_run(bench *b, const int32_t *tokens, int n) {
    int32_t pos[MOST_ROWS], seq[MOST_ROWS] = {0}, out_row[MOST_ROWS];
    const int32_t table[1] = {0}, *tables[1] = {table};
    for (int i = 0; i < n; i++) pos[i] = out_row[i] = i;
    step_inputs in = {.n_rows = n,
                      .n_out = n,
                      .n_seqs = 1,
                      .token = tokens,
                      .pos = pos,
                      .seq = seq,
                      .block_table = tables,
                      .out_row = out_row};
    step_result r;
    if (b->device->vt->run(b->device, &in, &r, &b->err)) fail_msg("%s", b->err.text);
    float *rows = malloc((size_t)n * OUTPUTS * sizeof *rows);
    assert_non_null(rows);
    memcpy(rows, r.logits, (size_t)n * OUTPUTS * sizeof *rows);
    assert_true(((const ascend_backend *)b->device)->call.growths == 0);
    return rows;
}

static void bench_deinit(bench *b) {
    b->device->vt->destroy(b->device);
    emulated_next(&b->emu);
    emulated_close(&b->emu);
    arena_deinit(&b->memory);
    for (int i = 0; i < b->n_owned; i++) free(b->owned[i]);
}

static void all_tokens(int32_t *tokens, int n) {
    for (int i = 0; i < n; i++) tokens[i] = (int32_t)(i * 7 % TOKENS);
}

// Where a product takes its inputs from, and in how many pieces it sums them.
typedef struct part {
    int from, k, pieces;
    bool biased;
    int used; // experts of a row; 0: no mixture
} part;

// table -> one product (of a mixture: with one expert its factor is one) -> every row
static void start_product(bench *b, const char *device, const numbers *n, const part *p) {
    bench_init(b, device, n->type);
    int64_t experts = p->used ? EXPERTS : 1;
    float *table = cut(n->table, TOKENS, p->from, p->k), *w = cut(n->weight, (size_t)experts * OUTPUTS, p->from, p->k),
          *router = calloc((size_t)EXPERTS * (size_t)p->k, sizeof *router);
    assert_non_null(router);
    for (int e = 0; e < EXPERTS; e++) router[e * p->k + e] = 1;
    tensor x = op_embed(&b->g, add_weight(b, WEIGHT_EMBED, 1, TOKENS, p->k, table)), y;
    if (p->used) {
        tensor ids, factor;
        tensor logits = op_linear(&b->g, x, add_weight(b, WEIGHT_ROUTER, 1, EXPERTS, p->k, router), -1, 1);
        op_router_topk(&b->g, logits, p->used, true, &ids, &factor);
        int experts_w = add_weight(b, WEIGHT_EXPERTS, EXPERTS, OUTPUTS, p->k, w);
        y = op_expert_combine(&b->g, op_expert_linear(&b->g, x, ids, experts_w, p->pieces), factor);
    } else {
        int bias = p->biased ? add_weight(b, WEIGHT_VECTOR, 1, OUTPUTS, 1, n->bias) : -1;
        y = op_linear(&b->g, x, add_weight(b, WEIGHT_LINEAR, 1, OUTPUTS, p->k, w), bias, p->pieces);
    }
    bench_start(b, y);
    free(table);
    free(w);
    free(router);
}

static float *run_product(const char *device, const numbers *n, const part *p, int rows) {
    bench b;
    int32_t tokens[MOST_ROWS];
    start_product(&b, device, n, p);
    all_tokens(tokens, rows);
    float *out = bench_run(&b, tokens, rows);
    bench_deinit(&b);
    return out;
}

// ---- sums in pieces ------------------------------------------------------------------------------------------------------------

static bool equal(const float *a, const float *b, int rows) {
    return memcmp(a, b, (size_t)rows * OUTPUTS * sizeof *a) == 0;
}

// Each piece on a device that holds nothing else, as a rank would; added in a tree of neighbours in F32 and rounded.
static float *tree_of(const char *device, const numbers *n, const part *p, int rows) {
    float *sum[16];
    char stored[120]; // pieces are never in FRACTAL_NZ
    snprintf(stored, sizeof stored, "%s,off=nz", device);
    for (int i = 0; i < p->pieces; i++) {
        part one = {.from = p->from + p->k / p->pieces * i, .k = p->k / p->pieces, .pieces = 1, .used = p->used};
        sum[i] = run_product(stored, n, &one, rows);
    }
    for (int step = 1; step < p->pieces; step *= 2) {
        for (int i = 0; i < p->pieces; i += 2 * step) {
            for (int j = 0; j < rows * OUTPUTS; j++) sum[i][j] += sum[i + step][j];
        }
    }
    for (int i = 1; i < p->pieces; i++) free(sum[i]);
    for (int j = 0; p->biased && j < rows * OUTPUTS; j++) sum[0][j] += n->bias[j % OUTPUTS];
    round_all(n->type, sum[0], (size_t)rows * OUTPUTS);
    return sum[0];
}

static void check_pieces(const char *device, dtype type, bool experts) {
    static const int counts[] = {2, 16}, most = 8; // experts: the router's columns must fit a piece
    for (size_t c = 0; c < 2; c++) {
        part p = {.k = INPUTS, .pieces = experts && counts[c] > most ? most : counts[c], .used = experts};
        numbers n = numbers_make(type, p.pieces);
        for (int rows = 1; rows <= MOST_ROWS; rows += 19) { // one tile and several
            p.biased = !experts && rows > 1;
            float *got = run_product(device, &n, &p, rows), *want = tree_of(device, &n, &p, rows);
            if (!equal(got, want, rows))
                fail_msg("%s: %d rows in %d pieces are not the tree of the pieces", device, rows, p.pieces);
            free(got);
            free(want);
        }
        numbers_free(&n);
    }
}

static void test_pieces(void **state) {
    (void)state;
    check_pieces("emu:910B3,tile=16", DTYPE_BF16, false);
    check_pieces("emu:910_9382,tile=16,seed=5,perturb=9,cann=8.1", DTYPE_F16, false);
    check_pieces("emu:910A,tile=16", DTYPE_F16, false);
    check_pieces("emu:310P3,tile=16", DTYPE_F16, false);
    check_pieces("emu:950PR,tile=16", DTYPE_BF16, false);
}

static void test_pieces_of_experts(void **state) {
    (void)state;
    check_pieces("emu:910B3,tile=16", DTYPE_BF16, true);
    check_pieces("emu:910_9382,tile=16,off=all,cann=8.5", DTYPE_F16, true);
    check_pieces("emu:910A,tile=16", DTYPE_F16, true);
}

// One piece is a product like any; so are several where the pieces are switched off, or the exactness they are for.
static void check_one_piece(bool experts) {
    const char *device = "emu:910B3,tile=16,off=nz"; // pieces are never in FRACTAL_NZ
    numbers n = numbers_make(DTYPE_BF16, 8);
    part one = {.k = INPUTS, .pieces = 1, .used = experts}, many = {.k = INPUTS, .pieces = 8, .used = experts};
    float *whole = run_product(device, &n, &one, 20),
          *off = run_product("emu:910B3,tile=16,off=nz,pieces=off", &n, &many, 20),
          *pieces = run_product(device, &n, &many, 20);
    assert_true(equal(whole, off, 20));
    assert_false(equal(whole, pieces, 20)); // or the tests above say nothing
    free(whole);
    free(off);
    free(pieces);
    numbers_free(&n);
}

static void test_one_piece(void **state) {
    (void)state;
    check_one_piece(false);
    check_one_piece(true);
}

// A product of gate and up at once, which only passes for other backends make.
static void test_refused_gated(void **state) {
    (void)state;
    bench b;
    bench_init(&b, "emu:910B3,tile=16", DTYPE_BF16);
    numbers n = numbers_make(DTYPE_BF16, 1);
    tensor x = op_embed(&b.g, add_weight(&b, WEIGHT_EMBED, 1, TOKENS, INPUTS, n.table));
    op_linear(&b.g, x, add_weight(&b, WEIGHT_LINEAR, 1, OUTPUTS, INPUTS, n.weight), -1, 1);
    assert_int_equal(b.device->vt->supports(b.device, &b.g.ops[1], &b.weights, &b.err), STATUS_OK);
    b.g.ops[1].args.linear.gated = true;
    assert_int_equal(b.device->vt->supports(b.device, &b.g.ops[1], &b.weights, &b.err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(b.err.text, "gate and up"));
    bench_deinit(&b);
    numbers_free(&n);
}

// What has no tree is refused at load.
static void test_refused_pieces(void **state) {
    (void)state;
    bench b;
    bench_init(&b, "emu:910B3,tile=16", DTYPE_BF16);
    numbers n = numbers_make(DTYPE_BF16, 1);
    float *table = cut(n.table, TOKENS, 0, 48), *w = cut(n.weight, OUTPUTS, 0, 48);
    tensor x = op_embed(&b.g, add_weight(&b, WEIGHT_EMBED, 1, TOKENS, 48, table));
    op_linear(&b.g, x, add_weight(&b, WEIGHT_LINEAR, 1, OUTPUTS, 48, w), -1, 3);
    assert_int_equal(b.device->vt->supports(b.device, &b.g.ops[1], &b.weights, &b.err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(b.err.text, "3 pieces"));
    bench_deinit(&b);
    free(table);
    free(w);
    numbers_free(&n);
}

// ---- mixtures ------------------------------------------------------------------------------------------------------------------

// Any rows together give what each gives alone: every token its experts, all on the same, some experts without a token.
static void check_mixture(const char *device, dtype type, int used) {
    numbers n = numbers_make(type, 8);
    part p = {.k = INPUTS, .pieces = 8, .used = used};
    bench b;
    start_product(&b, device, &n, &p);
    float *alone[TOKENS];
    for (int32_t t = 0; t < TOKENS; t++) alone[t] = bench_run(&b, &t, 1);
    static const int counts[] = {2, 3, 5, 6, 16, 17, 33, MOST_ROWS};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (int mix = 0; mix < 3; mix++) {
            int32_t tokens[MOST_ROWS];
            all_tokens(tokens, counts[c]);
            for (int i = 0; i < counts[c]; i++) {
                if (mix == 1) tokens[i] = i % 2 * EXPERTS + 3; // one expert gets them all
                if (mix == 2) tokens[i] = i ? 3 : 7;           // and here all but one
            }
            float *rows = bench_run(&b, tokens, counts[c]);
            for (int i = 0; i < counts[c]; i++) {
                if (!equal(rows + (size_t)i * OUTPUTS, alone[tokens[i]], 1))
                    fail_msg("%s: row %d of %d (mix %d, %d experts each) is not what token %d gives alone", device, i,
                             counts[c], mix, used, (int)tokens[i]);
            }
            free(rows);
        }
    }
    for (int t = 0; t < TOKENS; t++) free(alone[t]);
    bench_deinit(&b);
    numbers_free(&n);
}

static void test_mixtures(void **state) {
    (void)state;
    for (int used = 1; used <= 2; used++) {
        check_mixture("emu:910A,tile=16", DTYPE_F16, used);
        check_mixture("emu:310P3,tile=16", DTYPE_F16, used);
        check_mixture("emu:310P3,tile=16,off=moe", DTYPE_F16, used);
        check_mixture("emu:910B3,tile=16,off=moe", DTYPE_BF16, used);
        check_mixture("emu:910_9382,tile=16", DTYPE_BF16, used);
    }
}

// What one and the other expert give differs, and each is what a plain sum gives: a mixture that takes any expert would pass above.
static void test_mixture_takes_the_chosen(void **state) {
    (void)state;
    static const char *const devices[] = {"emu:910A,tile=16", "emu:310P3,tile=16", "emu:310P3,tile=16,off=moe"};
    numbers n = numbers_make(DTYPE_F16, 1);
    for (size_t d = 0; d < 3; d++) {
        for (int rows = 1; rows <= 16; rows += 3) {
            part p = {.k = INPUTS, .pieces = 1, .used = 1};
            float *got = run_product(devices[d], &n, &p, rows);
            for (int r = 0; r < rows; r++) {
                int t = r * 7 % TOKENS;
                for (int i = 0; i < OUTPUTS; i++) {
                    const float *w = n.weight + ((size_t)expert_of(t) * OUTPUTS + (size_t)i) * INPUTS;
                    double want = 0;
                    for (int k = 0; k < INPUTS; k++) want += (double)n.table[t * INPUTS + k] * (double)w[k];
                    assert_true(fabs(want - (double)got[r * OUTPUTS + i]) < 0.02 + fabs(want) / 1000);
                }
            }
            free(got);
        }
    }
    numbers_free(&n);
}

static int launches_of(bench *b, int rows) {
    int32_t tokens[MOST_ROWS];
    all_tokens(tokens, rows);
    uint64_t before = b->emu.launches();
    free(bench_run(b, tokens, rows));
    return (int)(b->emu.launches() - before);
}

// Only experts that the rows can have chosen are computed, up to a third of them; the rows that pad choose none.
static void test_only_chosen_experts(void **state) {
    (void)state;
    enum { LIST = 5, GATHERED = 4, IN_PLACE = 3 };
    numbers n = numbers_make(DTYPE_F16, 1);
    part p = {.k = INPUTS, .pieces = 1, .used = 1};
    bench b;
    start_product(&b, "emu:910A,tile=16", &n, &p);
    int one = launches_of(&b, 1), five = launches_of(&b, 5), six = launches_of(&b, 6), all = launches_of(&b, 16);
    assert_int_equal(five - one, 4 * GATHERED);
    assert_int_equal(six, all);
    assert_int_equal(all - one, EXPERTS * IN_PLACE - GATHERED - LIST);
    bench_deinit(&b);
    start_product(&b, "emu:310P3,tile=16", &n, &p); // by one grouped product
    assert_int_equal(launches_of(&b, 1), launches_of(&b, 16));
    assert_true(launches_of(&b, 1) < one);
    bench_deinit(&b);
    numbers_free(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_pieces_of_experts),
        cmocka_unit_test(test_one_piece),
        cmocka_unit_test(test_refused_pieces),
        cmocka_unit_test(test_refused_gated),
        cmocka_unit_test(test_mixtures),
        cmocka_unit_test(test_mixture_takes_the_chosen),
        cmocka_unit_test(test_only_chosen_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
