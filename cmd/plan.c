// tally plan: what a prefill and a decode step cost on a described device, from a configuration alone.
#include <jansson.h>
#include <string.h>

#include "cmd/commands.h"
#include "cmd/common.h"

static double number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static const char *text(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "?";
}

enum { NAME_WIDTH = 42 };

static void print_heading(const char *name) {
    printf("  %-*s %6s %8s %12s %11s %11s %11s %10s %6s  %s\n", NAME_WIDTH, name, "count", "launches", "GFLOP",
           "weights MB", "activ. MB", "cache MB", "time ms", "share", "bound");
}

// One row of a step's table; the numbers are divided by `by`.
static void print_costs(const json_t *row, const char *name, double count, double by, double step_s) {
    printf("  %-*s ", NAME_WIDTH, name);
    if (count > 0) {
        printf("%6.0f ", count);
    } else {
        printf("%6s ", "");
    }
    printf("%8.0f %12.6f %11.3f %11.3f %11.3f %10.4f %5.1f%%  %s\n", number(row, "launches") / by,
           number(row, "flops") / by / 1e9, number(row, "weight_bytes") / by / 1e6,
           number(row, "activation_bytes") / by / 1e6, number(row, "cache_bytes") / by / 1e6,
           number(row, "time_s") / by * 1e3, 100 * number(row, "time_s") / step_s, text(row, "bound"));
}

static void print_op_name(const json_t *row, char *name, size_t size) {
    const char *op = text(row, "op"), *label = text(row, "label");
    const json_t *layer = json_object_get(row, "layer");
    char where[32] = "";
    if (json_is_integer(layer) && json_integer_value(layer) >= 0) {
        snprintf(where, sizeof where, "%lld.", (long long)json_integer_value(layer));
    }
    snprintf(name, size, "%s%s%s%s", where, op, strcmp(op, label) ? " " : "", strcmp(op, label) ? label : "");
}

static void print_step(const json_t *step, const char *title, bool per_op, bool predicted) {
    double step_s = number(step, "time_s");
    char name[128];
    size_t i;
    json_t *row;
    printf("\n%s\n", title);
    print_heading("operation");
    const json_t *rows = json_object_get(step, per_op ? "ops" : "groups");
    json_array_foreach(rows, i, row) {
        print_op_name(row, name, sizeof name);
        print_costs(row, name, number(row, "count"), 1, step_s);
    }
    print_heading("one layer (share: all of its kind)");
    rows = json_object_get(step, "kinds");
    json_array_foreach(rows, i, row) {
        bool outside = strcmp(text(row, "kind"), "outside") == 0;
        snprintf(name, sizeof name, outside ? "%s of the layers" : "%s layer", text(row, "kind"));
        print_costs(row, name, number(row, "count"), number(row, "count"), step_s);
    }
    print_costs(step, "the step", 0, 1, step_s);
    printf("  %.1f GB/s, %.1f GFLOP/s; bound by memory %.1f %%, arithmetic %.1f %%, launches %.1f %%\n",
           number(step, "bytes") / step_s / 1e9, number(step, "flops") / step_s / 1e9,
           100 * number(step, "memory_s") / step_s, 100 * number(step, "compute_s") / step_s,
           100 * number(step, "launch_s") / step_s);
    if (number(step, "collectives") > 0) {
        printf("  between ranks: %.0f collectives, %.3f MB to each, %.4f ms (%.1f %%)\n", number(step, "collectives"),
               number(step, "link_bytes") / 1e6, number(step, "link_s") * 1e3, 100 * number(step, "link_s") / step_s);
    }
    printf("  %.4f ms, %.2f tokens/s%s\n", step_s * 1e3, number(step, "tokens_per_s"),
           predicted ? ": a prediction of the cost model, never measured: no NPU was at hand" : "");
}

static void print_ranks(const json_t *r, double n_layers) {
    double n = number(r, "n"), copies = number(r, "kv_copies");
    if (n <= 1) return;
    printf("ranks      %.0f; one holds %.0f query heads, %.0f key/value heads", n, number(r, "heads"),
           number(r, "kv_heads"));
    if (copies > 1) printf(" (each on %.0f ranks)", copies);
    if (number(r, "expert_columns") > 0) {
        printf(", %.0f columns of each of %.0f experts", number(r, "expert_columns"), number(r, "experts"));
    } else {
        printf(", %.0f feed-forward columns", number(r, "ffn_columns"));
    }
    printf(" in %.0f layers,\n           %.0f rows of the head, the whole embedding\n", n_layers,
           number(r, "head_rows"));
    printf("           sums in %.0f pieces: %s\n", number(r, "pieces"),
           json_is_true(json_object_get(r, "exact")) ? "bit-equal to one rank"
                                                     : "not bit-equal to one rank, whose pieces so many cannot share");
}

static void print_head(const json_t *root) {
    const json_t *d = json_object_get(root, "device"), *f = json_object_get(d, "flops");
    const char *weights = text(root, "weights");
    bool read = strcmp(weights, "checkpoint") == 0;
    printf("model      %s\n", text(root, "model"));
    printf("           %s, %.0f layers, %.3f B parameters, %.3f B active; weights: %s%s\n", text(root, "arch"),
           number(root, "n_layers"), number(root, "n_params") / 1e9, number(root, "n_params_active") / 1e9,
           read ? "the checkpoint's" : weights, read ? "" : " assumed");
    printf("device     %s\n", text(d, "name"));
    printf("           %.1f GB/s; %.0f f32, %.0f f16, %.0f bf16, %.0f int8 GFLOP/s; %.4g us a launch\n",
           number(d, "bandwidth_bytes_per_s") / 1e9, number(f, "f32") / 1e9, number(f, "f16") / 1e9,
           number(f, "bf16") / 1e9, number(f, "int8") / 1e9, number(d, "launch_s") * 1e6);
    print_ranks(json_object_get(root, "ranks"), number(root, "n_layers"));
}

static void print_memory(const json_t *root) {
    double w = number(root, "weights_bytes"), kv = number(root, "kv_bytes"), ws = number(root, "workspace_bytes"),
           all = number(json_object_get(root, "device"), "memory_bytes");
    bool shared = number(json_object_get(root, "ranks"), "n") > 1;
    size_t i;
    json_t *row;
    printf("\nmemory                                 MB%s\n", shared ? "   of which the same on every rank" : "");
    json_array_foreach(json_object_get(root, "memory"), i, row) {
        double whole = number(row, "whole_bytes");
        printf("  %-29s %9.1f", text(row, "kind"), number(row, "bytes") / 1e6);
        if (shared && whole > 0) printf("   %9.1f", whole / 1e6);
        if (strcmp(text(row, "kind"), "cache") == 0) {
            printf("  (%.0f x %.0f positions of %.1f KiB; keys %s, values %s)", number(root, "batch"),
                   number(root, "context"), number(root, "kv_bytes_per_position") / 1024, text(root, "cache_k"),
                   text(root, "cache_v"));
        }
        printf("\n");
    }
    printf("  %-29s %9.1f  (weights %.1f, cache %.1f, workspace %.1f)\n", "all", (w + kv + ws) / 1e6, w / 1e6, kv / 1e6,
           ws / 1e6);
    printf("  %-29s %9.1f  (of %.1f%s)\n", "free", (all - w - kv - ws) / 1e6, all / 1e6,
           json_is_true(json_object_get(root, "fits")) ? "" : ": does not fit");
}

// Where the numbers of a device that comes with the program are from.
static void print_notes(const json_t *device) {
    const char *what;
    json_t *note, *notes = json_object_get(device, "notes");
    if (!notes) return;
    printf("\nthe device's numbers: published or assumed, never measured here\n");
    json_object_foreach(notes, what, note) printf("  %s: %s\n", what, json_string_value(note));
}

static void print_plan(const json_t *root, bool per_op) {
    char title[128];
    const json_t *device = json_object_get(root, "device");
    bool predicted = json_object_get(device, "notes") != NULL;
    print_head(root);
    print_memory(root);
    snprintf(title, sizeof title, "prefill: %.0f rows of one sequence", number(root, "prompt"));
    print_step(json_object_get(root, "prefill"), title, per_op, predicted);
    snprintf(title, sizeof title, "decode: the last of %.0f positions, %.0f sequence%s", number(root, "context"),
             number(root, "batch"), number(root, "batch") > 1 ? "s" : "");
    print_step(json_object_get(root, "decode"), title, per_op, predicted);
    print_notes(device);
}

int cmd_plan(const options *o) {
    if (!o->device_file) {
        return usage_error("tally plan needs a device: --device ascend-a3, or --device FILE ('tally help plan'; "
                           "docs/devices holds examples)");
    }
    tally_model *model;
    tally_error err;
    if (tally_model_open(&model, o->model, &err) != TALLY_OK) return fail_with(&err);
    tally_plan_options po = {
        .device = o->device_file,
        .context = o->context == CONTEXT_AUTO ? 0
                   : o->context               ? o->context
                                              : tally_model_context_length(model),
        .prompt = o->prompt_rows,
        .batch = o->sequences,
        .type = o->weight_type,
        .cache_k = o->cache_k,
        .cache_v = o->cache_v,
        .no_fuse = o->no_fuse,
        .tp = o->ranks,
    };
    char *json = NULL;
    int rc = tally_plan(model, &po, &json, &err) == TALLY_OK ? 0 : fail_with(&err);
    if (!rc && o->json) {
        puts(json);
    } else if (!rc) {
        json_error_t at;
        json_t *root = json_loads(json, JSON_ALLOW_NUL, &at);
        if (root) {
            print_plan(root, o->per_op);
        } else {
            rc = fail("the plan is not JSON: %s", at.text);
        }
        json_decref(root);
    }
    tally_free(json);
    tally_model_close(model);
    return rc;
}
