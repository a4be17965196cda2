// What is known of a request's drafts, and what they cost it; draft_choose.c chooses by it.
#include "spec/draft_policy.h"

#include <string.h>

static const double first_weight = 4; // proposals that the prior is worth
static const double later_weight = 6; // the same for tokens behind a right one
static const double keep = 0.94;      // of a class's counts at its next proposal: 16 of them are remembered
static const double keep_model =
    0.99; // of a draft model's counts at a token without a proposal of it: it is tried again at times
static const double other_prior = 0.3, other_weight = 6, keep_other = 0.98;
static const double first_credit = 2, loss_allowed = 0.02;

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

void draft_policy_init(draft_policy *p) { memset(p, 0, sizeof(*p)); }

// ---- learning --------------------------------------------------------------------------------------------------------------

void draft_policy_offer(draft_policy *p, const draft *d, int n) {
    if (d->n < 1) return;
    if (p->n_offers == POLICY_OFFERS) memmove(p->offer, p->offer + 1, (size_t)--p->n_offers * sizeof(*p->offer));
    policy_offer *o = &p->offer[p->n_offers++];
    *o = (policy_offer){.d = *d, .next = n, .node = -1};
}

static void score(draft_policy *p, int kind, int depth, bool right) {
    if (!depth) {
        for (int j = 0; j < DRAFT_MAX; j++) p->right[kind][j] *= keep, p->tried[kind][j] *= keep;
    }
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
    rate[0] = (right[0] + first_weight * prior) / (tried[0] + first_weight);
    for (int j = 1; j < DRAFT_MAX; j++)
        rate[j] = (right[j] + first_weight * all_right / all) / (tried[j] + first_weight);
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

// ---- accounts --------------------------------------------------------------------------------------------------------------

void draft_policy_ran(draft_policy *p, const policy_step *s, int n_drafts, int n_emitted, double draft_seconds) {
    int rows = s->rows < 1 ? 1 : s->rows;
    double step = step_times_of(s->times, rows), plain = step / rows;
    if (s->drafts > 0) p->spent += (step_times_of(s->times, rows + s->drafts) - step) / plain * n_drafts / s->drafts;
    p->spent += draft_seconds / plain;
    if (n_emitted < 1) return;
    p->saved += n_emitted - 1;
    p->elapsed += n_emitted;
    if (n_drafts) return;
    for (int kind = DRAFT_MODEL; kind < DRAFT_CLASSES; kind++) {
        for (int j = 0; j < DRAFT_MAX; j++) p->right[kind][j] *= keep_model, p->tried[kind][j] *= keep_model;
    }
}

double draft_policy_purse(const draft_policy *p) {
    return first_credit + loss_allowed * p->elapsed + p->saved - p->spent;
}
