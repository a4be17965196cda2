// tally_devices: what this machine can compute on, as JSON.
#include <jansson.h>

#include "base/cpuinfo.h"
#include "engine/backends.h"
#include "tally.h"

static json_t *cpu_json(void) {
    json_t *levels = json_array();
    for (int i = 0; i < CPU_LEVEL_COUNT; i++) {
        json_array_append_new(levels, json_pack("{s:s, s:b}", "name", cpu_level_name((cpu_level)i), "available",
                                                (int)cpu_level_available((cpu_level)i)));
    }
    return json_pack("{s:i, s:s, s:o}", "cores", cpu_physical_cores(), "level", cpu_level_name(cpu_level_best()),
                     "levels", levels);
}

static void add_library(void *ctx, const char *file, const char *why) {
    json_t *o = json_pack("{s:s}", "file", file);
    if (why) json_object_set_new(o, "error", json_string(why));
    json_array_append_new(json_object_get(ctx, "libraries"), o);
}

static void add_device(void *ctx, const found_device *d) {
    json_array_append_new(json_object_get(ctx, "devices"),
                          json_pack("{s:i, s:s, s:s, s:s, s:I, s:I}", "id", d->id, "chip", d->chip, "family", d->family,
                                    "runtime", d->version, "memory_bytes", (json_int_t)d->memory_bytes, "free_bytes",
                                    (json_int_t)d->free_bytes));
}

tally_status tally_devices(char **json, tally_error *user_err) {
    error *err = (error *)user_err, why;
    json_t *npu = json_pack("{s:[], s:[]}", "libraries", "devices");
    if (backends_list_ascend(&(device_listing){npu, add_library, add_device}, &why))
        json_object_set_new(npu, "error", json_string(why.text));
    json_t *root = json_pack("{s:o, s:o}", "cpu", cpu_json(), "ascend", npu);
    *json = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (*json) return TALLY_OK;
    return (tally_status)error_set(err, STATUS_NO_MEMORY, "out of memory for the list of devices");
}
