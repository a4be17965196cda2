// Tokens per second of a step with d drafts: (rows + the chances of the d best drafts) / (T(rows + d) + making them). Drafts are handed out one
// by one to the request whose next one is likeliest; that is best for every d at once if chances fall along each proposal, which they do
// for chains. So every d is looked at, and T may have steps of any kind.
#include "spec/draft_policy.h"

static const double least_gain = 1.01;      // estimates are noisy: not for less than this
static const double benefit_of_doubt = 0.4; // part of an unmeasured cost that is not believed, so that it gets measured

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

// The most drafts whose loss, were they all wrong, the request can pay.
static int affordable(const choice *c, const draft_policy *p, int n, double cost) {
    double purse = draft_policy_purse(p) * c->plain / c->rows;
    while (n > 0 && step_times_of(c->times, c->rows + n) - c->plain + n * cost > purse) n--;
    return n;
}

static void prepare(choice *c, const policy_request *r, candidate *out) {
    draft chain = {.n = r->n < 0 ? 0 : r->n > DRAFT_MAX ? DRAFT_MAX : r->n, .kind = r->kind};
    for (int i = 0; i < chain.n; i++) chain.parent[i] = (int8_t)(i - 1);
    const draft *d = r->offered ? r->offered : &chain;
    out->cost = r->seconds_per_draft;
    out->min = r->min;
    out->n = d->n ? affordable(c, r->policy, d->n, out->cost) : 0;
    if (out->n < out->min) out->n = 0;
    if (out->n) draft_policy_reaches(r->policy, d, out->reach);
}

static double seconds_of(const choice *c, int drafts) {
    int m = c->rows + drafts;
    return c->plain + (step_times_of(c->times, m) - c->plain) * (1 - benefit_of_doubt * step_times_doubt(c->times, m));
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
    if (!any || step_times_stale(t, c.rows)) return;
    hand_out(&c, hand_out(&c, max_rows - c.rows, n), n);
}
