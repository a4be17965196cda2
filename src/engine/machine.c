// What the machine can do at best, beside which speeds are reported.
#include <string.h>

#include "base/meminfo.h"
#include "engine/backends.h"
#include "tally.h"

enum { READ_MIB = 512 }; // well beyond any last-level cache a few threads can use

static status measure_level(pool *threads, cpu_level level, tally_machine *out, error *err) {
    tally_level_speed *speed = &out->levels[out->n_levels];
    speed->level = cpu_level_name(level);
    TRY(backends_measure_dot(threads, level, DTYPE_F32, &speed->f32, err));
    TRY(backends_measure_dot(threads, level, DTYPE_BF16, &speed->bf16, err));
    TRY(backends_measure_dot(threads, level, DTYPE_Q8_0, &speed->q8, err));
    out->n_levels++;
    return STATUS_OK;
}

static status measure(pool *threads, bool kernels, tally_machine *out, error *err) {
    int64_t bytes = (int64_t)READ_MIB << 20, most = meminfo_available() / 4;
    TRY(backends_measure_read(threads, bytes < most ? bytes : most, &out->read_bytes_per_s, err));
    int room = (int)(sizeof out->levels / sizeof *out->levels);
    for (int i = 0; kernels && i < CPU_LEVEL_COUNT && out->n_levels < room; i++) {
        if (cpu_level_available((cpu_level)i)) TRY(measure_level(threads, (cpu_level)i, out, err));
    }
    return STATUS_OK;
}

tally_status tally_measure_machine(int threads, bool kernels, tally_machine *out, tally_error *user_err) {
    error *err = (error *)user_err;
    *out = (tally_machine){.threads = threads ? threads : cpu_physical_cores()};
    if (threads < 0 || threads > 1024) {
        return (tally_status)error_set(err, STATUS_BAD_ARGUMENT,
                                       "the number of threads is %d, it must be between 0 and 1024", threads);
    }
    pool *p;
    status s = pool_create(&p, out->threads, err);
    if (!s) s = measure(p, kernels, out, err);
    pool_destroy(p);
    return (tally_status)s;
}
