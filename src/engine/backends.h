// The backends compiled into this program.
#ifndef TALLY_ENGINE_BACKENDS_H
#define TALLY_ENGINE_BACKENDS_H

#include "base/cpuinfo.h"
#include "base/pool.h"
#include "op/backend.h"
#include "op/op_cost.h"

status backends_create_cpu(backend **out, pool *threads, cpu_level level, error *err);
void backends_cpu_keep_rows(backend *b); // cpu_backend_keep_rows

// Another device than the processor: "ascend:0", "emu:910B3" (backend/ascend/ascend.h says what the texts may be). `natural` is the type
// that most of the weights have in the file.
typedef struct npu_options {
    const char *device, *type, *exact, *graph;
    dtype natural;
} npu_options;
bool backends_is_ascend(const char *device);
status backends_create_ascend(backend **out, const npu_options *o, error *err);

typedef struct found_device {
    int id;
    char chip[64], family[16], version[32];
    int64_t memory_bytes, free_bytes;
} found_device;
typedef struct device_listing {
    void *ctx;
    void (*library)(void *ctx, const char *file, const char *why); // why NULL: found
    void (*device)(void *ctx, const found_device *device);
} device_listing;
status backends_list_ascend(const device_listing *to, error *err);

// Measurements of the machine through the backend's own kernels (backend/cpu/measure.h).
status backends_measure_read(pool *threads, int64_t bytes, double *bytes_per_s, error *err);
status backends_measure_dot(pool *threads, cpu_level level, dtype type, double *per_s, error *err);

// A backend that adds up a described device's time instead of computing (docs/plan.md), and what it counted in its last run.
status backends_create_cost(backend **out, const char *device, int n_ranks, error *err);
const char *backends_named_device(const char *name); // the description, as JSON, or NULL
const hardware *backends_cost_hardware(const backend *b);
const step_cost *backends_cost_last(const backend *b);

// What every operation of a step costs: op[i] is added to sum[i]. Times are not counted.
void backends_count_step(const op_list *g, const cache_desc *cache, const step_inputs *in, op_cost *sum);

#endif
