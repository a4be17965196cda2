// The CPU backend: weights in panels, one thread pool, the kernels of one level.
#ifndef TALLY_BACKEND_CPU_CPU_H
#define TALLY_BACKEND_CPU_CPU_H

#include "base/cpuinfo.h"
#include "base/pool.h"
#include "op/backend.h"

// `threads` is borrowed and must outlive the backend. The level must be available.
status cpu_backend_create(backend **out, pool *threads, cpu_level level, error *err);

#endif
