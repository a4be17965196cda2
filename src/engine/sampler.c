#include "engine/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/elementary.h"
#include "base/rng.h"

typedef struct sampler_candidate {
    float logit;
    int32_t id;
    double p; // exp((logit - largest) / temperature)
} sampler_candidate;

status sampler_scratch_init(sampler_scratch *s, int n_vocab, error *err) {
    *s = (sampler_scratch){.n_vocab = n_vocab};
    s->logits = malloc((size_t)n_vocab * sizeof *s->logits);
    s->candidates = malloc((size_t)n_vocab * sizeof *s->candidates);
    if (s->logits && s->candidates) return STATUS_OK;
    sampler_scratch_deinit(s);
    return error_no_memory(err, (unsigned long long)n_vocab * (sizeof *s->logits + sizeof *s->candidates));
}

void sampler_scratch_deinit(sampler_scratch *s) {
    free(s->logits);
    free(s->candidates);
    *s = (sampler_scratch){0};
}

static status out_of_range(error *err, const char *field, double value, const char *range) {
    return error_set(err, STATUS_BAD_ARGUMENT, "%s is %g, it must be %s", field, value, range);
}

// Whether every id has a bias of -infinity, which forbids it whatever other biases it has.
static status check_any_left(const tally_sampling *p, int n_vocab, error *err) {
    if (p->n_logit_bias < n_vocab) return STATUS_OK;
    bool *forbidden = calloc((size_t)n_vocab, sizeof *forbidden);
    if (!forbidden) return error_no_memory(err, (unsigned long long)n_vocab * sizeof *forbidden);
    int left = n_vocab;
    for (int i = 0; i < p->n_logit_bias; i++) {
        bool *f = &forbidden[p->logit_bias[i].id];
        if (p->logit_bias[i].bias == -INFINITY && !*f) *f = true, left--;
    }
    free(forbidden);
    return left ? STATUS_OK : error_set(err, STATUS_BAD_ARGUMENT, "logit_bias forbids all %d tokens", n_vocab);
}

status sampler_check(const tally_sampling *p, int n_vocab, error *err) {
    if (!(p->temperature >= 0 && isfinite(p->temperature)))
        return out_of_range(err, "temperature", p->temperature, "a finite number of at least 0");
    if (p->top_k < 0) return out_of_range(err, "top_k", p->top_k, "at least 0 (0: off)");
    if (!(p->top_p >= 0 && p->top_p <= 1)) return out_of_range(err, "top_p", p->top_p, "between 0 and 1 (0 or 1: off)");
    if (!(p->min_p >= 0 && p->min_p <= 1)) return out_of_range(err, "min_p", p->min_p, "between 0 and 1 (0: off)");
    if (!(p->repeat_penalty >= 0 && isfinite(p->repeat_penalty))) {
        return out_of_range(err, "repeat_penalty", p->repeat_penalty, "positive and finite (1: off)");
    }
    if (!isfinite(p->presence_penalty)) return out_of_range(err, "presence_penalty", p->presence_penalty, "finite");
    if (!isfinite(p->frequency_penalty)) return out_of_range(err, "frequency_penalty", p->frequency_penalty, "finite");
    for (int i = 0; i < p->n_logit_bias; i++) {
        const tally_logit_bias *b = &p->logit_bias[i];
        if (b->id < 0 || b->id >= n_vocab) {
            return error_set(err, STATUS_BAD_ARGUMENT, "logit_bias names token %d, but the model's ids are 0 to %d",
                             b->id, n_vocab - 1);
        }
        if (isnan(b->bias) || b->bias == INFINITY)
            return out_of_range(err, "logit_bias", b->bias, "a finite number or -infinity");
    }
    return check_any_left(p, n_vocab, err);
}

bool sampler_needs_history(const tally_sampling *p) {
    return (p->repeat_penalty != 0 && p->repeat_penalty != 1) || p->presence_penalty != 0 || p->frequency_penalty != 0;
}

// By the largest of each lane of a block, which compilers turn into vectors: logits are as many as the vocabulary. The first of
// equals wins, as in a walk over all.
enum { ARGMAX_LANES = 16, ARGMAX_BLOCK = 1024 };

static float block_largest(const float *x) {
    float most[ARGMAX_LANES];
    for (int j = 0; j < ARGMAX_LANES; j++) most[j] = -INFINITY;
    for (int i = 0; i < ARGMAX_BLOCK; i += ARGMAX_LANES) {
        for (int j = 0; j < ARGMAX_LANES; j++) most[j] = x[i + j] > most[j] ? x[i + j] : most[j];
    }
    for (int j = 1; j < ARGMAX_LANES; j++) most[0] = most[j] > most[0] ? most[j] : most[0];
    return most[0];
}

int32_t sampler_argmax(const float *logits, int n) {
    int32_t best = 0;
    int at = 0;
    for (; n - at >= ARGMAX_BLOCK; at += ARGMAX_BLOCK) {
        if (!(block_largest(logits + at) > logits[best])) continue;
        for (int i = at; i < at + ARGMAX_BLOCK; i++) {
            if (logits[i] > logits[best]) best = i;
        }
    }
    for (int i = at; i < n; i++) {
        if (logits[i] > logits[best]) best = i;
    }
    return best;
}

// Penalties and biases of any size leave a number: an overflow must not make infinity minus infinity later, nor look forbidden.
static float bounded(float x) { return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x; }

static void apply_penalties(const tally_sampling *p, const sampler_history *h, float *logits, int n) {
    bool repeat = p->repeat_penalty != 0 && p->repeat_penalty != 1;
    for (int i = 0; i < n; i++) {
        if (repeat && (h->prompt[i] || h->output[i]))
            logits[i] = logits[i] > 0 ? logits[i] / p->repeat_penalty : logits[i] * p->repeat_penalty;
        if (h->output[i]) logits[i] -= p->presence_penalty + (float)h->output[i] * p->frequency_penalty;
        logits[i] = bounded(logits[i]);
    }
}

static void apply_bias(const tally_sampling *p, float *logits) {
    for (int i = 0; i < p->n_logit_bias; i++) {
        const tally_logit_bias *b = &p->logit_bias[i];
        bool forbidden = b->bias == -INFINITY || logits[b->id] == -INFINITY;
        logits[b->id] = forbidden ? -INFINITY : bounded(logits[b->id] + b->bias);
    }
}

// The total order of candidates: logit descending, id ascending.
static bool before(const sampler_candidate *a, const sampler_candidate *b) {
    return a->logit != b->logit ? a->logit > b->logit : a->id < b->id;
}

static void swap(sampler_candidate *a, sampler_candidate *b) {
    sampler_candidate t = *a;
    *a = *b;
    *b = t;
}

static void sift_down(sampler_candidate *c, int root, int n) {
    for (int child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && before(&c[child], &c[child + 1])) child++;
        if (!before(&c[root], &c[child])) return;
        swap(&c[root], &c[child]);
    }
}

// Heapsort: in place, because qsort may allocate and this is the step path. The order is total, so any sort gives the same.
static void sort_candidates(sampler_candidate *c, int n) {
    for (int i = n / 2 - 1; i >= 0; i--) sift_down(c, i, n);
    for (int last = n - 1; last > 0; last--) {
        swap(&c[0], &c[last]);
        sift_down(c, 0, last);
    }
}

// Quickselect: afterwards the first k of c[0..n) are the k first in order, in any order among themselves.
static void select_first(sampler_candidate *c, int n, int k) {
    while (n > 1 && k > 0 && k < n) {
        sampler_candidate *mid = &c[n / 2], *last = &c[n - 1];
        if (before(mid, c)) swap(mid, c);
        if (before(last, c)) swap(last, c);
        if (before(last, mid)) swap(last, mid);
        sampler_candidate pivot = *mid;
        int i = 0, j = n - 1;
        while (i <= j) {
            while (before(&c[i], &pivot)) i++;
            while (before(&pivot, &c[j])) j--;
            if (i <= j) swap(&c[i++], &c[j--]);
        }
        if (k <= j + 1) {
            n = j + 1;
        } else if (k >= i) {
            c += i, n -= i, k -= i;
        } else {
            return;
        }
    }
}

// A list of candidates of which a growing prefix is sorted: most draws end within the first few.
typedef struct sorted_prefix {
    sampler_candidate *c;
    int n, n_sorted;
} sorted_prefix;

static void sort_until(sorted_prefix *s, int i) {
    while (s->n_sorted <= i && s->n_sorted < s->n) {
        int more = s->n_sorted ? s->n_sorted * 7 : 64, left = s->n - s->n_sorted;
        if (more > left) more = left;
        select_first(s->c + s->n_sorted, left, more);
        sort_candidates(s->c + s->n_sorted, more);
        s->n_sorted += more;
    }
}

static int32_t draw(sorted_prefix *s, double u, double total) {
    double sum = 0;
    int32_t id = s->c[0].id;
    for (int i = 0; i < s->n; i++) {
        sort_until(s, i);
        if (s->c[i].p == 0) break; // rounding let u * total reach the sum: the last one that is possible at all
        id = s->c[i].id;
        sum += s->c[i].p;
        if (u * total < sum) break;
    }
    return id;
}

// Temperature, top-p, min-p and the draw, from the candidates that top-k left.
static int32_t sample(const tally_sampling *p, sorted_prefix *s, uint64_t position) {
    float largest = s->c[0].logit;
    for (int i = 1; i < s->n; i++) largest = s->c[i].logit > largest ? s->c[i].logit : largest;
    double total = 0;
    for (int i = 0; i < s->n; i++) {
        s->c[i].p = elementary_exp_double(((double)s->c[i].logit - (double)largest) / (double)p->temperature);
        total += s->c[i].p;
    }
    if (p->top_p > 0 && p->top_p < 1) { // the shortest prefix that holds top_p of the mass
        double sum = 0;
        int kept = 0;
        while (kept < s->n && sum < (double)p->top_p * total) {
            sort_until(s, kept);
            sum += s->c[kept++].p;
        }
        s->n = kept;
        if (s->n_sorted > s->n) s->n_sorted = s->n;
        total = sum;
    }
    if (p->min_p > 0) { // probabilities below min_p times the largest (which is 1 here) go
        double sum = 0;
        int kept = 0;
        for (; kept < s->n; kept++) {
            sort_until(s, kept);
            if (s->c[kept].p < (double)p->min_p) break;
            sum += s->c[kept].p;
        }
        s->n = kept;
        if (s->n_sorted > s->n) s->n_sorted = s->n;
        total = sum;
    }
    return draw(s, rng_uniform(p->seed, p->sample, position), total);
}

int32_t sampler_choose(const tally_sampling *p, const float *logits, const sampler_history *history, uint64_t position,
                       sampler_scratch *scratch) {
    int n = scratch->n_vocab;
    bool penalised = sampler_needs_history(p);
    if (p->temperature == 0 && !penalised && p->n_logit_bias == 0) return sampler_argmax(logits, n);
    float *l = scratch->logits;
    memcpy(l, logits, (size_t)n * sizeof *l);
    if (penalised) apply_penalties(p, history, l, n);
    apply_bias(p, l);
    if (p->temperature == 0) return sampler_argmax(l, n);

    sorted_prefix s = {.c = scratch->candidates, .n = n};
    for (int i = 0; i < n; i++) s.c[i] = (sampler_candidate){l[i], i, 0};
    if (p->top_k > 0 && p->top_k < n) {
        select_first(s.c, n, p->top_k);
        s.n = p->top_k;
        sort_candidates(s.c, s.n); // total below is then a sum in a fixed order
        s.n_sorted = s.n;
    }
    return sample(p, &s, position);
}

int sampler_best(const tally_sampling *p, int n_vocab) {
    if (sampler_needs_history(p) || p->n_logit_bias > 0) return 0;
    if (p->temperature == 0) return 1;
    return p->top_k < n_vocab ? p->top_k : 0;
}

int32_t sampler_choose_best(const tally_sampling *p, const int32_t *ids, const float *logits, uint64_t position,
                            sampler_scratch *scratch) {
    if (p->temperature == 0) return ids[0];
    sorted_prefix s = {.c = scratch->candidates, .n = p->top_k, .n_sorted = p->top_k};
    for (int i = 0; i < s.n; i++) s.c[i] = (sampler_candidate){logits[i], ids[i], 0};
    return sample(p, &s, position);
}

int sampler_logprobs(const float *logits, int32_t chosen, int n, tally_logprob *out, sampler_scratch *scratch) {
    int n_vocab = scratch->n_vocab;
    if (n > n_vocab) n = n_vocab;
    double largest = logits[sampler_argmax(logits, n_vocab)], total = 0;
    for (int i = 0; i < n_vocab; i++) total += elementary_exp_double((double)logits[i] - largest);
    double norm = largest + elementary_log_double(total);
    sampler_candidate *c = scratch->candidates;
    for (int i = 0; i < n_vocab; i++) c[i] = (sampler_candidate){logits[i], i, 0};
    select_first(c, n_vocab, n);
    sort_candidates(c, n);
    out[0] = (tally_logprob){chosen, (float)((double)logits[chosen] - norm)};
    for (int i = 0; i < n; i++) out[1 + i] = (tally_logprob){c[i].id, (float)((double)c[i].logit - norm)};
    return 1 + n;
}
