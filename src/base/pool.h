// A pool of worker threads that run one parallel loop at a time.
//
// pool_for(pool, n, fn, ctx) calls fn(ctx, i, thread) once for every i in [0, n), on the pool's threads and the caller's, in no
// fixed order, and returns when all are done. Which thread runs which i must not matter to any result. One caller at a time.
// Every thread, the caller's included, runs fn with the fixed floating-point environment of fpenv.h.
#ifndef TALLY_BASE_POOL_H
#define TALLY_BASE_POOL_H

#include <stdint.h>

#include "base/status.h"

typedef struct pool pool;
typedef void pool_fn(void *ctx, int i, int thread); // thread: 0 .. n_threads-1, for scratch memory

status pool_create(pool **out, int n_threads, error *err); // n_threads >= 1, the caller's included
void pool_destroy(pool *p);
int pool_n_threads(const pool *p);
void pool_for(pool *p, int n, pool_fn *fn, void *ctx);

// Where the time of loops goes that more than one thread runs. Of a loop that lasts t, every thread spends t: waking up, computing,
// and waiting for the slowest.
typedef struct pool_times {
    int64_t loops;
    uint64_t loop_ns;          // as the caller sees it
    uint64_t wake_ns, wait_ns; // sums over threads: before a thread's first index; behind its last
} pool_times;
// From now on every such loop adds to *times, which is the caller's (NULL: no more). Not while a loop runs.
void pool_watch(pool *p, pool_times *times);

#endif
