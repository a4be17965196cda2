// NaN and infinity planted in a weight: the request ends with an error that names layer and position, never with a token; others in
// the same step do not notice, and the next request finds a clean engine.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/generation.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { N_PROMPT = 20, CONTEXT = 256 };

static temp_folder folder;
static int setup(void **state) { return (void)state, folder = temp_folder_make(), 0; }
static int teardown(void **state) { return (void)state, temp_folder_remove(&folder), 0; }

// A model whose tensors are in memory of our own, where the test may change them before the engine packs them.

static tally_model *open_for_planting(const char *path) {
    tally_model *m;
    tally_error err;
    if (tally_model_open(&m, path, &err)) fail_msg("%s", err.text);
    assert_int_equal(checkpoint_load_tensors(m->ck, false, NULL), STATUS_OK);
    return m;
}

static test_engine open_engine(tally_model *m, bool fuse) {
    test_engine e = {.model = m};
    tally_error err;
    tally_engine_options o = {.threads = 2,
                              .context = CONTEXT,
                              .cache_positions = 1024,
                              .no_mmap = true,
                              .no_fuse = !fuse,
                              .cache_k = "f16",
                              .cache_v = "f16"};
    if (tally_engine_open(&e.engine, m, &o, &err)) fail_msg("%s", err.text);
    return e;
}

// The bytes of number `index` of a tensor: of a block type the f16 scale of the block it lies in.
static void plant(tally_model *m, const char *name, int64_t index, float value) {
    const checkpoint_tensor *t = checkpoint_find(m->ck, str_from(name));
    if (!t) fail_msg("there is no tensor %s", name);
    const dtype_info *info = dtype_get(t->type);
    unsigned char *at = (unsigned char *)(uintptr_t)t->data + index / info->block_elems * info->block_bytes;
    uint16_t half = f16_from_f32(value);
    switch (t->type) {
    case DTYPE_F32: memcpy(at, &value, 4); break;
    case DTYPE_BF16: info->from_f32(at, &value, 1); break;
    case DTYPE_Q8_0:
    case DTYPE_Q4_0:
    case DTYPE_Q4_K: memcpy(at, &half, 2); break;
    case DTYPE_Q6_K: memcpy(at + 208, &half, 2); break;
    default: fail_msg("no place for a planted number in %s", info->name);
    }
}

static void make_prompt(int32_t *ids, int n, int n_vocab) {
    for (int i = 0; i < n; i++) ids[i] = (7 + 11 * i) % n_vocab;
}

static void expect_error(tally_generation *g, const char *where, int position, const char *what) {
    tally_error err = {0};
    int n;
    char position_text[32];
    snprintf(position_text, sizeof position_text, "position %d ", position);
    tally_generation_ids(g, &n);
    if (!tally_generation_done(g) || tally_generation_status(g, &err) != TALLY_NON_FINITE) {
        fail_msg("%s: no error, but %d tokens (the first is %d)", what, n, n ? tally_generation_ids(g, &n)[0] : -1);
    }
    assert_int_equal(n, 0);
    assert_string_equal(tally_generation_finish_reason(g), "error");
    if (!strstr(err.text, where) || !strstr(err.text, position_text))
        fail_msg("%s: '%s' should name %s and %s", what, err.text, where, position_text);
}

static tally_generation *begin(tally_engine *e, const int32_t *ids, int n, int max_tokens) {
    tally_generation *g;
    tally_error err;
    tally_request r = {.ids = ids, .n_ids = n, .max_tokens = max_tokens, .ignore_eos = true, .logprobs = 1};
    if (tally_generate(e, &r, &g, &err)) fail_msg("%s", err.text);
    return g;
}

static void run_all(tally_engine *e) {
    bool idle = false;
    tally_error err;
    for (int i = 0; !idle; i++) {
        assert_true(i < 1000);
        assert_int_equal(tally_engine_step(e, &idle, &err), 0);
    }
}

// At which position of the prompt a damaged weight is seen, by lists that are as the model wrote them and by fused ones, in whose last
// layer the wanted row alone, the last, goes on behind attention.
typedef struct seen_at {
    int unfused, fused;
} seen_at;
static const seen_at FIRST = {0, 0}, LAST = {N_PROMPT - 1, N_PROMPT - 1};

// What stands before the cache is seen there, other weights of the last layer by norms: of all rows, or behind the MLP of the wanted one.
static seen_at seen_in_layer(const char *name, bool last_layer) {
    static const char *const before_cache[] = {"input_layernorm", "self_attn.k_", "self_attn.v_"};
    for (size_t i = 0; i < sizeof before_cache / sizeof *before_cache; i++) {
        if (strncmp(name, before_cache[i], strlen(before_cache[i])) == 0) return FIRST;
    }
    bool in_mlp =
        strcmp(name, "post_attention_layernorm") == 0 || (strstr(name, "mlp.") && strcmp(name, "mlp.gate") != 0);
    return !last_layer ? FIRST : in_mlp ? LAST : (seen_at){0, N_PROMPT - 1};
}

// One planted number, one request (and one session) that must fail at it. Fused and unfused lists take turns.
static void check_one(const char *path, const char *name, int64_t index, float value, const char *where, seen_at seen) {
    static bool fuse;
    fuse = !fuse;
    tally_model *m = open_for_planting(path);
    plant(m, name, index, value);
    test_engine e = open_engine(m, fuse);
    int32_t ids[N_PROMPT];
    make_prompt(ids, N_PROMPT, tally_model_n_vocab(m));
    char what[200];
    snprintf(what, sizeof what, "%s[%lld] = %g, %s", name, (long long)index, (double)value, fuse ? "fused" : "unfused");
    tally_generation *g = begin(e.engine, ids, N_PROMPT, 5);
    run_all(e.engine);
    expect_error(g, where, fuse ? seen.fused : seen.unfused, what);
    tally_generation_close(g);
    tally_session *s;
    tally_error err;
    assert_int_equal(tally_session_open(&s, e.engine, &err), 0);
    assert_int_equal(tally_session_sync(s, ids, N_PROMPT, &err), TALLY_NON_FINITE);
    assert_non_null(strstr(err.text, where));
    assert_int_equal(tally_session_length(s), 0);
    assert_int_equal(test_blocks_in_use(e.engine), 0); // those of the rows that failed, too
    void *bytes;
    size_t size;
    assert_int_equal(tally_session_save(s, &bytes, &size, &err), 0);
    assert_int_equal(tally_session_restore(s, bytes, size, &err), 0);
    tally_free(bytes);
    tally_session_close(s);
    assert_int_equal(test_blocks_in_use(e.engine), 0);
    test_engine_close(&e);
}

// Every kind of weight of a layer.
static void check_layer_weights(const char *path, const char *const *tensors, int n_layers) {
    for (int layer = 0; layer < n_layers; layer++) {
        for (const char *const *t = tensors; *t; t++) {
            char name[128], where[32];
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, *t);
            snprintf(where, sizeof where, "layer %d ", layer);
            seen_at seen = seen_in_layer(*t, layer == n_layers - 1);
            check_one(path, name, 0, NAN, where, seen);
            check_one(path, name, 0, INFINITY, where, seen);
            check_one(path, name, 0, -INFINITY, where, seen);
        }
    }
}

static const char *model_path(const char *name) {
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", folder.path, name);
    return path;
}

static const char *const DENSE[] = {
    "input_layernorm",          "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "post_attention_layernorm", "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj",    NULL};

static void test_llama_f32(void **state) {
    (void)state;
    tiny_model m = tiny_model_read("llama-gqa4");
    const char *path = model_path("llama");
    tiny_model_write_folder(&m, path, DTYPE_F32, 1);
    check_layer_weights(path, DENSE, (int)json_integer_value(json_object_get(m.config, "num_hidden_layers")));
    tiny_model_free(&m);
}

static void test_qwen3_norms_bf16(void **state) {
    (void)state;
    static const char *const norms[] = {"self_attn.q_norm", "self_attn.k_norm", "self_attn.o_proj", "mlp.down_proj",
                                        NULL};
    tiny_model m = tiny_model_read("qwen3-gqa4");
    const char *path = model_path("qwen3");
    tiny_model_write_folder(&m, path, DTYPE_BF16, 1);
    check_layer_weights(path, norms, (int)json_integer_value(json_object_get(m.config, "num_hidden_layers")));
    tiny_model_free(&m);
}

static void check_quantised(dtype type) {
    const char *path = model_path("quantised.gguf");
    tiny_random_gguf(path, type, false, 3);
    for (int layer = 0; layer < 2; layer++) {
        static const char *const some[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                           "self_attn.o_proj", "mlp.up_proj",      "mlp.down_proj"};
        for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
            char name[128], where[32];
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, some[i]);
            snprintf(where, sizeof where, "layer %d ", layer);
            seen_at seen = i == 0 ? FIRST : seen_in_layer(some[i], layer == 1); // q's norm looks
            check_one(path, name, 256 * 100, NAN, where, seen);                 // a row in the middle
            check_one(path, name, 256 * 100, INFINITY, where, seen);
        }
    }
}

static void test_quantised_scales(void **state) {
    (void)state;
    check_quantised(DTYPE_Q8_0);
    check_quantised(DTYPE_Q4_0);
    check_quantised(DTYPE_Q4_K);
    check_quantised(DTYPE_Q6_K);
}

// The head and the final norm are outside the layers.
static void test_head(void **state) {
    (void)state;
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_K};
    for (int i = 0; i < 4; i++) {
        const char *path = model_path("head.gguf");
        tiny_random_gguf(path, types[i], false, 3);
        check_one(path, "lm_head.weight", 0, NAN, "output", LAST);
        check_one(path, "lm_head.weight", 256 * 299 + 255, INFINITY, "output", LAST);
        check_one(path, "lm_head.weight", 256 * 150, -INFINITY, "output", LAST);
        check_one(path, "model.norm.weight", 5, NAN, "output", LAST);
    }
}

// A router of infinity would only look like an unlikely expert; it is an error like any other.
static void test_experts(void **state) {
    (void)state;
    static const char *const router[] = {"mlp.gate", NULL};
    const char *path = model_path("moe.gguf");
    tiny_random_gguf(path, DTYPE_F32, true, 3);
    for (int layer = 0; layer < 2; layer++) {
        char name[128], where[32];
        snprintf(where, sizeof where, "layer %d ", layer);
        snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, router[0]);
        for (int expert = 0; expert < 8; expert += 3) {
            seen_at seen = seen_in_layer(router[0], layer == 1);
            check_one(path, name, 256 * expert, NAN, where, seen);
            check_one(path, name, 256 * expert + 9, INFINITY, where, seen);
            check_one(path, name, 256 * expert + 9, -INFINITY, where, seen);
        }
    }
    for (int type = 0; type < 2; type++) { // every expert damaged, so that every token meets one
        static const char *const parts[] = {"gate_proj", "up_proj", "down_proj"};
        tiny_random_gguf(path, type ? DTYPE_Q8_0 : DTYPE_BF16, true, 3);
        for (int p = 0; p < 3; p++) {
            tally_model *m = open_for_planting(path);
            char name[128];
            snprintf(name, sizeof name, "model.layers.0.mlp.experts.%s.weight", parts[p]);
            for (int expert = 0; expert < 8; expert++) plant(m, name, (int64_t)expert * 256 * 256 + 256 * 10, NAN);
            test_engine e = open_engine(m, true);
            int32_t ids[N_PROMPT];
            make_prompt(ids, N_PROMPT, 300);
            tally_generation *g = begin(e.engine, ids, N_PROMPT, 5);
            run_all(e.engine);
            expect_error(g, "layer 0 ", 0, name);
            tally_generation_close(g);
            test_engine_close(&e);
        }
    }
}

// Numbers that are finite but become infinity in the cache's type: seen when they are stored, because a score of -infinity would
// vanish from the softmax.
static void test_cache_overflow(void **state) {
    (void)state;
    const char *path = model_path("overflow.gguf");
    tiny_random_gguf(path, DTYPE_F32, false, 3);
    check_one(path, "model.layers.1.self_attn.k_norm.weight", 3, 1e8f, "layer 1 (attn_k_norm)", FIRST);
    check_one(path, "model.layers.0.self_attn.v_proj.weight", 256 * 7 + 3, 1e9f, "layer 0 (attn_", FIRST);
}

// ---- neighbours ----------------------------------------------------------------------------------------------------------

typedef struct outcome {
    int n;
    int32_t ids[32];
    tally_logprob first[32];
} outcome;

static outcome outcome_of(const tally_generation *g) {
    outcome o = {0};
    tally_error err;
    if (tally_generation_status(g, &err)) fail_msg("%s", err.text);
    const int32_t *ids = tally_generation_ids(g, &o.n);
    assert_true(o.n > 0 && o.n <= 32);
    memcpy(o.ids, ids, (size_t)o.n * sizeof *ids);
    for (int i = 0; i < o.n; i++) {
        int n;
        o.first[i] = tally_generation_logprobs(g, i, &n)[0];
    }
    return o;
}

// Token 250 is damaged; its neighbours in the step answer with the bits of a sound model, as do those that get its blocks later.
static void check_neighbours(dtype type, bool moe, int step_rows) {
    enum { BAD = 250, GOOD = 3 };
    const char *path = model_path("neighbours.gguf");
    tiny_random_gguf(path, type, moe, 3);
    int32_t good[GOOD][100], bad[100];
    for (int i = 0; i < GOOD; i++) {
        for (int j = 0; j < 100; j++) good[i][j] = (i * 31 + j * 7) % 240;
    }
    memcpy(bad, good[0], sizeof bad);
    bad[70] = BAD;
    tally_logit_bias no_bad = {BAD, -INFINITY};
    tally_engine_options o = {
        .threads = 2, .context = 128, .cache_positions = 512, .no_mmap = true, .step_rows = step_rows};
    outcome want[GOOD];
    for (int planted = 0; planted < 2; planted++) {
        tally_model *m = open_for_planting(path);
        if (planted) plant(m, "model.embed_tokens.weight", 256 * BAD + 17, NAN);
        test_engine e = {.model = m};
        tally_error err;
        if (tally_engine_open(&e.engine, m, &o, &err)) fail_msg("%s", err.text);
        for (int round = 0; round < 3; round++) {
            tally_generation *g[GOOD], *b = NULL;
            for (int i = 0; i < GOOD; i++) {
                if (planted && i == round) b = begin(e.engine, bad, 100, 5);
                tally_request r = {.ids = good[i],
                                   .n_ids = 60 + 17 * i,
                                   .max_tokens = 20,
                                   .ignore_eos = true,
                                   .logprobs = 1,
                                   .sampling = {.logit_bias = &no_bad, .n_logit_bias = 1}};
                assert_int_equal(tally_generate(e.engine, &r, &g[i], &err), 0);
            }
            run_all(e.engine);
            for (int i = 0; i < GOOD; i++) {
                outcome got = outcome_of(g[i]);
                if (!planted && round == 0) want[i] = got;
                assert_memory_equal(&got, &want[i], sizeof got);
                tally_generation_close(g[i]);
            }
            if (b) expect_error(b, "token_embd", 70, "a damaged row of the embedding");
            tally_generation_close(b);
            assert_int_equal(test_blocks_in_use(e.engine), 0);
        }
        test_engine_close(&e);
    }
}

static void test_neighbours(void **state) {
    (void)state;
    check_neighbours(DTYPE_F32, false, 512);
    check_neighbours(DTYPE_F32, false, 16);
    check_neighbours(DTYPE_Q8_0, true, 512);
    check_neighbours(DTYPE_BF16, true, 33);
    check_neighbours(DTYPE_Q6_K, false, 64);
}

// A damaged token met while answering: the tokens before it stay.
static void test_met_while_decoding(void **state) {
    (void)state;
    const char *path = model_path("decoding.gguf");
    tiny_random_gguf(path, DTYPE_F32, false, 3);
    int32_t ids[N_PROMPT];
    make_prompt(ids, N_PROMPT, 300);
    test_engine sound = test_engine_open(path, NULL);
    int n, at = 0;
    int32_t *greedy = test_greedy(&sound, ids, N_PROMPT, 12, &n);
    test_engine_close(&sound);
    bool known = true;
    for (at = 1; at < n && known; at++) { // the first token that neither prompt nor answer held before
        known = false;
        for (int i = 0; i < N_PROMPT; i++) known |= ids[i] == greedy[at];
        for (int i = 0; i < at; i++) known |= greedy[i] == greedy[at];
        if (!known) break;
    }
    assert_false(known);
    tally_model *m = open_for_planting(path);
    plant(m, "model.embed_tokens.weight", 256 * greedy[at], INFINITY);
    test_engine e = open_engine(m, true);
    tally_generation *g = begin(e.engine, ids, N_PROMPT, 12);
    run_all(e.engine);
    tally_error err;
    assert_int_equal(tally_generation_status(g, &err), TALLY_NON_FINITE);
    char position[32];
    snprintf(position, sizeof position, "position %d ", N_PROMPT + at);
    assert_non_null(strstr(err.text, position));
    const int32_t *got = tally_generation_ids(g, &n);
    assert_int_equal(n, at + 1);
    assert_memory_equal(got, greedy, (size_t)n * sizeof *got);
    tally_generation_close(g);
    free(greedy);
    test_engine_close(&e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_f32),        cmocka_unit_test(test_qwen3_norms_bf16),
        cmocka_unit_test(test_quantised_scales), cmocka_unit_test(test_head),
        cmocka_unit_test(test_experts),          cmocka_unit_test(test_cache_overflow),
        cmocka_unit_test(test_neighbours),       cmocka_unit_test(test_met_while_decoding),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
