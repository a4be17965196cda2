// tally devices: what this machine can compute on.
#include <jansson.h>
#include <string.h>

#include "cmd/commands.h"
#include "cmd/common.h"

static const char *text(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "?";
}

static void print_devices(const json_t *root) {
    size_t i;
    json_t *row;
    const json_t *cpu = json_object_get(root, "cpu");
    printf("cpu          %lld cores, kernel level %s ('tally help cpu' lists all)\n",
           (long long)json_integer_value(json_object_get(cpu, "cores")), text(cpu, "level"));
    const json_t *npu = json_object_get(root, "ascend");
    json_array_foreach(json_object_get(npu, "devices"), i, row) {
        printf("ascend:%-5lld %s (%s), %.1f GiB, %.1f free, runtime %s\n",
               (long long)json_integer_value(json_object_get(row, "id")), text(row, "chip"), text(row, "family"),
               json_number_value(json_object_get(row, "memory_bytes")) / 0x1p30,
               json_number_value(json_object_get(row, "free_bytes")) / 0x1p30, text(row, "runtime"));
    }
    if (!json_object_get(npu, "error")) return;
    printf("ascend       none: %s\n", text(npu, "error"));
    json_array_foreach(json_object_get(npu, "libraries"), i, row) {
        const json_t *why = json_object_get(row, "error");
        printf("             %-26s %s\n", text(row, "file"), why ? json_string_value(why) : "found");
    }
}

int cmd_devices(const options *o) {
    char *json;
    tally_error err;
    if (tally_devices(&json, &err) != TALLY_OK) return fail_with(&err);
    int rc = 0;
    if (o->json) {
        puts(json);
    } else {
        json_error_t at;
        json_t *root = json_loads(json, 0, &at);
        if (root) {
            print_devices(root);
        } else {
            rc = fail("the list of devices is not JSON: %s", at.text);
        }
        json_decref(root);
    }
    tally_free(json);
    return rc;
}
