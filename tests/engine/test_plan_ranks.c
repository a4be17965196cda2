// tally_plan for one rank of several on named devices: bytes, launches and collectives against sums written out here.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tally.h"
#include "tests/support/published_shape.h"
#include "tests/support/temp_folder.h"

static const published_shape qwen3_235b = {
    "Qwen3-235B-A22B", "qwen3_moe", 4096, 12288, 94, 64, 4, 128, 151936, false, 128, 8, 1536};
static const published_shape qwen3_30b = {"Qwen3-30B-A3B", "qwen3_moe", 2048, 6144, 48, 32, 4, 128,
                                          151936,          false,       128,  8,    768};
static const published_shape qwen2_7b = {"Qwen2.5-7B", "qwen2", 3584, 18944, 28, 28, 4, 128, 152064, false, 0, 0, 0};
static const published_shape qwen2_05b = {"Qwen2.5-0.5B", "qwen2", 896, 4864, 24, 14, 2, 64, 151936, true, 0, 0, 0};

static tally_status try_plan(const published_shape *k, const tally_plan_options *o, json_t **out, tally_error *err) {
    temp_folder folder = temp_folder_make();
    published_shape_write(k, &folder);
    tally_model *m;
    *out = NULL;
    if (tally_model_open(&m, folder.path, err) != TALLY_OK) fail_msg("%s", err->text);
    char *text;
    tally_status s = tally_plan(m, o, &text, err);
    if (s == TALLY_OK) {
        *out = json_loads(text, 0, NULL);
        assert_non_null(*out);
    }
    tally_free(text);
    tally_model_close(m);
    temp_folder_remove(&folder);
    return s;
}

static json_t *plan(const published_shape *k, const char *device, int tp, int batch) {
    tally_error err = {0};
    json_t *p;
    tally_plan_options o = {.device = device, .context = 4096, .batch = batch, .tp = tp};
    if (try_plan(k, &o, &p, &err) != TALLY_OK) fail_msg("%s, %d ranks: %s", k->name, tp, err.text);
    return p;
}

static double at(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v)) fail_msg("no number %s", key);
    return json_number_value(v);
}

static double step_at(const json_t *p, const char *step, const char *key) { return at(json_object_get(p, step), key); }

static const json_t *row_of(const json_t *p, const char *list, const char *key, const char *value) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(p, list), i, row) {
        if (strcmp(json_string_value(json_object_get(row, key)), value) == 0) return row;
    }
    fail_msg("%s has no row %s", list, value);
    return NULL;
}

static void expect(const published_shape *k, int tp, const char *what, double have, double want) {
    if (fabs(have - want) > 1e-9 * fabs(want)) {
        fail_msg("%s, %d ranks: %s is %.17g, expected %.17g", k->name, tp, what, have, want);
    }
}

// ---- bytes, by hand ------------------------------------------------------------------------------------------------------

typedef struct bytes {
    double embedding, head, attention, mlp, router, vectors, kv_heads;
} bytes;

// BF16: two bytes a number; the rotary table is F32.
static bytes by_hand(const published_shape *k, int tp) {
    double h = k->hidden, d = k->head_dim, l = k->layers, q = k->heads / tp * d;
    double heads = tp < k->kv_heads ? k->kv_heads / tp : 1, kv = heads * d;
    bytes b = {.embedding = 2.0 * k->vocab * h, .kv_heads = heads};
    b.head = k->tied ? 0 : 2 * ceil((double)k->vocab / tp) * h;
    b.attention = 2 * l * (q * h + 2 * kv * h + h * q);
    b.mlp = k->experts ? 2 * l * k->experts * 3 * (k->expert_ffn / tp) * h : 2 * l * 3 * (k->ffn / tp) * h;
    b.router = 2 * l * k->experts * h;
    bool qwen3 = strncmp(k->arch, "qwen3", 5) == 0; // norms of heads there, biases in Qwen2
    b.vectors = 2 * (l * (2 * h + (qwen3 ? 2 * d : q + 2 * kv)) + h) + 4 * d / 2;
    return b;
}

static void check_bytes(const published_shape *k, int tp, const json_t *p, int batch) {
    bytes b = by_hand(k, tp);
    double weights = b.embedding + b.head + b.attention + b.mlp + b.router + b.vectors;
    expect(k, tp, "weights_bytes", at(p, "weights_bytes"), weights);
    expect(k, tp, "embedding", at(row_of(p, "memory", "kind", "embedding"), "bytes"), b.embedding);
    expect(k, tp, "attention", at(row_of(p, "memory", "kind", "attention"), "bytes"), b.attention);
    const char *mlp = k->experts ? "experts" : "feed-forward";
    expect(k, tp, mlp, at(row_of(p, "memory", "kind", mlp), "bytes"), b.mlp);
    expect(k, tp, "norms", at(row_of(p, "memory", "kind", "norms, biases, rotary table"), "bytes"), b.vectors);
    double kv = 2.0 * 2 * b.kv_heads * k->head_dim * k->layers * 4096 * batch;
    expect(k, tp, "kv_bytes", at(p, "kv_bytes"), kv);
    double sum = 0;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(p, "memory"), i, row) sum += at(row, "bytes");
    expect(k, tp, "the table of memory", sum, weights + kv + at(p, "workspace_bytes"));
}

// ---- collectives, by hand ------------------------------------------------------------------------------------------------

typedef struct link {
    double collective_s, latency_s, bandwidth;
} link;
static const link a3 = {120e-6, 0.5e-6, 196e9};

// A rank's part of a sum goes to all others, or an n-th of it to its owner and the sum back: what takes less.
static void add_sum(const link *l, double n, double part, double out[3]) {
    double once = l->collective_s + l->latency_s + (n - 1) * part / l->bandwidth;
    double twice = 2 * (l->collective_s + l->latency_s) + 2 * (n - 1) / n * part / l->bandwidth;
    out[0] += twice < once ? 2 : 1;
    out[1] += twice < once ? 2 * (n - 1) / n * part : (n - 1) * part;
    out[2] += twice < once ? twice : once;
}

static void check_link(const published_shape *k, int tp, const json_t *p, const char *step, int rows, int out_rows) {
    double want[3] = {0};
    for (int l = 0; tp > 1 && l < k->layers; l++) {
        double part = 4.0 * rows * k->hidden;
        add_sum(&a3, tp, part, want);
        add_sum(&a3, tp, part * (k->experts ? k->used : 1), want);
    }
    if (tp > 1) {
        double logits = (tp - 1) * 4.0 * out_rows * ceil((double)k->vocab / tp);
        want[0]++, want[1] += logits, want[2] += a3.collective_s + a3.latency_s + logits / a3.bandwidth;
    }
    static const char *const fields[] = {"collectives", "link_bytes", "link_s"};
    static const char *const lists[] = {"ops", "groups", "layers", "kinds"};
    for (int f = 0; f < 3; f++) {
        for (int l = 0; l < 4; l++) {
            double sum = 0;
            size_t i;
            json_t *row;
            json_array_foreach(json_object_get(json_object_get(p, step), lists[l]), i, row) sum += at(row, fields[f]);
            expect(k, tp, lists[l], sum, want[f]);
        }
    }
    expect(k, tp, "collectives", step_at(p, step, "collectives"), want[0]);
    expect(k, tp, "link_bytes", step_at(p, step, "link_bytes"), want[1]);
    expect(k, tp, "link_s", step_at(p, step, "link_s"), want[2]);
    double time = step_at(p, step, "memory_s") + step_at(p, step, "compute_s") + step_at(p, step, "launch_s") + want[2];
    expect(k, tp, "time_s", step_at(p, step, "time_s"), time);
}

// Of the Ascend backend's list: gate and up are one product, q, k and v three, or one where head norms follow; sums and norms are one
// where they meet.
static double launches_by_hand(const published_shape *k) {
    bool qwen3 = strncmp(k->arch, "qwen3", 5) == 0;
    int attention = (qwen3 ? 1 + 2 : 3) + 2 + 2 + 1;      // products, head norms, rotations, cache and attention, o
    int mlp = k->experts ? 2 + 1 + 1 + 1 + 1 : 1 + 1 + 1; // router and choice; gate+up; gate; down; combining
    // embedding, table, first norm; the last layer's sum, rows, norm, head, in place of one of the layers' sums with norm
    return k->layers * (attention + mlp + 2) + 3 + 4 - 1;
}

static void check_model(const published_shape *k, const int *tps, int n, int batch) {
    for (int i = 0; i < n; i++) {
        json_t *p = plan(k, "ascend-a3", tps[i], batch);
        check_bytes(k, tps[i], p, batch);
        check_link(k, tps[i], p, "decode", batch, batch);
        check_link(k, tps[i], p, "prefill", 512, 1);
        expect(k, tps[i], "launches", at(p, "launches"), launches_by_hand(k));
        expect(k, tps[i], "launches of the step", step_at(p, "decode", "launches"), at(p, "launches"));
        expect(k, tps[i], "collectives of the step", step_at(p, "decode", "collectives"), at(p, "collectives"));
        json_decref(p);
    }
}

static void test_235b(void **state) {
    (void)state;
    check_model(&qwen3_235b, (const int[]){1, 2, 4, 8, 16, 32}, 6, 1);
    json_t *p = plan(&qwen3_235b, "ascend-a3", 16, 1), *r = json_object_get(p, "ranks");
    assert_true(json_is_true(json_object_get(p, "fits")) && json_is_true(json_object_get(r, "exact")));
    assert_true(at(r, "n") == 16 && at(r, "heads") == 4 && at(r, "kv_heads") == 1 && at(r, "kv_copies") == 4);
    assert_true(at(r, "expert_columns") == 96 && at(r, "experts") == 128 && at(r, "head_rows") == 9496);
    assert_true(at(r, "pieces") == 16 && at(p, "collectives") == 2 * 94 + 1);
    assert_true(fabs(at(p, "n_params") / 1e9 - 235.094) < 0.001); // of the model, not of the rank
    // 16 ranks hold the model once, what is whole on each 15 times more, and every key/value head 3 times more
    double kv_twice = 2.0 * 94 * 2 * 4 * 128 * 4096, whole = 0;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(p, "memory"), i, row) whole += at(row, "whole_bytes");
    double all = 2 * at(p, "n_params") + 4 * 64;
    expect(&qwen3_235b, 16, "the sum of all ranks", 16 * at(p, "weights_bytes"), all + 15 * whole + 3 * kv_twice);
    json_decref(p);
    p = plan(&qwen3_235b, "ascend-a3", 4, 1);
    assert_false(json_is_true(json_object_get(p, "fits"))); // 119 GB of 64 GiB
    json_decref(p);
    p = plan(&qwen3_235b, "ascend-a3", 32, 1);
    assert_false(json_is_true(json_object_get(json_object_get(p, "ranks"), "exact"))); // 16 pieces
    json_decref(p);
}

static void test_others(void **state) {
    (void)state;
    check_model(&qwen3_30b, (const int[]){1, 2, 4, 8}, 4, 1);
    check_model(&qwen3_30b, (const int[]){8}, 1, 64); // sums of many rows go to owners
    check_model(&qwen2_7b, (const int[]){1, 2, 4}, 3, 1);
    check_model(&qwen2_05b, (const int[]){1, 2}, 2, 3); // a tied head is rows of the whole table
    published_shape odd = qwen2_7b;
    odd.vocab++;
    check_model(&odd, (const int[]){4}, 1, 1); // rank 0 has the row more
}

static void check_exchange(const published_shape *k, int tp, double want) {
    json_t *p = plan(k, "ascend-a3", tp, 1);
    expect(k, tp, "exchange", at(row_of(p, "memory", "kind", "workspace: parts of other ranks"), "bytes"), want);
    json_decref(p);
}

// Of the prefill step of 512 rows.
static void test_exchange(void **state) {
    (void)state;
    check_exchange(&qwen2_7b, 4, 4.0 * 512 * 3584 * 4);        // the parts of all four
    check_exchange(&qwen3_235b, 16, 2.0 * 512 * 8 * 4096 * 4); // parts of the numbers a rank owns, then all sums
}

// ---- devices and refusals ------------------------------------------------------------------------------------------------

static void test_named_devices(void **state) {
    (void)state;
    static const char *const names[] = {"ascend-a3", "ascend-a2", "ascend-910b3", "ascend-910b4", "ascend-910a"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *p = plan(&qwen2_05b, names[i], 2, 1), *d = json_object_get(p, "device"),
               *notes = json_object_get(d, "notes");
        char *text = json_dumps(notes, 0);
        assert_true(json_is_object(notes) && json_object_get(notes, "launch_s") && json_object_get(d, "ranks_link"));
        assert_true(strstr(text, "REPORTED") && strstr(text, "UNVERIFIED"));
        free(text);
        json_decref(p);
    }
}

static void refuse(const published_shape *k, tally_plan_options o, tally_status code, const char *part) {
    tally_error err = {0};
    json_t *out;
    tally_status s = try_plan(k, &o, &out, &err);
    if (s != code || !strstr(err.text, part))
        fail_msg("status %d, not %d, or '%s' is not in: %s", s, code, part, err.text);
}

static void test_refusals(void **state) {
    (void)state;
    const tally_status bad = TALLY_BAD_ARGUMENT;
    refuse(&qwen2_7b, (tally_plan_options){.device = "ascend-a3", .tp = 8}, bad,
           "8 ranks cannot share the model's 28 query heads: 28 is no multiple of 8");
    published_shape odd = qwen2_7b;
    odd.ffn = 18946;
    refuse(&odd, (tally_plan_options){.device = "ascend-a3", .tp = 4}, bad, "18946 columns of the feed-forward layers");
    odd = qwen3_30b, odd.expert_ffn = 770;
    refuse(&odd, (tally_plan_options){.device = "ascend-a3", .tp = 4}, bad, "770 columns of an expert");
    odd = qwen2_7b, odd.heads = 24, odd.kv_heads = 4;
    refuse(&odd, (tally_plan_options){.device = "ascend-a3", .tp = 6}, bad, "4 key/value heads");
    refuse(&qwen3_235b, (tally_plan_options){.device = "ascend-a3", .tp = 16, .type = "q4_k"}, bad,
           "1536 columns of ffn_down_exps into slices of 96, no whole blocks of Q4_K (256)");
    refuse(&qwen2_7b, (tally_plan_options){.device = "docs/devices/server-2-cores.json", .tp = 2}, bad, "ranks_link");
    refuse(&qwen2_7b, (tally_plan_options){.device = "ascend-a3", .tp = 1025}, bad, "1025");
    refuse(&qwen2_7b, (tally_plan_options){.device = "ascend-a9"}, TALLY_NOT_FOUND, "ascend-a3, ascend-a2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_235b),          cmocka_unit_test(test_others),   cmocka_unit_test(test_exchange),
        cmocka_unit_test(test_named_devices), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
