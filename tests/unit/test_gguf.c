// GGUF: reading, configuration, and every kind of damaged or hostile file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "file/checkpoint.h"
#include "file/gguf_internal.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_gguf.h"

static temp_folder folder;

static int make_folder(void **state) {
    (void)state;
    folder = temp_folder_make();
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    temp_folder_remove(&folder);
    return 0;
}

static status open_bytes(gguf **g, const void *data, size_t len, error *err) {
    temp_folder_write(&folder, "m.gguf", data, len);
    return gguf_open(g, temp_folder_path(&folder, "m.gguf"), err);
}

static status open_written(gguf **g, const gguf_writer *w, error *err) {
    strbuf f = gguf_writer_finish(w);
    status code = open_bytes(g, f.data, f.len, err);
    strbuf_deinit(&f);
    return code;
}

// The file is refused, with a sentence that holds `part`.
static void expect_refused(const gguf_writer *w, status want, const char *part) {
    gguf *g;
    error err = {0};
    status code = open_written(&g, w, &err);
    if (code != want || !strstr(err.text, part))
        fail_msg("status %d: \"%s\", expected %d: \"%s\"", code, err.text, want, part);
    assert_null(g);
}

static void read_config(const gguf_writer *w, model_config *c) {
    gguf *g;
    error err = {0};
    if (open_written(&g, w, &err) != STATUS_OK) fail_msg("%s", err.text);
    if (gguf_read_config(g, c, &err) != STATUS_OK) fail_msg("%s", err.text);
    gguf_close(g);
}

static void expect_config_refused(const gguf_writer *w, status want, const char *part) {
    gguf *g;
    error err = {0};
    model_config c;
    if (open_written(&g, w, &err) != STATUS_OK) fail_msg("%s", err.text);
    status code = gguf_read_config(g, &c, &err);
    if (code != want || !strstr(err.text, part))
        fail_msg("status %d: \"%s\", expected %d: \"%s\"", code, err.text, want, part);
    gguf_close(g);
}

static void tiny(gguf_writer *w, const char *arch, const char *skip) {
    gguf_writer_init(w);
    tiny_gguf_keys(w, arch, skip);
    tiny_gguf_tensors(w, arch, skip);
}

static void write_all_kinds(gguf_writer *w) {
    gguf_writer_init(w);
    gguf_writer_u8(w, "u8", 200);
    gguf_writer_raw(w, "i8", GGUF_I8, "\xff", 1);
    gguf_writer_u16(w, "u16", 65535);
    gguf_writer_i32(w, "i32", -7);
    gguf_writer_u64(w, "u64", 1ull << 40);
    gguf_writer_u64(w, "huge", UINT64_MAX);
    gguf_writer_f32(w, "f32", 0.5f);
    gguf_writer_f64(w, "f64", 0.25);
    gguf_writer_bool(w, "yes", true);
    gguf_writer_str(w, "text", "h\xc3\xa9llo");
    gguf_writer_str_array(w, "words", (const char *const[]){"one", "", "three"}, 3);
    gguf_writer_str_array(w, "more", (const char *const[]){"four"}, 1);
    gguf_writer_i32_array(w, "ints", (const int32_t[]){1, -2, 3}, 3);
    gguf_writer_f32_array(w, "floats", (const float[]){1.5f, -2.5f}, 2);
    gguf_writer_i32_array(w, "none", NULL, 0);
}

static void test_values(void **state) {
    (void)state;
    gguf_writer w;
    write_all_kinds(&w);
    gguf *g;
    error err = {0};
    assert_int_equal(open_written(&g, &w, &err), STATUS_OK);
    int64_t i = 0, n = 0;
    double d = 0;
    bool found, b = false;
    str s;
    gguf_type elem;
    const struct {
        const char *key;
        int64_t value;
    } ints[] = {{"u8", 200}, {"i8", -1}, {"u16", 65535}, {"i32", -7}, {"u64", 1ll << 40}};
    for (size_t k = 0; k < sizeof ints / sizeof *ints; k++) {
        assert_int_equal(gguf_get_int(g, ints[k].key, &i, &found, &err), STATUS_OK);
        assert_true(found && i == ints[k].value);
        assert_int_equal(gguf_get_float(g, ints[k].key, &d, &found, &err), STATUS_OK);
        assert_true(d == (double)ints[k].value);
    }
    assert_true(gguf_get_float(g, "f32", &d, &found, &err) == STATUS_OK && d == 0.5);
    assert_true(gguf_get_float(g, "f64", &d, &found, &err) == STATUS_OK && d == 0.25);
    assert_true(gguf_get_bool(g, "yes", &b, &found, &err) == STATUS_OK && b);
    assert_true(gguf_get_str(g, "text", &s, &found, &err) == STATUS_OK && str_is(s, "h\xc3\xa9llo"));
    assert_true(gguf_get_array(g, "words", &elem, &n, &found, &err) == STATUS_OK && elem == GGUF_STRING && n == 3);
    assert_true(str_is(gguf_array_str(g, "words", 2), "three") && gguf_array_str(g, "words", 1).len == 0);
    assert_true(str_is(gguf_array_str(g, "more", 0), "four"));
    assert_null(gguf_array_str(g, "words", 3).data);
    assert_true(gguf_array_int(g, "ints", 1) == -2 && gguf_array_float(g, "floats", 1) == -2.5);
    assert_true(gguf_get_array(g, "none", &elem, &n, &found, &err) == STATUS_OK && n == 0);
    assert_true(gguf_has(g, "text") && !gguf_has(g, "tex"));
    assert_true(gguf_get_int(g, "absent", &i, &found, &err) == STATUS_OK && !found);
    // wrong kinds name the key and both types
    assert_int_equal(gguf_get_int(g, "text", &i, &found, &err), STATUS_BAD_FILE);
    assert_non_null(strstr(err.text, "key text is string, expected an integer"));
    assert_int_equal(gguf_get_int(g, "f32", &i, &found, &err), STATUS_BAD_FILE);
    assert_int_equal(gguf_get_int(g, "huge", &i, &found, &err), STATUS_BAD_FILE);
    assert_int_equal(gguf_get_str(g, "words", &s, &found, &err), STATUS_BAD_FILE);
    assert_non_null(strstr(err.text, "an array of string"));
    assert_int_equal(gguf_get_array(g, "u8", &elem, &n, &found, &err), STATUS_BAD_FILE);
    assert_int_equal(gguf_get_bool(g, "u8", &b, &found, &err), STATUS_BAD_FILE);
    gguf_close(g);
    gguf_writer_deinit(&w);
}

static void test_config_of_families(void **state) {
    (void)state;
    static const char *const archs[] = {"llama", "qwen2", "qwen3", "qwen3moe"};
    for (int f = 0; f < 4; f++) {
        gguf_writer w;
        model_config c;
        tiny(&w, archs[f], f == 1 ? "output.weight" : NULL);
        read_config(&w, &c);
        gguf_writer_deinit(&w);
        assert_int_equal(c.family, f);
        assert_string_equal(c.arch, archs[f]);
        assert_int_equal(c.n_vocab, TINY_VOCAB);
        assert_true(c.dim == TINY_DIM && c.n_layers == TINY_LAYERS && c.n_heads == 2 && c.n_kv_heads == 1 &&
                    c.head_dim == 4);
        assert_true(c.ffn_dim == TINY_FFN && c.context_length == 64 && c.rms_eps == 1e-5f);
        assert_true(c.qkv_bias == (f == 1) && !c.attn_out_bias && !c.mlp_bias && c.qk_norm == (f >= 2));
        // skipping "output.weight" also skips "attn_output.weight"; here only the head matters
        assert_true(c.tied_head == (f == 1) && c.tied_head_given);
        assert_true(c.rope.theta == 500000 && c.rope.dim == 4 && c.rope.interleaved == (f == 0));
        assert_true(c.rope.scaling == ROPE_DEFAULT && c.rope.factor == 1);
        assert_true(c.n_stop_ids == 1 && c.stop_ids[0] == 3 && c.bos_id == -1);
        assert_true(c.layer_is_moe[1] == (f == 3));
        if (f == 3) assert_true(c.n_experts == 4 && c.n_experts_used == 2 && c.expert_ffn_dim == 4 && c.norm_topk_prob);
    }
}

static void test_rope_scaling(void **state) {
    (void)state;
    gguf_writer w;
    model_config c;
    tiny(&w, "qwen2", NULL);
    gguf_writer_str(&w, "qwen2.rope.scaling.type", "yarn");
    gguf_writer_f32(&w, "qwen2.rope.scaling.factor", 4);
    gguf_writer_u32(&w, "qwen2.rope.scaling.original_context_length", 32);
    gguf_writer_f32(&w, "qwen2.rope.scaling.yarn_attn_factor",
                    0.878f); // of DeepSeek-R1-0528-Qwen3-8B; llama.cpp reads it for grok only
    read_config(&w, &c);
    assert_true(c.rope.scaling == ROPE_YARN && c.rope.factor == 4 && c.rope.original_context == 32 && c.rope.truncate);
    assert_int_equal(c.context_length, 128); // not the file's 64
    assert_true(c.rope.beta_fast == 32 && c.rope.beta_slow == 1);
    assert_true(fabs(c.rope.attention_factor - (0.1 * log(4) + 1)) < 1e-12);
    gguf_writer_deinit(&w);

    tiny(&w, "qwen2", NULL);
    gguf_writer_str(&w, "qwen2.rope.scaling.type", "linear");
    gguf_writer_f32(&w, "qwen2.rope.scaling.factor", 2);
    read_config(&w, &c);
    assert_true(c.rope.scaling == ROPE_LINEAR && c.rope.factor == 2);
    gguf_writer_deinit(&w);

    tiny(&w, "llama", NULL);
    gguf_writer_f32(&w, "llama.rope.scaling.attn_factor", 1.19f);
    expect_config_refused(&w, STATUS_UNSUPPORTED, "rope.scaling.attn_factor is 1.19");
    gguf_writer_deinit(&w);

    tiny(&w, "llama", "freq_base"); // llama: 10000; divisors stay a tensor
    gguf_writer_tensor(&w, "rope_freqs.weight", 0, 1, (uint64_t[]){2}, (float[]){1, 8}, 8);
    read_config(&w, &c);
    assert_true(c.rope.scaling == ROPE_DEFAULT && c.rope.theta == 10000);
    gguf_writer_deinit(&w);

    tiny(&w, "llama", NULL);
    gguf_writer_tensor(&w, "rope_freqs.weight", 0, 1, (uint64_t[]){4}, (float[]){1, 8, 8, 8}, 16);
    expect_config_refused(&w, STATUS_BAD_FILE, "rope_freqs.weight must be F32 of 2 numbers");
    gguf_writer_deinit(&w);

    tiny(&w, "qwen2", NULL);
    gguf_writer_str(&w, "qwen2.rope.scaling.type", "longrope");
    expect_config_refused(&w, STATUS_UNSUPPORTED, "rope.scaling.type is \"longrope\"");
    gguf_writer_deinit(&w);
}

static void test_stop_ids_and_arrays(void **state) {
    (void)state;
    gguf_writer w;
    model_config c;
    tiny(&w, "qwen2", "head_count_kv");
    gguf_writer_i32_array(&w, "qwen2.attention.head_count_kv", (const int32_t[]){1, 1}, 2);
    gguf_writer_u32(&w, "tokenizer.ggml.eot_token_id", 5);
    gguf_writer_u32(&w, "tokenizer.ggml.eom_token_id", 3);
    gguf_writer_u32(&w, "tokenizer.ggml.bos_token_id", 1);
    gguf_writer_f32(&w, "general.sampling.temp", 0.6f);
    gguf_writer_i32(&w, "general.sampling.top_k", 20);
    read_config(&w, &c);
    assert_true(c.n_kv_heads == 1 && c.n_stop_ids == 2 && c.stop_ids[0] == 3 && c.stop_ids[1] == 5 && c.bos_id == 1);
    assert_true(c.sampling.has_temperature && c.sampling.temperature == 0.6f && c.sampling.top_k == 20 &&
                !c.sampling.has_top_p);
    gguf_writer_deinit(&w);
    tiny(&w, "qwen2", "head_count_kv");
    gguf_writer_i32_array(&w, "qwen2.attention.head_count_kv", (const int32_t[]){1, 2}, 2);
    expect_config_refused(&w, STATUS_UNSUPPORTED, "differs between layers (1, then 2 at layer 1)");
    gguf_writer_deinit(&w);
}

// A key of the file gets another value, or is left out.
static void test_bad_keys(void **state) {
    (void)state;
    const struct {
        const char *arch, *key; // the key without the architecture
        int64_t value;          // -1: leave it out
        status code;
        const char *part;
    } cases[] = {
        {"llama", "block_count", 0, STATUS_BAD_FILE, "llama.block_count is 0"},
        {"llama", "block_count", 2147483648, STATUS_BAD_FILE, "block_count is 2147483648, expected 1 to 1024"},
        {"llama", "block_count", 4294967295, STATUS_BAD_FILE, "block_count is 4294967295"},
        {"llama", "block_count", 1, STATUS_BAD_FILE, "tensor blk.1.attn_norm.weight, but llama.block_count is 1"},
        {"llama", "block_count", -1, STATUS_BAD_FILE, "key llama.block_count is missing"},
        {"qwen2", "attention.head_count", 0, STATUS_BAD_FILE, "attention.head_count is 0"},
        {"qwen2", "attention.head_count", 2147483648, STATUS_BAD_FILE, "attention.head_count is 2147483648"},
        {"qwen2", "attention.head_count", 4294967295, STATUS_BAD_FILE, "attention.head_count is 4294967295"},
        {"qwen2", "attention.head_count", 3, STATUS_BAD_FILE,
         "embedding_length 8 is no multiple of qwen2.attention.head_count 3"},
        {"qwen2", "attention.head_count_kv", 0, STATUS_BAD_FILE, "attention.head_count_kv is 0"},
        {"qwen2", "attention.head_count_kv", 2147483648, STATUS_BAD_FILE, "attention.head_count_kv is 2147483648"},
        {"qwen2", "attention.head_count_kv", 4294967295, STATUS_BAD_FILE, "attention.head_count_kv is 4294967295"},
        {"qwen2", "attention.head_count_kv", 3, STATUS_BAD_FILE,
         "2 attention heads are no multiple of 3 key-value heads"},
        {"qwen2", "attention.layer_norm_rms_epsilon", -1, STATUS_BAD_FILE, "layer_norm_rms_epsilon is missing"},
        {"qwen2", "rope.freq_base", -1, STATUS_BAD_FILE, "rope.freq_base is missing"},
        {"qwen2", "embedding_length", 4, STATUS_BAD_FILE, "token_embd.weight has rows of 8"},
        {"qwen2", "context_length", -1, STATUS_BAD_FILE, "context_length is missing"},
        {"qwen3moe", "expert_count", 0, STATUS_BAD_FILE, "expert_count is 0"},
        {"qwen3moe", "expert_count", 2147483648, STATUS_BAD_FILE, "expert_count is 2147483648"},
        {"qwen3moe", "expert_count", 4294967295, STATUS_BAD_FILE, "expert_count is 4294967295"},
        {"qwen3moe", "expert_used_count", 5, STATUS_BAD_FILE, "5 of 4 experts"},
        {"qwen3moe", "expert_used_count", -1, STATUS_BAD_FILE, "expert_used_count is missing"},
        {"llama", "expert_count", 8, STATUS_UNSUPPORTED, "llama.expert_count is 8"},
        {"llama", "attention.value_length", 3, STATUS_UNSUPPORTED, "keys of 4 and values of 3"},
        {"llama", "attention.sliding_window", 16, STATUS_UNSUPPORTED, "attention.sliding_window is 16"},
        {"llama", "attention.clamp_kqv", 8, STATUS_UNSUPPORTED, "attention.clamp_kqv"},
        {"llama", "logit_scale", 2, STATUS_UNSUPPORTED, "logit_scale"},
        {"llama", "expert_shared_count", 1, STATUS_UNSUPPORTED, "expert_shared_count"},
        {"llama", "rope.dimension_count", 3, STATUS_BAD_FILE, "3 dimensions of a head of 4"},
        {"llama", "rope.dimension_count", 6, STATUS_BAD_FILE, "6 dimensions of a head of 4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_writer w;
        char key[128];
        snprintf(key, sizeof key, "%s.%s", cases[i].arch, cases[i].key);
        gguf_writer_init(&w);
        tiny_gguf_keys(&w, cases[i].arch, key);
        tiny_gguf_tensors(&w, cases[i].arch, NULL);
        if (cases[i].value >= 0) gguf_writer_u32(&w, key, (uint32_t)cases[i].value);
        expect_config_refused(&w, cases[i].code, cases[i].part);
        gguf_writer_deinit(&w);
    }
}

static void test_harmless_keys(void **state) {
    (void)state;
    gguf_writer w;
    model_config c;
    tiny(&w, "llama", NULL);
    gguf_writer_u32(&w, "llama.attention.sliding_window", 64); // as wide as the context
    gguf_writer_f32(&w, "llama.logit_scale", 1);
    gguf_writer_u32(&w, "llama.expert_count", 0);
    gguf_writer_u32(&w, "llama.vocab_size", TINY_VOCAB);
    gguf_writer_f32(&w, "llama.attention.scale", 0.5f); // 1 / sqrt(4)
    gguf_writer_bool(&w, "llama.attention.causal", true);
    gguf_writer_f32(&w, "llama.attention.clamp_kqv", 0);
    read_config(&w, &c);
    gguf_writer_deinit(&w);
}

static void test_bad_tensors_of_a_family(void **state) {
    (void)state;
    const float x[8] = {0};
    gguf_writer w;
    tiny(&w, "llama", NULL);
    gguf_writer_tensor(&w, "blk.0.attn_q_norm.weight", 0, 1, (uint64_t[]){4}, x, 16);
    expect_config_refused(&w, STATUS_UNSUPPORTED, "tensor blk.0.attn_q_norm.weight has no place in architecture llama");
    gguf_writer_deinit(&w);
    tiny(&w, "qwen2", NULL);
    gguf_writer_tensor(&w, "blk.0.attn_sinks.weight", 0, 1, (uint64_t[]){2}, x, 8);
    expect_config_refused(&w, STATUS_UNSUPPORTED, "blk.0.attn_sinks.weight");
    gguf_writer_deinit(&w);
    tiny(&w, "qwen2", "architecture");
    gguf_writer_str(&w, "general.architecture", "gemma3\x1b[31m");
    expect_config_refused(&w, STATUS_UNSUPPORTED,
                          "architecture \"gemma3?[31m\" is not supported; tally runs llama, qwen2");
    gguf_writer_deinit(&w);
    tiny(&w, "qwen2", "architecture");
    expect_config_refused(&w, STATUS_BAD_FILE, "general.architecture is missing");
    gguf_writer_deinit(&w);
    tiny(&w, "qwen2", "token_embd.weight");
    expect_config_refused(&w, STATUS_NOT_FOUND, "token_embd.weight is missing");
    gguf_writer_deinit(&w);
    gguf_writer_init(&w);
    tiny_gguf_keys(&w, "qwen2", NULL);
    expect_config_refused(&w, STATUS_NOT_FOUND, "holds no tensors");
    gguf_writer_deinit(&w);
}

static void test_alignment(void **state) {
    (void)state;
    gguf_writer w;
    gguf *g;
    error err = {0};
    gguf_writer_init(&w);
    gguf_writer_alignment(&w, 24);
    tiny_gguf_keys(&w, "llama", NULL);
    tiny_gguf_tensors(&w, "llama", NULL);
    assert_int_equal(open_written(&g, &w, &err), STATUS_OK);
    const gguf_tensor *t = gguf_find_tensor(g, "blk.1.ffn_down.weight");
    assert_non_null(t);
    float second;
    memcpy(&second, g->parts[0].map.data + t->offset + 4, 4);
    assert_true(second == 1 && (t->offset - g->parts[0].data_start) % 24 == 0);
    gguf_close(g);
    gguf_writer_deinit(&w);
    const uint32_t bad[] = {0, 3, 12, 0xffffffffu};
    for (size_t i = 0; i < 4; i++) {
        tiny(&w, "llama", NULL);
        gguf_writer_u32(&w, "general.alignment", bad[i]);
        expect_refused(&w, STATUS_BAD_FILE, "general.alignment is");
        gguf_writer_deinit(&w);
    }
    tiny(&w, "llama", NULL);
    gguf_writer_i32(&w, "general.alignment", -8);
    expect_refused(&w, STATUS_BAD_FILE, "general.alignment is i32, expected u32");
    gguf_writer_deinit(&w);
    tiny(&w, "llama", NULL);
    gguf_writer_u32(&w, "general.alignment", 0xfffffff8u); // legal, but the data would start far behind the file
    expect_refused(&w, STATUS_BAD_FILE, "needs");
    gguf_writer_deinit(&w);
}

static void test_bad_tensors(void **state) {
    (void)state;
    const float x[16] = {0};
    const struct {
        uint32_t type, n_dims;
        uint64_t dims[10], offset;
        const char *part;
    } cases[] = {
        {0, 1, {16}, UINT64_MAX - 31, "needs 64 bytes at offset"},
        {0, 1, {16}, 32, "needs 64 bytes at offset 32"},
        {0, 1, {16}, 1ull << 50, "needs 64 bytes at offset"},
        {0, 1, {16}, 8, "no multiple of the alignment 32"},
        {0, 1, {17}, 0, "needs 68 bytes at offset 0"},
        {0, 1, {0}, 0, "dimension 0 of tensor x is 0"},
        {0, 2, {4, 0}, 0, "dimension 1 of tensor x is 0"},
        {0, 1, {1ull << 63}, 0, "dimension 0 of tensor x is 9223372036854775808"},
        {0, 2, {1ull << 40, 1ull << 40}, 0, "more than 2^63 bytes"},
        {0, 4, {1ull << 16, 1ull << 16, 1ull << 16, 1ull << 16}, 0, "more than 2^63 bytes"},
        {0, 0, {0}, 0, "tensor x has 0 dimensions"},
        {0, 5, {1, 1, 1, 1, 1}, 0, "tensor x has 5 dimensions"},
        {0, 9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, "tensor x has 9 dimensions"},
        {0, UINT32_MAX, {1}, 0, "tensor x has 4294967295 dimensions"},
        {8, 2, {16, 2}, 0, "rows of 16 numbers, no multiple of the 32 of a Q8_0 block"},
        {12, 2, {128, 2}, 0, "no multiple of the 256 of a Q4_K block"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_writer w;
        gguf_writer_init(&w);
        gguf_writer_describe(&w, "x", cases[i].type, cases[i].n_dims, cases[i].dims, cases[i].offset);
        strbuf_add(&w.data, (str){(const char *)x, sizeof x});
        expect_refused(&w, STATUS_BAD_FILE, cases[i].part);
        gguf_writer_deinit(&w);
    }
    gguf_writer w;
    gguf_writer_init(&w);
    gguf_writer_tensor(&w, "x", 0, 1, (uint64_t[]){16}, x, sizeof x);
    gguf_writer_tensor(&w, "x", 0, 1, (uint64_t[]){16}, x, sizeof x);
    expect_refused(&w, STATUS_BAD_FILE, "tensor x stands twice");
    gguf_writer_deinit(&w);
    gguf_writer_init(&w);
    gguf_writer_tensor(&w, "x", 0, 1, (uint64_t[]){16}, x, sizeof x);
    gguf_writer_describe(&w, "y", 0, 1, (uint64_t[]){8}, 32);
    expect_refused(&w, STATUS_BAD_FILE, "tensors x and y overlap");
    gguf_writer_deinit(&w);
}

static void test_bad_headers(void **state) {
    (void)state;
    gguf *g;
    error err = {0};
    const struct {
        uint32_t magic, version;
        uint64_t n_tensors, n_keys;
        uint64_t rest; // the first 8 bytes behind the header
        status code;
        const char *part;
    } cases[] = {
        {0x46554747, 1, 0, 0, 0, STATUS_UNSUPPORTED, "GGUF version 1"},
        {0x46554747, 4, 0, 0, 0, STATUS_UNSUPPORTED, "GGUF version 4"},
        {0x46554747, 0x03000000, 0, 0, 0, STATUS_UNSUPPORTED, "a big-endian GGUF file"},
        {0x47475546, 0x03000000, 0, 0, 0, STATUS_UNSUPPORTED, "a big-endian GGUF file"},
        {0x67676d6c, 1, 0, 0, 0, STATUS_BAD_FILE, "not a GGUF file: it starts with 6c 6d 67 67"},
        {0x46554747, 3, 1ull << 60, 0, 0, STATUS_BAD_FILE, "claims 1152921504606846976 tensors"},
        {0x46554747, 3, 0, 1ull << 60, 0, STATUS_BAD_FILE, "claims 1152921504606846976 keys"},
        {0x46554747, 3, 0, UINT64_MAX, 0, STATUS_BAD_FILE, "claims 18446744073709551615 keys"},
        {0x46554747, 3, UINT64_MAX, 0, 0, STATUS_BAD_FILE, "claims 18446744073709551615 tensors"},
        {0x46554747, 3, 0, 1, 1ull << 48, STATUS_BAD_FILE, "a key at byte 24 claims 281474976710656 bytes"},
        {0x46554747, 3, 0, 1, UINT64_MAX, STATUS_BAD_FILE, "a key at byte 24 claims 18446744073709551615 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char file[48] = {0};
        memcpy(file, &cases[i].magic, 4);
        memcpy(file + 4, &cases[i].version, 4);
        memcpy(file + 8, &cases[i].n_tensors, 8);
        memcpy(file + 16, &cases[i].n_keys, 8);
        memcpy(file + 24, &cases[i].rest, 8);
        status code = open_bytes(&g, file, sizeof file, &err);
        if (code != cases[i].code || !strstr(err.text, cases[i].part)) {
            fail_msg("%zu: status %d: \"%s\", expected \"%s\"", i, code, err.text, cases[i].part);
        }
    }
    assert_int_equal(gguf_open(&g, temp_folder_path(&folder, "absent.gguf"), &err), STATUS_NOT_FOUND);
    assert_int_equal(gguf_open(&g, folder.path, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "not a regular file"));
}

static void test_bad_values(void **state) {
    (void)state;
    unsigned char array[12 + 8] = {0};
    const struct {
        uint32_t type, elem;
        uint64_t n;
        status code;
        const char *part;
    } cases[] = {
        {GGUF_ARRAY, GGUF_U32, 1ull << 60, STATUS_BAD_FILE, "key k claims 1152921504606846976 elements of u32"},
        {GGUF_ARRAY, GGUF_STRING, 1ull << 61, STATUS_BAD_FILE, "key k claims 2305843009213693952 elements of string"},
        {GGUF_ARRAY, GGUF_U64, UINT64_MAX, STATUS_BAD_FILE, "key k claims 18446744073709551615 elements"},
        {GGUF_ARRAY, 13, 1, STATUS_BAD_FILE, "an array of type 13"},
        {GGUF_ARRAY, GGUF_ARRAY, 1, STATUS_UNSUPPORTED, "an array of arrays"},
        {13, 0, 0, STATUS_BAD_FILE, "key k has type 13"},
        {UINT32_MAX, 0, 0, STATUS_BAD_FILE, "key k has type 4294967295"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_writer w;
        gguf_writer_init(&w);
        memcpy(array, &cases[i].elem, 4);
        memcpy(array + 4, &cases[i].n, 8);
        gguf_writer_raw(&w, "k", cases[i].type, array, sizeof array);
        expect_refused(&w, cases[i].code, cases[i].part);
        gguf_writer_deinit(&w);
    }
    gguf_writer w;
    gguf_writer_init(&w);
    gguf_writer_u32(&w, "k", 1);
    gguf_writer_u32(&w, "k", 2);
    expect_refused(&w, STATUS_BAD_FILE, "key k stands twice");
    gguf_writer_deinit(&w);
}

// A file cut anywhere gives a sentence, whatever is read of it.
static void test_cut_anywhere(void **state) {
    (void)state;
    gguf_writer w;
    tiny(&w, "qwen3moe", NULL);
    strbuf f = gguf_writer_finish(&w);
    size_t header = w.keys.len + w.tensors.len + 24;
    for (size_t n = 0; n < f.len; n += n < header ? 1 : 7) {
        gguf *g;
        error err = {0};
        status code = open_bytes(&g, f.data, n, &err);
        if (code != STATUS_BAD_FILE || !err.text[0])
            fail_msg("cut at %zu of %zu: status %d: %s", n, f.len, code, err.text);
    }
    strbuf_deinit(&f);
    gguf_writer_deinit(&w);
}

// Every byte of the header changed in turn: no crash, no hang; whatever opens can be read.
static void test_every_byte_changed(void **state) {
    (void)state;
    gguf_writer w;
    tiny(&w, "qwen2", NULL);
    strbuf f = gguf_writer_finish(&w);
    size_t header = w.keys.len + w.tensors.len + 24;
    int opened = 0;
    for (size_t i = 0; i < header; i++) {
        const unsigned char was = (unsigned char)f.data[i];
        const unsigned char to[] = {0, 1, 0x7f, 0xff, (unsigned char)(was ^ 0x20)};
        for (size_t k = 0; k < sizeof to; k++) {
            gguf *g;
            model_config c;
            error err = {0};
            f.data[i] = (char)to[k];
            if (open_bytes(&g, f.data, f.len, &err) != STATUS_OK) continue;
            opened++;
            gguf_read_config(g, &c, &err);
            gguf_close(g);
        }
        f.data[i] = (char)was;
    }
    assert_true(opened > 100);
    strbuf_deinit(&f);
    gguf_writer_deinit(&w);
}

static void write_part(const char *name, int no, int count, const char *tensor, int total) {
    const float x[8] = {(float)no};
    gguf_writer w;
    gguf_writer_init(&w);
    if (no == 0) tiny_gguf_keys(&w, "llama", NULL);
    gguf_writer_u16(&w, "split.no", (uint16_t)no);
    gguf_writer_u16(&w, "split.count", (uint16_t)count);
    gguf_writer_i32(&w, "split.tensors.count", total);
    gguf_writer_tensor(&w, tensor, 0, 1, (uint64_t[]){8}, x, sizeof x);
    assert_true(gguf_writer_save(&w, temp_folder_path(&folder, name)));
    gguf_writer_deinit(&w);
}

static void expect_split_refused(const char *name, status want, const char *part) {
    gguf *g;
    error err = {0};
    status code = gguf_open(&g, temp_folder_path(&folder, name), &err);
    if (code != want || !strstr(err.text, part))
        fail_msg("status %d: \"%s\", expected %d: \"%s\"", code, err.text, want, part);
}

static void test_split_files(void **state) {
    (void)state;
    gguf *g;
    error err = {0};
    write_part("s-00001-of-00003.gguf", 0, 3, "token_embd.weight", 3);
    write_part("s-00002-of-00003.gguf", 1, 3, "output.weight", 3);
    expect_split_refused("s-00001-of-00003.gguf", STATUS_NOT_FOUND, "s-00003-of-00003.gguf: missing");
    write_part("s-00003-of-00003.gguf", 2, 3, "output_norm.weight", 3);
    assert_int_equal(gguf_open(&g, temp_folder_path(&folder, "s-00001-of-00003.gguf"), &err), STATUS_OK);
    assert_int_equal(g->n_parts, 3);
    assert_non_null(gguf_find_tensor(g, "output_norm.weight"));
    assert_true(gguf_has(g, "llama.block_count"));
    gguf_close(g);
    expect_split_refused("s-00002-of-00003.gguf", STATUS_BAD_ARGUMENT,
                         "is file 2 of 3 of a split model; name the first one");
    write_part("s-00003-of-00003.gguf", 2, 4, "output_norm.weight", 3);
    expect_split_refused("s-00001-of-00003.gguf", STATUS_BAD_FILE, "says split.no 2 of 4, expected 2 of 3");
    write_part("s-00003-of-00003.gguf", 1, 3, "output_norm.weight", 3);
    expect_split_refused("s-00001-of-00003.gguf", STATUS_BAD_FILE, "says split.no 1 of 3, expected 2 of 3");
    write_part("s-00003-of-00003.gguf", 2, 3, "output.weight", 3);
    expect_split_refused("s-00001-of-00003.gguf", STATUS_BAD_FILE, "tensor output.weight stands twice");
    write_part("s-00003-of-00003.gguf", 2, 3, "output_norm.weight", 3);
    write_part("s-00001-of-00003.gguf", 0, 3, "token_embd.weight", 4);
    expect_split_refused("s-00001-of-00003.gguf", STATUS_BAD_FILE,
                         "split.tensors.count is 4, the 3 files have 3 tensors");
    write_part("other.gguf", 0, 3, "token_embd.weight", 3);
    expect_split_refused("other.gguf", STATUS_BAD_FILE, "its name must end in -00001-of-00003.gguf");
    write_part("other.gguf", 3, 3, "token_embd.weight", 3);
    expect_split_refused("other.gguf", STATUS_BAD_FILE, "split.no 3 and split.count 3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),       cmocka_unit_test(test_config_of_families),
        cmocka_unit_test(test_rope_scaling), cmocka_unit_test(test_stop_ids_and_arrays),
        cmocka_unit_test(test_bad_keys),     cmocka_unit_test(test_harmless_keys),
        cmocka_unit_test(test_alignment),    cmocka_unit_test(test_bad_tensors_of_a_family),
        cmocka_unit_test(test_bad_tensors),  cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_bad_values),   cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_split_files),  cmocka_unit_test(test_every_byte_changed),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
