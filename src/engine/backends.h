// The backends compiled into this program.
#ifndef TALLY_ENGINE_BACKENDS_H
#define TALLY_ENGINE_BACKENDS_H

#include "base/cpuinfo.h"
#include "base/pool.h"
#include "op/backend.h"

status backends_create_cpu(backend **out, pool *threads, cpu_level level, error *err);

// Measurements of the machine through the backend's own kernels (backend/cpu/measure.h).
status backends_measure_read(pool *threads, int64_t bytes, double *bytes_per_s, error *err);
status backends_measure_dot(pool *threads, cpu_level level, dtype type, double *per_s, error *err);

#endif
