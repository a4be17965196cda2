// T(m) from noisy steps, and the choice of K on simulated requests: never much slower than plain decoding, near the best fixed K where
// drafts are right, whatever the machine.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "spec/draft_lookup.h"
#include "spec/draft_policy.h"

// ---- machines --------------------------------------------------------------------------------------------------------------

static double cost_flat(int m) { return 1 + 0.01 * (m - 1); }
static double cost_shallow(int m) { return 1 + 0.05 * (m - 1); }
static double cost_tiles(int m) { return 1 + 0.25 * ((m - 1) / 4) + 0.02 * (m - 1); } // a tile of four rows at a time
static double cost_steep(int m) { return 1 + 0.75 * (m - 1); } // llama.cpp on AVX2: T(4) = 3.25 T(1)
static double cost_moe(int m) { return 0.3 + 0.7 * 128 * (1 - pow(1 - 8.0 / 128, m)) / 8; }

typedef struct machine {
    const char *name;
    double (*cost)(int m);
    double noise;    // standard deviation of the log
    double outliers; // share of steps that take ten times as long
    double growth;   // of all costs, over the request
} machine;

static const machine machines[] = {
    {"flat", cost_flat, 0.03, 0, 1},
    {"shallow", cost_shallow, 0.03, 0, 1},
    {"tiles", cost_tiles, 0.03, 0, 1},
    {"steep", cost_steep, 0.03, 0, 1},
    {"MoE", cost_moe, 0.03, 0, 1},
    {"flat, loaded", cost_flat, 0.15, 0.03, 2},
    {"shallow, loaded", cost_shallow, 0.15, 0.03, 2},
    {"tiles, loaded", cost_tiles, 0.15, 0.03, 2},
    {"steep, loaded", cost_steep, 0.15, 0.03, 2},
    {"MoE, loaded", cost_moe, 0.15, 0.03, 2},
};
enum { N_MACHINES = sizeof(machines) / sizeof(machines[0]) };

typedef struct dice {
    uint64_t state;
} dice;

static double roll(dice *d) { return (double)(hash_mix(d->state++) >> 11) * 0x1p-53; }
static double roll_normal(dice *d) {
    double u = roll(d) + 1e-12;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * roll(d));
}

static double measured(const machine *m, double seconds, dice *d) {
    double s = seconds * exp(m->noise * roll_normal(d));
    return roll(d) < m->outliers ? 10 * s : s;
}

// ---- texts -----------------------------------------------------------------------------------------------------------------

// How a request's proposals come out, token by token.
typedef struct text {
    const char *name;
    int kind;       // of proposals that do not copy
    double offered; // share of places outside copies where something is proposed
    double right;   // each of its tokens, if those before it are
    double copy;    // share of the text that copies
    int copy_length;
    int from, to; // part of the text where it copies, in tokens
    bool model;   // a draft model: nothing is proposed unless asked for, and a draft costs a tenth of a step
} text;

enum { LONG = 1024, SHORT = 256 };

// What the tokens at and behind `n` copy: the end of the copy, and how long it lasts already; 0: no copy.
static int copy_at(const text *x, uint64_t seed, int n, int *matched) {
    if (n < x->from || n >= x->to || !x->copy_length) return 0;
    int at = x->from;
    for (uint64_t i = 0; at <= n; i++) {
        dice d = {hash_mix(seed + i)};
        int copied = 1 + (int)(x->copy_length * (0.5 + roll(&d)));
        at += (int)(copied / x->copy * (1 - x->copy) * (0.5 + roll(&d)));
        if (n < at) return 0;
        *matched = n - at;
        at += copied;
        if (n < at) return at < x->to ? at : x->to;
    }
    return 0;
}

static draft proposal(const text *x, uint64_t seed, int n, const int32_t *truth) {
    dice d = {hash_mix(seed ^ hash_mix((uint64_t)n))};
    draft out = {0};
    int matched = 0, end = copy_at(x, seed, n, &matched), right = 0;
    if (end && matched >= 2) {
        right = end - n;
        out.kind = lookup_kind(matched < LOOKUP_EXTEND ? matched : LOOKUP_EXTEND, false);
    } else if (roll(&d) < x->offered) {
        while (right < DRAFT_MAX && roll(&d) < x->right) right++;
        out.kind = x->kind;
    } else {
        return out;
    }
    out.n = DRAFT_MAX;
    for (int i = 0; i < out.n; i++) {
        out.parent[i] = (int8_t)(i - 1);
        out.token[i] = i < right ? truth[n + i] : -7;
    }
    return out;
}

static const text texts[] = {
    {.name = "never right", .kind = 2, .offered = 1, .to = LONG},
    {.name = "never, long matches", .kind = 9, .offered = 1, .to = LONG},
    {.name = "0.2 right", .kind = 2, .offered = 0.7, .right = 0.2, .to = LONG},
    {.name = "0.5 right", .kind = 3, .offered = 0.7, .right = 0.5, .to = LONG},
    {.name = "0.7 right", .kind = 3, .offered = 1, .right = 0.7, .to = LONG},
    {.name = "0.9 right", .kind = 3, .offered = 1, .right = 0.9, .to = LONG},
    {.name = "copies, short", .kind = 1, .offered = 0.5, .right = 0.1, .copy = 0.6, .copy_length = 12, .to = LONG},
    {.name = "copies, long", .kind = 1, .offered = 0.3, .right = 0.1, .copy = 0.9, .copy_length = 80, .to = LONG},
    {.name = "copies late",
     .kind = 1,
     .offered = 0.5,
     .right = 0.1,
     .copy = 0.9,
     .copy_length = 80,
     .from = 128,
     .to = LONG},
    {.name = "copies at first", .kind = 1, .offered = 0.8, .right = 0.1, .copy = 0.9, .copy_length = 80, .to = 80},
    {.name = "model, 0.3 right", .kind = DRAFT_MODEL + 1, .offered = 1, .right = 0.3, .to = LONG, .model = true},
    {.name = "model, 0.8 right", .kind = DRAFT_MODEL + 1, .offered = 1, .right = 0.8, .to = LONG, .model = true},
};
enum { N_TEXTS = sizeof(texts) / sizeof(texts[0]) };

// ---- a request -------------------------------------------------------------------------------------------------------------

static const double model_cost = 0.1;

typedef struct simulation {
    const machine *m;
    const text *x;
    uint64_t seed;
    int length;
    int fixed; // K, or -1: the policy's
} simulation;

static int right_of(const draft *d, const int32_t *truth, int n) {
    int i = 0;
    while (i < d->n && d->token[i] == truth[n + i]) i++;
    return i;
}

// Speed beside plain decoding, without the noise that the policy has to live with.
static double speed(const simulation *s, step_times *times) {
    int32_t truth[LONG + 2 * DRAFT_MAX];
    for (int i = 0; i < LONG + 2 * DRAFT_MAX; i++) truth[i] = i;
    draft_policy p;
    draft_policy_init(&p);
    dice d = {hash_mix(s->seed)};
    double took = 0, plain = 0, unit = 0.02;
    for (int n = 0; n < s->length;) {
        draft full = proposal(s->x, s->seed, n, truth);
        double level = unit * (1 + (s->m->growth - 1) * n / s->length), t_draft = s->x->model ? model_cost * level : 0;
        int k = s->fixed < full.n ? s->fixed : full.n;
        if (!s->x->model) draft_policy_offer(&p, &full, n);
        if (s->fixed < 0) {
            policy_request r = {.policy = &p,
                                .offered = s->x->model ? NULL : &full,
                                .kind = s->x->kind,
                                .n = DRAFT_MAX,
                                .seconds_per_draft = t_draft};
            draft_policy_choose(&r, 1, times, 1, 1 + DRAFT_MAX, &k);
            assert_in_range(k, 0, full.n);
        }
        full.n = k;
        if (s->x->model) draft_policy_offer(&p, &full, n);
        int emitted = 1 + right_of(&full, truth, n);
        if (emitted > s->length - n) emitted = s->length - n;
        double seconds = level * s->m->cost(1 + k);
        took += seconds + k * t_draft;
        plain += emitted * level;
        step_times_seen(times, 1 + k, measured(s->m, seconds, &d));
        draft_policy_ran(&p, &(policy_step){times, 1, k}, k, emitted, k * t_draft);
        n += emitted;
        draft_policy_learn(&p, truth, n);
    }
    return plain / took;
}

// The mean and the least over several requests; every one on a new engine, or all on one.
static double mean_speed(simulation s, bool new_engine, double *least) {
    enum { REQUESTS = 8 };
    step_times t;
    step_times_init(&t, NULL, 0);
    double sum = 0;
    *least = 1e9;
    for (int i = 0; i < REQUESTS; i++) {
        if (new_engine) step_times_init(&t, NULL, 0);
        s.seed += 1000;
        double v = speed(&s, &t);
        sum += 1 / v;
        if (v < *least) *least = v;
    }
    return REQUESTS / sum;
}

static double best_fixed(simulation s, int *best_k) {
    double best = 0, least;
    for (s.fixed = 0; s.fixed <= DRAFT_MAX; s.fixed++) {
        double v = mean_speed(s, true, &least);
        if (v > best) best = v, *best_k = s.fixed;
    }
    return best;
}

static void test_requests(void **state) {
    (void)state;
    for (int length = SHORT; length <= LONG; length += LONG - SHORT) {
        printf("  %d tokens: speed beside plain decoding, mean / slowest of 8 requests on new engines; on one engine; "
               "best fixed K\n",
               length);
        for (int x = 0; x < N_TEXTS; x++) {
            printf("  %s\n", texts[x].name);
            for (int m = 0; m < N_MACHINES; m++) {
                simulation s = {
                    .m = &machines[m], .x = &texts[x], .seed = (uint64_t)(x * 31), .length = length, .fixed = -1};
                double least, least_one;
                int k = 0;
                double v = mean_speed(s, true, &least), one = mean_speed(s, false, &least_one),
                       best = best_fixed(s, &k);
                printf("    %-16s %5.3f / %5.3f   %5.3f / %5.3f   %5.3f (K = %d)   %.2f\n", machines[m].name, v, least,
                       one, least_one, best, k, one / best);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_requests)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
