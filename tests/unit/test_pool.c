// The thread pool: every index exactly once, for any number of threads, in many short rounds and after sleeping. Run it under
// CONFIG=tsan too.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/pool.h"

enum { MAX_N = 1000 };

typedef struct round_state {
    int times[MAX_N]; // not atomic: two threads on one index would be a race
    int n_threads;
    atomic_int wrong_thread;
} round_state;

static void count(void *ctx, int i, int thread) {
    round_state *r = ctx;
    r->times[i]++;
    if (thread < 0 || thread >= r->n_threads) atomic_fetch_add(&r->wrong_thread, 1);
}

static void one_round(pool *p, round_state *r, int n) {
    memset(r->times, 0, sizeof r->times);
    r->n_threads = pool_n_threads(p);
    pool_for(p, n, count, r);
    for (int i = 0; i < MAX_N; i++) {
        if (r->times[i] != (i < n))
            fail_msg("%d threads, n = %d: index %d ran %d times", r->n_threads, n, i, r->times[i]);
    }
}

static void test_every_index_once(void **state) {
    (void)state;
    static round_state r;
    static const int sizes[] = {0, 1, 2, 3, 7, 8, 9, 64, 999, 1000};
    for (int threads = 1; threads <= 8; threads++) {
        pool *p;
        error err;
        assert_int_equal(pool_create(&p, threads, &err), STATUS_OK);
        assert_int_equal(pool_n_threads(p), threads);
        for (int round = 0; round < 60; round++) one_round(p, &r, sizes[round % 10]);
        pool_destroy(p);
    }
    assert_int_equal(r.wrong_thread, 0);
}

// Rounds so short that workers are still looking for work when the next begins.
static void test_many_rounds(void **state) {
    (void)state;
    static round_state r;
    pool *p;
    error err;
    assert_int_equal(pool_create(&p, 3, &err), STATUS_OK);
    r.n_threads = 3;
    for (int round = 0; round < 5000; round++) pool_for(p, 1 + round % 5, count, &r);
    for (int i = 0; i < 5; i++) {
        int want = 0;
        for (int round = 0; round < 5000; round++) want += i < 1 + round % 5;
        assert_int_equal(r.times[i], want);
    }
    pool_destroy(p);
}

// Long enough apart that the workers have gone to sleep.
static void test_after_sleeping(void **state) {
    (void)state;
    static round_state r;
    pool *p;
    error err;
    assert_int_equal(pool_create(&p, 4, &err), STATUS_OK);
    for (int round = 0; round < 5; round++) {
        nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
        one_round(p, &r, 50);
    }
    pool_destroy(p);
}

static void test_create_and_destroy(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) { // also without ever being used
        pool *p;
        error err;
        assert_int_equal(pool_create(&p, 1 + i % 6, &err), STATUS_OK);
        pool_destroy(p);
    }
    pool_destroy(NULL);
}

static void busy_first(void *ctx, int i, int thread) {
    (void)thread;
    if (i == 0) nanosleep(&(struct timespec){.tv_nsec = *(const long *)ctx}, NULL);
}

// One of two threads works for 20 ms; the other can only wait.
static void test_times(void **state) {
    (void)state;
    pool *p;
    error err;
    pool_times t = {0};
    long ns = 20 * 1000 * 1000;
    assert_int_equal(pool_create(&p, 2, &err), STATUS_OK);
    pool_watch(p, &t);
    pool_for(p, 2, busy_first, &ns);
    assert_int_equal(t.loops, 1);
    assert_true(t.loop_ns >= (uint64_t)ns && t.wake_ns + t.wait_ns <= 2 * t.loop_ns);
    assert_true(t.wake_ns + t.wait_ns >= (uint64_t)ns * 9 / 10);
    pool_for(p, 1, busy_first, &ns); // the caller alone is no loop
    assert_int_equal(t.loops, 1);
    pool_watch(p, NULL);
    pool_for(p, 2, busy_first, &ns);
    assert_int_equal(t.loops, 1);
    pool_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_index_once),
        cmocka_unit_test(test_many_rounds),
        cmocka_unit_test(test_after_sleeping),
        cmocka_unit_test(test_create_and_destroy),
        cmocka_unit_test(test_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
