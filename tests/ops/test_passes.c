// Passes and the memory plan: fused and unfused lists give the same bits, have the expected records, and no temporary ever lies on
// another one that is still needed.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "engine/engine.h"
#include "op/passes.h"
#include "op/plan.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { MAX_IDS = 40 };

static temp_folder folder;
static int setup(void **state) { return (void)state, folder = temp_folder_make(), 0; }
static int teardown(void **state) { return (void)state, temp_folder_remove(&folder), 0; }

static const char *path_of(const char *name) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", folder.path, name);
    return path;
}

// ---- every model ---------------------------------------------------------------------------------------------------------

typedef void visit_fn(const char *path, const int32_t *ids, int n);

static void every_model(visit_fn *visit) {
    int n;
    char **names = tiny_model_variants(&n);
    for (int i = 0; i < n; i++) {
        tiny_model m = tiny_model_read(names[i]);
        const char *path = path_of(names[i]);
        tiny_model_write_folder(&m, path, DTYPE_F32, 1);
        visit(path, m.ids, m.n_ids < MAX_IDS ? m.n_ids : MAX_IDS);
        tiny_model_free(&m);
        free(names[i]);
    }
    free(names);
    static const dtype types[] = {DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q5_1, DTYPE_Q4_K};
    int32_t ids[MAX_IDS];
    for (int i = 0; i < MAX_IDS; i++) ids[i] = 3 + 7 * i;
    for (int moe = 0; moe < 2; moe++) {
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            const char *path = path_of("random.gguf");
            tiny_random_gguf(path, types[t], moe, 11);
            visit(path, ids, MAX_IDS);
        }
    }
}

static float *eval_with(const char *path, bool fuse, const int32_t *ids, int n, int *n_vocab) {
    test_engine e = test_engine_open(
        path, &(tally_engine_options){.threads = 1, .context = 128, .logit_rows = 32, .no_fuse = !fuse});
    float *logits = test_eval(&e, ids, n, 17);
    *n_vocab = tally_model_n_vocab(e.model);
    test_engine_close(&e);
    return logits;
}

static void same_bits(const char *path, const int32_t *ids, int n) {
    int n_vocab;
    float *plain = eval_with(path, false, ids, n, &n_vocab), *fused = eval_with(path, true, ids, n, &n_vocab);
    if (memcmp(plain, fused, (size_t)n * (size_t)n_vocab * sizeof *plain) != 0)
        fail_msg("%s: the fused list gives other bits", path);
    free(plain);
    free(fused);
}

static void test_fused_equals_unfused(void **state) { (void)state, every_model(same_bits); }

// ---- the plan ------------------------------------------------------------------------------------------------------------

static bool uses(const op *o, int id, bool *writes) {
    bool any = *writes = false;
    for (int i = 0; i < o->n_in; i++) any |= o->in[i].where == STORAGE_TEMP && o->in[i].id == id;
    for (int i = 0; i < o->n_out; i++) *writes |= o->out[i].where == STORAGE_TEMP && o->out[i].id == id;
    return any || *writes;
}

// Lifetimes found by looking at every operation for every temporary; then every pair is compared.
static void check_plan(op_list *g, int64_t max_rows, int64_t max_out) {
    int64_t bytes;
    error err;
    assert_int_equal(plan_memory(g, max_rows, max_out, &bytes, &err), STATUS_OK);
    int *first = malloc((size_t)g->n_temps * sizeof *first), *last = malloc((size_t)g->n_temps * sizeof *last);
    int64_t *size = malloc((size_t)g->n_temps * sizeof *size);
    assert_true(first && last && size);
    for (int t = 0; t < g->n_temps; t++) {
        first[t] = last[t] = -1;
        for (int i = 0; i < g->n_ops; i++) {
            bool writes;
            if (!uses(&g->ops[i], t, &writes)) continue;
            if (first[t] < 0) assert_true(writes);
            if (first[t] < 0) first[t] = i;
            last[t] = i;
        }
        if (g->logits.id == t) last[t] = g->n_ops;
        size[t] = (g->temps[t].rows == ROWS_OUT ? max_out : max_rows) * g->temps[t].width * 4;
        if (first[t] >= 0) {
            assert_int_equal(g->temps[t].offset % 64, 0);
            assert_true(g->temps[t].offset >= 0 && g->temps[t].offset + size[t] <= bytes);
        }
    }
    for (int a = 0; a < g->n_temps; a++) {
        for (int b = 0; b < a; b++) {
            if (first[a] < 0 || first[b] < 0 || first[a] > last[b] || first[b] > last[a]) continue;
            int64_t x = g->temps[a].offset, y = g->temps[b].offset;
            if (x < y + size[b] && y < x + size[a]) fail_msg("temporaries %d and %d live together and overlap", a, b);
        }
    }
    free(first);
    free(last);
    free(size);
}

static void check_plans(const char *path, const int32_t *ids, int n) {
    (void)ids, (void)n;
    tally_model *m;
    tally_error terr;
    error err;
    assert_int_equal(tally_model_open(&m, path, &terr), 0);
    assert_int_equal(checkpoint_load_tensors(m->ck, true, &err), STATUS_OK);
    for (unsigned passes = 0; passes <= PASS_ALL; passes++) {
        model built;
        assert_int_equal(model_build(&built, &m->config, m->ck, DTYPE_BF16, passes, &err), STATUS_OK);
        check_plan(&built.list, 1, 1);
        check_plan(&built.list, 7, 7);
        check_plan(&built.list, 512, 32);
        model_deinit(&built);
    }
    tally_model_close(m);
}

static void test_plans(void **state) { (void)state, every_model(check_plans); }

static void test_plan_reads_before_write(void **state) {
    (void)state;
    arena memory;
    arena_init(&memory);
    error err;
    weight_set weights = {.memory = &memory};
    float table[8] = {0};
    const void *data[] = {table};
    weight embed = {.label = "table",
                    .layer = -1,
                    .role = WEIGHT_EMBED,
                    .n_experts = 1,
                    .n = 2,
                    .k = 4,
                    .n_parts = 1,
                    .part = {{.type = DTYPE_F32, .n_rows = 2, .data = data}}};
    int w = weight_add(&weights, &embed);
    op_list g;
    op_list_init(&g, &memory, &weights, &err);
    tensor x = op_embed(&g, w), y = op_add(&g, x, x);
    g.logits = op_gather_out_rows(&g, y);
    assert_int_equal(g.failed, STATUS_OK);
    g.ops[1].in[1].id = g.ops[2].out[0].id; // reads what comes later
    int64_t bytes;
    assert_int_equal(plan_memory(&g, 4, 4, &bytes, &err), STATUS_INTERNAL);
    assert_non_null(strstr(err.text, "before anything wrote it"));
    arena_deinit(&memory);
}

// ---- the records ---------------------------------------------------------------------------------------------------------

static int count_ops(const op_list *g, opcode code) {
    int n = 0;
    for (int i = 0; i < g->n_ops; i++) n += g->ops[i].code == code;
    return n;
}

static int count_labels(const op_list *g, const char *label) {
    int n = 0;
    for (int i = 0; i < g->n_ops; i++)
        n += (g->ops[i].code == OP_LINEAR || g->ops[i].code == OP_EXPERT_LINEAR) && strcmp(g->ops[i].label, label) == 0;
    return n;
}

static int64_t live_numbers(const model *m) {
    int64_t n = 0;
    for (int i = 0; i < m->weights.n; i++)
        n += m->weights.w[i].absorbed ? 0 : m->weights.w[i].n_experts * m->weights.w[i].n * m->weights.w[i].k;
    return n;
}

static void check_records(const char *variant, bool qk_norm, bool bias, bool moe) {
    tiny_model t = tiny_model_read(variant);
    const char *path = path_of("records");
    tiny_model_write_folder(&t, path, DTYPE_F32, 1);
    tally_model *m;
    tally_error terr;
    error err;
    assert_int_equal(tally_model_open(&m, path, &terr), 0);
    assert_int_equal(checkpoint_load_tensors(m->ck, false, &err), STATUS_OK);
    model plain, fused, gated, normed;
    assert_int_equal(model_build(&plain, &m->config, m->ck, DTYPE_BF16, 0, &err), STATUS_OK);
    assert_int_equal(model_build(&fused, &m->config, m->ck, DTYPE_BF16, PASS_ALL, &err), STATUS_OK);
    assert_int_equal(model_build(&gated, &m->config, m->ck, DTYPE_BF16, PASS_MERGE_GATED, &err), STATUS_OK);
    assert_int_equal(model_build(&normed, &m->config, m->ck, DTYPE_BF16, PASS_MERGE_NORMED, &err), STATUS_OK);
    int layers = m->config.n_layers, heads = qk_norm ? 2 : 0;
    assert_int_equal(count_ops(&plain.list, OP_LINEAR), (moe ? 5 : 7) * layers + 1);
    assert_int_equal(count_ops(&fused.list, OP_LINEAR), (moe ? 3 : 4) * layers + 1);
    assert_int_equal(count_ops(&plain.list, OP_EXPERT_LINEAR), moe ? 3 * layers : 0);
    assert_int_equal(count_ops(&fused.list, OP_EXPERT_LINEAR), moe ? 2 * layers : 0);
    assert_int_equal(count_ops(&plain.list, OP_RMS_NORM), (2 + heads) * layers + 1);
    assert_int_equal(count_ops(&plain.list, OP_ADD), 2 * layers);
    assert_int_equal(count_ops(&plain.list, OP_ADD_RMS_NORM), 0);
    // All sums are followed by a norm, the last one by the final norm. The rows are chosen before, in the last layer; without that
    // between the two.
    assert_int_equal(count_ops(&plain.list, OP_GATHER_ROWS), 1);
    assert_int_equal(count_ops(&fused.list, OP_ADD_RMS_NORM), 2 * layers);
    assert_int_equal(count_ops(&fused.list, OP_ADD), 0);
    assert_int_equal(count_ops(&fused.list, OP_RMS_NORM), 1 + heads * layers);
    assert_int_equal(count_ops(&fused.list, OP_GATHER_ROWS), 2);
    assert_int_equal(count_ops(&plain.list, OP_SWIGLU), layers);
    assert_int_equal(count_ops(&fused.list, OP_SWIGLU), 0);
    assert_int_equal(count_ops(&gated.list, OP_SWIGLU), layers);
    assert_int_equal(count_labels(&fused.list, "attn_q+attn_k+attn_v"), layers);
    assert_int_equal(count_labels(&fused.list, moe ? "ffn_gate_exps+ffn_up_exps" : "ffn_gate+ffn_up"), layers);
    assert_int_equal(count_labels(&fused.list, "attn_q"), 0);
    assert_int_equal(live_numbers(&fused), live_numbers(&plain)); // nothing is there twice, nothing is lost
    for (int i = 0; i < fused.list.n_ops; i++) {
        const op *o = &fused.list.ops[i];
        if (o->code == OP_LINEAR && o->layer >= 0 && strncmp(o->label, "attn_q+", 7) == 0)
            assert_int_equal(o->in[2].where == STORAGE_WEIGHT, bias);
        assert_int_equal(op_check(o, &fused.weights, &err), STATUS_OK);
    }
    assert_int_equal(count_labels(&gated.list, "attn_q"), layers); // only what feeds SWIGLU
    assert_int_equal(count_labels(&gated.list, moe ? "ffn_gate_exps+ffn_up_exps" : "ffn_gate+ffn_up"), layers);
    assert_int_equal(live_numbers(&gated), live_numbers(&plain));
    // q, k and v where none of them is rotated as it comes out of the product.
    assert_int_equal(count_labels(&normed.list, "attn_q+attn_k+attn_v"), qk_norm ? layers : 0);
    assert_int_equal(count_labels(&normed.list, "attn_q"), qk_norm ? 0 : layers);
    assert_int_equal(count_labels(&normed.list, moe ? "ffn_up_exps" : "ffn_up"), layers);
    assert_int_equal(live_numbers(&normed), live_numbers(&plain));
    model_deinit(&plain);
    model_deinit(&fused);
    model_deinit(&gated);
    model_deinit(&normed);
    tally_model_close(m);
    tiny_model_free(&t);
}

static void test_records(void **state) {
    (void)state;
    check_records("llama-gqa4", false, false, false);
    check_records("qwen2-gqa7", false, true, false);
    check_records("qwen3-gqa4", true, false, false);
    check_records("qwen3moe-e8k2-norm", true, false, true);
}

// ---- poison --------------------------------------------------------------------------------------------------------------

// All memory of a step that is not the cache filled with NaN before every step, and unused cache blocks with it: nothing stale is read.
static void poisoned_equals_clean(const char *path, const int32_t *ids, int n) {
    int n_vocab;
    float *clean = eval_with(path, true, ids, n, &n_vocab), *got = malloc((size_t)n * (size_t)n_vocab * sizeof *got);
    assert_non_null(got);
    test_engine e = test_engine_open(path, &(tally_engine_options){.threads = 1, .context = 128, .logit_rows = 32});
    cpu_backend *b = (cpu_backend *)e.engine->plan.device;
    for (int block = 0; block < b->limits.n_blocks; block++) b->base.vt->block_poison(&b->base, block, 0);
    tally_session *s;
    tally_error err;
    assert_int_equal(tally_session_open(&s, e.engine, &err), 0);
    for (int at = 0; at < n; at += 9) {
        memset(b->workspace, 0xff, (size_t)b->workspace_bytes);
        memset(b->thread_scratch, 0xff, (size_t)b->thread_bytes);
        for (int i = 0; i < X_FORMAT_COUNT; i++) memset(b->x_packed[i], 0xff, (size_t)b->sizes.x[i]);
        int rows = n - at < 9 ? n - at : 9;
        if (tally_session_eval(s, ids + at, rows, rows, test_collect, got, &err)) fail_msg("%s: %s", path, err.text);
    }
    if (memcmp(clean, got, (size_t)n * (size_t)n_vocab * sizeof *got) != 0)
        fail_msg("%s: stale memory changes the logits", path);
    tally_session_close(s);
    test_engine_close(&e);
    free(clean);
    free(got);
}

static void test_poison(void **state) { (void)state, every_model(poisoned_equals_clean); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fused_equals_unfused),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_plan_reads_before_write),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_poison),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
