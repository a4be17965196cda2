// The sampler against a plain reference: a full sort, libm in double, every step written out in the order of the contract.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "engine/sampler.h"

// ---- the reference -------------------------------------------------------------------------------------------------------

typedef struct text { // what was said so far
    const int32_t *prompt, *output;
    int n_prompt, n_output;
} text;

typedef struct entry {
    double logit, p;
    int id;
} entry;

static int by_logit(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->id - y->id;
}

static int count(const int32_t *ids, int n, int id) {
    int c = 0;
    for (int i = 0; i < n; i++) c += ids[i] == id;
    return c;
}

static float adjusted(const tally_sampling *s, float logit, int id, const text *t) {
    int in_prompt = count(t->prompt, t->n_prompt, id), in_output = count(t->output, t->n_output, id);
    if (s->repeat_penalty > 0 && in_prompt + in_output > 0) {
        if (logit > 0) {
            logit /= s->repeat_penalty;
        } else {
            logit *= s->repeat_penalty;
        }
    }
    if (in_output > 0) logit -= s->presence_penalty + (float)in_output * s->frequency_penalty;
    for (int i = 0; i < s->n_logit_bias; i++) {
        if (s->logit_bias[i].id == id) logit += s->logit_bias[i].bias;
    }
    return logit;
}

// Keeps e[0..return) and divides by their sum.
static int keep(entry *e, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += e[i].p;
    for (int i = 0; i < n; i++) e[i].p /= sum;
    return n;
}

// The candidates that are left, with probabilities, in order.
static int reference(const tally_sampling *s, const float *logits, int n, const text *t, entry *e) {
    for (int i = 0; i < n; i++) e[i] = (entry){.logit = (double)adjusted(s, logits[i], i, t), .id = i};
    qsort(e, (size_t)n, sizeof *e, by_logit);
    if (s->temperature == 0) {
        e[0].p = 1;
        return 1;
    }
    for (int i = 0; i < n; i++) e[i].p = exp((e[i].logit - e[0].logit) / (double)s->temperature);
    if (s->top_k > 0 && s->top_k < n) n = s->top_k;
    n = keep(e, n);
    if (s->top_p > 0 && s->top_p < 1) {
        double sum = 0;
        int kept = 0;
        while (kept < n && sum < (double)s->top_p) sum += e[kept++].p;
        n = keep(e, kept);
    }
    if (s->min_p > 0) {
        int kept = 0;
        while (kept < n && e[kept].p >= (double)s->min_p * e[0].p) kept++;
        n = keep(e, kept);
    }
    return n;
}

static int reference_choice(const tally_sampling *s, const float *logits, int n, const text *t, uint64_t position) {
    entry *e = malloc((size_t)n * sizeof *e);
    assert_non_null(e);
    int left = reference(s, logits, n, t, e), i = 0;
    double u = rng_uniform(s->seed, s->sample, position), sum = e[0].p;
    while (s->temperature != 0 && i < left - 1 && !(u < sum)) sum += e[++i].p;
    int id = e[i].id;
    free(e);
    return id;
}

// ---- the sampler under test ----------------------------------------------------------------------------------------------

typedef struct fixture {
    sampler_scratch scratch;
    int n;
    float *logits;
} fixture;

static fixture make(int n, uint64_t seed) {
    fixture f = {.n = n};
    error err;
    assert_int_equal(sampler_scratch_init(&f.scratch, n, &err), STATUS_OK);
    f.logits = malloc((size_t)n * sizeof *f.logits);
    assert_non_null(f.logits);
    for (int i = 0; i < n; i++) f.logits[i] = ((float)(hash_mix(seed + (uint64_t)i) >> 40) / 16777216.0f - 0.4f) * 9.0f;
    return f;
}

static void drop(fixture *f) {
    sampler_scratch_deinit(&f->scratch);
    free(f->logits);
}

// The choice from as many of the largest logits as sampler_best asks for.
static int choose_best(fixture *f, const tally_sampling *s, uint64_t position) {
    enum { MOST = 5000 };
    int n = sampler_best(s, f->n);
    int32_t ids[MOST];
    float logits[MOST];
    entry *e = malloc((size_t)f->n * sizeof *e);
    assert_true(e && n <= MOST);
    for (int i = 0; i < f->n; i++) e[i] = (entry){.logit = (double)f->logits[i], .id = i};
    qsort(e, (size_t)f->n, sizeof *e, by_logit);
    for (int i = 0; i < n; i++) ids[i] = e[i].id, logits[i] = f->logits[e[i].id];
    free(e);
    return sampler_choose_best(s, ids, logits, position, &f->scratch);
}

static int choose(fixture *f, const tally_sampling *s, const text *t, uint64_t position) {
    sampler_history h = {0};
    if (sampler_needs_history(s)) {
        h.prompt = calloc((size_t)f->n, sizeof *h.prompt);
        h.output = calloc((size_t)f->n, sizeof *h.output);
        assert_non_null(h.prompt);
        assert_non_null(h.output);
        for (int i = 0; i < t->n_prompt; i++) h.prompt[t->prompt[i]]++;
        for (int i = 0; i < t->n_output; i++) h.output[t->output[i]]++;
    }
    int id = sampler_choose(s, f->logits, &h, position, &f->scratch);
    free(h.prompt);
    free(h.output);
    if (sampler_best(s, f->n)) assert_int_equal(choose_best(f, s, position), id);
    return id;
}

static const int32_t PROMPT[] = {1, 2, 3, 3, 17}, OUTPUT[] = {3, 5, 5, 5, 8, 0};
static const text SAID = {PROMPT, OUTPUT, 5, 6};

static void same_choices(fixture *f, tally_sampling s, const text *t, int draws) {
    for (int i = 0; i < draws; i++) {
        int want = reference_choice(&s, f->logits, f->n, t, (uint64_t)i), got = choose(f, &s, t, (uint64_t)i);
        if (want != got) {
            fail_msg("position %d: sampler %d, reference %d (T %g k %d p %g min %g repeat %g presence %g frequency %g)",
                     i, got, want, (double)s.temperature, s.top_k, (double)s.top_p, (double)s.min_p,
                     (double)s.repeat_penalty, (double)s.presence_penalty, (double)s.frequency_penalty);
        }
    }
}

// ---- tests ---------------------------------------------------------------------------------------------------------------

static void test_every_parameter_alone(void **state) {
    (void)state;
    fixture f = make(40, 1);
    tally_logit_bias bias[] = {{4, 6.0f}, {9, -INFINITY}, {4, 0.5f}, {39, -2.0f}};
    static const float values[] = {0.3f, 0.5f, 0.9f, 0.99f};
    for (int i = 0; i < 4; i++) {
        float v = values[i];
        same_choices(&f, (tally_sampling){.temperature = v, .seed = 3}, &SAID, 200);
        same_choices(&f, (tally_sampling){.temperature = 2 * v + 0.5f, .seed = 3}, &SAID, 200);
        same_choices(&f, (tally_sampling){.temperature = 1, .top_p = v}, &SAID, 200);
        same_choices(&f, (tally_sampling){.temperature = 1, .min_p = v / 10}, &SAID, 200);
        same_choices(&f, (tally_sampling){.temperature = 1, .top_k = 1 + i * 13}, &SAID, 200); // 40: all of them
        same_choices(&f, (tally_sampling){.temperature = 1, .repeat_penalty = v + 0.6f}, &SAID, 200);
        same_choices(&f, (tally_sampling){.temperature = 1, .presence_penalty = v}, &SAID, 200);
        same_choices(&f, (tally_sampling){.temperature = 1, .frequency_penalty = v}, &SAID, 200);
        same_choices(&f, (tally_sampling){.temperature = 1, .logit_bias = bias, .n_logit_bias = 1 + i}, &SAID, 200);
    }
    drop(&f);
}

// All steps at once: the result depends on their order, so the order is the reference's.
static void test_combinations(void **state) {
    (void)state;
    tally_logit_bias bias[] = {{4, 1.5f}, {9, -INFINITY}, {5, 2.0f}};
    for (uint64_t c = 0; c < 400; c++) {
        int n = 2 + (int)(hash_mix(c) % 300);
        fixture f = make(n < 18 ? 18 : n, c * 1000);
        uint64_t r = hash_mix(c + 77);
        tally_sampling s = {.temperature = 0.1f + (float)(r % 20) / 10,
                            .top_k = (r >> 8) % 3 ? (int)((r >> 10) % 30) : 0,
                            .top_p = (r >> 20) % 3 ? (float)((r >> 22) % 100) / 100 : 0,
                            .min_p = (r >> 30) % 3 ? (float)((r >> 32) % 50) / 200 : 0,
                            .repeat_penalty = (r >> 40) % 2 ? 1.3f : 0,
                            .presence_penalty = (r >> 41) % 2 ? 0.7f : 0,
                            .frequency_penalty = (r >> 42) % 2 ? -0.4f : 0,
                            .logit_bias = bias,
                            .n_logit_bias = (int)((r >> 43) % 4),
                            .seed = r,
                            .sample = (uint32_t)c};
        same_choices(&f, s, &SAID, 12);
        s.temperature = 0;
        same_choices(&f, s, &SAID, 1);
        drop(&f);
    }
}

// A case worked by hand for each border between steps.
static void test_order_by_hand(void **state) {
    (void)state;
    fixture f = make(4, 0);
    const text t = {(int32_t[]){0}, (int32_t[]){1}, 1, 1};
    memcpy(f.logits, (float[]){4.0f, 3.0f, 2.5f, -1.0f}, 4 * sizeof(float));
    // Repetition divides positive logits of prompt and output alike: 4/2, 3/2 -> 2.5 wins.
    assert_int_equal(choose(&f, &(tally_sampling){.repeat_penalty = 2}, &t, 0), 2);
    // ... and multiplies negative ones: all said, -1 -> -2 must not overtake.
    memcpy(f.logits, (float[]){-1.0f, -1.5f, -1.75f, -9.0f}, 4 * sizeof(float));
    assert_int_equal(choose(&f, &(tally_sampling){.repeat_penalty = 2}, &t, 0), 2);
    // Presence and frequency do not see the prompt.
    memcpy(f.logits, (float[]){4.0f, 3.9f, 1.0f, 0.0f}, 4 * sizeof(float));
    assert_int_equal(choose(&f, &(tally_sampling){.presence_penalty = 100}, &t, 0), 0);
    assert_int_equal(choose(&f, &(tally_sampling){.frequency_penalty = 100}, &t, 0), 0);
    // The bias comes behind the penalties: 3.9/4 + 3.1 = 4.075 > 4; (3.9 + 3.1)/4 would lose.
    tally_logit_bias bias = {1, 3.1f};
    const text only_one = {NULL, (int32_t[]){1}, 0, 1};
    assert_int_equal(
        choose(&f, &(tally_sampling){.repeat_penalty = 4, .logit_bias = &bias, .n_logit_bias = 1}, &only_one, 0), 1);
    // top-k takes the two best before top-p; min-p goes by what temperature made of the distribution.
    memcpy(f.logits, (float[]){1.0f, 0.9f, 0.8f, 0.7f}, 4 * sizeof(float));
    for (uint64_t i = 0; i < 300; i++) {
        assert_true(choose(&f, &(tally_sampling){.temperature = 1, .top_k = 2, .top_p = 0.51f}, &t, i) <
                    1); // p(0) = 0.525 of the two
        assert_true(choose(&f, &(tally_sampling){.temperature = 0.1f, .min_p = 0.3f}, &t, i) <
                    2); // 1, 0.37, 0.14, 0.05
    }
    drop(&f);
}

static void test_ties(void **state) {
    (void)state;
    enum { V = 151936 };
    fixture f = make(V, 5);
    f.logits[3710] = f.logits[9930] = 50.0f;
    assert_int_equal(sampler_argmax(f.logits, V), 3710);
    assert_int_equal(choose(&f, &(tally_sampling){0}, &SAID, 0), 3710);
    assert_int_equal(choose(&f, &(tally_sampling){.repeat_penalty = 1.1f}, &SAID, 0), 3710);
    assert_int_equal(choose(&f, &(tally_sampling){.temperature = 1, .top_k = 1}, &SAID, 0), 3710);
    tally_logprob out[4];
    assert_int_equal(sampler_logprobs(f.logits, 3710, 3, out, &f.scratch), 4);
    assert_int_equal(out[0].id, 3710);
    assert_int_equal(out[1].id, 3710);
    assert_int_equal(out[2].id, 9930);
    assert_true(out[1].logprob == out[2].logprob);
    // Sampled: equal probabilities stand in order of id, so u < 1/2 is the lower one.
    for (uint64_t i = 0; i < 50; i++) {
        int want = rng_uniform(9, 2, i) < 0.5 ? 3710 : 9930;
        assert_int_equal(
            choose(&f, &(tally_sampling){.temperature = 0.5f, .top_k = 2, .seed = 9, .sample = 2}, &SAID, i), want);
    }
    for (int i = 0; i < V; i++) f.logits[i] = 0.25f; // all equal
    assert_int_equal(choose(&f, &(tally_sampling){0}, &SAID, 0), 0);
    for (uint64_t i = 0; i < 5; i++) {
        int want = (int)(rng_uniform(1, 0, i) * V);
        assert_int_equal(choose(&f, &(tally_sampling){.temperature = 1, .seed = 1}, &SAID, i), want);
    }
    drop(&f);
}

// The walk that says what the largest is: the first of equals, and -infinity or NaN never displaces a number.
static int32_t first_largest(const float *x, int n) {
    int32_t best = 0;
    for (int i = 1; i < n; i++) best = x[i] > x[best] ? i : best;
    return best;
}

static void test_argmax(void **state) {
    (void)state;
    enum { N = 5000 };
    static const int sizes[] = {1, 2, 15, 16, 17, 1023, 1024, 1025, 2048, 3077, N};
    float *x = malloc(N * sizeof *x);
    assert_non_null(x);
    for (int round = 0; round < 400; round++) {
        int n = sizes[round % 11];
        for (int i = 0; i < n; i++) {
            uint64_t r = hash_mix((uint64_t)(round * N + i));
            x[i] = r % 997 == 0 ? NAN : r % 5 == 0 ? -INFINITY : (float)(r % (round % 3 ? 50 : 100000)) - 25.0f;
        }
        if (round % 7 == 0) {
            for (int i = 0; i < n; i++) x[i] = -INFINITY;
        }
        assert_int_equal(sampler_argmax(x, n), first_largest(x, n));
    }
    for (int i = 0; i < N; i++) { // every place, once as the only largest and once with an equal one behind it
        for (int j = 0; j < N; j++) x[j] = j % 2 ? -0.0f : 0.0f;
        assert_int_equal(sampler_argmax(x, N), 0);
        x[i] = 1, x[N - 1] = 1;
        assert_int_equal(sampler_argmax(x, N), i);
    }
    free(x);
}

static void test_large_vocabulary(void **state) {
    (void)state;
    fixture f = make(70000, 8);
    same_choices(&f, (tally_sampling){.temperature = 1.5f}, &SAID, 10);
    same_choices(&f, (tally_sampling){.temperature = 1, .top_p = 0.95f, .min_p = 0.01f}, &SAID, 10);
    same_choices(&f, (tally_sampling){.temperature = 3, .top_k = 5000, .top_p = 0.9f}, &SAID, 10);
    drop(&f);
}

static void test_what_suffices(void **state) {
    (void)state;
    tally_logit_bias bias = {1, 1};
    assert_int_equal(sampler_best(&(tally_sampling){0}, 50), 1);
    assert_int_equal(sampler_best(&(tally_sampling){.top_k = 7}, 50), 1);
    assert_int_equal(sampler_best(&(tally_sampling){.temperature = 1, .top_k = 49}, 50), 49);
    assert_int_equal(sampler_best(&(tally_sampling){.temperature = 1, .top_k = 50}, 50),
                     0); // summed by id, not by rank
    assert_int_equal(sampler_best(&(tally_sampling){.temperature = 1, .top_p = 0.5f}, 50), 0);
    assert_int_equal(sampler_best(&(tally_sampling){.presence_penalty = 1}, 50), 0);
    assert_int_equal(sampler_best(&(tally_sampling){.logit_bias = &bias, .n_logit_bias = 1}, 50), 0);
}

static void test_depends_on_key_only(void **state) {
    (void)state;
    fixture f = make(200, 3);
    tally_sampling s = {.temperature = 2, .seed = 11, .sample = 4};
    int first[64], other_seed = 0, other_sample = 0, other_position = 0;
    for (int i = 0; i < 64; i++) first[i] = choose(&f, &s, &SAID, (uint64_t)i);
    for (int i = 63; i >= 0; i--)
        assert_int_equal(choose(&f, &s, &SAID, (uint64_t)i), first[i]); // the order of calls is nothing
    tally_sampling seed = s, sample = s;
    seed.seed++, sample.sample++;
    for (int i = 0; i < 64; i++) {
        other_seed += choose(&f, &seed, &SAID, (uint64_t)i) != first[i];
        other_sample += choose(&f, &sample, &SAID, (uint64_t)i) != first[i];
        other_position += choose(&f, &s, &SAID, (uint64_t)i + 64) != first[i];
    }
    assert_true(other_seed > 40 && other_sample > 40 && other_position > 40);
    drop(&f);
}

// Frequencies against probabilities; 0.1 % point of chi-square with 7 degrees of freedom is 24.3.
static void test_distribution(void **state) {
    (void)state;
    enum { N = 20000, V = 8 };
    fixture f = make(V, 21);
    const tally_sampling cases[] = {
        {.temperature = 0.7f, .seed = 1}, {.temperature = 3, .seed = 2}, {.temperature = 2, .top_p = 0.9f, .seed = 3}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        entry e[V];
        int left = reference(&cases[c], f.logits, V, &SAID, e), seen[V] = {0};
        for (int i = 0; i < N; i++) seen[choose(&f, &cases[c], &SAID, (uint64_t)i)]++;
        double chi = 0;
        int total = 0;
        for (int i = 0; i < left; i++) {
            double want = e[i].p * N;
            if (want > 1) chi += (seen[e[i].id] - want) * (seen[e[i].id] - want) / want;
            total += seen[e[i].id];
        }
        assert_int_equal(total, N); // nothing that was cut off is ever drawn
        assert_true(chi < 24.3);
    }
    drop(&f);
}

// A forbidden token is never drawn, whatever u is; nor do huge finite numbers make NaN.
static void test_extremes(void **state) {
    (void)state;
    enum { V = 1000 };
    fixture f = make(V, 2);
    tally_logit_bias bias[V];
    for (int i = 0; i < V; i++) bias[i] = (tally_logit_bias){i, i == 77 ? 0 : -INFINITY};
    tally_sampling s = {.temperature = 1, .logit_bias = bias, .n_logit_bias = V};
    for (uint64_t i = 0; i < 200; i++) assert_int_equal(choose(&f, &s, &SAID, i), 77);
    s.temperature = 0;
    assert_int_equal(choose(&f, &s, &SAID, 0), 77);
    tally_logit_bias huge = {500, 3.4e38f};
    f.logits[500] = 3e38f;
    s = (tally_sampling){.temperature = 1, .logit_bias = &huge, .n_logit_bias = 1};
    for (uint64_t i = 0; i < 20; i++) assert_int_equal(choose(&f, &s, &SAID, i), 500);
    s = (tally_sampling){.temperature = 1e-38f};
    for (uint64_t i = 0; i < 20; i++) assert_int_equal(choose(&f, &s, &SAID, i), 500);
    s = (tally_sampling){.temperature = 3e38f, .top_p = 1e-30f};
    for (uint64_t i = 0; i < 20; i++) assert_int_equal(choose(&f, &s, &SAID, i), 500);
    drop(&f);
}

static void test_logprobs(void **state) {
    (void)state;
    enum { V = 3001 };
    fixture f = make(V, 31);
    long double total = 0;
    for (int i = 0; i < V; i++) total += expl((long double)f.logits[i]);
    entry *e = malloc(V * sizeof *e);
    assert_non_null(e);
    for (int i = 0; i < V; i++) e[i] = (entry){.logit = (double)f.logits[i], .id = i};
    qsort(e, V, sizeof *e, by_logit);
    static tally_logprob out[V + 1];
    static const int wanted[] = {0, 1, 5, 64, 65, V, V + 100};
    for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++) {
        int n = sampler_logprobs(f.logits, 17, wanted[w], out, &f.scratch);
        assert_int_equal(n, 1 + (wanted[w] < V ? wanted[w] : V));
        assert_int_equal(out[0].id, 17);
        for (int i = 0; i < n; i++) {
            if (i > 0) assert_int_equal(out[i].id, e[i - 1].id);
            double want = (double)((long double)f.logits[out[i].id] - logl(total));
            assert_true(fabs((double)out[i].logprob - want) < 1e-6 * (1 + fabs(want)));
        }
    }
    free(e);
    drop(&f);
}

static void bad(tally_sampling s, const char *field, const char *value, const char *range) {
    error err = {0};
    assert_int_equal(sampler_check(&s, 100, &err), STATUS_BAD_ARGUMENT);
    if (!strstr(err.text, field) || !strstr(err.text, value) || !strstr(err.text, range)) {
        fail_msg("'%s' should name %s, %s and %s", err.text, field, value, range);
    }
}

static void test_errors(void **state) {
    (void)state;
    bad((tally_sampling){.temperature = -0.5f}, "temperature", "-0.5", "at least 0");
    bad((tally_sampling){.temperature = INFINITY}, "temperature", "inf", "finite");
    bad((tally_sampling){.temperature = NAN}, "temperature", "nan", "finite");
    bad((tally_sampling){.top_k = -3}, "top_k", "-3", "at least 0");
    bad((tally_sampling){.top_p = 1.5f}, "top_p", "1.5", "between 0 and 1");
    bad((tally_sampling){.top_p = -1}, "top_p", "-1", "between 0 and 1");
    bad((tally_sampling){.min_p = 2}, "min_p", "2", "between 0 and 1");
    bad((tally_sampling){.min_p = NAN}, "min_p", "nan", "between 0 and 1");
    bad((tally_sampling){.repeat_penalty = -1}, "repeat_penalty", "-1", "positive");
    bad((tally_sampling){.presence_penalty = NAN}, "presence_penalty", "nan", "finite");
    bad((tally_sampling){.frequency_penalty = INFINITY}, "frequency_penalty", "inf", "finite");
    tally_logit_bias bias[100] = {{100, 1.0f}};
    bad((tally_sampling){.logit_bias = bias, .n_logit_bias = 1}, "logit_bias", "100", "0 to 99");
    bias[0].id = -1;
    bad((tally_sampling){.logit_bias = bias, .n_logit_bias = 1}, "logit_bias", "-1", "0 to 99");
    bias[0] = (tally_logit_bias){3, NAN};
    bad((tally_sampling){.logit_bias = bias, .n_logit_bias = 1}, "logit_bias", "nan", "finite");
    bias[0] = (tally_logit_bias){3, INFINITY};
    bad((tally_sampling){.logit_bias = bias, .n_logit_bias = 1}, "logit_bias", "inf", "-infinity");
    for (int i = 0; i < 100; i++) bias[i] = (tally_logit_bias){i, -INFINITY};
    bad((tally_sampling){.logit_bias = bias, .n_logit_bias = 100}, "logit_bias", "100", "forbids all");
    tally_logit_bias many[120]; // the same ids again: a finite bias frees none, and one forbidden often is one
    for (int i = 0; i < 120; i++) many[i] = i < 100 ? bias[i] : (tally_logit_bias){i - 100, 1.0f};
    bad((tally_sampling){.logit_bias = many, .n_logit_bias = 120}, "logit_bias", "100", "forbids all");
    for (int i = 0; i < 120; i++) many[i] = (tally_logit_bias){5, -INFINITY};
    assert_int_equal(sampler_check(&(tally_sampling){.logit_bias = many, .n_logit_bias = 120}, 100, &(error){0}),
                     STATUS_OK);
    error err;
    tally_sampling good = {.temperature = 1,
                           .top_k = 5,
                           .top_p = 0.5f,
                           .min_p = 1,
                           .repeat_penalty = 1.1f,
                           .presence_penalty = -2,
                           .frequency_penalty = 2,
                           .logit_bias = bias,
                           .n_logit_bias = 99};
    assert_int_equal(sampler_check(&good, 100, &err), STATUS_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_parameter_alone),
        cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_order_by_hand),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_large_vocabulary),
        cmocka_unit_test(test_depends_on_key_only),
        cmocka_unit_test(test_what_suffices),
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
