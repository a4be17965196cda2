// The backends compiled into this program.
#ifndef TALLY_ENGINE_BACKENDS_H
#define TALLY_ENGINE_BACKENDS_H

#include "base/cpuinfo.h"
#include "base/pool.h"
#include "op/backend.h"

status backends_create_cpu(backend **out, pool *threads, cpu_level level, error *err);

#endif
