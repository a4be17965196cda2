// The only file above src/backend that names backends.
#include "engine/backends.h"

#include "backend/cost/cost.h"
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

status backends_create_cost(backend **out, const char *device_file, error *err) {
    return cost_backend_create(out, device_file, err);
}

const hardware *backends_cost_hardware(const backend *b) { return cost_backend_hardware(b); }
const step_cost *backends_cost_last(const backend *b) { return cost_backend_last(b); }

void backends_count_step(const op_list *g, const cache_desc *cache, const step_inputs *in, op_cost *sum) {
    static const hardware any = {.bandwidth = 1, .flops = {1, 1, 1, 1}};
    cost_step step = cost_step_of(in);
    for (int i = 0; i < g->n_ops; i++) {
        op_cost c = cost_of_op(&g->ops[i], g->weights, cache, &step, &any);
        op_cost_add(&sum[i], &c);
    }
}
