// config.json: all spellings, defaults, and what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "file/hf.h"

// A complete configuration of each family, as transformers writes it.
#define COMMON \
    "\"attention_dropout\":0.0,\"bos_token_id\":null,\"eos_token_id\":null,\"pad_token_id\":null," \
    "\"hidden_act\":\"silu\",\"hidden_size\":64,\"initializer_range\":0.02,\"intermediate_size\":48," \
    "\"max_position_embeddings\":256,\"num_attention_heads\":4,\"num_hidden_layers\":2,\"num_key_value_heads\":2," \
    "\"rms_norm_eps\":1e-05,\"rope_parameters\":{\"rope_theta\":50000.0,\"rope_type\":\"default\"}," \
    "\"tie_word_embeddings\":false,\"transformers_version\":\"5.24.0\",\"use_cache\":true,\"vocab_size\":100"

#define QWEN \
    ",\"layer_types\":[\"full_attention\",\"full_attention\"],\"sliding_window\":null,\"use_sliding_window\":false," \
    "\"max_window_layers\":28"

static const char llama[] = "{\"model_type\":\"llama\",\"attention_bias\":false,\"mlp_bias\":false,\"head_dim\":16,"
                            "\"architectures\":[\"LlamaForCausalLM\"],\"pretraining_tp\":1," COMMON "}";
static const char qwen2[] = "{\"model_type\":\"qwen2\"," COMMON QWEN "}";
static const char qwen3[] = "{\"model_type\":\"qwen3\",\"attention_bias\":false,\"head_dim\":32," COMMON QWEN "}";
static const char qwen3_moe[] = "{\"model_type\":\"qwen3_moe\",\"attention_bias\":false,\"head_dim\":16,"
                                "\"num_local_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":24,"
                                "\"decoder_sparse_step\":1,\"mlp_only_layers\":[],\"norm_topk_prob\":false,"
                                "\"output_router_logits\":false,\"router_aux_loss_coef\":0.001," COMMON "}";

// `base` with the fields of `patch` (a JSON object) put over it; a field whose value is the text "DELETE" is taken out.
static status read_patched(const char *base, const char *patch, const char *generation, model_config *c, error *err) {
    json_t *root = json_loads(base, 0, NULL), *changes = json_loads(patch, 0, NULL);
    assert_non_null(root);
    assert_non_null(changes);
    const char *key;
    json_t *v;
    json_object_foreach(changes, key, v) {
        const char *text = json_string_value(v);
        if (text && strcmp(text, "DELETE") == 0)
            json_object_del(root, key);
        else
            json_object_set(root, key, v);
    }
    char *text = json_dumps(root, 0);
    hf_text config = {text, strlen(text), "config.json"};
    hf_text gen = {generation, generation ? strlen(generation) : 0, "generation_config.json"};
    status code = hf_read_config(c, &config, generation ? &gen : NULL, err);
    free(text);
    json_decref(root);
    json_decref(changes);
    return code;
}

static model_config accept(const char *base, const char *patch, const char *generation) {
    model_config c;
    error err = {0};
    if (read_patched(base, patch, generation, &c, &err) != STATUS_OK) fail_msg("%s: %s", patch, err.text);
    return c;
}

static void refuse(const char *base, const char *patch, status want, const char *part) {
    static model_config c;
    error err = {0};
    status code = read_patched(base, patch, NULL, &c, &err);
    if (code != want || !strstr(err.text, part))
        fail_msg("%s: status %d: \"%s\", expected %d: \"%s\"", patch, code, err.text, want, part);
}

static void test_families(void **state) {
    (void)state;
    static const char *const bases[] = {llama, qwen2, qwen3, qwen3_moe};
    for (int f = 0; f < 4; f++) {
        model_config c = accept(bases[f], "{}", NULL);
        assert_int_equal(c.family, f);
        assert_true(c.n_vocab == 100 && c.dim == 64 && c.n_layers == 2 && c.n_heads == 4 && c.n_kv_heads == 2);
        assert_true(c.head_dim == (f == 2 ? 32 : 16) && c.rope.dim == c.head_dim && !c.rope.interleaved);
        assert_true(c.ffn_dim == 48 && c.context_length == 256 && c.rms_eps == 1e-5f && c.rope.theta == 50000);
        assert_true(c.qkv_bias == (f == 1) && !c.attn_out_bias && !c.mlp_bias && c.qk_norm == (f >= 2));
        assert_true(!c.tied_head && c.tied_head_given && c.n_stop_ids == 0 && c.bos_id == -1);
        assert_true(c.rope.scaling == ROPE_DEFAULT && c.rope.factor == 1 && c.rope.attention_factor == 1);
        assert_int_equal(c.n_experts, f == 3 ? 8 : 0);
    }
}

static void test_sizes(void **state) {
    (void)state;
    assert_int_equal(accept(llama, "{\"num_key_value_heads\":null}", NULL).n_kv_heads, 4);
    assert_int_equal(accept(llama, "{\"num_key_value_heads\":\"DELETE\"}", NULL).n_kv_heads, 4);
    assert_int_equal(accept(llama, "{\"head_dim\":null}", NULL).head_dim, 16);
    assert_int_equal(accept(qwen2, "{\"head_dim\":20}", NULL).head_dim, 20);
    assert_int_equal(accept(qwen3, "{\"head_dim\":\"DELETE\"}", NULL).head_dim, 128); // that class's default
    assert_int_equal(accept(qwen3_moe, "{\"head_dim\":\"DELETE\"}", NULL).head_dim, 16);
    assert_int_equal(accept(llama, "{\"hidden_size\":64.0}", NULL).dim, 64);
    assert_true(accept(llama, "{\"rms_norm_eps\":\"DELETE\"}", NULL).rms_eps == 1e-6f);
    assert_false(accept(llama, "{\"tie_word_embeddings\":\"DELETE\"}", NULL).tied_head_given);
    assert_true(accept(llama, "{\"tie_word_embeddings\":true}", NULL).tied_head);
    model_config c = accept(llama, "{\"attention_bias\":true,\"mlp_bias\":true}", NULL);
    assert_true(c.qkv_bias && c.attn_out_bias && c.mlp_bias);
    refuse(llama, "{\"hidden_size\":66,\"head_dim\":null}", STATUS_BAD_FILE,
           "hidden_size 66 is no multiple of num_attention_heads 4");
    refuse(llama, "{\"num_key_value_heads\":3}", STATUS_BAD_FILE, "4 attention heads are no multiple of 3");
    refuse(qwen2, "{\"num_key_value_heads\":\"DELETE\"}", STATUS_BAD_FILE, "num_key_value_heads is missing");
    refuse(llama, "{\"hidden_size\":\"DELETE\"}", STATUS_BAD_FILE, "config.json: hidden_size is missing");
    refuse(llama, "{\"hidden_size\":0}", STATUS_BAD_FILE, "hidden_size is 0, expected 1 to");
    refuse(llama, "{\"hidden_size\":-64}", STATUS_BAD_FILE, "hidden_size is -64");
    refuse(llama, "{\"hidden_size\":\"64\"}", STATUS_BAD_FILE, "hidden_size is a string, expected an integer");
    refuse(llama, "{\"hidden_size\":64.5}", STATUS_BAD_FILE, "hidden_size is a number, expected an integer");
    refuse(llama, "{\"hidden_size\":1e300}", STATUS_BAD_FILE, "hidden_size is a number, expected an integer");
    refuse(llama, "{\"num_hidden_layers\":1025}", STATUS_BAD_FILE, "num_hidden_layers is 1025, expected 1 to 1024");
    refuse(llama, "{\"vocab_size\":2147483648}", STATUS_BAD_FILE, "vocab_size is 2147483648");
    refuse(llama, "{\"num_attention_heads\":4294967295}", STATUS_BAD_FILE, "num_attention_heads is 4294967295");
    refuse(llama, "{\"num_attention_heads\":65536,\"num_key_value_heads\":1,\"head_dim\":1024}", STATUS_BAD_FILE,
           "65536 attention heads of 1024 dimensions");
    refuse(llama, "{\"head_dim\":15}", STATUS_BAD_FILE, "15 dimensions of a head of 15");
    refuse(llama, "{\"rms_norm_eps\":-1}", STATUS_BAD_FILE, "the epsilon of the norms is -1");
    refuse(llama, "{\"tie_word_embeddings\":1}", STATUS_BAD_FILE,
           "tie_word_embeddings is an integer, expected true or false");
}

static void test_rope_spellings(void **state) {
    (void)state;
    model_config c =
        accept(qwen2, "{\"rope_parameters\":\"DELETE\",\"rope_theta\":1000000.0,\"rope_scaling\":null}", NULL);
    assert_true(c.rope.theta == 1000000 && c.rope.scaling == ROPE_DEFAULT);
    c = accept(qwen2,
               "{\"rope_parameters\":null,\"rope_theta\":1000000,\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}",
               NULL);
    assert_true(c.rope.theta == 1000000 && c.rope.scaling == ROPE_LINEAR && c.rope.factor == 2);
    // a rope_scaling replaces rope_parameters as a whole; what it does not say comes from the top level
    c = accept(qwen2, "{\"rope_theta\":7000,\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":4}}", NULL);
    assert_true(c.rope.theta == 7000 && c.rope.scaling == ROPE_LINEAR);
    // the chosen object's own keys win over the top level
    c = accept(qwen2, "{\"rope_theta\":7000,\"rope_scaling\":{}}", NULL);
    assert_true(c.rope.theta == 50000);
    c = accept(qwen2, "{\"rope_parameters\":{\"full_attention\":{\"rope_theta\":9000,\"rope_type\":\"default\"}}}",
               NULL);
    assert_true(c.rope.theta == 9000);
    // both names of the type: rope_type wins
    c = accept(qwen2,
               "{\"rope_parameters\":{\"rope_theta\":9000,\"rope_type\":\"linear\",\"type\":\"yarn\",\"factor\":3}}",
               NULL);
    assert_true(c.rope.scaling == ROPE_LINEAR);
    c = accept(llama, "{\"rope_parameters\":\"DELETE\"}", NULL);
    assert_true(c.rope.theta == 10000);
    refuse(qwen2, "{\"rope_parameters\":\"DELETE\"}", STATUS_BAD_FILE, "rope_theta is missing");
    refuse(qwen3, "{\"rope_parameters\":{\"rope_type\":\"default\"}}", STATUS_BAD_FILE, "rope_theta is missing");
    refuse(qwen3_moe, "{\"rope_parameters\":{\"rope_type\":\"default\"}}", STATUS_BAD_FILE, "rope_theta is missing");
    refuse(qwen2, "{\"rope_scaling\":\"linear\"}", STATUS_BAD_FILE, "rope_scaling is a string, expected an object");
    refuse(qwen2, "{\"rope_parameters\":{\"rope_theta\":-1}}", STATUS_BAD_FILE,
           "the base of the rotary frequencies is -1");
    refuse(qwen2, "{\"rope_parameters\":{\"rope_theta\":1e4,\"rope_type\":\"dynamic\",\"factor\":2}}",
           STATUS_UNSUPPORTED, "rope_parameters.rope_type is \"dynamic\"");
    refuse(qwen2, "{\"rope_theta\":1e4,\"rope_scaling\":{\"type\":\"longrope\"}}", STATUS_UNSUPPORTED,
           "rope_type is \"longrope\"");
    refuse(qwen2, "{\"rope_theta\":1e4,\"rope_scaling\":{\"type\":\"linear\"}}", STATUS_BAD_FILE,
           "rope_scaling.factor is missing");
    refuse(qwen2, "{\"rope_theta\":1e4,\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}}", STATUS_BAD_FILE,
           "scaling factor is 0");
    refuse(qwen2, "{\"partial_rotary_factor\":0.5}", STATUS_UNSUPPORTED, "partial_rotary_factor is 0.5");
    refuse(qwen2, "{\"rope_parameters\":{\"rope_theta\":1e4,\"partial_rotary_factor\":0.25}}", STATUS_UNSUPPORTED,
           "partial_rotary_factor is 0.25");
}

static void test_llama3(void **state) {
    (void)state;
    model_config c =
        accept(llama,
               "{\"rope_parameters\":\"DELETE\",\"rope_theta\":500000.0,\"rope_scaling\":{\"factor\":8.0,"
               "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192,"
               "\"rope_type\":\"llama3\"}}",
               NULL);
    assert_true(c.rope.scaling == ROPE_LLAMA3 && c.rope.factor == 8 && c.rope.low_freq_factor == 1 &&
                c.rope.high_freq_factor == 4);
    assert_true(c.rope.original_context == 8192 && c.rope.theta == 500000);
    static const char *const fields[] = {"factor", "low_freq_factor", "high_freq_factor",
                                         "original_max_position_embeddings"};
    for (int i = 0; i < 4; i++) { // each left out
        char patch[400], part[80];
        int n = snprintf(patch, sizeof patch, "{\"rope_scaling\":{\"rope_type\":\"llama3\"");
        for (int k = 0; k < 4; k++) {
            if (k != i) n += snprintf(patch + n, sizeof patch - (size_t)n, ",\"%s\":%d", fields[k], 2 + k);
        }
        snprintf(patch + n, sizeof patch - (size_t)n, "}}");
        snprintf(part, sizeof part, "rope_scaling.%s is missing", fields[i]);
        refuse(llama, patch, STATUS_BAD_FILE, part);
    }
    refuse(llama,
           "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4,"
           "\"original_max_position_embeddings\":64}}",
           STATUS_BAD_FILE, "low_freq_factor 4 and high_freq_factor 4");
}

#define YARN(rest) "{\"rope_theta\":1e6,\"rope_scaling\":{\"type\":\"yarn\"" rest "}}"

static void test_yarn(void **state) {
    (void)state;
    model_config c = accept(qwen2, YARN(",\"factor\":4.0,\"original_max_position_embeddings\":64"), NULL);
    assert_true(c.rope.scaling == ROPE_YARN && c.rope.factor == 4 && c.rope.original_context == 64 && c.rope.truncate);
    assert_true(c.rope.beta_fast == 32 && c.rope.beta_slow == 1);
    assert_true(fabs(c.rope.attention_factor - (0.1 * log(4) + 1)) < 1e-15);
    c = accept(qwen2, YARN(",\"factor\":null,\"original_max_position_embeddings\":64"), NULL);
    assert_true(c.rope.factor == 4); // 256 / 64
    assert_int_equal(c.context_length, 256);
    c = accept(qwen2, YARN(",\"factor\":4"), NULL);
    assert_true(c.rope.original_context == 256 && c.context_length == 256);
    // Qwen's recipe: max_position_embeddings stays what the model was trained with
    c = accept(qwen2, YARN(",\"factor\":4,\"original_max_position_embeddings\":256"), NULL);
    assert_true(c.context_length == 1024 && c.rope.original_context == 256);
    c = accept(qwen2, YARN(",\"factor\":1e8,\"original_max_position_embeddings\":256"), NULL);
    assert_int_equal(c.context_length, INT32_MAX / 2);
    c = accept(qwen2, YARN(",\"factor\":4,\"attention_factor\":1.5,\"mscale\":2,\"mscale_all_dim\":1"), NULL);
    assert_true(c.rope.attention_factor == 1.5);
    c = accept(qwen2, YARN(",\"factor\":4,\"mscale\":2,\"mscale_all_dim\":1"), NULL);
    assert_true(fabs(c.rope.attention_factor - (0.2 * log(4) + 1) / (0.1 * log(4) + 1)) < 1e-15);
    c = accept(qwen2, YARN(",\"factor\":4,\"mscale\":2,\"mscale_all_dim\":0"), NULL);
    assert_true(fabs(c.rope.attention_factor - (0.1 * log(4) + 1)) < 1e-15);
    c = accept(qwen2, YARN(",\"factor\":1,\"attn_factor\":9"), NULL); // transformers does not read attn_factor
    assert_true(c.rope.attention_factor == 1);
    c = accept(qwen2, YARN(",\"factor\":4,\"beta_fast\":null,\"beta_slow\":0,\"truncate\":false"), NULL);
    assert_true(c.rope.beta_fast == 32 && c.rope.beta_slow == 1 && !c.rope.truncate);
    c = accept(qwen2, YARN(",\"factor\":4,\"beta_fast\":16,\"beta_slow\":2"), NULL);
    assert_true(c.rope.beta_fast == 16 && c.rope.beta_slow == 2);
    refuse(qwen2, YARN(",\"factor\":4,\"beta_fast\":1,\"beta_slow\":2"), STATUS_BAD_FILE,
           "beta_fast 1 and beta_slow 2");
    refuse(qwen2, YARN(",\"factor\":4,\"original_max_position_embeddings\":0"), STATUS_BAD_FILE, "original context");
    refuse(qwen2, YARN(",\"factor\":4,\"attention_factor\":-1"), STATUS_BAD_FILE, "attention factor is -1");
    refuse(qwen2, YARN(",\"factor\":\"4\""), STATUS_BAD_FILE, "rope_scaling: factor is a string");
}

static void test_experts(void **state) {
    (void)state;
    model_config c =
        accept(qwen3_moe, "{\"num_local_experts\":\"DELETE\",\"num_experts\":8,\"norm_topk_prob\":true}", NULL);
    assert_true(c.n_experts == 8 && c.n_experts_used == 2 && c.expert_ffn_dim == 24 && c.norm_topk_prob);
    assert_false(accept(qwen3_moe, "{\"norm_topk_prob\":\"DELETE\"}", NULL).norm_topk_prob);
    c = accept(qwen3_moe, "{\"num_hidden_layers\":6,\"decoder_sparse_step\":2,\"mlp_only_layers\":[3]}", NULL);
    const bool moe[] = {false, true, false, false, false, true};
    for (int i = 0; i < 6; i++) assert_int_equal(c.layer_is_moe[i], moe[i]);
    c = accept(qwen3_moe, "{\"intermediate_size\":\"DELETE\"}", NULL);
    assert_int_equal(c.ffn_dim, 0);
    c = accept(qwen3_moe, "{\"decoder_sparse_step\":\"DELETE\",\"mlp_only_layers\":\"DELETE\"}", NULL);
    assert_true(c.layer_is_moe[0] && c.layer_is_moe[1]);
    c = accept(qwen3_moe, "{\"num_local_experts\":0}", NULL);
    assert_true(!c.layer_is_moe[0] && c.n_experts == 0 && c.n_experts_used == 0);
    accept(qwen3_moe, "{\"use_qk_norm\":true,\"qkv_bias\":false,\"shared_expert_intermediate_size\":0}", NULL);
    refuse(qwen3_moe, "{\"intermediate_size\":\"DELETE\",\"mlp_only_layers\":[0]}", STATUS_BAD_FILE,
           "layer 0 has a dense MLP, but its width");
    refuse(qwen3_moe, "{\"num_local_experts\":\"DELETE\"}", STATUS_BAD_FILE, "num_experts is missing");
    refuse(qwen3_moe, "{\"num_experts\":4}", STATUS_BAD_FILE, "num_experts is 4 but num_local_experts is 8");
    refuse(qwen3_moe, "{\"num_experts_per_tok\":9}", STATUS_BAD_FILE, "9 of 8 experts");
    refuse(qwen3_moe, "{\"num_experts_per_tok\":9,\"mlp_only_layers\":[0,1]}", STATUS_BAD_FILE, "9 of 8 experts");
    refuse(qwen3_moe, "{\"num_experts_per_tok\":0}", STATUS_BAD_FILE, "num_experts_per_tok is 0");
    refuse(qwen3_moe, "{\"decoder_sparse_step\":0}", STATUS_BAD_FILE, "decoder_sparse_step is 0");
    refuse(qwen3_moe, "{\"mlp_only_layers\":[2]}", STATUS_BAD_FILE, "mlp_only_layers[0] is no layer of 0 to 1");
    refuse(qwen3_moe, "{\"mlp_only_layers\":3}", STATUS_BAD_FILE, "mlp_only_layers is an integer, expected an array");
    refuse(qwen3_moe, "{\"num_local_experts\":4294967295}", STATUS_BAD_FILE, "num_local_experts is 4294967295");
}

static void test_refused_fields(void **state) {
    (void)state;
    static const char *const patches[] = {
        "{\"hidden_act\":\"gelu\"}",
        "{\"use_sliding_window\":true}",
        "{\"quantization_config\":{\"quant_method\":\"fp8\"}}",
        "{\"attn_logit_softcapping\":50.0}",
        "{\"logits_scaling\":8.0}",
        "{\"embedding_multiplier\":12}",
        "{\"residual_multiplier\":0.22}",
        "{\"attention_multiplier\":0.0078125}",
        "{\"query_pre_attn_scalar\":256}",
        "{\"shared_expert_intermediate_size\":512}",
        "{\"num_shared_experts\":1}",
        "{\"n_group\":8}",
        "{\"mlp_type\":\"relu2\"}",
        "{\"scoring_func\":\"sigmoid\"}",
        "{\"no_rope_layers\":[1,0]}",
        "{\"text_config\":{\"hidden_size\":1}}",
        "{\"qkv_bias\":true}",
        "{\"attention_chunk_size\":8192}",
        "{\"num_local_experts\":8}",
        "{\"is_causal\":false}",
        "{\"dual_chunk_attention_config\":{\"chunk_size\":64}}",
    };
    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
        char field[64];
        sscanf(patches[i], "{\"%63[^\"]", field);
        refuse(qwen3, patches[i], STATUS_UNSUPPORTED, field);
    }
    accept(qwen3, "{\"is_causal\":true}", NULL);
    model_config c = accept(
        qwen2, "{\"dual_chunk_attention_config\":{\"chunk_size\":64,\"original_max_position_embeddings\":96}}", NULL);
    assert_int_equal(c.context_length, 96);
    c = accept(qwen2,
               YARN(",\"factor\":4,\"original_max_position_embeddings\":256},"
                    "\"dual_chunk_attention_config\":{\"original_max_position_embeddings\":128"),
               NULL);
    assert_int_equal(c.context_length, 128); // yarn does not lift it
    refuse(llama, "{\"use_qk_norm\":true}", STATUS_UNSUPPORTED, "use_qk_norm is true");
    refuse(qwen3, "{\"mlp_bias\":true}", STATUS_UNSUPPORTED, "mlp_bias is true");
    refuse(qwen2, "{\"layer_types\":[\"full_attention\",\"sliding_attention\"]}", STATUS_UNSUPPORTED,
           "layer_types[1] is \"sliding_attention\"");
    refuse(qwen2, "{\"layer_types\":[\"full_attention\"]}", STATUS_BAD_FILE,
           "layer_types has 1 entries, num_hidden_layers is 2");
    refuse(qwen2, "{\"model_type\":\"mistral\"}", STATUS_UNSUPPORTED,
           "model_type \"mistral\" is not supported; tally runs llama, qwen2, qwen3 and qwen3_moe");
    refuse(qwen2, "{\"model_type\":\"DELETE\"}", STATUS_BAD_FILE, "model_type is missing");
    refuse(qwen2, "{\"architectures\":[\"Qwen2ForSequenceClassification\"]}", STATUS_UNSUPPORTED,
           "Qwen2ForSequenceClassification");
}

static void test_inert_fields(void **state) {
    (void)state;
    accept(qwen2,
           "{\"sliding_window\":131072,\"max_window_layers\":21,\"use_mrope\":false,\"torch_dtype\":\"bfloat16\","
           "\"hidden_act\":\"swish\",\"_name_or_path\":\"x\",\"id2label\":{\"0\":\"a\"},\"auto_map\":{\"a\":\"b\"},"
           "\"quantization_config\":null,\"logits_scaling\":1.0,\"residual_multiplier\":1,\"num_shared_experts\":0,"
           "\"anything\":17,\"architectures\":[\"Qwen2ForCausalLM\"],\"no_rope_layers\":[],\"hidden_act\":null}",
           NULL);
    accept(llama, "{\"pretraining_tp\":2,\"sliding_window\":4096}", NULL);
}

static void test_ids_and_sampling(void **state) {
    (void)state;
    model_config c =
        accept(qwen2, "{\"eos_token_id\":45,\"bos_token_id\":43}",
               "{\"eos_token_id\":[45,43],\"bos_token_id\":46,\"do_sample\":true,\"temperature\":0.7,\"top_k\":20,"
               "\"top_p\":0.8,\"repetition_penalty\":1.05,\"pad_token_id\":43}");
    assert_true(c.n_stop_ids == 2 && c.stop_ids[0] == 45 && c.stop_ids[1] == 43 && c.bos_id == 43);
    const sampling_defaults *s = &c.sampling;
    assert_true(s->do_sample && s->has_temperature && s->temperature == 0.7f && s->has_top_k && s->top_k == 20);
    assert_true(s->has_top_p && s->top_p == 0.8f && s->has_repetition_penalty && s->repetition_penalty == 1.05f &&
                !s->has_min_p);
    c = accept(qwen2, "{\"eos_token_id\":[1,2,1,-1,100]}", "{\"bos_token_id\":7,\"top_k\":null}");
    assert_true(c.n_stop_ids == 2 && c.bos_id == 7 && !c.sampling.has_top_k && !c.sampling.do_sample);
    c = accept(qwen2, "{}", "{\"top_k\":-1}"); // off, as vLLM writes it
    assert_true(!c.sampling.has_top_k && c.sampling.top_k == 0);
    refuse(qwen2, "{\"eos_token_id\":\"x\"}", STATUS_BAD_FILE, "eos_token_id is a string");
    refuse(qwen2, "{\"eos_token_id\":[\"x\"]}", STATUS_BAD_FILE, "eos_token_id is a list with something else");
    refuse(qwen2, "{\"bos_token_id\":[1]}", STATUS_BAD_FILE, "bos_token_id is an array");
    static model_config out;
    error err = {0};
    assert_int_equal(read_patched(qwen2, "{}", "{\"temperature\":\"hot\"}", &out, &err), STATUS_BAD_FILE);
    assert_non_null(strstr(err.text, "generation_config.json: temperature is a string"));
    assert_int_equal(read_patched(qwen2, "{}", "nonsense", &out, &err), STATUS_BAD_FILE);
    char many[1024] = "{\"eos_token_id\":[0";
    for (int i = 1; i < 40; i++) snprintf(many + strlen(many), sizeof many - strlen(many), ",%d", i);
    strcat(many, "]}");
    refuse(qwen2, many, STATUS_UNSUPPORTED, "more than 32 ids");
}

static void test_not_json(void **state) {
    (void)state;
    static const char *const texts[] = {
        "", "{", "[]", "null", "{\"model_type\":\"llama\",}", "{\"a\":1,\"a\":2}", "\xff\xfe"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        static model_config c;
        error err = {0};
        hf_text t = {texts[i], strlen(texts[i]), "config.json"};
        assert_int_equal(hf_read_config(&c, &t, NULL, &err), STATUS_BAD_FILE);
        assert_non_null(strstr(err.text, "config.json: "));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_rope_spellings),
        cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_yarn),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_refused_fields),
        cmocka_unit_test(test_inert_fields),
        cmocka_unit_test(test_ids_and_sampling),
        cmocka_unit_test(test_not_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
