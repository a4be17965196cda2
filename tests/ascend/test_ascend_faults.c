// Devices that are lost or hang, numbers that are not finite, memory that does not suffice, what is refused. Each gives one sentence, leaves
// nothing behind, and a later request works or is told why not. tests/fault/test_ascend_sweep has every single call fail.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/ascend/internal.h"
#include "base/clock.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "tests/support/emulated.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 300, N_IDS = 9 };

typedef struct fixture {
    temp_folder folder;
    char path[300];
    int32_t ids[N_IDS];
    emulated emu;
    tally_model *model;
    float *reference; // [N_IDS][VOCAB]
} fixture;

static tally_engine_options options(const char *device) {
    return (tally_engine_options){.threads = 1, .context = 128, .step_rows = 16, .logit_rows = 16, .device = device};
}

static tally_status eval(tally_engine *e, const fixture *f, float *logits, tally_error *err) {
    tally_session *s;
    tally_status st = tally_session_open(&s, e, err);
    if (st) return st;
    st = tally_session_eval(s, f->ids, N_IDS, 3, test_collect, logits, err);
    tally_session_close(s);
    return st;
}

static fixture fixture_open(bool moe) {
    fixture f = {.folder = temp_folder_make(), .emu = emulated_open()};
    tally_error err;
    f.emu.reset();
    snprintf(f.path, sizeof f.path, "%s/model.gguf", f.folder.path);
    tiny_random_gguf(f.path, DTYPE_BF16, moe, 7);
    for (int i = 0; i < N_IDS; i++) f.ids[i] = (int32_t)(hash_mix(1 + (uint64_t)i) % VOCAB);
    assert_int_equal(tally_model_open(&f.model, f.path, &err), 0);
    f.reference = malloc(N_IDS * VOCAB * sizeof *f.reference);
    assert_non_null(f.reference);
    tally_engine *e;
    tally_engine_options o = options("emu:910B3,tile=16");
    if (tally_engine_open(&e, f.model, &o, &err)) fail_msg("%s", err.text);
    if (eval(e, &f, f.reference, &err)) fail_msg("%s", err.text);
    tally_engine_close(e);
    emulated_next(&f.emu);
    return f;
}

static void fixture_close(fixture *f) {
    tally_model_close(f->model);
    emulated_close(&f->emu);
    free(f->reference);
    temp_folder_remove(&f->folder);
}

// A load and three steps of which the n-th `what` fails. Returns whether anything did.
static bool failed_once(const fixture *f, const char *what, int n, bool may_break) {
    char device[100];
    tally_error err = {0};
    tally_engine *e = NULL;
    snprintf(device, sizeof device, "emu:910B3,tile=16,%s=%d", what, n);
    tally_engine_options o = options(device);
    tally_status s = tally_engine_open(&e, f->model, &o, &err);
    bool loaded = s == 0;
    float *logits = malloc(N_IDS * VOCAB * sizeof *logits);
    assert_non_null(logits);
    if (loaded) s = eval(e, f, logits, &err);
    if (s) {
        if (strlen(err.text) < 20 || (!strstr(err.text, "Ascend910B3") && !strstr(err.text, "descriptor")))
            fail_msg("%s=%d: the message says too little: %s", what, n, err.text);
        assert_int_equal(err.code, s);
    }
    if (s && loaded) { // the engine lives on
        snprintf(device, sizeof device, "%s=0", strrchr(what, ',') ? strrchr(what, ',') + 1 : what);
        assert_int_equal(f->emu.configure(device), 0);
        tally_error again;
        tally_status second = eval(e, f, logits, &again);
        if (second && (!may_break || !strstr(again.text, "failed")))
            fail_msg("%s=%d, the next request: %s", what, n, again.text);
        if (!second) assert_memory_equal(logits, f->reference, N_IDS * VOCAB * sizeof *logits);
    } else if (!s) {
        assert_memory_equal(logits, f->reference, N_IDS * VOCAB * sizeof *logits);
    }
    free(logits);
    tally_engine_close(e);
    char kinds[256];
    int left = f->emu.live_objects(kinds, sizeof kinds);
    if (left) fail_msg("%s=%d left %d objects behind: %s; %s", what, n, left, kinds, err.text);
    f->emu.reset();
    return s != 0;
}

static void test_device_lost(void **state) {
    (void)state;
    fixture f = fixture_open(false);
    for (int n = 1; n <= 3; n++) assert_true(failed_once(&f, "lost", n, true));
    assert_true(failed_once(&f, "timeout=200,hang", 40, true)); // an operator that does not end
    fixture_close(&f);
}

// An operator of a replayed step that does not end: one timeout until the engine is closed, and nothing is left.
static void test_hang_in_replay(void **state) {
    (void)state;
    enum { TIMEOUT_MS = 1500 };
    fixture f = fixture_open(false);
    tally_engine_options o = options("emu:910B3,tile=16,timeout=1500,watchdog=60000");
    o.graph = "on";
    tally_engine *e;
    tally_error err;
    char kinds[256];
    float *logits = malloc(N_IDS * VOCAB * sizeof *logits);
    assert_non_null(logits);
    if (tally_engine_open(&e, f.model, &o, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < 3; i++) assert_int_equal(eval(e, &f, logits, &err), 0);
    const ascend_graphs *g = &((const ascend_backend *)e->plan.device)->graphs;
    int64_t replays = g->replays;
    assert_int_equal(eval(e, &f, logits, &err), 0);
    assert_true(g->replays - replays == (N_IDS + 2) / 3); // every step is one
    assert_memory_equal(logits, f.reference, N_IDS * VOCAB * sizeof *logits);
    uint64_t begin = clock_now_ns();
    assert_int_equal(f.emu.configure("hang=5"), 0);
    assert_int_not_equal(eval(e, &f, logits, &err), 0);
    if (!strstr(err.text, "aclrtSynchronizeStreamWithTimeout") || !strstr(err.text, "507046")) fail_msg("%s", err.text);
    tally_engine_close(e);
    double ms = (double)(clock_now_ns() - begin) / 1e6;
    if (ms < TIMEOUT_MS || ms > 2 * TIMEOUT_MS) fail_msg("it took %.0f ms", ms);
    int left = f.emu.live_objects(kinds, sizeof kinds);
    if (left) fail_msg("%d objects are left: %s", left, kinds);
    free(logits);
    f.emu.reset();
    fixture_close(&f);
}

// ---- numbers that are not finite ---------------------------------------------------------------------------------------------

static void set_embedding(const tally_model *m, int32_t token, uint16_t value) {
    const checkpoint_tensor *t = checkpoint_find(m->ck, str_from("model.embed_tokens.weight"));
    assert_non_null(t);
    memcpy((unsigned char *)(uintptr_t)t->data + (size_t)token * 256 * 2, &value, 2);
}

// A draft that is not finite, behind rows that are: they keep their logits.
static void check_draft(tally_engine *e, const fixture *f, int32_t poisoned) {
    enum { ROWS = 7, AT = 5 };
    int32_t token[ROWS], pos[ROWS], seq[ROWS] = {0}, out[ROWS];
    const int32_t block[2] = {0, 1}, *table = block;
    for (int i = 0; i < ROWS; i++) token[i] = i == AT ? poisoned : f->ids[i], pos[i] = out[i] = i;
    step_inputs in = {.n_rows = ROWS,
                      .n_out = ROWS,
                      .n_seqs = 1,
                      .token = token,
                      .pos = pos,
                      .seq = seq,
                      .block_table = &table,
                      .out_row = out};
    step_result r;
    error err;
    backend *device = e->plan.device;
    if (device->vt->run(device, &in, &r, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < ROWS; i++) assert_int_equal(r.fault[i] == STEP_OK, i < AT);
    assert_memory_equal(r.logits, f->reference, AT * VOCAB * sizeof(float));
}

// A token whose embedding is infinite, at position 4 of one sequence beside another: one ends with an error that names operation and
// position, the other notices nothing, nor does what comes later into the same blocks.
static void test_non_finite(void **state) {
    (void)state;
    fixture f = fixture_open(false);
    tally_error err;
    tally_model *m;
    assert_int_equal(tally_model_open(&m, f.path, &err), 0);
    assert_int_equal(checkpoint_load_tensors(m->ck, false, NULL), STATUS_OK);
    const int32_t poisoned = 299;
    set_embedding(m, poisoned, 0x7f80);
    tally_engine_options o = options("emu:910B3,tile=16");
    o.no_mmap = true, o.cache_positions = 256, o.no_prefix_reuse = true;
    tally_engine *e;
    if (tally_engine_open(&e, m, &o, &err)) fail_msg("%s", err.text);
    int32_t bad[N_IDS];
    memcpy(bad, f.ids, sizeof bad);
    bad[4] = poisoned;
    sequence s[2];
    part_result r[2];
    error why;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sequence_init(&s[i], e, &why), STATUS_OK);
        assert_int_equal(sequence_append(e, &s[i], i ? f.ids : bad, 7, &why), STATUS_OK);
        assert_true(block_table_reserve(&s[i].cache, 7));
    }
    const step_part parts[2] = {{.seq = &s[0], .n_rows = 7, .last_logits = true},
                                {.seq = &s[1], .n_rows = 7, .last_logits = true}};
    assert_int_equal(engine_run_parts(e, parts, 2, r, &why), STATUS_OK);
    assert_int_equal(r[0].fault.code, STATUS_NON_FINITE);
    if (!strstr(r[0].fault.text, "token_embd at position 4 ")) fail_msg("%s", r[0].fault.text);
    assert_int_equal(r[1].fault.code, STATUS_OK);
    assert_memory_equal(r[1].logits, f.reference + 6 * VOCAB, VOCAB * sizeof(float));
    sequence_deinit(&s[0]);
    sequence_deinit(&s[1]);
    check_draft(e, &f, poisoned);
    float *logits = malloc(N_IDS * VOCAB * sizeof *logits);
    assert_non_null(logits);
    for (int i = 0; i < 5; i++) { // through every block
        if (eval(e, &f, logits, &err)) fail_msg("%s", err.text);
        assert_memory_equal(logits, f.reference, N_IDS * VOCAB * sizeof *logits);
    }
    free(logits);
    tally_engine_close(e);
    tally_model_close(m);
    emulated_next(&f.emu);
    fixture_close(&f);
}

// Sums over many products that F16 cannot hold, in one layer: the error names it and the first position, on chips with fused operators and
// without.
static void check_overflow(const fixture *f, const char *chip, int layer) {
    tally_error err;
    tally_model *m;
    char name[60], where[20];
    assert_int_equal(tally_model_open(&m, f->path, &err), 0);
    assert_int_equal(checkpoint_load_tensors(m->ck, false, NULL), STATUS_OK);
    snprintf(name, sizeof name, "model.layers.%d.mlp.down_proj.weight", layer);
    snprintf(where, sizeof where, "layer %d (", layer);
    const checkpoint_tensor *t = checkpoint_find(m->ck, str_from(name));
    assert_non_null(t);
    uint16_t *w = (uint16_t *)(uintptr_t)t->data;
    for (int i = 0; i < 256 * 512; i++) w[i] = (uint16_t)((w[i] & 0x8000) | 0x4700); // 2^15, which F16 holds
    tally_engine_options o = options(chip);
    o.no_mmap = true, o.type = "f16";
    tally_engine *e;
    if (tally_engine_open(&e, m, &o, &err)) fail_msg("%s", err.text);
    float *logits = malloc(N_IDS * VOCAB * sizeof *logits);
    assert_non_null(logits);
    assert_int_equal(eval(e, f, logits, &err), TALLY_NON_FINITE);
    if (!strstr(err.text, where) || !strstr(err.text, "down") || !strstr(err.text, "position 0 "))
        fail_msg("%s", err.text);
    free(logits);
    tally_engine_close(e);
    tally_model_close(m);
    emulated_next(&f->emu);
}

static void test_overflow(void **state) {
    (void)state;
    static const char *const chips[] = {"emu:910B3,tile=16", "emu:910A,tile=16"};
    fixture f = fixture_open(false);
    for (int chip = 0; chip < 2; chip++) {
        for (int layer = 0; layer < 2; layer++) check_overflow(&f, chips[chip], layer); // of 2
    }
    fixture_close(&f);
}

static void expect_error(const fixture *f, const char *device, const tally_engine_options *base, const char *want) {
    tally_engine_options o = *base;
    tally_engine *e;
    tally_error err = {0};
    o.device = device;
    if (tally_engine_open(&e, f->model, &o, &err) == TALLY_OK) fail_msg("%s was opened", device);
    if (!strstr(err.text, want)) fail_msg("%s: '%s' does not say '%s'", device, err.text, want);
    emulated_next(&f->emu);
}

// The type of the layers decides whether weights can stay as they are, whatever embedding and head are.
static void test_type_of_the_layers(void **state) {
    (void)state;
    fixture f = fixture_open(false);
    tally_engine_options o = options("emu:910B3,tile=16");
    tally_error err;
    tally_engine *e;
    tally_model_close(f.model);
    tiny_random_gguf_ends(f.path, DTYPE_Q8_0, DTYPE_BF16, 7);
    assert_int_equal(tally_model_open(&f.model, f.path, &err), 0);
    expect_error(&f, "emu:910B3,tile=16", &o, "not Q8_0; convert them at load");
    tally_model_close(f.model);
    tiny_random_gguf_ends(f.path, DTYPE_F16, DTYPE_Q8_0, 7);
    assert_int_equal(tally_model_open(&f.model, f.path, &err), 0);
    if (tally_engine_open(&e, f.model, &o, &err)) fail_msg("%s", err.text);
    tally_engine_close(e);
    emulated_next(&f.emu);
    fixture_close(&f);
}

static void test_refusals(void **state) {
    (void)state;
    fixture f = fixture_open(false);
    tally_engine_options o = options(NULL), typed = o, cache = o;
    typed.type = "f16";
    cache.cache_k = "q8_0";
    expect_error(&f, "emu:910B3,mem=8M", &o, "MiB");
    expect_error(&f, "emu:910A", &o, "has no BF16; convert the weights at load: --dtype f16");
    expect_error(&f, "emu:910B", &o, "Ascend910B (910A)"); // without a digit the first generation, not A2
    expect_error(&f, "emu:910Q", &o, "910Q");
    expect_error(&f, "emu:910B3,off=rooe", &o, "off=rooe");
    expect_error(&f, "emu:910B3,tile=17", &o, "tile=17");
    expect_error(&f, "emu:910B3,timeout=60s", &o, "timeout=60s: it must be a number of milliseconds");
    expect_error(&f, "emu:910B3,timeout=99999999999", &o, "timeout=99999999999");
    expect_error(&f, "emu:910B3,timeout=0", &o, "timeout=0");
    expect_error(&f, "emu:910B3,cann=7.0", &o, "cann=7.0");
    expect_error(&f, "emu:", &o, "names no chip");
    expect_error(&f, "npu:0", &o, "there is no device 'npu:0'");
    expect_error(&f, "ascend:x", &o, "the device is a number");
    void *installed = dlopen("libascendcl.so", RTLD_LAZY);
    if (!installed && !getenv("ASCEND_HOME_PATH") && access("/usr/local/Ascend", F_OK) != 0)
        expect_error(&f, "ascend:0", &o, "libascendcl.so cannot be loaded");
    if (installed) dlclose(installed);
    expect_error(&f, "emu:910B3", &cache, "the cache of this device is of type BF16");
    expect_error(&f, NULL, &typed, "--dtype is for NPUs");
    cache = o, cache.graph = "on", cache.type = "f16";
    expect_error(&f, "emu:910A", &cache, "graph=on: the chip has no graph capture");
    fixture_close(&f);
}

// A device that refuses to capture or to replay a step computes it, and all that follow, operator by operator, and says so; graph=on is
// an error. Steps of one token, the `last` of which has its call number `call` refused.
static void check_refused(const fixture *f, const char *graph, int last, int call, const char *named) {
    static const char *const begin = "no step is replayed any more: ";
    tally_engine_options o = options("emu:910B3,tile=16");
    o.graph = graph;
    tally_engine *e;
    tally_error err;
    char setting[40];
    float *logits = malloc(N_IDS * VOCAB * sizeof *logits);
    assert_non_null(logits);
    if (tally_engine_open(&e, f->model, &o, &err)) fail_msg("%s", err.text);
    const ascend_graphs *g = &((const ascend_backend *)e->plan.device)->graphs;
    tally_session *s;
    assert_int_equal(tally_session_open(&s, e, &err), 0);
    assert_int_equal(tally_session_eval(s, f->ids, last, 1, test_collect, logits, &err), 0);
    assert_null(tally_engine_warning(e));
    int64_t replays = g->replays;
    snprintf(setting, sizeof setting, "fail_call=%d", call);
    assert_int_equal(f->emu.configure(setting), 0);
    tally_status st = tally_session_eval(s, f->ids + last, 1, 1, test_collect, logits, &err);
    f->emu.configure("fail_call=0");
    const char *warning = tally_engine_warning(e);
    if (strcmp(graph, "on") == 0) {
        assert_true(st && strstr(err.text, named) && !warning);
    } else {
        if (st) fail_msg("%s", err.text);
        assert_non_null(warning);
        if (strncmp(warning, begin, strlen(begin)) != 0 || !strstr(warning, named)) fail_msg("%s", warning);
        assert_memory_equal(logits + last * VOCAB, f->reference + last * VOCAB, VOCAB * sizeof *logits);
        replays = g->replays;
    }
    tally_session_close(s);
    for (int i = 0; i < 3; i++) {
        if (eval(e, f, logits, &err)) fail_msg("%s", err.text);
        assert_memory_equal(logits, f->reference, N_IDS * VOCAB * sizeof *logits);
    }
    assert_true(warning ? g->replays == replays : g->replays > replays);
    tally_engine_close(e);
    emulated_next(&f->emu);
    free(logits);
}

static void test_refused_graphs(void **state) {
    (void)state;
    fixture f = fixture_open(false);
    for (int i = 0; i < 2;
         i++) { // a step's first two calls set the context and copy the inputs; the second such step is captured
        const char *graph = i ? "on" : "auto";
        check_refused(&f, graph, 1, 3, "aclmdlRICaptureBegin failed with code 507899 on Ascend910B3");
        check_refused(&f, graph, 1, 4, "operation token_embd (EMBED)");
        check_refused(&f, graph, 2, 3, "aclmdlRIExecuteAsync failed with code 507899 on Ascend910B3");
    }
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_lost),        cmocka_unit_test(test_hang_in_replay),
        cmocka_unit_test(test_non_finite),         cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_refused_graphs),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_type_of_the_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
