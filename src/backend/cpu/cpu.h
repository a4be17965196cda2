// The CPU backend: weights in panels, one thread pool, the kernels of one level.
#ifndef TALLY_BACKEND_CPU_CPU_H
#define TALLY_BACKEND_CPU_CPU_H

#include "base/cpuinfo.h"
#include "base/pool.h"
#include "op/backend.h"

// `threads` is borrowed and must outlive the backend. The level must be available.
status cpu_backend_create(backend **out, pool *threads, cpu_level level, error *err);

// Before any other call: matrices stay in the file and are packed piece by piece whenever they are used. Less memory, nothing to
// load, more time for a step; the same bits.
void cpu_backend_keep_rows(backend *b);

#endif
