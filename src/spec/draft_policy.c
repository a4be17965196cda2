// What is known of a request's drafts, and what they cost it; draft_choose.c chooses by it.
#include "spec/draft_policy.h"

#include <string.h>

static const double first_weight = 2;  // proposals that the prior is worth; they fade like others
static const double later_weight = 6;  // tokens behind a right one, likewise, but they stay
static const double depth_weight = 3;  // tokens of one depth that all depths together are worth
static const double keep = 0.96;       // of a class's counts at its next proposal: 25 are remembered
static const double keep_model = 0.99; // of a model's counts at a token without its drafts: in time it is tried again
static const double other_prior = 0.3, other_weight = 6, keep_other = 0.98;
static const double careful = 0.5; // standard deviations of a cost that are reckoned with
static const double first_credit = 2, loss_allowed = 0.015;

// Guesses, on the low side: what is learnt overrules them within some proposals.
double draft_policy_prior(int kind) {
    static const double prior[DRAFT_CLASSES] = {
        0.15, 0.3,  0.4,  0.5,  0.6,  0.7,
        0.8,  0.85, 0.9,  0.95,            // own text: 1, 2, 3, 4, 5, 6-7, 8-11, 12-19, 20-31, 32- tokens matched
        0.25, 0.4,  0.55, 0.7,  0.85, 0.9, // others': 1-2, 3, 4-5, 6-9, 10-19, 20-
        0.4,  0.6,  0.75, 0.9,             // a draft model
    };
    return kind >= 0 && kind < DRAFT_CLASSES ? prior[kind] : 0.25;
}

static int class_of(const draft *d) { return d->kind >= 0 && d->kind < DRAFT_CLASSES ? d->kind : 0; }

void draft_policy_init(draft_policy *p) {
    memset(p, 0, sizeof(*p));
    for (int kind = 0; kind < DRAFT_CLASSES; kind++) {
        p->tried[kind][0] = first_weight;
        p->right[kind][0] = first_weight * draft_policy_prior(kind);
    }
}

// ---- learning --------------------------------------------------------------------------------------------------------------

void draft_policy_offer(draft_policy *p, const draft *d, int n) {
    if (d->n < 1) return;
    if (p->n_offers == POLICY_OFFERS) memmove(p->offer, p->offer + 1, (size_t)--p->n_offers * sizeof(*p->offer));
    policy_offer *o = &p->offer[p->n_offers++];
    *o = (policy_offer){.d = *d, .next = n, .node = -1};
}

static void fade(draft_policy *p, int kind, double factor) {
    for (int j = 0; j < DRAFT_MAX; j++) p->right[kind][j] *= factor, p->tried[kind][j] *= factor;
}

static void score(draft_policy *p, int kind, int depth, bool right) {
    if (!depth) fade(p, kind, keep);
    p->tried[kind][depth]++;
    p->right[kind][depth] += right;
}

static void score_other(draft_policy *p, bool right) {
    p->other_right = p->other_right * keep_other + right;
    p->other_tried = p->other_tried * keep_other + 1;
}

// The next token of the history: false when the outcome is known to the end.
static bool follow(draft_policy *p, policy_offer *o, int32_t token) {
    int n_children = 0, found = -1;
    for (int i = o->node + 1; i < o->d.n && found < 0; i++) {
        if (o->d.parent[i] != o->node) continue;
        bool right = o->d.token[i] == token;
        if (!n_children++)
            score(p, class_of(&o->d), o->depth, right);
        else
            score_other(p, right);
        if (right) found = i;
    }
    o->node = found;
    o->depth++;
    return found >= 0;
}

void draft_policy_learn(draft_policy *p, const int32_t *token, int n) {
    int kept = 0;
    for (int i = 0; i < p->n_offers; i++) {
        policy_offer *o = &p->offer[i];
        bool open = true;
        while (open && o->next < n) open = follow(p, o, token[o->next++]);
        if (open) p->offer[kept++] = *o;
    }
    p->n_offers = kept;
}

// ---- probabilities ---------------------------------------------------------------------------------------------------------

// [depth] Probability that the first node below a right one is right: by depth, in so far as that was tried; drawn towards all later depths
// of the class together, and those to the prior. Depth 0 is apart: most wrong proposals are wrong from the start.
static void rates(const draft_policy *p, int kind, double *rate) {
    const double *right = p->right[kind], *tried = p->tried[kind];
    double prior = draft_policy_prior(kind), all_right = later_weight * (0.5 + 0.5 * prior), all = later_weight;
    for (int j = 1; j < DRAFT_MAX; j++) all_right += right[j], all += tried[j];
    rate[0] = right[0] / tried[0];
    for (int j = 1; j < DRAFT_MAX; j++)
        rate[j] = (right[j] + depth_weight * all_right / all) / (tried[j] + depth_weight);
}

void draft_policy_reaches(const draft_policy *p, const draft *d, double *reach) {
    double rate[DRAFT_MAX], left[DRAFT_MAX + 1]; // left[1 + i]: that i is right and none of its children so far
    double other = (p->other_right + other_weight * other_prior) / (p->other_tried + other_weight);
    int8_t depth[DRAFT_MAX];
    bool has_child[DRAFT_MAX + 1] = {false};
    rates(p, class_of(d), rate);
    left[0] = 1;
    for (int i = 0; i < d->n; i++) {
        int parent = d->parent[i];
        depth[i] = (int8_t)(parent < 0 ? 0 : depth[parent] + 1);
        reach[i] = left[1 + parent] * (has_child[1 + parent] ? other : rate[depth[i]]);
        has_child[1 + parent] = true;
        left[1 + parent] -= reach[i];
        left[1 + i] = reach[i];
    }
}

void draft_policy_reaches_unmade(const draft_policy *p, int n, double *reach) {
    double weights = 0;
    for (int i = 0; i < n; i++) reach[i] = 0;
    for (int kind = DRAFT_MODEL; kind < DRAFT_CLASSES; kind++) {
        double rate[DRAFT_MAX], weight = p->tried[kind][0];
        if (weight == 0) continue;
        rates(p, kind, rate);
        weights += weight;
        for (int i = 0; i < n; i++) reach[i] += weight *= rate[i];
    }
    for (int i = 0; i < n && weights > 0; i++) reach[i] /= weights;
}

// ---- accounts --------------------------------------------------------------------------------------------------------------

void draft_policy_ran(draft_policy *p, const policy_step *s, int n_drafts, int n_emitted, double draft_seconds) {
    int rows = s->rows < 1 ? 1 : s->rows;
    double step = step_times_of(s->times, rows), plain = step / rows;
    if (s->drafts > 0) {
        double unsure = 1 + careful * step_times_unsure(s->times, rows, rows + s->drafts);
        p->spent += (step_times_of(s->times, rows + s->drafts) * unsure - step) / plain * n_drafts / s->drafts;
    }
    p->spent += draft_seconds / plain;
    if (n_emitted < 1) return;
    p->drafted_steps = s->drafts > 0 ? p->drafted_steps + 1 : 0;
    p->won_tokens = s->drafts > 0 ? p->won_tokens + n_emitted - 1 : 0;
    p->saved += n_emitted - 1;
    p->elapsed += n_emitted;
    if (n_drafts) return;
    for (int kind = DRAFT_MODEL; kind < DRAFT_CLASSES; kind++) {
        fade(p, kind, keep_model);
        p->tried[kind][0] += (1 - keep_model) * first_weight;
        p->right[kind][0] += (1 - keep_model) * first_weight * draft_policy_prior(kind);
    }
}

double draft_policy_purse(const draft_policy *p) {
    return first_credit + loss_allowed * p->elapsed + p->saved - p->spent;
}
