// Binding: a checkpoint that lacks, renames, misshapes or adds a tensor is refused while it is loaded, by the tensor's name.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "model/bind.h"
#include "tests/support/eval.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

static tiny_tensor *tensor_named(tiny_model *m, const char *name) {
    for (int i = 0; i < m->n_tensors; i++) {
        if (strcmp(m->tensors[i].name, name) == 0) return &m->tensors[i];
    }
    fail_msg("%s has no tensor %s", m->name, name);
    return NULL;
}

static void remove_tensor(tiny_model *m, const char *name) {
    tiny_tensor *t = tensor_named(m, name);
    *t = m->tensors[--m->n_tensors];
}

static void add_tensor(tiny_model *m, const char *name, int64_t n, int64_t k) {
    m->tensors = realloc(m->tensors, (size_t)(m->n_tensors + 1) * sizeof *m->tensors);
    assert_non_null(m->tensors);
    tiny_tensor t = {.n_dims = k ? 2 : 1, .dim = {n, k}, .scale = 0.25f};
    snprintf(t.name, sizeof t.name, "%s", name);
    m->tensors[m->n_tensors++] = t;
}

// `reason`: what the sentence says behind the checkpoint's path.
static void refuse_folder(const char *path, tally_status code, const char *reason) {
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s: %s", path, reason);
    tally_model *m;
    tally_engine *e;
    tally_error err;
    if (tally_model_open(&m, path, &err)) fail_msg("%s", err.text);
    tally_status got = tally_engine_open(&e, m, &(tally_engine_options){.threads = 1, .context = 64}, &err);
    assert_null(e);
    assert_string_equal(err.text, sentence);
    assert_int_equal(got, code);
    char *json;
    assert_int_equal(tally_inspect(m, &(tally_engine_options){.threads = 1, .context = 64}, &json, &err),
                     code); // no crash, the same words
    assert_string_equal(err.text, sentence);
    tally_model_close(m);
}

static void refuse(tiny_model *m, tally_status code, const char *sentence) {
    temp_folder folder = temp_folder_make();
    tiny_model_write_folder(m, folder.path, DTYPE_F32, 2);
    refuse_folder(folder.path, code, sentence);
    temp_folder_remove(&folder);
    tiny_model_free(m);
}

static void test_missing(void **state) {
    (void)state;
    tiny_model m = tiny_model_read("qwen3-gqa4");
    remove_tensor(&m, "model.layers.1.self_attn.k_norm.weight");
    refuse(&m, TALLY_BAD_FILE,
           "tensor 'model.layers.1.self_attn.k_norm.weight' (shape [32]) is missing: the checkpoint is incomplete, or "
           "not a qwen3 model");
    m = tiny_model_read("llama-gqa4");
    remove_tensor(&m, "model.norm.weight");
    refuse(&m, TALLY_BAD_FILE,
           "tensor 'model.norm.weight' (shape [64]) is missing: the checkpoint is incomplete, or not a llama model");
    m = tiny_model_read("qwen2-untied");
    remove_tensor(&m, "model.layers.0.self_attn.v_proj.bias");
    refuse(&m, TALLY_BAD_FILE,
           "tensor 'model.layers.0.self_attn.v_proj.bias' (shape [32]) is missing: the checkpoint is incomplete, or "
           "not a qwen2 model");
}

static void test_renamed_expert(void **state) {
    (void)state;
    tiny_model m = tiny_model_read("qwen3moe-e8k2-norm");
    strcpy(tensor_named(&m, "model.layers.1.mlp.experts.5.up_proj.weight")->name,
           "model.layers.1.mlp.experts.5.upp_proj.weight");
    refuse(&m, TALLY_BAD_FILE,
           "tensor 'model.layers.1.mlp.experts.5.up_proj.weight' (shape [40, 64]) is missing: the checkpoint is "
           "incomplete, or not a qwen3_moe model");
    m = tiny_model_read("qwen3moe-e8k2-norm");
    remove_tensor(&m, "model.layers.0.mlp.gate.weight");
    refuse(&m, TALLY_BAD_FILE,
           "tensor 'model.layers.0.mlp.gate.weight' (shape [8, 64]) is missing: the checkpoint is incomplete, or not a "
           "qwen3_moe model");
}

static void test_shapes(void **state) {
    (void)state;
    tiny_model m = tiny_model_read("llama-gqa4");
    tensor_named(&m, "model.layers.0.mlp.down_proj.weight")->dim[1] += 8;
    char want[300];
    tiny_tensor *t = tensor_named(&m, "model.layers.0.mlp.down_proj.weight");
    snprintf(want, sizeof want, "tensor '%s' has shape [%d, %d], expected [%d, %d] by the configuration", t->name,
             (int)t->dim[0], (int)t->dim[1], (int)t->dim[0], (int)t->dim[1] - 8);
    refuse(&m, TALLY_BAD_FILE, want);
    m = tiny_model_read("llama-gqa4");
    t = tensor_named(&m, "model.embed_tokens.weight");
    *t = (tiny_tensor){.n_dims = 2, .dim = {t->dim[1], t->dim[0]}, .scale = 1};
    strcpy(t->name, "model.embed_tokens.weight");
    snprintf(want, sizeof want, "tensor '%s' has shape [%d, %d], expected [%d, %d] by the configuration", t->name,
             (int)t->dim[0], (int)t->dim[1], (int)t->dim[1], (int)t->dim[0]);
    refuse(&m, TALLY_BAD_FILE, want);
    m = tiny_model_read("qwen3moe-e8k2-norm"); // one expert unlike the others
    tensor_named(&m, "model.layers.0.mlp.experts.7.gate_proj.weight")->dim[0] = 48;
    refuse(&m, TALLY_BAD_FILE,
           "tensor 'model.layers.0.mlp.experts.7.gate_proj.weight' has shape [48, 64], expected [40, 64] by the "
           "configuration");
}

static void test_surplus(void **state) {
    (void)state;
    tiny_model m = tiny_model_read("qwen3-gqa4");
    add_tensor(&m, "model.layers.0.self_attn.q_proj.bias", 128, 0);
    refuse(&m, TALLY_UNSUPPORTED,
           "tensor 'model.layers.0.self_attn.q_proj.bias' has no place in a qwen3 model with this configuration");
    m = tiny_model_read("llama-gqa4");
    add_tensor(&m, "model.layers.1.self_attn.sinks", 4, 0);
    refuse(&m, TALLY_UNSUPPORTED,
           "tensor 'model.layers.1.self_attn.sinks' has no place in a llama model with this configuration");
    m = tiny_model_read("llama-gqa4");
    add_tensor(&m, "model.layers.3.input_layernorm.weight", 64, 0);
    refuse(&m, TALLY_BAD_FILE,
           "tensor 'model.layers.3.input_layernorm.weight' belongs to layer 3, but the configuration says 3 layers");
    m = tiny_model_read("llama-gqa4"); // a buffer of old checkpoints is allowed
    add_tensor(&m, "model.layers.0.self_attn.rotary_emb.inv_freq", 8, 0);
    temp_folder folder = temp_folder_make();
    tiny_model_write_folder(&m, folder.path, DTYPE_F32, 1);
    test_engine e = test_engine_open(folder.path, NULL);
    test_engine_close(&e);
    temp_folder_remove(&folder);
    tiny_model_free(&m);
}

static void test_mixed_experts(void **state) {
    (void)state;
    static const char odd[] = "model.layers.1.mlp.experts.3.down_proj.weight";
    temp_folder folder = temp_folder_make(), other = temp_folder_make();
    tiny_model all = tiny_model_read("qwen3moe-e8k2-norm"), one = tiny_model_read("qwen3moe-e8k2-norm");
    one.tensors[0] = *tensor_named(&one, odd);
    one.n_tensors = 1;
    remove_tensor(&all, odd);
    tiny_model_write_folder(&all, folder.path, DTYPE_BF16, 1);
    tiny_model_write_folder(&one, other.path, DTYPE_F32, 1);
    char from[300], to[300];
    snprintf(from, sizeof from, "%s/model.safetensors", other.path);
    snprintf(to, sizeof to, "%s/odd.safetensors", folder.path);
    assert_int_equal(rename(from, to), 0);
    snprintf(from, sizeof from, "%s/model.safetensors", folder.path); // that name would stand for a model in one file
    snprintf(to, sizeof to, "%s/others.safetensors", folder.path);
    assert_int_equal(rename(from, to), 0);
    json_t *map = json_object();
    for (int i = 0; i < all.n_tensors; i++)
        json_object_set_new(map, all.tensors[i].name, json_string("others.safetensors"));
    json_object_set_new(map, odd, json_string("odd.safetensors"));
    json_t *index = json_pack("{s:{}, s:o}", "metadata", "weight_map", map);
    char *text = json_dumps(index, 0);
    temp_folder_write_text(&folder, "model.safetensors.index.json", text);
    free(text);
    json_decref(index);
    refuse_folder(folder.path, TALLY_UNSUPPORTED,
                  "tensor 'model.layers.1.mlp.experts.3.down_proj.weight' is F32 but expert 0 of the same layer is "
                  "BF16: experts of one layer must "
                  "share a type");
    tiny_model_free(&all);
    tiny_model_free(&one);
    temp_folder_remove(&folder);
    temp_folder_remove(&other);
}

// ---- heads ---------------------------------------------------------------------------------------------------------------

// flag: -1 absent. The head of the file counts unless the file says "tied"; without one the embedding is the head.
static void check_head(bool present, int flag, bool tied) {
    tiny_model m = tiny_model_read("qwen3-gqa4");
    if (!present) remove_tensor(&m, "lm_head.weight");
    temp_folder folder = temp_folder_make();
    tiny_model_write_folder(&m, folder.path, DTYPE_F32, 1);
    if (flag < 0)
        json_object_del(m.config, "tie_word_embeddings");
    else
        json_object_set_new(m.config, "tie_word_embeddings", json_boolean(flag));
    char *text = json_dumps(m.config, 0);
    temp_folder_write_text(&folder, "config.json", text);
    free(text);
    test_engine e = test_engine_open(folder.path, NULL);
    const model *built = &e.engine->plan.model;
    const op *head = &built->list.ops[built->list.n_ops - 1];
    assert_int_equal(built->config.tied_head, tied);
    assert_string_equal(built->weights.w[head->in[1].id].label, tied ? "token_embd" : "output");
    test_engine_close(&e);
    temp_folder_remove(&folder);
    tiny_model_free(&m);
}

static void test_heads(void **state) {
    (void)state;
    check_head(true, 0, false);
    check_head(true, -1, false);
    check_head(true, 1, true);
    check_head(false, 0, true);
    check_head(false, -1, true);
    check_head(false, 1, true);
}

// Stop ids of generation_config.json and config.json are one set, and each of them ends a generation.
static void test_stop_ids_of_a_folder(void **state) {
    (void)state;
    tiny_model m = tiny_model_read("llama-gqa4");
    temp_folder folder = temp_folder_make();
    tiny_model_write_folder(&m, folder.path, DTYPE_F32, 1);
    for (int at = 0; at < 6; at++) {
        int first = at; // the first place of that token in the answer
        for (int i = at - 1; i >= 0; i--) first = m.greedy[i] == m.greedy[at] ? i : first;
        for (int where = 0; where < 3; where++) {
            int unused = m.n_vocab - 1, other = m.n_vocab - 2;
            for (int i = 0; i < 6; i++)
                unused -= m.greedy[i] == unused, other -= m.greedy[i] == other; // good enough: 190, 191 are rare
            char text[100];
            snprintf(text, sizeof text, "{\"eos_token_id\": [%d, %d]}", where == 0 ? m.greedy[at] : unused,
                     where == 1 ? m.greedy[at] : other);
            temp_folder_write_text(&folder, "generation_config.json", text);
            json_object_set_new(m.config, "eos_token_id", json_integer(where == 2 ? m.greedy[at] : unused));
            char *config = json_dumps(m.config, 0);
            temp_folder_write_text(&folder, "config.json", config);
            free(config);
            test_engine e = test_engine_open(folder.path, NULL);
            tally_generation *g;
            tally_error err;
            tally_request r = {.ids = m.ids, .n_ids = m.n_ids, .max_tokens = 6};
            assert_int_equal(tally_generate(e.engine, &r, &g, &err), 0);
            while (!tally_generation_done(g)) assert_int_equal(tally_engine_step(e.engine, NULL, &err), 0);
            int n;
            tally_generation_ids(g, &n);
            assert_string_equal(tally_generation_finish_reason(g), "stop");
            assert_int_equal(n, first);
            tally_generation_close(g);
            test_engine_close(&e);
        }
    }
    temp_folder_remove(&folder);
    tiny_model_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_renamed_expert),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_surplus),
        cmocka_unit_test(test_mixed_experts),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_stop_ids_of_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
