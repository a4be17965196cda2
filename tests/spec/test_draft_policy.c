// The choice of K on simulated requests: never much slower than plain decoding, near the best fixed K where
// drafts are right, whatever the machine.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "spec/draft_lookup.h"
#include "spec/draft_policy.h"

#include "tests/spec/simulated_machine.h"
#include "tests/support/sanitized.h"

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

enum { LONG = 768, SHORT = 256 };

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

// One request in a simulated batch.
typedef struct member {
    const text *x;
    uint64_t seed;
    draft_policy p;
    draft full;
    int n, k, length;
} member;

static int choose(member *b, int n_members, const step_times *times, double t_draft) {
    policy_request r[8] = {{0}};
    int rows = 0, k[8], drafts = 0, of[8];
    for (int i = 0; i < n_members; i++) {
        if (b[i].n >= b[i].length) continue;
        r[rows] = (policy_request){.policy = &b[i].p, .offered = &b[i].full};
        if (b[i].x->model) r[rows] = (policy_request){.policy = &b[i].p, .n = DRAFT_MAX, .seconds_per_draft = t_draft};
        of[rows++] = i;
    }
    draft_policy_choose(r, rows, times, rows, rows + DRAFT_MAX, k);
    for (int i = 0; i < rows; i++) {
        assert_in_range(k[i], 0, b[of[i]].full.n);
        b[of[i]].k = k[i];
        drafts += k[i];
    }
    assert_in_range(drafts, 0, DRAFT_MAX);
    return drafts;
}

static const int32_t *the_truth(void) {
    static int32_t truth[LONG + 2 * DRAFT_MAX];
    for (int i = 0; i < LONG + 2 * DRAFT_MAX; i++) truth[i] = i;
    return truth;
}

// A step of all members; returns what it really takes. fixed: K of every one with anything offered, or -1: the policy's.
static double run_step(member *b, int n_members, const machine *m, step_times *times, int fixed, dice *d) {
    const int32_t *truth = the_truth();
    int rows = 0, drafts = 0;
    double level = 0, made = 0;
    for (int i = 0; i < n_members; i++) {
        if (b[i].n >= b[i].length) continue;
        rows++;
        level += 0.02 * (1 + (m->growth - 1) * b[i].n / b[i].length);
        b[i].full = proposal(b[i].x, b[i].seed, b[i].n, truth);
        if (!b[i].x->model && fixed < 0) draft_policy_offer(&b[i].p, &b[i].full, b[i].n);
        b[i].k = b[i].full.n < fixed ? b[i].full.n : fixed;
        drafts += b[i].k;
    }
    level /= rows;
    double t_draft = model_cost * level;
    if (fixed < 0) drafts = choose(b, n_members, times, t_draft);
    double seconds = level * m->cost(rows + drafts);
    if (fixed < 0) step_times_seen(times, rows + drafts, measured(m, seconds, d));
    for (int i = 0; i < n_members; i++) {
        member *q = &b[i];
        if (q->n >= q->length) continue;
        q->full.n = q->k;
        double cost = q->x->model ? t_draft * q->k : 0;
        made += cost;
        int emitted = 1 + right_of(&q->full, truth, q->n);
        if (emitted > q->length - q->n) emitted = q->length - q->n;
        if (fixed < 0 && q->x->model) draft_policy_offer(&q->p, &q->full, q->n);
        q->n += emitted;
        if (fixed >= 0) continue;
        draft_policy_ran(&q->p, &(policy_step){times, rows, drafts}, q->k, emitted, cost);
        draft_policy_learn(&q->p, truth, q->n);
    }
    return seconds + made;
}

// Speed beside plain decoding, without the noise that the policy has to live with.
static double speed(const simulation *s, step_times *times) {
    member one = {.x = s->x, .seed = s->seed, .length = s->length};
    draft_policy_init(&one.p);
    dice d = {hash_mix(s->seed)};
    double took = 0, plain = 0;
    while (one.n < s->length) {
        double level = 0.02 * (1 + (s->m->growth - 1) * one.n / s->length);
        int before = one.n;
        took += run_step(&one, 1, s->m, times, s->fixed, &d);
        plain += (one.n - before) * level;
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

// What is asked where the machine does only this: at most 3 % slower than plain, and near the best K. Where it is loaded, so that a step in
// thirty takes ten times as long, somewhat less.
static void assert_speed(const machine *m, double best, double v, double least) {
    bool loaded = m->outliers > 0;
    assert_true(v >= (loaded ? 0.95 : 0.97));
    assert_true(least >= (loaded ? 0.9 : 0.96));
    assert_true(v >= (loaded ? 0.75 : 0.85) * best);
}

static void simulate_requests(int length, bool new_engines) {
    printf("  %d tokens: speed beside plain decoding, mean / slowest of 8 requests on %s; best fixed K\n", length,
           new_engines ? "new engines" : "one engine");
    for (int x = 0; x < N_TEXTS; x++) {
        printf("  %s\n", texts[x].name);
        for (int m = 0; m < N_MACHINES; m++) {
            simulation s = {
                .m = &machines[m], .x = &texts[x], .seed = (uint64_t)(x * 31), .length = length, .fixed = -1};
            double least;
            int k = 0;
            double v = mean_speed(s, new_engines, &least), best = best_fixed(s, &k);
            printf("    %-16s %5.3f / %5.3f   %5.3f (K = %d)\n", machines[m].name, v, least, best, k);
            assert_speed(&machines[m], best, v, least);
        }
    }
}

static void test_requests(void **state) {
    (void)state;
    simulate_requests(SHORT, true);
    if (SANITIZED) return;
    simulate_requests(SHORT, false);
    simulate_requests(LONG, false);
}

// Four requests in one batch, of which two copy: these get the drafts.
static double batch_speed(const machine *m, int fixed, int *idle_drafts) {
    step_times times;
    step_times_init(&times, NULL, 0);
    double took = 0, plain = 0;
    for (uint64_t round = 0; round < 4; round++) {
        member b[4];
        dice d = {round};
        for (int i = 0; i < 4; i++) {
            b[i] = (member){.x = &texts[i < 2 ? 7 : 0], .seed = round * 10 + (uint64_t)i, .length = SHORT};
            draft_policy_init(&b[i].p);
        }
        for (;;) {
            int left = 0, before = 0, after = 0;
            for (int i = 0; i < 4; i++) left += b[i].n < SHORT, before += b[i].n;
            if (left < 4) break; // while all four run
            double t = run_step(b, 4, m, &times, fixed, &d);
            for (int i = 0; i < 4; i++) after += b[i].n;
            *idle_drafts += b[2].k + b[3].k;
            took += t;
            plain += (after - before) / 4.0 * 0.02 * m->cost(4);
        }
    }
    return plain / took;
}

static void test_batch(void **state) {
    (void)state;
    printf("  two of four requests copy: speed beside plain decoding; best fixed K for all four; drafts for the other "
           "two\n");
    for (int m = 0; m < N_MACHINES / 2; m++) {
        int idle = 0, none = 0;
        double v = batch_speed(&machines[m], -1, &idle), best = 0;
        for (int k = 0; k <= 4; k++) best = fmax(best, batch_speed(&machines[m], k, &none));
        printf("    %-16s %5.3f   %5.3f   %d\n", machines[m].name, v, best, idle);
        assert_true(v >= 0.97 && v >= 0.9 * best);
        assert_in_range(idle, 0, 300);
    }
}

static void assert_near(double got, double want, double tolerance) {
    if (!(fabs(got / want - 1) <= tolerance))
        fail_msg("%g where %g is expected within %g %%", got, want, 100 * tolerance);
}

// ---- what the policy knows -------------------------------------------------------------------------------------------------

static draft chain(int kind, int n, const int32_t *token) {
    draft d = {.n = n, .kind = kind};
    for (int i = 0; i < n; i++) d.token[i] = token[i], d.parent[i] = (int8_t)(i - 1);
    return d;
}

static void test_learn(void **state) {
    (void)state;
    const int32_t *truth = the_truth();
    draft_policy p;
    draft_policy_init(&p);
    draft good = chain(3, 4, truth + 10), bad = chain(4, 4, truth + 11); // behind 10 tokens; the second is off by one
    draft_policy_offer(&p, &good, 10);
    const double at_first = p.tried[3][0];
    draft_policy_learn(&p, truth, 10); // nothing is known yet
    assert_true(p.tried[3][0] == at_first);
    draft_policy_offer(&p, &bad, 10);
    draft_policy_learn(&p, truth, 12);
    assert_true(p.right[3][0] > 1 && p.right[3][1] == 1 && p.tried[3][2] == 0);
    assert_true(p.tried[3][0] > at_first && p.tried[4][0] > at_first && p.right[4][0] < 2 && p.tried[4][1] == 0);
    assert_int_equal(p.n_offers, 1); // the wrong one is settled
    draft_policy_learn(&p, truth, 12);
    assert_true(p.tried[3][1] == 1); // no token counts twice
    draft_policy_learn(&p, truth, 14);
    assert_true(p.right[3][3] == 1);
    draft_policy_learn(&p, truth, 40);
    assert_int_equal(p.n_offers, 0);
    for (int i = 0; i < 100; i++) { // more than can be open at once
        draft d = chain(5, DRAFT_MAX, truth + 40);
        draft_policy_offer(&p, &d, 40);
    }
    assert_in_range(p.n_offers, 1, POLICY_OFFERS);
    draft_policy_offer(&p, &(draft){.n = 0}, 40);
    draft_policy_learn(&p, truth, 60);
    assert_int_equal(p.n_offers, 0);

    // A tree: 12 and 10 may follow 9, behind 10 there is 99 or 11.
    draft tree = {.n = 4, .kind = 2, .token = {12, 10, 99, 11}, .parent = {-1, -1, 1, 1}};
    draft_policy_offer(&p, &tree, 10);
    draft_policy_learn(&p, truth, 12);
    assert_true(p.tried[2][0] > at_first && p.right[2][0] < 2 * draft_policy_prior(2)); // 12 was first
    assert_true(p.tried[2][1] == 1 && p.right[2][1] == 0);                              // 99 was first
    assert_true(p.other_right > 1.9 && p.other_tried == p.other_right);
}

static void test_reaches(void **state) {
    (void)state;
    const int32_t *truth = the_truth();
    draft_policy p;
    double reach[DRAFT_MAX];
    for (int right = 0; right <= 4; right++) {
        draft_policy_init(&p);
        for (int i = 0; i < 200; i++) { // always exactly so many right
            draft d = chain(6, 4, truth + 10);
            if (right < 4) d.token[right] = -1;
            draft_policy_offer(&p, &d, 10);
            draft_policy_learn(&p, truth, 20);
        }
        draft d = chain(6, 4, truth);
        draft_policy_reaches(&p, &d, reach);
        for (int i = 0; i < 4; i++) {
            if (i < right)
                assert_true(reach[i] > 0.85);
            else
                assert_true(reach[i] < 0.15);
            assert_true(reach[i] <= (i ? reach[i - 1] : 1));
        }
    }
    draft_policy_init(&p);
    draft tree = {.n = 6, .kind = 4, .token = {1, 2, 3, 4, 5, 6}, .parent = {-1, -1, -1, 0, 0, 3}};
    draft_policy_reaches(&p, &tree, reach);
    assert_near(reach[0], draft_policy_prior(4), 1e-9);
    assert_true(reach[0] + reach[1] + reach[2] <= 1 && reach[1] > reach[2] && reach[2] > 0);
    assert_true(reach[3] + reach[4] <= reach[0] && reach[5] < reach[3]);
    for (int kind = 0; kind < DRAFT_CLASSES; kind++)
        assert_true(draft_policy_prior(kind) > 0 && draft_policy_prior(kind) < 1);
    assert_true(draft_policy_prior(-1) > 0 && draft_policy_prior(1000) > 0);
}

// ---- choosing --------------------------------------------------------------------------------------------------------------

// A request that is well into its text; `right` of its proposals' tokens were right.
static draft_policy experienced(int kind, int right) {
    const int32_t *truth = the_truth();
    draft_policy p;
    draft_policy_init(&p);
    for (int i = 0; i < 100; i++) {
        draft d = chain(kind, DRAFT_MAX, truth + 10);
        if (right < DRAFT_MAX) d.token[right] = -1;
        draft_policy_offer(&p, &d, 10);
        draft_policy_learn(&p, truth, 10 + DRAFT_MAX);
    }
    p.elapsed = 1000;
    return p;
}

static step_times known(double (*cost)(int m)) {
    step_times t;
    double ratio[STEP_TIMES_MAX];
    for (int m = 1; m <= STEP_TIMES_MAX; m++) ratio[m - 1] = cost(m);
    step_times_init(&t, ratio, STEP_TIMES_MAX);
    for (int i = 0; i < 10; i++) {
        for (int m = 1; m <= STEP_TIMES_MAX; m++) step_times_seen(&t, m, 0.01 * cost(m));
    }
    for (int i = 0; i < 10; i++) {
        for (int m = 1; m <= 8; m++) step_times_seen(&t, m, 0.01 * cost(m));
    }
    return t;
}

static void test_choose(void **state) {
    (void)state;
    step_times shallow = known(cost_shallow), steep = known(cost_steep);
    draft_policy good = experienced(5, DRAFT_MAX), six = experienced(5, 6), bad = experienced(5, 0), poor = good;
    draft d = chain(5, DRAFT_MAX, the_truth());
    policy_request r[3] = {
        {.policy = &six, .offered = &d}, {.policy = &bad, .offered = &d}, {.policy = &good, .offered = &d}};
    int n[3];
    draft_policy_choose(r, 1, &shallow, 1, 17, n);
    assert_int_equal(n[0], 6); // as many as are right
    draft_policy_choose(r, 1, &shallow, 1, 4, n);
    assert_int_equal(n[0], 3); // as many as there is room for
    draft_policy_choose(r, 1, &shallow, 4, 4, n);
    assert_int_equal(n[0], 0);
    draft_policy_choose(r + 1, 1, &shallow, 1, 17, n);
    assert_int_equal(n[0], 0);
    draft_policy_choose(r, 3, &shallow, 3, 3 + 10, n);
    assert_true(n[1] == 0 && n[0] + n[2] == 10 && n[0] <= 6); // room goes to those who use it
    d.n = 4;
    r[0].min = 5; // too short for its minimum
    draft_policy_choose(r, 1, &shallow, 1, 17, n);
    assert_int_equal(n[0], 0);
    d.n = DRAFT_MAX;
    draft_policy_choose(r, 1, &shallow, 1, 5, n);
    assert_int_equal(n[0], 0);
    draft_policy_choose(r, 1, &shallow, 1, 6, n);
    assert_int_equal(n[0], 5);

    poor.elapsed = 1; // two plain steps are all it may lose: at 0.05 a draft no limit, at 0.75 two drafts
    r[0] = (policy_request){.policy = &poor, .offered = &d};
    draft_policy_choose(r, 1, &shallow, 1, 17, n);
    assert_int_equal(n[0], DRAFT_MAX);
    draft_policy_choose(r, 1, &steep, 1, 17, n);
    assert_int_equal(n[0], 2);
    poor.spent = 3;
    draft_policy_choose(r, 1, &shallow, 1, 17, n);
    assert_int_equal(n[0], 0);

    draft_policy model = experienced(DRAFT_MODEL + 1, 6), mixed = model;
    for (int kind = DRAFT_MODEL; kind < DRAFT_CLASSES; kind++) { // never of another confidence
        if (kind != DRAFT_MODEL + 1) model.tried[kind][0] = model.right[kind][0] = 0;
    }
    r[0] = (policy_request){.policy = &model, .n = 9}; // not made yet
    draft_policy_choose(r, 1, &shallow, 1, 17, n);
    assert_int_equal(n[0], 6);
    double reach[DRAFT_MAX];
    for (int j = 0; j < DRAFT_MAX;
         j++) { // half of the proposals unsure, of which every other one is right at first and none further
        mixed.tried[DRAFT_MODEL][j] = j ? 1000 : mixed.tried[DRAFT_MODEL + 1][0];
        mixed.right[DRAFT_MODEL][j] = j ? 0 : mixed.tried[DRAFT_MODEL][0] / 2;
        if (!j) mixed.tried[DRAFT_MODEL + 2][0] = mixed.tried[DRAFT_MODEL + 3][0] = 0;
    }
    draft_policy_reaches_unmade(&mixed, DRAFT_MAX, reach);
    assert_true(reach[0] > 0.74 && reach[0] < 0.76 && reach[1] > 0.45 && reach[1] < 0.51);
    r[0].seconds_per_draft = 0.02; // and dearer than a step
    draft_policy_choose(r, 1, &shallow, 1, 17, n);
    assert_int_equal(n[0], 0);

    for (int j = 0; j < 2; j++) model.right[DRAFT_MODEL + 1][j] = 500, model.tried[DRAFT_MODEL + 1][j] = 1000;
    r[0].seconds_per_draft = 0.002; // 1.5 tokens for 1.25 plain steps are better than 1.75 for 1.5
    draft_policy_choose(r, 1, &shallow, 1, 17, n);
    assert_int_equal(n[0], 1);
    r[0].seconds_per_draft = 0;
    draft_policy_choose(r, 1, &shallow, 1, 17, n);
    assert_true(n[0] > 1);

    static policy_request many[POLICY_REQUESTS + 9];
    static int of_many[POLICY_REQUESTS + 9];
    for (int i = 0; i < POLICY_REQUESTS + 9; i++) many[i] = (policy_request){.policy = &good, .offered = &d};
    draft_policy_choose(many, POLICY_REQUESTS + 9, &shallow, POLICY_REQUESTS + 9, 1 << 20, of_many);
    for (int i = 0; i < POLICY_REQUESTS + 9; i++) assert_in_range(of_many[i], 0, i < POLICY_REQUESTS ? DRAFT_MAX : 0);
}

// Wrong drafts measure T(1) often, right ones seldom.
static void test_measures_plain(void **state) {
    (void)state;
    for (int right = 0; right <= 8; right += 8) {
        step_times t = known(cost_flat);
        draft_policy p = experienced(5, 8);
        draft d = chain(5, 8, the_truth());
        int plain = 0;
        for (int i = 0; i < 400; i++) {
            policy_request r = {.policy = &p, .offered = &d};
            int k;
            draft_policy_choose(&r, 1, &t, 1, 17, &k);
            plain += !k;
            step_times_seen(&t, 1 + k, 0.01 * cost_flat(1 + k));
            draft_policy_ran(&p, &(policy_step){&t, 1, k}, k, k ? 1 + right : 1, 0);
        }
        assert_in_range(plain, right ? 3 : 50, right ? 10 : 80);
    }
}

static void test_time(void **state) {
    (void)state;
    enum { STEPS = 2000 };
    step_times t = known(cost_shallow);
    draft_policy p = experienced(5, 6);
    draft d = chain(5, DRAFT_MAX, the_truth());
    policy_request r[4];
    for (int i = 0; i < 4; i++) r[i] = (policy_request){.policy = &p, .offered = &d};
    uint64_t begin = clock_now_ns();
    for (int i = 0; i < STEPS; i++) {
        int n[4];
        draft_policy_choose(r, 4, &t, 4, 20, n);
        step_times_seen(&t, 4 + n[0], 0.01);
    }
    double us = (double)(clock_now_ns() - begin) * 1e-3 / STEPS;
    printf("  choosing for 4 requests and learning T(m): %.2f us a step\n", us);
    assert_true(us < 100 * (SANITIZED ? 20 : 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learn),          cmocka_unit_test(test_reaches), cmocka_unit_test(test_choose),
        cmocka_unit_test(test_measures_plain), cmocka_unit_test(test_time),    cmocka_unit_test(test_batch),
        cmocka_unit_test(test_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
