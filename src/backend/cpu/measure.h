// What this processor and its memory can do at best, through the backend's own kernels.
#ifndef TALLY_BACKEND_CPU_MEASURE_H
#define TALLY_BACKEND_CPU_MEASURE_H

#include "base/cpuinfo.h"
#include "base/pool.h"
#include "tensor/dtype.h"

// The best of several passes of all threads over `bytes` of memory, each reading a part of its own.
status cpu_measure_read(pool *threads, int64_t bytes, double *bytes_per_s, error *err);
// Multiply-adds per second of all threads together in the tile kernel of a weight type (floats, block types) on data in its caches.
status cpu_measure_dot(pool *threads, cpu_level level, dtype type, double *per_s, error *err);

#endif
