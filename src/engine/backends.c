// The only file above src/backend that names backends.
#include "engine/backends.h"

#include <stdio.h>
#include <string.h>

#include "backend/ascend/ascend.h"
#include "backend/cost/cost.h"
#include "backend/cost/named_devices.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/measure.h"

status backends_create_cpu(backend **out, pool *threads, cpu_level level, error *err) {
    return cpu_backend_create(out, threads, level, err);
}

void backends_cpu_keep_rows(backend *b) { cpu_backend_keep_rows(b); }

status backends_measure_read(pool *threads, int64_t bytes, double *bytes_per_s, error *err) {
    return cpu_measure_read(threads, bytes, bytes_per_s, err);
}

status backends_measure_dot(pool *threads, cpu_level level, dtype type, double *per_s, error *err) {
    return cpu_measure_dot(threads, level, type, per_s, err);
}

status backends_create_cost(backend **out, const char *device, int n_ranks, error *err) {
    return cost_backend_create(out, device, n_ranks, err);
}

const char *backends_named_device(const char *name) { return named_device(name); }

const hardware *backends_cost_hardware(const backend *b) { return cost_backend_hardware(b); }
const step_cost *backends_cost_last(const backend *b) { return cost_backend_last(b); }

void backends_count_step(const op_list *g, const cache_desc *cache, const step_inputs *in, op_cost *sum) {
    static const hardware any = {.bandwidth = 1, .flops = {1, 1, 1, 1}, .n_ranks = 1};
    cost_step step = cost_step_of(in);
    for (int i = 0; i < g->n_ops; i++) {
        op_cost c = cost_of_op(&g->ops[i], g->weights, cache, &step, &any);
        op_cost_add(&sum[i], &c);
    }
}

bool backends_is_ascend(const char *device) { return ascend_is_device(device); }

status backends_create_ascend(backend **out, const npu_options *o, error *err) {
    const ascend_options a = {
        .device = o->device, .type = o->type, .exact = o->exact, .graph = o->graph, .natural = o->natural};
    return ascend_backend_create(out, &a, err);
}

static void pass_library(void *ctx, const char *file, const char *why) {
    const device_listing *to = ctx;
    to->library(to->ctx, file, why);
}

static void pass_device(void *ctx, const ascend_device_info *info) {
    const device_listing *to = ctx;
    found_device d = {.id = info->id, .memory_bytes = info->memory_bytes, .free_bytes = info->free_bytes};
    memcpy(d.chip, info->chip, sizeof d.chip);
    memcpy(d.family, info->family, sizeof d.family);
    snprintf(d.version, sizeof d.version, "%d.%d.%d", info->version[0], info->version[1], info->version[2]);
    to->device(to->ctx, &d);
}

status backends_list_ascend(const device_listing *to, error *err) {
    device_listing copy = *to;
    return ascend_list_devices(&(ascend_listing){&copy, pass_library, pass_device}, err);
}
