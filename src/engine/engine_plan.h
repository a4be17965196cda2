// What is decided before weights are loaded: the model's list, the device, and where memory goes. tally_inspect stops here; an
// engine keeps its plan.
#ifndef TALLY_ENGINE_ENGINE_PLAN_H
#define TALLY_ENGINE_ENGINE_PLAN_H

#include "base/cpuinfo.h"
#include "base/pool.h"
#include "model/model.h"
#include "tally.h"

typedef struct engine_plan {
    model model;
    pool *threads;   // owned
    backend *device; // owned
    cpu_level level;
    step_limits limits;
    int64_t workspace_bytes; // of the list's temporaries
    tally_memory memory;
} engine_plan;

// On failure the plan must still be deinitialised. The plan must not move: its list points into it.
status engine_plan_init(engine_plan *p, const tally_model *source, const tally_engine_options *o, error *err);
void engine_plan_deinit(engine_plan *p);

// The level that engines take for a name, or (NULL) by default; STATUS_BAD_ARGUMENT or STATUS_UNSUPPORTED.
status engine_plan_level(const char *name, cpu_level *level, error *err);

// Sets the types of a built model's cache: by name, or (NULL) F32 for F32 models and F16 for others.
status engine_plan_cache_types(model *m, const char *k, const char *v, error *err);

#endif
