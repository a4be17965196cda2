// Several ranks that compute the same requests, as threads: what rank 0 chooses is what all commit, also where a rank's logits are off by
// a unit in the last place at a tie and where the ranks would draft differently; ranks that decide alone are stopped with rank and step.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "engine/generation.h"
#include "tests/support/eval.h"
#include "tests/support/sanitized.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

enum { RANKS = 3, REQUESTS = 2, NEW = 60, VOCAB = 300 };

// What the ranks meet in.
typedef struct meeting {
    pthread_barrier_t barrier;
    const void *data; // rank 0's
    uint64_t value[RANKS];
} meeting;

typedef struct member {
    rank_group base;
    meeting *m;
    uint64_t sleeps; // seed of random pauses; 0: none
    bool alone;      // decides for itself: the mistake
    // its engine, between which and the logits the test stands
    const backend_vtable *sound;
    backend_vtable nudging;
    float *logits;
    bool nudge;
    test_engine e;
    // outcome
    int32_t ids[REQUESTS][NEW];
    int n[REQUESTS];
    tally_status status;
    tally_error err;
} member;

static void pause_now_and_then(member *me) {
    if (me->sleeps && hash_mix(me->sleeps++) % 4 == 0) usleep((useconds_t)(hash_mix(me->sleeps) % 300));
}

static void broadcast(rank_group *r, void *data, size_t n) {
    member *me = (member *)r;
    pause_now_and_then(me);
    if (r->rank == 0) me->m->data = data;
    pthread_barrier_wait(&me->m->barrier);
    if (r->rank != 0 && !me->alone) memcpy(data, me->m->data, n);
    pthread_barrier_wait(&me->m->barrier);
}

static bool agree(rank_group *r, uint64_t value) {
    member *me = (member *)r;
    me->m->value[r->rank] = value;
    pthread_barrier_wait(&me->m->barrier);
    bool all = true;
    for (int i = 0; i < RANKS; i++) all &= me->m->value[i] == me->m->value[0];
    pthread_barrier_wait(&me->m->barrier);
    return all;
}

// Every row gets a tie: the second best is made equal to the best, and on ranks but the first the higher id a unit in the last place more.
static void plant_ties(member *me, const float *logits, int n_rows) {
    memcpy(me->logits, logits, (size_t)n_rows * VOCAB * sizeof *logits);
    for (int r = 0; r < n_rows; r++) {
        float *x = me->logits + r * VOCAB;
        int best = sampler_argmax(x, VOCAB), second = best ? 0 : 1;
        for (int i = 0; i < VOCAB; i++) second = i != best && x[i] > x[second] ? i : second;
        x[second] = x[best];
        if (me->nudge) x[best > second ? best : second] = nextafterf(x[best], INFINITY);
    }
}

static member *member_of[RANKS];

static status run_tied(backend *b, const step_inputs *in, step_result *out, error *err) {
    member *me = NULL;
    for (int i = 0; i < RANKS; i++) me = member_of[i]->e.engine->plan.device == b ? member_of[i] : me;
    status s = me->sound->run(b, in, out, err);
    if (s || !in->n_out) return s;
    plant_ties(me, out->logits, in->n_out);
    out->logits = me->logits;
    return STATUS_OK;
}

static void *work(void *ctx) {
    member *me = ctx;
    tally_generation *g[REQUESTS];
    int32_t ids[REQUESTS][30];
    for (int i = 0; i < REQUESTS; i++) {
        for (int j = 0; j < 30; j++) ids[i][j] = (int32_t)(hash_mix((uint64_t)(i * 100 + j % 7)) % VOCAB);
        tally_request r = {.ids = ids[i], .n_ids = 30, .max_tokens = NEW, .ignore_eos = true};
        if (i == 1) r.sampling = (tally_sampling){.temperature = 0.7f, .seed = 8};
        if (tally_generate(me->e.engine, &r, &g[i], &me->err)) abort();
    }
    for (bool idle = false; !idle && !me->status;) {
        pause_now_and_then(me);
        me->status = tally_engine_step(me->e.engine, &idle, &me->err);
    }
    for (int i = 0; i < REQUESTS; i++) {
        memcpy(me->ids[i], tally_generation_ids(g[i], &me->n[i]), sizeof me->ids[i]);
        tally_generation_close(g[i]);
    }
    return NULL;
}

static char path[300];

static void open_member(member *me, meeting *m, int rank, uint64_t sleeps) {
    *me = (member){.base = {rank, broadcast, agree}, .m = m, .sleeps = sleeps, .nudge = rank > 0};
    // auto: how much is drafted depends on the clock of a rank
    me->e = test_engine_open(path, &(tally_engine_options){.threads = 1, .context = 256, .sequences = 2});
    me->logits = malloc(32 * VOCAB * sizeof *me->logits);
    assert_non_null(me->logits);
    me->e.engine->ranks = &me->base;
    backend *b = me->e.engine->plan.device;
    me->sound = b->vt;
    me->nudging = *b->vt;
    me->nudging.run = run_tied;
    b->vt = &me->nudging;
    member_of[rank] = me;
}

static void run_ranks(member *ranks, meeting *m) {
    pthread_t thread[RANKS];
    pthread_barrier_init(&m->barrier, NULL, RANKS);
    for (int i = 0; i < RANKS; i++) assert_int_equal(pthread_create(&thread[i], NULL, work, &ranks[i]), 0);
    for (int i = 0; i < RANKS; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&m->barrier);
}

static void close_member(member *me) {
    me->e.engine->plan.device->vt = me->sound;
    test_engine_close(&me->e);
    free(me->logits);
}

static void test_rank_0_decides(void **state) {
    (void)state;
    static member ranks[RANKS];
    meeting m;
    int32_t first[REQUESTS][NEW];
    for (int repeat = 0; repeat < (SANITIZED ? 4 : 20); repeat++) {
        for (int i = 0; i < RANKS; i++) open_member(&ranks[i], &m, i, repeat ? (uint64_t)(repeat * 1000 + i * 100) : 0);
        run_ranks(ranks, &m);
        for (int i = 0; i < RANKS; i++) {
            if (ranks[i].status) fail_msg("rank %d: %s", i, ranks[i].err.text);
            for (int r = 0; r < REQUESTS; r++) {
                assert_int_equal(ranks[i].n[r], NEW);
                if (repeat == 0 && i == 0) memcpy(first[r], ranks[0].ids[r], sizeof first[r]);
                assert_memory_equal(ranks[i].ids[r], first[r], sizeof first[r]);
            }
            close_member(&ranks[i]);
        }
    }
}

static void test_ranks_deciding_alone(void **state) {
    (void)state;
    static member ranks[RANKS];
    meeting m;
    for (int i = 0; i < RANKS; i++) open_member(&ranks[i], &m, i, 0), ranks[i].alone = true;
    for (int i = 0; i < RANKS; i++) ranks[i].e.engine->speculation.mode = TALLY_SPEC_OFF;
    run_ranks(ranks, &m);
    for (int i = 0; i < RANKS; i++) {
        char rank[32];
        snprintf(rank, sizeof rank, "rank %d ", i);
        assert_int_equal(ranks[i].status, TALLY_INTERNAL);
        if (!strstr(ranks[i].err.text, rank) || !strstr(ranks[i].err.text, "step 1"))
            fail_msg("'%s' should name rank %d and step 1", ranks[i].err.text, i);
        close_member(&ranks[i]);
    }
}

static temp_folder folder;
static int setup(void **state) {
    (void)state;
    folder = temp_folder_make();
    snprintf(path, sizeof path, "%s/model.gguf", folder.path);
    tiny_random_gguf(path, DTYPE_F32, false, 7);
    return 0;
}
static int teardown(void **state) { return (void)state, temp_folder_remove(&folder), 0; }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rank_0_decides),
                                       cmocka_unit_test(test_ranks_deciding_alone)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
