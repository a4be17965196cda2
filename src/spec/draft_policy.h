// How many drafts pay. Per request: how often drafts of each kind were right, by position, and a budget of time that drafting may lose;
// per step: the numbers of drafts for all requests of a batch that give the most tokens per second. No choice changes any output.
//
// A step's calls, in order: draft_policy_offer with each request's proposal (verified or not), draft_policy_choose, the step,
// step_times_seen, draft_policy_ran and draft_policy_learn for each request.
#ifndef TALLY_SPEC_DRAFT_POLICY_H
#define TALLY_SPEC_DRAFT_POLICY_H

#include "spec/draft.h"
#include "spec/step_times.h"

enum { POLICY_OFFERS = DRAFT_MAX + 1 }; // proposals whose outcome is still open

// A proposal whose outcome is open.
typedef struct policy_offer {
    draft d;
    int next;        // tokens of history that it was compared with
    int node, depth; // how far down that led
} policy_offer;

// What one request's drafts did. Proposals that were not verified count too: once the tokens they spoke of are committed it is known
// whether they were right, at no cost.
typedef struct draft_policy {
    double right[DRAFT_CLASSES][DRAFT_MAX],
        tried[DRAFT_CLASSES][DRAFT_MAX]; // decaying counts; depth j tried: all above it right
    double other_right, other_tried;     // the same for a tree's second and later branches, where the first was wrong
    double spent, saved, elapsed;  // in times of a plain token: what drafts added to steps, accepted drafts, tokens
    int drafted_steps, won_tokens; // since a step without drafts: steps, and accepted drafts
    int n_offers;
    policy_offer offer[POLICY_OFFERS];
} draft_policy;

// How often the first token of such a proposal is right, before anything is known of the request.
double draft_policy_prior(int kind);

void draft_policy_init(draft_policy *p);
// d was proposed behind a history of n tokens; whole (but behind draft_clip), not only what will be verified of it. d->n = 0 is allowed
// and ignored.
void draft_policy_offer(draft_policy *p, const draft *d, int n);
// The history is token[0..n) now: settles what was offered behind less of it.
void draft_policy_learn(draft_policy *p, const int32_t *token, int n);
// reach[i], i < d->n: probability that node i of the proposal is right, and so all above it.
void draft_policy_reaches(const draft_policy *p, const draft *d, double *reach);
// The same for a chain of n tokens that a draft model has yet to make: how sure it will be is not known, but how often it was how sure.
void draft_policy_reaches_unmade(const draft_policy *p, int n, double *reach);

// A step of several requests: `rows` rows without drafts, `drafts` more for those of all requests.
typedef struct policy_step {
    const step_times *times;
    int rows, drafts;
} policy_step;

// The step had n_drafts drafts of this request and emitted n_emitted tokens of it; making the drafts took draft_seconds. What the drafts
// cost is reckoned by the table: one slow step tells of the machine, not of the drafts.
void draft_policy_ran(draft_policy *p, const policy_step *s, int n_drafts, int n_emitted, double draft_seconds);
// What drafting may still lose, in times of a plain token: a first credit of two, 2 % of `elapsed`, and what it has won.
double draft_policy_purse(const draft_policy *p);

typedef struct policy_request {
    const draft_policy *policy;
    const draft *offered;     // the proposal at hand, behind draft_clip, or NULL: not made yet, it would be
    int n;                    // a chain of n tokens of the draft model
    int min;                  // fewer than this are not worth a step: 0 or at least so many (--draft-min)
    double seconds_per_draft; // what making one draft costs (a draft model), 0 for what is offered already
} policy_request;

enum { POLICY_REQUESTS = 256 }; // those beyond get no drafts

// Chooses n[i], the first nodes of request i's proposal that are verified: 0 .. its size, for a step that computes `rows` rows without
// drafts and may compute max_rows. Maximises expected emitted tokens per expected second; 0 is among the choices, and no request gets
// drafts that would overdraw its purse were they all wrong.
void draft_policy_choose(const policy_request *r, int n_requests, const step_times *t, int rows, int max_rows, int *n);

#endif
