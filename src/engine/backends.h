// The backends compiled into this program.
#ifndef TALLY_ENGINE_BACKENDS_H
#define TALLY_ENGINE_BACKENDS_H

#include "base/cpuinfo.h"
#include "base/pool.h"
#include "op/backend.h"
#include "op/op_cost.h"

status backends_create_cpu(backend **out, pool *threads, cpu_level level, error *err);
void backends_cpu_keep_rows(backend *b); // cpu_backend_keep_rows

// Measurements of the machine through the backend's own kernels (backend/cpu/measure.h).
status backends_measure_read(pool *threads, int64_t bytes, double *bytes_per_s, error *err);
status backends_measure_dot(pool *threads, cpu_level level, dtype type, double *per_s, error *err);

// A backend that adds up a described device's time instead of computing (docs/plan.md), and what it counted in its last run.
status backends_create_cost(backend **out, const char *device_file, error *err);
const hardware *backends_cost_hardware(const backend *b);
const step_cost *backends_cost_last(const backend *b);

// What every operation of a step costs: op[i] is added to sum[i]. Times are not counted.
void backends_count_step(const op_list *g, const cache_desc *cache, const step_inputs *in, op_cost *sum);

#endif
