// A pool of worker threads that run one parallel loop at a time.
//
// pool_for(pool, n, fn, ctx) calls fn(ctx, i, thread) once for every i in [0, n), on the pool's threads and the caller's, in no
// fixed order, and returns when all are done. Which thread runs which i must not matter to any result. One caller at a time.
// Every thread, the caller's included, runs fn with the fixed floating-point environment of fpenv.h.
#ifndef TALLY_BASE_POOL_H
#define TALLY_BASE_POOL_H

#include "base/status.h"

typedef struct pool pool;
typedef void pool_fn(void *ctx, int i, int thread); // thread: 0 .. n_threads-1, for scratch memory

status pool_create(pool **out, int n_threads, error *err); // n_threads >= 1, the caller's included
void pool_destroy(pool *p);
int pool_n_threads(const pool *p);
void pool_for(pool *p, int n, pool_fn *fn, void *ctx);

#endif
