// Tokens per second of a step with d drafts: (rows + the chances of the d best drafts) / (T(rows + d) + making them). Drafts are handed out one
// by one to the request whose next one is likeliest; that is best for every d at once if chances fall along each proposal, which they do
// for chains. So every d is looked at, and T may have steps of any kind.
#include "spec/draft_policy.h"

static const double least_gain = 1.01;      // estimates are noisy: not for less than this
static const double benefit_of_doubt = 0.4; // part of an unmeasured cost that is not believed, so that it gets measured

static const double careful = 0.5; // standard deviations

enum { patience = 6 }; // steps with drafts that win nothing

typedef struct candidate {
    double reach[DRAFT_MAX];
    double cost; // of making a draft
    int n, min;
} candidate;

typedef struct choice {
    const step_times *times;
    int rows, n_requests;
    double plain; // T(rows)
    candidate request[POLICY_REQUESTS];
} choice;

// What n drafts cost: as far as that was not measured, as much per row as the others.
static double loss_of(const choice *c, int n) {
    double doubt = step_times_doubt(c->times, c->rows + n);
    return (1 - doubt) * (step_times_of(c->times, c->rows + n) - c->plain) + doubt * c->plain * n / c->rows;
}

// The most drafts whose loss, were they all wrong, the request can pay.
static int affordable(const choice *c, const draft_policy *p, int n, double cost) {
    double purse = draft_policy_purse(p) * c->plain / c->rows;
    while (n > 0 && loss_of(c, n) + n * cost > purse) n--;
    return n;
}

static void prepare(choice *c, const policy_request *r, candidate *out) {
    int n = r->offered ? r->offered->n : r->n;
    if (n > DRAFT_MAX) n = DRAFT_MAX;
    out->cost = r->seconds_per_draft;
    out->min = r->min;
    out->n = n > 0 ? affordable(c, r->policy, n, out->cost) : 0;
    if (out->n < out->min) out->n = 0;
    if (out->n == 0) return;
    if (r->offered)
        draft_policy_reaches(r->policy, r->offered, out->reach);
    else
        draft_policy_reaches_unmade(r->policy, n, out->reach);
}

// An unmeasured cost gets the benefit of the doubt, so that it is measured, a measured one is taken to be somewhat more: where it is close
// the step is plain, which costs next to nothing and makes T(rows) better known.
static double seconds_of(const choice *c, int drafts) {
    int m = c->rows + drafts;
    double seconds = step_times_of(c->times, m);
    if (step_times_measured(c->times, m)) return seconds * (1 + careful * step_times_unsure(c->times, c->rows, m));
    return c->plain + (seconds - c->plain) * (1 - benefit_of_doubt * step_times_doubt(c->times, m));
}

// Hands out up to `limit` drafts; returns the number at which the rate was best.
static int hand_out(const choice *c, int limit, int *n) {
    double emitted = c->rows, making = 0, best_rate = least_gain * c->rows / c->plain;
    int best = 0, too_few = 0; // requests with some drafts, but fewer than their minimum
    for (int i = 0; i < c->n_requests; i++) n[i] = 0;
    for (int total = 1; total <= limit; total++) {
        int next = -1;
        double value = 0;
        for (int i = 0; i < c->n_requests; i++) {
            const candidate *r = &c->request[i];
            if (n[i] >= r->n) continue;
            double v = r->reach[n[i]] - r->cost * c->rows / c->plain;
            if (v > value) next = i, value = v;
        }
        if (next < 0) break;
        const candidate *r = &c->request[next];
        emitted += r->reach[n[next]++];
        making += r->cost;
        if (n[next] == 1 && r->min > 1) too_few++;
        if (n[next] == r->min && r->min > 1) too_few--;
        double rate = emitted / (seconds_of(c, total) + making);
        if (!too_few && rate > best_rate) best_rate = rate, best = total;
    }
    return best;
}

// Whether this step should be plain to measure T(rows), on which every judgement rests. Where drafts win little that costs little, and is done
// every few steps. A lone request begins with one: its context is another than that of the steps before.
static bool measure_plain(const choice *c, const policy_request *r) {
    int64_t steps = 0, won = 0;
    for (int i = 0; i < c->n_requests; i++) {
        steps += r[i].policy->drafted_steps;
        won += r[i].policy->won_tokens;
    }
    if (c->n_requests == 1 && r[0].policy->elapsed <= 0) return true;
    return steps >= patience * c->n_requests + 2 * won || step_times_stale(c->times, c->rows);
}

void draft_policy_choose(const policy_request *r, int n_requests, const step_times *t, int rows, int max_rows, int *n) {
    choice c = {.times = t, .rows = rows < 1 ? 1 : rows};
    for (int i = 0; i < n_requests; i++) n[i] = 0;
    c.n_requests = n_requests < POLICY_REQUESTS ? n_requests : POLICY_REQUESTS;
    c.plain = step_times_of(t, c.rows);
    bool any = false;
    for (int i = 0; i < c.n_requests; i++) {
        prepare(&c, &r[i], &c.request[i]);
        any |= c.request[i].n > 0;
    }
    if (!any || measure_plain(&c, r)) return;
    hand_out(&c, hand_out(&c, max_rows - c.rows, n), n);
}
