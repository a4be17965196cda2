#include "emulator/core/workers.h"

#include "base/pool.h"
#include "emulator/aclnn/op.h"
#include "emulator/core/state.h"

static pool **workers(void) {
    static pool *p;
    return &p;
}

int emu_n_threads(void) { return emu()->config.n_threads; }

void emu_parallel(int n, void (*fn)(void *ctx, int i, int thread), void *ctx) {
    pool **p = workers();
    if (n > 1 && !*p && emu()->config.n_threads > 1) {
        error err;
        if (pool_create(p, emu()->config.n_threads, &err)) *p = NULL;
    }
    if (n > 1 && *p) {
        pool_for(*p, n, fn, ctx);
        return;
    }
    for (int i = 0; i < n; i++) fn(ctx, i, 0);
}

void emu_workers_stop(void) {
    pool **p = workers();
    if (*p) pool_destroy(*p);
    *p = NULL;
}
