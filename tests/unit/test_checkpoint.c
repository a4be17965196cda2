// A checkpoint as model code sees it: names, shapes and bytes out of GGUF files and Hugging Face folders.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "file/checkpoint.h"
#include "tests/support/safetensors_writer.h"
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

static const char config_json[] = "{\"model_type\":\"qwen2\",\"hidden_size\":8,\"num_hidden_layers\":1,\"num_attention_"
                                  "heads\":2,\"num_key_value_heads\":1,"
                                  "\"intermediate_size\":16,\"vocab_size\":12,\"max_position_embeddings\":64,\"rope_"
                                  "theta\":10000.0,\"eos_token_id\":3}";

static checkpoint *open_ok(const char *name, const char *const *dirs, int n_dirs) {
    checkpoint *ck;
    error err = {0};
    if (checkpoint_open(&ck, name, dirs, n_dirs, &err) != STATUS_OK) fail_msg("%s", err.text);
    return ck;
}

static void open_fails(const char *name, const char *const *dirs, int n_dirs, status want, const char *part) {
    checkpoint *ck;
    error err = {0};
    status code = checkpoint_open(&ck, name, dirs, n_dirs, &err);
    if (code != want || !strstr(err.text, part))
        fail_msg("status %d: \"%s\", expected %d: \"%s\"", code, err.text, want, part);
    assert_null(ck);
}

static void load_ok(checkpoint *ck, bool use_mmap) {
    error err = {0};
    if (checkpoint_load_tensors(ck, use_mmap, &err) != STATUS_OK) fail_msg("%s", err.text);
}

static void load_fails(const char *name, status want, const char *part) {
    checkpoint *ck = open_ok(name, NULL, 0);
    error err = {0};
    status code = checkpoint_load_tensors(ck, true, &err);
    if (code != want || !strstr(err.text, part))
        fail_msg("status %d: \"%s\", expected %d: \"%s\"", code, err.text, want, part);
    assert_int_equal(checkpoint_n_tensors(ck), 0);
    checkpoint_close(ck);
}

static float number_at(const checkpoint_tensor *t, int64_t i) {
    float x;
    memcpy(&x, (const char *)t->data + 4 * i, 4);
    return x;
}

static void write_gguf(const char *name, const char *arch) {
    gguf_writer w;
    gguf_writer_init(&w);
    tiny_gguf_keys(&w, arch, NULL);
    tiny_gguf_tensors(&w, arch, NULL);
    assert_true(gguf_writer_save(&w, temp_folder_path(&folder, name)));
    gguf_writer_deinit(&w);
}

static void check_gguf_tensors(const checkpoint *ck) {
    const checkpoint_tensor *t = checkpoint_find(ck, STR("model.layers.1.mlp.experts.gate_proj.weight"));
    assert_non_null(t);
    assert_true(t->n_dims == 3 && t->dim[0] == TINY_EXPERTS && t->dim[1] == TINY_EXPERT_FFN && t->dim[2] == TINY_DIM);
    assert_true(t->type == DTYPE_F32 && t->n_bytes == 4 * 4 * 8 * 4 && number_at(t, 127) == 127);
    t = checkpoint_find(ck, STR("model.embed_tokens.weight"));
    assert_true(t && t->n_dims == 2 && t->dim[0] == TINY_VOCAB && t->dim[1] == TINY_DIM && t->dim[2] == 0);
    static const char *const names[] = {
        "lm_head.weight",
        "model.norm.weight",
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.post_attention_layernorm.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_proj.weight",
        "model.layers.0.self_attn.v_proj.weight",
        "model.layers.0.self_attn.o_proj.weight",
        "model.layers.0.self_attn.q_norm.weight",
        "model.layers.0.self_attn.k_norm.weight",
        "model.layers.0.mlp.gate.weight",
        "model.layers.0.mlp.experts.up_proj.weight",
        "model.layers.0.mlp.experts.down_proj.weight",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!checkpoint_find(ck, str_from(names[i]))) fail_msg("%s is missing", names[i]);
    }
    assert_int_equal(checkpoint_n_tensors(ck), 3 + 2 * 12);
    assert_null(checkpoint_find(ck, STR("token_embd.weight")));
    uint64_t sum = 0;
    for (int i = 0; i < checkpoint_n_tensors(ck); i++) sum += checkpoint_tensor_at(ck, i)->n_bytes;
    assert_true(sum == checkpoint_n_bytes(ck));
    assert_null(checkpoint_tensor_at(ck, checkpoint_n_tensors(ck)));
}

static void test_gguf(void **state) {
    (void)state;
    write_gguf("m.gguf", "qwen3moe");
    for (int use_mmap = 0; use_mmap < 2; use_mmap++) {
        checkpoint *ck = open_ok(temp_folder_path(&folder, "m.gguf"), NULL, 0);
        assert_non_null(checkpoint_gguf(ck));
        assert_int_equal(checkpoint_n_tensors(ck), 0);
        load_ok(ck, use_mmap);
        check_gguf_tensors(ck);
        const checkpoint_tensor *t = checkpoint_find(ck, STR("lm_head.weight"));
        assert_string_equal(checkpoint_file_name(ck, t->file), checkpoint_path(ck));
        for (int i = 0; i < checkpoint_n_tensors(ck); i++) {
            const checkpoint_tensor *any = checkpoint_tensor_at(ck, i);
            checkpoint_drop_range(ck, any->data, (size_t)any->n_bytes);
        }
        check_gguf_tensors(ck); // dropped pages come back when touched
        checkpoint_drop_all(ck);
        check_gguf_tensors(ck);
        error err = {0};
        char *data;
        size_t len;
        assert_int_equal(checkpoint_read_file(ck, "tokenizer.json", &data, &len, &err), STATUS_NOT_FOUND);
        model_config c;
        assert_int_equal(checkpoint_config(ck, &c, &err), STATUS_OK);
        checkpoint_close(ck);
    }
}

static void test_gguf_unsupported_types(void **state) {
    (void)state;
    const struct {
        uint32_t type;
        const char *part;
    } cases[] = {
        {16, "IQ2_XXS (16)"}, {39, "MXFP4 (39)"}, {34, "TQ1_0 (34)"}, {5000, "unknown (5000)"}, {9, "Q8_1 (9)"}};
    const char x[256] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_writer w;
        gguf_writer_init(&w);
        tiny_gguf_keys(&w, "llama", NULL);
        tiny_gguf_tensors(&w, "llama", "blk.1.attn_q.weight");
        gguf_writer_tensor(&w, "blk.1.attn_q.weight", cases[i].type, 2, (uint64_t[]){8, 8}, x, sizeof x);
        assert_true(gguf_writer_save(&w, temp_folder_path(&folder, "odd.gguf")));
        gguf_writer_deinit(&w);
        load_fails(temp_folder_path(&folder, "odd.gguf"), STATUS_UNSUPPORTED, cases[i].part);
        load_fails(temp_folder_path(&folder, "odd.gguf"), STATUS_UNSUPPORTED,
                   "tensor blk.1.attn_q.weight has the type");
    }
    // a file that spells out a translated name
    gguf_writer w;
    gguf_writer_init(&w);
    tiny_gguf_tensors(&w, "llama", NULL);
    gguf_writer_tensor(&w, "lm_head.weight", 0, 2, (uint64_t[]){8, 8}, x, sizeof x);
    assert_true(gguf_writer_save(&w, temp_folder_path(&folder, "odd.gguf")));
    gguf_writer_deinit(&w);
    load_fails(temp_folder_path(&folder, "odd.gguf"), STATUS_BAD_FILE, "two tensors stand for lm_head.weight");
}

static void write_hf(const char *prefix) {
    char name[256];
    safetensors_writer w;
    static const float x[96] = {1, 2, 3};
    safetensors_writer_init(&w);
    safetensors_writer_tensor(&w, "model.embed_tokens.weight", "F32", 2, (int64_t[]){12, 8}, x, sizeof x);
    safetensors_writer_tensor(&w, "model.layers.0.self_attn.rotary_emb.inv_freq", "I64", 1, (int64_t[]){2}, x, 16);
    safetensors_writer_tensor(&w, "model.layers.0.mlp.experts.gate_up_proj", "BF16", 3, (int64_t[]){2, 4, 8}, x, 128);
    snprintf(name, sizeof name, "%smodel.safetensors", prefix);
    temp_folder_write(&folder, name, "", 0);
    assert_true(safetensors_writer_save(&w, temp_folder_path(&folder, name)));
    safetensors_writer_deinit(&w);
    snprintf(name, sizeof name, "%sconfig.json", prefix);
    temp_folder_write_text(&folder, name, config_json);
}

static void check_hf(const char *name, const char *const *dirs, int n_dirs) {
    for (int use_mmap = 0; use_mmap < 2; use_mmap++) {
        checkpoint *ck = open_ok(name, dirs, n_dirs);
        model_config c;
        error err = {0};
        if (checkpoint_config(ck, &c, &err) != STATUS_OK) fail_msg("%s", err.text);
        assert_true(c.family == FAMILY_QWEN2 && c.n_vocab == 12 && c.stop_ids[0] == 3);
        load_ok(ck, use_mmap);
        assert_int_equal(checkpoint_n_tensors(ck), 2); // the I64 buffer is nothing that a model reads
        const checkpoint_tensor *t = checkpoint_find(ck, STR("model.embed_tokens.weight"));
        assert_true(t && t->dim[0] == 12 && number_at(t, 2) == 3);
        t = checkpoint_find(ck, STR("model.layers.0.mlp.experts.gate_up_proj"));
        assert_true(t && t->type == DTYPE_BF16 && t->n_dims == 3);
        checkpoint_drop_range(ck, t->data, (size_t)t->n_bytes);
        assert_non_null(strstr(checkpoint_file_name(ck, t->file), "model.safetensors"));
        assert_null(checkpoint_gguf(ck));
        checkpoint_close(ck);
    }
}

static void test_hf_folder(void **state) {
    (void)state;
    write_hf("hf/");
    check_hf(temp_folder_path(&folder, "hf"), NULL, 0);
    check_hf(temp_folder_path(&folder, "hf/"), NULL, 0);
    check_hf(temp_folder_path(&folder, "hf/model.safetensors"), NULL, 0);
    check_hf(temp_folder_path(&folder, "hf/config.json"), NULL, 0);
    temp_folder_write_text(&folder, "hf/generation_config.json", "{\"eos_token_id\":[3,4]}");
    checkpoint *ck = open_ok(temp_folder_path(&folder, "hf"), NULL, 0);
    model_config c;
    error err = {0};
    assert_int_equal(checkpoint_config(ck, &c, &err), STATUS_OK);
    assert_int_equal(c.n_stop_ids, 2);
    checkpoint_close(ck);
    temp_folder_write_text(&folder, "hf/generation_config.json", "{");
    ck = open_ok(temp_folder_path(&folder, "hf"), NULL, 0);
    assert_int_equal(checkpoint_config(ck, &c, &err), STATUS_BAD_FILE);
    assert_non_null(strstr(err.text, "hf/generation_config.json: not valid JSON"));
    checkpoint_close(ck);
}

static void test_hf_unsupported_weight(void **state) {
    (void)state;
    const char x[64] = {0};
    static const char *const names[] = {"lm_head.weight", "model.layers.7.self_attn.q_proj.weight",
                                        "model.layers.0.mlp.experts.3.up_proj.weight",
                                        "model.layers.0.mlp.experts.down_proj"};
    for (size_t i = 0; i < 4; i++) {
        safetensors_writer w;
        safetensors_writer_init(&w);
        safetensors_writer_tensor(&w, names[i], "F8_E4M3", 2, (int64_t[]){8, 8}, x, 64);
        temp_folder_write_text(&folder, "fp8/config.json", config_json);
        assert_true(safetensors_writer_save(&w, temp_folder_path(&folder, "fp8/model.safetensors")));
        safetensors_writer_deinit(&w);
        load_fails(temp_folder_path(&folder, "fp8"), STATUS_UNSUPPORTED, "is F8_E4M3 with 2 dimensions");
        load_fails(temp_folder_path(&folder, "fp8"), STATUS_UNSUPPORTED, names[i]);
    }
}

static void test_tokenizer_only(void **state) {
    (void)state;
    temp_folder_write_text(&folder, "tok/tokenizer.json", "{\"a\":1}");
    checkpoint *ck = open_ok(temp_folder_path(&folder, "tok"), NULL, 0);
    model_config c;
    error err = {0};
    assert_int_equal(checkpoint_config(ck, &c, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.text, "tok/config.json"));
    char *data;
    size_t len;
    assert_int_equal(checkpoint_read_file(ck, "tokenizer.json", &data, &len, &err), STATUS_OK);
    assert_true(len == 7 && strcmp(data, "{\"a\":1}") == 0);
    free(data);
    assert_int_equal(checkpoint_read_file(ck, "chat_template.jinja", &data, &len, &err), STATUS_NOT_FOUND);
    assert_null(data);
    assert_int_equal(checkpoint_load_tensors(ck, true, &err), STATUS_NOT_FOUND);
    checkpoint_close(ck);
}

static void test_names(void **state) {
    (void)state;
    open_fails(temp_folder_path(&folder, "nowhere"), NULL, 0, STATUS_NOT_FOUND, "no such file or folder");
    open_fails("no such name", NULL, 0, STATUS_NOT_FOUND, "no such file or folder");
    temp_folder_write_text(&folder, "empty/readme.txt", "x");
    open_fails(temp_folder_path(&folder, "empty"), NULL, 0, STATUS_NOT_FOUND, "a folder without config.json");
    open_fails(temp_folder_path(&folder, "empty/readme.txt"), NULL, 0, STATUS_BAD_FILE, "the file ends at byte 1");
    temp_folder_write_text(&folder, "empty/readme.txt", "a longer text that is no GGUF file");
    open_fails(temp_folder_path(&folder, "empty/readme.txt"), NULL, 0, STATUS_BAD_FILE, "not a GGUF file");
    // a folder with one GGUF model in it
    temp_folder_write_text(&folder, "one/readme.txt", "x");
    write_gguf("one/m.gguf", "llama");
    checkpoint *ck = open_ok(temp_folder_path(&folder, "one"), NULL, 0);
    assert_non_null(strstr(checkpoint_path(ck), "one/m.gguf"));
    checkpoint_close(ck);
    write_gguf("one/n.gguf", "llama");
    open_fails(temp_folder_path(&folder, "one"), NULL, 0, STATUS_NOT_FOUND, "exactly one GGUF model");
}

static void test_cache(void **state) {
    (void)state;
    char empty[300], cache[300];
    snprintf(empty, sizeof empty, "%s", temp_folder_path(&folder, "no-cache"));
    snprintf(cache, sizeof cache, "%s", temp_folder_path(&folder, "cache"));
    const char *const dirs[] = {NULL, empty, cache};
    write_hf("cache/models--org--name/snapshots/abc123/");
    check_hf("org/name", dirs, 3); // the only snapshot
    write_hf("cache/models--org--name/snapshots/def456/");
    open_fails("org/name", dirs, 3, STATUS_BAD_FILE, "has no refs/main and 2 folders under snapshots/");
    temp_folder_write_text(&folder, "cache/models--org--name/refs/main", "abc123\n");
    check_hf("org/name", dirs, 3);
    temp_folder_write_text(&folder, "cache/models--org--name/refs/main", "fff");
    open_fails("org/name", dirs, 3, STATUS_BAD_FILE, "names the revision fff, which is not under snapshots/");
    temp_folder_write_text(&folder, "cache/models--org--name/refs/main", "../../evil");
    open_fails("org/name", dirs, 3, STATUS_BAD_FILE, "has no refs/main");
    open_fails("org/other", dirs, 3, STATUS_NOT_FOUND,
               "org/other: neither a path nor a model in the Hugging Face cache (");
    open_fails("org/other", dirs, 3, STATUS_NOT_FOUND, cache);
    open_fails("org/other", NULL, 0, STATUS_NOT_FOUND, "no cache directory is known");
    open_fails("../name", dirs, 3, STATUS_NOT_FOUND, "no such file or folder");
    open_fails("org/na me", dirs, 3, STATUS_NOT_FOUND, "no such file or folder");
    open_fails("org/name/more", dirs, 3, STATUS_NOT_FOUND, "no such file or folder");
}

// Kilobytes that this process holds of files, on disks and in memory, or of neither; -1: unknown.
static long resident_kb(bool of_files) {
    char line[256];
    long kb = -1, more;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        bool counts = of_files
                          ? sscanf(line, "RssFile: %ld kB", &more) == 1 || sscanf(line, "RssShmem: %ld kB", &more) == 1
                          : sscanf(line, "RssAnon: %ld kB", &more) == 1;
        if (counts) kb = (kb < 0 ? 0 : kb) + more;
    }
    if (f) fclose(f);
    return kb;
}

// Reading a page brings in its neighbours, dropped ones too, so after tensor by tensor something is left.
static void test_dropped_pages(void **state) {
    (void)state;
    enum { N = 64, BYTES = 100000, KB = N * BYTES / 1024 };
    gguf_writer w;
    gguf_writer_init(&w);
    tiny_gguf_keys(&w, "llama", NULL);
    float *numbers = calloc(BYTES / 4, 4);
    assert_non_null(numbers);
    for (int i = 0; i < N; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_q.weight", i);
        gguf_writer_tensor(&w, name, 0, 1, (uint64_t[]){BYTES / 4}, numbers, BYTES);
    }
    gguf_writer_save(&w, temp_folder_path(&folder, "pages.gguf"));
    gguf_writer_deinit(&w);
    free(numbers);
    checkpoint *ck = open_ok(temp_folder_path(&folder, "pages.gguf"), NULL, 0);
    load_ok(ck, true);
    assert_int_equal(checkpoint_n_tensors(ck), N);
    long before = resident_kb(true);
    volatile char sum = 0;
    for (int i = 0; i < N; i++) {
        const checkpoint_tensor *t = checkpoint_tensor_at(ck, i);
        for (uint64_t at = 0; at < t->n_bytes; at += 512) sum = (char)(sum + ((const char *)t->data)[at]);
    }
    long all = resident_kb(true);
    checkpoint_drop_all(ck);
    long after = resident_kb(true);
    if (before < 0) skip(); // no /proc
    if (all - before < KB * 3 / 4 || all - after < KB * 9 / 10)
        fail_msg("%ld KB mapped, %ld with %d KB of tensors, %ld after dropping", before, all, KB, after);
    checkpoint_close(ck);
}

// What was read into memory and dropped is not resident, and comes back with the next load; what is kept is never dropped.
static void test_dropped_memory(void **state) {
    (void)state;
    enum { NUMBERS = 1 << 20, BYTES = NUMBERS * 4 };
    gguf_writer w;
    gguf_writer_init(&w);
    tiny_gguf_keys(&w, "llama", NULL);
    float *numbers = malloc(BYTES);
    assert_non_null(numbers);
    for (int i = 0; i < NUMBERS; i++) numbers[i] = (float)i;
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_q.weight", i);
        gguf_writer_tensor(&w, name, 0, 1, (uint64_t[]){NUMBERS}, numbers, BYTES);
    }
    gguf_writer_save(&w, temp_folder_path(&folder, "memory.gguf"));
    gguf_writer_deinit(&w);
    checkpoint *ck = open_ok(temp_folder_path(&folder, "memory.gguf"), NULL, 0);
    load_ok(ck, false);
    const checkpoint_tensor *first = checkpoint_tensor_at(ck, 0), *second = checkpoint_tensor_at(ck, 1);
    long all = resident_kb(false);
    checkpoint_drop_range(ck, first->data, BYTES);
    long after = resident_kb(false);
    if (all >= 0 && all - after < BYTES / 1024 * 9 / 10) fail_msg("%ld KB, %ld after dropping", all, after);
    assert_memory_equal(second->data, numbers, BYTES); // its neighbour stays
    assert_memory_not_equal(first->data, numbers, BYTES);
    load_ok(ck, true);
    assert_memory_equal(first->data, numbers, BYTES);
    checkpoint_keep_data(ck);
    checkpoint_drop_range(ck, first->data, BYTES);
    assert_memory_equal(first->data, numbers, BYTES);
    checkpoint_close(ck);
    free(numbers);
}

static void test_missing_shard_at_load(void **state) {
    (void)state;
    temp_folder_write_text(&folder, "shards/config.json", config_json);
    temp_folder_write_text(&folder, "shards/model.safetensors.index.json",
                           "{\"weight_map\":{\"lm_head.weight\":\"model-00001-of-00002.safetensors\"}}");
    load_fails(temp_folder_path(&folder, "shards"), STATUS_NOT_FOUND, "model-00001-of-00002.safetensors: missing;");
    temp_folder_write_text(&folder, "bin/config.json", config_json);
    temp_folder_write_text(&folder, "bin/pytorch_model.bin", "x");
    load_fails(temp_folder_path(&folder, "bin"), STATUS_NOT_FOUND, "tally reads weights from safetensors");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gguf),           cmocka_unit_test(test_gguf_unsupported_types),
        cmocka_unit_test(test_hf_folder),      cmocka_unit_test(test_hf_unsupported_weight),
        cmocka_unit_test(test_tokenizer_only), cmocka_unit_test(test_names),
        cmocka_unit_test(test_cache),          cmocka_unit_test(test_missing_shard_at_load),
        cmocka_unit_test(test_dropped_pages),  cmocka_unit_test(test_dropped_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
