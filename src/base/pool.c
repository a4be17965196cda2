#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fpenv.h"

// How a loop is handed over. `ticket` holds the number of the round and the next index that nobody has claimed. The caller writes
// fn, ctx and n and opens a round; every thread claims indices one by one until none is left. A round ends when its indices are done,
// not when all threads have come by: one that has lost its core to another program, or still sleeps, holds nobody up.
//
// fn, ctx and n change only while the round is closed, all its indices done: who claims an index of an open round has read them, and
// who comes late finds another ticket than it saw. Workers poll for a short while before they sleep on `wake`, because a
// step of a model is some hundred short loops in a row.
typedef struct busy_span {
    _Alignas(64) uint64_t begin, end; // of one thread in the current round
} busy_span;

struct pool {
    int n_threads;
    pthread_t *threads; // n_threads - 1
    _Atomic(pool_fn *) fn;
    _Atomic(void *) ctx;
    atomic_int n;
    pool_times *times; // borrowed; NULL: nobody wants to know
    busy_span *spans;  // owned [n_threads]; each thread writes its own before it reports its indices as done
    _Alignas(64) _Atomic(uint64_t) ticket; // round << 32 | next index
    _Alignas(64) atomic_int left;          // indices of the round that are not done
    atomic_bool stop;
    atomic_int sleepers;
    pthread_mutex_t lock; // guards sleeping only
    pthread_cond_t wake;
};

typedef struct worker {
    pool *p;
    int thread;
} worker;

enum { POLLS_BEFORE_SLEEP = 20000 };       // about 50 microseconds
static const uint32_t CLOSED = UINT32_MAX; // an index that no loop has

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint32_t round_of(uint64_t ticket) { return (uint32_t)(ticket >> 32); }
static uint64_t ticket_of(uint32_t round, uint32_t index) { return (uint64_t)round << 32 | index; }

// The next index of this round; false: none is left, or another round has begun.
static bool claim(pool *p, uint32_t round, int *i) {
    uint64_t t = atomic_load_explicit(&p->ticket, memory_order_acquire);
    for (;;) {
        if (round_of(t) != round) return false;
        if ((uint32_t)t >= (uint32_t)atomic_load_explicit(&p->n, memory_order_relaxed)) return false;
        if (atomic_compare_exchange_weak_explicit(&p->ticket, &t, t + 1, memory_order_acquire, memory_order_acquire)) {
            *i = (int)(uint32_t)t;
            return true;
        }
    }
}

static void take_indices(pool *p, uint32_t round, int thread) {
    int i, done = 0;
    if (!claim(p, round, &i)) return;
    pool_fn *fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
    void *ctx = atomic_load_explicit(&p->ctx, memory_order_relaxed);
    if (p->times) p->spans[thread].begin = clock_now_ns();
    do {
        fn(ctx, i, thread);
        done++;
    } while (claim(p, round, &i));
    if (p->times) p->spans[thread].end = clock_now_ns();
    atomic_fetch_sub_explicit(&p->left, done, memory_order_release);
}

static void add_times(const pool *p, uint64_t begin, uint64_t end) {
    pool_times *t = p->times;
    t->loops++;
    t->loop_ns += end - begin;
    for (int i = 0; i < p->n_threads; i++) {
        const busy_span *span = &p->spans[i];
        t->wake_ns += span->end ? span->begin - begin : end - begin; // one that found nothing left was waking up
        t->wait_ns += span->end ? end - span->end : 0;
    }
}

static uint32_t wait_for_round(pool *p, uint32_t seen) {
    for (int i = 0; i < POLLS_BEFORE_SLEEP; i++) {
        uint32_t now = round_of(atomic_load_explicit(&p->ticket, memory_order_acquire));
        if (now != seen) return now;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (round_of(atomic_load(&p->ticket)) == seen) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
    return round_of(atomic_load(&p->ticket));
}

static void *worker_main(void *arg) {
    worker w = *(worker *)arg;
    free(arg);
    fpenv_enter();
    for (uint32_t seen = 0;;) {
        seen = wait_for_round(w.p, seen);
        if (atomic_load(&w.p->stop)) return NULL;
        take_indices(w.p, seen, w.thread);
    }
}

// Opens the next round; returns its number.
static uint32_t start_round(pool *p) {
    uint32_t round = round_of(atomic_load_explicit(&p->ticket, memory_order_relaxed)) + 1;
    atomic_store(&p->ticket, ticket_of(round, 0));
    if (atomic_load(&p->sleepers) == 0) return round;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    return round;
}

status pool_create(pool **out, int n_threads, error *err) {
    *out = NULL;
    pool *p = aligned_alloc(64, (sizeof *p + 63) & ~(size_t)63);
    if (!p) return error_no_memory(err, sizeof *p);
    memset(p, 0, sizeof *p);
    p->n_threads = 1;
    atomic_init(&p->ticket, ticket_of(0, CLOSED));
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

static void share(pool *p, int n, pool_fn *fn, void *ctx) {
    uint64_t begin = p->times ? clock_now_ns() : 0;
    if (p->times) memset(p->spans, 0, (size_t)p->n_threads * sizeof *p->spans);
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
    atomic_store_explicit(&p->n, n, memory_order_relaxed);
    atomic_store_explicit(&p->left, n, memory_order_relaxed);
    uint32_t round = start_round(p);
    take_indices(p, round, 0);
    for (int i = 0; atomic_load_explicit(&p->left, memory_order_acquire) > 0; i++) {
        if (i < POLLS_BEFORE_SLEEP) {
            relax();
        } else {
            sched_yield(); // a worker lost its core within an index: let it have this one
        }
    }
    atomic_store_explicit(&p->ticket, ticket_of(round, CLOSED), memory_order_release);
    if (p->times) add_times(p, begin, clock_now_ns());
}

void pool_for(pool *p, int n, pool_fn *fn, void *ctx) {
    fpenv_state saved = fpenv_enter();
    if (p->n_threads > 1 && n > 1) {
        share(p, n, fn, ctx);
    } else {
        for (int i = 0; i < n; i++) fn(ctx, i, 0);
    }
    fpenv_leave(saved);
}
