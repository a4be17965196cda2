// tally inspect: what a checkpoint holds and what it would take to run it, without loading weights.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/commands.h"
#include "cmd/common.h"
#include "cmd/engines.h"

static void print_value(const json_t *v) {
    if (json_is_string(v)) {
        fputs(json_string_value(v), stdout);
    } else {
        json_dumpf(v, stdout, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    }
    putchar('\n');
}

static void print_config(json_t *config, const char *prefix) {
    const char *key;
    json_t *value;
    json_object_foreach(config, key, value) {
        if (json_is_object(value) && !*prefix) {
            print_config(value, key);
        } else {
            char name[128];
            snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "", key);
            printf("  %-28s ", name);
            print_value(value);
        }
    }
}

static void print_tensors(const json_t *tensors) {
    size_t i;
    json_t *t;
    double total = 0;
    printf("\ntensors\n");
    json_array_foreach(tensors, i, t) {
        const char *name = json_string_value(json_object_get(t, "name"));
        const char *type = json_string_value(json_object_get(t, "type"));
        double bytes = json_number_value(json_object_get(t, "bytes"));
        char *shape = json_dumps(json_object_get(t, "shape"), JSON_COMPACT | JSON_ENCODE_ANY);
        printf("  %-58s %-6s %-20s %14.0f\n", name ? name : "?", type ? type : "?", shape ? shape : "?", bytes);
        free(shape);
        total += bytes;
    }
    printf("  %zu tensors, %.1f MB\n", json_array_size(tensors), total / 1e6);
}

static void print_layouts(const json_t *layouts) {
    size_t i;
    json_t *l;
    printf("\n%-8s %7s %12s %12s  kept as\n", "type", "weights", "MB in file", "MB in memory");
    json_array_foreach(layouts, i, l) {
        const char *type = json_string_value(json_object_get(l, "type"));
        const char *layout = json_string_value(json_object_get(l, "layout"));
        printf("%-8s %7lld %12.1f %12.1f  %s\n", type ? type : "?",
               (long long)json_integer_value(json_object_get(l, "n")),
               json_number_value(json_object_get(l, "file_bytes")) / 1e6,
               json_number_value(json_object_get(l, "bytes")) / 1e6, layout ? layout : "?");
    }
}

static void print_stop_ids(const json_t *list) {
    size_t i;
    json_t *stop;
    if (!json_is_array(list)) return;
    printf("%-30s ", "stop_ids");
    json_array_foreach(list, i, stop) {
        const char *text = json_string_value(json_object_get(stop, "text"));
        printf("%s%lld", i ? ", " : "", (long long)json_integer_value(json_object_get(stop, "id")));
        if (text) printf(" %s", text);
    }
    putchar('\n');
}

static void print_table(json_t *root) {
    static const char *const plain[] = {"path", "format", "n_params", "tokenizer", "chat_template"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        const json_t *v = json_object_get(root, plain[i]);
        if (!v) continue;
        printf("%-30s ", plain[i]);
        print_value(v);
    }
    print_stop_ids(json_object_get(root, "stop_ids"));
    json_t *config = json_object_get(root, "config");
    if (json_is_object(config)) {
        printf("\nconfiguration\n");
        print_config(config, "");
    }
    const json_t *tensors = json_object_get(root, "tensors");
    if (json_is_array(tensors)) print_tensors(tensors);
    const json_t *layouts = json_object_get(root, "layouts");
    if (json_is_array(layouts)) print_layouts(layouts);
    const json_t *m = json_object_get(root, "memory");
    if (!json_is_object(m)) return;
    putchar('\n');
    tally_memory memory = {
        .weights = json_integer_value(json_object_get(m, "weights")),
        .cache = json_integer_value(json_object_get(m, "cache")),
        .workspace = json_integer_value(json_object_get(m, "workspace")),
        .available = json_integer_value(json_object_get(m, "available")),
    };
    print_memory(stdout, &memory, (int)json_integer_value(json_object_get(m, "context")));
}

int cmd_inspect(const options *o) {
    tally_model *model;
    tally_error err;
    if (tally_model_open(&model, o->model, &err) != TALLY_OK) return fail_with(&err);
    tally_engine_options eo;
    engine_options(model, o, 0, &eo);
    char *text = NULL;
    int rc = tally_inspect(model, &eo, &text, &err) == TALLY_OK ? 0 : fail_with(&err);
    if (!rc && o->json) {
        puts(text);
    } else if (!rc) {
        json_error_t at;
        json_t *root = json_loads(text, JSON_ALLOW_NUL, &at);
        if (root) {
            print_table(root);
        } else {
            rc = fail("the model's description is not JSON: %s", at.text);
        }
        json_decref(root);
    }
    tally_free(text);
    tally_model_close(model);
    return rc;
}
