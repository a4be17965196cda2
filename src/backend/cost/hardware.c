#include "backend/cost/hardware.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mapfile.h"
#include "op/passes.h"

enum { MAX_FILE = 1 << 20 };

typedef struct number_field {
    const char *name;
    double *to;
    bool required;
    double min, max;
} number_field;

typedef struct reader {
    const char *path;
    error *err;
} reader;

// No device of this century is outside of these; a value that is has the wrong unit.
#define BYTES_MIN 1e6
#define BYTES_MAX 1e15
#define RATE_MIN 1e6
#define RATE_MAX 1e18
#define SECONDS_MAX 1.0

static status read_number(const reader *r, const json_t *o, const char *prefix, const number_field *f) {
    const json_t *v = json_object_get(o, f->name);
    if (!v) {
        if (!f->required) return STATUS_OK;
        return error_set(r->err, STATUS_BAD_FILE, "%s: the device's %s%s is missing; docs/plan.md describes the file",
                         r->path, prefix, f->name);
    }
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= f->min && x <= f->max)) {
        char *found = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
        status s =
            error_set(r->err, STATUS_BAD_FILE, "%s: the device's %s%s is %.60s, it must be a number from %g to %g",
                      r->path, prefix, f->name, found ? found : "?", f->min, f->max);
        free(found);
        return s;
    }
    *f->to = x;
    return STATUS_OK;
}

// Every key of an object must be a field of the list or one of the further names.
static status refuse_unknown(const reader *r, json_t *o, const char *prefix, const number_field *fields,
                             const char *const *others) {
    const char *key;
    json_t *value;
    json_object_foreach(o, key, value) {
        bool known = false;
        for (const number_field *f = fields; f->name; f++) known |= strcmp(key, f->name) == 0;
        for (const char *const *n = others; n && *n && !known; n++) known = strcmp(key, *n) == 0;
        if (!known) {
            return error_set(r->err, STATUS_BAD_FILE,
                             "%s: a device has no field %s%.60s; docs/plan.md lists the fields (text goes to notes)",
                             r->path, prefix, key);
        }
    }
    return STATUS_OK;
}

static status read_object(const reader *r, json_t *root, const char *name, bool required, const number_field *fields) {
    json_t *o = json_object_get(root, name);
    if (!o && !required) return STATUS_OK;
    if (!json_is_object(o)) {
        return error_set(r->err, STATUS_BAD_FILE, "%s: the device's %s must be an object of numbers", r->path, name);
    }
    char prefix[32];
    snprintf(prefix, sizeof prefix, "%s.", name);
    for (const number_field *f = fields; f->name; f++) TRY(read_number(r, o, prefix, f));
    return refuse_unknown(r, o, prefix, fields, NULL);
}

static status read_name(const reader *r, const json_t *root, hardware *h) {
    const char *name = json_string_value(json_object_get(root, "name"));
    size_t n = name ? strlen(name) : 0;
    if (n == 0 || n >= sizeof h->name) {
        return error_set(r->err, STATUS_BAD_FILE, "%s: the device's name must be a text of 1 to %zu bytes", r->path,
                         sizeof h->name - 1);
    }
    memcpy(h->name, name, n + 1);
    return STATUS_OK;
}

static status read_device(const reader *r, json_t *root, hardware *h) {
    static const char *const others[] = {"name", "flops", "ranks_link", "notes", NULL};
    const number_field top[] = {
        {"memory_bytes", &h->memory_bytes, true, BYTES_MIN, BYTES_MAX},
        {"bandwidth_bytes_per_s", &h->bandwidth, true, RATE_MIN, RATE_MAX},
        {"launch_s", &h->launch_s, true, 0, SECONDS_MAX},
        {0},
    };

    const number_field flops[] = {
        {"f32", &h->flops[FLOPS_F32], true, RATE_MIN, RATE_MAX},
        {"f16", &h->flops[FLOPS_F16], false, RATE_MIN, RATE_MAX},
        {"bf16", &h->flops[FLOPS_BF16], false, RATE_MIN, RATE_MAX},
        {"int8", &h->flops[FLOPS_INT8], false, RATE_MIN, RATE_MAX},
        {0},
    };
    const number_field link[] = {
        {"bandwidth_bytes_per_s", &h->link_bandwidth, true, RATE_MIN, RATE_MAX},
        {"latency_s", &h->link_latency_s, true, 0, SECONDS_MAX},
        {"collective_s", &h->collective_s, false, 0, SECONDS_MAX},
        {0},
    };
    if (!json_is_object(root)) {
        return error_set(r->err, STATUS_BAD_FILE, "%s: a device is described by a JSON object", r->path);
    }
    TRY(read_name(r, root, h));
    for (const number_field *f = top; f->name; f++) TRY(read_number(r, root, "", f));
    TRY(read_object(r, root, "flops", true, flops));
    h->collective_s = h->launch_s;
    TRY(read_object(r, root, "ranks_link", false, link));
    for (int i = 0; i < FLOPS_KINDS; i++) {
        if (h->flops[i] == 0) h->flops[i] = h->flops[FLOPS_F32];
    }
    return refuse_unknown(r, root, "", top, others);
}

status hardware_parse(hardware *h, const char *text, size_t len, const char *path, error *err) {
    *h = (hardware){.passes = PASS_ALL, .n_ranks = 1};
    json_error_t at;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);
    if (!root) {
        return error_set(err, STATUS_BAD_FILE, "%s: not valid JSON: line %d, column %d: %s", path, at.line, at.column,
                         at.text);
    }
    status s = read_device(&(reader){path, err}, root, h);
    json_decref(root);
    return s;
}

status hardware_read(hardware *h, const char *path, error *err) {
    mapfile m;
    status s = mapfile_read(&m, path, MAX_FILE, err);
    if (s) return error_prefix(err, s, "the device's description");
    s = hardware_parse(h, (const char *)m.data, m.size, path, err);
    mapfile_close(&m);
    return s;
}
