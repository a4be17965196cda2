#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"

// How a loop is handed over. The caller writes fn, ctx and n, then raises `round`. Workers that see the new round take indices
// from `next` until none is left, then lower `busy`. Workers poll for a short while before they sleep on `wake`, because a
// step of a model is some hundred short loops in a row.
typedef struct busy_span {
    _Alignas(64) uint64_t begin, end; // of one thread in the current round
} busy_span;

struct pool {
    int n_threads;
    pthread_t *threads; // n_threads - 1
    pool_fn *fn;
    void *ctx;
    int n;
    pool_times *times; // borrowed; NULL: nobody wants to know
    busy_span *spans;  // owned [n_threads]; each thread writes its own before it lowers `busy`
    _Alignas(64) atomic_int next;
    _Alignas(64) atomic_int busy; // workers still in the current round
    _Alignas(64) atomic_uint round;
    atomic_bool stop;
    atomic_int sleepers;
    pthread_mutex_t lock; // guards sleeping only
    pthread_cond_t wake;
};

typedef struct worker {
    pool *p;
    int thread;
} worker;

enum { POLLS_BEFORE_SLEEP = 20000 }; // about 50 microseconds

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void take_indices(pool *p, int thread) {
    if (p->times) p->spans[thread].begin = clock_now_ns();
    for (int i; (i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed)) < p->n;) p->fn(p->ctx, i, thread);
    if (p->times) p->spans[thread].end = clock_now_ns();
}

static void add_times(const pool *p, uint64_t begin, uint64_t end) {
    pool_times *t = p->times;
    t->loops++;
    t->loop_ns += end - begin;
    for (int i = 0; i < p->n_threads; i++) {
        t->wake_ns += p->spans[i].begin - begin;
        t->wait_ns += end - p->spans[i].end;
    }
}

static unsigned wait_for_round(pool *p, unsigned seen) {
    for (int i = 0; i < POLLS_BEFORE_SLEEP; i++) {
        unsigned now = atomic_load_explicit(&p->round, memory_order_acquire);
        if (now != seen) return now;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(&p->round) == seen) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
    return atomic_load(&p->round);
}

static void *worker_main(void *arg) {
    worker w = *(worker *)arg;
    free(arg);
    fpenv_enter();
    for (unsigned seen = 0;;) {
        seen = wait_for_round(w.p, seen);
        if (atomic_load(&w.p->stop)) return NULL;
        take_indices(w.p, w.thread);
        atomic_fetch_sub_explicit(&w.p->busy, 1, memory_order_release);
    }
}

static void start_round(pool *p) {
    atomic_fetch_add(&p->round, 1);
    if (atomic_load(&p->sleepers) == 0) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

status pool_create(pool **out, int n_threads, error *err) {
    *out = NULL;
    pool *p = aligned_alloc(64, (sizeof *p + 63) & ~(size_t)63);
    if (!p) return error_no_memory(err, sizeof *p);
    memset(p, 0, sizeof *p);
    p->n_threads = 1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->threads = calloc((size_t)n_threads, sizeof *p->threads);
    p->spans = aligned_alloc(64, (size_t)n_threads * sizeof *p->spans);
    for (int i = 1; p->threads && p->spans && i < n_threads; i++) {
        worker *w = malloc(sizeof *w);
        if (w) *w = (worker){p, i};
        int failed = w ? pthread_create(&p->threads[i - 1], NULL, worker_main, w) : 0;
        if (!w || failed) {
            free(w);
            pool_destroy(p);
            return error_set(err, STATUS_NO_MEMORY, "could not start thread %d of %d: %s; ask for fewer with -t", i + 1,
                             n_threads, failed ? strerror(failed) : "out of memory");
        }
        p->n_threads++;
    }
    if (!p->threads || !p->spans) {
        pool_destroy(p);
        return error_no_memory(err, (unsigned long long)n_threads * (sizeof *p->threads + sizeof *p->spans));
    }
    *out = p;
    return STATUS_OK;
}

void pool_destroy(pool *p) {
    if (!p) return;
    atomic_store(&p->stop, true);
    start_round(p);
    for (int i = 0; i < p->n_threads - 1; i++) pthread_join(p->threads[i], NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    free(p->threads);
    free(p->spans);
    free(p);
}

int pool_n_threads(const pool *p) { return p->n_threads; }

void pool_watch(pool *p, pool_times *times) { p->times = times; }

void pool_for(pool *p, int n, pool_fn *fn, void *ctx) {
    fpenv_state saved = fpenv_enter();
    if (p->n_threads == 1 || n == 1) {
        for (int i = 0; i < n; i++) fn(ctx, i, 0);
        fpenv_leave(saved);
        return;
    }
    uint64_t begin = p->times ? clock_now_ns() : 0;
    p->fn = fn, p->ctx = ctx, p->n = n;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    atomic_store_explicit(&p->busy, p->n_threads - 1, memory_order_relaxed);
    start_round(p);
    take_indices(p, 0);
    for (int i = 0; atomic_load_explicit(&p->busy, memory_order_acquire) > 0; i++) {
        if (i < POLLS_BEFORE_SLEEP) {
            relax();
        } else {
            sched_yield(); // a worker has lost its core to someone else: let it have this one
        }
    }
    if (p->times) add_times(p, begin, clock_now_ns());
    fpenv_leave(saved);
}
