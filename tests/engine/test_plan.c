// tally_plan: published sizes of models from their configurations alone, sums that add up, and plans of files.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/checkpoint.h"
#include "tally.h"
#include "tests/support/published_shape.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

static const char device_text[] =
    "{\"name\": \"test\", \"memory_bytes\": 64e9, \"bandwidth_bytes_per_s\": 1e11, \"flops\": {\"f32\": 1e12, "
    "\"int8\": 4e12}, \"launch_s\": 1e-6}";

// Shapes and sizes as published: parameters in billions, KiB of BF16 keys and values per token.
typedef struct known {
    published_shape shape;
    double params, active;
    int kv_kib;
} known;

static const known models[] = {
    {{"R1-Distill-Qwen-1.5B", "qwen2", 1536, 8960, 28, 12, 2, 128, 151936, false, 0, 0, 0}, 1.777, 1.777, 28},
    {{"R1-Distill-Qwen-7B", "qwen2", 3584, 18944, 28, 28, 4, 128, 152064, false, 0, 0, 0}, 7.616, 7.616, 56},
    {{"Qwen2.5-0.5B", "qwen2", 896, 4864, 24, 14, 2, 64, 151936, true, 0, 0, 0}, 0.494, 0.494, 12},
    {{"Qwen3-0.6B", "qwen3", 1024, 3072, 28, 16, 8, 128, 151936, true, 0, 0, 0}, 0.596, 0.596, 112},
    {{"Qwen3-1.7B", "qwen3", 2048, 6144, 28, 16, 8, 128, 151936, true, 0, 0, 0}, 1.721, 1.721, 112},
    {{"Qwen3-4B", "qwen3", 2560, 9728, 36, 32, 8, 128, 151936, true, 0, 0, 0}, 4.022, 4.022, 144},
    {{"Qwen3-8B", "qwen3", 4096, 12288, 36, 32, 8, 128, 151936, false, 0, 0, 0}, 8.191, 8.191, 144},
    {{"Qwen3-14B", "qwen3", 5120, 17408, 40, 40, 8, 128, 151936, false, 0, 0, 0}, 14.768, 14.768, 160},
    {{"Qwen3-32B", "qwen3", 5120, 25600, 64, 64, 8, 128, 151936, false, 0, 0, 0}, 32.762, 32.762, 256},
    {{"Qwen3-30B-A3B", "qwen3_moe", 2048, 6144, 48, 32, 4, 128, 151936, false, 128, 8, 768}, 30.532, 3.353, 96},
    {{"Qwen3-235B-A22B", "qwen3_moe", 4096, 12288, 94, 64, 4, 128, 151936, false, 128, 8, 1536}, 235.094, 22.191, 188},
};
enum { N_MODELS = sizeof models / sizeof *models };

typedef struct fixture {
    temp_folder folder;
    char device[400];
    tally_plan_options options;
} fixture;

static fixture make_fixture(void) {
    fixture f = {.folder = temp_folder_make()};
    temp_folder_write_text(&f.folder, "device.txt", device_text);
    snprintf(f.device, sizeof f.device, "%s", temp_folder_path(&f.folder, "device.txt"));
    return f;
}

static tally_status try_plan(const char *path, const tally_plan_options *o, json_t **out, tally_error *err) {
    tally_model *m;
    char *text = NULL;
    *out = NULL;
    tally_status s = tally_model_open(&m, path, err);
    if (s) return s;
    s = tally_plan(m, o, &text, err);
    tally_model_close(m);
    if (!s) *out = json_loads(text, 0, NULL);
    if (!s) assert_non_null(*out);
    tally_free(text);
    return s;
}

static json_t *plan(const char *path, const tally_plan_options *o) {
    tally_error err;
    json_t *out;
    if (try_plan(path, o, &out, &err)) fail_msg("%s: %s", path, err.text);
    return out;
}

static double at(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v)) fail_msg("no number %s", key);
    return json_number_value(v);
}

static void near(const char *name, const char *what, double found, double expected, double tolerance) {
    if (!(fabs(found - expected) <= tolerance)) fail_msg("%s: %s is %.9g, expected %.9g", name, what, found, expected);
}

// Every list of parts sums to the step.
static void check_sums(const char *name, const json_t *step) {
    static const char *const fields[] = {"launches",    "flops",      "bytes",     "weight_bytes", "activation_bytes",
                                         "cache_bytes", "memory_s",   "compute_s", "launch_s",     "time_s",
                                         "collectives", "link_bytes", "link_s"};
    static const char *const lists[] = {"ops", "groups", "layers", "kinds"};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        const json_t *list = json_object_get(step, lists[l]);
        assert_true(json_array_size(list) > 0);
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
            double sum = 0, whole = at(step, fields[f]);
            for (size_t i = 0; i < json_array_size(list); i++) sum += at(json_array_get(list, i), fields[f]);
            near(name, fields[f], sum, whole, 1e-12 * fabs(whole));
        }
    }
    near(name, "time_s", at(step, "time_s"), at(step, "memory_s") + at(step, "compute_s") + at(step, "launch_s"),
         1e-12);
    assert_int_equal(json_array_size(json_object_get(step, "ops")), at(step, "launches"));
}

static void check_known(fixture *f, const known *k) {
    published_shape_write(&k->shape, &f->folder);
    f->options = (tally_plan_options){.device = f->device, .context = 1, .cache_k = "bf16", .cache_v = "bf16"};
    json_t *p = plan(f->folder.path, &f->options);
    near(k->shape.name, "params", at(p, "n_params") / 1e9, k->params, 0.0005);
    near(k->shape.name, "active params", at(p, "n_params_active") / 1e9, k->active, 0.0005);
    near(k->shape.name, "KV", at(p, "kv_bytes_per_position"), k->kv_kib * 1024, 0);
    near(k->shape.name, "KV of a block", at(p, "kv_bytes"), k->kv_kib * 1024 * 64.0, 0);
    near(k->shape.name, "weights", at(p, "weights_bytes"), 2 * at(p, "n_params") + 4 * k->shape.head_dim / 2, 0);
    assert_string_equal(json_string_value(json_object_get(p, "weights")), "BF16");
    // a token multiplies with every active parameter but an embedding that is only looked up
    const json_t *decode = json_object_get(p, "decode");
    double lookup = k->shape.tied ? 0 : (double)k->shape.vocab * k->shape.hidden;
    double products = 2 * (at(p, "n_params_active") - lookup);
    near(k->shape.name, "decode flops", at(decode, "flops"), products, 0.005 * products);
    near(k->shape.name, "decode weights", at(decode, "weight_bytes"), products + 2.0 * k->shape.hidden,
         4 * k->shape.head_dim);
    check_sums(k->shape.name, decode);
    check_sums(k->shape.name, json_object_get(p, "prefill"));
    json_decref(p);
}

static void test_published_sizes(void **state) {
    (void)state;
    fixture f = make_fixture();
    for (int i = 0; i < N_MODELS; i++) check_known(&f, &models[i]);
    temp_folder_remove(&f.folder);
}

// ---- steps ---------------------------------------------------------------------------------------------------------------

static const json_t *group(const json_t *step, const char *op, const char *label) {
    const json_t *list = json_object_get(step, "groups");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        if (strcmp(json_string_value(json_object_get(row, "op")), op) == 0 &&
            strcmp(json_string_value(json_object_get(row, "label")), label) == 0) {
            return row;
        }
    }
    fail_msg("no operation %s %s", op, label);
    return NULL;
}

// More sequences read their own cache but share the weights, except for the experts they choose.
static void test_batch(void **state) {
    (void)state;
    fixture f = make_fixture();
    const known *k = &models[N_MODELS - 2]; // 30B-A3B
    published_shape_write(&k->shape, &f.folder);
    f.options = (tally_plan_options){.device = f.device, .context = 1000};
    json_t *one = plan(f.folder.path, &f.options);
    f.options.batch = 16;
    json_t *many = plan(f.folder.path, &f.options);
    const json_t *a = json_object_get(one, "decode"), *b = json_object_get(many, "decode");
    near("batch", "kv", at(many, "kv_bytes"), 16 * at(one, "kv_bytes"), 0);
    near("batch", "kv blocks", at(one, "kv_bytes"), 1024 * at(one, "kv_bytes_per_position"), 0);
    near("batch", "cache read", at(group(b, "ATTENTION", "ATTENTION"), "cache_bytes"),
         16 * 1000 * at(one, "kv_bytes_per_position"), 0);
    near("batch", "attn_o", at(group(b, "LINEAR", "attn_o"), "weight_bytes"),
         at(group(a, "LINEAR", "attn_o"), "weight_bytes"), 0);
    near("batch", "attn_o", at(group(b, "LINEAR", "attn_o"), "flops"), 16 * at(group(a, "LINEAR", "attn_o"), "flops"),
         0);
    double bytes = 2.0 * k->shape.hidden * k->shape.expert_ffn * k->shape.layers,
           touched = 128 * (1 - pow(1 - 8.0 / 128, 16));
    near("batch", "experts of one", at(group(a, "EXPERT_LINEAR", "ffn_down_exps"), "weight_bytes"), 8 * bytes, 0);
    near("batch", "experts", at(group(b, "EXPERT_LINEAR", "ffn_down_exps"), "weight_bytes"), touched * bytes,
         0.5 * k->shape.layers);
    near("batch", "tokens/s", at(b, "tokens_per_s"), 16 / at(b, "time_s"), 1e-6);
    json_decref(one);
    json_decref(many);
    temp_folder_remove(&f.folder);
}

static void test_options(void **state) {
    (void)state;
    fixture f = make_fixture();
    published_shape_write(&models[2].shape, &f.folder); // 0.5B
    f.options = (tally_plan_options){.device = f.device};
    json_t *p = plan(f.folder.path, &f.options);
    near("defaults", "context", at(p, "context"), 4096, 0);
    near("defaults", "prompt", at(p, "prompt"), 512, 0);
    near("defaults", "batch", at(p, "batch"), 1, 0);
    double flops = at(json_object_get(p, "prefill"), "flops"), launches = at(json_object_get(p, "decode"), "launches");
    near("prefill", "tokens/s", at(json_object_get(p, "prefill"), "tokens_per_s"),
         512 / at(json_object_get(p, "prefill"), "time_s"), 1e-6);
    json_decref(p);
    f.options.no_fuse = true;
    f.options.cache_k = "q8_0";
    p = plan(f.folder.path, &f.options);
    assert_true(at(json_object_get(p, "decode"), "launches") > launches);
    double unfused =
        at(json_object_get(p, "prefill"), "flops"); // 24 layers, of which the last one works for one row if it may
    assert_true(unfused > 1.02 * flops && unfused < (1 + 1.0 / 23) * flops);
    near("q8_0 keys", "KV", at(p, "kv_bytes_per_position"), 24 * 2 * (64 / 32 * 34 + 64 * 2), 0);
    json_decref(p);
    f.options = (tally_plan_options){.device = f.device, .prompt = 8192, .type = "q8_0"};
    p = plan(f.folder.path, &f.options);
    near("long prompt", "context", at(p, "context"), 8192, 0);
    near("q8_0", "norm", at(group(json_object_get(p, "decode"), "ADD_RMS_NORM", "output_norm"), "weight_bytes"),
         896 * 4, 0);
    near("q8_0", "bits", at(p, "weights_bytes") * 8 / at(p, "n_params"), 8.5, 0.01);
    json_decref(p);
    f.options.type = "q4_k"; // 896 inputs are no multiple of 256: those go to Q5_0, the others (ffn_down) stay
    p = plan(f.folder.path, &f.options);
    near("q4_k", "ffn_down", at(group(json_object_get(p, "decode"), "LINEAR", "ffn_down"), "weight_bytes"),
         24.0 * 896 * 4864 / 256 * 144, 0);
    near("q4_k", "head", at(group(json_object_get(p, "decode"), "LINEAR", "token_embd"), "weight_bytes"),
         151936.0 * 896 / 32 * 22, 0);
    json_decref(p);
    temp_folder_remove(&f.folder);
}

// A device of one kind of weakness is bound by it.
static void test_bounds(void **state) {
    (void)state;
    static const struct {
        const char *numbers, *bound;
    } cases[] = {
        {"\"bandwidth_bytes_per_s\": 1e7, \"flops\": {\"f32\": 1e15}, \"launch_s\": 0", "memory"},
        {"\"bandwidth_bytes_per_s\": 1e15, \"flops\": {\"f32\": 1e7}, \"launch_s\": 0", "compute"},
        {"\"bandwidth_bytes_per_s\": 1e15, \"flops\": {\"f32\": 1e15}, \"launch_s\": 1", "launch"},
    };
    fixture f = make_fixture();
    published_shape_write(&models[2].shape, &f.folder);
    f.options = (tally_plan_options){.device = f.device, .context = 512};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        snprintf(text, sizeof text, "{\"name\": \"test\", \"memory_bytes\": 1e6, %s}", cases[i].numbers);
        temp_folder_write_text(&f.folder, "device.txt", text);
        json_t *p = plan(f.folder.path, &f.options);
        static const char *const steps[] = {"prefill", "decode"};
        for (int s = 0; s < 2; s++) {
            const json_t *step = json_object_get(p, steps[s]);
            assert_string_equal(json_string_value(json_object_get(step, "bound")), cases[i].bound);
            double expected = i == 0   ? at(step, "bytes") / 1e7
                              : i == 1 ? at(step, "flops") / 1e7
                                       : at(step, "launches");
            near(cases[i].bound, "time", at(step, "time_s"), expected, 0.01 * expected);
        }
        assert_true(json_is_false(json_object_get(p, "fits")));
        json_decref(p);
    }
    temp_folder_remove(&f.folder);
}

// ---- files ---------------------------------------------------------------------------------------------------------------

// config.json alone, named by folder or by file, plans what the whole checkpoint does.
static void test_config_alone(void **state) {
    (void)state;
    static const char *const variants[] = {"qwen2-tied", "qwen3moe-e16k4-norm"};
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        fixture f = make_fixture();
        temp_folder config = temp_folder_make();
        tiny_model m = tiny_model_read(variants[i]);
        tiny_model_write_folder(&m, f.folder.path, DTYPE_F16, 1);
        json_object_set_new(m.config, "dtype", json_string("float16"));
        char *text = json_dumps(m.config, 0);
        temp_folder_write_text(&config, "config.json", text);
        free(text);
        f.options = (tally_plan_options){.device = f.device, .context = 32, .prompt = 8};
        json_t *full = plan(f.folder.path, &f.options),
               *alone = plan(temp_folder_path(&config, "config.json"), &f.options);
        assert_string_equal(json_string_value(json_object_get(full, "weights")), "checkpoint");
        assert_string_equal(json_string_value(json_object_get(alone, "weights")), "F16");
        assert_true(json_equal(json_object_get(full, "prefill"), json_object_get(alone, "prefill")));
        assert_true(json_equal(json_object_get(full, "decode"), json_object_get(alone, "decode")));
        near(variants[i], "weights", at(full, "weights_bytes"), at(alone, "weights_bytes"), 0);
        json_decref(full);
        json_decref(alone);
        tiny_model_free(&m);
        temp_folder_remove(&config);
        temp_folder_remove(&f.folder);
    }
}

static double file_bytes(const char *path) {
    checkpoint *ck;
    error err;
    if (checkpoint_open(&ck, path, NULL, 0, &err)) fail_msg("%s", err.text);
    if (checkpoint_load_tensors(ck, true, &err)) fail_msg("%s", err.text);
    double n = (double)checkpoint_n_bytes(ck);
    checkpoint_close(ck);
    return n;
}

// The weights of a file are its tensors and the table of frequencies; the type they have is the type they are planned with.
static void test_gguf(void **state) {
    (void)state;
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_K};
    fixture f = make_fixture();
    char path[400];
    snprintf(path, sizeof path, "%s", temp_folder_path(&f.folder, "model.gguf"));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        for (int moe = 0; moe < 2; moe++) {
            tiny_random_gguf(path, types[i], moe, 3);
            f.options = (tally_plan_options){.device = "ascend-a3", .context = 64, .tp = 2};
            json_t *none; // ranks are planned by shapes alone, so the type is asked for
            tally_error err;
            assert_int_equal(try_plan(path, &f.options, &none, &err), TALLY_BAD_ARGUMENT);
            assert_non_null(strstr(err.text, "--type"));
            f.options = (tally_plan_options){.device = f.device, .context = 64};
            json_t *own = plan(path, &f.options);
            near(dtype_get(types[i])->name, "weights", at(own, "weights_bytes"), file_bytes(path) + 64 / 2 * 4, 0);
            check_sums(dtype_get(types[i])->name, json_object_get(own, "decode"));
            assert_string_equal(json_string_value(json_object_get(own, "cache_k")),
                                types[i] == DTYPE_F32 ? "F32" : "F16");
            f.options.type = dtype_get(types[i])->name; // files of plain 16-bit types have F32 vectors in GGUF
            json_t *same = plan(path, &f.options);
            if (types[i] != DTYPE_BF16)
                near(f.options.type, "assumed", at(same, "weights_bytes"), at(own, "weights_bytes"), 0);
            json_decref(same);
            f.options.type = "q5_0";
            json_t *assumed = plan(path, &f.options);
            assert_string_equal(json_string_value(json_object_get(assumed, "weights")), "Q5_0");
            assert_true(at(assumed, "weights_bytes") != at(own, "weights_bytes"));
            json_decref(own);
            json_decref(assumed);
        }
    }
    temp_folder_remove(&f.folder);
}

// ---- refusals ------------------------------------------------------------------------------------------------------------

static void refuse(fixture *f, tally_plan_options o, tally_status code, const char *part) {
    tally_error err = {0};
    json_t *out;
    tally_status s = try_plan(f->folder.path, &o, &out, &err);
    if (s != code || !strstr(err.text, part))
        fail_msg("status %d, not %d, or '%s' is not in: %s", s, code, part, err.text);
}

static void test_refusals(void **state) {
    (void)state;
    fixture f = make_fixture();
    const char *d = f.device;
    published_shape_write(&models[2].shape, &f.folder);
    refuse(&f, (tally_plan_options){.device = NULL}, TALLY_BAD_ARGUMENT, "docs/devices");
    refuse(&f, (tally_plan_options){.device = "none.json"}, TALLY_NOT_FOUND, "none.json");
    refuse(&f, (tally_plan_options){.device = d, .context = 40961}, TALLY_BAD_ARGUMENT, "40960");
    refuse(&f, (tally_plan_options){.device = d, .context = -1}, TALLY_BAD_ARGUMENT, "-1");
    refuse(&f, (tally_plan_options){.device = d, .context = 64, .prompt = 65}, TALLY_BAD_ARGUMENT, "65");
    refuse(&f, (tally_plan_options){.device = d, .batch = 65537}, TALLY_BAD_ARGUMENT, "65537");
    refuse(&f, (tally_plan_options){.device = d, .type = "q9"}, TALLY_BAD_ARGUMENT, "IQ4_XS");
    refuse(&f, (tally_plan_options){.device = d, .type = "i32"}, TALLY_BAD_ARGUMENT, "i32");
    refuse(&f, (tally_plan_options){.device = d, .cache_k = "q4_0"}, TALLY_BAD_ARGUMENT, "-ctk");
    temp_folder_write_text(&f.folder, "device.txt", "{}");
    refuse(&f, (tally_plan_options){.device = d}, TALLY_BAD_FILE, "name");
    // an index without its files is a broken download, not a bare configuration
    temp_folder_write_text(&f.folder, "device.txt", device_text);
    temp_folder_write_text(&f.folder, "model.safetensors.index.json",
                           "{\"weight_map\": {\"model.norm.weight\": \"model-00001-of-00001.safetensors\"}}");
    refuse(&f, (tally_plan_options){.device = d}, TALLY_NOT_FOUND, "model-00001-of-00001.safetensors");
    json_t *p = plan(f.folder.path, &(tally_plan_options){.device = d, .type = "bf16"});
    json_decref(p);
    temp_folder_remove(&f.folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_sizes), cmocka_unit_test(test_batch),        cmocka_unit_test(test_options),
        cmocka_unit_test(test_bounds),          cmocka_unit_test(test_config_alone), cmocka_unit_test(test_gguf),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
