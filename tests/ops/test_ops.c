// Operations run from lists written by hand: experts against a plain loop, wide heads at the borders of panels and tiles, the rules
// of op_check.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/backends.h"
#include "engine/sampler.h"
#include "op/passes.h"
#include "op/plan.h"
#include "tensor/dtype.h"
#include "tests/support/eval.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_folder.h"

// A list, its weights, and a device that runs it.
typedef struct bench {
    arena memory;
    weight_set weights;
    op_list g;
    pool *threads;
    backend *device;
    error err;
} bench;

static void bench_init(bench *b) {
    *b = (bench){0};
    arena_init(&b->memory);
    b->weights.memory = &b->memory;
    op_list_init(&b->g, &b->memory, &b->weights, &b->err);
}

static int add_weight(bench *b, const char *label, weight_role role, int64_t n_experts, int64_t n, int64_t k,
                      dtype type, const void *data) {
    const void **at = arena_alloc(&b->memory, (size_t)n_experts * sizeof *at);
    assert_non_null(at);
    for (int64_t e = 0; e < n_experts; e++) at[e] = (const char *)data + e * n * dtype_row_bytes(type, k);
    weight w = {.label = label,
                .layer = -1,
                .role = role,
                .n_experts = n_experts,
                .n = n,
                .k = k,
                .n_parts = 1,
                .part = {{.type = type, .n_rows = n, .data = at}}};
    int id = weight_add(&b->weights, &w);
    assert_true(id >= 0);
    return id;
}

static void bench_start_with(bench *b, int threads, cpu_level level, int max_rows, bool keep_rows) {
    if (b->g.failed) fail_msg("%s", b->err.text);
    int64_t bytes;
    step_limits limits = {.max_rows = max_rows, .max_out = max_rows, .n_blocks = 1, .max_context = 64};
    cache_desc cache = {.n_layers = 1, .n_kv_heads = 1, .head_dim = 16, .k_type = DTYPE_F32, .v_type = DTYPE_F32};
    assert_int_equal(plan_memory(&b->g, max_rows, max_rows, &bytes, &b->err), STATUS_OK);
    assert_int_equal(pool_create(&b->threads, threads, &b->err), STATUS_OK);
    assert_int_equal(backends_create_cpu(&b->device, b->threads, level, &b->err), STATUS_OK);
    if (keep_rows) backends_cpu_keep_rows(b->device);
    for (int i = 0; i < b->weights.n; i++) {
        if (b->weights.w[i].absorbed) continue;
        assert_int_equal(b->device->vt->weight_upload(b->device, &b->weights, i, &b->err), STATUS_OK);
    }
    assert_int_equal(b->device->vt->prepare(b->device, &b->g, bytes, &cache, &limits, &b->err), STATUS_OK);
}

static void bench_start(bench *b, int threads, cpu_level level, int max_rows) {
    bench_start_with(b, threads, level, max_rows, false);
}

static void bench_deinit(bench *b) {
    if (b->device) b->device->vt->destroy(b->device);
    pool_destroy(b->threads);
    arena_deinit(&b->memory);
}

// Results of n rows that look up the given tokens; borrowed.
static const float *bench_run(bench *b, const int32_t *tokens, int n) {
    static int32_t pos[128], seq[128], out_row[128], table[1];
    static const int32_t *tables[1] = {table};
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
    assert_int_equal(b->device->vt->run(b->device, &in, &r, &b->err), STATUS_OK);
    for (int i = 0; i < n; i++) assert_int_equal(r.fault[i], STEP_OK);
    return r.logits;
}

static float *numbers(int64_t n, uint64_t seed, float scale) {
    float *v = malloc((size_t)n * sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = ((float)(hash_mix(seed * 1000003 + (uint64_t)i) >> 40) / 8388608.0f - 1.0f) * scale;
    return v;
}

// ---- experts -------------------------------------------------------------------------------------------------------------

enum { DIM = 48, EXPERTS = 9, FFN = 40, TOKENS = 80 };

typedef struct moe {
    float *table, *router, *gate, *up, *down;
} moe;

static void dot_rows(double *y, const float *w, const double *x, int n, int k) {
    for (int i = 0; i < n; i++) {
        y[i] = 0;
        for (int j = 0; j < k; j++) y[i] += (double)w[i * k + j] * x[j];
    }
}

// One token by the formula, in double: softmax over all experts, the `used` largest (ties: lowest), normalised if asked.
static void moe_reference(const moe *m, int token, int used, bool normalize, double *y) {
    double x[DIM], p[EXPERTS], total = 0, chosen_sum = 0, gate[FFN], up[FFN], down[DIM];
    int chosen[EXPERTS];
    bool taken[EXPERTS] = {false};
    for (int j = 0; j < DIM; j++) x[j] = (double)m->table[token * DIM + j], y[j] = 0;
    dot_rows(p, m->router, x, EXPERTS, DIM);
    for (int e = 0; e < EXPERTS; e++) total += p[e] = exp(p[e]);
    for (int s = 0; s < used; s++) {
        int best = -1;
        for (int e = 0; e < EXPERTS; e++) {
            if (!taken[e] && (best < 0 || p[e] > p[best])) best = e;
        }
        taken[best] = true, chosen[s] = best;
        chosen_sum += p[best];
    }
    for (int s = 0; s < used; s++) {
        int e = chosen[s];
        dot_rows(gate, m->gate + e * FFN * DIM, x, FFN, DIM);
        dot_rows(up, m->up + e * FFN * DIM, x, FFN, DIM);
        for (int i = 0; i < FFN; i++) gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
        dot_rows(down, m->down + e * DIM * FFN, gate, DIM, FFN);
        for (int j = 0; j < DIM; j++) y[j] += p[e] / (normalize ? chosen_sum : total) * down[j];
    }
}

static moe moe_make(void) {
    moe m = {numbers(TOKENS * DIM, 1, 1), numbers(EXPERTS * DIM, 2, 0.3f), numbers(EXPERTS * FFN * DIM, 3, 0.2f),
             numbers(EXPERTS * FFN * DIM, 4, 0.2f), numbers(EXPERTS * DIM * FFN, 5, 0.2f)};
    memcpy(m.router + 6 * DIM, m.router + 2 * DIM, DIM * sizeof(float)); // experts 2 and 6 always tie
    return m;
}

static void moe_free(moe *m) {
    free(m->table);
    free(m->router);
    free(m->gate);
    free(m->up);
    free(m->down);
}

static void moe_list(bench *b, const moe *m, int used, bool normalize, unsigned passes) {
    bench_init(b);
    tensor x = op_embed(&b->g, add_weight(b, "table", WEIGHT_EMBED, 1, TOKENS, DIM, DTYPE_F32, m->table)), ids, p;
    tensor logits =
        op_linear(&b->g, x, add_weight(b, "router", WEIGHT_ROUTER, 1, EXPERTS, DIM, DTYPE_F32, m->router), -1, 1);
    op_router_topk(&b->g, logits, used, normalize, &ids, &p);
    tensor gate = op_expert_linear(&b->g, x, ids,
                                   add_weight(b, "gate", WEIGHT_EXPERTS, EXPERTS, FFN, DIM, DTYPE_F32, m->gate), 1);
    tensor up =
        op_expert_linear(&b->g, x, ids, add_weight(b, "up", WEIGHT_EXPERTS, EXPERTS, FFN, DIM, DTYPE_F32, m->up), 1);
    tensor a = op_swiglu(&b->g, gate, up);
    tensor o = op_expert_linear(&b->g, a, ids,
                                add_weight(b, "down", WEIGHT_EXPERTS, EXPERTS, DIM, FFN, DTYPE_F32, m->down), 1);
    b->g.logits = op_gather_out_rows(&b->g, op_expert_combine(&b->g, o, p));
    passes_run(&b->g, passes);
}

static void check_experts(const moe *m, int used, bool normalize, int threads) {
    static const int counts[] = {1, 2, 3, 7, 31, 32, 33, 65, 80};
    bench b;
    moe_list(&b, m, used, normalize, 0);
    bench_start(&b, threads, cpu_level_best(), TOKENS);
    int32_t tokens[TOKENS];
    float alone[TOKENS][DIM];
    for (int t = 0; t < TOKENS; t++) {
        double want[DIM];
        tokens[t] = (t * 37) % TOKENS;
        memcpy(alone[t], bench_run(&b, &tokens[t], 1), sizeof alone[t]);
        moe_reference(m, tokens[t], used, normalize, want);
        for (int j = 0; j < DIM; j++) {
            if (fabs((double)alone[t][j] - want[j]) > 1e-5) {
                fail_msg("token %d, number %d: %g, the formula gives %g (%d experts, %s)", tokens[t], j,
                         (double)alone[t][j], want[j], used, normalize ? "normalised" : "not normalised");
            }
        }
    }
    for (int fused = 0; fused <= 1; fused++) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            const float *y = bench_run(&b, tokens, counts[c]);
            if (memcmp(y, alone, (size_t)counts[c] * sizeof alone[0]) != 0)
                fail_msg("%d tokens together differ from one by one (fused: %d)", counts[c], fused);
        }
        bench_deinit(&b);
        if (fused) break;
        moe_list(&b, m, used, normalize, PASS_ALL);
        bench_start(&b, threads, cpu_level_best(), TOKENS);
    }
}

static void test_experts(void **state) {
    (void)state;
    moe m = moe_make();
    for (int used = 1; used <= EXPERTS; used += used == 3 ? 5 : 1) {
        check_experts(&m, used, false, 1);
        check_experts(&m, used, true, 2);
    }
    moe_free(&m);
}

// Every token to the same experts, so that one expert gets all rows and most get none; and all experts tie.
static void test_experts_uneven(void **state) {
    (void)state;
    moe m = moe_make();
    memset(m.router, 0, EXPERTS * DIM * sizeof(float)); // all equal: the lowest experts win
    check_experts(&m, 1, false, 2);
    check_experts(&m, 3, true, 2);
    moe_free(&m);
}

// ---- gate and up in one ----------------------------------------------------------------------------------------------------

enum { GATED_K = 256, GATED_TOKENS = 80 };

// The result of all tokens, [GATED_TOKENS, n]: gate, up and SWIGLU, as three operations or (PASS_ALL) one.
static void run_gated(float *y, int64_t n, const dtype types[2], void *const w[2], const float *bias, unsigned passes,
                      bool keep_rows, int threads, int rows_at_once) {
    float *table = numbers(GATED_TOKENS * GATED_K, 11, 1);
    bench b;
    bench_init(&b);
    tensor x = op_embed(&b.g, add_weight(&b, "table", WEIGHT_EMBED, 1, GATED_TOKENS, GATED_K, DTYPE_F32, table));
    tensor half[2];
    for (int i = 0; i < 2; i++) {
        int wi = add_weight(&b, i ? "up" : "gate", WEIGHT_LINEAR, 1, n, GATED_K, types[i], w[i]);
        int bi = bias ? add_weight(&b, "bias", WEIGHT_VECTOR, 1, n, 1, DTYPE_F32, bias + i * n) : -1;
        half[i] = op_linear(&b.g, x, wi, bi, 1);
    }
    b.g.logits = op_gather_out_rows(&b.g, op_swiglu(&b.g, half[0], half[1]));
    assert_int_equal(passes_run(&b.g, passes), STATUS_OK);
    assert_int_equal(b.g.n_ops, passes ? 3 : 5);
    bench_start_with(&b, threads, cpu_level_best(), GATED_TOKENS, keep_rows);
    int32_t tokens[GATED_TOKENS];
    for (int i = 0; i < GATED_TOKENS; i++) tokens[i] = i;
    for (int row = 0; row < GATED_TOKENS; row += rows_at_once)
        memcpy(y + row * n, bench_run(&b, tokens + row, rows_at_once), (size_t)(rows_at_once * n) * sizeof *y);
    bench_deinit(&b);
    free(table);
}

static void check_gated(int64_t n, dtype gate, dtype up, bool with_bias) {
    static const int widths[] = {1, 5, 16, 80};
    const dtype types[2] = {gate, up};
    const size_t size = (size_t)(GATED_TOKENS * n) * sizeof(float);
    float *f = numbers(n * GATED_K, 12, 0.2f), *bias = numbers(2 * n, 13, 1), *want = malloc(size), *got = malloc(size);
    void *w[2];
    assert_true(want && got);
    for (int i = 0; i < 2; i++) {
        w[i] = malloc((size_t)dtype_row_bytes(types[i], n * GATED_K));
        assert_non_null(w[i]);
        dtype_get(types[i])->from_f32(w[i], f, n * GATED_K);
        f[0] += 1; // up is not quite gate
    }
    run_gated(want, n, types, w, with_bias ? bias : NULL, 0, false, 1, 1);
    for (int i = 0; i < 16; i++) {
        const bool keep_rows = i % 2;
        const int threads = i / 2 % 2 ? 3 : 1, rows = widths[i / 4];
        run_gated(got, n, types, w, with_bias ? bias : NULL, PASS_ALL, keep_rows, threads, rows);
        if (memcmp(got, want, size) != 0) {
            fail_msg("%lld outputs of %s and %s, %d rows, %d threads, %s: fused differs from three operations",
                     (long long)n, dtype_get(gate)->name, dtype_get(up)->name, rows, threads,
                     keep_rows ? "not packed" : "packed");
        }
    }
    free(w[0]);
    free(w[1]);
    free(f);
    free(bias);
    free(want);
    free(got);
}

static void test_gated(void **state) {
    (void)state;
    check_gated(1, DTYPE_F32, DTYPE_F32, true);
    check_gated(40, DTYPE_BF16, DTYPE_BF16, false);
    check_gated(16, DTYPE_Q8_0, DTYPE_Q8_0, true);
    check_gated(600, DTYPE_Q8_0, DTYPE_BF16, true); // halves of two types want x in two formats
    check_gated(609, DTYPE_F16, DTYPE_Q8_0, false);
}

// ---- wide heads ----------------------------------------------------------------------------------------------------------

enum { HEAD_K = 8, HEAD_TOKENS = 8 };

static void check_head(int64_t n, dtype type, int threads) {
    float *table = numbers(HEAD_TOKENS * HEAD_K, 7, 1), *head = numbers(n * HEAD_K, 8, 1);
    memcpy(head + 9930 * HEAD_K, head + 3710 * HEAD_K, HEAD_K * sizeof *head);
    for (int j = 0; j < HEAD_K; j++) { // token 1 is largest at 3710 and 9930, token 2 at the last row
        head[3710 * HEAD_K + j] = head[9930 * HEAD_K + j] = 4 * (table[HEAD_K + j] > 0 ? 1.0f : -1.0f);
        head[(n - 1) * HEAD_K + j] = 4 * (table[2 * HEAD_K + j] > 0 ? 1.0f : -1.0f);
    }
    void *stored = malloc((size_t)dtype_row_bytes(type, n * HEAD_K));
    assert_non_null(stored);
    dtype_get(type)->from_f32(stored, head, n * HEAD_K);
    dtype_get(type)->to_f32(head, stored, n * HEAD_K);
    bench b;
    bench_init(&b);
    tensor x = op_embed(&b.g, add_weight(&b, "table", WEIGHT_EMBED, 1, HEAD_TOKENS, HEAD_K, DTYPE_F32, table));
    b.g.logits = op_linear(&b.g, op_gather_out_rows(&b.g, x),
                           add_weight(&b, "head", WEIGHT_LINEAR, 1, n, HEAD_K, type, stored), -1, 1);
    bench_start(&b, threads, cpu_level_best(), HEAD_TOKENS);
    static const int32_t tokens[HEAD_TOKENS] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int rows = 1; rows <= 3; rows++) {
        const float *y = bench_run(&b, tokens, rows);
        for (int r = 0; r < rows; r++) {
            for (int64_t i = 0; i < n; i++) { // the order sheet: k ascending from +0
                float acc = 0;
                for (int j = 0; j < HEAD_K; j++) acc = fmaf(head[i * HEAD_K + j], table[r * HEAD_K + j], acc);
                if (memcmp(&acc, &y[r * n + i], sizeof acc) != 0)
                    fail_msg("%lld rows, token %d: row %lld differs", (long long)n, r, (long long)i);
            }
        }
        if (rows > 1) assert_int_equal(sampler_argmax(y + n, (int)n), 3710);
        if (rows > 2) assert_int_equal(sampler_argmax(y + 2 * n, (int)n), n - 1);
    }
    bench_deinit(&b);
    free(stored);
    free(table);
    free(head);
}

static void test_wide_heads(void **state) {
    (void)state;
    static const int64_t sizes[] = {65535, 65536, 65537, 151936};
    for (int i = 0; i < 4; i++) {
        check_head(sizes[i], DTYPE_F32, 2);
        check_head(sizes[i], DTYPE_BF16, 1);
    }
}

// A whole model whose embedding is its head: rows 3710 and 9930 are equal and largest behind every prompt.
static void test_tie_in_a_model(void **state) {
    (void)state;
    enum { V = 151936, D = 8 };
    temp_folder folder = temp_folder_make();
    const char *path = temp_folder_path(&folder, "tie.gguf");
    float *embed = numbers((int64_t)V * D, 3, 0.1f), one[D], *zero = calloc(D * D, sizeof *zero);
    assert_non_null(zero);
    for (int j = 0; j < D; j++) one[j] = 1, embed[3710 * D + j] = embed[9930 * D + j] = 3, embed[5 * D + j] = 1;
    gguf_writer w;
    gguf_writer_init(&w);
    gguf_writer_str(&w, "general.architecture", "llama");
    static const struct {
        const char *key;
        uint32_t value;
    } keys[] = {
        {"llama.block_count", 1},          {"llama.context_length", 64},        {"llama.embedding_length", D},
        {"llama.feed_forward_length", D},  {"llama.attention.head_count", 1},   {"llama.attention.head_count_kv", 1},
        {"llama.attention.key_length", D}, {"llama.attention.value_length", D}, {"llama.rope.dimension_count", D}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) gguf_writer_u32(&w, keys[i].key, keys[i].value);
    gguf_writer_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-6f);
    gguf_writer_f32(&w, "llama.rope.freq_base", 10000.0f);
    gguf_writer_tensor(&w, "token_embd.weight", 0, 2, (uint64_t[]){D, V}, embed, (size_t)V * D * sizeof *embed);
    static const char *const norms[] = {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"};
    static const char *const squares[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                          "ffn_gate", "ffn_up", "ffn_down"};
    char name[64];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s.weight", norms[i]);
        gguf_writer_tensor(&w, name, 0, 1, (uint64_t[]){D}, one, sizeof one);
    }
    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "blk.0.%s.weight", squares[i]);
        gguf_writer_tensor(&w, name, 0, 2, (uint64_t[]){D, D}, zero, D * D * sizeof *zero);
    }
    assert_true(gguf_writer_save(&w, path));
    gguf_writer_deinit(&w);
    free(embed);
    free(zero);
    test_engine e = test_engine_open(path, &(tally_engine_options){.threads = 2});
    for (int logprobs = 0; logprobs <= 3; logprobs += 3) {
        tally_error err;
        tally_generation *g;
        int n;
        tally_request r = {.ids = (int32_t[]){5}, .n_ids = 1, .max_tokens = 2, .logprobs = logprobs};
        assert_int_equal(tally_generate(e.engine, &r, &g, &err), 0);
        while (!tally_generation_done(g)) assert_int_equal(tally_engine_step(e.engine, NULL, &err), 0);
        const int32_t *ids = tally_generation_ids(g, &n);
        assert_int_equal(n, 2);
        assert_int_equal(ids[0], 3710);
        assert_int_equal(ids[1], 3710);
        if (logprobs) {
            const tally_logprob *p = tally_generation_logprobs(g, 0, &n);
            assert_int_equal(p[1].id, 3710);
            assert_int_equal(p[2].id, 9930);
            assert_true(p[1].logprob == p[2].logprob && p[0].logprob == p[1].logprob);
        }
        tally_generation_close(g);
    }
    test_engine_close(&e);
    temp_folder_remove(&folder);
}

// ---- rules ---------------------------------------------------------------------------------------------------------------

static void expect_rule(bench *b, const char *const *parts) {
    assert_int_equal(b->g.failed, STATUS_INTERNAL);
    for (; *parts; parts++) {
        if (!strstr(b->err.text, *parts)) fail_msg("'%s' should contain '%s'", b->err.text, *parts);
    }
    bench_deinit(b);
}
#define PARTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_rules(void **state) {
    (void)state;
    static float data[4096];
    bench b;
#define START \
    bench_init(&b); \
    tensor x = op_embed(&b.g, add_weight(&b, "table", WEIGHT_EMBED, 1, 4, 16, DTYPE_F32, data));
    {
        START op_linear(&b.g, x, add_weight(&b, "narrow", WEIGHT_LINEAR, 1, 8, 12, DTYPE_F32, data), -1, 1);
        expect_rule(&b, PARTS("narrow", "LINEAR", "inputs of the weight is 12, expected 16"));
    }
    {
        START int w = add_weight(&b, "w", WEIGHT_LINEAR, 1, 8, 16, DTYPE_F32, data);
        op_linear(&b.g, x, w, add_weight(&b, "bias", WEIGHT_VECTOR, 1, 9, 1, DTYPE_F32, data), 1);
        expect_rule(&b, PARTS("(LINEAR)", "length of the bias is 9, expected 8"));
    }
    {
        START op_linear(&b.g, x, add_weight(&b, "w", WEIGHT_LINEAR, 1, 8, 16, DTYPE_F32, data), -1, 3);
        expect_rule(&b, PARTS("pieces is 1, expected 0"));
    }
    {
        START op_linear(&b.g, x, -1, -1, 1);
        expect_rule(&b, PARTS("LINEAR", "storage"));
    }
    {
        START op_rms_norm(&b.g, x, add_weight(&b, "norm", WEIGHT_VECTOR, 1, 15, 1, DTYPE_F32, data), 1e-6f);
        expect_rule(&b, PARTS("norm", "RMS_NORM", "is 15, expected 16"));
    }
    {
        START tensor y = op_linear(&b.g, x, add_weight(&b, "w", WEIGHT_LINEAR, 1, 8, 16, DTYPE_F32, data), -1, 1);
        op_add(&b.g, x, y);
        expect_rule(&b, PARTS("ADD", "numbers of a row is 8, expected 16"));
    }
    {
        START op_add(&b.g, x, op_gather_out_rows(&b.g, x));
        expect_rule(&b, PARTS("ADD", "kind of rows"));
    }
    {
        START op_attention(&b.g, tensor_heads(x, 4, 4), 3, 1);
        expect_rule(&b, PARTS("ATTENTION", "remainder of heads over kv heads is 1, expected 0"));
    }
    {
        START tensor t = op_rope_table(&b.g, add_weight(&b, "freq", WEIGHT_VECTOR, 1, 4, 1, DTYPE_F32, data), 1);
        op_rope(&b.g, tensor_heads(x, 4, 4), t, false);
        expect_rule(&b, PARTS("ROPE", "rotated numbers beyond the head"));
    }
    {
        START tensor ids, p;
        op_router_topk(&b.g, x, 17, true, &ids, &p);
        expect_rule(&b, PARTS("ROUTER_TOPK", "experts fewer than chosen"));
    }
    {
        START tensor ids, p;
        op_router_topk(&b.g, x, 2, true, &ids, &p);
        op_expert_linear(&b.g, x, ids, add_weight(&b, "e", WEIGHT_EXPERTS, 3, 8, 12, DTYPE_F32, data), 1);
        expect_rule(&b, PARTS("EXPERT_LINEAR", "inputs of the experts is 12, expected 16"));
    }
    {
        START op_kv_store(&b.g, tensor_heads(x, 4, 4), tensor_heads(tensor_columns(x, 0, 12), 3, 4));
        expect_rule(&b, PARTS("KV_STORE", "numbers of a row is 12, expected 16"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_experts),        cmocka_unit_test(test_experts_uneven), cmocka_unit_test(test_wide_heads),
        cmocka_unit_test(test_tie_in_a_model), cmocka_unit_test(test_gated),          cmocka_unit_test(test_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
