// The cost of operation records by hand-made sums, descriptions of devices, and the cost backend through its vtable.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cost/cost.h"
#include "backend/cost/hardware.h"
#include "op/passes.h"
#include "op/plan.h"
#include "tests/support/temp_folder.h"

static const char device_text[] = "{\"name\": \"test\", \"memory_bytes\": 1e9, \"bandwidth_bytes_per_s\": 1e9, "
                                  "\"flops\": {\"f32\": 1e9, \"bf16\": 2e9}, \"launch_s\": 0.001}";

static hardware device(void) {
    hardware h;
    error err;
    if (hardware_parse(&h, device_text, strlen(device_text), "test", &err)) fail_msg("%s", err.text);
    return h;
}

// ---- a list to count -----------------------------------------------------------------------------------------------------

enum { K = 64, N = 96, VOCAB = 320, EXPERTS = 8, USED = 2, EXPERT_N = 48, HEADS = 4, KV_HEADS = 2, HEAD = 16 };

typedef struct lists {
    arena memory;
    weight_set weights;
    op_list g;
    error err;
} lists;

static void lists_init(lists *l) {
    *l = (lists){.err = {0}};
    arena_init(&l->memory);
    l->weights.memory = &l->memory;
    op_list_init(&l->g, &l->memory, &l->weights, &l->err);
}

static void lists_free(lists *l) { arena_deinit(&l->memory); }

static int add_weight(lists *l, const char *label, weight_role role, dtype type, int64_t n, int64_t k) {
    weight w = {
        .label = label, .layer = -1, .role = role, .n_experts = role == WEIGHT_EXPERTS ? EXPERTS : 1, .n = n, .k = k};
    w.part[w.n_parts++] = (weight_part){.type = type, .n_rows = n};
    int id = weight_add(&l->weights, &w);
    assert_true(id >= 0);
    return id;
}

static const cache_desc cache = {
    .n_layers = 3, .n_kv_heads = KV_HEADS, .head_dim = HEAD, .k_type = DTYPE_F16, .v_type = DTYPE_F32};

static op_cost count_last(const lists *l, const cost_step *step) {
    if (l->g.failed) fail_msg("%s", l->err.text);
    hardware h = device();
    return cost_of_op(&l->g.ops[l->g.n_ops - 1], &l->weights, &cache, step, &h);
}

static void expect(const op_cost *c, double flops, double weights, double activations, double cached) {
    assert_true(op_cost_flops(c) == flops);
    assert_true(c->weight_bytes == weights);
    assert_true(c->activation_bytes == activations);
    assert_true(c->cache_bytes == cached);
    assert_true(c->launches == 1);
}

static tensor embedded(lists *l) { return op_embed(&l->g, add_weight(l, "table", WEIGHT_EMBED, DTYPE_Q8_0, VOCAB, K)); }

// ---- records -------------------------------------------------------------------------------------------------------------

static void test_embed_and_rows(void **state) {
    (void)state;
    lists l;
    lists_init(&l);
    cost_step s = {.n_rows = 5, .n_out = 2};
    tensor x = embedded(&l);
    op_cost c = count_last(&l, &s); // rows of the table, ids, result
    expect(&c, 0, 5 * K / 32 * 34, 5 * 4 + 5 * K * 4, 0);
    op_add(&l.g, x, x);
    c = count_last(&l, &s);
    expect(&c, 5 * K, 0, 3 * 5 * K * 4, 0);
    op_rms_norm(&l.g, x, add_weight(&l, "norm", WEIGHT_VECTOR, DTYPE_F32, K, 1), 1e-6f);
    c = count_last(&l, &s);
    expect(&c, 5 * K * 4, K * 4, 2 * 5 * K * 4, 0);
    op_swiglu(&l.g, tensor_columns(x, 0, K / 2), tensor_columns(x, K / 2, K / 2));
    c = count_last(&l, &s);
    expect(&c, 5 * K / 2 * 5, 0, 3 * 5 * K / 2 * 4, 0);
    op_gather_out_rows(&l.g, x); // reads the two wanted rows
    c = count_last(&l, &s);
    expect(&c, 0, 0, 2 * 2 * K * 4 + 2 * 4, 0);
    lists_free(&l);
}

static void test_linear(void **state) {
    (void)state;
    lists l;
    lists_init(&l);
    cost_step s = {.n_rows = 5, .n_out = 2};
    tensor x = embedded(&l);
    int w = add_weight(&l, "w", WEIGHT_LINEAR, DTYPE_BF16, N, K),
        b = add_weight(&l, "b", WEIGHT_VECTOR, DTYPE_F32, N, 1);
    op_linear(&l.g, x, w, -1, 1);
    op_cost c = count_last(&l, &s);
    expect(&c, 2.0 * 5 * N * K, 2 * N * K, 5 * (K + N) * 4, 0);
    assert_true(c.flops[FLOPS_BF16] == op_cost_flops(&c));
    op_linear(&l.g, x, w, b, 1);
    c = count_last(&l, &s);
    expect(&c, 2.0 * 5 * N * K + 5 * N, 2 * N * K + 4 * N, 5 * (K + N) * 4, 0);
    op_linear(&l.g, op_gather_out_rows(&l.g, x), add_weight(&l, "q", WEIGHT_LINEAR, DTYPE_Q4_0, N, K), -1, 1);
    c = count_last(&l, &s);
    expect(&c, 2.0 * 2 * N * K, N * K / 32 * 18, 2 * (K + N) * 4, 0);
    assert_true(c.flops[FLOPS_INT8] == op_cost_flops(&c));
    op_linear(&l.g, x, add_weight(&l, "router", WEIGHT_ROUTER, DTYPE_BF16, EXPERTS, K), -1, 1); // always F32
    c = count_last(&l, &s);
    assert_true(c.flops[FLOPS_F32] == 2.0 * 5 * EXPERTS * K);
    lists_free(&l);
}

// The pass that merges projections changes bytes of activations and launches, not arithmetic or weights.
static void test_merged(void **state) {
    (void)state;
    op_cost sum[2] = {{.launches = 0}, {.launches = 0}};
    hardware h = device();
    cost_step s = {.n_rows = 3};
    for (int merged = 0; merged < 2; merged++) {
        lists l;
        lists_init(&l);
        tensor x = embedded(&l);
        op_linear(&l.g, x, add_weight(&l, "a", WEIGHT_LINEAR, DTYPE_F16, N, K), -1, 1);
        l.g.logits = op_linear(&l.g, x, add_weight(&l, "b", WEIGHT_LINEAR, DTYPE_Q8_0, N, K), -1, 1);
        assert_int_equal(passes_run(&l.g, merged ? PASS_ALL : 0), 0);
        assert_int_equal(l.g.n_ops, merged ? 2 : 3);
        for (int i = 1; i < l.g.n_ops; i++) {
            op_cost c = cost_of_op(&l.g.ops[i], &l.weights, &cache, &s, &h);
            op_cost_add(&sum[merged], &c);
        }
        lists_free(&l);
    }
    assert_memory_equal(sum[0].flops, sum[1].flops, sizeof sum[0].flops);
    assert_true(sum[0].weight_bytes == sum[1].weight_bytes);
    assert_true(sum[0].activation_bytes - sum[1].activation_bytes == 3 * K * 4);
    assert_true(sum[0].launches == 2 && sum[1].launches == 1);
}

// Fused with SWIGLU, neither gate nor up is written or read again; the arithmetic is the same.
static void test_gated(void **state) {
    (void)state;
    op_cost sum[2] = {{.launches = 0}, {.launches = 0}};
    hardware h = device();
    cost_step s = {.n_rows = 3};
    for (int fused = 0; fused < 2; fused++) {
        lists l;
        lists_init(&l);
        tensor x = embedded(&l), half[2];
        for (int i = 0; i < 2; i++) {
            int w = add_weight(&l, "w", WEIGHT_LINEAR, DTYPE_F16, N, K),
                b = add_weight(&l, "b", WEIGHT_VECTOR, DTYPE_F32, N, 1);
            half[i] = op_linear(&l.g, x, w, b, 1);
        }
        l.g.logits = op_swiglu(&l.g, half[0], half[1]);
        assert_int_equal(passes_run(&l.g, fused ? PASS_ALL : PASS_MERGE_LINEAR), 0);
        assert_int_equal(l.g.n_ops, fused ? 2 : 3);
        for (int i = 1; i < l.g.n_ops; i++) {
            op_cost c = cost_of_op(&l.g.ops[i], &l.weights, &cache, &s, &h);
            op_cost_add(&sum[fused], &c);
        }
        lists_free(&l);
    }
    assert_memory_equal(sum[0].flops, sum[1].flops, sizeof sum[0].flops);
    assert_true(sum[0].weight_bytes == sum[1].weight_bytes);
    assert_true(sum[0].activation_bytes - sum[1].activation_bytes == 2 * 3 * 2 * N * 4);
    assert_true(sum[0].launches == 2 && sum[1].launches == 1);
}

// One row touches exactly the experts it chooses; many rows all of them; between, E (1 - (1 - k/E)^rows).
static void test_experts(void **state) {
    (void)state;
    lists l;
    lists_init(&l);
    tensor x = embedded(&l), ids, p;
    op_router_topk(&l.g, tensor_columns(x, 0, EXPERTS), USED, true, &ids, &p);
    cost_step s = {.n_rows = 3};
    op_cost c = count_last(&l, &s);
    expect(&c, 3 * EXPERTS * 4, 0, 3 * (EXPERTS + 2 * USED) * 4, 0);
    op_expert_linear(&l.g, x, ids, add_weight(&l, "experts", WEIGHT_EXPERTS, DTYPE_F16, EXPERT_N, K), 1);
    double one = 2.0 * EXPERT_N * K;
    static const struct {
        int rows;
        double touched;
    } cases[] = {{1, 2}, {2, 3.5}, {3, 4.625}, {1000, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double rows = cases[i].rows;
        s.n_rows = cases[i].rows;
        c = count_last(&l, &s);
        expect(&c, rows * USED * one, one * cases[i].touched, rows * (K + USED + USED * EXPERT_N) * 4, 0);
    }
    lists_free(&l);
}

static void test_attention_and_store(void **state) {
    (void)state;
    lists l;
    lists_init(&l);
    tensor x = embedded(&l); // 64 numbers: 4 heads of 16
    static const int32_t pos[] = {0, 1, 2, 3, 9}, seq[] = {0, 0, 0, 0, 1};
    cost_step s = cost_step_of(&(step_inputs){.n_rows = 5, .n_out = 2, .n_seqs = 2, .pos = pos, .seq = seq});
    assert_true(s.n_rows == 5 && s.n_out == 2 && s.pairs == 1 + 2 + 3 + 4 + 10 && s.positions == 4 + 10);
    static const int32_t tree_pos[] = {4, 5, 6, 5, 9}, slot[] = {4, 8, 6, 5, 9}; // rows of a tree are kept at slots
    cost_step tree =
        cost_step_of(&(step_inputs){.n_rows = 5, .n_out = 5, .n_seqs = 2, .pos = tree_pos, .seq = seq, .slot = slot});
    assert_true(tree.pairs == 5 + 6 + 7 + 6 + 10 && tree.positions == 9 + 10);
    double position = KV_HEADS * HEAD * (2 + 4);
    assert_int_equal(cost_position_bytes(&cache), position);
    op_attention(&l.g, tensor_heads(x, HEADS, HEAD), KV_HEADS, 0.25f);
    op_cost c = count_last(&l, &s);
    expect(&c, 20 * HEADS * (4 * HEAD + 4), 0, 2 * 5 * K * 4, 14 * position);
    assert_true(c.flops[FLOPS_F16] == 20 * HEADS * 2 * HEAD); // scores from F16 keys
    tensor kv = tensor_heads(tensor_columns(x, 0, KV_HEADS * HEAD), KV_HEADS, HEAD);
    op_kv_store(&l.g, kv, kv);
    c = count_last(&l, &s);
    expect(&c, 0, 0, 2 * 5 * KV_HEADS * HEAD * 4, 5 * position);
    lists_free(&l);
}

// launch + the longer of bytes / bandwidth and arithmetic / peak, each peak for its own share.
static void test_time(void **state) {
    (void)state;
    lists l;
    lists_init(&l);
    tensor x = embedded(&l);
    op_linear(&l.g, x, add_weight(&l, "w", WEIGHT_LINEAR, DTYPE_BF16, N, K), -1, 1);
    cost_step s = {.n_rows = 1};
    op_cost c = count_last(&l, &s);
    assert_true(fabs(c.memory_s - (2 * N * K + (K + N) * 4) / 1e9) < 1e-15 && c.compute_s == 0);
    assert_true(fabs(op_cost_time(&c) - 0.001 - c.memory_s) < 1e-15);
    s.n_rows = 100;
    c = count_last(&l, &s);
    assert_true(fabs(c.compute_s - 2.0 * 100 * N * K / 2e9) < 1e-12 && c.memory_s == 0);
    lists_free(&l);
}

// ---- the table and the vtable --------------------------------------------------------------------------------------------

static void test_every_opcode_has_a_cost(void **state) {
    (void)state;
    for (int code = 0; code < OP_COUNT; code++) {
        if (!cost_knows((opcode)code))
            fail_msg("operation %s has neither FLOPs per number nor a formula of costs", opcode_name((opcode)code));
    }
    assert_false(cost_knows(OP_COUNT));
}

static backend *open_backend(const char *text, const temp_folder *folder) {
    error err;
    backend *b;
    temp_folder_write_text(folder, "device.json", text);
    if (cost_backend_create(&b, temp_folder_path(folder, "device.json"), 1, &err)) fail_msg("%s", err.text);
    return b;
}

static void test_backend(void **state) {
    (void)state;
    temp_folder folder = temp_folder_make();
    backend *b = open_backend(device_text, &folder);
    lists l;
    error err;
    lists_init(&l);
    tensor x = op_gather_out_rows(&l.g, embedded(&l));
    l.g.logits = op_linear(&l.g, x, add_weight(&l, "head", WEIGHT_LINEAR, DTYPE_F16, VOCAB, K), -1, 1);
    for (int i = 0; i < l.g.n_ops; i++) assert_int_equal(b->vt->supports(b, &l.g.ops[i], &l.weights, &err), 0);
    op unknown = {.code = OP_COUNT, .label = "teleport"};
    assert_int_equal(b->vt->supports(b, &unknown, &l.weights, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "teleport"));
    assert_int_equal(b->vt->weight_bytes(b, &l.weights.w[0]), VOCAB * K / 32 * 34);
    assert_int_equal(b->vt->block_bytes(b, &cache), 3 * KV_BLOCK * KV_HEADS * HEAD * 6);
    int64_t workspace;
    step_limits limits = {.max_rows = 4, .max_out = 2, .n_blocks = 1, .max_context = 64};
    assert_int_equal(plan_memory(&l.g, 4, 2, &workspace, &err), 0);
    for (int i = 0; i < l.weights.n; i++) assert_int_equal(b->vt->weight_upload(b, &l.weights, i, &err), 0);
    assert_int_equal(b->vt->prepare(b, &l.g, workspace, &cache, &limits, &err), 0);
    static const int32_t numbers[] = {0, 1, 2, 3, 4}, zeros[5] = {0};
    step_inputs in = {
        .n_rows = 4, .n_out = 2, .n_seqs = 1, .token = zeros, .pos = numbers, .seq = zeros, .out_row = numbers + 2};
    step_result r;
    assert_int_equal(b->vt->run(b, &in, &r, &err), 0);
    for (int i = 0; i < 2 * VOCAB; i++) assert_true(r.logits[i] == 0);
    for (int i = 0; i < 4; i++) assert_int_equal(r.fault[i], STEP_OK);
    const step_cost *last = cost_backend_last(b);
    assert_int_equal(last->n_ops, 3);
    assert_true(last->total.launches == 3 && op_cost_flops(&last->total) == 2.0 * 2 * VOCAB * K);
    double sum = 0;
    for (int i = 0; i < 3; i++) sum += op_cost_time(&last->op[i]);
    assert_true(fabs(sum - op_cost_time(&last->total)) < 1e-12);
    in.n_rows = 5;
    assert_int_equal(b->vt->run(b, &in, &r, &err), STATUS_INTERNAL);
    b->vt->destroy(b);
    lists_free(&l);
    temp_folder_remove(&folder);
}

// ---- descriptions of devices ---------------------------------------------------------------------------------------------

static void test_hardware(void **state) {
    (void)state;
    hardware h = device();
    assert_string_equal(h.name, "test");
    assert_true(h.memory_bytes == 1e9 && h.bandwidth == 1e9 && h.launch_s == 0.001 && h.link_bandwidth == 0);
    assert_true(h.flops[FLOPS_F32] == 1e9 && h.flops[FLOPS_BF16] == 2e9); // absent ones are as f32
    assert_true(h.flops[FLOPS_F16] == 1e9 && h.flops[FLOPS_INT8] == 1e9);
}

#define BASE "\"name\": \"x\", \"memory_bytes\": 1e9, \"bandwidth_bytes_per_s\": 1e9, \"launch_s\": 0"
#define FLOPS ", \"flops\": {\"f32\": 1e9}"

static void test_hardware_refusals(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "not valid JSON"},
        {"[]", "JSON object"},
        {"{}", "name"},
        {"{" BASE "}", "flops"},
        {"{" BASE ", \"flops\": 3}", "flops"},
        {"{" BASE ", \"flops\": {}}", "flops.f32 is missing"},
        {"{" BASE ", \"flops\": {\"f32\": -1e9}}", "flops.f32 is -"},
        {"{" BASE ", \"flops\": {\"f32\": \"1e9\"}}", "flops.f32 is \"1e9\""},
        {"{" BASE ", \"flops\": {\"f32\": 1e9, \"fp8\": 1e9}}", "flops.fp8"},
        {"{" BASE ", \"flops\": {\"f32\": 1e9, \"int8\": 0}}", "flops.int8 is 0"},
        {"{" BASE FLOPS ", \"tdp\": 3}", "tdp"},
        {"{" BASE FLOPS ", \"name\": \"y\"}", "duplicate"},
        {"{" BASE FLOPS ", \"ranks_link\": {\"latency_s\": 0}}", "ranks_link.bandwidth_bytes_per_s is missing"},
        {"{" BASE FLOPS ", \"ranks_link\": 7}", "ranks_link"},
        {"{\"name\": \"\", \"memory_bytes\": 1e9}", "name"},
        {"{\"name\": \"0123456789012345678901234567890123456789012345678901234567890123456789\"}", "name"},
        {"{\"name\": \"x\", \"memory_bytes\": 16}", "memory_bytes is 16"},
        {"{\"name\": \"x\", \"memory_bytes\": 1e9, \"bandwidth_bytes_per_s\": 50}", "bandwidth_bytes_per_s is 50"},
        {"{\"name\": \"x\", \"memory_bytes\": 1e9, \"bandwidth_bytes_per_s\": 1e9, \"launch_s\": 8}", "launch_s is 8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hardware h;
        error err = {0};
        status s = hardware_parse(&h, cases[i][0], strlen(cases[i][0]), "device.json", &err);
        if (s != STATUS_BAD_FILE) fail_msg("%s: status %d", cases[i][0], s);
        if (!strstr(err.text, cases[i][1]) || !strstr(err.text, "device.json")) {
            fail_msg("%s: '%s' is not in: %s", cases[i][0], cases[i][1], err.text);
        }
    }
    static const char backwards[] =
        "{\"notes\": {}, \"ranks_link\": {\"bandwidth_bytes_per_s\": 1e9, \"latency_s\": 0}, "
        "\"flops\": {\"f32\": 1e9}, " BASE "}"; // fields have no order
    hardware h;
    error err = {0};
    if (hardware_parse(&h, backwards, strlen(backwards), "device.json", &err)) fail_msg("%s", err.text);
    backend *b;
    assert_int_equal(cost_backend_create(&b, "no/such/device.json", 1, &err), STATUS_NOT_FOUND);
    assert_null(b);
    assert_non_null(strstr(err.text, "no/such/device.json"));
}

static void test_example_devices(void **state) {
    (void)state;
    DIR *d = opendir("docs/devices");
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (!strstr(e->d_name, ".json")) continue;
        char path[400];
        hardware h;
        error err;
        snprintf(path, sizeof path, "docs/devices/%s", e->d_name);
        if (hardware_read(&h, path, &err)) fail_msg("%s", err.text);
        n++;
    }
    closedir(d);
    assert_true(n >= 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embed_and_rows),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_merged),
        cmocka_unit_test(test_gated),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_attention_and_store),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_every_opcode_has_a_cost),
        cmocka_unit_test(test_backend),
        cmocka_unit_test(test_hardware),
        cmocka_unit_test(test_hardware_refusals),
        cmocka_unit_test(test_example_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
