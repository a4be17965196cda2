// Fuzzes configurations: up to the first zero byte config.json, up to the second generation_config.json, the rest a description of
// a device (docs/plan.md). What is accepted is planned, which builds the model's whole operation list from its numbers.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "file/hf.h"
#include "tally.h"
#include "tests/fuzz/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char DEVICE[] =
    "{\"name\":\"d\",\"memory_bytes\":16e9,\"bandwidth_bytes_per_s\":50e9,\"flops\":{\"f32\":4e11},"
    "\"launch_s\":5e-6}";

static str next_part(str *rest) {
    const char *zero = rest->len ? memchr(rest->data, 0, rest->len) : NULL;
    str part = {rest->data, zero ? (size_t)(zero - rest->data) : rest->len};
    size_t used = part.len + (zero ? 1 : 0);
    *rest = (str){rest->data + used, rest->len - used};
    return part;
}

// A failure has its one sentence.
static void must_say(int st, const char *sentence) {
    if (st && (!sentence[0] || strchr(sentence, '\n'))) abort();
}

static void check_config(const model_config *c) {
    if (c->n_vocab <= 0 || c->dim <= 0 || c->n_layers <= 0 || c->n_layers > MAX_LAYERS || c->head_dim <= 0) abort();
    if (c->n_kv_heads <= 0 || c->n_heads % c->n_kv_heads || c->n_experts_used > c->n_experts) abort();
    if (c->n_stop_ids < 0 || c->n_stop_ids > MAX_STOP_IDS || c->rope.dim % 2 || c->rope.dim > c->head_dim) abort();
}

static void plan(str config, str generation, str device) {
    char device_path[512];
    scratch_open();
    scratch_path(device_path, "device.json");
    scratch_write("config.json", config);
    scratch_write("generation_config.json", generation.len ? generation : STR("{}"));
    scratch_write("device.json", device.len ? device : str_from(DEVICE));
    tally_model *model;
    tally_error err = {0};
    char *json;
    tally_status st = tally_model_open(&model, scratch, &err);
    if (!st) {
        tally_engine_options options = {0};
        st = tally_inspect(model, &options, &json, &err);
        if (!st) tally_free(json);
        must_say(st, err.text);
        tally_plan_options how = {.device = device_path};
        st = tally_plan(model, &how, &json, &err);
        if (!st) tally_free(json);
        tally_model_close(model);
    }
    must_say(st, err.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static model_config config;
    str rest = {(const char *)data, size};
    str text = next_part(&rest), generation = next_part(&rest);
    hf_text c = {text.data, text.len, "config.json"}, g = {generation.data, generation.len, "generation_config.json"};
    error err = {0};
    status st = hf_read_config(&config, &c, generation.len ? &g : NULL, &err);
    must_say(st, err.text);
    if (st) return 0;
    check_config(&config);
    plan(text, generation, rest);
    return 0;
}
