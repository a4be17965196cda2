// What the machine can do at best, beside which speeds are reported.
#include <string.h>

#include "base/clock.h"
#include "base/meminfo.h"
#include "engine/backends.h"
#include "engine/engine_plan.h"

enum {
    READ_MIB = 512, // well beyond any last-level cache a few threads can use
    LOOPS = 500,
    LOOP_PASSES = 9,
};

static status measure_level(pool *threads, cpu_level level, tally_machine *out, error *err) {
    tally_level_speed *speed = &out->levels[out->n_levels];
    speed->level = cpu_level_name(level);
    TRY(backends_measure_dot(threads, level, DTYPE_F32, &speed->f32, err));
    TRY(backends_measure_dot(threads, level, DTYPE_BF16, &speed->bf16, err));
    double blocks_of_256; // some levels are faster there
    TRY(backends_measure_dot(threads, level, DTYPE_Q8_0, &speed->q8, err));
    TRY(backends_measure_dot(threads, level, DTYPE_Q4_K, &blocks_of_256, err));
    if (blocks_of_256 > speed->q8) speed->q8 = blocks_of_256;
    out->n_levels++;
    return STATUS_OK;
}

static void nothing(void *ctx, int i, int thread) {
    (void)ctx;
    (void)i;
    (void)thread;
}

// The best of several rows of loops, so that nobody sleeps and nobody else's time is counted.
static double measure_loop(pool *threads) {
    int n = pool_n_threads(threads);
    double best = 0;
    for (int pass = 0; pass < LOOP_PASSES && n > 1; pass++) {
        uint64_t begin = clock_now_ns();
        for (int i = 0; i < LOOPS; i++) pool_for(threads, n, nothing, NULL);
        double s = (double)(clock_now_ns() - begin) * 1e-9 / LOOPS;
        if (pass == 0 || s < best) best = s;
    }
    return best;
}

static status measure_levels(pool *threads, const char *levels, tally_machine *out, error *err) {
    int room = (int)(sizeof out->levels / sizeof *out->levels);
    bool all = strcmp(levels, "all") == 0;
    for (int i = 0; all && i < CPU_LEVEL_COUNT && out->n_levels < room; i++) {
        if (cpu_level_available((cpu_level)i)) TRY(measure_level(threads, (cpu_level)i, out, err));
    }
    if (all) return STATUS_OK;
    cpu_level level;
    TRY(engine_plan_level(strcmp(levels, "best") == 0 ? NULL : levels, &level, err));
    return measure_level(threads, level, out, err);
}

static status measure(pool *threads, const char *levels, tally_machine *out, error *err) {
    int64_t bytes = (int64_t)READ_MIB << 20, most = meminfo_available() / 4;
    TRY(backends_measure_read(threads, bytes < most ? bytes : most, &out->read_bytes_per_s, err));
    out->loop_s = measure_loop(threads);
    return levels ? measure_levels(threads, levels, out, err) : STATUS_OK;
}

tally_status tally_measure_machine(int threads, const char *levels, tally_machine *out, tally_error *user_err) {
    error *err = (error *)user_err;
    *out = (tally_machine){.threads = threads ? threads : cpu_physical_cores()};
    if (threads < 0 || threads > 1024) {
        return (tally_status)error_set(err, STATUS_BAD_ARGUMENT,
                                       "the number of threads is %d, it must be between 0 and 1024", threads);
    }
    pool *p;
    status s = pool_create(&p, out->threads, err);
    if (!s) s = measure(p, levels, out, err);
    pool_destroy(p);
    return (tally_status)s;
}
