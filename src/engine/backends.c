// The only file above src/backend that names backends.
#include "engine/backends.h"

#include "backend/cpu/cpu.h"

status backends_create_cpu(backend **out, pool *threads, cpu_level level, error *err) {
    return cpu_backend_create(out, threads, level, err);
}
