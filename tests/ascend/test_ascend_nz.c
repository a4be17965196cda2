// Weights in FRACTAL_NZ: the numbers are those of plain weights (where the order of sums does not follow the format), what is converted
// and what is not, and its size.
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

enum { VOCAB = 300, N_IDS = 20 };

typedef struct fixture {
    temp_folder folder;
    char path[300], trace[300];
    int32_t ids[N_IDS];
    int n_vocab;
    emulated emu;
} fixture;

static fixture fixture_open(void) {
    fixture f = {.folder = temp_folder_make(), .n_vocab = VOCAB, .emu = emulated_open()};
    f.emu.reset(); // what a failed test left
    snprintf(f.path, sizeof f.path, "%s/model.gguf", f.folder.path);
    snprintf(f.trace, sizeof f.trace, "%s/trace", f.folder.path);
    for (int i = 0; i < N_IDS; i++) f.ids[i] = (int32_t)(hash_mix(1 + (uint64_t)i) % VOCAB);
    return f;
}

static void fixture_close(fixture *f) {
    emulated_close(&f->emu);
    temp_folder_remove(&f->folder);
}

// Whether each weight that has a copy on the device is where it should be: projections of layers without a bias, and only those.
static int count_nz(const tally_engine *e) {
    const ascend_backend *b = (const ascend_backend *)e->plan.device;
    const weight_set *set = b->list->weights;
    int n = 0;
    for (int i = 0; i < b->n_weights; i++) {
        const ascend_weight *w = &b->weights[i];
        if (!w->data) continue;
        bool bias = false;
        for (int k = 0; k < b->list->n_ops; k++) {
            const op *o = &b->list->ops[k];
            bias |= o->code == OP_LINEAR && o->in[1].id == i && o->in[2].where == STORAGE_WEIGHT;
        }
        bool want = set->w[i].role == WEIGHT_LINEAR && set->w[i].layer >= 0 && !bias;
        if (w->nz && !want) fail_msg("%s of layer %d was converted", set->w[i].label, set->w[i].layer);
        n += w->nz;
        if (w->nz) assert_int_equal(b->base.vt->weight_bytes(&b->base, &set->w[i]) % (16 * 16 * 2), 0);
    }
    return n;
}

static float *logits_on(fixture *f, const char *device, int *n_nz) {
    char traced[500];
    snprintf(traced, sizeof traced, "%s,trace=%s", device, f->trace);
    tally_engine_options o = {.threads = 1, .context = 64, .step_rows = 32, .logit_rows = 32, .device = traced};
    test_engine t = test_engine_open(f->path, &o);
    float *logits = test_eval(&t, f->ids, N_IDS, 7);
    *n_nz = count_nz(t.engine);
    assert_true(((const ascend_backend *)t.engine->plan.device)->call.growths == 0);
    char *trace = emulated_trace_read(&f->emu, f->trace);
    assert_int_equal(emulated_trace_count(trace, "aclnnTransMatmulWeight(phase 2,"), *n_nz);
    free(trace);
    test_engine_close(&t);
    emulated_next(&f->emu);
    return logits;
}

// The numbers with NZ weights, and those without.
static void check_equal(fixture *f, const char *device, int n_nz) {
    char off[200];
    int n, none;
    snprintf(off, sizeof off, "%s,off=nz", device);
    float *nz = logits_on(f, device, &n), *plain = logits_on(f, off, &none);
    if (n != n_nz) fail_msg("%s: %d weights were converted, not %d", device, n, n_nz);
    assert_int_equal(none, 0);
    assert_memory_equal(nz, plain, (size_t)(N_IDS * f->n_vocab) * sizeof *nz);
    free(nz);
    free(plain);
}

static void test_equal(void **state) {
    (void)state;
    enum { LAYERS = 2, DENSE = 4, MIXTURE = 2, SHARED = 2 }; // q+k+v, o, gate+up, down; q+k+v, o; o, down
    fixture f = fixture_open();
    tiny_random_gguf(f.path, DTYPE_BF16, false, 7);
    check_equal(&f, "emu:910B3,perturb=off,tile=16,pieces=off", LAYERS * DENSE);
    check_equal(&f, "emu:910_9382,cann=8.1,perturb=off,tile=16,pieces=off,graph=off", LAYERS * DENSE);
    check_equal(&f, "emu:910B3,perturb=off,tile=16", LAYERS * (DENSE - SHARED)); // what ranks share is as stored
    check_equal(&f, "emu:950PR,perturb=off,tile=16", 0);                         // as stored
    tiny_random_gguf(f.path, DTYPE_F16, true, 7);
    check_equal(&f, "emu:910B3,cann=8.5,perturb=off,tile=16,pieces=off", LAYERS * MIXTURE);
    check_equal(&f, "emu:910A,perturb=off,tile=16", 0); // has none
    fixture_close(&f);
}

// Heads of 22 make projections whose sides are no multiples of 16: they are padded, in memory and in its count.
static void test_padding(void **state) {
    (void)state;
    fixture f = fixture_open();
    tiny_random_gguf_heads(f.path, DTYPE_BF16, false, 22, 7);
    check_equal(&f, "emu:910B3,perturb=off,tile=16,pieces=off", 2 * 4);
    tally_engine_options o = {.threads = 1, .context = 64, .device = "emu:910B3,pieces=off"};
    test_engine t = test_engine_open(f.path, &o);
    const backend *b = t.engine->plan.device;
    const weight_set *set = ((const ascend_backend *)b)->list->weights;
    int found = 0;
    for (int i = 0; i < set->n; i++) {
        const weight *w = &set->w[i];
        if (w->absorbed || w->layer != 0 || w->role != WEIGHT_LINEAR || w->n % 16 == 0) continue;
        assert_true(b->vt->weight_bytes(b, w) == (w->n + 15) / 16 * 16 * w->k * 2);
        assert_string_equal(b->vt->weight_layout(b, w), "FRACTAL_NZ");
        found++;
    }
    assert_true(found > 0);
    test_engine_close(&t);
    emulated_next(&f.emu);
    fixture_close(&f);
}

// Projections with a bias stay as they are.
static void test_bias(void **state) {
    (void)state;
    fixture f = fixture_open();
    tiny_model m = tiny_model_read("llama-attention-bias");
    snprintf(f.path, sizeof f.path, "%s/model", f.folder.path);
    tiny_model_write_folder(&m, f.path, DTYPE_BF16, 1);
    f.n_vocab = m.n_vocab;
    for (int i = 0; i < N_IDS; i++) f.ids[i] %= m.n_vocab;
    int layers = (int)json_integer_value(json_object_get(m.config, "num_hidden_layers"));
    check_equal(&f, "emu:910B3,perturb=off,tile=16,pieces=off", layers * 2); // gate and up, down
    tiny_model_free(&m);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
