// tally_plan: the operation list of a prefill and of a decode step, run on the cost backend and told as JSON.
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/backends.h"
#include "engine/engine.h"
#include "engine/plan_tables.h"
#include "model/rank.h"
#include "op/plan.h"

enum { DEFAULT_CONTEXT = 4096, DEFAULT_PROMPT = 512, MAX_ROWS = 1 << 20, MAX_BATCH = 1 << 16, MAX_RANKS = 1024 };

typedef struct planning {
    const tally_model *source;
    int context, prompt, batch, n_ranks;
    bool from_checkpoint;
    dtype assumed;     // type of the weights when not from_checkpoint
    model model;       // what one rank holds and does
    model whole_model; // empty when there is one rank
    const model *whole;
    backend *device; // owned
    step_limits limits;
    int64_t weights_bytes;
    memory_use use;
} planning;

// ---- options -------------------------------------------------------------------------------------------------------------

static status choose(const char *what, int given, int otherwise, int max, int *out, error *err) {
    *out = given ? given : otherwise < max ? otherwise : max;
    if (*out >= 1 && *out <= max) return STATUS_OK;
    return error_set(err, STATUS_BAD_ARGUMENT, "%s is %d, it must be between 1 and %d", what, *out, max);
}

static status read_options(planning *p, const tally_plan_options *o, error *err) {
    if (!o->device) {
        return error_set(err, STATUS_BAD_ARGUMENT,
                         "a plan needs a device: its name, or a file that describes it; docs/devices holds examples");
    }
    int most = p->source->config.context_length;
    int wanted = o->prompt > DEFAULT_CONTEXT ? o->prompt : DEFAULT_CONTEXT;
    TRY(choose("the context (limited by what the model was made for)", o->context, wanted, most, &p->context, err));
    int rows = p->context < MAX_ROWS ? p->context : MAX_ROWS;
    TRY(choose("the rows of the prompt (limited by the context)", o->prompt, DEFAULT_PROMPT, rows, &p->prompt, err));
    TRY(choose("the ranks (--tp)", o->tp, 1, MAX_RANKS, &p->n_ranks, err));
    return choose("the sequences of the decode step", o->batch, 1, MAX_BATCH, &p->batch, err);
}

// ---- weights: of the checkpoint, or assumed ------------------------------------------------------------------------------

// The type that config.json names; BF16, the habit of today's models, where it names none.
static status config_type(const tally_model *m, dtype *out, error *err) {
    static const struct {
        const char *name;
        dtype type;
    } types[] = {{"bfloat16", DTYPE_BF16}, {"float16", DTYPE_F16}, {"float32", DTYPE_F32}};
    char *text;
    size_t len;
    *out = DTYPE_BF16;
    TRY(checkpoint_read_file(m->ck, "config.json", &text, &len, err));
    json_t *root = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    const char *name = json_string_value(json_object_get(root, "dtype"));
    if (!name) name = json_string_value(json_object_get(root, "torch_dtype"));
    for (size_t i = 0; name && i < sizeof types / sizeof *types; i++) {
        if (strcmp(name, types[i].name) == 0) *out = types[i].type;
    }
    json_decref(root);
    free(text);
    return STATUS_OK;
}

static status type_from_name(const char *name, dtype *out, error *err) {
    if (dtype_from_name(str_from(name), out) && dtype_get(*out)->to_f32) return STATUS_OK;
    strbuf names = {0};
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (dtype_get((dtype)i)->to_f32) strbuf_addf(&names, "%s%s", names.len ? ", " : "", dtype_get((dtype)i)->name);
    }
    status s =
        error_set(err, STATUS_BAD_ARGUMENT, "there is no weight type %s; the types are %s", name, strbuf_text(&names));
    strbuf_deinit(&names);
    return s;
}

static bool has_file(const checkpoint *ck, const char *name) {
    char *text;
    size_t len;
    status s = checkpoint_read_file(ck, name, &text, &len, NULL);
    free(text);
    return s != STATUS_NOT_FOUND;
}

// A folder that was never meant to hold weights is planned from its configuration; one with an index whose files are missing is
// an incomplete download, and told so. Slices of weights are planned by shape alone, so ranks look at no tensors.
static status choose_weights(planning *p, const char *type, error *err) {
    checkpoint *ck = p->source->ck;
    if (type) return type_from_name(type, &p->assumed, err);
    if (p->n_ranks > 1 && checkpoint_gguf(ck)) {
        return error_set(err, STATUS_BAD_ARGUMENT,
                         "a plan for %d ranks assumes one type of weights, and a GGUF file may mix several; name one "
                         "with --type",
                         p->n_ranks);
    }
    if (p->n_ranks > 1) return config_type(p->source, &p->assumed, err);
    status s = checkpoint_load_tensors(ck, true, err);
    p->from_checkpoint = s == STATUS_OK;
    if (s != STATUS_NOT_FOUND || checkpoint_gguf(ck) || has_file(ck, "model.safetensors.index.json")) return s;
    return config_type(p->source, &p->assumed, err);
}

// ---- the plan ------------------------------------------------------------------------------------------------------------

static int64_t blocks_of(const planning *p) {
    return (int64_t)p->batch * (((int64_t)p->context + KV_BLOCK - 1) / KV_BLOCK);
}

// The calls of a load, in the order every backend is used.
static status prepare(planning *p, error *err) {
    const backend_vtable *vt = p->device->vt;
    model *m = &p->model;
    for (int i = 0; i < m->list.n_ops; i++) TRY(vt->supports(p->device, &m->list.ops[i], &m->weights, err));
    if (blocks_of(p) > INT_MAX) {
        return error_set(err, STATUS_BAD_ARGUMENT,
                         "%d sequences of %d positions need %lld cache blocks, more than %d; lower one of them",
                         p->batch, p->context, (long long)blocks_of(p), INT_MAX);
    }
    p->limits = (step_limits){.max_rows = p->prompt > p->batch ? p->prompt : p->batch,
                              .max_out = p->batch,
                              .n_blocks = (int)blocks_of(p),
                              .max_context = p->context};
    TRY(plan_memory(&m->list, p->limits.max_rows, p->limits.max_out, &p->use.temporaries, err));
    p->use.cache = blocks_of(p) * vt->block_bytes(p->device, &m->cache);
    for (int i = 0; i < m->weights.n; i++) {
        if (m->weights.w[i].absorbed) continue;
        p->weights_bytes += vt->weight_bytes(p->device, &m->weights.w[i]);
        TRY(vt->weight_upload(p->device, &m->weights, i, err));
    }
    p->use.exchange = vt->scratch_bytes(p->device, &m->list, &p->limits);
    return vt->prepare(p->device, &m->list, p->use.temporaries, &m->cache, &p->limits, err);
}

static status build_models(planning *p, unsigned passes, error *err) {
    const model_config *config = &p->source->config;
    p->whole = &p->model;
    if (p->n_ranks == 1)
        return model_build(&p->model, config, p->from_checkpoint ? p->source->ck : NULL, p->assumed, passes, err);
    model_config *one = malloc(sizeof *one);
    if (!one) return error_no_memory(err, sizeof *one);
    status s = rank_config(config, p->n_ranks, one, err);
    p->whole = &p->whole_model;
    if (!s) s = model_build(&p->whole_model, config, NULL, p->assumed, passes, err);
    if (!s) s = model_build(&p->model, one, NULL, p->assumed, passes, err);
    free(one);
    return s ? s : plan_check_slices(p->whole, &p->model, p->n_ranks, err);
}

static status plan_init(planning *p, const tally_plan_options *o, error *err) {
    const tally_model *source = p->source;
    if (!source->has_config) return error_set(err, source->why_no_config.code, "%s", source->why_no_config.text);
    TRY(read_options(p, o, err));
    TRY(choose_weights(p, o->type, err));
    TRY(backends_create_cost(&p->device, o->device, p->n_ranks, err));
    TRY(build_models(p, o->no_fuse ? 0 : backends_cost_hardware(p->device)->passes, err));
    // an NPU's cache is of the weights' type
    dtype type = model_layer_type(&p->model);
    bool half = type == DTYPE_BF16 || type == DTYPE_F16;
    const char *own = backends_named_device(o->device) && half ? dtype_get(type)->name : NULL;
    TRY(engine_plan_cache_types(&p->model, o->cache_k ? o->cache_k : own, o->cache_v ? o->cache_v : own, err));
    return prepare(p, err);
}

// One step: rows at positions [first, first + n_rows) of each of n_seqs sequences, logits of the last row of each.
static status run_step(planning *p, int n_seqs, int n_rows, int first, error *err) {
    size_t n = (size_t)n_seqs * (size_t)n_rows;
    int32_t *numbers = calloc(3 * n + (size_t)n_seqs, sizeof *numbers);
    if (!numbers) return error_no_memory(err, (3 * n + (size_t)n_seqs) * sizeof *numbers);
    int32_t *pos = numbers + n, *seq = pos + n, *out = seq + n;
    for (size_t r = 0; r < n; r++) {
        seq[r] = (int32_t)(r / (size_t)n_rows);
        pos[r] = (int32_t)(r % (size_t)n_rows) + first;
    }
    for (int s = 0; s < n_seqs; s++) out[s] = (s + 1) * n_rows - 1;
    // costs follow from lengths, so no block is ever looked up and there are no tables
    step_inputs in = {
        .n_rows = (int)n, .n_out = n_seqs, .n_seqs = n_seqs, .token = numbers, .pos = pos, .seq = seq, .out_row = out};
    step_result result;
    status s = p->device->vt->run(p->device, &in, &result, err);
    free(numbers);
    return s;
}

// ---- JSON ----------------------------------------------------------------------------------------------------------------

static json_t *whole(double x) { return json_integer((json_int_t)llround(x)); }

static const char *bound_of(const op_cost *c) {
    if (c->link_s > c->memory_s && c->link_s > c->compute_s && c->link_s > c->launch_s) return "link";
    if (c->launch_s > c->memory_s && c->launch_s > c->compute_s) return "launch";
    return c->compute_s > c->memory_s ? "compute" : "memory";
}

// Adds the fields that every operation, group and sum has.
static json_t *with_cost(json_t *o, const op_cost *c) {
    json_object_set_new(o, "launches", whole(c->launches));
    json_object_set_new(o, "flops", whole(op_cost_flops(c)));
    json_object_set_new(o, "bytes", whole(op_cost_bytes(c)));
    json_object_set_new(o, "weight_bytes", whole(c->weight_bytes));
    json_object_set_new(o, "activation_bytes", whole(c->activation_bytes));
    json_object_set_new(o, "cache_bytes", whole(c->cache_bytes));
    json_object_set_new(o, "time_s", json_real(op_cost_time(c)));
    json_object_set_new(o, "memory_s", json_real(c->memory_s));
    json_object_set_new(o, "compute_s", json_real(c->compute_s));
    json_object_set_new(o, "launch_s", json_real(c->launch_s));
    json_object_set_new(o, "collectives", whole(c->collectives));
    json_object_set_new(o, "link_bytes", whole(c->link_bytes));
    json_object_set_new(o, "link_s", json_real(c->link_s));
    json_object_set_new(o, "bound", json_string(bound_of(c)));
    return o;
}

static json_t *ops_json(const planning *p, const step_cost *costs) {
    json_t *list = json_array();
    for (int i = 0; i < costs->n_ops; i++) {
        const op *o = &p->model.list.ops[i];
        json_t *row = json_pack("{s:s, s:s, s:i}", "op", opcode_name(o->code), "label", o->label, "layer", o->layer);
        json_array_append_new(list, with_cost(row, &costs->op[i]));
    }
    return list;
}

static bool same_group(const op *a, const op *b) {
    return a->code == b->code && (a->layer < 0) == (b->layer < 0) && strcmp(a->label, b->label) == 0;
}

// Sums over the layers of what has one label, in the order of the first of them.
static json_t *groups_json(const planning *p, const step_cost *costs) {
    const op *ops = p->model.list.ops;
    json_t *list = json_array();
    for (int i = 0; i < costs->n_ops; i++) {
        bool first = true;
        for (int j = 0; j < i && first; j++) first = !same_group(&ops[i], &ops[j]);
        if (!first) continue;
        op_cost sum = {0};
        int n = 0;
        for (int j = i; j < costs->n_ops; j++) {
            if (same_group(&ops[i], &ops[j])) op_cost_add(&sum, &costs->op[j]), n++;
        }
        json_t *row = json_pack("{s:s, s:s, s:i}", "op", opcode_name(ops[i].code), "label", ops[i].label, "count", n);
        json_array_append_new(list, with_cost(row, &sum));
    }
    return list;
}

static const char *kind_of_layer(const planning *p, int layer) {
    if (layer < 0) return "outside";
    return p->model.config.layer_is_moe[layer] ? "moe" : "dense";
}

// layer -1 .. n_layers-1; -1 is what lies outside of the layers
static op_cost sum_of_layer(const planning *p, const step_cost *costs, int layer) {
    op_cost sum = {0};
    for (int i = 0; i < costs->n_ops; i++) {
        if (p->model.list.ops[i].layer == layer) op_cost_add(&sum, &costs->op[i]);
    }
    return sum;
}

static void add_layers(const planning *p, const step_cost *costs, json_t *step) {
    static const char *const names[] = {"outside", "dense", "moe"};
    enum { N_KINDS = sizeof names / sizeof *names };
    op_cost sums[N_KINDS];
    int counts[N_KINDS] = {0};
    memset(sums, 0, sizeof sums);
    json_t *layers = json_array(), *kinds = json_array();
    for (int layer = -1; layer < p->model.config.n_layers; layer++) {
        const char *kind = kind_of_layer(p, layer);
        op_cost sum = sum_of_layer(p, costs, layer);
        for (int k = 0; k < N_KINDS; k++) {
            if (strcmp(names[k], kind) == 0) op_cost_add(&sums[k], &sum), counts[k]++;
        }
        json_array_append_new(layers, with_cost(json_pack("{s:i, s:s}", "layer", layer, "kind", kind), &sum));
    }
    for (int k = 0; k < N_KINDS; k++) {
        if (!counts[k]) continue;
        json_array_append_new(kinds,
                              with_cost(json_pack("{s:s, s:i}", "kind", names[k], "count", counts[k]), &sums[k]));
    }
    json_object_set_new(step, "kinds", kinds);
    json_object_set_new(step, "layers", layers);
}

// Of the run that was the last.
static json_t *step_json(const planning *p, int n_seqs, int n_rows, int first) {
    const step_cost *costs = backends_cost_last(p->device);
    double time = op_cost_time(&costs->total);
    json_t *o = json_pack("{s:i, s:i, s:i}", "sequences", n_seqs, "rows", n_seqs * n_rows, "first_position", first);
    with_cost(o, &costs->total);
    json_object_set_new(o, "tokens_per_s", json_real(n_seqs * n_rows / time));
    add_layers(p, costs, o);
    json_object_set_new(o, "groups", groups_json(p, costs));
    json_object_set_new(o, "ops", ops_json(p, costs));
    return o;
}

// With the notes of devices that come with the program: where their numbers are from.
static json_t *device_json(const hardware *h, const char *given) {
    const char *text = backends_named_device(given);
    json_t *flops = json_pack("{s:f, s:f, s:f, s:f}", "f32", h->flops[FLOPS_F32], "f16", h->flops[FLOPS_F16], "bf16",
                              h->flops[FLOPS_BF16], "int8", h->flops[FLOPS_INT8]);
    json_t *o = json_pack("{s:s, s:o, s:f, s:o, s:f}", "name", h->name, "memory_bytes", whole(h->memory_bytes),
                          "bandwidth_bytes_per_s", h->bandwidth, "flops", flops, "launch_s", h->launch_s);
    if (h->link_bandwidth > 0) {
        json_object_set_new(o, "ranks_link",
                            json_pack("{s:f, s:f, s:f}", "bandwidth_bytes_per_s", h->link_bandwidth, "latency_s",
                                      h->link_latency_s, "collective_s", h->collective_s));
    }
    if (text) {
        json_t *described = json_loads(text, 0, NULL);
        json_object_set(o, "notes", json_object_get(described, "notes"));
        json_decref(described);
    }
    return o;
}

// Parameters that one token meets: all but the experts it does not choose.
static int64_t active_params(const model *m) {
    int64_t sum = m->n_params;
    for (int i = 0; i < m->weights.n; i++) {
        const weight *w = &m->weights.w[i];
        if (!w->absorbed && w->role == WEIGHT_EXPERTS) sum -= (w->n_experts - m->config.n_experts_used) * w->n * w->k;
    }
    return sum;
}

static json_t *plan_json(const planning *p, const char *device) {
    const model *m = &p->model;
    const hardware *h = backends_cost_hardware(p->device);
    json_t *o = json_pack("{s:o, s:s, s:s, s:i, s:I, s:I}", "model", json_text(checkpoint_path(p->source->ck)), "arch",
                          m->config.arch, "weights", p->from_checkpoint ? "checkpoint" : dtype_get(p->assumed)->name,
                          "n_layers", m->config.n_layers, "n_params", (json_int_t)p->whole->n_params, "n_params_active",
                          (json_int_t)active_params(p->whole));
    json_object_set_new(o, "device", device_json(h, device));
    json_object_set_new(o, "ranks", plan_ranks_json(p->whole, m, p->n_ranks));
    json_object_set_new(o, "context", json_integer(p->context));
    json_object_set_new(o, "prompt", json_integer(p->prompt));
    json_object_set_new(o, "batch", json_integer(p->batch));
    json_object_set_new(o, "cache_k", json_string(dtype_get(m->cache.k_type)->name));
    json_object_set_new(o, "cache_v", json_string(dtype_get(m->cache.v_type)->name));
    json_object_set_new(o, "weights_bytes", json_integer(p->weights_bytes));
    json_object_set_new(o, "kv_bytes", json_integer(p->use.cache));
    json_object_set_new(o, "kv_bytes_per_position",
                        json_integer(p->device->vt->block_bytes(p->device, &m->cache) / KV_BLOCK));
    int64_t workspace = p->use.temporaries + p->use.exchange;
    json_object_set_new(o, "workspace_bytes", json_integer(workspace));
    json_object_set_new(o, "memory", plan_memory_json(m, p->device, &p->use));
    double needed = (double)p->weights_bytes + (double)p->use.cache + (double)workspace;
    json_object_set_new(o, "fits", json_boolean(needed <= h->memory_bytes));
    return o;
}

static status build(planning *p, const char *device, char **out, error *err) {
    json_t *o = plan_json(p, device);
    status s = run_step(p, 1, p->prompt, 0, err);
    if (!s) json_object_set_new(o, "prefill", step_json(p, 1, p->prompt, 0));
    if (!s) s = run_step(p, p->batch, 1, p->context - 1, err);
    if (!s) json_object_set_new(o, "decode", step_json(p, p->batch, 1, p->context - 1));
    if (!s) { // of the decode step
        const op_cost *c = &backends_cost_last(p->device)->total;
        json_object_set_new(o, "launches", whole(c->launches));
        json_object_set_new(o, "collectives", whole(c->collectives));
    }
    *out = s || !o ? NULL : json_dumps(o, JSON_INDENT(1));
    json_decref(o);
    if (s || *out) return s;
    return error_set(err, STATUS_NO_MEMORY, "out of memory while describing the plan");
}

tally_status tally_plan(const tally_model *m, const tally_plan_options *options, char **json, tally_error *user_err) {
    planning p = {.source = m};
    *json = NULL;
    status s = plan_init(&p, options, (error *)user_err);
    if (!s) s = build(&p, options->device, json, (error *)user_err);
    if (p.device) p.device->vt->destroy(p.device);
    model_deinit(&p.model);
    model_deinit(&p.whole_model);
    return (tally_status)s;
}
