// The only file above src/backend that names backends.
#include "engine/backends.h"

#include "backend/cost/cost.h"
#include "backend/cpu/cpu.h"

status backends_create_cpu(backend **out, pool *threads, cpu_level level, error *err) {
    return cpu_backend_create(out, threads, level, err);
}

status backends_create_cost(backend **out, const char *device_file, error *err) {
    return cost_backend_create(out, device_file, err);
}

const hardware *backends_cost_hardware(const backend *b) { return cost_backend_hardware(b); }
const step_cost *backends_cost_last(const backend *b) { return cost_backend_last(b); }
